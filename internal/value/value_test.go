package value_test

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

func raw(t *testing.T, v any) bson.RawValue {
	t.Helper()
	out, err := codec.Codec{}.Value(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decimal(t *testing.T, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Numbers agree by value up to the slack, everything else if it is equal to the server.
func TestAgree(t *testing.T) {
	billionth := big.NewRat(1, 1_000_000_000)
	for _, c := range []struct {
		have, want any
		slack      *big.Rat
		agree      bool
	}{
		{int32(1), 1.0, nil, true},
		{0.1, decimal(t, "0.1"), nil, false},
		{0.1, decimal(t, "0.1"), billionth, true},
		{1.0, 1 + 1e-9, big.NewRat(1, 2_000_000_000), false},
		{math.NaN(), decimal(t, "NaN"), nil, true},
		{math.NaN(), 1.0, billionth, false},
		{math.Inf(1), math.Inf(-1), billionth, false},
		{nil, int32(0), billionth, false},
		{"1", int32(1), billionth, false},
		{bson.D{{Key: "t", Value: 1}}, bson.D{{Key: "t", Value: 1.0}}, nil, true},
	} {
		if got := value.Agree(raw(t, c.have), raw(t, c.want), c.slack); got != c.agree {
			t.Errorf("Agree(%v, %v, %v) is %v", c.have, c.want, c.slack, got)
		}
	}
}

// Numbers are rounded to a type as the server rounds them.
func TestOfRat(t *testing.T) {
	for _, c := range []struct {
		rat  string
		kind bson.Type
		want any
	}{
		{"7", bson.TypeInt32, int32(7)}, {"-2147483649", bson.TypeInt32, int64(-2147483649)}, {"7", bson.TypeInt64, int64(7)},
		{"9223372036854775807", bson.TypeInt64, int64(math.MaxInt64)}, {"9223372036854775808", bson.TypeInt32, float64(1 << 63)},
		{"3/2", bson.TypeDouble, 1.5}, {"1/3", bson.TypeDouble, 1.0 / 3}, {"1e400", bson.TypeDouble, math.Inf(1)},
		{"0", bson.TypeDecimal128, decimal(t, "0")}, {"31/10", bson.TypeDecimal128, decimal(t, "3.1")}, {"-1200", bson.TypeDecimal128, decimal(t, "-1200")},
		{"1/3", bson.TypeDecimal128, decimal(t, "0.3333333333333333333333333333333333")}, {"-2/3", bson.TypeDecimal128, decimal(t, "-0.6666666666666666666666666666666667")},
		{"9999999999999999999999999999999999", bson.TypeDecimal128, decimal(t, "9999999999999999999999999999999999")},
		{"99999999999999999999999999999999995", bson.TypeDecimal128, decimal(t, "1.000000000000000000000000000000000E+35")},
		{"1e-6176", bson.TypeDecimal128, decimal(t, "1E-6176")}, {"5e-6177", bson.TypeDecimal128, decimal(t, "0E-6176")}, {"15e-6177", bson.TypeDecimal128, decimal(t, "2E-6176")},
		{"9.99e6144", bson.TypeDecimal128, decimal(t, "9.99E+6144")}, {"1e6145", bson.TypeDecimal128, decimal(t, "Infinity")}, {"-1e6145", bson.TypeDecimal128, decimal(t, "-Infinity")},
	} {
		r, _ := new(big.Rat).SetString(c.rat)
		if got := value.OfRat(r, c.kind); got.Type != raw(t, c.want).Type || value.Key(got) != value.Key(raw(t, c.want)) {
			t.Errorf("%s as %v is %v, want %v", c.rat, c.kind, got, c.want)
		}
	}
}

// Each line is one value to the server; no two lines are.
func TestKey(t *testing.T) {
	lines := [][]any{
		{int32(1), int64(1), 1.0, decimal(t, "1"), decimal(t, "1.00"), decimal(t, "10E-1")},
		{0.0, math.Copysign(0, -1), int32(0), decimal(t, "-0")},
		{0.5, decimal(t, "0.5")},
		{0.1}, {decimal(t, "0.1")}, // not the same number
		{int64(math.MaxInt64), decimal(t, "9223372036854775807")},
		{float64(1 << 63), decimal(t, "9223372036854775808")},
		{decimal(t, "1E+6000")},
		{math.NaN()}, {math.Inf(1)}, {math.Inf(-1)},
		{"1"}, {true}, {nil}, {bson.NewDateTimeFromTime(bson.ObjectID{}.Timestamp())},
		{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1.0}}},
		{bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int64(2)}}}}, bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: 2.0}}}}},
		{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}},
		{bson.D{{Key: "b", Value: 1}, {Key: "a", Value: 1}}},
		{bson.D{{Key: "a", Value: "x1:b1:n"}}},
		{bson.A{1, "a"}, bson.A{1.0, "a"}}, {bson.A{}}, {bson.D{}},
		{bson.D{{Key: "a", Value: bson.A{1}}}}, {bson.D{{Key: "a", Value: "1"}}},
	}
	seen := map[string]int{}
	for i, line := range lines {
		key := value.Key(raw(t, line[0]))
		if j, ok := seen[key]; ok {
			t.Errorf("%v has the key of %v", line[0], lines[j][0])
		}
		seen[key] = i
		for _, v := range line[1:] {
			if got := value.Key(raw(t, v)); got != key {
				t.Errorf("%v: %q, but %v: %q", line[0], key, v, got)
			}
		}
	}
}

