package extref_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// people refers to teams in three ways: a single reference, an array, and flat.
func people(t *testing.T, o *extref.Options, change func(*extref.Target), client ...*options.ClientOptions) (*extref.Ref[int, bson.D], *mongo.Collection, []*mongo.Collection) {
	t.Helper()
	teams := mongotest.Database(t, client...).Collection("teams")
	r, colls := peopleOf(t, teams, o, change)
	return r, teams, colls
}

func peopleOf(t *testing.T, teams *mongo.Collection, o *extref.Options, change func(*extref.Target)) (*extref.Ref[int, bson.D], []*mongo.Collection) {
	t.Helper()
	db := teams.Database()
	single, many, flat := db.Collection("single"), db.Collection("many"), db.Collection("flat")
	fields := []extref.Field{{Path: "name"}, {Path: "place.city", As: "city"}, {Path: "motto", Policy: extref.Freeze}}
	targets := []extref.Target{
		{Collection: single, Path: "team", Fields: fields},
		{Collection: many, Path: "teams", Array: true, IDField: "ref.id", VersionField: "ref.v", Fields: fields},
		{Collection: flat, IDField: "team_id", VersionField: "team_version", Fields: []extref.Field{{Path: "name", As: "team.name"}}},
	}
	for i := range targets {
		if change != nil {
			change(&targets[i])
		}
	}
	return newRef[int, bson.D](t, teams, targets, o), []*mongo.Collection{single, many, flat}
}

func unversioned(target *extref.Target) { target.Unversioned, target.VersionField = true, "" }

func team(id int, name string) bson.D {
	return d("_id", i32(id), "name", name, "place", d("city", "Berlin"), "motto", "first")
}

func problems(t *testing.T, r *extref.Ref[int, bson.D]) []string {
	t.Helper()
	out := []string{}
	for _, p := range collect(t, r.Check(t.Context(), nil)) {
		out = append(out, p.String())
	}
	return out
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	keep := func(target *extref.Target) { target.OnDelete = extref.Keep }
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

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, append(team(1, "one"), bson.E{Key: "version", Value: int64(3)}), team(2, "two"))
	insert(t, colls[0],
		d("_id", 1, "team", d("_id", 1, "name", "one", "city", "Berlin", "version", 3)),
		d("_id", 2, "team", d("_id", 1, "name", "old", "city", "Berlin", "motto", "old", "version", 1)),
		d("_id", 3, "team", d("_id", 9, "version", 1)),
		d("_id", 4, "team", d("_id", 2, "name", "two")))
	insert(t, colls[1], d("_id", 1, "teams", bson.A{
		d("ref", d("id", 1, "v", 3), "name", "one"),
		d("ref", d("id", 2, "v", 4), "name", "newer", "city", "Berlin"),
	}))
	diff(t, []string{
		`extref: single 2: behind: team.version is 1, want 3: copy of 1`,
		`extref: single 3: dangling: team._id is 9`,
		`extref: single 4: no version: team.version is missing, want 0: copy of 2`,
		`extref: many 1: ahead: teams.ref.v is 4, want 0: copy of 2`,
		`extref: many 1: different: teams.city is missing, want "Berlin": copy of 1`,
	}, problems(t, r))

	var done []int64
	result := ok[tally](t)(r.Repair(t.Context(), &mongopatterns.Work{BatchSize: 3, Progress: func(r tally) { done = append(done, r.Examined) }}))
	// Document 2 is behind; team 1 is raised for the array, which writes its
	// three documents; team 2 is raised above 4.
	diff(t, tally{Examined: 5, Done: 1 + 3 + 1, Remaining: 2}, result)
	diff(t, []int64{3, 4, 5}, done)
	diff(t, []string{
		`extref: single 3: dangling: team._id is 9`,
		`extref: single 4: no version: team.version is missing, want 5: copy of 2`,
	}, problems(t, r))
	diff(t, bson.A{
		d("ref", d("id", i32(1), "v", int64(4)), "name", "one", "city", "Berlin"),
		d("ref", d("id", i32(2), "v", int64(5)), "name", "two", "city", "Berlin"),
	}, lookupD(stored(t, colls[1])[0], "teams"))
	diff(t, d("_id", i32(1), "name", "one", "city", "Berlin", "motto", "old", "version", int64(4)), lookupD(stored(t, colls[0])[1], "team"))
}

func TestCheckUnversioned(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	insert(t, teams, team(1, "one"), team(2, "two"))
	insert(t, colls[0], d("_id", 1, "team", d("_id", 1, "name", "one", "city", "Berlin")), d("_id", 2, "team", d("_id", 2, "name", "two", "city", nil)))
	insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", 2), "name", "2", "city", "Berlin")}))
	insert(t, colls[2], d("_id", 1, "team_id", 2, "team", d("name", int32(2))))
	if got := problems(t, r); len(got) != 3 {
		t.Errorf("%v", got)
	}
	diff(t, tally{Examined: 4, Done: 3}, ok[tally](t)(r.Repair(t.Context(), nil)))
	diff(t, []string{}, problems(t, r))
	diff(t, []bson.D{team(1, "one"), team(2, "two")}, stored(t, teams))
}

