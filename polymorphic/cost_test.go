package polymorphic_test

import (
	"context"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db, coll := documents(t)
	costs.Run(t, db, []costs.Case{
		{Name: "Find", Sends: []string{"find"}, Call: func(ctx context.Context) error { return testkit.Drain(kinds.Find(ctx, coll, nil)) }},
	})
}
