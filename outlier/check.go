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
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
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
// Cost: a scan of both collections, and for each batch of outliers and lists that seem
// wrong 2 round trips, with a $lookup for each of them; 1 more with Options.Set, and 1
// for a batch with orphans.
func (l *Lists[ID, E]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := &l.c
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.coll, work, c.suspects(work), c.inspect)}
	if work == nil || work.Filter == nil {
		// All else that is wrong with these lists, the scan of the parents has reported.
		all = append(all, maintain.Check(ctx, c.overflow, work, c.strays(), c.inspect))
	}
	return fault.Seq("outlier: check", maintain.Chain(all...))
}

// suspects selects outliers and all else that a parent alone shows to be wrong, or each of
// few parents that a filter selects.
func (c *core) suspects(work *mongopatterns.Work) maintain.Scan {
	scan := maintain.Scan{Projection: expr.D("_id", 1)}
	if work == nil || work.Filter == nil {
		fine := bson.A{c.isList(), expr.Op("$not", bson.A{c.overBounds()})}
		if c.o.Set {
			fine = append(fine, expr.Op("$eq", size(expr.Op("$setUnion", c.anyArray(), bson.A{})), size(c.anyArray())))
		}
		scan.Filter = expr.Op("$nor", bson.A{append(slices.Clip(c.x.typical), expr.Element("$expr", expr.Op("$and", fine)))})
	}
	return scan
}

// overBounds says that a parent's array is too large.
func (c *core) overBounds() bson.D {
	array := c.anyArray()
	return expr.Op("$or", expr.Op("$gt", size(array), c.o.MaxCount), expr.Op("$gt", bytes(array), c.o.MaxBytes))
}

// A report is what inspect reads of a list.
type report struct {
	ID            bson.RawValue `bson:"_id"`
	Flag, Outside bson.RawValue
	Moved         string // the type of Options.MoveField
	List, Over    bool
	Size          int64
	Extra         []struct { // one, or none without overflow documents
		Documents, Outside int64
		Lists, Numbers     bool
	}
}

// inspect reads lists in a transaction, as they are at one moment, and says what is
// wrong with them, list by list. The batch has the _ids of parents, there or not.
func (c *core) inspect(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	err = c.run(ctx, func(ctx context.Context) (err error) {
		problems, err = c.inspectLocked(ctx, batch)
		return err
	})
	return problems, err
}

func (c *core) inspectLocked(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	ids := make([]bson.RawValue, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("_id")
	}
	match := anyOf("_id", ids)
	array := c.anyArray()
	reports, err := cursor.Collect(cursor.Decode[report](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.coll.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", match),
			expr.Op("$sort", expr.D("_id", 1)),
			expr.Op("$project", expr.D("flag", expr.Field(c.o.FlagField), "outside", expr.Field(c.o.OutsideField),
				"moved", expr.Op("$type", expr.Field(c.o.MoveField)), "list", c.isList(), "over", c.overBounds(), "size", size(array))),
			c.lookup("extra", mongo.Pipeline{expr.Op("$group", expr.D("_id", nil,
				"documents", expr.Op("$sum", 1), "outside", expr.Op("$sum", size(array)),
				"lists", expr.Op("$min", expr.Op("$isArray", expr.Field(c.o.ArrayField))),
				"numbers", expr.Op("$min", expr.Op("$isNumber", expr.Field(c.o.NumberField)))))}),
		})
	}))
	if err != nil {
		return nil, err
	}
	duplicates := map[string][]repeated{}
	if c.o.Set && len(reports) > 0 {
		found, err := c.repeats(ctx, match)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			key := value.Key(r.ID.List)
			duplicates[key] = append(duplicates[key], r)
		}
	}
	there := map[string]bool{}
	for _, r := range reports {
		there[value.Key(r.ID)] = true
		problems = append(problems, c.problems(r, duplicates[value.Key(r.ID)])...)
	}
	ids = slices.DeleteFunc(ids, func(id bson.RawValue) bool { return there[value.Key(id)] })
	if len(ids) == 0 {
		return problems, nil
	}
	orphans, err := c.orphans(ctx, ids)
	return append(problems, orphans...), err
}

