package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/costs"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

var record = costs.Record

// examined wants a filter that names these fields, and a plan by this index ("" for
// any) that looks at no more than these.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64, fields ...string) {
	t.Helper()
	filter := c.Body.Lookup("filter")
	for _, path := range [][]string{{"query"}, {"updates", "0", "q"}, {"deletes", "0", "q"}, {"pipeline", "0", "$match"}} {
		if filter.IsZero() {
			filter = c.Body.Lookup(path...)
		}
	}
	for _, field := range fields {
		if filter.Document().Lookup(field).IsZero() {
			t.Fatalf("%s: filter %v does not name %s", c.Name, filter, field)
		}
	}
	plan := mongotest.Explain(t, db, c.Body)
	if index != "" {
		plan.RequireIndex(t, index)
	}
	plan.RequireExamined(t, keys, docs)
	plan.RequireNoSort(t)
}

func sorted(t *testing.T, c mongotest.Command, want bson.D) {
	t.Helper()
	var got bson.D
	if err := c.Body.Lookup("sort").Unmarshal(&got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: sort %v, want %v", c.Name, got, want)
	}
}

const (
	byNumber = "document_id_1_revision_1"
	byTime   = "document_id_1_change.at_1_revision_1"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d, err := versioning.New[string, counter](db.Collection("current"), db.Collection("revisions"), &versioning.Options{Ignored: []string{"last_seen"}})
	if err != nil {
		t.Fatal(err)
	}
	record(t, db, 0, []string{"listCollections", "listIndexes", "createIndexes"}, func() error { return d.EnsureIndexes(ctx) })
	record(t, db, 0, []string{"listCollections", "listIndexes"}, func() error { return d.EnsureIndexes(ctx) })

	// Others, so that a scan would show.
	for i := range 20 {
		r := get(t)(d.Create(ctx, counter{ID: fmt.Sprint("other ", i)}, by("", "", month(0))))
		for range 3 {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, by("", "", month(0))))
		}
	}
	var r revision
	set := func(fn func() (revision, error)) func() error {
		return func() (err error) {
			r, err = fn()
			return err
		}
	}
	// Create.
	create := set(func() (revision, error) { return d.Create(ctx, counter{ID: "a"}, by("", "", month(0))) })
	cmds := record(t, db, 1, []string{"insert", "find", "commitTransaction"}, create)
	examined(t, db, cmds[1], byNumber, 1, 1, "document_id")
	sorted(t, cmds[1], bson.D{{Key: "revision", Value: -1}})
	if cmds[1].Body.Lookup("limit").AsInt64() != 1 {
		t.Error(cmds[1].Body)
	}
	notes, err := versioning.New[bson.ObjectID, bson.D](db.Collection("notes"), db.Collection("note_revisions"), nil)
	if err != nil {
		t.Fatal(err)
	}
	record(t, db, 1, []string{"insert"}, func() error { _, err := notes.Create(ctx, bson.D{{Key: "x", Value: 1}}, nobody); return err })

	// Delete, and Create over it.
	cmds = record(t, db, 3, []string{"findAndModify", "insert", "commitTransaction"}, func() error { return d.Delete(ctx, "a", 1, by("", "", month(1))) })
	examined(t, db, cmds[0], "_id_", 1, 1, "_id", "revision")
	cmds = record(t, db, 2, []string{"insert", "find", "update", "commitTransaction"}, create)
	examined(t, db, cmds[2], "_id_", 1, 1, "_id", "revision")
	// Over one that something else removed.
	get(t)(d.Create(ctx, counter{ID: "b"}, nobody))
	get(t)(d.Update(ctx, "b", func(c *counter) error { c.N = 1; return nil }, nobody))
	remove(t, db.Collection("current"), d.Filter("b"))
	record(t, db, 3, []string{"insert", "find", "insert", "update", "commitTransaction"}, func() error { _, err := d.Create(ctx, counter{ID: "b"}, nobody); return err })
	remove(t, db.Collection("current"), d.Filter("b"))
	if _, err := db.Collection("revisions").DeleteMany(ctx, d.HistoryFilter("b")); err != nil {
		t.Fatal(err)
	}

	// Filter finds as Get does, without a plan to be chosen.
	find := bson.D{{Key: "find", Value: "current"}, {Key: "filter", Value: d.Filter("a")}}
	if plan := mongotest.Explain(t, db, find); plan.Has("FETCH") {
		t.Errorf("Filter: %s", plan)
	}
	// Get, Save.
	cmds = record(t, db, 0, []string{"find"}, set(func() (revision, error) { return d.Get(ctx, "a") }))
	examined(t, db, cmds[0], "_id_", 1, 1, "_id")
	save := set(func() (revision, error) { return d.Save(ctx, r, by("", "", month(2))) })
	r.Document.N = 1
	cmds = record(t, db, 2, []string{"findAndModify", "insert", "commitTransaction"}, save)
	examined(t, db, cmds[0], "_id_", 1, 1, "_id", "revision")
	r.Document.N = 2
	record(t, db, 2, []string{"findAndModify", "insert", "commitTransaction"}, save) // what Save returned
	cmds = record(t, db, 0, []string{"find"}, save)
	examined(t, db, cmds[0], "_id_", 1, 1, "_id")
	r.Document.LastSeen = month(1)
	cmds = record(t, db, 1, []string{"findAndModify"}, save)
	examined(t, db, cmds[0], "_id_", 1, 1, "_id", "revision")
	r.Document.LastSeen = month(2)
	record(t, db, 1, []string{"findAndModify"}, save)
	r.Document.N = 30
	record(t, db, 2, []string{"findAndModify", "insert", "commitTransaction"}, save) // after a field has come behind the others
	r = revision{Number: r.Number, Document: r.Document}                             // by hand
	r.Document.N = 3
	cmds = record(t, db, 2, []string{"find", "findAndModify", "insert", "commitTransaction"}, save)
	examined(t, db, cmds[0], "_id_", 1, 1, "_id")
	r = revision{Number: r.Number, Document: r.Document}
	record(t, db, 0, []string{"find"}, save)
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	r = get(t)(d.Get(ctx, "a"))
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 2}}}}); err != nil {
		t.Fatal(err)
	}
	r.Document.N = 4
	record(t, db, 2, []string{"findAndModify", "insert", "commitTransaction"}, save)
	r.Document.Note = "new"
	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: "change.at", Value: month(2).Add(1e9)}}}}); err != nil {
		t.Fatal(err)
	}
	cmds = record(t, db, 3, []string{"findAndModify", "update", "insert", "commitTransaction"}, save)
	examined(t, db, cmds[1], "_id_", 1, 1, "_id")

	// Of the history, which lacks the ignored field.
	r = get(t)(d.At(ctx, "a", r.Number))
	r.Document.N = 40
	record(t, db, 2, []string{"find", "findAndModify", "insert", "commitTransaction"}, save)
	r = get(t)(d.At(ctx, "a", r.Number))
	record(t, db, 0, []string{"find"}, save)
	// Without a number.
	if _, err := db.Collection("current").InsertMany(ctx, []any{bson.D{{Key: "_id", Value: "old"}}, bson.D{{Key: "_id", Value: "older"}}}); err != nil {
		t.Fatal(err)
	}
	old := get(t)(d.Get(ctx, "old"))
	old.Document.N = 1
	cmds = record(t, db, 2, []string{"findAndModify", "aggregate", "insert", "commitTransaction"}, func() error { _, err := d.Save(ctx, old, nobody); return err })
	examined(t, db, cmds[1], byNumber, 2, 1, "document_id") // by now it has a history
	record(t, db, 3, []string{"findAndModify", "aggregate", "insert", "commitTransaction"}, func() error { return d.Delete(ctx, "older", 1, nobody) })
	for _, coll := range []string{"current", "revisions"} {
		if _, err := db.Collection(coll).DeleteMany(ctx, bson.D{{Key: map[string]string{"current": "_id", "revisions": "document_id"}[coll], Value: bson.D{{Key: "$in", Value: bson.A{"old", "older"}}}}}); err != nil {
			t.Fatal(err)
		}
	}

	// Update.
	change := func(n int) func(*counter) error { return func(c *counter) error { c.N = n; return nil } }
	cmds = record(t, db, 2, []string{"find", "findAndModify", "insert", "commitTransaction"},
		set(func() (revision, error) { return d.Update(ctx, "a", change(5), by("", "", month(3))) }))
	examined(t, db, cmds[0], "_id_", 1, 1, "_id")
	record(t, db, 0, []string{"find", "find"}, set(func() (revision, error) { return d.Update(ctx, "a", change(5), nobody) }))
	runs := 0
	cmds = mongotest.Record(t, db, func() {
		get(t)(d.Update(ctx, "a", func(c *counter) error {
			if runs++; runs == 1 {
				get(t)(d.Update(ctx, "a", change(6), by("", "", month(3))))
			}
			c.N = 7
			return nil
		}, by("", "", month(3))))
	})
	if want := []string{"find", "find", "findAndModify", "insert", "commitTransaction", // the other writer's after the first find
		"findAndModify", "find", "abortTransaction", "find", "findAndModify", "insert", "commitTransaction"}; !slices.Equal(cmds.Names(), want) {
		t.Errorf("after a conflict: %v", cmds.Names())
	}

	// Bulk.
	var batch []revision
	for i := range 6 {
		r := get(t)(d.Get(ctx, fmt.Sprint("other ", i)))
		r.Document.N = 50
		batch = append(batch, r)
	}
	many := []string{"find", "update", "insert", "commitTransaction"}
	cmds = record(t, db, 12, append(slices.Clone(many), many...), func() error {
		_, err := d.SaveMany(ctx, places(batch), nobody, &mongopatterns.Work{BatchSize: 3})
		return err
	})
	examined(t, db, cmds[0], "_id_", 6, 3, "_id")
	examined(t, db, cmds[1], "_id_", 1, 1, "_id", "revision")

	// Reads of the history: a has 1 deleted, 2 …
	r = get(t)(d.Get(ctx, "a"))
	last := r.Number
	at := func(n int64) func() error {
		return func() error { _, err := d.At(ctx, "a", n); return err }
	}
	cmds = record(t, db, 0, []string{"find"}, at(last-2))
	examined(t, db, cmds[0], byNumber, 1, 1, "document_id", "revision")
	sorted(t, cmds[0], bson.D{{Key: "revision", Value: 1}})
	cmds = record(t, db, 0, []string{"find", "find"}, at(last))
	examined(t, db, cmds[1], "_id_", 1, 1, "_id")
	record(t, db, 0, []string{"find", "find", "find"}, func() error {
		if _, err := d.At(ctx, "none", 1); !errors.Is(err, mongopatterns.ErrNotFound) {
			return err
		}
		return nil
	})
	cmds = record(t, db, 0, []string{"find", "find"}, func() error {
		if err := at(last + 1)(); !errors.Is(err, mongopatterns.ErrNotFound) {
			return err
		}
		return nil
	})
	examined(t, db, cmds[0], byNumber, 1, 0, "document_id", "revision")
	cmds = record(t, db, 0, []string{"find", "find"}, func() error { _, err := d.AsOf(ctx, "a", month(2)); return err })
	examined(t, db, cmds[0], "_id_", 1, 1, "_id")
	examined(t, db, cmds[1], byTime, 1, 1, "document_id", "change.at")
	sorted(t, cmds[1], bson.D{{Key: "change.at", Value: -1}, {Key: "revision", Value: -1}})
	record(t, db, 0, []string{"find"}, func() error { _, err := d.AsOf(ctx, "a", month(9)); return err })
	record(t, db, 0, []string{"find", "find", "find"}, func() error {
		if _, err := d.AsOf(ctx, "a", month(-1)); !errors.Is(err, mongopatterns.ErrNotFound) {
			return err
		}
		return nil
	})
	cmds = record(t, db, 0, []string{"find", "find"}, func() error {
		for _, err := range d.History(ctx, "a") {
			if err != nil {
				return err
			}
		}
		return nil
	})
	examined(t, db, cmds[1], byNumber, last, last, "document_id", "revision")
	sorted(t, cmds[1], bson.D{{Key: "revision", Value: -1}})
	cmds = record(t, db, 0, []string{"find", "find"}, func() error {
		for _, err := range d.HistoryFrom(ctx, "a", 3) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	examined(t, db, cmds[1], byNumber, last-2, last-2, "document_id", "revision")
	sorted(t, cmds[1], bson.D{{Key: "revision", Value: 1}})
	record(t, db, 0, []string{"find", "find", "find"}, func() error { _, err := d.Diff(ctx, "a", last-1, last); return err })

	// Restore: At and 4; of a deleted one At and 5.
	record(t, db, 2, []string{"find", "find", "findAndModify", "insert", "commitTransaction"}, set(func() (revision, error) { return d.Restore(ctx, "a", last-2, nobody) }))
	if err := d.Delete(ctx, "a", r.Number, nobody); err != nil {
		t.Fatal(err)
	}
	record(t, db, 2, []string{"find", "find", "insert", "find", "update", "commitTransaction"}, set(func() (revision, error) { return d.Restore(ctx, "a", last-2, nobody) }))

	// In a transaction of the caller's.
	err = inTransaction(t, db, func(ctx context.Context) error {
		record(t, db, 1, []string{"insert", "find"}, func() error { _, err := d.Create(ctx, counter{ID: "t"}, nobody); return err })
		record(t, db, 2, []string{"findAndModify", "insert"}, func() error { r.Document.N = 99; _, err := d.Save(ctx, r, nobody); return err })
		return nil
	}, false)
	if err != nil {
		t.Fatal(err)
	}

	// Retention.
	cmds = record(t, db, 2, []string{"listCollections", "find", "find", "delete", "aggregate"}, func() error {
		_, err := d.Prune(ctx, versioning.Retention{Keep: 2}, of("other 0"))
		return err
	})
	examined(t, db, cmds[2], byTime, 5, 0, "document_id")
	examined(t, db, cmds[3], byNumber, 3, 2, "document_id", "revision")
	cmds = record(t, db, int(r.Number)-3+2*5+14, []string{"listCollections", "find", "find", "delete", "getMore", "find", "delete", "aggregate"}, func() error {
		result, err := d.Prune(ctx, versioning.Retention{Keep: 2}, &mongopatterns.Work{BatchSize: 15})
		if result.Examined != 21 {
			return fmt.Errorf("%d examined", result.Examined)
		}
		return err
	})
	sorted(t, cmds[2], bson.D{{Key: "document_id", Value: 1}, {Key: "change.at", Value: 1}, {Key: "revision", Value: 1}})
	mongotest.Explain(t, db, cmds[2].Body).RequireIndex(t, byTime)
	examined(t, db, cmds[3], byNumber, 3, 2, "document_id", "revision")
}

// What a refusal costs, and that it writes nothing.
func TestConflictCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen"}})
	first := get(t)(d.Create(ctx, counter{ID: "a"}, by("", "", month(0))))
	get(t)(d.Update(ctx, "a", func(c *counter) error { c.N = 1; return nil }, by("", "", month(1))))
	changed, ignored := first, first
	changed.Document.N = 9
	ignored.Document.LastSeen = month(3)
	byHand := revision{Number: 1, Document: changed.Document}
	gone := get(t)(d.Create(ctx, counter{ID: "b"}, by("", "", month(0))))
	if err := d.Delete(ctx, "b", 1, by("", "", month(1))); err != nil {
		t.Fatal(err)
	}
	gone.Document.N = 9
	for _, c := range []struct {
		what  string
		names []string
		fn    func() error
	}{
		{"save", []string{"findAndModify", "find", "abortTransaction"}, func() error { _, err := d.Save(ctx, changed, nobody); return err }},
		{"save of one that is gone", []string{"findAndModify", "find", "abortTransaction"}, func() error { _, err := d.Save(ctx, gone, nobody); return err }},
		{"save of ignored fields", []string{"findAndModify", "find"}, func() error { _, err := d.Save(ctx, ignored, nobody); return err }},
		{"save of no change", []string{"find"}, func() error { _, err := d.Save(ctx, first, nobody); return err }},
		{"save by hand", []string{"find"}, func() error { _, err := d.Save(ctx, byHand, nobody); return err }},
		{"delete", []string{"findAndModify", "find", "abortTransaction"}, func() error { return d.Delete(ctx, "a", 1, nobody) }},
		{"create", []string{"insert", "abortTransaction"}, func() error { _, err := d.Create(ctx, counter{ID: "a"}, nobody); return err }},
		{"save many", []string{"find", "commitTransaction"}, func() error {
			return saveOne(ctx, d, changed)
		}},
	} {
		record(t, db, 0, c.names, func() error {
			var conflict *versioning.ConflictError
			if err := c.fn(); !errors.As(err, &conflict) && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, versioning.ErrExists) {
				return fmt.Errorf("%s: %w", c.what, err)
			}
			return nil
		})
	}
}

