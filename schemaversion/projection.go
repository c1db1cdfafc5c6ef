package schemaversion

import (
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
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
	if all.Projection == nil {
		return nil
	}
	raw, err := c.codec.Document(all.Projection)
	if err != nil {
		return nil // the driver returns the error, or has a codec for it
	}
	if leavesOut(doc.Open(raw), c.field) {
		return fault.Invalid("opts: the projection leaves out %q: add it, and all fields that a step reads", c.field)
	}
	return nil
}

// leavesOut reports whether the result of a projection lacks a field at the top that is not a document.
func leavesOut(projection []doc.Field, field string) bool {
	v := doc.Find(projection, field)
	if v.Type == 0 {
		return modeOf(projection, true) == includes
	}
	inner, nested := inside(v)
	return off(v) || nested && modeOf(inner, false) == includes
}

// A mode says whether the result of a projection has the fields that the projection does not name.
type mode int

const (
	unknown mode = iota // it has, unless another field of the projection decides
	includes
	excludes
)

// modeOf returns the mode of a projection, or of a part of one. At the top the _id decides only if
// nothing else does.
func modeOf(projection []doc.Field, top bool) mode {
	var id mode
	for _, f := range projection {
		m := includes
		inner, nested := inside(f.Value)
		switch {
		case off(f.Value):
			m = excludes
		case nested:
			m = modeOf(inner, false)
		case inner != nil && (inner[0].Key == "$slice" || inner[0].Key == "$meta"):
			m = unknown
		}
		switch {
		case top && f.Key == "_id":
			id = m
		case m != unknown:
			return m
		}
	}
	return id
}

// inside returns the fields of a document, and whether they are a part of the projection and not an
// expression.
func inside(v bson.RawValue) (fields []doc.Field, nested bool) {
	raw, _ := v.DocumentOK()
	fields = doc.Open(raw)
	if len(fields) == 0 {
		return nil, false
	}
	return fields, !strings.HasPrefix(fields[0].Key, "$")
}

// off reports whether a value in a projection excludes its field.
func off(v bson.RawValue) bool {
	if on, ok := v.BooleanOK(); ok {
		return !on
	}
	n := value.Number(v)
	return n != nil && n.Sign() == 0
}
