package extref_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// oldCode are changes of team 1 by a program that knows of no version, or has an old one in
// its hands. Each leaves another name than the one before.
func oldCode(teams *mongo.Collection) []func(ctx context.Context, name string) error {
	one := d("_id", 1)
	update := func(update func(name string) any) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			_, err := teams.UpdateOne(ctx, one, update(name))
			return err
		}
	}
	replace := func(more ...bson.E) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			_, err := teams.ReplaceOne(ctx, one, append(team(1, name), more...))
			return err
		}
	}
	again := func(more ...bson.E) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			if _, err := teams.DeleteOne(ctx, one); err != nil {
				return err
			}
			_, err := teams.InsertOne(ctx, append(team(1, name), more...))
			return err
		}
	}
	return []func(context.Context, string) error{
		update(func(name string) any { return set("name", name) }),
		update(func(name string) any { return d("$set", d("name", name), "$unset", d("version", "")) }),
		update(func(name string) any { return set("place", d("city", name)) }),
		update(func(name string) any { return set("name", name, "version", 1) }),
		update(func(name string) any {
			return d("$set", d("place.city", name), "$bit", d("place.n", d("or", 1)), "$min", d("version", 1))
		}),
		update(func(name string) any { return d("$unset", d("name", ""), "$set", d("place.city", name)) }),
		update(func(name string) any { return mongo.Pipeline{set("name", d("$concat", bson.A{name, "$place.city"}))} }),
		replace(), replace(bson.E{Key: "version", Value: 0}), replace(bson.E{Key: "version", Value: int64(2)}),
		again(), again(bson.E{Key: "version", Value: 1}), again(bson.E{Key: "version", Value: nil}),
		update(func(name string) any { return d("$rename", d("name", "was")) }),
		update(func(name string) any { return set("name", name, "version", 100) }),
	}
}

// followed are teams with a copy of team 1 in each of the three targets, twice in the array.
func followed(t *testing.T) (*extref.Ref[int, bson.D], *mongo.Collection, []*mongo.Collection) {
	t.Helper()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, func(target *extref.Target) { target.OnDelete = extref.Keep })
	insert(t, teams, team(1, "one"), team(2, "two"))
	many := ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1))
	for i := range 3 {
		insert(t, colls[0], d("_id", i, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
		insert(t, colls[1], d("_id", i, "teams", bson.A{many, ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 2)), many}))
		insert(t, colls[2], append(d("_id", i), ok[bson.D](t)(r.Fetch(t.Context(), "flat", 1))...))
	}
	return r, teams, colls
}

// watchers run Watch twice. Seen waits until both have been told of all events before it.
func watchers(t *testing.T, r *extref.Ref[int, bson.D], teams *mongo.Collection) (seen, stop func()) {
	t.Helper()
	var stops []func()
	var counts [2]atomic.Int64
	for i := range counts {
		started := make(chan bool, 1)
		stops = append(stops, watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{
			Name: fmt.Sprint("watcher ", i), MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true },
			Progress: func(result tally) {
				counts[i].Add(result.Examined)
				if result.Failed > 0 {
					t.Errorf("%+v", result)
				}
			},
		}))
		receive(t, started)
	}
	next := 1000
	seen = func() {
		t.Helper()
		next++
		before := [2]int64{counts[0].Load(), counts[1].Load()}
		insert(t, teams, team(next, "mark")) // an event after all others
		eventually(t, "seen by both", func() bool { return counts[0].Load() > before[0] && counts[1].Load() > before[1] })
		must(t)(teams.DeleteOne(t.Context(), d("_id", next)))
	}
	return seen, func() { stops[0](); stops[1]() }
}

func version(t *testing.T, teams *mongo.Collection) int64 {
	t.Helper()
	return ok[bson.Raw](t)(teams.FindOne(t.Context(), d("_id", 1)).Raw()).Lookup("version").AsInt64()
}

// Whatever a program that raises no version does to a source reaches the copies, which have
// versions; then two Watchers come to rest.
func TestWatchOldCode(t *testing.T) {
	t.Parallel()
	r, teams, _ := followed(t)
	seen, stop := watchers(t, r, teams)
	for i, change := range oldCode(teams) {
		must(t)(nil, change(bounded(t), fmt.Sprint("name ", i)))
		inSync(t, r)
		before := version(t, teams)
		if again := i % 5; again == 0 {
			seen()
			seen() // the events of the raise as well
			if after := version(t, teams); after != before {
				t.Errorf("change %d: version %d, and %d without a change", i, before, after)
			}
		}
	}
	// A change that shows nothing to the copies raises nothing.
	before := version(t, teams)
	must(t)(teams.UpdateByID(t.Context(), 1, d("$set", d("phone", 1, "place.zip", 2))))
	must(t)(teams.UpdateByID(t.Context(), 1, d("$inc", d("version", 1))))
	inSync(t, r)
	seen()
	if after := version(t, teams); after != before+1 {
		t.Errorf("version %d after %d", after, before)
	}
	stop()
}

