package versioning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Difference is a field that two documents have different.
type Difference struct {
	// Path is the dotted path of the field; in an array its place is part of it.
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

// Differences compares two documents field by field, in the order of the first and
// then of the second. Documents are compared inside, and so are arrays of one length,
// element by element; of others the whole array is the difference. Types count, the
// order of fields does not.
func Differences(before, after bson.Raw) ([]Difference, error) {
	a, err := fields(before)
	if err != nil {
		return nil, fmt.Errorf("versioning: differences: %w", err)
	}
	b, err := fields(after)
	if err != nil {
		return nil, fmt.Errorf("versioning: differences: %w", err)
	}
	return differences(nil, "", a, b), nil
}

func differences(out []Difference, prefix string, a, b []field) []Difference {
	inA, inB := index(a), index(b)
	for _, x := range a {
		y, _ := inB(x.key)
		if same(x.value, y) {
			continue
		}
		path := prefix + x.key
		inner, xOK := parts(x.value)
		other, yOK := parts(y)
		if xOK && yOK && x.value.Type == y.Type && (y.Type == bson.TypeEmbeddedDocument || len(inner) == len(other)) {
			out = differences(out, path+".", inner, other)
		} else {
			out = append(out, Difference{Path: path, Old: x.value, New: y})
		}
	}
	for _, y := range b {
		if _, ok := inA(y.key); !ok {
			out = append(out, Difference{Path: prefix + y.key, New: y.value})
		}
	}
	return out
}

// Diff returns the fields in which revision to differs from revision from, without
// Options.Ignored. Either may be the current one.
//
// Cost: that of At for each of the two.
func (d *Documents[ID, T]) Diff(ctx context.Context, id ID, from, to int64) ([]Difference, error) {
	a, err := d.read(ctx, id, from)
	if err != nil {
		return nil, fail("diff", err)
	}
	b, err := d.read(ctx, id, to)
	if err != nil {
		return nil, fail("diff", err)
	}
	return differences(nil, "", a.fields, b.fields), nil
}

// LastChange returns the revision that gave the field at path the value it has now,
// or took it away; its Change says who, when and why. path may lead through documents
// and places of arrays ("items.0.name"). If no revision ever had the field the error
// is ErrNotFound, if the one that set it may have been pruned ErrPruned, and for an
// empty path or one in Options.Ignored ErrInvalid.
//
// Cost: that of History newest first, as far back as that revision.
func (d *Documents[ID, T]) LastChange(ctx context.Context, id ID, path string) (Revision[T], error) {
	r, err := d.lastChange(ctx, id, path)
	if err != nil {
		return Revision[T]{}, fail("last change", err)
	}
	return r, nil
}

func (d *Documents[ID, T]) lastChange(ctx context.Context, id ID, path string) (Revision[T], error) {
	if path == "" {
		return Revision[T]{}, fmt.Errorf("%w: path: empty", ErrInvalid)
	}
	if key, _, _ := strings.Cut(path, "."); slices.Contains(d.opts.Ignored, key) {
		return Revision[T]{}, fmt.Errorf("%w: path: %q is one of Options.Ignored, which have no history", ErrInvalid, key)
	}
	var newer *state
	var value bson.RawValue
	different := errors.New("found")
	err := d.walk(ctx, id, false, func(s *state) (bool, error) {
		v := lookup(s.fields, path)
		if newer == nil {
			value = v
		} else if !same(v, value) {
			return false, different
		}
		newer = s
		return true, nil
	})
	switch {
	case errors.Is(err, different):
	case err != nil:
		return Revision[T]{}, err
	case newer.number > 1:
		return Revision[T]{}, fmt.Errorf("%w, the one that set %q", of(newer.id, ErrPruned), path)
	case value.Type == 0:
		return Revision[T]{}, fmt.Errorf("%w has had no %q", of(newer.id, ErrNotFound), path)
	}
	return d.revision(newer)
}
