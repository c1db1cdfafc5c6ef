package attribute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// parallel runs fn in n goroutines and waits.
func parallel(n int, fn func(worker int)) {
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() { fn(w) })
	}
	wg.Wait()
}

// Writers of one key leave one entry, whichever calls they use, and one of those
// that add wins.
func TestWritersOfOneKey(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, nil)
	for round := range 5 {
		insert(t, coll, d("_id", round))
		var mu sync.Mutex
		added := 0
		parallel(8, func(w int) {
			if w%2 == 0 {
				if err := a.Set(ctx, round, attribute.Named("set"), w); err != nil {
					t.Error(err)
				}
			}
			switch err := a.Add(ctx, round, attribute.Named("add"), w); {
			case err == nil:
				mu.Lock()
				added++
				mu.Unlock()
			case !errors.Is(err, mongopatterns.ErrExists):
				t.Error(err)
			}
			if w%2 == 0 {
				if err := a.Set(ctx, round, attribute.Named("both"), w); err != nil {
					t.Error(err)
				}
			} else if err := a.Add(ctx, round, attribute.Named("both"), w); err != nil && !errors.Is(err, mongopatterns.ErrExists) {
				t.Error(err)
			}
			// A key of its own is not undone by the others.
			if err := a.SetAll(ctx, round, attribute.Attribute[int]{Key: fmt.Sprint(w), Value: w}, attribute.Attribute[int]{Key: "many", Value: w}); err != nil {
				t.Error(err)
			}
		})
		want(t, added, 1)
		all, err := a.GetAll(ctx, round)
		must(t, err)
		var keys []string
		for _, e := range all {
			keys = append(keys, e.Key)
		}
		slices.Sort(keys)
		want(t, keys, []string{"0", "1", "2", "3", "4", "5", "6", "7", "add", "both", "many", "set"})
	}
	must(t, testkit.Drain(a.Check(ctx, nil)))
}

// Adopt and RenameKey run beside writers of the same documents: nothing is lost
// and no key stands twice.
func TestConversionBesideWriters(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, nil)
	const n = 40
	for i := range n {
		insert(t, coll, d("_id", i, "width", i, "attributes", bson.A{e("old", i)}))
	}
	parallel(4, func(w int) {
		switch w {
		case 0:
			for range 3 {
				if _, err := a.Adopt(ctx, []attribute.Column{{Path: "width", Key: "width"}}, &mongopatterns.Work{BatchSize: 5}); err != nil {
					t.Error(err)
				}
			}
		case 1:
			if _, err := a.RenameKey(ctx, "old", "new", &mongopatterns.Work{BatchSize: 5}); err != nil {
				t.Error(err)
			}
		default:
			for i := range n {
				if err := a.Set(ctx, i, attribute.Named(fmt.Sprint("w", w)), i); err != nil {
					t.Error(err)
				}
				if w == 2 { // old code
					if _, err := coll.UpdateOne(ctx, d("_id", i), d("$set", d("width", i))); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
	if _, err := a.Adopt(ctx, []attribute.Column{{Path: "width", Key: "width"}}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		all, err := a.GetAll(ctx, i)
		must(t, err)
		slices.SortFunc(all, func(x, y attribute.Attribute[int]) int { return cmpStrings(x.Key, y.Key) })
		want(t, all, []attribute.Attribute[int]{{Key: "new", Value: i}, {Key: "w2", Value: i}, {Key: "w3", Value: i}, {Key: "width", Value: i}})
		want(t, len(testkit.One[bson.D](t, coll, i)), 2)
	}
}

func cmpStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// The reason of a refusal may not hold any more when it is read: then the write is
// tried again, a bounded number of times.
func TestRefusalsThatPass(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var before func(command string) // what another writer does
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if before != nil {
				before(e.CommandName)
			}
		},
	}))
	other := mongotest.Database(t).Client().Database(db.Name()).Collection("c")
	a := newAttributes[int, int](t, db.Collection("c"), nil)
	rival := newAttributes[int, int](t, other, nil)
	insert(t, other, d("_id", 1, "attributes", bson.A{e("k", 1)}))

	for _, c := range []struct {
		call, rival func() error
		want        bson.D
	}{
		{func() error { return a.Add(ctx, 1, attribute.Named("k"), 2) }, func() error { return rival.Remove(ctx, 1, attribute.Named("k")) }, doc(1, e("k", int32(2)))},
		{func() error { return a.Replace(ctx, 1, attribute.Named("l"), 4) }, func() error { return rival.Add(ctx, 1, attribute.Named("l"), 3) }, doc(1, e("k", int32(2)), e("l", int32(4)))},
		{func() error { return a.Remove(ctx, 1, attribute.Named("m")) }, func() error { return rival.Add(ctx, 1, attribute.Named("m"), 6) }, doc(1, e("k", int32(2)), e("l", int32(4)))},
	} {
		done := false
		before = func(command string) {
			if command == "find" && !done {
				done = true
				must(t, c.rival())
			}
		}
		must(t, c.call())
		want(t, done, true)
		want(t, testkit.One[bson.D](t, other, 1), c.want)
	}
	// Nothing of the document blocks the write, then the document is deleted.
	before = func(command string) {
		if command == "find" {
			must(t, errOf(other.DeleteOne(ctx, d("_id", 1))))
		}
	}
	testkit.Is(t, a.Remove(ctx, 1, attribute.Named("m")), mongopatterns.ErrNotFound)
	before = nil
	insert(t, other, doc(1))

	attempts := 0
	before = func(command string) {
		switch command {
		case "update":
			attempts++
			must(t, rival.Set(ctx, 1, attribute.Named("k"), 1))
		case "find":
			must(t, rival.Remove(ctx, 1, attribute.Named("k")))
		}
	}
	testkit.Is(t, a.Add(ctx, 1, attribute.Named("k"), 3), mongopatterns.ErrConflict)
	want(t, attempts, 16)
	want(t, testkit.One[bson.D](t, other, 1), d("_id", int32(1), "attributes", bson.A{}))
}

