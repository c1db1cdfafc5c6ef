package bucket

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// sweepBatch is the default Work.BatchSize for whole documents.
const sweepBatch = 100

// Archive moves the documents whose window ended at or before before into target, each batch (100
// documents by default, 8 MiB) in a transaction: every document is in exactly one of the two
// collections at any time. It can be stopped and run again. Late data may start the window anew and
// be archived later, besides what is there. work.Filter selects bucket documents.
//
// target is indexed and read by a second Buckets with the same options, but without IDField,
// because an archive may hold an ID twice.
//
// Cost: 1 round trip, more for many documents, to find them (index {series, start}
// with a filter on the series, {start} if you have made one, else a scan); for each batch 5, commit included, and
// 2 writes per document.
func (b *Buckets[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: archive")
	return b.core.archive(ctx, before, target, work)
}

// DeleteBefore deletes the documents whose window ended at or before before. A TTL index on an end
// field does the same, at the server's pace. work is as for Archive.
//
// Cost: as Archive to find them; for each batch 1 round trip, 1 write per document.
func (b *Buckets[S, M]) DeleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: delete before")
	return b.core.deleteBefore(ctx, before, work)
}

func (f *frame) deleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (mongopatterns.Result, error) {
	return f.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		deletes := make([]mongo.WriteModel, len(found))
		for i, doc := range found {
			deletes[i] = mongo.NewDeleteOneModel().SetFilter(f.itself(doc))
		}
		done, err := f.coll.BulkWrite(ctx, deletes, options.BulkWrite().SetOrdered(false))
		if err == nil {
			result.Done += done.DeletedCount
		}
		return err
	})
}

func (f *frame) archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (mongopatterns.Result, error) {
	if err := config.Collections("coll", f.coll, "target", target); err != nil {
		return mongopatterns.Result{}, err
	}
	return f.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		var moved int
		err := txn.Run(ctx, f.coll.Database().Client(), func(ctx context.Context) (err error) {
			moved, err = f.move(ctx, target, found)
			return err
		})
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
		for _, e := range elements {
			if e.Key() != "_id" {
				out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		inserts = append(inserts, mongo.NewInsertOneModel().SetDocument(out))
	}
	return inserts, err
}

// sweep finds the documents of windows that ended at or before before and gives them to step in
// batches, by _id, series and start. It bounds a batch by the size that the documents have on the
// server.
func (f *frame) sweep(ctx context.Context, before time.Time, work *mongopatterns.Work,
	step func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error) (mongopatterns.Result, error) {
	var total mongopatterns.Result
	w, err := maintain.Of(work, sweepBatch)
	if err == nil && before.IsZero() {
		err = fault.Invalid("before: no time")
	}
	if err != nil {
		return total, err
	}
	if w.DryRun {
		step = func(_ context.Context, found []bson.Raw, result *mongopatterns.Result) error {
			result.Done += int64(len(found))
			return nil
		}
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := f.window.Bounds(before)
	const size = "~size"
	docs := find(ctx, cursor.Primary(f.coll), expr.And(w.Filter, bson.D{{Key: f.start, Value: expr.Op("$lt", cut)}}),
		options.Find().SetBatchSize(int32(min(w.BatchSize, 1<<20)*10+1)).
			SetProjection(append(f.shardKey(), bson.E{Key: size, Value: expr.Op("$bsonSize", "$$ROOT")})))
	for batch, err := range cursor.Weighed(docs, w.BatchSize, w.BatchBytes, func(doc bson.Raw) int {
		return int(doc.Lookup(size).AsInt64())
	}) {
		if err == nil {
			err = maintain.Apart(ctx, f.coll.Name(), batch, &total, step)
		}
		if err != nil {
			return total, err
		}
		w.Progress(total)
	}
	return total, nil
}
