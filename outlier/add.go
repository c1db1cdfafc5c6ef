package outlier

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Add puts an element at the end of the list of a parent, which must exist:
// ErrNotFound. With Options.Set it reports false, and the list stays as it is, if
// it holds the element already.
//
// Without Options.Set an Add whose outcome is unknown (a lost connection beyond
// the driver's own retry) may be stored twice if repeated.
//
// Cost: 1 round trip, 1 document written, found by _id, if the parent has room
// and no overflow. Outliers: 4, 2 documents written, and 1 more for each of: the
// last overflow document is full; Options.Set. The Add that makes a document an
// outlier: 5, 2 documents written. With Options.Set an element that is there
// already: no document written by a typical one; by outliers the parent twice, in 4
// round trips if the parent holds the element, else 5.
func (l *Lists[ID, E]) Add(ctx context.Context, id ID, e E) (added bool, err error) {
	n, err := l.AddMany(ctx, id, []E{e})
	return n > 0, err
}

// AddMany puts elements at the end of a list in their order, all or none, and
// returns how many: with Options.Set not those that the list holds already or
// that come twice.
//
// Cost: 1 round trip, 1 document written, found by _id, if they all fit into a
// parent without overflow; none for no elements. Else as for Add, 1 more if some
// of them still fit into the parent or, with Options.Set, are in it, 1 more if
// some fit into the last overflow document, and 1 document written for each
// overflow document that takes some. With Options.Set 1000 elements, or 2 MiB of
// them, are added at a time, all in one transaction.
func (l *Lists[ID, E]) AddMany(ctx context.Context, id ID, es []E) (added int64, err error) {
	if len(es) == 0 {
		return 0, nil
	}
	raw, err := l.id(id)
	if err != nil {
		return 0, fmt.Errorf("outlier: add: %w", err)
	}
	xs, err := l.elements(es)
	if err != nil {
		return 0, fmt.Errorf("outlier: add: %w", err)
	}
	if added, err = l.add(ctx, raw, xs); err != nil {
		return 0, l.fail("add", raw, err)
	}
	return added, nil
}

func (l *lists) add(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (added int64, err error) {
	pieces := [][]bson.RawValue{xs}
	small := len(xs) <= l.opts.MaxCount && cost(xs) <= int64(l.opts.MaxBytes)
	if l.opts.Set {
		if pieces, err = comparables(xs); err != nil {
			return 0, err
		}
		small = small && len(pieces) == 1
	}
	if small {
		added, done, err := l.addTypical(ctx, id, xs)
		if err != nil || done {
			return added, err
		}
	}
	err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) error {
		added = 0
		for _, piece := range pieces {
			n, err := l.addLocked(ctx, id, piece)
			if err != nil {
				return err
			}
			added += n
		}
		return nil
	})
	return added, err
}

// A command that compares elements with those of a set holds them up to six times.
const (
	maxCompared      = 1000
	maxComparedBytes = 2 << 20
)

// comparables cuts xs into what one command can compare.
func comparables(xs []bson.RawValue) (out [][]bson.RawValue, err error) {
	for from := 0; from < len(xs); {
		n := fitting(xs[from:], 0, 0, maxCompared, maxComparedBytes)
		if n == 0 {
			return nil, fmt.Errorf("element %d: %w: more than 2 MiB, in a set", from, ErrInvalid)
		}
		out = append(out, xs[from:from+n])
		from += n
	}
	return out, nil
}

// addTypical adds to a parent without overflow that has room for all of xs; if
// it is none, or there is no such parent, nothing is written and done is false.
func (l *lists) addTypical(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (added int64, done bool, err error) {
	array := l.array()
	more, after := literal(xs...), op("$add", size(array), len(xs))
	fresh := l.fresh(xs, array)
	if l.opts.Set {
		more, after = at(xs, fresh), op("$add", size(array), size(fresh))
	}
	filter := append(l.typical(id), bson.E{Key: "$expr", Value: op("$and",
		op("$lte", after, l.opts.MaxCount),
		op("$lte", op("$add", bytes(array), cost(xs)), l.opts.MaxBytes),
	)})
	fields := bson.D{{Key: l.opts.ArrayField, Value: op("$concatArrays", array, more)}}
	if l.opts.CountTypical {
		fields = append(fields, bson.E{Key: l.opts.TotalField, Value: op("$cond",
			op("$gt", after, size(array)), after, "$"+l.opts.TotalField)})
	}
	// Not $push, which refuses null: that is how a nil slice is stored.
	update := mongo.Pipeline{stage("$set", fields)}
	if !l.opts.Set || len(xs) == 1 {
		result, err := l.coll.UpdateOne(ctx, filter, update)
		if err != nil || result.MatchedCount == 0 {
			return 0, false, err
		}
		if l.opts.Set { // what it holds is not modified
			return result.ModifiedCount, true, nil
		}
		return int64(len(xs)), true, nil
	}
	before, err := l.modify(ctx, filter, update, bson.D{{Key: "_id", Value: 0}, {Key: "fresh", Value: fresh}})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return 0, false, nil
	case before.Again:
		return int64(len(distinct(append(before.Items, xs...))) - len(distinct(before.Items))), true, nil
	}
	return int64(len(before.Fresh)), err == nil, err
}

