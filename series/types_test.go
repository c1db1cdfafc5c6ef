package series_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type text struct{ s string }

func (x text) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue("<" + x.s + ">")
	return byte(kind), data, err
}

func (x *text) UnmarshalBSONValue(kind byte, data []byte) error {
	x.s = strings.Trim(bson.RawValue{Type: bson.Type(kind), Value: data}.StringValue(), "<>")
	return nil
}

// comesBack stores two measurements of a type, open and compacted, and reads them.
func comesBack[M any](t *testing.T, first, second M) {
	t.Helper()
	o := &series.Options{Values: []timeseries.Value{{Field: "v"}}}
	switch any(first).(type) {
	case nested, own: // New refuses a Value that they never have
		o = nil
	}
	s := open[string, M](t, mongotest.Database(t).Collection("c"), timeseries.Days(nil), o)
	appendMany(t, s, "s", first, second)
	for range 2 {
		got := collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))
		a, b := mustMarshal(t, []M{first, second}), mustMarshal(t, got)
		if a != b {
			t.Errorf("%T: %s, want %s", first, b, a)
		}
		if _, err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	healthy(t, s)
}

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	out, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

type (
	pointers struct {
		At time.Time `bson:"timestamp"`
		V  *float64  `bson:"v"`
	}
	nested struct {
		At    time.Time          `bson:"timestamp"`
		Place struct{ X, Y int } `bson:"place"`
		Tags  []string           `bson:"tags"`
	}
	inline struct {
		At    time.Time `bson:"timestamp"`
		Extra bson.M    `bson:",inline"`
	}
	own struct {
		At time.Time `bson:"timestamp"`
		T  text      `bson:"t"`
	}
	minsize struct {
		At time.Time `bson:"timestamp"`
		V  int64     `bson:"v,minsize"`
		D  bson.DateTime
		U  uint
	}
	dateTime struct {
		At bson.DateTime `bson:"timestamp"`
		V  float64
	}
	bare struct {
		Timestamp time.Time
		V         float64
	}
)

// Measurements of all sorts of types come back as they were.
func TestTypes(t *testing.T) {
	t.Parallel()
	x := 1.5
	d, _ := bson.ParseDecimal128("1.50")
	comesBack(t, pointers{day, &x}, pointers{at(0, 0, 1), nil})
	comesBack(t, nested{At: day, Tags: []string{"a"}}, nested{At: at(0, 0, 1)})
	comesBack(t, inline{day, bson.M{"v": 1.5}}, inline{at(0, 0, 1), bson.M{"w": int32(2)}})
	comesBack(t, own{day, text{"a"}}, own{at(0, 0, 1), text{"b"}})
	comesBack(t, minsize{At: day, V: 7, U: 9}, minsize{At: at(0, 0, 1), V: 1 << 40})
	comesBack(t, dateTime{bson.NewDateTimeFromTime(day), 1}, dateTime{bson.NewDateTimeFromTime(at(0, 0, 1)), 2})
	comesBack(t, bare{day, 1}, bare{at(0, 0, 1), 2})
	comesBack(t, bson.M{"timestamp": day}, bson.M{"timestamp": at(0, 0, 1)})
	comesBack(t, &pointers{day, &x}, &pointers{at(0, 0, 1), &x})
	comesBack(t, bson.D{{Key: "timestamp", Value: day}, {Key: "v", Value: d}, {Key: "n", Value: nil}}, bson.D{{Key: "timestamp", Value: at(0, 0, 1)}, {Key: "v", Value: int64(1) << 60}, {Key: "id", Value: bson.ObjectID{1}}})
	s := open[string, event](t, mongotest.Database(t).Collection("c"), timeseries.Days(nil), nil)
	if err := s.Append(t.Context(), "s", event{Timestamp: day, Note: strings.Repeat("x", 5<<20)}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
