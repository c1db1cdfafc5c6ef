package outlier

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A Problem is something about a list that is not as it should be.
type Problem struct {
	// ID is the parent's _id.
	ID bson.RawValue
	// Kind says what is wrong.
	Kind ProblemKind
	// Element is a Duplicate's element; else the zero value.
	Element bson.RawValue
	// Have and Want are the number that is wrong and what it should be: a
	// WrongTotal's total, -1 if there is none; an OverBounds' elements in the
	// parent and MaxCount, or, if those are not too many, bytes and MaxBytes; how
	// often there is a Duplicate; how many overflow documents there are of an
	// Orphan, or of a parent with a WrongFlag.
	Have, Want int64
}

func (p Problem) String() string {
	text := fmt.Sprintf("list %s: %s", rawvalue.Text(p.ID), p.Kind)
	switch p.Kind {
	case NotArray:
		return text
	case Duplicate:
		text += " of " + rawvalue.Text(p.Element)
	case WrongFlag:
		return text + fmt.Sprintf(": %d overflow documents", p.Have)
	}
	return text + fmt.Sprintf(": %d, want %d", p.Have, p.Want)
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// WrongTotal is a total that is not the number of elements.
	WrongTotal ProblemKind = "wrong total"
	// WrongFlag is a flag without overflow documents, or these without the flag,
	// which leaves them unseen. Repair takes it as the documents say.
	WrongFlag ProblemKind = "wrong flag"
	// OverBounds is an array of more than MaxCount elements or MaxBytes. Repair
	// splits it.
	OverBounds ProblemKind = "over bounds"
	// Duplicate is an element of a set that it holds several times. Repair keeps
	// the first.
	Duplicate ProblemKind = "duplicate"
	// Orphan is overflow documents without a parent. Repair deletes them.
	Orphan ProblemKind = "orphan"
	// NotArray is an array field, of the parent or an overflow document, that holds
	// something else. Repair leaves the list as it is.
	NotArray ProblemKind = "not an array"
)

// Check yields what is wrong with the lists. It reads all parents and overflow
// documents once, and then each list in question, and each outlier, in a snapshot
// transaction, so that what others do meanwhile is no problem.
//
// Cost: a scan of both collections, a $lookup by _id for each list with overflow
// documents; 3 round trips, by _id and the index {parent, n}, for each outlier
// and each list that seems wrong, 4 with Options.Set.
func (l *Lists[ID, E]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		for id, err := range l.suspects(ctx, defaultBatchSize) {
			var problems []Problem
			if err == nil {
				problems, err = l.inspect(ctx, id)
			}
			if err != nil {
				yield(Problem{}, fmt.Errorf("outlier: check: %w", err))
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

// overBounds says that a parent's array is too large.
func (l *lists) overBounds() bson.D {
	array := l.anyArray()
	return op("$or", op("$gt", size(array), l.opts.MaxCount), op("$gt", bytes(array), l.opts.MaxBytes))
}

// miscounted says that a typical document does not have its total.
func (l *lists) miscounted() bson.D {
	return op("$and", op("$not", bson.A{l.flagged()}), op("$ne", "$"+l.opts.TotalField, size(l.anyArray())))
}

// suspects yields the IDs of outliers and of all else that may be wrong, each
// once.
func (l *lists) suspects(ctx context.Context, batch int) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		array := l.anyArray()
		wrong := bson.A{l.flagged(), op("$not", bson.A{l.isList()}), l.overBounds()}
		if l.opts.CountTypical {
			wrong = append(wrong, l.miscounted())
		}
		if l.opts.Set {
			wrong = append(wrong, op("$lt", size(op("$setUnion", array, bson.A{})), size(array)))
		}
		filter := bson.D{{Key: "$expr", Value: op("$or", wrong...)}}
		for docs, err := range scan.Batches(ctx, l.coll, filter, bson.D{{Key: "_id", Value: 1}}, batch) {
			if err != nil {
				yield(bson.RawValue{}, err)
				return
			}
			for _, doc := range docs {
				if !yield(doc.Lookup("_id"), nil) {
					return
				}
			}
		}
		cursor, err := scan.Primary(l.overflow).Aggregate(ctx, mongo.Pipeline{
			stage("$group", bson.D{{Key: "_id", Value: "$" + l.opts.ParentField}}),
			stage("$lookup", bson.D{
				{Key: "from", Value: l.coll.Name()}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"},
				{Key: "pipeline", Value: mongo.Pipeline{
					stage("$match", filter), stage("$project", bson.D{{Key: "_id", Value: 1}}),
				}},
				{Key: "as", Value: "parent"},
			}),
			stage("$match", bson.D{{Key: "parent", Value: op("$size", 0)}}),
			stage("$project", bson.D{{Key: "_id", Value: 1}}),
		}, options.Aggregate().SetAllowDiskUse(true).SetBatchSize(int32(min(batch, 1<<20))))
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			doc := append(bson.Raw(nil), cursor.Current...)
			if !yield(doc.Lookup("_id"), nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(bson.RawValue{}, err)
		}
	}
}

// inspect reads one list in a snapshot and says what is wrong with it.
func (l *lists) inspect(ctx context.Context, id bson.RawValue) (problems []Problem, err error) {
	err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) (err error) {
		problems, err = l.inspectLocked(ctx, id)
		return err
	})
	return problems, err
}

