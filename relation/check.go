package relation

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Have is the reference.
const (
	// Dangling is a reference to a document that does not exist. Repair removes it.
	Dangling mongopatterns.ProblemKind = "dangling"
	// OneSided is a reference that the other side lacks. Repair adds the other side;
	// but a child that has another Owner goes out of the list.
	OneSided mongopatterns.ProblemKind = "one-sided"
	// Repeated is a child that is in the list twice. Repair leaves the first.
	Repeated mongopatterns.ProblemKind = "repeated"
	// Malformed is Children or Owners that hold something else than an array, an
	// Owner that holds one, or a document in their place that is no _id, such as an
	// embedded child (see Extract). Repair leaves it.
	Malformed mongopatterns.ProblemKind = "malformed"
)

// Check finds wrong references. Work.Filter selects parents, or without Children
// children; with a filter, only the references of these documents are looked at.
//
// Cost: for each side with references, 2 round trips a batch of 1000 documents; 3
// more for a batch with problems, which are looked at again in one snapshot.
func (r *Relation[P, C, T]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := r.core
	var all []iter.Seq2[mongopatterns.Problem, error]
	for _, s := range c.sides(work) {
		all = append(all, maintain.Check(ctx, s.coll, work, s.scan(), func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error) {
			problems, err := s.examine(ctx, batch)
			if err != nil || len(problems) == 0 {
				return nil, err
			}
			// A write may have been under way between the two reads.
			err = c.transact(ctx, func(ctx context.Context) error {
				problems, err = s.again(ctx, problems)
				return err
			})
			if errors.Is(err, mongopatterns.ErrTransactionsUnsupported) {
				problems, err = s.again(ctx, problems)
			}
			return problems, err
		}))
	}
	return fault.Seq("relation: check", maintain.Chain(all...))
}

// Repair solves what Check finds, each document in a transaction of its own.
// Result.Remaining are Malformed, and references for which a list has no room.
//
// Cost: that of Check, and for each document with problems 5 round trips and what it
// writes.
func (r *Relation[P, C, T]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: repair")
	for _, s := range r.core.sides(work) {
		one, err := maintain.Run(ctx, s.coll, work, s.scan(), func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			problems, err := s.examine(ctx, batch)
			if err != nil {
				return err
			}
			for _, id := range documents(problems) {
				var done, left int64
				err := r.core.transact(ctx, func(ctx context.Context) (err error) {
					done, left, err = s.repair(ctx, id, w.DryRun)
					return err
				})
				if err != nil {
					return err
				}
				result.Done += done
				result.Remaining += left
			}
			return nil
		})
		result.Add(one)
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// end is one side's references: those of the documents of coll in field, to
// documents of other, which may name them back.
type end struct {
	*core
	coll, other *mongo.Collection
	field, back string
}

// sides are the sides that have references; with a filter only the one it selects
// from.
func (c *core) sides(work *mongopatterns.Work) (out []end) {
	if c.Children != "" {
		out = append(out, end{c, c.parents, c.children, c.Children, c.up()})
	}
	if c.up() != "" && (len(out) == 0 || work == nil || work.Filter == nil) {
		out = append(out, end{c, c.children, c.parents, c.up(), c.Children})
	}
	return out
}

func (e end) scan() maintain.Scan {
	return maintain.Scan{
		Filter:     bson.D{{Key: e.field, Value: expr.Op("$exists", true)}},
		Projection: bson.D{{Key: e.field, Value: 1}},
	}
}

// single says that the field holds one reference and no array.
func (e end) single() bool { return e.field == e.Owner }

// examine finds the problems of documents; it reads the other side in one trip.
func (e end) examine(ctx context.Context, batch []bson.Raw) (out []mongopatterns.Problem, err error) {
	var ids []bson.RawValue
	for _, doc := range batch {
		ids = append(ids, references(doc.Lookup(e.field))...)
	}
	named, err := e.named(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, doc := range batch {
		found := func(kind mongopatterns.ProblemKind, have bson.RawValue, detail string) {
			out = append(out, mongopatterns.Problem{Pattern: "relation", Kind: kind, Collection: e.coll.Name(),
				ID: doc.Lookup("_id"), Field: e.field, Have: have, Detail: detail})
		}
		v := doc.Lookup(e.field)
		if isArray := v.Type == bson.TypeArray; isArray == e.single() && len(references(v)) > 0 {
			found(Malformed, v, "")
			continue
		}
		seen := map[string]bool{}
		for _, id := range references(v) {
			key := value.Key(id)
			back, ok := named[key]
			switch {
			case seen[key]:
				found(Repeated, id, "")
			case !ok && id.Type == bson.TypeEmbeddedDocument:
				found(Malformed, id, "") // most likely the child itself
			case !ok:
				found(Dangling, id, "no such document in "+e.other.Name())
			case e.back != "" && !back[value.Key(doc.Lookup("_id"))]:
				found(OneSided, id, fmt.Sprintf("%s of it has no such reference", e.back))
			}
			seen[key] = true
		}
	}
	return out, nil
}

// named are the documents of the other side that exist, with whom they name back.
func (e end) named(ctx context.Context, ids []bson.RawValue) (map[string]map[string]bool, error) {
	out := map[string]map[string]bool{}
	for start := 0; start < len(ids); start += chunk {
		part := ids[start:min(start+chunk, len(ids))]
		projection := bson.D{{Key: "_id", Value: 1}}
		if e.back != "" {
			projection = append(projection, bson.E{Key: e.back, Value: 1})
		}
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return cursor.Primary(e.other).Find(ctx, in("_id", part), options.Find().SetProjection(projection).SetBatchSize(chunk+1))
		}) {
			if err != nil {
				return nil, err
			}
			back := map[string]bool{}
			if e.back != "" {
				for _, id := range references(doc.Lookup(e.back)) {
					back[value.Key(id)] = true
				}
			}
			out[value.Key(doc.Lookup("_id"))] = back
		}
	}
	return out, nil
}

