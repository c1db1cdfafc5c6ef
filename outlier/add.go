package outlier

import (
	"context"
	"errors"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// What one Add takes: a command holds the elements of a set up to six times.
const (
	maxElements = 1000
	maxAdded    = 2 << 20
)

// Add puts elements at the end of the list of a parent, which must exist:
// ErrNotFound. It adds all or none, at most 1000 of them, or 2 MiB, and returns how
// many: with Options.Set not those that the list holds already or that come twice.
//
// An Add whose outcome is unknown may be repeated if the list is a set; another list
// could get the elements twice.
//
// Cost: 1 round trip, 1 document written, found by _id; 3 for an array that is null, or
// with Options.Set for an outlier, by the index {parent, n} or that of
// Options.ElementIndex; 2 for an element that a full set holds. No elements: none.
// The Add that finds the parent full moves the older half out: 7 round trips, 2
// documents written and the parent twice; 1 more if the last overflow document takes
// a part.
func (l *Lists[ID, E]) Add(ctx context.Context, id ID, elements ...E) (added int64, err error) {
	defer fault.In(&err, "outlier: add")
	raw, err := l.c.id(id)
	if err != nil {
		return 0, err
	}
	xs := make([]bson.RawValue, len(elements))
	for i, e := range elements {
		if xs[i], err = l.c.element(e); err != nil {
			return 0, fault.Of(raw, err)
		}
	}
	if len(xs) > maxElements || len(xs) > 1 && sizeOf(xs, 0) > maxAdded {
		return 0, fault.Invalid("more than %d elements or %d bytes at once: use AddMany", maxElements, maxAdded)
	}
	n, err := l.c.add(ctx, raw, xs)
	if err != nil {
		return 0, fault.Of(raw, err)
	}
	return int64(n), nil
}

// AddMany adds elements to many lists, in the order of each list: what a list gets of
// 1000 elements, or 2 MiB, is one Add. Done are added, Skipped a set held already. The
// elements for a parent that is not there or not adopted, or that the server refuses, are
// Failed and named, except in the caller's transaction. Any other error ends it; those of
// the Add that it ends are Unknown.
//
// Cost: that of an Add for each list that comes in 1000 elements.
func (l *Lists[ID, E]) AddMany(ctx context.Context, elements iter.Seq2[ID, E]) (result mongopatterns.Result, err error) {
	defer fault.In(&err, "outlier: add many")
	if elements == nil {
		return result, nil
	}
	type group struct {
		id bson.RawValue
		xs []bson.RawValue
	}
	groups := map[string]*group{}
	var order []*group
	count, bytes := 0, 0
	flush := func() error {
		for _, g := range order {
			n, err := l.c.add(ctx, g.id, g.xs)
			all := int64(len(g.xs))
			refused := errors.Is(err, fault.ErrNotFound) || errors.Is(err, ErrNotAdopted) || fault.Refused(err)
			switch {
			case err == nil:
				result.Add(mongopatterns.Result{Examined: all, Done: int64(n), Skipped: all - int64(n)})
			case refused && !txn.Running(ctx):
				result.Fail(l.c.coll.Name(), g.id, err)
				result.Add(mongopatterns.Result{Examined: all, Failed: all - 1})
			case !refused:
				result.Unknown += all
				fallthrough
			default:
				return fault.Of(g.id, err)
			}
		}
		clear(groups)
		order, count, bytes = nil, 0, 0
		return nil
	}
	for id, e := range elements {
		raw, x, err := l.c.pair(id, e)
		if err == nil && (count == maxElements || bytes > 0 && bytes+len(x.Value) > maxAdded) {
			err = flush()
		}
		if err != nil {
			return result, err
		}
		key := value.Key(raw)
		if groups[key] == nil {
			groups[key] = &group{id: raw}
			order = append(order, groups[key])
		}
		groups[key].xs = append(groups[key].xs, x)
		count, bytes = count+1, bytes+cost(x, count)
	}
	return result, flush()
}

// add adds by a write of the parent alone whenever it can: of writers at the same
// time each waits in the server for the one before it, and none begins again. Only
// a full parent needs a transaction.
//
// In a set the parent's write sees what the parent holds. What the overflow
// documents hold is read before, and the write asks that nothing has moved since: an
// element comes into them from the parent only.
func (c *core) add(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (int, error) {
	if len(xs) == 0 {
		return 0, nil
	}
	var seen bson.ObjectID // Options.MoveField as of that reading
	null := false
	for {
		if n, done, err := c.push(ctx, id, xs, seen, null); err != nil || done {
			return n, err
		}
		s, found, err := c.look(ctx, id, xs)
		if err != nil {
			return 0, err
		}
		if xs, seen, null = found.Fresh, s.Moved, found.Null; len(xs) == 0 {
			return 0, nil
		}
		if found.Room {
			continue
		}
		var n int
		var done bool
		err = c.run(ctx, func(ctx context.Context) (err error) {
			n, done, err = c.spill(ctx, id, xs, seen)
			return err
		})
		if err != nil || done {
			return n, err
		}
	}
}

// guarded is the filter for a parent of which conditions hold, and that is as it was seen:
// typical if seen is zero. A list that is no set need not have been seen.
func (c *core) guarded(id bson.RawValue, seen bson.ObjectID, conditions bson.A) bson.D {
	guard := c.x.typical
	switch {
	case !c.o.Set:
		guard = c.x.own
	case !seen.IsZero():
		guard = expr.D(c.o.FlagField, true, c.o.MoveField, seen)
	}
	return c.parent(id, append(slices.Clip(guard), expr.Element("$expr", expr.Op("$and", conditions)))...)
}

// room are the conditions that a parent takes the elements.
func (c *core) room(xs []bson.RawValue) bson.A {
	return bson.A{expr.Op("$lte", c.x.size, c.o.MaxCount-len(xs)), expr.Op("$lte", c.x.bytes, c.o.MaxBytes-sizeOf(xs, c.o.MaxCount))}
}

// fresh is what is to be added of xs: of a set, of equals the first, and not what the
// parent holds. The server decides what is equal.
func (c *core) fresh(xs []bson.RawValue) bson.D {
	if !c.o.Set {
		return expr.Literal(xs)
	}
	return expr.Op("$setDifference", expr.Literal(xs), c.x.array)
}

// push adds to a parent with room for all of xs. If it has none, or is not as it was seen,
// or, being a set, holds one of several, nothing is written and done is false.
func (c *core) push(ctx context.Context, id bson.RawValue, xs []bson.RawValue, seen bson.ObjectID, null bool) (
	added int, done bool, err error) {
	conditions := append(c.room(xs), c.x.isNull[null])
	operator, more := "$push", any(expr.D("$each", xs))
	one := c.o.Set && len(xs) == 1
	if one {
		operator = "$addToSet"
	} else if c.o.Set {
		conditions = append(conditions, expr.Op("$eq", size(c.fresh(xs)), len(xs)))
	}
	if null { // which no operator adds to: that is how a nil slice is stored
		operator, more = "$set", xs
	}
	result, err := c.coll.UpdateOne(ctx, c.guarded(id, seen, conditions), expr.Op(operator, expr.D(c.o.ArrayField, more)))
	switch {
	case err != nil || result.MatchedCount == 0:
		return 0, false, err
	case one: // what it holds is not modified
		return int(result.ModifiedCount), true, nil
	}
	return len(xs), true, nil
}

// A finding is what a parent says to elements that are to be added.
type finding struct {
	Items, Fresh []bson.RawValue // what it holds, and of these elements what it does not
	Room, Null   bool            // it has room for them; its array is null
}

// look reads a parent and, after it, which of xs the overflow documents of a set do
// not hold, nor the parent did.
func (c *core) look(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (s state, found finding, err error) {
	stages := mongo.Pipeline{expr.Op("$match", c.parent(id)), expr.Op("$project", c.state(
		document("room", expr.Op("$and", c.room(xs)), "null", c.x.isNull[true], "fresh", c.fresh(xs))))}
	if c.o.Set {
		outside, fresh := c.o.ArrayField+".outside", c.o.ArrayField+".fresh"
		held := expr.Op("$setIntersection", expr.Literal(xs), c.x.array)
		stages = append(stages,
			c.lookup(outside, mongo.Pipeline{
				expr.Op("$match", c.holdsAny(xs)), expr.Op("$project", expr.D("_id", 0, "both", held)),
			}),
			expr.Op("$set", expr.D(fresh, expr.Reduce(expr.Field(outside), expr.Field(fresh),
				expr.Op("$setDifference", "$$value", "$$this.both")))))
	}
	docs, err := cursor.Collect(cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.primary.Aggregate(ctx, stages)
	}))
	if err == nil && len(docs) == 0 {
		err = mongo.ErrNoDocuments
	}
	if s, err = c.stateOf(append(docs, nil)[0], err); err == nil {
		err = s.Of.Unmarshal(&found)
	}
	return s, found, err
}

// holdsAny selects overflow documents that hold one of xs, by Options.ElementIndex.
func (c *core) holdsAny(xs []bson.RawValue) bson.D {
	if len(xs) == 1 {
		return bson.D{c.holds(xs[0])}
	}
	for _, x := range xs {
		if x.Type == bson.TypeRegex || x.Type == bson.TypeEmbeddedDocument {
			return bson.D{} // in $in it could be a pattern or an operator
		}
	}
	return bson.D{expr.Element(c.o.ArrayField, expr.Op("$elemMatch", expr.D("$in", xs)))}
}

// lookup is a $lookup of a parent's overflow documents.
func (c *core) lookup(as string, pipeline mongo.Pipeline) bson.D {
	return expr.Op("$lookup", expr.D("from", c.overflow.Name(), "localField", "_id", "foreignField", c.o.ParentField,
		"pipeline", pipeline, "as", as))
}

// spill adds to a parent that has no room, in a transaction that moves elements out. If
// there is room meanwhile, or something has moved, done is false. Its first write holds
// other writers up, in the server, until it ends.
func (c *core) spill(ctx context.Context, id bson.RawValue, xs []bson.RawValue, seen bson.ObjectID) (added int, done bool, err error) {
	full := expr.Op("$not", bson.A{expr.Op("$and", c.room(xs))})
	var fresh any = bson.A{} // a list's need not come back: answers are bounded as documents are
	if c.o.Set {
		fresh = c.fresh(xs)
	}
	before, err := c.modify(ctx, c.guarded(id, seen, bson.A{full}), c.move(), document("items", c.x.array, "fresh", fresh))
	if errors.Is(err, fault.ErrNotFound) {
		return 0, false, nil
	}
	var found finding
	if err == nil {
		err = before.Of.Unmarshal(&found)
	}
	if err != nil {
		return 0, false, err
	}
	if !c.o.Set {
		found.Fresh = xs
	}
	return len(found.Fresh), true, c.finish(ctx, before.ID, append(found.Items, found.Fresh...), int(before.Outside))
}

// modify updates a parent and returns its state before.
func (c *core) modify(ctx context.Context, filter bson.D, update, of any) (state, error) {
	return c.stateOf(c.coll.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().
		SetReturnDocument(options.Before).SetProjection(c.state(of))).Raw())
}

