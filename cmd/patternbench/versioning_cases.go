package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

var versioningCases = []benchmark{
	{"versioning", "policies", "Saves of one item of a policy of 4 KB, with a history, against plain writes and the same history by hand; reads of now and then; and the bytes of whole revisions against deltas.", versioningPolicies},
	{"schemaversion", "contacts", "Documents of an older version upgraded as they are read, against documents that need none; and all of them upgraded in place, against an updateMany on the server and a loop by hand.", schemaversionContacts},
}

type policy struct {
	ID      string `bson:"_id"`
	Name    string `bson:"name"`
	Premium int    `bson:"premium"`
	Items   []item `bson:"items"`
}

type item struct {
	N     int    `bson:"n"`
	Name  string `bson:"name"`
	Value int    `bson:"value"`
}

func policyOf(i int) policy {
	p := policy{ID: fmt.Sprint("policy ", i), Name: "Bilbo Baggins"}
	for n := range 50 {
		p.Items = append(p.Items, item{n, fmt.Sprintf("item %d of the treasure", n), n * 100})
	}
	return p
}

// history is policies with a history of the package.
type history struct {
	current, revisions *mongo.Collection
	docs               *versioning.History[string, policy]
	held               []versioning.Revision[policy]
}

// newHistory holds n policies as they are read.
func newHistory(ctx context.Context, db *mongo.Database, name string, n, snapshots int) *history {
	h := &history{current: db.Collection(name), revisions: db.Collection(name + "_revisions")}
	h.docs = must(versioning.New[string, policy](h.current, h.revisions, &versioning.Options{SnapshotEvery: snapshots}))
	check(h.docs.EnsureIndexes(ctx), fill(ctx, h.current, n, func(i int) any { return policyOf(i) }))
	must(h.docs.Adopt(ctx, nil, nil))
	for i := range n {
		h.held = append(h.held, must(h.docs.Get(ctx, policyOf(i).ID)))
	}
	return h
}

var elrond = versioning.Change{Author: "elrond", Reason: "from the troll cave"}

// edited changes an item of a policy and its premium, for the i-th time.
func edited(r *versioning.Revision[policy], i int) {
	r.Document.Items = append([]item(nil), r.Document.Items...)
	r.Document.Items[i%50].Value, r.Document.Premium = -i, i+1
}

// save saves one item of the policies in turn.
func (h *history) save(ctx context.Context, i int) (err error) {
	r := &h.held[i%len(h.held)]
	edited(r, i)
	*r, err = h.docs.Save(ctx, *r, elrond)
	return err
}

// saveMany saves one item in each policy.
func (h *history) saveMany(ctx context.Context) error {
	result, err := h.docs.SaveMany(ctx, func(yield func(*versioning.Revision[policy], error) bool) {
		for _, r := range h.held {
			r.Document.Items = append([]item(nil), r.Document.Items...)
			r.Document.Items[int(r.Number)%50].Value++
			if !yield(&r, nil) {
				return
			}
		}
	}, elrond, nil)
	return cmp.Or(err, want(int(result.Done), len(h.held)))
}

// readAgain reads what saveMany has saved.
func (h *history) readAgain(ctx context.Context) (err error) {
	for i := range h.held {
		if h.held[i], err = h.docs.Get(ctx, h.held[i].Document.ID); err != nil {
			return err
		}
	}
	return nil
}

// grow makes one policy with a long history and returns the bytes of a revision.
func (h *history) grow(ctx context.Context, id string, p policy, revisions int) (bytes float64) {
	r := must(h.docs.Insert(ctx, p, elrond))
	for i := range revisions {
		edited(&r, i)
		r = must(h.docs.Save(ctx, r, elrond))
	}
	for _, doc := range must(findAll[bson.Raw](ctx, revisions, h.revisions, h.docs.RevisionsFilter(id))) {
		bytes += float64(len(doc))
	}
	return bytes / float64(revisions)
}

