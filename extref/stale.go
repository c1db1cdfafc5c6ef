package extref

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A StaleCopy is a copy that is not of its source's newest state.
type StaleCopy struct {
	// ID is the _id of the document that holds the copy, Source the source's key.
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
// differ from their source, in no order; none that is Malformed.
//
// Cost: 1 round trip a batch of the cursor; scans the target and looks each
// copy's source up by its key.
func (r *Ref[ID, S]) Stale(ctx context.Context, target string) iter.Seq2[StaleCopy, error] {
	pipeline, err := r.StalePipeline(target)
	if err != nil {
		return fault.Stop[StaleCopy](err)
	}
	t, _ := r.core.target(target)
	return fault.Seq("extref: stale", cursor.Decode[StaleCopy](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return t.Collection.Aggregate(ctx, pipeline)
	}))
}

// StalePipeline is what Stale runs on the target's collection. Each document is
// {_id, source, version, sourceVersion, behind}; without the last three if the
// target is Unversioned. Your own stages can follow, a $sort by behind or a
// $count, or go before it: {$match: {date: {$gte: …}}}.
func (r *Ref[ID, S]) StalePipeline(target string) (pipeline mongo.Pipeline, err error) {
	defer fault.In(&err, "extref: stale")
	t, err := r.core.target(target)
	if err != nil {
		return nil, err
	}
	return r.core.stale(t), nil
}

func (c *core) stale(t *target) mongo.Pipeline {
	const joined = "source"
	here := func(inner string) string { return expr.Field("copy." + inner) }
	there := func(path string) string { return expr.Field(joined + "." + path) }
	match := func(filter bson.D) bson.D { return expr.Op("$match", filter) }
	place := "$$ROOT"
	if t.Path != "" {
		place = expr.Field(t.Path)
	}
	out := mongo.Pipeline{
		match(append(t.referring(), bson.E{Key: "$and", Value: t.shape()})),
		expr.Op("$project", bson.D{{Key: "copy", Value: place}}),
	}
	if t.Array {
		sound := bson.D{{Key: "copy." + t.IDField, Value: notArray}}
		for _, e := range t.sound() {
			sound = append(sound, bson.E{Key: "copy." + e.Key, Value: e.Value})
		}
		out = append(out, expr.Op("$unwind", "$copy"), match(sound))
	}
	out = append(out,
		expr.Op("$lookup", bson.D{
			{Key: "from", Value: c.source.Name()}, {Key: "localField", Value: "copy." + t.IDField},
			{Key: "foreignField", Value: c.o.KeyField}, {Key: "as", Value: joined},
		}),
		expr.Op("$unwind", "$"+joined))
	result := bson.D{{Key: "source", Value: there(c.o.KeyField)}}
	if t.Unversioned || len(t.follow) == 0 {
		some := bson.A{false}
		for _, f := range t.follow {
			at, from := here(f.As), there(f.Path)
			some = append(some, expr.Op("$ne", at, from), expr.Op("$ne", expr.Op("$type", at), expr.Op("$type", from)))
		}
		return append(out, match(expr.Op("$expr", expr.Op("$or", some))), expr.Op("$project", result))
	}
	long := func(v any) bson.D {
		return expr.Op("$convert", bson.D{{Key: "input", Value: v}, {Key: "to", Value: "long"}, {Key: "onError", Value: 0}})
	}
	// That of a bad source is none; Check tells it.
	have, want := here(t.VersionField), there(c.o.VersionField)
	newest := expr.Cond(expr.IsType(want, "int", "long", "double"), want, 0)
	return append(out,
		match(bson.D{
			{Key: "copy." + t.VersionField, Value: expr.Op("$type", bson.A{"int", "long", "double"})},
			{Key: "$expr", Value: expr.Op("$lt", have, newest)},
		}),
		expr.Op("$project", append(result,
			bson.E{Key: "version", Value: long(have)},
			bson.E{Key: "sourceVersion", Value: long(newest)},
			bson.E{Key: "behind", Value: long(expr.Op("$subtract", newest, have))})))
}
