package bucket

import (
	"context"
	"fmt"
	"iter"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Repair solves WrongAggregate.
const (
	// WrongAggregate is a count, sum or other aggregate, or an end, that does
	// not follow from the measurements. Repair computes it anew.
	WrongAggregate mongopatterns.ProblemKind = "wrong aggregate"
	// OutsideWindow is a measurement whose time is outside the bucket's window
	// or no date at all: a range read misses it. Delete and append, or adopt anew.
	OutsideWindow mongopatterns.ProblemKind = "outside window"
	// BadStart is a start that is no date or begins no window: reads miss the
	// document. Adopt of Slots converts times that are stored as strings.
	BadStart mongopatterns.ProblemKind = "bad start"
	// DuplicateID is an ID that a bucket holds twice (of the buckets of a
	// window the unique index keeps it out).
	DuplicateID mongopatterns.ProblemKind = "duplicate ID"
	// NotArray is an ArrayField that holds something else; nothing more of the
	// bucket is looked at.
	NotArray mongopatterns.ProblemKind = "not an array"
)

// Check reads the buckets that work selects and yields what is wrong. Sums of
// doubles may differ by rounding. The check runs on the server; measurements are
// not sent to the client.
//
// Cost: 1 round trip a batch; scans the collection by _id.
func (b *Buckets[S, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := b.core
	checks := c.checks()
	return fault.Seq("bucket: check", maintain.Check(ctx, c.coll, work, c.scan(checks),
		func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
			for _, doc := range batch {
				all = append(all, c.problems(doc, checks)...)
			}
			return all, nil
		}))
}

// Repair computes the aggregates of buckets that Check finds wrong anew, each
// from its own measurements within one write, so that no append at the same
// time is lost or counted twice. Remaining are the problems that it cannot solve.
//
// Cost: a Check, and 1 round trip for each batch with wrong buckets, found by
// _id.
func (b *Buckets[S, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: repair")
	c := b.core
	checks := c.checks()
	return c.repair(ctx, work, c.scan(checks), func(doc bson.Raw) ([]mongopatterns.Problem, mongo.Pipeline) {
		return c.problems(doc, checks), mongo.Pipeline{c.recount()}
	})
}

// repair is the Repair of every layout: inspect gives a document's problems and what
// solves WrongAggregate but for the end.
func (f *frame) repair(ctx context.Context, work *mongopatterns.Work, scan maintain.Scan,
	inspect func(doc bson.Raw) ([]mongopatterns.Problem, mongo.Pipeline)) (mongopatterns.Result, error) {
	return maintain.Run(ctx, f.coll, work, scan, func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, doc := range batch {
			problems, update := inspect(doc)
			wrong := false
			for _, p := range problems {
				if p.Kind == WrongAggregate {
					wrong = true
				} else {
					result.Remaining++
				}
			}
			if !wrong {
				continue
			}
			if _, end, bad := f.bounds(doc); f.end != "" && (len(bad) == 0 || bad[0].Kind != BadStart) {
				update = append(update, bson.D{{Key: "$set", Value: bson.D{{Key: f.end, Value: f.endOf(end)}}}})
			}
			models = append(models, mongo.NewUpdateOneModel().SetFilter(f.itself(doc)).SetUpdate(update))
		}
		if w.DryRun || len(models) == 0 {
			result.Done += int64(len(models))
			return nil
		}
		done, err := f.coll.BulkWrite(ctx, models)
		if err == nil {
			result.Done += done.MatchedCount
			result.Skipped += int64(len(models)) - done.MatchedCount // deleted meanwhile
		}
		return err
	})
}

// A check compares a field of the bucket with what it should hold.
type check struct {
	field string
	want  any
	scale string // where the scan has what its rounding is relative to; "" for itself
	mixed string // where the scan has whether doubles are among them
}

// checks are all fields that follow from the measurements. The first is the count.
func (c *arrays) checks() []check {
	all := c.measurements()
	out := []check{{field: c.opts.CountField, want: expr.Op("$size", all)}}
	if c.opts.BytesField != "" {
		out = append(out, check{field: c.opts.BytesField, want: bytesOf(all)})
	}
	computed := c.computed(all, false)
	for i, v := range c.opts.Values {
		for _, a := range v.aggregates() {
			k := check{field: a.path, want: computed[0].Value}
			switch a.name {
			case "sum":
				k.scale, k.mixed = "~"+resultKey(i, "scale"), "~"+resultKey(i, "double")
			case "total":
				k.scale = "~" + resultKey(i, "scale")
			}
			out, computed = append(out, k), computed[1:]
		}
	}
	return out
}

// measurements is the bucket's array, empty if it is none.
func (c *arrays) measurements() any { return expr.Array(expr.Field(c.opts.ArrayField)) }

// scan reads what problems looks at.
func (c *arrays) scan(checks []check) maintain.Scan {
	all := c.measurements()
	times := expr.Filter(expr.Map(all, "m", at(c.opts.TimeField)), "t", expr.IsType(expr.Var("t"), "date"))
	project := bson.D{
		{Key: c.series, Value: 1}, {Key: c.start, Value: 1},
		{Key: "~from", Value: expr.Op("$min", times)}, {Key: "~to", Value: expr.Op("$max", times)},
		{Key: "~timed", Value: expr.Op("$size", times)},
		{Key: "~other", Value: expr.Cond(expr.Op("$isArray", c.array()), "$$REMOVE", expr.Field(c.opts.ArrayField))},
	}
	if c.end != "" {
		project = append(project, bson.E{Key: c.end, Value: 1})
	}
	if c.opts.IDField != "" {
		ids := expr.Map(all, "m", at(c.opts.IDField))
		project = append(project, bson.E{Key: "~repeated", Value: expr.Op("$subtract",
			expr.Op("$size", ids), expr.Op("$size", expr.Op("$setUnion", ids, bson.A{})))})
	}
	for i, v := range c.opts.Values {
		numbers := expr.Filter(expr.Map(all, "m", at(v.Field)), "n", expr.Op("$isNumber", expr.Var("n")))
		project = append(project,
			bson.E{Key: "~" + resultKey(i, "scale"), Value: expr.Op("$sum", expr.Map(numbers, "n", expr.Op("$abs", exact(expr.Var("n")))))},
			bson.E{Key: "~" + resultKey(i, "double"), Value: expr.Op("$in", "double", expr.Map(numbers, "n", expr.Op("$type", c.summand(expr.Var("n")))))})
	}
	// As fields ~h0, ~w0, …: an array could not tell missing from null.
	for i, k := range checks {
		project = append(project,
			bson.E{Key: fmt.Sprintf("~h%d", i), Value: expr.Field(k.field)}, bson.E{Key: fmt.Sprintf("~w%d", i), Value: k.want})
	}
	return maintain.Scan{Projection: project}
}

// problems compares a bucket with what scan computed of it.
func (c *arrays) problems(doc bson.Raw, checks []check) []mongopatterns.Problem {
	start, end, problems := c.bounds(doc)
	report := func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue) {
		problems = append(problems, c.problem(doc, kind, field, have, want))
	}
	var none bson.RawValue
	if other := value.Lookup(doc, "~other"); other.Type != 0 {
		report(NotArray, c.opts.ArrayField, other, none)
		return problems
	}
	timePath := c.opts.ArrayField + "." + c.opts.TimeField
	size, _ := value.Lookup(doc, "~w0").AsInt64OK()
	if timed, _ := value.Lookup(doc, "~timed").AsInt64OK(); timed < size {
		report(OutsideWindow, timePath, none, none)
	}
	for _, key := range []string{"~from", "~to"} {
		if at := value.Lookup(doc, key); !start.IsZero() && at.Type == bson.TypeDateTime && (dateOf(at).Before(start) || !dateOf(at).Before(end)) {
			report(OutsideWindow, timePath, at, none)
		}
	}
	if n, _ := value.Lookup(doc, "~repeated").AsInt64OK(); n > 0 {
		report(DuplicateID, c.idPath(), none, none)
	}
	for i, k := range checks {
		have, want := value.Lookup(doc, fmt.Sprintf("~h%d", i)), value.Lookup(doc, fmt.Sprintf("~w%d", i))
		if want.Type == bson.TypeNull {
			want = none
		}
		mixed, _ := value.Lookup(doc, k.mixed).BooleanOK()
		scale := want
		if k.scale != "" {
			scale = value.Lookup(doc, k.scale)
		}
		if !agree(have, want, scale, size, mixed) {
			report(WrongAggregate, k.field, have, want)
		}
	}
	return problems
}

