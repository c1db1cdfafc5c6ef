package series_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Whatever call writes numbers, of whatever types and sizes together, Check computes the same, and so does Compare.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	o := &series.Options{Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares", Min: "min", Max: "max", First: "first", Last: "last", Count: "n"}}}
	in := func(coll string) testkit.Measurements {
		return measurements(open[string, bson.D](t, db.Collection(coll), timeseries.Every(time.Hour), o))
	}
	testkit.EveryNumber(t, db.Collection("src"), in("c"), in("adopted"))
}

func measurements(s *series.Series[string, bson.D]) testkit.Measurements {
	return testkit.Measurements{
		Append: s.Append, AppendMany: s.AppendMany, Replace: s.Replace, Delete: s.Delete, Checker: s,
		Adopt: func(ctx context.Context, src *mongo.Collection) error {
			return testkit.ErrorOf(s.Adopt(ctx, src, nil, nil))
		},
		Compare: func(ctx context.Context, src *mongo.Collection) iter.Seq2[mongopatterns.Problem, error] {
			return s.Compare(ctx, src, nil, nil)
		},
	}
}

// A sum that has overflowed is an infinity in Aggregate too, and not a sum without this document.
func TestOverflownSum(t *testing.T) {
	t.Parallel()
	s := open[string, bson.D](t, mongotest.Database(t).Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: []timeseries.Value{{Field: "v"}}})
	largest := testkit.Must(bson.ParseDecimal128("9E+6144"))
	for hour, v := range []any{largest, largest, 1} {
		testkit.OK(t, s.Append(t.Context(), "s", testkit.D("timestamp", at(1+hour/2, hour%2, 0), "v", v)))
	}
	stats, err := s.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	testkit.OK(t, err)
	testkit.Equal(t, "Infinity", stats.Values["v"].Sum.String())
}
