package series_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
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
	case nested, own, bson.M: // New, or Check, refuses a Value that they never have
		o = nil
	}
	s := open[string, M](t, mongotest.Database(t).Collection("c"), timeseries.Days(nil), o)
	appendMany(t, s, "s", first, second)
	for range 2 {
		got := testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))
		a, b := mustMarshal(t, []M{first, second}), mustMarshal(t, got)
		if a != b {
			t.Errorf("%T: %s, want %s", first, b, a)
		}
		if _, err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Healthy(t, s)
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
	comesBack(t, bson.M{"timestamp": day}, bson.M{"timestamp": at(0, 0, 1)}) // of one key: maps are encoded in any order
	comesBack(t, &pointers{day, &x}, &pointers{at(0, 0, 1), &x})
	comesBack(t, bson.D{{Key: "timestamp", Value: day}, {Key: "v", Value: d}, {Key: "n", Value: nil}}, bson.D{{Key: "timestamp", Value: at(0, 0, 1)}, {Key: "v", Value: int64(1) << 60}, {Key: "id", Value: bson.ObjectID{1}}})
	s := open[string, event](t, mongotest.Database(t).Collection("c"), timeseries.Days(nil), nil)
	if err := s.Append(t.Context(), "s", event{Timestamp: day, Note: strings.Repeat("x", 5<<20)}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// Structs that go without BSON are stored and read as those that the driver encodes.
func TestShapesAreBSON(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	fast, slow := open[string, Flat](t, db.Collection("fast"), timeseries.Days(nil), nil), open[string, wrapped](t, db.Collection("slow"), timeseries.Days(nil), nil)
	random := rand.New(rand.NewPCG(1, 2))
	var all []Flat
	for i := range 200 {
		n := Flat{At: at(0, 0, i), T: celsius(random.IntN(100)) / 10, I: random.IntN(3) << (random.IntN(3) * 31), I64: int64(i), S: fmt.Sprint(i % 3), Other: at(0, i, 0), Plain: i}
		if i%2 == 0 {
			n.F, n.I8, n.B = float32(i)/3, int8(-i), true
		}
		all = append(all, n)
		appendMany(t, fast, "s", n)
		appendMany(t, slow, "s", wrapped{Flat: n})
	}
	a, b := testkit.Collect(t, fast.Documents(t.Context(), nil)), testkit.Collect(t, slow.Documents(t.Context(), nil))
	if len(a) != 200 || !reflect.DeepEqual(a, b) {
		t.Errorf("%v\n%v", a[0], b[0])
	}
	testkit.Equal(t, all, testkit.Collect(t, fast.Range(t.Context(), "s", time.Time{}, time.Time{})))
	crossed := open[string, Flat](t, db.Collection("slow"), timeseries.Days(nil), nil)
	testkit.Equal(t, all, testkit.Collect(t, crossed.Range(t.Context(), "s", time.Time{}, time.Time{})))
	// A value that does not fit a field gives the driver's error, as with documents.
	type narrow struct {
		At time.Time `bson:"timestamp"`
		I  int8      `bson:"i"`
	}
	if err := testkit.Drain(open[string, narrow](t, db.Collection("fast"), timeseries.Days(nil), nil).Range(t.Context(), "s", time.Time{}, time.Time{})); err == nil || !strings.Contains(err.Error(), "overflows") {
		t.Error(err)
	}
	type other struct {
		At time.Time `bson:"timestamp"`
		T  string    `bson:"t"`
	}
	if err := testkit.Drain(open[string, other](t, db.Collection("fast"), timeseries.Days(nil), nil).Range(t.Context(), "s", time.Time{}, time.Time{})); err == nil {
		t.Error("a number was read as text")
	}
}

// What the driver encodes otherwise than its kind goes through the driver.
func TestNumbersOfJSON(t *testing.T) {
	t.Parallel()
	type number struct {
		At time.Time `bson:"timestamp"`
		V  json.Number
	}
	coll := mongotest.Database(t).Collection("c")
	s := open[string, number](t, coll, timeseries.Days(nil), &series.Options{Values: []timeseries.Value{{Field: "v"}}})
	appendMany(t, s, "s", number{day, "1.5"}, number{at(0, 0, 1), "2"})
	for m, err := range open[string, bson.M](t, coll, timeseries.Days(nil), nil).Range(t.Context(), "s", time.Time{}, time.Time{}) {
		if _, text := m["v"].(string); err != nil || text {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// Options.BSON is honoured in both directions.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type tagged struct {
		At   time.Time `json:"timestamp"`
		V    float64   `json:"value"`
		List []string  `json:"list"`
	}
	coll := mongotest.Database(t).Collection("c")
	s := open[string, tagged](t, coll, timeseries.Days(nil), &series.Options{BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}, Values: []timeseries.Value{{Field: "value"}}})
	appendMany(t, s, "s", tagged{At: day, V: 1.5})
	for doc := range s.Documents(t.Context(), nil) {
		if doc.Lookup("value").Double() != 1.5 || doc.Lookup("list").Type != bson.TypeArray {
			t.Error(doc)
		}
	}
	testkit.Equal(t, []tagged{{At: day, V: 1.5, List: []string{}}}, testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{})))
	if total(t, s) != 1 {
		t.Error("not counted")
	}
}

type Flat struct {
	At    time.Time `bson:"timestamp"`
	T     celsius   `bson:"t"`
	F     float32   `bson:"f,omitempty"`
	I     int       `bson:"i"`
	I8    int8      `bson:"i8,omitempty"`
	I64   int64     `bson:"i64"`
	S     string    `bson:"s"`
	B     bool      `bson:"b,omitempty"`
	Other time.Time `bson:"other"`
	Skip  int       `bson:"-"`
	Plain int
}

// wrapped is Flat for the driver alone: a field that a shape does not know.
type wrapped struct {
	Flat  `bson:",inline"`
	Extra *int `bson:"extra,omitempty"`
}

type celsius float64
