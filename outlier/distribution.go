package outlier

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Distribution says how long the lists of a collection are.
type Distribution struct {
	Documents int64 `json:"documents"` // parents
	Elements  int64 `json:"elements"`  // in all lists together
	Longest   int64 `json:"longest"`   // elements of the longest list
	// Caps are the bounds asked for, in the order given.
	Caps []Cap `json:"caps"`
}

// A Cap is what one Options.MaxCount would mean.
type Cap struct {
	MaxCount int `json:"maxCount"`
	// Outliers is how many documents have more elements.
	Outliers int64 `json:"outliers"`
	// Inside and Outside are how many elements would lie in parents and in
	// overflow documents.
	Inside  int64 `json:"inside"`
	Outside int64 `json:"outside"`
	// OverflowDocuments is how many these would be, each with up to MaxCount
	// elements.
	OverflowDocuments int64 `json:"overflowDocuments"`
}

// Distribution tells for each of maxCounts, which are positive (none: 10, 20, 50, …
// 100,000), how many documents would be outliers, of the parents that filter selects
// (nil: all). The collection may be a plain one, or one with outliers, whose totals
// then count.
//
// Cost: 1 round trip; scans the parents, or what filter selects.
func (l *Lists[ID, E]) Distribution(ctx context.Context, filter bson.D, maxCounts ...int) (Distribution, error) {
	if len(maxCounts) == 0 {
		maxCounts = usualCaps()
	}
	out, err := l.distribution(ctx, filter, maxCounts)
	if err != nil {
		return Distribution{}, fmt.Errorf("outlier: distribution: %w", err)
	}
	return out, nil
}

func usualCaps() (out []int) {
	for power := 10; power < 100_000; power *= 10 {
		out = append(out, power, 2*power, 5*power)
	}
	return append(out, 100_000)
}

func (l *lists) distribution(ctx context.Context, filter bson.D, maxCounts []int) (Distribution, error) {
	out := Distribution{Caps: make([]Cap, len(maxCounts))}
	for i, n := range maxCounts {
		if n <= 0 {
			return out, fmt.Errorf("maxCounts[%d]: %w: not positive", i, ErrInvalid)
		}
		out.Caps[i].MaxCount = n
	}
	cursor, err := scan.Primary(l.coll).Aggregate(ctx, l.DistributionPipeline(filter, maxCounts...))
	if err != nil {
		return out, err
	}
	var found []bson.Raw
	if err := cursor.All(ctx, &found); err != nil || len(found) == 0 {
		return out, err
	}
	get := func(key string) int64 { n, _ := found[0].Lookup(key).AsInt64OK(); return n }
	out.Documents, out.Elements, out.Longest = get("documents"), get("elements"), get("longest")
	for i := range out.Caps {
		c := &out.Caps[i]
		c.Outliers, c.Outside, c.OverflowDocuments = get(capKey("outliers", i)), get(capKey("outside", i)), get(capKey("overflow", i))
		c.Inside = out.Elements - c.Outside
	}
	return out, nil
}

func capKey(name string, i int) string { return fmt.Sprintf("%s%d", name, i) }

// DistributionPipeline is what Distribution runs: one document {documents,
// elements, longest, outliers0, outside0, overflow0, outliers1, …}, numbered by
// maxCounts, or none for no documents.
func (l *lists) DistributionPipeline(filter bson.D, maxCounts ...int) mongo.Pipeline {
	if filter == nil {
		filter = bson.D{}
	}
	group := bson.D{
		{Key: "_id", Value: nil},
		{Key: "documents", Value: op("$sum", 1)},
		{Key: "elements", Value: op("$sum", "$total")},
		{Key: "longest", Value: op("$max", "$total")},
	}
	for i, n := range maxCounts {
		over := op("$max", 0, op("$subtract", "$total", n))
		group = append(group,
			bson.E{Key: capKey("outliers", i), Value: op("$sum", op("$cond", op("$gt", "$total", n), 1, 0))},
			bson.E{Key: capKey("outside", i), Value: op("$sum", over)},
			bson.E{Key: capKey("overflow", i), Value: op("$sum", op("$ceil", op("$divide", over, n)))})
	}
	return mongo.Pipeline{
		stage("$match", filter),
		stage("$project", bson.D{{Key: "_id", Value: 0}, {Key: "total", Value: l.total(l.anyArray())}}),
		stage("$group", group),
	}
}
