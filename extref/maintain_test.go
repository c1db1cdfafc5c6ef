package extref_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// people refers to teams in three ways: a single reference, an array, and flat.
func people(t *testing.T, o *extref.Options, change func(*extref.Target), client ...*options.ClientOptions) (*extref.Source[int, bson.D], *mongo.Collection, []*mongo.Collection) {
	t.Helper()
	teams := mongotest.Database(t, client...).Collection("teams")
	r, colls := peopleOf(t, teams, o, change)
	return r, teams, colls
}

func peopleOf(t *testing.T, teams *mongo.Collection, o *extref.Options, change func(*extref.Target)) (*extref.Source[int, bson.D], []*mongo.Collection) {
	t.Helper()
	db := teams.Database()
	single, many, flat := db.Collection("single"), db.Collection("many"), db.Collection("flat")
	fields := []extref.Field{{Path: "name"}, {Path: "place.city", As: "city"}, {Path: "motto", Frozen: true}}
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

func problems(t *testing.T, r *extref.Source[int, bson.D]) []string {
	t.Helper()
	out := []string{}
	for _, p := range testkit.Collect(t, r.Check(t.Context(), nil)) {
		out = append(out, p.String())
	}
	return out
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
	}, testkit.Get(stored(t, colls[1])[0], "teams"))
	diff(t, d("_id", i32(1), "name", "one", "city", "Berlin", "motto", "old", "version", int64(4)), testkit.Get(stored(t, colls[0])[1], "team"))
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

// A change that arrives between Check's reads is not a problem.
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

// Nor is one between any of its reads, where copies have no version.
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
	if sent != 11 {
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
		`extref: single 0: malformed: version is "1.0": copy of 1`,
		`extref: single 1: behind: team.version is 1, want 2: copy of 2`,
		`extref: flat 1: malformed: version is "1.0": copy of 1`,
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
		`extref: single 2: malformed: version is 9223372036854775807: copy of 2`,
		`extref: single 3: malformed: version is -3: copy of 3`,
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

// Sources that the server refuses to raise do not keep others from being repaired.
func TestRepairPassesRefusedSources(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	for id, version := range []int{0, 1, 2, 5} {
		if id > 0 {
			insert(t, teams, append(team(id, "new"), bson.E{Key: "version", Value: version}))
		}
	}
	must(t)(teams.Indexes().CreateOne(t.Context(), testkit.Unique("version")))
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
	diff(t, "new", testkit.Get(testkit.Get(stored(t, colls[0])[2], "team").(bson.D), "name"))
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

// Check and Repair of one source, and what a dry run would do.
func TestWork(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	for id := range 3 {
		insert(t, teams, team(id, "old"))
		insert(t, colls[0], d("_id", id, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", id)), "open", id > 0))
		insert(t, colls[1], d("_id", id, "teams", bson.A{
			ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", id)), ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 0)),
		}))
		ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("name", "new")))
	}
	insert(t, colls[0], d("_id", 7, "team", d("_id", 7, "version", 1)))
	one := &mongopatterns.Work{Filter: bson.M{"_id": 1}}
	var found []string
	for _, p := range testkit.Collect(t, r.Check(t.Context(), one)) {
		found = append(found, p.String())
	}
	diff(t, []string{
		"extref: single 1: behind: team.version is 0, want 1: copy of 1", "extref: many 1: behind: teams.ref.v is 0, want 1: copy of 1",
	}, found)
	all := len(problems(t, r))
	dry := mongopatterns.Work{DryRun: true}
	diff(t, tally{Examined: 7, Done: 6, Remaining: 1}, ok[tally](t)(r.Repair(t.Context(), &dry)))
	var progress []int64
	watched := mongopatterns.Work{DryRun: true, Progress: func(r tally) { progress = append(progress, r.Done) }}
	diff(t, wrote(2), ok[tally](t)(r.Propagate(t.Context(), 1, &watched)))
	diff(t, []int64{1, 2, 2}, progress)
	diff(t, all, len(problems(t, r)))
	diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(r.Repair(t.Context(), one)))
	diff(t, all-2, len(problems(t, r)))
	// Only some of the documents.
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Propagate(t.Context(), 2, &mongopatterns.Work{Filter: d("open", true)})))
	must(t)(colls[0].UpdateMany(t.Context(), d(), d("$unset", d("team.version", ""))))
	diff(t, tally{Examined: 3, Done: 3}, ok[tally](t)(r.Adopt(t.Context(), "single.team", &mongopatterns.Work{DryRun: true, Filter: d("_id", d("$lt", 3))})))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", &mongopatterns.Work{Filter: d("_id", 2)})))
	for p, err := range mongopatterns.CheckAll(t.Context(), r) {
		if err != nil || p.Pattern != "extref" || p.Collection == "" {
			t.Error(p, err)
		}
	}
}

