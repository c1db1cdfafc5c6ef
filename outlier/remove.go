package outlier

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Remove takes the last element that equals e out of a list and reports whether
// there was one: ErrNotFound without a parent. The others keep their order. When the
// total has come down to Options.FoldBack, everything moves back into the parent.
//
// Repeated after an unknown outcome it removes from a list that is no set a second
// element, if there is one.
//
// Cost: 1 round trip, 1 document written, found by _id, if the parent holds the
// element or has no overflow; else 4, 2 documents written (5 if there is none: the
// parent is written twice).
// 5 more if an overflow document is empty then; folding back 4 more, 6 if that
// overflow document still has elements.
func (l *Lists[ID, E]) Remove(ctx context.Context, id ID, e E) (removed bool, err error) {
	defer fault.In(&err, "outlier: remove")
	raw, err := l.c.id(id)
	if err != nil {
		return false, err
	}
	x, err := l.c.element(e)
	if err == nil {
		removed, err = l.c.remove(ctx, raw, x)
	}
	return removed, fault.Of(raw, err)
}

// remove writes the parent alone if that holds the element. Else a transaction
// counts down in the parent first: so no two of them run at the same time.
func (c *core) remove(ctx context.Context, id, x bson.RawValue) (removed bool, err error) {
	for {
		before, err := c.removeInside(ctx, id, x, c.own(), 0)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			_, err := c.read(ctx, cursor.Primary(c.coll), id)
			if err != nil {
				return false, err
			}
			continue // adopted or inserted meanwhile
		case err != nil:
			return false, err
		case before.Held && before.Flag && before.Total-1 <= int64(c.o.FoldBack):
			if err := c.arrange(ctx, id); err != nil && !errors.Is(err, fault.ErrNotFound) {
				return false, err
			}
			return true, nil
		case before.Held || !before.Flag:
			return before.Held, nil
		}
		var again bool
		err = txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) (err error) {
			removed, again, err = c.removeOutside(ctx, id, x)
			return err
		})
		if err != nil || !again {
			return removed, err
		}
	}
}

// removeInside takes the last x out of the array of a parent and returns the parent
// as it was before. The total of an outlier counts down by what was removed, but at
// least by this many.
func (c *core) removeInside(ctx context.Context, id, x bson.RawValue, guard bson.D, least int) (before state, err error) {
	array, total := c.array(), expr.Field(c.o.TotalField)
	held := expr.Op("$in", expr.Literal(x), array)
	typical := any(total)
	if c.o.CountTypical {
		typical = expr.Cond(held, expr.Op("$subtract", size(array), 1), total)
	}
	doc, again, err := c.modify(ctx, c.parent(id, expr.Element("$expr", guard)), mongo.Pipeline{expr.Op("$set", bson.D{
		{Key: c.o.ArrayField, Value: c.withoutLast(x)},
		{Key: c.o.TotalField, Value: expr.Cond(c.flagged(),
			expr.Op("$subtract", total, expr.Op("$max", least, expr.Cond(held, 1, 0))), typical)},
	})}, c.state(expr.Element("held", held)))
	switch {
	case err != nil:
		return before, err
	case again:
		items, err := c.values(doc)
		before.Held = distinct(items)[value.Key(x)]
		before.Flag, _ = doc.Lookup(c.o.FlagField).BooleanOK()
		before.Total, _ = doc.Lookup(c.o.TotalField).AsInt64OK()
		return before, err
	}
	return before, bson.Unmarshal(doc, &before)
}

// withoutLast is the array without the last x. An array without x stays what it is, also
// missing or null.
func (c *core) withoutLast(x bson.RawValue) bson.D {
	array := c.array()
	at := expr.Let("reverse", expr.Op("$reverseArray", array), // the place of x; the server has no search from the end
		expr.Op("$subtract", expr.Op("$subtract", size("$$reverse"), 1), expr.Op("$indexOfArray", "$$reverse", expr.Literal(x))))
	length := expr.Op("$max", size(array), 1)
	rest := expr.Let("at", at, expr.Op("$concatArrays",
		expr.Cond(expr.Op("$gt", "$$at", 0), expr.Op("$slice", array, expr.Op("$max", "$$at", 1)), bson.A{}),
		expr.Op("$slice", array, expr.Op("$add", "$$at", 1), length)))
	return expr.Cond(expr.Op("$in", expr.Literal(x), array), rest, expr.Field(c.o.ArrayField))
}

// removeOutside removes in a transaction, from the parent or its overflow documents.
// again says that the parent is no outlier any more.
func (c *core) removeOutside(ctx context.Context, id, x bson.RawValue) (removed, again bool, err error) {
	before, err := c.removeInside(ctx, id, x, c.outlier(), 1)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return false, true, nil
	case err != nil:
		return false, false, err
	}
	emptied := false
	if !before.Held {
		var extra extent
		err = c.overflow.FindOneAndUpdate(ctx, c.extras(id, c.holds(x)),
			mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.o.ArrayField, Value: c.withoutLast(x)}})},
			options.FindOneAndUpdate().SetSort(c.byNumber(-1)).SetReturnDocument(options.Before).SetProjection(c.extent())).Decode(&extra)
		if errors.Is(err, mongo.ErrNoDocuments) {
			_, err := c.coll.UpdateOne(ctx, c.parent(id), expr.Op("$inc", bson.D{{Key: c.o.TotalField, Value: 1}}))
			return false, false, err
		}
		if err != nil {
			return false, false, err
		}
		if emptied = extra.Size == 1; emptied {
			if _, err := c.overflow.DeleteOne(ctx, c.extra(id, extra.ID)); err != nil {
				return false, false, err
			}
		}
	}
	if emptied || before.Total-1 <= int64(c.o.FoldBack) {
		err = c.arrangeLocked(ctx, id)
	}
	return true, false, err
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
	raw, err := l.c.id(id)
	if err != nil {
		return err
	}
	return fault.Of(raw, l.c.delete(ctx, raw))
}

func (c *core) delete(ctx context.Context, id bson.RawValue) error {
	result, err := c.coll.DeleteOne(ctx, c.parent(id, expr.Element(c.o.FlagField, bson.D{{Key: "$in", Value: bson.A{nil, false}}})))
	if err != nil || result.DeletedCount > 0 {
		return err
	}
	return txn.Run(ctx, c.coll.Database().Client(), func(ctx context.Context) error {
		result, err := c.coll.DeleteOne(ctx, c.parent(id))
		if err == nil && result.DeletedCount == 0 {
			err = fault.ErrNotFound
		}
		if err == nil {
			_, err = c.overflow.DeleteMany(ctx, c.extras(id))
		}
		return err
	})
}
