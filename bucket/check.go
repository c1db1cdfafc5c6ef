package bucket

import (
	"context"
	"iter"
	"time"

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
	// WrongAggregate is a count, sum or other aggregate, or an end, that does not follow from the
	// measurements. Repair computes it anew.
	WrongAggregate mongopatterns.ProblemKind = "wrong aggregate"
	// OutsideWindow is a measurement whose time is outside the bucket's window or no date at all: a range
	// read misses it. Delete and append, or adopt anew.
	OutsideWindow mongopatterns.ProblemKind = "outside window"
	// BadStart is a start that is no date or begins no window: reads miss the document. Adopt of Slots
	// converts times that are stored as strings.
	BadStart mongopatterns.ProblemKind = "bad start"
	// DuplicateID is an ID that a bucket holds twice.
	DuplicateID mongopatterns.ProblemKind = "duplicate ID"
	// NotArray is an ArrayField that holds something else.
	NotArray mongopatterns.ProblemKind = "not an array"
)

// Check yields what is wrong in the buckets that work selects. Sums of doubles may differ by rounding. The
// check runs on the server; measurements are not sent to the client.
//
// Cost: 1 round trip a batch; scans the collection by _id.
func (b *Buckets[S, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return fault.Seq("bucket: check", b.core.check(ctx, work))
}

// Repair computes the aggregates that Check finds wrong anew, each bucket's within one write: no append at
// the same time is lost or counted twice. Remaining are the problems that it cannot solve.
//
// Cost: a Check, and 1 round trip for each batch with wrong buckets, found by _id.
func (b *Buckets[S, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: repair")
	return b.core.repair(ctx, work)
}

func (f *frame) check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	return maintain.Check(ctx, f.coll, work, f.scan(), func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
		for _, doc := range batch {
			problems, _ := f.inspect(doc)
			all = append(all, problems...)
		}
		return all, nil
	})
}

func (f *frame) repair(ctx context.Context, work *mongopatterns.Work) (mongopatterns.Result, error) {
	return maintain.Run(ctx, f.coll, work, f.scan(), func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		var models []mongo.WriteModel
		for _, doc := range batch {
			problems, solve := f.inspect(doc)
			wrong := false
			for _, p := range problems {
				if p.Kind == WrongAggregate {
					wrong = true
				} else {
					result.Remaining++
				}
			}
			if wrong {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(f.itself(doc)).SetUpdate(solve))
			}
		}
		return maintain.Rewrite(ctx, f.coll, models, w, result)
	})
}

// scan reads what inspect looks at.
func (f *frame) scan() maintain.Scan {
	projection := append(f.shardKey(), f.layout.audited()...)
	if f.end != "" {
		projection = append(projection, bson.E{Key: f.end, Value: 1})
	}
	return maintain.Scan{Projection: projection}
}

// inspect finds the problems of a document, and the update that solves all of the kind WrongAggregate.
func (f *frame) inspect(doc bson.Raw) (problems []mongopatterns.Problem, solve mongo.Pipeline) {
	report := func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue) {
		problems = append(problems, mongopatterns.Problem{Pattern: "bucket", Kind: kind, Collection: f.coll.Name(),
			ID: doc.Lookup("_id"), Field: field, Have: have, Want: want})
	}
	solve = f.layout.recount()
	at := value.Lookup(doc, f.start)
	var start, end time.Time
	if at.Type == bson.TypeDateTime {
		start, end = f.window.Bounds(dateOf(at))
	}
	switch {
	case at.Type != bson.TypeDateTime:
		report(BadStart, f.start, at, bson.RawValue{})
	case !start.Equal(dateOf(at)):
		report(BadStart, f.start, at, dateValue(start))
	case f.end != "":
		want := f.endOf(end)
		if have := value.Lookup(doc, f.end); !have.Equal(dateValue(want)) {
			report(WrongAggregate, f.end, have, dateValue(want))
		}
		solve = append(solve, expr.Op("$set", bson.D{{Key: f.end, Value: want}}))
	}
	f.layout.audit(doc, start, end, report)
	return problems, solve
}

// audited computes on the server what the bucket should hold, beside what it holds.
func (c *arrays) audited() bson.D {
	all := expr.Array(expr.Field(c.opts.ArrayField))
	times := expr.Filter(expr.Map(all, "m", at(c.opts.TimeField)), "t", expr.IsType(expr.Var("t"), "date"))
	out := bson.D{
		{Key: "~from", Value: expr.Op("$min", times)}, {Key: "~to", Value: expr.Op("$max", times)},
		{Key: "~timed", Value: expr.Op("$size", times)},
		{Key: "~other", Value: expr.Cond(expr.Op("$isArray", c.array()), "$$REMOVE", expr.Field(c.opts.ArrayField))},
	}
	if c.opts.IDField != "" {
		ids := expr.Map(all, "m", at(c.opts.IDField))
		out = append(out, bson.E{Key: "~repeated", Value: expr.Op("$gt",
			expr.Op("$size", ids), expr.Op("$size", expr.Op("$setUnion", ids, bson.A{})))})
	}
	for _, d := range c.derived {
		out = append(out, bson.E{Key: "~have." + d.name, Value: expr.Field(d.path)},
			bson.E{Key: "~want." + d.name, Value: d.of(all)})
		if d.op == "$sum" && d.number != "" {
			out = append(out, bson.E{Key: "~slack." + d.name, Value: d.slack(all)})
		}
	}
	return out
}

// audit compares a bucket with what audited computed of it.
func (c *arrays) audit(doc bson.Raw, start, end time.Time, report report) {
	var none bson.RawValue
	if other := doc.Lookup("~other"); other.Type != 0 {
		report(NotArray, c.opts.ArrayField, other, none)
		return
	}
	outside, which := doc.Lookup("~timed").AsInt64() < doc.Lookup("~want", "count").AsInt64(), none
	for _, key := range []string{"~from", "~to"} {
		at := doc.Lookup(key)
		if at.Type == bson.TypeDateTime && !end.IsZero() && (dateOf(at).Before(start) || !dateOf(at).Before(end)) {
			outside, which = true, at
		}
	}
	if outside {
		report(OutsideWindow, c.opts.ArrayField+"."+c.opts.TimeField, which, none)
	}
	if repeated, _ := doc.Lookup("~repeated").BooleanOK(); repeated {
		report(DuplicateID, c.idPath(), none, none)
	}
	for _, d := range c.derived {
		have, want := doc.Lookup("~have", d.name), doc.Lookup("~want", d.name)
		if want.Type == bson.TypeNull {
			want = none
		}
		if !agree(have, want, doc.Lookup("~slack", d.name)) {
			report(WrongAggregate, d.path, have, want)
		}
	}
}

// agree compares numbers by value, as far as slack allows, and samples by both fields.
func agree(have, want, slack bson.RawValue) bool {
	if a, ok := have.DocumentOK(); ok {
		b, ok := want.DocumentOK()
		return ok && a.Lookup(timeKey).Equal(b.Lookup(timeKey)) && agree(a.Lookup(valueKey), b.Lookup(valueKey), bson.RawValue{})
	}
	x, y, most := value.Number(have), value.Number(want), value.Number(slack)
	if x == nil || y == nil {
		return have.Type == want.Type && have.Equal(want)
	}
	difference := x.Sub(x, y)
	return difference.Sign() == 0 || most != nil && difference.Abs(difference).Cmp(most) <= 0
}
