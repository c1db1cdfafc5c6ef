package diff

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The caller's type shows only the name of each element: elements keep their other fields, wherever
// they are moved.
func TestMergeElements(t *testing.T) {
	array := func(names string, priced bool) []Field {
		var out []Field
		for i, name := range strings.Split(names, "") {
			e := bson.D{{Key: "name", Value: name}}
			if priced {
				e = append(e, bson.E{Key: "price", Value: i})
			}
			out = append(out, Field{strconv.Itoa(i), bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw(t, e)}})
		}
		return out
	}
	for _, test := range []struct{ base, ours, want string }{
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
		{"ABC", "CXA", "C2 X A0"}, // between other neighbours
		{"ABCD", "CAXD", "C2 A0 X D3"},
		{"ABC", "AC", "A0 C2"},
		{"AAB", "BAA", "B2 A0 A1"}, // equal ones once each
		{"AAB", "AB", "A0 B2"},
		{"ABAC", "ACA", "A0 C3 A2"},
		{"ABC", "AAB", "A0 A B1"},
	} {
		var got []string
		for _, e := range mergeElements(array(test.base, true), array(test.base, false), array(test.ours, false)) {
			text := e.Value.Document().Lookup("name").StringValue()
			if price, ok := e.Value.Document().Lookup("price").Int32OK(); ok {
				text += strconv.Itoa(int(price))
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", test.base, test.ours, diff)
		}
	}
}

func mergeElements(theirs, base, ours []Field) []Field {
	m := merge{Options: Options{Arrays: Placed}}
	names, _ := m.elements(base, theirs)
	return m.array("", base, theirs, ours, names)
}

// Many fields or elements that all differ: code that compares each with each would run out of
// memory here, or run for minutes.
func TestLargeDocuments(t *testing.T) {
	t.Parallel()
	const n = 30_000
	values := func(from int, reversed bool) []Field {
		out := make([]Field, n)
		for i := range out {
			at := i
			if reversed {
				at = n - 1 - i
			}
			out[at] = Field{strconv.Itoa(i), number(from + i)}
		}
		return out
	}
	for name, test := range map[string]struct{ a, b bson.RawValue }{
		"all different":     {Array(values(0, false)), Array(values(n, false))},
		"turned round":      {Array(values(0, false)), Array(values(0, true))},
		"fields in reverse": {Embedded(values(0, false)), Embedded(values(n, true))},
	} {
		a, b := []Field{{"x", test.a}}, []Field{{"x", test.b}}
		if got := merged(a, a, b, Options{Arrays: Placed}); len(Changes(got, b)) > 0 {
			t.Errorf("%s: merged wrongly", name)
		}
		if got := merged(a, a, b, Options{}); len(Changes(got, b)) > 0 {
			t.Errorf("%s: merged wrongly as of two states", name)
		}
		if len(Diff(a, b)) == 0 {
			t.Errorf("%s: no difference", name)
		}
		for _, top := range [][2][]Field{{a, b}, {b, a}} {
			roundTrip(t, Raw(top[0]), Raw(top[1]))
		}
	}
	// The delta removes fields, too.
	roundTrip(t, Raw(values(0, false)), Raw(values(0, false)[:1]))
}

