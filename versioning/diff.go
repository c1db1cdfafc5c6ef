package versioning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Difference is a value that two documents have different.
type Difference struct {
	// Path is the dotted path of the field; in an array the place is part of it: in
	// the old one for an element that was removed, else in the new one.
	Path string
	// Old and New are the values, with their BSON types; the zero value where there
	// is none.
	Old, New bson.RawValue
}

func (d Difference) String() string {
	switch {
	case d.Old.Type == 0:
		return fmt.Sprintf("%s: added %v", d.Path, d.New)
	case d.New.Type == 0:
		return fmt.Sprintf("%s: removed %v", d.Path, d.Old)
	}
	return fmt.Sprintf("%s: %v is now %v", d.Path, d.Old, d.New)
}

func differences(a, b []doc.Field) (out []Difference) {
	for _, d := range doc.Diff(a, b) {
		out = append(out, Difference(d))
	}
	return out
}

// Diff returns the differences of revision to from revision from, without
// Options.Ignored. Either may be the current one. Documents and arrays are compared
// inside; an element inserted into an array, or removed, is one difference. Types count,
// and so does the order of fields, but for those at the top; where only the order
// differs the whole document is the difference.
//
// Cost: that of At for each of the two.
func (d *Documents[ID, T]) Diff(ctx context.Context, id ID, from, to int64) (_ []Difference, err error) {
	defer fault.In(&err, "versioning: diff")
	key, err := d.id(id)
	if err != nil {
		return nil, err
	}
	a, b, err := d.core.two(ctx, key, from, to)
	return differences(a, b), err
}

func (d *store) two(ctx context.Context, id bson.RawValue, m, n int64) (a, b []doc.Field, err error) {
	x, err := d.revision(ctx, id, m, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	y, err := d.revision(ctx, id, n, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return d.kept(x), d.kept(y), nil
}

// LastChange returns the revision that gave the field at path the value it has now, or
// took it away; its Change says who, when and why. path may lead through documents and
// places of arrays ("items.0.name"). If no revision ever had the field the error is
// mongopatterns.ErrNotFound, if the one that set it may have been pruned ErrPruned, if
// it is lost ErrInconsistent.
//
// Cost: that of History as far back as the revision before.
func (d *Documents[ID, T]) LastChange(ctx context.Context, id ID, path string) (_ Revision[T], err error) {
	defer fault.In(&err, "versioning: last change")
	return d.one(id, func(key bson.RawValue) (*state, error) { return d.core.lastChange(ctx, key, path) })
}

func (d *store) lastChange(ctx context.Context, id bson.RawValue, path string) (*state, error) {
	if key, _, _ := strings.Cut(path, "."); path == "" || slices.Contains(d.opts.Ignored, key) {
		return nil, fault.Invalid("path: %q has no history", path)
	}
	var newer *state
	var now bson.RawValue
	for s, err := range d.walk(ctx, id) {
		if err != nil {
			return nil, err
		}
		if s.lost {
			return nil, ofRevision(id, s.number, fmt.Errorf("%w: it is lost, and may have had another %q", ErrInconsistent, path))
		}
		if newer != nil && s.number+1 != newer.number { // as if it ended here
			break
		}
		v := value.Lookup(s.document(), path)
		if newer != nil && !doc.Identical(v, now) {
			return newer, nil
		}
		newer, now = s, v
	}
	switch {
	case newer.number > 1:
		return nil, fault.Of(id, fmt.Errorf("%w: the revision that set %q", ErrPruned, path))
	case now.Type == 0:
		return nil, fault.Of(id, fmt.Errorf("%w: no revision has had a %q", fault.ErrNotFound, path))
	}
	return newer, nil
}
