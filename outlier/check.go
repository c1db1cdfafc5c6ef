package outlier

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems. Repair removes all but NotArray.
const (
	// WrongTotal is a total that is not the number of elements.
	WrongTotal mongopatterns.ProblemKind = "wrong total"
	// WrongFlag is a flag without overflow documents, or these without the flag,
	// which leaves them unseen. Repair takes it as the documents say.
	WrongFlag mongopatterns.ProblemKind = "wrong flag"
	// NotAdopted is a list in a form of other code, see ErrNotAdopted. Repair does
	// what Adopt does.
	NotAdopted mongopatterns.ProblemKind = "not adopted"
	// OverBounds is a parent's array of more than MaxCount elements or MaxBytes.
	OverBounds mongopatterns.ProblemKind = "over bounds"
	// Duplicate is an element of a set, Have, that it holds several times. Repair
	// keeps the first.
	Duplicate mongopatterns.ProblemKind = "duplicate"
	// Orphan is overflow documents without a parent. Repair deletes them.
	Orphan mongopatterns.ProblemKind = "orphan"
	// NotArray is an array field, of the parent or an overflow document, that holds
	// something else. Repair leaves the list as it is.
	NotArray mongopatterns.ProblemKind = "not an array"
)

var _ mongopatterns.Checker = (*Lists[int, int])(nil)

// Check yields what is wrong with the lists whose parents work selects; orphans only
// if it has no filter. It reads all parents and overflow documents once, and then the
// lists in question and the outliers in snapshots.
//
// Cost: a scan of both collections, with 1 round trip more for each batch of
// outliers and lists that seem wrong, and a $lookup for each of them; 2 more with
// Options.Set. 2 round trips for each orphan's list.
func (l *Lists[ID, E]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := &l.c
	return fault.Seq("outlier: check", maintain.Chain(
		maintain.Check(ctx, c.coll, work, c.suspects(work), c.inspect),
		c.checkExtras(ctx, work)))
}

// suspects selects outliers and all else that a parent alone shows to be wrong. Of
// few parents, selected by a filter, each is looked at.
func (c *core) suspects(work *mongopatterns.Work) maintain.Scan {
	scan := maintain.Scan{Projection: bson.D{{Key: "_id", Value: 1}}}
	if work == nil || work.Filter == nil {
		wrong := bson.A{expr.Op("$not", bson.A{expr.Op("$and", c.x.typical, c.isList())}), c.overBounds()}
		if c.o.CountTypical {
			wrong = append(wrong, c.miscounted())
		}
		if c.o.Set {
			wrong = append(wrong, expr.Op("$lt", size(expr.Op("$setUnion", c.anyArray(), bson.A{})), size(c.anyArray())))
		}
		scan.Filter = expr.Op("$expr", expr.Op("$or", wrong...))
	}
	return scan
}

// overBounds says that a parent's array is too large.
func (c *core) overBounds() bson.D {
	array := c.anyArray()
	return expr.Op("$or", expr.Op("$gt", size(array), c.o.MaxCount), expr.Op("$gt", bytes(array), c.o.MaxBytes))
}

// miscounted says that a typical document does not have its total.
func (c *core) miscounted() bson.D {
	return expr.Op("$and", c.x.typical, expr.Op("$ne", expr.Field(c.o.TotalField), size(c.anyArray())))
}

// A report is what inspect reads of a list.
type report struct {
	ID              bson.RawValue `bson:"_id"`
	Flag, Total     bson.RawValue
	Own, List, Over bool
	Size            int64
	Extra           []struct { // one, or none without overflow documents
		Documents, Outside int64
		Lists, Numbers     bool
	}
}

// inspect reads lists in a transaction, as they are at one moment, and says what is
// wrong with them.
func (c *core) inspect(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	err = txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) (err error) {
		problems, err = c.inspectLocked(ctx, batch)
		return err
	})
	return problems, err
}

