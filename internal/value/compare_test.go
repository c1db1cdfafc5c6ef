package value_test

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// In the order of the server; those of a line are equal and have one key. That a server sorts so is tested where _ids are
// (series, TestAdoptAnyID).
func TestCompare(t *testing.T) {
	t.Parallel()
	d := func(key string, v any) bson.D { return bson.D{{Key: key, Value: v}} }
	lines := [][]any{
		{bson.MinKey{}}, {bson.Undefined{}}, {nil},
		{math.NaN(), decimal(t, "NaN")}, {math.Inf(-1), decimal(t, "-Infinity")}, {decimal(t, "-1E+6000")}, {int64(math.MinInt64), -float64(1 << 63)}, {-1, -1.0},
		{0, math.Copysign(0, -1), decimal(t, "-0E+3")}, {5e-324}, {0.1}, {int32(1), int64(1), 1.0, decimal(t, "1.00")},
		{int64(1 << 53), float64(1 << 53)}, {decimal(t, "9007199254740992.5")}, {int64(1<<53 + 1)}, {int64(math.MaxInt64)}, {float64(1 << 63)}, {math.MaxFloat64}, {decimal(t, "1E+6000")}, {math.Inf(1), decimal(t, "Infinity")},
		{""}, {"a", bson.Symbol("a")}, {"a\x00"}, {"a\x00b"}, {"ab"}, {"é"},
		{bson.D{}}, {d("b", nil)}, {d("a", 1), d("a", 1.0)}, {bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}, {d("a", 2)}, {d("b", 1)}, {d("a", "x")}, {d("a", d("a", 1))}, {d("a", bson.A{})},
		{bson.A{}}, {bson.A{1}}, {bson.A{1, nil}}, {bson.A{1, 0}}, {bson.A{2}},
		{bson.Binary{}}, {bson.Binary{Subtype: 5}}, {bson.Binary{Data: []byte{9}}}, {bson.Binary{Data: []byte{1, 2}}},
		{bson.ObjectID{1}}, {bson.ObjectID{2}}, {false}, {true}, {bson.DateTime(-1)}, {bson.DateTime(1)}, {bson.Timestamp{T: 1, I: 1 << 31}}, {bson.Timestamp{T: 1 << 31}},
		{bson.Regex{Pattern: "a"}}, {bson.Regex{Pattern: "a", Options: "i"}}, {bson.Regex{Pattern: "b"}}, {bson.JavaScript("a")}, {bson.JavaScript("b")},
		{bson.CodeWithScope{Code: "a", Scope: bson.D{}}}, {bson.CodeWithScope{Code: "a", Scope: d("x", 1)}}, {bson.CodeWithScope{Code: "b", Scope: bson.D{}}}, {bson.MaxKey{}},
	}
	for i, line := range lines {
		for _, v := range line {
			for j, other := range lines {
				for _, o := range other {
					if got := value.Compare(raw(t, v), raw(t, o)); (got < 0) != (i < j) || (got > 0) != (i > j) {
						t.Errorf("%v and %v: %d", v, o, got)
					}
					same := value.Key(raw(t, v)) == value.Key(raw(t, o))
					if same != (i == j) {
						t.Errorf("%v and %v: the same key: %v", v, o, same)
					}
					if got := value.Same(raw(t, v), raw(t, o)); got != same {
						t.Errorf("%v and %v: Same: %v", v, o, got)
					}
				}
			}
		}
	}
}

// Equal numbers in the scope of code are equal, as the server compares them.
func TestKeyOfCodeWithScope(t *testing.T) {
	code := func(text string, x any) bson.RawValue {
		return value.New(bson.CodeWithScope{Code: bson.JavaScript(text), Scope: bson.D{{Key: "x", Value: x}}})
	}
	for _, test := range []struct {
		other bson.RawValue
		same  bool
	}{{code("f", 1.0), true}, {code("f", 2), false}, {code("g", 1), false}} {
		if one := code("f", 1); (value.Key(one) == value.Key(test.other)) != test.same || (value.Compare(one, test.other) == 0) != test.same {
			t.Errorf("%v and %v", one, test.other)
		}
	}
}
