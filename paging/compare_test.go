package paging

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The tests here hold the conditions against a model of how mongod compares,
// sorts and matches, written from its documented comparison order, so that they
// do not depend on what the engine under test makes of exotic values.

func raw(v any) bson.RawValue {
	if v == nil {
		return bson.RawValue{Type: bson.TypeNull}
	}
	t, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: t, Value: data}
}

func dec(s string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		panic(err)
	}
	return d
}

// absent is a field that is missing.
var absent = bson.RawValue{}

var everyKind = []bson.RawValue{
	absent, raw(nil), raw(bson.MinKey{}), raw(bson.MaxKey{}),
	raw(math.NaN()), raw(dec("NaN")), raw(math.Inf(-1)), raw(dec("-Infinity")), raw(math.Inf(1)), raw(dec("Infinity")),
	raw(int32(5)), raw(int64(5)), raw(5.0), raw(dec("5.00")), raw(0.0), raw(math.Copysign(0, -1)), raw(dec("-0")),
	raw(0.1), raw(dec("0.1")), raw(int64(1)<<53 + 1), raw(float64(1 << 53)), raw(int64(math.MinInt64)), raw(int64(math.MaxInt64)),
	raw(math.MaxFloat64), raw(dec("9.999E6144")), raw(dec("1E-6176")),
	raw(""), raw("a"), raw("a\x00"), raw("b"), raw(bson.Symbol("a")), raw(bson.Symbol("ab")), raw("$gt"),
	raw(bson.D{}), raw(bson.D{{Key: "$gt", Value: 1}}), raw(bson.D{{Key: "a", Value: 1}}),
	raw(bson.Binary{Data: []byte{}}), raw(bson.Binary{Data: []byte{255}}), raw(bson.Binary{Subtype: 5, Data: []byte{0}}),
	raw(bson.ObjectID{}), raw(bson.ObjectID{1}), raw(false), raw(true),
	raw(bson.DateTime(math.MinInt64)), raw(bson.DateTime(0)), raw(bson.DateTime(math.MaxInt64)),
	raw(bson.Timestamp{}), raw(bson.Timestamp{T: 1}), raw(bson.Timestamp{T: math.MaxUint32, I: math.MaxUint32}),
	raw(bson.DBPointer{DB: "d", Pointer: bson.ObjectID{1}}), raw(bson.JavaScript("")), raw(bson.JavaScript("f")),
	raw(bson.CodeWithScope{Code: "f", Scope: bson.D{}}),
	raw(bson.Regex{Pattern: "a"}), raw(bson.A{}), // others can be before and after these
}

// modelRank is mongod's order of types.
func modelRank(v bson.RawValue) int {
	switch v.Type {
	case bson.TypeMinKey:
		return -1
	case 0, bson.TypeNull:
		return 5
	case bson.TypeArray: // the empty one
		return 2
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal128:
		return 10
	case bson.TypeString, bson.TypeSymbol:
		return 15
	case bson.TypeEmbeddedDocument:
		return 20
	case bson.TypeBinary:
		return 30
	case bson.TypeObjectID:
		return 35
	case bson.TypeBoolean:
		return 40
	case bson.TypeDateTime:
		return 45
	case bson.TypeTimestamp:
		return 47
	case bson.TypeRegex:
		return 50
	case bson.TypeDBPointer:
		return 55
	case bson.TypeJavaScript:
		return 60
	case bson.TypeCodeWithScope:
		return 65
	case bson.TypeMaxKey:
		return 127
	}
	panic(v.Type)
}

// modelNumber gives the class (NaN, -∞, finite, ∞) and exact value of a number.
func modelNumber(v bson.RawValue) (class int, exact *big.Rat) {
	double := func(f float64) (int, *big.Rat) {
		switch {
		case math.IsNaN(f):
			return 0, nil
		case math.IsInf(f, 0):
			return 2 + cmp.Compare(f, 0), nil
		}
		return 2, new(big.Rat).SetFloat64(f)
	}
	switch v.Type {
	case bson.TypeDouble:
		return double(v.Double())
	case bson.TypeInt32:
		return 2, new(big.Rat).SetInt64(int64(v.Int32()))
	case bson.TypeInt64:
		return 2, new(big.Rat).SetInt64(v.Int64())
	}
	d := v.Decimal128()
	switch {
	case d.IsNaN():
		return 0, nil
	case d.IsInf() != 0:
		return 2 + d.IsInf(), nil
	}
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		panic(d.String())
	}
	return 2, r
}

