package paging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

const (
	maxSize  = math.MaxInt32 - 8 // of a page, so that a batch size holds it
	maxGroup = 1_000_000         // so that no skip overflows
)

// Pager reads one collection in one order. It is safe for concurrent use.
type Pager[T any] struct {
	coll       *mongo.Collection
	order      order
	opts       Options
	find       options.FindOptions
	projection projection
	collated   bool // under a collation that may take different ids for equal
	keyring    [][]byte
	orderHash  hash
}

// New makes a Pager for the documents of coll in the order of sort: dotted paths
// with 1 or -1. `_id` is added at the end; an empty sort is by `_id`. The sort
// cannot hold $meta.
func New[T any](coll *mongo.Collection, sort bson.D, opts *Options) (*Pager[T], error) {
	p, err := newPager[T](coll, sort, opts)
	if err != nil {
		return nil, fmt.Errorf("paging: %w", err)
	}
	return p, nil
}

func newPager[T any](coll *mongo.Collection, sort bson.D, opts *Options) (*Pager[T], error) {
	if coll == nil {
		return nil, errors.New("collection is nil")
	}
	p := &Pager[T]{coll: coll}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.PageSize == 0 {
		p.opts.PageSize = defaultPageSize
	}
	if p.opts.Group == 0 {
		p.opts.Group = defaultGroup
	}
	switch {
	case p.opts.PageSize < 0 || p.opts.PageSize > maxSize:
		return nil, fmt.Errorf("Options.PageSize: %d is not a page size", p.opts.PageSize)
	case p.opts.Group < 0 || p.opts.Group > maxGroup:
		return nil, fmt.Errorf("Options.Group: %d is not a number of pages", p.opts.Group)
	case p.opts.Strategy != Merged && p.opts.Strategy != Sequential:
		return nil, fmt.Errorf("Options.Strategy: unknown strategy %d", p.opts.Strategy)
	}
	var err error
	if p.order, err = newOrder(sort, p.opts.Uniform); err != nil {
		return nil, err
	}
	p.opts.Equality = slices.Clone(p.opts.Equality)
	for i, path := range p.opts.Equality {
		if err := fieldpath.CheckPath("Options.Equality", path); err != nil {
			return nil, err
		}
		if p.order.index(path) >= 0 || slices.Contains(p.opts.Equality[:i], path) {
			return nil, fmt.Errorf("Options.Equality: %q is already part of the index", path)
		}
	}
	for _, key := range p.opts.Keys {
		if len(key) == 0 {
			return nil, errors.New("Options.Keys: empty key")
		}
		p.keyring = append(p.keyring, slices.Clone(key))
	}
	if p.find, err = findOptions(p.opts.Find); err != nil {
		return nil, fmt.Errorf("Options.Find: %w", err)
	}
	if p.opts.Find != nil {
		p.opts.Find = &options.FindOptionsBuilder{Opts: slices.Clone(p.opts.Find.Opts)}
	}
	if p.find.Projection != nil {
		raw, err := p.marshal(p.find.Projection)
		if err == nil {
			p.projection, err = planProjection(p.find.Projection, raw, p.order.paths(), p.opts.Strategy)
		}
		if err != nil {
			return nil, fmt.Errorf("Options.Find: projection: %w", err)
		}
	}
	var collation []byte
	if c := p.find.Collation; c != nil {
		p.collated = c.Locale != "simple"
		if collation, err = bson.Marshal(c); err != nil {
			return nil, fmt.Errorf("Options.Find: collation: %w", err)
		}
	}
	sorted, err := bson.Marshal(p.order.document(false))
	if err != nil {
		return nil, err
	}
	var let []byte
	if p.find.Let != nil {
		raw, err := p.marshal(p.find.Let)
		if err == nil {
			let, err = canonical(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("Options.Find: let: %w", err)
		}
	}
	p.orderHash = hashOf([]byte(coll.Database().Name()), []byte(coll.Name()), sorted, collation, let)
	return p, nil
}

// Indexes gives the index that serves the pages: Options.Equality, then the sort
// with `_id`, under the collation of Options.Find. A sort by `_id` alone needs
// none, and cannot have another one: under a collation it is done in memory,
// except after tokens of a Uniform `_id` that is no string.
func (p *Pager[T]) Indexes() []mongo.IndexModel {
	if len(p.order) == 1 && p.order[0].path == "_id" && len(p.opts.Equality) == 0 {
		return nil
	}
	var keys bson.D
	for _, path := range p.opts.Equality {
		keys = append(keys, bson.E{Key: path, Value: 1})
	}
	model := mongo.IndexModel{Keys: append(keys, p.order.document(false)...)}
	if c := p.find.Collation; c != nil {
		collation := *c
		model.Options = options.Index().SetCollation(&collation)
	}
	return []mongo.IndexModel{model}
}

// EnsureIndexes creates the index of Indexes if it is missing. An index on the
// same fields with other options is ErrIndexConflict; none is dropped.
//
// Cost: 1 round trip (listIndexes), 2 if it has to be created, none for a sort by
// `_id` alone.
func (p *Pager[T]) EnsureIndexes(ctx context.Context) error {
	models := p.Indexes()
	if len(models) == 0 {
		return nil
	}
	if err := indexes.Ensure(ctx, p.coll, models); err != nil {
		return fmt.Errorf("paging: %w", err)
	}
	return nil
}

// ShardKey recommends a shard key: Options.Equality and `_id`, so that one shard
// can hold the whole list; without Equality a hashed `_id`.
func (p *Pager[T]) ShardKey() bson.D {
	if len(p.opts.Equality) == 0 {
		return bson.D{{Key: "_id", Value: "hashed"}}
	}
	var out bson.D
	for _, path := range p.opts.Equality {
		out = append(out, bson.E{Key: path, Value: 1})
	}
	if !slices.Contains(p.opts.Equality, "_id") {
		out = append(out, bson.E{Key: "_id", Value: 1})
	}
	return out
}

// keys reads the sort values of a document and refuses those that have no order.
func (p *Pager[T]) keys(doc bson.Raw) ([]bson.RawValue, error) {
	values, err := p.order.values(doc)
	if err != nil {
		return nil, err
	}
	if p.collated && !p.opts.DistinctIDs && holdsText(values[p.order.index("_id")]) {
		return nil, fmt.Errorf("%w: _id %s is text and the sort has locale %q; see Options.DistinctIDs",
			ErrCollatedID, describeID(doc), p.find.Collation.Locale)
	}
	return values, nil
}

// fits refuses values that no token can hold.
func (p *Pager[T]) fits(doc bson.Raw, values []bson.RawValue) error {
	size, largest := 0, 0
	for i, v := range values {
		size += len(v.Value) + valueOverhead
		if len(v.Value) > len(values[largest].Value) {
			largest = i
		}
	}
	if size > maxValues {
		return fmt.Errorf("%w: sort field %q of the document with _id %.100s is too large for a token (%d bytes)",
			ErrUnsortable, p.order[largest].path, describeID(doc), len(values[largest].Value))
	}
	return nil
}

// source is what is paged over: a filter, or a pipeline.
type source struct {
	coll       *mongo.Collection
	find       *options.FindOptions
	builder    *options.FindOptionsBuilder
	projection any
	hash       hash
	filter     any   // nil: everything; also that of a pipeline that only filters
	split      []any // the filter in parts, each with one value for the fields of Options.Equality
	pipeline   mongo.Pipeline
}

func (p *Pager[T]) source(over any) (*source, error) {
	src := &source{coll: p.coll, find: &p.find, builder: p.opts.Find, projection: p.projection.send}
	switch over := over.(type) {
	case nil:
		return p.source(bson.D{})
	case bson.D:
		if over == nil { // which does not encode
			return p.source(bson.D{})
		}
	case mongo.Pipeline:
		return src, p.overPipeline(src, over)
	case []bson.D:
		return src, p.overPipeline(src, over)
	}
	raw, err := p.marshal(over)
	if errors.As(err, new(bson.TransitionError)) { // it encodes to no document
		return nil, fmt.Errorf("paging: %w: over must be a filter or a mongo.Pipeline, not %T", ErrInvalidRequest, over)
	}
	if err != nil {
		return nil, fmt.Errorf("paging: %w: filter: %w", ErrInvalidRequest, err)
	}
	encoded, err := canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("paging: filter: %w", err)
	}
	src.hash = hashOf([]byte("filter"), encoded)
	if len(raw) > 5 {
		p.filterBy(src, over, raw)
	}
	return src, nil
}

