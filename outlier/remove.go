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

// Remove takes the first element that equals e out of a list and reports whether
// there was one. The others keep their order. When the total has come down to
// Options.FoldBack, everything moves back into the parent. Without a parent it is
// ErrNotFound.
//
// Cost: 1 round trip, 1 document written, found by _id, if the parent has no
// overflow. Outliers: 3, 1 document written, if the parent holds the element,
// else 4, 2 documents written (5 if there is no such element: the parent is
// written twice); 2 more if an overflow document is empty then and deleted, 3 if
// it was the last; 3 more to fold back, which writes the parent and deletes its
// overflow documents.
func (l *Lists[ID, E]) Remove(ctx context.Context, id ID, e E) (removed bool, err error) {
	n, err := l.remove(ctx, id, e, false)
	return n > 0, err
}

// RemoveAll is Remove of every element that equals e and returns how many there
// were.
//
// Cost: 1 round trip, 1 document written, found by _id, if the parent has no
// overflow. Outliers: 4, and 1 more for each of: overflow documents hold the
// element; the total was not put right by the first write. Empty documents and
// folding back as for Remove.
func (l *Lists[ID, E]) RemoveAll(ctx context.Context, id ID, e E) (removed int64, err error) {
	return l.remove(ctx, id, e, true)
}

func (l *Lists[ID, E]) remove(ctx context.Context, id ID, e E, all bool) (removed int64, err error) {
	raw, x, err := l.one(id, e)
	if err != nil {
		return 0, fmt.Errorf("outlier: remove: %w", err)
	}
	removed, done, err := l.removeTypical(ctx, raw, x, all)
	if err == nil && !done {
		err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) (err error) {
			removed, err = l.removeLocked(ctx, raw, x, all)
			return err
		})
	}
	if err != nil {
		return 0, l.fail("remove", raw, err)
	}
	return removed, nil
}

// removeTypical removes from a parent without overflow; if it is none, or there
// is no such parent, done is false.
func (l *lists) removeTypical(ctx context.Context, id, x bson.RawValue, all bool) (removed int64, done bool, err error) {
	if !all { // the one removed is what has been modified
		result, err := l.coll.UpdateOne(ctx, l.typical(id), l.removal(x, false))
		if err != nil {
			return 0, false, err
		}
		return result.ModifiedCount, result.MatchedCount > 0, nil
	}
	before, err := l.removeInside(ctx, l.typical(id), x, true)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, false, nil
	}
	if before.Again {
		for _, y := range before.Items {
			if rawvalue.Key(y) == rawvalue.Key(x) {
				before.Held++
			}
		}
	}
	return before.Held, err == nil, err
}

// removal is the update that removes from a parent's array. A typical document
// that does not hold the element is not changed. An outlier counts down by what
// was removed, but at least by one, so that it is written in any case.
func (l *lists) removal(x bson.RawValue, all bool) mongo.Pipeline {
	array := l.array()
	held := l.occurrences(array, x, all)
	var typical any = "$" + l.opts.TotalField
	if l.opts.CountTypical {
		typical = op("$cond", op("$gt", held, 0), op("$subtract", size(array), held), typical)
	}
	return mongo.Pipeline{stage("$set", bson.D{
		{Key: l.opts.ArrayField, Value: l.without(array, x, all)},
		{Key: l.opts.TotalField, Value: op("$cond", l.flagged(),
			op("$subtract", l.total(array), op("$max", held, 1)), typical)},
	})}
}

func (l *lists) removeInside(ctx context.Context, filter bson.D, x bson.RawValue, all bool) (state, error) {
	return l.modify(ctx, filter, l.removal(x, all), l.project(bson.E{Key: "held", Value: l.occurrences(l.array(), x, all)}))
}

// occurrences is how many elements a removal takes out of array.
func (l *lists) occurrences(array any, x bson.RawValue, all bool) bson.D {
	if !all {
		return op("$cond", op("$in", constant(x), array), 1, 0)
	}
	return size(op("$filter", bson.D{{Key: "input", Value: array}, {Key: "cond", Value: op("$eq", "$$this", constant(x))}}))
}

