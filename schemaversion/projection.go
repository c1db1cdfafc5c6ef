package schemaversion

import (
	"reflect"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/projection"
)

// checkProjection returns an error for a projection that leaves out the version: a document without it
// has the first version, so the steps would run again on documents that have been upgraded. It does
// not add the version, because a step may need further fields, which only the caller knows.
func (c *core) checkProjection(opts []options.Lister[options.FindOptions]) error {
	var all options.FindOptions
	for _, some := range opts {
		if v := reflect.ValueOf(some); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			continue // as the driver does
		}
		for _, set := range some.List() {
			if set != nil && set(&all) != nil {
				return nil // the driver returns the error
			}
		}
	}
	if all.Collation != nil && all.Collation.Locale != "simple" {
		if err := c.coll.Scope().CheckCollation(); err != nil {
			return err
		}
	}
	if all.Projection == nil {
		return nil
	}
	raw, err := c.codec.Document(all.Projection)
	if err != nil {
		return nil // the driver returns the error, or has a codec for it
	}
	if leavesOut(projection.Leaves(raw), c.field) {
		return fault.Invalid("opts: the projection leaves out %q: add it, and all fields that a step reads", c.field)
	}
	return nil
}

// leavesOut reports whether the result of a projection lacks a field at the top that is not a document.
func leavesOut(leaves []projection.Leaf, field string) bool {
	for _, l := range leaves {
		if l.Path == field {
			return l.Does == projection.Drops
		}
	}
	return projection.Inclusive(leaves)
}
