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
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/series/internal/pack"
)

// Adopt copies the measurements of another collection, in the order of its _id. convert
// takes a source document apart: into one measurement, or those of a bucket, see
// Unwind. nil takes the document as one measurement, without its _id and without the
// field named as Options.SeriesField, which becomes the series; it keeps fields that M
// lacks. The source stays as it is. work.Filter selects documents of the source.
//
// Each batch is stored in one transaction with its entries in a ledger, the documents of
// the collection named as the series' with ".adopt" added: the _id of each adopted document
// and a hash of it, some 20 bytes. So Adopt can be stopped at any point and run again
// without storing anything twice, with whatever filter, and a further call takes what came
// since, also with a lower _id, and what failed before. After a call that ends with Failed 0
// every document that the source held from its beginning to its end is adopted once. Keep the
// ledger until nothing writes the source any more and [Series.Compare] is content; without it
// the next call stores everything again. On a sharded cluster create it beforehand.
//
// Examined are documents, Done measurements. Skipped are documents that were adopted before,
// also if they were edited or deleted since, which is not carried over (Compare names them),
// and those answered with [ErrSkip], which the next call asks about again. What cannot be a
// measurement, or convert calls ErrInvalid, is Failed as a whole document and named; any other
// error of convert ends the call. Of two calls at the same time one ends with
// [ErrConcurrentAdopt]. A source with a collation is ErrInvalid, and so is one that has an _id
// twice, when both are met.
//
// Cost: 3 round trips to begin, further ones to read the source by its index _id, whole, and
// the ledger, 1 for some 40,000 documents; for each batch of new ones 4, commit included, and
// 1 write for each document it falls into and each 700 entries.
func (s *Series[S, M]) Adopt(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, []M, error), work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "series: adopt")
	defer fault.Part(&err, &result.Done, &result.Unknown)
	return s.core.Frame.Adopt(ctx, src, work, s.core.begin, s.taking(convert))
}

// Compare yields what differs between a source of Adopt, with the same convert, and the
// measurements here: documents of the source that are not adopted, or were edited or deleted
// since, and for each series the count, the first and the last time and the sums of
// Options.Values. Have is what is here, Want what the source has. It changes nothing.
//
// A series that has more here was appended to by new code, or lost documents in the source, as
// by a TTL; the Deleted account for these. One that has less than the documents named explain
// lost something here: drop the ledger, delete what was adopted, and adopt anew. What is
// written meanwhile may show as a difference. With work.Filter, which selects documents of
// the source, series are not compared, nor are deletions seen.
//
// Cost: 3 round trips to begin; reads the source, the ledger and the collection, which it
// decodes, once each. Memory holds some numbers for each series.
func (s *Series[S, M]) Compare(ctx context.Context, src *mongo.Collection, convert func(doc bson.Raw) (S, []M, error), work *mongopatterns.Work) iter.Seq2[mongopatterns.Problem, error] {
	c := s.core
	comparison := frame.Comparison{Begin: c.begin, Convert: s.taking(convert), Of: c.summaries, Stored: c.inColl,
		Count: c.opts.CountField, Time: c.opts.TimeField}
	for _, v := range c.opts.Values {
		comparison.Values = append(comparison.Values, v.Field)
	}
	return fault.Seq("series: compare", c.Frame.Compare(ctx, src, work, comparison))
}

// taking adds the measurements of a document to a batch.
func (s *Series[S, M]) taking(convert func(doc bson.Raw) (S, []M, error)) func(b frame.Batch, doc bson.Raw) error {
	c := s.core
	return func(b frame.Batch, doc bson.Raw) error {
		if convert == nil {
			series, m, err := c.Plain(doc, false, new(M))
			if err == nil {
				err = b.(*batch).addDocument(series, m)
			}
			return err
		}
		series, all, err := convert(doc)
		if err != nil {
			return err
		}
		for _, b := range []frame.Batch{c.begin(), b} { // a document is adopted as a whole or not at all
			for i := range all {
				if err := b.Add(series, c.measurement(&all[i])); err != nil {
					return fmt.Errorf("measurement %d: %w", i, err)
				}
			}
		}
		return nil
	}
}

// summaries are those of a batch.
func (c *store) summaries(b frame.Batch) frame.Summaries {
	return func(yield func(*frame.Summary, error) bool) {
		for _, g := range b.(*batch).All {
			for _, t := range g.Of.all {
				if !yield(c.summary(g.Series, t), nil) {
					return
				}
			}
		}
	}
}

// inColl are those of the collection's documents.
func (c *store) inColl(ctx context.Context) frame.Summaries {
	return func(yield func(*frame.Summary, error) bool) {
		w, err := maintain.Of(nil, frame.WholeBatch)
		if err != nil {
			yield(nil, err)
			return
		}
		for doc, err := range maintain.Docs(ctx, c.Coll, w, maintain.Scan{}) {
			var t *pack.Table
			if err == nil {
				t, err = c.load(doc)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(c.summary(value.Lookup(doc, c.Series), t), nil) {
				return
			}
		}
	}
}

func (c *store) summary(series bson.RawValue, t *pack.Table) *frame.Summary {
	out, rows := frame.NewSummary(series, len(c.opts.Values)), len(t.Times)
	if rows == 0 {
		return out
	}
	out.Count, out.First, out.Last = int64(rows), slices.Min(t.Times), slices.Max(t.Times)
	for i, v := range c.opts.Values {
		if n := t.Tally(v.Field, 0, rows, pack.Sum|pack.Extremes); n.Count > 0 {
			out.Sums[i], out.Most[i] = n.Sum, n.Most()*float64(n.Count)
		}
	}
	return out
}

// The kinds of problems that Compare finds.
const (
	// NotAdopted is a document of the source that the next Adopt takes, if Detail does not say
	// why it cannot.
	NotAdopted = frame.NotAdopted
	// Edited is a document of the source that is not any more as it was adopted. Delete and
	// append what it changed.
	Edited = frame.Edited
	// Deleted is a document that was adopted and is gone from the source.
	Deleted = frame.Deleted
	// Differs is a series with another count, time or sum than in the source, or a document
	// that was adopted and that convert does not take any more.
	Differs = frame.Differs
)

// Unwind returns a convert function of Adopt for buckets with an array of measurements,
// as package bucket keeps them. What is pushed into a bucket after it was adopted is an edit,
// which is not carried over: leave out buckets that still fill, by Work.Filter.
func (s *Series[S, M]) Unwind(seriesField, arrayField string) func(doc bson.Raw) (S, []M, error) {
	return func(doc bson.Raw) (series S, all []M, err error) {
		if series, err = codec.DecodeValue[S](s.core.Codec, value.Lookup(doc, seriesField)); err == nil {
			all, err = codec.DecodeValue[[]M](s.core.Codec, value.Lookup(doc, arrayField))
		}
		if err != nil {
			err = fault.Invalid("%w", err)
		}
		return series, all, err
	}
}
