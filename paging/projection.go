package paging

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// placeField is where the sort values come back if the projection leaves them out.
const placeField = "_paging"

// A projection of the user may leave out sort fields, which the tokens need. One that
// lists what to keep gets a further field with the sort values; one that lists what
// to leave out is sent without those. strip takes both out of each document again.
type projection struct {
	send  any // nil: none
	strip []string
	order order // where to read the sort values
}

// projected is a leaf of a projection.
type projected struct {
	path  string
	value bson.RawValue
}

// keeps reports 1 or true, drops 0 or false; neither is an expression.
func (f projected) keeps() bool { return f.flag() == 1 }
func (f projected) drops() bool { return f.flag() == 0 }

func (f projected) flag() int {
	if b, ok := f.value.BooleanOK(); ok && b {
		return 1
	} else if ok {
		return 0
	}
	n := value.Number(f.value)
	if n == nil {
		return -1
	}
	return n.Sign() * n.Sign()
}

// neutral is an expression that says nothing about other fields.
func (f projected) neutral() bool {
	doc, ok := f.value.DocumentOK()
	return ok && (doc.Lookup("$slice").Type != 0 || doc.Lookup("$meta").Type != 0)
}

// planProjection works out what to send for the user's projection.
func planProjection(user any, raw bson.Raw, sorted order) (projection, error) {
	fields, err := leaves(nil, "", raw)
	out := projection{send: user, order: sorted}
	if err != nil || len(fields) == 0 {
		return out, err
	}
	inclusive := slices.ContainsFunc(fields, func(f projected) bool { return f.path != "_id" && !f.drops() && !f.neutral() }) ||
		!slices.ContainsFunc(fields, func(f projected) bool { return f.path != "_id" && f.drops() }) &&
			slices.ContainsFunc(fields, func(f projected) bool { return f.path == "_id" && f.keeps() })
	var kept bson.D
	missing := false
	for _, f := range fields {
		if strings.HasSuffix(f.path, ".$") {
			return out, fmt.Errorf("%q: $or finds no array position; use $elemMatch", f.path)
		}
		if f.path == placeField {
			return out, errors.New(placeField + " is the name of a field of this package")
		}
		dropped := false
		for _, key := range sorted {
			switch {
			case !within(f.path, key.path) && !within(key.path, f.path):
			case !f.keeps() && !f.drops(), f.path != key.path && within(f.path, key.path):
				return out, fmt.Errorf("%q computes or cuts the sort field %q", f.path, key.path)
			default:
				dropped = dropped || f.drops()
			}
		}
		switch {
		case dropped && !inclusive:
			out.strip = append(out.strip, f.path)
		case inclusive || !f.keeps(): // beside exclusions "_id: 1" says nothing, alone it says all
			kept = append(kept, bson.E{Key: f.path, Value: f.value})
		}
	}
	values := bson.D{}
	out.order = nil
	for i, key := range sorted {
		held := slices.ContainsFunc(fields, func(f projected) bool { return f.keeps() && within(key.path, f.path) }) ||
			key.path == "_id" && !slices.ContainsFunc(fields, func(f projected) bool { return f.path == "_id" })
		missing = missing || !held
		name := strconv.Itoa(i)
		values = append(values, expr.Element("v"+name, expr.Field(key.path)))
		out.order = append(out.order, sortKey{key.path, key.desc, []string{placeField, "v" + name}})
	}
	switch {
	case inclusive && missing:
		out.send, out.strip = append(kept, expr.Element(placeField, values)), []string{placeField}
		return out, nil
	case len(out.strip) > 0 && len(kept) == 0:
		out.send = nil
	case len(out.strip) > 0:
		out.send = kept
	}
	out.order = sorted
	return out, nil
}

// leaves reads a projection into dotted paths.
func leaves(out []projected, prefix string, raw bson.Raw) ([]projected, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		inner, ok := e.Value().DocumentOK()
		if first, err := inner.IndexErr(0); ok && err == nil && !strings.HasPrefix(first.Key(), "$") {
			if out, err = leaves(out, prefix+e.Key()+".", inner); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, projected{prefix + e.Key(), e.Value()})
	}
	return out, nil
}

// within reports that path is other or lies inside it.
func within(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+".")
}

// without copies a document and leaves out the paths.
func without(doc bson.Raw, paths []string) (bson.Raw, error) {
	for _, path := range paths {
		stripped, err := omit(doc, strings.Split(path, "."))
		if err != nil {
			return nil, err
		}
		if doc, err = bson.Marshal(stripped); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// omit leaves out one path. It goes through no array: sort fields are not in any.
func omit(doc bson.Raw, segments []string) (bson.D, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	out := make(bson.D, 0, len(elements))
	for _, e := range elements {
		inner, ok := e.Value().DocumentOK()
		switch {
		case e.Key() != segments[0]:
			out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
		case ok && len(segments) > 1:
			rest, err := omit(inner, segments[1:])
			if err != nil {
				return nil, err
			}
			out = append(out, bson.E{Key: e.Key(), Value: rest})
		case len(segments) > 1:
			out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	return out, nil
}
