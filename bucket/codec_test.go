package bucket_test

import (
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// The client's BSON options are honoured where the package encodes and decodes.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type trade struct {
		At    time.Time `json:"at"`
		Price float64   `json:"price"`
		Tags  []string  `json:"tags"`
	}
	db := mongotest.Database(t)
	o := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	b := newBuckets[string, trade](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{TimeField: "at", BSON: o,
		Values: []timeseries.Value{{Field: "price", Sum: "sum"}}})
	mustAppend(t, b, "s", trade{At: at(1, 0, 0), Price: 2})
	diff(t, any(bson.A{bson.D{{Key: "at", Value: date(at(1, 0, 0))}, {Key: "price", Value: 2.0}, {Key: "tags", Value: bson.A{}}}}),
		testkit.Stored[bson.M](t, db.Collection("c"))[0]["measurements"])
	diff(t, []trade{{at(1, 0, 0), 2, []string{}}}, testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	s := newSlots[string, trade](t, db.Collection("s"), timeseries.Days(nil), &slots.Options{BSON: o})
	must(t, s.Set(t.Context(), "s", at(1, 0, 0), trade{At: day, Price: 3}))
	testkit.Gives(t, trade{day, 3, []string{}})(s.Get(t.Context(), "s", at(1, 0, 0)))
}

// The user's registry encodes, and the client's decodes.
func TestRegistries(t *testing.T) {
	t.Parallel()
	registry := bson.NewRegistry()
	kind := reflect.TypeFor[celsius]()
	registry.RegisterTypeEncoder(kind, bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteInt64(int64(v.Float() * 10))
	}))
	registry.RegisterTypeDecoder(kind, bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		n, err := r.ReadInt64()
		v.SetFloat(float64(n) / 10)
		return err
	}))
	db := mongotest.Database(t, options.Client().SetRegistry(registry))
	b := newBuckets[string, coded](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{
		Registry: registry, Values: []timeseries.Value{{Field: "t", Sum: "sum"}},
	})
	mustAppend(t, b, "s", coded{at(1, 0, 0), 21.5}, coded{at(1, 1, 0), 22})
	diff(t, []coded{{at(1, 0, 0), 21.5}, {at(1, 1, 0), 22}}, testkit.Collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	if latest, err := b.Latest(t.Context(), "s"); err != nil || latest.T != 22 {
		t.Errorf("%v, %v", latest, err)
	}
	if docs := testkit.Stored[bson.M](t, db.Collection("c")); docs[0]["sum"] != int64(435) {
		t.Errorf("%v", docs[0])
	}
	slots := newSlots[string, celsius](t, db.Collection("s"), timeseries.Days(nil), &slots.Options{Registry: registry})
	must(t, slots.Set(t.Context(), "s", at(1, 0, 0), 19.5))
	testkit.Gives(t, celsius(19.5))(slots.Get(t.Context(), "s", at(1, 0, 0)))
	if got := testkit.Collect(t, slots.Range(t.Context(), "s", at(1, 0, 0), at(2, 0, 0))); len(got) != 1 || got[0].Value != 19.5 {
		t.Errorf("%v", got)
	}
}

// celsius is stored as text by the user's own codec.
type celsius float64

type coded struct {
	Timestamp time.Time `bson:"timestamp"`
	T         celsius   `bson:"t"`
}
