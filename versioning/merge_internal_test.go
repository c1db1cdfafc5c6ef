package versioning

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Elements of which the caller's type shows the name only keep the rest of them,
// wherever they go.
func TestMergeElements(t *testing.T) {
	array := func(names string, priced bool) []field {
		var out []field
		for i, name := range strings.Split(names, "") {
			e := bson.D{{Key: "name", Value: name}}
			if priced {
				e = append(e, bson.E{Key: "price", Value: i})
			}
			out = append(out, field{strconv.Itoa(i), bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw(t, e)}})
		}
		return out
	}
	for _, test := range []struct{ known, next, want string }{
		{"ABC", "ABC", "A0 B1 C2"},
		{"ABC", "CBA", "C2 B1 A0"}, // turned round
		{"ABCD", "DABC", "D3 A0 B1 C2"},
		{"ABC", "AXC", "A0 X1 C2"}, // changed
		{"ABC", "XBC", "X0 B1 C2"},
		{"ABC", "ABX", "A0 B1 X2"},
		{"ABCD", "AXYD", "A0 X1 Y2 D3"},
		{"ABC", "AXBC", "A0 X B1 C2"}, // new
		{"ABC", "XYBC", "X Y B1 C2"},
		{"ABC", "ABXY", "A0 B1 X Y"},
		{"ABC", "CXA", "C2 X A0"}, // between others than before
		{"ABCD", "CAXD", "C2 A0 X D3"},
		{"ABC", "AC", "A0 C2"},
		{"AAB", "BAA", "B2 A0 A1"}, // equal ones once each
		{"AAB", "AB", "A0 B2"},
		{"ABAC", "ACA", "A0 C3 A2"},
		{"ABC", "AAB", "A0 A B1"},
	} {
		var got []string
		for _, e := range mergeElements(array(test.known, true), array(test.known, false), array(test.next, false)) {
			text := e.value.Document().Lookup("name").StringValue()
			if price, ok := e.value.Document().Lookup("price").Int32OK(); ok {
				text += strconv.Itoa(int(price))
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", test.known, test.next, diff)
		}
	}
}

func mergeElements(stored, known, next []field) []field {
	m := seen(false)
	return m.array("", stored, known, next, m.elements(stored, known))
}

// Of many fields or elements that all differ: what takes them two by two does not fit
// into memory here, or runs for minutes.
func TestLargeDocuments(t *testing.T) {
	t.Parallel()
	const n = 100_000
	values := func(from int, reversed bool) []field {
		out := make([]field, n)
		for i := range out {
			at := i
			if reversed {
				at = n - 1 - i
			}
			out[at] = field{strconv.Itoa(i), valueOf(int64(from + i))}
		}
		return out
	}
	for name, test := range map[string]struct{ a, b bson.RawValue }{
		"all different":     {arrayValue(values(0, false)), arrayValue(values(n, false))},
		"turned round":      {arrayValue(values(0, false)), arrayValue(values(0, true))},
		"fields in reverse": {documentValue(values(0, false)), documentValue(values(n, true))},
	} {
		a, b := []field{{"x", test.a}}, []field{{"x", test.b}}
		if got := seen(false).document(a, a, b); len(changes(got, b)) > 0 {
			t.Errorf("%s: merged wrongly", name)
		}
		if got := beside().document(a, a, b); len(changes(got, b)) > 0 {
			t.Errorf("%s: merged wrongly as of two states", name)
		}
		if len(differences(nil, "", a, b)) == 0 {
			t.Errorf("%s: no difference", name)
		}
		for _, top := range [][2][]field{{a, b}, {b, a}} {
			roundTrip(t, document(top[0]), document(top[1]))
		}
	}
	// Removed fields are taken out by the delta, too.
	roundTrip(t, document(values(0, false)), document(values(0, false)[:1]))
}

// Three states of one document: what one writer changed is carried over to what
// another one left, by fields at any depth; an array is one value.
func TestMergeOfTwoWriters(t *testing.T) {
	doc := func(n, m int, list ...any) bson.D {
		return bson.D{{Key: "n", Value: n}, {Key: "inner", Value: bson.D{{Key: "m", Value: m}, {Key: "list", Value: bson.A(list)}}}}
	}
	one := func(n, m int) bson.D { return bson.D{{Key: "n", Value: n}, {Key: "m", Value: m}} }
	for name, test := range map[string]struct{ stored, known, next, want bson.D }{
		"other fields":    {doc(1, 2, "a"), doc(1, 1, "a"), doc(2, 1, "a"), doc(2, 2, "a")},
		"other's array":   {doc(1, 1, "a", "b"), doc(1, 1, "a"), doc(1, 2, "a"), doc(1, 2, "a", "b")},
		"own array":       {doc(1, 2, one(1, 1)), doc(1, 1, one(1, 1)), doc(1, 1, one(1, 2)), doc(1, 2, one(1, 2))},
		"both the array":  {doc(1, 1, one(2, 1)), doc(1, 1, one(1, 1)), doc(1, 1, one(1, 2)), doc(1, 1, one(1, 2))},
		"both a field":    {doc(2, 1), doc(1, 1), doc(3, 1), doc(3, 1)},
		"other removed":   {doc(1, 1)[1:], doc(1, 1), doc(1, 2), doc(1, 2)[1:]},
		"other removed 2": {doc(1, 1)[1:], doc(1, 1), doc(2, 1), append(doc(1, 1)[1:], bson.E{Key: "n", Value: 2})},
		"self removed":    {doc(2, 2), doc(1, 1), doc(1, 1)[1:], doc(1, 2)[1:]},
		"both added":      {append(doc(1, 1), bson.E{Key: "x", Value: 1}), doc(1, 1), append(doc(1, 1), bson.E{Key: "y", Value: 2}), append(doc(1, 1), bson.E{Key: "x", Value: 1}, bson.E{Key: "y", Value: 2})},
	} {
		all := func(d bson.D) []field {
			out, err := fields(raw(t, d))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if got := document(beside().document(all(test.stored), all(test.known), all(test.next))); !bytes.Equal(got, raw(t, test.want)) {
			t.Errorf("%s: got %v, want %v", name, got, raw(t, test.want))
		}
	}
}
