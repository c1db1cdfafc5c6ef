package versioning_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Reads in two steps, and a write by another between them.
func TestWritesBetweenTheStepsOfARead(t *testing.T) {
	t.Parallel()
	const note = "some text that makes a delta smaller"
	for _, every := range []int{1, 10} {
		var between atomic.Pointer[func()] // runs once, before the second find of the client
		var finds atomic.Int64
		monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName != "find" || between.Load() == nil {
				return
			}
			if finds.Add(1) == 2 {
				(*between.Swap(nil))()
			}
		}}
		ctx := t.Context()
		d := helper[string, counter](t, mongotest.Database(t, options.Client().SetMonitor(monitor)), &versioning.Options{SnapshotEvery: every})
		meanwhile := func(fn func()) {
			finds.Store(0)
			between.Store(&fn)
		}
		save := func() {
			get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N++; return nil }, by("", "", month(1))))
		}
		end := func() int64 { // deletes, and returns the number of the deletion
			r := get(t)(d.Get(ctx, "a"))
			if err := d.Delete(ctx, "a", r.Number, by("", "", month(1))); err != nil {
				t.Fatal(err)
			}
			return r.Number + 1
		}
		get(t)(d.Insert(ctx, counter{ID: "a", Note: note}, by("", "", month(0))))
		save()

		// The current state goes to the history, once or twice.
		for range 2 {
			meanwhile(func() { save(); save() })
			n := get(t)(d.Get(ctx, "a")).Number // the first find
			finds.Store(0)
			if r := get(t)(d.At(ctx, "a", n)); r.Number != n || r.Document.N != int(n)-1 {
				t.Errorf("at %d: %+v", n, r)
			}
		}
		// It is deleted.
		n := get(t)(d.Get(ctx, "a")).Number
		meanwhile(func() { end() })
		if r := get(t)(d.At(ctx, "a", n)); r.Number != n || r.Document.Note != note {
			t.Errorf("at %d: %+v", n, r)
		}
		// Histories read while it is created again and saved.
		meanwhile(func() {
			get(t)(d.Insert(ctx, counter{ID: "a", Note: note}, by("", "", month(2))))
			save()
			save()
		})
		last := int64(0)
		for r, err := range d.Revisions(ctx, "a") {
			if err != nil || r.Lost || last != 0 && r.Number != last-1 {
				t.Fatalf("%+v after %d, %v", r, last, err)
			}
			last = r.Number
		}
		end()
		for _, from := range []int64{1, last + 1} { // the other way round
			meanwhile(func() {
				get(t)(d.Insert(ctx, counter{ID: "a", Note: note}, by("", "", month(2))))
				save()
				save()
			})
			next := from
			for r, err := range d.RevisionsFrom(ctx, "a", from) {
				if err != nil || r.Lost || r.Number != next {
					t.Fatalf("%+v, want %d, %v", r, next, err)
				}
				next++
			}
			end()
		}
		// As of a time, and a revision that never was.
		meanwhile(func() { get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(3)))) })
		if _, err := d.AsOf(ctx, "a", month(2)); !errors.Is(err, versioning.ErrDeleted) {
			t.Errorf("as of: %v", err)
		}
		meanwhile(func() { end() })
		if _, err := d.At(ctx, "b", 1); !errors.Is(err, mongopatterns.ErrNotFound) {
			t.Errorf("at: %v", err)
		}
		if between.Load() != nil {
			t.Error("nothing came between")
		}
		// The caller stops early.
		var seen []int64
		for r := range d.Revisions(ctx, "a") {
			if seen = append(seen, r.Number); len(seen) == 3 {
				break
			}
		}
		if top := seen[0]; !reflect.DeepEqual(seen, []int64{top, top - 1, top - 2}) {
			t.Errorf("%v", seen)
		}
		for range d.Check(ctx, nil) {
			t.Error("a problem")
		}
	}
}

// A document that is inserted between Repair's look and its deletion gets no deletion.
func TestRepairOfWhatComesBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(t *testing.T, d *versioning.History[string, counter], current *mongo.Collection){
		"put back": func(t *testing.T, _ *versioning.History[string, counter], current *mongo.Collection) {
			if _, err := current.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}, {Key: "revision", Value: 2}}); err != nil {
				t.Error(err)
			}
		},
		"created": func(t *testing.T, d *versioning.History[string, counter], _ *mongo.Collection) {
			get(t)(d.Insert(t.Context(), counter{ID: "a"}, by("", "", month(2))))
		},
		"created and deleted": func(t *testing.T, d *versioning.History[string, counter], _ *mongo.Collection) {
			r := get(t)(d.Insert(t.Context(), counter{ID: "a"}, by("", "", month(2))))
			if err := d.Delete(t.Context(), "a", r.Number, by("", "", month(2))); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var between atomic.Pointer[func()]
			monitor := &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
				if e.CommandName == "commitTransaction" { // of the look
					if fn := between.Swap(nil); fn != nil {
						(*fn)()
					}
				}
			}}
			ctx := t.Context()
			db := mongotest.Database(t, options.Client().SetMonitor(monitor))
			d := helper[string, counter](t, db, nil)
			r := get(t)(d.Insert(ctx, counter{ID: "a"}, by("", "", month(0))))
			r.Document.N = 1
			get(t)(d.Save(ctx, r, by("", "", month(0))))
			remove(t, db.Collection("current"), d.Filter("a"))
			comeBack := func() { back(t, d, db.Collection("current")) }
			between.Store(&comeBack)
			result, err := d.Repair(ctx, nil)
			if err != nil || result.Done != 0 || result.Remaining != 1 || between.Load() != nil {
				t.Errorf("%+v, %v", result, err)
			}
			for _, p := range testkit.Collect(t, d.Check(ctx, nil)) {
				if p.Kind != versioning.TimeReversed { // the change of the document put back is not known
					t.Errorf("%v", p)
				}
			}
		})
	}
}

