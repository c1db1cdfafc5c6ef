package testkit

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Numbers are the extremes of the four types of numbers, all finite.
func Numbers() []any {
	out := []any{
		int32(0), int32(1), int32(math.MaxInt32), int32(math.MinInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(1<<53 + 1),
		0.1, 1.0 / 3, -2.5, 1e9 + 0.98545567, math.Copysign(0, -1), 5e-324, -math.MaxFloat64, math.MaxFloat64,
	}
	for _, digits := range []string{
		"-0", "0.1", "1.234567890123456789012345678901234", "-9.876543210987654321098765432109876E-6143", "1.5E-3088", "1E-400", "1E-6176", "9.99E+6144",
		"-9.999999999999999999999999999999999E+6144",
	} {
		out = append(out, Must(bson.ParseDecimal128(digits)))
	}
	return out
}

// NoNumbers are numbers that no finite ones add up to, unless a sum overflows.
func NoNumbers() []any {
	return []any{math.NaN(), math.Inf(1), math.Inf(-1), Must(bson.ParseDecimal128("NaN")), Must(bson.ParseDecimal128("Infinity")), Must(bson.ParseDecimal128("-Infinity"))}
}
