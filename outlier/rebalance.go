package outlier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Rebalance brings one list into the shape that the options describe, in its
// order: what the parent's array has over its bounds goes to overflow documents
// before all others; a parent with room is filled up from them; what fits as a
// whole is folded back, whatever Options.FoldBack says; with Options.Set only the
// first of equal elements stays; flag and total become right. ErrNotFound without
// a parent.
//
// Cost: 4 round trips, the parent written twice, its overflow documents read for
// their sizes by the index {parent, n}. 1 more to split. To fill up 1 more, and 1
// for each overflow document that gives elements. With Options.Set 1 more, which
// reads all elements, and 1 for each document that has duplicates.
func (l *Lists[ID, E]) Rebalance(ctx context.Context, id ID) error {
	raw, err := l.id(id)
	if err != nil {
		return fmt.Errorf("outlier: rebalance: %w", err)
	}
	if _, err := l.rebalance(ctx, raw); err != nil {
		return l.fail("rebalance", raw, err)
	}
	return nil
}

// rebalance reports whether it changed anything.
func (l *lists) rebalance(ctx context.Context, id bson.RawValue) (changed bool, err error) {
	err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) (err error) {
		changed, err = l.rebalanceLocked(ctx, id)
		return err
	})
	return changed, err
}

func (l *lists) rebalanceLocked(ctx context.Context, id bson.RawValue) (changed bool, err error) {
	// The last write puts the total right; until then it must be another, for
	// the write to be one.
	field := "$" + l.opts.TotalField
	other := op("$cond", l.countable(), op("$add", field, 1), 0)
	var doc bson.Raw
	err = l.coll.FindOneAndUpdate(ctx, l.parent(id),
		mongo.Pipeline{stage("$set", bson.D{{Key: l.opts.TotalField, Value: op("$cond", l.isList(), other, field)}})},
		options.FindOneAndUpdate().SetReturnDocument(options.Before).SetProjection(bson.D{
			{Key: l.opts.ArrayField, Value: 1}, {Key: l.opts.FlagField, Value: 1}, {Key: l.opts.TotalField, Value: 1},
		})).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, ErrNotFound
	}
	if err != nil {
		return false, err
	}
	id = doc.Lookup("_id")
	xs, err := l.values(doc)
	if err != nil {
		return false, err
	}
	inside := len(xs)
	// As $bsonSize has it.
	bytes := int64(len(doc.Lookup(l.opts.ArrayField).Value)) + emptyBytes - 5
	extents, err := l.extents(ctx, id)
	if err != nil {
		return false, err
	}
	var refusal error
	for _, x := range extents {
		if !x.List {
			refusal = l.notArray(x.Number)
			break
		}
		if _, ok := x.Number.AsInt64OK(); !ok && (inside > l.opts.MaxCount || bytes > int64(l.opts.MaxBytes)) {
			refusal = l.notNumber(x.Number)
		}
	}
	if refusal != nil {
		restore := bson.D{{Key: "$set", Value: bson.D{{Key: l.opts.TotalField, Value: doc.Lookup(l.opts.TotalField)}}}}
		if doc.Lookup(l.opts.TotalField).IsZero() {
			restore = bson.D{{Key: "$unset", Value: bson.D{{Key: l.opts.TotalField, Value: ""}}}}
		}
		if _, err := l.coll.UpdateOne(ctx, l.parent(id), restore); err != nil {
			return false, err
		}
		return false, refusal
	}
	before := held(extents)
	if l.opts.Set {
		if xs, extents, err = l.unique(ctx, id, xs, extents); err != nil {
			return false, err
		}
	}
	rewritten := len(xs) != inside
	if len(xs) > l.opts.MaxCount || bytes > int64(l.opts.MaxBytes) {
		n := fitting(xs, 0, emptyBytes, l.opts.MaxCount, l.opts.MaxBytes)
		chunks := l.chunks(xs[n:])
		from := int64(0)
		if len(extents) > 0 {
			first, _ := extents[0].Number.AsInt64OK()
			from = first - int64(len(chunks))
		}
		if err := l.insert(ctx, id, from, chunks); err != nil {
			return false, err
		}
		for _, chunk := range chunks {
			extents = append(extents, extent{Size: int64(len(chunk))})
		}
		xs, rewritten = xs[:n], true
	} else if len(extents) > 0 && len(xs) < l.opts.MaxCount {
		more, left, err := l.take(ctx, id, int64(len(xs)), bytes, extents)
		if err != nil {
			return false, err
		}
		extents = left
		xs, rewritten = append(xs, more...), rewritten || len(more) > 0
	}
	outside := held(extents)
	if outside == 0 && len(extents) > 0 { // empty ones, of somebody else
		if _, err := l.overflow.DeleteMany(ctx, l.extras(id)); err != nil {
			return false, err
		}
	}
	total := int64(len(xs)) + outside
	flag, _ := doc.Lookup(l.opts.FlagField).BooleanOK()
	said := whole(doc.Lookup(l.opts.TotalField))
	changed = rewritten || outside != before || flag != (outside > 0) ||
		(outside > 0 || l.opts.CountTypical) && said != total
	var set bson.D
	if rewritten {
		set = bson.D{{Key: l.opts.ArrayField, Value: literal(xs...)}}
	}
	_, err = l.coll.UpdateOne(ctx, l.parent(id), l.become(set, outside > 0, number(total)))
	return changed, err
}

