package testkit

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
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

// Measurements are the calls that store measurements of series, with a Value of their field "v", in windows of an hour.
// Adopt and Compare take plain documents, {series, timestamp, v}.
type Measurements struct {
	Append     func(ctx context.Context, series string, m bson.D) error
	AppendMany func(ctx context.Context, items iter.Seq2[string, bson.D], work *mongopatterns.Work) (mongopatterns.Result, error)
	Replace    func(ctx context.Context, series string, m bson.D) error
	Delete     func(ctx context.Context, series string, at time.Time) error
	Adopt      func(ctx context.Context, src *mongo.Collection) error
	Compare    func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error]
	Checker    mongopatterns.Checker
}

// EveryNumber writes each of Numbers beside each other by all calls, in a small run beside a quarter of them. Check must compute what they wrote, and Compare
// find in adopted what is in src.
func EveryNumber(t *testing.T, src *mongo.Collection, stored, adopted Measurements) {
	t.Helper()
	ctx, numbers := t.Context(), Numbers()
	at := func(second int) time.Time { return time.Date(2019, 1, 31, 1, 0, second, 0, time.UTC) }
	m := func(second int, v any) bson.D { return D("timestamp", at(second), "v", v) }
	var firsts, rest []bson.D
	for i, x := range numbers {
		for j, y := range numbers[:i+1] {
			later := j == i*7%(i+1) // its series is changed below
			if !later && (uint64(i+j)+scale.Seed())%scale.Of[uint64](4, 1, 1) != 0 {
				continue
			}
			series := D("series", fmt.Sprint(i, " ", j))
			firsts = append(firsts, slices.Concat(series, m(0, x)))
			rest = append(rest, slices.Concat(series, m(1, y)), slices.Concat(series, m(2, x)), slices.Concat(series, m(3, y)))
		}
	}
	InsertAll(t, src, slices.Concat(firsts, rest))
	OK(t, adopted.Adopt(ctx, src))
	Healthy(t, adopted.Checker)
	for _, p := range Collect(t, adopted.Compare(ctx, src)) {
		t.Errorf("compare: %v", p)
	}
	for _, part := range [][]bson.D{firsts, rest} {
		OK(t, ErrorOf(stored.AppendMany(ctx, func(yield func(string, bson.D) bool) {
			for _, doc := range part {
				if !yield(doc[0].Value.(string), doc[1:]) {
					return
				}
			}
		}, nil)))
	}
	Healthy(t, stored.Checker)
	for i, x := range numbers {
		series := fmt.Sprint(i, " ", i*7%(i+1))
		OK(t, stored.Replace(ctx, series, m(3, x)))
		OK(t, stored.Append(ctx, series, m(4, numbers[len(numbers)-1-i])))
		OK(t, stored.Delete(ctx, series, at(0)))
		OK(t, stored.Append(ctx, series, m(5, x)))
	}
	Healthy(t, stored.Checker)
}