func (p *Pager[T]) filterBy(src *source, filter any, raw bson.Raw) {
	src.filter = filter
	if p.opts.Strategy == Merged && len(p.opts.Equality) > 0 {
		src.split = split(raw, p.opts.Equality)
	}
}

func (p *Pager[T]) overPipeline(src *source, pipeline mongo.Pipeline) error {
	raw, err := p.marshal(bson.D{{Key: "pipeline", Value: pipeline}})
	if err != nil {
		return fmt.Errorf("paging: %w: pipeline: %w", ErrInvalidRequest, err)
	}
	encoded, err := canonical(raw)
	if err != nil {
		return fmt.Errorf("paging: pipeline: %w", err)
	}
	for _, refused := range []struct {
		name string
		set  bool
	}{
		{"projection (add a $project stage)", p.find.Projection != nil},
		{"allowPartialResults", p.find.AllowPartialResults != nil},
		{"noCursorTimeout", p.find.NoCursorTimeout != nil},
		{"oplogReplay", p.find.OplogReplay != nil},
	} {
		if refused.set {
			return fmt.Errorf("paging: Options.Find: %s does not exist for a pipeline", refused.name)
		}
	}
	src.hash = hashOf([]byte("pipeline"), encoded)
	src.pipeline = pipeline
	if src.pipeline == nil {
		src.pipeline = mongo.Pipeline{}
	}
	// A $match behind another would hide the root-level $or from the planner:
	// a pipeline that only filters is a filter. $text cannot stand inside $or.
	var filters bson.A
	for _, stage := range pipeline {
		if len(stage) != 1 || stage[0].Key != "$match" {
			return nil
		}
		filters = append(filters, stage[0].Value)
	}
	switch {
	case bytes.Contains(raw, []byte("$text\x00")):
	case len(filters) == 1:
		if match, ok := raw.Lookup("pipeline", "0", "$match").DocumentOK(); ok {
			p.filterBy(src, filters[0], match)
		}
	case len(filters) > 1:
		src.filter = bson.D{{Key: "$and", Value: filters}}
	}
	return nil
}

