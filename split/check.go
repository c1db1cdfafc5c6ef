package split

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

const (
	// MissingCold is a hot document without a cold one. Repair inserts one with
	// the ID alone, or with what it moves there.
	MissingCold mongopatterns.ProblemKind = "no cold document"
	// Misplaced is a cold field in the hot document. Repair moves it; what the cold
	// document holds there is overwritten.
	Misplaced mongopatterns.ProblemKind = "cold field in the hot document"
	// OnBothSides is a field in both documents that is not known as a cold one.
	// Repair leaves it.
	OnBothSides mongopatterns.ProblemKind = "in both documents"
	// Orphan is a cold document without a hot one. Repair leaves it.
	Orphan mongopatterns.ProblemKind = "orphan"
)

// Check reads both collections and yields what is wrong. Work.Filter selects hot
// documents; with one, orphans are not looked for. What a write changed meanwhile is
// looked at again, in a transaction.
//
// Cost: 2 round trips for each batch of 100 documents, 3 more if some seem wrong;
// without a Filter a scan of the cold ones, and 3 round trips for each Orphan.
func (s *Split[ID, H, C]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, s.core.hot, work, scan, s.core.check)}
	if work == nil || work.Filter == nil {
		all = append(all, s.core.orphans(ctx))
	}
	return fault.Seq("split: check", maintain.Chain(all...))
}

// names reads of documents the names of their fields.
var names = bson.E{Key: "names", Value: expr.Map(expr.Op("$objectToArray", "$$ROOT"), "field", "$$field.k")}

var scan = maintain.Scan{Projection: bson.D{names}, BatchSize: 100}

// A finding is a hot document and what is wrong with it.
type finding struct {
	id        bson.RawValue
	alone     bool     // without a cold document
	misplaced []string // cold fields in it
	both      []string // other fields that the cold document has too
}

func (f finding) divisible() bool { return f.alone || len(f.misplaced) > 0 }

// findings looks for what is wrong with hot documents, of which scan has read.
func (c *core) findings(ctx context.Context, hot []bson.Raw) ([]finding, error) {
	ids := make(bson.A, len(hot))
	for i, doc := range hot {
		ids[i] = doc.Lookup("_id")
	}
	docs, err := read(ctx, c.cold, c.idField, ids, bson.D{{Key: "id", Value: expr.Field(c.idField)}, names})
	if err != nil {
		return nil, err
	}
	cold := map[string][]string{}
	for _, doc := range docs {
		cold[value.Key(doc.Lookup("id"))] = texts(doc)
	}
	var out []finding
	for _, doc := range hot {
		f := finding{id: doc.Lookup("_id")}
		other, there := cold[value.Key(f.id)]
		f.alone = !there
		for _, name := range texts(doc) {
			switch {
			case slices.Contains(c.fields, name):
				f.misplaced = append(f.misplaced, name)
			case !c.isID(name) && slices.Contains(other, name):
				f.both = append(f.both, name)
			}
		}
		if f.divisible() || len(f.both) > 0 {
			out = append(out, f)
		}
	}
	return out, nil
}

func texts(doc bson.Raw) []string {
	var out []string
	values, _ := doc.Lookup("names").Array().Values()
	for _, v := range values {
		out = append(out, v.StringValue())
	}
	return out
}

// check finds the problems of a batch of hot documents.
func (c *core) check(ctx context.Context, hot []bson.Raw) (problems []mongopatterns.Problem, err error) {
	suspects, err := c.findings(ctx, hot)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	var ids bson.A
	for _, f := range suspects {
		ids = append(ids, f.id)
	}
	err = c.run(ctx, func(ctx context.Context) error {
		problems = nil
		again, err := read(ctx, c.hot, "_id", ids, scan.Projection)
		if err != nil || len(again) == 0 {
			return err
		}
		confirmed, err := c.findings(ctx, again)
		for _, f := range confirmed {
			problem := func(kind mongopatterns.ProblemKind, field string) {
				problems = append(problems, mongopatterns.Problem{Pattern: "split", Kind: kind, Collection: c.hot.Name(), ID: f.id, Field: field})
			}
			if f.alone {
				problem(MissingCold, "")
			}
			for _, field := range f.misplaced {
				problem(Misplaced, field)
			}
			for _, field := range f.both {
				problem(OnBothSides, field)
			}
		}
		return err
	})
	return problems, err
}

