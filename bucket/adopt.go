package bucket

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/big"
	"math/bits"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Adopt copies a collection of one document per measurement into buckets, in the order of its _id. convert
// takes a source document apart. nil takes it as the measurement, without its _id (unless that is
// Options.IDField) and without the field Options.SeriesField, the series. The source stays as it is.
// work.Filter selects documents of the source.
//
// Each batch is stored in one transaction with its entries in a ledger, the documents of the collection named
// as the buckets' with ".adopt" added: the _id of each adopted document and a hash of it, some 20 bytes. So
// Adopt can be stopped at any point and run again without storing anything twice, with whatever filter, and
// a further call takes what came since, also with a lower _id, and what failed before. After a call that ends with
// Failed 0 every document that the source held from its beginning to its end is adopted once. Keep the ledger
// until nothing writes the source any more and [Buckets.Compare] is content; without it the next call stores
// everything again, but for what has an ID.
//
// Skipped are documents that were adopted before, also if they were edited or deleted since, which is not
// carried over (Compare names them), that buckets hold already (Options.IDField), and those answered with
// [ErrSkip], which the next call asks about again. What cannot be a measurement, or convert calls ErrInvalid,
// is Failed and named; any other error of convert ends the call. Of two calls at the same time one ends with
// [ErrConcurrentAdopt]. A source with a collation is ErrInvalid, and so is one that has an _id twice, when both
// are met.
//
// Cost: 3 round trips to begin, more to read the source by _id, whole, and the ledger, 1 for some 40,000
// documents; for each batch of new ones 4, commit included, 1 write per bucket it falls into and each 700
// entries.
func (b *Buckets[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "bucket: adopt")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return b.core.Frame.Adopt(ctx, src, work, b.core.begin, b.taking(convert))
}

// The kinds of problems that Compare finds.
const (
	// NotAdopted is a document of the source that the next Adopt takes, if Detail does not say why it cannot.
	NotAdopted = frame.NotAdopted
	// Edited is a document of the source that is not any more as it was adopted: Update what it changed.
	Edited = frame.Edited
	// Deleted is a document that was adopted and is gone from the source.
	Deleted = frame.Deleted
	// Differs is a series with another count, time or sum than in the source, or a document that was adopted
	// and that convert does not take any more.
	Differs = frame.Differs
)

// Compare yields what differs between a source of Adopt, with the same convert, and the buckets: documents of
// the source that are not adopted, or were edited or deleted since, and for each series the count, the first
// and the last time and the sums of Options.Values, whether buckets keep them or not. Have is what buckets
// have, Want what the source has. It changes nothing.
//
// A series that has more here was appended to by new code, or lost documents in the source, as by a TTL; the
// Deleted account for these. One that has less than the documents named explain lost something here: drop the
// ledger, delete what was adopted, and adopt anew. What is written meanwhile may show as a difference. With
// work.Filter, which selects documents of the source, series are not compared, nor are deletions seen.
//
// Cost: 3 round trips to begin; reads the source, the ledger and, on the server, all buckets once each. Memory
// holds some numbers for each series.
func (b *Buckets[S, M]) Compare(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, M, error), work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := b.core
	comparison := frame.Comparison{Begin: c.begin, Convert: b.taking(convert), Of: c.summaries, Stored: c.inColl,
		Count: c.opts.CountField, Time: c.opts.ArrayField + "." + c.opts.TimeField}
	for _, v := range c.opts.Values {
		comparison.Values = append(comparison.Values, c.opts.ArrayField+"."+v.Field)
	}
	return fault.Seq("bucket: compare", c.Frame.Compare(ctx, src, work, comparison))
}

// taking adds the measurement of a document to a batch.
func (b *Buckets[S, M]) taking(convert func(doc bson.Raw) (S, M, error)) func(batch frame.Batch, doc bson.Raw) error {
	c := b.core
	take := func(doc bson.Raw) (series, m any, err error) { return convert(doc) }
	if convert == nil {
		take = func(doc bson.Raw) (any, any, error) { return c.Plain(doc, c.opts.IDField == "_id", new(M)) }
	}
	return func(batch frame.Batch, doc bson.Raw) error {
		series, m, err := take(doc)
		if err == nil {
			err = batch.Add(series, m)
		}
		return err
	}
}

// summaries are those of a batch.
func (c *arrays) summaries(b frame.Batch) frame.Summaries {
	return func(yield func(*frame.Summary, error) bool) {
		for _, g := range b.(*batch).All {
			out := frame.NewSummary(g.Series, len(c.opts.Values))
			for _, it := range g.Of.items {
				out.Count, out.First, out.Last = out.Count+1, min(out.First, it.time), max(out.Last, it.time)
				for i, n := range it.numbers {
					if !n.IsZero() {
						addAll(&out.Sums[i], n)
						out.Most[i] += math.Abs(n.Float64())
					}
				}
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// addAll adds a number with all its digits.
func addAll(s *number.Sum, n timeseries.Number) {
	raw := n.Raw()
	f, double := raw.DoubleOK()
	if d, ok := raw.Decimal128OK(); ok {
		s.AddDecimal(d)
		return
	} else if !double {
		s.AddInt(raw.AsInt64(), 0)
		return
	}
	fraction, exponent := math.Frexp(f)
	mantissa := int64(fraction * (1 << 53))
	zeros := bits.TrailingZeros64(uint64(mantissa) | 1<<53)
	mantissa, exponent = mantissa>>zeros, exponent-53+zeros
	if digits := big.NewInt(mantissa); exponent >= 0 {
		s.Add(digits.Lsh(digits, uint(exponent)), 0)
	} else {
		five := big.NewInt(5) // mantissa / 2^n is mantissa × 5^n / 10^n
		s.Add(digits.Mul(digits, five.Exp(five, big.NewInt(int64(-exponent)), nil)), -exponent)
	}
}

// inColl are the summaries of all series, computed on the server from the measurements.
func (c *arrays) inColl(ctx context.Context) frame.Summaries {
	all := expr.Array(expr.Field(c.opts.ArrayField))
	times := expr.Filter(expr.Map(all, "m", at(c.opts.TimeField)), "t", expr.IsType(expr.Var("t"), "date"))
	of := func(op string, values any) bson.D { return expr.Op(op, expr.Op(op, values)) } // in a bucket, and over them
	group := expr.D("_id", expr.Field(c.Series), "count", expr.Op("$sum", expr.Op("$size", all)), "first", of("$min", times), "last", of("$max", times))
	for i, v := range c.opts.Values {
		group = append(group, expr.Element(fmt.Sprint("v", i), of("$sum", derived{number: v.Field}.mapped(all, allDigits(at(v.Field))))))
	}
	docs := cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.Coll).Aggregate(ctx, mongo.Pipeline{expr.Op("$group", group)}, options.Aggregate().SetAllowDiskUse(true))
	})
	return func(yield func(*frame.Summary, error) bool) {
		for doc, err := range docs {
			if err != nil {
				yield(nil, err)
				return
			}
			out := frame.NewSummary(doc.Lookup("_id"), len(c.opts.Values))
			out.Count = doc.Lookup("count").AsInt64()
			if first, ok := doc.Lookup("first").DateTimeOK(); ok {
				out.First, out.Last = first, doc.Lookup("last").DateTime()
			}
			for i := range out.Sums {
				if d, ok := doc.Lookup(fmt.Sprint("v", i)).Decimal128OK(); ok {
					out.Sums[i].AddDecimal(d)
				}
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
