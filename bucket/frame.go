package bucket

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A frame is what both layouts share: a series, a start and an end, the loop of writes, Check and
// Repair, Archive. How measurements lie between start and end is the layout's.
type frame struct {
	coll     *mongo.Collection
	codec    codec.Codec
	window   Window
	series   string
	start    string
	end      string
	endAt    EndTime
	metadata func(series any, start time.Time) bson.D
	guard    string // a field that every write of a measurement changes, "" for none
	layout   layout
}

// A layout is arrays or grid.
type layout interface {
	// item is a value ready to be stored.
	item(v any) (item, error)
	// open says where groups go on, and drops what their windows hold already. With look it asks
	// the server.
	open(ctx context.Context, groups []*group, look bool) (dropped int, err error)
	// statements are the updates that store a group.
	statements(g *group) []statement
	// wrote is told of a statement that was executed.
	wrote(s statement)
	// again reports that a refused statement is to be repeated after a look.
	again(s statement, err error) bool

	// audited are the fields that audit reads besides start and end; audit finds problems, and
	// recount is the update that computes what follows from the measurements.
	audited() bson.D
	audit(doc bson.Raw, start, end time.Time, report report)
	recount() mongo.Pipeline

	// arrive are the writes that bring documents into an archive.
	arrive(ctx context.Context, archive *mongo.Collection, docs []bson.Raw) ([]mongo.WriteModel, error)
}

// A report is of a problem in a document.
type report func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue)

// validate refuses what no layout can have. The fields are the layout's settings.
func (f *frame) validate(fields ...config.Setting) error {
	if err := config.Collections("coll", f.coll); err != nil {
		return err
	}
	if f.window == nil {
		return fault.Invalid("window: nil")
	}
	if w, ok := f.window.(every); ok && (w.length <= 0 || w.length%time.Millisecond != 0) {
		return fault.Invalid("window: the length of Every must be a positive number of milliseconds")
	}
	if f.endAt < LastMillisecond || f.endAt > NextStart {
		return fault.Invalid("Options.EndTime: %d", f.endAt)
	}
	id := "_id"
	return config.Apply(append([]config.Setting{config.Name("_id", &id, "")}, fields...)...)
}

func (f *frame) shardKey() bson.D {
	return bson.D{{Key: f.series, Value: 1}, {Key: f.start, Value: 1}}
}

// filter selects the documents that can hold something of a range. A series that cannot be encoded
// stays as it is, for the driver to refuse.
func (f *frame) filter(series any, from, to time.Time) bson.D {
	from, to = ceil(from), ceil(to)
	if raw, err := f.codec.Value(series); err == nil {
		series = value.Equal(raw)
	}
	filter := bson.D{{Key: f.series, Value: series}}
	var starts bson.D
	if !from.IsZero() {
		first, _ := f.window.Bounds(from)
		starts = append(starts, bson.E{Key: "$gte", Value: first})
	}
	if !to.IsZero() {
		starts = append(starts, bson.E{Key: "$lt", Value: to})
	}
	if starts != nil {
		filter = append(filter, bson.E{Key: f.start, Value: starts})
	}
	return filter
}

// ceil rounds a limit up to the milliseconds of stored times, so that comparing with it is exact.
func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// A place is a window of a series: where its documents are.
type place struct {
	series bson.RawValue
	start  time.Time
	end    time.Time
	key    string // of the maps that hold places, the same for equal series
}

// place is where a series and a time belong, if they can be stored.
func (f *frame) place(series any, t time.Time) (place, error) {
	raw, err := f.seriesOf(series)
	if err == nil {
		err = checkTime(t)
	}
	if err != nil {
		return place{}, err
	}
	return f.placeOf(raw, t), nil
}

func (f *frame) placeOf(series bson.RawValue, t time.Time) place {
	start, end := f.window.Bounds(t)
	return place{series: series, start: start, end: end, key: placeKey(series, start)}
}

func placeKey(series bson.RawValue, start time.Time) string {
	return fmt.Sprint(start.UnixMilli()) + value.Key(series)
}

// named says which measurement of the place an error is about.
func (p place) named(t time.Time, which string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("series %s, time %s%s: %w", value.Text(p.series), t.UTC().Format(time.RFC3339Nano), which, err)
}

