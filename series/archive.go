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
// Cost: 1 round trip, more for many documents, to find them (index {series, start} with a
// filter on the series, {start} if you have made it, else a scan of the collection); for
// each batch 5, commit included, and 2 writes per document.
func (s *Series[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: archive")
	c := s.core
	if err := config.Collections("coll", c.coll, "target", target); err != nil {
		return result, err
	}
	if before.IsZero() {
		return result, fault.Invalid("before: no time")
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := c.window.Bounds(before)
	scan := maintain.Scan{Filter: bson.D{{Key: c.opts.StartField, Value: expr.Op("$lt", cut)}}, Projection: c.key(), Whole: true, BatchSize: sweepBatch}
	return maintain.Run(ctx, c.coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) (err error) {
		moved := int64(len(found))
		if !w.DryRun {
			err = txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
				moved, err = c.move(ctx, target, found)
				return err
			})
		}
		if err == nil {
			result.Done += moved
		}
		return err
	})
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
