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

// Archive moves the documents whose window ended at or before before into
// target, each batch in a transaction: every document is in exactly one of the two
// collections at any time. It can be stopped and run again. Late data may start the
// window anew and be archived later, besides what is there. work.Filter narrows it to
// some bucket documents; a batch is 100 documents by default and no more than
// work.BatchBytes, 8 MiB. On a sharded cluster create target beforehand.
//
// target is indexed and read by a second Buckets with the same options, without
// IDField, because an archive may hold an ID twice:
//
//	o := *opts
//	o.IDField = ""
//	archived, err := bucket.New[int, Reading](target, window, &o)
//	err = archived.EnsureIndexes(ctx)
//	_, err = buckets.Archive(ctx, time.Now().AddDate(-1, 0, 0), target, nil)
//	for reading, err := range archived.Range(ctx, 12345, from, to) { ... }
//
// Cost: 1 round trip and further ones for many documents to find them (index
// {start} with RetentionIndex, {series, start} with a filter on the series, else
// a scan of the collection); for each batch 5, commit included, and 2 writes per
// document.
func (b *Buckets[S, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: archive")
	return b.core.archive(ctx, before, target, work, false, b.core.rename)
}

// DeleteBefore deletes the documents whose window ended at or before before. A
// TTL index on an end field does the same, at the server's pace. work is as for
// Archive.
//
// Cost: as Archive to find them; for each batch 1 round trip, 1 write per document.
func (b *Buckets[S, M]) DeleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: delete before")
	return b.core.deleteBefore(ctx, before, work)
}

func (f *frame) deleteBefore(ctx context.Context, before time.Time, work *mongopatterns.Work) (mongopatterns.Result, error) {
	return f.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		models := make([]mongo.WriteModel, len(found))
		for i, doc := range found {
			models[i] = mongo.NewDeleteOneModel().SetFilter(f.itself(doc))
		}
		done, err := f.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if err == nil {
			result.Done += done.DeletedCount
		}
		return err
	})
}

// A merge says how documents come into target, which holds there of the same _ids, or
// with byPlace of the same windows.
type merge func(docs, there []bson.Raw) (inserts []any, updates []mongo.WriteModel)

func (f *frame) archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work, byPlace bool, merge merge) (mongopatterns.Result, error) {
	if err := config.Collections("coll", f.coll, "target", target); err != nil {
		return mongopatterns.Result{}, err
	}
	return f.sweep(ctx, before, work, func(ctx context.Context, found []bson.Raw, result *mongopatterns.Result) error {
		var moved int64
		err := txn.Run(ctx, f.coll.Database().Client(), func(ctx context.Context) (err error) {
			moved, err = f.move(ctx, target, found, byPlace, merge)
			return err
		})
		if err == nil {
			result.Done += moved
		}
		return err
	})
}

// move copies documents to target and deletes them, within a transaction that reads
// them once more.
func (f *frame) move(ctx context.Context, target *mongo.Collection, found []bson.Raw, byPlace bool, merge merge) (int64, error) {
	var ids, places bson.A
	for _, doc := range found {
		ids = append(ids, doc.Lookup("_id"))
		places = append(places, f.itself(doc)[1:])
	}
	byID := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	same := byID
	if byPlace {
		same = bson.D{{Key: "$or", Value: places}}
	}
	oneBatch := options.Find().SetBatchSize(int32(len(ids) + 1))
	docs, err := cursor.Collect(find(ctx, f.coll, byID, oneBatch))
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	there, err := cursor.Collect(find(ctx, target, same, oneBatch, options.Find().SetProjection(f.shardKey())))
	if err != nil {
		return 0, err
	}
	inserts, updates := merge(docs, there)
	if len(inserts) > 0 {
		if _, err := target.InsertMany(ctx, inserts); err != nil {
			return 0, err
		}
	}
	if len(updates) > 0 {
		if _, err := target.BulkWrite(ctx, updates); err != nil {
			return 0, err
		}
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
	return int64(len(docs)), err
}

// rename gives archived buckets whose _id is taken another one: any will do.
func (c *arrays) rename(docs, there []bson.Raw) (inserts []any, _ []mongo.WriteModel) {
	taken := map[string]bool{}
	for _, doc := range there {
		taken[value.Key(doc.Lookup("_id"))] = true
	}
	for _, doc := range docs {
		if !taken[value.Key(doc.Lookup("_id"))] {
			inserts = append(inserts, doc)
			continue
		}
		out := bson.D{{Key: "_id", Value: bson.NewObjectID()}}
		elements, _ := doc.Elements()
		for _, e := range elements {
			if e.Key() != "_id" {
				out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		inserts = append(inserts, out)
	}
	return inserts, nil
}

// sweep finds the documents of windows that ended at or before before and gives
// them to step in batches, by _id, series and start. It bounds a batch by the size that
// the documents have on the server.
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
	var found []bson.Raw
	var held int64
	flush := func() error {
		if len(found) == 0 {
			return nil
		}
		err := maintain.Apart(ctx, f.coll.Name(), found, &total, step)
		if found, held = nil, 0; err == nil {
			w.Progress(total)
		}
		return err
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := f.window.Bounds(before)
	const size = "~size"
	for doc, err := range find(ctx, cursor.Primary(f.coll), expr.And(w.Filter, bson.D{{Key: f.start, Value: bson.D{{Key: "$lt", Value: cut}}}}),
		options.Find().SetBatchSize(int32(min(w.BatchSize, 1<<20)*10+1)).
			SetProjection(append(f.shardKey(), bson.E{Key: size, Value: expr.Op("$bsonSize", "$$ROOT")}))) {
		if err != nil {
			return total, err
		}
		n, _ := value.Lookup(doc, size).AsInt64OK()
		if len(found) > 0 && (len(found) == w.BatchSize || held+n > int64(w.BatchBytes)) {
			if err := flush(); err != nil {
				return total, err
			}
		}
		found, held = append(found, doc), held+n
	}
	return total, flush()
}
