// Package comment gives the commands of a call a comment with the name of the call, so that the profiler, the log and
// currentOp name it.
package comment

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// A note is a comment as the driver takes it: an option of each kind of command. Making these anew for each
// command would cost several allocations.
type note struct {
	value any  // nil for no comment
	kept  bool // it comes from the user, and no call replaces it

	find       lister[options.FindOptions]
	findOne    lister[options.FindOneOptions]
	aggregate  lister[options.AggregateOptions]
	count      lister[options.CountOptions]
	estimate   lister[options.EstimatedDocumentCountOptions]
	watch      lister[options.ChangeStreamOptions]
	insertOne  lister[options.InsertOneOptions]
	insertMany lister[options.InsertManyOptions]
	updateOne  lister[options.UpdateOneOptions]
	updateMany lister[options.UpdateManyOptions]
	replaceOne lister[options.ReplaceOptions]
	deleteOne  lister[options.DeleteOneOptions]
	deleteMany lister[options.DeleteManyOptions]
	bulkWrite  lister[options.BulkWriteOptions]
	update     lister[options.FindOneAndUpdateOptions]
	replace    lister[options.FindOneAndReplaceOptions]
	remove     lister[options.FindOneAndDeleteOptions]
}

// A lister is options for the driver.
type lister[T any] []func(*T) error

func (l *lister[T]) List() []func(*T) error { return *l }

// made makes the note of a text.
func made(text string) *note {
	// The driver takes a value of this type as it is. It encodes any other for each command, with 10 allocations.
	var v any = bsoncore.Value{Type: bsoncore.TypeString, Data: bsoncore.AppendString(nil, text)}
	return &note{
		value:      v,
		find:       setting(v, func(o *options.FindOptions) *any { return &o.Comment }),
		findOne:    setting(v, func(o *options.FindOneOptions) *any { return &o.Comment }),
		aggregate:  setting(v, func(o *options.AggregateOptions) *any { return &o.Comment }),
		count:      setting(v, func(o *options.CountOptions) *any { return &o.Comment }),
		estimate:   setting(v, func(o *options.EstimatedDocumentCountOptions) *any { return &o.Comment }),
		watch:      setting(v, func(o *options.ChangeStreamOptions) *any { return &o.Comment }),
		insertOne:  setting(v, func(o *options.InsertOneOptions) *any { return &o.Comment }),
		insertMany: setting(v, func(o *options.InsertManyOptions) *any { return &o.Comment }),
		updateOne:  setting(v, func(o *options.UpdateOneOptions) *any { return &o.Comment }),
		updateMany: setting(v, func(o *options.UpdateManyOptions) *any { return &o.Comment }),
		replaceOne: setting(v, func(o *options.ReplaceOptions) *any { return &o.Comment }),
		deleteOne:  setting(v, func(o *options.DeleteOneOptions) *any { return &o.Comment }),
		deleteMany: setting(v, func(o *options.DeleteManyOptions) *any { return &o.Comment }),
		bulkWrite:  setting(v, func(o *options.BulkWriteOptions) *any { return &o.Comment }),
		update:     setting(v, func(o *options.FindOneAndUpdateOptions) *any { return &o.Comment }),
		replace:    setting(v, func(o *options.FindOneAndReplaceOptions) *any { return &o.Comment }),
		remove:     setting(v, func(o *options.FindOneAndDeleteOptions) *any { return &o.Comment }),
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
var none note

// notes has the note of each call that was made.
var notes sync.Map

type key struct{}

func of(ctx context.Context) *note {
	if n, ok := ctx.Value(key{}).(*note); ok {
		return n
	}
	return &none
}

// Call is ctx for the commands of a call, such as "subset.Insert". A call inside another, as in a callback, names
// its own commands. What the user has given by With stays.
func Call(ctx context.Context, name string) context.Context {
	if of(ctx).kept {
		return ctx
	}
	n, ok := notes.Load(name)
	if !ok {
		n, _ = notes.LoadOrStore(name, made("mongopatterns "+name))
	}
	return context.WithValue(ctx, key{}, n)
}

// With is ctx for commands with a comment of the user's, or without any if text is empty.
func With(ctx context.Context, text string) context.Context {
	n := &note{}
	if text != "" {
		n = made(text)
	}
	n.kept = true
	return context.WithValue(ctx, key{}, n)
}

// Command adds the comment of ctx to a command that goes through RunCommand.
func Command(ctx context.Context, command bson.D) bson.D {
	v, ok := of(ctx).value.(bsoncore.Value)
	if !ok {
		return command
	}
	return append(command, bson.E{Key: "comment", Value: v.StringValue()})
}
