package extref_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Old code inserts, fills, replaces, deletes and inserts again beside Adopt, which is run
// several times, and changes sources beside Watch. After it has stopped, a last Adopt and
// Check find every reference that it left, once and equal to its source; no other field of
// its documents was changed.
func TestAdoptBesideOldCode(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	for i := range 5 {
		insert(t, teams, team(i, fmt.Sprint("team ", i)))
	}
	const writers = 3
	rounds := scale.Of(20, 120, 1000)
	var kinds [5]atomic.Int64
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
						kind := random.IntN(4)
						kinds[kind].Add(1)
						switch kind {
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
						kinds[4].Add(1)
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
			maintain.Add(&sum, ok[tally](t)(r.Adopt(bounded(t), target, &mongopatterns.Work{BatchSize: 10})))
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
	for kind := range kinds {
		if kinds[kind].Load() == 0 {
			t.Errorf("no write of kind %d", kind)
		}
	}
	adopt()
	ok[tally](t)(r.Repair(bounded(t), nil)) // copies that old code wrote to by itself
	inSync(t, r)
	stop()
	for c, coll := range colls {
		have := map[bson.ObjectID]int{}
		for _, doc := range stored(t, coll) {
			have[testkit.Get(doc, "_id").(bson.ObjectID)] = int(testkit.Get(doc, "n").(int32))
		}
		want := map[bson.ObjectID]int{}
		for writer := range writers {
			maps.Copy(want, last[writer][c])
		}
		diff(t, want, have)
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	keep := func(target *extref.Target) { target.OnDelete = mongopatterns.Keep }
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned, "keep": keep} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, team(1, "one"), append(team(2, "two"), bson.E{Key: "version", Value: 5}))
			insert(t, colls[0],
				d("_id", 1, "team", d("_id", 1)),
				d("_id", 2, "team", d("_id", int64(2), "motto", "mine", "name", "old")),
				d("_id", 3, "team", d("_id", 3)), d("_id", 4), d("_id", 5, "team", nil))
			insert(t, colls[1],
				d("_id", 1, "teams", bson.A{d("ref", d("id", 1)), d("ref", d("id", 2), "motto", nil), d("ref", d("id", 1), "motto", "mine"), d("ref", d("id", 3))}),
				d("_id", 2, "teams", bson.A{}))
			insert(t, colls[2], d("_id", 1, "team_id", 1))
			v := func(pairs ...any) bson.D { // without versions
				out := bson.D{}
				for _, e := range d(pairs...) {
					if name != "unversioned" || (e.Key != "version" && e.Key != "v" && e.Key != "team_version") {
						out = append(out, e)
					}
				}
				return out
			}
			var done []int64
			opts := &mongopatterns.Work{BatchSize: 2, Progress: func(r tally) { done = append(done, r.Examined) }}
			diff(t, tally{Examined: 3, Done: 2, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", opts)))
			diff(t, []int64{2, 3}, done)
			diff(t, tally{Examined: 1, Done: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", nil)))
			diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "flat", nil)))
			diff(t, sorted([]bson.D{
				d("_id", 1, "team", v("_id", 1, "name", "one", "city", "Berlin", "motto", "first", "version", int64(0))),
				d("_id", 2, "team", v("_id", int64(2), "motto", "mine", "name", "two", "city", "Berlin", "version", int64(5))),
				d("_id", 3, "team", d("_id", 3)), d("_id", 4), d("_id", 5, "team", nil),
			}), sorted(stored(t, colls[0])))
			diff(t, sorted([]bson.D{
				d("_id", 1, "teams", bson.A{
					d("ref", v("id", 1, "v", int64(0)), "name", "one", "city", "Berlin", "motto", "first"),
					d("ref", v("id", 2, "v", int64(5)), "name", "two", "city", "Berlin", "motto", nil),
					d("ref", v("id", 1, "v", int64(0)), "name", "one", "city", "Berlin", "motto", "mine"),
					d("ref", d("id", 3)),
				}),
				d("_id", 2, "teams", bson.A{}),
			}), sorted(stored(t, colls[1])))
			diff(t, sorted([]bson.D{v("_id", 1, "team_id", 1, "team", d("name", "one"), "team_version", int64(0))}), sorted(stored(t, colls[2])))
			one := team(1, "one")
			if name != "unversioned" {
				one = append(one, bson.E{Key: "version", Value: int64(0)})
			}
			diff(t, sorted([]bson.D{one, append(team(2, "two"), bson.E{Key: "version", Value: 5})}), sorted(stored(t, teams)))
			for _, target := range []string{"single.team", "many.teams", "flat"} {
				if again := ok[tally](t)(r.Adopt(t.Context(), target, nil)); again.Done != 0 {
					t.Errorf("%s again: %+v", target, again)
				}
			}
		})
	}
}

