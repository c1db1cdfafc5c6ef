package paging

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/projection"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// placeField holds the sort values where the user's projection does not keep them. It
// is taken out of each document again.
const placeField = "_paging"

type projected struct {
	added bool  // placeField is in it
	order order // where to read the sort values
}

// planProjection works out what to send for the user's projection. One that lists what
// to keep gets a further field with the sort values, if it lacks one of them; any other
// must leave them as they are.
func planProjection(c codec.Codec, user any, sorted order) (out projected, send any, err error) {
	if user == nil {
		return projected{order: sorted}, nil, nil
	}
	raw, err := c.Document(user)
	if err != nil {
		return out, nil, err
	}
	leaves := projection.Leaves(raw)
	keepsID, inclusive := projection.Leaf{Path: "_id", Does: projection.Keeps}, projection.Inclusive(leaves)
	for _, l := range leaves {
		if strings.HasSuffix(l.Path, ".$") {
			return out, nil, fmt.Errorf("%q cannot be used, because $or finds no array position: use $elemMatch", l.Path)
		}
		if l.Path == placeField {
			return out, nil, fmt.Errorf("%q is a name that this package uses", l.Path)
		}
		for _, key := range sorted {
			if !inclusive && l != keepsID && (within(l.Path, key.path) || within(key.path, l.Path)) {
				return out, nil, fmt.Errorf("%q leaves out or cuts the sort field %q: list the fields to keep instead",
					l.Path, key.path)
			}
		}
	}
	lacking := func(key sortKey) bool {
		return !slices.ContainsFunc(leaves, func(l projection.Leaf) bool { return l.Does == projection.Keeps && within(key.path, l.Path) }) &&
			(key.path != "_id" || slices.ContainsFunc(leaves, func(l projection.Leaf) bool { return within(l.Path, "_id") }))
	}
	if !inclusive || !slices.ContainsFunc(sorted, lacking) {
		return projected{order: sorted}, user, nil
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

// within reports that path is other or lies inside it.
func within(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+".")
}

func (p projected) strip(doc bson.Raw) bson.Raw {
	if !p.added {
		return doc
	}
	return value.Pick(doc, func(field []byte) bool { return string(field) != placeField })
}
