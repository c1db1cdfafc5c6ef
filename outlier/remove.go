package outlier

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Remove removes the last element that equals e and reports whether there was one. It returns
// ErrNotFound if the parent does not exist. The others keep their order. When the total has
// come down to Options.FoldBack, all elements move back into the parent.
//
// If other code has written a split parent back without its flag, Remove sees only the array until Adopt has run. An
// element that lies outside as well may then return. A Remove that has to move elements back returns ErrNotAdopted if
// the list is Unclear.
//
// If the list is not a set, a Remove that is repeated after an unknown outcome may remove a second
// equal element.
//
// Cost: 1 round trip, 1 document written, index _id, if the parent has no overflow.
//   - Outliers: 3, 1 document written, if the parent holds the element; else 4, 2 documents written (5 if there is
//     none, the parent written twice).
//   - An overflow document that is empty then is deleted: 1 more.
//   - Folding back: 5 more; of a set 1 more.
//   - An element of more than 4 MiB, in an outlier: 1 more, or 2.
func (l *Lists[ID, E]) Remove(ctx context.Context, id ID, e E) (removed bool, err error) {
	ctx = comment.Call(ctx, "outlier.Remove")
	defer fault.In(&err, "outlier.Remove")
	raw, x, err := l.c.pair(id, e)
	if err != nil {
		return false, err
	}
	removed, err = l.c.remove(ctx, raw, x)
	return removed, fault.Of(raw, err)
}

// remove writes a typical parent alone. For an outlier, a transaction writes the parent first,
// so that no two removals run at the same time.
func (c *core) remove(ctx context.Context, id, x bson.RawValue) (removed bool, err error) {
	for range maxAttempts {
		result, err := fault.One(c.coll.UpdateOne(ctx, c.parent(id, c.x.typical...),
			mongo.Pipeline{expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x)))}))
		if err != nil || result.MatchedCount > 0 {
			return err == nil && result.ModifiedCount > 0, err
		}
		err = txn.RunInTurn(ctx, c.coll, id, func(ctx context.Context) (err error) {
			removed, err = c.removeLocked(ctx, id, x)
			return err
		})
		if !errors.Is(err, mongopatterns.ErrNotFound) {
			return removed && err == nil, err
		}
		if _, err := c.read(ctx, id, nil); err != nil {
			return false, err
		}
	}
	return false, errKeepsChanging
}

// withoutLast is the array without the last x. An array without x stays as it is, also if it is
// missing or null.
func (c *core) withoutLast(x bson.RawValue) bson.D {
	array, length := c.x.array, expr.Op("$max", size(c.x.array), 1)
	rest := expr.Op("$concatArrays",
		expr.Cond(expr.Op("$gt", "$$at", 0), expr.Op("$slice", array, expr.Op("$max", "$$at", 1)), bson.A{}),
		expr.Op("$slice", array, expr.Op("$add", "$$at", 1), length))
	return expr.Let("at", c.lastPlace(x), expr.Cond(expr.Op("$lt", "$$at", size(array)), rest, expr.Field(c.o.ArrayField)))
}

// lastPlace is the position of the last x in the array, or the array's length without x.
// The server cannot search from the end. x occurs in it once, as it may be as large as a command.
func (c *core) lastPlace(x bson.RawValue) bson.D {
	return expr.Let("reverse", expr.Op("$reverseArray", c.x.array), expr.Op("$subtract",
		expr.Op("$subtract", size("$$reverse"), 1), expr.Op("$indexOfArray", "$$reverse", expr.Literal(x))))
}

// sentTwice bounds an element that a command may hold twice. A larger one costs another round
// trip where its position is needed.
const sentTwice = 4 << 20

// removeLocked removes from an outlier, in a transaction. It returns ErrNotFound if the parent does
// not exist or is not an outlier. It counts the elements outside down first, and up again if none
// of them equals x.
func (c *core) removeLocked(ctx context.Context, id, x bson.RawValue) (bool, error) {
	before, held, err := c.removeInside(ctx, id, x)
	if err != nil {
		return false, err
	}
	id = before.ID // with the type that the overflow documents have
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
	// Without elements outside the parent becomes typical.
	if before.Outside == 0 || left <= int64(c.o.FoldBack) {
		err = c.arrange(ctx, id)
	}
	return true, err
}

// removeInside removes the last x from the array of an outlier, or else subtracts one from the
// number of elements outside. It returns the state before, and whether the parent held x.
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

// removeOutside removes the last x from the overflow documents of a parent. It returns the
// document that held it, as it was before, or ErrNoDocuments.
func (c *core) removeOutside(ctx context.Context, id, x bson.RawValue) (extra extent, err error) {
	filter, update := c.extras(id, c.holds(x)), mongo.Pipeline{expr.Op("$set", expr.D(c.o.ArrayField, c.withoutLast(x)))}
	if len(x.Value) <= sentTwice {
		err = fault.Single(c.overflow.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().
			SetSort(c.byNumber(-1)).SetReturnDocument(options.Before).SetProjection(c.extent()))).Decode(&extra)
		return extra, err
	}
	err = c.overflow.FindOne(ctx, filter, options.FindOne().SetSort(c.byNumber(-1)).SetProjection(c.extent())).Decode(&extra)
	if err != nil {
		return extra, err
	}
	_, err = fault.One(c.overflow.UpdateOne(ctx, c.extras(id, expr.Element("_id", extra.ID)), update))
	return extra, err
}

// Delete deletes a parent and its overflow documents, or returns ErrNotFound if the parent does
// not exist. If other code deletes the parent, such as another list or pattern, delete the
// overflow documents yourself, with OverflowFilter and in the same transaction. Those of a split parent that other
// code has written back without its flag stay, and Check names them as orphans.
//
// Cost: 1 round trip, 1 document deleted, index _id, if it has no overflow. Outliers: 4, and all their
// documents deleted.
func (l *Lists[ID, E]) Delete(ctx context.Context, id ID) (err error) {
	ctx = comment.Call(ctx, "outlier.Delete")
	defer fault.In(&err, "outlier.Delete")
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
	return txn.RunInTurn(ctx, c.coll, id, func(ctx context.Context) error {
		onlyID := options.FindOneAndDelete().SetProjection(expr.D("_id", 1)) // also of a list that is not adopted
		s, err := c.stateOf(fault.Single(c.coll.FindOneAndDelete(ctx, c.parent(id), onlyID)).Raw())
		if err != nil {
			return err
		}
		_, err = fault.Many(c.overflow.DeleteMany(ctx, c.extras(s.ID)))
		return err
	})
}
