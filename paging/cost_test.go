package paging_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// The list of the cost tests: 1,000 documents of topic "sea" with 250 ties at
// every s, and as many of another topic.
const costIndex = "topic_1_s_1_t_-1__id_-1"

var (
	costSort   = bson.D{{Key: "s", Value: 1}, {Key: "t", Value: -1}}
	costFilter = bson.D{{Key: "topic", Value: "sea"}}
)

type costDoc struct {
	ID    int    `bson:"_id"`
	Topic string `bson:"topic"`
	S     int    `bson:"s"`
	T     int    `bson:"t"`
}

func costList(t testing.TB) (*mongo.Database, *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	coll := db.Collection("list")
	docs := make([]costDoc, 2000)
	for i := range docs {
		docs[i] = costDoc{ID: i, Topic: []string{"sea", "sky"}[i%2], S: i / 2 / 250, T: i / 2 % 3}
	}
	insert(t, coll, docs...)
	return db, coll
}

func costPager(t testing.TB, coll *mongo.Collection, opts paging.Options) *paging.Pager[costDoc] {
	t.Helper()
	opts.Equality = []string{"topic"}
	opts.Find = options.Find().SetHint(costIndex)
	pager := newPager[costDoc](t, coll, costSort, &opts)
	if err := pager.EnsureIndexes(context.Background()); err != nil {
		t.Fatal(err)
	}
	return pager
}

// onIndex checks that a find runs as ranges of the index, without a sort, and
// examines no more than its limit and a key for each seek of each branch: as a
// whole, and branch by branch.
func onIndex(t *testing.T, db *mongo.Database, command mongotest.Command, extra int64) {
	t.Helper()
	limit := command.Body.Lookup("limit").AsInt64()
	branches := branchesOf(t, command)
	if len(branches) > 1 {
		plan := mongotest.Explain(t, db, command.Body)
		plan.RequireIndex(t, costIndex)
		plan.RequireNoSort(t)
		plan.RequireExamined(t, limit+int64(len(branches))*seeks+extra, limit+extra)
	}
	for _, branch := range branches {
		plan := mongotest.Explain(t, db, bson.D{
			{Key: "find", Value: command.Collection}, {Key: "filter", Value: branch},
			{Key: "sort", Value: command.Body.Lookup("sort")}, {Key: "limit", Value: limit}, {Key: "hint", Value: costIndex},
		})
		plan.RequireIndex(t, costIndex)
		plan.RequireNoSort(t)
		plan.RequireExamined(t, limit+seeks+extra, limit+extra)
	}
}

// seeks is what a $type or $in of several intervals may add: a key each.
const seeks = 14

// branchesOf takes a filter apart and checks the shape of each branch: the
// topic, then equalities on the first sort fields, then one range.
func branchesOf(t *testing.T, command mongotest.Command) []bson.Raw {
	t.Helper()
	filter := command.Body.Lookup("filter").Document()
	parts := []bson.Raw{filter}
	if or, ok := filter.Lookup("$or").ArrayOK(); ok {
		parts = nil
		values := must[[]bson.RawValue](t)(or.Values())
		for _, v := range values {
			parts = append(parts, v.Document())
		}
	}
	for _, part := range parts {
		and, ok := part.Lookup("$and").ArrayOK()
		if !ok {
			continue // the filter as it is
		}
		values := must[[]bson.RawValue](t)(and.Values())
		if len(values) != 2 || values[0].Document().Lookup("topic").StringValue() != "sea" {
			t.Fatalf("the filter is not part of the branch %s", part)
		}
		elements := must[[]bson.RawElement](t)(values[1].Document().Elements())
		for i, e := range elements {
			if e.Key() != []string{"s", "t", "_id"}[i] || i < len(elements)-1 && e.Value().Type == bson.TypeEmbeddedDocument {
				t.Fatalf("not a prefix of the index and one range: %s", part)
			}
		}
	}
	return parts
}

type callCost struct {
	finds, counts int
	extra         int64 // keys on top of the limit
}

