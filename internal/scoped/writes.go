package scoped

import (
	"context"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

type writesKey struct{}

// WithWrites is ctx for commands that count in writes what they write.
func WithWrites(ctx context.Context, writes *atomic.Int64) context.Context {
	return context.WithValue(ctx, writesKey{}, writes)
}

func note(ctx context.Context, documents int64) {
	if writes, ok := ctx.Value(writesKey{}).(*atomic.Int64); ok {
		writes.Add(documents)
	}
}

// noted notes the documents that a command has written.
func noted[R any](ctx context.Context, written func(*R) int64) func(*R, error) (*R, error) {
	return func(result *R, err error) (*R, error) {
		if result != nil {
			note(ctx, written(result))
		}
		return result, err
	}
}

func notedSingle(ctx context.Context, result *mongo.SingleResult) *mongo.SingleResult {
	if result.Err() == nil {
		note(ctx, 1)
	}
	return result
}

func insertedOne(*mongo.InsertOneResult) int64 { return 1 }

func insertedMany(r *mongo.InsertManyResult) int64 { return int64(len(r.InsertedIDs)) }

func updated(r *mongo.UpdateResult) int64 { return r.ModifiedCount + r.UpsertedCount }

func deleted(r *mongo.DeleteResult) int64 { return r.DeletedCount }

func bulkWritten(r *mongo.BulkWriteResult) int64 {
	return r.InsertedCount + r.ModifiedCount + r.UpsertedCount + r.DeletedCount
}