// Two values are the same if their keys are, whatever their types and however deep they lie.
func TestSame(t *testing.T) {
	leaves := []any{
		int32(1), int64(1), 1.0, decimal(t, "1.00"), 0.1, decimal(t, "0.1"), 0, math.Copysign(0, -1), decimal(t, "-0E+3"), int64(math.MaxInt64), float64(1 << 63),
		math.NaN(), decimal(t, "NaN"), math.Inf(1), decimal(t, "Infinity"), math.Inf(-1), decimal(t, "1E+6000"),
		"a", bson.Symbol("a"), strings.Repeat("a", 80), bson.Symbol(strings.Repeat("a", 80)), true, nil, bson.Undefined{}, bson.ObjectID{1}, bson.DateTime(1), bson.Timestamp{T: 1},
		bson.Binary{Data: []byte{1}}, bson.Regex{Pattern: "a"}, bson.JavaScript("a"), bson.MinKey{}, bson.MaxKey{}, bson.D{}, bson.A{},
	}
	random := rand.New(rand.NewPCG(1, 2))
	var some func(depth int) any
	some = func(depth int) any {
		kind := random.IntN(6)
		switch {
		case depth == 0 || kind > 2:
			return leaves[random.IntN(len(leaves))]
		case kind == 0:
			return bson.D{{Key: "a", Value: some(depth - 1)}}
		case kind == 1:
			return bson.A{some(depth - 1), some(depth - 1)}
		}
		return bson.CodeWithScope{Code: "a", Scope: bson.D{{Key: "a", Value: some(depth - 1)}}}
	}
	alike := 0
	for range 50_000 {
		a, b := raw(t, some(2)), raw(t, some(2))
		want := value.Key(a) == value.Key(b)
		if value.Same(a, b) != want {
			t.Fatalf("%v and %v: not %v", a, b, want)
		}
		if want {
			alike++
		}
	}
	if alike < 500 {
		t.Errorf("only %d of the pairs were the same", alike)
	}
	if !value.Same(bson.RawValue{}, bson.RawValue{}) || value.Same(bson.RawValue{}, raw(t, nil)) {
		t.Error("a missing field")
	}
	one, other := raw(t, bson.ObjectID{1}), raw(t, bson.ObjectID{2})
	if n := testing.AllocsPerRun(100, func() { value.Same(one, other) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Keys of nested documents grow with the documents, not with every level.
func TestKeyOfNested(t *testing.T) {
	v := any(`"`)
	for range 90 {
		v = bson.D{{Key: `"`, Value: v}}
	}
	if n := len(value.Key(raw(t, v))); n > 2000 {
		t.Errorf("a key of %d bytes", n)
	}
}

func TestArray(t *testing.T) {
	for _, want := range []bson.A{{}, {1, "a", nil, bson.A{}, bson.D{{Key: "a", Value: strings.Repeat("x", 100)}}}, make(bson.A, 200)} {
		var values []bson.RawValue
		for _, v := range want {
			values = append(values, raw(t, v))
		}
		if got := value.Array(values); !got.Equal(raw(t, want)) {
			t.Errorf("%v: %v", want, got)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, v := range []any{1, "a", nil, bson.A{1}} {
		if got, ok := value.Equal(raw(t, v)).(bson.RawValue); !ok || !got.Equal(raw(t, v)) {
			t.Errorf("%v: %v", v, got)
		}
	}
	for _, v := range []any{bson.D{{Key: "$gt", Value: ""}}, bson.Regex{Pattern: strings.Repeat(".", 2)}} {
		if got, ok := value.Equal(raw(t, v)).(bson.D); !ok || got[0].Key != "$eq" {
			t.Errorf("%v: %v", v, got)
		}
	}
	if got := value.Equal(raw(t, bson.Undefined{})); !reflect.DeepEqual(got, bson.D{{Key: "$type", Value: "undefined"}}) {
		t.Errorf("undefined: %v", got)
	}
}

func TestLookup(t *testing.T) {
	doc := raw(t, bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: 1}}}, {Key: "c", Value: bson.A{bson.D{{Key: "d", Value: 2}}}}, {Key: "a.b", Value: 3}}).Document()
	if v := value.Lookup(doc, "a.b"); v.AsInt64() != 1 {
		t.Error(v)
	}
	for _, path := range []string{"b", "a.c", "a.b.c", "c.d", "x.y"} {
		if v := value.Lookup(doc, path); !v.IsZero() {
			t.Errorf("%s: %v", path, v)
		}
	}
}

func TestCheckID(t *testing.T) {
	for _, v := range []any{1, "", bson.NewObjectID(), bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: bson.D{{Key: "$ref", Value: "c"}, {Key: "$id", Value: 1}}}}, false, bson.MinKey{}, bson.Timestamp{I: 1}, int64(0)} {
		if err := value.CheckID(raw(t, v)); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
	for _, v := range []any{nil, bson.A{}, bson.A{1}, bson.Regex{Pattern: "a"}, bson.Undefined{}, bson.D{{Key: "$gt", Value: ""}}, bson.Timestamp{},
		bson.D{{Key: "a", Value: 1}, {Key: "$x", Value: 1}}, bson.D{{Key: "a", Value: bson.A{bson.D{{Key: "$x", Value: 1}}}}}} {
		if value.CheckID(raw(t, v)) == nil {
			t.Errorf("%v passes", v)
		}
	}
	if value.CheckID(bson.RawValue{}) == nil {
		t.Error("a missing _id passes")
	}
}

