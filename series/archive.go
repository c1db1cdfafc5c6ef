package series

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

// Archive moves the documents whose window ended at or before before into target, each
// batch in a transaction: every document is in exactly one of the two collections at
// any time. It can be stopped and run again. Late data may start the window anew and be
// archived later, besides what is there. work.Filter narrows it to some documents; a
// batch is 100 by default. On a sharded cluster create target beforehand.
//
// target is indexed and read by a second Series with the same options, without
// BatchField.
//
// Cost: 1 round trip a batch to find them (index {start} with RetentionIndex, {series,
// start} with a filter on the series, else a scan of the collection); for each batch 5,
// commit included, and 2 writes per document.
func (s *Series[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: archive")
	c := s.core
	if err := config.Collections("coll", c.coll, "target", target); err != nil {
		return result, err
	}
	return c.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		var moved int64
		err := txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) (err error) {
			moved, err = c.move(ctx, target, found)
			return err
		})
		if err == nil {
			result.Done += moved
		}
		return err
	})
}

// DeleteBefore deletes the documents whose window ended at or before before. A TTL
// index on EndField does the same, at the server's pace. work is as for Archive.
//
// Cost: as Archive to find them; for each batch 1 round trip, 1 write per document.
func (s *Series[S, M]) DeleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: delete before")
	c := s.core
	return c.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		models := make([]mongo.WriteModel, len(found))
		for i, doc := range found {
			models[i] = mongo.NewDeleteOneModel().SetFilter(c.itself(doc))
		}
		done, err := c.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if err == nil {
			result.Done += done.DeletedCount
		}
		return err
	})
}

// sweep gives the documents of windows that ended at or before before to step, in
// batches, by whatever index finds them: their starts never change.
func (c *store) sweep(ctx context.Context, before time.Time, work *mongopatterns.Work,
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
	cut, _ := c.window.Bounds(before)
	ended := expr.And(w.Filter, bson.D{{Key: c.opts.StartField, Value: bson.D{{Key: "$lt", Value: cut}}}})
	var found []bson.Raw
	var held int64
	flush := func() error {
		batch := found
		if found, held = nil, 0; len(batch) == 0 {
			return nil
		}
		err := maintain.Apart(ctx, c.coll.Name(), batch, &total, step)
		if err == nil {
			w.Progress(total)
		}
		return err
	}
	for doc, err := range find(ctx, cursor.Primary(c.coll), ended, options.Find().SetBatchSize(int32(min(w.BatchSize, 1<<20)*10+1)).
		SetProjection(append(c.key(), bson.E{Key: c.opts.BytesField, Value: 1}))) {
		if err != nil {
			return total, err
		}
		bytes, _ := value.Lookup(doc, c.opts.BytesField).AsInt64OK()
		if len(found) == w.BatchSize || held+bytes > int64(w.BatchBytes) {
			if err := flush(); err != nil {
				return total, err
			}
		}
		found, held = append(found, doc), held+bytes
	}
	return total, flush()
}

// move copies documents to target and deletes them, within a transaction that reads
// them once more. One whose _id the archive has gets another: any will do.
func (c *store) move(ctx context.Context, target *mongo.Collection, found []bson.Raw) (int64, error) {
	var ids bson.A
	for _, doc := range found {
		ids = append(ids, doc.Lookup("_id"))
	}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	oneBatch := options.Find().SetBatchSize(int32(len(ids) + 1))
	docs, err := cursor.Collect(find(ctx, c.coll, filter, oneBatch))
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	there, err := cursor.Collect(find(ctx, target, filter, oneBatch, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}})))
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	for _, doc := range there {
		taken[value.Key(doc.Lookup("_id"))] = true
	}
	inserts, deletes := make([]any, len(docs)), make([]mongo.WriteModel, len(docs))
	for i, doc := range docs {
		deletes[i] = mongo.NewDeleteOneModel().SetFilter(c.unchanged(doc, true))
		inserts[i] = doc
		if taken[value.Key(doc.Lookup("_id"))] {
			other := bson.D{{Key: "_id", Value: bson.NewObjectID()}}
			elements, _ := doc.Elements()
			for _, e := range elements {
				if e.Key() != "_id" {
					other = append(other, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			inserts[i] = other
		}
	}
	if _, err := target.InsertMany(ctx, inserts); err != nil {
		return 0, err
	}
	done, err := c.coll.BulkWrite(ctx, deletes)
	if err == nil && done.DeletedCount != int64(len(docs)) {
		err = txn.Conflict("archive")
	}
	return int64(len(docs)), err
}
