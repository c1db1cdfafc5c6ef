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

// pattern is Problem.Pattern.
const pattern = "bucket"

// A frame is what every layout of a window has: a series, a start, an end and where
// they are stored. What stands between them is the layout's.
type frame struct {
	coll     *mongo.Collection
	codec    codec.Codec
	window   Window
	series   string
	start    string
	end      string
	endAt    EndTime
	metadata func(series any, start time.Time) bson.D
	taken    map[string]bool // names Metadata cannot use
	byStart  bool            // an index for retention
	guard    string          // a field that every write of a measurement changes, "" for none
}

// check refuses what no layout can have. The fields are the layout's settings.
func (f *frame) check(fields ...config.Setting) error {
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

// indexes are those of every layout; own is the layout's for {series, start}.
func (f *frame) indexes(own ...mongo.IndexModel) map[string][]mongo.IndexModel {
	if f.byStart {
		own = append(own, mongo.IndexModel{Keys: bson.D{{Key: f.start, Value: 1}}})
	}
	return map[string][]mongo.IndexModel{f.coll.Name(): own}
}

// filter selects the documents that can hold something of a range.
func (f *frame) filter(series any, from, to time.Time) bson.D {
	from, to = ceil(from), ceil(to)
	filter := bson.D{{Key: f.series, Value: f.equal(series)}}
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

// ceil rounds a limit up to the milliseconds of stored times, so that comparing with
// it is exact.
func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// equal is the condition that a field equals v, whatever v holds. What cannot be
// encoded stays as it is, for the driver to refuse.
func (f *frame) equal(v any) any {
	raw, err := f.codec.Value(v)
	if err != nil {
		return v
	}
	return value.Equal(raw)
}

// stored is equal for a value that was read: the zero RawValue is a missing field.
func stored(v bson.RawValue) any {
	if v.Type == 0 {
		return bson.D{{Key: "$exists", Value: false}}
	}
	return value.Equal(v)
}

// A place is a window of a series: where its documents are.
type place struct {
	series bson.RawValue
	start  time.Time
	end    time.Time
	key    string // of the maps that hold places, the same for equal series
}

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

// checkKey refuses what no series and no ID of a measurement can be: what no _id
// can be, and names of operators, at any depth, as the series stands in _id.
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

// beyondYears ends the years 1 to 9999, whose times all BSON libraries can read.
var beyondYears = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

func checkTime(t time.Time) error {
	switch {
	case t.IsZero():
		return fault.Invalid("no time")
	case t.Before(time.Time{}) || !t.Before(beyondYears):
		return fault.Invalid("the time %v is not in the years 1 to 9999", t.UTC())
	}
	return nil
}

// within is all documents of the place.
func (f *frame) within(p place) bson.D {
	return bson.D{{Key: f.series, Value: value.Equal(p.series)}, {Key: f.start, Value: p.start}}
}

// created is what the first write of a document sets besides its place.
func (f *frame) created(p place, series any) (bson.D, error) {
	var out bson.D
	if f.end != "" {
		out = append(out, bson.E{Key: f.end, Value: f.endOf(p.end)})
	}
	if f.metadata == nil {
		return out, nil
	}
	for _, field := range f.metadata(series, p.start) {
		if name, _, _ := strings.Cut(field.Key, "."); f.taken[name] {
			return nil, fault.Invalid("field %q of Metadata: the name is taken", field.Key)
		}
		out = append(out, field)
	}
	return out, nil
}

// endOf is what EndField holds for a window that ends at end.
func (f *frame) endOf(end time.Time) time.Time {
	switch f.endAt {
	case LastSecond:
		return end.Add(-time.Second)
	case NextStart:
		return end
	}
	return end.Add(-time.Millisecond)
}

// itself selects one document by _id and shard key.
func (f *frame) itself(doc bson.Raw) bson.D {
	return bson.D{
		{Key: "_id", Value: stored(doc.Lookup("_id"))},
		{Key: f.series, Value: stored(value.Lookup(doc, f.series))},
		{Key: f.start, Value: stored(value.Lookup(doc, f.start))},
	}
}

// problem begins a Problem of a document.
func (f *frame) problem(doc bson.Raw, kind mongopatterns.ProblemKind, field string, have, want bson.RawValue) mongopatterns.Problem {
	return mongopatterns.Problem{Pattern: pattern, Kind: kind, Collection: f.coll.Name(),
		ID: doc.Lookup("_id"), Field: field, Have: have, Want: want}
}

// bounds finds the problems of a document's start and end, and the window it is of.
func (f *frame) bounds(doc bson.Raw) (start, end time.Time, problems []mongopatterns.Problem) {
	have := value.Lookup(doc, f.start)
	if have.Type != bson.TypeDateTime {
		return start, end, []mongopatterns.Problem{f.problem(doc, BadStart, f.start, have, bson.RawValue{})}
	}
	start, end = f.window.Bounds(dateOf(have))
	if !start.Equal(dateOf(have)) {
		return start, end, []mongopatterns.Problem{f.problem(doc, BadStart, f.start, have, dateValue(start))}
	}
	if f.end != "" {
		if have, want := value.Lookup(doc, f.end), dateValue(f.endOf(end)); !have.Equal(want) {
			problems = append(problems, f.problem(doc, WrongAggregate, f.end, have, want))
		}
	}
	return start, end, problems
}

// find, pipe and first read documents, which stay valid; first is nil if there is none.
func find(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.FindOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Find(ctx, filter, opts...) })
}

func pipe(ctx context.Context, coll *mongo.Collection, pipeline mongo.Pipeline, opts ...options.Lister[options.AggregateOptions]) iter.Seq2[bson.Raw, error] {
	return cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) { return coll.Aggregate(ctx, pipeline, opts...) })
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

// fixed reports a series whose equals are encoded alike and never change, so that one
// encoding serves all of them.
func fixed(series any) bool {
	if _, ok := series.(bson.ObjectID); ok {
		return true
	}
	kind := reflect.ValueOf(series).Kind()
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}
