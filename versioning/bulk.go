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
// whose commit was not answered. To repeat it, read again: what was saved conflicts.
// work.Filter is not used.
//
// Cost: for each batch 4 round trips, commit included, and 2 documents written for
// each document changed, found by _id; 1 more if one of them has had no number.
func (d *Documents[ID, T]) SaveMany(ctx context.Context, revisions iter.Seq2[Revision[T], error], change Change,
	work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "versioning: save many")
	w, err := maintain.Of(work, batchSize)
	if err != nil {
		return result, err
	}
	c, err := d.core.stamp(change)
	if err != nil {
		return result, err
	}
	var wishes []*wish // of the documents that no batch has had yet
	var ended error
	docs := func(yield func(bson.Raw, error) bool) {
		var r Revision[T]
		for r, ended = range revisions {
			if ended != nil {
				return
			}
			one, err := d.wish(r)
			if err != nil {
				result.Examined++
				result.Fail(d.core.current.Name(), one.raw.Lookup("_id"), err)
				continue
			}
			if wishes = append(wishes, one); !yield(one.raw, nil) {
				return
			}
		}
	}
	for batch := range cursor.Batches(docs, w.BatchSize, w.BatchBytes) {
		n := len(batch)
		if err := d.core.saveMany(ctx, wishes[:n], c, w.DryRun, &result); err != nil {
			return result, err
		}
		wishes = wishes[n:]
		w.Progress(result)
	}
	return result, ended
}

// saveMany saves a batch; if the server refuses it, one by one.
func (d *store) saveMany(ctx context.Context, wishes []*wish, change stamp, dry bool, total *mongopatterns.Result) error {
	keys := make([]bson.Raw, len(wishes))
	for i, w := range wishes {
		keys[i] = document([]field{{"_id", w.id}, {"i", valueOf(int32(i))}})
	}
	do := func(ctx context.Context, part []bson.Raw, result *mongopatterns.Result) error {
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
	}
	return maintain.Apart(ctx, d.current.Name(), keys, total, do)
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
		next, err := now.state, now.err
		switch one := *w; { // the transaction may run again
		case err != nil:
		case now.state == nil:
			err = fault.Of(w.id, fault.ErrNotFound)
		default:
			next, err = d.next(&one, now.state, change)
		}
		if err != nil {
			result.Fail(d.current.Name(), w.id, err)
			continue
		}
		if next == now.state {
			result.Skipped++
			continue
		}
		if next.number > now.number && d.revisions != nil {
			rows = append(rows, d.row(now.state, next))
			first = append(first, bare(now.state)...)
		}
		result.Done++
		models = append(models, mongo.NewReplaceOneModel().SetFilter(d.guard(now.id, now.number)).SetReplacement(next.document()))
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
		return d.primary.current.Find(ctx, bson.D{expr.Element("_id", expr.Op("$in", ids))},
			options.Find().SetBatchSize(int32(min(len(ids)+1, 1<<20)))) // one more closes the cursor with the first answer
	}) {
		if err != nil {
			return nil, err
		}
		s, err := d.parse(raw)
		out[value.Key(s.id)] = loaded{s, err}
	}
	return out, nil
}
