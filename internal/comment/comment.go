// Package comment gives the commands of a call a comment with the name of the call, so that the profiler, the log and
// currentOp name it.
package comment

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Options are a comment as the driver takes it: an option of each kind of command. Making these anew for each command would
// cost several allocations.
type Options struct {
	value any    // nil for no comment
	call  string // whose comment it is
	kept  bool   // it comes from the user, and no call replaces it

	Find           lister[options.FindOptions]
	FindOne        lister[options.FindOneOptions]
	Aggregate      lister[options.AggregateOptions]
	Count          lister[options.CountOptions]
	Estimate       lister[options.EstimatedDocumentCountOptions]
	Watch          lister[options.ChangeStreamOptions]
	InsertOne      lister[options.InsertOneOptions]
	InsertMany     lister[options.InsertManyOptions]
	UpdateOne      lister[options.UpdateOneOptions]
	UpdateMany     lister[options.UpdateManyOptions]
	ReplaceOne     lister[options.ReplaceOptions]
	DeleteOne      lister[options.DeleteOneOptions]
	DeleteMany     lister[options.DeleteManyOptions]
	BulkWrite      lister[options.BulkWriteOptions]
	FindAndUpdate  lister[options.FindOneAndUpdateOptions]
	FindAndReplace lister[options.FindOneAndReplaceOptions]
	FindAndDelete  lister[options.FindOneAndDeleteOptions]
}

// A lister is options for the driver.
type lister[T any] []func(*T) error

func (l *lister[T]) List() []func(*T) error { return *l }

// After adds the comment to the options of a command, in a slice of its own, because opts may be the user's.
func (l *lister[T]) After(opts []options.Lister[T]) []options.Lister[T] {
	all := make([]options.Lister[T], 0, len(opts)+1)
	return append(append(all, opts...), l)
}

// made makes the Options of a text.
func made(text string) *Options {
	// The driver takes a value of this type as it is. It encodes any other for each command, with 10 allocations.
	var v any = bsoncore.Value{Type: bsoncore.TypeString, Data: bsoncore.AppendString(nil, text)}
	return &Options{
		value:          v,
		Find:           setting(v, func(o *options.FindOptions) *any { return &o.Comment }),
		FindOne:        setting(v, func(o *options.FindOneOptions) *any { return &o.Comment }),
		Aggregate:      setting(v, func(o *options.AggregateOptions) *any { return &o.Comment }),
		Count:          setting(v, func(o *options.CountOptions) *any { return &o.Comment }),
		Estimate:       setting(v, func(o *options.EstimatedDocumentCountOptions) *any { return &o.Comment }),
		Watch:          setting(v, func(o *options.ChangeStreamOptions) *any { return &o.Comment }),
		InsertOne:      setting(v, func(o *options.InsertOneOptions) *any { return &o.Comment }),
		InsertMany:     setting(v, func(o *options.InsertManyOptions) *any { return &o.Comment }),
		UpdateOne:      setting(v, func(o *options.UpdateOneOptions) *any { return &o.Comment }),
		UpdateMany:     setting(v, func(o *options.UpdateManyOptions) *any { return &o.Comment }),
		ReplaceOne:     setting(v, func(o *options.ReplaceOptions) *any { return &o.Comment }),
		DeleteOne:      setting(v, func(o *options.DeleteOneOptions) *any { return &o.Comment }),
		DeleteMany:     setting(v, func(o *options.DeleteManyOptions) *any { return &o.Comment }),
		BulkWrite:      setting(v, func(o *options.BulkWriteOptions) *any { return &o.Comment }),
		FindAndUpdate:  setting(v, func(o *options.FindOneAndUpdateOptions) *any { return &o.Comment }),
		FindAndReplace: setting(v, func(o *options.FindOneAndReplaceOptions) *any { return &o.Comment }),
		FindAndDelete:  setting(v, func(o *options.FindOneAndDeleteOptions) *any { return &o.Comment }),
	}
}

// setting sets the comment unless options before it, which are the user's, have one.
func setting[T any](v any, field func(*T) *any) lister[T] {
	return lister[T]{func(opts *T) error {
		if of := field(opts); *of == nil {
			*of = v
		}
		return nil
	}}
}

// none has no comment.
var none Options

// notes has the Options of each call that was made.
var notes sync.Map

type key struct{}

// OptionsOf returns the comment of ctx.
func OptionsOf(ctx context.Context) *Options {
	if n, ok := ctx.Value(key{}).(*Options); ok {
		return n
	}
	return &none
}

// Call is ctx for the commands of a call, such as "subset.Insert". A call inside another, as in a callback, names
// its own commands. What the user has given by With stays.
func Call(ctx context.Context, name string) context.Context {
	if OptionsOf(ctx).kept {
		return ctx
	}
	n, ok := notes.Load(name)
	if !ok {
		of := made("mongopatterns " + name)
		of.call = name
		n, _ = notes.LoadOrStore(name, of)
	}
	return context.WithValue(ctx, key{}, n)
}

// CallOf returns the call that ctx is of, "" if it is of none or has a comment of the user's.
func CallOf(ctx context.Context) string { return OptionsOf(ctx).call }

// With is ctx for commands with a comment of the user's, or without any if text is empty.
func With(ctx context.Context, text string) context.Context {
	n := &Options{}
	if text != "" {
		n = made(text)
	}
	n.kept = true
	return context.WithValue(ctx, key{}, n)
}

// Command adds the comment of ctx to a command that goes through RunCommand.
func Command(ctx context.Context, command bson.D) bson.D {
	v, ok := OptionsOf(ctx).value.(bsoncore.Value)
	if !ok {
		return command
	}
	return append(command, bson.E{Key: "comment", Value: v.StringValue()})
}

// Aggregate is an aggregation over no collection.
func Aggregate(ctx context.Context, db *mongo.Database, pipeline any) (*mongo.Cursor, error) {
	return db.Aggregate(ctx, pipeline, OptionsOf(ctx).Aggregate.After(nil)...)
}
