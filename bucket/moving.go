package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/checkpoint"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// wholeBatch is the default Work.BatchSize for whole documents.
const wholeBatch = 100

// Archive moves the documents whose window ended at or before before into target, each batch (100 documents
// by default, 8 MiB) in a transaction: every document is in exactly one of the two collections at any time.
// It can be stopped and run again. Late data may start the window anew and be archived later, besides what is
// there. work.Filter selects bucket documents.
//
// target is indexed and read by a second Buckets with the same options, but without IDField, because an
// archive may hold an ID twice.
//
// Cost: 1 round trip, more for many documents, to find them (index {series, start} with a filter on the
// series, {start} if you have made it, else a scan); for each batch 5 and 2 writes a document.
func (b *Buckets[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: archive")
	return b.core.archive(ctx, before, target, work)
}

func (f *frame) archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (mongopatterns.Result, error) {
	err := config.Collections("coll", f.coll, "target", target)
	if err == nil && before.IsZero() {
		err = fault.Invalid("before: no time")
	}
	if err != nil {
		return mongopatterns.Result{}, err
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := f.window.Bounds(before)
	scan := maintain.Scan{Filter: bson.D{{Key: f.start, Value: expr.Op("$lt", cut)}}, Projection: f.shardKey(), Whole: true, BatchSize: wholeBatch}
	return maintain.Run(ctx, f.coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) (err error) {
		moved := len(found)
		if !w.DryRun {
			err = txn.Run(ctx, f.coll.Database().Client(), func(ctx context.Context) error {
				moved, err = f.move(ctx, target, found)
				return err
			})
		}
		if err == nil {
			result.Done += int64(moved)
		}
		return err
	})
}

// move brings documents to target and deletes them, within a transaction that reads them once more.
func (f *frame) move(ctx context.Context, target *mongo.Collection, found []bson.Raw) (int, error) {
	docs, err := f.byID(ctx, f.coll, found, bson.D{})
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	arrivals, err := f.layout.arrive(ctx, target, docs)
	if err != nil {
		return 0, err
	}
	if _, err := target.BulkWrite(ctx, arrivals); err != nil {
		return 0, err
	}
	deletes := make([]mongo.WriteModel, len(docs))
	for i, doc := range docs {
		filter := f.itself(doc)
		if f.guard != "" { // for servers whose transactions do not isolate the read
			filter = append(filter, bson.E{Key: f.guard, Value: stored(value.Lookup(doc, f.guard))})
		}
		deletes[i] = mongo.NewDeleteOneModel().SetFilter(filter)
	}
	done, err := f.coll.BulkWrite(ctx, deletes)
	if err == nil && done.DeletedCount != int64(len(docs)) {
		err = txn.Conflict("archive")
	}
	return len(docs), err
}

// byID reads the documents with the _ids of others.
func (f *frame) byID(ctx context.Context, coll *mongo.Collection, others []bson.Raw, fields bson.D) ([]bson.Raw, error) {
	ids := make([]bson.RawValue, len(others))
	for i, doc := range others {
		ids[i] = doc.Lookup("_id")
	}
	return cursor.Collect(find(ctx, coll, bson.D{{Key: "_id", Value: expr.Op("$in", ids)}},
		options.Find().SetBatchSize(int32(len(ids)+1)).SetProjection(fields)))
}

// arrive gives archived buckets whose _id is taken another one: any will do.
func (c *arrays) arrive(ctx context.Context, archive *mongo.Collection, docs []bson.Raw) (inserts []mongo.WriteModel, err error) {
	there, err := c.byID(ctx, archive, docs, bson.D{{Key: "_id", Value: 1}})
	taken := map[string]bool{}
	for _, doc := range there {
		taken[value.Key(doc.Lookup("_id"))] = true
	}
	for _, doc := range docs {
		if !taken[value.Key(doc.Lookup("_id"))] {
			inserts = append(inserts, mongo.NewInsertOneModel().SetDocument(doc))
			continue
		}
		out := bson.D{{Key: "_id", Value: bson.NewObjectID()}}
		elements, _ := doc.Elements()
		for _, e := range elements[1:] { // the server has _id first
			out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
		}
		inserts = append(inserts, mongo.NewInsertOneModel().SetDocument(out))
	}
	return inserts, err
}

// Adopt copies a collection of one document per measurement into buckets, in the order of its _id. convert
// takes a source document apart. nil takes it as the measurement, without its _id (unless that is
// Options.IDField) and without the field Options.SeriesField, the series. The source stays as it is.
// work.Filter selects documents of the source.
//
// Each batch is stored in one transaction with a checkpoint, which each source and filter has, in the
// collection named as the buckets' with ".adopt" added. So Adopt can be stopped at any point and run again
// without storing anything twice, also to fetch what was inserted with a higher _id since. Done are stored,
// Skipped were held already (Options.IDField) or answered with [ErrSkip]. What cannot be a measurement, or
// convert calls ErrInvalid, is Failed and named, and passed over; any other error of convert ends the call.
//
// Cost: 2 round trips to begin, more to read the source by _id; for each batch 4, commit included, 1 write
// per bucket it falls into and 1 for the checkpoint.
func (b *Buckets[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: adopt")
	return b.core.adopt(ctx, src, work, func(doc bson.Raw) (any, any, error) {
		if convert != nil {
			return convert(doc)
		}
		series, plain, err := b.core.plain(doc)
		var raw bson.Raw
		if err == nil {
			raw, err = b.core.codec.Document(plain)
		}
		if err == nil {
			var fits M // or no read would succeed
			err = b.core.codec.Decode(raw, &fits)
		}
		if err != nil {
			err = fault.Invalid("%w", err)
		}
		return series, raw, err
	})
}

type conversion func(doc bson.Raw) (series, m any, err error)

// adopt converts each batch and stores it together with the checkpoint, which only then moves: a document
// that is refused by itself leaves it where it was, and the next one passes over.
func (c *arrays) adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, convert conversion) (mongopatterns.Result, error) {
	var filter any
	if work != nil {
		filter = work.Filter
	}
	point, err := checkpoint.Open(ctx, src, c.coll, filter, c.codec, ErrConcurrentAdopt)
	if err != nil {
		return mongopatterns.Result{}, err
	}
	return maintain.Run(ctx, src, work, maintain.Scan{Filter: point.After()}, func(ctx context.Context, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		pending, err := c.converted(src.Name(), docs, convert, result)
		if err != nil || w.DryRun {
			result.Done += int64(pending.items)
			return err
		}
		last := docs[len(docs)-1].Lookup("_id")
		var done mongopatterns.Result
		err = txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
			err := point.Move(ctx, last) // first: who comes second leaves nothing behind, and no document is refused for it
			if err == nil {
				done, err = c.write(ctx, pending.groups, c.bulk)
			}
			return err
		})
		if err == nil {
			point.Moved(last)
			result.Add(done)
		}
		return err
	})
}

// converted groups what convert makes of documents, and counts those that it leaves out.
func (c *arrays) converted(src string, docs []bson.Raw, convert conversion, result *mongopatterns.Result) (batch, error) {
	var pending batch
	for _, doc := range docs {
		series, m, err := convert(doc)
		if err == nil {
			err = c.add(&pending, series, m)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrSkip):
			result.Skipped++
		case errors.Is(err, fault.ErrInvalid):
			result.Fail(src, doc.Lookup("_id"), err)
		default:
			return batch{}, fault.Of(doc.Lookup("_id"), err)
		}
	}
	return pending, nil
}

// plain is the default conversion. The measurement keeps fields that M lacks.
func (c *arrays) plain(doc bson.Raw) (series bson.RawValue, m bson.D, err error) {
	elements, err := doc.Elements()
	for _, e := range elements {
		switch {
		case e.Key() == c.series:
			series = e.Value()
		case e.Key() != "_id" || c.opts.IDField == "_id":
			m = append(m, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if err == nil && series.Type == 0 {
		err = fmt.Errorf("no series in %q", c.series)
	}
	return series, m, err
}
