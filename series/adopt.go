package series

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt copies the measurements of another collection, in the order of its _id. convert
// takes a source document apart: into one measurement, or those of a bucket, see
// Unwind. nil takes the document as one measurement, without its _id and without the
// field named as Options.SeriesField, which becomes the series; it keeps fields that M
// lacks. The source stays as it is. work.Filter selects documents of the source; each
// filter has a checkpoint of its own.
//
// Each batch is stored in one transaction with the checkpoint, a document in the
// collection named as the series' with ".adopt" added. So Adopt can be stopped at any
// point and run again without storing anything twice, also to fetch what was inserted
// with a higher _id since. (On a sharded cluster create that collection beforehand;
// drop it when the source is gone.) Examined are documents, Done measurements; Skipped
// are documents answered with [ErrSkip]. What cannot be a measurement, or convert calls
// ErrInvalid, is Failed as a whole document and named; any other error of convert ends
// the call.
//
// Cost: 2 round trips to begin, further ones to read the source by its index _id; for
// each batch 4, commit included, and 1 write for each document it falls into and 1
// for the checkpoint.
func (s *Series[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, []M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: adopt")
	c := s.core
	return c.Frame.Adopt(ctx, src, work, frame.ManyBatch, c.begin, func(b frame.Batch, doc bson.Raw) error {
		if convert == nil {
			series, m, err := c.Plain(doc, false, new(M))
			if err == nil {
				err = b.(*batch).addDocument(series, m)
			}
			return err
		}
		series, all, err := convert(doc)
		if err != nil {
			return err
		}
		for _, b := range []frame.Batch{c.begin(), b} { // a document is adopted as a whole or not at all
			for i := range all {
				if err := b.Add(series, c.measurement(&all[i])); err != nil {
					return fmt.Errorf("measurement %d: %w", i, err)
				}
			}
		}
		return nil
	})
}

// Unwind returns a convert function of Adopt for buckets with an array of measurements,
// as package bucket keeps them.
func (s *Series[S, M]) Unwind(seriesField, arrayField string) func(doc bson.Raw) (S, []M, error) {
	return func(doc bson.Raw) (series S, all []M, err error) {
		if series, err = codec.DecodeValue[S](s.core.Codec, value.Lookup(doc, seriesField)); err == nil {
			all, err = codec.DecodeValue[[]M](s.core.Codec, value.Lookup(doc, arrayField))
		}
		if err != nil {
			err = fault.Invalid("%w", err)
		}
		return series, all, err
	}
}
