package attribute

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
)

// Collision says what happens to a document in which what is to be written exists
// already: an entry of the new key (RenameKey), an entry (Adopt) or a field (Unadopt)
// with another value.
type Collision string

const (
	// Skip leaves the whole document as it is and counts it.
	Skip Collision = ""
	// KeepTarget keeps what exists and drops the other value.
	KeepTarget Collision = "keep target"
	// KeepSource overwrites it with what is moved.
	KeepSource Collision = "keep source"
)

func (c Collision) check() error {
	switch c {
	case Skip, KeepTarget, KeepSource:
		return nil
	}
	return fmt.Errorf("unknown: %q", string(c))
}

// RenameKey gives the entries of key from, of any qualifier, the key to in all
// documents that work selects. It can be stopped and run again, beside live writes.
// Skipped are documents left alone: on a collision (Options.OnCollision), because
// ArrayField is no array, or because somebody changed or deleted them meanwhile. Those
// still have the key (Exists).
//
// Cost: 2 round trips a batch and perhaps 1 at the end, 1 write for each document
// with the key, found by the index on the keys or in the order of _id.
func (a *Attributes[ID, V]) RenameKey(ctx context.Context, from, to string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "attribute: rename key")
	if err := checkRename(from, to); err != nil {
		return result, err
	}
	guard := a.c.has(from, nil)
	if a.c.onCollision == Skip {
		guard = and(guard, a.c.separate(from, to))
	}
	return a.c.batches(ctx, a.c.has(from, nil), guard, a.c.rename(from, to, a.c.onCollision), work)
}

// RemoveKey removes the entries of this key, of any qualifier, from all documents
// that work selects. It can be stopped and run again, beside live writes.
//
// Cost: as RenameKey.
func (a *Attributes[ID, V]) RemoveKey(ctx context.Context, key string, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "attribute: remove key")
	if err := checkKey(key); err != nil {
		return result, err
	}
	update := expr.Op("$pull", bson.D{{Key: a.c.array, Value: a.c.exact(key, nil)}})
	return a.c.batches(ctx, a.c.has(key, nil), a.c.has(key, nil), update, work)
}

// batches updates the documents that filter matches, and guard when it comes to
// them. The work's own filter counts both times.
func (c *core) batches(ctx context.Context, filter, guard bson.D, update any, work *mongopatterns.Work) (mongopatterns.Result, error) {
	return maintain.Run(ctx, c.coll, work, maintain.Scan{Filter: filter, Projection: bson.D{{Key: "_id", Value: 1}}},
		func(ctx context.Context, batch []bson.Raw, w mongopatterns.Work, result *mongopatterns.Result) error {
			return c.updateAll(ctx, batch, and(selected(w.Filter), guard), update, w, result)
		})
}

// updateAll updates the documents of a batch that match guard and whose array can be
// written.
func (c *core) updateAll(ctx context.Context, batch []bson.Raw, guard bson.D, update any, w mongopatterns.Work, result *mongopatterns.Result) error {
	ids := make(bson.A, len(batch))
	for i, doc := range batch {
		ids[i] = doc.Lookup("_id")
	}
	filter := and(bson.D{{Key: "_id", Value: expr.Op("$in", ids)}}, c.x.writable, guard)
	if w.DryRun {
		n, err := c.primary.CountDocuments(ctx, filter)
		result.Add(mongopatterns.Result{Done: n, Skipped: int64(len(batch)) - n})
		return err
	}
	updated, err := c.coll.UpdateMany(ctx, filter, update, options.UpdateMany().SetHint(byID))
	if err != nil {
		return twoArrays(err)
	}
	result.Add(mongopatterns.Result{Done: updated.ModifiedCount, Skipped: int64(len(batch)) - updated.MatchedCount})
	return nil
}

func checkRename(from, to string) error {
	if err := checkKey(from); err != nil {
		return err
	}
	if err := checkKey(to); err != nil {
		return err
	}
	if from == to {
		return fault.Invalid("renaming %q to itself", from)
	}
	return nil
}

// qualifiersOf is the qualifiers of the entries of a key but not of other: a
// collation may hold them for one key, whose entries do not collide.
func (c *core) qualifiersOf(key, other string) bson.D {
	match := expr.Op("$and", c.keyed("$$o", key, nil), expr.Op("$not", bson.A{c.keyed("$$o", other, nil)}))
	return expr.Map(expr.Filter(c.x.entries, "o", match), "o", c.qualifierOf("$$o"))
}

// collides is whether both keys have an entry of one qualifier.
func (c *core) collides(from, to string) bson.D {
	return expr.Op("$gt", expr.Op("$size", expr.Op("$setIntersection", c.qualifiersOf(from, to), c.qualifiersOf(to, from))), 0)
}

// separate is the filter for documents in which they have none.
func (c *core) separate(from, to string) bson.D {
	return expr.Op("$expr", expr.Op("$not", bson.A{c.collides(from, to)}))
}

// rename is the update that gives entries of from the key to.
func (c *core) rename(from, to string, onCollision Collision) mongo.Pipeline {
	kept := c.x.entries
	drop := func(key, other string) bson.D {
		return expr.Filter(kept, "o", expr.Op("$not", bson.A{expr.Op("$and", c.keyed("$$o", key, nil),
			expr.Op("$in", c.qualifierOf("$$o"), c.qualifiersOf(other, key)))}))
	}
	switch onCollision {
	case KeepTarget:
		kept = drop(from, to)
	case KeepSource:
		kept = drop(to, from)
	}
	return mongo.Pipeline{set(c.array, expr.Map(kept, "o", expr.Cond(c.keyed("$$o", from, nil),
		expr.Op("$mergeObjects", "$$o", bson.D{{Key: c.key, Value: expr.Literal(to)}}), "$$o")))}
}
