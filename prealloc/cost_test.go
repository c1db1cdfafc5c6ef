package prealloc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	update, find := []string{"update"}, []string{"find"}
	costs.Run(t, db, []costs.Case{
		{Name: "Insert", Sends: []string{"listCollections", "insert"}, Writes: 1, Call: func(ctx context.Context) error { return g.Insert(ctx, "t", nil, prealloc.Row("A", 3)...) }},
		{Name: "Hold", Sends: update, Writes: 1, Index: "_id_", Call: func(ctx context.Context) error { return g.Hold(ctx, "s", "x", time.Hour, seats("A1", "B2")...) }},
		{Name: "Claim", Sends: update, Writes: 1, Index: "_id_", Call: func(ctx context.Context) error { return g.Claim(ctx, "s", "x", seats("A1", "B2")...) }},
		{Name: "Release", Sends: update, Writes: 1, Index: "_id_", Call: func(ctx context.Context) error { return g.Release(ctx, "s", "x", seats("A1", "B2")...) }},
		{Name: "Claim that is refused", Before: func() { testkit.OK(t, g.Claim(t.Context(), "s", "x", seats("A1")...)) }, Sends: []string{"update", "find"},
			Call: func(ctx context.Context) error {
				if err := g.Claim(ctx, "s", "y", seats("A1", "A2")...); !errors.Is(err, prealloc.ErrTaken) {
					t.Error(err)
				}
				return nil
			}},
		{Name: "Cells", Sends: find, Index: "_id_", Call: func(ctx context.Context) error { return errorOf(g.Cells(ctx, "s")) }},
		{Name: "Counts", Sends: []string{"aggregate"}, Index: "_id_", Call: func(ctx context.Context) error { return errorOf(g.Counts(ctx, "s")) }},
		{Name: "HoldAdjacent", Sends: []string{"find", "update"}, Writes: 1, Call: func(ctx context.Context) error { return errorOf(g.HoldAdjacent(ctx, "s", "z", time.Hour, 5)) }},
		{Name: "Check", Sends: []string{"listCollections", "find"}, Explain: 1, Index: "_id_", Call: func(ctx context.Context) error { return testkit.Drain(g.Check(ctx, nil)) }},
		{Name: "EnsureIndexes", Sends: []string{"listCollections"}, Call: g.EnsureIndexes},
	})
}