// documents are the _ids of documents with problems, each once.
func documents(problems []mongopatterns.Problem) (out []bson.RawValue) {
	seen := map[string]bool{}
	for _, p := range problems {
		if key := value.Key(p.ID); !seen[key] {
			seen[key] = true
			out = append(out, p.ID)
		}
	}
	return out
}

// again examines the documents of problems anew, in the transaction of ctx, if there
// is one.
func (e end) again(ctx context.Context, problems []mongopatterns.Problem) ([]mongopatterns.Problem, error) {
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return e.coll.Find(ctx, in("_id", documents(problems)), options.Find().SetProjection(bson.D{{Key: e.field, Value: 1}}).SetSort(bson.D{{Key: "_id", Value: 1}}))
	}))
	if err != nil {
		return nil, err
	}
	return e.examine(ctx, docs)
}

// repair solves the problems of one document, in a transaction. It writes the
// document itself, so that links and unlinks of it conflict.
func (e end) repair(ctx context.Context, id bson.RawValue, dry bool) (done, left int64, err error) {
	problems, err := e.again(ctx, []mongopatterns.Problem{{ID: id}})
	if err != nil || len(problems) == 0 {
		return 0, 0, err
	}
	doc, err := e.coll.FindOne(ctx, byID(id), options.FindOne().SetProjection(bson.D{{Key: e.field, Value: 1}})).Raw()
	if err != nil {
		return 0, 0, err
	}
	drop := map[string]bool{} // references that go
	seen := map[string]bool{}
	for _, p := range problems {
		switch p.Kind {
		case Malformed:
			return 0, 1, nil
		case Dangling:
			drop[value.Key(p.Have)] = true
		case OneSided:
			if dry {
				continue
			}
			kept, err := e.complete(ctx, p.Have, id)
			if errors.Is(err, ErrFull) || errors.Is(err, mongopatterns.ErrInvalid) {
				left++
				continue
			}
			if err != nil {
				return 0, 0, err
			}
			if !kept {
				drop[value.Key(p.Have)] = true
			}
		}
	}
	if dry {
		return 1, 0, nil
	}
	kept := bson.A{}
	for _, ref := range references(doc.Lookup(e.field)) {
		if key := value.Key(ref); !drop[key] && !seen[key] {
			seen[key] = true
			kept = append(kept, ref)
		}
	}
	mark := bson.E{Key: touched, Value: true}
	set, unset := expr.Op("$set", bson.D{mark}), expr.Op("$unset", bson.D{mark})
	switch {
	case !e.single():
		set = expr.Op("$set", bson.D{mark, {Key: e.field, Value: kept}})
	case len(kept) == 0:
		unset = expr.Op("$unset", bson.D{mark, {Key: e.field, Value: ""}})
	}
	_, err = e.coll.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(set),
		mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(unset),
	})
	return 1, left, err
}

// complete adds the reference back from a document of the other side; kept is false
// if that has another owner, which decides.
func (e end) complete(ctx context.Context, other, id bson.RawValue) (kept bool, err error) {
	switch e.back {
	case e.Children:
		return true, e.add(ctx, other, []bson.RawValue{id})
	case e.Owners:
		_, err := e.other.UpdateOne(ctx, byID(other), expr.Op("$addToSet", bson.D{{Key: e.back, Value: id}}))
		return true, err
	}
	result, err := e.other.UpdateOne(ctx, append(byID(other), bson.E{Key: e.back, Value: nil}), expr.Op("$set", bson.D{{Key: e.back, Value: id}}))
	return err == nil && result.MatchedCount == 1, err
}
