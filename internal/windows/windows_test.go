package windows

import (
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/timeseries"

	"fmt"
	"testing"
)

// The memory of places is bounded.
func TestMemory(t *testing.T) {
	var known Memory[int]
	raise := func(key string, by int) int { return known.Change(key, func(n int) int { return n + by }) }
	raise("a", 3)
	if a, b := raise("a", 2), raise("b", 0); a != 5 || b != 0 {
		t.Error(a, b)
	}
	for i := range mostRemembered + 10 {
		raise(fmt.Sprint(i), 1)
	}
	if len(known.all) > mostRemembered || raise(fmt.Sprint(mostRemembered+9), 0) != 1 {
		t.Error(len(known.all))
	}
}

func TestWindowIsChecked(t *testing.T) {
	coll := scoped.On(new(mongo.Collection))
	for _, w := range []timeseries.Window{nil, timeseries.Every(0), timeseries.Every(-time.Hour), timeseries.Every(1500 * time.Microsecond)} {
		if err := (&Frame{Coll: coll, Window: w}).Complete(); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "window: ") {
			t.Errorf("%v: %v", w, err)
		}
	}
	for _, w := range []timeseries.Window{timeseries.Days(nil), timeseries.Every(time.Hour)} {
		if err := (&Frame{Coll: coll, Window: w}).Complete(); err != nil {
			t.Error(err)
		}
	}
}