// orphans are the overflow documents of parents that are not there.
func (c *core) orphans(ctx context.Context, parents []bson.RawValue) (problems []mongopatterns.Problem, err error) {
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.overflow.Aggregate(ctx, mongo.Pipeline{
			expr.Op("$match", anyOf(c.o.ParentField, parents)),
			expr.Op("$group", expr.D("_id", expr.Field(c.o.ParentField), "first", expr.Op("$min", "$_id"),
				"documents", expr.Op("$sum", 1))),
		})
	}) {
		if err != nil {
			return nil, err
		}
		problems = append(problems, mongopatterns.Problem{
			Pattern: "outlier", Kind: Orphan, Collection: c.overflow.Name(), ID: doc.Lookup("first"),
			Field: c.o.ParentField, Have: doc.Lookup("_id"),
			Detail: fmt.Sprintf("%d overflow documents", doc.Lookup("documents").AsInt64()),
		})
	}
	return problems, nil
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

func (c *core) problems(r report, duplicates []repeated) (out []mongopatterns.Problem) {
	found := func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string) {
		out = append(out, mongopatterns.Problem{Pattern: "outlier", Kind: kind, Collection: c.coll.Name(), ID: r.ID,
			Field: field, Have: have, Want: want, Detail: detail})
	}
	var none bson.RawValue
	documents, outside, listsOut, numbersOut := int64(0), int64(0), true, true
	for _, x := range r.Extra {
		documents, outside, listsOut, numbersOut = x.Documents, x.Outside, x.Lists, x.Numbers
	}
	flag, isBool := r.Flag.BooleanOK()
	own := isBool && (!flag || r.Moved == "objectId") || r.Flag.Type == 0 || r.Flag.Type == bson.TypeNull
	want, _ := codec.Codec{}.Value(int(outside))
	switch {
	case !r.List:
		found(NotArray, c.o.ArrayField, none, none, "")
	case !listsOut:
		found(NotArray, c.o.ArrayField, none, none, "of an overflow document")
	case !own || !numbersOut:
		found(NotAdopted, c.o.FlagField, r.Flag, none, "")
	case flag != (documents > 0):
		found(WrongFlag, c.o.FlagField, r.Flag, none, fmt.Sprintf("%d overflow documents", documents))
	case flag && value.Key(r.Outside) != value.Key(want):
		found(WrongTotal, c.o.OutsideField, r.Outside, want, "")
	}
	if r.Over {
		found(OverBounds, c.o.ArrayField, none, none, fmt.Sprintf("%d elements", r.Size))
	}
	for _, d := range duplicates {
		found(Duplicate, c.o.ArrayField, d.ID.Element, none, fmt.Sprintf("%d times", len(d.At)))
	}
	return out
}

// strays reads the parents' _ids of overflow documents that no parent with a flag
// has: of orphans, or of a WrongFlag.
func (c *core) strays() maintain.Scan {
	id := expr.Op("$project", expr.D("_id", 1))
	return maintain.Scan{Pipeline: mongo.Pipeline{
		expr.Op("$group", expr.D("_id", expr.Field(c.o.ParentField))),
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
	c := &l.c
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

// repair repairs the lists of a batch that have problems.
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
	case fault.Refused(err) && !w.Strict && !txn.Running(ctx): // others of the batch are done
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
			_, err = c.overflow.DeleteMany(ctx, c.extras(parent))
			return err
		}
		return cmp.Or(err, fault.ErrNotFound)
	})
}

// Adopt brings the lists that work selects into the form and the bounds that the options
// describe: it splits arrays over the bounds and folds back what has become small.
//
// Of other code it takes a flag of any value, such as "true", and overflow documents
// without numbers. Their elements come after those in the parent, in the order of _id.
//
// Each list is changed in a transaction of its own, beside live writes, and what is
// done is not selected again. Writers that do not know the pattern may still push
// into what has been split; run Adopt again when they are gone. Duplicates in lists
// that are not changed are left for Repair. Remaining are lists that hold no array.
//
// Cost: a scan of the parents, and for each that moves elements as in Repair.
func (l *Lists[ID, E]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: adopt")
	c := &l.c
	wrong := expr.Op("$or", expr.Op("$not", bson.A{c.isList()}), c.overBounds())
	small := expr.Op("$lte", c.total(c.anyArray()), c.o.FoldBack)
	return maintain.Run(ctx, c.coll, work, maintain.Scan{
		Filter: expr.Op("$or", expr.Op("$expr", wrong), expr.Op("$nor", bson.A{c.x.own}),
			append(slices.Clip(c.x.outlier), expr.Element("$expr", small))),
		Projection: expr.D("list", c.isList()),
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
