package outlier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Repair solves all but Malformed and Unclear.
const (
	// WrongFlag: a flag without overflow documents, or overflow documents without the flag, whose
	// elements no call sees.
	WrongFlag mongopatterns.ProblemKind = "wrong flag"
	// OverBounds: a parent's array has more than MaxCount elements or MaxBytes.
	OverBounds mongopatterns.ProblemKind = "over bounds"
	// Unclear: other code has written a parent back, and some elements are there twice, so that nobody can
	// tell which to drop. You decide, as the comment of Adopt says.
	Unclear mongopatterns.ProblemKind = "unclear"
)

var _ mongopatterns.Checker = (*Lists[int, int])(nil)

// Check yields the problems of the lists whose parents work selects. It looks for orphans only
// if work has no filter.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - WrongField: Options.OutsideField differs from the number of elements outside. If it is larger, elements are lost.
//   - NotAdopted: a list has the form that other code gave it. Calls refuse it with ErrNotAdopted.
//   - Duplicate: a set holds an element, Have, several times. Repair keeps the first.
//   - Orphan: overflow documents whose parent does not exist.
//   - Malformed: the array field of the parent or of an overflow document is not an array, or OutsideField or
//     "items_moved" holds a value of yours (see Adopt).
//
// Cost: 1 round trip, a scan of both collections, and 1 for each batch of outliers and of lists that seem wrong.
//   - Such a batch has a $lookup for each of its lists; with Options.Set 1 more.
//   - A list whose flag or number is wrong: 2 more, to compare its elements.
//   - A batch with orphans: 1 more.
func (l *Lists[ID, E]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "outlier.Check")
	c := &l.c
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.coll, work, c.suspects(work), c.inspect)}
	if work == nil || work.Filter == nil {
		// The scan of the parents has reported all other problems of these lists.
		all = append(all, maintain.Check(ctx, c.overflow, work, c.strays(), c.inspect))
	}
	return fault.Seq("outlier.Check", collation.Seq(ctx, maintain.Chain(all...), c.coll, c.overflow))
}

// suspects selects outliers and all parents that show a problem by themselves. With a filter it
// selects every parent, as these are few.
func (c *core) suspects(work *mongopatterns.Work) maintain.Scan {
	scan := maintain.Scan{Projection: expr.D("_id", 1)}
	if work == nil || work.Filter == nil {
		// The filter for typical parents takes undefined for null before MongoDB 8.0, the calls do not.
		fine := bson.A{expr.IsType(expr.Field(c.o.FlagField), "missing", "null", "bool"),
			expr.IsType(expr.Field(c.o.moved()), "missing", "null"), expr.IsType(expr.Field(c.o.OutsideField), "missing", "null"),
			c.isList(), expr.Op("$not", bson.A{c.overBounds()})}
		if c.o.Set {
			fine = append(fine, expr.Op("$eq", size(expr.Op("$setUnion", c.anyArray(), bson.A{})), size(c.anyArray())))
		}
		scan.Filter = expr.Op("$nor", bson.A{append(slices.Clip(c.x.typical), expr.Element("$expr", expr.Op("$and", fine)))})
	}
	return scan
}

func (c *core) overBounds() bson.D {
	array := c.anyArray()
	return expr.Op("$or", expr.Op("$gt", size(array), c.o.MaxCount), expr.Op("$gt", bytes(array), c.o.MaxBytes))
}