// A change that arrives between Check's reads is no problem.
func TestCheckLooksAgain(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	for i := range 3 {
		insert(t, colls[0], d("_id", i, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	}
	limit := bounded(t)
	stop, stopped := context.WithCancel(limit)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for i := 0; stop.Err() == nil; i++ {
			if _, err := r.Update(limit, 1, set("name", i)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 15 {
		diff(t, []string{}, problems(t, r))
	}
	stopped()
	<-finished
}

// Nor is one that arrives between any of them, where copies have no version.
func TestCheckUnversionedLooksAgain(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	insert(t, teams, team(1, "a"), team(2, "two"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", 2), "name", "wrong", "city", "Berlin")}))
	sent := 0
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("find", func() {
		if sent++; sent == 2 || sent == 3 { // before the source is read, and before the copies are again
			if _, err := r.Update(t.Context(), 1, set("name", sent)); err != nil {
				t.Error(err)
			}
		}
	}))).Client().Database(teams.Database().Name())
	same, err := extref.New[int, bson.D](hooked.Collection("teams"), []extref.Target{
		{Collection: hooked.Collection("single"), Path: "team", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
		{Collection: hooked.Collection("many"), Path: "teams", Array: true, IDField: "ref.id", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{
		`extref: many 1: different: teams.name is "wrong", want "two": copy of 2`,
	}, problems(t, same))
	if sent != 8 {
		t.Errorf("%d reads", sent)
	}
}

// A source without a usable version is told, and stops nothing else.
func TestBadSource(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, append(team(1, "one"), bson.E{Key: "version", Value: "1.0"}), append(team(2, "two"), bson.E{Key: "version", Value: 2}))
	for id := range 2 {
		insert(t, colls[0], d("_id", id, "team", d("_id", id+1, "name", "old", "version", 1)))
	}
	insert(t, colls[2], d("_id", 1, "team_id", 1))
	diff(t, []string{
		`extref: single 0: bad source: version is "1.0": copy of 1`,
		`extref: single 1: behind: team.version is 1, want 2: copy of 2`,
		`extref: flat 1: bad source: version is "1.0": copy of 1`,
	}, problems(t, r))
	diff(t, tally{Examined: 3, Done: 1, Remaining: 2}, ok[tally](t)(r.Repair(t.Context(), nil)))
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Adopt(t.Context(), "flat", nil)))
}

// Versions from 0 to the last but one: above that no copy could be behind any more.
func TestVersionRange(t *testing.T) {
	t.Parallel()
	const last = int64(math.MaxInt64 - 1)
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, append(team(1, "one"), bson.E{Key: "version", Value: last}),
		append(team(2, "two"), bson.E{Key: "version", Value: last + 1}),
		append(team(3, "three"), bson.E{Key: "version", Value: int64(-3)}),
		append(team(4, "four"), bson.E{Key: "version", Value: 4}))
	insert(t, colls[0],
		d("_id", 1, "team", d("_id", 1, "name", "old", "city", "Berlin", "version", last)), d("_id", 2, "team", d("_id", 2, "name", "old", "version", 1)),
		d("_id", 3, "team", d("_id", 3, "name", "old", "version", 1)),
		d("_id", 4, "team", d("_id", 4, "name", "old", "version", last)), d("_id", 5, "team", d("_id", 4, "name", "old", "version", last+1)),
		d("_id", 6, "team", d("_id", 4, "name", "old", "version", -3)))
	sources, copies := stored(t, teams), stored(t, colls[0])
	for name, try := range map[string]func() error{
		"raised above":        func() error { return second(r.Update(t.Context(), 1, set("name", "new"))) },
		"replaced and raised": func() error { return second(r.Update(t.Context(), 1, replacement(team(1, "new")))) },
		"set above":           func() error { return second(r.Update(t.Context(), 4, set("version", last+1))) },
		"set to a double":     func() error { return second(r.Update(t.Context(), 4, set("version", float64(1<<63)))) },
		"set below":           func() error { return second(r.Update(t.Context(), 4, set("version", -1))) },
		"replaced by it": func() error {
			return second(r.Update(t.Context(), 4, replacement(append(team(4, "x"), bson.E{Key: "version", Value: -1}))))
		},
		"above":      func() error { return second(r.Update(t.Context(), 2, set("name", 1))) },
		"below":      func() error { return second(r.Update(t.Context(), 3, set("name", "new"))) },
		"propagated": func() error { return second(r.Propagate(t.Context(), 2, nil)) },
	} {
		if err := try(); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `"version" is `) {
			t.Errorf("%s: %v", name, err)
		}
	}
	diff(t, sources, stored(t, teams))
	diff(t, copies, stored(t, colls[0]))
	diff(t, extref.UpdateResult{Version: last}, ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("phone", 1))))
	diff(t, extref.UpdateResult{Version: 4}, ok[extref.UpdateResult](t)(r.Update(t.Context(), 4, set("version", 1)))) // not kept
	left := []string{
		`extref: single 2: bad source: version is 9223372036854775807: copy of 2`,
		`extref: single 3: bad source: version is -3: copy of 3`,
		`extref: single 4: no version: team.version is 9223372036854775806, want 4: copy of 4`,
		`extref: single 5: no version: team.version is 9223372036854775807, want 4: copy of 4`,
	}
	different := `extref: single 1: different: team.name is "old", want "one": copy of 1`
	diff(t, append([]string{different}, append(left, `extref: single 6: behind: team.version is -3, want 4: copy of 4`)...), problems(t, r))
	result := ok[tally](t)(r.Repair(t.Context(), nil))
	if len(result.Failures) != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrInvalid) || result.Failures[0].ID.AsInt64() != 1 {
		t.Error(result)
	}
	result.Failures = nil
	diff(t, tally{Examined: 6, Done: 1, Remaining: 4, Failed: 1}, result)
	diff(t, append([]string{different}, left...), problems(t, r))
	diff(t, int64(4), ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 4))[4].Value)
}