func (c callCost) check(t *testing.T, db *mongo.Database, name string, call func()) {
	t.Helper()
	commands := mongotest.Record(t, db, call)
	finds, counts := commands.Named("find"), commands.Named("aggregate", "count")
	if len(finds) != c.finds || len(counts) != c.counts || commands.RoundTrips() != c.finds+c.counts {
		t.Errorf("%s: %v, want %d finds and %d counts", name, commands.Names(), c.finds, c.counts)
	}
	if n := commands.DocumentsWritten(); n != 0 {
		t.Errorf("%s: wrote %d documents", name, n)
	}
	for _, find := range finds {
		onIndex(t, db, find, c.extra)
	}
}

func TestCostOfPage(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{})
	get := func(req paging.Request) *paging.Page[costDoc] {
		t.Helper()
		req.Size = 10
		return must[*paging.Page[costDoc]](t)(pager.Page(ctx, costFilter, req))
	}
	at := func(i int) string {
		return must[string](t)(pager.Token(costFilter, costDoc{ID: 2 * i, S: i / 250, T: i % 3}))
	}
	for _, depth := range []int{3, 700, 990} {
		token := at(depth)
		callCost{finds: 1}.check(t, db, "after", func() { get(paging.Request{After: token}) })
		callCost{finds: 1}.check(t, db, "before", func() { get(paging.Request{Before: token}) })
	}
	callCost{finds: 1}.check(t, db, "first", func() { get(paging.Request{}) })
	callCost{finds: 1}.check(t, db, "last", func() { get(paging.Request{FromEnd: true}) })
	callCost{finds: 1, counts: 1}.check(t, db, "counted", func() { get(paging.Request{Count: paging.CountExact}) })

	middle := get(paging.Request{After: at(500)})
	anchor := middle.Items[9]
	if _, err := coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: anchor.ID}}); err != nil {
		t.Fatal(err)
	}
	commands := mongotest.Record(t, db, func() { get(paging.Request{After: middle.Next}) })
	if len(commands) != 2 || commands[1].Body.Lookup("limit").AsInt64() != 1 {
		t.Errorf("the document of the token is gone: %v", commands.Names())
	}
	onIndex(t, db, commands[1], 0)
	if projection := commands[1].Body.Lookup("projection").String(); projection != `{"_id": {"$numberInt":"1"}}` {
		t.Errorf("the probe reads %s", projection)
	}

	// With a value that is equal but of another type only the server can tell
	// where the document stands now.
	anchor.ID = -1
	insert(t, coll, anchor)
	token := must[string](t)(pager.Token(costFilter, anchor))
	if _, err := coll.UpdateByID(ctx, -1, bson.D{{Key: "$set", Value: bson.D{{Key: "s", Value: float64(anchor.S)}}}}); err != nil {
		t.Fatal(err)
	}
	callCost{finds: 3}.check(t, db, "the document of the token changed", func() { get(paging.Request{After: token}) })
}

// One sort field and _id: one round trip, at any size.
func TestCostOfLargePages(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := newPager[bson.Raw](t, coll, bson.D{{Key: "s", Value: 1}}, nil)
	if err := pager.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	for _, over := range []any{nil, mongo.Pipeline{}} {
		first := must[*paging.Page[bson.Raw]](t)(pager.Page(ctx, over, paging.Request{Size: 7}))
		for _, size := range []int{1, 100, 101, 500, 1500} {
			commands := mongotest.Record(t, db, func() {
				page := must[*paging.Page[bson.Raw]](t)(pager.Page(ctx, over, paging.Request{Size: size, After: first.Next}))
				if len(page.Items) != size {
					t.Errorf("%d items", len(page.Items))
				}
			})
			if commands.RoundTrips() != 1 {
				t.Errorf("%d documents: %v", size, commands.Names())
			}
		}
	}
	small := newPager[bson.Raw](t, coll, bson.D{{Key: "s", Value: 1}}, &paging.Options{Find: options.Find().SetBatchSize(4)})
	commands := mongotest.Record(t, db, func() {
		must[*paging.Page[bson.Raw]](t)(small.Page(ctx, nil, paging.Request{Size: 6}))
	})
	if !slices.Equal(commands.Names(), []string{"find", "getMore"}) {
		t.Errorf("in batches of 4: %v", commands.Names())
	}
}

