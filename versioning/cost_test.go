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
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

const (
	byNumber = "document_id_1_revision_1"
	byTime   = "document_id_1_change.at_1_revision_1"

	list, find, agg, more = "listCollections", "find", "aggregate", "getMore"
	ins, up, fam, del     = "insert", "update", "findAndModify", "delete"
	commit, abort         = "commitTransaction", "abortTransaction"
)

// named wants a filter that names these fields.
func named(t *testing.T, c mongotest.Command, fields ...string) {
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
}

// names is a Check: the filter of a command names these fields.
func names(t *testing.T, i int, fields ...string) func(cmds mongotest.Commands) {
	return func(cmds mongotest.Commands) { named(t, cmds[i], fields...) }
}

// examined wants a filter that names these fields, and a plan by this index that looks
// at no more than these, without a sort.
func examined(t *testing.T, db *mongo.Database, c mongotest.Command, index string, keys, docs int64, fields ...string) {
	t.Helper()
	named(t, c, fields...)
	costs.Examined(t, db, c, index, keys, docs)
	mongotest.Explain(t, db, c.Body).RequireNoSort(t)
}

func sorted(t *testing.T, c mongotest.Command, want bson.D) {
	t.Helper()
	var got bson.D
	if err := c.Body.Lookup("sort").Unmarshal(&got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: sort %v, want %v", c.Name, got, want)
	}
}

// missing is the error of a call that has to fail with ErrNotFound.
func missing(err error) error {
	if !errors.Is(err, mongopatterns.ErrNotFound) {
		return fmt.Errorf("error %v, want %w", err, mongopatterns.ErrNotFound)
	}
	return nil
}

func TestAdoptRevisionsCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	rows := db.Collection("rows")
	d := must[*versioning.History[int, bson.D]](t)(versioning.New[int, bson.D](db.Collection("current"), rows, nil))
	for i := range 150 {
		testkit.Insert(t, rows, bson.D{{Key: "_id", Value: i}, {Key: "document_id", Value: i}, {Key: "n", Value: i}})
	}
	costs.Run(t, db, []costs.Case{
		{Name: "AdoptRevisions of 150 rows", Sends: []string{list, find, up, find, more, up, find}, Writes: 150, Call: func(ctx context.Context) error {
			return second(d.AdoptRevisions(ctx, func(row bson.Raw) (*versioning.Revision[bson.Raw], error) {
				document := testkit.Raw(t, bson.D{{Key: "_id", Value: row.Lookup("document_id")}, {Key: "n", Value: row.Lookup("n")}})
				return &versioning.Revision[bson.Raw]{Number: 1, Change: versioning.Change{At: month(0)}, Document: document}, nil
			}, nil))
		}},
	})
}

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	current, revisions := db.Collection("current"), db.Collection("revisions")
	d := must[*versioning.History[string, counter]](t)(versioning.New[string, counter](current, revisions, &versioning.Options{Ignored: []string{"last_seen"}}))
	notes := must[*versioning.History[bson.ObjectID, bson.D]](t)(versioning.New[bson.ObjectID, bson.D](db.Collection("notes"), db.Collection("note_revisions"), nil))
	var r, old revision
	set := func(call func(ctx context.Context) (revision, error)) func(ctx context.Context) error {
		return func(ctx context.Context) (err error) {
			r, err = call(ctx)
			return err
		}
	}
	insert := set(func(ctx context.Context) (revision, error) {
		return d.Insert(ctx, counter{ID: "a"}, by("", "", month(0)))
	})
	save := set(func(ctx context.Context) (revision, error) { return d.Save(ctx, r, by("", "", month(2))) })
	change := func(n int) func(*counter) error { return func(c *counter) error { c.N = n; return nil } }
	assign := func(field string, value any) bson.D {
		return bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}}
	}
	byHand := func() { r = revision{Number: r.Number, Document: r.Document} }
	revise := []string{fam, ins, commit}
	readAndRevise := append([]string{find}, revise...)
	var batch []revision
	runs := 0
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes that creates them", Sends: []string{list, "aggregate", "listIndexes", "createIndexes"}, Call: d.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{list, "aggregate", "listIndexes"}, Call: d.EnsureIndexes},

		{Name: "Insert", Before: func() { // others, so that a scan would show
			for i := range 20 {
				r := get(t)(d.Insert(ctx, counter{ID: fmt.Sprint("other ", i)}, by("", "", month(0))))
				for range 3 {
					r.Document.N++
					r = get(t)(d.Save(ctx, r, by("", "", month(0))))
				}
			}
		}, Sends: []string{ins, find, commit}, Writes: 1, Explain: 1, Index: byNumber, Keys: 1, Docs: 1, NoSort: true, Call: insert, Check: func(cmds mongotest.Commands) {
			named(t, cmds[1], "document_id")
			sorted(t, cmds[1], bson.D{{Key: "revision", Value: -1}})
			testkit.Same(t, "limit", int64(1), cmds[1].Body.Lookup("limit").AsInt64())
		}},
		{Name: "Insert of a new ObjectID", Sends: []string{ins}, Writes: 1, Call: func(ctx context.Context) error {
			return second(notes.Insert(ctx, bson.D{{Key: "x", Value: 1}}, nobody))
		}},
		{Name: "Delete", Sends: revise, Writes: 3, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 0, "_id", "revision"),
			Call: func(ctx context.Context) error { return d.Delete(ctx, "a", 1, by("", "", month(1))) }},
		{Name: "Insert over a deleted document", Sends: []string{ins, find, up, commit}, Writes: 2, Explain: 2, Index: "_id_", Keys: 1, Docs: 1, NoSort: true,
			Check: names(t, 2, "_id", "revision"), Call: insert},
		{Name: "Insert over a document that other code removed", Before: func() {
			get(t)(d.Insert(ctx, counter{ID: "b"}, nobody))
			get(t)(d.Edit(ctx, "b", change(1), nobody))
			remove(t, current, d.Filter("b"))
		}, Sends: []string{ins, find, ins, up, commit}, Writes: 3, Call: func(ctx context.Context) error {
			return second(d.Insert(ctx, counter{ID: "b"}, nobody))
		}},

		{Name: "Get", Before: func() {
			remove(t, current, d.Filter("b"))
			testkit.OK(t, second(revisions.DeleteMany(ctx, d.RevisionsFilter("b"))))
		}, Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Call: set(func(ctx context.Context) (revision, error) { return d.Get(ctx, "a") }), Check: func(cmds mongotest.Commands) {
			named(t, cmds[0], "_id")
			// Filter finds as Get does, without a plan to be chosen.
			if plan := mongotest.Explain(t, db, bson.D{{Key: "find", Value: "current"}, {Key: "filter", Value: d.Filter("a")}}); plan.Has("FETCH") {
				t.Errorf("Filter: %s", plan)
			}
		}},
		{Name: "Save", Before: func() { r.Document.N = 1 }, Sends: revise, Writes: 2, Index: "_id_", Keys: 1, Docs: 1, NoSort: true,
			Check: names(t, 0, "_id", "revision"), Call: save},
		{Name: "Save of the revision that Save returned", Before: func() { r.Document.N = 2 }, Sends: revise, Writes: 2, Call: save},
		{Name: "Save of no change", Sends: []string{find}, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 0, "_id"), Call: save},
		{Name: "Save of an ignored field", Before: func() { r.Document.LastSeen = month(1) }, Sends: []string{fam}, Writes: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true,
			Check: names(t, 0, "_id", "revision"), Call: save},
		{Name: "Save of an ignored field again", Before: func() { r.Document.LastSeen = month(2) }, Sends: []string{fam}, Writes: 1, Call: save},
		{Name: "Save after a field was added at the end", Before: func() { r.Document.N = 30 }, Sends: revise, Writes: 2, Call: save},
		{Name: "Save of a revision made by hand", Before: func() {
			byHand()
			r.Document.N = 3
		}, Sends: readAndRevise, Writes: 2, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 0, "_id"), Call: save},
		{Name: "Save of no change by hand", Before: byHand, Sends: []string{find}, Call: save},
		{Name: "Save beside a change of a field that T lacks", Before: func() {
			testkit.Update(t, current, d.Filter("a"), assign("x", 1))
			r = get(t)(d.Get(ctx, "a"))
			testkit.Update(t, current, d.Filter("a"), assign("x", 2))
			r.Document.N = 4
		}, Sends: revise, Writes: 2, Call: save},
		{Name: "Save after a revision of a later time", Before: func() {
			r.Document.Note = "new"
			testkit.Update(t, current, d.Filter("a"), assign("change.at", month(2).Add(1e9)))
		}, Sends: []string{fam, up, ins, commit}, Writes: 3, Explain: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 1, "_id"), Call: save},
		{Name: "Save of a revision of the history, which lacks the ignored field", Before: func() {
			r = get(t)(d.At(ctx, "a", r.Number))
			r.Document.N = 40
		}, Sends: readAndRevise, Writes: 2, Call: save},
		{Name: "Save of no change of the history", Before: func() { r = get(t)(d.At(ctx, "a", r.Number)) }, Sends: []string{find}, Call: save},
		{Name: "Save of a document without a number", Before: func() {
			testkit.Insert(t, current, bson.D{{Key: "_id", Value: "old"}}, bson.D{{Key: "_id", Value: "older"}})
			old = get(t)(d.Get(ctx, "old"))
			old.Document.N = 1
		}, Sends: []string{fam, agg, ins, commit}, Writes: 2, Explain: 1, Index: byNumber, Keys: 2, Docs: 1, NoSort: true, // by now it has a history
			Check: names(t, 1, "document_id"), Call: func(ctx context.Context) error { return second(d.Save(ctx, old, nobody)) }},
		{Name: "Delete of a document without a number", Sends: []string{fam, agg, ins, commit}, Writes: 3,
			Call: func(ctx context.Context) error { return d.Delete(ctx, "older", 1, nobody) }},

		{Name: "Edit", Before: func() {
			for coll, field := range map[*mongo.Collection]string{current: "_id", revisions: "document_id"} {
				testkit.OK(t, second(coll.DeleteMany(ctx, bson.D{{Key: field, Value: bson.D{{Key: "$in", Value: bson.A{"old", "older"}}}}})))
			}
		}, Sends: readAndRevise, Writes: 2, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 0, "_id"),
			Call: set(func(ctx context.Context) (revision, error) { return d.Edit(ctx, "a", change(5), by("", "", month(3))) })},
		{Name: "Edit of no change", Sends: []string{find, find},
			Call: set(func(ctx context.Context) (revision, error) { return d.Edit(ctx, "a", change(5), nobody) })},
		// The other writer's commands come after the first find.
		{Name: "Edit after a conflict", Sends: slices.Concat([]string{find}, readAndRevise, []string{fam, find, abort}, readAndRevise), Writes: 4, Call: func(ctx context.Context) error {
			return second(d.Edit(ctx, "a", func(c *counter) error {
				if runs++; runs == 1 {
					get(t)(d.Edit(ctx, "a", change(6), by("", "", month(3))))
				}
				c.N = 7
				return nil
			}, by("", "", month(3))))
		}},
		{Name: "SaveMany in two batches", Before: func() {
			for i := range 6 {
				r := get(t)(d.Get(ctx, fmt.Sprint("other ", i)))
				r.Document.N = 50
				batch = append(batch, r)
			}
		}, Sends: slices.Repeat([]string{find, up, ins, commit}, 2), Writes: 12, Index: "_id_", Keys: 6, Docs: 3, NoSort: true, Call: func(ctx context.Context) error {
			return second(d.SaveMany(ctx, places(batch), nobody, &mongopatterns.Work{BatchSize: 3}))
		}, Check: func(cmds mongotest.Commands) {
			named(t, cmds[0], "_id")
			examined(t, db, cmds[1], "_id_", 1, 1, "_id", "revision")
		}},
	})

	// Reads of the history: a has 1 deleted, 2 …
	r = get(t)(d.Get(ctx, "a"))
	last := r.Number
	at := func(id string, n int64) func(ctx context.Context) error {
		return func(ctx context.Context) error { return second(d.At(ctx, id, n)) }
	}
	asOf := func(months int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return second(d.AsOf(ctx, "a", month(months))) }
	}
	restore := set(func(ctx context.Context) (revision, error) { return d.Restore(ctx, "a", last-2, nobody) })
	costs.Run(t, db, []costs.Case{
		{Name: "At", Sends: []string{find}, Index: byNumber, Keys: 1, Docs: 1, NoSort: true, Call: at("a", last-2), Check: func(cmds mongotest.Commands) {
			named(t, cmds[0], "document_id", "revision")
			sorted(t, cmds[0], bson.D{{Key: "revision", Value: 1}})
		}},
		{Name: "At of the current one", Sends: []string{find, find}, Explain: 1, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 1, "_id"), Call: at("a", last)},
		{Name: "At of no document", Sends: []string{find, find, find}, Call: func(ctx context.Context) error { return missing(at("none", 1)(ctx)) }},
		{Name: "At of a number to come", Sends: []string{find, find}, Index: byNumber, Keys: 1, NoSort: true, Check: names(t, 0, "document_id", "revision"),
			Call: func(ctx context.Context) error { return missing(at("a", last+1)(ctx)) }},
		{Name: "AsOf", Sends: []string{find, find}, Explain: 1, Index: byTime, Keys: 1, Docs: 1, NoSort: true, Call: asOf(2), Check: func(cmds mongotest.Commands) {
			examined(t, db, cmds[0], "_id_", 1, 1, "_id")
			named(t, cmds[1], "document_id", "change.at")
			sorted(t, cmds[1], bson.D{{Key: "change.at", Value: -1}, {Key: "revision", Value: -1}})
		}},
		{Name: "AsOf a time of the current one", Sends: []string{find}, Call: asOf(9)},
		{Name: "AsOf a time before the first", Sends: []string{find, find, find}, Call: func(ctx context.Context) error { return missing(asOf(-1)(ctx)) }},
		{Name: "Revisions", Sends: []string{find, find}, Explain: 1, Index: byNumber, Keys: last, Docs: last, NoSort: true,
			Call: func(ctx context.Context) error { return testkit.Drain(d.Revisions(ctx, "a")) }, Check: func(cmds mongotest.Commands) {
				named(t, cmds[1], "document_id", "revision")
				sorted(t, cmds[1], bson.D{{Key: "revision", Value: -1}})
			}},
		{Name: "RevisionsFrom", Sends: []string{find, find}, Explain: 1, Index: byNumber, Keys: last - 2, Docs: last - 2, NoSort: true,
			Call: func(ctx context.Context) error { return testkit.Drain(d.RevisionsFrom(ctx, "a", 3)) }, Check: func(cmds mongotest.Commands) {
				named(t, cmds[1], "document_id", "revision")
				sorted(t, cmds[1], bson.D{{Key: "revision", Value: 1}})
			}},
		{Name: "RevisionsBefore", Sends: []string{find, find}, Explain: 1, Index: byNumber, Keys: 2, Docs: 2, NoSort: true,
			Call: func(ctx context.Context) error { return testkit.Drain(d.RevisionsBefore(ctx, "a", 3)) }, Check: func(cmds mongotest.Commands) {
				named(t, cmds[1], "document_id", "revision")
				sorted(t, cmds[1], bson.D{{Key: "revision", Value: -1}})
			}},
		{Name: "Diff", Sends: []string{find, find, find}, Call: func(ctx context.Context) error { return second(d.Diff(ctx, "a", last-1, last)) }},
		// Restore sends what At and Save do, and of a deleted document what At and Insert do.
		{Name: "Restore", Sends: append([]string{find}, readAndRevise...), Writes: 2, Call: restore},
		{Name: "Undo", Sends: append([]string{find, find, find}, readAndRevise...), Writes: 2,
			Call: set(func(ctx context.Context) (revision, error) { return d.Undo(ctx, "a", r.Number, nobody) })},
		{Name: "Restore of a deleted document", Before: func() { testkit.OK(t, d.Delete(ctx, "a", r.Number, nobody)) },
			Sends: []string{find, find, ins, find, up, commit}, Writes: 2, Call: restore},
	})

	testkit.OK(t, inTransaction(t, db, func(in context.Context) error {
		costs.Run(t, db, []costs.Case{
			{Name: "Insert in a transaction", Sends: []string{ins, find}, Writes: 1, Call: func(context.Context) error {
				return second(d.Insert(in, counter{ID: "t"}, nobody))
			}},
			{Name: "Save in a transaction", Before: func() { r.Document.N = 99 }, Sends: []string{fam, ins}, Writes: 2, Call: func(context.Context) error {
				return second(d.Save(in, r, nobody))
			}},
		})
		return nil
	}, false))

	costs.Run(t, db, []costs.Case{
		{Name: "Prune of one document", Sends: []string{list, find, find, del, agg}, Writes: 2, Explain: 2, Index: byTime, Keys: 5, NoSort: true, Call: func(ctx context.Context) error {
			return second(d.Prune(ctx, versioning.Retention{Keep: 2}, of("other 0")))
		}, Check: func(cmds mongotest.Commands) {
			named(t, cmds[2], "document_id")
			examined(t, db, cmds[3], byNumber, 3, 2, "document_id", "revision")
		}},
		{Name: "Prune", Sends: []string{list, find, find, del, more, find, del, agg}, Writes: int(r.Number) - 3 + 2*5 + 14, Explain: 2, Index: byTime, Call: func(ctx context.Context) error {
			result, err := d.Prune(ctx, versioning.Retention{Keep: 2}, &mongopatterns.Work{BatchSize: 15})
			testkit.Same(t, "examined", int64(21), result.Examined)
			return err
		}, Check: func(cmds mongotest.Commands) {
			sorted(t, cmds[2], bson.D{{Key: "document_id", Value: 1}, {Key: "change.at", Value: 1}, {Key: "revision", Value: 1}})
			examined(t, db, cmds[3], byNumber, 3, 2, "document_id", "revision")
		}},
	})
}

