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

// A filter is Options.Filter. It is evaluated here as well as on the server: a write must
// know, without a round trip, whether an item counts before and after it.
type filter struct {
	doc   bson.D // for the server
	tests []test
}

// A test is one condition on a path of an item.
type test struct {
	path  string
	keys  map[string]bool // of values that the server takes as equal; a missing value has a key, too
	not   bool            // the value must not be one of these
	equal bool            // a single value, which can be a field of an index
}

// parseFilter parses a filter. It refuses operators whose result could differ between here
// and the server.
func parseFilter(c codec.Codec, document any, check func(path string) error) (f filter, err error) {
	if document == nil {
		return f, nil
	}
	if err := codec.OrderedIn("$match", document); err != nil {
		return f, err
	}
	doc, err := c.Document(document)
	if err != nil {
		return f, err
	}
	elements, _ := doc.Elements()
	for _, e := range elements {
		path := e.Key()
		if err := check(path); err != nil {
			return f, err
		}
		f.doc = append(f.doc, expr.Element(path, e.Value()))
		inner, _ := e.Value().DocumentOK()
		conditions, _ := inner.Elements()
		equal := len(conditions) == 0 || !strings.HasPrefix(conditions[0].Key(), "$")
		if equal {
			conditions, _ = value.New(expr.D("$eq", e.Value())).Document().Elements()
		}
		for _, condition := range conditions {
			t, err := parseTest(path, condition.Key(), condition.Value())
			if err != nil {
				return f, err
			}
			t.equal = equal && e.Value().Type != bson.TypeNull
			f.tests = append(f.tests, t)
		}
	}
	return f, nil
}

func parseTest(path, op string, arg bson.RawValue) (test, error) {
	t, args := test{path: path, keys: map[string]bool{}, not: op == "$ne" || op == "$nin"}, []bson.RawValue{arg}
	switch op {
	case "$eq", "$ne":
	case "$exists":
		exists, ok := arg.BooleanOK()
		if !ok {
			return t, fmt.Errorf("the $exists of %q must be true or false", path)
		}
		t.not, args = exists, []bson.RawValue{{}}
	case "$in", "$nin":
		array, ok := arg.ArrayOK()
		if !ok {
			return t, fmt.Errorf("the %s of %q must be an array", op, path)
		}
		args, _ = array.Values()
	default:
		return t, fmt.Errorf("the %s of %q cannot be used: use $eq, $ne, $in, $nin or $exists", op, path)
	}
	for _, arg := range args {
		switch arg.Type {
		case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
			return t, fmt.Errorf("the value of %q cannot be of type %v", path, arg.Type)
		case bson.TypeNull: // also equals missing values
			t.keys[value.Key(bson.RawValue{})] = true
			t.keys[value.Key(bson.RawValue{Type: bson.TypeUndefined})] = true
		}
		t.keys[value.Key(arg)] = true
	}
	return t, nil
}

// matches evaluates the filter. The item must not have arrays on its paths; such items are
// refused.
func (f filter) matches(doc bson.Raw) bool {
	return !slices.ContainsFunc(f.tests, func(t test) bool {
		return t.keys[value.Key(value.Lookup(doc, t.path))] == t.not
	})
}