// stages is the aggregation for some branches. A limit of 0 is none.
func (s *source) stages(branches []bson.D, sort bson.D, skip, limit int64) mongo.Pipeline {
	out := slices.Clone(s.pipeline)
	if out == nil {
		out = mongo.Pipeline{}
	}
	switch {
	case s.filter != nil && (s.pipeline == nil || branches != nil):
		out = mongo.Pipeline{{{Key: "$match", Value: s.where(branches)}}}
	case branches != nil:
		out = append(out, bson.D{{Key: "$match", Value: s.where(branches)}})
	}
	if sort != nil {
		out = append(out, bson.D{{Key: "$sort", Value: sort}})
	}
	if skip > 0 {
		out = append(out, bson.D{{Key: "$skip", Value: skip}})
	}
	if limit > 0 {
		out = append(out, bson.D{{Key: "$limit", Value: limit}})
	}
	return out
}

// open sends one query. keysOnly asks for no more than `_id`.
func (s *source) open(ctx context.Context, branches []bson.D, sort bson.D, skip, limit int64, keysOnly bool) (*mongo.Cursor, error) {
	// With a first batch larger than the limit the server closes the cursor
	// itself, and a page is one round trip at any size.
	batch := int32(min(limit+1, math.MaxInt32))
	if s.find.BatchSize != nil {
		batch = *s.find.BatchSize
	}
	if s.pipeline != nil {
		stages := s.stages(branches, sort, skip, limit)
		if keysOnly {
			stages = append(stages, bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}})
		}
		return s.coll.Aggregate(ctx, stages, s.aggregateOptions().SetBatchSize(batch))
	}
	opts := options.Find()
	if s.builder != nil {
		opts.Opts = slices.Clone(s.builder.Opts)
	}
	opts.SetSort(sort).SetLimit(limit).SetBatchSize(batch)
	switch {
	case keysOnly:
		opts.SetProjection(bson.D{{Key: "_id", Value: 1}})
	case s.find.Projection != nil:
		opts.SetProjection(s.projection)
	}
	if skip > 0 {
		opts.SetSkip(skip)
	}
	return s.coll.Find(ctx, s.where(branches), opts)
}

// aggregateOptions carries the options of Find over to an aggregation.
func (s *source) aggregateOptions() *options.AggregateOptionsBuilder {
	out := options.Aggregate()
	f := s.find
	if f.AllowDiskUse != nil {
		out.SetAllowDiskUse(*f.AllowDiskUse)
	}
	if f.Collation != nil {
		out.SetCollation(f.Collation)
	}
	if f.Comment != nil {
		out.SetComment(s.comment())
	}
	if f.Hint != nil {
		out.SetHint(f.Hint)
	}
	if f.Let != nil {
		out.SetLet(f.Let)
	}
	return out
}

// comment undoes the pointer that the driver's builder puts around it.
func (s *source) comment() any {
	if pointer, ok := s.find.Comment.(*any); ok {
		return *pointer
	}
	return s.find.Comment
}

// closeCursor also closes the server's side when ctx is over already.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	if cursor.ID() == 0 {
		_ = cursor.Close(ctx)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = cursor.Close(ctx)
}