// orphans yields the cold documents that have no hot one.
func (c *core) orphans(ctx context.Context) iter.Seq2[mongopatterns.Problem, error] {
	id := bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}}
	pipeline := mongo.Pipeline{
		{{Key: "$project", Value: bson.D{{Key: "id", Value: expr.Field(c.idField)}}}},
		{{Key: "$lookup", Value: bson.D{
			{Key: "from", Value: c.hot.Name()}, {Key: "localField", Value: "id"}, {Key: "foreignField", Value: "_id"},
			{Key: "pipeline", Value: bson.A{id}}, {Key: "as", Value: "hot"},
		}}},
		{{Key: "$match", Value: bson.D{{Key: "hot", Value: bson.A{}}}}},
	}
	return func(yield func(mongopatterns.Problem, error) bool) {
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return cursor.Primary(c.cold).Aggregate(ctx, pipeline)
		}) {
			p, hot, cold := mongopatterns.Problem{}, false, false
			if err == nil {
				id := doc.Lookup("id")
				p = mongopatterns.Problem{Pattern: "split", Kind: Orphan, Collection: c.cold.Name(), ID: doc.Lookup("_id"), Field: c.idField, Have: id}
				err = c.run(ctx, func(ctx context.Context) (err error) { // in one snapshot
					if hot, err = exists(ctx, c.hot, c.hotOf(id)); err == nil {
						cold, err = exists(ctx, c.cold, c.coldOf(id))
					}
					return err
				})
			}
			if (cold && !hot || err != nil) && !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Repair moves cold fields that stand in hot documents and gives hot documents
// without a cold one such a document, a batch in a transaction, beside live
// writes. Work.Filter selects hot documents. Those with fields OnBothSides are counted
// as Remaining.
//
// Cost: 2 round trips for each batch of 100 documents; 5 more if some are wrong, 6 if
// of these some have a cold one and others do not; 2 writes to the hot document and 1
// to the cold one.
func (s *Split[ID, H, C]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "split: repair")
	return s.core.divideAll(ctx, work)
}

// Adopt splits an existing collection, which becomes the hot one: the cold fields
// of its documents move to the cold collection, a batch in a transaction, beside
// live writes. Every document gets a cold one. Work.Filter selects hot documents.
// It can be stopped and run again, also to fetch what old programs have written to
// the hot collection since: that overwrites the cold document's fields.
// mongopatterns.ErrInvalid if the cold fields are not known.
//
// Cost: as Repair.
func (s *Split[ID, H, C]) Adopt(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "split: adopt")
	if len(s.core.fields) == 0 {
		return result, fault.Invalid("Options.ColdFields: not set, and C is no struct with fields")
	}
	return s.core.divideAll(ctx, work)
}

// divideAll divides the hot documents that have no cold one, or cold fields in them.
func (c *core) divideAll(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	return maintain.Run(ctx, c.hot, work, scan, func(ctx context.Context, hot []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		findings, err := c.findings(ctx, hot)
		var ids bson.A
		for _, f := range findings {
			if f.divisible() {
				ids = append(ids, f.id)
			}
			if len(f.both) > 0 {
				result.Remaining++
			}
		}
		done := int64(len(ids))
		if err == nil && done > 0 && !work.DryRun {
			done, err = c.divide(ctx, ids)
		}
		result.Done += done
		return err
	})
}

// Join undoes Adopt: it puts the fields of the cold documents back into the hot
// ones and deletes the cold ones, a batch in a transaction. Work.Filter selects hot
// documents. An Update of the cold side divides a document again: stop such programs
// first. Where both have a field, the hot one counts. Orphans stay. It can be stopped
// and run again.
//
// Cost: 1 round trip for each batch of 100 documents, and 4 more if some have a cold
// one; 1 write to the hot document and 1 to the cold one.
func (s *Split[ID, H, C]) Join(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "split: join")
	c := s.core
	ids := maintain.Scan{Projection: bson.D{{Key: "_id", Value: 1}}, BatchSize: scan.BatchSize}
	return maintain.Run(ctx, c.hot, work, ids, func(ctx context.Context, hot []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
		var ids bson.A
		for _, doc := range hot {
			ids = append(ids, doc.Lookup("_id"))
		}
		var done int64
		err := c.run(ctx, func(ctx context.Context) (err error) {
			done, err = c.unite(ctx, ids, work.DryRun)
			return err
		})
		if err == nil {
			result.Done += done
		}
		return err
	})
}

// unite moves cold documents into their hot ones and says how many. It reads in the
// transaction's snapshot and deletes what it has read: so it conflicts with whatever
// has changed the cold ones since.
func (c *core) unite(ctx context.Context, ids bson.A, dry bool) (int64, error) {
	cold, err := read(ctx, c.cold, c.idField, ids, nil)
	if err != nil || len(cold) == 0 || dry {
		return int64(len(cold)), err
	}
	var models []mongo.WriteModel
	var these bson.A
	for _, doc := range cold {
		these = append(these, doc.Lookup("_id"))
		models = append(models, mongo.NewUpdateOneModel().SetFilter(c.hotOf(doc.Lookup(c.idField))).SetUpdate(mongo.Pipeline{
			{{Key: "$replaceWith", Value: expr.Op("$mergeObjects", "$$ROOT", expr.Literal(c.without(doc)), "$$ROOT")}}}))
	}
	done, err := c.hot.BulkWrite(ctx, models)
	if err != nil {
		return 0, err
	}
	if done.MatchedCount < int64(len(models)) {
		return 0, txn.Conflict("hot documents") // deleted meanwhile
	}
	filter := bson.D{{Key: "_id", Value: in(these)}}
	if c.idField != "_id" { // the shard key
		filter = append(filter, bson.E{Key: c.idField, Value: in(ids)})
	}
	_, err = c.cold.DeleteMany(ctx, filter)
	return int64(len(cold)), err
}
