package extref_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A between calls a function before a certain command of its client. It does not count those of the stream and its token,
// which Watch sends at any time, nor commits: a move before one could wait for what that transaction has written.
type between struct {
	left atomic.Int64
	do   func()
}

func (b *between) client() *options.ClientOptions {
	return options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		coll, _ := e.Command.Lookup(e.CommandName).StringValueOK()
		if slices.Contains([]string{"find", "update", "findAndModify", "delete"}, e.CommandName) && coll != "tokens" && b.left.Add(-1) == 0 {
			b.do()
		}
	}})
}

// each runs call once for each of its commands, with move before that command, and prepare before all of that.
func (b *between) each(t *testing.T, prepare, move, call func()) {
	t.Helper()
	for at := int64(1); ; at++ {
		prepare()
		moved := false
		b.do = func() { move(); moved = true }
		b.left.Store(at)
		call()
		b.left.Store(0)
		if !moved {
			return
		}
		if t.Failed() {
			t.Fatal("before command ", at)
		}
	}
}

// ways are what propagates outside the transaction of the change.
var ways = []string{"outbox", "watch", "watch over a program without versions", "propagate"}

// follow changes the source 1 and propagates that by one of the ways.
type follow func(name string)

func following(t *testing.T, way string, sources *mongo.Collection, targets []extref.Target) (*extref.Source[int, bson.D], follow) {
	t.Helper()
	db := sources.Database()
	outbox := db.Collection("outbox")
	o := &extref.Options{Deferred: true}
	if way == "outbox" {
		o = &extref.Options{Outbox: outbox}
	}
	r := newRef[int, bson.D](t, sources, targets, o)
	insert(t, sources, d("_id", 1, "name", "start"))
	update := func(name string) { ok[extref.UpdateResult](t)(r.Update(bounded(t), 1, set("name", name))) }
	applied := make(chan bool, 10)
	if way != "outbox" && way != "propagate" {
		reconciled := make(chan bool)
		stop := watching(t, r, db.Collection("tokens"), &extref.WatchOptions{MaxAwait: 20 * time.Millisecond,
			Reconciled: func(tally) { reconciled <- true }, Progress: func(result tally) {
				if result.Examined > 0 { // and not only what a transaction touched
					applied <- true
				}
			}})
		t.Cleanup(stop)
		receive(t, reconciled)
	}
	return r, map[string]follow{
		"outbox": func(name string) {
			update(name)
			ok[tally](t)(r.Drain(bounded(t), &mongopatterns.Work{BatchSize: 1}))
			diff(t, 0, len(entries(t, outbox)))
		},
		"propagate": func(name string) {
			update(name)
			ok[tally](t)(r.Propagate(bounded(t), 1, &mongopatterns.Work{BatchSize: 1}))
		},
		"watch": func(name string) {
			update(name)
			receive(t, applied)
		},
		"watch over a program without versions": func(name string) {
			must(t)(sources.UpdateByID(bounded(t), 1, set("name", name)))
			receive(t, applied)
			if !targets[0].Unversioned {
				receive(t, applied) // that Watch raised the version
			}
		},
	}[way]
}

// Documents go to or come from an archive while a change is propagated, before each command of that: no copy stays
// behind.
func TestMovesToAndFromAnArchive(t *testing.T) {
	t.Parallel()
	for i, way := range ways {
		for j, change := range []func(*extref.Target){func(*extref.Target) {}, unversioned} {
			for k, restored := range []bool{true, false} {
				if !scale.Turn(i+2*j+k, 4) {
					continue // the small run has each way once, and each pair of the others
				}
				name := []string{"versions", "unversioned"}[j]
				t.Run(fmt.Sprint(way, ", ", name, ", restored ", restored), func(t *testing.T) {
					t.Parallel()
					var b between
					db := mongotest.Database(t, b.client())
					other := mongotest.Database(t).Client().Database(db.Name())
					live, old := db.Collection("live"), db.Collection("old")
					a := testkit.Must(archive.New(other.Collection("live"), other.Collection("old"), &archive.Options{TimeField: "at"}))
					must(t)(nil, a.EnsureIndexes(t.Context()))
					var targets []extref.Target
					for _, coll := range []*mongo.Collection{live, old} {
						target := extref.Target{Collection: coll, Path: "source", Fields: []extref.Field{{Path: "name"}}}
						change(&target)
						targets = append(targets, target)
					}
					if !restored {
						slices.Reverse(targets)
					}
					r, follow := following(t, way, db.Collection("sources"), targets)
					moving := d("moving", true)
					move := func() { must(t)(a.Move(bounded(t), moving, nil)) }
					restore := func() { must(t)(a.Restore(bounded(t), moving, nil)) }
					back := restore
					if restored {
						move, back = restore, move
					}
					copied := ok[bson.D](t)(r.Fetch(t.Context(), "live.source", 1))
					insert(t, live, d("_id", 1, "at", time.Now(), "source", copied, "moving", true), d("_id", "live", "source", copied))
					insert(t, old, d("_id", "old", "source", copied))
					n := 0
					b.each(t, back, move, func() {
						n++
						follow(fmt.Sprint("name ", n))
						diff(t, []string{}, problems(t, r))
					})
					if n < 4 {
						t.Errorf("moved before %d commands", n)
					}
				})
			}
		}
	}
}

