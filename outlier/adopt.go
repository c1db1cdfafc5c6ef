package outlier

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// AdoptOptions bounds Adopt.
type AdoptOptions struct {
	// Filter narrows the parents. Default nil: all.
	Filter bson.D
	// BatchSize is how many IDs are read, and with Options.CountTypical documents
	// counted, at a time. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents changed so far in
	// this call. Default nil.
	Progress func(done int64)
}

// AdoptResult counts the parents of a call of Adopt.
type AdoptResult struct {
	Examined int64 `json:"examined"` // that seemed to need a change
	Adopted  int64 `json:"adopted"`  // changed
	// Skipped were left alone: the array's field of the parent or of an overflow
	// document holds something else, see NotArray, or further overflow documents
	// cannot be numbered.
	Skipped int64 `json:"skipped"`
}

// Adopt brings all parents into the shape that the options describe: a collection
// that had no overflow documents before, or one whose bounds have been changed.
// Arrays over the bounds are split, parents with room are filled up from their
// overflow documents, what fits is folded back, and with Options.CountTypical
// typical documents get their total. All else stays as it is. It needs no
// checkpoint: what is done is not selected again, but for outliers whose parent
// MaxBytes has filled, which are looked at each time. Lists that it cannot change
// are skipped and counted.
//
// Each list is changed in a transaction of its own, beside live writes. Writers
// that do not know the pattern may still push into what has been split; run Adopt
// again, or Repair, when they are gone. Duplicates in sets that are not changed
// are left for Repair.
//
// Cost: a scan of the parents, a Rebalance for each that needs a change, and with
// Options.CountTypical 1 round trip a batch that writes what has no total.
func (l *Lists[ID, E]) Adopt(ctx context.Context, opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, defaultBatchSize, &o.Progress)
	if err == nil {
		err = l.adopt(ctx, o, &result)
	}
	if err != nil {
		return result, fmt.Errorf("outlier: adopt: %w", err)
	}
	return result, nil
}

func (l *lists) adopt(ctx context.Context, o AdoptOptions, result *AdoptResult) error {
	array := l.anyArray()
	moves := op("$or", l.overBounds(), op("$and", l.flagged(), op("$lt", size(array), l.opts.MaxCount)))
	needs := bson.A{op("$not", bson.A{l.isList()}), moves}
	if l.opts.CountTypical {
		needs = append(needs, l.miscounted())
	}
	filter := bson.D{{Key: "$expr", Value: op("$or", needs...)}}
	if len(o.Filter) > 0 {
		filter = bson.D{{Key: "$and", Value: bson.A{o.Filter, filter}}}
	}
	for docs, err := range scan.Batches(ctx, l.coll, filter, bson.D{{Key: "list", Value: l.isList()}, {Key: "moves", Value: moves}}, o.BatchSize) {
		if err != nil {
			return err
		}
		var count bson.A
		for _, doc := range docs {
			id := doc.Lookup("_id")
			result.Examined++
			if list, _ := doc.Lookup("list").BooleanOK(); !list {
				result.Skipped++
				continue
			}
			if move, _ := doc.Lookup("moves").BooleanOK(); !move {
				count = append(count, id)
				continue
			}
			changed, err := l.rebalance(ctx, id)
			switch {
			case errors.Is(err, ErrInvalid):
				result.Skipped++
			case err != nil && !errors.Is(err, ErrNotFound):
				return fmt.Errorf("list %s: %w", rawvalue.Text(id), err)
			case changed:
				result.Adopted++
			}
		}
		if len(count) > 0 {
			done, err := l.coll.UpdateMany(ctx, bson.D{
				{Key: "_id", Value: bson.D{{Key: "$in", Value: count}}},
				{Key: "$expr", Value: op("$and", l.isList(), l.miscounted())},
			}, l.become(nil, false, size(l.array())))
			if err != nil {
				return err
			}
			result.Adopted += done.MatchedCount
		}
		o.Progress(result.Adopted)
	}
	return nil
}