// A document that leaves the filter between the reading and the writing of its
// batch is left alone.
func TestFilterHoldsWhenWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var rival func()
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "update" && rival != nil {
				rival()
			}
		},
	}))
	other := mongotest.Database(t).Client().Database(db.Name()).Collection("c")
	a := newAttributes[int, int](t, db.Collection("c"), nil)
	before := d("_id", int32(1), "draft", true, "x", int32(1), "attributes", bson.A{e("k", int32(1))})
	draft := d("draft", true)
	column := []attribute.Column{{Path: "x", Key: "x"}}
	for name, call := range map[string]func() (int64, error){
		"RenameKey": func() (int64, error) {
			r, err := a.RenameKey(ctx, "k", "l", &mongopatterns.Work{Filter: draft})
			return r.Skipped, err
		},
		"RemoveKey": func() (int64, error) {
			r, err := a.RemoveKey(ctx, "k", &mongopatterns.Work{Filter: draft})
			return r.Skipped, err
		},
		"Adopt": func() (int64, error) {
			r, err := a.Adopt(ctx, column, &mongopatterns.Work{Filter: draft})
			return r.Skipped, err
		},
		"Unadopt": func() (int64, error) {
			r, err := a.Unadopt(ctx, []attribute.Column{{Path: "y", Key: "k"}}, &mongopatterns.Work{Filter: draft})
			return r.Skipped, err
		},
	} {
		insert(t, other, before)
		rival = func() { must(t, errOf(other.UpdateOne(ctx, d("_id", 1), d("$set", d("draft", false))))) }
		skipped, err := call()
		rival = nil
		must(t, err)
		if skipped != 1 {
			t.Errorf("%s: %d skipped", name, skipped)
		}
		after := slices.Clone(before)
		after[1].Value = false
		want(t, testkit.One[bson.D](t, other, 1), after)
		must(t, errOf(other.DeleteOne(ctx, d("_id", 1))))
	}
}

// Reads that a write depends on ask the primary, whatever the collection's
// preference.
func TestReadsOfWrites(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context() // there is no secondary, so a read from one fails by the client's own limit
	insert(t, db.Collection("c"), d("_id", 1, "attributes", bson.A{e("k", 1), e("k", 2)}))
	a := newAttributes[int, int](t, db.Collection("c", options.Collection().SetReadPreference(readpref.Secondary())),
		&attribute.Options{Indexes: []attribute.Index{{Prefix: []string{"x"}}}})
	cmds := mongotest.Record(t, db, func() {
		testkit.Is(t, a.Add(ctx, 1, attribute.Named("k"), 3), mongopatterns.ErrExists)
		must(t, a.EnsureIndexes(ctx))
		must(t, errOf(a.RenameKey(ctx, "k", "l", nil)))
		must(t, errOf(a.Repair(ctx, nil)))
	})
	reads := 0
	for _, cmd := range cmds {
		if mode, _ := cmd.Body.Lookup("$readPreference", "mode").StringValueOK(); strings.HasPrefix(mode, "secondary") {
			t.Errorf("%s reads with %s", cmd.Name, mode)
		}
		if cmd.Name == "find" || cmd.Name == "aggregate" {
			reads++
		}
	}
	want(t, reads, 3)
}
