// Package cursor opens and closes the cursors of the pattern packages. No other package closes one.
package cursor

import (
	"context"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// closeBound is how long a close waits for the server. A close needs its own bound because the caller's
// context may have ended and the server may be down: without a bound, leaving a loop would wait for the
// next primary.
const closeBound = 500 * time.Millisecond

// Each opens a cursor and yields it at each document in turn; the document is valid until the next one. The
// cursor is closed however the loop ends. An error is yielded once, as the last.
func Each(ctx context.Context, open func(ctx context.Context) (*mongo.Cursor, error)) iter.Seq2[*mongo.Cursor, error] {
	return func(yield func(*mongo.Cursor, error) bool) {
		c, err := open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer shut(ctx, c)
		for c.Next(ctx) {
			if !yield(c, nil) {
				return
			}
		}
		if err := c.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Stream opens a change stream for fn, and closes it when fn returns.
func Stream(ctx context.Context, open func(ctx context.Context) (*mongo.ChangeStream, error), fn func(*mongo.ChangeStream) error) error {
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer shut(ctx, s)
	return fn(s)
}

// shut closes a cursor or a stream, unless the server has closed it already.
func shut(ctx context.Context, c interface {
	ID() int64
	Close(ctx context.Context) error
}) {
	if c.ID() == 0 {
		return // the server has closed it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBound)
	defer cancel()
	_ = c.Close(ctx)
}

// Docs is Each with copies of the documents, which stay valid.
func Docs(ctx context.Context, open func(ctx context.Context) (*mongo.Cursor, error)) iter.Seq2[bson.Raw, error] {
	return func(yield func(bson.Raw, error) bool) {
		for c, err := range Each(ctx, open) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(append(bson.Raw(nil), c.Current...), nil) {
				return
			}
		}
	}
}

// Find is Docs for a find.
func Find(ctx context.Context, coll *scoped.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

// Decode is Each with the documents decoded by the client's codecs.
func Decode[T any](ctx context.Context, open func(ctx context.Context) (*mongo.Cursor, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for c, err := range Each(ctx, open) {
			var v T
			if err == nil {
				err = Into(c, &v)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Into decodes the document at a cursor by the client's codecs. One that does not fit the type is ErrMalformed.
func Into(c *mongo.Cursor, v any) error {
	err := codec.Unfit(v, c.Decode(v))
	id := c.Current.Lookup("_id")
	if err == nil || id.Type == 0 {
		return err
	}
	return fault.Of(id, err)
}

// One is Into for the document of a find.
func One(found *mongo.SingleResult, v any) error {
	if err := found.Err(); err != nil {
		return err
	}
	return codec.Unfit(v, found.Decode(v))
}

// Collect returns the values of an iterator, nil if it ends with an error.
func Collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// Primary returns coll with reads of the newest state on the primary. A secondary that lags, or a read concern
// of majority, would hide documents, and the caller's own last write, from work that must see all of them.
func Primary(coll *scoped.Collection) *scoped.Collection { return coll.Clone(newest) }

// newest is made once, because Primary is a part of many calls.
var newest = options.Collection().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Local())

// Batches cuts documents into batches of at most size documents and at most bytes bytes. A single larger
// document is a batch of its own.
func Batches(docs iter.Seq2[bson.Raw, error], size, bytes int) iter.Seq2[[]bson.Raw, error] {
	return Weighed(docs, size, bytes, func(doc bson.Raw) int { return len(doc) })
}

// Weighed is Batches for documents that represent larger ones; weight returns the size of those.
func Weighed(docs iter.Seq2[bson.Raw, error], size, bytes int, weight func(doc bson.Raw) int) iter.Seq2[[]bson.Raw, error] {
	return func(yield func([]bson.Raw, error) bool) {
		var batch []bson.Raw
		held := 0
		for doc, err := range docs {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(batch) > 0 && held+weight(doc) > bytes {
				if !yield(batch, nil) {
					return
				}
				batch, held = nil, 0
			}
			batch = append(batch, doc)
			held += weight(doc)
			if len(batch) == size {
				if !yield(batch, nil) {
					return
				}
				batch, held = nil, 0
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}
