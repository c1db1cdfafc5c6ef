package series

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/checkpoint"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
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
	return c.adopt(ctx, src, work, func(b *batch, doc bson.Raw) error {
		if convert == nil {
			return c.plain(b, doc, func(m bson.Raw) error { return c.codec.Decode(m, new(M)) })
		}
		series, all, err := convert(doc)
		if err != nil {
			return err
		}
		var trial batch // a document is adopted as a whole or not at all
		for i := range all {
			if err := c.add(&trial, series, c.measurement(&all[i])); err != nil {
				return fmt.Errorf("measurement %d: %w", i, err)
			}
		}
		for i := range all {
			if err := c.add(b, series, c.measurement(&all[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unwind returns a convert function of Adopt for buckets with an array of measurements,
// as package bucket keeps them.
func (s *Series[S, M]) Unwind(seriesField, arrayField string) func(doc bson.Raw) (S, []M, error) {
	return func(doc bson.Raw) (series S, all []M, err error) {
		if series, err = codec.DecodeValue[S](s.core.codec, value.Lookup(doc, seriesField)); err == nil {
			all, err = codec.DecodeValue[[]M](s.core.codec, value.Lookup(doc, arrayField))
		}
		if err != nil {
			err = fault.Invalid("%w", err)
		}
		return series, all, err
	}
}

// plain adds a source document as one measurement. fits refuses what no read could
// decode.
func (c *store) plain(b *batch, doc bson.Raw, fits func(bson.Raw) error) error {
	elements, err := doc.Elements()
	if err != nil {
		return fault.Invalid("%w", err)
	}
	var series bson.RawValue
	rest := bson.D{}
	for _, e := range elements {
		switch e.Key() {
		case c.opts.SeriesField:
			series = e.Value()
		case "_id":
		default:
			rest = append(rest, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if series.Type == 0 {
		return fault.Invalid("no series in %q", c.opts.SeriesField)
	}
	m, err := bson.Marshal(rest)
	if err == nil {
		err = fits(m)
	}
	if err != nil {
		return fault.Invalid("%w", err)
	}
	return c.addDocument(b, series, m)
}

// adopt converts each batch and stores it together with the checkpoint, which only then
// moves: a document that is refused by itself leaves it where it was, and the next one
// passes over.
func (c *store) adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, convert func(b *batch, doc bson.Raw) error) (mongopatterns.Result, error) {
	var filter any
	if work != nil {
		filter = work.Filter
	}
	point, err := checkpoint.Open(ctx, src, c.coll, filter, c.codec, ErrConcurrentAdopt)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	return maintain.Run(ctx, src, work, maintain.Scan{Filter: point.After(), BatchSize: manyBatch}, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var b batch
		for _, doc := range docs {
			switch err := convert(&b, doc); {
			case err == nil:
			case errors.Is(err, ErrSkip):
				result.Skipped++
			case errors.Is(err, fault.ErrInvalid):
				result.Fail(src.Name(), doc.Lookup("_id"), err)
			default:
				return fault.Of(doc.Lookup("_id"), err)
			}
		}
		if w.DryRun {
			result.Done += int64(b.count)
			return nil
		}
		last, blocks := docs[len(docs)-1].Lookup("_id"), b.sealed(c)
		var stored mongopatterns.Result
		err := txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
			// The checkpoint first: who comes second leaves nothing behind.
			err := point.Move(ctx, last)
			if err == nil {
				stored, err = c.write(ctx, blocks)
			}
			return err
		})
		if err == nil {
			point.Moved(last)
			result.Add(stored)
		}
		return err
	})
}
