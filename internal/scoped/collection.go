// Package scoped has the collection through which the library sends its commands. Each command carries the comment of its
// call, and finds and stores only the documents of a scope.
package scoped

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scope"
)

// Collection is a collection of the driver whose commands have the comment of their context, and which has only the
// documents of a scope. It has only the methods below, so that no command goes without them.
type Collection struct {
	driver *mongo.Collection
	scope  *scope.Scope
}

// On is coll as a Collection of all documents; nil stays nil.
func On(coll *mongo.Collection) *Collection {
	if coll == nil {
		return nil
	}
	return &Collection{driver: coll}
}

// In is c with the documents of a scope, whatever scope it had; nil stays nil.
func (c *Collection) In(s *scope.Scope) *Collection {
	if c == nil {
		return nil
	}
	return &Collection{c.driver, s}
}

// Scope is the scope of the documents, nil for all.
func (c *Collection) Scope() *scope.Scope {
	if c == nil {
		return nil
	}
	return c.scope
}

// Driver is c as the driver's, with all documents.
func (c *Collection) Driver() *mongo.Collection {
	if c == nil {
		return nil
	}
	return c.driver
}

func (c *Collection) Name() string { return c.driver.Name() }

func (c *Collection) Database() *mongo.Database { return c.driver.Database() }

func (c *Collection) Clone(opts ...options.Lister[options.CollectionOptions]) *Collection {
	return &Collection{c.driver.Clone(opts...), c.scope}
}

func (c *Collection) Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	return answered[*mongo.Cursor](ctx)(c.driver.Find(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).Find.After(opts)...))
}

func (c *Collection) FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	found := c.driver.FindOne(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).FindOne.After(opts)...)
	failed(ctx, found.Err())
	return found
}

func (c *Collection) Aggregate(ctx context.Context, pipeline any, opts ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	pipeline, err := c.scope.Pipeline(pipeline)
	if err != nil {
		return nil, err
	}
	return answered[*mongo.Cursor](ctx)(c.driver.Aggregate(c.noting(ctx), pipeline, comment.OptionsOf(ctx).Aggregate.After(opts)...))
}

// AggregateGiven aggregates documents that the command holds, whatever the collection holds. It needs no right but to read
// the collection, while the stage $documents needs the right to read the whole database. The stage $facet makes one document
// of any collection, also of one that does not exist. Only a router that does not know the database returns nothing.
func (c *Collection) AggregateGiven(ctx context.Context, docs bson.A, stages mongo.Pipeline, opts ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	given := mongo.Pipeline{expr.D("$match", expr.D("_id", expr.Op("$in", bson.A{}))), expr.Op("$facet", expr.D("none", bson.A{expr.D("$limit", 1)})),
		expr.Op("$project", expr.D("given", expr.Literal(docs))), expr.D("$unwind", "$given"), expr.D("$replaceRoot", expr.D("newRoot", "$given"))}
	return c.In(nil).Aggregate(ctx, append(given, stages...), opts...)
}

func (c *Collection) CountDocuments(ctx context.Context, filter any, opts ...options.Lister[options.CountOptions]) (int64, error) {
	return answered[int64](ctx)(c.driver.CountDocuments(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).Count.After(opts)...))
}

// EstimatedDocumentCount counts the documents of a scope exactly, because the server knows only the number of all.
func (c *Collection) EstimatedDocumentCount(ctx context.Context, opts ...options.Lister[options.EstimatedDocumentCountOptions]) (int64, error) {
	if c.scope != nil {
		return c.CountDocuments(ctx, bson.D{})
	}
	return answered[int64](ctx)(c.driver.EstimatedDocumentCount(c.noting(ctx), comment.OptionsOf(ctx).Estimate.After(opts)...))
}

// Watch refuses a scope.
func (c *Collection) Watch(ctx context.Context, pipeline any, opts ...options.Lister[options.ChangeStreamOptions]) (*mongo.ChangeStream, error) {
	if c.scope != nil {
		return nil, fault.Invalid("a change stream cannot be scoped: a deletion does not tell its scope")
	}
	return c.driver.Watch(ctx, pipeline, comment.OptionsOf(ctx).Watch.After(opts)...)
}

