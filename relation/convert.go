package relation

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Extract turns documents that are embedded in Children into documents of their own,
// in their order, and leaves their _ids; one without an _id gets one. With Owner or
// Owners they name their parent. It can be stopped and run again. Work.Filter
// selects parents.
//
// A child that cannot be stored, because its _id is taken, leaves its parent as it
// is, in Result.Failed. IDs that are documents themselves cannot be told from
// children.
//
// Cost: 1 round trip a batch, and for each parent 3, its children and 1 document
// written.
func (r *Relation[P, C, T]) Extract(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: extract")
	return r.core.convert(ctx, work, expr.Op("$type", "object"), r.core.extract)
}

// Embed turns references into the documents they lead to, embedded in Children, and
// deletes these. A parent with a dangling reference, or a child that another parent
// has too, is left as it is, in Result.Failed. It can be stopped and run again.
// Work.Filter selects parents.
//
// Cost: 1 round trip a batch, and for each parent 5, its children deleted and 1
// document written.
func (r *Relation[P, C, T]) Embed(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "relation: embed")
	return r.core.convert(ctx, work, bson.D{{Key: "$elemMatch", Value: expr.Op("$not", expr.Op("$type", "object"))}}, r.core.embed)
}

// convert runs a conversion of each parent whose Children match a condition, in a
// transaction each: write gets the elements and returns those that take their place.
func (c *core) convert(ctx context.Context, work *mongopatterns.Work, condition bson.D, write func(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error)) (mongopatterns.Result, error) {
	if c.Children == "" || c.self {
		return mongopatterns.Result{}, fault.Invalid("a conversion needs Options.Children, and two collections")
	}
	return maintain.Run(ctx, c.parents, work, maintain.Scan{
		Filter:     bson.D{{Key: c.Children, Value: condition}},
		Projection: bson.D{{Key: c.Children, Value: 1}},
	}, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		for _, doc := range batch {
			if w.DryRun {
				result.Done++
				continue
			}
			id, before := doc.Lookup("_id"), doc.Lookup(c.Children)
			err := c.transact(ctx, func(ctx context.Context) error {
				after, err := write(ctx, id, references(doc, c.Children))
				if err != nil {
					return err
				}
				unchanged := append(byID(id), bson.E{Key: "$expr", Value: expr.Op("$eq", expr.Field(c.Children), expr.Literal(before))})
				updated, err := c.parents.UpdateOne(ctx, unchanged, expr.Op("$set", bson.D{{Key: c.Children, Value: after}}))
				if err == nil && updated.MatchedCount == 0 {
					err = errChanged
				}
				return err
			})
			switch {
			case err == nil:
				result.Done++
			case errors.Is(err, errChanged) && !txn.Running(ctx):
				result.Skipped++
			case !w.Strict && !txn.Running(ctx) && (fault.Refused(err) || errors.Is(err, ErrReferenced) || errors.Is(err, ErrNoChild)):
				result.Fail(c.parents.Name(), id, err)
			default:
				return fault.Of(id, err)
			}
		}
		return nil
	})
}

// errChanged: a parent was changed since it was read; the next run finds it.
var errChanged = errors.New("changed meanwhile")

func (c *core) extract(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error) {
	ids, docs := bson.A{}, []any(nil)
	for _, e := range elements {
		embedded, ok := e.DocumentOK()
		if !ok {
			ids = append(ids, e) // a reference already
			continue
		}
		id, doc, err := c.child(embedded, p)
		if err != nil {
			return nil, err
		}
		ids, docs = append(ids, id), append(docs, doc)
	}
	_, err := c.children.InsertMany(ctx, docs)
	return ids, err
}

func (c *core) embed(ctx context.Context, p bson.RawValue, elements []bson.RawValue) (bson.A, error) {
	elements = distinct(elements)
	var ids []bson.RawValue
	for _, e := range elements {
		if e.Type != bson.TypeEmbeddedDocument {
			ids = append(ids, e)
		}
	}
	found := map[string]bson.Raw{}
	for doc, err := range docs(ctx, c.children, in("_id", ids), options.Find().SetBatchSize(whole)) {
		if err != nil {
			return nil, err
		}
		found[value.Key(doc.Lookup("_id"))] = doc
	}
	shared, err := exists(ctx, c.parents, append(in(c.Children, ids), bson.E{Key: "_id", Value: expr.Op("$ne", p)}))
	if err == nil && shared {
		err = ErrReferenced
	}
	if err != nil {
		return nil, err
	}
	out := bson.A{}
	for _, e := range elements {
		if e.Type == bson.TypeEmbeddedDocument {
			out = append(out, e)
			continue
		}
		doc, ok := found[value.Key(e)]
		if !ok {
			return nil, fault.Of(e, ErrNoChild)
		}
		for _, parent := range references(doc, c.up) {
			if value.Key(parent) != value.Key(p) {
				return nil, fault.Of(e, ErrReferenced)
			}
		}
		fields, err := c.fields(doc)
		if err != nil {
			return nil, err
		}
		out = append(out, append(bson.D{{Key: "_id", Value: doc.Lookup("_id")}}, fields...))
	}
	_, err = c.children.DeleteMany(ctx, in("_id", ids))
	return out, err
}
