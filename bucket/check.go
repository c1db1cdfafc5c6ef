package bucket

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// A Problem is something in a bucket that does not agree with its measurements.
type Problem struct {
	// ID is the bucket's _id, Series and Start its place.
	ID     bson.RawValue
	Series bson.RawValue
	Start  time.Time
	// Kind says what is wrong.
	Kind ProblemKind
	// Field is the field of the bucket that is wrong.
	Field string
	// Have is what the field holds, zero if it is missing, and Want what it
	// should hold, zero if nothing.
	Have, Want bson.RawValue
}

func (p Problem) String() string {
	text := fmt.Sprintf("bucket %s: %s: %s", rawvalue.Text(p.ID), p.Kind, p.Field)
	if p.Have.Type != 0 || p.Want.Type != 0 {
		text += " is " + rawvalue.Text(p.Have)
	}
	if p.Want.Type != 0 {
		text += ", want " + rawvalue.Text(p.Want)
	}
	return text
}

// ProblemKind classifies problems.
type ProblemKind string

const (
	// WrongAggregate is a count, sum or other aggregate, or an end, that does
	// not follow from the measurements. Repair computes it anew.
	WrongAggregate ProblemKind = "wrong aggregate"
	// OutsideWindow is a measurement whose time is outside the bucket's window
	// or no date at all, or a start that begins no window: a range read misses
	// it. Repair leaves it; delete and append, or adopt anew.
	OutsideWindow ProblemKind = "outside window"
	// DuplicateID is an ID that a bucket holds twice (of the buckets of a
	// window the unique index keeps it out). Repair leaves it.
	DuplicateID ProblemKind = "duplicate ID"
	// NotArray is an ArrayField that holds something else; nothing more of the
	// bucket is looked at. Repair leaves it.
	NotArray ProblemKind = "not an array"
)