// move is the update that says that elements move.
func (c *core) move() bson.D { return expr.Op("$set", expr.D(c.o.MoveField, bson.NewObjectID())) }

// finish writes these elements, and how many lie outside, to a parent in a transaction
// that has written its MoveField. If they are over the bounds, all but the newest half
// moves out.
func (c *core) finish(ctx context.Context, id bson.RawValue, items []bson.RawValue, outside int) error {
	if len(items) > c.o.MaxCount || emptyBytes+sizeOf(items, 0) > c.o.MaxBytes {
		keep, bytes := 0, emptyBytes
		for keep < len(items) && keep < max(1, c.o.MaxCount/2) {
			if bytes += cost(items[len(items)-1-keep], keep); bytes > c.o.MaxBytes/2 {
				break
			}
			keep++
		}
		out := items[:len(items)-keep]
		if err := c.append(ctx, id, out); err != nil {
			return err
		}
		items, outside = items[len(out):], outside+len(out)
	}
	set := expr.D(c.o.ArrayField, append([]bson.RawValue{}, items...)) // never null
	update := expr.D("$set", set, "$unset", expr.D(c.o.FlagField, "", c.o.MoveField, "", c.o.OutsideField, ""))
	if outside > 0 {
		update = expr.Op("$set", append(set, expr.Element(c.o.FlagField, true), expr.Element(c.o.OutsideField, outside)))
	}
	_, err := c.coll.UpdateOne(ctx, c.parent(id), update)
	return err
}

