package outlier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// maxAttempts bounds how often an Add or a Remove starts over because others moved elements between its read and its
// write, and a read because they moved them between its parts. It rarely needs more than two, but it gets more than pause.Attempts: an outlier is what many add to at once, and
// each Add that overflows moves elements.
const maxAttempts = 100

// errKeepsChanging is the error of the last attempt.
var errKeepsChanging = fmt.Errorf("%w: the list has changed %d times meanwhile", mongopatterns.ErrConflict, maxAttempts)

// Bounds of one Add: a command holds the elements of a set up to six times.
const (
	maxElements = 1000
	maxAdded    = 2 << 20
)

// Add appends elements to the list of a parent. It returns ErrNotFound if the parent does not
// exist. It adds all elements or none, at most 1000 or 2 MiB at once, and returns how many it has
// added. With Options.Set it leaves out repeated elements and those that the list already holds. If elements have to move
// out of a parent that holds a value of yours in a field of the pattern, it returns ErrInvalid (see Adopt).
//
// After an unknown outcome, repeat an Add only if the list is a set, because another list could get
// the elements twice.
//
// Cost: 1 round trip, 1 document written, index _id.
//   - No elements: none.
//   - An array that is null: 3.
//   - With Options.Set: 3 for an outlier, by the index {parent, n} or that of Options.ElementIndex; 2 for an element
//     that a full set holds.
//   - The Add that finds the parent full moves the older half out: 7, 2 documents written and the parent twice; 1
//     more if the last overflow document takes a part.
//   - If a field of the pattern holds a value of yours in that parent: 4, and ErrInvalid.
//   - If that parent has lost its flag because other code has written it back: Adopt of the list before, which returns
//     ErrNotAdopted if the list is Unclear; within your transaction ErrNotAdopted in any case.
func (l *Lists[ID, E]) Add(ctx context.Context, id ID, elements ...E) (added int64, err error) {
	ctx = comment.Call(ctx, "outlier.Add")
	defer fault.In(&err, "outlier.Add")
	raw, err := l.c.codec.ID("id", id)
	if err != nil {
		return 0, err
	}
	xs := make([]bson.RawValue, len(elements))
	for i, e := range elements {
		if xs[i], err = l.c.added(e); err != nil {
			return 0, fault.Of(raw, err)
		}
	}
	if len(xs) > maxElements || len(xs) > 1 && sizeOf(xs, 0) > maxAdded {
		return 0, fault.Invalid("elements: there are more than %d, or they have more than %d bytes: use AddMany", maxElements, maxAdded)
	}
	n, err := l.c.add(ctx, raw, xs)
	if err != nil {
		return 0, fault.Of(raw, err)
	}
	return int64(n), nil
}

// AddMany adds elements to many lists, and keeps their order within each list. The elements for one list in a batch are
// one Add. A batch has at most Work.BatchSize elements (1000 by default and at most) and Work.BatchBytes (at most 2 MiB).
// There is no DryRun. Done counts the elements added, and Skipped those that a set held already.
//
// If a parent does not exist or is not adopted, or Add or the server refuses its elements, these are Failed and the parent
// is named. AddMany goes on and returns an error at its end; with Strict, and in the caller's transaction, it ends at once.
// Any other error ends it too, and the elements of the Add that failed are Unknown if they may be stored.
//
// Cost: that of Add for each list that comes in 1000 elements.
func (l *Lists[ID, E]) AddMany(ctx context.Context, elements iter.Seq2[ID, E], work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "outlier.AddMany")
	defer fault.In(&err, "outlier.AddMany")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	defer maintain.Unstored(&err, &result)
	w, err := maintain.CompletedItems(work, maxElements, false)
	if err != nil || elements == nil {
		return result, err
	}
	a := adding{core: &l.c, work: w, result: &result, lists: map[string][]bson.RawValue{}}
	for id, e := range elements {
		raw, err := l.c.codec.ID("id", id)
		if err != nil {
			return result, err
		}
		x, err := l.c.added(e)
		if err != nil {
			return result, fault.Of(raw, err)
		}
		if err := a.take(ctx, raw, x); err != nil {
			return result, err
		}
	}
	err = a.flush(ctx)
	return result, err
}

// An adding is an AddMany under way.
type adding struct {
	*core
	work   mongopatterns.Work
	result *mongopatterns.Result

	ids          []bson.RawValue            // the lists of the batch, in order
	lists        map[string][]bson.RawValue // the elements for each, by the key of its ID
	count, bytes int                        // of all elements
}

