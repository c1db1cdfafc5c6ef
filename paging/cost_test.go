package paging_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/costs"
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
	insert(t, coll, docs...)
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

// twice is how often explain counts a document that comes through two FETCH stages.
const twice = 2

func TestCosts(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{Group: 5})
	get := func(over any, req paging.Request) *paging.Page[costDoc] {
		t.Helper()
		if req.Size == 0 && req.From == "" {
			req.Size = 10
		}
		return must[*paging.Page[costDoc]](t)(pager.Page(ctx, over, req))
	}
	at := func(i int) string { return must[string](t)(pager.Token(costFilter, costRow(i))) }
	fifty, last := get(costFilter, paging.Request{Number: 50}), get(costFilter, paging.Request{Number: 100})
	gone := costRow(500)
	gone.ID++
	exact := paging.CountExact
	for _, c := range []struct {
		name  string
		req   paging.Request
		sent  string
		extra int64 // keys on top of the limit
	}{
		{"first", paging.Request{}, "find", 0},
		{"last", paging.Request{FromEnd: true}, "find", 0},
		{"after 3", paging.Request{After: at(3)}, "find", 0}, {"before 3", paging.Request{Before: at(3)}, "find", 0},
		{"after 700", paging.Request{After: at(700)}, "find", 0}, {"before 700", paging.Request{Before: at(700)}, "find", 0},
		{"after 995", paging.Request{After: at(995)}, "find", 0}, {"before 995", paging.Request{Before: at(995)}, "find", 0},
		{"large", paging.Request{After: at(3), Size: 900}, "find", 0},
		{"counted", paging.Request{After: at(3), Count: exact}, "find aggregate", 0},
		{"capped", paging.Request{After: at(3), Count: 5}, "find aggregate", 0},
		{"whole", paging.Request{Size: 2000, Count: exact}, "find", 0},
		{"whole, capped", paging.Request{Size: 2000, Count: 5}, "find", 0},
		{"after a deleted document", paging.Request{After: must[string](t)(pager.Token(costFilter, gone))}, "find find", 0},
		{"page 50", paging.Request{Number: 50}, "find", 490},
		{"last by number, counted", paging.Request{Number: 100, Count: exact}, "find", 990},
		{"beyond the end", paging.Request{Number: 150}, "find find", 1000},
		{"back by 5", paging.Request{Number: 45, From: fifty.Position}, "find", 50},
		{"back by 1", paging.Request{Number: 49, From: fifty.Position}, "find", 10},
		{"the same", paging.Request{Number: 50, From: fifty.Position}, "find find", 0},
		{"on by 1", paging.Request{Number: 51, From: fifty.Position}, "find", 0},
		{"on by 5", paging.Request{Number: 55, From: fifty.Position}, "find", 40},
		{"on beyond the end", paging.Request{Number: 104, From: last.Position}, "find find", 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			commands := costs.Record(t, db, 0, strings.Fields(c.sent), func() error {
				get(costFilter, c.req)
				return nil
			})
			for _, find := range commands.Named("find") {
				onIndex(t, db, find, c.extra)
			}
			if len(commands.Named("find")) == 2 { // the second looks what lies on the other side
				if probe := commands[1].Body; probe.Lookup("limit").AsInt64() != 1 {
					t.Errorf("the probe is %s", probe)
				}
			}
			for _, count := range commands.Named("aggregate") {
				plan := mongotest.Explain(t, db, count.Body)
				plan.RequireIndex(t, costIndex)
				most := int64(1000)
				if c.req.Count != exact {
					most = 6
				}
				plan.RequireExamined(t, most+1, most)
			}
		})
	}
	walk := func(want int, sent string, over any, seq func(yield func(costDoc, error) bool)) {
		t.Helper()
		n := 0
		costs.Record(t, db, 0, strings.Fields(sent), func() error {
			for _, err := range seq {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if n != want {
			t.Errorf("%v: %d documents", over, n)
		}
	}
	walk(1000, "find find find", costFilter, pager.All(ctx, costFilter, paging.Request{}))
	// In smaller batches, as the user wants.
	small := costPager(t, coll, paging.Options{Find: options.Find().SetBatchSize(4)})
	costs.Record(t, db, 0, []string{"find", "getMore"}, func() error {
		_, err := small.Page(ctx, costFilter, paging.Request{Size: 6})
		return err
	})
	// Without Equality and a filter: metadata, or all documents.
	everything := newPager[costDoc](t, coll, costSort, nil)
	for count, name := range map[paging.Count]string{paging.CountEstimated: "count", exact: "aggregate"} {
		commands := costs.Record(t, db, 0, []string{"find", name}, func() error {
			_, err := everything.Page(ctx, nil, paging.Request{Count: count})
			return err
		})
		if count == exact && !mongotest.Explain(t, db, commands[1].Body).Has("COLLSCAN") {
			t.Errorf("counting everything: %s", commands[1].Body)
		}
	}
	costs.Record(t, db, 0, []string{"listIndexes"}, func() error { return pager.EnsureIndexes(ctx) })
	costs.Record(t, db, 0, []string{"listIndexes", "createIndexes"}, func() error {
		return newPager[costDoc](t, coll, bson.D{{Key: "x", Value: 1}}, nil).EnsureIndexes(ctx)
	})
	costs.Record(t, db, 0, nil, func() error { return newPager[costDoc](t, coll, nil, nil).EnsureIndexes(ctx) })
}

// What the manual says of null, of several values and of Sequential.
func TestCostsOfExceptions(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{})
	sequential := costPager(t, coll, paging.Options{Sequential: true})
	in := func(values ...any) bson.D {
		return bson.D{{Key: "topic", Value: bson.D{{Key: "$in", Value: values}}}}
	}
	two, withNull := in("sea", "sky", "sea"), in("sea", "null")
	null := bson.D{{Key: "topic", Value: "null"}}
	nullDoc := func(id, s int) bson.D { return bson.D{{Key: "_id", Value: id}, {Key: "s", Value: s}} }
	for _, c := range []struct {
		name  string
		pager *paging.Pager[costDoc]
		over  any
		after any
		size  int
		sent  string
	}{
		{"null, first", pager, null, nil, 10, "find"},
		{"null, from one branch", pager, null, nullDoc(5030, 0), 10, "find"},
		{"null, from four", pager, null, nullDoc(5003, 0), 10, "find find find find"},
		{"two values, first", pager, two, nil, 10, "find"},
		{"two values", pager, two, costRow(500), 10, "find"},
		{"two values in $and", pager, bson.D{{Key: "$and", Value: bson.A{two, bson.D{{Key: "s", Value: bson.D{{Key: "$gte", Value: 0}}}}}}}, costRow(500), 10, "find"},
		{"two values, null not met", pager, withNull, costRow(100), 10, "find"},
		{"two values, null met", pager, withNull, costRow(0), 10, "find find find aggregate"},
		{"sequential, inside a tie", sequential, costFilter, costRow(700), 10, "find"},
		{"sequential, at the end", sequential, costFilter, costRow(753), 10, "find find find find find find find"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := paging.Request{Size: c.size}
			if c.after != nil {
				req.After = must[string](t)(c.pager.Token(c.over, c.after))
			}
			commands := costs.Record(t, db, 0, strings.Fields(c.sent), func() error {
				_, err := c.pager.Page(ctx, c.over, req)
				return err
			})
			for _, command := range commands.Named("find", "aggregate") {
				if _, err := command.Body.LookupErr("aggregate"); err == nil && strings.Contains(command.Body.String(), "$documents") {
					continue
				}
				plan := mongotest.Explain(t, db, command.Body)
				plan.RequireIndex(t, costIndex)
				plan.RequireNoSort(t)
				plan.RequireExamined(t, int64(c.size)+14, twice*(int64(c.size)+8))
			}
		})
	}
	// By _id a plain range comes first; only the end of the list asks for more.
	byID := newPager[costDoc](t, coll, nil, nil)
	for id, sent := range map[int]string{500: "find", 5098: "find find"} {
		token := must[string](t)(byID.Token(nil, costDoc{ID: id}))
		commands := costs.Record(t, db, 0, strings.Fields(sent), func() error {
			_, err := byID.Page(ctx, nil, paging.Request{Size: 10, After: token})
			return err
		})
		if diff := cmp.Diff(fmt.Sprintf(`{"_id": {"$gte": {"$numberInt":"%d"}}}`, id), commands[0].Body.Lookup("filter").String()); diff != "" {
			t.Error(diff)
		}
		for _, find := range commands {
			plan := mongotest.Explain(t, db, find.Body)
			plan.RequireIndex(t, "_id_")
			plan.RequireNoSort(t)
			plan.RequireExamined(t, 14, 14)
		}
	}
}