func modelCompare(a, b bson.RawValue) int {
	rank := modelRank(a)
	if c := cmp.Compare(rank, modelRank(b)); c != 0 {
		return c
	}
	switch rank {
	case -1, 5, 127:
		return 0
	case 10:
		classA, exactA := modelNumber(a)
		classB, exactB := modelNumber(b)
		if c := cmp.Compare(classA, classB); c != 0 || classA != 2 {
			return c
		}
		return exactA.Cmp(exactB)
	case 15:
		return bytes.Compare(a.Value[4:len(a.Value)-1], b.Value[4:len(b.Value)-1])
	case 30:
		subtypeA, dataA := a.Binary()
		subtypeB, dataB := b.Binary()
		return cmp.Or(cmp.Compare(len(dataA), len(dataB)), cmp.Compare(subtypeA, subtypeB), bytes.Compare(dataA, dataB))
	case 45:
		return cmp.Compare(a.DateTime(), b.DateTime())
	case 47:
		ta, ia := a.Timestamp()
		tb, ib := b.Timestamp()
		return cmp.Or(cmp.Compare(ta, tb), cmp.Compare(ia, ib))
	case 20: // enough for the documents above
		lenA, lenB := len(a.Value), len(b.Value)
		return cmp.Or(cmp.Compare(min(lenA, 6), min(lenB, 6)), bytes.Compare(a.Value[min(lenA-1, 5):], b.Value[min(lenB-1, 5):]))
	}
	return bytes.Compare(a.Value, b.Value)
}

var modelTypes = map[string][]bson.Type{
	"minKey": {bson.TypeMinKey}, "number": {bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal128},
	"string": {bson.TypeString}, "symbol": {bson.TypeSymbol}, "object": {bson.TypeEmbeddedDocument},
	"binData": {bson.TypeBinary}, "objectId": {bson.TypeObjectID}, "bool": {bson.TypeBoolean},
	"date": {bson.TypeDateTime}, "timestamp": {bson.TypeTimestamp}, "regex": {bson.TypeRegex},
	"dbPointer": {bson.TypeDBPointer}, "javascript": {bson.TypeJavaScript},
	"javascriptWithScope": {bson.TypeCodeWithScope}, "maxKey": {bson.TypeMaxKey},
}

// modelMatch is the match of one condition against one value, as mongod does it:
// comparisons within a bracket, NaN by equality only.
func modelMatch(condition any, v bson.RawValue) bool {
	operand := func(x any) bson.RawValue {
		if value, ok := x.(bson.RawValue); ok {
			return value
		}
		return raw(x)
	}
	operators, ok := condition.(bson.D)
	if !ok { // a value by itself is equality; a document would be operators
		value := operand(condition)
		if value.Type == bson.TypeEmbeddedDocument || value.Type == bson.TypeRegex {
			panic(fmt.Sprint(condition))
		}
		operators = bson.D{{Key: "$eq", Value: value}}
	}
	if len(operators) != 1 {
		panic(fmt.Sprint(condition))
	}
	op := operators[0]
	switch op.Key {
	case "$type":
		names, ok := op.Value.(bson.A)
		if !ok {
			names = bson.A{op.Value}
		}
		return slices.ContainsFunc(names, func(name any) bool {
			types, ok := modelTypes[name.(string)]
			if !ok {
				panic(name)
			}
			return slices.Contains(types, v.Type)
		})
	case "$in":
		return slices.ContainsFunc(op.Value.(bson.A), func(x any) bool { return modelCompare(operand(x), v) == 0 })
	case "$eq":
		return modelCompare(operand(op.Value), v) == 0
	case "$ne":
		return modelCompare(operand(op.Value), v) != 0
	}
	other := operand(op.Value)
	if other.Type == bson.TypeRegex || other.Type == bson.TypeMinKey || other.Type == bson.TypeMaxKey || other.Type == bson.TypeNull {
		panic(fmt.Sprintf("%s with %s", op.Key, other.Type)) // refused, or not confined to a bracket
	}
	if modelRank(other) != modelRank(v) {
		return false
	}
	if isNaN(other) || isNaN(v) {
		return isNaN(other) && isNaN(v) && (op.Key == "$gte" || op.Key == "$lte")
	}
	c := modelCompare(v, other)
	switch op.Key {
	case "$gt":
		return c > 0
	case "$gte":
		return c >= 0
	case "$lt":
		return c < 0
	case "$lte":
		return c <= 0
	}
	panic(op.Key)
}

func TestBeyond(t *testing.T) {
	checkBeyond(t, mixed, everyKind)
}

