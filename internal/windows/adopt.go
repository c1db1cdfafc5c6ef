package windows

import (
	"bytes"
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt calls convert for each document of a source that is not in its ledger, and stores what convert adds
// to a batch, each batch in one transaction with its ledger entries. Refused documents are not entered, so
// the next call looks at them again.
func (f *Frame) Adopt(ctx context.Context, src *scoped.Collection, work *mongopatterns.Work, begin func() Batch,
	convert func(b Batch, doc bson.Raw) error) (total mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &total.Done, &total.Unknown)
	w, err := maintain.Completed(work, manyBatch)
	if err != nil {
		return total, err
	}
	l, err := f.newLedger(src)
	if err != nil {
		return total, err
	}
	// A source with a default collation has its _ids in another order than the ledger.
	if err := transfer.Ready(ctx, work, []*scoped.Collection{f.Coll, l.coll}, src); err != nil {
		return total, err
	}
	a := adoption{to: f, src: src, ledger: l, work: w, begin: begin, convert: convert}
	err = a.run(ctx)
	return a.total, err
}

// An adoption is an Adopt under way.
type adoption struct {
	to      *Frame
	src     *scoped.Collection
	ledger  *ledger
	work    mongopatterns.Work
	begin   func() Batch
	convert func(b Batch, doc bson.Raw) error

	batch    []bson.Raw // documents that are not in the ledger
	bytes    int        // of the batch
	total    mongopatterns.Result
	reported int64 // documents examined at the last Progress
}

func (a *adoption) run(ctx context.Context) error {
	for m, err := range a.ledger.scan(ctx, a.src, a.work) {
		if err != nil {
			return err
		}
		if err := a.take(ctx, m); err != nil {
			return err
		}
	}
	return a.flush(ctx)
}

// take puts a document that is not in the ledger into the batch, and stores the batch when it is full.
func (a *adoption) take(ctx context.Context, m scanned) error {
	switch m.state {
	case unadopted:
		if len(a.batch) > 0 && (a.bytes+len(m.doc) > a.work.BatchBytes || a.ledger.full()) {
			if err := a.flush(ctx); err != nil {
				return err
			}
		}
		a.ledger.reserve()
		a.batch, a.bytes = append(a.batch, bytes.Clone(m.doc)), a.bytes+len(m.doc)
	case gone:
		a.total.Skipped++
	default:
		a.total.Skipped++
		a.total.Examined++
	}
	if len(a.batch) == a.work.BatchSize || len(a.batch) == 0 && a.total.Examined-a.reported >= int64(a.work.BatchSize) {
		return a.flush(ctx)
	}
	return nil
}

// flush stores the batch and reports the progress.
func (a *adoption) flush(ctx context.Context) error {
	if len(a.batch) > 0 {
		if err := maintain.InHalves(ctx, a.src.Name(), a.batch, a.work.Strict, &a.total, a.store); err != nil {
			return err
		}
		a.ledger.release()
		a.batch, a.bytes = nil, 0
	}
	if a.total.Examined > a.reported {
		a.reported = a.total.Examined
		a.work.Progress(a.total)
	}
	return nil
}

// store converts and stores documents that are not in the ledger, and enters them.
func (a *adoption) store(ctx context.Context, docs []bson.Raw, result *mongopatterns.Result) error {
	b := a.begin()
	entries, err := a.converted(b, docs, result)
	if err != nil {
		return err
	}
	if a.work.DryRun {
		count, _ := b.Size()
		result.Done += int64(count)
		return nil
	}
	if len(entries) == 0 {
		return nil
	}
	var done mongopatterns.Result
	err = a.ledger.enter(ctx, entries, func(ctx context.Context) (err error) {
		done, err = b.Store(ctx)
		return err
	})
	if err != nil {
		return err
	}
	maintain.Add(result, done)
	return nil
}

// converted adds documents to a batch and returns their entries for the ledger.
func (a *adoption) converted(b Batch, docs []bson.Raw, result *mongopatterns.Result) (entries []entry, err error) {
	for _, doc := range docs {
		id := doc.Lookup("_id")
		switch err := a.convert(b, doc); {
		case err == nil:
			id.Value = bytes.Clone(id.Value) // so that the ledger does not hold the document
			entries = append(entries, entry{id, hashOf(doc)})
		case errors.Is(err, fault.ErrSkip):
			result.Skipped++
		case errors.Is(err, fault.ErrInvalid) && !a.work.Strict:
			maintain.Fail(result, a.src.Name(), id, err)
		default:
			return nil, fault.Of(id, err)
		}
	}
	return entries, nil
}

// Plain converts a source document to one measurement, without the field of the series, and without _id
// unless keepID. It refuses a document that cannot be decoded to fits, a pointer to a measurement, but
// keeps fields that fits lacks.
func (f *Frame) Plain(doc bson.Raw, keepID bool, fits any) (series bson.RawValue, m bson.Raw, err error) {
	series = doc.Lookup(f.SeriesField)
	m = value.Pick(doc, func(field []byte) bool { return string(field) != f.SeriesField && (keepID || string(field) != "_id") })
	if series.Type == 0 {
		return series, m, fault.Invalid("the document has no series in %q", f.SeriesField)
	}
	return series, m, f.Codec.DecodeGiven(m, fits)
}