// An extent is an overflow document without its elements.
type extent struct {
	ID     bson.RawValue `bson:"_id"`
	Number bson.RawValue `bson:"n"`
	Size   int           `bson:"size"`
	Bytes  int           `bson:"bytes"`
	List   bool          `bson:"list"`
}

func (c *core) extent() bson.D {
	array := c.anyArray()
	return expr.D("n", expr.IfNull(expr.Field(c.o.NumberField), nil), "size", size(array),
		"bytes", bytes(array), "list", expr.Op("$isArray", expr.Field(c.o.ArrayField)))
}

// append puts xs after all that overflow documents hold: into the last one as far
// as they fit, then into new ones.
func (c *core) append(ctx context.Context, id bson.RawValue, xs []bson.RawValue) error {
	var last extent
	next := 0
	err := c.overflow.FindOne(ctx, c.extras(id), options.FindOne().SetSort(c.byNumber(-1)).SetProjection(c.extent())).Decode(&last)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
	case err != nil:
		return err
	default:
		n, ok := last.Number.AsInt64OK()
		if !ok {
			return ErrNotAdopted
		}
		next = int(n) + 1
		if inside := fitting(xs, last.Size, last.Bytes, c.o.OverflowMaxCount, c.o.OverflowMaxBytes); inside > 0 && last.List {
			more := expr.D(c.o.ArrayField, expr.D("$each", xs[:inside]))
			if _, err := c.overflow.UpdateOne(ctx, c.extra(id, last.ID), expr.Op("$push", more)); err != nil {
				return err
			}
			xs = xs[inside:]
		}
	}
	var docs []any
	for ; len(xs) > 0; next++ {
		n := max(1, fitting(xs, 0, emptyBytes, c.o.OverflowMaxCount, c.o.OverflowMaxBytes))
		docs = append(docs, expr.D(c.o.ParentField, id, c.o.NumberField, next, c.o.ArrayField, xs[:n]))
		xs = xs[n:]
	}
	if len(docs) == 0 {
		return nil
	}
	_, err = c.overflow.InsertMany(ctx, docs)
	return err
}
