package paging_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// The list of the cost tests: 1,000 documents of topic "sea" with 250 ties at
// every s, and as many of another topic. Of topic "null" are 100, with t null or
// missing.
const costIndex = "topic_1_s_1_t_-1__id_-1"

var (
	costSort   = bson.D{{Key: "s", Value: 1}, {Key: "t", Value: -1}}
	costFilter = bson.D{{Key: "topic", Value: "sea"}}
)

type costDoc struct {
	ID    int    `bson:"_id"`
	Topic string `bson:"topic"`
	S     int    `bson:"s"`
	T     *int   `bson:"t"`
}

// costRow is the i-th document of a topic.
func costRow(i int) costDoc {
	t := i % 3
	return costDoc{ID: 2 * i, Topic: "sea", S: i / 250, T: &t}
}

func costList(t testing.TB) (*mongo.Database, *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	coll := db.Collection("list")
	var docs []any
	for i := range 1000 {
		sea, sky := costRow(i), costRow(i)
		sky.ID, sky.Topic = sea.ID+1, "sky"
		docs = append(docs, sea, sky)
		if i < 100 {
			null := bson.D{{Key: "_id", Value: 5000 + i}, {Key: "topic", Value: "null"}, {Key: "s", Value: i / 50}}
			docs = append(docs, with(null, "t", []any{nil, missing{}}[i%2]))
		}
	}
	testkit.InsertAll(t, coll, docs)
	ensure(t, costPager(t, coll, paging.Options{}))
	return db, coll
}

func costPager(t testing.TB, coll *mongo.Collection, opts paging.Options) *paging.Pager[costDoc] {
	t.Helper()
	opts.Equality = []string{"topic"}
	return newPager[costDoc](t, coll, costSort, &opts)
}

// onIndex checks that a find runs as ranges of the index, without a sort, and
// examines no more than its limit and a key for each end of each range.
func onIndex(t *testing.T, db *mongo.Database, command mongotest.Command, extra int64) {
	t.Helper()
	limit := command.Body.Lookup("limit").AsInt64()
	plan := mongotest.Explain(t, db, command.Body)
	plan.RequireIndex(t, costIndex)
	plan.RequireNoSort(t)
	plan.RequireExamined(t, limit+8+extra, twice*(limit+8+extra))
}

const find, agg = "find", "aggregate"

// twice is how often explain counts a document that comes through two FETCH stages.
const twice = 2

func TestCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{Group: 5})
	exact := paging.CountExact
	// page is the case of a page; extra are the keys that a find examines on top of its limit.
	page := func(name string, req paging.Request, extra int64, sends ...string) costs.Case {
		if req.Size == 0 && req.From == "" {
			req.Size = 10
		}
		call := func(ctx context.Context) error { return testkit.ErrorOf(pager.Page(ctx, costFilter, req)) }
		return costs.Case{Name: name, Sends: sends, Call: call, Check: func(cmds mongotest.Commands) {
			finds := cmds.Named(find)
			for _, c := range finds {
				onIndex(t, db, c, extra)
			}
			if len(finds) == 2 { // the second looks what lies on the other side
				testkit.Same(t, "limit of the probe", int64(1), cmds[1].Body.Lookup("limit").AsInt64())
			}
			for _, c := range cmds.Named(agg) {
				most := int64(1000)
				if req.Count != exact {
					most = 6
				}
				costs.Examined(t, db, c, costIndex, most+1, most)
			}
		}}
	}
	at := func(i int) string { return testkit.Value[string](t)(pager.Token(costFilter, costRow(i))) }
	position := func(number int64) string {
		return testkit.Value[*paging.Page[costDoc]](t)(pager.Page(ctx, costFilter, paging.Request{Number: number, Size: 10})).Position
	}
	fifty, last := position(50), position(100)
	deleted := costRow(500)
	deleted.ID++
	small := costPager(t, coll, paging.Options{Find: options.Find().SetBatchSize(4)})
	everything := newPager[costDoc](t, coll, costSort, nil) // without Equality
	costs.Run(t, db, []costs.Case{
		page("first", paging.Request{}, 0, find),
		page("last", paging.Request{FromEnd: true}, 0, find),
		page("after 3", paging.Request{After: at(3)}, 0, find),
		page("before 3", paging.Request{Before: at(3)}, 0, find),
		page("after 700", paging.Request{After: at(700)}, 0, find),
		page("before 700", paging.Request{Before: at(700)}, 0, find),
		page("after 995", paging.Request{After: at(995)}, 0, find),
		page("before 995", paging.Request{Before: at(995)}, 0, find),
		page("large", paging.Request{After: at(3), Size: 900}, 0, find),
		page("counted", paging.Request{After: at(3), Count: exact}, 0, find, agg),
		page("capped", paging.Request{After: at(3), Count: 5}, 0, find, agg),
		page("whole", paging.Request{Size: 2000, Count: exact}, 0, find),
		page("whole, capped", paging.Request{Size: 2000, Count: 5}, 0, find),
		page("after a deleted document", paging.Request{After: testkit.Value[string](t)(pager.Token(costFilter, deleted))}, 0, find, find),
		page("page 50", paging.Request{Number: 50}, 490, find),
		page("last by number, counted", paging.Request{Number: 100, Count: exact}, 990, find),
		page("beyond the end", paging.Request{Number: 150}, 1000, find, find),
		page("back by 5", paging.Request{Number: 45, From: fifty}, 50, find),
		page("back by 1", paging.Request{Number: 49, From: fifty}, 10, find),
		page("the same", paging.Request{Number: 50, From: fifty}, 0, find, find),
		page("on by 1", paging.Request{Number: 51, From: fifty}, 0, find),
		page("on by 5", paging.Request{Number: 55, From: fifty}, 40, find),
		page("on beyond the end", paging.Request{Number: 104, From: last}, 50, find, find),

		{Name: "All", Sends: []string{find, find, find}, Call: func(ctx context.Context) error {
			testkit.Same(t, "documents", 1000, len(testkit.Collect(t, pager.All(ctx, costFilter, paging.Request{}))))
			return nil
		}},
		{Name: "in smaller batches, as the user wants", Sends: []string{find, "getMore"}, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(small.Page(ctx, costFilter, paging.Request{Size: 6}))
		}},
		{Name: "everything, counted by the metadata", Sends: []string{find, "count"}, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(everything.Page(ctx, nil, paging.Request{Count: paging.CountEstimated}))
		}},
		{Name: "everything, counted", Sends: []string{find, agg}, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(everything.Page(ctx, nil, paging.Request{Count: exact}))
		}, Check: func(cmds mongotest.Commands) {
			if !mongotest.Explain(t, db, cmds[1].Body).Has("COLLSCAN") {
				t.Errorf("counting everything: %s", cmds[1].Body)
			}
		}},

		{Name: "EnsureIndexes", Sends: []string{"aggregate", "listIndexes"}, Call: pager.EnsureIndexes},
		{Name: "EnsureIndexes that creates one", Sends: []string{"aggregate", "listIndexes", "createIndexes"}, Call: newPager[costDoc](t, coll, bson.D{{Key: "x", Value: 1}}, nil).EnsureIndexes},
		{Name: "EnsureIndexes without a sort", Sends: []string{"aggregate"}, Call: newPager[costDoc](t, coll, nil, nil).EnsureIndexes},
	})
}

