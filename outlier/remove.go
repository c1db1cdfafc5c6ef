package outlier

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Remove takes the last element that equals e out of a list and reports whether
// there was one: ErrNotFound without a parent. The others keep their order. When the
// total has come down to Options.FoldBack, everything moves back into the parent.
//
// Repeated after an unknown outcome it removes from a list that is no set a second
// element, if there is one.
//
// Cost: 1 round trip, 1 document written, found by _id, if the parent has no overflow.
// Outliers: 3, 1 document written, if the parent holds the element; else 4, 2
// documents written (5 if there is none, the parent written twice).
// An overflow document that is empty then is deleted: 1 more. Folding back: 5 more; of a
// set 1 more. An element of more than 4 MiB, in an outlier: 1 more, or 2.
func (l *Lists[ID, E]) Remove(ctx context.Context, id ID, e E) (removed bool, err error) {
	defer fault.In(&err, "outlier: remove")
	raw, x, err := l.c.pair(id, e)
	if err != nil {
		return false, err
	}
	removed, err = l.c.remove(ctx, raw, x)
	return removed, fault.Of(raw, err)
}

// remove writes a typical parent alone. That of an outlier is written first in a
// transaction: so no two of them run at the same time.
func (c *core) remove(ctx context.Context, id, x bson.RawValue) (removed bool, err error) {
	for range maxAttempts {
		result, err := fault.One(c.coll.UpdateOne(ctx, c.parent(id, c.x.typical...),
			mongo.Pipeline{expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x)))}))
		if err != nil || result.MatchedCount > 0 {
			return err == nil && result.ModifiedCount > 0, err
		}
		err = c.run(ctx, func(ctx context.Context) (err error) {
			removed, err = c.removeLocked(ctx, id, x)
			return err
		})
		if !errors.Is(err, fault.ErrNotFound) {
			return removed && err == nil, err
		}
		if _, err := c.read(ctx, id, nil); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%w: the list has changed %d times meanwhile", fault.ErrConflict, maxAttempts)
}

// withoutLast is the array without the last x. An array without x stays what it is, also
// missing or null.
func (c *core) withoutLast(x bson.RawValue) bson.D {
	array, length := c.x.array, expr.Op("$max", size(c.x.array), 1)
	rest := expr.Op("$concatArrays",
		expr.Cond(expr.Op("$gt", "$$at", 0), expr.Op("$slice", array, expr.Op("$max", "$$at", 1)), bson.A{}),
		expr.Op("$slice", array, expr.Op("$add", "$$at", 1), length))
	return expr.Let("at", c.lastPlace(x), expr.Cond(expr.Op("$lt", "$$at", size(array)), rest, expr.Field(c.o.ArrayField)))
}

// lastPlace is where the last x stands in the array, its length if it has none. The server has
// no search from the end. x, which may be as large as a command, is in it once.
func (c *core) lastPlace(x bson.RawValue) bson.D {
	return expr.Let("reverse", expr.Op("$reverseArray", c.x.array), expr.Op("$subtract",
		expr.Op("$subtract", size("$$reverse"), 1), expr.Op("$indexOfArray", "$$reverse", expr.Literal(x))))
}

// sentTwice bounds an element that a command may hold twice; a larger one costs a round trip
// more where its place has to be known.
const sentTwice = 4 << 20

// removeLocked removes from an outlier, in a transaction: ErrNotFound if the parent is none,
// or not there. Elements outside are counted down first, and up again if there is none.
func (c *core) removeLocked(ctx context.Context, id, x bson.RawValue) (bool, error) {
	before, held, err := c.removeInside(ctx, id, x)
	if err != nil {
		return false, err
	}
	id = before.ID // as the overflow documents have it
	left := before.Outside + before.Of.Document().Lookup("size").AsInt64() - 1
	if !held {
		extra, err := c.removeOutside(ctx, id, x)
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err = fault.One(c.coll.UpdateOne(ctx, c.parent(id), expr.Op("$inc", expr.D(c.o.OutsideField, 1))))
			return false, err
		}
		if err == nil && extra.Size == 1 {
			_, err = fault.One(c.overflow.DeleteOne(ctx, c.extras(id, expr.Element("_id", extra.ID))))
		}
		if err != nil {
			return false, err
		}
		before.Outside--
	}
	// The last element outside makes the parent typical.
	if before.Outside == 0 || left <= int64(c.o.FoldBack) {
		err = c.arrange(ctx, id)
	}
	return true, err
}

