package extref_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Changes, propagations, new references and deletions at the same time: in the
// end every pinned copy is of the last state, and none is dangling.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			db := teams.Database()
			const sources, writers, changes = 3, 3, 8
			for i := range sources {
				insert(t, teams, team(i, "start"))
			}
			limit := bounded(t)
			propagate := func(id int, o *mongopatterns.Work) error {
				_, err := r.Propagate(limit, id, o)
				return err
			}
			var group sync.WaitGroup
			for w := range writers {
				group.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 1))
					for i := range changes {
						id := rng.IntN(sources)
						err := transaction(t, db, func(ctx context.Context) error {
							single, err := r.Pin(ctx, "single.team", id)
							if err != nil {
								return err
							}
							many, err := r.Pin(ctx, "many.teams", id)
							if err != nil {
								return err
							}
							if _, err := colls[0].InsertOne(ctx, d("team", single)); err != nil {
								return err
							}
							_, err = colls[1].InsertOne(ctx, d("teams", bson.A{many}))
							return err
						})
						if err != nil {
							t.Error(err)
						}
						if _, err := r.Update(limit, rng.IntN(sources), set("name", fmt.Sprint(w, "/", i))); err != nil {
							t.Error(err)
						}
						if err := propagate(rng.IntN(sources), &mongopatterns.Work{BatchSize: 2}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			diff(t, []string{}, problems(t, r))
			if n := len(stored(t, colls[1])); n != writers*changes {
				t.Errorf("%d documents", n)
			}
			for _, doc := range stored(t, teams) {
				if lookupD(doc, "__touch") != nil {
					t.Error(doc)
				}
			}
		})
	}
}

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
	diff(t, "v3", lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
	// Element by element in an array.
	element := func(name string, version int) bson.D { return d("ref", d("id", 1, "v", version), "name", name) }
	insert(t, colls[1], d("_id", 1, "teams", bson.A{element("v0", 0), element("v3", 3), element("v1", 1)}))
	diff(t, tally{Examined: 2, Done: 1, Remaining: 1}, ok[tally](t)(r.Propagate(t.Context(), 1, nil)))
	names := []any{}
	for _, copied := range lookupD(stored(t, colls[1])[0], "teams").(bson.A) {
		names = append(names, lookupD(copied.(bson.D), "name"))
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

func TestDelete(t *testing.T) {
	t.Parallel()
	policies := func(single, many, flat extref.DeletePolicy) func(*extref.Target) {
		return func(target *extref.Target) {
			target.OnDelete = map[string]extref.DeletePolicy{"single": single, "many": many, "flat": flat}[target.Collection.Name()]
		}
	}
	setUp := func(t *testing.T, change func(*extref.Target)) (*extref.Ref[int, bson.D], *mongo.Collection, []*mongo.Collection) {
		r, teams, colls := people(t, nil, change)
		insert(t, teams, team(1, "one"), team(2, "two"))
		ref := func(target string, id int) bson.D { return ok[bson.D](t)(r.Fetch(t.Context(), target, id)) }
		insert(t, colls[0], d("_id", 1, "team", ref("single.team", 1)), d("_id", 2, "team", ref("single.team", 2)))
		insert(t, colls[1], d("_id", 1, "teams", bson.A{ref("many.teams", 1), ref("many.teams", 2), ref("many.teams", 1)}))
		insert(t, colls[2], append(d("_id", 1, "kept", true), ref("flat", 1)...))
		return r, teams, colls
	}
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		r, teams, colls := setUp(t, policies(extref.Keep, extref.Refuse, extref.Cascade))
		_, err := r.Delete(t.Context(), 1)
		if !errors.Is(err, extref.ErrReferenced) || err.Error() != "extref: delete: many.teams: source 1: _id 1: still referenced" {
			t.Fatal(err)
		}
		diff(t, []bson.D{team(1, "one"), team(2, "two")}, stored(t, teams))
		if len(stored(t, colls[2])) != 1 {
			t.Error("cascaded")
		}
		must(t)(colls[1].DeleteMany(t.Context(), d()))
		diff(t, tally{Done: 1}, ok[tally](t)(r.Delete(t.Context(), 1)))
		diff(t, []string{}, problems(t, r)) // kept copies are not dangling
		if _, err := r.Delete(t.Context(), 1); !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(err, mongo.ErrNoDocuments) {
			t.Errorf("deleted twice: %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		r, _, colls := people(t, nil, nil)
		insert(t, colls[0], d("_id", 1, "team", d("_id", 9, "version", 1)))
		fails(t, mongopatterns.ErrNotFound)(r.Delete(t.Context(), 9))
	})
	t.Run("unset", func(t *testing.T) {
		t.Parallel()
		r, teams, colls := setUp(t, policies(extref.Unset, extref.Unset, extref.Unset))
		diff(t, tally{Done: 3}, ok[tally](t)(r.Delete(t.Context(), 1)))
		diff(t, []bson.D{team(2, "two")}, stored(t, teams))
		diff(t, d("_id", i32(1)), stored(t, colls[0])[0])
		diff(t, 1, len(lookupD(stored(t, colls[1])[0], "teams").(bson.A)))
		diff(t, d("_id", i32(1), "kept", true, "team", d()), stored(t, colls[2])[0])
		diff(t, []string{}, problems(t, r))
	})
	t.Run("cascade", func(t *testing.T) {
		t.Parallel()
		r, _, colls := setUp(t, policies(extref.Cascade, extref.Keep, extref.Cascade))
		diff(t, tally{Done: 2}, ok[tally](t)(r.Delete(t.Context(), 1)))
		diff(t, 1, len(stored(t, colls[0])))
		diff(t, 3, len(lookupD(stored(t, colls[1])[0], "teams").(bson.A)))
		diff(t, 0, len(stored(t, colls[2])))
	})
	t.Run("pinned meanwhile", func(t *testing.T) {
		t.Parallel()
		for name, policy := range map[string]extref.DeletePolicy{"refuse": extref.Refuse, "cascade": extref.Cascade} {
			r, teams, colls := people(t, nil, policies(policy, extref.Unset, policy))
			for i := range 10 {
				insert(t, teams, team(i, name))
			}
			limit := bounded(t)
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					err := transaction(t, teams.Database(), func(ctx context.Context) error {
						ref, err := r.Pin(ctx, "single.team", i)
						if err == nil {
							_, err = colls[0].InsertOne(ctx, d("team", ref))
						}
						return err
					})
					if err != nil && !errors.Is(err, mongopatterns.ErrNotFound) {
						t.Error(err)
					}
				})
				group.Go(func() {
					if _, err := r.Delete(limit, i); err != nil && !errors.Is(err, extref.ErrReferenced) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			diff(t, []string{}, problems(t, r)) // nothing dangling
		}
	})
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
	diff(t, d("_id", i32(1), "name", "c", "motto", "first", "version", int64(10)), lookupD(stored(t, colls[0])[0], "team"))
	// One type for another is a change.
	diff(t, updated(11, 1), update(set("name", int32(1))))
	diff(t, updated(12, 1), update(set("name", 1.0)))
	// What is replaced by a document of an older version, or of none, goes on.
	replace := func(doc bson.D) extref.UpdateResult {
		t.Helper()
		return update(replacement(doc))
	}
	diff(t, updated(13, 1), replace(append(team(1, "x"), bson.E{Key: "version", Value: 2})))
	diff(t, extref.UpdateResult{Version: 13}, replace(append(team(1, "x"), bson.E{Key: "phone", Value: 2})))
	diff(t, int64(13), lookupD(stored(t, teams)[0], "version"))
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
		diff(t, name, lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
		diff(t, []string{}, problems(t, r))
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
		diff(t, name, lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
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
	diff(t, d("_id", i32(1), "city", "Berlin", "motto", "first"), lookupD(stored(t, colls[0])[0], "team"))
	diff(t, []bson.D{d("_id", i32(1), "place", d("city", "Berlin"), "motto", "first")}, stored(t, teams))
}

// A source without versions may use the name for something else.
func TestUnversionedSource(t *testing.T) {
	t.Parallel()
	r, teams, _ := people(t, nil, unversioned)
	insert(t, teams, team(1, "one"))
	src := append(team(1, "two"), bson.E{Key: "version", Value: "2.0-rc1"})
	ok[bson.D](t)(r.Reference("single.team", src))
	diff(t, updated(0, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, replacement(src))))
	diff(t, updated(0, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "three"))))
	diff(t, []bson.D{append(team(1, "three"), bson.E{Key: "version", Value: "2.0-rc1"})}, stored(t, teams))
}

// Batches can be cut off and taken up again.
func TestPropagateResumes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, &extref.Options{Deferred: true}, change)
			insert(t, teams, team(1, "one"))
			const n = 25
			ref := ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))
			for i := range n {
				insert(t, colls[0], d("_id", i, "team", ref))
			}
			ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "two")))
			ctx, cancel := context.WithCancel(t.Context())
			var done []int64
			opts := &mongopatterns.Work{BatchSize: 10, Progress: func(r tally) {
				if done = append(done, r.Done); r.Done == 10 {
					cancel()
				}
			}}
			if result, err := r.Propagate(ctx, 1, opts); !errors.Is(err, context.Canceled) || result.Done != 10 {
				t.Fatal(result, err)
			}
			var result tally
			cmds := mongotest.Record(t, teams.Database(), func() { result = ok[tally](t)(r.Propagate(t.Context(), 1, opts)) })
			if result.Done != n-10 {
				t.Errorf("%+v", result)
			}
			if touches := 2 * len(cmds.Named("commitTransaction")); cmds.DocumentsWritten() != n-10+touches {
				t.Errorf("%d written, %d touches", cmds.DocumentsWritten(), touches)
			}
			diff(t, []int64{10, 10, 15}, done)
			diff(t, []string{}, problems(t, r))
		})
	}
}

