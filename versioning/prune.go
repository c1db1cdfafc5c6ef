package versioning

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Retention says which revisions Prune keeps. These are all that Keep or Before protects.
type Retention struct {
	// Keep protects this many of the newest revisions of each document in the history. A deletion
	// counts, but the current revision does not. Default 0: none. The newest one in the history is
	// always kept, so that numbers continue.
	Keep int
	// Before protects the revisions that AsOf needs for this time and later, which are the revision
	// that was current then and those after it. It is in the years 1 to 9999. Default the zero
	// time: none.
	Before time.Time
}

// Prune deletes old revisions. At and AsOf then return ErrPruned for them. Documents in the
// collection that are not revisions (see Malformed) are kept. Result.Examined counts documents, and
// Done counts deleted revisions. work.Filter selects as in Check. One of keep.Keep and keep.Before
// must be set.
//
// In a transaction of yours on a sharded cluster it needs MongoDB 8.0, because it joins the collections.
//
// Cost: 1 round trip, and for each 100 documents 2, reading the index on time alone, and 1 to delete, by the unique
// index.
//   - Those that only the history has: 1 or more to list them.
func (d *History[ID, T]) Prune(ctx context.Context, keep Retention, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "versioning.Prune")
	defer fault.In(&err, "versioning.Prune")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := checkTime("Retention.Before", keep.Before); err != nil {
		return mongopatterns.Result{}, err
	}
	switch {
	case keep.Keep < 0:
		return mongopatterns.Result{}, fault.Invalid("Retention.Keep: it must not be negative")
	case keep.Keep == 0 && keep.Before.IsZero():
		return mongopatterns.Result{}, fault.Invalid("Retention.Keep or Before must be set")
	case d.core.revisions == nil:
		return mongopatterns.Result{}, nil
	}
	if err := d.core.refuseCollation(ctx); err != nil { // a collation would mix the histories of "a" and "A"
		return result, err
	}
	prune := func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
		return d.core.prune(ctx, keep, batch, w.DryRun, result)
	}
	return d.core.each(ctx, work, only, prune, prune)
}

func (d *store) prune(ctx context.Context, keep Retention, batch []bson.Raw, dry bool,
	result *mongopatterns.Result) error {
	histories := map[string][]*row{} // each by time
	for raw, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		indexed := expr.D("_id", 0, d.opts.DocumentIDField, 1, d.opts.RevisionField, 1, d.at(), 1)
		return d.primary.revisions.Find(ctx, d.rowsOf(expr.Op("$in", idsOf(batch))),
			options.Find().SetSort(d.byTime()).SetProjection(indexed))
	}) {
		if err != nil {
			return err
		}
		if r, invalid := d.parseRow(raw); invalid == nil && r.id.Type != bson.TypeNull {
			key := value.Key(r.id)
			histories[key] = append(histories[key], r)
		}
	}
	var models []mongo.WriteModel
	for _, rows := range histories {
		cut := keep.cut(rows)
		if cut == 1 {
			continue
		}
		filter := d.before(rows[0].id, cut)
		if !dry {
			models = append(models, mongo.NewDeleteManyModel().SetFilter(filter))
			continue
		}
		n, err := d.primary.revisions.CountDocuments(ctx, filter)
		result.Done += n
		if err != nil {
			return err
		}
	}
	if len(models) == 0 {
		return nil
	}
	done, err := fault.Many(d.revisions.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
	if done != nil {
		result.Done += done.DeletedCount
	}
	return err
}

// cut returns the number of the oldest revision to keep. Where times decrease, that is not the
// first one by time.
func (k Retention) cut(rows []*row) int64 {
	numbers := make([]int64, len(rows))
	last := 0 // the last one up to Before
	for i, r := range rows {
		numbers[i] = r.number
		if r.change.at.UnixMilli() <= k.Before.UnixMilli() {
			last = i
		}
	}
	needed := slices.Min(numbers[last:])
	slices.Sort(numbers)
	cut := numbers[max(0, len(numbers)-max(k.Keep, 1))]
	if !k.Before.IsZero() {
		cut = min(cut, needed)
	}
	return cut
}

// before selects the revisions of a document with numbers below number, and only rows that are
// revisions.
func (d *store) before(id bson.RawValue, number int64) bson.D {
	return append(d.numbered(id, 1, expr.Element("$lt", number)),
		expr.Element("$or", bson.A{
			bson.D{expr.Element(documentKey, expr.Op("$type", "object"))},
			bson.D{expr.Element(deltaKey, expr.Op("$type", "object"))},
			bson.D{expr.Element(deletedKey, true)},
		}))
}
