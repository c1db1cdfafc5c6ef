package attribute

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// RenameKey changes the key of the entries with key from, with any qualifier, to the key to, in all
// documents that work selects. It can be stopped and run again, during live writes. Skipped counts
// documents that were not changed because an entry with key to has the same qualifier, because
// ArrayField is not an array, or because somebody changed or deleted them meanwhile. In the first
// two cases they still have the key from, so find them with Exists.
//
// Cost: 1 round trip, 2 for each batch and perhaps 1 at the end, and 1 write for each document with the key.
//   - These are found by the index on the keys, or in the order of _id.
func (a *Attributes[ID, V]) RenameKey(ctx context.Context, from, to string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "attribute.RenameKey")
	defer fault.In(&err, "attribute.RenameKey")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := cmp.Or(checkKey(from), checkKey(to)); err != nil {
		return result, err
	}
	if from == to {
		return result, fault.Invalid("to: the new name of %q is the same", from)
	}
	c := a.c
	if err := c.ready(ctx, work); err != nil {
		return result, err
	}
	collide := expr.Op("$setIntersection", c.qualifiersOf(from), c.qualifiersOf(to))
	update := mongo.Pipeline{set(c.array, expr.Map(c.x.entries, "o", expr.Cond(c.keyed(from, nil),
		expr.Op("$mergeObjects", "$$o", expr.D(c.key, expr.Literal(to))), "$$o")))}
	return c.batches(ctx, c.has(from, nil), bson.A{expr.Op("$ne", collide, bson.A{})}, update, work, false)
}

// RemoveKey removes the entries with this key, with any qualifier, from all documents that work
// selects. It can be stopped and run again, during live writes.
//
// Cost: that of RenameKey.
func (a *Attributes[ID, V]) RemoveKey(ctx context.Context, key string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "attribute.RemoveKey")
	defer fault.In(&err, "attribute.RemoveKey")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := checkKey(key); err != nil {
		return result, err
	}
	if err := a.c.ready(ctx, work); err != nil {
		return result, err
	}
	return a.c.batches(ctx, a.c.has(key, nil), nil, mongo.Pipeline{a.c.without(a.c.keyed(key, nil))}, work, false)
}

// batches updates the documents that filter matches, unless a test of blocked holds. The update
// itself evaluates both again, and the work's filter. With remain, blocked documents are counted
// as Remaining, which takes one more command for a batch with some.
func (c *core) batches(ctx context.Context, filter bson.D, blocked bson.A, update mongo.Pipeline, work *mongopatterns.Work, remain bool) (mongopatterns.Result, error) {
	free := expr.Op("$and", c.x.writable, expr.Op("$not", expr.Op("$or", blocked...)))
	return maintain.Run(ctx, c.coll, work, maintain.Scan{Filter: filter, Projection: expr.D("_id", 1)},
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			err := c.updateAll(ctx, batch, expr.And(w.Filter, filter, expr.Op("$expr", free)), update, w, result)
			if err != nil || !remain || result.Skipped == 0 {
				return err
			}
			n, err := c.primary.CountDocuments(ctx, expr.And(idIn(batch), w.Filter, filter, expr.Op("$expr", expr.Op("$not", bson.A{free}))))
			n = min(n, result.Skipped) // others may be blocked since the update
			result.Skipped, result.Remaining = result.Skipped-n, n
			return err
		})
}

func idIn(batch []bson.Raw) bson.D {
	ids := make(bson.A, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("_id")
	}
	return expr.D("_id", expr.Op("$in", ids))
}

// updateAll updates the documents of a batch that match guard and whose array can be
// written.
func (c *core) updateAll(ctx context.Context, batch []bson.Raw, guard any, update mongo.Pipeline, w mongopatterns.Work, result *mongopatterns.Result) error {
	filter := expr.And(append(idIn(batch), expr.Element("$expr", c.x.writable)), guard)
	if w.DryRun {
		n, err := c.primary.CountDocuments(ctx, filter)
		if err == nil {
			maintain.Add(result, mongopatterns.Result{Done: n, Skipped: int64(len(batch)) - n})
		}
		return err
	}
	updated, err := fault.Many(c.coll.UpdateMany(ctx, filter, update, options.UpdateMany().SetHint(byID)))
	if err != nil {
		return twoArrays(err)
	}
	maintain.Add(result, mongopatterns.Result{Done: updated.ModifiedCount, Skipped: int64(len(batch)) - updated.MatchedCount})
	return nil
}

// qualifiersOf is the qualifiers of the entries with a key.
func (c *core) qualifiersOf(key string) bson.D {
	return expr.Map(c.those(c.keyed(key, nil)), "o", c.qualifierOf("$$o"))
}