// What the manual says of null, of several values and of Sequential.
func TestCostsOfExceptions(t *testing.T) {
	t.Parallel()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{})
	sequential := costPager(t, coll, paging.Options{Sequential: true})
	byID := newPager[costDoc](t, coll, nil, nil)
	const size = 10
	// page is the case of the page after a document, nil for the first one.
	page := func(name string, pager *paging.Pager[costDoc], over, after any, check func(cmds mongotest.Commands), sends ...string) costs.Case {
		req := paging.Request{Size: size}
		if after != nil {
			req.After = testkit.Value[string](t)(pager.Token(over, after))
		}
		call := func(ctx context.Context) error { return testkit.ErrorOf(pager.Page(ctx, over, req)) }
		return costs.Case{Name: name, Sends: sends, Call: call, Check: check}
	}
	ranges := func(cmds mongotest.Commands) {
		for _, c := range cmds {
			if c.Name == agg && strings.Contains(c.Body.String(), "$facet") {
				continue
			}
			plan := mongotest.Explain(t, db, c.Body)
			plan.RequireIndex(t, costIndex)
			plan.RequireNoSort(t)
			plan.RequireExamined(t, size+14, twice*(size+8))
		}
	}
	// By _id a plain range comes first; only the end of the list asks for more.
	plain := func(id int) func(cmds mongotest.Commands) {
		return func(cmds mongotest.Commands) {
			testkit.Same(t, "filter", fmt.Sprintf(`{"_id": {"$gte": {"$numberInt":"%d"}}}`, id), cmds[0].Body.Lookup("filter").String())
			for _, c := range cmds {
				costs.Examined(t, db, c, "_id_", size+4, size+4)
				mongotest.Explain(t, db, c.Body).RequireNoSort(t)
			}
		}
	}
	in := func(values ...any) bson.D {
		return bson.D{{Key: "topic", Value: bson.D{{Key: "$in", Value: values}}}}
	}
	two, withNull := in("sea", "sky", "sea"), in("sea", "null")
	inAnd := bson.D{{Key: "$and", Value: bson.A{two, bson.D{{Key: "s", Value: bson.D{{Key: "$gte", Value: 0}}}}}}}
	null := bson.D{{Key: "topic", Value: "null"}}
	nullDoc := func(id, s int) bson.D { return bson.D{{Key: "_id", Value: id}, {Key: "s", Value: s}} }
	costs.Run(t, db, []costs.Case{
		page("null, first", pager, null, nil, ranges, find),
		page("null, from one branch", pager, null, nullDoc(5030, 0), ranges, find),
		page("null, from four", pager, null, nullDoc(5003, 0), ranges, find, find, find, find),
		page("two values, first", pager, two, nil, ranges, find),
		page("two values", pager, two, costRow(500), ranges, find),
		page("two values in $and", pager, inAnd, costRow(500), ranges, find),
		page("two values, null not met", pager, withNull, costRow(100), ranges, find),
		page("two values, null met", pager, withNull, costRow(0), ranges, find, find, find, agg),
		page("sequential, inside a tie", sequential, costFilter, costRow(700), ranges, find),
		page("sequential, at the end", sequential, costFilter, costRow(753), ranges, slices.Repeat([]string{find}, 7)...),
		page("by _id", byID, nil, costDoc{ID: 500}, plain(500), find),
		page("by _id, at the end", byID, nil, costDoc{ID: 5098}, plain(5098), find, find),
	})
}

// The branches are a $match after the stages of the pipeline.
func TestCostOfPipelines(t *testing.T) {
	t.Parallel()
	db, coll := costList(t)
	pager := newPager[costDoc](t, coll, append(bson.D{{Key: "topic", Value: 1}}, costSort...), nil)
	// second is the case of the second page, by an index or, for "", any plan.
	second := func(name string, pipeline mongo.Pipeline, index string, stages ...string) costs.Case {
		first := testkit.Value[*paging.Page[costDoc]](t)(pager.Page(t.Context(), pipeline, paging.Request{Size: 10}))
		return costs.Case{Name: name, Sends: []string{agg}, Index: index, NoSort: true, Call: func(ctx context.Context) error {
			return testkit.ErrorOf(pager.Page(ctx, pipeline, paging.Request{Size: 10, After: first.Next}))
		}, Check: func(cmds mongotest.Commands) {
			var names []string
			for _, stage := range testkit.Value[[]bson.RawValue](t)(cmds[0].Body.Lookup("pipeline").Array().Values()) {
				names = append(names, testkit.Value[bson.RawElement](t)(stage.Document().IndexErr(0)).Key())
			}
			testkit.Same(t, "stages", stages, names)
		}}
	}
	costs.Run(t, db, []costs.Case{
		second("of no stage", mongo.Pipeline{}, costIndex, "$match", "$sort", "$limit"),
		second("of two stages", mongo.Pipeline{{{Key: "$match", Value: costFilter}}, {{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}}, "",
			"$match", "$set", "$match", "$sort", "$limit"),
	})
}

// With _ids of many types every page is one find on the index of the sort, in either
// direction. A branch of points of _id could make the planner take its index, and sort.
func TestCostWithIDsOfManyTypes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("list")
	var docs []bson.D
	for i := range 600 {
		id := []any{i, fmt.Sprint(i), bson.ObjectID{byte(i), byte(i >> 8)}, bson.DateTime(i), float64(i) + 0.5}[i%5]
		docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "s", Value: i / 150}})
	}
	testkit.InsertAll(t, coll, docs)
	all := func(name string, direction int) costs.Case {
		pager := newPager[bson.Raw](t, coll, bson.D{{Key: "s", Value: direction}}, nil)
		return costs.Case{Name: name, Before: func() { ensure(t, pager) }, Sends: slices.Repeat([]string{find}, 30), Call: func(ctx context.Context) error {
			n := 0
			for page, err := range pages(ctx, pager, nil, paging.Request{Size: 20}) {
				if err != nil {
					return err
				}
				n += len(page.Items)
			}
			testkit.Same(t, "documents", len(docs), n)
			return nil
		}, Check: func(cmds mongotest.Commands) {
			for _, c := range cmds {
				if strings.Contains(c.Body.String(), `"_id": {"$in"`) {
					t.Errorf("points of _id: %s", c.Body)
				}
				plan := mongotest.Explain(t, db, c.Body)
				plan.RequireNoSort(t)
				plan.RequireExamined(t, 26, twice*24)
			}
		}}
	}
	costs.Run(t, db, []costs.Case{all("upwards", 1), all("downwards", -1)})
}