// Source and target in one collection.
func TestSelfReference(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	staff := db.Collection("staff")
	r := newRef[int, bson.D](t, staff, []extref.Target{{
		Collection: staff, Path: "manager", OnDelete: extref.Unset, Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	insert(t, staff,
		d("_id", 1, "name", "boss", "manager", d("_id", 1)),
		d("_id", 2, "name", "two", "manager", d("_id", 1)),
		d("_id", 3, "name", "three", "manager", d("_id", 2)))
	diff(t, tally{Examined: 3, Done: 3}, ok[tally](t)(r.Adopt(t.Context(), "staff.manager", nil)))
	diff(t, updated(1, 2), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "chief"))))
	diff(t, updated(1, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 2, set("name", "deputy"))))
	diff(t, tally{Done: 1}, ok[tally](t)(r.Delete(t.Context(), 1)))
	diff(t, sorted([]bson.D{
		d("_id", 2, "name", "deputy", "version", int64(1)),
		d("_id", 3, "name", "three", "manager", d("_id", 2, "name", "deputy", "version", int64(1))),
	}), sorted(stored(t, staff)))
	for problem, err := range r.Check(t.Context(), nil) {
		t.Error(problem, err)
	}

	// A reference to itself keeps nobody.
	refuse := newRef[int, bson.D](t, staff, []extref.Target{{Collection: staff, Path: "manager", Fields: []extref.Field{{Path: "name"}}}}, nil)
	must(t)(staff.UpdateByID(t.Context(), 2, set("manager", ok[bson.D](t)(refuse.Fetch(t.Context(), "staff.manager", 2)))))
	if _, err := refuse.Delete(t.Context(), 2); !errors.Is(err, extref.ErrReferenced) || !strings.Contains(err.Error(), "_id 3: ") {
		t.Error(err)
	}
	must(t)(staff.DeleteOne(t.Context(), d("_id", 3)))
	ok[tally](t)(refuse.Delete(t.Context(), 2))
	diff(t, 0, len(stored(t, staff)))
}

