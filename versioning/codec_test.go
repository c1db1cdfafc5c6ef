package versioning_test

import (
	"fmt"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// The client's own options are passed to the package, and used.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type doc struct {
		Key  string   `json:"_id"`
		Tags []string `json:"labels"`
	}
	db := mongotest.Database(t)
	d := helper[string, doc](t, db, &versioning.Options{BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}})
	must[versioning.Revision[doc]](t)(d.Insert(ctx, doc{Key: "a"}, nobody))
	r := must[versioning.Revision[doc]](t)(d.Edit(ctx, "a", func(v *doc) error { v.Tags = append(v.Tags, "x"); return nil }, nobody))
	first := must[bson.Raw](t)(db.Collection("revisions").FindOne(ctx, bson.D{}).Raw())
	if tags, ok := first.Lookup("document", "labels").ArrayOK(); !ok || len(tags) != 5 || r.Number != 2 || r.Document.Key != "a" {
		t.Errorf("%v, %+v", first, r)
	}
}

type celsius float64

// A registry of the user's encodes and decodes everywhere.
func TestRegistry(t *testing.T) {
	t.Parallel()
	registry := bson.NewRegistry()
	registry.RegisterTypeEncoder(reflect.TypeFor[celsius](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteString(fmt.Sprintf("%g °C", v.Float()))
	}))
	registry.RegisterTypeDecoder(reflect.TypeFor[celsius](), bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		s, err := r.ReadString()
		if err != nil {
			return err
		}
		var f float64
		_, err = fmt.Sscanf(s, "%g °C", &f)
		v.SetFloat(f)
		return err
	}))
	type doc struct {
		ID celsius `bson:"_id"`
		T  celsius `bson:"t"`
	}
	db := mongotest.Database(t)
	ctx := t.Context()
	d := helper[celsius, doc](t, db, &versioning.Options{Registry: registry, SnapshotEvery: 2})
	must[versioning.Revision[doc]](t)(d.Insert(ctx, doc{1, 20}, nobody))
	for i := range 4 {
		must[versioning.Revision[doc]](t)(d.Edit(ctx, 1, func(x *doc) error { x.T = celsius(i); return nil }, nobody))
	}
	if r := must[versioning.Revision[doc]](t)(d.At(ctx, 1, 1)); r.Document.T != 20 {
		t.Errorf("%+v", r)
	}
	if r := must[versioning.Revision[doc]](t)(d.Get(ctx, 1)); r.Document.T != 3 || r.Number != 5 {
		t.Errorf("%+v", r)
	}
	if v := testkit.Get(all(t, db.Collection("current"), bson.D{})[0], "_id"); v != "1 °C" {
		t.Errorf("stored %v", v)
	}
	if n := testkit.Count(t, db.Collection("revisions"), bson.D{}); n != 4 {
		t.Errorf("%d revisions", n)
	}
}

// Documents of every make of type are saved, changed and read alike.
func TestTypesOfDocuments(t *testing.T) {
	t.Parallel()
	base := bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}, {Key: "inner", Value: bson.D{{Key: "x", Value: int64(1)}}}}
	testType(t, "raw", testkit.Raw(t, base), func(v *bson.Raw) {
		*v = testkit.Raw(t, bson.D{base[0], {Key: "n", Value: 2}, base[2]})
	})
	testType(t, "map", bson.M{"_id": "a", "n": 1, "inner": bson.M{"x": int64(1)}}, func(v *bson.M) { (*v)["n"] = 2 })
	testType(t, "ordered", base, func(v *bson.D) { (*v)[1].Value = 2 })
	type inner struct {
		X int64 `bson:"x"`
	}
	type Embedded struct {
		N int `bson:"n"`
	}
	type doc struct {
		ID       string `bson:"_id"`
		Embedded `bson:",inline"`
		Inner    *inner `bson:"inner,omitempty"`
	}
	testType(t, "pointer", &doc{ID: "a", Embedded: Embedded{1}, Inner: &inner{1}}, func(v **doc) { (*v).N = 2 })
	testType(t, "struct", doc{ID: "a", Embedded: Embedded{1}, Inner: &inner{1}}, func(v *doc) { v.N = 2 })
}

func testType[T any](t *testing.T, name string, first T, change func(*T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		db := mongotest.Database(t)
		ctx := t.Context()
		d := helper[string, T](t, db, &versioning.Options{SnapshotEvery: 5})
		r := must[versioning.Revision[T]](t)(d.Insert(ctx, first, nobody))
		change(&r.Document)
		if r = must[versioning.Revision[T]](t)(d.Save(ctx, r, nobody)); r.Number != 2 {
			t.Errorf("saved %+v", r)
		}
		if r = must[versioning.Revision[T]](t)(d.Edit(ctx, "a", func(*T) error { return nil }, nobody)); r.Number != 2 {
			t.Errorf("unchanged %+v", r)
		}
		for n, want := range map[int64]int32{1: 1, 2: 2} {
			old := testkit.Raw(t, must[versioning.Revision[T]](t)(d.At(ctx, "a", n)).Document)
			if old.Lookup("n").AsInt64() != int64(want) || old.Lookup("inner", "x").AsInt64() != 1 {
				t.Errorf("revision %d: %v", n, old)
			}
		}
		diff := must[[]versioning.Difference](t)(d.Diff(ctx, "a", 1, 2))
		if len(diff) != 1 || diff[0].Path != "n" {
			t.Errorf("%v", diff)
		}
		testkit.Healthy(t, d)
	})
}
