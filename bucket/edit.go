package bucket

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// Replace puts m in the place of the stored measurement with the same ID, in
// m's window, or without Options.IDField with exactly m's time, and recomputes
// the bucket's aggregates in the same write. ErrNotFound if there is none. If
// several have that time, one of them is replaced. To move a measurement to
// another window, delete and append it.
//
// Cost: 1 round trip, 1 document written; index {series, start}, with IDField
// the one on IDs; the buckets of the window until the measurement is found.
func (b *Buckets[S, M]) Replace(ctx context.Context, series S, m M) error {
	it, err := b.item(m)
	if err != nil {
		return fmt.Errorf("bucket: replace: %w", err)
	}
	path, key := b.opts.TimeField, rawvalue.Lookup(it.raw, b.opts.TimeField)
	if b.opts.IDField != "" {
		path, key = b.opts.IDField, it.id
	}
	err = b.edit(ctx, series, it.time.Time(), path, key, func(measurements, index any) any {
		all := op("$range", 0, op("$size", measurements))
		replaced := op("$cond", op("$eq", "$$this", index), literal(it.raw), op("$arrayElemAt", measurements, "$$this"))
		if !b.opts.Sorted {
			return mapped(all, replaced)
		}
		// With its position: $sortArray need not keep the order of equal times.
		return mapped(op("$sortArray", bson.D{
			{Key: "input", Value: mapped(all, bson.D{{Key: "m", Value: replaced}, {Key: "i", Value: "$$this"}})},
			{Key: "sortBy", Value: bson.D{{Key: "m." + b.opts.TimeField, Value: 1}, {Key: "i", Value: 1}}},
		}), "$$this.m")
	})
	if err != nil {
		return fmt.Errorf("bucket: replace: %w", err)
	}
	return nil
}

// Delete removes the measurement of series at exactly this time and recomputes
// the bucket's aggregates in the same write. ErrNotFound if there is none. If
// several have that time, one of them is removed. A bucket that becomes empty
// stays, with count 0.
//
// Cost: 1 round trip, 1 document written; index {series, start}; the buckets of
// the window until the measurement is found.
func (b *Buckets[S, M]) Delete(ctx context.Context, series S, at time.Time) error {
	if err := b.remove(ctx, series, at, b.opts.TimeField, dateValue(at)); err != nil {
		return fmt.Errorf("bucket: delete: %w", err)
	}
	return nil
}

// DeleteByID is Delete for the measurement with this ID in the window that holds
// at. It needs Options.IDField.
//
// Cost: 1 round trip, 1 document written; the index on IDs, 1 key.
func (b *Buckets[S, M]) DeleteByID(ctx context.Context, series S, at time.Time, id any) error {
	if b.opts.IDField == "" {
		return fmt.Errorf("bucket: delete by ID: %w: Options.IDField is not set", ErrInvalid)
	}
	raw, err := b.value(id)
	if err != nil || !isID(raw) {
		return fmt.Errorf("bucket: delete by ID: %w: %v is no ID", ErrInvalid, id)
	}
	if err := b.remove(ctx, series, at, b.opts.IDField, raw); err != nil {
		return fmt.Errorf("bucket: delete by ID: %w", err)
	}
	return nil
}

func (b *Buckets[S, M]) remove(ctx context.Context, series S, at time.Time, path string, key bson.RawValue) error {
	return b.edit(ctx, series, at, path, key, func(measurements, index any) any {
		others := bson.D{{Key: "$filter", Value: bson.D{
			{Key: "input", Value: op("$range", 0, op("$size", measurements))},
			{Key: "cond", Value: op("$ne", "$$this", index)},
		}}}
		return mapped(others, op("$arrayElemAt", measurements, "$$this"))
	})
}

// edit changes the array of the bucket that holds the measurement whose path is
// key, and recounts. change is given expressions for the array and the
// measurement's index in it.
func (b *Buckets[S, M]) edit(ctx context.Context, series S, at time.Time, path string, key bson.RawValue, change func(measurements, index any) any) error {
	p, err := b.place(series, at)
	if err != nil {
		return err
	}
	measurements := "$" + b.opts.ArrayField
	filter := append(b.within(p), bson.E{Key: b.opts.ArrayField + "." + path, Value: b.equal(key)})
	index := op("$indexOfArray", mapped(measurements, "$$this."+path), literal(key))
	result, err := b.coll.UpdateOne(ctx, filter, mongo.Pipeline{
		{{Key: "$set", Value: bson.D{{Key: b.opts.ArrayField, Value: bson.D{{Key: "$let", Value: bson.D{
			{Key: "vars", Value: bson.D{{Key: "found", Value: index}}},
			{Key: "in", Value: change(measurements, "$$found")},
		}}}}}}},
		b.recount(),
	})
	if err == nil && result.MatchedCount == 0 {
		err = ErrNotFound
	}
	if err != nil {
		what := fmt.Sprintf("series %s, time %s", rawvalue.Text(p.series), at.UTC().Format(time.RFC3339Nano))
		if path == b.opts.IDField {
			what += ", ID " + rawvalue.Text(key)
		}
		return fmt.Errorf("%s: %w", what, b.blame(ctx, b.within(p), err))
	}
	return nil
}
