package attribute

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
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
	// that is no string, or a qualifier that is no string: one problem a document,
	// with their Count. Repair leaves them. An element whose key is an array
	// matches conditions on what that holds, as in all of MongoDB's filters;
	// nothing else takes it for an entry.
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
// Cost: 1 round trip and further ones for many problems; scans the collection, or
// what work selects.
func (a *Attributes[ID, V]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("attribute: check", func(yield func(mongopatterns.Problem, error) bool) {
		w, err := maintain.Of(work, 0)
		if err != nil {
			fault.Stop[mongopatterns.Problem](err)(yield)
			return
		}
		for f, err := range cursor.Decode[findings](ctx, a.c.aggregate(a.c.primary, a.c.inspection(w.Filter))) {
			if err != nil {
				fault.Stop[mongopatterns.Problem](err)(yield)
				return
			}
			for _, p := range a.c.problems(f) {
				if !yield(p, nil) {
					return
				}
			}
		}
	})
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
	w, err := maintain.Of(work, 0)
	if err != nil {
		return result, err
	}
	c := a.c
	docs := cursor.Docs(ctx, c.aggregate(c.primary, c.inspection(w.Filter)))
	for batch, err := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		if err != nil {
			return result, err
		}
		err := maintain.Apart(ctx, c.coll.Name(), batch, &result, func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
			var duplicates []bson.Raw
			for _, doc := range part {
				var f findings
				if err := bson.Unmarshal(doc, &f); err != nil {
					return err
				}
				result.Remaining += int64(len(c.problems(f)) - len(f.Duplicates))
				if len(f.Duplicates) > 0 {
					duplicates = append(duplicates, doc)
				}
			}
			if len(duplicates) == 0 {
				return nil
			}
			return c.updateAll(ctx, duplicates, bson.D{{Key: c.array, Value: isType("array")}}, c.unique(), w, result)
		})
		if err != nil {
			return result, err
		}
		w.Progress(result)
	}
	return result, nil
}

// findings is what inspect finds in a document.
type findings struct {
	ID         bson.RawValue `bson:"_id"`
	Writable   bool          `bson:"writable"`
	Malformed  int64         `bson:"malformed"`
	Duplicates []struct {
		Key       string `bson:"key"`
		Qualifier string `bson:"qualifier"`
	} `bson:"duplicates"`
	Sides []string `bson:"sides"`
}

func (c *core) problems(f findings) (out []mongopatterns.Problem) {
	found := func(kind mongopatterns.ProblemKind, field, detail string) {
		out = append(out, mongopatterns.Problem{Pattern: "attribute", Kind: kind, Collection: c.coll.Name(), ID: f.ID, Field: field, Detail: detail})
	}
	if !f.Writable {
		found(NotArray, c.array, "")
	}
	if f.Malformed > 0 {
		found(Malformed, c.array, fmt.Sprintf("%d elements", f.Malformed))
	}
	for _, d := range f.Duplicates {
		key := Key(d.Key)
		if d.Qualifier != "" {
			key = key.Qualified(d.Qualifier)
		}
		found(Duplicate, c.array, "key "+key.String())
	}
	for _, path := range f.Sides {
		found(TwoArrays, path, "")
	}
	return out
}

// inspection gives the findings of the documents in which it finds something.
func (c *core) inspection(filter any) mongo.Pipeline {
	identities := expr.Map(expr.Filter(c.x.entries, "o", c.valid("$$o")), "o", bson.D{
		{Key: "key", Value: "$$o." + c.key}, {Key: "qualifier", Value: c.qualifierOf("$$o")},
	})
	repeated := expr.Filter("$$distinct", "d",
		expr.Op("$gt", expr.Op("$size", expr.Filter("$$all", "a", expr.Op("$eq", "$$a", "$$d"))), 1))
	sides := bson.A{}
	for _, path := range c.sides() {
		tests := bson.A{}
		for _, part := range fieldpath.Steps(path) {
			tests = append(tests, expr.Op("$isArray", bson.A{"$" + part}))
		}
		sides = append(sides, expr.Cond(expr.Op("$and", expr.Op("$isArray", bson.A{"$" + c.array}), expr.Op("$or", tests)), bson.A{expr.Literal(path)}, bson.A{}))
	}
	return mongo.Pipeline{
		expr.Op("$match", and(selected(filter))),
		expr.Op("$project", bson.D{
			{Key: "writable", Value: c.x.isWritable},
			{Key: "malformed", Value: expr.Op("$size", expr.Filter(c.x.entries, "o", expr.Op("$not", bson.A{c.valid("$$o")})))},
			{Key: "duplicates", Value: expr.Let("all", identities, expr.Let("distinct", expr.Op("$setUnion", "$$all", bson.A{}),
				expr.Cond(expr.Op("$eq", expr.Op("$size", "$$all"), expr.Op("$size", "$$distinct")), bson.A{}, repeated)))},
			{Key: "sides", Value: expr.Op("$concatArrays", append(sides, bson.A{}))},
		}),
		expr.Op("$match", expr.Op("$or",
			bson.D{{Key: "writable", Value: false}},
			bson.D{{Key: "malformed", Value: bson.D{{Key: "$gt", Value: 0}}}},
			bson.D{{Key: "duplicates", Value: bson.D{{Key: "$ne", Value: bson.A{}}}}},
			bson.D{{Key: "sides", Value: bson.D{{Key: "$ne", Value: bson.A{}}}}},
		)),
	}
}

// unique is the update that leaves the last entry of each identity.
func (c *core) unique() mongo.Pipeline {
	found := expr.Op("$gt", expr.Op("$size", expr.Filter("$$value", "o", c.same("$$o", "$$this"))), 0)
	drop := expr.Op("$and", c.valid("$$this"), found)
	return mongo.Pipeline{set(c.array, expr.Reduce(expr.Op("$reverseArray", c.x.entries), bson.A{},
		expr.Cond(drop, "$$value", expr.Op("$concatArrays", bson.A{"$$this"}, "$$value"))))}
}
