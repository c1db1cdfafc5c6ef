package scoped

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Notes are what the commands of a context have done.
type Notes struct {
	Outer *Notes // notes it as well; nil for none

	writes atomic.Int64
	mu     sync.Mutex
	used   []*Collection // different ones
}

type notesKey struct{}

// WithNotes is ctx for commands that are noted in n.
func WithNotes(ctx context.Context, n *Notes) context.Context {
	return context.WithValue(ctx, notesKey{}, n)
}

// NotesOf returns the notes of ctx, nil if it has none.
func NotesOf(ctx context.Context) *Notes {
	n, _ := ctx.Value(notesKey{}).(*Notes)
	return n
}

// Writes is how many documents were written, at least. A document that was found and modified counts even if it is as
// before.
func (n *Notes) Writes() int64 { return n.writes.Load() }

// Wrote adds to the writes; nil notes nothing.
func (n *Notes) Wrote(documents int64) {
	for ; n != nil; n = n.Outer {
		n.writes.Add(documents)
	}
}

// Used notes that the client of a transaction has sent a command to a collection; nil notes nothing.
func (n *Notes) Used(c *Collection) {
	for ; n != nil; n = n.Outer {
		n.add(c)
	}
}

func (n *Notes) add(c *Collection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.ContainsFunc(n.used, c.same) {
		n.used = append(n.used, c)
	}
}

func (c *Collection) same(other *Collection) bool {
	return c.Name() == other.Name() && c.Database().Name() == other.Database().Name()
}

// Collections are those that were used, in the order of their first use.
func (n *Notes) Collections() []*Collection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.used)
}

// using is ctx for a command to c, which it notes if a session of c's client is in ctx: the transaction of another client
// does not use c.
func (c *Collection) using(ctx context.Context) context.Context {
	n := NotesOf(ctx)
	if n == nil {
		return ctx
	}
	if session := mongo.SessionFromContext(ctx); session != nil && session.Client() == c.driver.Database().Client() {
		n.Used(c)
	}
	return ctx
}

// noted notes the documents that a command has written.
func noted[R any](ctx context.Context, written func(*R) int64) func(*R, error) (*R, error) {
	return func(result *R, err error) (*R, error) {
		if result != nil {
			NotesOf(ctx).Wrote(written(result))
		}
		return result, err
	}
}

func notedSingle(ctx context.Context, result *mongo.SingleResult) *mongo.SingleResult {
	if result.Err() == nil {
		NotesOf(ctx).Wrote(1)
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
