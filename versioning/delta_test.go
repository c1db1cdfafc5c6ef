package versioning_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

const long = "some text that makes a delta smaller than the whole document"

// With deltas, code that changes or removes the current document without this package makes the
// revisions back to the last whole one unreadable; none is read wrong. All others stay, and the
// document can still be saved.
func TestDeltasBesidePlainWrites(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]int64{"change": {5, 6}, "ignored": nil, "ignored names change": nil, "deletion": {5, 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := mongotest.Database(t)
			opts := &versioning.Options{SnapshotEvery: 4, Ignored: []string{"last_seen"}}
			d := helper[string, counter](t, db, opts)
			r := get(t)(d.Insert(ctx, counter{ID: "a", Note: long}, nobody))
			for range 6 {
				r.Document.N++
				r = get(t)(d.Save(ctx, r, nobody))
			}
			coll := db.Collection("current")
			update := func(field string, v any) {
				t.Helper()
				if _, err := coll.UpdateOne(ctx, d.Filter("a"), bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: v}}}}); err != nil {
					t.Fatal(err)
				}
			}
			last := int64(7)
			switch name {
			case "change":
				update("note", "plain")
			case "ignored":
				update("last_seen", month(1))
			case "ignored names change": // deltas made before cannot be checked, and are accepted
				d = helper[string, counter](t, db, &versioning.Options{SnapshotEvery: 4, Ignored: []string{"last_seen", "seen"}})
				update("seen", 5)
			case "deletion":
				remove(t, coll, d.Filter("a"))
				last = 6
			}
			for n := int64(1); n <= last; n++ {
				r, err := d.At(ctx, "a", n)
				if slices.Contains(lost, n) {
					wantErr(t, fmt.Sprint("at ", n), err, versioning.ErrInconsistent)
				} else if err != nil || r.Document.N != int(n)-1 {
					t.Errorf("at %d: %+v, %v", n, r, err)
				}
			}
			for _, r := range testkit.Collect(t, d.Revisions(ctx, "a")) {
				if r.Lost != slices.Contains(lost, r.Number) || r.Lost && r.Document.ID != "" {
					t.Errorf("history: %+v", r)
				}
			}
			var broken int
			for _, p := range testkit.Collect(t, d.Check(ctx, of("a"))) {
				if p.Kind == versioning.BrokenDelta {
					broken++
				} else if name != "deletion" || p.Kind != versioning.NoDeletion {
					t.Errorf("%v", p)
				}
			}
			if broken != len(lost) {
				t.Errorf("%d broken deltas", broken)
			}
			if name == "deletion" {
				if r := get(t)(d.Restore(ctx, "a", 4, nobody)); r.Number != 8 || r.Document.N != 3 {
					t.Errorf("%+v", r)
				}
			} else if r := get(t)(d.Edit(ctx, "a", func(c *counter) error { c.N = 70; return nil }, nobody)); r.Number != 8 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A revision of many deltas is read in the memory of some documents, not of one for each delta.
func TestMemoryOfAChain(t *testing.T) { // not in parallel: it measures what the process holds
	ctx, db := t.Context(), mongotest.Database(t)
	h := testkit.Must(versioning.New[int, bson.D](db.Collection("current"), db.Collection("revisions"), &versioning.Options{SnapshotEvery: 1000}))
	const size, edits = 1 << 19, 50
	inside := func(n int) bson.D {
		return bson.D{{Key: "text", Value: strings.Repeat("x", size)}, {Key: "n", Value: n}}
	}
	testkit.Must(h.Insert(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "in", Value: inside(0)}}, nobody))
	for n := range edits {
		testkit.Must(h.Edit(ctx, 1, func(doc *bson.D) error { (*doc)[1].Value = inside(n + 1); return nil }, nobody))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC() // what the edits have left does not count
	var most uint64
	done, measured := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	r, err := h.At(ctx, 1, 1)
	close(done)
	<-measured
	testkit.OK(t, err)
	if in, _ := r.Document[1].Value.(bson.D); len(in) != 2 || in[1].Value != int32(0) {
		t.Errorf("%v", r.Document[1].Key)
	}
	if most > edits*size/2 {
		t.Errorf("it holds up to %d KiB for a document of %d", most>>10, size>>10)
	}
}
