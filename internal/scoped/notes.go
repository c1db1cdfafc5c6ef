package scoped

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Notes are what the commands of a context have done. Those of a transaction also have the collections that it has used,
// and the error that ended it.
type Notes struct {
	Session *mongo.Session // of the transaction; nil for the notes of a call
	outer   *Notes         // notes it as well

	writes atomic.Int64

	mu   sync.Mutex
	used []*Collection // different ones
	room [2]*Collection
	err  error
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

// Judged is ctx for the commands of a call, and judge makes the error of the call Unknown if one of them has written.
func Judged(ctx context.Context) (_ context.Context, judge func(error) error) {
	n := &Notes{outer: NotesOf(ctx)}
	return WithNotes(ctx, n), func(err error) error {
		if n.Writes() > 0 {
			return fault.Unknown(err)
		}
		return err
	}
}

// Writes is how many documents were written, at least. A document that was found and modified counts even if it is as
// before.
func (n *Notes) Writes() int64 { return n.writes.Load() }

// Wrote adds to the writes; nil notes nothing.
func (n *Notes) Wrote(documents int64) {
	for ; n != nil; n = n.outer {
		n.writes.Add(documents)
	}
}

// Begin forgets the error of an attempt, for the next one.
func (n *Notes) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = nil
}

// Failed notes an error after which the transaction must not be committed, with the call that ctx is of.
func (n *Notes) Failed(ctx context.Context, err error) {
	if call := comment.CallOf(ctx); call != "" {
		fault.In(&err, call)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

// Err is the error of Failed.
func (n *Notes) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Used notes a collection that the transaction uses; nil notes nothing.
func (n *Notes) Used(c *Collection) {
	if c == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.used {
		if c.Name() == other.Name() && c.Database().Name() == other.Database().Name() {
			return
		}
	}
	if n.used == nil {
		n.used = n.room[:0] // most transactions use one or two
	}
	n.used = append(n.used, c)
}

// Collections are those that were used, in the order of their first use.
func (n *Notes) Collections() []*Collection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.used)
}

// transaction returns the notes of the transaction in which a command with ctx runs, or nil.
func transaction(ctx context.Context) *Notes {
	n := NotesOf(ctx)
	for n != nil && n.Session == nil {
		n = n.outer
	}
	if n == nil || n.Session != mongo.SessionFromContext(ctx) {
		return nil
	}
	return n
}

// noting notes that a command in the transaction of ctx, if it has one, uses c. It returns ctx.
func (c *Collection) noting(ctx context.Context) context.Context {
	if n := transaction(ctx); n != nil {
		n.Used(c)
	}
	return ctx
}

// failed notes the error of a command. Every error of the server ends the transaction, and a command without an answer can
// have failed there.
func failed(ctx context.Context, err error) {
	if err == nil {
		return
	}
	n := transaction(ctx)
	if n == nil || n.Err() != nil {
		return
	}
	var server mongo.ServerError
	if errors.As(err, &server) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		n.Failed(ctx, err)
	}
}

// answered notes the error of a command that reads.
func answered[R any](ctx context.Context) func(R, error) (R, error) {
	return func(result R, err error) (R, error) {
		failed(ctx, err)
		return result, err
	}
}

// noted notes the documents that a command has written, or its error.
func noted[R any](ctx context.Context, written func(*R) int64) func(*R, error) (*R, error) {
	return func(result *R, err error) (*R, error) {
		failed(ctx, err)
		if result != nil {
			NotesOf(ctx).Wrote(written(result))
		}
		return result, err
	}
}

func notedSingle(ctx context.Context, result *mongo.SingleResult) *mongo.SingleResult {
	if failed(ctx, result.Err()); result.Err() == nil {
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
