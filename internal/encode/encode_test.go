package encode_test

import (
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/encode"
)

type celsius float64

// registry writes celsius as text.
func registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[celsius](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, _ reflect.Value) error { return w.WriteString("warm") }))
	return r
}

func TestRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		registry *bson.Registry
		want     any
	}{"default": {nil, 20.5}, "own": {registry(), "warm"}} {
		value, err := encode.Value(test.registry, celsius(20.5))
		if err != nil {
			t.Fatal(err)
		}
		document, err := encode.Document(test.registry, bson.D{{Key: "t", Value: celsius(20.5)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range []bson.RawValue{value, document.Lookup("t")} {
			var got any
			if err := raw.Unmarshal(&got); err != nil || got != test.want {
				t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
			}
		}
	}
}

func TestRaw(t *testing.T) {
	raw, err := bson.Marshal(bson.D{{Key: "a", Value: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := encode.Document(registry(), bson.Raw(raw)); err != nil || string(got) != string(raw) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := encode.Document(nil, bson.Raw(raw[:len(raw)-2])); err == nil {
		t.Error("a damaged document was taken")
	}
	if _, err := encode.Value(nil, make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

func TestNil(t *testing.T) {
	for _, document := range []any{nil, bson.D(nil), (*struct{ A int })(nil)} {
		if _, err := encode.Document(nil, document); err == nil || err.Error() != "nil document" {
			t.Errorf("%T: error %v", document, err)
		}
	}
	if empty, err := encode.Document(nil, bson.M(nil)); err != nil || len(empty) != 5 {
		t.Errorf("nil map: %v, %v", empty, err)
	}
}
