package versioning

import (
	"context"
	"encoding/json"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A Difference is a field that has different values in two documents.
type Difference struct {
	// Path is the dotted path of the field. The place of an array's element is part of it. For a
	// removed element this is the place in the old array, otherwise in the new one.
	Path string
	// Old and New are the values, with their BSON types; zero where the field is missing.
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

// MarshalJSON writes path, old and new, the values as relaxed extended JSON, and leaves out what is missing.
func (d Difference) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path string          `json:"path"`
		Old  json.RawMessage `json:"old,omitempty"`
		New  json.RawMessage `json:"new,omitempty"`
	}{d.Path, value.JSON(d.Old), value.JSON(d.New)})
}

func differences(a, b []diff.Field) (out []Difference) {
	for _, d := range diff.Diff(a, b) {
		out = append(out, Difference(d))
	}
	return out
}

// Diff returns the differences between revision from and revision to, without Options.Ignored.
// Either may be the current one. Documents and arrays are compared field by field, and an element
// inserted into an array, or removed, is one difference. Types count. So does the order of fields,
// except at the top; a document in which only the order differs is one difference.
//
// Cost: that of At for each of the two.
func (d *History[ID, T]) Diff(ctx context.Context, id ID, from, to int64) (found []Difference, err error) {
	ctx = comment.Call(ctx, "versioning.Diff")
	defer fault.In(&err, "versioning.Diff")
	key, err := d.id(id)
	if err != nil {
		return nil, err
	}
	a, b, err := d.core.two(ctx, key, from, to)
	return differences(a, b), err
}

func (d *store) two(ctx context.Context, id bson.RawValue, m, n int64) (a, b []diff.Field, err error) {
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

// Differences returns the differences between the documents a and b, both in memory, as Diff does.
// It compares the fields that T shows, without Options.Ignored and the fields for number and
// change. The order of fields that come from Go maps does not count.
func (d *History[ID, T]) Differences(a, b T) (found []Difference, err error) {
	defer fault.In(&err, "versioning.Differences")
	x, _, err := d.encode(a, nil)
	if err != nil {
		return nil, err
	}
	y, loose, err := d.encode(b, nil)
	if err != nil {
		return nil, err
	}
	before, after := diff.Without(diff.Open(x), d.core.unkept...), diff.Without(diff.Open(y), d.core.unkept...)
	if loose {
		after, _ = diff.Merge(before, before, after, diff.Options{Arrays: diff.Matched, Loose: true})
	}
	return differences(before, after), nil
}