func versioningPolicies(ctx context.Context, b *bench) []comparison {
	n, ops, revisions := b.size(50, 100, 200), b.size(40, 100, 200), b.size(60, 100, 200)
	db := b.db()
	whole, delta := newHistory(ctx, db, "whole", n, 1), newHistory(ctx, db, "delta", n, 20)
	plain, hand, handRevisions := db.Collection("plain"), db.Collection("hand"), db.Collection("hand_revisions")
	check(fill(ctx, plain, n, func(i int) any { return policyOf(i) }), fill(ctx, hand, n, func(i int) any { return policyOf(i) }),
		index(ctx, handRevisions, d("document_id", 1, "revision", 1), options.Index().SetUnique(true)))
	change := func(i int) bson.D {
		return d("$set", d(fmt.Sprintf("items.%d.value", i%50), -i, "premium", i), "$inc", d("revision", 1))
	}
	current := compared("read what is current", ops,
		way("plain", func(ctx context.Context, i int) error {
			return errorOf(findOne[policy](ctx, plain, d("_id", policyOf(i%n).ID)))
		}),
		way("versioning", func(ctx context.Context, i int) error { return errorOf(whole.docs.Get(ctx, policyOf(i%n).ID)) }))
	const wholeName, deltaName = "whole revisions", "deltas, every 20th whole"
	long := policyOf(n)
	current.after = func(ctx context.Context) {
		b.report("stored for a revision", "bytes", value{wholeName, whole.grow(ctx, long.ID, long, revisions)}, value{deltaName, delta.grow(ctx, long.ID, long, revisions)})
	}
	former := func(name string, h *history) side {
		return way(name, func(ctx context.Context, i int) error {
			return errorOf(h.docs.At(ctx, long.ID, int64(1+i*7%revisions)))
		})
	}
	return []comparison{
		compared("save one item", ops,
			way("plain update, no history", func(ctx context.Context, i int) error {
				return errorOf(plain.UpdateOne(ctx, d("_id", policyOf(i%n).ID), change(i)))
			}),
			way("history by hand", func(ctx context.Context, i int) error {
				return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
					before, err := hand.FindOneAndUpdate(ctx, d("_id", policyOf(i%n).ID), change(i)).Raw()
					if err != nil {
						return err
					}
					_, err = handRevisions.InsertOne(ctx, d("document_id", before.Lookup("_id"), "revision", i/n, "change", elrond, "document", before))
					return err
				})
			}),
			way("versioning", whole.save), way("versioning, deltas", delta.save)),
		compared("save one item in each of many", n,
			side{name: "bulk write, no history", run: func(ctx context.Context) error {
				models := make([]mongo.WriteModel, n)
				for i := range models {
					models[i] = mongo.NewUpdateOneModel().SetFilter(d("_id", policyOf(i).ID)).SetUpdate(change(i))
				}
				return errorOf(plain.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
			}},
			side{name: "versioning", reset: whole.readAgain, run: whole.saveMany}),
		current,
		compared("read a former revision", ops, former(wholeName, whole), former(deltaName, delta)),
	}
}

type contact struct {
	ID      int      `bson:"_id"`
	Name    string   `bson:"name"`
	Methods []method `bson:"contact_method"`
	Text    string   `bson:"text"`
	Version int      `bson:"schema_version"`
}

type method struct {
	Kind  string `bson:"kind"`
	Value string `bson:"value"`
}

type oldContact struct {
	ID   int    `bson:"_id"`
	Name string `bson:"name"`
	Home string `bson:"home"`
	Work string `bson:"work"`
	Text string `bson:"text"`
}

// contacts are the documents of an older version and of the newest.
type contacts struct {
	n        int
	text     string
	versions func(coll *mongo.Collection) *schemaversion.Collection[contact]
}

func newContacts(n int, text string) *contacts {
	steps := []schemaversion.Step{{Up: func(doc bson.D) (bson.D, error) {
		methods := bson.A{}
		out := doc[:0]
		for _, e := range doc {
			if e.Key == "home" || e.Key == "work" {
				methods = append(methods, d("kind", e.Key, "value", e.Value))
			} else {
				out = append(out, e)
			}
		}
		return append(out, bson.E{Key: "contact_method", Value: methods}), nil
	}}}
	return &contacts{n, text, func(coll *mongo.Collection) *schemaversion.Collection[contact] {
		return must(schemaversion.New[contact](coll, steps, nil))
	}}
}

func (c *contacts) old(i int) any {
	return oldContact{i, "Anakin Skywalker", "503-555-0000", "503-555-0010", c.text}
}

func (c *contacts) current(i int) any {
	return contact{i, "Anakin Skywalker", []method{{"home", "503-555-0000"}, {"work", "503-555-0010"}}, c.text, 2}
}

