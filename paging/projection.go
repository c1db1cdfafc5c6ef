package paging

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A projection of the user may leave out sort fields, which the tokens need. So
// what is sent keeps them, and strip takes them out of each document again.
type projection struct {
	send  any // nil: none
	strip []string
}

type projected struct {
	path  string
	how   how
	value any
}

type how int

const (
	include how = iota
	exclude
	computed // an expression: what comes back is not the field
	neutral  // $slice and $meta, which neither include nor exclude
)

// planProjection works out what to send for the user's projection.
func planProjection(user any, raw bson.Raw, sorted []string, strategy Strategy) (projection, error) {
	fields, err := flatten(nil, "", raw)
	if err != nil || len(fields) == 0 {
		return projection{send: user}, err
	}
	for _, f := range fields {
		if _, ok := f.value.(positional); ok && strategy == Merged {
			return projection{}, fmt.Errorf("%q: $or finds no array position; use $elemMatch, or Options.Strategy Sequential", f.path+".$")
		}
		for _, path := range sorted {
			if f.how >= computed && (within(f.path, path) || within(path, f.path)) {
				return projection{}, fmt.Errorf("%q computes or cuts the sort field %q", f.path, path)
			}
		}
	}
	var out projection
	if inclusive(fields) {
		out, err = keepIncluded(fields, sorted)
	} else {
		out = keepExcluded(fields, sorted)
	}
	if len(out.strip) == 0 {
		out.send = user
	}
	return out, err
}

// flatten reads a projection into dotted paths.
func flatten(out []projected, prefix string, raw bson.Raw) ([]projected, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		value := e.Value()
		field := projected{path: prefix + e.Key(), how: computed, value: value}
		if trimmed, ok := strings.CutSuffix(field.path, ".$"); ok {
			out = append(out, projected{path: trimmed, how: computed, value: positional{value}})
			continue
		}
		switch value.Type {
		case bson.TypeBoolean:
			field.how = whether(value.Boolean())
		case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
			n, _ := value.AsFloat64OK()
			field.how = whether(n != 0)
		case bson.TypeDecimal128:
			field.how = whether(!value.Decimal128().IsZero())
		case bson.TypeEmbeddedDocument:
			first, err := value.Document().IndexErr(0)
			switch {
			case err != nil:
			case first.Key() == "$slice", first.Key() == "$meta":
				field.how = neutral
			case !strings.HasPrefix(first.Key(), "$"):
				if out, err = flatten(out, field.path+".", value.Document()); err != nil {
					return nil, err
				}
				continue
			}
		}
		out = append(out, field)
	}
	return out, nil
}

// positional is the value of a path that ended in ".$".
type positional struct{ value any }

func whether(kept bool) how {
	if kept {
		return include
	}
	return exclude
}

// within reports that path is other or lies inside it.
func within(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+".")
}

// inclusive reports whether only the named fields come back.
func inclusive(fields []projected) bool {
	excludes, includesID := false, false
	for _, f := range fields {
		switch {
		case f.path == "_id" && f.how == include:
			includesID = true
		case f.path == "_id":
		case f.how == include, f.how == computed:
			return true
		case f.how == exclude:
			excludes = true
		}
	}
	return includesID && !excludes
}

func keepIncluded(fields []projected, sorted []string) (projection, error) {
	var out projection
	withoutID := slices.ContainsFunc(fields, func(f projected) bool { return f.path == "_id" && f.how == exclude })
	if withoutID {
		fields = slices.DeleteFunc(slices.Clone(fields), func(f projected) bool { return f.path == "_id" })
		out.strip = append(out.strip, "_id")
	}
	asked := slices.Clone(fields)
	for _, path := range sorted {
		holds := func(f projected) bool { return f.how == include && within(path, f.path) }
		if within(path, "_id") || slices.ContainsFunc(fields, holds) {
			continue
		}
		if slices.ContainsFunc(asked, func(f projected) bool { return f.how == include && within(f.path, path) }) {
			return out, errors.New("it keeps only a part of the sort field " + path)
		}
		fields = slices.DeleteFunc(fields, func(f projected) bool { return f.how == include && within(f.path, path) })
		fields = append(fields, projected{path: path, how: include, value: 1})
		out.strip = append(out.strip, highest(path, asked))
	}
	out.send = document(fields)
	return out, nil
}

// highest gives the outermost part of path in which nothing was asked for.
func highest(path string, asked []projected) string {
	for i, r := range path {
		if r != '.' {
			continue
		}
		outer := path[:i]
		if !slices.ContainsFunc(asked, func(f projected) bool { return within(f.path, outer) }) {
			return outer
		}
	}
	return path
}

func keepExcluded(fields []projected, sorted []string) projection {
	var out projection
	var kept []projected
	for _, f := range fields {
		switch {
		case f.how == include: // _id: 1, which is so anyway
		case f.how == exclude && slices.ContainsFunc(sorted, func(path string) bool {
			return within(f.path, path) || within(path, f.path)
		}):
			out.strip = append(out.strip, f.path)
		default:
			kept = append(kept, f)
		}
	}
	if len(kept) > 0 {
		out.send = document(kept)
	}
	return out
}

func document(fields []projected) bson.D {
	out := make(bson.D, 0, len(fields))
	for _, f := range fields {
		if p, ok := f.value.(positional); ok {
			out = append(out, bson.E{Key: f.path + ".$", Value: p.value})
			continue
		}
		out = append(out, bson.E{Key: f.path, Value: f.value})
	}
	return out
}

// without copies a document and leaves out the paths, through arrays too.
func without(doc bson.Raw, paths []string) (bson.Raw, error) {
	if len(paths) == 0 {
		return doc, nil
	}
	stripped, err := withoutElements(doc, "", paths)
	if err != nil {
		return nil, err
	}
	return bson.Marshal(stripped)
}

func withoutElements(doc bson.Raw, prefix string, paths []string) (bson.D, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	out := make(bson.D, 0, len(elements))
	for _, e := range elements {
		path := prefix + e.Key()
		if slices.Contains(paths, path) {
			continue
		}
		value, err := withoutValue(e.Value(), path, paths)
		if err != nil {
			return nil, err
		}
		out = append(out, bson.E{Key: e.Key(), Value: value})
	}
	return out, nil
}

func withoutValue(value bson.RawValue, path string, paths []string) (any, error) {
	if !slices.ContainsFunc(paths, func(p string) bool { return within(p, path) }) {
		return value, nil
	}
	switch value.Type {
	case bson.TypeEmbeddedDocument:
		return withoutElements(value.Document(), path+".", paths)
	case bson.TypeArray:
		items, err := value.Array().Values()
		if err != nil {
			return nil, err
		}
		out := make(bson.A, len(items))
		for i, item := range items {
			if out[i], err = withoutValue(item, path, paths); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}
