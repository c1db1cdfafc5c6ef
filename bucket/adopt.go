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
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/number"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Adopt copies a collection with one document per measurement into buckets, in the order of _id. convert
// returns the series and the measurement of a source document. A nil convert takes the field named
// Options.SeriesField as the series and the rest of the document as the measurement, without its _id
// (unless that is Options.IDField). The source is not changed. work.Filter selects documents of the source.
//
// Each batch is stored in one transaction together with its entries in a ledger. The ledger is a collection
// with the name of the buckets' collection plus ".adopt". It holds the _id and a hash of each adopted
// document, about 20 bytes. So Adopt can be stopped at any point and run again, with any filter, without
// storing anything twice. A further call takes documents that were inserted since, even with a lower _id,
// and those that failed before. After a call that ends with Failed 0, every document that was in the source
// during the whole call is adopted exactly once. Without the ledger the next call stores everything
// again, except measurements with an ID, so keep it until nothing writes to the source any more, a last call
// has Failed 0, and you know the reason of each problem of [Buckets.Compare]. A series to which new code
// appends stays Different.
//
// Skipped counts documents that were adopted before (later edits are not carried over; Compare names them), documents
// whose ID a bucket holds already (Options.IDField), and those for which convert returns [mongopatterns.ErrSkip], which
// the next call converts again. A document that is not a valid measurement, or for which convert returns ErrInvalid, is
// Failed and named. Any other error of convert ends the call. Of two calls at the same time one ends with
// [mongopatterns.ErrRunning]. A call that begins while the last transaction of a killed one is still being committed may
// end so too; run it again. Adopt returns ErrInvalid for a source with a default collation, and when it meets an _id of
// the source twice.
//
// Cost: for each batch of new measurements 4 round trips, commit included, and 1 write for each bucket it falls into
// and each 700 entries.
//   - 3 round trips to begin, 4 if src is in another database, and 1 for each collection that it creates.
//   - The source is read whole by its index _id.
//   - The ledger: 1 for some 40,000 documents.
func (b *Buckets[ID, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (ID, M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "bucket.Adopt")
	defer fault.In(&err, "bucket.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return b.core.frame.Adopt(ctx, scoped.On(src), work, b.core.begin, b.taking(convert))
}

// Compare yields the differences between the source of an Adopt and the buckets. convert must be the one of
// Adopt. These are documents of the source that are not adopted or were edited or deleted after their
// adoption, and series whose count, first or last time, or sums of Options.Values differ, even if buckets
// do not store those sums. Have is the value in the buckets, Want the value in the source. Compare changes
// nothing.
//
// A series has more measurements in the buckets if new code appended to it, or if the source lost
// documents, for example by a TTL; the problems of kind Deleted account for the latter. If a series has
// fewer in the buckets than the listed documents explain, measurements were lost there. Then drop the
// ledger, delete the adopted measurements and adopt again. Writes during Compare may show as differences.
// work.Filter selects documents of the source; with a filter Compare does not compare series and does not
// find deletions.
//
// It yields these kinds of package mongopatterns:
//   - NotAdopted: a document of the source that is not in the buckets. The next Adopt takes it, unless Detail
//     says why it cannot.
//   - Edited: a document of the source that was changed after it was adopted. Use Replace to change its
//     measurement too.
//   - Deleted: a document that was adopted and no longer exists in the source.
//   - Different: a series whose count, first or last time, or sum differs from the source, or an adopted
//     document that convert now refuses.
//
// Cost: 3 round trips to begin; reads the source, the ledger and, on the server, all buckets once each. Memory
// holds some numbers for each series.
func (b *Buckets[ID, M]) Compare(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (ID, M, error), work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "bucket.Compare")
	c := b.core
	comparison := windows.Comparison{Begin: c.begin, Convert: b.taking(convert), Source: c.summaries, Target: c.target,
		Count: c.opts.CountField, Time: c.opts.ArrayField + "." + c.opts.TimeField}
	for _, v := range c.opts.Values {
		comparison.Values = append(comparison.Values, c.opts.ArrayField+"."+v.Field)
	}
	return fault.Seq("bucket.Compare", c.frame.Compare(ctx, scoped.On(src), work, comparison))
}

// taking returns a function that adds the measurement of a document to a batch.
func (b *Buckets[ID, M]) taking(convert func(doc bson.Raw) (ID, M, error)) func(batch windows.Batch, doc bson.Raw) error {
	take := b.single
	if convert != nil {
		take = func(doc bson.Raw) (series, m any, err error) { return convert(doc) }
	}
	return func(batch windows.Batch, doc bson.Raw) error {
		series, m, err := take(doc)
		if err != nil {
			return err
		}
		return batch.Add(series, m)
	}
}

// single is the convert of a document that is one measurement. Metadata needs its series as an ID.
func (b *Buckets[ID, M]) single(doc bson.Raw) (series, m any, err error) {
	c := b.core
	raw, rest, err := c.frame.Plain(doc, c.opts.IDField == "_id", new(M))
	if err != nil || c.opts.Metadata == nil {
		return raw, rest, err
	}
	if _, err := codec.DecodeGivenValue[ID](c.frame.Codec, raw); err != nil {
		return nil, nil, fmt.Errorf("the series in %q is not an ID: %w", c.frame.SeriesField, err)
	}
	return raw, rest, nil
}

// summaries summarizes the series of a batch.
func (c *arrays) summaries(b windows.Batch) windows.Summaries {
	return func(yield func(*windows.Summary, error) bool) {
		for _, g := range b.(*batch).groups.All {
			out := windows.NewSummary(g.Place.Series, len(c.opts.Values))
			for _, it := range g.Content.items {
				out.Count, out.First, out.Last = out.Count+1, min(out.First, it.time), max(out.Last, it.time)
				for i, n := range it.numbers {
					if !n.IsZero() {
						addAll(&out.Sums[i], n)
						out.Widen(i, n)
					}
				}
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// addAll adds a number to a sum exactly, with all its digits.
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

// target summarizes all series on the server, from the measurements.
func (c *arrays) target(ctx context.Context) windows.Summaries {
	all := expr.Array(expr.Field(c.opts.ArrayField))
	times := expr.Filter(expr.Map(all, "m", at(c.opts.TimeField)), "t", expr.IsType(expr.Var("t"), "date"))
	of := func(op string, values any) bson.D { return expr.Op(op, expr.Op(op, values)) } // in each bucket, then over all of them
	group := expr.D("_id", expr.Field(c.frame.SeriesField), "count", expr.Op("$sum", expr.Op("$size", all)), "first", of("$min", times), "last", of("$max", times))
	for i, v := range c.opts.Values {
		group = append(group, expr.Element(fmt.Sprint("v", i), of("$sum", derived{number: v.Field}.mapped(all, allDigits(at(v.Field))))))
	}
	docs := cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return cursor.Primary(c.frame.Coll).Aggregate(ctx, mongo.Pipeline{expr.Op("$group", group)}, options.Aggregate().SetAllowDiskUse(true))
	})
	return func(yield func(*windows.Summary, error) bool) {
		for doc, err := range docs {
			if err != nil {
				yield(nil, err)
				return
			}
			out := windows.NewSummary(doc.Lookup("_id"), len(c.opts.Values))
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
