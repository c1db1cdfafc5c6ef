package attribute

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// The kinds of problems that Check finds.
const (
	// TwoArrays: a Prefix or Suffix of an index is an array, so MongoDB refuses the index or, if
	// the index exists, the document. Repair leaves it alone.
	TwoArrays mongopatterns.ProblemKind = "two arrays in an index"
)

var _ mongopatterns.Checker = (*Attributes[int, int])(nil)

// Check checks every document that work selects, on the server, and yields what is wrong. Only
// problems are sent to the client.
//
// Besides the kinds of this package, it yields these of package mongopatterns:
//   - Duplicate: several entries have the same key and qualifier. Reads return the first, and Set changes
//     all. Repair keeps the last, because that is the one that a $push added.
//   - Malformed: ArrayField is not an array or a parent of it is not a document; or an element of the array is
//     not a document, has no key, or has a key or qualifier that is not a string, one problem for each
//     document. Repair leaves it alone. An element whose key is an array matches conditions on the values in
//     that array, but no other call treats it as an entry.
//
// Cost: 2 round trips and more for many problems; scans the collection, or what work selects.
func (a *Attributes[ID, V]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "attribute.Check")
	found := maintain.Check(ctx, a.c.coll, work, a.c.inspection(),
		func(_ context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			found, _, err := a.c.problems(batch)
			return found, err
		})
	return fault.Seq("attribute.Check", collation.Seq(ctx, found, a.c.coll))
}

// Repair removes duplicate entries from the documents that work selects. Each document is changed
// by one update that finds the duplicates itself, so that no live write is lost. Repair can be
// stopped and run again. Examined counts documents with problems, Remaining the problems of
// other kinds.
//
// Cost: that of Check, and 1 round trip for each batch of documents with duplicates, index _id.
func (a *Attributes[ID, V]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "attribute.Repair")
	defer fault.In(&err, "attribute.Repair")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	c := a.c
	if err := c.ready(ctx, work); err != nil {
		return result, err
	}
	return maintain.Run(ctx, c.coll, work, c.inspection(),
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			found, repeated, err := c.problems(batch)
			if err != nil {
				return err
			}
			for _, p := range found {
				if p.Kind != mongopatterns.Duplicate {
					result.Remaining++
				}
			}
			if len(repeated) == 0 {
				return nil
			}
			return c.updateAll(ctx, repeated, expr.D(c.array, expr.AnArray), c.unique(), w, result)
		})
}

// problems returns the problems that an inspection has found in documents; repeated are the documents
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
			found(mongopatterns.Malformed, c.array, "")
		}
		if f.Malformed > 0 {
			want := fmt.Sprintf("%d elements: %q must be a string, not empty", f.Malformed, c.key)
			if c.qualifier != "" {
				want += fmt.Sprintf(", %q a string or missing", c.qualifier)
			}
			found(mongopatterns.Malformed, c.array, want)
		}
		for _, d := range f.Duplicates {
			key := Named(d.Key)
			if d.Qualifier != "" {
				key = key.Qualified(d.Qualifier)
			}
			found(mongopatterns.Duplicate, c.array, "key "+key.String())
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

// inspection reads the problems of documents, and only documents with problems.
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

// unique is the update that keeps the last entry of each identity.
func (c *core) unique() mongo.Pipeline {
	drop := expr.Op("$and", c.valid("$$this"), c.x.has)
	return mongo.Pipeline{set(c.array, expr.Reduce(expr.Op("$reverseArray", c.x.entries), bson.A{},
		expr.Cond(drop, "$$value", expr.Op("$concatArrays", bson.A{"$$this"}, "$$value"))))}
}
