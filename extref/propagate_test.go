package extref_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

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
			// Each transaction touches the source twice, but not the last, which only looks at the targets.
			if touches := 2 * (len(cmds.Named("commitTransaction")) - 1); cmds.DocumentsWritten() != n-10+touches {
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
		Collection: staff, Path: "manager", OnDelete: mongopatterns.Unlink, Fields: []extref.Field{{Path: "name"}},
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
	if _, err := refuse.Delete(t.Context(), 2); !errors.Is(err, mongopatterns.ErrReferenced) || !strings.Contains(err.Error(), "_id 3: ") {
		t.Error(err)
	}
	must(t)(staff.DeleteOne(t.Context(), d("_id", 3)))
	ok[tally](t)(refuse.Delete(t.Context(), 2))
	diff(t, 0, len(stored(t, staff)))
}

// A target with only frozen fields stays as it is, and is not a problem.
func TestFrozenTarget(t *testing.T) {
	t.Parallel()
	r, teams, colls := people(t, nil, func(target *extref.Target) {
		if target.Collection.Name() == "single" {
			target.Fields = []extref.Field{{Path: "name", Frozen: true}}
		}
	})
	insert(t, teams, team(1, "one"))
	insert(t, colls[0], d("_id", 1, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", 1))))
	diff(t, updated(1, 0), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "two"))))
	diff(t, []string{}, problems(t, r))
	diff(t, "one", testkit.Get(testkit.Get(stored(t, colls[0])[0], "team").(bson.D), "name"))
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
		fails(t, mongopatterns.ErrReferenced)(r.Delete(t.Context(), 2))
	})
	for _, c := range cmds {
		if mode, _ := c.Body.Lookup("$readPreference", "mode").StringValueOK(); mode == "secondaryPreferred" {
			t.Errorf("%s %s asks a secondary", c.Name, c.Collection)
		}
	}
}

// A change of the _id is refused by the server, and the error names the source.
func TestOtherID(t *testing.T) {
	t.Parallel()
	r, customers, _ := orders(t, mongotest.Database(t), 1, nil)
	before := stored(t, customers)
	if _, err := r.Update(t.Context(), 1, set("_id", 5)); err == nil || !strings.HasPrefix(err.Error(), `extref: update: _id 1: `) {
		t.Error(err)
	}
	diff(t, before, stored(t, customers))
}
