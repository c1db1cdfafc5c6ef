package extref_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
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
			const sources, writers, changes = 3, 3, 5
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
				if testkit.Get(doc, "__touch") != nil {
					t.Error(doc)
				}
			}
		})
	}
}