// What old code did while Watch was down is found after a saved token.
func TestWatchOldCodeMeanwhile(t *testing.T) {
	t.Parallel()
	r, teams, _ := followed(t)
	seen, stop := watchers(t, r, teams)
	seen()
	stop()
	for i, change := range oldCode(teams) {
		must(t)(nil, change(bounded(t), fmt.Sprint("name ", i)))
		if i%4 != 0 {
			continue
		}
		reconciled := make(chan tally, 10)
		stop := watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{
			Name: "watcher 0", MaxAwait: 20 * time.Millisecond, Reconciled: func(r tally) { reconciled <- r },
		})
		inSync(t, r)
		stop()
		if len(reconciled) > 0 {
			t.Errorf("%+v", <-reconciled)
		}
	}
}

// Old code and new code change a source at random beside two Watchers, one of which is
// stopped and started again; copies end as the source is, and everything comes to rest.
func TestWatchOldAndNewCode(t *testing.T) {
	t.Parallel()
	r, teams, colls := followed(t)
	changes := oldCode(teams)
	changes = changes[:len(changes)-1] // a version that jumps tells nothing more
	seen, stop := watchers(t, r, teams)
	var all sync.WaitGroup
	for writer := range 3 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), 7))
			for i := range 40 {
				name := fmt.Sprint(writer, " ", i)
				var err error
				if writer == 0 {
					_, err = r.Update(context.Background(), 1, set("name", name))
				} else {
					err = changes[random.IntN(len(changes))](context.Background(), name)
				}
				if err != nil && !mongo.IsDuplicateKeyError(err) && !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	third := watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{Name: "third", MaxAwait: 20 * time.Millisecond})
	all.Wait()
	third()
	must(t)(teams.UpdateOne(bounded(t), d("_id", 1), set("name", "last"), options.UpdateOne().SetUpsert(true)))
	inSync(t, r)
	before := version(t, teams)
	seen()
	seen()
	stop()
	if after := version(t, teams); after != before {
		t.Errorf("version %d, and %d without a change", before, after)
	}
	diff(t, []string{}, problems(t, r))
	diff(t, "last", lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
}

// C carries a copy of B's copy of A, all with versions: Watch over B raises B's.
func TestWatchChain(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	brands, products, orderColl := db.Collection("brands"), db.Collection("products"), db.Collection("orders")
	toProducts := newRef[int, bson.D](t, brands, []extref.Target{{Collection: products, Path: "brand", Fields: []extref.Field{{Path: "name"}}}}, nil)
	toOrders := newRef[int, bson.D](t, products, []extref.Target{{Collection: orderColl, Path: "product", Fields: []extref.Field{{Path: "brand.name", As: "brand"}}}}, nil)
	insert(t, brands, d("_id", 1, "name", "Acme"))
	insert(t, products, d("_id", 5, "brand", ok[bson.D](t)(toProducts.Fetch(t.Context(), "products.brand", 1))))
	insert(t, orderColl, d("_id", 7, "product", ok[bson.D](t)(toOrders.Fetch(t.Context(), "orders.product", 5))))
	started := make(chan bool, 1)
	stop := watching(t, toOrders, db.Collection("tokens"), &extref.WatchOptions{MaxAwait: 20 * time.Millisecond, Reconciled: func(tally) { started <- true }})
	receive(t, started)
	for _, name := range []string{"Acme Inc.", "Acme & Sons"} {
		ok[extref.UpdateResult](t)(toProducts.Update(t.Context(), 1, set("name", name)))
		inSync(t, toOrders)
		diff(t, name, lookupD(lookupD(stored(t, orderColl)[0], "product").(bson.D), "brand"))
	}
	stop()
}

