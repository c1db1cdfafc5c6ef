package outlier_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
)

func run(t testing.TB, coll *mongo.Collection, pipeline mongo.Pipeline) []bson.D {
	t.Helper()
	cursor, err := coll.Aggregate(t.Context(), pipeline)
	if err != nil {
		t.Fatal(err)
	}
	out := []bson.D{}
	if err := cursor.All(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Each element once, those of a parent in order, of parents of every kind.
func TestPipelines(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, any](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, FoldBack: -1})
	insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: nil}},
		bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: bson.A{1, 2}}}, bson.D{{Key: "_id", Value: 4}}, bson.D{{Key: "_id", Value: 5}})
	for _, id := range []int{4, 5} {
		if _, err := lists.AddMany(t.Context(), id, []any{1, 2, 3, 4, 5, 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []any{1, 2} { // the parent itself is empty then
		if _, err := lists.Remove(t.Context(), 5, x); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int][]int{3: {1, 2}, 4: {1, 2, 3, 4, 5, 1}, 5: {3, 4, 5, 1}}
	got := map[int][]int{}
	for _, doc := range run(t, db.Collection("parents"), lists.ItemsPipeline(nil)) {
		var d struct {
			ID   int `bson:"_id"`
			Item int
		}
		raw, err := bson.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := bson.Unmarshal(raw, &d); err != nil || len(doc) != 2 {
			t.Fatal(doc, err)
		}
		got[d.ID] = append(got[d.ID], d.Item)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	totals := run(t, db.Collection("parents"), mongo.Pipeline{
		{{Key: "$project", Value: bson.D{{Key: "n", Value: lists.TotalExpression()}}}},
		{{Key: "$sort", Value: bson.D{{Key: "n", Value: -1}, {Key: "_id", Value: 1}}}},
	})
	wantTotals := []bson.D{}
	for _, d := range [][2]int32{{4, 6}, {5, 4}, {3, 2}, {1, 0}, {2, 0}} {
		wantTotals = append(wantTotals, bson.D{{Key: "_id", Value: d[0]}, {Key: "n", Value: d[1]}})
	}
	if diff := cmp.Diff(wantTotals, totals); diff != "" {
		t.Error(diff)
	}
	if docs := run(t, db.Collection("parents"), lists.ItemsPipeline(lists.Filter(3))); len(docs) != 2 {
		t.Error(docs)
	}
	for x, want := range map[any]int{1: 3, 2: 2, 3: 2, 9: 0, "$items": 0, bson.Regex{Pattern: "."}: 0} {
		pipeline, err := lists.ContainingPipeline(x)
		if err != nil {
			t.Fatal(err)
		}
		if docs := run(t, db.Collection("parents"), pipeline); len(docs) != want {
			t.Errorf("%v: %v", x, docs)
		}
	}
	if _, err := lists.ContainingPipeline(make(chan int)); err == nil {
		t.Error("no error")
	}
	if docs := run(t, db.Collection("parents"), lists.DistributionPipeline(lists.OutliersFilter(), 5)); len(docs) != 1 {
		t.Error(docs)
	}
}

// Outliers, or with CountTypical all parents, are paged by their totals.
func TestPagedByTotal(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, CountTypical: counted})
		var want []int // by total, then _id
		for id := 20; id > 0; id-- {
			insert(t, db, bson.D{{Key: "_id", Value: id}})
			n := id / 2
			if _, err := lists.AddMany(t.Context(), id, ints(0, n)); err != nil {
				t.Fatal(err)
			}
			if n > 4 || counted && n > 0 {
				want = append(want, id)
			}
		}
		slices.SortFunc(want, func(a, b int) int {
			if a/2 != b/2 {
				return b/2 - a/2
			}
			return a - b
		})
		opts, filter := &paging.Options{}, bson.D{{Key: "items_total", Value: bson.D{{Key: "$gt", Value: 0}}}}
		if !counted {
			opts.Equality, filter = []string{"items_overflow"}, lists.OutliersFilter()
		}
		pager, err := paging.New[bson.D](db.Collection("parents"), bson.D{{Key: "items_total", Value: -1}, {Key: "_id", Value: 1}}, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := pager.EnsureIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []int
		for req := (paging.Request{Size: 3}); ; {
			var page *paging.Page[bson.D]
			cmds := mongotest.Record(t, db, func() { page, err = pager.Page(t.Context(), filter, req) })
			if err != nil {
				t.Fatal(err)
			}
			if req.After == "" { // then a $or, which the planner may sort
				mongotest.Explain(t, db, cmds[0].Body).RequireNoSort(t)
			}
			for _, doc := range page.Items {
				got = append(got, int(doc[0].Value.(int32)))
			}
			if req.After = page.Next; !page.HasNext {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("counted=%v: %s", counted, diff)
		}
	}
}
