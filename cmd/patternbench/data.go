package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// d is a document of keys and values.
func d(pairs ...any) bson.D { return expr.D(pairs...) }

// fill inserts the documents 0 to n-1, a thousand at a time.
func fill(ctx context.Context, coll *mongo.Collection, n int, document func(i int) any) error {
	return fillFrom(ctx, coll, 0, n, document)
}

func fillFrom(ctx context.Context, coll *mongo.Collection, from, to int, document func(i int) any) error {
	for from < to {
		batch := make([]any, 0, 1000)
		for ; from < to && len(batch) < cap(batch); from++ {
			batch = append(batch, document(from))
		}
		if _, err := coll.InsertMany(ctx, batch, options.InsertMany().SetOrdered(false)); err != nil {
			return fmt.Errorf("fill %s: %w", coll.Name(), err)
		}
	}
	return nil
}

// index creates an index.
func index(ctx context.Context, coll *mongo.Collection, keys bson.D, opts ...*options.IndexOptionsBuilder) error {
	model := mongo.IndexModel{Keys: keys}
	if len(opts) > 0 {
		model.Options = opts[0]
	}
	_, err := coll.Indexes().CreateOne(ctx, model)
	return err
}

// bytesOf is the size of the collections' documents and of their indexes, after a checkpoint.
func bytesOf(ctx context.Context, colls ...*mongo.Collection) (data, indexes float64, err error) {
	checkpoint(ctx, colls[0].Database().Client())
	for _, coll := range colls {
		stats, err := storageOf(ctx, coll)
		if err != nil {
			return 0, 0, err
		}
		data, indexes = data+stats.Size, indexes+stats.TotalIndexSize
	}
	return data, indexes, nil
}

// dataSizes reports the bytes of the documents of each side.
func dataSizes(ctx context.Context, b *bench, metric string, sides ...sized) {
	var values []value
	for _, s := range sides {
		data, _, err := bytesOf(ctx, s.colls...)
		check(err)
		values = append(values, value{s.name, data})
	}
	b.report(metric, "bytes", values...)
}

type sized struct {
	name  string
	colls []*mongo.Collection
}

// in names the collections of a side.
func in(name string, colls ...*mongo.Collection) sized { return sized{name, colls} }

// prose is n bytes that compress about as text does.
func prose(r *rand.Rand, n int) string {
	words := strings.Fields("the of and birch harbour light colour window river a to in said was bright evening stone house under her his when no lamp")
	var out strings.Builder
	for out.Len() < n {
		out.WriteString(words[r.IntN(len(words))])
		out.WriteByte(' ')
	}
	return out.String()[:n]
}

// findOne reads a document.
func findOne[T any](ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOneOptions]) (out T, err error) {
	err = coll.FindOne(ctx, filter, opts...).Decode(&out)
	return out, err
}

// findAll reads documents, which must be n, or any number if n is negative.
func findAll[T any](ctx context.Context, n int, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) (out []T, err error) {
	c, err := coll.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	return all[T](ctx, n, c)
}

// aggregate runs a pipeline, whose documents must be n, or any number if n is negative.
func aggregate[T any](ctx context.Context, n int, coll *mongo.Collection, stages ...bson.D) (out []T, err error) {
	c, err := coll.Aggregate(ctx, mongo.Pipeline(stages))
	if err != nil {
		return nil, err
	}
	return all[T](ctx, n, c)
}

func all[T any](ctx context.Context, n int, c *mongo.Cursor) (out []T, err error) {
	if err := c.All(ctx, &out); err != nil {
		return nil, err
	}
	return out, want(len(out), n)
}

// want fails where a side does not do what the others do.
func want(got, n int) error {
	if n >= 0 && got != n {
		return fmt.Errorf("got %d, want %d: the sides are not alike", got, n)
	}
	return nil
}

// decoded reads documents one by one.
func decoded[T any](ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		c, err := coll.Find(ctx, filter, opts...)
		if err != nil {
			yield(zero, err)
			return
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		for c.Next(ctx) {
			var doc T
			if err := c.Decode(&doc); !yield(doc, err) || err != nil {
				return
			}
		}
		if err := c.Err(); err != nil {
			yield(zero, err)
		}
	}
}

// drain reads all of a sequence.
func drain[T any](seq iter.Seq2[T, error]) error {
	return each(seq, func(T) {})
}

// each calls fn with the values of seq up to an error.
func each[T any](seq iter.Seq2[T, error], fn func(T)) error {
	for v, err := range seq {
		if err != nil {
			return err
		}
		fn(v)
	}
	return nil
}