// A version of null is none.
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
	diff(t, int64(5), lookupD(stored(t, teams)[2], "version"))
	must(t)(colls[0].UpdateByID(t.Context(), 2, set("team.version", nil)))
	diff(t, []string{`extref: single 2: no version: team.version is null, want 5: copy of 2`}, problems(t, r))
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
	diff(t, []string{}, problems(t, r))
}

// Transactions that run twice count and write once.
func TestRetriedTransactions(t *testing.T) {
	// The fail point is the server's, which other clients may use at the same time.
	const app = "extref retried transactions"
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			r, teams, colls := people(t, nil, func(target *extref.Target) {
				target.OnDelete = extref.Unset
				if change != nil {
					change(target)
				}
			}, options.Client().SetAppName(app))
			insert(t, teams, team(1, "a"))
			insert(t, colls[0], d("_id", 1, "team", d("_id", 1)), d("_id", 2, "team", d("_id", 1)))
			admin := teams.Database().Client().Database("admin")
			fail := func(command string) {
				t.Helper()
				err := admin.RunCommand(t.Context(), d("configureFailPoint", "failCommand", "mode", d("times", 1),
					"data", d("failCommands", bson.A{command}, "errorCode", 112, "appName", app, "errorLabels", bson.A{"TransientTransactionError"}))).Err()
				if err != nil {
					t.Skip("no fail points: ", err)
				}
			}
			t.Cleanup(func() {
				_ = admin.RunCommand(context.Background(), d("configureFailPoint", "failCommand", "mode", "off")).Err()
			})
			fail("commitTransaction")
			diff(t, tally{Examined: 2, Done: 2}, ok[tally](t)(r.Adopt(t.Context(), "single.team", nil)))
			for _, command := range []string{"update", "commitTransaction"} {
				fail(command)
				result := ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", command)))
				if !result.Changed || result.Copies.Done != 2 {
					t.Errorf("%s: %+v", command, result)
				}
			}
			diff(t, []string{}, problems(t, r))
			fail("commitTransaction")
			diff(t, tally{Done: 2}, ok[tally](t)(r.Delete(t.Context(), 1)))
			diff(t, []bson.D{d("_id", i32(1)), d("_id", i32(2))}, stored(t, colls[0]))
		})
	}
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