// Check reads every bucket and yields what is wrong. Sums of doubles may differ
// by rounding. The server computes; only aggregates leave it.
//
// Cost: 1 round trip and further ones for many buckets; scans the collection.
func (b *Buckets[S, M]) Check(ctx context.Context) iter.Seq2[Problem, error] {
	return func(yield func(Problem, error) bool) {
		err := b.inspect(ctx, func(problems []Problem) (bool, error) {
			for _, p := range problems {
				if !yield(p, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(Problem{}, fmt.Errorf("bucket: check: %w", err))
		}
	}
}

// RepairOptions bounds Repair.
type RepairOptions struct {
	// BatchSize is how many buckets one write repairs. Default 100.
	BatchSize int
	// Progress is called after each batch with the buckets repaired so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // buckets read
	Repaired  int64 `json:"repaired"`  // buckets with aggregates computed anew
	Remaining int64 `json:"remaining"` // problems it cannot repair, see Check
}

// Repair computes the aggregates of buckets that Check finds wrong anew, each
// from its own measurements within one write, so that no append at the same
// time is lost or counted twice. It can be stopped and run again.
//
// Cost: a Check, and 1 round trip for each batch of BatchSize wrong buckets,
// found by _id.
func (b *Buckets[S, M]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, 100, &o.Progress); err != nil {
		return result, fmt.Errorf("bucket: repair: %w", err)
	}
	var models []mongo.WriteModel
	flush := func() error {
		if len(models) == 0 {
			return nil
		}
		done, err := b.coll.BulkWrite(ctx, models)
		if err != nil {
			return err
		}
		models = models[:0]
		result.Repaired += done.MatchedCount
		o.Progress(result.Repaired)
		return nil
	}
	err := b.inspect(ctx, func(problems []Problem) (bool, error) {
		result.Examined++
		wrong := false
		for _, p := range problems {
			if p.Kind == WrongAggregate {
				wrong = true
			} else {
				result.Remaining++
			}
		}
		if !wrong {
			return true, nil
		}
		p := problems[0]
		update := mongo.Pipeline{b.recount()}
		if start, end := b.window.Bounds(p.Start); b.end != "" && start.Equal(p.Start) {
			update = append(update, bson.D{{Key: "$set", Value: bson.D{{Key: b.end, Value: b.endOf(end)}}}})
		}
		models = append(models, mongo.NewUpdateOneModel().SetUpdate(update).SetFilter(bson.D{
			{Key: "_id", Value: b.equal(p.ID)}, {Key: b.series, Value: b.equal(p.Series)}, {Key: b.start, Value: p.Start},
		}))
		if len(models) < o.BatchSize {
			return true, nil
		}
		return true, flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return result, fmt.Errorf("bucket: repair: %w", err)
	}
	return result, nil
}

// inspect calls visit with the problems of each bucket.
func (b *Buckets[S, M]) inspect(ctx context.Context, visit func([]Problem) (bool, error)) error {
	isArray := op("$isArray", array(b.opts.ArrayField))
	measurements := op("$cond", isArray, array(b.opts.ArrayField), bson.A{})
	times := bson.D{{Key: "$filter", Value: bson.D{
		{Key: "input", Value: mapped(measurements, "$$this."+b.opts.TimeField)},
		{Key: "cond", Value: op("$eq", op("$type", "$$this"), "date")},
	}}}
	type check struct {
		field string
		scale string // result key of what its rounding is relative to
	}
	checks := []check{{field: b.opts.CountField}}
	have := bson.A{"$" + b.opts.CountField}
	want := bson.A{op("$size", measurements)}
	if b.opts.BytesField != "" {
		checks = append(checks, check{field: b.opts.BytesField})
		have = append(have, "$"+b.opts.BytesField)
		want = append(want, bytesOf(measurements))
	}
	project := bson.D{
		{Key: "s", Value: "$" + b.series}, {Key: "w", Value: "$" + b.start},
		{Key: "from", Value: op("$min", times)}, {Key: "to", Value: op("$max", times)},
		{Key: "timed", Value: op("$size", times)},
		{Key: "other", Value: op("$cond", isArray, "$$REMOVE", "$"+b.opts.ArrayField)},
	}
	if b.end != "" {
		project = append(project, bson.E{Key: "end", Value: "$" + b.end})
	}
	if b.opts.IDField != "" {
		ids := mapped(measurements, "$$this."+b.opts.IDField)
		project = append(project, bson.E{Key: "repeated", Value: op("$subtract",
			op("$size", ids), op("$size", op("$setUnion", ids, bson.A{})))})
	}
	computed := b.computed(measurements, false)
	n := 0
	for i, v := range b.opts.Values {
		scale := ""
		if v.Sum != "" {
			// The sum's rounding is relative to the sum of magnitudes.
			scale = resultKey(i, "scale")
			magnitudes := bson.D{{Key: "$filter", Value: bson.D{
				{Key: "input", Value: mapped(measurements, "$$this."+v.Field)},
				{Key: "cond", Value: op("$isNumber", "$$this")},
			}}}
			project = append(project, bson.E{Key: scale, Value: op("$sum", mapped(magnitudes, op("$abs", inexact("$$this"))))})
		}
		for _, a := range v.aggregates() {
			c := check{field: a.path}
			if a.name == "sum" {
				c.scale = scale
			}
			checks = append(checks, c)
			have = append(have, "$"+a.path)
			want = append(want, computed[n].Value)
			n++
		}
	}
	// As fields h0, w0, …: an array could not tell missing from null.
	for i := range checks {
		project = append(project,
			bson.E{Key: fmt.Sprintf("h%d", i), Value: have[i]}, bson.E{Key: fmt.Sprintf("w%d", i), Value: want[i]})
	}
	cursor, err := b.coll.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: b.start, Value: bson.D{{Key: "$type", Value: "date"}}}}}},
		{{Key: "$project", Value: project}},
	})
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		doc := append(bson.Raw(nil), cursor.Current...)
		base := Problem{ID: doc.Lookup("_id"), Series: rawvalue.Lookup(doc, "s"), Start: dateOf(doc.Lookup("w"))}
		var problems []Problem
		report := func(kind ProblemKind, field string, have, want bson.RawValue) {
			p := base
			p.Kind, p.Field, p.Have, p.Want = kind, field, have, want
			problems = append(problems, p)
		}
		if other := rawvalue.Lookup(doc, "other"); other.Type != 0 {
			report(NotArray, b.opts.ArrayField, other, bson.RawValue{})
			if more, err := visit(problems); err != nil || !more {
				return err
			}
			continue
		}
		start, end := b.window.Bounds(base.Start)
		if !start.Equal(base.Start) {
			report(OutsideWindow, b.start, doc.Lookup("w"), dateValue(start))
		}
		for _, key := range []string{"from", "to"} {
			if at := rawvalue.Lookup(doc, key); at.Type == bson.TypeDateTime && (dateOf(at).Before(start) || !dateOf(at).Before(end)) {
				report(OutsideWindow, b.opts.ArrayField+"."+b.opts.TimeField, at, bson.RawValue{})
			}
		}
		if b.end != "" && start.Equal(base.Start) {
			if have, want := rawvalue.Lookup(doc, "end"), dateValue(b.endOf(end)); !have.Equal(want) {
				report(WrongAggregate, b.end, have, want)
			}
		}
		if n, _ := rawvalue.Lookup(doc, "repeated").AsInt64OK(); n > 0 {
			report(DuplicateID, b.idPath(), bson.RawValue{}, bson.RawValue{})
		}
		size, _ := rawvalue.Lookup(doc, "w0").AsInt64OK()
		if timed, _ := rawvalue.Lookup(doc, "timed").AsInt64OK(); timed < size {
			report(OutsideWindow, b.opts.ArrayField+"."+b.opts.TimeField, bson.RawValue{}, bson.RawValue{})
		}
		for i, c := range checks {
			have, want := rawvalue.Lookup(doc, fmt.Sprintf("h%d", i)), rawvalue.Lookup(doc, fmt.Sprintf("w%d", i))
			if want.Type == bson.TypeNull {
				want = bson.RawValue{}
			}
			if !agree(have, want, rawvalue.Lookup(doc, c.scale), size) {
				report(WrongAggregate, c.field, have, want)
			}
		}
		more, err := visit(problems)
		if err != nil || !more {
			return err
		}
	}
	return cursor.Err()
}

