package outlier

import (
	"context"
	"errors"

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
// set 1 more.
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
	for {
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
}

// withoutLast is the array without the last x. An array without x stays what it is, also
// missing or null.
func (c *core) withoutLast(x bson.RawValue) bson.D {
	array := c.x.array
	at := expr.Let("reverse", expr.Op("$reverseArray", array), // the place of x; the server has no search from the end
		expr.Op("$subtract", expr.Op("$subtract", size("$$reverse"), 1), expr.Op("$indexOfArray", "$$reverse", expr.Literal(x))))
	length := expr.Op("$max", size(array), 1)
	rest := expr.Let("at", at, expr.Op("$concatArrays",
		expr.Cond(expr.Op("$gt", "$$at", 0), expr.Op("$slice", array, expr.Op("$max", "$$at", 1)), bson.A{}),
		expr.Op("$slice", array, expr.Op("$add", "$$at", 1), length)))
	return expr.Cond(expr.Op("$in", expr.Literal(x), array), rest, expr.Field(c.o.ArrayField))
}

// removeLocked removes from an outlier, in a transaction: ErrNotFound if the parent is none,
// or not there. Elements outside are counted down first, and up again if there is none.
func (c *core) removeLocked(ctx context.Context, id, x bson.RawValue) (bool, error) {
	outside, held := expr.Field(c.o.OutsideField), expr.Op("$in", expr.Literal(x), c.x.array)
	before, err := c.modify(ctx, c.parent(id, c.x.outlier...), mongo.Pipeline{expr.Op("$set", expr.D(
		c.o.ArrayField, c.withoutLast(x),
		c.o.OutsideField, expr.Cond(held, outside, expr.Op("$subtract", outside, 1)),
	))}, document("size", c.x.size, "held", held))
	if err != nil {
		return false, err
	}
	id = before.ID // as the overflow documents have it
	left := before.Outside + before.Of.Document().Lookup("size").AsInt64() - 1
	if !before.Of.Document().Lookup("held").Boolean() {
		var extra extent
		err = fault.Single(c.overflow.FindOneAndUpdate(ctx, c.extras(id, c.holds(x)),
			mongo.Pipeline{expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x)))},
			options.FindOneAndUpdate().SetSort(c.byNumber(-1)).SetReturnDocument(options.Before).SetProjection(c.extent()))).Decode(&extra)
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err = fault.One(c.coll.UpdateOne(ctx, c.parent(id), expr.Op("$inc", expr.D(c.o.OutsideField, 1))))
			return false, err
		}
		if err == nil && extra.Size == 1 {
			_, err = fault.One(c.overflow.DeleteOne(ctx, c.extras(id, expr.Element("_id", extra.ID))))
		}
		before.Outside--
	}
	// The last element outside makes the parent typical.
	if err == nil && (before.Outside == 0 || left <= int64(c.o.FoldBack)) {
		err = c.arrange(ctx, id)
	}
	return true, err
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