func (l *lists) inspectLocked(ctx context.Context, id bson.RawValue) ([]Problem, error) {
	var problems []Problem
	report := func(kind ProblemKind, have, want int64) {
		problems = append(problems, Problem{ID: id, Kind: kind, Have: have, Want: want})
	}
	array := l.anyArray()
	var parent struct {
		Flag, List  bool
		Size, Bytes int64
		Total       bson.RawValue // whatever somebody has stored there
	}
	err := l.coll.FindOne(ctx, l.parent(id), options.FindOne().SetProjection(bson.D{
		{Key: "flag", Value: l.flagged()},
		{Key: "total", Value: "$" + l.opts.TotalField},
		{Key: "size", Value: size(array)},
		{Key: "bytes", Value: bytes(array)},
		{Key: "list", Value: l.isList()},
	})).Decode(&parent)
	missing := errors.Is(err, mongo.ErrNoDocuments)
	if err != nil && !missing {
		return nil, err
	}
	extents, err := l.extents(ctx, id)
	if err != nil {
		return nil, err
	}
	documents, elements, list := int64(len(extents)), parent.Size, parent.List
	for _, x := range extents {
		elements += x.Size
		list = list && x.List
	}
	if missing {
		if documents > 0 {
			report(Orphan, documents, 0)
		}
		return problems, nil
	}
	if !list {
		report(NotArray, 0, 0)
	}
	if parent.Flag != (documents > 0) {
		report(WrongFlag, documents, 0)
	}
	total := whole(parent.Total)
	if (parent.Flag || l.opts.CountTypical) && total != elements {
		report(WrongTotal, total, elements)
	}
	if parent.Size > int64(l.opts.MaxCount) {
		report(OverBounds, parent.Size, int64(l.opts.MaxCount))
	} else if parent.Bytes > int64(l.opts.MaxBytes) {
		report(OverBounds, parent.Bytes, int64(l.opts.MaxBytes))
	}
	if l.opts.Set {
		repeats, err := l.repeats(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, r := range repeats {
			problems = append(problems, Problem{ID: id, Kind: Duplicate, Element: r.Element, Have: int64(len(r.At)), Want: 1})
		}
	}
	return problems, nil
}

// whole is a whole number that somebody has stored, -1 if it is none.
func whole(value bson.RawValue) int64 {
	n, ok := value.AsInt64OK()
	if f, isDouble := value.DoubleOK(); !ok || isDouble && float64(n) != f {
		return -1
	}
	return n
}

// RepairOptions bounds Repair.
type RepairOptions struct {
	// BatchSize is how many IDs are read at a time. Default 1000.
	BatchSize int
	// Progress is called after each list that was repaired with their number so
	// far. Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // lists with overflow documents, or that seemed wrong
	Repaired  int64 `json:"repaired"`  // lists that had problems
	Remaining int64 `json:"remaining"` // problems of lists that it cannot repair, see ProblemKind
}

// Repair mends what Check finds: it deletes orphans and rebalances all other
// lists with a problem, each in a transaction of its own, beside live writes. It
// can be stopped and run again.
//
// Cost: a Check, and for each list with a problem a Rebalance (orphans: 4 round
// trips).
func (l *Lists[ID, E]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, defaultBatchSize, &o.Progress)
	if err == nil {
		err = l.repair(ctx, o, &result)
	}
	if err != nil {
		return result, fmt.Errorf("outlier: repair: %w", err)
	}
	return result, nil
}

func (l *lists) repair(ctx context.Context, o RepairOptions, result *RepairResult) error {
	for id, err := range l.suspects(ctx, o.BatchSize) {
		if err != nil {
			return err
		}
		problems, err := l.inspect(ctx, id)
		if err != nil {
			return fmt.Errorf("list %s: %w", rawvalue.Text(id), err)
		}
		result.Examined++
		if len(problems) == 0 {
			continue
		}
		switch problems[0].Kind {
		case NotArray:
			result.Remaining += int64(len(problems))
			continue
		case Orphan:
			err = l.deleteOrphans(ctx, id)
		default:
			_, err = l.rebalance(ctx, id)
			switch {
			case errors.Is(err, ErrNotFound): // deleted meanwhile
				err = nil
			case errors.Is(err, ErrInvalid): // refused
				result.Remaining += int64(len(problems))
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", rawvalue.Text(id), err)
		}
		result.Repaired++
		o.Progress(result.Repaired)
	}
	return nil
}

// deleteOrphans deletes the overflow documents of a parent that is still not
// there. There is no parent to write first; that it is not there after the
// deletion, either, says that none of them is a new parent's.
func (l *lists) deleteOrphans(ctx context.Context, id bson.RawValue) error {
	return txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) error {
		missing := func() (bool, error) {
			err := l.coll.FindOne(ctx, l.parent(id), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				return true, nil
			}
			return false, err
		}
		if gone, err := missing(); err != nil || !gone {
			return err
		}
		if _, err := l.overflow.DeleteMany(ctx, l.extras(id)); err != nil {
			return err
		}
		gone, err := missing()
		if err == nil && !gone {
			err = txn.Conflict("delete orphans")
		}
		return err
	})
}
