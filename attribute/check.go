package attribute

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// A Problem is something wrong with the entries of a document.
type Problem struct {
	// ID is the document's _id.
	ID bson.RawValue
	// Kind says what is wrong.
	Kind ProblemKind
	// Key and Qualifier are those of duplicate entries.
	Key, Qualifier string
	// Field is the field that holds the problem.
	Field string
	// Count is the number of malformed elements, 0 with other kinds.
	Count int64
}

func (p Problem) String() string {
	text := fmt.Sprintf("document %s: %s: %s", rawvalue.Text(p.ID), p.Kind, p.Field)
	if p.Key != "" {
		text += fmt.Sprintf(" %q", p.Key)
	}
	if p.Qualifier != "" {
		text += fmt.Sprintf(" %q", p.Qualifier)
	}
	if p.Count > 0 {
		text += fmt.Sprintf(" (%d)", p.Count)
	}
	return text
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// Duplicate is two or more entries of one key and qualifier. Reads take the
	// first, Set changes them all. Repair leaves one.
	Duplicate ProblemKind = "duplicate"
	// Malformed is elements of the array that are no documents, have no key or one
	// that is no string, or a qualifier that is no string: one problem a document,
	// with their Count. Repair leaves them. An element whose key is an array
	// matches conditions on what that holds, as in all of MongoDB's filters;
	// nothing else takes it for an entry.
	Malformed ProblemKind = "malformed"
	// NotArray is an ArrayField that holds something else, or something else than
	// documents above it. Repair leaves it.
	NotArray ProblemKind = "not an array"
	// TwoArrays is a Prefix or Suffix of an index that holds an array: MongoDB
	// refuses the index or, if there is one, the document. Repair leaves it.
	TwoArrays ProblemKind = "two arrays in an index"
)

// Check reads every document and yields what is wrong. The server looks; only
// problems leave it.
//
// Cost: 1 round trip and further ones for many problems; scans the collection.
func (c *core) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		err := c.inspect(ctx, func(f findings) bool {
			for _, p := range c.problems(f) {
				if !yield(p, nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(Problem{}, wrap("check", err))
		}
	}
}

// RepairOptions bounds Repair.
type RepairOptions struct {
	// KeepFirst keeps the first of several entries. Default false: the last one,
	// which a $push has added last.
	KeepFirst bool
	// BatchSize is how many documents one round trip repairs. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents repaired so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // documents with problems
	Repaired  int64 `json:"repaired"`  // documents of which duplicates were removed
	Remaining int64 `json:"remaining"` // problems it cannot repair, see Check
}

// Repair removes duplicate entries, in each document by one update that looks
// for them itself, so that no live write is lost. It can be stopped and run
// again.
//
// Cost: a Check, and 1 round trip for each batch of BatchSize documents with
// duplicates, found by _id.
func (c *core) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, 1000, &o.Progress); err != nil {
		return result, wrap("repair", err)
	}
	update := c.unique(o.KeepFirst)
	var ids bson.A
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		done, err := c.updateAll(ctx, ids, bson.D{{Key: c.array, Value: isType("array")}}, update)
		if err != nil {
			return err
		}
		ids = nil
		result.Repaired += done.ModifiedCount
		o.Progress(result.Repaired)
		return nil
	}
	var failed error
	err := c.inspect(ctx, func(f findings) bool {
		result.Examined++
		duplicates := false
		for _, p := range c.problems(f) {
			if p.Kind == Duplicate {
				duplicates = true
			} else {
				result.Remaining++
			}
		}
		if duplicates {
			ids = append(ids, f.ID)
		}
		if len(ids) >= o.BatchSize {
			failed = flush()
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = flush()
	}
	return result, wrap("repair", err)
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

func (c *core) problems(f findings) (out []Problem) {
	if !f.Writable {
		out = append(out, Problem{ID: f.ID, Kind: NotArray, Field: c.array})
	}
	if f.Malformed > 0 {
		out = append(out, Problem{ID: f.ID, Kind: Malformed, Field: c.array, Count: f.Malformed})
	}
	for _, d := range f.Duplicates {
		out = append(out, Problem{ID: f.ID, Kind: Duplicate, Field: c.array, Key: d.Key, Qualifier: d.Qualifier})
	}
	for _, path := range f.Sides {
		out = append(out, Problem{ID: f.ID, Kind: TwoArrays, Field: path})
	}
	return out
}

// inspect calls visit with the documents in which it finds something.
func (c *core) inspect(ctx context.Context, visit func(findings) bool) error {
	identities := mapped(filtered(c.entries(), "o", c.valid("$$o")), "o", bson.D{
		{Key: "key", Value: "$$o." + c.key}, {Key: "qualifier", Value: c.qualifierOf("$$o")},
	})
	repeated := filtered("$$distinct", "d",
		op("$gt", op("$size", filtered("$$all", "a", op("$eq", "$$a", "$$d"))), 1))
	sides := bson.A{}
	for _, path := range c.sides() {
		tests := bson.A{}
		for _, part := range fieldpath.Steps(path) {
			tests = append(tests, op("$isArray", bson.A{"$" + part}))
		}
		sides = append(sides, cond(op("$and", op("$isArray", bson.A{"$" + c.array}), op("$or", tests)), bson.A{literal(path)}, bson.A{}))
	}
	pipeline := mongo.Pipeline{
		op("$project", bson.D{
			{Key: "writable", Value: c.isWritable()},
			{Key: "malformed", Value: op("$size", filtered(c.entries(), "o", op("$not", bson.A{c.valid("$$o")})))},
			{Key: "duplicates", Value: let("all", identities, let("distinct", op("$setUnion", "$$all", bson.A{}),
				cond(op("$eq", op("$size", "$$all"), op("$size", "$$distinct")), bson.A{}, repeated)))},
			{Key: "sides", Value: op("$concatArrays", append(sides, bson.A{}))},
		}),
		op("$match", op("$or",
			bson.D{{Key: "writable", Value: false}},
			bson.D{{Key: "malformed", Value: bson.D{{Key: "$gt", Value: 0}}}},
			bson.D{{Key: "duplicates", Value: bson.D{{Key: "$ne", Value: bson.A{}}}}},
			bson.D{{Key: "sides", Value: bson.D{{Key: "$ne", Value: bson.A{}}}}},
		)),
	}
	return each(ctx, c.primary, pipeline, func(f findings, _ error) bool { return visit(f) })
}

// unique is the update that leaves one entry of each identity.
func (c *core) unique(keepFirst bool) mongo.Pipeline {
	found := op("$gt", op("$size", filtered("$$value", "o", c.same("$$o", "$$this"))), 0)
	drop := op("$and", c.valid("$$this"), found)
	input, joined := c.entries(), op("$concatArrays", "$$value", bson.A{"$$this"})
	if !keepFirst {
		input, joined = op("$reverseArray", input), op("$concatArrays", bson.A{"$$this"}, "$$value")
	}
	return mongo.Pipeline{set(c.array, op("$reduce", bson.D{
		{Key: "input", Value: input}, {Key: "initialValue", Value: bson.A{}}, {Key: "in", Value: cond(drop, "$$value", joined)},
	}))}
}
