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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, every := range []int{1, 4} {
		d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: every})
		fill := func(id string) {
			r := get(t)(d.Insert(ctx, counter{ID: id}, by("", "", month(0))))
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
		for _, n := range []int{3, 4, 5, 8, 20} { // AsOf can read all times from then on
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
		if r := get(t)(d.Insert(ctx, counter{ID: "b"}, nobody)); r.Number != 12 {
			t.Errorf("%+v", r)
		}
		testkit.Healthy(t, d)

		for want, o := range map[string]versioning.Retention{"Retention.Keep or Before must": {}, "Retention.Keep: it must not": {Keep: -1}} {
			if _, err := d.Prune(ctx, o, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "versioning: prune: invalid: "+want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}

// Prune is stopped and run again, while others write.
func TestPruneBesideWriters(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: 3})
	for i := range 6 {
		r := get(t)(d.Insert(ctx, counter{ID: fmt.Sprint(i)}, nobody))
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
			if _, err := d.Edit(ctx, fmt.Sprint(i%6), func(c *counter) error { c.N++; return nil }, nobody); err != nil {
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
	testkit.Healthy(t, d)
}

// A history whose times run backwards loses nothing that Keep or Before protects.
func TestPruneOfReversedTimes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, opts := range []versioning.Retention{{Keep: 3}, {Before: month(3)}} {
		db := mongotest.Database(t)
		d := helper[string, counter](t, db, nil)
		r := get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(1))))
		for _, m := range []int{2, 3, 6, 7} {
			r.Document.N++
			r = get(t)(d.Save(ctx, r, by("", "", month(m))))
		}
		// 1, 2, 3 and 4 of the months 1, 5, 3 and 6.
		if _, err := db.Collection("revisions").UpdateOne(ctx, append(d.RevisionsFilter("a"), bson.E{Key: "revision", Value: 2}),
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

// A pruned document that other code puts back without a number does not begin a second history
// below the first.
func TestReinsertedAfterPrune(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	for range 3 {
		r.Document.N++
		r = get(t)(d.Save(ctx, r, nobody))
	}
	if err := d.Delete(ctx, "a", 4, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Prune(ctx, versioning.Retention{Keep: 2}, of("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("current").InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 7}}, bson.D{{Key: "_id", Value: "b"}, {Key: "n", Value: 7}},
	}); err != nil {
		t.Fatal(err)
	}
	_, err := d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody)
	wantErr(t, "update", err, versioning.ErrInconsistent)
	if want := `_id "a": inconsistent history: it has no "revision" but a history`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	wantErr(t, "delete", d.Delete(ctx, "a", 1, nobody), versioning.ErrInconsistent)
	// Of a batch it is the only one that is not saved.
	batch := []revision{{Number: 1, Document: counter{ID: "b", N: 8}}, {Number: 1, Document: counter{ID: "a", N: 8}}}
	result, err := d.SaveMany(ctx, places(batch), nobody, nil)
	wantErr(t, "save many", err, versioning.ErrInconsistent)
	if result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "a" {
		t.Errorf("%+v", result)
	}
	if n := testkit.Count(t, db.Collection("revisions"), bson.D{}); n != 3 {
		t.Errorf("%d revisions", n)
	}
	if result, err := d.Adopt(ctx, nil, nil); err != nil || result.Done != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if r := get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, nobody)); r.Number != 7 || r.Document.N != 8 {
		t.Errorf("%+v", r)
	}
	testkit.Healthy(t, d)
}

// shown is a revision without its private fields.
func shown(r revision) revision {
	return revision{Number: r.Number, Change: r.Change, Deleted: r.Deleted, Document: r.Document}
}

func numbersOf[T any](t testing.TB, revisions iter.Seq2[versioning.Revision[T], error]) (out []int64) {
	t.Helper()
	for _, r := range testkit.Collect(t, revisions) {
		out = append(out, r.Number)
	}
	return out
}

func numbers[ID, T any](t testing.TB, d *versioning.History[ID, T], id ID) (out []int64) {
	t.Helper()
	for _, r := range testkit.Collect(t, d.Revisions(t.Context(), id)) {
		out = append([]int64{r.Number}, out...)
	}
	return out
}
