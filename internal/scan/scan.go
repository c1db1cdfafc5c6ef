// Package scan reads whole collections in batches, for the packages' checks,
// repairs and adoptions.
package scan

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// Defaults completes the two options that all long work has: a BatchSize of 0
// becomes size, a nil Progress does nothing. A negative BatchSize is the package's
// invalid error, where options names them.
func Defaults(invalid error, options string, batchSize *int, size int, progress *func(done int64)) error {
	if *batchSize < 0 {
		return fmt.Errorf("%w: %s.BatchSize: negative", invalid, options)
	}
	if *batchSize == 0 {
		*batchSize = size
	}
	if *progress == nil {
		*progress = func(int64) {}
	}
	return nil
}

// Primary is coll with reads of the primary's newest state: a secondary that lags,
// or a read concern of majority, would hide documents, and one's own last write,
// from work that is to see them all.
func Primary(coll *mongo.Collection) *mongo.Collection {
	return coll.Clone(options.Collection().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Local()))
}

// Batches yields the documents that filter selects, size at a time, in the order
// of _id: in that of an index whose keys change meanwhile a scan could miss some.
// They are read from the primary and stay valid after the loop has gone on. nil
// stands for an empty filter and for the whole document.
//
// Cost: 1 round trip a batch, index _id unless filter has a better one.
func Batches(ctx context.Context, coll *mongo.Collection, filter, projection bson.D, size int) iter.Seq2[[]bson.Raw, error] {
	return func(yield func([]bson.Raw, error) bool) {
		if filter == nil {
			filter = bson.D{}
		}
		opts := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(int32(min(size, 1<<20)))
		if projection != nil {
			opts.SetProjection(projection)
		}
		cursor, err := Primary(coll).Find(ctx, filter, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		var batch []bson.Raw
		for cursor.Next(ctx) {
			batch = append(batch, append(bson.Raw(nil), cursor.Current...))
			if len(batch) == size {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if err := cursor.Err(); err != nil {
			yield(nil, err)
			return
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}
