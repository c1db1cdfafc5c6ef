package bucket

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Replace replaces the measurement with m's ID in the window of m's time or, without Options.IDField, a
// measurement with exactly m's time. It recomputes the bucket's aggregates in the same write. It returns
// ErrNotFound if no such measurement exists. It can be repeated. To move a measurement to another window,
// delete and append it.
//
// Cost: 1 round trip, 1 document written, index {series, start}, with IDField the one on IDs; the buckets of
// the window until the measurement is found.
func (b *Buckets[ID, M]) Replace(ctx context.Context, series ID, m M) (err error) {
	ctx = comment.Call(ctx, "bucket.Replace")
	defer fault.In(&err, "bucket.Replace")
	c := b.core
	it, err := c.item(&batch{}, m)
	if err != nil {
		return err
	}
	path, key := c.opts.TimeField, windows.Date(it.time)
	if c.opts.IDField != "" {
		path, key = c.opts.IDField, it.id
	}
	return c.edit(ctx, series, time.UnixMilli(it.time), path, key, it.raw)
}

// Delete removes the measurement of series at exactly this time, or one of them if there are several. It
// recomputes the bucket's aggregates in the same write. It returns ErrNotFound if no such measurement
// exists, as when a Delete is repeated after its answer was lost. If there were several, the repeated
// Delete removes another one. A bucket that becomes empty stays, with count 0.
//
// Cost: 1 round trip, 1 document written, index {series, start}; the buckets of the window until the
// measurement is found.
func (b *Buckets[ID, M]) Delete(ctx context.Context, series ID, at time.Time) (err error) {
	ctx = comment.Call(ctx, "bucket.Delete")
	defer fault.In(&err, "bucket.Delete")
	return b.core.edit(ctx, series, at, b.core.opts.TimeField, windows.Date(at.UnixMilli()), bson.RawValue{})
}

// DeleteByID is Delete for the measurement with this ID in the window that holds at. It needs
// Options.IDField.
//
// Cost: 1 round trip, 1 document written; the index on IDs, 1 key.
func (b *Buckets[ID, M]) DeleteByID(ctx context.Context, series ID, at time.Time, id any) (err error) {
	ctx = comment.Call(ctx, "bucket.DeleteByID")
	defer fault.In(&err, "bucket.DeleteByID")
	c := b.core
	if c.opts.IDField == "" {
		return fault.Invalid("Options.IDField: it must be set")
	}
	raw, err := c.frame.Codec.Compared(id)
	if err != nil {
		return fmt.Errorf("id: %w", err)
	}
	if err := checkMeasurementID(raw); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	return c.edit(ctx, series, at, c.opts.IDField, raw, bson.RawValue{})
}

// edit replaces the first measurement whose path equals key by by, or removes it if by is zero, and
// recomputes the aggregates of its bucket in the same write.
func (c *arrays) edit(ctx context.Context, series any, moment time.Time, path string, key, by bson.RawValue) error {
	p, err := c.frame.Place(series, moment)
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
	// The condition on the path uses an index, and is also met by an array that has the key as an element.
	filter := append(c.frame.PlaceFilterNoArrays(p), expr.Element(c.opts.ArrayField+"."+path, value.Equal(key)),
		expr.Element("$expr", expr.Op("$gte", found, 0)))
	result, err := fault.One(c.frame.Coll.UpdateOne(ctx, filter,
		mongo.Pipeline{expr.Op("$set", expr.D(c.opts.ArrayField, changed)), expr.Op("$set", c.recounted)}))
	if err == nil && result.MatchedCount == 0 {
		err = mongopatterns.ErrNotFound
	}
	return p.Named(moment.UnixMilli(), fmt.Sprintf(", %s %s", path, value.Text(key)), err)
}
