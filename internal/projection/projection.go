// Package projection reads the projection of a find: what it says of each path, and whether the
// answer has the fields that it does not name.
package projection

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Leaf is what a projection says of one path.
type Leaf struct {
	Path string
	Does Does
}

// Does is what a projection does with a path.
type Does int

const (
	Keeps Does = iota
	Drops
	Computes
	Cuts // $slice and $meta, which say nothing about other fields
)

// Leaves returns what a projection says, in its order; {a: {b: 1}} is {"a.b": 1}.
func Leaves(projection bson.Raw) []Leaf { return leaves(nil, "", projection) }

func leaves(out []Leaf, prefix string, raw bson.Raw) []Leaf {
	elements, _ := raw.Elements()
	for _, e := range elements {
		l, v := Leaf{prefix + e.Key(), Computes}, e.Value()
		inner, isDoc := v.DocumentOK()
		on, isBool := v.BooleanOK()
		n := value.Number(v)
		switch {
		case isDoc && len(inner) > 5 && !expression(inner):
			out = leaves(out, l.Path+".", inner)
			continue
		case isDoc && (inner.Lookup("$slice").Type != 0 || inner.Lookup("$meta").Type != 0):
			l.Does = Cuts
		case isBool && on, n != nil && n.Sign() != 0:
			l.Does = Keeps
		case isBool, n != nil:
			l.Does = Drops
		}
		out = append(out, l)
	}
	return out
}

// Inclusive reports whether a projection lists what to keep: the answer lacks the fields that it
// does not name. The _id decides only if nothing else does.
func Inclusive(leaves []Leaf) bool {
	others := func(does ...Does) bool {
		return slices.ContainsFunc(leaves, func(l Leaf) bool { return l.Path != "_id" && slices.Contains(does, l.Does) })
	}
	return others(Keeps, Computes) || slices.Contains(leaves, Leaf{"_id", Keeps}) && !others(Drops)
}

// expression reports whether a document in a projection is one, such as {$slice: 1}, and not a part of the projection.
func expression(doc bson.Raw) bool {
	first, err := doc.IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$")
}
