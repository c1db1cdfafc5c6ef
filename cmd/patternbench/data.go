package main

import (
	"context"
	"fmt"
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
	// A user who may not do this gets the sizes of the last checkpoint.
	_ = colls[0].Database().Client().Database("admin").RunCommand(ctx, d("fsync", 1)).Err()
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
func dataSizes(ctx context.Context, b *bench, metric string, sides ...sized) error {
	values := make([]value, len(sides))
	for i, s := range sides {
		data, _, err := bytesOf(ctx, s.colls...)
		if err != nil {
			return err
		}
		values[i] = value{s.name, data}
	}
	b.report(metric, "bytes", values[0], values[1:]...)
	return nil
}

type sized struct {
	name  string
	colls []*mongo.Collection
}

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

// times is a run of n operations.
func times(n int, op func(ctx context.Context, i int) error) func(ctx context.Context) error {
	next := 0 // goes on with the next run, so that no run repeats the one before
	return func(ctx context.Context) error {
		for range n {
			if err := op(ctx, next); err != nil {
				return err
			}
			next++
		}
		return nil
	}
}

// findOne reads a document.
func findOne[T any](ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOneOptions]) (out T, err error) {
	return out, coll.FindOne(ctx, filter, opts...).Decode(&out)
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
