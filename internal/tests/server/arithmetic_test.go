package server_test

import (
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// sumOf is the sum of the fields "a" and "b".
var sumOf = expr.Op("$add", "$a", "$b")

func ab(a, b any) bson.D { return expr.D("a", a, "b", b) }

var arithmetic = []row{
	{"the sum of two ints that exceeds an int32", "long 2147483648", "subset computed bucket internal/expr",
		func(s *server) any { return s.computed(ab(int32(math.MaxInt32), 1), sumOf) }},
	{"$add of two longs that exceeds an int64", "double 9.223372036854776e+18", "subset computed internal/expr",
		func(s *server) any { return s.updated(ab(int64(math.MaxInt64), int64(1)), set(sumOf)) }},
	{"$add of doubles and a long: whether it rounds by a unit of the last digit for each at most", "yes", "subset computed internal/expr internal/number",
		func(s *server) any {
			doc := expr.D("a", 0x1p53, "b", int64(1), "c", 0.3)
			return near(s.updated(doc, set(expr.Op("$add", "$a", "$b", "$c"))), new(big.Rat).SetFloat64(0x1p53+1), 0x1p-51)
		}},
	{"the type of a double and a Decimal128 added", `"decimal"`, "bucket subset computed internal/number",
		func(s *server) any { return s.computed(ab(0.5, decimal("1")), expr.Op("$type", sumOf)) }},
	{"$inc of a Decimal128 by a double: whether it is right to 14 digits", "yes", "internal/number bucket series",
		func(s *server) any {
			return near(s.updated(expr.D("v", decimal("1")), expr.Op("$inc", expr.D("v", 1.0/3))), big.NewRat(4, 3), 1e-14)
		}},
	{"$sum of a Decimal128 0 and a double: whether all digits of the double are kept", "decimal 0.1000000000000000055511151231257827", "bucket",
		func(s *server) any { return s.computed(expr.D("a", 0.1), expr.Op("$sum", decimal("0"), "$a")) }},
	{"$multiply of two Decimal128 of 34 digits", "decimal 1.000000000000000000000000000000002", "bucket",
		func(s *server) any {
			return s.computed(ab(decimal("1.000000000000000000000000000000001"), decimal("1.000000000000000000000000000000001")), expr.Op("$multiply", "$a", "$b"))
		}},
	{"$multiply of a double and a power of two", "double 7.888609052210118e-31", "subset",
		func(s *server) any {
			return s.computed(expr.D("a", 1.0), expr.Op("$multiply", "$a", math.Ldexp(1, -100)))
		}},
	{"$multiply of a long and a Decimal128", "decimal 9.223372036854775807E-82", "subset",
		func(s *server) any {
			return s.computed(expr.D("a", int64(math.MaxInt64)), expr.Op("$multiply", "$a", decimal("1E-100")))
		}},
	{"$toDecimal of the largest long", "decimal 9223372036854775807", "subset",
		func(s *server) any { return s.computed(expr.D("a", int64(math.MaxInt64)), expr.Op("$toDecimal", "$a")) }},
	{"$divide of an int by an int", "double 0.005", "subset internal/expr",
		func(s *server) any { return s.computed(expr.D("a", 5), expr.Op("$divide", "$a", 1000)) }},
	{"$abs of the least long, divided before", "double 9.223372036854776e+15", "internal/expr subset computed",
		func(s *server) any {
			return s.computed(expr.D("a", int64(math.MinInt64)), expr.Op("$abs", expr.Op("$divide", "$a", 1000)))
		}},
	{"$isNumber of NaN, an infinity, a Decimal128, null and nothing", "[true, true, true, false, false]", "bucket subset split outlier internal/expr",
		func(s *server) any {
			doc := expr.D("a", math.NaN(), "b", math.Inf(1), "c", decimal("1"), "d", nil)
			return s.computed(doc, bson.A{isNumber("$a"), isNumber("$b"), isNumber("$c"), isNumber("$d"), isNumber("$e")})
		}},
	{"whether a double NaN and a Decimal128 NaN are below the least infinity in $gt", "[false, false]", "bucket subset paging internal/expr",
		func(s *server) any {
			return s.computed(ab(math.NaN(), decimal("NaN")), bson.A{expr.Op("$gt", "$a", math.Inf(-1)), expr.Op("$gt", "$b", math.Inf(-1))})
		}},
	{"$eq of a double NaN and a Decimal128 NaN, and of their infinities", "[true, true]", "paging internal/value",
		func(s *server) any {
			doc := expr.D("a", math.NaN(), "b", decimal("NaN"), "c", math.Inf(1), "d", decimal("Infinity"))
			return s.computed(doc, bson.A{expr.Op("$eq", "$a", "$b"), expr.Op("$eq", "$c", "$d")})
		}},
	{"$trunc of an infinity and of the largest double", "[true, true]", "versioning",
		func(s *server) any {
			same := func(v string) bson.D { return expr.Op("$eq", expr.Op("$trunc", v), v) }
			return s.computed(ab(math.Inf(1), math.MaxFloat64), bson.A{same("$a"), same("$b")})
		}},
	{"$sum in $group of ints 0 and a double", "double 0.5", "subset",
		func(s *server) any {
			return s.grouped(expr.Op("$sum", "$v"), expr.D("v", 0), expr.D("v", 0.5), expr.D("v", 0))
		}},
	{"$sum in $group of an int 0 and a Decimal128", "decimal 0.5", "subset bucket",
		func(s *server) any {
			return s.grouped(expr.Op("$sum", "$v"), expr.D("v", 0), expr.D("v", decimal("0.5")))
		}},
	{"$sum in $group of two longs within an int64", "long 9223372036854775807", "subset bucket computed",
		func(s *server) any {
			return s.grouped(expr.Op("$sum", "$v"), expr.D("v", int64(math.MaxInt64-1)), expr.D("v", int64(1)))
		}},
	{"$sum in $group of one long beyond 2^53", "long 9223372036854775807", "subset computed",
		func(s *server) any { return s.grouped(expr.Op("$sum", "$v"), expr.D("v", int64(math.MaxInt64))) }},
	{"$sum in $group of no number", "0", "bucket subset",
		func(s *server) any { return s.grouped(expr.Op("$sum", "$v"), expr.D("v", "x"), expr.D("w", 1)) }},
	{"$max in $group of nulls alone", "null", "subset",
		func(s *server) any { return s.grouped(expr.Op("$max", "$v"), expr.D("v", nil)) }},
	{"$inc of an int beyond an int32", "long 2147483648", "tree outlier approx series",
		func(s *server) any {
			return s.updated(expr.D("v", int32(math.MaxInt32)), expr.Op("$inc", expr.D("v", 1)))
		}},
	{"$inc of a long beyond an int64", "a refusal with 2", "approx series extref tree internal/fault",
		func(s *server) any {
			return s.updated(expr.D("v", int64(math.MaxInt64)), expr.Op("$inc", expr.D("v", 1)))
		}},
	{"$inc of a string", "a refusal with 14", "approx internal/fault",
		func(s *server) any { return s.updated(expr.D("v", "x"), expr.Op("$inc", expr.D("v", 1))) }},
	{"$max of an int 2 with a double 2, which is equal", "2", "bucket series extref",
		func(s *server) any { return s.updated(expr.D("v", 2), expr.Op("$max", expr.D("v", 2.0))) }},
	{"$min of a number with a string, which is greater", "5", "bucket series",
		func(s *server) any { return s.updated(expr.D("v", 5), expr.Op("$min", expr.D("v", "1"))) }},
	{"$min of a document with one whose first field is less", "{t: date 1, v: 9}", "bucket series",
		func(s *server) any {
			return s.updated(expr.D("v", expr.D("t", bson.DateTime(2), "v", 1)), expr.Op("$min", expr.D("v", expr.D("t", bson.DateTime(1), "v", 9))))
		}},
	{"$bsonSize of a document with one int", "12", "outlier bucket internal/maintain",
		func(s *server) any { return s.computed(expr.D("a", expr.D("x", 1)), expr.Op("$bsonSize", "$a")) }},
}

func isNumber(v any) bson.D { return expr.Op("$isNumber", v) }

// near says whether a number is within part of want.
func near(v any, want *big.Rat, part float64) string {
	raw, _ := v.(bson.RawValue)
	got := value.Number(raw)
	if got == nil {
		return "no: " + text(v)
	}
	if off, bound := new(big.Rat).Sub(got, want), new(big.Rat).SetFloat64(part); off.Abs(off).Cmp(bound.Mul(bound, want)) > 0 {
		return "no: " + text(v)
	}
	return "yes"
}