func (c *core) inspectLocked(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	ids := make(bson.A, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("_id")
	}
	match := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	array := c.anyArray()
	reports, err := cursor.Collect(cursor.Decode[report](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", match),
			expr.Op("$sort", bson.D{{Key: "_id", Value: 1}}),
			expr.Op("$project", bson.D{
				{Key: "flag", Value: expr.Field(c.o.FlagField)}, {Key: "total", Value: expr.Field(c.o.TotalField)},
				{Key: "own", Value: c.x.own}, {Key: "list", Value: c.isList()}, {Key: "over", Value: c.overBounds()},
				{Key: "size", Value: size(array)},
			}),
			c.lookup("extra", mongo.Pipeline{expr.Op("$group", bson.D{
				{Key: "_id", Value: nil},
				{Key: "documents", Value: expr.Op("$sum", 1)},
				{Key: "outside", Value: expr.Op("$sum", size(array))},
				{Key: "lists", Value: expr.Op("$min", expr.Op("$isArray", expr.Field(c.o.ArrayField)))},
				{Key: "numbers", Value: expr.Op("$min", expr.Op("$isNumber", expr.Field(c.o.NumberField)))},
			})}),
		})
	}))
	if err != nil {
		return nil, err
	}
	duplicates := map[string][]repeated{}
	if c.o.Set {
		found, err := c.repeats(ctx, match)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			key := value.Key(r.ID.List)
			duplicates[key] = append(duplicates[key], r)
		}
	}
	for _, r := range reports {
		problems = append(problems, c.problems(r, duplicates[value.Key(r.ID)])...)
	}
	return problems, nil
}

func (c *core) problems(r report, duplicates []repeated) (out []mongopatterns.Problem) {
	found := func(kind mongopatterns.ProblemKind, field string, have bson.RawValue, want any, detail string) {
		p := mongopatterns.Problem{Pattern: "outlier", Kind: kind, Collection: c.coll.Name(), ID: r.ID, Field: field, Have: have, Detail: detail}
		if want != nil {
			p.Want, _ = c.codec.Value(want)
		}
		out = append(out, p)
	}
	documents, total, listsOut, numbersOut := int64(0), r.Size, true, true
	for _, x := range r.Extra {
		documents, total, listsOut, numbersOut = x.Documents, total+x.Outside, x.Lists, x.Numbers
	}
	flag, _ := r.Flag.BooleanOK()
	have, isNumber := r.Total.AsInt64OK()
	if f, isDouble := r.Total.DoubleOK(); isDouble && float64(have) != f {
		isNumber = false
	}
	switch {
	case !r.List:
		found(NotArray, c.o.ArrayField, bson.RawValue{}, nil, "")
	case !listsOut:
		found(NotArray, c.o.ArrayField, bson.RawValue{}, nil, "of an overflow document")
	case !r.Own || !numbersOut:
		found(NotAdopted, c.o.FlagField, r.Flag, nil, "")
	case flag != (documents > 0):
		found(WrongFlag, c.o.FlagField, r.Flag, nil, fmt.Sprintf("%d overflow documents", documents))
	case (flag || c.o.CountTypical) && (!isNumber || have != total):
		found(WrongTotal, c.o.TotalField, r.Total, number(total), "")
	}
	if r.Over {
		found(OverBounds, c.o.ArrayField, bson.RawValue{}, nil, fmt.Sprintf("%d elements", r.Size))
	}
	for _, d := range duplicates {
		found(Duplicate, c.o.ArrayField, d.ID.Element, nil, fmt.Sprintf("%d times", len(d.At)))
	}
	return out
}

// strays yields the parents' _ids, as documents {_id}, of overflow documents that no
// parent with a flag has: orphans, or those of a WrongFlag.
func (c *core) strays(ctx context.Context, work mongopatterns.Work) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.extrasPrimary.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$group", bson.D{{Key: "_id", Value: expr.Field(c.o.ParentField)}}),
			expr.Op("$lookup", bson.D{
				{Key: "from", Value: c.coll.Name()}, {Key: "localField", Value: "_id"}, {Key: "foreignField", Value: "_id"},
				{Key: "pipeline", Value: mongo.Pipeline{
					expr.Op("$match", expr.Op("$expr", expr.Op("$not", bson.A{c.x.typical}))), expr.Op("$project", bson.D{{Key: "_id", Value: 1}}),
				}},
				{Key: "as", Value: "parent"},
			}),
			expr.Op("$match", bson.D{{Key: "parent", Value: expr.Op("$size", 0)}}),
			expr.Op("$project", bson.D{{Key: "_id", Value: 1}}),
		}, options.Aggregate().SetAllowDiskUse(true).SetBatchSize(int32(min(work.BatchSize, 1<<20))))
	})
}