// Three states of one document: the changes of one writer are applied to the result of another, by
// fields at any depth; an array is one value.
func TestMergeOfTwoWriters(t *testing.T) {
	doc := func(n, m int, list ...any) bson.D {
		return bson.D{{Key: "n", Value: n}, {Key: "inner", Value: bson.D{{Key: "m", Value: m}, {Key: "list", Value: bson.A(list)}}}}
	}
	one := func(n, m int) bson.D { return bson.D{{Key: "n", Value: n}, {Key: "m", Value: m}} }
	for name, test := range map[string]struct{ theirs, base, ours, want bson.D }{
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
		all := func(d bson.D) []Field {
			out, err := Parse(raw(t, d))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if got := Raw(merged(all(test.base), all(test.theirs), all(test.ours), Options{})); !bytes.Equal(got, raw(t, test.want)) {
			t.Errorf("%s: got %v, want %v", name, got, raw(t, test.want))
		}
	}
}

func merged(base, theirs, ours []Field, o Options) []Field {
	out, _ := Merge(base, theirs, ours, o)
	return out
}

func list(t testing.TB, json string) bson.D {
	t.Helper()
	var out bson.D
	if err := bson.UnmarshalExtJSON([]byte(`{"list": `+json+`}`), false, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Elements that later writers moved, edited or removed are found wherever they are.
func TestMergeOfMatchedElements(t *testing.T) {
	for name, test := range map[string]struct{ base, theirs, ours, want, clashes string }{
		"both insert":       {`[1, 2]`, `[0, 1, 2]`, `[1, 2, 3]`, `[0, 1, 2, 3]`, ""},
		"both alike":        {`[1, 2]`, `[1, 3, 3, 2]`, `[3, 1, 2, {"a": 1}, 3]`, `[3, 1, 2, {"a": 1}, 3]`, ""},
		"one of two alike":  {`[1]`, `[1, 3, 3]`, `[1, 3]`, `[1, 3, 3]`, ""},
		"moved there":       {`[{"id": 1, "n": 1}, {"id": 2, "n": 1}]`, `[{"id": 2, "n": 1}, {"id": 1, "n": 1}]`, `[{"id": 1, "n": 5}, {"id": 2, "n": 1}]`, `[{"id": 1, "n": 5}, {"id": 2, "n": 1}]`, ""},
		"edited there":      {`[{"id": 1, "n": 1}, {"id": 2, "n": 1}]`, `[{"id": 1, "n": 1, "x": 1}, {"id": 2, "n": 1}]`, `[{"id": 1, "n": 5}, {"id": 2, "n": 1}]`, `[{"id": 1, "n": 5, "x": 1}, {"id": 2, "n": 1}]`, ""},
		"removed there":     {`[{"id": 1}, {"id": 2}]`, `[{"id": 2}]`, `[{"id": 1}, {"id": 2, "n": 5}]`, `[{"id": 2, "n": 5}]`, ""},
		"removed here":      {`[1, 2, 3]`, `[1, 2, 3, 4]`, `[1, 3]`, `[1, 3, 4]`, ""},
		"both, differently": {`[{"id": 1, "n": 1}]`, `[{"id": 1, "n": 2}]`, `[{"id": 1, "n": 3}]`, `[{"id": 1, "n": 3}]`, "list.n"},
	} {
		got, clashes := Merge(Open(raw(t, list(t, test.base))), Open(raw(t, list(t, test.theirs))), Open(raw(t, list(t, test.ours))), Options{Arrays: Matched})
		if want := raw(t, list(t, test.want)); !bytes.Equal(Raw(got), want) || strings.Join(clashes, " ") != test.clashes {
			t.Errorf("%s: got %v and %q, want %v", name, Raw(got), clashes, want)
		}
	}
}

// Inside a document the order is that of ours, with fields that only theirs has after the field
// that they follow there; if ours comes from a map, it is that of theirs.
func TestOrderOfAMerge(t *testing.T) {
	base, theirs, ours := `{"a": 1, "b": 1, "c": 1}`, `{"x": 1, "a": 1, "b": 1, "y": 1, "z": 1, "c": 1}`, `{"c": 2, "n": 1, "b": 1, "a": 1}`
	for want, loose := range map[string]bool{
		`{"x": 1, "c": 2, "n": 1, "b": 1, "y": 1, "z": 1, "a": 1}`: false,
		`{"x": 1, "a": 1, "b": 1, "y": 1, "z": 1, "c": 2, "n": 1}`: true,
	} {
		got, _ := Merge(Open(raw(t, list(t, base))), Open(raw(t, list(t, theirs))), Open(raw(t, list(t, ours))), Options{Loose: loose})
		if want := raw(t, list(t, want)); !bytes.Equal(Raw(got), want) {
			t.Errorf("loose %v: got %v, want %v", loose, Raw(got), want)
		}
	}
}
