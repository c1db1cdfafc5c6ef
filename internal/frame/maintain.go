package frame

import (
	"context"
	"iter"
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

// WholeBatch is the default Work.BatchSize for whole documents.
const WholeBatch = 100

// An Arrive gives the writes that bring documents into an archive.
type Arrive func(ctx context.Context, archive *mongo.Collection, docs []bson.Raw) ([]mongo.WriteModel, error)

// Archive moves the documents whose window ended at or before before into target, each batch in a transaction.
func (f *Frame) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work, arrive Arrive) (mongopatterns.Result, error) {
	err := config.Collections("coll", f.Coll, "target", target)
	if err == nil {
		err = CheckTime(before)
	}
	if err != nil {
		return mongopatterns.Result{}, err
	}
	// A window that begins before the one that holds before has ended by then.
	cut, _ := f.Window.Bounds(before)
	scan := maintain.Scan{Filter: bson.D{{Key: f.Start, Value: expr.Op("$lt", cut)}}, Projection: f.Keys(), Whole: true, BatchSize: WholeBatch}
	return maintain.Run(ctx, f.Coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) (err error) {
		moved := len(found)
		if !w.DryRun {
			err = txn.Run(ctx, f.Coll.Database().Client(), func(ctx context.Context) error {
				moved, err = f.move(ctx, target, found, arrive)
				return err
			})
		}
		if err == nil {
			result.Done += int64(moved)
		}
		return err
	})
}

// move brings documents to target and deletes them, within a transaction that reads them once more. Guards are for
// servers whose transactions do not isolate the read.
func (f *Frame) move(ctx context.Context, target *mongo.Collection, found []bson.Raw, arrive Arrive) (int, error) {
	docs, err := ByID(ctx, f.Coll, found, nil)
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	arrivals, err := arrive(ctx, target, docs)
	if err != nil {
		return 0, err
	}
	if _, err := fault.Many(target.BulkWrite(ctx, arrivals)); err != nil {
		return 0, err
	}
	deletes := make([]mongo.WriteModel, len(docs))
	for i, doc := range docs {
		deletes[i] = mongo.NewDeleteOneModel().SetFilter(f.Itself(doc, f.Guards...))
	}
	done, err := fault.Many(f.Coll.BulkWrite(ctx, deletes))
	if err == nil && done.DeletedCount != int64(len(docs)) {
		err = txn.Conflict("archive")
	}
	return len(docs), err
}

// ByID reads the documents with the _ids of others.
func ByID(ctx context.Context, coll *mongo.Collection, others []bson.Raw, fields any) ([]bson.Raw, error) {
	ids := make([]bson.RawValue, len(others))
	for i, doc := range others {
		ids[i] = doc.Lookup("_id")
	}
	return cursor.Collect(Find(ctx, coll, bson.D{{Key: "_id", Value: expr.Op("$in", ids)}},
		options.Find().SetBatchSize(int32(len(ids)+1)).SetProjection(fields)))
}

// Insert is the Arrive that gives documents whose _id is taken another one: any will do.
func Insert(ctx context.Context, archive *mongo.Collection, docs []bson.Raw) (inserts []mongo.WriteModel, err error) {
	there, err := ByID(ctx, archive, docs, bson.D{{Key: "_id", Value: 1}})
	taken := map[string]bool{}
	for _, doc := range there {
		taken[value.Key(doc.Lookup("_id"))] = true
	}
	for _, doc := range docs {
		if taken[value.Key(doc.Lookup("_id"))] {
			id := bson.NewObjectID()
			doc = value.With(doc, value.Element{Name: "_id", Value: bson.RawValue{Type: bson.TypeObjectID, Value: id[:]}})
		}
		inserts = append(inserts, mongo.NewInsertOneModel().SetDocument(doc))
	}
	return inserts, err
}

// The kinds of problems of both packages.
const (
	WrongAggregate mongopatterns.ProblemKind = "wrong aggregate"
	OutsideWindow  mongopatterns.ProblemKind = "outside window"
	BadStart       mongopatterns.ProblemKind = "bad start"
)

// A Report is of a problem in a document.
type Report func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string)

// An Audit reports the problems of a document, and gives the update that solves those of the kind WrongAggregate.
type Audit func(doc bson.Raw, report Report) mongo.Pipeline

func (f *Frame) inspect(doc bson.Raw, audit Audit) (problems []mongopatterns.Problem, solve mongo.Pipeline) {
	solve = audit(doc, func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string) {
		problems = append(problems, mongopatterns.Problem{Pattern: f.Pattern, Kind: kind, Collection: f.Coll.Name(),
			ID: doc.Lookup("_id"), Field: field, Have: have, Want: want, Detail: detail})
	})
	return problems, solve
}

// Problems are what audit reports of the documents of a scan.
func (f *Frame) Problems(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan, audit Audit) iter.Seq2[mongopatterns.Problem, error] {
	return maintain.Check(ctx, f.Coll, work, scan, func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
		for _, doc := range batch {
			problems, _ := f.inspect(doc, audit)
			all = append(all, problems...)
		}
		return all, nil
	})
}

// Repair sends the updates that audit gives, to documents whose guards hold what was read.
func (f *Frame) Repair(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan, audit Audit, guards ...string) (mongopatterns.Result, error) {
	return maintain.Run(ctx, f.Coll, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, doc := range batch {
			problems, solve := f.inspect(doc, audit)
			wrong := false
			for _, p := range problems {
				if p.Kind == WrongAggregate {
					wrong = true
				} else {
					result.Remaining++
				}
			}
			if wrong {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(f.Itself(doc, guards...)).SetUpdate(solve))
			}
		}
		return maintain.Rewrite(ctx, f.Coll, models, w, result)
	})
}

// Span reports a start that is no date or begins no window, and an end that is not that of the window. fits is
// false where there is no window; else end is what End holds, if it is stored.
func (f *Frame) Span(doc bson.Raw, report Report) (start, end int64, set bson.D, fits bool) {
	at := value.Lookup(doc, f.Start)
	ms, dated := at.DateTimeOK()
	start, end = f.Bounds(ms)
	var none bson.RawValue
	switch {
	case !dated:
		report(BadStart, f.Start, at, none, "")
	case start != ms:
		report(BadStart, f.Start, at, Date(start), "")
	case f.End != "":
		want := f.EndOf(end)
		if have := value.Lookup(doc, f.End); !have.Equal(Date(int64(want))) {
			report(WrongAggregate, f.End, have, Date(int64(want)), "")
		}
		set = bson.D{{Key: f.End, Value: want}}
	}
	return start, end, set, dated
}
