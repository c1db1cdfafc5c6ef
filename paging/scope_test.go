package paging

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A list in a scope has the documents of one tenant, over a filter and over a pipeline, even one that asks for another
// tenant. Its tokens lead nowhere in the list of another.
func TestScope(t *testing.T) {
	ctx, coll := t.Context(), mongotest.Database(t).Collection("c")
	for id := range 12 {
		testkit.Insert(t, coll, testkit.D("_id", id, "rank", id%3, "tenant", []string{"a", "b"}[id%2]))
	}
	pagers := map[string]*Pager[bson.M]{}
	for _, tenant := range []string{"a", "b"} {
		p := testkit.Must(New[bson.M](coll, testkit.D("rank", 1), &Options{Scope: testkit.D("tenant", tenant), PageSize: 2}))
		testkit.OK(t, p.EnsureIndexes(ctx))
		pagers[tenant] = p
	}
	match := testkit.D("$match", testkit.D("rank", testkit.D("$lt", 2)))
	for name, over := range map[string]struct {
		over any
		n    int
	}{
		"all": {nil, 6}, "a filter": {bson.M{"rank": bson.M{"$lt": 2}}, 4}, "of another": {testkit.D("tenant", "b"), 0},
		"a pipeline": {mongo.Pipeline{match}, 4}, "a pipeline without $match": {mongo.Pipeline{testkit.D("$set", testkit.D("x", 1))}, 6},
		"a pipeline of another": {mongo.Pipeline{testkit.D("$match", testkit.D("tenant", "b"))}, 0},
	} {
		n := 0
		for doc, err := range pagers["a"].All(ctx, over.over, Request{Size: 2}) {
			testkit.OK(t, err)
			if n++; doc["tenant"] != "a" {
				t.Errorf("%s: %v", name, doc)
			}
		}
		if n != over.n {
			t.Errorf("%s: %d documents", name, n)
		}
		page := testkit.Must(pagers["a"].Page(ctx, over.over, Request{Count: CountExact}))
		if page.Total.N != int64(over.n) {
			t.Errorf("%s: %d counted", name, page.Total.N)
		}
		if over.n == 0 {
			continue
		}
		if _, err := pagers["b"].Page(ctx, over.over, Request{After: page.Next}); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pagers["a"].Page(ctx, nil, Request{Count: CountEstimated}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	for _, req := range []Request{{}, {Number: 2}} {
		cmds := mongotest.Record(t, coll.Database(), func() { testkit.Must(pagers["a"].Page(ctx, nil, req)) })
		plan := mongotest.Explain(t, coll.Database(), cmds[0].Body)
		plan.RequireIndex(t, "tenant_1_rank_1__id_1")
		plan.RequireNoSort(t)
	}
}
