package bucket

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Update puts m in the place of the stored measurement with the same ID, in
// m's window, or without Options.IDField with exactly m's time, and recomputes
// the bucket's aggregates in the same write. ErrNotFound if there is none. If
// several have that time, one of them is replaced. To move a measurement to
// another window, delete and append it. It can be repeated.
//
// Cost: 1 round trip, 1 document written; index {series, start}, with IDField
// the one on IDs; the buckets of the window until the measurement is found.
func (b *Buckets[S, M]) Update(ctx context.Context, series S, m M) (err error) {
	defer fault.In(&err, "bucket: update")
	c := b.core
	it, err := c.item(m)
	if err != nil {
		return err
	}
	path, key := c.opts.TimeField, dateValue(it.time)
	if c.opts.IDField != "" {
		path, key = c.opts.IDField, it.id
	}
	return c.edit(ctx, series, it.time, path, key, func(all, found any) any {
		return expr.Map(expr.Op("$range", 0, expr.Op("$size", all)), "i", expr.Cond(
			expr.Op("$eq", expr.Var("i"), found), expr.Literal(it.raw), expr.Op("$arrayElemAt", all, expr.Var("i"))))
	})
}

// Delete removes the measurement of series at exactly this time and recomputes
// the bucket's aggregates in the same write. ErrNotFound if there is none: so
// it is when a deletion whose answer was lost is repeated. If several have that
// time, one of them is removed, and a repetition removes another. A bucket that
// becomes empty stays, with count 0.
//
// Cost: 1 round trip, 1 document written; index {series, start}; the buckets of
// the window until the measurement is found.
func (b *Buckets[S, M]) Delete(ctx context.Context, series S, at time.Time) (err error) {
	defer fault.In(&err, "bucket: delete")
	return b.core.remove(ctx, series, at, b.core.opts.TimeField, dateValue(at))
}

// DeleteByID is Delete for the measurement with this ID in the window that holds
// at. It needs Options.IDField.
//
// Cost: 1 round trip, 1 document written; the index on IDs, 1 key.
func (b *Buckets[S, M]) DeleteByID(ctx context.Context, series S, at time.Time, id any) (err error) {
	defer fault.In(&err, "bucket: delete by ID")
	c := b.core
	if c.opts.IDField == "" {
		return fault.Invalid("Options.IDField is not set")
	}
	raw, err := c.codec.Value(id)
	if err == nil {
		err = checkMeasurementID(raw)
	}
	if err != nil {
		return fmt.Errorf("ID: %w", err)
	}
	return c.remove(ctx, series, at, c.opts.IDField, raw)
}

func (c *arrays) remove(ctx context.Context, series any, at time.Time, path string, key bson.RawValue) error {
	return c.edit(ctx, series, at, path, key, func(all, found any) any {
		others := expr.Filter(expr.Op("$range", 0, expr.Op("$size", all)), "i", expr.Op("$ne", expr.Var("i"), found))
		return expr.Map(others, "i", expr.Op("$arrayElemAt", all, expr.Var("i")))
	})
}

// edit changes the array of the bucket that holds the measurement whose path is
// key, and recounts. change is given expressions for the array and the
// measurement's index in it.
func (c *arrays) edit(ctx context.Context, series any, moment time.Time, path string, key bson.RawValue, change func(all, found any) any) error {
	p, err := c.place(series, moment)
	if err != nil {
		return err
	}
	all := expr.Field(c.opts.ArrayField)
	result, err := c.coll.UpdateOne(ctx,
		append(c.within(p), bson.E{Key: c.opts.ArrayField + "." + path, Value: value.Equal(key)}),
		append(mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.opts.ArrayField, Value: expr.Let("found",
			expr.Op("$indexOfArray", expr.Map(all, "m", at(path)), expr.Literal(key)),
			change(all, expr.Var("found")))}})}, c.recount()...))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("series %s, time %s, %s %s: %w", value.Text(p.series), moment.UTC().Format(time.RFC3339Nano), path, value.Text(key), err)
	}
	return nil
}