// The next item comes into the array of its parent while its copy changes, before each command of that.
func TestMovesIntoAnArray(t *testing.T) {
	t.Parallel()
	for i, way := range ways {
		for k, parentsFirst := range []bool{true, false} {
			if !scale.Turn(i+k, 4) {
				continue // TestMovesToAndFromAnArchive has each way
			}
			t.Run(fmt.Sprint(way, ", parents first ", parentsFirst), func(t *testing.T) {
				t.Parallel()
				var b between
				db := mongotest.Database(t, b.client())
				other := mongotest.Database(t).Client().Database(db.Name())
				items := testkit.Must(subset.New[int, bson.D](other.Collection("parents"), other.Collection("items"),
					&subset.Options{ParentField: "parent", ArrayField: "top", N: 1, Sort: d("rank", 1)}))
				must(t)(nil, items.EnsureIndexes(t.Context()))
				fields := []extref.Field{{Path: "name", As: "source.name"}}
				targets := []extref.Target{
					{Collection: db.Collection("items"), IDField: "source._id", VersionField: "source.version", Fields: fields},
					{Collection: db.Collection("parents"), Path: "top", Array: true, IDField: "source._id", VersionField: "source.version", Fields: fields},
				}
				if parentsFirst {
					slices.Reverse(targets)
				}
				r, follow := following(t, way, db.Collection("sources"), targets)
				insert(t, db.Collection("parents"), d("_id", 1))
				copied := ok[bson.D](t)(r.Fetch(t.Context(), "items", 1))
				must(t)(items.Insert(t.Context(), 1, append(d("_id", 2, "rank", 2), copied...)))
				n := 0
				b.each(t,
					func() { must(t)(items.Insert(bounded(t), 1, d("_id", 1, "rank", 1))) },
					func() { must(t)(nil, items.Delete(bounded(t), 1, 1)) },
					func() {
						n++
						follow(fmt.Sprint("name ", n))
						diff(t, []string{}, problems(t, r))
					})
				if n < 4 {
					t.Errorf("moved before %d commands", n)
				}
			})
		}
	}
}

// Documents move all the time: when the outbox is empty, all copies are right.
func TestDrainBesideMoves(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	live, old := db.Collection("live"), db.Collection("old")
	a := testkit.Must(archive.New(live, old, &archive.Options{TimeField: "at"}))
	must(t)(nil, a.EnsureIndexes(t.Context()))
	fields := []extref.Field{{Path: "name"}}
	r, follow := following(t, "outbox", db.Collection("sources"), []extref.Target{
		{Collection: live, Path: "source", Fields: fields}, {Collection: old, Path: "source", Fields: fields}})
	for id := range 8 {
		insert(t, live, d("_id", id, "at", time.Now(), "source", ok[bson.D](t)(r.Fetch(t.Context(), "live.source", 1))))
	}
	ctx, stop := context.WithCancel(bounded(t))
	defer stop()
	var movers sync.WaitGroup
	for i := range 2 {
		movers.Go(func() {
			work := &mongopatterns.Work{BatchSize: 2, Filter: d("_id", d("$mod", bson.A{2, i}))}
			for ctx.Err() == nil {
				_, err := a.Move(ctx, d(), work)
				if err == nil {
					_, err = a.Restore(ctx, d(), work)
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range scale.Of(3, 20, 200) { // TestMovesToAndFromAnArchive has a move before each command
		name := fmt.Sprint("name ", i)
		follow(name)
		must(t)(nil, transaction(t, db, func(ctx context.Context) error {
			for _, coll := range []*mongo.Collection{live, old} {
				n, err := coll.CountDocuments(ctx, d("source.name", d("$ne", name)))
				if err != nil {
					return err
				}
				if n > 0 {
					t.Errorf("%s: %d copies in %s are behind", name, n, coll.Name())
				}
			}
			return nil
		}))
	}
	stop()
	movers.Wait()
	diff(t, []string{}, problems(t, r))
}
