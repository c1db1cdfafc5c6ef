package split

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
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
// Cost: 1 round trip for each batch of 100 documents, 3 more if some seem wrong;
// without a Filter a scan of the cold ones, and 3 more for each batch of Orphans.
func (s *Split[ID, H, C]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := s.core
	all := []iter.Seq2[mongopatterns.Problem, error]{maintain.Check(ctx, c.hot, work, c.scan(), c.check)}
	if work == nil || work.Filter == nil {
		orphans := maintain.Scan{BatchSize: batch, Pipeline: mongo.Pipeline{
			expr.D("$project", expr.D("id", expr.IfNull(expr.Field(c.idField), nil))),
			expr.D("$lookup", expr.D("from", c.hot.Name(), "localField", "id", "foreignField", "_id",
				"pipeline", mongo.Pipeline{expr.Op("$project", onlyID)}, "as", "hot")),
			expr.D("$match", expr.D("hot", bson.A{})),
		}}
		all = append(all, maintain.Check(ctx, c.cold, work, orphans, c.orphans))
	}
	return fault.Seq("split: check", maintain.Chain(all...))
}

const batch = 100

var onlyID = expr.D("_id", 1)

// names are those of a document's fields.
var names = expr.Map(expr.Op("$objectToArray", "$$ROOT"), "field", "$$field.k")

// scan reads the names of the fields of hot documents and of their cold ones.
func (c *core) scan() maintain.Scan {
	project := expr.Op("$project", expr.D("names", names))
	return maintain.Scan{BatchSize: batch, Pipeline: mongo.Pipeline{expr.Op("$sort", onlyID), project, c.lookup("_id", project)}}
}

// problems says what is wrong with hot documents, of which scan has read.
func (c *core) problems(hot []bson.Raw) (out []mongopatterns.Problem) {
	for _, doc := range hot {
		found := func(kind mongopatterns.ProblemKind, field string) {
			out = append(out, mongopatterns.Problem{
				Pattern: "split", Kind: kind, Collection: c.hot.Name(), ID: doc.Lookup("_id"), Field: field})
		}
		cold, err := doc.LookupErr("cold", "0")
		if err != nil {
			found(MissingCold, "")
		}
		others := texts(cold)
		for _, name := range texts(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}) {
			switch {
			case slices.Contains(c.fields, name):
				found(Misplaced, name)
			case !c.isID(name) && slices.Contains(others, name):
				found(OnBothSides, name)
			}
		}
	}
	return out
}

// texts are the names of a document that scan has read, none of no document.
func texts(v bson.RawValue) (out []string) {
	doc, _ := v.DocumentOK()
	names, _ := doc.Lookup("names").ArrayOK()
	values, _ := names.Values()
	for _, v := range values {
		out = append(out, v.StringValue())
	}
	return out
}

// documents are the _ids of the hot documents with these problems: with fields on
// both sides, or with others.
func documents(problems []mongopatterns.Problem, both bool) (ids bson.A) {
	seen := map[string]bool{}
	for _, p := range problems {
		if key := value.Key(p.ID); (p.Kind == OnBothSides) == both && !seen[key] {
			seen[key] = true
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// check finds the problems of a batch of hot documents. In the transaction it reads
// without $lookup, which a sharded cluster refuses there before MongoDB 8.0.
func (c *core) check(ctx context.Context, hot []bson.Raw) (problems []mongopatterns.Problem, err error) {
	suspects := c.problems(hot)
	if len(suspects) == 0 {
		return nil, nil
	}
	ids := append(documents(suspects, false), documents(suspects, true)...)
	err = c.run(ctx, func(ctx context.Context) error {
		hot, err := read(ctx, c.hot, "_id", ids, expr.D("names", names))
		if err != nil {
			return err
		}
		cold, err := read(ctx, c.cold, c.idField, ids, expr.D("id", expr.Field(c.idField), "names", names))
		if err != nil {
			return err
		}
		others := map[string]bson.A{}
		for _, doc := range cold {
			others[value.Key(doc.Lookup("id"))] = bson.A{doc}
		}
		for i, doc := range hot {
			id := doc.Lookup("_id")
			if hot[i], err = bson.Marshal(expr.D("_id", id, "names", doc.Lookup("names"), "cold", others[value.Key(id)])); err != nil {
				return err
			}
		}
		problems = c.problems(hot)
		return nil
	})
	return problems, err
}

// orphans looks in one snapshot which cold documents of a batch have no hot one.
func (c *core) orphans(ctx context.Context, batch []bson.Raw) (problems []mongopatterns.Problem, err error) {
	ids := make(bson.A, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("id")
	}
	err = c.run(ctx, func(ctx context.Context) error {
		problems = nil
		hot, err := read(ctx, c.hot, "_id", ids, onlyID)
		if err != nil {
			return err
		}
		cold, err := read(ctx, c.cold, c.idField, ids, expr.D(c.idField, 1))
		there := keys(hot, "_id")
		for _, doc := range cold {
			if id := doc.Lookup(c.idField); !there[value.Key(id)] {
				problems = append(problems, mongopatterns.Problem{
					Pattern: "split", Kind: Orphan, Collection: c.cold.Name(), ID: doc.Lookup("_id"), Field: c.idField, Have: id})
			}
		}
		return err
	})
	return problems, err
}

// Repair moves cold fields that stand in hot documents and gives hot documents
// without a cold one such a document, a batch in a transaction, beside live
// writes. Work.Filter selects hot documents. Those with fields OnBothSides are counted
// as Remaining.
//
// Cost: 1 round trip for each batch of 100 documents; 5 more if some are wrong, 6 if
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
	return maintain.Run(ctx, c.hot, work, c.scan(), func(ctx context.Context, hot []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) (err error) {
		problems := c.problems(hot)
		result.Remaining += int64(len(documents(problems, true)))
		ids := documents(problems, false)
		done := int64(len(ids))
		if done > 0 && !work.DryRun {
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
	ids := maintain.Scan{Projection: onlyID, BatchSize: batch}
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
			expr.D("$replaceWith", expr.Op("$mergeObjects", "$$ROOT", expr.Literal(c.without(doc)), "$$ROOT"))}))
	}
	done, err := c.hot.BulkWrite(ctx, models)
	if err != nil {
		return 0, err
	}
	if done.MatchedCount < int64(len(models)) {
		return 0, txn.Conflict("hot documents") // deleted meanwhile
	}
	filter := expr.D("_id", in(these))
	if c.idField != "_id" { // the shard key
		filter = append(filter, expr.Element(c.idField, in(ids)))
	}
	_, err = c.cold.DeleteMany(ctx, filter)
	return int64(len(cold)), err
}
