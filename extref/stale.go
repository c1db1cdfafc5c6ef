package extref

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A StaleCopy is a copy that is not of its source's newest state.
type StaleCopy struct {
	// ID is the _id of the document that holds the copy, Source the source's.
	ID     bson.RawValue `bson:"_id" json:"id"`
	Source bson.RawValue `bson:"source" json:"source"`
	// Version is that of the copy, SourceVersion that of the source, Behind the
	// difference: how many changes of followed fields the copy has missed. All 0
	// if the target is Unversioned.
	Version       int64 `bson:"version" json:"version"`
	SourceVersion int64 `bson:"sourceVersion" json:"sourceVersion"`
	Behind        int64 `bson:"behind" json:"behind"`
}

// Stale yields the copies of a target that are behind, or with Unversioned
// differ from their source, in no order; none that is Malformed. The target and
// the source must be in one database.
//
// Cost: 1 round trip a batch of the cursor; scans the target and looks each
// copy's source up by _id.
func (r *Ref[ID, S]) Stale(ctx context.Context, target string) iter.Seq2[StaleCopy, error] {
	return func(yield func(StaleCopy, error) bool) {
		fail := func(err error) { yield(StaleCopy{}, fmt.Errorf("extref: stale: %w", err)) }
		t, err := r.target(target)
		if err != nil {
			fail(err)
			return
		}
		pipeline, err := r.stalePipeline(t)
		if err != nil {
			fail(err)
			return
		}
		cursor, err := t.Collection.Aggregate(ctx, pipeline)
		if err != nil {
			fail(err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			var stale StaleCopy
			if err := cursor.Decode(&stale); err != nil {
				fail(err)
				return
			}
			if !yield(stale, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			fail(err)
		}
	}
}

// StalePipeline is what Stale runs on the target's collection. Each document is
// {_id, source, version, sourceVersion, behind}; without the last three if the
// target is Unversioned. Your own stages can follow, a $sort by behind or a
// $count, or go before it: {$match: {date: {$gte: …}}}.
func (r *Ref[ID, S]) StalePipeline(target string) (mongo.Pipeline, error) {
	t, err := r.target(target)
	if err != nil {
		return nil, fmt.Errorf("extref: stale: %w", err)
	}
	pipeline, err := r.stalePipeline(t)
	if err != nil {
		return nil, fmt.Errorf("extref: stale: %w", err)
	}
	return pipeline, nil
}

func (r *Ref[ID, S]) stalePipeline(t *target) (mongo.Pipeline, error) {
	if t.Collection.Database().Name() != r.source.Database().Name() {
		return nil, fmt.Errorf("%s: not in the source's database", t.Name)
	}
	const joined = "source"
	types := bson.A{"int", "long", "double"}
	version := "$" + joined + "." + r.opts.VersionField
	long := func(value any) bson.D {
		return op1("$convert", bson.D{{Key: "input", Value: value}, {Key: "to", Value: "long"}, {Key: "onError", Value: 0}})
	}
	// That of a bad source is none; Check tells it.
	want := op("$cond", op("$in", op1("$type", version), types), version, 0)
	here := "$copy."
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: append(t.referring(), t.shape()...)}},
		{{Key: "$project", Value: bson.D{{Key: "copy", Value: t.whole()}}}},
	}
	if t.Array {
		pipeline = append(pipeline,
			bson.D{{Key: "$unwind", Value: "$copy"}},
			bson.D{{Key: "$match", Value: noArray("copy.", t.IDField)}})
	}
	pipeline = append(pipeline,
		bson.D{{Key: "$lookup", Value: bson.D{
			{Key: "from", Value: r.source.Name()},
			{Key: "localField", Value: "copy." + t.IDField},
			{Key: "foreignField", Value: "_id"},
			{Key: "as", Value: joined},
		}}},
		bson.D{{Key: "$unwind", Value: "$" + joined}})
	result := bson.D{{Key: "source", Value: "$" + joined + "._id"}}
	if t.Unversioned || len(t.follow) == 0 {
		some := bson.A{}
		for _, f := range t.follow {
			at, from := here+f.As, "$"+joined+"."+f.Path
			some = append(some, op("$ne", at, from), op("$ne", op1("$type", at), op1("$type", from)))
		}
		different := literal(false)
		if len(some) > 0 {
			different = bson.D{{Key: "$or", Value: some}}
		}
		return append(pipeline,
			bson.D{{Key: "$match", Value: bson.D{{Key: "$expr", Value: different}}}},
			bson.D{{Key: "$project", Value: result}}), nil
	}
	result = append(result,
		bson.E{Key: "version", Value: long(here + t.VersionField)},
		bson.E{Key: "sourceVersion", Value: long(want)},
		bson.E{Key: "behind", Value: long(op("$subtract", want, here+t.VersionField))})
	return append(pipeline,
		bson.D{{Key: "$match", Value: bson.D{
			{Key: "copy." + t.VersionField, Value: bson.D{{Key: "$type", Value: types}}},
			{Key: "$expr", Value: op("$lt", here+t.VersionField, want)},
		}}},
		bson.D{{Key: "$project", Value: result}}), nil
}

// whole is the expression for the copy, or the array of copies.
func (t *target) whole() any {
	if t.Path != "" {
		return "$" + t.Path
	}
	return "$$ROOT"
}