// A pipeline that only filters is planned like a find: the $match that is sent is
// the filter of a find. After other stages the branches are a $match of their own.
func TestCostOfPipelines(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{})
	match := func(filter any) bson.D { return bson.D{{Key: "$match", Value: filter}} }
	other := bson.D{{Key: "t", Value: bson.D{{Key: "$gte", Value: 0}}}}
	for _, c := range []struct {
		pipeline mongo.Pipeline
		same     bson.D // the filter that sends the same
		stages   string
	}{
		{mongo.Pipeline{match(costFilter)}, costFilter, "$match $sort $limit"},
		{mongo.Pipeline{match(costFilter), match(other)}, bson.D{{Key: "$and", Value: bson.A{costFilter, other}}}, "$match $sort $limit"},
		{mongo.Pipeline{}, nil, "$match $sort $limit"},
		{mongo.Pipeline{match(costFilter), {{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}}, nil, "$match $set $match $sort $limit"},
		{mongo.Pipeline{match(append(bson.D{{Key: "x$text", Value: nil}}, costFilter...))}, nil, "$match $match $sort $limit"}, // as for $text
	} {
		first := must[*paging.Page[costDoc]](t)(pager.Page(ctx, c.pipeline, paging.Request{Size: 10}))
		commands := mongotest.Record(t, db, func() {
			must[*paging.Page[costDoc]](t)(pager.Page(ctx, c.pipeline, paging.Request{Size: 10, After: first.Next}))
		})
		if commands.RoundTrips() != 1 {
			t.Fatal(commands.Names())
		}
		var names []string
		for _, stage := range must[[]bson.RawValue](t)(commands[0].Body.Lookup("pipeline").Array().Values()) {
			names = append(names, must[bson.RawElement](t)(stage.Document().IndexErr(0)).Key())
		}
		if got := strings.Join(names, " "); got != c.stages {
			t.Errorf("%v: %s", c.pipeline, got)
		}
		if c.same == nil {
			continue
		}
		page := must[*paging.Page[costDoc]](t)(pager.Page(ctx, c.same, paging.Request{Size: 10}))
		find := mongotest.Record(t, db, func() {
			must[*paging.Page[costDoc]](t)(pager.Page(ctx, c.same, paging.Request{Size: 10, After: page.Next}))
		})
		if diff := cmp.Diff(find[0].Body.Lookup("filter").String(), commands[0].Body.Lookup("pipeline", "0", "$match").String()); diff != "" {
			t.Errorf("%v: (-find +aggregate) %s", c.pipeline, diff)
		}
		plan := mongotest.Explain(t, db, commands[0].Body)
		plan.RequireIndex(t, costIndex)
		plan.RequireNoSort(t)
	}
}