// The cost of a refusal, which writes nothing.
func TestConflictCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen"}})
	first := get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(0))))
	get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 1; return nil }, by("", "", month(1))))
	changed, ignored := first, first
	changed.Document.N = 9
	ignored.Document.LastSeen = month(3)
	byHand := revision{Number: 1, Document: changed.Document}
	deleted := get(t)(d.Insert(ctx, counter{ID: "b"}, by("", "", month(0))))
	testkit.OK(t, d.Delete(ctx, "b", 1, by("", "", month(1))))
	deleted.Document.N = 9
	refused := func(call func(ctx context.Context) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			var conflict *versioning.ConflictError
			if err := call(ctx); !errors.As(err, &conflict) && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, mongopatterns.ErrExists) {
				return fmt.Errorf("error %w, want a refusal", err)
			}
			return nil
		}
	}
	save := func(r revision) func(ctx context.Context) error {
		return refused(func(ctx context.Context) error { return second(d.Save(ctx, r, nobody)) })
	}
	costs.Run(t, db, []costs.Case{
		{Name: "Save", Sends: []string{fam, find, abort}, Call: save(changed)},
		{Name: "Save of a deleted document", Sends: []string{fam, find, abort}, Call: save(deleted)},
		{Name: "Save of ignored fields", Sends: []string{fam, find}, Call: save(ignored)},
		{Name: "Save of no change", Sends: []string{find}, Call: save(first)},
		{Name: "Save by hand", Sends: []string{find}, Call: save(byHand)},
		{Name: "Delete", Sends: []string{fam, find, abort}, Call: refused(func(ctx context.Context) error { return d.Delete(ctx, "a", 1, nobody) })},
		{Name: "Insert", Sends: []string{ins, abort}, Call: refused(func(ctx context.Context) error { return second(d.Insert(ctx, counter{ID: "a"}, nobody)) })},
		{Name: "SaveMany", Sends: []string{find, commit}, Call: refused(func(ctx context.Context) error { return saveOne(ctx, d, changed) })},
	})
}

func TestMaintenanceCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	current := db.Collection("current")
	for i := range 6 {
		testkit.Insert(t, current, bson.D{{Key: "_id", Value: fmt.Sprint(i)}})
	}
	check := func(ctx context.Context) error { return testkit.Drain(d.Check(ctx, nil)) }
	// The current documents, their history, the rows that are not revisions; then the removed
	// documents.
	scan := []string{list, find, find, find, agg, find, find}
	again := []string{find, find, commit}
	costs.Run(t, db, []costs.Case{
		{Name: "Adopt", Sends: []string{list, find, agg, up, more, agg, up}, Writes: 6, Explain: 2, Keys: 8, NoSort: true, Call: func(ctx context.Context) error {
			return second(d.Adopt(ctx, nil, &mongopatterns.Work{BatchSize: 4}))
		}, Check: func(cmds mongotest.Commands) {
			named(t, cmds[2], "document_id")
			examined(t, db, cmds[3], "_id_", 1, 1, "_id")
		}},
		{Name: "Adopt of nothing", Sends: []string{list, find}, Call: func(ctx context.Context) error { return second(d.Adopt(ctx, nil, nil)) }},
		{Name: "Check", Before: func() {
			for _, id := range []string{"0", "1", "2"} {
				get(t)(d.Edit(ctx, id, func(c *counter) error { c.N = 1; return nil }, nobody))
			}
			testkit.OK(t, d.Delete(ctx, "2", 2, nobody))
		}, Sends: scan, Call: check, Check: func(cmds mongotest.Commands) {
			examined(t, db, cmds[1], "_id_", 5, 5)
			examined(t, db, cmds[2], byNumber, 12, 5, "document_id")
			examined(t, db, cmds[3], byTime, 12, 0, "document_id")
			examined(t, db, cmds[4], byTime, 4+2, 2, "document_id") // and by the lookup
			// In batches, or the cursor would time out in a large collection.
			testkit.Same(t, "batch size", int64(100), cmds[4].Body.Lookup("cursor", "batchSize").AsInt64())
		}},
		{Name: "Check of two that are wrong", Before: func() {
			testkit.Update(t, current, d.Filter("0"), bson.D{{Key: "$set", Value: bson.D{{Key: "revision", Value: 1}}}})
			remove(t, current, d.Filter("1"))
		}, Sends: slices.Concat(scan[:4], again, scan[4:], again), Call: check},
		{Name: "Repair of two", Sends: slices.Concat(scan[:4], again, []string{find, up}, scan[4:], again, []string{find, find, ins, commit}), Writes: 1 + 1,
			Explain: 8, Index: "_id_", Keys: 1, Docs: 1, NoSort: true, Check: names(t, 8, "_id"), Call: func(ctx context.Context) error { return second(d.Repair(ctx, nil)) }},
		{Name: "Check after Repair", Sends: scan, Call: check},
		{Name: "Repair of one document", Sends: scan[:5], Explain: 1, Keys: 1, Docs: 1, NoSort: true,
			Call: func(ctx context.Context) error { return second(d.Repair(ctx, of("0"))) }, Check: func(cmds mongotest.Commands) {
				examined(t, db, cmds[4], byTime, 3, 1) // one of _id
				examined(t, db, cmds[2], byNumber, 3, 2, "document_id")
			}},
	})
}