// distinct is the elements of a set, without a collation.
func distinct(xs []bson.RawValue) map[string]bool {
	out := map[string]bool{}
	for _, x := range xs {
		out[rawvalue.Key(x)] = true
	}
	return out
}

// fresh is the positions in xs of what array does not hold, of equals the first.
// The server decides what is equal.
func (l *lists) fresh(xs []bson.RawValue, array any) bson.D {
	// Looking for each of xs in what both hold is cheaper than in the array.
	let := func(name string, value, in any) bson.D {
		return op("$let", bson.D{{Key: "vars", Value: bson.D{{Key: name, Value: value}}}, {Key: "in", Value: in}})
	}
	x := op("$arrayElemAt", "$$xs", "$$this")
	return let("xs", literal(xs...), let("held", op("$setIntersection", "$$xs", array), op("$filter", bson.D{
		{Key: "input", Value: op("$range", 0, len(xs))},
		{Key: "cond", Value: op("$not", bson.A{op("$or",
			op("$in", x, "$$held"),
			op("$ne", op("$indexOfArray", "$$xs", x), "$$this"))})},
	})))
}

// at is the elements of xs at these positions.
func at(xs []bson.RawValue, positions any) bson.D {
	return op("$map", bson.D{
		{Key: "input", Value: positions},
		{Key: "in", Value: op("$arrayElemAt", literal(xs...), "$$this")},
	})
}

// addLocked adds within a transaction. Its first operation counts the elements
// in the parent, so that of all who add to, remove from or delete an outlier at
// the same time, only one commits.
func (l *lists) addLocked(ctx context.Context, id bson.RawValue, xs []bson.RawValue) (int64, error) {
	array := l.array()
	fields := l.project()
	if l.opts.Set {
		fields = l.project(bson.E{Key: "fresh", Value: l.fresh(xs, array)})
	}
	count := int64(len(xs)) // those that are known are taken off again
	before, err := l.modify(ctx, l.parent(id), l.become(nil, true, op("$add", l.total(array), number(count))), fields)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	if l.opts.Set {
		xs = pick(xs, before.Fresh)
	}
	inside := 0
	if !before.Flag {
		inside = fitting(xs, before.Size, before.Bytes, l.opts.MaxCount, l.opts.MaxBytes)
	} else if l.opts.Set && len(xs) > 0 {
		if xs, err = l.unheld(ctx, id, xs); err != nil {
			return 0, err
		}
	}
	added := int64(len(xs))
	err = l.append(ctx, before.ID, xs[inside:])
	switch {
	case errors.Is(err, ErrInvalid): // nothing was appended; a transaction of the caller's may go on
		undo := l.become(nil, before.Flag, number(before.Total))
		if _, err := l.coll.UpdateOne(ctx, l.parent(id), undo); err != nil {
			return 0, err
		}
	case err != nil:
	case before.Flag && added < count:
		err = l.count(ctx, id, added-count)
	case !before.Flag && (inside > 0 || added < count):
		var set bson.D
		if inside > 0 {
			set = bson.D{{Key: l.opts.ArrayField, Value: op("$concatArrays", array, literal(xs[:inside]...))}}
		}
		_, err = l.coll.UpdateOne(ctx, l.parent(id), l.become(set, inside < len(xs), number(before.Size+added)))
	}
	return added, err
}

func pick(xs []bson.RawValue, positions []int) []bson.RawValue {
	out := make([]bson.RawValue, len(positions))
	for i, p := range positions {
		out[i] = xs[p]
	}
	return out
}

// count corrects the total of an outlier.
func (l *lists) count(ctx context.Context, id bson.RawValue, by int64) error {
	_, err := l.coll.UpdateOne(ctx, l.parent(id),
		bson.D{{Key: "$inc", Value: bson.D{{Key: l.opts.TotalField, Value: number(by)}}}})
	return err
}

