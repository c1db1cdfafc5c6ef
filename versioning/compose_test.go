package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Other patterns write fields of the same documents by update operators. A save of an earlier read
// does not undo that, whether the fields are ignored or not, and whether the caller's type has them
// or not.
func TestWritesOfOtherPatterns(t *testing.T) {
	t.Parallel()
	type review struct {
		Stars int    `bson:"stars"`
		Text  string `bson:"text"`
	}
	type product struct {
		ID      string         `bson:"_id"`
		Name    string         `bson:"name"`
		Seen    int            `bson:"seen"`
		Reviews []review       `bson:"reviews"`
		Stats   map[string]int `bson:"stats"`
	}
	type save func(ctx context.Context, d *versioning.History[string, product], r versioning.Revision[product]) error
	one := func(ctx context.Context, d *versioning.History[string, product], r versioning.Revision[product]) error {
		_, err := d.Save(ctx, r, nobody)
		return err
	}
	many := func(ctx context.Context, d *versioning.History[string, product], r versioning.Revision[product]) error {
		return saveOne(ctx, d, r)
	}
	beside := bson.D{
		{Key: "$push", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "$each", Value: bson.A{bson.D{{Key: "stars", Value: 5}, {Key: "text", Value: "new"}, {Key: "by", Value: 7}}}}, {Key: "$position", Value: 0}, {Key: "$slice", Value: 2}}}}},
		{Key: "$inc", Value: bson.D{{Key: "count", Value: 1}, {Key: "version", Value: 1}, {Key: "stats.views", Value: 10}}},
		{Key: "$unset", Value: bson.D{{Key: "promoted", Value: ""}}},
		{Key: "$set", Value: bson.D{{Key: "label", Value: "hot"}}},
	}
	old := func(n int) bson.D {
		return bson.D{{Key: "stars", Value: n}, {Key: "text", Value: fmt.Sprint("old ", n)}, {Key: "by", Value: n}}
	}
	pushed := bson.A{bson.D{{Key: "stars", Value: 5}, {Key: "text", Value: "new"}, {Key: "by", Value: 7}}, old(1)}
	db := mongotest.Database(t)
	for name, opts := range map[string]*versioning.Options{
		"ignored":     {Ignored: []string{"reviews", "count", "version", "stats", "promoted", "label", "seen"}},
		"not ignored": nil,
		"deltas":      {SnapshotEvery: 10, Ignored: []string{"version"}},
	} {
		for how, save := range map[string]save{"Save": one, "SaveMany": many} {
			for _, test := range []struct {
				what    string
				change  func(p *product)
				reviews bson.A
				likes   int
			}{
				{"another field", func(p *product) { p.Name = "Mithril" }, pushed, 1},
				{"a field that may be ignored", func(p *product) { p.Seen = 9 }, pushed, 1},
				{"beside a counter", func(p *product) { p.Stats["likes"]++ }, pushed, 2},
				// Both changed the array: the saver's is stored, not a mixture.
				{"the array", func(p *product) { p.Reviews[1].Text = "edited" },
					bson.A{old(1), bson.D{{Key: "stars", Value: 2}, {Key: "text", Value: "edited"}, {Key: "by", Value: 2}}}, 1},
			} {
				t.Run(name+"/"+how+"/"+test.what, func(t *testing.T) {
					ctx := t.Context()
					testkit.Empty(t, db)
					d := helper[string, product](t, db, opts)
					if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "name", Value: "Mail"}, {Key: "seen", Value: 1},
						{Key: "reviews", Value: bson.A{old(1), old(2)}}, {Key: "count", Value: 2}, {Key: "version", Value: 4}, {Key: "promoted", Value: true},
						{Key: "stats", Value: bson.D{{Key: "views", Value: 100}, {Key: "likes", Value: 1}}}}); err != nil {
						t.Fatal(err)
					}
					r := must[versioning.Revision[product]](t)(d.Get(ctx, "a"))
					if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), beside); err != nil {
						t.Fatal(err)
					}
					test.change(&r.Document)
					if err := save(ctx, d, r); err != nil {
						t.Fatal(err)
					}
					got := all(t, db.Collection("current"), bson.D{})[0]
					want := map[string]any{"reviews": test.reviews, "count": int32(3), "version": int32(5), "promoted": nil, "label": "hot",
						"stats": bson.D{{Key: "views", Value: 110}, {Key: "likes", Value: test.likes}}, "name": r.Document.Name, "seen": r.Document.Seen}
					for key, value := range want {
						if diff := cmp.Diff(testkit.Raw(t, bson.D{{Key: "v", Value: value}}).String(), testkit.Raw(t, bson.D{{Key: "v", Value: testkit.Get(got, key)}}).String()); diff != "" {
							t.Errorf("%s (-want +got):\n%s", key, diff)
						}
					}
					testkit.Healthy(t, d)
				})
			}
		}
	}
}

