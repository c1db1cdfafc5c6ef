package outlier

import (
	"context"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Distribution says how long the lists of a collection are.
type Distribution struct {
	Documents int64 `json:"documents"` // parents
	Elements  int64 `json:"elements"`  // in all lists together
	Longest   int64 `json:"longest"`   // elements of the longest list
	// Caps are the bounds that you asked for, in the same order.
	Caps []Cap `json:"caps"`
}

// A Cap is what one value of Options.MaxCount would mean.
type Cap struct {
	MaxCount int `json:"maxCount"`
	// Outliers is the number of documents with more elements.
	Outliers int64 `json:"outliers"`
	// Over is the number of their elements beyond MaxCount.
	Over int64 `json:"over"`
}

// Distribution counts, for each of maxCounts, how many of the parents that filter selects (nil:
// all) would be outliers. maxCounts must be positive. Without any they are 10, 20, 50, … 100,000.
// The collection need not be adopted. For outliers the whole list counts.
//
// Cost: 1 round trip; scans the parents, or what filter selects.
func (l *Lists[ID, E]) Distribution(ctx context.Context, filter any, maxCounts ...int) (out Distribution, err error) {
	ctx = comment.Call(ctx, "outlier.Distribution")
	defer fault.In(&err, "outlier.Distribution")
	if err := codec.CheckFilter("filter", filter); err != nil {
		return out, err
	}
	if len(maxCounts) == 0 {
		maxCounts = []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000}
	}
	sum := func(v any) bson.D { return expr.Op("$sum", v) }
	group := expr.D("_id", nil, "documents", sum(1), "elements", sum("$total"), "longest", expr.Op("$max", "$total"))
	for i, n := range maxCounts {
		if n <= 0 {
			return out, fault.Invalid("maxCounts[%d]: it must be positive", i)
		}
		over := expr.Op("$max", 0, expr.Op("$subtract", "$total", n))
		group = append(group, expr.D(
			"outliers"+strconv.Itoa(i), sum(expr.Op("$min", 1, over)), "over"+strconv.Itoa(i), sum(over))...)
	}
	found, err := aggregate(ctx, l.c.coll, mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", expr.D("_id", 0, "total", l.TotalExpression())),
		expr.Op("$group", group),
	})
	if err != nil {
		return out, err
	}
	sums := append(found, nil)[0] // empty without parents
	get := func(key string) int64 {
		n, _ := sums.Lookup(key).AsInt64OK()
		return n
	}
	out.Documents, out.Elements, out.Longest = get("documents"), get("elements"), get("longest")
	for i, n := range maxCounts {
		out.Caps = append(out.Caps, Cap{n, get("outliers" + strconv.Itoa(i)), get("over" + strconv.Itoa(i))})
	}
	return out, nil
}
