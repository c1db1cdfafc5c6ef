package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

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
		get(t)(d.Update(ctx, "03", func(c *counter) error { c.N = 5; return nil }, nobody)) // 3 is stale
		batch[4].Document.N -= 100                                                          // 4 is unchanged
		batch[5].Document.N -= 100                                                          // 5 only ignored
		batch[5].Document.LastSeen = month(1)
		batch = append(batch,
			revision{Number: 1, Document: counter{ID: "06", N: 7}},  // 6 again, stale by now
			revision{Number: 2, Document: counter{ID: "06", N: 66}}, // 6 again, based on what is saved above
			revision{Number: 1, Document: counter{ID: "none"}},
			revision{Number: 0, Document: counter{ID: "07"}},
			revision{Number: 1, Document: counter{ID: "odd"}},
		)
		var progress []int64
		if dry, err := d.SaveMany(ctx, places(batch), nobody, &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != 24 || count(t, db.Collection("revisions")) != 1 || batch[0].Number != 1 {
			t.Errorf("%+v, %v", dry, err)
		}
		saved, err := d.SaveMany(ctx, places(batch), by("bulk", "price rise", month(2)), &mongopatterns.Work{BatchSize: 20, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		if err != nil || saved.Examined != 30 || saved.Done != 24 || saved.Skipped != 1 || saved.Failed != 5 || len(saved.Failures) != 5 {
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
			case "07", "odd":
				ok = errors.Is(f.Err, mongopatterns.ErrInvalid)
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
			// What was saved is in the place of what was read, and can be saved again.
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
			if lookupD(doc, "_id") != "odd" && lookupD(doc, "unknown") == nil {
				t.Errorf("lost a field: %v", doc)
			}
		}
		if _, err := db.Collection("current").DeleteOne(ctx, bson.D{{Key: "_id", Value: "odd"}}); err != nil {
			t.Fatal(err)
		}
		clean(t, d)
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
		if err != nil || none.Done != 1 || none.Failed != 1 || !errors.Is(none.Failures[0].Err, mongopatterns.ErrInvalid) || again.Number != 3 {
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
		r := get(t)(d.Create(ctx, counter{ID: fmt.Sprint(i), N: i}, nobody))
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
	if _, err := d.Create(ctx, counter{ID: "new", N: 10}, nobody); !mongo.IsDuplicateKeyError(err) || errors.Is(err, versioning.ErrExists) {
		t.Errorf("create: %v", err)
	}
	clean(t, d)
}

// Bulk saves of the same documents at once: each document's change is kept once
// for each save that succeeded.
func TestConcurrentSaveMany(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: 3})
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		get(t)(d.Create(ctx, counter{ID: id}, nobody))
	}
	var group sync.WaitGroup
	var mutex sync.Mutex
	want := map[string]int{}
	for range 4 {
		group.Go(func() {
			for range 5 {
				var batch []revision
				for _, id := range ids {
					r, err := d.Get(ctx, id)
					if err != nil {
						t.Error(err)
						return
					}
					r.Document.N++
					batch = append(batch, r)
				}
				saved, err := d.SaveMany(ctx, places(batch), nobody, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				for _, id := range ids {
					want[id]++
				}
				for _, f := range saved.Failures {
					want[f.ID.StringValue()]--
				}
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		if r := get(t)(d.Get(ctx, id)); r.Document.N != want[id] || int(r.Number) != want[id]+1 {
			t.Errorf("%s: %+v, want %d changes", id, r, want[id])
		}
	}
	clean(t, d)
}

// shown is a revision without what it remembers.
func shown(r revision) revision {
	return revision{Number: r.Number, Change: r.Change, Deleted: r.Deleted, Document: r.Document}
}

func numbersOf[T any](t testing.TB, revisions iter.Seq2[versioning.Revision[T], error]) (out []int64) {
	t.Helper()
	for _, r := range collect(t, revisions) {
		out = append(out, r.Number)
	}
	return out
}

func numbers[ID, T any](t testing.TB, d *versioning.Documents[ID, T], id ID) (out []int64) {
	t.Helper()
	for _, r := range collect(t, d.History(t.Context(), id)) {
		out = append([]int64{r.Number}, out...)
	}
	return out
}

func TestPrune(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, every := range []int{1, 4} {
		d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: every})
		fill := func(id string) {
			r := get(t)(d.Create(ctx, counter{ID: id}, by("", "", month(0))))
			for i := range 9 {
				r.Document.N++
				r = get(t)(d.Save(ctx, r, by("", "", month(i+1))))
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			fill(id)
		}
		if err := d.Delete(ctx, "b", 10, by("", "", month(10))); err != nil {
			t.Fatal(err)
		}
		want := func(id string, first, last int64) {
			t.Helper()
			got := numbers(t, d, id)
			if got[0] != first || got[len(got)-1] != last || len(got) != int(last-first+1) {
				t.Errorf("%s has %v, want %d to %d", id, got, first, last)
			}
		}
		prune := func(want int64) func(mongopatterns.Result, error) {
			return func(got mongopatterns.Result, err error) {
				t.Helper()
				if err != nil || got.Done != want {
					t.Errorf("%+v, %v, want %d deleted", got, err, want)
				}
			}
		}
		prune(2)(d.Prune(ctx, versioning.Retention{Keep: 7}, of("a")))
		want("a", 3, 10)
		prune(0)(d.Prune(ctx, versioning.Retention{Keep: 7}, of("a")))
		// Both protect.
		prune(0)(d.Prune(ctx, versioning.Retention{Keep: 3, Before: month(2)}, of("a")))
		prune(0)(d.Prune(ctx, versioning.Retention{Keep: 7, Before: month(100)}, of("a")))
		prune(1)(d.Prune(ctx, versioning.Retention{Keep: 3, Before: month(3)}, of("a")))
		want("a", 4, 10)
		for _, n := range []int{3, 4, 5, 8, 20} { // what AsOf needs from then on is there
			if r := get(t)(d.AsOf(ctx, "a", month(n))); r.Document.N != min(n, 9) {
				t.Errorf("as of month %d: %+v", n, r)
			}
		}
		_, err := d.AsOf(ctx, "a", month(2))
		wantErr(t, "as of", err, versioning.ErrPruned)
		_, err = d.At(ctx, "a", 3)
		wantErr(t, "at", err, versioning.ErrPruned)
		_, err = d.At(ctx, "a", 11)
		wantErr(t, "at", err, mongopatterns.ErrNotFound)
		_, err = d.Diff(ctx, "a", 2, 5)
		wantErr(t, "diff", err, versioning.ErrPruned)
		_, err = d.Restore(ctx, "a", 1, nobody)
		wantErr(t, "restore", err, versioning.ErrPruned)

		// Everywhere: the newest one stays, a deletion too.
		var progress []int64
		keep := versioning.Retention{Before: month(100)}
		dry, err := d.Prune(ctx, keep, &mongopatterns.Work{DryRun: true})
		result, err2 := d.Prune(ctx, keep, &mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Done) }})
		if err != nil || err2 != nil || dry.Done != 5+10+8 || result.Done != 5+10+8 || result.Examined != 3 || !reflect.DeepEqual(progress, []int64{13, 23}) {
			t.Errorf("%+v, %+v, %v, %v, %v", dry, result, err, err2, progress)
		}
		want("a", 9, 10)
		want("b", 11, 11)
		want("c", 9, 10)
		if r := get(t)(d.At(ctx, "c", 9)); r.Document.N != 8 {
			t.Errorf("%+v", r)
		}
		_, err = d.At(ctx, "b", 10)
		wantErr(t, "at", err, versioning.ErrPruned)
		_, err = d.At(ctx, "b", 12)
		wantErr(t, "at", err, mongopatterns.ErrNotFound)
		_, err = d.At(ctx, "b", 11)
		wantErr(t, "at", err, versioning.ErrDeleted)
		if r := get(t)(d.Create(ctx, counter{ID: "b"}, nobody)); r.Number != 12 {
			t.Errorf("%+v", r)
		}
		clean(t, d)

		for want, o := range map[string]versioning.Retention{"Retention.Keep: it or": {}, "Retention.Keep: negative": {Keep: -1}} {
			if _, err := d.Prune(ctx, o, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "versioning: prune: invalid: "+want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}

// Stopped and run again, beside writers.
func TestPruneBesideWriters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: 3})
	for i := range 6 {
		r := get(t)(d.Create(ctx, counter{ID: fmt.Sprint(i)}, nobody))
		for range 5 {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, nobody))
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	result, err := d.Prune(cancelled, versioning.Retention{Keep: 2}, &mongopatterns.Work{BatchSize: 1, Progress: func(mongopatterns.Result) { cancel() }})
	if !errors.Is(err, context.Canceled) || result.Done != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 30 {
			if _, err := d.Update(ctx, fmt.Sprint(i%6), func(c *counter) error { c.N++; return nil }, nobody); err != nil {
				t.Error(err)
			}
		}
	})
	for range 5 {
		if _, err := d.Prune(ctx, versioning.Retention{Keep: 2}, nil); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	if _, err := d.Prune(ctx, versioning.Retention{Keep: 2}, nil); err != nil {
		t.Error(err)
	}
	for i := range 6 {
		if got := numbers(t, d, fmt.Sprint(i)); !reflect.DeepEqual(got, []int64{9, 10, 11}) {
			t.Errorf("%v", got)
		}
		for n := int64(9); n < 12; n++ {
			if r := get(t)(d.At(ctx, fmt.Sprint(i), n)); r.Document.N != int(n)-1 {
				t.Errorf("%+v", r)
			}
		}
	}
	clean(t, d)
}

// A history whose times run backwards loses nothing that Keep or Before protects.
func TestPruneOfReversedTimes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, opts := range []versioning.Retention{{Keep: 3}, {Before: month(3)}} {
		db := mongotest.Database(t)
		d := helper[string, counter](t, db, nil)
		r := get(t)(d.Create(ctx, counter{ID: "a"}, by("", "", month(1))))
		for _, m := range []int{2, 3, 6, 7} {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, by("", "", month(m))))
		}
		// 1, 2, 3 and 4 of the months 1, 5, 3 and 6.
		if _, err := db.Collection("revisions").UpdateOne(ctx, append(d.HistoryFilter("a"), bson.E{Key: "revision", Value: 2}),
			bson.D{{Key: "$set", Value: bson.D{{Key: "change.at", Value: month(5)}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Prune(ctx, opts, nil); err != nil {
			t.Fatal(err)
		}
		if got := numbers(t, d, "a"); !reflect.DeepEqual(got, []int64{2, 3, 4, 5}) {
			t.Errorf("%+v left %v", opts, got)
		}
	}
}
