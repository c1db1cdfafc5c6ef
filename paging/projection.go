package paging

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// placeField holds the sort values where the user's projection does not keep them. It
// is taken out of each document again.
const placeField = "_paging"

type projection struct {
	send  any   // nil: none
	added bool  // placeField is in it
	order order // where to read the sort values
}

// projected is a leaf of a projection: a field that is kept, one that is left out, or
// an expression.
type projected struct {
	path       string
	keep, drop bool
	inclusive  bool // makes the projection a list of what to keep, unless it is _id
}

// planProjection works out what to send for the user's projection. One that lists what
// to keep gets a further field with the sort values, if it lacks one of them.
func planProjection(user any, raw bson.Raw, sorted order) (projection, error) {
	out := projection{send: user, order: sorted}
	fields, err := leaves(nil, "", raw)
	if err != nil {
		return out, err
	}
	named := func(id bool, is func(projected) bool) bool {
		return slices.ContainsFunc(fields, func(f projected) bool { return (f.path == "_id") == id && is(f) })
	}
	inclusive := named(false, func(f projected) bool { return f.inclusive }) ||
		named(true, func(f projected) bool { return f.keep }) && !named(false, func(f projected) bool { return f.drop })
	for _, f := range fields {
		if strings.HasSuffix(f.path, ".$") {
			return out, fmt.Errorf("%q: $or finds no array position; use $elemMatch", f.path)
		}
		if f.path == placeField {
			return out, errors.New(placeField + " is the name of a field of this package")
		}
		for _, key := range sorted {
			switch inside := within(f.path, key.path); {
			case !inside && !within(key.path, f.path):
			case !f.keep && !f.drop, inside && f.path != key.path:
				return out, fmt.Errorf("%q computes or cuts the sort field %q", f.path, key.path)
			case f.drop && !inclusive:
				return out, fmt.Errorf("%q leaves out the sort field %q: list the fields to keep instead", f.path, key.path)
			}
		}
	}
	if !inclusive {
		return out, nil
	}
	values, places := bson.D{}, order{}
	for i, key := range sorted {
		name := "v" + strconv.Itoa(i)
		values = append(values, expr.Element(name, expr.Field(key.path)))
		places = append(places, sortKey{key.path, key.desc, []string{placeField, name}})
		out.added = out.added || !(key.path == "_id" && !named(true, func(projected) bool { return true }) ||
			slices.ContainsFunc(fields, func(f projected) bool { return f.keep && within(key.path, f.path) }))
	}
	if out.added {
		var send bson.D
		if err := bson.Unmarshal(raw, &send); err != nil {
			return out, err
		}
		out.send, out.order = append(send, expr.Element(placeField, values)), places
	}
	return out, nil
}

// leaves reads a projection into dotted paths.
func leaves(out []projected, prefix string, raw bson.Raw) ([]projected, error) {
	elements, err := raw.Elements()
	for _, e := range elements {
		f := projected{path: prefix + e.Key()}
		if inner, ok := e.Value().DocumentOK(); !ok {
			on, isBool := e.Value().BooleanOK()
			n := value.Number(e.Value())
			f.keep = isBool && on || n != nil && n.Sign() != 0
			f.drop = isBool && !on || n != nil && n.Sign() == 0
			f.inclusive = !f.drop
		} else if first, err := inner.IndexErr(0); err == nil && !strings.HasPrefix(first.Key(), "$") {
			if out, err = leaves(out, f.path+".", inner); err != nil {
				return nil, err
			}
			continue
		} else { // these two say nothing about other fields
			f.inclusive = inner.Lookup("$slice").Type == 0 && inner.Lookup("$meta").Type == 0
		}
		out = append(out, f)
	}
	return out, err
}

// within reports that path is other or lies inside it.
func within(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+".")
}

// strip takes placeField out of a document.
func (p projection) strip(doc bson.Raw) bson.Raw {
	if !p.added {
		return doc
	}
	out := make(bson.Raw, 4, len(doc))
	elements, _ := doc.Elements()
	for _, e := range elements {
		if e.Key() != placeField {
			out = append(out, e...)
		}
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out
}