// inspect reads lists as of one moment and returns their problems. The batch has the _ids of
// parents, which may not exist. It reads in a snapshot session, not in a transaction, because a
// sharded cluster before 8.0 refuses $lookup in a transaction.
func (c *core) inspect(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
	i := inspection{core: c, ids: transfer.IDs(batch)}
	if txn.Running(ctx) {
		err := i.look(ctx)
		return i.problems, err
	}
	session, err := c.coll.Database().Client().StartSession(options.Session().SetSnapshot(true))
	if err != nil {
		return nil, err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	err = i.look(mongo.NewSessionContext(ctx, session))
	return i.problems, err
}

// An inspection is an inspect under way.
type inspection struct {
	*core
	ids      []bson.RawValue
	problems []mongopatterns.Problem
}

// look finds the problems of the parents, then repeated elements, then the overflow documents of parents that do not exist.
func (i *inspection) look(ctx context.Context) error {
	match := anyOf("_id", i.ids)
	parents, err := i.parents(ctx, match)
	if err != nil {
		return err
	}
	var twice []repeated
	if i.o.Set && len(parents) > 0 {
		if twice, err = i.repeats(ctx, i.coll, i.parts(match)); err != nil {
			return err
		}
	}
	there := map[string]bool{}
	for _, parent := range parents {
		there[value.Key(parent.Lookup("_id"))] = true
		if err := i.lookAt(ctx, parent); err != nil {
			return err
		}
	}
	for _, r := range twice {
		i.found(mongopatterns.Duplicate, i.o.ArrayField, fmt.Sprintf("%d times", len(r.At)), r.ID.List, r.ID.Element)
	}
	return i.lookForOrphans(ctx, slices.DeleteFunc(i.ids, func(id bson.RawValue) bool { return there[value.Key(id)] }))
}

// parents reads the parents, each with what problems needs of its overflow documents.
func (i *inspection) parents(ctx context.Context, match bson.D) ([]bson.Raw, error) {
	array := i.anyArray()
	return aggregate(ctx, i.coll, mongo.Pipeline{
		expr.Op("$match", match),
		expr.Op("$sort", expr.D("_id", 1)),
		expr.Op("$project", i.state(document("list", i.isList(), "over", i.overBounds(), "size", size(array)))),
		i.lookup(i.o.ArrayField+".extra", mongo.Pipeline{expr.Op("$group", expr.D("_id", nil,
			"documents", expr.Op("$sum", 1), "outside", expr.Op("$sum", size(array)),
			"lists", expr.Op("$min", expr.Op("$isArray", expr.Field(i.o.ArrayField))),
			"numbers", expr.Op("$min", expr.Op("$isNumber", i.number()))))}),
	})
}

// found adds a problem.
func (i *inspection) found(kind mongopatterns.ProblemKind, field, detail string, id, have bson.RawValue) *mongopatterns.Problem {
	i.problems = append(i.problems, mongopatterns.Problem{Pattern: "outlier", Kind: kind, Collection: i.coll.Name(),
		ID: id, Field: field, Have: have, Detail: detail})
	return &i.problems[len(i.problems)-1]
}

// lookAt adds the problems of a parent.
func (i *inspection) lookAt(ctx context.Context, parent bson.Raw) error {
	first := len(i.problems)
	i.core.problems(parent, i.found)
	for n := first; n < len(i.problems); n++ {
		if err := i.clarify(ctx, &i.problems[n]); err != nil {
			return err
		}
	}
	return nil
}

// lookForOrphans adds the problems of overflow documents whose parents do not exist.
func (i *inspection) lookForOrphans(ctx context.Context, parents []bson.RawValue) error {
	if len(parents) == 0 {
		return nil
	}
	orphans, err := aggregate(ctx, i.overflow, mongo.Pipeline{
		expr.Op("$match", anyOf(i.o.ParentField, parents)),
		expr.Op("$group", expr.D("_id", i.lostParent(), "first", expr.Op("$min", "$_id"),
			"documents", expr.Op("$sum", 1))),
	})
	if err != nil {
		return err
	}
	for _, o := range orphans {
		text := fmt.Sprintf("%d overflow documents", o.Lookup("documents").AsInt64())
		i.found(mongopatterns.Orphan, i.o.ParentField, text, o.Lookup("first"), o.Lookup("_id")).Collection = i.overflow.Name()
	}
	return nil
}

// anyOf selects documents with one of these values in a field. It does not use $in, for which
// a regular expression is a pattern.
func anyOf(field string, values []bson.RawValue) bson.D {
	any := bson.A{}
	for _, v := range values {
		any = append(any, expr.D(field, value.Equal(v)))
	}
	return expr.D("$or", any)
}

// A report adds a problem.
type report func(kind mongopatterns.ProblemKind, field, detail string, id, have bson.RawValue) *mongopatterns.Problem

// problems reports what is wrong with a list, from a parent as inspection reads it; Malformed first.
func (c *core) problems(parent bson.Raw, found report) {
	s, refused := c.stateOf(parent, nil)
	own := s.Of.Document()
	documents, _ := own.Lookup("extra", "0", "documents").AsInt64OK() // 0 without overflow documents
	lists, _ := own.Lookup("extra", "0", "lists").BooleanOK()
	numbers, _ := own.Lookup("extra", "0", "numbers").BooleanOK()
	want := own.Lookup("extra", "0", "outside")
	flag, outside, none := parent.Lookup(c.o.FlagField), parent.Lookup(c.o.OutsideField), bson.RawValue{}
	switch {
	case s.Taken != "":
		found(mongopatterns.Malformed, s.Taken, "it holds a value of yours, which would be lost", s.ID, parent.Lookup(s.Taken))
	case !own.Lookup("list").Boolean():
		found(mongopatterns.Malformed, c.o.ArrayField, "", s.ID, none)
	case documents > 0 && !lists:
		found(mongopatterns.Malformed, c.o.ArrayField, "of an overflow document", s.ID, none)
	case refused != nil && !s.Flag || documents > 0 && !numbers:
		found(mongopatterns.NotAdopted, c.o.FlagField, "", s.ID, flag)
	case s.Flag != (documents > 0):
		found(WrongFlag, c.o.FlagField, fmt.Sprintf("%d overflow documents", documents), s.ID, flag)
	case s.Flag && !value.Same(outside, want):
		found(mongopatterns.WrongField, c.o.OutsideField, "", s.ID, outside).Want = want
	case refused != nil: // the number is right but refused by every call: 0, or a Decimal128
		found(mongopatterns.NotAdopted, c.o.OutsideField, "", s.ID, outside)
	}
	if own.Lookup("over").Boolean() {
		found(OverBounds, c.o.ArrayField, fmt.Sprintf("%d elements", own.Lookup("size").AsInt64()), s.ID, none)
	}
}

// lostParent is the parent's _id in an overflow document. It is null for undefined, which no
// filter accepts.
func (c *core) lostParent() any { return expr.IfNull(expr.Field(c.o.ParentField), nil) }

// strays reads the parents' _ids of overflow documents that the scan of the parents cannot find:
// the parent does not exist (Orphan) or has no flag (WrongFlag).
func (c *core) strays() maintain.Scan {
	id := expr.Op("$project", expr.D("_id", 1))
	return maintain.Scan{Pipeline: mongo.Pipeline{
		expr.Op("$group", expr.D("_id", c.lostParent())),
		expr.Op("$lookup", expr.D("from", c.coll.Name(), "localField", "_id", "foreignField", "_id",
			"pipeline", c.coll.Scope().Stages(mongo.Pipeline{expr.Op("$match", c.suspects(nil).Filter), id}),
			"as", "parent")),
		expr.Op("$match", expr.D("parent", expr.Op("$size", 0))),
		id,
	}}
}

// Repair repairs what Check finds. If work has no filter, it deletes orphans. It brings every other
// list with a problem into form as Adopt does. Each list is a transaction of its own, during live
// writes. Done counts lists, Remaining those whose field is not an array and those that are Unclear, and Failed those with
// a value of yours in a field of the pattern (see Adopt).
//
// Cost: that of Check, and for each list with a problem 4 round trips, the parent written twice.
//   - A set: 1 more. To split it or to fold it back: 2 more. One whose elements are compared: 1 more.
//   - A list of other code or with duplicates is folded, and so read and written as a whole.
//   - Orphans: 3 for each parent.
func (l *Lists[ID, E]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "outlier.Repair")
	defer fault.In(&err, "outlier.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := &l.c
	if err := c.ready(ctx, work); err != nil {
		return result, err
	}
	return c.run(ctx, work, c.suspects(work), c.strays(), c.repair)
}

// run calls step for what a scan of the parents finds, and, if work has no filter, for what a scan of the overflow
// documents finds.
func (c *core) run(ctx context.Context, work *mongopatterns.Work, parents, overflow maintain.Scan, step maintain.Step) (
	result mongopatterns.Result, err error) {
	result, err = maintain.Run(ctx, c.coll, work, parents, step)
	if err != nil || work != nil && work.Filter != nil {
		return result, err
	}
	rest, _ := maintain.Completed(work, 0)
	progress := rest.Progress
	rest.Progress = func(more mongopatterns.Result) {
		all := result
		maintain.Add(&all, more)
		progress(all)
	}
	more, err := maintain.Run(ctx, c.overflow, &rest, overflow, step)
	maintain.Add(&result, more)
	return result, err
}

func (c *core) repair(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	problems, err := c.inspect(ctx, batch)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range problems { // the Malformed or Unclear of a list comes first
		id, do := p.ID, c.arrange
		if p.Kind == mongopatterns.Orphan {
			id, do = p.Have, c.deleteOrphans
		}
		key := value.Key(id)
		var err error
		switch {
		case seen[key]:
		case p.Kind == mongopatterns.Malformed && p.Field != c.o.ArrayField:
			err = c.refuse(ctx, id, w, result, p.Field)
		case p.Kind == mongopatterns.Malformed || p.Kind == Unclear:
			result.Remaining++
		default:
			err = c.change(ctx, id, w, result, do)
		}
		seen[key] = true
		if err != nil {
			return err
		}
	}
	return nil
}

// change runs do for one list and counts the outcome.
func (c *core) change(ctx context.Context, id bson.RawValue, w mongopatterns.Work, result *mongopatterns.Result,
	do func(ctx context.Context, id bson.RawValue) error) error {
	var err error
	if !w.DryRun {
		err = do(ctx, id)
	}
	switch {
	case err == nil:
		result.Done++
	case errors.Is(err, mongopatterns.ErrNotFound):
		result.Skipped++
	// arrange has written the parent before it finds that the list is unclear, so the caller's transaction cannot go on.
	case errors.Is(err, errNotArray), errors.Is(err, errUnclear) && !txn.Running(ctx):
		result.Remaining++
	case (fault.Refused(err) || errors.Is(err, mongopatterns.ErrInvalid)) && !w.Strict && !txn.Running(ctx): // the others of the batch are still done
		maintain.Fail(result, c.coll.Name(), id, err)
	default:
		return fault.Of(id, err)
	}
	return nil
}

// refuse counts a list as Failed whose field holds a value of the user's.
func (c *core) refuse(ctx context.Context, id bson.RawValue, w mongopatterns.Work, result *mongopatterns.Result, field string) error {
	w.DryRun = false // it writes nothing
	return c.change(ctx, id, w, result, func(context.Context, bson.RawValue) error { return errTaken(field) })
}

// deleteOrphans deletes the overflow documents of a parent that does not exist, also in no other scope: its scope can have
// changed since.
func (c *core) deleteOrphans(ctx context.Context, parent bson.RawValue) error {
	return txn.RunInTurn(ctx, c.coll, parent, func(ctx context.Context) error {
		err := c.coll.In(nil).FindOne(ctx, c.parent(parent), options.FindOne().SetProjection(expr.D("_id", 1))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err = fault.Many(c.overflow.DeleteMany(ctx, c.extras(parent)))
			return err
		}
		return cmp.Or(err, mongopatterns.ErrNotFound)
	})
}

// Adopt brings the lists that work selects into the form and the bounds of the options. It splits
// arrays over the bounds and folds back lists that have become short.
//
// From other code it accepts a flag of any value, such as "true", and overflow documents without
// numbers. Their elements come after those in the parent, in the order of _id. This holds even if
// such documents are added later to a list that is already in form, because Adopt cannot tell in
// which order other code and this package have added at the same time.
//
// If a parent has lost its flag and ObjectID, other code has written it back, from a copy of before the
// split or without the fields that it does not know. Adopt compares the array with the elements outside:
//   - If it begins with all of them, it is the whole list, and the overflow documents are deleted. Some of
//     them may be missing or edited, but not the first, the last or half of them.
//   - If it holds none of them, it is the newest part.
//   - Anything else is Unclear: Adopt changes nothing and counts the list as Remaining. You decide. If the
//     array is the whole list, delete the overflow documents, with OverflowFilter. If it is the newest part,
//     set "items_moved" to a new ObjectID. Then run Adopt again.
//
// Elements that are there several times prove little. If they make the comparison uncertain, the list is Unclear too.
//
// If a parent was written back with these fields after elements have moved, Options.OutsideField differs from
// the number outside. In a set, the first of equal elements is kept. In another list, Adopt drops from the
// array what has moved. If it cannot tell what has, the list is Unclear: correct the elements and the number.
// If the parent counts more than are there, elements are lost, and the list is Remaining until Repair, or until
// you correct the number of one that is Unclear.
//
// Each list is changed in a transaction of its own, during live writes. A list in form is not
// selected again, with one exception: an outlier of few but large elements is Done each time,
// because its parent does not show the size of the overflow documents. Writers that do not know the
// pattern may still push into outliers; run Adopt again when they have stopped. Duplicates in lists
// that Adopt does not change are left for Repair. Remaining also counts lists whose field is not an
// array.
//
// Failed counts lists that hold a value of yours in a field that would be overwritten: in "items_moved" anything but an
// ObjectID, in OutsideField anything but a number, and any number in a list without FlagField and without an ObjectID in
// "items_moved". No call overwrites these. Any other number or ObjectID is taken for the pattern's own, and
// so is whatever FlagField holds.
//
// Cost: 2 round trips, scans of both collections, with a $lookup for each outlier, and for each list that moves
// elements as in Repair.
//   - A filter: 1 round trip, with a $lookup for each parent.
//   - A list that was written back: 1 more, to compare its elements.
//   - With DryRun, which beside writers is an estimate, and in your transaction: 2 more for each list.
func (l *Lists[ID, E]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "outlier.Adopt")
	defer fault.In(&err, "outlier.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := &l.c
	if err := c.ready(ctx, work); err != nil {
		return result, err
	}
	wrong := expr.Op("$or", expr.Op("$not", bson.A{c.isList()}), c.overBounds())
	small := expr.Op("$lte", l.TotalExpression(), c.o.FoldBack)
	const extra = "~extra"
	there := expr.Op("$sum", "$"+extra+".outside")
	seen := expr.Op("$or", expr.Op("$expr", wrong), expr.Op("$nor", bson.A{c.x.own}),
		append(slices.Clip(c.x.outlier), expr.Element("$expr", small)),
		expr.D(extra+".numbers", false),
		append(slices.Clip(c.x.typical), expr.Element(extra, expr.Op("$ne", bson.A{}))),
		expr.D(c.o.FlagField, true, "$expr", expr.Op("$ne", expr.Field(c.o.OutsideField), there)))
	parents := maintain.Scan{
		Filter: expr.Op("$or", expr.Op("$expr", wrong), expr.Op("$nor", bson.A{c.x.typical})),
		Pipeline: mongo.Pipeline{
			expr.Op("$sort", expr.D("_id", 1)),
			expr.Op("$project", c.state(expr.Field(c.o.ArrayField))),
			c.lookup(extra, mongo.Pipeline{expr.Op("$group", expr.D("_id", nil, "outside", expr.Op("$sum", size(c.anyArray())),
				"numbers", expr.Op("$min", expr.Op("$isNumber", c.number()))))}),
			expr.Op("$match", seen),
			expr.Op("$project", c.state(document("list", c.isList(), "lacks", c.lacks(there)))),
		},
	}
	if work != nil && work.Filter != nil {
		parents.Filter = nil // those without a flag are few enough for a $lookup each
	}
	overflow := maintain.Scan{Pipeline: mongo.Pipeline{
		expr.Op("$group", expr.D("_id", c.lostParent())),
		expr.Op("$lookup", expr.D("from", c.coll.Name(), "localField", "_id", "foreignField", "_id", "as", "parent",
			"pipeline", c.coll.Scope().Stages(mongo.Pipeline{
				expr.Op("$match", append(slices.Clip(c.x.typical), expr.Element("$expr", expr.Op("$not", bson.A{wrong})))),
				expr.Op("$project", c.state(document("list", c.isList(), "lacks", expr.Literal(false)))),
			}))),
		expr.Op("$unwind", "$parent"),
		expr.Op("$replaceRoot", expr.D("newRoot", "$parent")),
	}}
	return c.run(ctx, work, parents, overflow, c.adopt)
}

// adopt brings the lists of a batch into form, but for those that somebody must decide about.
func (c *core) adopt(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	for _, doc := range batch {
		if err := c.adoptOne(ctx, doc, w, result); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) adoptOne(ctx context.Context, doc bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	s, _ := c.stateOf(doc, nil) // the lists that it refuses are those to adopt
	if s.Taken != "" {
		return c.refuse(ctx, s.ID, w, result, s.Taken)
	}
	own := s.Of.Document()
	left := !own.Lookup("list").Boolean() || own.Lookup("lacks").Boolean()
	// arrange finds this out, too, but after a write: a DryRun must not write, and the caller's transaction could not go on.
	if !left && (w.DryRun || txn.Running(ctx)) {
		var err error
		if left, err = c.unclear(ctx, s.ID); err != nil {
			return err
		}
	}
	if left {
		result.Remaining++
		return nil
	}
	return c.change(ctx, s.ID, w, result, c.arrange)
}

// lacks is the condition that an outlier in the form of this package counts more elements outside than are there.
func (c *core) lacks(there bson.D) bson.D {
	return expr.Op("$and", expr.IsType(expr.Field(c.o.moved()), "objectId"),
		expr.Op("$gt", c.x.outside, there), expr.Op("$lte", c.x.outside, int64(math.MaxInt64)))
}