// Check names the copies that Adopt overwrites. Adopt leaves a copy whose value the source lacks, as Check says,
// also beside other copies of the same source, until somebody decides.
func TestAdoptLeavesTheOnlyValue(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, d("_id", 1), d("_id", 2, "name", nil), team(3, "new"))
	insert(t, colls[0],
		d("_id", 1, "team", d("_id", 1, "name", "only here")), d("_id", 2, "team", d("_id", 2, "name", "only here")),
		d("_id", 3, "team", d("_id", 3, "name", "maiden")), d("_id", 4, "team", d("_id", 1)), d("_id", 5, "team", d("_id", 3, "name", "new")))
	left := d("ref", d("id", i32(1)), "name", "only here")
	insert(t, colls[1], d("_id", 1, "teams", bson.A{left, d("ref", d("id", 1)), left}))
	check := func() (out []string) {
		for _, p := range testkit.Collect(t, r.Check(t.Context(), nil)) {
			if p.Kind == extref.NoVersion && !p.Have.IsZero() {
				out = append(out, p.String())
			}
		}
		return out
	}
	stay := []string{
		`extref: single 1: no version: team.name is "only here": copy of 1`,
		`extref: single 2: no version: team.name is "only here", want null: copy of 2`,
	}
	many := `extref: many 1: no version: teams.name is "only here": copy of 1`
	overwritten := `extref: single 3: no version: team.name is "maiden", want "new": copy of 3`
	diff(t, append(slices.Clone(stay), overwritten, many), check())
	for _, dry := range []bool{true, false} {
		work := &mongopatterns.Work{DryRun: dry}
		diff(t, tally{Examined: 5, Done: 3, Remaining: 2}, ok[tally](t)(r.Adopt(t.Context(), "single.team", work)))
		diff(t, tally{Examined: 1, Done: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", work)))
	}
	diff(t, append(slices.Clone(stay), many), check())
	diff(t, tally{Examined: 2, Remaining: 2}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, d("teams", bson.A{left, d("ref", d("id", i32(1), "v", int64(0))), left}), stored(t, colls[1])[0][1:])
	diff(t, wrote(0).Done, ok[tally](t)(r.Repair(t.Context(), nil)).Done)

	must(t)(teams.UpdateByID(t.Context(), 1, set("name", "decided")))
	must(t)(colls[0].UpdateByID(t.Context(), 2, d("$unset", d("team.name", ""))))
	diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", nil)))
	diff(t, []string(nil), check())
}

// A source that loses a value while its references are adopted leaves the copies their values.
func TestAdoptBesideAnUnset(t *testing.T) {
	t.Parallel()
	_, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", d("_id", 1, "name", "only here")))
	var once sync.Once
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("update", func() {
		once.Do(func() { must(t)(teams.UpdateByID(t.Context(), 1, d("$unset", d("name", "")))) })
	}))).Client().Database(teams.Database().Name())
	r, err := extref.New[int, bson.D](hooked.Collection("teams"), []extref.Target{
		{Collection: hooked.Collection("single"), Path: "team", Fields: []extref.Field{{Path: "name"}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, []bson.D{d("_id", i32(1), "team", d("_id", i32(1), "name", "only here"))}, stored(t, colls[0]))
}

// References to an invalid source do not keep others from being adopted, in the same batch or
// after it.
func TestAdoptPassesBadSources(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, team(1, "one"), d("_id", 2, "name", "two", "version", 1, "place", bson.A{d("city", "Berlin")}))
			if change == nil {
				insert(t, teams, append(team(3, "three"), bson.E{Key: "version", Value: "x"}))
			}
			for id := range 12 {
				source := 1
				if id%5 == 0 {
					source = 2
				} else if id == 4 && change == nil {
					source = 3
				}
				insert(t, colls[0], d("_id", id, "team", d("_id", source)))
			}
			insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", 2)), d("ref", d("id", 1)), d("ref", d("id", 2))}))
			want := tally{Examined: 12, Done: 9, Remaining: 3}
			if change == nil {
				want.Done, want.Remaining = 8, 4
			}
			diff(t, want, ok[tally](t)(r.Adopt(t.Context(), "single.team", &mongopatterns.Work{BatchSize: 2})))
			diff(t, tally{Examined: 1, Done: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", nil)))
			if n, err := colls[0].CountDocuments(t.Context(), d("team.name", "one")); err != nil || n != want.Done {
				t.Errorf("%d adopted, %v", n, err)
			}
			bad := int64(0)
			for _, p := range testkit.Collect(t, r.Check(t.Context(), nil)) {
				if p.Kind != mongopatterns.Malformed {
					t.Error(p)
				}
				bad++
			}
			if bad != want.Remaining+1 {
				t.Errorf("%d problems", bad)
			}
		})
	}
}

