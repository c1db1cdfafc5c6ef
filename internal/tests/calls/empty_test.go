package calls_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A call that takes a list or a sequence of what to do does nothing for an empty one, without a command and
// without an error: a program that has nothing to do needs no branch.
func TestNothingToDo(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	a, b := db.Collection("a"), db.Collection("b")
	window := timeseries.Days(nil)
	specs := testkit.Must(attribute.New[int, any](a, nil))
	visitors := testkit.Must(approx.NewDistinct[string, string](a, nil))
	totals := testkit.Must(computed.New[int, int, bson.M](a, b, computed.Rule{KeyField: "b", Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$b", "n", testkit.D("$sum", 1)))}, Empty: testkit.D("n", 0)}, nil))
	links := testkit.Must(relation.New[int, int, bson.D](a, b, &relation.Options{OwnerField: "owner"}))
	lists := testkit.Must(outlier.New[int, int](a, b, nil))
	buckets := testkit.Must(bucket.New[int, bson.D](a, window, nil))
	minutes := testkit.Must(slots.New[int, bson.D](a, window, nil))
	packed := testkit.Must(series.New[int, bson.D](a, window, nil))
	items := testkit.Must(subset.New[int, bson.D](a, b, nil))
	nodes := testkit.Must(tree.New[int, bson.D](a, tree.AncestorArray, nil))
	history := testkit.Must(versioning.New[int, bson.D](a, b, nil))
	by := versioning.Change{Author: "ann"}
	for call, do := range map[string]func() (mongopatterns.Result, error){
		"approx.Distinct.Add":    alone(func() error { return visitors.Add(ctx, "home") }),
		"attribute.SetAll":       alone(func() error { return specs.SetAll(ctx, 1) }),
		"bucket.AppendMany":      func() (mongopatterns.Result, error) { return buckets.AppendMany(ctx, none[int, bson.D], nil) },
		"bucket.AppendMany, nil": func() (mongopatterns.Result, error) { return buckets.AppendMany(ctx, nil, nil) },
		"computed.Mark":          alone(func() error { return totals.Mark(ctx) }),
		"computed.Refresh":       func() (mongopatterns.Result, error) { return totals.Refresh(ctx) },
		"outlier.Add":            alone(func() error { return testkit.ErrorOf(lists.Add(ctx, 1)) }),
		"outlier.AddMany":        func() (mongopatterns.Result, error) { return lists.AddMany(ctx, none[int, int], nil) },
		"outlier.AddMany, nil":   func() (mongopatterns.Result, error) { return lists.AddMany(ctx, nil, nil) },
		"relation.ChildrenOf":    alone(func() error { return testkit.ErrorOf(links.ChildrenOf(ctx, nil, nil)) }),
		"relation.Fetch":         alone(func() error { return testkit.ErrorOf(relation.Fetch[int, bson.D](ctx, a, nil, nil)) }),
		"relation.Link":          alone(func() error { return links.Link(ctx, 1) }),
		"relation.Unlink":        alone(func() error { return links.Unlink(ctx, 1) }),
		"series.AppendMany":      func() (mongopatterns.Result, error) { return packed.AppendMany(ctx, none[int, bson.D], nil) },
		"series.AppendMany, nil": func() (mongopatterns.Result, error) { return packed.AppendMany(ctx, nil, nil) },
		"slots.SetMany":          func() (mongopatterns.Result, error) { return minutes.SetMany(ctx, none[int, slots.Slot[bson.D]], nil) },
		"slots.SetMany, nil":     func() (mongopatterns.Result, error) { return minutes.SetMany(ctx, nil, nil) },
		"subset.InsertMany":      func() (mongopatterns.Result, error) { return items.InsertMany(ctx, none[int, bson.D], nil) },
		"subset.InsertMany, nil": func() (mongopatterns.Result, error) { return items.InsertMany(ctx, nil, nil) },
		"tree.Load": func() (mongopatterns.Result, error) {
			return nodes.Load(ctx, none[tree.Entry[int, bson.D], error], nodes.AsRoot(), nil)
		},
		"tree.Load, nil": func() (mongopatterns.Result, error) { return nodes.Load(ctx, nil, nodes.AsRoot(), nil) },
		"versioning.SaveMany": func() (mongopatterns.Result, error) {
			return history.SaveMany(ctx, none[*versioning.Revision[bson.D], error], by, nil)
		},
		"versioning.SaveMany, nil": func() (mongopatterns.Result, error) { return history.SaveMany(ctx, nil, by, nil) },
	} {
		t.Run(call, func(t *testing.T) {
			mongotest.Record(t, db, func() {
				if result, err := do(); err != nil || result.Examined+result.Done+result.Failed+result.Skipped != 0 {
					t.Errorf("%+v, %v", result, err)
				}
			}).RequireRoundTrips(t, 0)
		})
	}
}

// none yields nothing.
func none[K, V any](func(K, V) bool) {}

// alone makes a call without a Result one with an empty Result.
func alone(do func() error) func() (mongopatterns.Result, error) {
	return func() (mongopatterns.Result, error) { return mongopatterns.Result{}, do() }
}
