package testkit

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// D returns the document of these keys and values: D("_id", 1, "name", "Ann").
func D(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// Get returns the value of a field, or nil.
func Get(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// SortFields sorts the fields of doc by their names.
func SortFields(doc bson.D) {
	slices.SortFunc(doc, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
}

// Raw returns the BSON of v.
func Raw(t testing.TB, v any) bson.Raw {
	t.Helper()
	return Value[[]byte](t)(bson.Marshal(v))
}

// Number is stored by Registry as a string, 7 as "#7".
type Number int

// Registry returns a registry that has its own encoding of Number.
func Registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[Number](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			return w.WriteString("#" + strconv.FormatInt(v.Int(), 10))
		}))
	r.RegisterTypeDecoder(reflect.TypeFor[Number](), bson.ValueDecoderFunc(
		func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
			text, err := r.ReadString()
			if err != nil {
				return err
			}
			var n int64
			n, err = strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
			v.SetInt(n)
			return err
		}))
	return r
}