// Sources that the server refuses to raise keep no others from being repaired.
func TestRepairPassesRefusedSources(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	for id, version := range []int{0, 1, 2, 5} {
		if id > 0 {
			insert(t, teams, append(team(id, "new"), bson.E{Key: "version", Value: version}))
		}
	}
	must(t)(teams.Indexes().CreateOne(t.Context(), unique("version")))
	for id, version := range []int{0, 1, 4, 1} { // different: to 2; ahead: to 5; behind
		if id > 0 {
			insert(t, colls[0], d("_id", id, "team", d("_id", id, "name", "old", "version", version)))
		}
	}
	result := ok[tally](t)(r.Repair(t.Context(), nil))
	if len(result.Failures) != 2 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) || !mongo.IsDuplicateKeyError(result.Failures[1].Err) {
		t.Error(result)
	}
	result.Failures = nil
	diff(t, tally{Examined: 3, Done: 1, Failed: 2}, result)
	diff(t, "new", lookupD(lookupD(stored(t, colls[0])[2], "team").(bson.D), "name"))
}

// References to a source that cannot be copied from keep no others from being
// adopted, in one batch with them or before them.
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
			for _, p := range collect(t, r.Check(t.Context(), nil)) {
				if p.Kind != extref.BadSource {
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

// What has a version is adopted already: a frozen field it lacks stays so.
func TestAdoptLeavesTheAdopted(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	adopted := d("ref", d("id", 1, "v", int64(0)), "name", "one", "city", "Berlin")
	insert(t, colls[1], d("_id", 1, "teams", bson.A{d("ref", d("id", 1)), adopted}))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "many.teams", nil)))
	diff(t, sorted([]bson.D{d("_id", 1, "teams", bson.A{append(adopted, bson.E{Key: "motto", Value: "first"}), adopted})}), sorted(stored(t, colls[1])))
}

// What the server refuses to fill in is named and passed over.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", d("_id", 1, "name", "one")), d("_id", 2, "team", d("_id", 1)))
	must(t)(colls[0].Indexes().CreateOne(t.Context(), unique("team.name")))
	before := stored(t, colls[0])
	result := ok[tally](t)(r.Adopt(t.Context(), "single.team", nil))
	if result.Done != 1 || result.Failed != 1 || result.Failures[0].ID.AsInt64() != 2 || !mongo.IsDuplicateKeyError(result.Failures[0].Err) {
		t.Error(result)
	}
	diff(t, before[1], stored(t, colls[0])[1])
	diff(t, []bson.D{append(team(1, "one"), bson.E{Key: "version", Value: int64(0)})}, stored(t, teams))
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

// Iterators end where the loop does, and after an error.
func TestIterators(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	r, customers, _ := orders(t, db, 3, &extref.Options{Deferred: true})
	for c := range 3 {
		ok[extref.UpdateResult](t)(r.Update(t.Context(), c, set("name", "new")))
	}
	must(t)(customers.DeleteOne(t.Context(), d("_id", 0)))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	count := func(ctx context.Context, stop int) (found, failed int) {
		next := func(err error) bool {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				failed++
			} else {
				found++
			}
			return found < stop
		}
		for _, err := range r.Check(ctx, nil) {
			if !next(err) {
				break
			}
		}
		return found, failed
	}
	for _, want := range []struct{ stop, found, failed int }{{1, 1, 0}, {99, 9, 0}} {
		if found, failed := count(t.Context(), want.stop); found != want.found || failed != want.failed {
			t.Errorf("%d found, %d failed, want %+v", found, failed, want)
		}
	}
	if found, failed := count(canceled, 99); found != 0 || failed != 1 {
		t.Errorf("canceled: %d found, %d failed", found, failed)
	}
}
