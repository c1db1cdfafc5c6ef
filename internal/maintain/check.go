package maintain

import (
	"context"
	"errors"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

// Check yields the problems that find reports for the documents of a scan, batch by batch.
func Check(ctx context.Context, coll *scoped.Collection, work *mongopatterns.Work, scan Scan, find func(ctx context.Context, batch []bson.Raw) ([]mongopatterns.Problem, error)) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		w, err := Completed(work, scan.BatchSize)
		if err != nil {
			yield(mongopatterns.Problem{}, err)
			return
		}
		for batch, err := range Batches(ctx, coll, w, scan) {
			var problems []mongopatterns.Problem
			if err == nil {
				problems, err = find(ctx, batch)
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			for _, p := range problems {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// Absent yields a Malformed problem for each path that no document of coll has, if coll has documents: the
// name is probably misspelt. It yields nothing if work selects documents.
//
// Cost: 1 round trip for each path, which stops at the first document with it; 1 more if one is absent.
func Absent(ctx context.Context, coll *scoped.Collection, work *mongopatterns.Work, pattern string, paths ...string) iter.Seq2[mongopatterns.Problem, error] {
	return func(yield func(mongopatterns.Problem, error) bool) {
		if work != nil && work.Filter != nil {
			return
		}
		coll = cursor.Primary(coll)
		for _, path := range paths {
			there, err := Holds(ctx, coll, expr.D(path, expr.Op("$exists", true)))
			if err == nil && !there {
				there, err = Holds(ctx, coll, bson.D{})
				there = !there // without documents nothing is misspelt
			}
			if err != nil {
				yield(mongopatterns.Problem{}, err)
				return
			}
			if !there && !yield(mongopatterns.Problem{Pattern: pattern, Kind: mongopatterns.Malformed, Collection: coll.Name(), Field: path, Detail: "no document has it"}, nil) {
				return
			}
		}
	}
}

// Holds reports whether a collection has a document that a filter selects.
//
// Cost: 1 round trip.
func Holds(ctx context.Context, coll *scoped.Collection, filter bson.D) (bool, error) {
	err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(expr.D("_id", 1))).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// Chain yields one sequence after another and ends with the first error.
func Chain[T any](all ...iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, seq := range all {
			for v, err := range seq {
				if !yield(v, err) || err != nil {
					return
				}
			}
		}
	}
}