// Several values of an equality field: each branch is one range for each value,
// with a point in front of the sort.
func TestCostOfSeveralValues(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{Uniform: []string{"s", "t", "_id"}})
	in := func(values ...any) bson.D {
		return bson.D{{Key: "topic", Value: bson.D{{Key: "$in", Value: append(bson.A{}, values...)}}}}
	}
	several := bson.D{{Key: "$and", Value: bson.A{costFilter}}, in("sea", "sky", "sea")[0]}
	for _, over := range []any{in("sea", "sky"), mongo.Pipeline{{{Key: "$match", Value: in("sea", "sky")}}}} {
		first := must[*paging.Page[costDoc]](t)(pager.Page(ctx, over, paging.Request{Size: 10}))
		commands := mongotest.Record(t, db, func() {
			must[*paging.Page[costDoc]](t)(pager.Page(ctx, over, paging.Request{Size: 10, After: first.Next}))
		})
		filter, err := commands[0].Body.LookupErr("filter")
		if err != nil {
			filter = commands[0].Body.Lookup("pipeline", "0", "$match")
		}
		got := string(must[[]byte](t)(bson.MarshalExtJSON(filter.Document(), false, false)))
		want := `{"$or":[`
		for i, branch := range []string{
			fmt.Sprintf(`{"s":0,"t":2,"_id":{"$lte":%d}}`, first.Items[9].ID), `{"s":0,"t":{"$lt":2}}`, `{"s":0,"t":{"$in":[{"$numberDouble":"NaN"},null]}}`, `{"s":{"$gt":0}}`,
		} {
			if i > 0 {
				want += ","
			}
			want += `{"$and":[{"topic":"sea"},` + branch + `]},{"$and":[{"topic":"sky"},` + branch + `]}`
		}
		if diff := cmp.Diff(want+`]}`, got); diff != "" {
			t.Error(diff)
		}
		plan := mongotest.Explain(t, db, commands[0].Body)
		plan.RequireIndex(t, costIndex)
		plan.RequireNoSort(t)
	}

	// The pages are those of the filter as it is.
	want := map[string][]int{}
	for name, over := range map[string]any{
		"two": in("sea", "sky", "moon"), "none": in(), "and more": several,
		"with null": in(nil, "sky"), "in and not": bson.D{{Key: "topic", Value: bson.D{
			{Key: "$in", Value: bson.A{"sea", "sky"}}, {Key: "$ne", Value: "sea"}}}},
	} {
		for _, doc := range must[[]costDoc](t)(findAll(ctx, coll, over)) {
			want[name] = append(want[name], doc.ID)
		}
		for _, strategy := range []paging.Strategy{paging.Merged, paging.Sequential} {
			var got []int
			for doc, err := range costPager(t, coll, paging.Options{Strategy: strategy}).All(ctx, over, paging.Request{Size: 900}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, doc.ID)
			}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}

	// What is too much, or not a list of values, or another strategy, stays.
	shop := newPager[costDoc](t, coll, costSort, &paging.Options{Equality: []string{"topic", "shop"}, Uniform: []string{"s", "t", "_id"}})
	sequential := costPager(t, coll, paging.Options{Strategy: paging.Sequential})
	numbers := func(n int) (out []any) {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	other := func(n int) bson.D {
		return append(in("sea", "sky"), bson.E{Key: "shop", Value: bson.D{{Key: "$in", Value: numbers(n)}}})
	}
	for _, c := range []struct {
		name  string
		pager *paging.Pager[costDoc]
		over  bson.D
		want  int
	}{
		{"25 values of 4 branches", pager, in(numbers(25)...), 100},
		{"26 values of 4 branches", pager, in(numbers(26)...), 4},
		{"2 and 3 values", shop, other(3), 24},
		{"2 and 12 values", shop, other(12), 96},
		{"2 and 13 values", shop, other(13), 4},
		{"2 and 130 values", shop, other(130), 4},
		{"a document", pager, in("sea", bson.D{{Key: "a", Value: 1}}), 4},
		{"a pattern", pager, in("sea", bson.Regex{Pattern: "^sk"}), 4},
		{"equal values", pager, in("sea", "sea"), 4},
		{"another field", costPager(t, coll, paging.Options{Uniform: []string{"s", "t", "_id"}}), bson.D{{Key: "x", Value: in(1, 2)[0].Value}}, 4},
		{"sequential", sequential, in("sea", "sky"), 6},
	} {
		token := must[string](t)(c.pager.Token(c.over, costDoc{S: 1, T: 1}))
		filter := must[bson.D](t)(c.pager.Filter(c.over, paging.Request{After: token}))
		if got := len(filter[0].Value.(bson.A)); got != c.want {
			t.Errorf("%s: %d branches, not %d", c.name, got, c.want)
		}
		if first := must[bson.D](t)(c.pager.Filter(c.over, paging.Request{})); !reflect.DeepEqual(first, c.over) {
			t.Errorf("%s: the first page has %v", c.name, first)
		}
	}
}

func findAll(ctx context.Context, coll *mongo.Collection, filter any) (docs []costDoc, err error) {
	cursor, err := coll.Find(ctx, filter, options.Find().SetSort(append(slices.Clone(costSort), bson.E{Key: "_id", Value: -1})))
	if err == nil {
		err = cursor.All(ctx, &docs)
	}
	return docs, err
}

