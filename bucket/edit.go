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
	"github.com/mongopatterns/mongopatterns/internal/frame"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Update replaces the measurement with m's ID in m's window, or without Options.IDField one with exactly m's
// time, and recomputes the bucket's aggregates in the same write. ErrNotFound if there is none. It can be
// repeated. To move a measurement to another window, delete and append it.
//
// Cost: 1 round trip, 1 document written; index {series, start}, with IDField the one on IDs; the buckets of
// the window until the measurement is found.
func (b *Buckets[S, M]) Update(ctx context.Context, series S, m M) (err error) {
	defer fault.In(&err, "bucket: update")
	c := b.core
	it, err := c.item(&batch{}, m)
	if err != nil {
		return err
	}
	path, key := c.opts.TimeField, frame.Date(it.time)
	if c.opts.IDField != "" {
		path, key = c.opts.IDField, it.id
	}
	return c.edit(ctx, series, time.UnixMilli(it.time), path, key, it.raw)
}

// Delete removes the measurement of series at exactly this time, of several one, and recomputes the bucket's
// aggregates in the same write. ErrNotFound if there is none, also when a deletion whose answer was lost is
// repeated. A bucket that becomes empty stays, with count 0.
//
// Cost: 1 round trip, 1 document written; index {series, start}; the buckets of the window until the
// measurement is found.
func (b *Buckets[S, M]) Delete(ctx context.Context, series S, at time.Time) (err error) {
	defer fault.In(&err, "bucket: delete")
	return b.core.edit(ctx, series, at, b.core.opts.TimeField, frame.Date(at.UnixMilli()), bson.RawValue{})
}

// DeleteByID is Delete for the measurement with this ID in the window that holds at. It needs
// Options.IDField.
//
// Cost: 1 round trip, 1 document written; the index on IDs, 1 key.
func (b *Buckets[S, M]) DeleteByID(ctx context.Context, series S, at time.Time, id any) (err error) {
	defer fault.In(&err, "bucket: delete by ID")
	c := b.core
	if c.opts.IDField == "" {
		return fault.Invalid("Options.IDField is not set")
	}
	raw, err := c.Codec.Value(id)
	if err == nil {
		err = checkMeasurementID(raw)
	}
	if err != nil {
		return fmt.Errorf("ID: %w", err)
	}
	return c.edit(ctx, series, at, c.opts.IDField, raw, bson.RawValue{})
}

// edit puts by, or with its zero value nothing, in the place of the measurement whose path is key, and
// recounts its bucket in the same write.
func (c *arrays) edit(ctx context.Context, series any, moment time.Time, path string, key, by bson.RawValue) error {
	p, err := c.Place(series, moment)
	if err != nil {
		return err
	}
	all, i := expr.Field(c.opts.ArrayField), expr.Var("i")
	indices, element := expr.Op("$range", 0, expr.Op("$size", all)), expr.Op("$arrayElemAt", all, i)
	if by.Type == 0 {
		indices = expr.Filter(indices, "i", expr.Op("$ne", i, expr.Var("found")))
	} else {
		element = expr.Cond(expr.Op("$eq", i, expr.Var("found")), expr.Literal(by), element)
	}
	found := expr.Op("$indexOfArray", expr.Map(all, "m", at(path)), expr.Literal(key))
	changed := expr.Let("found", found, expr.Map(indices, "i", element))
	filter := append(c.Within(p), bson.E{Key: c.opts.ArrayField + "." + path, Value: value.Equal(key)})
	result, err := fault.One(c.Coll.UpdateOne(ctx, filter,
		mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.opts.ArrayField, Value: changed}}), expr.Op("$set", c.recounted)}))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.Named(moment.UnixMilli(), fmt.Sprintf(", %s %s", path, value.Text(key)), err)
}