// agree compares numbers by value, samples by both their fields. Doubles may
// differ by what adding up a bucket of this size in two ways rounds, relative to
// scale or themselves.
func agree(have, want, scale bson.RawValue, size int64) bool {
	if a, ok := have.DocumentOK(); ok {
		b, ok := want.DocumentOK()
		return ok && a.Lookup(timeKey).Equal(b.Lookup(timeKey)) &&
			agree(a.Lookup(valueKey), b.Lookup(valueKey), bson.RawValue{}, 0)
	}
	x, xOK := finite(have)
	y, yOK := finite(want)
	if !xOK || !yOK {
		return have.Type == want.Type && have.Equal(want)
	}
	if !less(x, y) && !less(y, x) {
		return true
	}
	relative := 0.0
	switch want.Type {
	case bson.TypeDouble:
		relative = 0x1p-51 * float64(size+1)
	case bson.TypeDecimal128:
		relative = 1e-33 * float64(size+1)
	}
	magnitude := math.Abs(float(y))
	if s, ok := finite(scale); ok {
		magnitude = float(s)
	}
	return math.Abs(float(add(y, negated(x)))) <= relative*magnitude
}

func negated(a any) any {
	switch a := a.(type) {
	case int32:
		return -int64(a)
	case int64:
		if a == math.MinInt64 {
			return -float64(a)
		}
		return -a
	case bson.Decimal128:
		m, e := decimal(a)
		return toDecimal(m.Neg(m), e)
	}
	return -float(a)
}

func dateValue(t time.Time) bson.RawValue {
	kind, data, _ := bson.MarshalValue(bson.NewDateTimeFromTime(t))
	return bson.RawValue{Type: kind, Value: data}
}
