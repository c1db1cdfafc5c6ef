package series

import (
	"context"
	"iter"
	"math/big"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// The kinds of problems that Check finds. Repair solves WrongAggregate.
const (
	// WrongAggregate is a count, sum or other field that does not follow from the
	// measurements. Repair computes it anew.
	WrongAggregate mongopatterns.ProblemKind = "wrong aggregate"
	// Damaged is a document with a block that cannot be read. Reads of its window end
	// with ErrDamaged. Restore it, or delete it and append the measurements anew.
	Damaged mongopatterns.ProblemKind = "damaged"
	// OutsideWindow is a measurement whose time is outside the document's window: a
	// range read misses it. Delete and append it, or adopt anew.
	OutsideWindow mongopatterns.ProblemKind = "outside window"
	// BadStart is a start that is no date or begins no window: reads miss the
	// document.
	BadStart mongopatterns.ProblemKind = "bad start"
)

// Check reads the documents that work selects, decodes them and yields what is wrong.
//
// Cost: 1 round trip a batch of 100 documents; scans the collection by _id.
func (s *Series[S, M]) Check(ctx context.Context, work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := s.core
	return fault.Seq("series: check", maintain.Check(ctx, c.coll, work, maintain.Scan{BatchSize: sweepBatch},
		func(_ context.Context, batch []bson.Raw) (all []mongopatterns.Problem, _ error) {
			for _, doc := range batch {
				problems, _ := c.problems(doc)
				all = append(all, problems...)
			}
			return all, nil
		}))
}

// Repair computes the fields anew that Check finds wrong, each document in one write,
// unless it has changed since it was read: then it is Skipped. Remaining are the problems
// that it cannot solve.
//
// Cost: a Check, and 1 round trip for each batch with wrong documents, found by _id.
func (s *Series[S, M]) Repair(ctx context.Context, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: repair")
	c := s.core
	return maintain.Run(ctx, c.coll, work, maintain.Scan{BatchSize: sweepBatch},
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			var models []mongo.WriteModel
			for _, doc := range batch {
				problems, update := c.problems(doc)
				wrong := false
				for _, p := range problems {
					if p.Kind == WrongAggregate {
						wrong = true
					} else {
						result.Remaining++
					}
				}
				if wrong {
					models = append(models, mongo.NewUpdateOneModel().SetFilter(c.unchanged(doc, true)).SetUpdate(update))
				}
			}
			return maintain.Rewrite(ctx, c.coll, models, w, result)
		})
}

// problems are those of a document, and the update that solves the WrongAggregates.
func (c *store) problems(doc bson.Raw) (problems []mongopatterns.Problem, update mongo.Pipeline) {
	report := func(kind mongopatterns.ProblemKind, field string, have, want bson.RawValue, detail string) {
		problems = append(problems, mongopatterns.Problem{Pattern: "series", Kind: kind, Collection: c.coll.Name(),
			ID: doc.Lookup("_id"), Field: field, Have: have, Want: want, Detail: detail})
	}
	var none bson.RawValue
	t, err := c.load(doc)
	if err != nil {
		report(Damaged, "", none, none, err.Error())
		return problems, nil
	}
	t.Sort()
	all := append(c.derived(t), derived{path: c.opts.BytesField, want: rawValue(int32(c.sizeOf(doc)))})
	at := value.Lookup(doc, c.opts.StartField)
	ms, ok := at.DateTimeOK()
	start, end := c.window.Bounds(time.UnixMilli(ms))
	switch n := len(t.Times); {
	case !ok:
		report(BadStart, c.opts.StartField, at, none, "")
	case start.UnixMilli() != ms:
		report(BadStart, c.opts.StartField, at, dateValue(start.UnixMilli()), "")
	default:
		if c.opts.EndField != "" {
			all = append(all, derived{path: c.opts.EndField, want: dateValue(end.UnixMilli() - 1)})
		}
		for i := range min(n, 2) { // the first and the last
			if at := t.Times[i*(n-1)]; at < ms || at >= end.UnixMilli() {
				report(OutsideWindow, c.opts.TimeField, dateValue(at), none, "")
			}
		}
	}
	var set bson.D
	var unset bson.A
	for _, d := range all {
		have := value.Lookup(doc, d.path)
		if agree(have, d.want, d.most) {
			continue
		}
		report(WrongAggregate, d.path, have, d.want, "")
		if d.want.Type == 0 {
			unset = append(unset, d.path)
		} else {
			set = append(set, bson.E{Key: d.path, Value: d.want})
		}
	}
	return problems, pipeline(set, unset)
}

// pipeline is an update that sets and removes fields.
func pipeline(set bson.D, unset bson.A) (out mongo.Pipeline) {
	if set != nil {
		out = append(out, bson.D{{Key: "$set", Value: set}})
	}
	if unset != nil {
		out = append(out, bson.D{{Key: "$unset", Value: unset}})
	}
	return out
}

// agree compares numbers by value. A sum of numbers up to most that has more than 34
// digits may differ in the last of them, by the order in which it was made.
func agree(have, want bson.RawValue, most float64) bool {
	x, y := value.Number(have), value.Number(want)
	if x == nil || y == nil {
		return have.Type == want.Type && have.Equal(want)
	}
	difference := x.Sub(x, y)
	rounding := new(big.Rat).SetFloat64(most * 1e-30)
	return difference.Sign() == 0 || rounding != nil && difference.Abs(difference).Cmp(rounding) <= 0
}
