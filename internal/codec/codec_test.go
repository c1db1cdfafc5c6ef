package codec_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

type celsius float64

// registry writes celsius as text and reads it as 1.
func registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[celsius](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, _ reflect.Value) error { return w.WriteString("warm") }))
	r.RegisterTypeDecoder(reflect.TypeFor[celsius](), bson.ValueDecoderFunc(
		func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error { v.SetFloat(1); return r.Skip() }))
	return r
}

func TestRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		codec codec.Codec
		want  any
		back  celsius
	}{"default": {codec.Codec{}, 20.5, 20.5}, "own": {codec.Codec{Registry: registry()}, "warm", 1}} {
		v, err := test.codec.Value(celsius(20.5))
		if err != nil {
			t.Fatal(err)
		}
		document, err := test.codec.Document(bson.D{{Key: "t", Value: celsius(20.5)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range []bson.RawValue{v, document.Lookup("t")} {
			var got any
			if err := raw.Unmarshal(&got); err != nil || got != test.want {
				t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
			}
		}
		if back, err := codec.DecodeValue[celsius](test.codec, v); err != nil || back != test.back {
			t.Errorf("%s: read %v, %v", name, back, err)
		}
	}
}

// A value that is encoded and decoded without the driver is as the driver encodes and decodes it.
func TestPlain(t *testing.T) {
	type name string
	for _, v := range []any{"", "a\x00é\xff", name("a"), bson.ObjectID{1, 2}, 0, -1, math.MaxInt32, int64(math.MaxInt32 + 1), math.MinInt32, int64(math.MinInt32 - 1),
		int32(7), int64(7), int64(math.MinInt64), 1.5, true, nil} {
		want, err := bson.Marshal(bson.D{{Key: "v", Value: v}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (codec.Codec{}).Value(v); err != nil || !got.Equal(bson.Raw(want).Lookup("v")) {
			t.Errorf("%v: %v, %v; want %v", v, got, err, bson.Raw(want).Lookup("v"))
		}
		decode[string](t, bson.Raw(want).Lookup("v"))
		decode[bson.ObjectID](t, bson.Raw(want).Lookup("v"))
		decode[int](t, bson.Raw(want).Lookup("v"))
		decode[int32](t, bson.Raw(want).Lookup("v"))
		decode[int64](t, bson.Raw(want).Lookup("v"))
		decode[name](t, bson.Raw(want).Lookup("v"))
		decode[any](t, bson.Raw(want).Lookup("v"))
	}
	// The room is used, and what does not fit into it has its own.
	room := make([]byte, 4, 8)
	for v, inside := range map[any]bool{int32(1): true, int64(1): false, "abcd": false} {
		if got, ok := (codec.Codec{}).Plain(room, v); !ok || (&got.Value[0] == &room[:8][4]) != inside || cap(got.Value) != len(got.Value) {
			t.Errorf("%v: %v", v, got)
		}
	}
}

func decode[T any](t *testing.T, v bson.RawValue) {
	t.Helper()
	var want T
	wrong := v.Unmarshal(&want)
	if got, err := codec.DecodeValue[T](codec.Codec{}, v); (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%v into %T: %v, %v; want %v, %v", v, want, got, err, want, wrong)
	}
}

func TestBSONOptions(t *testing.T) {
	type doc struct {
		Tags []string `json:"labels"`
	}
	for name, test := range map[string]struct {
		opts  *options.BSONOptions
		field string
		want  bson.Type
	}{
		"none":              {nil, "tags", bson.TypeNull},
		"UseJSONStructTags": {&options.BSONOptions{UseJSONStructTags: true}, "labels", bson.TypeNull},
		"NilSliceAsEmpty":   {&options.BSONOptions{NilSliceAsEmpty: true}, "tags", bson.TypeArray},
	} {
		c := codec.Codec{BSON: test.opts}
		raw, err := c.Document(doc{})
		if err != nil {
			t.Fatal(err)
		}
		if got := raw.Lookup(test.field).Type; got != test.want {
			t.Errorf("%s: %v", name, raw)
		}
		raw, err = c.Document(doc{Tags: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		var back doc
		if err := c.Decode(raw, &back); err != nil || len(back.Tags) != 1 {
			t.Errorf("%s: read %v, %v", name, back, err)
		}
	}
}

func TestWhatIsNoDocument(t *testing.T) {
	raw, err := bson.Marshal(bson.D{{Key: "a", Value: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bson.Raw{raw, append(bson.Raw(raw), 9, 9)} {
		if got, err := (codec.Codec{}).Document(whole); err != nil || string(got) != string(raw) {
			t.Errorf("%v, %v", got, err)
		}
	}
	for _, document := range []any{nil, bson.D(nil), (*struct{ A int })(nil), bson.Raw(raw[:len(raw)-2]), 1} {
		if _, err := (codec.Codec{}).Document(document); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%T: error %v", document, err)
		}
	}
	if empty, err := (codec.Codec{}).Document(bson.M(nil)); err != nil || len(empty) != 5 {
		t.Errorf("nil map: %v, %v", empty, err)
	}
	for _, id := range []any{nil, bson.A{1}, make(chan int)} {
		if _, err := (codec.Codec{}).ID("parent", id); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%v is an _id: %v", id, err)
		}
	}
	if id, err := (codec.Codec{}).ID("parent", "a"); err != nil || id.StringValue() != "a" {
		t.Error(id, err)
	}
	for _, v := range []any{make(chan int), bson.RawValue{Type: bson.TypeInt32}, bson.RawValue{Type: bson.TypeString, Value: []byte{9}}} {
		if _, err := (codec.Codec{}).Value(v); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// A new ObjectID is decoded into a type that encodes it as an ObjectID again. With ObjectIDAsHexString the driver decodes it
// as a string, which would name no document.
func TestDecodeNew(t *testing.T) {
	id := bson.NewObjectID()
	_, data, err := bson.MarshalValue(id)
	if err != nil {
		t.Fatal(err)
	}
	v := bson.RawValue{Type: bson.TypeObjectID, Value: data}
	for _, opts := range []*options.BSONOptions{nil, {ObjectIDAsHexString: true}} {
		c := codec.Codec{BSON: opts}
		if got, err := codec.DecodeNew[bson.ObjectID](c, v, true); err != nil || got != id {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := codec.DecodeNew[any](c, v, true); err != nil || got != id {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := codec.DecodeNew[string](c, v, true); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%v, %v", got, err)
		}
	}
}