// A uniform field holds one bracket, null or nothing; for these the conditions
// are as exact with fewer of them.
func TestBeyondUniform(t *testing.T) {
	for _, rank := range []int{10, 15, 20, 30, 35, 40, 45, 47, 55, 60, 65} {
		values := slices.DeleteFunc(slices.Clone(everyKind), func(v bson.RawValue) bool {
			return modelRank(v) != rank && modelRank(v) != 5
		})
		checkBeyond(t, uniform, values)
		checkBeyond(t, uniformID, slices.DeleteFunc(values, func(v bson.RawValue) bool {
			return modelRank(v) == 5 || isNaN(v)
		}))
	}
	five := raw(int32(5))
	for _, desc := range []bool{false, true} {
		if got := beyond(five, desc, false, uniformID); len(got) != 1 {
			t.Errorf("a uniform _id has the conditions %v", got)
		}
	}
	if got := beyond(five, false, false, uniform); len(got) != 1 {
		t.Errorf("upwards a uniform field has the conditions %v", got)
	}
}

// checkBeyond takes every value as the position and as the value matched.
func checkBeyond(t *testing.T, kind uniformity, values []bson.RawValue) {
	t.Helper()
	for _, at := range values {
		if at.Type == bson.TypeRegex || at.Type == bson.TypeArray {
			continue // refused as a position
		}
		position := at
		if at.Type == 0 {
			position = raw(nil) // as order.values reads it
		}
		for _, desc := range []bool{false, true} {
			for _, inclusive := range []bool{false, true} {
				checkConditions(t, values, at, desc, inclusive, beyond(position, desc, inclusive, kind))
			}
		}
	}
}

func checkConditions(t *testing.T, values []bson.RawValue, at bson.RawValue, desc, inclusive bool, conditions []any) {
	t.Helper()
	matches := make([][]bson.RawValue, len(conditions))
	for _, v := range values {
		c := modelCompare(v, at)
		if desc {
			c = -c
		}
		matched := 0
		for i, condition := range conditions {
			if modelMatch(condition, v) {
				matches[i] = append(matches[i], v)
				matched++
			}
		}
		if want := c > 0 || inclusive && c == 0; want && matched != 1 || !want && matched != 0 {
			t.Errorf("after %v, desc %v, inclusive %v: %v is matched %d times by %v",
				at, desc, inclusive, v, matched, conditions)
		}
	}
	for i, earlier := range matches {
		for _, later := range matches[i+1:] {
			for _, a := range earlier {
				for _, b := range later {
					if modelCompare(a, b) < 0 == desc {
						t.Errorf("after %v, desc %v: %v and %v are out of order", at, desc, a, b)
					}
				}
			}
		}
	}
}

func TestMayEqual(t *testing.T) {
	inside := func(v bson.RawValue) bson.RawValue {
		if v.Type == 0 {
			v = raw(nil)
		}
		return raw(bson.D{{Key: "a", Value: bson.A{v}}})
	}
	for _, a := range everyKind {
		for _, b := range everyKind {
			if equal := modelCompare(a, b) == 0; equal && a.Type != 0 && b.Type != 0 && !mayEqual(a, b, false) || equal && !mayEqual(inside(a), inside(b), false) {
				t.Errorf("%v and %v are equal", a, b)
			}
		}
	}
	for _, c := range []struct{ a, b any }{ // no guess where there is no need
		{int32(1), int64(2)}, {int64(1<<53 + 1), int64(1 << 53)}, {1.5, 2.5}, {"a", "b"}, {bson.ObjectID{1}, bson.ObjectID{2}}, {int32(1), "1"},
		{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "b", Value: 1}}}, {bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 2}}},
		{bson.DateTime(1), bson.DateTime(2)}, {bson.Regex{Pattern: "a"}, bson.Regex{Pattern: "b"}}, {bson.A{1}, 1},
	} {
		if a, b := raw(c.a), raw(c.b); mayEqual(a, b, false) || mayEqual(b, a, false) {
			t.Errorf("%v and %v differ", a, b)
		}
	}
	if !mayEqual(raw("a"), raw("A"), true) {
		t.Error("text under a collation")
	}
}

func TestEndIsBehindEverything(t *testing.T) {
	for _, desc := range []bool{false, true} {
		o := order{{path: "_id", desc: desc}}
		branches := o.branches(o.end(), true, true)
		for _, v := range everyKind {
			if !slices.ContainsFunc(branches, func(b bson.D) bool { return modelMatch(b[0].Value, v) }) {
				t.Errorf("desc %v: %v is not before the end", desc, v)
			}
		}
	}
}

func TestHoldsText(t *testing.T) {
	for _, c := range []struct {
		v    any
		want bool
	}{
		{int32(1), false}, {"a", true}, {bson.Symbol("a"), true}, {bson.ObjectID{}, false}, {bson.D{}, false},
		{bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: bson.A{1, "x"}}}}}, true},
		{bson.D{{Key: "a", Value: bson.A{1}}}, false},
	} {
		if got := holdsText(raw(c.v)); got != c.want {
			t.Errorf("%v: %v", c.v, got)
		}
	}
}