// checkExtras finds the problems that only overflow documents show.
func (c *core) checkExtras(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		w, err := maintain.Of(work, 0)
		if err != nil || w.Filter != nil {
			return // the scan of the parents has said so
		}
		for doc, err := range c.strays(ctx, w) {
			var problems []mongopatterns.Problem
			if err == nil {
				problems, err = c.stray(ctx, doc)
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			for _, p := range problems {
				// A parent over the bounds, say, has been reported with its other problems.
				if (p.Kind == WrongFlag || p.Kind == Orphan) && !yield(p, nil) {
					return
				}
			}
		}
	}
}

// stray says whether overflow documents are orphans, or else what is wrong with
// their list.
func (c *core) stray(ctx context.Context, doc bson.Raw) (problems []mongopatterns.Problem, err error) {
	id := doc.Lookup("_id")
	ids, err := c.orphans(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 {
		return []mongopatterns.Problem{{Pattern: "outlier", Kind: Orphan, Collection: c.overflow.Name(), ID: ids[0], Field: c.o.ParentField, Have: id,
			Detail: fmt.Sprintf("%d overflow documents", len(ids))}}, nil
	}
	return c.inspect(ctx, []bson.Raw{doc})
}

// orphans returns the _ids of the overflow documents of a parent that is not there.
// They are read first: those of a parent that is inserted later are not among them.
func (c *core) orphans(ctx context.Context, id bson.RawValue) ([]bson.RawValue, error) {
	ids, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.extrasPrimary.Find(ctx, c.extras(id), options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	}))
	if err != nil {
		return nil, err
	}
	err = c.primary.FindOne(ctx, c.parent(id), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if !errors.Is(err, mongo.ErrNoDocuments) {
		return nil, err
	}
	out := make([]bson.RawValue, len(ids))
	for i, doc := range ids {
		out[i] = doc.Lookup("_id")
	}
	return out, nil
}

// Repair removes what Check finds: it deletes orphans and arranges every other list
// with a problem, each in a transaction of its own, beside live writes. Work selects
// parents; orphans are deleted only if it has no filter. Done are lists; Remaining
// are problems of lists that hold no array.
//
// Cost: a Check, and for each list with a problem 5 round trips, the parent written
// twice; 2 more to split, 2 to fold back, 1 for each overflow document without a
// number, 1 for the duplicates of a set and 2 for each overflow document that has
// some. Orphans: 3.
func (l *Lists[ID, E]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: repair")
	c := &l.c
	result, err = maintain.Run(ctx, c.coll, work, c.suspects(work),
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			problems, err := c.inspect(ctx, batch)
			if err != nil {
				return err
			}
			return c.repair(ctx, problems, w, result)
		})
	if err != nil || work != nil && work.Filter != nil {
		return result, err
	}
	w, err := maintain.Of(work, 0)
	if err != nil {
		return result, err
	}
	for doc, err := range c.strays(ctx, w) {
		var problems []mongopatterns.Problem
		if err == nil {
			problems, err = c.stray(ctx, doc)
		}
		if err == nil {
			result.Examined++
			err = c.repair(ctx, problems, w, &result)
		}
		if err != nil {
			return result, err
		}
		w.Progress(result)
	}
	return result, nil
}

