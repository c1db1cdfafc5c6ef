package split

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds.
const (
	// MissingCold: a hot document has no cold one. Repair inserts one with the ID alone, or with
	// the fields that it moves there.
	MissingCold mongopatterns.ProblemKind = "no cold document"
	// Misplaced: the hot document has a cold field that is newer than the cold document's, or the
	// only one. Repair moves it, and overwrites the cold document's value.
	Misplaced mongopatterns.ProblemKind = "cold field in the hot document"
	// InBoth: old code has written a number, an array or a document to a cold field of the hot
	// document, and it may be only a fragment of the cold document's value, as $inc, $push and $set
	// of a part leave it. Until somebody decides, the cold document's value is used. Adopt and
	// Repair leave both, and count the document as Remaining, unless Options.Prefer is set.
	InBoth mongopatterns.ProblemKind = "in both documents"
)

// Check reads both collections and yields what is wrong. Work.Filter selects hot documents; with a
// filter Check does not look for orphans. Problems that a write may have caused meanwhile are
// checked again, in a transaction.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the
// collections.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Orphan: a cold document without a hot one. Repair leaves it alone.
//
// Cost: 1 round trip, and 1 for each batch of 100 documents.
//   - A batch in which some seem wrong: 3 more.
//   - Without a Filter: a scan of the cold ones, and 3 for each batch of Orphans.
func (s *Split[ID, H, C]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "split.Check")
	c := s.core
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.hot, work, c.scan(), c.check)}
	if work == nil || work.Filter == nil {
		orphan := mongopatterns.Problem{Pattern: "split", Kind: mongopatterns.Orphan}
		all = append(all, maintain.Orphans(ctx, c.cold, c.hot, c.idField, work, orphan))
	}
	return fault.Seq("split.Check", collation.Seq(ctx, maintain.Chain(all...), c.hot, c.cold))
}

var onlyID = expr.D("_id", 1)

// scan reads the names of the cold fields in hot documents, and whether their cold documents exist. The sizes of both bound
// a batch, because the next step reads and writes both. It does so for documents with cold fields alone, so the others'
// cold documents are not read.
func (c *core) scan() maintain.Scan {
	name, size := maintain.SizeField, expr.Op("$bsonSize", "$$ROOT")
	moves := expr.Op("$gt", expr.Op("$size", "$fields"), 0)
	return maintain.Scan{BatchSize: 100, Whole: true, Pipeline: mongo.Pipeline{expr.Op("$sort", onlyID),
		expr.Op("$project", append(c.misplaced(), expr.Element(name, size))),
		c.lookup("_id", expr.Op("$project", onlyID)),
		expr.Op("$set", expr.D("~of", expr.Cond(moves, "$_id", bson.MinKey{}))), // a missing field would find null
		c.join("~of", "sizes", expr.Op("$project", expr.D(name, size))),
		expr.Op("$set", expr.D(name, expr.Op("$add", expr.Field(name), expr.Op("$sum", expr.Field("sizes."+name)))))}}
}

// misplaced is the projection of the names of the cold fields in a hot document.
func (c *core) misplaced() bson.D {
	names := expr.Map(expr.Op("$objectToArray", "$$ROOT"), "field", "$$field.k")
	return expr.D("fields", expr.Op("$setIntersection", names, expr.Literal(append([]string{}, c.fields...))))
}

// suspects returns the _ids of documents, as scan reads them, without a cold one or with cold fields.
func suspects(hot []bson.Raw) (ids bson.A) {
	for _, doc := range hot {
		if doc.Lookup("cold", "0").IsZero() || !doc.Lookup("fields", "0").IsZero() {
			ids = append(ids, doc.Lookup("_id"))
		}
	}
	return ids
}

// check finds the problems of a batch of hot documents. In the transaction it reads without
// $lookup, which a sharded cluster refuses there before MongoDB 8.0.
func (c *core) check(ctx context.Context, hot []bson.Raw) (problems []mongopatterns.Problem, err error) {
	ids := suspects(hot)
	if len(ids) == 0 {
		return nil, nil
	}
	projection := expr.D("_id", 1)
	for _, field := range c.fields {
		projection = append(projection, expr.Element(field, 1))
	}
	err = c.run(ctx, func(ctx context.Context) error {
		problems = nil
		hot, cold, err := c.read(ctx, ids, projection)
		for _, doc := range hot {
			p := mongopatterns.Problem{Pattern: "split", Kind: MissingCold, Collection: c.hot.Name(), ID: doc.Lookup("_id")}
			whole, divided := cold[value.Key(p.ID)]
			if !divided {
				problems = append(problems, p)
			}
			contested := c.contested(doc, whole)
			for _, field := range c.fields {
				p.Kind, p.Field, p.Have = Misplaced, field, doc.Lookup(field)
				if slices.Contains(contested, field) {
					p.Kind = InBoth
				}
				if p.Have.Type != 0 {
					problems = append(problems, p)
				}
			}
		}
		return err
	})
	return problems, err
}

// Repair moves cold fields out of hot documents and inserts missing cold documents, each batch
// in a transaction, during live writes. Work.Filter selects hot documents. Remaining counts
// those with fields InBoth, unless Options.Prefer says which to keep.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the collections.
//
// Cost: 1 round trip, and 1 for each batch of 100 documents.
//   - A batch in which some are wrong: 6 more, 7 if of these some have a cold one and others do not; 2 writes to the
//     hot document and 1 to the cold one.
func (s *Split[ID, H, C]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "split.Repair")
	defer fault.In(&err, "split.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.divideAll(ctx, work)
}

// Adopt splits an existing collection, which becomes the hot one. The cold fields of its documents
// move to the cold collection, each batch in a transaction, during live writes. Every document gets
// a cold one. Work.Filter selects hot documents. Adopt can be stopped and run again, also to take
// up what old programs have written to the hot collection since.
//
// If old programs have written a field that the cold document has too, and their value is a scalar
// or they replaced the whole document, their value overwrites the cold document's. Otherwise the
// field is InBoth, and the document is counted as Remaining, unless Options.Prefer says which to
// keep. A batch that conflicts with another writer is done in halves (Result.Conflicts). Adopt
// returns mongopatterns.ErrInvalid if the cold fields are not known.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the collections.
//
// Cost: that of Repair.
func (s *Split[ID, H, C]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "split.Adopt")
	defer fault.In(&err, "split.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if len(s.core.fields) == 0 {
		return result, fault.Invalid("Options.ColdFields: it must be set, because C is not a struct with fields")
	}
	return s.core.divideAll(ctx, work)
}

// divideAll divides the hot documents without a cold one, and those with cold fields.
func (c *core) divideAll(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	if err := c.ready(ctx, work); err != nil {
		return mongopatterns.Result{}, err
	}
	step := func(ctx context.Context, hot []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		ids := suspects(hot)
		if len(ids) == 0 {
			return nil
		}
		var n division
		err := maintain.Once(ctx, c.hot, func(ctx context.Context) (err error) {
			n, err = c.divide(ctx, ids, c.keep, work.DryRun)
			return err
		})
		if err == nil {
			result.Done += n.done
			result.Remaining += n.contested
		}
		return err
	}
	return maintain.Run(ctx, c.hot, work, c.scan(), step)
}
