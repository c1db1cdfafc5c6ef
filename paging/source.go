package paging

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// maxRanges is how many ranges one find may have. Each is planned by itself, and
// beyond as many the server merges none of its own accord.
const maxRanges = 200

// notInOr are the conditions that cannot stand inside $or.
var notInOr = []string{"$text", "$near", "$nearSphere"}

// source is what is paged over: a filter, or a pipeline.
type source struct {
	hash     hash
	filter   any            // nil: everything
	apart    bool           // the filter holds one of notInOr
	parts    []any          // the filter for each value of Options.Equality, if there are several
	spread   bool           // a find may hold all parts
	pipeline mongo.Pipeline // nil: a filter
}

func (p *core) source(over any) (*source, error) {
	switch d := over.(type) {
	case mongo.Pipeline:
		return p.overPipeline(d)
	case []bson.D:
		return p.overPipeline(d)
	}
	over = expr.And(over)
	raw, err := p.codec.Document(over)
	if errors.As(err, new(bson.TransitionError)) { // it encodes to no document
		return nil, fault.Invalid("over must be a filter or a mongo.Pipeline, not %T", over)
	}
	if err == nil && p.scope != nil {
		over = p.scope.Filter(over)
		raw, err = p.codec.Document(over)
	}
	if err != nil {
		return nil, err
	}
	src := &source{
		hash:   hashOf(value.Embedded(raw), asFilter),
		apart:  inside(value.Embedded(raw), func(e bson.RawElement) bool { return slices.Contains(notInOr, e.Key()) }),
		spread: !p.opts.Sequential,
	}
	if len(raw) > 5 {
		src.filter = over
	}
	if len(p.opts.Equality) > 0 && !src.apart {
		src.parts, err = split(conditions(nil, raw), p.opts.Equality)
	}
	return src, err
}

func (p *core) overPipeline(pipeline mongo.Pipeline) (*source, error) {
	pipeline = p.scope.Stages(append(mongo.Pipeline{}, pipeline...))
	raw, err := p.codec.Document(expr.D("pipeline", pipeline))
	if err != nil {
		return nil, err
	}
	err = refuse("does not exist for a pipeline", map[string]bool{
		"projection (add a $project stage)": p.find.Projection != nil,
		"allowPartialResults":               p.find.AllowPartialResults != nil,
		"noCursorTimeout":                   p.find.NoCursorTimeout != nil,
		"oplogReplay":                       p.find.OplogReplay != nil,
	})
	if err != nil {
		return nil, fault.Invalid("Options.Find: %w", err)
	}
	return &source{hash: hashOf(raw.Lookup("pipeline"), asExpression), pipeline: pipeline}, nil
}

// conditions lists what a filter asks at its top and inside $and.
func conditions(out bson.D, filter bson.Raw) bson.D {
	elements, _ := filter.Elements()
	for _, e := range elements {
		if list, ok := e.Value().ArrayOK(); ok && e.Key() == "$and" {
			values, _ := list.Values()
			for _, v := range values {
				inner, _ := v.DocumentOK()
				out = conditions(out, inner)
			}
		} else {
			out = append(out, expr.Element(e.Key(), e.Value()))
		}
	}
	return out
}

// split takes a filter that fixes the fields to several values ($in) apart into
// filters that fix each to one. A planner that is to merge ranges needs points in
// front of the sort. They are nil if every field has one value, or if there are too
// many values; and it is an error if a field has none, or a range.
func split(all bson.D, fields []string) ([]any, error) {
	parts := []bson.D{{}}
	for _, field := range fields {
		var values []bson.RawValue
		i := slices.IndexFunc(all, func(e bson.E) bool {
			if e.Key == field {
				values = points(e.Value.(bson.RawValue))
			}
			return values != nil
		})
		if i < 0 {
			return nil, fault.Invalid("Options.Equality: the filter must give %q a value, or values by $in", field)
		}
		if len(values) == 0 || len(values)*len(parts) > maxRanges {
			return nil, nil
		}
		doc, _ := all[i].Value.(bson.RawValue).DocumentOK()
		if _, err := doc.IndexErr(1); err != nil { // else something stands beside $in
			all = slices.Delete(all, i, i+1)
		}
		var longer []bson.D
		for _, part := range parts {
			for _, v := range values {
				longer = append(longer, append(slices.Clone(part), expr.Element(field, value.Equal(v))))
			}
		}
		parts = longer
	}
	if len(parts) == 1 {
		return nil, nil // the filter as it is
	}
	out, filters := make([]any, len(parts)), []any{nil}
	for _, e := range all {
		filters = append(filters, bson.D{e})
	}
	for i, part := range parts {
		filters[0] = part
		out[i] = expr.And(filters...)
	}
	return out, nil
}