// Without versions a batch writes what the source holds when it is written.
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
			// What a slower propagation may have left meanwhile.
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
	diff(t, "c", lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
}

// What is frozen altogether is of its time, and no problem.
func TestFrozenTarget(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, func(target *extref.Target) {
		if target.Collection.Name() == "single" {
			target.Fields = []extref.Field{{Path: "name", Policy: extref.Freeze}}
		}
	})
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	diff(t, updated(1, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "two"))))
	diff(t, []string{}, problems(t, r))
	diff(t, "one", lookupD(lookupD(stored(t, colls[0])[0], "team").(bson.D), "name"))
}

// Reads that a write depends on ask the primary, whatever the client prefers.
func TestReadsFromThePrimary(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetReadPreference(readpref.SecondaryPreferred()))
	r, _, orders := orders(t, db, 2, &extref.Options{Deferred: true})
	must(t)(orders.UpdateByID(t.Context(), 200, d("$unset", d("customer.version", ""))))
	cmds := mongotest.Record(t, db, func() {
		ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "x")))
		ok[tally](t)(r.Propagate(t.Context(), 1, nil))
		ok[tally](t)(r.Repair(t.Context(), nil))
		ok[tally](t)(r.Adopt(t.Context(), "orders.customer", nil))
		fails(t, extref.ErrReferenced)(r.Delete(t.Context(), 2))
	})
	for _, c := range cmds {
		if mode, _ := c.Body.Lookup("$readPreference", "mode").StringValueOK(); mode == "secondaryPreferred" {
			t.Errorf("%s %s asks a secondary", c.Name, c.Collection)
		}
	}
}

// An _id that the source has not is refused by the server, and the error names the
// source.
func TestOtherID(t *testing.T) {
	t.Parallel()
	r, customers, _ := orders(t, mongotest.Database(t), 1, nil)
	before := stored(t, customers)
	if _, err := r.Update(t.Context(), 1, set("_id", 5)); err == nil || !strings.HasPrefix(err.Error(), `extref: update: source 1: `) {
		t.Error(err)
	}
	diff(t, before, stored(t, customers))
}

// A source with an array on the way to a copied field is none: its copies keep
// what they have.
func TestArrayOnTheWay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*extref.Target){"versions": nil, "unversioned": unversioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, nil, change)
			insert(t, teams, team(1, "one"), team(2, "two"))
			insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
			before, copies := stored(t, teams), stored(t, colls[0])
			refused := func(err error) {
				t.Helper()
				if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `source 1: invalid: "place" is [`) {
					t.Error(err)
				}
			}
			bad := d("_id", 1, "name", "x", "place", bson.A{d("city", "Bonn")})
			refused(second(r.Reference("single.team", bad)))
			refused(second(r.Update(t.Context(), 1, replacement(bad))))
			refused(second(r.Update(t.Context(), 1, set("place", bson.A{}))))
			diff(t, before, stored(t, teams))
			must(t)(teams.UpdateByID(t.Context(), 1, set("place", bson.A{d("city", "Bonn")})))
			before = stored(t, teams)
			refused(second(r.Update(t.Context(), 1, set("name", "z"))))
			refused(second(r.Propagate(t.Context(), 1, nil)))
			diff(t, before, stored(t, teams))
			diff(t, copies, stored(t, colls[0]))
			diff(t, []string{`extref: single 1: bad source: place is [{"city": "Bonn"}]: copy of 1`}, problems(t, r))
		})
	}
}

// Every value is told from every other, as the server and as Check compare them.
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
		for j := range len(values) + 1 {
			v := bson.D{}
			if j < len(values) {
				v = d("name", values[j])
			}
			if i == j {
				source = append(source, v...)
			}
			insert(t, colls[0], d("team", append(d("_id", i), v...)))
			insert(t, colls[1], d("teams", bson.A{append(d("ref", d("id", i)), v...)}))
		}
		insert(t, teams, source)
		found := len(collect(t, r.Check(t.Context(), &mongopatterns.Work{Filter: d("_id", i)})))
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
