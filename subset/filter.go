package subset

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
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
	path   string
	args   map[string]bool // keys of values that are equal to the server
	null   bool            // null, and so a missing value, is among them
	not    bool            // none of these
	exists *bool           // whether there is a value is all that counts
	equal  bool            // one value alone, which can stand in an index
}

// parseFilter takes a filter apart. Operators whose result could differ here and on
// the server are refused.
func parseFilter(c codec.Codec, document any, check func(path string) error) (f filter, err error) {
	if document == nil {
		return f, nil
	}
	raw, err := c.Document(document)
	if err != nil {
		return f, err
	}
	elements, _ := raw.Elements()
	for _, e := range elements {
		path := e.Key()
		if err := check(path); err != nil {
			return f, err
		}
		f.doc = append(f.doc, expr.Element(path, e.Value()))
		inner, _ := e.Value().DocumentOK()
		conditions, _ := inner.Elements()
		if equal := len(conditions) == 0 || !strings.HasPrefix(conditions[0].Key(), "$"); equal {
			t, err := parseTest(path, "$eq", e.Value())
			if err != nil {
				return f, err
			}
			t.equal = !t.null
			f.tests, conditions = append(f.tests, t), nil
		}
		for _, condition := range conditions {
			t, err := parseTest(path, condition.Key(), condition.Value())
			if err != nil {
				return f, err
			}
			f.tests = append(f.tests, t)
		}
	}
	return f, nil
}

func parseTest(path, op string, arg bson.RawValue) (test, error) {
	t, args := test{path: path, args: map[string]bool{}, not: op == "$ne" || op == "$nin"}, []bson.RawValue{arg}
	switch op {
	case "$eq", "$ne":
	case "$exists":
		exists, ok := arg.BooleanOK()
		if !ok {
			return t, fmt.Errorf("$exists of %q: neither true nor false", path)
		}
		t.exists = &exists
		return t, nil
	case "$in", "$nin":
		array, ok := arg.ArrayOK()
		if !ok {
			return t, fmt.Errorf("%s of %q: no array", op, path)
		}
		args, _ = array.Values()
	default:
		return t, fmt.Errorf("%s of %q: only $eq, $ne, $in, $nin and $exists", op, path)
	}
	for _, arg := range args {
		switch arg.Type {
		case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
			return t, fmt.Errorf("%q: a value of type %v", path, arg.Type)
		case bson.TypeNull:
			t.null = true
		default:
			t.args[value.Key(arg)] = true
		}
	}
	return t, nil
}

// matches evaluates the filter. The item has no array on its paths: such items are
// invalid.
func (f filter) matches(doc bson.Raw) bool {
	return !slices.ContainsFunc(f.tests, func(t test) bool { return !t.matches(value.Lookup(doc, t.path)) })
}

func (t test) matches(v bson.RawValue) bool {
	switch {
	case t.exists != nil:
		return v.IsZero() != *t.exists
	case v.IsZero() || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined:
		return t.null != t.not
	}
	return t.args[value.Key(v)] != t.not
}
