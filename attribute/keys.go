package attribute

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Collision says what happens to a document in which what is to be written
// exists already: an entry of the new key (RenameKey), an entry with another
// value than the field's (Adopt), a field with another value than the entry's
// (Unadopt).
type Collision string

const (
	// Skip leaves the whole document as it is and counts it.
	Skip Collision = ""
	// KeepTarget keeps what exists: the entry of the new key, the entry (Adopt),
	// the field (Unadopt). The other value is dropped.
	KeepTarget Collision = "keep target"
	// KeepSource overwrites it with what is moved.
	KeepSource Collision = "keep source"
)

func (c Collision) check(option string) error {
	switch c {
	case Skip, KeepTarget, KeepSource:
		return nil
	}
	return fmt.Errorf("%s: %w: %q", option, ErrInvalid, string(c))
}

// KeyOptions bounds RenameKey and RemoveKey.
type KeyOptions struct {
	// Filter narrows the documents, when they are found and again when they are
	// written. Default nil: all.
	Filter bson.D
	// OnCollision says what RenameKey does where the new key exists. Default
	// Skip.
	OnCollision Collision
	// BatchSize is how many documents one write changes. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// KeyResult counts documents.
type KeyResult struct {
	Examined int64 `json:"examined"` // had the key
	Changed  int64 `json:"changed"`
	// Skipped were left alone: on a collision, because ArrayField is no array, or
	// because they were changed or deleted by somebody else meanwhile. They are
	// found by the key, which they still have (Exists).
	Skipped int64 `json:"skipped"`
}

// RenameKey gives the entries of key from, of any qualifier, the key to in all
// documents. It can be stopped and run again, beside live writes; while these
// still write from, run it again at the end.
//
// Cost: 2 round trips a batch and perhaps 1 at the end, 1 write for each
// document with the key. The documents are found by the index on the keys or in
// the order of _id, as the server chooses, and written by _id.
func (a *Attributes[ID, V]) RenameKey(ctx context.Context, from, to string, opts *KeyOptions) (KeyResult, error) {
	err := checkRename(from, to)
	if err != nil {
		return KeyResult{}, wrap("rename key", err)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return KeyResult{}, wrap("rename key", err)
	}
	guard := a.has(from, nil)
	if o.OnCollision == Skip {
		guard = and(guard, a.separate(from, to))
	}
	result, err := a.batches(ctx, a.has(from, nil), guard, a.rename(from, to, o.OnCollision), o)
	return result, wrap("rename key", err)
}

// RemoveKey removes the entries of this key, of any qualifier, from all
// documents. It can be stopped and run again, beside live writes.
//
// Cost: 2 round trips a batch and perhaps 1 at the end, 1 write for each
// document with the key, found as by RenameKey.
func (a *Attributes[ID, V]) RemoveKey(ctx context.Context, key string, opts *KeyOptions) (KeyResult, error) {
	err := checkKey(key)
	if err != nil {
		return KeyResult{}, wrap("remove key", err)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return KeyResult{}, wrap("remove key", err)
	}
	update := op("$pull", bson.D{{Key: a.array, Value: a.exact(key, nil)}})
	result, err := a.batches(ctx, a.has(key, nil), a.has(key, nil), update, o)
	return result, wrap("remove key", err)
}

func (o *KeyOptions) withDefaults() (KeyOptions, error) {
	var out KeyOptions
	if o != nil {
		out = *o
	}
	if err := out.OnCollision.check("KeyOptions.OnCollision"); err != nil {
		return out, err
	}
	if err := scan.Defaults(ErrInvalid, "KeyOptions", &out.BatchSize, 1000, &out.Progress); err != nil {
		return out, err
	}
	return out, nil
}

// batches updates the documents of o.Filter that selected matches too, BatchSize
// at a time, those that match o.Filter and guard when it comes to them.
func (c *core) batches(ctx context.Context, selected, guard bson.D, update any, o KeyOptions) (KeyResult, error) {
	var result KeyResult
	guard = and(o.Filter, guard)
	for batch, err := range scan.Batches(ctx, c.coll, and(o.Filter, selected), bson.D{{Key: "_id", Value: 1}}, o.BatchSize) {
		if err != nil {
			return result, err
		}
		ids := make(bson.A, len(batch))
		for i, doc := range batch {
			ids[i] = doc.Lookup("_id")
		}
		updated, err := c.updateAll(ctx, ids, guard, update)
		if err != nil {
			return result, twoArrays(err)
		}
		result.Examined += int64(len(batch))
		result.Changed += updated.ModifiedCount
		result.Skipped += int64(len(batch)) - updated.MatchedCount
		o.Progress(result.Examined)
	}
	return result, nil
}

// updateAll updates the documents of these IDs that match guard and whose array
// can be written.
func (c *core) updateAll(ctx context.Context, ids bson.A, guard bson.D, update any) (*mongo.UpdateResult, error) {
	filter := and(bson.D{{Key: "_id", Value: op("$in", ids)}}, c.writable(), guard)
	return c.coll.UpdateMany(ctx, filter, update, options.UpdateMany().SetHint(byID))
}

func checkRename(from, to string) error {
	if err := checkKey(from); err != nil {
		return err
	}
	if err := checkKey(to); err != nil {
		return err
	}
	if from == to {
		return fmt.Errorf("%w: renaming %q to itself", ErrInvalid, from)
	}
	return nil
}

// qualifiersOf is the qualifiers of the entries of a key but not of other: a
// collation may hold them for one key, whose entries do not collide.
func (c *core) qualifiersOf(key, other string) bson.D {
	match := op("$and", c.keyed("$$o", key, nil), op("$not", bson.A{c.keyed("$$o", other, nil)}))
	return mapped(filtered(c.entries(), "o", match), "o", c.qualifierOf("$$o"))
}

// collides is whether both keys have an entry of one qualifier.
func (c *core) collides(from, to string) bson.D {
	return op("$gt", op("$size", op("$setIntersection", c.qualifiersOf(from, to), c.qualifiersOf(to, from))), 0)
}

// separate is the filter for documents in which they have none.
func (c *core) separate(from, to string) bson.D {
	return op("$expr", op("$not", bson.A{c.collides(from, to)}))
}

// rename is the update that gives entries of from the key to.
func (c *core) rename(from, to string, onCollision Collision) mongo.Pipeline {
	kept := c.entries()
	drop := func(key, other string) bson.D {
		return filtered(kept, "o", op("$not", bson.A{op("$and", c.keyed("$$o", key, nil),
			op("$in", c.qualifierOf("$$o"), c.qualifiersOf(other, key)))}))
	}
	switch onCollision {
	case KeepTarget:
		kept = drop(from, to)
	case KeepSource:
		kept = drop(to, from)
	}
	return mongo.Pipeline{set(c.array, mapped(kept, "o", cond(c.keyed("$$o", from, nil),
		op("$mergeObjects", "$$o", bson.D{{Key: c.key, Value: literal(to)}}), "$$o")))}
}
