package outlier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems. Repair removes all but NotArray.
const (
	// WrongTotal is an Options.OutsideField that is not the number of elements outside.
	WrongTotal mongopatterns.ProblemKind = "wrong total"
	// WrongFlag is a flag without overflow documents, or these without the flag, which
	// leaves them unseen.
	WrongFlag mongopatterns.ProblemKind = "wrong flag"
	// NotAdopted is a list in a form of other code, see ErrNotAdopted.
	NotAdopted mongopatterns.ProblemKind = "not adopted"
	// OverBounds is a parent's array of more than MaxCount elements or MaxBytes.
	OverBounds mongopatterns.ProblemKind = "over bounds"
	// Duplicate is an element, Have, that a set holds several times. The first stays.
	Duplicate mongopatterns.ProblemKind = "duplicate"
	// Orphan is overflow documents without a parent.
	Orphan mongopatterns.ProblemKind = "orphan"
	// NotArray is an array field, of the parent or an overflow document, that holds
	// something else.
	NotArray mongopatterns.ProblemKind = "not an array"
)

var _ mongopatterns.Checker = (*Lists[int, int])(nil)

// Check yields what is wrong with the lists whose parents work selects; orphans only
// if it has no filter.
//
// Cost: 1 round trip, a scan of both collections, and for each batch of outliers and lists that seem
// wrong 2 round trips, with a $lookup for each of them; 1 more with Options.Set, and 1
// for a batch with orphans.
func (l *Lists[ID, E]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := &l.c
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.coll, work, c.suspects(work), c.inspect)}
	if work == nil || work.Filter == nil {
		// All else that is wrong with these lists, the scan of the parents has reported.
		all = append(all, maintain.Check(ctx, c.overflow, work, c.strays(), c.inspect))
	}
	return fault.Seq("outlier: check", collation.Seq(ctx, maintain.Chain(all...), c.coll, c.overflow))
}

