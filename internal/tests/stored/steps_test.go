package stored_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// storedSteps are what the steps of each pattern of the registry store. use makes further ones on it.
func storedSteps() (out []scenario) {
	for _, p := range registry.Patterns() {
		if p.Steps == nil {
			continue
		}
		steps := func(from, to int) func(t *testing.T, db *mongo.Database) {
			return func(t *testing.T, db *mongo.Database) {
				step, verify := p.Steps(t, db)
				for n := from; n < to; n++ {
					testkit.OK(t, step(t.Context(), n))
				}
				verify(t, to)
			}
		}
		nothing := func(*testing.T, *mongo.Database) {} // verify has checked
		out = append(out, scenario{name: "steps-" + p.Package, write: steps(0, 6), use: steps(6, 12), check: nothing})
	}
	return out
}
