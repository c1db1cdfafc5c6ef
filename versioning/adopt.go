package versioning

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// AdoptOptions bounds Adopt.
type AdoptOptions struct {
	// Change returns what is known of how the document, as stored, came about; a
	// zero time stands for ever. Default nil: nothing.
	Change func(stored bson.Raw) Change
	// BatchSize is how many documents one step writes. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents adopted so far.
	// Default nil.
	Progress func(done int64)
}

// AdoptResult counts the documents of a call of Adopt.
type AdoptResult struct {
	Examined int64 `json:"examined"` // had no number when they were read
	Adopted  int64 `json:"adopted"`  // of these, but for those saved or removed meanwhile
}

// Adopt writes number and change into the current documents that have no number, and
// are revision 1 without it as well: for those who query or index these fields, and
// to record authors and times that are known from elsewhere. A document with a
// history, that something else has inserted anew, goes on where that ends. Adopt can
// run beside other writers, be stopped, and be run again.
//
// Cost: for each batch 1 round trip to read, 1 to look for a history and 1 write for
// each document, by _id.
func (d *Documents[ID, T]) Adopt(ctx context.Context, opts *AdoptOptions) (AdoptResult, error) {
	result, err := d.adopt(ctx, opts)
	return result, fail("adopt", err)
}

func (d *Documents[ID, T]) adopt(ctx context.Context, opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, err
	}
	projection := bson.D{{Key: d.opts.ChangeField, Value: 1}} // parse refuses one without a number
	if o.Change != nil {
		projection = nil
	}
	for batch, err := range scan.Batches(ctx, d.current, bson.D{{Key: d.opts.RevisionField, Value: nil}}, projection, o.BatchSize) {
		if err != nil {
			return result, err
		}
		ids := bson.A{}
		for _, raw := range batch {
			ids = append(ids, raw.Lookup("_id"))
		}
		ends, err := d.ends(ctx, ids)
		if err != nil {
			return result, err
		}
		var models []mongo.WriteModel
		for _, raw := range batch {
			s, err := d.parse(raw)
			if err != nil {
				return result, err
			}
			var change Change
			if o.Change != nil {
				change = o.Change(raw)
				if err := checkTime("AdoptOptions.Change: At", change.At); err != nil {
					return result, fmt.Errorf("document %s: %w", rawvalue.Text(s.id), err)
				}
			}
			last := ends[rawvalue.Key(s.id)]
			if change.At.Before(last.at) {
				change.At = last.at
			}
			models = append(models, mongo.NewUpdateOneModel().
				SetFilter(bson.D{{Key: "_id", Value: d.equal(s.id)}, {Key: d.opts.RevisionField, Value: nil}}).
				SetUpdate(bson.D{{Key: "$set", Value: bson.D{
					{Key: d.opts.RevisionField, Value: last.number + 1}, {Key: d.opts.ChangeField, Value: change.value()},
				}}}))
		}
		done, err := d.current.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if err != nil {
			return result, err
		}
		result.Examined += int64(len(batch))
		result.Adopted += done.MatchedCount
		o.Progress(result.Adopted)
	}
	return result, nil
}

// An end is the last revision in a history.
type end struct {
	number int64
	at     time.Time
}

// ends finds where the histories of documents end, keyed by idKey.
func (d *Documents[ID, T]) ends(ctx context.Context, ids bson.A) (map[string]end, error) {
	cursor, err := d.revisionsPrimary.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: d.rowFilter(bson.D{{Key: "$in", Value: ids}})}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$" + d.opts.DocumentIDField},
			{Key: "n", Value: bson.D{{Key: "$max", Value: "$" + d.opts.RevisionField}}},
			{Key: "at", Value: bson.D{{Key: "$max", Value: "$" + d.at()}}},
		}}},
	}, options.Aggregate().SetBatchSize(int32(min(len(ids)+1, 1<<20))))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	out := map[string]end{}
	for cursor.Next(ctx) {
		number, _ := wholeNumber(cursor.Current.Lookup("n"))
		e := end{number: number}
		if ms, ok := cursor.Current.Lookup("at").DateTimeOK(); ok {
			e.at = time.UnixMilli(ms).UTC()
		}
		out[rawvalue.Key(cursor.Current.Lookup("_id"))] = e
	}
	return out, cursor.Err()
}
