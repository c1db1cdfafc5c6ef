package versioning

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// update returns the update operators that turn base into the draft, nil if only a replacement can
// do it: some keys cannot be part of a path, and the server chooses the order of several new
// fields, which only a blind write accepts.
func (next *draft) update(blind bool) bson.Raw {
	u := update{blind: blind}
	ok := u.add("", next.base.all, next.changes)
	for _, f := range next.own {
		u.set = append(u.set, f)
		if diff.Find(next.base.all, f.Key).Type == 0 {
			u.added++
		}
	}
	if !ok || u.added > 1 && !blind {
		return nil
	}
	return diff.Raw(diff.Filled(field("$set", diff.Embedded(u.set)), field("$unset", diff.Embedded(u.unset))))
}

// An update collects values to set and paths to unset, and counts new fields.
type update struct {
	set, unset []diff.Field
	added      int
	blind      bool
}

// add adds the changes of a document. It descends into embedded documents where the result is
// exact, to keep what other code writes beside the changed fields.
func (u *update) add(prefix string, all, changes []diff.Field) bool {
	in := diff.In(all)
	for _, c := range changes {
		if c.Key == "" || c.Key[0] == '$' || strings.Contains(c.Key, ".") {
			return false
		}
		old := in.Value(c.Key)
		c.Key = prefix + c.Key
		switch {
		case c.Value.Type == 0:
			u.unset = append(u.unset, field(c.Key, value.New("")))
		case old.Type == 0:
			u.set, u.added = append(u.set, c), u.added+1
		case !diff.Identical(old, c.Value) && !u.inside(c.Key+".", old, c.Value):
			u.set = append(u.set, c)
		}
	}
	return true
}

func (u *update) inside(prefix string, old, value bson.RawValue) bool {
	x, y, ok := diff.Inside(old, value)
	if !ok || value.Type != bson.TypeEmbeddedDocument {
		return false
	}
	inner := update{blind: u.blind}
	changes := diff.Changes(x, y)
	if !diff.Same(diff.Patch(x, changes), y) || !inner.add(prefix, x, changes) || inner.added > 1 && !u.blind {
		return false
	}
	u.set, u.unset = append(u.set, inner.set...), append(u.unset, inner.unset...)
	return true
}
