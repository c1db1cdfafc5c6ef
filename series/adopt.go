package series

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Adopt copies the measurements of another collection, in the order of its _id. convert returns the series
// and the measurements of a source document, which are one, or all those of a bucket (see Unwind). A nil
// convert takes the field named Options.SeriesField as the series and the rest of the document, without its
// _id, as one measurement; it keeps fields that M lacks. The source is not changed. work.Filter selects
// documents of the source.
//
// Each batch is stored in one transaction together with its entries in a ledger. The ledger is a collection
// with the name of the series' collection plus ".adopt". It holds the _id and a hash of each adopted
// document, about 20 bytes. So Adopt can be stopped at any point and run again, with any filter, without
// storing anything twice. A further call takes documents that were inserted since, even with a lower _id,
// and those that failed before. After a call that ends with Failed 0, every document that was in the source
// during the whole call is adopted exactly once. Without the ledger the next call stores everything
// again, so keep it until nothing writes to the source any more, a last call has Failed 0, and you know the
// reason of each problem of [Series.Compare]. A series to which new code appends stays Different.
//
// Examined counts documents, Done measurements. Skipped counts documents that were adopted before (later
// edits are not carried over; Compare names them) and those for which convert returns
// [mongopatterns.ErrSkip], which the next call converts again. A document with a measurement that is not
// valid, or for which convert returns ErrInvalid, is Failed as a whole and named. Any other error of convert
// ends the call. Of two calls at the same time one ends with [mongopatterns.ErrRunning]. A call that begins
// while the last transaction of a killed one is still being committed may end so too; run it again. Adopt
// returns ErrInvalid for a source with a default collation, and when it meets an _id of the source twice.
//
// Cost: for each batch of new measurements 4 round trips, commit included, and 1 write for each document it falls
// into and each 700 entries.
//   - 3 round trips to begin, 4 if src is in another database, and 1 for each collection that it creates.
//   - The source is read whole by its index _id.
//   - The ledger: 1 for some 40,000 documents.
func (s *Series[ID, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (ID, []M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "series.Adopt")
	defer fault.In(&err, "series.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.frame.Adopt(ctx, scoped.On(src), work, s.core.begin, s.taking(convert))
}

// Compare yields the differences between the source of an Adopt and the measurements here. convert must be
// the one of Adopt. The differences are documents of the source that are not adopted or were edited or
// deleted after their adoption, and series whose count, first or last time, or sums of Options.Values
// differ. Have is the value here, and Want the value in the source. Compare changes nothing.
//
// A series has more measurements here if new code appended to it, or if the source lost documents, for
// example by a TTL; the problems of kind Deleted account for the latter. If a series has fewer here than
// the listed documents explain, measurements were lost here. Then drop the ledger, delete the adopted
// measurements and adopt again. Writes during Compare may show as differences. work.Filter selects
// documents of the source; with a filter Compare does not compare series and does not find deletions.
//
// It yields these kinds of package mongopatterns:
//   - NotAdopted: a document of the source that is not stored here. The next Adopt takes it, unless Detail
//     says why it cannot.
//   - Edited: a document of the source that was changed after it was adopted. Delete its old measurement and
//     append the new one.
//   - Deleted: a document that was adopted and no longer exists in the source.
//   - Different: a series whose count, first or last time, or sum differs from the source, or an adopted
//     document that convert now refuses.
//
// Cost: 3 round trips to begin; reads the source, the ledger and the collection, which it
// decodes, once each. Memory holds some numbers for each series.
func (s *Series[ID, M]) Compare(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (ID, []M, error), work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	ctx = comment.Call(ctx, "series.Compare")
	c := s.core
	comparison := windows.Comparison{Begin: c.begin, Convert: s.taking(convert), Source: c.summaries, Target: c.target,
		Count: c.opts.CountField, Time: c.opts.TimeField}
	for _, v := range c.opts.Values {
		comparison.Values = append(comparison.Values, v.Field)
	}
	return fault.Seq("series.Compare", c.frame.Compare(ctx, scoped.On(src), work, comparison))
}

// taking returns a function that adds the measurements of a document to a batch.
func (s *Series[ID, M]) taking(convert func(doc bson.Raw) (ID, []M, error)) func(b windows.Batch, doc bson.Raw) error {
	c := s.core
	return func(b windows.Batch, doc bson.Raw) error {
		if convert == nil {
			series, m, err := c.frame.Plain(doc, false, new(M))
			if err != nil {
				return err
			}
			return b.(*batch).addDocument(series, m)
		}
		series, all, err := convert(doc)
		if err != nil {
			return err
		}
		for _, b := range []windows.Batch{c.begin(), b} { // a document is adopted as a whole or not at all
			for i := range all {
				if err := b.Add(series, &all[i]); err != nil {
					return fmt.Errorf("measurement %d: %w", i, err)
				}
			}
		}
		return nil
	}
}

// summaries summarizes the series of a batch.
func (c *core) summaries(b windows.Batch) windows.Summaries {
	return func(yield func(*windows.Summary, error) bool) {
		for _, g := range b.(*batch).groups.All {
			for _, t := range g.Content.tables {
				if !yield(c.summary(g.Place.Series, t), nil) {
					return
				}
			}
		}
	}
}

// target summarizes the series of the collection.
func (c *core) target(ctx context.Context) windows.Summaries {
	return func(yield func(*windows.Summary, error) bool) {
		w, err := maintain.Completed(nil, transfer.WholeBatch)
		if err != nil {
			yield(nil, err)
			return
		}
		for doc, err := range maintain.Docs(ctx, c.frame.Coll, w, maintain.Scan{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			t, err := c.load(doc)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(c.summary(value.Lookup(doc, c.frame.SeriesField), t), nil) {
				return
			}
		}
	}
}

func (c *core) summary(series bson.RawValue, t *pack.Table) *windows.Summary {
	out, rows := windows.NewSummary(series, len(c.opts.Values)), len(t.Times)
	if rows == 0 {
		return out
	}
	out.Count, out.First, out.Last = int64(rows), slices.Min(t.Times), slices.Max(t.Times)
	for i, v := range c.opts.Values {
		if n := t.Tally(v.Field, 0, rows, pack.Sum|pack.Extremes); n.Count > 0 {
			out.Sums[i] = n.Sum
			out.Widen(i, n.Min)
			out.Widen(i, n.Max)
		}
	}
	return out
}

// Unwind returns a convert function of Adopt for buckets with an array of measurements, as package bucket
// stores them. Adopt does not carry over measurements that are pushed into a bucket after it was adopted,
// so exclude buckets that still fill, by Work.Filter.
func (s *Series[ID, M]) Unwind(seriesField, arrayField string) func(doc bson.Raw) (ID, []M, error) {
	return func(doc bson.Raw) (series ID, all []M, err error) {
		if series, err = codec.DecodeGivenValue[ID](s.core.frame.Codec, value.Lookup(doc, seriesField)); err != nil {
			return series, nil, err
		}
		all, err = codec.DecodeGivenValue[[]M](s.core.frame.Codec, value.Lookup(doc, arrayField))
		return series, all, err
	}
}