func TestCostOfSequential(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{Strategy: paging.Sequential})
	get := func(token string) {
		must[*paging.Page[costDoc]](t)(pager.Page(ctx, costFilter, paging.Request{Size: 10, After: token}))
	}
	at := func(i int) string {
		return must[string](t)(pager.Token(costFilter, costDoc{ID: 2 * i, S: i / 250, T: i % 3}))
	}
	// In the middle of a tie the first branch fills the page. At the end of the
	// list all branches have to be asked.
	callCost{finds: 1}.check(t, db, "inside a tie", func() { get(at(700)) })
	end := must[*paging.Page[costDoc]](t)(pager.Page(ctx, costFilter, paging.Request{Size: 10, FromEnd: true}))
	commands := mongotest.Record(t, db, func() { get(end.Cursor(8)) })
	branches := 2 + 2 + 2 // the rest of the numbers, and the other types
	if len(commands) != branches {
		t.Errorf("at the end: %d finds", len(commands))
	}
	for _, command := range commands {
		if _, err := command.Body.LookupErr("filter", "$or"); err == nil {
			t.Errorf("not one range: %s", command.Body)
		}
		onIndex(t, db, command, 0)
	}
	uniform := costPager(t, coll, paging.Options{Strategy: paging.Sequential, Uniform: []string{"s", "t", "_id"}})
	commands = mongotest.Record(t, db, func() {
		must[*paging.Page[costDoc]](t)(uniform.Page(ctx, costFilter, paging.Request{Size: 10, After: end.Cursor(8)}))
	})
	if len(commands) != 1+2+1 { // t, downwards, can be null as well
		t.Errorf("at the end of uniform fields: %d finds", len(commands))
	}
}

