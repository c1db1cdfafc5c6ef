package versioning_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// The unique index covers revisions alone: rows that other code keeps in the same collection, with
// fields of the same names or without, neither prevent its creation nor are refused later.
func TestIndexesBesideAHandMadeHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := must[*versioning.History[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
	rows := db.Collection("revisions")
	foreign := func(from int) []any {
		var out []any
		for i, pair := range []bson.D{{}, {{Key: "document_id", Value: "a"}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: nil}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: "first"}},
			{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 0}},
			{{Key: "revision", Value: 1}},
		} {
			for j := range 2 {
				out = append(out, append(bson.D{{Key: "_id", Value: from + 2*i + j}}, pair...))
			}
		}
		return out
	}
	testkit.Insert(t, rows, foreign(0)...)
	if err := d.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Insert(t, rows, foreign(100)...)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	for range 2 {
		r.Document.N++
		r = get(t)(d.Save(ctx, r, nobody))
	}
	if _, err := rows.InsertOne(ctx, bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 2}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a number twice: %v", err)
	}
	if got := numbers(t, d, "a"); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	// RevisionsFilter finds the revisions, and Check names the others, each once.
	if n, err := rows.CountDocuments(ctx, d.RevisionsFilter("a")); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	named := map[string]int{}
	for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
		if p.Kind != mongopatterns.NotAdopted || p.Collection != "revisions" {
			t.Errorf("%v", p)
		}
		named[p.ID.String()]++
	}
	if len(named) != 24 || slices.ContainsFunc(slices.Collect(maps.Values(named)), func(n int) bool { return n != 1 }) {
		t.Errorf("%d rows are named: %v", len(named), named)
	}
}

// A row of other code with a revision's number twice is named by EnsureIndexes; nothing is
// created.
func TestIndexesOverANumberTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := must[*versioning.History[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
	twice := bson.D{{Key: "document_id", Value: "a"}, {Key: "revision", Value: 7}}
	testkit.Insert(t, db.Collection("revisions"), twice, twice)
	err := d.EnsureIndexes(ctx)
	wantErr(t, "a number twice", err, versioning.ErrInconsistent)
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("%v", err)
	}
}

// An index of the same keys over all rows would refuse rows that other code may store: it is a
// conflict, under any name, and is not changed.
func TestFormerIndex(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "by_number"} {
		db := mongotest.Database(t)
		d := must[*versioning.History[string, counter]](t)(versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), nil))
		opts := options.Index().SetUnique(true)
		if name != "" {
			opts.SetName(name)
		}
		former := mongo.IndexModel{Keys: bson.D{{Key: "document_id", Value: 1}, {Key: "revision", Value: 1}}, Options: opts}
		if _, err := db.Collection("revisions").Indexes().CreateOne(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		wantErr(t, name, d.EnsureIndexes(t.Context()), mongopatterns.ErrIndexConflict)
		if specs, err := db.Collection("revisions").Indexes().ListSpecifications(t.Context()); err != nil || len(specs) != 2 {
			t.Errorf("%d indexes, %v", len(specs), err)
		}
	}
}

// plans fails the test where a command reads the history without an index, or sorts.
func plans(t *testing.T, db *mongo.Database, what string, cmds mongotest.Commands) (read int) {
	t.Helper()
	explain := func(body any) {
		t.Helper()
		read++
		plan := mongotest.Explain(t, db, body)
		if plan.Has("COLLSCAN") || plan.Has("SORT") || plan.Has("$sort") || len(plan.Indexes) == 0 {
			t.Errorf("%s: %s\n%v", what, plan, body)
		}
	}
	for _, c := range cmds {
		coll, ok := c.Body.Lookup(c.Name).StringValueOK()
		if !ok || coll != "revisions" || c.Name == "insert" || c.Name == "update" {
			continue
		}
		explain(c.Body)
		stages, _ := c.Body.Lookup("pipeline").ArrayOK()
		values, _ := stages.Values()
		for _, stage := range values {
			if inner := stage.Document().Lookup("$unionWith", "pipeline"); !inner.IsZero() {
				explain(bson.D{{Key: "aggregate", Value: "revisions"}, {Key: "pipeline", Value: inner}, {Key: "cursor", Value: bson.D{}}})
			}
		}
	}
	return read
}

