package paging

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// placeField holds the sort values where the user's projection does not keep them. It
// is taken out of each document again.
const placeField = "_paging"

type projection struct {
	added bool  // placeField is in it
	order order // where to read the sort values
}

// leaf is what a projection says of a path.
type leaf struct {
	path string
	does int
}

const (
	keeps = iota
	drops
	computes
	cuts // $slice and $meta, which say nothing about other fields
)

// planProjection works out what to send for the user's projection. One that lists what
// to keep gets a further field with the sort values, if it lacks one of them; any other
// must leave them as they are.
func planProjection(c codec.Codec, user any, sorted order) (out projection, send any, err error) {
	if user == nil {
		return projection{order: sorted}, nil, nil
	}
	raw, err := c.Document(user)
	if err != nil {
		return out, nil, err
	}
	leaves := readLeaves(nil, "", raw)
	others := func(does ...int) bool {
		return slices.ContainsFunc(leaves, func(l leaf) bool { return l.path != "_id" && slices.Contains(does, l.does) })
	}
	keepsID := leaf{"_id", keeps}
	inclusive := others(keeps, computes) || slices.Contains(leaves, keepsID) && !others(drops)
	for _, l := range leaves {
		if strings.HasSuffix(l.path, ".$") {
			return out, nil, fmt.Errorf("%q cannot be used, because $or finds no array position: use $elemMatch", l.path)
		}
		if l.path == placeField {
			return out, nil, fmt.Errorf("%q is a name that this package uses", l.path)
		}
		for _, key := range sorted {
			if !inclusive && l != keepsID && (within(l.path, key.path) || within(key.path, l.path)) {
				return out, nil, fmt.Errorf("%q leaves out or cuts the sort field %q: list the fields to keep instead",
					l.path, key.path)
			}
		}
	}
	lacking := func(key sortKey) bool {
		return !slices.ContainsFunc(leaves, func(l leaf) bool { return l.does == keeps && within(key.path, l.path) }) &&
			(key.path != "_id" || slices.ContainsFunc(leaves, func(l leaf) bool { return within(l.path, "_id") }))
	}
	if !inclusive || !slices.ContainsFunc(sorted, lacking) {
		return projection{order: sorted}, user, nil
	}
	var longer, values bson.D
	out.added = true
	for i, key := range sorted {
		name := "v" + strconv.Itoa(i)
		values = append(values, expr.Element(name, expr.Field(key.path)))
		out.order = append(out.order, sortKey{key.path, key.desc, []string{placeField, name}})
	}
	err = bson.Unmarshal(raw, &longer)
	return out, append(longer, expr.Element(placeField, values)), err
}

func readLeaves(out []leaf, prefix string, raw bson.Raw) []leaf {
	elements, _ := raw.Elements()
	for _, e := range elements {
		l, v := leaf{prefix + e.Key(), computes}, e.Value()
		inner, isDoc := v.DocumentOK()
		on, isBool := v.BooleanOK()
		n := value.Number(v)
		switch {
		case isDoc && len(inner) > 5 && !operators(inner):
			out = readLeaves(out, l.path+".", inner)
			continue
		case isDoc && (inner.Lookup("$slice").Type != 0 || inner.Lookup("$meta").Type != 0):
			l.does = cuts
		case isBool && on, n != nil && n.Sign() != 0:
			l.does = keeps
		case isBool, n != nil:
			l.does = drops
		}
		out = append(out, l)
	}
	return out
}

// within reports that path is other or lies inside it.
func within(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+".")
}

func (p projection) strip(doc bson.Raw) bson.Raw {
	if !p.added {
		return doc
	}
	return value.Pick(doc, func(field []byte) bool { return string(field) != placeField })
}