func (c *Collection) InsertOne(ctx context.Context, doc any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	doc, err := c.scope.Document(doc)
	if err != nil {
		return nil, err
	}
	return noted(ctx, insertedOne)(c.driver.InsertOne(c.noting(ctx), doc, comment.OptionsOf(ctx).InsertOne.After(opts)...))
}

func (c *Collection) InsertMany(ctx context.Context, docs any, opts ...options.Lister[options.InsertManyOptions]) (*mongo.InsertManyResult, error) {
	docs, err := c.scope.Documents(docs)
	if err != nil {
		return nil, err
	}
	return noted(ctx, insertedMany)(c.driver.InsertMany(c.noting(ctx), docs, comment.OptionsOf(ctx).InsertMany.After(opts)...))
}

func (c *Collection) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	update, err := c.scope.Update(update)
	if err != nil {
		return nil, err
	}
	return noted(ctx, updated)(c.driver.UpdateOne(c.noting(ctx), c.scope.Filter(filter), update, comment.OptionsOf(ctx).UpdateOne.After(opts)...))
}

func (c *Collection) UpdateMany(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateManyOptions]) (*mongo.UpdateResult, error) {
	update, err := c.scope.Update(update)
	if err != nil {
		return nil, err
	}
	return noted(ctx, updated)(c.driver.UpdateMany(c.noting(ctx), c.scope.Filter(filter), update, comment.OptionsOf(ctx).UpdateMany.After(opts)...))
}

func (c *Collection) ReplaceOne(ctx context.Context, filter, doc any, opts ...options.Lister[options.ReplaceOptions]) (*mongo.UpdateResult, error) {
	doc, err := c.scope.Document(doc)
	if err != nil {
		return nil, err
	}
	return noted(ctx, updated)(c.driver.ReplaceOne(c.noting(ctx), c.scope.Filter(filter), doc, comment.OptionsOf(ctx).ReplaceOne.After(opts)...))
}

func (c *Collection) DeleteOne(ctx context.Context, filter any, opts ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	return noted(ctx, deleted)(c.driver.DeleteOne(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).DeleteOne.After(opts)...))
}

func (c *Collection) DeleteMany(ctx context.Context, filter any, opts ...options.Lister[options.DeleteManyOptions]) (*mongo.DeleteResult, error) {
	return noted(ctx, deleted)(c.driver.DeleteMany(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).DeleteMany.After(opts)...))
}

func (c *Collection) BulkWrite(ctx context.Context, models []mongo.WriteModel, opts ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	models, err := c.scope.Models(models)
	if err != nil {
		return nil, err
	}
	return noted(ctx, bulkWritten)(c.driver.BulkWrite(c.noting(ctx), models, comment.OptionsOf(ctx).BulkWrite.After(opts)...))
}

func (c *Collection) FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	update, err := c.scope.Update(update)
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return notedSingle(ctx, c.driver.FindOneAndUpdate(c.noting(ctx), c.scope.Filter(filter), update, comment.OptionsOf(ctx).FindAndUpdate.After(opts)...))
}

func (c *Collection) FindOneAndReplace(ctx context.Context, filter, doc any, opts ...options.Lister[options.FindOneAndReplaceOptions]) *mongo.SingleResult {
	doc, err := c.scope.Document(doc)
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return notedSingle(ctx, c.driver.FindOneAndReplace(c.noting(ctx), c.scope.Filter(filter), doc, comment.OptionsOf(ctx).FindAndReplace.After(opts)...))
}

func (c *Collection) FindOneAndDelete(ctx context.Context, filter any, opts ...options.Lister[options.FindOneAndDeleteOptions]) *mongo.SingleResult {
	return notedSingle(ctx, c.driver.FindOneAndDelete(c.noting(ctx), c.scope.Filter(filter), comment.OptionsOf(ctx).FindAndDelete.After(opts)...))
}
