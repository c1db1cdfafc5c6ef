// Package maintain has the loop of the calls that go over many documents, such as Check, Repair and Adopt.
package maintain

import (
	"cmp"
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A Scan says which documents a step reads, and how.
type Scan struct {
	// Filter is the filter of the pattern; Work.Filter narrows it. Default: all documents.
	Filter bson.D
	// Projection has the fields that the step needs. Default: the whole document.
	Projection bson.D
	// Pipeline is an aggregation over the documents that the filters select, in an order of its own. Its
	// results must have distinct _ids. Default: a find in the order of _id.
	Pipeline mongo.Pipeline
	// Whole is for a step that works on whole documents but reads only Projection: their full sizes bound a
	// batch. Without a Pipeline they come in the order of the index that finds them, whose keys must never change. A
	// Pipeline sets SizeField itself. Default false.
	Whole bool
	// BatchSize is the default of the call. Default 1000.
	BatchSize int
}

const (
	defaultBatch = 1000
	defaultBytes = 8 << 20
	// SizeField is the field with the size of the whole document.
	SizeField = "~size"
)

// Ready refuses a Work that cannot be used, and collections with a default collation.
//
// Cost: that of collation.Refuse.
func Ready(ctx context.Context, work *mongopatterns.Work, colls ...*scoped.Collection) error {
	if _, err := Completed(work, 0); err != nil {
		return err
	}
	return collation.Refuse(ctx, colls...)
}

// Completed returns a copy of work with defaults. Negative bounds and a Filter that is not a document are
// ErrInvalid.
func Completed(work *mongopatterns.Work, batch int) (mongopatterns.Work, error) {
	var w mongopatterns.Work
	if work != nil {
		w = *work
	}
	if w.BatchSize < 0 || w.BatchBytes < 0 {
		return w, fault.Invalid("Work.BatchSize and Work.BatchBytes must not be negative")
	}
	if err := codec.CheckFilter("Work.Filter", w.Filter); err != nil {
		return w, err
	}
	w.BatchSize = cmp.Or(w.BatchSize, batch, defaultBatch)
	w.BatchBytes = cmp.Or(w.BatchBytes, defaultBytes)
	if w.Progress == nil {
		w.Progress = func(mongopatterns.Result) {}
	}
	return w, nil
}

// CompletedItems is Completed for a call that stores items of the caller. A Filter is ErrInvalid, and a DryRun if the
// call has none.
func CompletedItems(work *mongopatterns.Work, batch int, dryRun bool) (mongopatterns.Work, error) {
	w, err := Completed(work, batch)
	switch {
	case err != nil:
	case w.Filter != nil:
		err = fault.Invalid("Work.Filter: it must be nil: this call stores items and selects no documents")
	case w.DryRun && !dryRun:
		err = fault.Invalid("Work.DryRun: it must be false: this call has no dry run")
	}
	return w, err
}

// Docs yields the documents that work and scan select, from the primary, in the order of _id. In the order of
// another index, a document whose key changes meanwhile could be missed. A find with scan.Whole reads ten
// batches at a time.
func Docs(ctx context.Context, coll *scoped.Collection, work mongopatterns.Work, scan Scan) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		filter, size := expr.And(scan.Filter, work.Filter), int32(min(work.BatchSize, 1<<20))
		if scan.Pipeline != nil {
			return cursor.Primary(coll).Aggregate(ctx, append(mongo.Pipeline{expr.Op("$match", filter)}, scan.Pipeline...),
				options.Aggregate().SetAllowDiskUse(true).SetBatchSize(size))
		}
		opts := options.Find().SetBatchSize(size)
		if scan.Whole {
			whole := expr.Element(SizeField, expr.Op("$bsonSize", "$$ROOT"))
			opts.SetBatchSize(10*size + 1).SetProjection(append(bson.D{whole}, scan.Projection...))
		} else if opts.SetSort(expr.D("_id", 1)); scan.Projection != nil {
			opts.SetProjection(scan.Projection)
		}
		return cursor.Primary(coll).Find(ctx, filter, opts)
	})
}

// Batches is Docs in the batches of work.
//
// Cost: 1 round trip for each batch, index _id unless a filter has a better one.
func Batches(ctx context.Context, coll *scoped.Collection, work mongopatterns.Work, scan Scan) iter.Seq2[[]bson.Raw, error] {
	docs := Docs(ctx, coll, work, scan)
	if scan.Whole {
		return cursor.Weighed(docs, work.BatchSize, work.BatchBytes, func(doc bson.Raw) int { return int(doc.Lookup(SizeField).AsInt64()) })
	}
	return cursor.Batches(docs, work.BatchSize, work.BatchBytes)
}

// A Step does one batch and adds what it did to result; Run counts Examined. With work.DryRun it must write
// nothing. If the server refuses a batch, the Step is called again for each half, so it must not keep state
// except in result. It may return such an error after it has done some documents. When it is called again for the halves it
// meets them: it must then count each as Skipped, which Run subtracts, or never count anything as Skipped.
type Step func(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error

// Run calls step for all batches. If the server refuses a batch, Run does it again in halves, so that one bad
// document of 1000 costs 20 more calls of step; a document that is refused alone is counted, named and skipped.
// With Work.Strict a refused document ends Run. So it does in a transaction of the caller, because the error has
// ended the transaction. Every other error ends Run, too.
//
// The documents of a batch are distinct and were read before step, so the writes of a step must check in
// their filters that the documents have not changed.
func Run(ctx context.Context, coll *scoped.Collection, work *mongopatterns.Work, scan Scan, step Step) (total mongopatterns.Result, err error) {
	w, err := Completed(work, scan.BatchSize)
	if err != nil {
		return total, err
	}
	ctx, judge := scoped.Judged(ctx)
	defer func() { err = judge(err) }()
	do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		return step(ctx, part, w, result)
	}
	d := division{
		collection: coll.Name(),
		strict:     w.Strict,
		joined:     txn.Running(ctx),
		total:      &total,
		progress:   func() { w.Progress(total) },
		do:         do,
	}
	for batch, err := range Batches(ctx, coll, w, scan) {
		if err != nil {
			return total, err
		}
		if err := d.run(ctx, batch); err != nil {
			return total, err
		}
		w.Progress(total)
	}
	return total, nil
}

// Rewrite sends the guarded updates of a step. A document that has changed since it was read is counted as
// Skipped.
func Rewrite(ctx context.Context, coll *scoped.Collection, models []mongo.WriteModel, work mongopatterns.Work, result *mongopatterns.Result) error {
	if work.DryRun || len(models) == 0 {
		result.Done += int64(len(models))
		return nil
	}
	done, err := fault.Many(coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	if done != nil { // those beside a refused one are written
		result.Done += done.MatchedCount
	}
	if err == nil {
		result.Skipped += int64(len(models)) - done.MatchedCount
	}
	return err
}