// all is a side that reads every contact.
func (c *contacts) all(name string, seq func(ctx context.Context) iter.Seq2[contact, error]) side {
	return side{name: name, run: func(ctx context.Context) error {
		count := 0
		err := each(seq(ctx), func(doc contact) {
			if len(doc.Methods) == 2 {
				count++
			}
		})
		return cmp.Or(err, want(count, c.n))
	}}
}

// upgrade is a side that upgrades old contacts.
func (c *contacts) upgrade(name string, coll *mongo.Collection, run func(ctx context.Context) error) side {
	return side{name: name, run: run, reset: func(ctx context.Context) error {
		return cmp.Or(coll.Drop(ctx), fill(ctx, coll, c.n, c.old))
	}}
}

// updateMany upgrades all on the server.
func (c *contacts) updateMany(ctx context.Context, coll *mongo.Collection) error {
	result, err := coll.UpdateMany(ctx, d("schema_version", nil), mongo.Pipeline{
		d("$set", d("schema_version", 2, "contact_method", bson.A{d("kind", "home", "value", "$home"), d("kind", "work", "value", "$work")})),
		d("$unset", bson.A{"home", "work"}),
	})
	if err != nil {
		return err
	}
	return want(int(result.ModifiedCount), c.n)
}

// loop upgrades all as a program does by hand.
func (c *contacts) loop(ctx context.Context, coll *mongo.Collection) error {
	opts := options.Find().SetSort(d("_id", 1)).SetHint(d("_id", 1)).SetBatchSize(1000)
	var models []mongo.WriteModel
	flush := func() error {
		if len(models) == 0 {
			return nil
		}
		_, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		models = models[:0]
		return err
	}
	for doc, err := range decoded[oldContact](ctx, coll, d("schema_version", nil), opts) {
		if err != nil {
			return err
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(d("_id", doc.ID, "home", doc.Home, "work", doc.Work, "schema_version", nil)).
			SetUpdate(d("$set", d("schema_version", 2, "contact_method", []method{{"home", doc.Home}, {"work", doc.Work}}), "$unset", d("home", "", "work", ""))))
		if len(models) == 1000 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func schemaversionContacts(ctx context.Context, b *bench) []comparison {
	c, ops := newContacts(b.size(1500, 10_000, 20_000), prose(b.rand, 400)), b.size(100, 400, 500)
	db := b.db()
	oldColl, newColl, server, loop, migrated := db.Collection("old"), db.Collection("new"), db.Collection("server"), db.Collection("loop"), db.Collection("migrated")
	ofOld, ofNew, ofMigrated := c.versions(oldColl), c.versions(newColl), c.versions(migrated)
	check(fill(ctx, oldColl, c.n, c.old), fill(ctx, newColl, c.n, c.current))
	const plainName, nothing, upgrading = "plain, nothing to upgrade", "schemaversion, nothing to upgrade", "schemaversion, upgrading"
	return []comparison{
		compared("read a document of many", c.n,
			c.all(plainName, func(ctx context.Context) iter.Seq2[contact, error] { return decoded[contact](ctx, newColl, bson.D{}) }),
			c.all(nothing, func(ctx context.Context) iter.Seq2[contact, error] { return ofNew.Find(ctx, nil) }),
			c.all(upgrading, func(ctx context.Context) iter.Seq2[contact, error] { return ofOld.Find(ctx, nil) })),
		compared("read one document", ops,
			way(plainName, func(ctx context.Context, i int) error {
				return errorOf(findOne[contact](ctx, newColl, d("_id", i%c.n)))
			}),
			way(nothing, func(ctx context.Context, i int) error { return errorOf(ofNew.Get(ctx, i%c.n)) }),
			way(upgrading, func(ctx context.Context, i int) error { return errorOf(ofOld.Get(ctx, i%c.n)) })),
		compared("upgrade a document of all", c.n,
			c.upgrade("updateMany on the server", server, func(ctx context.Context) error { return c.updateMany(ctx, server) }),
			c.upgrade("a loop by hand", loop, func(ctx context.Context) error { return c.loop(ctx, loop) }),
			c.upgrade("schemaversion", migrated, func(ctx context.Context) error {
				result, err := ofMigrated.Migrate(ctx, ofMigrated.Newest(), nil)
				return cmp.Or(err, want(int(result.Done), c.n))
			})),
	}
}
