package versioning

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// BatchOptions bounds work on many documents.
type BatchOptions struct {
	// BatchSize is how many documents one transaction saves. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents done so far. Default
	// nil.
	Progress func(done int64)
}

// Saved is what SaveMany did with one document.
type Saved struct {
	// Number is the document's revision now, as returned by Save.
	Number int64 `json:"number"`
	// Err is why it was not saved: a *ConflictError, ErrNotFound or ErrInvalid.
	// Number is 0 then. Errors have no JSON.
	Err error `json:"-"`
}

// SaveMany saves documents, each as Save does, and returns what became of each, in
// their order. Those that cannot be saved leave the others alone. An error stops it;
// then the batches before, which the result has, are saved, and no more.
//
// Cost: for each batch 4 round trips, commit included, and 2 documents written for
// each document changed, found by _id; 1 more if one of them has had no number.
// Conflicts cost nothing more.
func (d *Documents[ID, T]) SaveMany(ctx context.Context, revisions []Revision[T], change Change, opts *BatchOptions) ([]Saved, error) {
	var o BatchOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "BatchOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return nil, fail("save many", err)
	}
	if err := change.check(); err != nil {
		return nil, fail("save many", err)
	}
	out := make([]Saved, 0, len(revisions))
	for len(revisions) > 0 {
		n := min(o.BatchSize, len(revisions))
		saved, err := d.saveBatch(ctx, revisions[:n], change)
		if err != nil {
			return out, fail("save many", err)
		}
		out = append(out, saved...)
		o.Progress(int64(len(out)))
		revisions = revisions[n:]
	}
	return out, nil
}

func (d *Documents[ID, T]) saveBatch(ctx context.Context, revisions []Revision[T], change Change) ([]Saved, error) {
	wishes := make([]wish, len(revisions))
	invalid := make([]error, len(revisions))
	ids, asked := bson.A{}, map[string]bool{}
	for i, r := range revisions {
		if wishes[i], invalid[i] = d.wish(r); invalid[i] != nil {
			continue
		}
		if key := rawvalue.Key(wishes[i].id); !asked[key] {
			asked[key] = true
			ids = append(ids, wishes[i].id)
		}
	}
	var out []Saved
	err := txn.Run(ctx, d.client(), func(ctx context.Context) error {
		out = make([]Saved, len(revisions))
		stored, err := d.loadMany(ctx, ids, nil)
		if err != nil {
			return err
		}
		var models []mongo.WriteModel
		var rows []bson.Raw
		var first bson.A // that have no number yet
		for i, w := range wishes {
			if out[i].Err = invalid[i]; out[i].Err != nil {
				continue
			}
			now := stored[rawvalue.Key(w.id)]
			switch {
			case now == nil:
				out[i].Err = of(w.id, ErrNotFound)
			case now.err != nil:
				out[i].Err = now.err
			case now.number != w.read:
				out[i].Err = &ConflictError{ID: now.id, Read: w.read, Current: now.number}
			case w.base == nil:
				out[i].Err = d.know(&w, now.state)
			}
			if out[i].Err != nil {
				continue
			}
			next := now.state
			all := w.apply(now.fields)
			switch ignored, changed := d.compare(now.fields, all); {
			case changed:
				if next, out[i].Err = d.successor(now.state, change, all); out[i].Err != nil {
					continue
				}
				rows = append(rows, d.row(now.state, next))
				first = append(first, bare(now.state)...)
			case ignored != nil:
				if next, out[i].Err = d.touched(now.state, all); out[i].Err == nil {
					out[i].Err = checkNames(next)
				}
				if out[i].Err != nil {
					continue
				}
			}
			if next != now.state {
				models = append(models, mongo.NewReplaceOneModel().
					SetFilter(d.guard(now.id, now.number)).SetReplacement(next.raw))
				stored[rawvalue.Key(w.id)] = &loaded{state: next}
			}
			out[i].Number = next.number
		}
		if len(models) == 0 {
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
	})
	return out, err
}

// loaded is a current document, or why it cannot be read as one.
type loaded struct {
	*state
	err error
}

// loadMany reads current documents by their _id, keyed by idKey.
func (d *Documents[ID, T]) loadMany(ctx context.Context, ids bson.A, projection bson.D) (map[string]*loaded, error) {
	out := make(map[string]*loaded, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	cursor, err := d.currentPrimary.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}},
		findBatch(len(ids), projection))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		s, err := d.parse(append(bson.Raw(nil), cursor.Current...))
		if s == nil {
			return nil, err
		}
		out[rawvalue.Key(s.id)] = &loaded{s, err}
	}
	return out, cursor.Err()
}

func findBatch(n int, projection bson.D) *options.FindOptionsBuilder {
	opts := options.Find().SetBatchSize(int32(min(n+1, 1<<20))) // one more closes the cursor with the first answer
	if projection != nil {
		opts.SetProjection(projection)
	}
	return opts
}
