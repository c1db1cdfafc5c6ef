package versioning

import (
	"context"
	"errors"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// SaveMany saves documents, each as Save does, batch by batch in one transaction
// each. Those that cannot be saved are Failed: a *ConflictError,
// mongopatterns.ErrNotFound, ErrInvalid, or what the server refuses; they leave the
// others alone. Unchanged ones are Skipped. If an error ends it, the batches before are
// saved, and if the sequence ends with one, all before it; Unknown are those of a batch
// whose commit was not answered. To repeat it, read again: what was saved conflicts. work.Filter
// is not used.
//
// Cost: for each batch 4 round trips, commit included, and 2 documents written for
// each document changed, found by _id; 1 more if one of them has had no number.
func (d *Documents[ID, T]) SaveMany(ctx context.Context, revisions iter.Seq2[Revision[T], error], change Change, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "versioning: save many")
	w, err := maintain.Of(work, batchSize)
	if err != nil {
		return result, err
	}
	c, err := d.core.stamp(change)
	if err != nil {
		return result, err
	}
	var batch []*wish
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := d.core.saveMany(ctx, batch, c, w.DryRun, &result)
		batch, size = nil, 0
		if err == nil {
			w.Progress(result)
		}
		return err
	}
	for r, err := range revisions {
		if err != nil {
			if failed := flush(); failed != nil {
				return result, failed
			}
			return result, err
		}
		one, err := d.wish(r)
		if err != nil {
			id, _ := d.core.codec.Value(r.Document)
			result.Examined++
			result.Fail(d.core.current.Name(), lookupID(id), err)
			continue
		}
		bytes := len(one.next)
		if len(batch) == w.BatchSize || size+bytes > w.BatchBytes {
			if err := flush(); err != nil {
				return result, err
			}
		}
		batch, size = append(batch, one), size+bytes
	}
	return result, flush()
}

func lookupID(v bson.RawValue) bson.RawValue {
	doc, _ := v.DocumentOK()
	return doc.Lookup("_id")
}

// saveMany saves a batch; if the server refuses it, one by one.
func (d *store) saveMany(ctx context.Context, wishes []*wish, change stamp, dry bool, total *mongopatterns.Result) error {
	keys := make([]bson.Raw, len(wishes))
	for i, w := range wishes {
		keys[i] = document([]field{{"_id", w.id}, {"i", int32Value(i)}})
	}
	return maintain.Apart(ctx, d.current.Name(), keys, total, func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
		some := make([]*wish, len(part))
		for i, key := range part {
			some[i] = wishes[key.Lookup("i").Int32()]
		}
		err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
			*result = mongopatterns.Result{}
			return d.saveBatch(ctx, some, change, dry, result)
		})
		var server mongo.ServerError
		if errors.As(err, &server) && server.HasErrorLabel("UnknownTransactionCommitResult") {
			total.Unknown += result.Done
		}
		return err
	})
}

func (d *store) saveBatch(ctx context.Context, wishes []*wish, change stamp, dry bool, result *mongopatterns.Result) error {
	ids, asked := bson.A{}, map[string]bool{}
	for _, w := range wishes {
		if key := value.Key(w.id); !asked[key] {
			asked[key] = true
			ids = append(ids, w.id)
		}
	}
	stored, err := d.loadMany(ctx, ids)
	if err != nil {
		return err
	}
	var models []mongo.WriteModel
	var rows []bson.Raw
	var first bson.A // that have no number yet
	for _, w := range wishes {
		now := stored[value.Key(w.id)]
		next, err := d.nextOf(w, now, change)
		switch {
		case err != nil:
			result.Fail(d.current.Name(), w.id, err)
			continue
		case next == now.state:
			result.Skipped++
			continue
		case next.number > now.number && d.revisions != nil:
			rows = append(rows, d.row(now.state, next))
			first = append(first, bare(now.state)...)
		}
		result.Done++
		filter := d.guard(now.id, now.number)
		if next.update != nil && next.exact {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(next.update))
		} else {
			models = append(models, mongo.NewReplaceOneModel().SetFilter(filter).SetReplacement(next.raw))
		}
		stored[value.Key(w.id)] = loaded{state: next}
	}
	if dry || len(models) == 0 {
		return nil
	}
	done, err := d.current.BulkWrite(ctx, models) // ordered: one document may come twice
	if err != nil {
		return err
	}
	if done.MatchedCount != int64(len(models)) {
		return txn.Conflict("save a batch")
	}
	if len(rows) == 0 {
		return nil
	}
	return d.archive(ctx, first, rows...)
}

// nextOf is what a wish makes of the current document: itself if nothing changes.
func (d *store) nextOf(w *wish, now loaded, change stamp) (*state, error) {
	switch {
	case now.err != nil:
		return nil, now.err
	case now.state == nil:
		return nil, fault.Of(w.id, fault.ErrNotFound)
	case now.number != w.read:
		return nil, &ConflictError{ID: now.id, Read: w.read, Current: now.number}
	}
	if w.base == nil {
		known := *w // a transaction may run again
		w = &known
		if err := d.know(w, now.state); err != nil {
			return nil, err
		}
	}
	what := w.apply(now.state)
	switch {
	case d.counts(what):
		return d.successor(now.state, &change, what)
	case len(what) > 0:
		return d.successor(now.state, nil, what)
	}
	return now.state, nil
}

// loaded is a current document, or why it cannot be read as one.
type loaded struct {
	*state
	err error
}

// loadMany reads current documents by their _id, keyed by value.Key.
func (d *store) loadMany(ctx context.Context, ids bson.A) (map[string]loaded, error) {
	out := make(map[string]loaded, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return d.currentPrimary.Find(ctx, bson.D{expr.Element("_id", expr.Op("$in", ids))},
			options.Find().SetBatchSize(int32(min(len(ids)+1, 1<<20)))) // one more closes the cursor with the first answer
	}) {
		if err != nil {
			return nil, err
		}
		s, err := d.parse(raw)
		if s == nil {
			return nil, err
		}
		out[value.Key(s.id)] = loaded{s, err}
	}
	return out, nil
}