// without is the array after a removal. An array without x stays what it is, also
// missing or null.
func (l *lists) without(array any, x bson.RawValue, all bool) bson.D {
	var rest any = op("$filter", bson.D{{Key: "input", Value: array}, {Key: "cond", Value: op("$ne", "$$this", constant(x))}})
	if !all {
		rest = op("$let", bson.D{
			{Key: "vars", Value: bson.D{{Key: "at", Value: op("$indexOfArray", array, constant(x))}}},
			{Key: "in", Value: op("$concatArrays", head(array, "$$at"), tail(array, op("$add", "$$at", 1)))},
		})
	}
	return op("$cond", op("$in", constant(x), array), rest, "$"+l.opts.ArrayField)
}

func constant(x bson.RawValue) bson.D { return op("$literal", x) }

// removeLocked removes within a transaction, whose first operation writes the
// parent.
func (l *lists) removeLocked(ctx context.Context, id, x bson.RawValue, all bool) (int64, error) {
	before, err := l.removeInside(ctx, l.parent(id), x, all)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, ErrNotFound
	}
	if err != nil || !before.Flag { // folded back meanwhile
		return before.Held, err
	}
	removed, emptied := before.Held, false
	if all {
		more, deleted, err := l.removeAllOutside(ctx, id, x)
		if err != nil {
			return 0, err
		}
		removed, emptied = removed+more, deleted
	} else if removed == 0 {
		if removed, emptied, err = l.removeOutside(ctx, id, x); err != nil {
			return 0, err
		}
	}
	// The total is right if the parent held what was removed, or one element outside.
	if wrong := max(before.Held, 1) - removed; wrong != 0 {
		if err := l.count(ctx, id, wrong); err != nil {
			return 0, err
		}
	}
	if removed == 0 {
		return 0, nil
	}
	return removed, l.shrink(ctx, id, before, before.Total-removed, emptied)
}

// removeOutside removes the first occurrence in overflow documents, and the
// document that is empty then.
func (l *lists) removeOutside(ctx context.Context, id, x bson.RawValue) (removed int64, emptied bool, err error) {
	array := l.array()
	var before extent
	err = l.overflow.FindOneAndUpdate(ctx, append(l.extras(id), l.holds(x)),
		mongo.Pipeline{stage("$set", bson.D{{Key: l.opts.ArrayField, Value: l.without(array, x, false)}})},
		options.FindOneAndUpdate().SetSort(l.byNumber(1)).SetReturnDocument(options.Before).
			SetProjection(l.extentOf(array))).Decode(&before)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, false, nil
	}
	if err != nil || before.Size > 1 {
		return 1, false, err
	}
	_, err = l.overflow.DeleteOne(ctx, l.extra(id, before.ID))
	return 1, true, err
}

// removeAllOutside removes all occurrences in overflow documents, and those that
// are empty then.
func (l *lists) removeAllOutside(ctx context.Context, id, x bson.RawValue) (removed int64, emptied bool, err error) {
	array := l.array()
	filter := append(l.extras(id), l.holds(x))
	cursor, err := l.overflow.Aggregate(ctx, mongo.Pipeline{
		stage("$match", filter),
		stage("$project", bson.D{{Key: "_id", Value: 0}, {Key: "size", Value: size(array)}, {Key: "held", Value: l.occurrences(array, x, true)}}),
	})
	if err != nil {
		return 0, false, err
	}
	var found []struct{ Size, Held int64 }
	if err := cursor.All(ctx, &found); err != nil || len(found) == 0 {
		return 0, false, err
	}
	for _, f := range found {
		removed += f.Held
		emptied = emptied || f.Held == f.Size
	}
	_, err = l.overflow.UpdateMany(ctx, filter,
		mongo.Pipeline{stage("$set", bson.D{{Key: l.opts.ArrayField, Value: l.without(array, x, true)}})})
	if err == nil && emptied {
		err = l.deleteEmpty(ctx, id)
	}
	return removed, emptied, err
}

