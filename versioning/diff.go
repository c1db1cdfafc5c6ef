package versioning

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/doc"
	"github.com/mongopatterns/mongopatterns/internal/fault"
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
	return x.document, y.document, nil
}

// Differences returns the differences of document b from document a, both in memory, as
// Diff does: of what T shows, without Options.Ignored and the fields of number and change.
// The order of fields that Go maps have made does not count.
func (d *Documents[ID, T]) Differences(a, b T) (_ []Difference, err error) {
	defer fault.In(&err, "versioning: differences")
	x, _, err := d.encode(a)
	if err != nil {
		return nil, err
	}
	y, loose, err := d.encode(b)
	if err != nil {
		return nil, err
	}
	before, after := doc.Without(doc.Open(x), d.core.unkept...), doc.Without(doc.Open(y), d.core.unkept...)
	if loose {
		after, _ = doc.Merge(before, before, after, doc.Options{Arrays: doc.Matched, Loose: true})
	}
	return differences(before, after), nil
}