func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	var docs []any
	for i := range 6 {
		docs = append(docs, bson.D{{Key: "_id", Value: fmt.Sprint(i)}})
	}
	if _, err := db.Collection("current").InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	cmds := record(t, db, 6, []string{"listCollections", "find", "aggregate", "update", "getMore", "aggregate", "update"}, func() error {
		_, err := d.Adopt(ctx, nil, &mongopatterns.Work{BatchSize: 4})
		return err
	})
	examined(t, db, cmds[3], "_id_", 1, 1, "_id")
	examined(t, db, cmds[2], "", 8, 0, "document_id")
	record(t, db, 0, []string{"listCollections", "find"}, func() error { _, err := d.Adopt(ctx, nil, nil); return err })

	for _, id := range []string{"0", "1", "2"} {
		get(t)(d.Update(ctx, id, func(c *counter) error { c.N = 1; return nil }, nobody))
	}
	if err := d.Delete(ctx, "2", 2, nobody); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		for _, err := range d.Check(ctx, nil) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	// The current ones, their history, the rows that are no revisions; then of the others.
	scan := []string{"listCollections", "find", "find", "find", "aggregate", "find", "find"}
	cmds = record(t, db, 0, scan, check)
	examined(t, db, cmds[1], "_id_", 5, 5)
	examined(t, db, cmds[2], byNumber, 12, 5, "document_id")
	examined(t, db, cmds[3], byTime, 12, 0, "document_id")
	examined(t, db, cmds[4], byTime, 4+2, 2, "document_id")                  // and by the lookup
	if n := cmds[4].Body.Lookup("cursor", "batchSize").AsInt64(); n != 100 { // or the cursor would time out in a large collection
		t.Errorf("documents are listed %d at a time", n)
	}

	if _, err := db.Collection("current").UpdateOne(ctx, d.Filter("0"), bson.D{{Key: "$set", Value: bson.D{{Key: "revision", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("current").DeleteOne(ctx, d.Filter("1")); err != nil {
		t.Fatal(err)
	}
	again := []string{"find", "find", "commitTransaction"}
	record(t, db, 0, slices.Concat(scan[:4], again, scan[4:], again), check)
	cmds = record(t, db, 1+1, slices.Concat(scan[:4], again, []string{"find", "update"}, scan[4:], again, []string{"find", "find", "insert", "commitTransaction"}), func() error {
		_, err := d.Repair(ctx, nil)
		return err
	})
	examined(t, db, cmds[8], "_id_", 1, 1, "_id")
	record(t, db, 0, scan, check)
	// Of one document.
	cmds = record(t, db, 0, scan[:5], func() error { _, err := d.Repair(ctx, of("0")); return err })
	examined(t, db, cmds[1], "", 1, 1)
	examined(t, db, cmds[4], byTime, 3, 1) // one of _id
	examined(t, db, cmds[2], byNumber, 3, 2, "document_id")
}

// With deltas a revision needs those after it up to the next whole one.
func TestDeltaCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 5})
	r := get(t)(d.Create(ctx, counter{ID: "a", Note: "some text that makes a delta smaller"}, by("", "", month(0))))
	for i := range 11 {
		r.Document.N++
		cmds := record(t, db, 2, []string{"findAndModify", "insert", "commitTransaction"}, func() (err error) {
			r, err = d.Save(ctx, r, by("", "", month(i+1)))
			return err
		})
		whole := !cmds[1].Body.Lookup("documents", "0", "document").IsZero()
		delta := !cmds[1].Body.Lookup("documents", "0", "delta").IsZero()
		if whole == delta || whole != ((i+1)%5 == 0) {
			t.Errorf("revision %d: whole %v", i+1, whole)
		}
	}
	cmds := record(t, db, 0, []string{"find"}, func() error { _, err := d.At(ctx, "a", 6); return err })
	examined(t, db, cmds[0], byNumber, 5, 5, "document_id", "revision")
	if n := cmds[0].Body.Lookup("limit").AsInt64(); n != 5 {
		t.Errorf("limit %d", n)
	}
	cmds = record(t, db, 0, []string{"find"}, func() error { _, err := d.At(ctx, "a", 5); return err })
	examined(t, db, cmds[0], byNumber, 1, 1, "document_id", "revision")
	record(t, db, 0, []string{"find", "find"}, func() error { _, err := d.At(ctx, "a", 11); return err })
	record(t, db, 0, []string{"find", "find"}, func() error { _, err := d.AsOf(ctx, "a", month(4)); return err })          // 5 is whole
	record(t, db, 0, []string{"find", "find", "find"}, func() error { _, err := d.AsOf(ctx, "a", month(5)); return err })  // 6 to 10
	record(t, db, 0, []string{"find", "find", "find"}, func() error { _, err := d.AsOf(ctx, "a", month(10)); return err }) // 11 and the current one
	record(t, db, 0, []string{"find", "find"}, func() error {
		n := 0
		for r, err := range d.History(ctx, "a") {
			if n++; err != nil || r.Lost {
				return fmt.Errorf("%+v, %w", r, err)
			}
		}
		if n != 12 {
			return fmt.Errorf("%d revisions", n)
		}
		return nil
	})
}