// extents reads how large the overflow documents of a list are, in order.
func (l *lists) extents(ctx context.Context, id bson.RawValue) ([]extent, error) {
	cursor, err := l.overflow.Find(ctx, l.extras(id), options.Find().SetSort(l.byNumber(1)).
		SetProjection(l.extentOf(l.anyArray())).SetBatchSize(10_000))
	if err != nil {
		return nil, err
	}
	var out []extent
	return out, cursor.All(ctx, &out)
}

// held is how many elements overflow documents hold.
func held(extents []extent) (n int64) {
	for _, x := range extents {
		n += x.Size
	}
	return n
}

// take removes from the first overflow documents what still fits into a parent
// with an array of this size. It returns that, and what overflow documents are
// left.
func (l *lists) take(ctx context.Context, id bson.RawValue, size, bytes int64, extents []extent) (taken []bson.RawValue, left []extent, err error) {
	cursor, err := l.overflow.Find(ctx, l.extras(id), options.Find().SetSort(l.byNumber(1)))
	if err != nil {
		return nil, nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	left = slices.Clone(extents)
	for len(left) > 0 && cursor.Next(ctx) {
		doc := slices.Clone(cursor.Current)
		more, err := l.values(doc)
		if err != nil {
			return nil, nil, err
		}
		n := fitting(more, size, bytes, l.opts.MaxCount, l.opts.MaxBytes)
		filter := l.extra(id, doc.Lookup("_id"))
		taken = append(taken, more[:n]...)
		size, bytes = size+int64(n), bytes+cost(more[:n])
		if n < len(more) {
			if n > 0 {
				left[0].Size -= int64(n)
				_, err = l.overflow.UpdateOne(ctx, filter, mongo.Pipeline{stage("$set", bson.D{
					{Key: l.opts.ArrayField, Value: tail(l.array(), n)}})})
			}
			return taken, left, err
		}
		left = left[1:]
		if _, err := l.overflow.DeleteOne(ctx, filter); err != nil {
			return nil, nil, err
		}
	}
	return taken, left, cursor.Err()
}

// A place is where an equal of an element lies: in the overflow document with this
// _id, or, without one, in the parent.
type place struct {
	ID bson.RawValue `bson:"id"`
	I  int64         `bson:"i"`
}

// unique removes from a set all but the first of equal elements. It returns what
// the parent should hold, and what overflow documents are left.
func (l *lists) unique(ctx context.Context, id bson.RawValue, xs []bson.RawValue, extents []extent) ([]bson.RawValue, []extent, error) {
	repeats, err := l.repeats(ctx, id)
	if err != nil || len(repeats) == 0 {
		return xs, extents, err
	}
	order := map[string]int{} // of overflow documents, from 1; the parent is 0
	for i, x := range extents {
		order[x.ID.String()] = i + 1
	}
	drop := make([][]int64, len(extents)+1) // positions by document
	for _, r := range repeats {
		slices.SortFunc(r.At, func(a, b place) int {
			if d := order[a.ID.String()] - order[b.ID.String()]; d != 0 {
				return d
			}
			return int(a.I - b.I)
		})
		for _, p := range r.At[1:] {
			at := order[p.ID.String()]
			drop[at] = append(drop[at], p.I)
		}
	}
	slices.Sort(drop[0])
	var kept []bson.RawValue
	for i, x := range xs {
		if _, repeated := slices.BinarySearch(drop[0], int64(i)); !repeated {
			kept = append(kept, x)
		}
	}
	var left []extent
	for i, x := range extents {
		positions := drop[i+1]
		x.Size -= int64(len(positions))
		if x.Size > 0 || len(positions) == 0 {
			left = append(left, x)
		}
		switch array := l.array(); {
		case len(positions) == 0:
		case x.Size == 0:
			_, err = l.overflow.DeleteOne(ctx, l.extra(id, x.ID))
		default:
			_, err = l.overflow.UpdateOne(ctx, l.extra(id, x.ID), mongo.Pipeline{stage("$set", bson.D{
				{Key: l.opts.ArrayField, Value: op("$map", bson.D{
					{Key: "input", Value: op("$filter", bson.D{
						{Key: "input", Value: op("$range", 0, size(array))},
						{Key: "cond", Value: op("$not", bson.A{op("$in", "$$this", positions)})},
					})},
					{Key: "in", Value: op("$arrayElemAt", array, "$$this")},
				})},
			})})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return kept, left, nil
}

// repeated is an element that a list holds several times.
type repeated struct {
	Element bson.RawValue `bson:"_id"`
	At      []place       `bson:"at"`
}

// repeats finds the elements that a list holds several times; the server
// decides what is equal.
func (l *lists) repeats(ctx context.Context, id bson.RawValue) ([]repeated, error) {
	pipeline := append(l.parts(l.parent(id)),
		stage("$unwind", bson.D{{Key: "path", Value: "$part.items"}, {Key: "includeArrayIndex", Value: "i"}}),
		stage("$group", bson.D{
			{Key: "_id", Value: "$part.items"},
			{Key: "count", Value: op("$sum", 1)},
			{Key: "at", Value: op("$push", bson.D{{Key: "id", Value: "$part._id"}, {Key: "i", Value: "$i"}})},
		}),
		stage("$match", bson.D{{Key: "count", Value: op("$gt", 1)}}),
	)
	cursor, err := l.coll.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return nil, err
	}
	var out []repeated
	return out, cursor.All(ctx, &out)
}