// Every read of the history uses one of its indexes. The planner uses the partial one only for
// filters that select nothing but its rows.
func TestPlansOfTheHistory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 4})
	for i := range 10 {
		r := get(t)(d.Insert(ctx, counter{ID: fmt.Sprint(i), Note: "some text that makes a delta smaller"}, by("", "", month(0))))
		for n := range 9 {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, by("", "", month(n+1))))
		}
	}
	testkit.Insert(t, db.Collection("revisions"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "document_id", Value: "3"}})
	testkit.Insert(t, db.Collection("current"), bson.D{{Key: "_id", Value: "bare"}}, bson.D{{Key: "_id", Value: "bare too"}}, bson.D{{Key: "_id", Value: "bare at last"}})
	remove(t, db.Collection("current"), d.Filter("5"))
	remove(t, db.Collection("current"), d.Filter("6"))
	one := func(_ any, err error) error { return err }
	for _, c := range []struct {
		what string
		read int // commands that read the history
		fn   func() error
	}{
		{"At", 1, func() error { return one(d.At(ctx, "1", 8)) }},
		{"At by deltas", 1, func() error { return one(d.At(ctx, "1", 5)) }},
		{"At by the current one", 1, func() error { return one(d.At(ctx, "1", 9)) }},
		{"AsOf", 2, func() error { return one(d.AsOf(ctx, "1", month(4))) }},
		{"before the first", 2, func() error {
			if _, err := d.AsOf(ctx, "1", month(-1)); !errors.Is(err, mongopatterns.ErrNotFound) {
				return err
			}
			return nil
		}},
		{"History", 1, func() error { testkit.Collect(t, d.Revisions(ctx, "1")); return nil }},
		{"RevisionsFrom", 1, func() error { testkit.Collect(t, d.RevisionsFrom(ctx, "1", 1)); return nil }},
		{"RevisionsFrom a number", 1, func() error { testkit.Collect(t, d.RevisionsFrom(ctx, "1", 4)); return nil }},
		{"RevisionsBefore", 2, func() error { testkit.Collect(t, d.RevisionsBefore(ctx, "1", 6)); return nil }},
		{"Diff", 2, func() error { return one(d.Diff(ctx, "1", 2, 7)) }},
		{"Undo", 2, func() error { return one(d.Undo(ctx, "1", 10, nobody)) }},
		{"Restore", 1, func() error { return one(d.Restore(ctx, "1", 3, nobody)) }},
		{"Create", 1, func() error { return one(d.Insert(ctx, counter{ID: "new"}, nobody)) }},
		{"Create over a removed one", 1, func() error { return one(d.Insert(ctx, counter{ID: "6"}, nobody)) }},
		{"first Save", 1, func() error {
			return one(d.Edit(ctx, "bare", func(c *counter) error { c.N = 1; return nil }, nobody))
		}},
		{"first Delete", 1, func() error { return d.Delete(ctx, "bare too", 1, nobody) }},
		{"Adopt", 1, func() error { return one(d.Adopt(ctx, nil, nil)) }},
		// Two batches of two reads, a document with a problem in each, the list.
		{"Check", 7, func() error { testkit.Collect(t, d.Check(ctx, nil)); return nil }},
		{"Repair", 8, func() error { return one(d.Repair(ctx, nil)) }},
		{"AdoptRevisions", 1, func() error {
			return one(d.AdoptRevisions(ctx, func(bson.Raw) (*versioning.Revision[bson.Raw], error) { return nil, nil }, nil))
		}},
		{"Prune", 5, func() error { return one(d.Prune(ctx, versioning.Retention{Keep: 3}, nil)) }},
		{"dry Prune", 3, func() error {
			w := of("2")
			w.DryRun = true
			return one(d.Prune(ctx, versioning.Retention{Keep: 1}, w))
		}},
		{"RevisionsFilter", 1, func() error {
			return one(db.Collection("revisions").Find(ctx, d.RevisionsFilter("1"), options.Find().SetSort(bson.D{{Key: "revision", Value: -1}})))
		}},
		{"RevisionsFilter by time", 1, func() error {
			return one(db.Collection("revisions").Find(ctx, d.RevisionsFilter("1"), options.Find().SetSort(bson.D{{Key: "change.at", Value: -1}})))
		}},
	} {
		var err error
		cmds := mongotest.Record(t, db, func() { err = c.fn() })
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if read := plans(t, db, c.what, cmds); read != c.read {
			t.Errorf("%s: %d reads of the history: %v", c.what, read, cmds.Names())
		}
	}
}
