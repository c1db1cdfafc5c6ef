package series_test

import (
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A number above 255 costs a measurement no allocation more than one below, for which Go has boxes.
func TestAllocationsOfIDs(t *testing.T) {
	s, err := series.New[int, event](testkit.Offline(t).Collection("c"), timeseries.Days(nil), nil)
	testkit.OK(t, err)
	all := seconds(1000)
	many := func(id int) float64 {
		return testing.AllocsPerRun(10, func() {
			result, err := s.AppendMany(t.Context(), timeseries.Of(id, all...), &mongopatterns.Work{DryRun: true})
			if err != nil || result.Done != 1000 {
				t.Error(result, err)
			}
		})
	}
	add := func(id int) float64 {
		g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 100_000})
		testkit.OK(t, err)
		return testing.AllocsPerRun(10, func() {
			for _, e := range all {
				if err := g.Append(t.Context(), id, e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for name, run := range map[string]func(id int) float64{"AppendMany": many, "Add": add} {
		small, large := run(7), run(123456)
		if large > small+100 { // one each would be 1,000 more; the driver allocates beside it
			t.Errorf("%s: %v allocations for 1,000 measurements of 123456, %v for 7", name, large, small)
		}
	}
}
