package extref_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	policies := func(single, many, flat mongopatterns.DeletePolicy) func(*extref.Target) {
		return func(target *extref.Target) {
			target.OnDelete = map[string]mongopatterns.DeletePolicy{"single": single, "many": many, "flat": flat}[target.Collection.Name()]
		}
	}
	setUp := func(t *testing.T, change func(*extref.Target)) (*extref.Source[int, bson.D], *mongo.Collection, []*mongo.Collection) {
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
		r, teams, colls := setUp(t, policies(mongopatterns.Keep, mongopatterns.Restrict, mongopatterns.Cascade))
		_, err := r.Delete(t.Context(), 1)
		if !errors.Is(err, mongopatterns.ErrReferenced) || err.Error() != "extref: delete: _id 1: target many.teams: _id 1: still referenced" {
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
		r, teams, colls := setUp(t, policies(mongopatterns.Unlink, mongopatterns.Unlink, mongopatterns.Unlink))
		diff(t, tally{Done: 3}, ok[tally](t)(r.Delete(t.Context(), 1)))
		diff(t, []bson.D{team(2, "two")}, stored(t, teams))
		diff(t, d("_id", i32(1)), stored(t, colls[0])[0])
		diff(t, 1, len(testkit.Get(stored(t, colls[1])[0], "teams").(bson.A)))
		diff(t, d("_id", i32(1), "kept", true, "team", d()), stored(t, colls[2])[0])
		diff(t, []string{"extref: flat: malformed: team_id: no document has it"}, problems(t, r)) // the only one is gone
	})
	t.Run("cascade", func(t *testing.T) {
		t.Parallel()
		r, _, colls := setUp(t, policies(mongopatterns.Cascade, mongopatterns.Keep, mongopatterns.Cascade))
		diff(t, tally{Done: 2}, ok[tally](t)(r.Delete(t.Context(), 1)))
		diff(t, 1, len(stored(t, colls[0])))
		diff(t, 3, len(testkit.Get(stored(t, colls[1])[0], "teams").(bson.A)))
		diff(t, 0, len(stored(t, colls[2])))
	})
	t.Run("pinned meanwhile", func(t *testing.T) {
		t.Parallel()
		for name, policy := range map[string]mongopatterns.DeletePolicy{"refuse": mongopatterns.Restrict, "cascade": mongopatterns.Cascade} {
			r, teams, colls := people(t, nil, policies(policy, mongopatterns.Unlink, policy))
			for i := range 10 {
				insert(t, teams, team(i, name))
			}
			limit := bounded(t)
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					err := transaction(t, teams.Database(), func(ctx context.Context) error {
						ref, err := r.Pin(ctx, "single.team", i)
						if err != nil {
							return err
						}
						_, err = colls[0].InsertOne(ctx, d("team", ref))
						return err
					})
					if err != nil && !errors.Is(err, mongopatterns.ErrNotFound) {
						t.Error(err)
					}
				})
				group.Go(func() {
					if _, err := r.Delete(limit, i); err != nil && !errors.Is(err, mongopatterns.ErrReferenced) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			diff(t, []string{}, problems(t, r)) // nothing dangling
		}
	})
}