func TestReplaced(t *testing.T) {
	empty := bson.Timestamp{}
	for want, docs := range map[string][]bson.D{
		"":  {{}, {{Key: "_id", Value: empty}}, {{Key: "a", Value: bson.D{{Key: "b", Value: empty}}}, {Key: "c", Value: bson.Timestamp{T: 1}}}},
		"b": {{{Key: "a", Value: 0x11}, {Key: "b", Value: empty}}},
	} {
		for _, doc := range docs {
			if got := value.Replaced(raw(t, doc).Document()); got != want {
				t.Errorf("%v: %q", doc, got)
			}
		}
	}
}

// Inside an _id the server takes no name of an operator, at any depth.
func TestCheckKey(t *testing.T) {
	for _, v := range []any{1, bson.D{{Key: "a", Value: bson.A{bson.D{{Key: "b$", Value: "$c"}}}}}} {
		if err := value.CheckKey(raw(t, v)); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
	operator := bson.D{{Key: "$gt", Value: 1}}
	for _, v := range []any{nil, bson.A{1}, operator, bson.D{{Key: "a", Value: 1}, {Key: "$b", Value: 1}},
		bson.D{{Key: "a", Value: operator}}, bson.D{{Key: "a", Value: bson.A{1, operator}}}} {
		if value.CheckKey(raw(t, v)) == nil {
			t.Errorf("%v passes", v)
		}
	}
	if value.CheckKey(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: []byte{1}}) == nil {
		t.Error("what is no document passes")
	}
}

func TestDocument(t *testing.T) {
	for _, fields := range []bson.D{{}, {{Key: "a", Value: 1}}, {{Key: "a", Value: "x"}, {Key: "b", Value: bson.D{{Key: "c", Value: true}}}}} {
		want, _ := bson.Marshal(fields)
		elements, _ := bson.Raw(want).Elements()
		parts := make([][]byte, len(elements))
		for i, e := range elements {
			parts[i] = e
		}
		if got := value.Document(parts...); !bytes.Equal(got, want) {
			t.Errorf("%v became %v", bson.Raw(want), got)
		}
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	doc := raw(t, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.D{{Key: "a", Value: 2}}}, {Key: "ab", Value: "x"}}).Document()
	nine := value.Element{Name: "a", Value: raw(t, 9)}
	for want, got := range map[string]bson.Raw{
		`{"a": 9,"b": {"a": 2},"ab": "x"}`:        value.With(doc, nine),
		`{"c": 9,"a": 9,"b": {"a": 2},"ab": "x"}`: value.With(doc, value.Element{Name: "c", Value: raw(t, 9)}, nine),
		`{"b": {"a": 2}}`:                         value.Pick(doc, func(field []byte) bool { return string(field) == "b" }),
		`{}`:                                      value.Pick(doc, func([]byte) bool { return false }),
		`{"a": 1,"b": {"a": 2},"ab": "x","c": true}`: value.Append(doc, value.Element{Name: "c", Value: raw(t, true)}),
	} {
		text := strings.NewReplacer(`{"$numberInt":"`, "", `"}`, "").Replace(got.String())
		if err := got.Validate(); err != nil || text != strings.NewReplacer(`"}`, "").Replace(want) {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
}

func TestDeeper(t *testing.T) {
	t.Parallel()
	for levels := range 4 {
		var v any = "x"
		for i := range levels {
			if i%2 == 0 {
				v = bson.A{1, v}
			} else {
				v = bson.D{{Key: "a", Value: true}, {Key: "b", Value: v}}
			}
		}
		if value.Deeper(raw(t, v), levels) || levels > 0 && !value.Deeper(raw(t, v), levels-1) {
			t.Error(levels)
		}
	}
	least := raw(t, bson.D{{Value: bson.D{{Value: bson.D{}}}}}) // 3 levels in as few bytes as possible
	if value.Deeper(least, 3) || !value.Deeper(least, 2) {
		t.Error(least)
	}
}