// removeInside takes the last x out of the array of an outlier, or one from the number of
// elements outside. It returns the state before, and whether the parent held x.
func (c *core) removeInside(ctx context.Context, id, x bson.RawValue) (before state, held bool, err error) {
	outside := func(field string) string { return expr.Field(c.o.OutsideField + field) }
	update := mongo.Pipeline{
		expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x),
			c.o.OutsideField, expr.D("number", outside(""), "size", c.x.size))),
		expr.Op("$set", expr.D(c.o.OutsideField, expr.Cond(expr.Op("$lt", c.x.size, outside(".size")),
			outside(".number"), expr.Op("$subtract", outside(".number"), 1)))),
	}
	large, of := len(x.Value) > sentTwice, expr.D("size", c.x.size)
	if !large {
		of = append(of, expr.Element("held", expr.Op("$in", expr.Literal(x), c.x.array)))
	}
	before, err = c.modify(ctx, c.parent(id, c.x.outlier...), update, expr.Op("$mergeObjects", of))
	if err != nil {
		return before, false, err
	}
	if !large {
		return before, before.Of.Document().Lookup("held").Boolean(), nil
	}
	after, err := c.read(ctx, id, document("size", c.x.size))
	if err != nil {
		return before, false, err
	}
	return before, after.Of.Document().Lookup("size").AsInt64() < before.Of.Document().Lookup("size").AsInt64(), nil
}

// removeOutside takes the last x out of the overflow documents of a parent, and returns the
// one that held it as it was, or ErrNoDocuments.
func (c *core) removeOutside(ctx context.Context, id, x bson.RawValue) (extra extent, err error) {
	filter, update := c.extras(id, c.holds(x)), mongo.Pipeline{expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x)))}
	if len(x.Value) <= sentTwice {
		err = fault.Single(c.overflow.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().
			SetSort(c.byNumber(-1)).SetReturnDocument(options.Before).SetProjection(c.extent()))).Decode(&extra)
		return extra, err
	}
	if err = c.overflow.FindOne(ctx, filter, options.FindOne().SetSort(c.byNumber(-1)).SetProjection(c.extent())).Decode(&extra); err == nil {
		_, err = fault.One(c.overflow.UpdateOne(ctx, c.extras(id, expr.Element("_id", extra.ID)), update))
	}
	return extra, err
}

// Delete deletes a parent and its overflow documents: ErrNotFound if there is no
// parent. Where something else deletes the parent, another of its lists or
// patterns, delete the overflow documents yourself, by OverflowFilter and in the
// same transaction.
//
// Cost: 1 round trip, 1 document deleted, found by _id, if it has no overflow.
// Outliers: 4, and all their documents deleted.
func (l *Lists[ID, E]) Delete(ctx context.Context, id ID) (err error) {
	defer fault.In(&err, "outlier: delete")
	raw, err := l.c.codec.ID("id", id)
	if err != nil {
		return err
	}
	return fault.Of(raw, l.c.delete(ctx, raw))
}

func (c *core) delete(ctx context.Context, id bson.RawValue) error {
	result, err := fault.One(c.coll.DeleteOne(ctx, c.parent(id, c.x.typical...)))
	if err != nil || result.DeletedCount > 0 {
		return err
	}
	return c.run(ctx, func(ctx context.Context) error {
		onlyID := options.FindOneAndDelete().SetProjection(expr.D("_id", 1)) // also of what is not adopted
		s, err := c.stateOf(fault.Single(c.coll.FindOneAndDelete(ctx, c.parent(id), onlyID)).Raw())
		if err == nil {
			_, err = fault.Many(c.overflow.DeleteMany(ctx, c.extras(s.ID)))
		}
		return err
	})
}
