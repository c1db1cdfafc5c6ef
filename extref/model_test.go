package extref_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// Random changes, references and deletions against a model: after each step
// followed fields are those of the source, and frozen ones those of the moment
// the reference was made.
func TestModel(t *testing.T) {
	t.Parallel()
	modes := map[string]struct {
		o      *extref.Options
		change func(*extref.Target)
	}{
		"versions":    {nil, nil},
		"unversioned": {nil, unversioned},
		"deferred":    {&extref.Options{Deferred: true}, nil},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, mode.o, func(target *extref.Target) {
				target.OnDelete = mongopatterns.Unlink
				if mode.change != nil {
					mode.change(target)
				}
			})
			rng := rand.New(rand.NewPCG(7, 7))
			type source struct{ name, motto string }
			type ref struct {
				id    int
				motto string
			}
			sources := map[int]*source{}
			single, many := map[int]ref{}, map[int][]ref{}
			fresh := func(id int) {
				sources[id] = &source{"start", "first"}
				insert(t, teams, team(id, "start"))
			}
			for id := range 4 {
				fresh(id)
			}
			next := 100
			for step := range scale.Of(26, 60, 300) {
				id := rng.IntN(4)
				s, exists := sources[id]
				if !exists {
					fresh(id)
					continue
				}
				value := fmt.Sprint("v", step)
				switch op := rng.IntN(10); {
				case op < 3:
					s.name = value
					ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("name", value)))
				case op == 3:
					s.motto = value
					ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("motto", value, "phone", step)))
				case op == 4: // by somebody else, without a version
					s.name = value
					must(t)(teams.UpdateByID(t.Context(), id, set("name", value)))
					work := &mongopatterns.Work{BatchSize: 1 + rng.IntN(3)}
					if mode.change == nil {
						work.Filter = d("_id", id)
						ok[tally](t)(r.Repair(t.Context(), work))
					} else {
						ok[tally](t)(r.Propagate(t.Context(), id, work))
					}
				case op == 5 && step%3 == 0:
					delete(sources, id)
					for doc, ref := range single {
						if ref.id == id {
							delete(single, doc)
						}
					}
					for doc, refs := range many {
						var rest []ref
						for _, ref := range refs {
							if ref.id != id {
								rest = append(rest, ref)
							}
						}
						many[doc] = rest
					}
					ok[tally](t)(r.Delete(t.Context(), id))
				case op < 8:
					next++
					single[next] = ref{id, s.motto}
					insert(t, colls[0], d("_id", next, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", id))))
				default:
					next++
					copies := bson.A{}
					for range rng.IntN(4) {
						other := rng.IntN(4)
						if o := sources[other]; o != nil {
							many[next] = append(many[next], ref{other, o.motto})
							copies = append(copies, ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", other)))
						}
					}
					insert(t, colls[1], d("_id", next, "teams", copies))
				}
				if mode.o != nil && mode.o.Deferred {
					for id := range sources {
						ok[tally](t)(r.Propagate(t.Context(), id, nil))
					}
				}
				if step%5 > 0 {
					continue
				}
				diff(t, []string{}, problems(t, r))
				for _, doc := range stored(t, colls[0]) {
					want, referring := single[int(testkit.Get(doc, "_id").(int32))]
					copied, has := testkit.Get(doc, "team").(bson.D)
					if has != referring {
						t.Fatalf("step %d: %v", step, doc)
					}
					if has {
						diff(t, []any{sources[want.id].name, want.motto}, []any{testkit.Get(copied, "name"), testkit.Get(copied, "motto")})
					}
				}
				for _, doc := range stored(t, colls[1]) {
					want, have := []any{}, []any{}
					for _, ref := range many[int(testkit.Get(doc, "_id").(int32))] {
						want = append(want, sources[ref.id].name, ref.motto)
					}
					for _, copied := range testkit.Get(doc, "teams").(bson.A) {
						have = append(have, testkit.Get(copied.(bson.D), "name"), testkit.Get(copied.(bson.D), "motto"))
					}
					diff(t, want, have)
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}
