package main

import (
	"context"
	"fmt"

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

func versioningPolicies(ctx context.Context, b *bench) error {
	n, ops := b.size(50, 100, 200), b.size(40, 100, 200)
	type history struct {
		current, revisions *mongo.Collection
		docs               *versioning.Documents[string, policy]
		held               []versioning.Revision[policy]
	}
	db := b.db()
	made := func(name string, every int) (*history, error) {
		h := &history{current: db.Collection(name), revisions: db.Collection(name + "_revisions")}
		var err error
		if h.docs, err = versioning.New[string, policy](h.current, h.revisions, &versioning.Options{SnapshotEvery: every}); err != nil {
			return nil, err
		}
		if err := h.docs.EnsureIndexes(ctx); err != nil {
			return nil, err
		}
		if err := fill(ctx, h.current, n, func(i int) any { return policyOf(i) }); err != nil {
			return nil, err
		}
		if _, err := h.docs.Adopt(ctx, nil, nil); err != nil {
			return nil, err
		}
		for i := range n {
			r, err := h.docs.Get(ctx, policyOf(i).ID)
			if err != nil {
				return nil, err
			}
			h.held = append(h.held, r)
		}
		return h, nil
	}
	whole, err := made("whole", 1)
	if err != nil {
		return err
	}
	delta, err := made("delta", 20)
	if err != nil {
		return err
	}
	plain, hand, handRevisions := db.Collection("plain"), db.Collection("hand"), db.Collection("hand_revisions")
	for _, coll := range []*mongo.Collection{plain, hand} {
		if err := fill(ctx, coll, n, func(i int) any { return policyOf(i) }); err != nil {
			return err
		}
	}
	if err := index(ctx, handRevisions, d("document_id", 1, "revision", 1), options.Index().SetUnique(true)); err != nil {
		return err
	}
	change := func(i int) bson.D {
		return d("$set", d(fmt.Sprintf("items.%d.value", i%50), -i, "premium", i), "$inc", d("revision", 1))
	}
	by := versioning.Change{Author: "elrond", Reason: "from the troll cave"}
	save := func(h *history) func(ctx context.Context) error {
		return times(ops, func(ctx context.Context, i int) error {
			r := h.held[i%n]
			r.Document.Items = append([]item(nil), r.Document.Items...)
			r.Document.Items[i%50].Value, r.Document.Premium = -i, i+1
			r, err := h.docs.Save(ctx, r, by)
			h.held[i%n] = r
			return err
		})
	}
	err = b.measure(ctx, "save one item", ops,
		side{name: "plain update, no history", run: times(ops, func(ctx context.Context, i int) error {
			_, err := plain.UpdateOne(ctx, d("_id", policyOf(i%n).ID), change(i))
			return err
		})},
		side{name: "history by hand", run: times(ops, func(ctx context.Context, i int) error {
			return mongopatterns.Transact(ctx, b.client, func(ctx context.Context) error {
				before, err := hand.FindOneAndUpdate(ctx, d("_id", policyOf(i%n).ID), change(i)).Raw()
				if err == nil {
					_, err = handRevisions.InsertOne(ctx, d("document_id", before.Lookup("_id"), "revision", i/n, "change", by, "document", before))
				}
				return err
			})
		})},
		side{name: "versioning", run: save(whole)},
		side{name: "versioning, deltas", run: save(delta)})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "save one item in each of many", n,
		side{name: "bulk write, no history", run: func(ctx context.Context) error {
			models := make([]mongo.WriteModel, n)
			for i := range models {
				models[i] = mongo.NewUpdateOneModel().SetFilter(d("_id", policyOf(i).ID)).SetUpdate(change(i))
			}
			_, err := plain.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			return err
		}},
		side{name: "versioning", reset: func(ctx context.Context) (err error) {
			for i := range whole.held {
				if whole.held[i], err = whole.docs.Get(ctx, whole.held[i].Document.ID); err != nil {
					return err
				}
			}
			return nil
		}, run: func(ctx context.Context) error {
			result, err := whole.docs.SaveMany(ctx, func(yield func(*versioning.Revision[policy], error) bool) {
				for _, r := range whole.held {
					r.Document.Items = append([]item(nil), r.Document.Items...)
					r.Document.Items[int(r.Number)%50].Value++
					if !yield(&r, nil) {
						return
					}
				}
			}, by, nil)
			if err != nil {
				return err
			}
			return want(int(result.Done), n)
		}})
	if err != nil {
		return err
	}
	err = b.measure(ctx, "read what is current", ops,
		side{name: "plain", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[policy](ctx, plain, d("_id", policyOf(i%n).ID))
			return err
		})},
		side{name: "versioning", run: times(ops, func(ctx context.Context, i int) error {
			_, err := whole.docs.Get(ctx, policyOf(i%n).ID)
			return err
		})})
	if err != nil {
		return err
	}

	// One policy with a long history.
	revisions := b.size(60, 100, 200)
	for _, h := range []*history{whole, delta} {
		r, err := h.docs.Create(ctx, policyOf(n), by)
		for i := 0; i < revisions && err == nil; i++ {
			r.Document.Items[i%50].Value, r.Document.Premium = -i, i+1
			r, err = h.docs.Save(ctx, r, by)
		}
		if err != nil {
			return err
		}
	}
	var bytes []value
	for name, h := range map[string]*history{"whole revisions": whole, "deltas, every 20th whole": delta} {
		docs, err := findAll[bson.Raw](ctx, revisions, h.revisions, h.docs.HistoryFilter(policyOf(n).ID))
		if err != nil {
			return err
		}
		total := 0.0
		for _, doc := range docs {
			total += float64(len(doc))
		}
		bytes = append(bytes, value{name, total / float64(revisions)})
	}
	if bytes[0].name != "whole revisions" {
		bytes[0], bytes[1] = bytes[1], bytes[0]
	}
	b.report("stored for a revision", "bytes", bytes[0], bytes[1])
	at := func(h *history) func(ctx context.Context) error {
		return times(ops, func(ctx context.Context, i int) error {
			_, err := h.docs.At(ctx, policyOf(n).ID, int64(1+i*7%revisions))
			return err
		})
	}
	return b.measure(ctx, "read a former revision", ops,
		side{name: "whole revisions", run: at(whole)},
		side{name: "deltas, every 20th whole", run: at(delta)})
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