// take puts an element into the batch, and flushes the batch before if the element does not fit.
func (a *adding) take(ctx context.Context, id, x bson.RawValue) error {
	full := a.count == min(a.work.BatchSize, maxElements)
	tooLarge := a.bytes > 0 && a.bytes+len(x.Value) > min(a.work.BatchBytes, maxAdded)
	if full || tooLarge {
		if err := a.flush(ctx); err != nil {
			return err
		}
	}
	key := value.Key(id)
	if a.lists[key] == nil {
		a.ids = append(a.ids, id)
	}
	a.lists[key] = append(a.lists[key], x)
	a.count, a.bytes = a.count+1, a.bytes+cost(x, a.count)
	return nil
}

// flush adds the elements of the batch, and reports the progress.
func (a *adding) flush(ctx context.Context) error {
	if len(a.ids) == 0 {
		return nil
	}
	for _, id := range a.ids {
		if err := a.addTo(ctx, id, a.lists[value.Key(id)]); err != nil {
			return fault.Of(id, err)
		}
	}
	clear(a.lists)
	a.ids, a.count, a.bytes = nil, 0, 0
	a.work.Progress(*a.result)
	return nil
}

// addTo adds elements to one list and counts them. Its error ends the call.
func (a *adding) addTo(ctx context.Context, id bson.RawValue, xs []bson.RawValue) error {
	n, err := a.add(ctx, id, xs)
	all := int64(len(xs))
	refused := errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, mongopatterns.ErrNotAdopted) ||
		errors.Is(err, mongopatterns.ErrInvalid) || fault.Refused(err)
	switch {
	case err == nil:
		maintain.Add(a.result, mongopatterns.Result{Examined: all, Done: int64(n), Skipped: all - int64(n)})
		return nil
	case !refused && fault.MayHaveWritten(err):
		a.result.Unknown += all
		return err
	case !refused:
		return err
	case a.work.Strict || txn.Running(ctx):
		return err
	}
	maintain.Fail(a.result, a.coll.Name(), id, err)
	maintain.Add(a.result, mongopatterns.Result{Examined: all, Failed: all - 1})
	return nil
}

// add writes the parent alone whenever it can: writers at the same time wait for each other in
// the server, and none starts over. Only a full parent needs a transaction.
//
// For a set, the parent's write checks the elements in the parent itself. The overflow documents
// are read before, and the write requires that nothing has moved since. That is enough, because
// elements reach the overflow documents only from the parent.
func (c *core) add(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (int, error) {
	if len(xs) == 0 {
		return 0, nil
	}
	var seen state // as look has read it
	null := false
	for attempt := range maxAttempts {
		if n, done, err := c.push(ctx, id, xs, seen, null); done || err != nil {
			return n, err
		}
		s, found, err := c.look(ctx, id, xs)
		if err != nil {
			return 0, err
		}
		if xs, seen, null = found.Fresh, s, found.Null; len(xs) == 0 {
			return 0, nil
		}
		if found.Room {
			continue
		}
		n, done, err := c.spill(ctx, id, xs, seen, attempt == 0)
		if errors.Is(err, errWrittenBack) && !txn.Running(ctx) {
			err = c.arrange(ctx, id)
		}
		if done || err != nil {
			return n, err
		}
	}
	return 0, errKeepsChanging
}

// guarded matches the parent if the conditions hold and nothing moved since it was seen: it is
// typical, or has the same elements outside. A list that is not a set need not have been seen.
func (c *core) guarded(id bson.RawValue, seen state, conditions bson.A) bson.D {
	guard := c.x.typical
	switch {
	case !c.o.Set:
		guard = c.x.own
	case seen.Flag:
		guard = expr.D(c.o.FlagField, true, c.o.moved(), seen.Moved)
	}
	return c.parent(id, append(slices.Clip(guard), expr.Element("$expr", expr.Op("$and", conditions)))...)
}

// room is the conditions that the parent has room for the elements.
func (c *core) room(xs []bson.RawValue) bson.A {
	return bson.A{expr.Op("$lte", c.x.size, c.o.MaxCount-len(xs)),
		expr.Op("$lte", c.x.bytes, c.o.MaxBytes-sizeOf(xs, c.o.MaxCount))}
}

// fresh is the elements of xs to add. For a set, it leaves out repeated ones and those that
// the parent holds. The server decides what is equal.
func (c *core) fresh(xs []bson.RawValue) bson.D {
	if !c.o.Set {
		return expr.Literal(xs)
	}
	return expr.Op("$setDifference", expr.Literal(xs), c.x.array)
}

// push adds to a parent with room for all of xs, and returns how many it has added. It is not
// done if the parent does not exist, has no room, has changed since it was seen, or, for a set
// and several elements, holds one of them: look tells these apart.
func (c *core) push(ctx context.Context, id bson.RawValue, xs []bson.RawValue, seen state, null bool) (added int, done bool, err error) {
	conditions := append(c.room(xs), c.x.isNull[null])
	operator, more := "$push", any(expr.D("$each", xs))
	if c.o.Set && len(xs) == 1 {
		operator = "$addToSet"
	} else if c.o.Set {
		conditions = append(conditions, expr.Op("$eq", size(c.fresh(xs)), len(xs)))
	}
	if null { // no operator adds to null, which is how a nil slice is stored
		operator, more = "$set", xs
	}
	result, err := fault.One(c.coll.UpdateOne(ctx, c.guarded(id, seen, conditions), expr.Op(operator, expr.D(c.o.ArrayField, more))))
	if err != nil {
		return 0, false, err
	}
	return len(xs) * int(result.ModifiedCount), result.MatchedCount > 0, nil // 0 if a set holds the only one
}

// A finding is what an Add has seen in a parent.
type finding struct {
	Items, Fresh []bson.RawValue // its elements, and those of the Add that it lacks
	Room, Null   bool            // it has room for them; its array is null
}

// look reads a parent and then, for a set, which of xs neither the overflow documents nor the
// parent hold.
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
	docs, err := aggregate(ctx, c.coll, stages)
	if err == nil && len(docs) == 0 {
		err = mongo.ErrNoDocuments
	}
	if s, err = c.stateOf(append(docs, nil)[0], err); err != nil {
		return s, found, err
	}
	return s, found, s.Of.Unmarshal(&found)
}