func (l *lists) deleteEmpty(ctx context.Context, id bson.RawValue) error {
	_, err := l.overflow.DeleteMany(ctx, append(l.extras(id),
		bson.E{Key: l.opts.ArrayField, Value: bson.D{{Key: "$size", Value: 0}}}))
	return err
}

// shrink folds an outlier back after a removal if the policy says so, and takes
// its flag away if no overflow document is left.
func (l *lists) shrink(ctx context.Context, id bson.RawValue, before state, total int64, emptied bool) error {
	small := total <= int64(l.opts.FoldBack) && before.Bytes <= l.foldBytes()
	if !small && !emptied {
		return nil
	}
	find := options.Find().SetSort(l.byNumber(1))
	if !small {
		find.SetLimit(1).SetProjection(bson.D{{Key: "_id", Value: 1}})
	}
	cursor, err := l.overflow.Find(ctx, l.extras(id), find)
	if err != nil {
		return err
	}
	var docs []bson.Raw
	if err := cursor.All(ctx, &docs); err != nil {
		return err
	}
	inside := before.Size - before.Held
	if len(docs) == 0 {
		_, err := l.coll.UpdateOne(ctx, l.parent(id), l.become(nil, false, number(inside)))
		return err
	}
	if !small {
		return nil
	}
	var xs []bson.RawValue
	for _, doc := range docs {
		more, err := l.values(doc)
		if err != nil {
			return nil //nolint:nilerr // Check reports it; the removal is done
		}
		xs = append(xs, more...)
	}
	if inside+int64(len(xs)) > int64(l.opts.MaxCount) || before.Bytes+cost(xs) > l.foldBytes() {
		return nil
	}
	_, err = l.coll.UpdateOne(ctx, l.parent(id), l.become(
		bson.D{{Key: l.opts.ArrayField, Value: op("$concatArrays", l.array(), literal(xs...))}},
		false, number(inside+int64(len(xs)))))
	if err != nil {
		return err
	}
	_, err = l.overflow.DeleteMany(ctx, l.extras(id))
	return err
}

// foldBytes is how large an array folding back may make.
func (l *lists) foldBytes() int64 { return int64(l.opts.MaxBytes) / 4 * 3 }

// values returns the elements in a document.
func (l *lists) values(doc bson.Raw) ([]bson.RawValue, error) {
	value := doc.Lookup(l.opts.ArrayField)
	switch value.Type {
	case 0, bson.TypeNull:
		return nil, nil
	case bson.TypeArray:
		return value.Array().Values()
	}
	return nil, fmt.Errorf("field %q: %w: a BSON %v, not an array", l.opts.ArrayField, ErrInvalid, value.Type)
}

// Delete deletes a parent and its overflow documents: ErrNotFound if there is no
// parent. Where something else deletes the parent, another of its lists or
// patterns, delete the overflow documents yourself, by OverflowFilter and in the
// same transaction: without a parent Delete leaves them.
//
// Cost: 1 round trip, 1 document deleted, found by _id, if it has no overflow.
// Outliers: 4, and all their documents deleted.
func (l *Lists[ID, E]) Delete(ctx context.Context, id ID) error {
	raw, err := l.id(id)
	if err != nil {
		return fmt.Errorf("outlier: delete: %w", err)
	}
	result, err := l.coll.DeleteOne(ctx, l.typical(raw))
	if err == nil && result.DeletedCount == 0 {
		err = txn.Run(ctx, l.coll.Database().Client(), func(ctx context.Context) error {
			result, err := l.coll.DeleteOne(ctx, l.parent(raw))
			if err == nil && result.DeletedCount == 0 {
				err = ErrNotFound
			}
			if err != nil {
				return err
			}
			_, err = l.overflow.DeleteMany(ctx, l.extras(raw))
			return err
		})
	}
	if err != nil {
		return l.fail("delete", raw, err)
	}
	return nil
}
