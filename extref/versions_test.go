package extref_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Late, repeated and out of order: the newest state stays.
func TestOldStatesNeverWin(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, &extref.Options{Deferred: true}, nil)
	insert(t, teams, team(1, "v0"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	for i := range 3 {
		result := ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", fmt.Sprint("v", i+1))))
		diff(t, updated(int64(i+1), 0), result)
	}
	diff(t, wrote(1), ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	// The source as an old state: what a slow propagation would bring.
	must(t)(teams.UpdateByID(t.Context(), 1, set("name", "v1", "version", 1)))
	diff(t, tally{Examined: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	diff(t, "v3", testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
	// Element by element in an array.
	element := func(name string, version int) bson.D { return d("ref", d("id", 1, "v", version), "name", name) }
	insert(t, colls[1], d("_id", 1, "teams", bson.A{element("v0", 0), element("v3", 3), element("v1", 1)}))
	diff(t, tally{Examined: 2, Done: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	names := []any{}
	for _, copied := range testkit.Get(stored(t, colls[1])[0], "teams").(bson.A) {
		names = append(names, testkit.Get(copied.(bson.D), "name"))
	}
	diff(t, []any{"v1", "v3", "v1"}, names)
}

// A reference from before a change, inserted after its propagation, is found,
// and cannot be committed if it is pinned.
func TestStaleReference(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	db := teams.Database()
	insert(t, teams, team(1, "old"))
	before := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "new")))
	insert(t, colls[0], d("_id", 1, "team", before))
	diff(t, []string{"extref: single 1: behind: team.version is 0, want 1: copy of 1"}, problems(t, r))

	err := transaction(t, db, func(ctx context.Context) error {
		ref, err := r.Pin(ctx, "single.team", 1)
		if err != nil {
			return err
		}
		_, err = colls[0].InsertOne(ctx, d("_id", 2, "team", ref))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t)(r.Update(t.Context(), 1, set("name", "newest")))
	diff(t, []string{}, problems(t, r))

	// Pin conflicts with a change that is not committed yet, and the reverse.
	session := ok[*mongo.Session](t)(db.Client().StartSession())
	defer session.EndSession(context.Background())
	must(t)(nil, session.StartTransaction())
	ctx := mongo.NewSessionContext(bounded(t), session)
	ok[extref.UpdateResult](t)(r.Update(ctx, 1, set("name", "in transaction")))
	second := ok[*mongo.Session](t)(db.Client().StartSession())
	defer second.EndSession(context.Background())
	must(t)(nil, second.StartTransaction())
	_, err = r.Pin(mongo.NewSessionContext(bounded(t), second), "single.team", 1)
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorLabel("TransientTransactionError") {
		t.Errorf("pinned beside a change: %v", err)
	}
	_ = second.AbortTransaction(t.Context())
	must(t)(nil, session.AbortTransaction(t.Context()))
	if _, err := r.Pin(t.Context(), "single.team", 1); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("outside of a transaction: %v", err)
	}
}

// Own versions, replacements and pipelines.
func TestVersions(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	insert(t, teams, append(team(1, "a"), bson.E{Key: "version", Value: int32(3)}), append(team(2, "b"), bson.E{Key: "version", Value: "1.2"}),
		append(team(3, "c"), bson.E{Key: "version", Value: ok[bson.Decimal128](t)(bson.ParseDecimal128("2"))}),
		append(team(4, "d"), bson.E{Key: "version", Value: bson.A{i32(1), i32(2)}}),
		append(team(5, "e"), bson.E{Key: "version", Value: 1.5}), append(team(6, "f"), bson.E{Key: "version", Value: math.NaN()}),
		append(team(7, "g"), bson.E{Key: "version", Value: 1e20}), append(team(8, "h"), bson.E{Key: "version", Value: 1e17}),
		append(team(10, "i"), bson.E{Key: "version", Value: int64(math.MaxInt64)}), append(team(11, "j"), bson.E{Key: "version", Value: -1}))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	update := func(update any) extref.UpdateResult {
		t.Helper()
		return ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, update))
	}
	diff(t, updated(4, 1), update(mongo.Pipeline{set("name", d("$concat", bson.A{"$name", "!"}))}))
	diff(t, updated(9, 1), update(set("name", "c", "version", 9)))
	diff(t, updated(10, 1), update(d("$unset", d("place", ""), "$inc", d("version", 1))))
	diff(t, d("_id", i32(1), "name", "c", "motto", "first", "version", int64(10)), testkit.Get(stored(t, colls[0])[0], "team"))
	// One type for another is a change.
	diff(t, updated(11, 1), update(set("name", int32(1))))
	diff(t, updated(12, 1), update(set("name", 1.0)))
	// A source replaced by a document with an older version, or without one, continues from its own version.
	replace := func(doc bson.D) extref.UpdateResult {
		t.Helper()
		return update(replacement(doc))
	}
	diff(t, updated(13, 1), replace(append(team(1, "x"), bson.E{Key: "version", Value: 2})))
	diff(t, extref.UpdateResult{Version: 13}, replace(append(team(1, "x"), bson.E{Key: "phone", Value: 2})))
	diff(t, int64(13), testkit.Get(stored(t, teams)[0], "version"))
	diff(t, []string{}, problems(t, r))

	before := stored(t, teams)
	for name, call := range map[string]func(ctx context.Context) error{
		"version a string": func(ctx context.Context) error { _, err := r.Update(ctx, 2, set("name", "z")); return err },
		"replacement without": func(ctx context.Context) error {
			_, err := r.Update(ctx, 1, replacement(d("version", "x")))
			return err
		},
		"version a decimal":  func(ctx context.Context) error { _, err := r.Update(ctx, 3, set("name", "z")); return err },
		"version an array":   func(ctx context.Context) error { _, err := r.Update(ctx, 4, set("name", "z")); return err },
		"version a fraction": func(ctx context.Context) error { _, err := r.Update(ctx, 5, set("name", "z")); return err },
		"version no number":  func(ctx context.Context) error { _, err := r.Update(ctx, 6, replacement(team(6, "z"))); return err },
		"version too high":   func(ctx context.Context) error { _, err := r.Update(ctx, 7, set("name", "z")); return err },
		"version the last":   func(ctx context.Context) error { _, err := r.Update(ctx, 10, set("name", "z")); return err },
		"version below 0":    func(ctx context.Context) error { _, err := r.Update(ctx, 11, set("name", "z")); return err },
		"replace a string":   func(ctx context.Context) error { _, err := r.Update(ctx, 2, replacement(team(2, "z"))); return err },
	} {
		if err := call(t.Context()); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := stored(t, teams); fmt.Sprint(after) != fmt.Sprint(before) { // NaN
		t.Error(after)
	}
	must(t)(r.Update(t.Context(), 2, set("phone", 1))) // which touches nothing copied
	diff(t, updated(1e17+1, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 8, set("name", "z"))))
	for name, err := range map[string]error{
		"update":    func() error { _, err := r.Update(t.Context(), 9, set("name", "z")); return err }(),
		"fetch":     func() error { _, err := r.Fetch(t.Context(), "flat", 9); return err }(),
		"propagate": func() error { _, err := r.Propagate(t.Context(), 9, nil); return err }(),
		"pin": transaction(t, teams.Database(), func(ctx context.Context) error {
			_, err := r.Pin(ctx, "flat", 9)
			return err
		}),
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(stored(t, teams)) != 10 {
		t.Error("made a source")
	}
}

// The same by value where copies have no version.
func TestUnversionedValues(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	insert(t, colls[1], d("_id", 1, "teams", bson.A{ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1))}), d("_id", 2, "teams", "no array"))
	decimal := ok[bson.Decimal128](t)(bson.ParseDecimal128("1.5"))
	for _, name := range []any{
		"x", nil, bson.Regex{Pattern: "^a"}, bson.A{"x"}, bson.A{bson.A{"x"}}, d("$weird", "$name"), int32(1), 1.0, int64(1), decimal, true,
		bson.DateTime(1e12), bson.NewObjectID(), bson.Binary{Data: []byte("x")}, bson.Timestamp{T: 1, I: 2},
		bson.JavaScript("x"), bson.MinKey{}, bson.MaxKey{},
	} {
		must(t)(teams.UpdateByID(t.Context(), 1, d("$set", d("name", name))))
		diff(t, wrote(2), ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
		diff(t, name, testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
		diff(t, wrote(0), ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	}
	must(t)(teams.UpdateByID(t.Context(), 1, d("$unset", d("name", ""))))
	err := transaction(t, teams.Database(), func(ctx context.Context) error {
		diff(t, wrote(2), ok[tally](t)(r.Propagate(ctx, 1, nil)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, d("_id", i32(1), "city", "Berlin", "motto", "first"), testkit.Get(stored(t, colls[0])[0], "team"))
	diff(t, []bson.D{d("_id", i32(1), "place", d("city", "Berlin"), "motto", "first")}, stored(t, teams))
}

// A source without versions may use the version field for its own data.
func TestUnversionedSource(t *testing.T) {
	t.Parallel()
	r, teams, _ := people(t, nil, unversioned)
	insert(t, teams, team(1, "one"))
	src := append(team(1, "two"), bson.E{Key: "version", Value: "2.0-rc1"})
	ok[bson.D](t)(r.Copy("single.team", src))
	diff(t, updated(0, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, replacement(src))))
	diff(t, updated(0, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "three"))))
	diff(t, []bson.D{append(team(1, "three"), bson.E{Key: "version", Value: "2.0-rc1"})}, stored(t, teams))
}

// A null version counts as 0.
func TestNullVersion(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, nil)
	fresh := func(id int) {
		t.Helper()
		insert(t, teams, append(team(id, "one"), bson.E{Key: "version", Value: nil}))
		insert(t, colls[0], d("_id", id, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", id))))
	}
	for id := range 3 {
		fresh(id)
	}
	diff(t, updated(1, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 0, set("name", "two"))))
	must(t)(teams.UpdateByID(t.Context(), 1, set("name", "two")))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Repair(t.Context(), &mongopatterns.Work{Filter: d("_id", 1)})))
	must(t)(colls[0].UpdateByID(t.Context(), 2, set("team.version", 4)))
	diff(t, tally{Examined: 3, Done: 1}, ok[tally](t)(r.Repair(t.Context(), nil)))
	diff(t, int64(5), testkit.Get(stored(t, teams)[2], "version"))
	must(t)(colls[0].UpdateByID(t.Context(), 2, set("team.version", nil)))
	diff(t, []string{`extref: single 2: no version: team.version is null, want 5: copy of 2`}, problems(t, r))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, []string{}, problems(t, r))
}

// In a caller's transaction a propagation of values holds the source, whether or not
// it finds anything, and runs again after a conflict.
func TestUnversionedInTransaction(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	db := teams.Database()
	insert(t, teams, team(1, "one"))
	for i := range 3 {
		insert(t, colls[0], d("_id", i, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	}
	session := ok[*mongo.Session](t)(db.Client().StartSession())
	defer session.EndSession(context.Background())
	must(t)(nil, session.StartTransaction())
	ctx := mongo.NewSessionContext(bounded(t), session)
	diff(t, wrote(0), ok[tally](t)(r.Propagate(ctx, 1, nil)))
	second := ok[*mongo.Session](t)(db.Client().StartSession())
	defer second.EndSession(context.Background())
	must(t)(nil, second.StartTransaction())
	_, err := teams.UpdateByID(mongo.NewSessionContext(bounded(t), second), 1, set("name", "beside"))
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorLabel("TransientTransactionError") {
		t.Errorf("written beside: %v", err)
	}
	_ = second.AbortTransaction(t.Context())
	must(t)(nil, session.CommitTransaction(t.Context()))
	// Writers who raise no version, each in a transaction of its own.
	limit := bounded(t)
	var group sync.WaitGroup
	for w := range 3 {
		group.Go(func() {
			for i := range 5 {
				session, err := db.Client().StartSession()
				if err != nil {
					t.Error(err)
					return
				}
				_, err = session.WithTransaction(limit, func(ctx context.Context) (any, error) {
					if _, err := teams.UpdateByID(ctx, 1, set("name", fmt.Sprint(w, "/", i))); err != nil {
						return nil, err
					}
					return r.Propagate(ctx, 1, nil)
				})
				session.EndSession(context.Background())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	diff(t, []string{}, problems(t, r))
}

// Without versions a batch writes the source's values at the time of the write.
func TestUnversionedBatchReadsAgain(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, unversioned)
	insert(t, teams, team(1, "a"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	must(t)(teams.UpdateByID(t.Context(), 1, set("name", "b")))
	once := 0
	hooked := mongotest.Database(t, options.Client().SetMonitor(onCommand("update", func() {
		if once++; once == 1 { // the source is read, the batch not begun
			if _, err := r.Update(t.Context(), 1, set("name", "c")); err != nil {
				t.Error(err)
			}
			// A slower propagation may have left this meanwhile.
			if _, err := colls[0].UpdateByID(t.Context(), 1, set("team.name", "a")); err != nil {
				t.Error(err)
			}
		}
	}))).Client().Database(teams.Database().Name())
	same, err := extref.New[int, bson.D](hooked.Collection("teams"), []extref.Target{
		{Collection: hooked.Collection("single"), Path: "team", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, wrote(1), ok[tally](t)(same.Propagate(t.Context(), 1, nil)))
	diff(t, "c", testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
}

// Whatever an update does, the version rises if and only if a followed field
// changes, and the copies show it.
func TestFormsOfUpdates(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, append(team(1, "a"), bson.E{Key: "version", Value: nil}), team(2, "has all fields"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			insert(t, colls[1], d("_id", 1, "teams", bson.A{ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", 1))}))
			version := int64(0)
			for _, test := range []struct {
				update  any
				changed bool
			}{
				{set("name", "a"), false}, {set("name", "b"), true}, {set("name", "b", "phone", 1), false},
				{d("$set", d("name", "c"), "$inc", d("visits", 1)), true}, {d("$set", d("name", "c"), "$inc", d("visits", 1)), false},
				{bson.M{"$set": bson.M{"name": 1}}, true}, {set("name", 1.0), true}, {d("$inc", d("name", 2)), true}, {d("$inc", d("name", 0)), false},
				{d("$unset", d("name", "")), true}, {d("$unset", d("name", "")), false}, {d("$rename", d("phone", "name")), true},
				{d("$rename", d("name", "phone")), true}, {set("place", d("city", "Berlin", "street", "x")), false},
				{set("place.city", "Bonn"), true}, {set("place.street", "y"), false}, {set("place", d()), true}, {set("place.city", nil), true},
				{set("name", d("$first", "$a")), true}, {set("name", bson.A{1}), true}, {d("$push", d("name", 2)), true}, {set("name.0", 5), true},
				{d("$pull", d("name", 7)), false}, {mongo.Pipeline{set("name", "$motto")}, true}, {bson.A{set("name", "$motto")}, false},
				{d("$currentDate", d("at", true)), false}, {d("$max", d("names", 5)), false}, {set("motto", "frozen"), false},
				{d("$set", struct{ Name string }{"struct"}), true},
			} {
				before := version
				if test.changed && change == nil {
					version++
				}
				result, err := r.Update(t.Context(), 1, test.update)
				if err != nil || result.Changed != test.changed || result.Version != version || (result.Copies.Done == 2) != test.changed {
					t.Fatalf("%v: %+v, %v, version %d before", test.update, result, err, before)
				}
				diff(t, []string{}, problems(t, r))
			}
			for _, bad := range []any{d("$set", d("place.city.x", 1), "$bogus", d("a", 1)), set("__touch.$", 1), d("name", "x"), set("_id", 5), d()} {
				if _, err := r.Update(t.Context(), 1, bad); err == nil {
					t.Errorf("%v: passed", bad)
				}
			}
			if _, err := r.Update(t.Context(), 9, set("phone", 1)); !errors.Is(err, mongopatterns.ErrNotFound) || !strings.Contains(err.Error(), "_id 9: ") {
				t.Error(err)
			}
			diff(t, []string{}, problems(t, r))
		})
	}
}
