package attribute_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// sku is a type that only the client's registry can encode.
type sku struct{ major, minor int32 }

func skuRegistry() *bson.Registry {
	registry := bson.NewRegistry()
	kind := reflect.TypeFor[sku]()
	registry.RegisterTypeEncoder(kind, bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		s := v.Interface().(sku)
		return w.WriteString(fmt.Sprintf("%d/%d", s.major, s.minor))
	}))
	registry.RegisterTypeDecoder(kind, bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		text, err := r.ReadString()
		if err != nil {
			return err
		}
		var s sku
		_, err = fmt.Sscanf(text, "%d/%d", &s.major, &s.minor)
		v.Set(reflect.ValueOf(s))
		return err
	}))
	// A text that the client stores as a pattern, and one it stores as a document.
	registry.RegisterTypeEncoder(reflect.TypeFor[pattern](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteRegex(v.String(), "")
	}))
	registry.RegisterTypeEncoder(reflect.TypeFor[operator](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		doc, err := w.WriteDocument()
		if err != nil {
			return err
		}
		value, err := doc.WriteDocumentElement("$gte")
		if err != nil {
			return err
		}
		if err := value.WriteString(v.String()); err != nil {
			return err
		}
		return doc.WriteDocumentEnd()
	}))
	registry.RegisterTypeEncoder(reflect.TypeFor[signal](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, _ reflect.Value) error {
		return w.WriteString("signal")
	}))
	return registry
}

type (
	pattern  string
	operator string
	signal   chan int // only the client's registry can encode it
)

// IDs and values go through the client's registry everywhere.
func TestClientRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRegistry(skuRegistry()))
	coll := db.Collection("c")
	ctx := t.Context()
	a := newAttributes[sku, sku](t, coll, nil)
	id := sku{1, 2}
	insert(t, coll, d("_id", id))
	must(t, a.Set(ctx, id, attribute.Named("part"), sku{3, 4}))
	must(t, a.Add(ctx, id, attribute.Named("other"), sku{5, 6}))
	want(t, testkit.One[bson.D](t, coll, "1/2"), d("_id", "1/2", "attributes", bson.A{e("part", "3/4"), e("other", "5/6")}))
	value, err := a.Get(ctx, id, attribute.Named("part"))
	must(t, err)
	same(t, value, sku{3, 4})
	all, err := a.GetAll(ctx, id)
	must(t, err)
	same(t, all[1].Value, sku{5, 6})
	for v, err := range a.Values(ctx, a.Filter(a.Equals(attribute.Named("part"), sku{3, 4}), a.In(attribute.Named("other"), []sku{{5, 6}})), attribute.Named("part")) {
		must(t, err)
		same(t, v, attribute.Value[sku, sku]{ID: id, Value: sku{3, 4}})
	}
	facets, err := a.Facets(ctx, nil, nil)
	must(t, err)
	same(t, facets[1].Values[0], attribute.FacetValue[sku]{Value: sku{3, 4}, Count: 1})
	elements, err := a.Elements(attribute.Attribute[sku]{Key: "x", Value: id})
	must(t, err)
	insert(t, coll, d("_id", 2, "attributes", elements))
	want(t, testkit.One[bson.D](t, coll, 2), d("_id", int32(2), "attributes", bson.A{e("x", "1/2")}))
	signals := attribute.As[any](a)
	elements, err = signals.Elements(attribute.Attribute[any]{Key: "x", Value: signal(nil)})
	must(t, err)
	insert(t, coll, d("_id", 3, "attributes", elements))
	want(t, testkit.One[bson.D](t, coll, 3), d("_id", int32(3), "attributes", bson.A{e("x", "signal")}))
	err = signals.SetAll(ctx, id, attribute.Attribute[any]{Key: "x", Value: signal(nil)}, attribute.Attribute[any]{Key: "bad", Value: make(chan bool)})
	if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `key "bad"`) {
		t.Error(err)
	}
	for err, id := range map[error]string{
		a.Set(ctx, sku{7, 8}, attribute.Named("x"), id):                                                      "{7 8}",
		errOf(newAttributes[signal, any](t, db.Collection("none"), nil).Get(ctx, nil, attribute.Named("x"))): "<nil>",
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || !strings.Contains(err.Error(), ": _id "+id+": ") {
			t.Error(err)
		}
	}
}

// With a scope they go through it as well.
func TestClientRegistryInAScope(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t, options.Client().SetRegistry(skuRegistry())).Collection("c")
	ctx, id := t.Context(), sku{1, 2}
	a := newAttributes[sku, any](t, coll, &attribute.Options{Scope: d("tenant", "a")})
	insert(t, coll, d("_id", id, "tenant", "a"))
	must(t, a.Set(ctx, id, attribute.Named("part"), sku{3, 4}))
	want(t, testkit.One[bson.D](t, coll, "1/2"), d("_id", "1/2", "tenant", "a", "attributes", bson.A{e("part", "3/4")}))
	err := a.Set(ctx, id, attribute.Named("bad"), make(chan bool))
	if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `key "bad"`) {
		t.Error(err)
	}
}

// A value is data in every filter, whatever the client's registry encodes it as.
func TestClientRegistryFilters(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t, options.Client().SetRegistry(skuRegistry())).Collection("c")
	ctx := t.Context()
	insert(t, coll, d("_id", "a", "attributes", bson.A{e("k", "a")}),
		d("_id", "b", "attributes", bson.A{e("k", bson.Regex{Pattern: "a"})}), d("_id", "c", "attributes", bson.A{e("k", d("$gte", "a"))}))
	found := func(filter bson.D) (out []string) {
		t.Helper()
		must(t, coll.Distinct(ctx, "_id", filter).Decode(&out))
		return out
	}
	patterns := newAttributes[pattern, pattern](t, coll, nil)
	want(t, found(patterns.Filter(patterns.Equals(attribute.Named("k"), "a"))), []string{"b"})
	want(t, found(patterns.Filter(patterns.In(attribute.Named("k"), []pattern{"a"}))), []string{"b"})
	want(t, found(patterns.Filter(patterns.HoldsAll(attribute.Named("k"), []pattern{"a"}))), []string{"b"})
	operators := newAttributes[operator, operator](t, coll, nil)
	want(t, found(operators.Filter(operators.Equals(attribute.Named("k"), "a"))), []string{"c"})
	want(t, found(operators.Filter(operators.In(attribute.Named("k"), []operator{"a"}))), []string{"c"})
	testkit.Is(t, patterns.Set(ctx, "a", attribute.Named("k"), "b"), mongopatterns.ErrNotFound)
	testkit.Is(t, operators.Set(ctx, "a", attribute.Named("k"), "b"), mongopatterns.ErrNotFound)
	testkit.Is(t, errOf(operators.GetAll(ctx, "a")), mongopatterns.ErrNotFound)
}

func same[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%v, want %v", got, want)
	}
}