// holdsAny selects overflow documents that hold one of xs, by Options.ElementIndex.
func (c *core) holdsAny(xs []bson.RawValue) bson.D {
	if len(xs) == 1 {
		return bson.D{c.holds(xs[0])}
	}
	for _, x := range xs {
		if x.Type == bson.TypeRegex || x.Type == bson.TypeEmbeddedDocument {
			return bson.D{} // in $in it could act as a pattern or an operator
		}
	}
	return bson.D{expr.Element(c.o.ArrayField, expr.Op("$elemMatch", expr.D("$in", xs)))}
}

// lookup is a $lookup of the overflow documents of each parent.
func (c *core) lookup(as string, pipeline mongo.Pipeline) bson.D {
	return expr.Op("$lookup", expr.D("from", c.overflow.Name(), "localField", "_id", "foreignField", c.o.ParentField,
		"pipeline", c.overflow.Scope().Stages(pipeline), "as", as))
}

// spill adds to a parent without room, in a transaction that moves elements out. It is not done
// if there is room by now, or something has moved. Other writers wait in the server from its
// first write to its end. If it is the first attempt, and others of this process had their turn before, it does not look:
// one of them has made room, most likely.
func (c *core) spill(ctx context.Context, id bson.RawValue, xs []bson.RawValue, seen state, first bool) (added int, done bool, err error) {
	full := expr.Op("$not", bson.A{expr.Op("$and", c.room(xs))})
	var fresh any = bson.A{} // not needed for a list, and an answer must fit in one document
	if c.o.Set {
		fresh = c.fresh(xs)
	}
	err = txn.Run(ctx, c.coll, func(ctx context.Context) error {
		waited, err := txn.InTurn(ctx, c.coll, id)
		switch {
		case err != nil:
			return err
		case waited && first:
			return mongopatterns.ErrNotFound
		}
		found, of := finding{}, document("items", c.x.array, "fresh", fresh)
		before, err := c.modify(ctx, c.guarded(id, seen, bson.A{full}), c.move(), of)
		if err != nil {
			return err
		}
		if err := before.Of.Unmarshal(&found); err != nil {
			return err
		}
		if !c.o.Set {
			found.Fresh = xs
		}
		added = len(found.Fresh)
		return c.finish(ctx, before.ID, append(found.Items, found.Fresh...), int(before.Outside))
	})
	if errors.Is(err, mongopatterns.ErrNotFound) {
		return 0, false, nil
	}
	return added, err == nil, err
}