// repair repairs the lists that have these problems, which come list by list.
func (c *core) repair(ctx context.Context, problems []mongopatterns.Problem, w mongopatterns.Work, result *mongopatterns.Result) error {
	for from := 0; from < len(problems); {
		first, to := problems[from], from+1
		for to < len(problems) && value.Key(problems[to].ID) == value.Key(first.ID) {
			to++
		}
		if first.Kind == NotArray {
			result.Remaining += int64(to - from)
		} else if err := c.change(ctx, first.ID, w, result, func(ctx context.Context) error {
			if first.Kind == Orphan {
				return c.deleteOrphans(ctx, first.Have)
			}
			return c.arrange(ctx, first.ID)
		}); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// change counts what do does to one list. What the server refuses is passed over,
// except in a transaction of the caller's, which it has ended.
func (c *core) change(ctx context.Context, id bson.RawValue, w mongopatterns.Work, result *mongopatterns.Result, do func(ctx context.Context) error) error {
	if w.DryRun {
		result.Done++
		return nil
	}
	err := do(ctx)
	switch {
	case err == nil:
		result.Done++
	case errors.Is(err, fault.ErrNotFound):
		result.Skipped++
	case (errors.Is(err, errNotArray) || fault.Refused(err)) && !txn.Running(ctx):
		result.Fail(c.coll.Name(), id, err)
	default:
		return fault.Of(id, err)
	}
	return nil
}

func (c *core) deleteOrphans(ctx context.Context, parent bson.RawValue) error {
	ids, err := c.orphans(ctx, parent)
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = c.overflow.DeleteMany(ctx, c.extras(parent, expr.Element("_id", bson.D{{Key: "$in", Value: ids}})))
	return err
}

// Adopt brings the parents that work selects, and their overflow documents, into the
// form and the bounds that the options describe: a collection that had no overflow
// documents before, one with those of other code, or one whose bounds have been
// changed. Arrays over the bounds are split, what has become small is folded back,
// and with Options.CountTypical typical documents get their total.
//
// Of other code it takes a flag of any value, such as "true", and overflow documents
// without numbers, which come in the order of their _id. Their order is that of the
// elements: those in the parent first.
//
// Each list is changed in a transaction of its own, beside live writes, and what is
// done is not selected again. Writers that do not know the pattern may still push
// into what has been split; run Adopt again when they are gone. Duplicates in sets
// that are not changed are left for Repair. Lists that hold no array are counted as
// Remaining.
//
// Cost: a scan of the parents, for each that moves elements as in Repair, and with
// Options.CountTypical 1 round trip a batch that writes what has no total.
func (l *Lists[ID, E]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: adopt")
	c := &l.c
	small := expr.Op("$and", c.x.flagged, expr.Op("$lte", expr.Field(c.o.TotalField), c.o.FoldBack))
	moves := expr.Op("$or", c.overBounds(), expr.Op("$not", bson.A{c.x.own}), small)
	needs := bson.A{expr.Op("$not", bson.A{c.isList()}), moves}
	if c.o.CountTypical {
		needs = append(needs, c.miscounted())
	}
	return maintain.Run(ctx, c.coll, work, maintain.Scan{
		Filter:     expr.Op("$expr", expr.Op("$or", needs...)),
		Projection: bson.D{{Key: "list", Value: c.isList()}, {Key: "moves", Value: moves}},
	}, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var count bson.A
		for _, doc := range batch {
			id := doc.Lookup("_id")
			if !doc.Lookup("list").Boolean() {
				result.Remaining++
			} else if !doc.Lookup("moves").Boolean() {
				count = append(count, id)
			} else if err := c.change(ctx, id, w, result, func(ctx context.Context) error { return c.arrange(ctx, id) }); err != nil {
				return err
			}
		}
		if w.DryRun {
			result.Done += int64(len(count))
			count = nil
		}
		if len(count) == 0 {
			return nil
		}
		done, err := c.coll.UpdateMany(ctx, bson.D{
			{Key: "_id", Value: bson.D{{Key: "$in", Value: count}}},
			{Key: "$expr", Value: expr.Op("$and", c.isList(), c.miscounted())},
		}, mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.o.TotalField, Value: size(c.x.array)}})})
		if err == nil {
			result.Done += done.MatchedCount
		}
		return err
	})
}
