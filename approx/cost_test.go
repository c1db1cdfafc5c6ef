package approx_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("views")
	c := counters(t, coll, nil)
	sampled := func(random float64) *approx.Sampled[string] {
		return testkit.Must(approx.NewSampled[string](coll, &approx.Options{Random: func() float64 { return random }}))
	}
	flush := func(ctx context.Context) error { return testkit.ErrorOf(c.Flush(ctx)) }
	costs.Run(t, db, []costs.Case{
		{Name: "EnsureIndexes", Sends: []string{"listCollections"}, Call: c.EnsureIndexes},
		{Name: "EnsureIndexes of what is sampled", Sends: []string{"listCollections"}, Call: sampled(1).EnsureIndexes},
		{Name: "Add in memory", Call: func(context.Context) error {
			for range 99 {
				add(t, c, "a", 1)
			}
			return nil
		}},
		{Name: "Add", Sends: []string{"update"}, Writes: 1, Call: func(ctx context.Context) error { return c.Add(ctx, "a", 1) }},
		{Name: "Flush", Before: func() {
			if n := count(t, coll, "a"); n != 100 {
				t.Errorf("stored %d", n)
			}
			for i := range 1500 {
				add(t, c, string(rune('a'+i%26))+string(rune('0'+i%60))+string(rune('A'+i/60)), 1)
			}
		}, Sends: []string{"update", "update"}, Writes: 1500, Index: "_id_", Call: func(ctx context.Context) error {
			result, err := c.Flush(ctx)
			if result.Done != 1500 || result.Examined != 1500 {
				t.Errorf("%+v", result)
			}
			return err
		}},
		{Name: "Flush of nothing", Call: flush},
		{Name: "Get", Sends: []string{"find"}, Index: "_id_", Call: func(ctx context.Context) error { return testkit.ErrorOf(c.Get(ctx, "a")) }},
		{Name: "Add that is sampled", Sends: []string{"update"}, Writes: 1, Call: func(ctx context.Context) error { return sampled(0.0099).Add(ctx, "s", 1) }},
		{Name: "Estimate", Sends: []string{"find"}, Call: func(ctx context.Context) error { return testkit.ErrorOf(sampled(0.0099).Estimate(ctx, "s")) }},
		{Name: "Add that is not sampled", Call: func(ctx context.Context) error { return sampled(0.01).Add(ctx, "s", 1) }},
		{Name: "Close", Before: func() { add(t, c, "a", 1) }, Sends: []string{"update"}, Writes: 1, Call: c.Close},
	})
}

func TestDistinctCosts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("pages")
	d := distinct(t, coll, nil)
	cmds := mongotest.Record(t, db, func() { visit(t, d, "a", 0, 20_000) })
	if n := cmds.DocumentsWritten(); n < 10 || n > 60 || len(cmds) != n {
		t.Errorf("%d commands, %d documents written for 20,000 values", len(cmds), n)
	}
	t.Logf("%d writes for 20,000 values", len(cmds))
	flush := func(ctx context.Context) error { return testkit.ErrorOf(d.Flush(ctx)) }
	costs.Run(t, db, []costs.Case{
		{Name: "Flush", Sends: []string{"update"}, Writes: 1, Call: flush},
		{Name: "Flush of nothing", Call: flush},
		{Name: "Add of known values", Call: func(context.Context) error { visit(t, d, "a", 0, 20_000); return nil }},
		{Name: "Estimate", Sends: []string{"find"}, Index: "_id_", Call: func(ctx context.Context) error { return testkit.ErrorOf(d.Estimate(ctx, "a")) }},
		{Name: "Union", Sends: []string{"aggregate"}, Index: "_id_", Call: func(ctx context.Context) error { return testkit.ErrorOf(d.Union(ctx, bson.M{"_id": "a"})) }},
		{Name: "EnsureIndexes", Sends: []string{"listCollections"}, Call: d.EnsureIndexes},
		{Name: "Close", Before: func() { visit(t, d, "b", 0, 1) }, Sends: []string{"update"}, Writes: 1, Call: d.Close},
	})
	raw, err := coll.FindOne(t.Context(), d.Filter("a")).Raw()
	if err != nil || len(raw) > 10<<10 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