// modify updates a parent in a transaction and returns its state before the update. It returns an error, which ends the
// transaction, if a field holds a value of the user's.
func (c *core) modify(ctx context.Context, filter bson.D, update, of any) (state, error) {
	s, err := c.stateOf(fault.Single(c.coll.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().
		SetReturnDocument(options.Before).SetProjection(c.state(of)))).Raw())
	if s.Taken != "" {
		err = errTaken(s.Taken)
	}
	return s, err
}

func (c *core) move() bson.D { return expr.Op("$set", expr.D(c.o.moved(), bson.NewObjectID())) }

// finish writes these elements and the number of elements outside to a parent, in a transaction
// that has written the field Options.moved() already. If they exceed the bounds, it moves all but the newest
// half out.
func (c *core) finish(ctx context.Context, id bson.RawValue, items []bson.RawValue, outside int) error {
	if fitting(items, 0, emptyBytes, c.o.MaxCount, c.o.MaxBytes) < len(items) {
		newest := slices.Clone(items)
		slices.Reverse(newest)
		keep := fitting(newest, 0, emptyBytes, max(1, c.o.MaxCount/2), c.o.MaxBytes/2)
		out := items[:len(items)-keep]
		if err := c.append(ctx, id, out, outside); err != nil {
			return err
		}
		items, outside = items[len(out):], outside+len(out)
	}
	set := expr.D(c.o.ArrayField, append([]bson.RawValue{}, items...)) // never null
	update := expr.D("$set", set, "$unset", expr.D(c.o.FlagField, "", c.o.moved(), "", c.o.OutsideField, ""))
	if outside > 0 {
		update = expr.Op("$set", append(set, expr.Element(c.o.FlagField, true), expr.Element(c.o.OutsideField, outside)))
	}
	_, err := fault.One(c.coll.UpdateOne(ctx, c.parent(id), update))
	return err
}

// An extent describes an overflow document without its elements.
type extent struct {
	ID     bson.RawValue `bson:"_id"`
	Number bson.RawValue `bson:"n"`
	Size   int           `bson:"size"`
	Bytes  int           `bson:"bytes"`
	List   bool          `bson:"list"`
}

// number is the number of an overflow document as a long, or null if it has none.
func (c *core) number() bson.D {
	n := expr.Field(c.o.NumberField)
	return expr.Cond(expr.Op("$isNumber", n), expr.Op("$convert", expr.D("input", n, "to", "long", "onError", nil)), nil)
}

func (c *core) extent() bson.D {
	array := c.anyArray()
	return expr.D("n", c.number(), "size", size(array),
		"bytes", bytes(array), "list", expr.Op("$isArray", expr.Field(c.o.ArrayField)))
}

// append puts xs after the outside elements that overflow documents hold: into the last one as
// far as they fit, then into new ones.
func (c *core) append(ctx context.Context, id bson.RawValue, xs []bson.RawValue, outside int) error {
	var last extent
	next := 0
	err := c.overflow.FindOne(ctx, c.extras(id), options.FindOne().SetSort(c.byNumber(-1)).SetProjection(c.extent())).Decode(&last)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
	case err != nil:
		return err
	default:
		n, ok := last.Number.AsInt64OK()
		if !ok && outside > 0 {
			return errNotAdopted
		} else if !ok {
			break // all are of other code, whose elements come after the parent's
		} else if outside == 0 {
			return errWrittenBack // this package moves elements out and never leaves a parent without its flag
		}
		next = int(n) + 1
		if inside := fitting(xs, last.Size, last.Bytes, c.o.OverflowMaxCount, c.o.OverflowMaxBytes); inside > 0 && last.List {
			more := expr.Op("$push", expr.D(c.o.ArrayField, expr.D("$each", xs[:inside])))
			if _, err := fault.One(c.overflow.UpdateOne(ctx, c.extras(id, expr.Element("_id", last.ID)), more)); err != nil {
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
	switch {
	case len(docs) == 0:
		return nil
	case value.IsReplaced(id):
		return fault.Invalid("the _id is the empty timestamp, which the server would replace in overflow documents")
	}
	_, err = fault.Many(c.overflow.InsertMany(ctx, docs))
	return err
}