// suspects selects outliers and all else that a parent alone shows to be wrong, or each of
// few parents that a filter selects.
func (c *core) suspects(work *mongopatterns.Work) maintain.Scan {
	scan := maintain.Scan{Projection: expr.D("_id", 1)}
	if work == nil || work.Filter == nil {
		// An array of false is false to a filter, and to no call.
		flag := expr.IsType(expr.Field(c.o.FlagField), "missing", "null", "bool")
		fine := bson.A{flag, c.isList(), expr.Op("$not", bson.A{c.overBounds()})}
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

// inspect reads lists in a transaction, as they are at one moment, and says what is
// wrong with them. The batch has the _ids of parents, there or not.
func (c *core) inspect(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	ids := make([]bson.RawValue, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("_id")
	}
	match, array := anyOf("_id", ids), c.anyArray()
	pipeline := mongo.Pipeline{
		expr.Op("$match", match),
		expr.Op("$sort", expr.D("_id", 1)),
		expr.Op("$project", c.state(document("list", c.isList(), "over", c.overBounds(), "size", size(array)))),
		c.lookup(c.o.ArrayField+".extra", mongo.Pipeline{expr.Op("$group", expr.D("_id", nil,
			"documents", expr.Op("$sum", 1), "outside", expr.Op("$sum", size(array)),
			"lists", expr.Op("$min", expr.Op("$isArray", expr.Field(c.o.ArrayField))),
			"numbers", expr.Op("$min", expr.Op("$isNumber", c.number()))))}),
	}
	err = c.run(ctx, func(ctx context.Context) error {
		parents, err := aggregate(ctx, c.coll, pipeline)
		var twice []repeated
		if err == nil && c.o.Set && len(parents) > 0 {
			twice, err = c.repeats(ctx, match)
		}
		problems = nil
		found := func(kind mongopatterns.ProblemKind, field, detail string, id, have bson.RawValue) *mongopatterns.Problem {
			problems = append(problems, mongopatterns.Problem{Pattern: "outlier", Kind: kind, Collection: c.coll.Name(),
				ID: id, Field: field, Have: have, Detail: detail})
			return &problems[len(problems)-1]
		}
		there := map[string]bool{}
		for _, parent := range parents {
			there[value.Key(parent.Lookup("_id"))] = true
			c.problems(parent, found)
		}
		for _, r := range twice {
			found(Duplicate, c.o.ArrayField, fmt.Sprintf("%d times", len(r.At)), r.ID.List, r.ID.Element)
		}
		lost := slices.DeleteFunc(slices.Clone(ids), func(id bson.RawValue) bool { return there[value.Key(id)] })
		if err != nil || len(lost) == 0 {
			return err
		}
		orphans, err := aggregate(ctx, c.overflow, mongo.Pipeline{
			expr.Op("$match", anyOf(c.o.ParentField, lost)),
			expr.Op("$group", expr.D("_id", c.lostParent(), "first", expr.Op("$min", "$_id"),
				"documents", expr.Op("$sum", 1))),
		})
		for _, o := range orphans {
			text := fmt.Sprintf("%d overflow documents", o.Lookup("documents").AsInt64())
			found(Orphan, c.o.ParentField, text, o.Lookup("first"), o.Lookup("_id")).Collection = c.overflow.Name()
		}
		return err
	})
	return problems, err
}

// anyOf selects documents with one of these values in a field. Not $in, to which a
// regular expression is a pattern.
func anyOf(field string, values []bson.RawValue) bson.D {
	any := bson.A{}
	for _, v := range values {
		any = append(any, expr.D(field, value.Equal(v)))
	}
	return expr.D("$or", any)
}

// A report adds a problem.
type report func(kind mongopatterns.ProblemKind, field, detail string, id, have bson.RawValue) *mongopatterns.Problem

// problems reports what is wrong with a list, by a parent as inspect has read it: a NotArray first.
func (c *core) problems(parent bson.Raw, found report) {
	s, refused := c.stateOf(parent, nil)
	own := s.Of.Document()
	documents, _ := own.Lookup("extra", "0", "documents").AsInt64OK() // 0 without overflow documents
	lists, _ := own.Lookup("extra", "0", "lists").BooleanOK()
	numbers, _ := own.Lookup("extra", "0", "numbers").BooleanOK()
	want := own.Lookup("extra", "0", "outside")
	flag, outside, none := parent.Lookup(c.o.FlagField), parent.Lookup(c.o.OutsideField), bson.RawValue{}
	switch {
	case !own.Lookup("list").Boolean():
		found(NotArray, c.o.ArrayField, "", s.ID, none)
	case documents > 0 && !lists:
		found(NotArray, c.o.ArrayField, "of an overflow document", s.ID, none)
	case refused != nil && !s.Flag || documents > 0 && !numbers:
		found(NotAdopted, c.o.FlagField, "", s.ID, flag)
	case s.Flag != (documents > 0):
		found(WrongFlag, c.o.FlagField, fmt.Sprintf("%d overflow documents", documents), s.ID, flag)
	case s.Flag && value.Key(outside) != value.Key(want):
		found(WrongTotal, c.o.OutsideField, "", s.ID, outside).Want = want
	case refused != nil: // right, but a number that no call takes: 0, or a Decimal128
		found(NotAdopted, c.o.OutsideField, "", s.ID, outside)
	}
	if own.Lookup("over").Boolean() {
		found(OverBounds, c.o.ArrayField, fmt.Sprintf("%d elements", own.Lookup("size").AsInt64()), s.ID, none)
	}
}

// lostParent is the parent's _id in an overflow document; undefined, which no filter takes,
// is null.
func (c *core) lostParent() any { return expr.IfNull(expr.Field(c.o.ParentField), nil) }

// strays reads the parents' _ids of overflow documents that no parent with a flag
// has: of orphans, or of a WrongFlag.
func (c *core) strays() maintain.Scan {
	id := expr.Op("$project", expr.D("_id", 1))
	return maintain.Scan{Pipeline: mongo.Pipeline{
		expr.Op("$group", expr.D("_id", c.lostParent())),
		expr.Op("$lookup", expr.D("from", c.coll.Name(), "localField", "_id", "foreignField", "_id",
			"pipeline", mongo.Pipeline{expr.Op("$match", c.suspects(nil).Filter), id},
			"as", "parent")),
		expr.Op("$match", expr.D("parent", expr.Op("$size", 0))),
		id,
	}}
}

// Repair removes what Check finds: it deletes orphans, if work has no filter, and
// arranges every other list with a problem, each in a transaction of its own, beside live
// writes. Done are lists, Remaining those that hold no array.
//
// Cost: a Check, and for each list with a problem 4 round trips, the parent written
// twice; of a set 1 more; 2 to split, 2 to fold back. A list of other code or with
// duplicates is folded, and so read and written as a whole. Orphans: 3 for each parent.
func (l *Lists[ID, E]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: repair")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	c := &l.c
	if err := c.refuse(ctx, work); err != nil {
		return result, err
	}
	result, err = maintain.Run(ctx, c.coll, work, c.suspects(work), c.repair)
	if err != nil || work != nil && work.Filter != nil {
		return result, err
	}
	rest, _ := maintain.Of(work, 0)
	progress := rest.Progress
	rest.Progress = func(more mongopatterns.Result) {
		all := result
		all.Add(more)
		progress(all)
	}
	more, err := maintain.Run(ctx, c.overflow, &rest, c.strays(), c.repair)
	result.Add(more)
	return result, err
}

func (c *core) repair(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
	problems, err := c.inspect(ctx, batch)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range problems { // a NotArray comes first of a list's
		id, do := p.ID, c.arrange
		if p.Kind == Orphan {
			id, do = p.Have, c.deleteOrphans
		}
		key := value.Key(id)
		var err error
		switch {
		case seen[key]:
		case p.Kind == NotArray:
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

// change counts what do does to one list.
func (c *core) change(ctx context.Context, id bson.RawValue, w mongopatterns.Work, result *mongopatterns.Result,
	do func(ctx context.Context, id bson.RawValue) error) error {
	var err error
	if !w.DryRun {
		err = do(ctx, id)
	}
	switch {
	case err == nil:
		result.Done++
	case errors.Is(err, fault.ErrNotFound):
		result.Skipped++
	case errors.Is(err, errNotArray):
		result.Remaining++
	case (fault.Refused(err) || errors.Is(err, fault.ErrInvalid)) && !w.Strict && !txn.Running(ctx): // others of the batch are done
		result.Fail(c.coll.Name(), id, err)
	default:
		return fault.Of(id, err)
	}
	return nil
}

// deleteOrphans deletes the overflow documents of a parent if it is not there.
func (c *core) deleteOrphans(ctx context.Context, parent bson.RawValue) error {
	return c.run(ctx, func(ctx context.Context) error {
		err := c.coll.FindOne(ctx, c.parent(parent), options.FindOne().SetProjection(expr.D("_id", 1))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err = fault.Many(c.overflow.DeleteMany(ctx, c.extras(parent)))
			return err
		}
		return cmp.Or(err, fault.ErrNotFound)
	})
}

// Adopt brings the lists that work selects into the form and the bounds that the options
// describe: it splits arrays over the bounds and folds back what has become small.
//
// Of other code it takes a flag of any value, such as "true", and overflow documents
// without numbers. Their elements come after those in the parent, in the order of _id,
// also where such documents come later, to a list that is in this form already: what
// other code and this package have added at the same time, it cannot tell apart. A parent
// that has lost flag and ObjectID, and begins with all that lies outside, was written back
// as it was before: what lies outside is then deleted, else it belongs to the list.
//
// Each list is changed in a transaction of its own, beside live writes. What is done is not
// selected again, but for outliers of few elements whose bytes keep them apart, which the
// parent does not show: these are Done each time. Writers that do not know the pattern may
// still push into what has been split; run Adopt again when they are gone. Duplicates in
// lists that are not changed are left for Repair. Remaining are lists that hold no array.
//
// Cost: 1 round trip, a scan of the parents, with a $lookup for each outlier, and for each list that moves
// elements as in Repair.
func (l *Lists[ID, E]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: adopt")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	c := &l.c
	if err := c.refuse(ctx, work); err != nil {
		return result, err
	}
	wrong := expr.Op("$or", expr.Op("$not", bson.A{c.isList()}), c.overBounds())
	small := expr.Op("$lte", l.TotalExpression(), c.o.FoldBack)
	const extra = "~extra"
	seen := expr.Op("$or", expr.Op("$expr", wrong), expr.Op("$nor", bson.A{c.x.own}),
		append(slices.Clip(c.x.outlier), expr.Element("$expr", small)),
		expr.D(extra+".numbers", false),
		expr.D(c.o.FlagField, true, "$expr", expr.Op("$ne", expr.Field(c.o.OutsideField), expr.Op("$sum", "$"+extra+".outside"))))
	return maintain.Run(ctx, c.coll, work, maintain.Scan{
		Filter: expr.Op("$or", expr.Op("$expr", wrong), expr.Op("$nor", bson.A{c.x.typical})),
		Pipeline: mongo.Pipeline{
			expr.Op("$sort", expr.D("_id", 1)),
			expr.Op("$project", c.state(expr.Field(c.o.ArrayField))),
			c.lookup(extra, mongo.Pipeline{expr.Op("$group", expr.D("_id", nil, "outside", expr.Op("$sum", size(c.anyArray())),
				"numbers", expr.Op("$min", expr.Op("$isNumber", c.number()))))}),
			expr.Op("$match", seen),
			expr.Op("$project", expr.D("list", c.isList())),
		},
	}, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			if !doc.Lookup("list").Boolean() {
				result.Remaining++
			} else if err := c.change(ctx, doc.Lookup("_id"), w, result, c.arrange); err != nil {
				return err
			}
		}
		return nil
	})
}
