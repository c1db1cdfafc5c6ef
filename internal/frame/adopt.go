package frame

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Adopt calls convert for each document of a source that is not in its ledger, and stores what convert adds
// to a batch, each batch in one transaction with its ledger entries. Refused documents are not entered, so
// the next call looks at them again.
func (f *Frame) Adopt(ctx context.Context, src *mongo.Collection, work *mongopatterns.Work, begin func() Batch,
	convert func(b Batch, doc bson.Raw) error) (total mongopatterns.Result, err error) {
	defer fault.Part(&err, &total.Done, &total.Unknown)
	w, err := maintain.Of(work, ManyBatch)
	if err != nil {
		return total, err
	}
	l, err := f.ledgerOf(src)
	if err == nil {
		// A source with a default collation has its _ids in another order than the ledger.
		err = transfer.Ready(ctx, work, []*mongo.Collection{f.Coll, l.coll}, src)
	}
	if err == nil {
		err = l.open(ctx)
	}
	if err != nil {
		return total, err
	}
	var batch []bson.Raw
	held, reported := 0, int64(0) // bytes of the batch; documents examined at the last Progress
	flush := func() error {
		if len(batch) > 0 {
			err := maintain.Apart(ctx, src.Name(), batch, w.Strict, &total, func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
				return f.adopt(ctx, l, src, part, w, result, begin(), convert)
			})
			if err != nil {
				return err
			}
			l.settle()
			batch, held = nil, 0
		}
		if total.Examined > reported {
			reported = total.Examined
			w.Progress(total)
		}
		return nil
	}
	for m, err := range l.scan(ctx, src, w) {
		if err != nil {
			return total, err
		}
		switch m.finding {
		case unknown:
			if len(batch) > 0 && (held+len(m.doc) > w.BatchBytes || l.full()) {
				if err := flush(); err != nil {
					return total, err
				}
			}
			l.touch()
			batch, held = append(batch, bytes.Clone(m.doc)), held+len(m.doc)
		case gone:
			total.Skipped++
		default:
			total.Skipped++
			total.Examined++
		}
		if len(batch) == w.BatchSize || len(batch) == 0 && total.Examined-reported >= int64(w.BatchSize) {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// adopt stores a batch of documents that are not in the ledger, and enters them.
func (f *Frame) adopt(ctx context.Context, l *ledger, src *mongo.Collection, docs []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result, b Batch,
	convert func(b Batch, doc bson.Raw) error) error {
	var entries []entry
	for _, doc := range docs {
		id := doc.Lookup("_id")
		switch err := convert(b, doc); {
		case err == nil:
			id.Value = bytes.Clone(id.Value) // so that the ledger does not hold the document
			entries = append(entries, entry{id, hashOf(doc)})
		case errors.Is(err, fault.ErrSkip):
			result.Skipped++
		case errors.Is(err, fault.ErrInvalid) && !w.Strict:
			maintain.Fail(result, src.Name(), id, err)
		default:
			return fault.Of(id, err)
		}
	}
	if w.DryRun {
		count, _ := b.Size()
		result.Done += int64(count)
		return nil
	}
	if len(entries) == 0 {
		return nil
	}
	changed := l.add(entries)
	var done mongopatterns.Result
	err := maintain.Once(ctx, f.Coll.Database(), func(ctx context.Context) error {
		err := l.write(ctx, changed) // first, so that the later of two writers stores nothing, and counts no document as refused for it
		if err == nil {
			done, err = b.Store(ctx)
		}
		return err
	})
	if err == nil {
		l.stored(changed)
		maintain.Add(result, done)
	}
	return err
}

// Plain converts a source document to one measurement, without the field of the series, and without _id
// unless keepID. It refuses a document that cannot be decoded to fits, a pointer to a measurement, but
// keeps fields that fits lacks.
func (f *Frame) Plain(doc bson.Raw, keepID bool, fits any) (series bson.RawValue, m bson.Raw, err error) {
	series = doc.Lookup(f.Series)
	m = value.Pick(doc, func(field []byte) bool { return string(field) != f.Series && (keepID || string(field) != "_id") })
	if series.Type == 0 {
		err = fmt.Errorf("the document has no series in %q", f.Series)
	} else {
		err = f.Codec.Decode(m, fits)
	}
	if err != nil {
		err = fault.Invalid("%w", err)
	}
	return series, m, err
}