func TestCostOfWalks(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	for _, strategy := range []paging.Strategy{paging.Merged, paging.Sequential} {
		pager := costPager(t, coll, paging.Options{Strategy: strategy})
		finds := 3 // 1,000 documents: two full batches and an empty one
		if strategy == paging.Sequential {
			finds = -1
		}
		commands := mongotest.Record(t, db, func() {
			n := 0
			for _, err := range pager.All(ctx, costFilter, paging.Request{}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				t.Errorf("%d documents", n)
			}
		})
		if finds >= 0 && commands.RoundTrips() != finds || finds < 0 && commands.RoundTrips() > 3*8 {
			t.Errorf("All: %v", commands.Names())
		}
		for _, command := range commands {
			onIndex(t, db, command, 0)
		}
		pages := mongotest.Record(t, db, func() {
			for _, err := range pager.Pages(ctx, costFilter, paging.Request{Size: 600}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if strategy == paging.Merged && pages.RoundTrips() != 2 {
			t.Errorf("Pages: %v", pages.Names())
		}
	}
}

func TestCostOfNumbersAndJumps(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{Group: 5})
	numbered := func(n int64, count paging.Count) *paging.NumberedPage[costDoc] {
		return must[*paging.NumberedPage[costDoc]](t)(pager.Numbered(ctx, costFilter, paging.NumberedRequest{Number: n, Size: 10, Count: count}))
	}
	callCost{finds: 1}.check(t, db, "first", func() { numbered(1, 0) })
	callCost{finds: 1, extra: 490}.check(t, db, "page 50", func() { numbered(50, 0) })
	callCost{finds: 1, counts: 1, extra: 490}.check(t, db, "page 50, counted", func() { numbered(50, paging.CountExact) })
	callCost{finds: 1, extra: 990}.check(t, db, "last, counted", func() { numbered(100, paging.CountExact) })
	callCost{finds: 2, extra: 1000}.check(t, db, "beyond the end", func() { numbered(150, 0) })

	fifty := numbered(50, 0)
	jump := func(from string, n int64) *paging.NumberedPage[costDoc] {
		return must[*paging.NumberedPage[costDoc]](t)(pager.Jump(ctx, costFilter, from, paging.NumberedRequest{Number: n}))
	}
	for _, n := range []int64{45, 49, 50, 51, 55} {
		want := callCost{finds: 1, extra: 50}
		if n == 50 {
			want.finds = 2
		}
		want.check(t, db, "jump", func() { jump(fifty.Position, n) })
	}
	last := numbered(100, 0).Position
	callCost{finds: 2, extra: 50}.check(t, db, "jump beyond the end", func() { jump(last, 104) })
	sequential := costPager(t, coll, paging.Options{Group: 5, Strategy: paging.Sequential})
	for _, n := range []int64{45, 49, 50, 51, 55} {
		commands := mongotest.Record(t, db, func() {
			must[*paging.NumberedPage[costDoc]](t)(sequential.Jump(ctx, costFilter, fifty.Position, paging.NumberedRequest{Number: n}))
		})
		if commands.RoundTrips() > 2*8 {
			t.Errorf("sequential jump to %d: %v", n, commands.Names())
		}
		for _, find := range commands.Named("find") {
			onIndex(t, db, find, 50)
		}
	}
}

func TestCostOfCounts(t *testing.T) {
	ctx := context.Background()
	db, coll := costList(t)
	pager := costPager(t, coll, paging.Options{})
	count := func(over any, count paging.Count, size int) mongotest.Commands {
		return mongotest.Record(t, db, func() {
			must[*paging.Page[costDoc]](t)(pager.Page(ctx, over, paging.Request{Size: size, Count: count}))
		})
	}
	exact := count(costFilter, paging.CountExact, 10)
	if !slices.Equal(exact.Names(), []string{"find", "aggregate"}) {
		t.Errorf("exact: %v", exact.Names())
	}
	plan := mongotest.Explain(t, db, exact[1].Body)
	plan.RequireIndex(t, costIndex)
	plan.RequireExamined(t, 1001, 1000)

	capped := count(costFilter, paging.CountCapped(50), 10)
	if !slices.Equal(capped.Names(), []string{"find", "aggregate"}) {
		t.Errorf("capped: %v", capped.Names())
	}
	stages := capped[1].Body.Lookup("pipeline").Array()
	if got := stages.Index(1).Document().Lookup("$limit").AsInt64(); got != 51 {
		t.Errorf("capped at %d", got)
	}
	mongotest.Explain(t, db, capped[1].Body).RequireExamined(t, 52, 51)

	// Without a filter no index is any use.
	everything := newPager[costDoc](t, coll, costSort, nil)
	whole := mongotest.Record(t, db, func() {
		must[*paging.Page[costDoc]](t)(everything.Page(ctx, nil, paging.Request{Size: 10, Count: paging.CountExact}))
	})
	if plan := mongotest.Explain(t, db, whole[1].Body); !plan.Has("COLLSCAN") {
		t.Errorf("counting everything: %v", plan.Stages)
	}

	estimated := count(nil, paging.CountEstimated, 10)
	if !slices.Equal(estimated.Names(), []string{"find", "count"}) {
		t.Errorf("estimated: %v", estimated.Names())
	}
	if _, err := estimated[1].Body.LookupErr("query"); err == nil {
		t.Errorf("not from metadata: %s", estimated[1].Body)
	}
	for _, kind := range []paging.Count{paging.CountExact, paging.CountCapped(5), paging.CountEstimated} {
		var over any = costFilter
		if kind == paging.CountEstimated {
			over = nil
		}
		if whole := count(over, kind, 5000); !slices.Equal(whole.Names(), []string{"find"}) {
			t.Errorf("count %d of a page with everything: %v", kind, whole.Names())
		}
	}
}

func TestCostOfEnsureIndexes(t *testing.T) {
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("list")
	insert(t, coll, costDoc{})
	pager := newPager[costDoc](t, coll, costSort, nil)
	ensure := func() []string {
		return mongotest.Record(t, db, func() {
			if err := pager.EnsureIndexes(ctx); err != nil {
				t.Fatal(err)
			}
		}).Names()
	}
	if got := ensure(); !slices.Equal(got, []string{"listIndexes", "createIndexes"}) {
		t.Error(got)
	}
	if got := ensure(); !slices.Equal(got, []string{"listIndexes"}) {
		t.Error(got)
	}
	pager = newPager[costDoc](t, coll, nil, nil)
	if got := ensure(); len(got) != 0 {
		t.Error(got)
	}
}