// The history holds no ignored fields, and stays readable when one more is ignored.
func TestIgnoredAreNotStored(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	opts := &versioning.Options{SnapshotEvery: 4}
	d := helper[string, bson.D](t, db, opts)
	long := strings.Repeat("a", 100)
	doc := func(n int) bson.D {
		list := bson.A{long}
		for i := range n {
			list = append(list, i)
		}
		return bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: n}, {Key: "list", Value: list}, {Key: "text", Value: long}}
	}
	must[versioning.Revision[bson.D]](t)(d.Insert(ctx, doc(0), nobody))
	save := func(n int64) {
		t.Helper()
		r := must[versioning.Revision[bson.D]](t)(d.Get(ctx, "a"))
		r.Document = doc(int(n))
		must[versioning.Revision[bson.D]](t)(d.Save(ctx, r, nobody))
	}
	save(1)
	save(2)
	d = helper[string, bson.D](t, db, &versioning.Options{SnapshotEvery: 4, Ignored: []string{"list"}})
	save(3)
	save(4)
	save(5)
	for n := int64(1); n <= 5; n++ {
		r := must[versioning.Revision[bson.D]](t)(d.At(ctx, "a", n))
		if testkit.Get(r.Document, "n") != int32(n-1) || testkit.Get(r.Document, "text") != long || testkit.Get(r.Document, "list") != nil {
			t.Errorf("%d: %v", n, r.Document)
		}
	}
	for _, row := range all(t, db.Collection("revisions"), bson.D{{Key: "revision", Value: 1}})[3:] {
		if whole, ok := testkit.Get(row, "document").(bson.D); ok && testkit.Get(whole, "list") != nil {
			t.Errorf("stored %v", whole)
		}
	}
	testkit.Healthy(t, d)
}

// Other code removed a document: Insert and Restore record the deletion, and Repair writes nothing
// to the current documents, which other rules may not admit.
func TestRemovedBySomethingElse(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	if err := db.CreateCollection(ctx, "current", options.CreateCollection().SetValidator(
		bson.D{{Key: "n", Value: bson.D{{Key: "$exists", Value: true}}}})); err != nil {
		t.Fatal(err)
	}
	d := helper[string, counter](t, db, nil)
	coll := db.Collection("current")
	for i, id := range []string{"created", "repaired", "restored"} {
		r := get(t)(d.Insert(ctx, counter{ID: id, N: i}, by("a", "", month(0))))
		r.Document.Note = "x"
		get(t)(d.Save(ctx, r, by("b", "", month(1))))
		remove(t, coll, d.Filter(id))
	}
	r := get(t)(d.Insert(ctx, counter{ID: "created", N: 7}, by("c", "", month(5))))
	if r.Number != 3 || r.Document.N != 7 {
		t.Errorf("created: %+v", r)
	}
	if r := get(t)(d.Restore(ctx, "restored", 1, by("c", "", month(5)))); r.Number != 3 {
		t.Errorf("restored: %+v", r)
	}
	for _, id := range []string{"created", "restored"} {
		deletion := testkit.Collect(t, d.Revisions(ctx, id))[1]
		if !deletion.Deleted || deletion.Number != 2 || !deletion.Change.At.Equal(month(5)) || deletion.Change.Author != "" {
			t.Errorf("%s: %+v", id, deletion)
		}
	}
	result, err := d.Repair(ctx, nil)
	if err != nil || result.Done != 1 || result.Remaining != 0 {
		t.Errorf("repair: %+v, %v", result, err)
	}
	_, err = d.At(ctx, "repaired", 2)
	wantErr(t, "at", err, versioning.ErrDeleted)
	testkit.Healthy(t, d)
}

// Reads that a write depends on go to the primary, even if the collections prefer secondaries.
func TestRestoreReadsFromThePrimary(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	secondary := options.Collection().SetReadPreference(readpref.Secondary())
	get(t)(helper[string, counter](t, db, nil).Insert(ctx, counter{ID: "a"}, nobody))
	d, err := versioning.New[string, counter](db.Collection("current", secondary), db.Collection("revisions", secondary), nil)
	if err != nil {
		t.Fatal(err)
	}
	cmds := mongotest.Record(t, db, func() {
		get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 1; return nil }, nobody))
		get(t)(d.Restore(ctx, "a", 1, nobody))
	})
	for _, c := range cmds {
		if mode, ok := c.Body.Lookup("$readPreference", "mode").StringValueOK(); ok && mode != "primary" && mode != "primaryPreferred" {
			t.Errorf("%s with read preference %s", c.Name, mode)
		}
	}
}