// Repair and Insert record the same deletion: only one of them succeeds.
func TestRepairWithinCreate(t *testing.T) {
	t.Parallel()
	var between atomic.Pointer[func()]
	monitor := &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "find" { // of the newest revision
			if fn := between.Swap(nil); fn != nil {
				(*fn)()
			}
		}
	}}
	ctx := t.Context()
	db := mongotest.Database(t, options.Client().SetMonitor(monitor))
	d := helper[string, counter](t, db, nil)
	r := get(t)(d.Insert(ctx, counter{ID: "a"}, nobody))
	r.Document.N = 1
	get(t)(d.Save(ctx, r, nobody))
	remove(t, db.Collection("current"), d.Filter("a"))
	repair := func() {
		if result, err := d.Repair(ctx, nil); err != nil || result.Done != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	between.Store(&repair)
	if r := get(t)(d.Insert(ctx, counter{ID: "a", N: 9}, nobody)); r.Number != 3 || r.Document.N != 9 {
		t.Errorf("%+v", r)
	}
	if got := numbers(t, d, "a"); !reflect.DeepEqual(got, []int64{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	testkit.Healthy(t, d)
}

// 5 × 6 read-modify-save: every change is kept and has its revision.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 16} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			d := helper[string, bson.D](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: every})
			must[versioning.Revision[bson.D]](t)(d.Insert(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "log", Value: bson.A{}}}, nobody))
			var group sync.WaitGroup
			for w := range 5 {
				group.Go(func() {
					for i := range 6 {
						entry := fmt.Sprint(w, "/", i)
						r, err := d.Edit(ctx, "a", func(doc *bson.D) error {
							(*doc)[1].Value = append(append(bson.A{}, (*doc)[1].Value.(bson.A)...), entry)
							return nil
						}, versioning.Change{Author: entry})
						if err != nil || r.Change.Author != entry {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			var log bson.A
			n := int64(0)
			for _, r := range slices.Backward(testkit.Collect(t, d.Revisions(ctx, "a"))) {
				if n++; r.Number != n {
					t.Fatalf("revision %d, want %d", r.Number, n)
				}
				log = r.Document[1].Value.(bson.A)
				if int64(len(log)) != n-1 || n > 1 && log[n-2] != r.Change.Author {
					t.Fatalf("revision %d by %q: %v", n, r.Change.Author, log)
				}
			}
			seen := map[any]bool{}
			for _, entry := range log {
				seen[entry] = true
			}
			if n != 31 || len(seen) != 30 {
				t.Errorf("%d revisions, %d changes", n, len(seen))
			}
			testkit.Healthy(t, d)
		})
	}
}

// Creations, deletions, restores and saves at once leave histories without gaps.
func TestConcurrentLifecycles(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: 4})
	var group sync.WaitGroup
	expected := func(err error) bool {
		var conflict *versioning.ConflictError
		return err == nil || errors.As(err, &conflict) || errors.Is(err, mongo.ErrNoDocuments) || errors.Is(err, mongopatterns.ErrExists)
	}
	for w := range 4 {
		group.Go(func() {
			for i := range 12 {
				id := []string{"a", "b"}[i%2]
				var err error
				switch (w + i) % 4 {
				case 0:
					_, err = d.Insert(ctx, counter{ID: id, N: 1000*w + i}, nobody)
				case 1:
					_, err = d.Edit(ctx, id, func(c *counter) error { c.N++; return nil }, nobody)
				case 2:
					var r revision
					if r, err = d.Get(ctx, id); err == nil {
						err = d.Delete(ctx, id, r.Number, nobody)
					}
				case 3:
					_, err = d.Restore(ctx, id, 1, nobody)
				}
				if !expected(err) {
					t.Error(err)
				}
				for _, err := range d.Check(ctx, nil) { // while others write: no false alarm
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Go(func() {
		for range 10 {
			for p, err := range d.Check(ctx, nil) {
				t.Errorf("check beside writers: %v %v", p, err)
			}
			_, err := d.At(ctx, "a", 2)
			if !expected(err) {
				t.Error(err)
			}
			for r, err := range d.Revisions(ctx, "b") {
				if !expected(err) || r.Lost {
					t.Error(err)
				}
			}
		}
	})
	group.Wait()
	for _, id := range []string{"a", "b"} {
		want := int64(0)
		for _, r := range slices.Backward(testkit.Collect(t, d.Revisions(ctx, id))) {
			if want++; r.Number != want {
				t.Errorf("%s: revision %d, want %d", id, r.Number, want)
			}
		}
	}
	testkit.Healthy(t, d)
}

// Bulk saves of the same documents at once: each document's change is kept once
// for each save that succeeded.
func TestConcurrentSaveMany(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := helper[string, counter](t, mongotest.Database(t), &versioning.Options{SnapshotEvery: 3})
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		get(t)(d.Insert(ctx, counter{ID: id}, nobody))
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
				if err != nil && !errors.Is(err, mongopatterns.ErrConflict) {
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
	testkit.Healthy(t, d)
}
