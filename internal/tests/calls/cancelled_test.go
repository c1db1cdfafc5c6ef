package calls_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Every call whose context has ended says so, and has done nothing. Its outcome may be Unknown: the driver does not say
// that it has sent nothing.
func TestCancelled(t *testing.T) {
	met := map[string]bool{}
	for _, r := range slices.Concat(registry.Writes(), registry.Reads(), registry.Indexes(t)) {
		if met[r.Method()] {
			continue
		}
		met[r.Method()] = true
		t.Run(r.Method(), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c := r.Start(&registry.Scene{T: t, DB: db})
			before := everything(t, db)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Do(ctx); !errors.Is(err, context.Canceled) || mongopatterns.OutcomeOf(err) == mongopatterns.Done {
				t.Errorf("%v: %v", mongopatterns.OutcomeOf(err), err)
			}
			testkit.Same(t, "stored", before, everything(t, db))
		})
	}
}
