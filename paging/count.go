package paging

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
)

// Count says how the documents of a whole list are counted: 0 not at all, and a positive
// Count up to so many, which is enough for "1,000+". Like CountExact it is an aggregation,
// where a filter cannot hold $near or $where.
//
// Cost: 1 round trip, none if the page shows the whole list. CountExact walks all matching
// index keys, or, without a filter, all documents; a positive one at most one more than
// its number; CountEstimated none.
type Count int64

const (
	CountExact     Count = -1 // counts every matching document
	CountEstimated Count = -2 // takes the metadata's number; for whole collections, not in transactions
)

// Total is the number of documents of a list, exact unless it says otherwise.
type Total struct {
	N         int64 `json:"n"`
	Estimated bool  `json:"estimated,omitempty"` // about so many
	AtLeast   bool  `json:"atLeast,omitempty"`   // so many or more
}

// total counts, unless the exact number is known.
func (p *core) total(ctx context.Context, src *source, count Count, known int64) (*Total, error) {
	switch {
	case count == 0:
		return nil, nil
	case known >= 0:
		return &Total{N: known}, nil
	case count == CountEstimated:
		n, err := p.coll.EstimatedDocumentCount(ctx, options.EstimatedDocumentCount().SetComment(p.find.Comment))
		return &Total{N: n, Estimated: true}, err
	}
	limit := int64(0)
	if count > 0 {
		limit = int64(count) + 1
	}
	n, err := p.count(ctx, src, nil, limit)
	if err == nil && count > 0 && n > int64(count) {
		return &Total{N: int64(count), AtLeast: true}, nil
	}
	return &Total{N: n}, err
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