// A page allocates hardly more than the same find by hand.
func TestCostInAllocations(t *testing.T) {
	ctx := context.Background()
	coll := benchList(t, 500)
	pager := newPager[article](t, coll, byS, nil)
	ensure(t, pager)
	req := paging.Request{Size: 20, After: testkit.Value[string](t)(pager.Token(nil, article{ID: 200}))}
	sent := mongotest.Record(t, coll.Database(), func() { testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, req)) })
	var query bson.D
	if err := sent[0].Body.Lookup("filter").Unmarshal(&query); err != nil {
		t.Fatal(err)
	}
	page := testing.AllocsPerRun(50, func() { testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, req)) })
	byHand := testing.AllocsPerRun(50, func() {
		cursor := testkit.Value[*mongo.Cursor](t)(coll.Find(ctx, query, options.Find().SetSort(pager.Sort(req)).SetLimit(22).SetBatchSize(23)))
		var found []article
		if err := cursor.All(ctx, &found); err != nil {
			t.Fatal(err)
		}
	})
	if page > 1.1*byHand {
		t.Errorf("%.0f allocations, %.0f by hand", page, byHand)
	}
	t.Logf("%.0f allocations, %.0f by hand", page, byHand)
}

// How many ranges a filter with several values becomes.
func TestRangesOfSeveralValues(t *testing.T) {
	t.Parallel()
	_, coll := costList(t)
	shop := newPager[costDoc](t, coll, costSort, &paging.Options{Equality: []string{"topic", "shop"}})
	in := func(field string, n int) bson.E {
		var values bson.A
		for i := range n {
			values = append(values, i)
		}
		return bson.E{Key: field, Value: bson.D{{Key: "$in", Value: values}}}
	}
	d := func(elements ...bson.E) bson.D { return elements }
	one := bson.E{Key: "shop", Value: 1}
	for _, c := range []struct {
		over bson.D
		want int
	}{
		{d(in("topic", 2), in("shop", 3)), 5 * 6}, // s upwards, t and _id downwards: 1, 3 and 1 branches
		{d(in("topic", 40), one), 200}, {d(in("topic", 41), one), 5},
		{d(in("topic", 1), one), 5}, {d(bson.E{Key: "topic", Value: bson.D{{Key: "$in", Value: bson.A{1, 1.0}}}}, one), 5},
		{d(bson.E{Key: "topic", Value: bson.D{{Key: "$in", Value: bson.A{1, bson.D{{Key: "$x", Value: 1}}}}, {Key: "$ne", Value: 1}}}, one), 10},
	} {
		token := testkit.Value[string](t)(shop.Token(c.over, costRow(300)))
		filter := testkit.Value[bson.D](t)(shop.Filter(c.over, paging.Request{After: token}))
		if got := len(filter[0].Value.(bson.A)); got != c.want {
			t.Errorf("%v: %d ranges, not %d", c.over, got, c.want)
		}
		if first := testkit.Value[bson.D](t)(shop.Filter(c.over, paging.Request{})); !slices.EqualFunc(first, c.over, func(a, b bson.E) bool { return a.Key == b.Key }) {
			t.Errorf("the first page has %v", first)
		}
	}
}
