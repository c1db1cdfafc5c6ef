package comment

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Collection is a collection of the driver whose commands have the comment of their context. It has only the methods
// below, so that no command goes without one.
type Collection mongo.Collection

// On is coll as a Collection; nil stays nil.
func On(coll *mongo.Collection) *Collection { return (*Collection)(coll) }

// Driver is c as the driver's.
func (c *Collection) Driver() *mongo.Collection { return (*mongo.Collection)(c) }

// with adds the comment to the options of a command, in a slice of its own: opts may be the user's.
func with[T any](opts []options.Lister[T], comment *lister[T]) []options.Lister[T] {
	all := make([]options.Lister[T], 0, len(opts)+1)
	return append(append(all, opts...), comment)
}

func (c *Collection) Name() string { return c.Driver().Name() }

func (c *Collection) Database() *mongo.Database { return c.Driver().Database() }

func (c *Collection) Clone(opts ...options.Lister[options.CollectionOptions]) *Collection {
	return On(c.Driver().Clone(opts...))
}

func (c *Collection) Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	return c.Driver().Find(ctx, filter, with(opts, &of(ctx).find)...)
}

func (c *Collection) FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	return c.Driver().FindOne(ctx, filter, with(opts, &of(ctx).findOne)...)
}

func (c *Collection) Aggregate(ctx context.Context, pipeline any, opts ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error) {
	return c.Driver().Aggregate(ctx, pipeline, with(opts, &of(ctx).aggregate)...)
}

func (c *Collection) CountDocuments(ctx context.Context, filter any, opts ...options.Lister[options.CountOptions]) (int64, error) {
	return c.Driver().CountDocuments(ctx, filter, with(opts, &of(ctx).count)...)
}

func (c *Collection) EstimatedDocumentCount(ctx context.Context, opts ...options.Lister[options.EstimatedDocumentCountOptions]) (int64, error) {
	return c.Driver().EstimatedDocumentCount(ctx, with(opts, &of(ctx).estimate)...)
}

func (c *Collection) Watch(ctx context.Context, pipeline any, opts ...options.Lister[options.ChangeStreamOptions]) (*mongo.ChangeStream, error) {
	return c.Driver().Watch(ctx, pipeline, with(opts, &of(ctx).watch)...)
}

func (c *Collection) InsertOne(ctx context.Context, doc any, opts ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	return c.Driver().InsertOne(ctx, doc, with(opts, &of(ctx).insertOne)...)
}

func (c *Collection) InsertMany(ctx context.Context, docs any, opts ...options.Lister[options.InsertManyOptions]) (*mongo.InsertManyResult, error) {
	return c.Driver().InsertMany(ctx, docs, with(opts, &of(ctx).insertMany)...)
}

func (c *Collection) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	return c.Driver().UpdateOne(ctx, filter, update, with(opts, &of(ctx).updateOne)...)
}

func (c *Collection) UpdateMany(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateManyOptions]) (*mongo.UpdateResult, error) {
	return c.Driver().UpdateMany(ctx, filter, update, with(opts, &of(ctx).updateMany)...)
}

func (c *Collection) ReplaceOne(ctx context.Context, filter, doc any, opts ...options.Lister[options.ReplaceOptions]) (*mongo.UpdateResult, error) {
	return c.Driver().ReplaceOne(ctx, filter, doc, with(opts, &of(ctx).replaceOne)...)
}

func (c *Collection) DeleteOne(ctx context.Context, filter any, opts ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	return c.Driver().DeleteOne(ctx, filter, with(opts, &of(ctx).deleteOne)...)
}

func (c *Collection) DeleteMany(ctx context.Context, filter any, opts ...options.Lister[options.DeleteManyOptions]) (*mongo.DeleteResult, error) {
	return c.Driver().DeleteMany(ctx, filter, with(opts, &of(ctx).deleteMany)...)
}

func (c *Collection) BulkWrite(ctx context.Context, models []mongo.WriteModel, opts ...options.Lister[options.BulkWriteOptions]) (*mongo.BulkWriteResult, error) {
	return c.Driver().BulkWrite(ctx, models, with(opts, &of(ctx).bulkWrite)...)
}

func (c *Collection) FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult {
	return c.Driver().FindOneAndUpdate(ctx, filter, update, with(opts, &of(ctx).update)...)
}

func (c *Collection) FindOneAndReplace(ctx context.Context, filter, doc any, opts ...options.Lister[options.FindOneAndReplaceOptions]) *mongo.SingleResult {
	return c.Driver().FindOneAndReplace(ctx, filter, doc, with(opts, &of(ctx).replace)...)
}

func (c *Collection) FindOneAndDelete(ctx context.Context, filter any, opts ...options.Lister[options.FindOneAndDeleteOptions]) *mongo.SingleResult {
	return c.Driver().FindOneAndDelete(ctx, filter, with(opts, &of(ctx).remove)...)
}

// Aggregate is an aggregation over no collection.
func Aggregate(ctx context.Context, db *mongo.Database, pipeline any) (*mongo.Cursor, error) {
	return db.Aggregate(ctx, pipeline, with(nil, &of(ctx).aggregate)...)
}