// With deltas a revision needs those after it up to the next whole one.
func TestDeltaCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 5})
	r := get(t)(d.Insert(t.Context(), counter{ID: "a", Note: "some text that makes a delta smaller"}, by("", "", month(0))))
	at := func(n int64) func(ctx context.Context) error {
		return func(ctx context.Context) error { return second(d.At(ctx, "a", n)) }
	}
	asOf := func(months int) func(ctx context.Context) error {
		return func(ctx context.Context) error { return second(d.AsOf(ctx, "a", month(months))) }
	}
	var cases []costs.Case
	for n := 1; n <= 11; n++ {
		cases = append(cases, costs.Case{Name: fmt.Sprint("Save of revision ", n), Before: func() { r.Document.N++ }, Sends: []string{fam, ins, commit}, Writes: 2,
			Call: func(ctx context.Context) (err error) {
				r, err = d.Save(ctx, r, by("", "", month(n)))
				return err
			}, Check: func(cmds mongotest.Commands) {
				whole := !cmds[1].Body.Lookup("documents", "0", "document").IsZero()
				delta := !cmds[1].Body.Lookup("documents", "0", "delta").IsZero()
				if whole == delta || whole != (n%5 == 0) {
					t.Errorf("revision %d: whole %v", n, whole)
				}
			}})
	}
	costs.Run(t, db, append(cases, []costs.Case{
		{Name: "At of a delta", Sends: []string{find}, Index: byNumber, Keys: 5, Docs: 5, NoSort: true, Call: at(6), Check: func(cmds mongotest.Commands) {
			named(t, cmds[0], "document_id", "revision")
			testkit.Same(t, "limit", int64(5), cmds[0].Body.Lookup("limit").AsInt64())
		}},
		{Name: "At of a whole one", Sends: []string{find}, Index: byNumber, Keys: 1, Docs: 1, NoSort: true, Check: names(t, 0, "document_id", "revision"), Call: at(5)},
		{Name: "At of a delta to the current one", Sends: []string{find, find}, Call: at(11)},
		{Name: "AsOf 5, which is whole", Sends: []string{find, find}, Call: asOf(4)},
		{Name: "AsOf 6, which needs those up to 10", Sends: []string{find, find, find}, Call: asOf(5)},
		{Name: "AsOf 11, which needs the current one", Sends: []string{find, find, find}, Call: asOf(10)},
		{Name: "Revisions", Sends: []string{find, find}, Call: func(ctx context.Context) error {
			n := 0
			for r, err := range d.Revisions(ctx, "a") {
				if n++; err != nil || r.Lost {
					return fmt.Errorf("%+v, %w", r, err)
				}
			}
			if n != 12 {
				return fmt.Errorf("%d revisions", n)
			}
			return nil
		}},
	}...))
}
