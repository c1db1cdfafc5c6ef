package bucket

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
)

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
	return b.core.Archive(ctx, before, target, work, frame.Insert)
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
	c := b.core
	return c.base.Adopt(ctx, src, work, 0, c.begin, func(batch frame.Batch, doc bson.Raw) (err error) {
		var series, m any
		if convert == nil {
			series, m, err = c.Plain(doc, c.opts.IDField == "_id", new(M))
		} else {
			series, m, err = convert(doc)
		}
		if err == nil {
			err = batch.Add(series, m)
		}
		return err
	})
}
