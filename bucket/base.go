package bucket

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A base is what both layouts share. How measurements lie between start and end is the layout's.
type base struct {
	frame.Frame
	metadata func(series any, start time.Time) bson.D
	layout   layout
}

// A layout is arrays or grid.
type layout interface {
	// item is a value ready to be stored.
	item(b *batch, v any) (item, error)
	// load sends groups.
	load(groups []*group) frame.Load
	// entries are the measurements of a document.
	entries(doc bson.Raw) ([]entry, error)
}

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.RawValue
	time    int64         // in milliseconds
	id      bson.RawValue // in an array
	numbers []Number      // in an array, by Options.Values; zero where there is none
	path    string        // of a slot
}

func sizeOf(items []item) (size int64) {
	for _, it := range items {
		size += int64(len(it.raw.Value))
	}
	return size
}

type group = frame.Group[held]

type held struct {
	created bson.Raw // what a new document has besides
	items   []item
	room    room  // of arrays, where to go on as far as known
	least   int64 // the buckets before are full
}

type batch struct {
	*base
	frame.Groups[held]
	slab []Number // for the next items
}

// newBase is a base but for the names of fields.
func newBase(coll *mongo.Collection, w Window, c codec.Codec, end EndTime, metadata func(series any, start time.Time) bson.D) base {
	early := map[EndTime]time.Duration{LastMillisecond: time.Millisecond, LastSecond: time.Second}[end]
	return base{metadata: metadata, Frame: frame.Frame{Pattern: "bucket", Coll: coll, Codec: c, Window: w, Early: early,
		Skip: ErrSkip, Concurrent: ErrConcurrentAdopt, Contended: ErrContended}}
}

func (b *base) begin() frame.Batch { return &batch{base: b} }

// Add encodes a value once and puts it into the group of its window.
func (b *batch) Add(series, v any) error {
	it, err := b.layout.item(b, v)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	g, err := b.Find(&b.Frame, series, it.time)
	if err != nil {
		return err
	}
	if g.Of.items == nil {
		if g.Of.created, err = b.created(g.Place, series); err != nil {
			return err
		}
	}
	if size := len(g.Of.created) + len(it.raw.Value); size > maxBytes {
		return fault.Invalid("%d bytes with Metadata, more than a document takes", size)
	}
	g.Of.items = append(g.Of.items, it)
	b.Count, b.Bytes = b.Count+1, b.Bytes+len(it.raw.Value)
	return nil
}

func (b *batch) Size() (count, bytes int) { return b.Count, b.Bytes }

// Store leaves groups as they are, so that a transaction can call it again.
//
// Cost: that of a batch of AppendMany.
func (b *batch) Store(ctx context.Context) (mongopatterns.Result, error) {
	var groups []*group
	for _, g := range b.All {
		if clone := *g; g.Of.items != nil { // else its Metadata was refused
			groups = append(groups, &clone)
		}
	}
	return b.Write(ctx, b.layout.load(groups))
}

// created is what the first write of a document sets besides its place. Metadata must not move it to another;
// other names that are taken are the server's to refuse.
func (b *base) created(p frame.Place, series any) (bson.Raw, error) {
	var out bson.D
	if b.metadata != nil {
		out = append(out, b.metadata(series, time.UnixMilli(p.Start).UTC())...)
	}
	for _, field := range out {
		if name, _, _ := strings.Cut(field.Key, "."); name == b.Series || name == b.Start || name == "_id" {
			return nil, fault.Invalid("field %q of Metadata: the name is taken", field.Key)
		}
	}
	if b.End != "" {
		out = append(out, bson.E{Key: b.End, Value: b.EndOf(p.End)})
	}
	if out == nil {
		return nil, nil
	}
	return b.Codec.Document(out)
}

// fields projects series, start and those of these that have a name.
func (b *base) fields(names ...string) bson.D {
	out := b.Keys()
	for _, name := range names {
		if name != "" {
			out = append(out, bson.E{Key: name, Value: 1})
		}
	}
	return out
}

// pipe and first read documents, which stay valid; first is ErrNotFound if there is none.
func pipe(ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Aggregate(ctx, pipeline) })
}

func first(docs iter.Seq2[bson.Raw, error]) (doc bson.Raw, err error) {
	for doc, err := range docs {
		return doc, err
	}
	return nil, mongopatterns.ErrNotFound
}

func (b *base) noDate(doc bson.Raw) error {
	return fault.Of(doc.Lookup("_id"), fmt.Errorf("%s is %s, not a date", b.Start, value.Text(value.Lookup(doc, b.Start))))
}

// Of returns measurements of one series as AppendMany takes them.
func Of[S, M any](series S, measurements ...M) iter.Seq2[S, M] {
	return frame.Of(series, measurements...)
}
