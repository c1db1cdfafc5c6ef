package versioning_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Reads in two steps between which somebody else writes.
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
			get(t)(d.Update(ctx, "a", func(c *counter) error { c.N++; return nil }, by("", "", month(1))))
		}
		end := func() int64 { // deletes, and returns the number of the deletion
			r := get(t)(d.Get(ctx, "a"))
			if err := d.Delete(ctx, "a", r.Number, by("", "", month(1))); err != nil {
				t.Fatal(err)
			}
			return r.Number + 1
		}
		get(t)(d.Create(ctx, counter{ID: "a", Note: note}, by("", "", month(0))))
		save()

		// What was current goes to the history, once or twice.
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
			get(t)(d.Create(ctx, counter{ID: "a", Note: note}, by("", "", month(2))))
			save()
			save()
		})
		last := int64(0)
		for r, err := range d.History(ctx, "a") {
			if err != nil || r.Lost || last != 0 && r.Number != last-1 {
				t.Fatalf("%+v after %d, %v", r, last, err)
			}
			last = r.Number
		}
		end()
		for _, from := range []int64{1, last + 1} { // the other way round
			meanwhile(func() {
				get(t)(d.Create(ctx, counter{ID: "a", Note: note}, by("", "", month(2))))
				save()
				save()
			})
			next := from
			for r, err := range d.HistoryFrom(ctx, "a", from) {
				if err != nil || r.Lost || r.Number != next {
					t.Fatalf("%+v, want %d, %v", r, next, err)
				}
				next++
			}
			end()
		}
		// As of a time, and a revision that never was.
		meanwhile(func() { get(t)(d.Create(ctx, counter{ID: "a"}, by("", "", month(3)))) })
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
		// Breaking off.
		var seen []int64
		for r := range d.History(ctx, "a") {
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

// A document that comes back, or is created, between Repair's look and its deletion
// gets none.
func TestRepairOfWhatComesBack(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(t *testing.T, d *versioning.Documents[string, counter], current *mongo.Collection){
		"put back": func(t *testing.T, _ *versioning.Documents[string, counter], current *mongo.Collection) {
			if _, err := current.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}, {Key: "revision", Value: 2}}); err != nil {
				t.Error(err)
			}
		},
		"created": func(t *testing.T, d *versioning.Documents[string, counter], _ *mongo.Collection) {
			get(t)(d.Create(t.Context(), counter{ID: "a"}, by("", "", month(2))))
		},
		"created and deleted": func(t *testing.T, d *versioning.Documents[string, counter], _ *mongo.Collection) {
			r := get(t)(d.Create(t.Context(), counter{ID: "a"}, by("", "", month(2))))
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
			r := get(t)(d.Create(ctx, counter{ID: "a"}, by("", "", month(0))))
			r.Document.N = 1
			get(t)(d.Save(ctx, r, by("", "", month(0))))
			remove(t, db.Collection("current"), d.Filter("a"))
			comeBack := func() { back(t, d, db.Collection("current")) }
			between.Store(&comeBack)
			result, err := d.Repair(ctx, nil)
			if err != nil || result.Done != 0 || result.Remaining != 1 || between.Load() != nil {
				t.Errorf("%+v, %v", result, err)
			}
			for _, p := range collect(t, d.Check(ctx, nil)) {
				if p.Kind != versioning.TimeReversed { // the change of what was put back is not known
					t.Errorf("%v", p)
				}
			}
		})
	}
}

// Repair and Create record the same deletion: one of them does.
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
	r := get(t)(d.Create(ctx, counter{ID: "a"}, nobody))
	r.Document.N = 1
	get(t)(d.Save(ctx, r, nobody))
	remove(t, db.Collection("current"), d.Filter("a"))
	repair := func() {
		if result, err := d.Repair(ctx, nil); err != nil || result.Done != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	between.Store(&repair)
	if r := get(t)(d.Create(ctx, counter{ID: "a", N: 9}, nobody)); r.Number != 3 || r.Document.N != 9 {
		t.Errorf("%+v", r)
	}
	if got := numbers(t, d, "a"); !reflect.DeepEqual(got, []int64{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	clean(t, d)
}
