package paging

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Count says how the documents of a whole list are counted.
type Count int64

const (
	// CountNone counts nothing and costs nothing.
	CountNone Count = 0

	// CountExact counts every matching document. Like all counts it is an
	// aggregation, where a filter cannot hold $near or $where.
	//
	// Cost: 1 round trip, walking all matching index keys, or, without a filter,
	// all documents; none if the page shows the whole list.
	CountExact Count = -1

	// CountEstimated takes the number of documents from the collection's
	// metadata. Only for lists of the whole collection, and not in transactions.
	//
	// Cost: 1 round trip, no documents or keys.
	CountEstimated Count = -2

	countInvalid Count = math.MinInt64
)

// CountCapped counts up to n documents: enough for "1,000+". 0 is CountNone, and
// a negative n is ErrInvalid when it is used.
//
// Cost: 1 round trip, at most n+1 matching keys, or, without a filter, n+1
// documents; none if the page shows the whole list.
func CountCapped(n int) Count {
	if n < 0 {
		return countInvalid
	}
	return Count(n)
}

// TotalKind says what a Total means.
type TotalKind string

// The kinds of Total.
const (
	TotalExact     TotalKind = "exact"     // so many
	TotalEstimated TotalKind = "estimated" // about so many
	TotalAtLeast   TotalKind = "atLeast"   // so many or more
)

// Total is the number of documents of a list. As JSON it is
// {"n": 120, "kind": "exact"}.
type Total struct {
	N    int64     `json:"n"`
	Kind TotalKind `json:"kind"`
}

// String writes "120", "about 120" or "120+".
func (t Total) String() string {
	n := strconv.FormatInt(t.N, 10)
	switch t.Kind {
	case TotalEstimated:
		return "about " + n
	case TotalAtLeast:
		return n + "+"
	}
	return n
}

func (p *core) checkCount(src *source, count Count) error {
	switch {
	case count == CountEstimated && (src.filter != nil || src.pipeline != nil):
		return fault.Invalid("CountEstimated counts a whole collection, not a filter or pipeline")
	case count == countInvalid:
		return fault.Invalid("CountCapped of a negative number")
	case count < CountEstimated:
		return fault.Invalid("count %d", count)
	}
	return nil
}

// total counts, unless the exact number is known.
func (p *core) total(ctx context.Context, src *source, count Count, known int64) (*Total, error) {
	switch {
	case count == CountNone:
		return nil, nil
	case known >= 0:
		return &Total{N: known, Kind: TotalExact}, nil
	case count == CountEstimated:
		opts := options.EstimatedDocumentCount()
		if p.find.Comment != nil {
			opts.SetComment(p.comment())
		}
		n, err := p.coll.EstimatedDocumentCount(ctx, opts)
		return &Total{N: n, Kind: TotalEstimated}, err
	}
	limit := int64(0)
	if count > 0 {
		limit = int64(count) + 1
	}
	n, err := p.count(ctx, src, nil, limit)
	if err == nil && count > 0 && n > int64(count) {
		return &Total{N: int64(count), Kind: TotalAtLeast}, nil
	}
	return &Total{N: n, Kind: TotalExact}, err
}

// count counts the documents of some branches, up to limit (0: all).
func (p *core) count(ctx context.Context, src *source, branches []bson.D, limit int64) (n int64, err error) {
	stages := append(src.stages(branches, nil, 0, limit), bson.D{{Key: "$count", Value: "n"}})
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return p.coll.Aggregate(ctx, stages, p.aggregateOptions())
	}) {
		if err != nil {
			return 0, fmt.Errorf("count: %w", err)
		}
		n, _ = doc.Lookup("n").AsInt64OK()
	}
	return n, nil
}