// unheld returns which of xs no overflow document holds.
func (l *lists) unheld(ctx context.Context, id bson.RawValue, xs []bson.RawValue) ([]bson.RawValue, error) {
	filter := l.extras(id)
	if len(xs) == 1 {
		filter = append(filter, l.holds(xs[0]))
	}
	cursor, err := l.overflow.Aggregate(ctx, mongo.Pipeline{
		stage("$match", filter),
		stage("$project", bson.D{
			{Key: "_id", Value: 0}, {Key: "held", Value: op("$setIntersection", literal(xs...), l.array())},
		}),
		stage("$match", bson.D{{Key: "held.0", Value: bson.D{{Key: "$exists", Value: true}}}}),
		stage("$project", bson.D{{Key: "held", Value: op("$filter", bson.D{
			{Key: "input", Value: op("$range", 0, len(xs))},
			{Key: "cond", Value: op("$in", op("$arrayElemAt", literal(xs...), "$$this"), "$held")},
		})}}),
	})
	if err != nil {
		return nil, err
	}
	var found []struct {
		Held []int `bson:"held"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	held := make([]bool, len(xs))
	for _, f := range found {
		for _, p := range f.Held {
			held[p] = true
		}
	}
	var out []bson.RawValue
	for i, x := range xs {
		if !held[i] {
			out = append(out, x)
		}
	}
	return out, nil
}

// An extent is an overflow document without its elements.
type extent struct {
	ID     bson.RawValue `bson:"_id"`
	Number bson.RawValue `bson:"n"`
	Size   int64         `bson:"size"`
	Bytes  int64         `bson:"bytes"`
	List   bool          `bson:"list"`
}

func (l *lists) extentOf(array any) bson.D {
	return bson.D{
		{Key: "n", Value: l.number()},
		{Key: "size", Value: size(array)},
		{Key: "bytes", Value: bytes(array)},
		{Key: "list", Value: l.isList()},
	}
}

// append puts xs behind everything else, within a transaction that has written
// the parent: into the last overflow document as far as they fit, then into new
// ones.
func (l *lists) append(ctx context.Context, id bson.RawValue, xs []bson.RawValue) error {
	if len(xs) == 0 {
		return nil
	}
	array := l.array()
	var last extent
	var err error
	next := int64(0)
	together := len(xs) <= l.opts.OverflowMaxCount && cost(xs) <= int64(l.opts.OverflowMaxBytes)
	if together {
		fits := op("$and",
			op("$in", op("$type", "$"+l.opts.NumberField), bson.A{"int", "long", "double"}),
			op("$lte", op("$add", size(array), len(xs)), l.opts.OverflowMaxCount),
			op("$lte", op("$add", bytes(array), cost(xs)), l.opts.OverflowMaxBytes))
		err = l.overflow.FindOneAndUpdate(ctx, l.extras(id), mongo.Pipeline{stage("$set", bson.D{
			{Key: l.opts.ArrayField, Value: op("$cond", fits, op("$concatArrays", array, literal(xs...)), "$"+l.opts.ArrayField)},
		})}, options.FindOneAndUpdate().SetSort(l.byNumber(-1)).SetReturnDocument(options.Before).
			SetProjection(l.extentOf(array))).Decode(&last)
	} else {
		err = l.overflow.FindOne(ctx, l.extras(id), options.FindOne().SetSort(l.byNumber(-1)).SetProjection(l.extentOf(array))).Decode(&last)
	}
	switch {
	case err == nil:
		n, ok := last.Number.AsInt64OK()
		if !ok { // nothing can follow it
			return l.notNumber(last.Number)
		}
		inside := fitting(xs, last.Size, last.Bytes, l.opts.OverflowMaxCount, l.opts.OverflowMaxBytes)
		if inside == len(xs) {
			return nil // as the server has found
		}
		if inside > 0 {
			_, err := l.overflow.UpdateOne(ctx, l.extra(id, last.ID), mongo.Pipeline{stage("$set", bson.D{
				{Key: l.opts.ArrayField, Value: op("$concatArrays", array, literal(xs[:inside]...))}})})
			if err != nil {
				return err
			}
			xs = xs[inside:]
		}
		next = n + 1
	case !errors.Is(err, mongo.ErrNoDocuments):
		return err
	}
	return l.insert(ctx, id, next, l.chunks(xs))
}

// chunks cuts xs into what overflow documents take.
func (l *lists) chunks(xs []bson.RawValue) (out [][]bson.RawValue) {
	for len(xs) > 0 {
		n := max(1, fitting(xs, 0, emptyBytes, l.opts.OverflowMaxCount, l.opts.OverflowMaxBytes))
		out = append(out, xs[:n])
		xs = xs[n:]
	}
	return out
}

// insert stores new overflow documents, numbered from first.
func (l *lists) insert(ctx context.Context, id bson.RawValue, first int64, chunks [][]bson.RawValue) error {
	if len(chunks) == 0 {
		return nil
	}
	docs := make([]any, len(chunks))
	for i, chunk := range chunks {
		docs[i] = bson.D{
			{Key: l.opts.ParentField, Value: id},
			{Key: l.opts.NumberField, Value: number(first + int64(i))},
			{Key: l.opts.ArrayField, Value: chunk},
		}
	}
	_, err := l.overflow.InsertMany(ctx, docs)
	return err
}