// keyOf is the key of the place of a document.
func (f *frame) keyOf(doc bson.Raw) string {
	return placeKey(value.Lookup(doc, f.series), dateOf(value.Lookup(doc, f.start)))
}

// within is all documents of the place.
func (f *frame) within(p place) bson.D {
	return bson.D{{Key: f.series, Value: value.Equal(p.series)}, {Key: f.start, Value: p.start}}
}

// itself selects one document by _id and shard key.
func (f *frame) itself(doc bson.Raw) bson.D {
	return bson.D{
		{Key: "_id", Value: stored(doc.Lookup("_id"))},
		{Key: f.series, Value: stored(value.Lookup(doc, f.series))},
		{Key: f.start, Value: stored(value.Lookup(doc, f.start))},
	}
}

// stored is the condition that a field holds what was read; the zero RawValue is a missing field.
func stored(v bson.RawValue) any {
	if v.Type == 0 {
		return bson.D{{Key: "$exists", Value: false}}
	}
	return value.Equal(v)
}

// seriesOf encodes what tells series apart.
func (f *frame) seriesOf(series any) (bson.RawValue, error) {
	raw, err := f.codec.Value(series)
	if err == nil {
		err = checkKey(raw)
	}
	if err != nil {
		return raw, fmt.Errorf("series: %w", err)
	}
	return raw, nil
}

// fixed reports a series whose equals are encoded alike and never change, so that one encoding
// serves all of them.
func fixed(series any) bool {
	if _, ok := series.(bson.ObjectID); ok {
		return true
	}
	kind := reflect.ValueOf(series).Kind()
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}

// checkKey refuses what no series and no ID of a measurement can be: what no _id can be, and names
// of operators, at any depth, as the series stands in _id.
func checkKey(v bson.RawValue) error {
	if value.CheckID(v) != nil {
		return fault.Invalid("a value of the type %v tells nothing apart", v.Type)
	}
	return checkNames(v)
}

func checkNames(v bson.RawValue) error {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil
	}
	elements, err := bson.Raw(v.Value).Elements()
	if err != nil {
		return fault.Invalid("%w", err)
	}
	for _, e := range elements {
		if strings.HasPrefix(e.Key(), "$") {
			return fault.Invalid("the field %q", e.Key())
		}
		if err := checkNames(e.Value()); err != nil {
			return err
		}
	}
	return nil
}

func checkTime(t time.Time) error {
	switch {
	case t.IsZero():
		return fault.Invalid("no time")
	case t.Before(time.Time{}) || !t.Before(beyondYears):
		return fault.Invalid("the time %v is not in the years 1 to 9999", t.UTC())
	}
	return nil
}

// created is what the first write of a document sets besides its place. Metadata must not move it
// to another; other names that are taken are the server's to refuse.
func (f *frame) created(p place, series any) (bson.D, error) {
	var out bson.D
	if f.end != "" {
		out = append(out, bson.E{Key: f.end, Value: f.endOf(p.end)})
	}
	if f.metadata == nil {
		return out, nil
	}
	for _, field := range f.metadata(series, p.start) {
		if name, _, _ := strings.Cut(field.Key, "."); name == f.series || name == f.start || name == "_id" {
			return nil, fault.Invalid("field %q of Metadata: the name is taken", field.Key)
		}
		out = append(out, field)
	}
	return out, nil
}

// endOf is what EndField holds for a window that ends at end.
func (f *frame) endOf(end time.Time) time.Time {
	return end.Add(-[]time.Duration{LastMillisecond: time.Millisecond, LastSecond: time.Second, NextStart: 0}[f.endAt])
}

// find, pipe and first read documents, which stay valid; first is nil if there is none.
func find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

func pipe(ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Aggregate(ctx, pipeline) })
}

func first(docs iter.Seq2[bson.Raw, error]) (doc bson.Raw, err error) {
	for doc, err := range docs {
		return doc, err
	}
	return nil, nil
}

func dateOf(v bson.RawValue) time.Time {
	ms, _ := v.DateTimeOK()
	return time.UnixMilli(ms).UTC()
}

func dateValue(t time.Time) bson.RawValue {
	kind, data, _ := bson.MarshalValue(bson.NewDateTimeFromTime(t))
	return bson.RawValue{Type: kind, Value: data}
}
