package windows

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// An Arrive returns the writes that bring documents into an archive.
type Arrive func(ctx context.Context, archive *scoped.Collection, docs []bson.Raw) ([]mongo.WriteModel, error)

// Archive moves the documents whose window ended no later than until into target, each batch in a transaction.
func (f *Frame) Archive(ctx context.Context, until time.Time, target *scoped.Collection, work *mongopatterns.Work, arrive Arrive) (mongopatterns.Result, error) {
	if err := config.Collections("coll", f.Coll.Driver(), "target", target.Driver()); err != nil {
		return mongopatterns.Result{}, err
	}
	if err := CheckTime(until); err != nil {
		return mongopatterns.Result{}, err
	}
	if err := transfer.Ready(ctx, work, []*scoped.Collection{target}, f.Coll); err != nil {
		return mongopatterns.Result{}, err
	}
	// A window that begins before the one that holds until has ended by then.
	cut, _ := f.Window.Bounds(until)
	scan := maintain.Scan{Filter: expr.D(f.StartField, expr.Op("$lt", cut)), Projection: f.Keys(), Whole: true, BatchSize: transfer.WholeBatch}
	return maintain.Run(ctx, f.Coll, work, scan, func(ctx context.Context, found []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		if w.DryRun {
			result.Done += int64(len(found))
			return nil
		}
		moved, err := f.move(ctx, target, found, arrive)
		if err != nil {
			return err
		}
		result.Done += int64(moved)
		return nil
	})
}

// move brings documents to target and deletes them, in a transaction.
func (f *Frame) move(ctx context.Context, target *scoped.Collection, found []bson.Raw, arrive Arrive) (moved int, err error) {
	err = txn.Run(ctx, f.Coll, func(ctx context.Context) (err error) {
		moved, err = f.moveIn(ctx, target, found, arrive)
		return err
	})
	return moved, err
}

// moveIn is move within the transaction, which reads the documents again. The guards are for servers whose transactions do
// not isolate that read.
func (f *Frame) moveIn(ctx context.Context, target *scoped.Collection, found []bson.Raw, arrive Arrive) (int, error) {
	docs, err := transfer.ByID(ctx, f.Coll, found, nil)
	if err != nil {
		return 0, err
	}
	if docs = f.Only(found, docs); len(docs) == 0 {
		return 0, nil
	}
	for _, doc := range docs {
		if err := f.CheckStart(doc); err != nil { // a start in an array, which the filter of Archive meets
			return 0, fault.Refuse(err)
		}
	}
	arrivals, err := arrive(ctx, target, docs)
	if err != nil {
		return 0, err
	}
	deletes := make([]mongo.WriteModel, len(docs))
	for i, doc := range docs {
		deletes[i] = mongo.NewDeleteOneModel().SetFilter(f.UnchangedFilter(doc, f.Guards...))
	}
	return len(docs), transfer.Exchange(ctx, f.Coll, target, arrivals, deletes, int64(len(docs)))
}

// Only returns those of docs that are among the found ones. On shards documents of several places can have one _id.
func (f *Frame) Only(found, docs []bson.Raw) []bson.Raw {
	among := map[Identity]bool{}
	for _, doc := range found {
		among[f.IdentityOf(doc)] = true
	}
	return slices.DeleteFunc(docs, func(doc bson.Raw) bool { return !among[f.IdentityOf(doc)] })
}

// An Identity is the _id of a document and its place.
type Identity [2]string

// IdentityOf returns the identity of a document.
func (f *Frame) IdentityOf(doc bson.Raw) Identity {
	return Identity{value.Key(doc.Lookup("_id")), f.KeyOf(doc)}
}

// Insert is the Arrive that inserts documents.
func Insert(ctx context.Context, archive *scoped.Collection, docs []bson.Raw) ([]mongo.WriteModel, error) {
	there, err := transfer.ByID(ctx, archive, docs, expr.D("_id", 1))
	if err != nil {
		return nil, err
	}
	return Inserts(docs, there)
}

// Inserts returns the inserts of docs beside others. A document whose _id another has too gets a new one, because reads do
// not depend on the _id.
func Inserts(docs, beside []bson.Raw) (inserts []mongo.WriteModel, err error) {
	taken := map[string]bool{}
	for _, doc := range beside {
		taken[value.Key(doc.Lookup("_id"))] = true
	}
	for _, doc := range docs {
		if field := value.Replaced(doc); field != "" {
			return nil, fault.Refuse(fault.Of(doc.Lookup("_id"), fmt.Errorf("%w: the server would replace the empty timestamp in %q", fault.ErrMalformed, field)))
		}
		key := value.Key(doc.Lookup("_id"))
		if taken[key] {
			doc = value.With(doc, value.Element{Name: "_id", Value: value.NewID()})
		}
		taken[key] = true
		inserts = append(inserts, mongo.NewInsertOneModel().SetDocument(doc))
	}
	return inserts, nil
}