// A copy with a version is adopted already: a missing frozen field stays missing.
func TestAdoptLeavesTheAdopted(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	adopted := d("ref", d("id", 1, "v", int64(0)), "name", "one", "city", "Berlin")
	insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", 1)), adopted}))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", nil)))
	diff(t, sorted([]bson.D{d("_id", 1, "teams", bson.A{append(adopted, bson.E{Key: "motto", Value: "first"}), adopted})}), sorted(stored(t, colls[1])))
}

// A document that the server refuses is named and passed over; with Work.Strict it ends the call.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", d("_id", 1, "name", "one")), d("_id", 2, "team", d("_id", 1)))
	must(t)(colls[0].Indexes().CreateOne(t.Context(), testkit.Unique("team.name")))
	before := stored(t, colls[0])
	result := ok[tally](t)(r.Adopt(t.Context(), "single.team", nil))
	if result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) {
		t.Error(result)
	}
	diff(t, before[1], stored(t, colls[0])[1])
	diff(t, []bson.D{append(team(1, "one"), bson.E{Key: "version", Value: int64(0)})}, stored(t, teams))
	if result, err := r.Adopt(t.Context(), "single.team", &mongopatterns.Work{Strict: true}); !mongo.IsDuplicateKeyError(err) || result.Done != 0 {
		t.Errorf("strict: %+v, %v", result, err)
	}
}

// A source that turns bad while its references are adopted fills in none, and what
// another writer has filled in meanwhile stays.
func TestAdoptBesideOthers(t *testing.T) {
	t.Parallel()
	_, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"), team(2, "two"))
	insert(t, colls[0], d("_id", 1, "team", d("_id", 1)), d("_id", 2, "team", d("_id", 2)))
	filled := d("_id", i32(2), "name", "newer", "version", int64(5))
	once := 0
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("update", func() {
		if once++; once == 1 {
			must(t)(teams.UpdateByID(t.Context(), 1, set("version", "x")))
			must(t)(colls[0].UpdateByID(t.Context(), 2, set("team", filled)))
		}
	}))).Client().Database(teams.Database().Name())
	r, err := extref.New[int, bson.D](hooked.Collection("teams"), []extref.Target{
		{Collection: hooked.Collection("single"), Path: "team", Fields: []extref.Field{{Path: "name"}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, tally{Examined: 2, Done: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, []bson.D{d("_id", i32(1), "team", d("_id", i32(1))), d("_id", i32(2), "team", filled)}, stored(t, colls[0]))
	diff(t, []bson.D{append(team(1, "one"), bson.E{Key: "version", Value: "x"}), append(team(2, "two"), bson.E{Key: "version", Value: int64(0)})}, stored(t, teams))
}