func schemaversionContacts(ctx context.Context, b *bench) error {
	n := b.size(1500, 10_000, 20_000)
	db := b.db()
	text := prose(b.rand, 400)
	old := func(i int) any {
		return oldContact{i, "Anakin Skywalker", "503-555-0000", "503-555-0010", text}
	}
	current := func(i int) any {
		return contact{i, "Anakin Skywalker", []method{{"home", "503-555-0000"}, {"work", "503-555-0010"}}, text, 2}
	}
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
	versions := func(coll *mongo.Collection) (*schemaversion.Collection[contact], error) {
		return schemaversion.New[contact](coll, steps, nil)
	}
	oldColl, newColl := db.Collection("old"), db.Collection("new")
	if err := fill(ctx, oldColl, n, old); err != nil {
		return err
	}
	if err := fill(ctx, newColl, n, current); err != nil {
		return err
	}
	ofOld, err := versions(oldColl)
	if err != nil {
		return err
	}
	ofNew, err := versions(newColl)
	if err != nil {
		return err
	}
	all := func(v *schemaversion.Collection[contact]) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			count := 0
			for c, err := range v.Find(ctx, nil) {
				if err != nil {
					return err
				}
				if len(c.Methods) == 2 {
					count++
				}
			}
			return want(count, n)
		}
	}
	err = b.measure(ctx, "read a document of many", n,
		side{name: "plain, nothing to upgrade", run: func(ctx context.Context) error {
			c, err := newColl.Find(ctx, bson.D{})
			if err != nil {
				return err
			}
			count := 0
			for c.Next(ctx) {
				var doc contact
				if err := c.Decode(&doc); err != nil {
					return err
				}
				count++
			}
			if err := c.Err(); err != nil {
				return err
			}
			return want(count, n)
		}},
		side{name: "schemaversion, nothing to upgrade", run: all(ofNew)},
		side{name: "schemaversion, upgrading", run: all(ofOld)})
	if err != nil {
		return err
	}
	ops := b.size(100, 400, 500)
	err = b.measure(ctx, "read one document", ops,
		side{name: "plain, nothing to upgrade", run: times(ops, func(ctx context.Context, i int) error {
			_, err := findOne[contact](ctx, newColl, d("_id", i%n))
			return err
		})},
		side{name: "schemaversion, nothing to upgrade", run: times(ops, func(ctx context.Context, i int) error {
			_, err := ofNew.Get(ctx, i%n)
			return err
		})},
		side{name: "schemaversion, upgrading", run: times(ops, func(ctx context.Context, i int) error {
			_, err := ofOld.Get(ctx, i%n)
			return err
		})})
	if err != nil {
		return err
	}

	upgrade := func(name string, coll *mongo.Collection, run func(ctx context.Context) error) side {
		return side{name: name, run: run, reset: func(ctx context.Context) error {
			if err := coll.Drop(ctx); err != nil {
				return err
			}
			return fill(ctx, coll, n, old)
		}}
	}
	server, loop, migrated := db.Collection("server"), db.Collection("loop"), db.Collection("migrated")
	ofMigrated, err := versions(migrated)
	if err != nil {
		return err
	}
	return b.measure(ctx, "upgrade a document of all", n,
		upgrade("updateMany on the server", server, func(ctx context.Context) error {
			result, err := server.UpdateMany(ctx, d("schema_version", nil), mongo.Pipeline{
				d("$set", d("schema_version", 2, "contact_method", bson.A{d("kind", "home", "value", "$home"), d("kind", "work", "value", "$work")})),
				d("$unset", bson.A{"home", "work"}),
			})
			if err != nil {
				return err
			}
			return want(int(result.ModifiedCount), n)
		}),
		upgrade("a loop by hand", loop, func(ctx context.Context) error {
			c, err := loop.Find(ctx, d("schema_version", nil), options.Find().SetSort(d("_id", 1)).SetHint(d("_id", 1)).SetBatchSize(1000))
			if err != nil {
				return err
			}
			defer c.Close(ctx)
			var models []mongo.WriteModel
			flush := func() error {
				if len(models) == 0 {
					return nil
				}
				_, err := loop.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
				models = models[:0]
				return err
			}
			for c.Next(ctx) {
				var doc oldContact
				if err := c.Decode(&doc); err != nil {
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
			if err := c.Err(); err != nil {
				return err
			}
			return flush()
		}),
		upgrade("schemaversion", migrated, func(ctx context.Context) error {
			result, err := ofMigrated.Migrate(ctx, ofMigrated.Newest(), nil)
			if err != nil {
				return err
			}
			return want(int(result.Done), n)
		}))
}
