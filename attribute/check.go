package attribute

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

const (
	// Duplicate is two or more entries of one key and qualifier. Reads take the
	// first, Set changes them all. Repair leaves the last, which a
	// $push has added last.
	Duplicate mongopatterns.ProblemKind = "duplicate"
	// Malformed is elements of the array that are no documents, have no key or one
	// that is no string, or a qualifier that is no string: one problem a document.
	// Repair leaves them. An element whose key is an array matches conditions on what
	// that holds; nothing else takes it for an entry.
	Malformed mongopatterns.ProblemKind = "malformed"
	// NotArray is an ArrayField that holds something else, or something else than
	// documents above it. Repair leaves it.
	NotArray mongopatterns.ProblemKind = "not an array"
	// TwoArrays is a Prefix or Suffix of an index that holds an array: MongoDB
	// refuses the index or, if there is one, the document. Repair leaves it.
	TwoArrays mongopatterns.ProblemKind = "two arrays in an index"
)

var _ mongopatterns.Checker = (*Attributes[int, int])(nil)

// Check reads every document that work selects and yields what is wrong. The server
// looks; only problems leave it.
//
// Cost: 2 round trips and further ones for many problems; scans the collection, or
// what work selects.
func (a *Attributes[ID, V]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	found := maintain.Check(ctx, a.c.coll, work, a.c.inspection(),
		func(_ context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			found, _, err := a.c.problems(batch)
			return found, err
		})
	return fault.Seq("attribute: check", collation.Seq(ctx, found, a.c.coll))
}

// Repair removes duplicate entries from the documents that work selects, in each by
// one update that looks for them itself, so that no live write is lost. It can be
// stopped and run again. Examined are documents with problems, Remaining those of
// other kinds than Duplicate.
//
// Cost: a Check, and 1 round trip for each batch of documents with duplicates, found
// by _id.
func (a *Attributes[ID, V]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "attribute: repair")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	c := a.c
	if err := c.refuse(ctx, work); err != nil {
		return result, err
	}
	return maintain.Run(ctx, c.coll, work, c.inspection(),
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			found, repeated, err := c.problems(batch)
			if err != nil {
				return err
			}
			for _, p := range found {
				if p.Kind != Duplicate {
					result.Remaining++
				}
			}
			if len(repeated) == 0 {
				return nil
			}
			return c.updateAll(ctx, repeated, expr.D(c.array, expr.Op("$type", "array")), c.unique(), w, result)
		})
}

// problems are those that an inspection has found in documents; repeated are the documents
// with duplicates.
func (c *core) problems(batch []bson.Raw) (out []mongopatterns.Problem, repeated []bson.Raw, err error) {
	for _, doc := range batch {
		var f struct {
			ID         bson.RawValue    `bson:"_id"`
			Writable   bool             `bson:"writable"`
			Malformed  int64            `bson:"malformed"`
			Duplicates []Attribute[any] `bson:"duplicates"`
			Sides      []string         `bson:"sides"`
		}
		if err := bson.Unmarshal(doc, &f); err != nil {
			return nil, nil, err
		}
		found := func(kind mongopatterns.ProblemKind, field, detail string) {
			out = append(out, mongopatterns.Problem{
				Pattern: "attribute", Kind: kind, Collection: c.coll.Name(), ID: f.ID, Field: field, Detail: detail})
		}
		if !f.Writable {
			found(NotArray, c.array, "")
		}
		if f.Malformed > 0 {
			found(Malformed, c.array, fmt.Sprintf("%d elements", f.Malformed))
		}
		for _, d := range f.Duplicates {
			key := Named(d.Key)
			if d.Qualifier != "" {
				key = key.Qualified(d.Qualifier)
			}
			found(Duplicate, c.array, "key "+key.String())
		}
		for _, path := range f.Sides {
			found(TwoArrays, path, "")
		}
		if len(f.Duplicates) > 0 {
			repeated = append(repeated, doc)
		}
	}
	return out, repeated, nil
}

// inspection gives what is wrong with the documents in which something is.
func (c *core) inspection() maintain.Scan {
	identities := expr.Map(c.those(c.valid("$$o")), "o", expr.D("key", "$$o."+c.key, "qualifier", c.qualifierOf("$$o")))
	repeated := expr.Filter("$$distinct", "d",
		expr.Op("$gt", expr.Op("$size", expr.Filter("$$all", "a", expr.Op("$eq", "$$a", "$$d"))), 1))
	sides := bson.A{}
	for _, path := range c.sides {
		tests := bson.A{}
		for _, part := range fieldpath.Steps(path) {
			tests = append(tests, expr.Op("$isArray", bson.A{"$" + part}))
		}
		sides = append(sides, expr.Cond(expr.Op("$and", expr.Op("$isArray", bson.A{"$" + c.array}), expr.Op("$or", tests)), bson.A{expr.Literal(path)}, bson.A{}))
	}
	return maintain.Scan{Pipeline: mongo.Pipeline{
		expr.Op("$project", expr.D(
			"writable", c.x.writable,
			"malformed", expr.Op("$size", c.those(expr.Op("$not", c.valid("$$o")))),
			"duplicates", expr.Let("all", identities, expr.Let("distinct", expr.Op("$setUnion", "$$all", bson.A{}),
				expr.Cond(expr.Op("$eq", expr.Op("$size", "$$all"), expr.Op("$size", "$$distinct")), bson.A{}, repeated))),
			"sides", expr.Op("$concatArrays", append(sides, bson.A{})),
		)),
		expr.Op("$match", expr.Op("$nor", bson.A{
			expr.D("writable", true, "malformed", 0, "duplicates", bson.A{}, "sides", bson.A{})})),
	}}
}

// unique is the update that leaves the last entry of each identity.
func (c *core) unique() mongo.Pipeline {
	drop := expr.Op("$and", c.valid("$$this"), c.x.has)
	return mongo.Pipeline{set(c.array, expr.Reduce(expr.Op("$reverseArray", c.x.entries), bson.A{},
		expr.Cond(drop, "$$value", expr.Op("$concatArrays", bson.A{"$$this"}, "$$value"))))}
}