// With Work.Strict a document that the server refuses ends Propagate and Repair.
func TestStrict(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	insert(t, teams, team(1, "old"))
	ref := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
	for i := range 6 {
		insert(t, colls[0], d("_id", i, "team", ref, "closed", i == 2))
	}
	must(t)(nil, mongotest.Admin(t, teams.Database()).RunCommand(t.Context(), d("collMod", "single", "validator",
		d("$or", bson.A{d("closed", false), d("team.name", "old")}))).Err())
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
	if result, err := r.Propagate(t.Context(), 1, &mongopatterns.Work{Strict: true, BatchSize: 4}); err == nil {
		t.Errorf("%+v", result)
	}
	if result, err := r.Repair(t.Context(), &mongopatterns.Work{Strict: true}); err == nil {
		t.Errorf("%+v", result)
	}
	if result, err := r.Repair(t.Context(), nil); err != nil || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Writers who raise no version are found by Repair.
func TestRepairDifferent(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, team(1, "one"), team(2, "two"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	insert(t, colls[1], d("_id", 1, "teams", bson.A{
		ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 2)), ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1)),
	}))
	repair := func() tally { return ok[tally](t)(r.Repair(t.Context(), nil)) }
	diff(t, tally{Examined: 2}, repair())
	for _, name := range []any{"x", nil, bson.Regex{Pattern: "^a"}, bson.A{"x"}, bson.A{bson.A{"x"}}, d("$weird", "$name"), int32(1), 1.0} {
		must(t)(teams.UpdateByID(t.Context(), 1, d("$set", d("name", name))))
		diff(t, wrote(0), ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
		diff(t, wrote(2), repair())
		diff(t, name, testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
		diff(t, []string{}, problems(t, r))
	}
}

// Every value is distinguished from every other, by the server and by Check: in the small run as a copy, and one in three
// as a source.
func TestValuesThatDiffer(t *testing.T) {
	t.Parallel()
	values := []any{
		nil, bson.Undefined{}, bson.A{bson.Undefined{}},
		1, int64(1), 1.0, math.NaN(), true, "a", "", bson.A{}, bson.A{nil}, bson.A{1}, bson.A{bson.A{1}}, bson.A{1, 1}, bson.A{"a"},
		d(), d("a", 1), d("a", bson.A{1}), bson.A{d("a", 1)}, bson.Regex{Pattern: "a"}, bson.MinKey{}, bson.MaxKey{}, bson.NewDateTimeFromTime(time.Unix(1, 0)),
	}
	r, teams, colls := people(t, nil, func(target *extref.Target) {
		unversioned(target)
		target.Fields = []extref.Field{{Path: "name"}}
	})
	for i := range len(values) + 1 {
		source := d("_id", i)
		if i < len(values) {
			source = append(source, bson.E{Key: "name", Value: values[i]})
		}
		insert(t, teams, source)
		if !scale.Turn(i, 3) {
			continue
		}
		var single, many []any
		for j := range len(values) + 1 {
			v := bson.D{}
			if j < len(values) {
				v = d("name", values[j])
			}
			single = append(single, d("team", append(d("_id", i), v...)))
			many = append(many, d("teams", bson.A{append(d("ref", d("id", i)), v...)}))
		}
		insert(t, colls[0], single...)
		insert(t, colls[1], many...)
		found := len(testkit.Collect(t, r.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", i)})))
		result := ok[tally](t)(r.Propagate(t.Context(), i, nil))
		if found != 2*len(values) || result.Done != int64(found) {
			t.Errorf("%d: %d differ, %+v", i, found, result)
		}
	}
	diff(t, []string{}, problems(t, r))
	for i, v := range values { // also as conditions on the source
		result := ok[extref.UpdateResult](t)(r.Update(t.Context(), i, set("name", v)))
		diff(t, false, result.Changed)
		result = ok[extref.UpdateResult](t)(r.Update(t.Context(), len(values), set("name", v)))
		diff(t, true, result.Changed)
	}
}

func TestIndexConflict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := db.Collection("c")
	must(t)(c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("ref._id", 1, "ref.version", 1), Options: options.Index().SetUnique(true)}))
	r, err := extref.New[int, bson.D](db.Collection("s"), []extref.Target{{Collection: c, Path: "ref", Fields: []extref.Field{{Path: "name"}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EnsureIndexes(t.Context()); !isIndexConflict(err) {
		t.Error(err)
	}
	diff(t, map[string]bson.D{"s": d("_id", 1)}, r.ShardKey())
	diff(t, d("ref._id", 1, "ref.version", 1), r.Indexes()["c"][0].Keys)
}