// Old code inserts, fills, replaces, deletes and inserts again beside Adopt, which is run
// several times, and changes sources beside Watch. Once it has stopped, a last Adopt and
// Check find every reference that it left, once and as its source is, and nothing else of
// its documents was touched.
func TestAdoptBesideOldCode(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	for i := range 5 {
		insert(t, teams, team(i, fmt.Sprint("team ", i)))
	}
	const writers, rounds = 3, 120
	reference := func(random *rand.Rand, i int, before bson.D) []bson.D { // the three collections' documents
		doc, id := d("_id", before[0].Value, "n", i), random.IntN(5)
		own := []bson.D{d("_id", id), d("_id", id, "name", "as it was"), d("_id", id, "name", "x", "motto", "mine")}[random.IntN(3)]
		return []bson.D{
			append(doc[:2:2], bson.E{Key: "team", Value: own}),
			append(doc[:2:2], bson.E{Key: "teams", Value: bson.A{d("ref", d("id", id)), d("ref", d("id", (id+1)%5), "name", "y")}}),
			append(doc[:2:2], bson.E{Key: "team_id", Value: id}),
		}
	}
	var last [writers][3]map[bson.ObjectID]int // by collection and _id what is stored
	var all sync.WaitGroup
	for writer := range writers {
		for c := range colls {
			last[writer][c] = map[bson.ObjectID]int{}
		}
		all.Go(func() {
			ctx, random := context.Background(), rand.New(rand.NewPCG(uint64(writer), 3))
			for i := range rounds {
				// The clocks of the writers are an hour apart.
				made := bson.NewObjectIDFromTimestamp(time.Now().Add(time.Duration(writer-1) * time.Hour))
				for c, coll := range colls {
					var err error
					mine, id := last[writer][c], made
					if len(mine) > 5 && random.IntN(3) > 0 {
						for id = range mine {
							break
						}
						docs := reference(random, i, d("_id", id))
						switch random.IntN(4) {
						case 0:
							_, err = coll.ReplaceOne(ctx, d("_id", id), docs[c])
						case 1:
							_, err = coll.DeleteOne(ctx, d("_id", id))
							if err == nil {
								_, err = coll.InsertOne(ctx, docs[c])
							}
						case 2:
							update := []any{set("n", i, "team.name", "by hand"), d("$set", d("n", i), "$push", d("teams", d("ref", d("id", 3)))), set("n", i, "team_id", 4)}[c]
							_, err = coll.UpdateOne(ctx, d("_id", id), update)
						case 3:
							_, err = coll.DeleteOne(ctx, d("_id", id))
							delete(mine, id)
							if err == nil {
								continue
							}
						}
					} else {
						_, err = coll.InsertOne(ctx, reference(random, i, d("_id", id))[c])
					}
					if mine[id] = i; err != nil {
						t.Error(err)
					}
				}
				if i%10 == 0 {
					if _, err := teams.UpdateOne(ctx, d("_id", random.IntN(5)), set("name", fmt.Sprint(writer, " ", i))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	stop := watching(t, r, teams.Database().Collection("tokens"), &extref.WatchOptions{MaxAwait: 20 * time.Millisecond})
	adopt := func() (sum tally) {
		for _, target := range []string{"single.team", "many.teams", "flat"} {
			sum.Add(ok[tally](t)(r.Adopt(bounded(t), target, &mongopatterns.Work{BatchSize: 10})))
		}
		return sum
	}
	stopped := make(chan bool)
	go func() { all.Wait(); close(stopped) }()
	for running := true; running; {
		select {
		case <-stopped:
			running = false
		default:
		}
		if result := adopt(); result.Failed+result.Remaining > 0 {
			t.Errorf("%+v", result)
		}
	}
	adopt()
	ok[tally](t)(r.Repair(bounded(t), nil)) // copies that old code wrote to by itself
	inSync(t, r)
	stop()
	for c, coll := range colls {
		have := map[bson.ObjectID]int{}
		for _, doc := range stored(t, coll) {
			have[lookupD(doc, "_id").(bson.ObjectID)] = int(lookupD(doc, "n").(int32))
		}
		want := map[bson.ObjectID]int{}
		for writer := range writers {
			maps.Copy(want, last[writer][c])
		}
		diff(t, want, have)
	}
}

// What no key can be is no copy, in any of the targets: it is named, and nothing matches by it.
func TestStrangeKeys(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]any{"pattern": bson.Regex{Pattern: "^"}, "operators": d("$gt", 0), "undefined": bson.Undefined{}, "array": bson.A{1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, nil)
			insert(t, teams, team(1, "one"))
			insert(t, colls[0], d("_id", 1, "team", d("_id", odd, "name", "x", "version", 0)), d("_id", 2, "team", d("_id", odd)))
			insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", odd)), d("ref", d("id", 1))}))
			insert(t, colls[2], d("_id", 1, "team_id", odd))
			before := stored(t, colls[0])
			if found := problems(t, r); len(found) < 4 {
				t.Error(found)
			}
			for _, target := range []string{"single.team", "many.teams", "flat"} {
				if result := ok[tally](t)(r.Adopt(t.Context(), target, nil)); result.Remaining == 0 && name != "undefined" || result.Done > 1 || result.Failed > 0 {
					t.Errorf("%s: %+v", target, result)
				}
			}
			if result := ok[tally](t)(r.Repair(t.Context(), nil)); result.Remaining != 4 {
				t.Errorf("%+v", result)
			}
			ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
			diff(t, before, stored(t, colls[0]))
			must(t)(colls[1].DeleteMany(t.Context(), d()))
			if _, err := r.Delete(t.Context(), 1); (name == "array") != errors.Is(err, extref.ErrReferenced) { // it holds the key
				t.Error(err)
			}
		})
	}
}
