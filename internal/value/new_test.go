package value_test

import (
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// What is encoded here is what the driver encodes.
func TestAsTheDriverEncodes(t *testing.T) {
	decimal, err := bson.ParseDecimal128("-1.50")
	if err != nil {
		t.Fatal(err)
	}
	at := bson.NewDateTimeFromTime(time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC))
	for _, c := range []struct {
		have bson.RawValue
		of   any
	}{
		{value.Int32(-7), int32(-7)}, {value.Int64(math.MinInt64), int64(math.MinInt64)}, {value.Double(-0.5), -0.5},
		{value.Decimal(decimal), decimal}, {value.Date(at), at},
	} {
		if want := value.New(c.of); !c.have.Equal(want) {
			t.Errorf("%v, want %v", c.have, want)
		}
	}
}
