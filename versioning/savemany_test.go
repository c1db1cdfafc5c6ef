package versioning_test

import (
	"errors"
	"fmt"
	"reflect"
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

// A short name for what hundreds of lines call.
var doc = testkit.D

func TestSaveMany(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	for _, every := range []int{1, 3} {
		d := helper[string, counter](t, db, &versioning.Options{Ignored: []string{"last_seen"}, SnapshotEvery: every})
		var docs []any
		for i := range 25 {
			docs = append(docs, bson.D{{Key: "_id", Value: fmt.Sprintf("%02d", i)}, {Key: "n", Value: i}, {Key: "unknown", Value: i}})
		}
		docs = append(docs, bson.D{{Key: "_id", Value: "odd"}, {Key: "revision", Value: "x"}})
		if _, err := db.Collection("current").InsertMany(ctx, docs); err != nil {
			t.Fatal(err)
		}
		var batch []revision
		for i := range 25 {
			r := get(t)(d.Get(ctx, fmt.Sprintf("%02d", i)))
			r.Document.N += 100
			batch = append(batch, r)
		}
		get(t)(d.Edit(ctx, "03", func(c *counter) error { c.N = 5; return nil }, nobody)) // 3 is stale
		batch[4].Document.N -= 100                                                        // 4 is unchanged
		batch[5].Document.N -= 100                                                        // 5 only ignored
		batch[5].Document.LastSeen = month(1)
		batch = append(batch,
			revision{Number: 1, Document: counter{ID: "06", N: 7}},  // 6 again, stale by now
			revision{Number: 2, Document: counter{ID: "06", N: 66}}, // based on the revision saved above
			revision{Number: 1, Document: counter{ID: "none"}},
			revision{Number: 0, Document: counter{ID: "07"}},
			revision{Number: 1, Document: counter{ID: "odd"}},
		)
		var progress []int64
		if dry, err := d.SaveMany(ctx, places(batch), nobody, &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != 24 || testkit.Count(t, db.Collection("revisions"), bson.D{}) != 1 || batch[0].Number != 1 {
			t.Errorf("%+v, %v", dry, err)
		}
		saved, err := d.SaveMany(ctx, places(batch), by("bulk", "price rise", month(2)), &mongopatterns.Work{BatchSize: 20, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		if !errors.Is(err, mongopatterns.ErrConflict) || !errors.Is(err, mongopatterns.ErrInvalid) || mongopatterns.OutcomeOf(err) != mongopatterns.Unknown || saved.Examined != 30 || saved.Done != 24 || saved.Skipped != 1 || saved.Failed != 5 || len(saved.Failures) != 5 {
			t.Fatalf("%+v, %v, %v", saved, err, progress)
		}
		var conflict *versioning.ConflictError
		for _, f := range saved.Failures {
			var ok bool
			switch f.ID.StringValue() {
			case "03", "06":
				ok = errors.As(f.Err, &conflict) && errors.Is(f.Err, mongopatterns.ErrConflict) && conflict.Read == 1 && conflict.Current == 2
			case "none":
				ok = errors.Is(f.Err, mongopatterns.ErrNotFound)
			case "07":
				ok = errors.Is(f.Err, mongopatterns.ErrInvalid)
			case "odd":
				ok = errors.Is(f.Err, mongopatterns.ErrMalformed)
			}
			if !ok || f.Collection != "current" {
				t.Errorf("%+v", f)
			}
		}
		for i := range 25 {
			id := fmt.Sprintf("%02d", i)
			want := map[int]int{3: 5, 4: 4, 5: 5, 6: 66}[i]
			if want == 0 {
				want = i + 100
			}
			r := get(t)(d.Get(ctx, id))
			// Each saved revision replaces the one that was read, and can be saved again.
			if i != 3 && i != 6 && !reflect.DeepEqual(shown(batch[i]), shown(r)) || i == 3 && batch[i].Number != 1 {
				t.Errorf("%d: got %+v, stored %+v", i, batch[i], r)
			}
			if r.Document.N != want || i == 5 && !r.Document.LastSeen.Equal(month(1)) {
				t.Errorf("%d: %+v", i, r)
			}
			if old := get(t)(d.At(ctx, id, 1)); old.Document.N != i {
				t.Errorf("%d: %+v", i, old)
			}
		}
		for _, doc := range all(t, db.Collection("current"), bson.D{}) {
			if testkit.Get(doc, "_id") != "odd" && testkit.Get(doc, "unknown") == nil {
				t.Errorf("lost a field: %v", doc)
			}
		}
		if _, err := db.Collection("current").DeleteOne(ctx, bson.D{{Key: "_id", Value: "odd"}}); err != nil {
			t.Fatal(err)
		}
		testkit.Healthy(t, d)
		if saved, err := d.SaveMany(ctx, each[*revision](), nobody, nil); err != nil || saved.Examined != 0 {
			t.Errorf("%+v, %v", saved, err)
		}
		_, err = d.SaveMany(ctx, each[*revision](), nobody, &mongopatterns.Work{BatchSize: -1})
		wantErr(t, "batch size", err, mongopatterns.ErrInvalid)
		_, err = d.SaveMany(ctx, each[*revision](), nobody, of("a"))
		wantErr(t, "filter", err, mongopatterns.ErrInvalid)
		again := batch[0]
		again.Document.N++
		none, err := d.SaveMany(ctx, each(nil, &again), nobody, nil)
		if !errors.Is(err, mongopatterns.ErrInvalid) || none.Done != 1 || none.Failed != 1 || !errors.Is(none.Failures[0].Err, mongopatterns.ErrInvalid) || again.Number != 3 {
			t.Errorf("%+v, %v, %+v", none, err, again)
		}
		for _, name := range []string{"current", "revisions"} {
			if _, err := db.Collection(name).DeleteMany(ctx, bson.D{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A document that the server refuses, here by a unique index of the user's, is named
// and leaves the others of its batch alone; an error of the sequence ends it after
// what came before.
func TestSaveManyGoesOn(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[string, counter](t, db, nil)
	if _, err := db.Collection("current").Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	var batch []revision
	for i := range 4 {
		r := get(t)(d.Insert(ctx, counter{ID: fmt.Sprint(i), N: i}, nobody))
		r.Document.N += 10
		batch = append(batch, r)
	}
	batch[2].Document.N = 11
	boom := errors.New("boom")
	result, err := d.SaveMany(ctx, func(yield func(*revision, error) bool) {
		for r := range places(batch) {
			if !yield(r, nil) {
				return
			}
		}
		yield(nil, boom)
	}, nobody, nil)
	wantErr(t, "the sequence's", err, boom)
	if result.Done != 3 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "2" || !mongo.IsDuplicateKeyError(result.Failures[0].Err) {
		t.Errorf("%+v", result)
	}
	for i, want := range []int{10, 11, 2, 13} {
		if r := get(t)(d.Get(ctx, fmt.Sprint(i))); r.Document.N != want {
			t.Errorf("%+v", r)
		}
	}
	if _, err := d.Insert(ctx, counter{ID: "new", N: 10}, nobody); !mongo.IsDuplicateKeyError(err) || errors.Is(err, mongopatterns.ErrExists) {
		t.Errorf("create: %v", err)
	}
	testkit.Healthy(t, d)
}

// refuse has the server refuse documents that match.
func refuse(t *testing.T, db *mongo.Database, match bson.D) {
	t.Helper()
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), doc("collMod", "current", "validator", doc("$nor", bson.A{match}))).Err(); err != nil {
		t.Fatal(err)
	}
}

// Documents written in one batch with a refused one are counted as done.
func TestCountsBesideARefusal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("Adopt", func(t *testing.T) {
		db := mongotest.Database(t)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b"), doc("_id", "c")}); err != nil {
			t.Fatal(err)
		}
		refuse(t, db, doc("_id", "c", "revision", doc("$gte", 1)))
		result := must[mongopatterns.Result](t)(helper[string, bson.D](t, db, nil).Adopt(ctx, nil, nil))
		if result.Done != 2 || result.Skipped != 0 || result.Failed != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("Repair", func(t *testing.T) {
		db := mongotest.Database(t)
		for _, id := range []string{"a", "b", "c"} {
			_, err := db.Collection("current").InsertOne(ctx, doc("_id", id, "revision", int64(1)))
			if err == nil {
				_, err = db.Collection("revisions").InsertOne(ctx, doc("document_id", id, "revision", int64(4), "change", doc("at", month(1)), "document", doc("_id", id)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		refuse(t, db, doc("_id", "c", "revision", doc("$gt", 1)))
		result := must[mongopatterns.Result](t)(helper[string, bson.D](t, db, nil).Repair(ctx, nil))
		if result.Done != 2 || result.Failed != 1 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("SaveMany", func(t *testing.T) { // where one has no number, but a history
		db := mongotest.Database(t)
		docs := helper[string, bson.D](t, db, nil)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b")}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection("revisions").InsertOne(ctx, doc("document_id", "b", "revision", int64(4), "change", doc(), "deleted", true)); err != nil {
			t.Fatal(err)
		}
		result, err := docs.SaveMany(ctx, func(yield func(*versioning.Revision[bson.D], error) bool) {
			for _, id := range []string{"a", "b"} {
				r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, id))
				r.Document = append(r.Document, bson.E{Key: "x", Value: 1})
				if !yield(&r, nil) {
					return
				}
			}
		}, nobody, nil)
		if n, _ := db.Collection("current").CountDocuments(ctx, doc("x", 1)); !errors.Is(err, versioning.ErrInconsistent) || n != 1 || result.Done != 1 || result.Failed != 1 {
			t.Errorf("%+v, %v, %d stored", result, err, n)
		}
	})
	t.Run("SaveMany, Strict", func(t *testing.T) {
		db := mongotest.Database(t)
		docs := helper[string, bson.D](t, db, nil)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b")}); err != nil {
			t.Fatal(err)
		}
		refuse(t, db, doc("_id", "a", "x", 1))
		for _, strict := range []bool{true, false} {
			result, err := docs.SaveMany(ctx, func(yield func(*versioning.Revision[bson.D], error) bool) {
				for _, id := range []string{"a", "b"} {
					r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, id))
					r.Document = append(r.Document, bson.E{Key: "x", Value: 1})
					if !yield(&r, nil) {
						return
					}
				}
			}, nobody, &mongopatterns.Work{Strict: strict})
			if err == nil || strict && result.Done != 0 || !strict && (result.Done != 1 || result.Failed != 1) {
				t.Errorf("strict %v: %+v, %v", strict, result, err)
			}
		}
	})
	t.Run("SaveMany, Strict, a revision that cannot be encoded", func(t *testing.T) {
		db := mongotest.Database(t)
		docs := helper[string, bson.D](t, db, nil)
		if _, err := db.Collection("current").InsertMany(ctx, []any{doc("_id", "a"), doc("_id", "b"), doc("_id", "c")}); err != nil {
			t.Fatal(err)
		}
		for _, strict := range []bool{true, false} {
			var seen []string
			result, err := docs.SaveMany(ctx, func(yield func(*versioning.Revision[bson.D], error) bool) {
				for _, id := range []string{"a", "b", "c"} {
					seen = append(seen, id)
					r := must[versioning.Revision[bson.D]](t)(docs.Get(ctx, id))
					var x any = r.Number
					if id == "b" {
						x = make(chan int)
					}
					r.Document = append(slices.Clone(r.Document), bson.E{Key: fmt.Sprint("x", strict), Value: x})
					if !yield(&r, nil) {
						return
					}
				}
			}, nobody, &mongopatterns.Work{Strict: strict})
			if want := map[bool]int{true: 1, false: 2}[strict]; err == nil || result.Failed != 1 || int(result.Done) != want || len(seen) != want+1 {
				t.Errorf("strict %v: %+v, %v, %v", strict, result, err, seen)
			}
		}
	})
}