// agree compares numbers by value, samples by both their fields. Doubles and
// Decimal128 may differ by what adding up so many in two ways rounds, relative to
// scale; a Decimal128 to which $inc adds doubles by what that rounds to 15 digits.
func agree(have, want, scale bson.RawValue, size int64, mixed bool) bool {
	if a, ok := have.DocumentOK(); ok {
		b, ok := want.DocumentOK()
		return ok && a.Lookup(timeKey).Equal(b.Lookup(timeKey)) &&
			agree(a.Lookup(valueKey), b.Lookup(valueKey), bson.RawValue{}, 0, false)
	}
	x, y, magnitude := value.Number(have), value.Number(want), value.Number(scale)
	if x == nil || y == nil {
		return have.Type == want.Type && have.Equal(want)
	}
	difference := x.Sub(x, y)
	if difference.Sign() == 0 || magnitude == nil {
		return difference.Sign() == 0
	}
	relative := new(big.Rat)
	switch {
	case want.Type == bson.TypeDouble:
		relative.SetFloat64(0x1p-51)
	case want.Type == bson.TypeDecimal128 && mixed:
		relative.SetFloat64(1e-14)
	case want.Type == bson.TypeDecimal128:
		relative.SetFloat64(1e-33)
	}
	relative.Mul(relative, magnitude.Abs(magnitude))
	relative.Mul(relative, new(big.Rat).SetInt64(size+1))
	return difference.Abs(difference).Cmp(relative) <= 0
}