// The branches are a $match after the stages of the pipeline.
func TestCostOfPipelines(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := newPager[costDoc](t, coll, append(bson.D{{Key: "topic", Value: 1}}, costSort...), nil)
	match := func(filter any) bson.D { return bson.D{{Key: "$match", Value: filter}} }
	for _, c := range []struct {
		pipeline mongo.Pipeline
		stages   string
		planned  bool
	}{
		{mongo.Pipeline{}, "$match $sort $limit", true},
		{mongo.Pipeline{match(costFilter), {{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}}, "$match $set $match $sort $limit", false},
	} {
		first := must[*paging.Page[costDoc]](t)(pager.Page(ctx, c.pipeline, paging.Request{Size: 10}))
		commands := costs.Record(t, db, 0, []string{"aggregate"}, func() error {
			_, err := pager.Page(ctx, c.pipeline, paging.Request{Size: 10, After: first.Next})
			return err
		})
		var names []string
		for _, stage := range must[[]bson.RawValue](t)(commands[0].Body.Lookup("pipeline").Array().Values()) {
			names = append(names, must[bson.RawElement](t)(stage.Document().IndexErr(0)).Key())
		}
		if got := strings.Join(names, " "); got != c.stages {
			t.Errorf("%v: %s", c.pipeline, got)
		}
		if plan := mongotest.Explain(t, db, commands[0].Body); c.planned {
			plan.RequireIndex(t, costIndex)
			plan.RequireNoSort(t)
		}
	}
}

// With _ids of many types every page is one find on the index of the sort, in either
// direction. A branch of points of _id could make the planner take its index, and sort.
func TestCostWithIDsOfManyTypes(t *testing.T) {
	db := mongotest.Database(t)
	coll := db.Collection("list")
	var docs []bson.D
	for i := range 600 {
		id := []any{i, fmt.Sprint(i), bson.ObjectID{byte(i), byte(i >> 8)}, bson.DateTime(i), float64(i) + 0.5}[i%5]
		docs = append(docs, bson.D{{Key: "_id", Value: id}, {Key: "s", Value: i / 150}})
	}
	insert(t, coll, docs...)
	for _, direction := range []int{1, -1} {
		pager := newPager[bson.Raw](t, coll, bson.D{{Key: "s", Value: direction}}, nil)
		ensure(t, pager)
		commands := mongotest.Record(t, db, func() {
			n := 0
			for page, err := range pages(t.Context(), pager, nil, paging.Request{Size: 20}) {
				if err != nil {
					t.Fatal(err)
				}
				n += len(page.Items)
			}
			if n != len(docs) {
				t.Errorf("%d documents", n)
			}
		})
		if len(commands) != 30 {
			t.Errorf("%d round trips", len(commands))
		}
		for _, find := range commands {
			if strings.Contains(find.Body.String(), `"_id": {"$in"`) {
				t.Errorf("points of _id: %s", find.Body)
			}
			plan := mongotest.Explain(t, db, find.Body)
			plan.RequireNoSort(t)
			plan.RequireExamined(t, 26, twice*24)
		}
	}
}

// A page allocates hardly more than the same find by hand.
func TestCostInAllocations(t *testing.T) {
	ctx := context.Background()
	coll := benchList(t, 500)
	pager := newPager[article](t, coll, byS, nil)
	ensure(t, pager)
	req := paging.Request{Size: 20, After: must[string](t)(pager.Token(nil, article{ID: 200}))}
	sent := mongotest.Record(t, coll.Database(), func() { must[*paging.Page[article]](t)(pager.Page(ctx, nil, req)) })
	var query bson.D
	if err := sent[0].Body.Lookup("filter").Unmarshal(&query); err != nil {
		t.Fatal(err)
	}
	page := testing.AllocsPerRun(50, func() { must[*paging.Page[article]](t)(pager.Page(ctx, nil, req)) })
	byHand := testing.AllocsPerRun(50, func() {
		cursor := must[*mongo.Cursor](t)(coll.Find(ctx, query, options.Find().SetSort(pager.Sort(req)).SetLimit(22).SetBatchSize(23)))
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
		token := must[string](t)(shop.Token(c.over, costRow(300)))
		filter := must[bson.D](t)(shop.Filter(c.over, paging.Request{After: token}))
		if got := len(filter[0].Value.(bson.A)); got != c.want {
			t.Errorf("%v: %d ranges, not %d", c.over, got, c.want)
		}
		if first := must[bson.D](t)(shop.Filter(c.over, paging.Request{})); !slices.EqualFunc(first, c.over, func(a, b bson.E) bool { return a.Key == b.Key }) {
			t.Errorf("the first page has %v", first)
		}
	}
}
