package versioning

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// PruneOptions says which revisions go: those that neither Keep nor Before protects.
// With both set a revision has to be old and not among the newest to be deleted; to
// delete what is one of the two, call Prune once with each. One of them is needed.
type PruneOptions struct {
	// Keep protects the newest revisions of a document in the history, the current
	// one not counted, a deletion counted. Default 0: protects none. The newest one
	// always stays.
	Keep int
	// Before protects what AsOf needs for this time and later ones: the revision
	// that was current then, and those after it. Default the zero time: protects
	// none.
	Before time.Time
	// BatchSize is how many documents' revisions are deleted in one round trip.
	// Default 100.
	BatchSize int
	// Progress is called after each batch with the revisions deleted so far.
	// Default nil.
	Progress func(done int64)
}

// PruneResult says what was done.
type PruneResult struct {
	Examined int64 `json:"examined"` // revisions
	Deleted  int64 `json:"deleted"`
}

// Prune deletes old revisions of one document. At and AsOf then return
// ErrPruned for them.
//
// Cost: 1 round trip for the document's revisions (keys of the index on time only)
// and 1 to delete.
func (d *Documents[ID, T]) Prune(ctx context.Context, id ID, opts *PruneOptions) (PruneResult, error) {
	result, err := d.prune(ctx, d.HistoryFilter(id), opts)
	return result, fail("prune", err)
}

// PruneAll deletes old revisions of all documents. It can run beside other writers,
// be stopped, and be run again. What is no revision, see InvalidRevision, it passes
// over.
//
// Cost: reads the index on time, 1 round trip a batch of the cursor; 1 for each
// batch of BatchSize documents that have something to delete, by the unique index.
func (d *Documents[ID, T]) PruneAll(ctx context.Context, opts *PruneOptions) (PruneResult, error) {
	result, err := d.prune(ctx, bson.D{}, opts)
	return result, fail("prune all", err)
}

func (d *Documents[ID, T]) prune(ctx context.Context, filter bson.D, opts *PruneOptions) (PruneResult, error) {
	var result PruneResult
	var o PruneOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "PruneOptions", &o.BatchSize, defaultBatchSize, &o.Progress); err != nil {
		return result, err
	}
	if err := checkTime("PruneOptions.Before", o.Before); err != nil {
		return result, err
	}
	switch {
	case o.Keep < 0:
		return result, fmt.Errorf("%w: PruneOptions.Keep: negative", ErrInvalid)
	case o.Keep == 0 && o.Before.IsZero():
		return result, fmt.Errorf("%w: PruneOptions.Keep: it or Before is needed", ErrInvalid)
	}
	cursor, err := d.revisionsPrimary.Find(ctx, filter, options.Find().SetSort(d.byTime()).SetProjection(bson.D{
		{Key: "_id", Value: 0}, {Key: d.opts.DocumentIDField, Value: 1}, {Key: d.opts.RevisionField, Value: 1}, {Key: d.at(), Value: 1},
	}))
	if err != nil {
		return result, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var models []mongo.WriteModel
	flush := func() error {
		if len(models) == 0 {
			return nil
		}
		done, err := d.revisions.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if done != nil {
			result.Deleted += done.DeletedCount
		}
		if err != nil {
			return err
		}
		models = models[:0]
		o.Progress(result.Deleted)
		return nil
	}
	// Of one document: its newest revisions, as far as Keep needs them, and the last
	// one of those up to Before.
	var document bson.RawValue
	var key string
	var newest []int64
	var needed, oldest int64
	end := func() error {
		if len(newest) == 0 {
			return nil
		}
		cut := slices.Min(newest) // not the first one where times run backwards
		if !o.Before.IsZero() {
			cut = min(cut, needed)
		}
		if cut > oldest {
			models = append(models, mongo.NewDeleteManyModel().SetFilter(
				d.rowFilter(d.equal(document), bson.E{Key: d.opts.RevisionField, Value: bson.D{{Key: "$lt", Value: cut}}})))
		}
		newest, needed, oldest = nil, 0, 0
		if len(models) < o.BatchSize {
			return nil
		}
		return flush()
	}
	for cursor.Next(ctx) {
		r, err := d.parseRow(append(bson.Raw(nil), cursor.Current...))
		if err != nil {
			continue // no revision: Check reports it, and nothing here deletes it
		}
		result.Examined++
		if k := rawvalue.Key(r.document); k != key || len(newest) == 0 {
			if err := end(); err != nil {
				return result, err
			}
			document, key = r.document, k
			needed, oldest = r.number, r.number
		}
		if newest = append(newest, r.number); len(newest) > max(o.Keep, 1) {
			newest = newest[1:]
		}
		if r.change.At.UnixMilli() <= o.Before.UnixMilli() {
			needed = r.number
		}
		needed = min(needed, r.number)
	}
	if err := cursor.Err(); err != nil {
		return result, err
	}
	if err := end(); err != nil {
		return result, err
	}
	return result, flush()
}
