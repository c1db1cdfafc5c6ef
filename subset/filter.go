package subset

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A filter is Options.Filter, which is evaluated here as well as on the server: a
// write must know whether an item counts before and after it, without a round trip.
type filter struct {
	doc   bson.D // for the server
	tests []test
}

// A test is one condition on a path of an item.
type test struct {
	path, op string
	args     []string // keys of values that are equal to the server
	null     bool     // null, and so a missing value, is among them
	equal    bool     // one value alone, which can stand in an index
}

// parseFilter takes a filter apart. Operators whose result could differ here and on
// the server are refused.
func parseFilter(c codec.Codec, document any, check func(path string) error) (filter, error) {
	var f filter
	if document == nil {
		return f, nil
	}
	raw, err := c.Document(document)
	if err != nil {
		return f, err
	}
	elements, err := raw.Elements()
	if err != nil {
		return f, err
	}
	for _, e := range elements {
		if err := check(e.Key()); err != nil {
			return f, err
		}
		f.doc = append(f.doc, bson.E{Key: e.Key(), Value: e.Value()})
		conditions := []bson.RawElement{}
		if inner, ok := e.Value().DocumentOK(); ok {
			if conditions, err = inner.Elements(); err != nil {
				return f, err
			}
		}
		if len(conditions) == 0 || !strings.HasPrefix(conditions[0].Key(), "$") {
			t := test{path: e.Key(), op: "$eq"}
			if err := t.add(e.Value()); err != nil {
				return f, err
			}
			t.equal = !t.null
			f.tests = append(f.tests, t)
			continue
		}
		for _, condition := range conditions {
			t := test{path: e.Key(), op: condition.Key()}
			args := []bson.RawValue{condition.Value()}
			switch t.op {
			case "$eq", "$ne", "$exists":
			case "$in", "$nin":
				array, ok := condition.Value().ArrayOK()
				if !ok {
					return f, fmt.Errorf("%s of %q: no array", t.op, t.path)
				}
				args, _ = array.Values()
			default:
				return f, fmt.Errorf("%s of %q: only $eq, $ne, $in, $nin and $exists", t.op, t.path)
			}
			for _, arg := range args {
				if err := t.add(arg); err != nil {
					return f, err
				}
			}
			f.tests = append(f.tests, t)
		}
	}
	return f, nil
}

func (t *test) add(arg bson.RawValue) error {
	switch arg.Type {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return fmt.Errorf("%q: a value of type %v", t.path, arg.Type)
	case bson.TypeNull:
		t.null = true
	case bson.TypeBoolean:
		if t.op == "$exists" {
			t.null = !arg.Boolean() // {$exists: false} matches what is missing
			return nil
		}
	}
	if t.op == "$exists" {
		return fmt.Errorf("$exists of %q: neither true nor false", t.path)
	}
	t.args = append(t.args, value.Key(arg))
	return nil
}

// matches evaluates the filter. The item has no array on its paths: such items are
// invalid.
func (f filter) matches(doc bson.Raw) bool {
	for _, t := range f.tests {
		if !t.matches(value.Lookup(doc, t.path)) {
			return false
		}
	}
	return true
}

func (t test) matches(v bson.RawValue) bool {
	if t.op == "$exists" {
		return v.IsZero() == t.null
	}
	found := t.null && (v.IsZero() || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined)
	for _, arg := range t.args {
		found = found || !v.IsZero() && value.Key(v) == arg
	}
	return found == (t.op == "$eq" || t.op == "$in")
}