// points gives the values that a condition fixes a field to; nil if it is a range.
func points(condition bson.RawValue) (out []bson.RawValue) {
	values := []bson.RawValue{condition}
	if doc, ok := condition.DocumentOK(); ok && operators(doc) {
		if v := doc.Lookup("$eq"); v.Type != 0 {
			return []bson.RawValue{v}
		}
		list, ok := doc.Lookup("$in").ArrayOK()
		if !ok {
			return nil
		}
		values, _ = list.Values()
	}
	out = []bson.RawValue{}
	seen := map[string]bool{}
	for _, v := range values {
		if v.Type == bson.TypeRegex {
			return nil
		}
		if key := value.Key(v); !seen[key] {
			seen[key], out = true, append(out, v)
		}
	}
	return out
}

// operators reports whether a document in a filter is a set of operators, and not
// a value.
func operators(doc bson.Raw) bool {
	first, err := doc.IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$") &&
		!slices.Contains([]string{"$ref", "$id", "$db"}, first.Key())
}

// where is the condition of a read: the filter of the source in some branches.
// nil branches means no keyset condition; none means that nothing matches. The
// filter is put into every branch: what the root-level $or holds is then complete,
// and the server plans each branch by itself.
func (s *source) where(branches []bson.D) any {
	switch {
	case branches == nil:
		return expr.And(s.filter)
	case len(branches) == 0:
		return expr.D("_id", expr.Op("$in", bson.A{}))
	case s.apart:
		return expr.And(s.filter, or(branches, nil))
	case s.spread && len(s.parts) > 0 && len(s.parts)*len(branches) <= maxRanges:
		return or(branches, s.parts...)
	}
	return or(branches, s.filter)
}

func or(branches []bson.D, filters ...any) any {
	parts := make(bson.A, 0, len(branches)*len(filters))
	for _, branch := range branches {
		for _, filter := range filters {
			parts = append(parts, expr.And(filter, branch))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return expr.Op("$or", parts)
}

// stages is the aggregation for some branches. A limit of 0 is none.
func (s *source) stages(branches []bson.D, sort bson.D, skip, limit int64) mongo.Pipeline {
	out := append(mongo.Pipeline{}, s.pipeline...)
	if s.filter != nil || branches != nil {
		out = append(out, expr.Op("$match", s.where(branches)))
	}
	if sort != nil {
		out = append(out, expr.Op("$sort", sort))
	}
	if skip > 0 {
		out = append(out, expr.Op("$skip", skip))
	}
	if limit > 0 {
		out = append(out, expr.Op("$limit", limit))
	}
	return out
}

func (p *core) open(ctx context.Context, src *source, branches []bson.D, window span) (*mongo.Cursor, error) {
	// With a first batch larger than the limit the server closes the cursor
	// itself, and a page is one round trip at any size.
	batch := int32(min(window.limit+1, math.MaxInt32))
	if p.find.BatchSize != nil {
		batch = *p.find.BatchSize
	}
	sort := p.order.document(window.backward)
	if src.pipeline != nil {
		stages := src.stages(branches, sort, window.skip, window.limit)
		return p.coll.Aggregate(ctx, stages, p.aggregateOptions().SetBatchSize(batch))
	}
	find := p.find
	find.Sort, find.Limit, find.BatchSize = sort, &window.limit, &batch
	if window.skip > 0 {
		find.Skip = &window.skip
	}
	return p.coll.Find(ctx, src.where(branches), &options.FindOptionsBuilder{Opts: exactly(find)})
}

func (p *core) aggregateOptions() *options.AggregateOptionsBuilder {
	f := p.find
	return &options.AggregateOptionsBuilder{Opts: exactly(options.AggregateOptions{
		AllowDiskUse: f.AllowDiskUse, Collation: f.Collation, Comment: f.Comment, Hint: f.Hint, Let: f.Let,
	})}
}

// exactly is what an options builder of the driver holds to give these.
func exactly[T any](all T) []func(*T) error {
	return []func(*T) error{func(out *T) error { *out = all; return nil }}
}
