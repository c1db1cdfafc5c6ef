package bucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
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
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/window"
)

// A frame is what both layouts share: a series, a start and an end, the loop of writes, Check and Repair,
// Archive. How measurements lie between start and end is the layout's.
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
	// open says where groups go on, and drops what their windows hold already. With look it asks the server.
	open(ctx context.Context, groups []*group, look bool) (dropped int, err error)
	// statements are the updates that store a group.
	statements(g *group) []statement
	// wrote is told of a statement that was executed.
	wrote(s statement)
	// again reports that a refused statement is to be repeated after a look.
	again(s statement, err error) bool

	// audited are the fields that audit reads besides start and end; audit finds problems, and recount is the
	// update that computes what follows from the measurements.
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
	if err := window.Check(f.window); err != nil {
		return err
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

// filter selects the documents that can hold something of a range. A series that cannot be encoded stays as
// it is, for the driver to refuse.
func (f *frame) filter(series any, from, to time.Time) bson.D {
	if raw, err := f.codec.Value(series); err == nil {
		series = value.Equal(raw)
	}
	filter := bson.D{{Key: f.series, Value: series}}
	if !from.IsZero() {
		from, _ = f.window.Bounds(ceil(from))
	}
	if starts := limits(from, to); starts != nil {
		filter = append(filter, bson.E{Key: f.start, Value: starts})
	}
	return filter
}

// limits are the conditions of a range of times.
func limits(from, to time.Time) (out bson.D) {
	if !from.IsZero() {
		out = append(out, bson.E{Key: "$gte", Value: ceil(from)})
	}
	if !to.IsZero() {
		out = append(out, bson.E{Key: "$lt", Value: ceil(to)})
	}
	return out
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

// checkKey refuses what no series and no ID of a measurement can be.
func checkKey(v bson.RawValue) error {
	if err := value.CheckKey(v); err != nil {
		return fault.Invalid("%w", err)
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

// created is what the first write of a document sets besides its place. Metadata must not move it to another;
// other names that are taken are the server's to refuse.
func (f *frame) created(p place, series any) (bson.D, error) {
	var out bson.D
	if f.metadata != nil {
		out = append(out, f.metadata(series, p.start)...)
	}
	for _, field := range out {
		if name, _, _ := strings.Cut(field.Key, "."); name == f.series || name == f.start || name == "_id" {
			return nil, fault.Invalid("field %q of Metadata: the name is taken", field.Key)
		}
	}
	if f.end != "" {
		out = append(out, bson.E{Key: f.end, Value: f.endOf(p.end)})
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

const (
	// manyBatch is the default Work.BatchSize: large, so that few batches write the same bucket.
	manyBatch = 10_000
	// mostItems and mostBytes keep a batch within one message, which is answered as a whole.
	mostItems = 100_000
	mostBytes = 24 << 20
	// maxAttempts is how often a write is tried again after a duplicate key.
	maxAttempts = 16
)

// Of returns measurements of one series as AppendMany takes them.
func Of[S, M any](series S, measurements ...M) iter.Seq2[S, M] {
	return func(yield func(S, M) bool) {
		for _, m := range measurements {
			if !yield(series, m) {
				return
			}
		}
	}
}

// untyped is a sequence for a frame, empty for nil.
func untyped[S, M any](items iter.Seq2[S, M], as func(M) any) iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		if items == nil {
			return
		}
		for series, m := range items {
			if !yield(series, as(m)) {
				return
			}
		}
	}
}

// An item is a measurement ready to be stored.
type item struct {
	raw     bson.RawValue
	time    time.Time
	id      bson.RawValue // in an array
	numbers []Number      // in an array, by Options.Values; zero where there is none
	path    string        // of a slot
}

// A batch is items grouped by place, in the order of their first.
type batch struct {
	groups []*group
	byKey  map[string]*group
	latest map[any]*group // of a fixed series, that of its last item
	items  int
	bytes  int
}

// A group is items for one window of a series.
type group struct {
	place
	created bson.D
	items   []item

	// Of arrays, where to go on as far as known: the buckets before least are full.
	least, seq, count, size int64
}

// A statement is an update that stores some items of a group in one document.
type statement struct {
	group          *group
	items          []item
	id             bson.D // of the document
	seq            int64  // of an array's bucket
	filter, update bson.D
}

// add encodes a value once and puts it into the group of its window. It finds the place, and encodes the
// series, once for as long as the values of a series stay in one window.
func (f *frame) add(b *batch, series, v any) error {
	it, err := f.layout.item(v)
	if err != nil {
		return fmt.Errorf("measurement: %w", err)
	}
	if err := checkTime(it.time); err != nil {
		return err
	}
	var last *group
	known := value.Fixed(series)
	if known {
		last = b.latest[series]
	}
	if last == nil || it.time.Before(last.start) || !it.time.Before(last.end) {
		if last, err = f.group(b, series, last, it.time); err != nil {
			return err
		}
		if known {
			b.latest[series] = last
		}
	}
	last.items = append(last.items, it)
	b.items, b.bytes = b.items+1, b.bytes+len(it.raw.Value)
	return nil
}

// group finds or makes the group of a place; last is another one of the series, if known.
func (f *frame) group(b *batch, series any, last *group, t time.Time) (*group, error) {
	var raw bson.RawValue
	var err error
	if last != nil {
		raw = last.series
	} else if raw, err = f.seriesOf(series); err != nil {
		return nil, err
	}
	p := f.placeOf(raw, t)
	if g := b.byKey[p.key]; g != nil {
		return g, nil
	}
	g := &group{place: p}
	if g.created, err = f.created(p, series); err != nil {
		return nil, err
	}
	if b.byKey == nil {
		b.byKey, b.latest = map[string]*group{}, map[any]*group{}
	}
	b.byKey[p.key], b.groups = g, append(b.groups, g)
	return g, nil
}

// store writes items batch by batch. One that is not valid ends it after those before it.
func (f *frame) store(ctx context.Context, items iter.Seq2[any, any], work *mongopatterns.Work) (mongopatterns.Result, error) {
	var total mongopatterns.Result
	w, err := maintain.Of(work, manyBatch)
	if err == nil && w.Filter != nil {
		err = fault.Invalid("Work.Filter: there are no documents to select")
	}
	if err != nil {
		return total, err
	}
	var b batch
	flush := func() error {
		if b.items == 0 {
			return nil
		}
		result := mongopatterns.Result{Done: int64(b.items)}
		if !w.DryRun {
			result, err = f.write(ctx, b.groups, f.bulk)
		}
		b = batch{}
		total.Add(result)
		if err == nil {
			w.Progress(total)
		}
		return err
	}
	for series, v := range items {
		invalid := f.add(&b, series, v)
		total.Examined++
		if invalid == nil && b.items < min(w.BatchSize, mostItems) && b.bytes < min(w.BatchBytes, mostBytes) {
			continue
		}
		if err := flush(); err != nil {
			return total, err
		}
		if invalid != nil {
			invalid = fmt.Errorf("item %d: %w", total.Examined-1, invalid)
			total.Fail(f.coll.Name(), bson.RawValue{}, invalid)
			return total, invalid
		}
	}
	return total, flush()
}

// A sender executes statements: errs has what became of those that were not executed, errUnknown where no
// answer came, and err says that there is any such.
type sender func(ctx context.Context, all []statement) (errs map[int]error, err error)

var errUnknown = errors.New("no answer")

// bulk sends statements in one unordered bulk write.
func (f *frame) bulk(ctx context.Context, all []statement) (map[int]error, error) {
	models := make([]mongo.WriteModel, len(all))
	for i, s := range all {
		models[i] = mongo.NewUpdateOneModel().SetFilter(s.filter).SetUpdate(s.update).SetUpsert(true)
	}
	_, err := f.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var answer mongo.BulkWriteException
	errs := map[int]error{}
	if err != nil && !errors.As(err, &answer) || answer.WriteConcernError != nil { // it may be rolled back
		for i := range all {
			errs[i] = errUnknown
		}
	}
	for _, e := range answer.WriteErrors {
		errs[e.Index] = e
	}
	return errs, err
}

// write stores groups and counts what became of their items. A statement that another writer came before is
// repeated where the layout's look says, boundedly. Within a transaction, which a duplicate key would end, it
// looks first. It leaves groups as they are, so that a transaction can call it again.
func (f *frame) write(ctx context.Context, groups []*group, send sender) (result mongopatterns.Result, err error) {
	joined := txn.Running(ctx)
	pending := make([]*group, len(groups))
	for i, g := range groups {
		clone := *g
		pending[i] = &clone
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		dropped, err := f.layout.open(ctx, pending, joined || attempt > 0)
		result.Skipped += int64(dropped)
		if err == nil {
			err = ctx.Err() // before the driver, which would not say that nothing was sent
		}
		if err != nil {
			return result, err
		}
		var all []statement
		for _, g := range pending {
			all = append(all, f.layout.statements(g)...)
			g.items = nil // but for what is to be sent again
		}
		if len(all) == 0 {
			return result, nil
		}
		errs, err := send(ctx, all)
		repeat, fatal := f.settle(all, errs, joined, &result)
		switch {
		case fatal:
			return result, err
		case joined && tooLarge(repeat):
			return result, txn.Conflict("a bucket is full: " + repeat.Error())
		case repeat != nil && (joined || attempt >= maxAttempts) && mongo.IsDuplicateKeyError(repeat):
			return result, fmt.Errorf("%w: %w", ErrContended, repeat)
		case repeat != nil && (joined || attempt >= maxAttempts):
			return result, repeat
		}
		pending = slices.DeleteFunc(pending, func(g *group) bool { return len(g.items) == 0 })
	}
	return result, nil
}

// settle counts the answers and puts the items that are to be sent again back into their groups; repeat is
// the last error of those, fatal says that there is any other.
func (f *frame) settle(all []statement, errs map[int]error, joined bool, r *mongopatterns.Result) (repeat error, fatal bool) {
	for i, s := range all {
		n := int64(len(s.items))
		switch err := errs[i]; {
		case err == nil:
			r.Done += n
			if !joined { // else it may be undone
				f.layout.wrote(s)
			}
		case f.layout.again(s, err):
			repeat = err
			s.group.items = append(s.group.items, s.items...)
		default:
			fatal = true
			if errors.Is(err, errUnknown) {
				r.Unknown += n
			} else if id, invalid := f.codec.Value(s.id); invalid == nil && fault.Refused(err) {
				r.Fail(f.coll.Name(), id, err)
				r.Failed += n - 1
			}
		}
	}
	return repeat, fatal
}

// tooLarge reports that a bucket cannot hold what was to be added to it, though its count allows it: it is
// full.
func tooLarge(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && (server.HasErrorCode(17419) || server.HasErrorCode(17420) || server.HasErrorCode(10334))
}

// arrayOf writes a BSON array of values that are encoded already: the driver copies it as a whole, where it
// would take an array of Go values apart.
func arrayOf(n int, at func(i int) bson.RawValue) bson.RawValue {
	size := 5
	for i := range n {
		size += 8 + len(at(i).Value)
	}
	out := append(make([]byte, 0, size), 0, 0, 0, 0)
	for i := range n {
		v := at(i)
		out = append(out, byte(v.Type))
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(append(out, 0), v.Value...)
	}
	out = append(out, 0)
	for i := range 4 {
		out[i] = byte(len(out) >> (8 * i))
	}
	return bson.RawValue{Type: bson.TypeArray, Value: out}
}
