// Package maintain has the loop of the calls that go over many documents, such as Check, Repair and Adopt.
package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
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
func Ready(ctx context.Context, work *mongopatterns.Work, colls ...*comment.Collection) error {
	if _, err := Of(work, 0); err != nil {
		return err
	}
	return collation.Refuse(ctx, colls...)
}

// Of returns a copy of work with defaults. Negative bounds and a Filter that is not a document are
// ErrInvalid.
func Of(work *mongopatterns.Work, batch int) (mongopatterns.Work, error) {
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

// OfItems is Of for a call that stores items of the caller: a Filter is ErrInvalid, and a DryRun if the call
// has none.
func OfItems(work *mongopatterns.Work, batch int, dryRun bool) (mongopatterns.Work, error) {
	w, err := Of(work, batch)
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
func Docs(ctx context.Context, coll *comment.Collection, work mongopatterns.Work, scan Scan) iter.Seq2[bson.Raw, error] {
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
func Batches(ctx context.Context, coll *comment.Collection, work mongopatterns.Work, scan Scan) iter.Seq2[[]bson.Raw, error] {
	docs := Docs(ctx, coll, work, scan)
	if scan.Whole {
		return cursor.Weighed(docs, work.BatchSize, work.BatchBytes, func(doc bson.Raw) int { return int(doc.Lookup(SizeField).AsInt64()) })
	}
	return cursor.Batches(docs, work.BatchSize, work.BatchBytes)
}

// A Step does one batch and adds what it did to result; Run counts Examined. With work.DryRun it must write
// nothing. If the server refuses a batch, the Step is called again for each half, so it must not keep state
// except in result.
type Step func(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error

// Run calls step for all batches. If the server refuses a batch, Run does it again in halves, so that one bad
// document of 1000 costs 20 more calls of step; a document that is refused alone is counted, named and skipped.
// With Work.Strict a refused document ends Run. So it does in a transaction of the caller, because the error has
// ended the transaction. Every other error ends Run, too.
//
// The documents of a batch are distinct and were read before step, so the writes of a step must check in
// their filters that the documents have not changed.
func Run(ctx context.Context, coll *comment.Collection, work *mongopatterns.Work, scan Scan, step Step) (total mongopatterns.Result, err error) {
	w, err := Of(work, scan.BatchSize)
	if err != nil {
		return total, err
	}
	begun := false
	defer func() {
		if begun && !w.DryRun {
			err = fault.Unknown(err) // a step may write several times
		}
	}()
	do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		begun = true
		return step(ctx, part, w, result)
	}
	d := division{coll.Name(), w.Strict, txn.Running(ctx), &total, func() { w.Progress(total) }, do}
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

// TooLarge is the error of a step whose batch is too large for one transaction, and has written nothing. Run does the
// batch in halves, also with Work.Strict, and refuses a document that is too large alone.
func TooLarge(err error) error { return fault.Refuse(&large{err}) }

type large struct{ error }

func (l *large) Unwrap() error { return l.error }

// Rewrite sends the guarded updates of a step. A document that has changed since it was read is counted as
// Skipped.
func Rewrite(ctx context.Context, coll *comment.Collection, models []mongo.WriteModel, work mongopatterns.Work, result *mongopatterns.Result) error {
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

// Apart does one batch and, if the server refuses it, its halves, as Run describes.
func Apart(ctx context.Context, collection string, batch []bson.Raw, strict bool, total *mongopatterns.Result, do func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error) error {
	d := division{collection, strict, txn.Running(ctx), total, func() {}, do}
	return d.run(ctx, batch)
}

// A division is an Apart under way.
type division struct {
	collection string
	strict     bool
	joined     bool // asked before: after a commit without an answer the driver still takes the transaction for running
	total      *mongopatterns.Result
	progress   func()
	do         func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error
}

// run does a batch. Documents that were done before an error stay done. The next attempt finds them without a problem, or
// counts them as Skipped, which run takes back.
func (d *division) run(ctx context.Context, batch []bson.Raw) error {
	skipped, doneBefore := d.total.Skipped, int64(0)
	defer func() { d.total.Skipped -= min(doneBefore, d.total.Skipped-skipped) }()
	return patiently(ctx, batch, d.total, d.progress, func(batch []bson.Raw) error {
		done, err := d.attempt(ctx, batch)
		doneBefore += done
		return err
	})
}

// attempt does a batch once, or its halves if the server refuses it. It returns how many documents will be met again,
// because they were done before an error.
func (d *division) attempt(ctx context.Context, batch []bson.Raw) (done int64, err error) {
	var result mongopatterns.Result
	err = d.do(ctx, batch, &result)
	if err == nil {
		result.Examined += int64(len(batch))
		Add(d.total, result)
		if d.strict { // the step itself may have refused documents, and written the others
			return 0, First(&result)
		}
		return 0, nil
	}
	conflict := errors.As(err, new(*busy))
	if !conflict && d.ends(err, len(batch)) {
		if result.Unknown == 0 && fault.MayBeDone(err) && !d.joined {
			result.Unknown = max(0, int64(len(batch))-result.Done)
		}
		Add(d.total, result) // what was done before the error
		return 0, err
	}
	d.total.Done += result.Done // not the rest of the result: the documents are done again
	if conflict {
		return result.Done, err
	}
	if len(batch) == 1 {
		d.total.Examined++
		Fail(d.total, d.collection, batch[0].Lookup("_id"), err)
		return result.Done, nil
	}
	for _, half := range [][]bson.Raw{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if err := d.run(ctx, half); err != nil {
			return result.Done, err
		}
	}
	return result.Done, nil
}

// ends reports whether the error of a batch ends the call, so that nothing smaller is tried.
func (d *division) ends(err error, size int) bool {
	divisible := size > 1 && errors.As(err, new(*large))
	return d.strict && !divisible || !fault.Refused(err) || d.joined
}

// Check yields the problems that find reports for the documents of a scan, batch by batch.
func Check(ctx context.Context, coll *comment.Collection, work *mongopatterns.Work, scan Scan, find func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error)) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		w, err := Of(work, scan.BatchSize)
		if err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		for batch, err := range Batches(ctx, coll, w, scan) {
			var problems []mongopatterns.Problem
			if err == nil {
				problems, err = find(ctx, batch)
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			for _, p := range problems {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// Orphans yields a copy of problem for each value of a field of coll that is not the _id of a document of
// parents. Have is the value, null for undefined, and ID the _id of one of the documents with it. Before it reports a
// batch, it reads again in one snapshot what could be an _id.
//
// Cost: a scan of coll; 3 round trips more for each batch of orphans.
func Orphans(ctx context.Context, coll, parents *comment.Collection, field string, work *mongopatterns.Work, problem mongopatterns.Problem) iter.Seq2[mongopatterns.Problem, error] {
	o := orphans{coll, parents, field, problem}
	lost := mongo.Pipeline{o.group(),
		expr.Op("$lookup", expr.D("from", parents.Name(), "localField", "_id", "foreignField", "_id",
			"pipeline", parents.Scope().Stages(mongo.Pipeline{expr.Op("$project", onlyID)}), "as", "parent")),
		expr.Op("$match", expr.D("parent", bson.A{})),
	}
	return Check(ctx, coll, work, Scan{Pipeline: lost}, o.confirm)
}

// orphans are the arguments of Orphans.
type orphans struct {
	coll, parents *comment.Collection
	field         string
	problem       mongopatterns.Problem
}

var onlyID = expr.D("_id", 1)

// group is the stage that groups documents by the field: {_id: its value, n, first}.
func (o orphans) group() bson.D {
	named := expr.IfNull(expr.Field(o.field), nil) // $lookup fails on undefined, which $ifNull replaces
	return expr.Op("$group", expr.D("_id", named, "n", expr.Op("$sum", 1), "first", expr.Op("$min", "$_id")))
}

// of is the problem of a group.
func (o orphans) of(group bson.Raw) mongopatterns.Problem {
	p := o.problem
	p.Collection, p.Field, p.ID, p.Have = o.coll.Name(), o.field, group.Lookup("first"), group.Lookup("_id")
	p.Detail = fmt.Sprintf("%d documents", group.Lookup("n").AsInt64())
	return p
}

// confirm returns the problems of groups whose parents did not exist, and do not exist in a snapshot.
func (o orphans) confirm(ctx context.Context, groups []bson.Raw) ([]mongopatterns.Problem, error) {
	var never, lost []mongopatterns.Problem
	these := bson.A{}
	for _, group := range groups {
		if id := group.Lookup("_id"); value.CheckID(id) == nil {
			these = append(these, id)
		} else { // no document has such an _id, and $in refuses some of them or takes them for a pattern
			never = append(never, o.of(group))
		}
	}
	if len(these) == 0 {
		return never, nil
	}
	err := txn.Run(ctx, o.coll.Database(), func(ctx context.Context) (err error) {
		lost, err = o.among(ctx, these)
		return err
	})
	return append(never, lost...), err
}

// among reads the groups with these values, and returns the problems of those whose parents do not exist.
func (o orphans) among(ctx context.Context, these bson.A) (problems []mongopatterns.Problem, err error) {
	there := map[string]bool{}
	for parent, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return o.parents.Find(ctx, expr.D("_id", expr.Op("$in", these)), options.Find().SetProjection(onlyID))
	}) {
		if err != nil {
			return nil, err
		}
		there[value.Key(parent.Current.Lookup("_id"))] = true
	}
	for group, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return o.coll.Aggregate(ctx, mongo.Pipeline{expr.Op("$match", expr.D(o.field, expr.Op("$in", these))), o.group()})
	}) {
		if err != nil {
			return nil, err
		}
		if id := group.Lookup("_id"); !there[value.Key(id)] && value.CheckID(id) == nil {
			problems = append(problems, o.of(group))
		}
	}
	return problems, nil
}

// Absent yields a Malformed problem for each path that no document of coll has, if coll has documents: the
// name is probably misspelt. It yields nothing if work selects documents.
//
// Cost: 1 round trip for each path, which stops at the first document with it; 1 more if one is absent.
func Absent(ctx context.Context, coll *comment.Collection, work *mongopatterns.Work, pattern string, paths ...string) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if work != nil && work.Filter != nil {
			return
		}
		coll = cursor.Primary(coll)
		for _, path := range paths {
			there, err := Holds(ctx, coll, expr.D(path, expr.Op("$exists", true)))
			if err == nil && !there {
				there, err = Holds(ctx, coll, bson.D{})
				there = !there // without documents nothing is misspelt
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			if !there && !yield(mongopatterns.Problem{Pattern: pattern, Kind: mongopatterns.Malformed, Collection: coll.Name(), Field: path, Detail: "no document has it"}, nil) {
				return
			}
		}
	}
}

// Holds reports whether a collection has a document that a filter selects.
//
// Cost: 1 round trip.
func Holds(ctx context.Context, coll *comment.Collection, filter bson.D) (bool, error) {
	err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(expr.D("_id", 1))).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// Chain yields one sequence after another and ends with the first error.
func Chain[T any](all ...iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, seq := range all {
			for v, err := range seq {
				if !yield(v, err) || err != nil {
					return
				}
			}
		}
	}
}