// A regular expression as an ID is a value, not a pattern.
func TestIDIsNoPattern(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[any, bson.D](t, mongotest.Database(t), nil)
	must[versioning.Revision[bson.D]](t)(d.Insert(ctx, bson.D{{Key: "_id", Value: "a"}}, nobody))
	_, err := d.Get(ctx, bson.Regex{Pattern: "."})
	wantErr(t, "get", err, mongopatterns.ErrNotFound)
	wantErr(t, "delete", d.Delete(ctx, bson.Regex{Pattern: "."}, 1, nobody), mongopatterns.ErrNotFound)
}

// The name that the history has for each way to keep a copy: the choices of the manual.
func TestCopiesOfASource(t *testing.T) {
	t.Parallel()
	frozen := extref.Target{Path: "customer", Fields: []extref.Field{{Path: "name", Frozen: true}}}
	apart := extref.Target{IDField: "customer_id", VersionField: "customer.version", Fields: []extref.Field{{Path: "name", As: "customer.name"}}}
	for name, test := range map[string]struct {
		target    extref.Target
		opts      versioning.Options
		propagate bool   // by a revision of the order
		lost      bool   // revision 1
		past, now string // the name, as of revision 2 and current
		number    int64  // that is current
	}{
		"follow":                    {extref.Target{Path: "customer", Fields: []extref.Field{{Path: "name"}}}, versioning.Options{}, false, false, "Pop", "Pop", 2},
		"follow, deltas":            {extref.Target{Path: "customer", Fields: []extref.Field{{Path: "name"}}}, versioning.Options{SnapshotEvery: 5}, false, true, "Pop", "Pop", 2},
		"freeze":                    {frozen, versioning.Options{SnapshotEvery: 5}, false, false, "Pope", "Pope", 2},
		"ignored":                   {apart, versioning.Options{SnapshotEvery: 5, Ignored: []string{"customer"}}, false, false, "", "Pop", 2},
		"a revision by propagation": {frozen, versioning.Options{SnapshotEvery: 5}, true, false, "Pope", "Pop", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := mongotest.Database(t)
			d := helper[string, bson.D](t, db, &test.opts)
			test.target.Collection, test.target.Name = db.Collection("current"), "order"
			customers := must[*extref.Source[int, bson.D]](t)(extref.New[int, bson.D](db.Collection("customers"), []extref.Target{test.target}, nil))
			source := doc("_id", 123, "name", "Pope", "version", 1)
			testkit.Insert(t, db.Collection("customers"), source)
			copied := must[bson.D](t)(customers.Copy("order", source))
			order := doc("_id", "A-17", "text", long, "status", "new")
			if test.target.Path == "" {
				order = append(order, copied...)
			} else {
				order = append(order, bson.E{Key: "customer", Value: copied})
			}
			must[versioning.Revision[bson.D]](t)(d.Insert(ctx, order, by("", "", month(0))))
			set := func(key string, value any, at time.Time) {
				must[versioning.Revision[bson.D]](t)(d.Edit(ctx, "A-17", func(o *bson.D) error {
					for i := range *o {
						if (*o)[i].Key == key {
							(*o)[i].Value = value
						}
					}
					return nil
				}, by("", "", at)))
			}
			set("status", "paid", month(1))

			if _, err := customers.Update(ctx, 123, doc("$set", doc("name", "Pop"))); err != nil {
				t.Fatal(err)
			}
			if test.propagate {
				set("customer", must[bson.D](t)(customers.Fetch(ctx, "order", 123)), month(2))
			}

			_, err := d.At(ctx, "A-17", 1)
			if test.lost != errors.Is(err, versioning.ErrInconsistent) || !test.lost && err != nil {
				t.Errorf("revision 1: %v", err)
			}
			called := func(r versioning.Revision[bson.D]) string {
				name, _ := testkit.Raw(t, r.Document).Lookup("customer", "name").StringValueOK()
				return name
			}
			past := must[versioning.Revision[bson.D]](t)(d.AsOf(ctx, "A-17", month(1)))
			now := must[versioning.Revision[bson.D]](t)(d.Get(ctx, "A-17"))
			if past.Number != 2 || called(past) != test.past || called(now) != test.now || now.Number != test.number {
				t.Errorf("as of then %q, now %q: %+v", called(past), called(now), now)
			}
			if test.target.Path == "" && testkit.Get(past.Document, "customer_id") != int32(123) {
				t.Errorf("as of then %v", past.Document)
			}
			if !test.lost {
				testkit.Healthy(t, d)
			}
		})
	}
}
