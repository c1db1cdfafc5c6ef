package codec_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

type (
	Inner struct {
		A int
		B string `bson:"deep,omitempty"`
	}
	outer struct {
		ID       int `bson:"_id"`
		Name     string
		Zero     float64 `bson:",omitempty"`
		Pointer  *int    `bson:"pointer,omitempty"`
		At       time.Time
		Some     time.Time `bson:"some,omitempty"`
		Below    Inner
		Inner    `bson:",inline"`
		Skipped  int `bson:"-"`
		Dash     int `bson:"-,"`
		hidden   int
		JSON     int `json:"json"`
		Document bson.D
	}
	more struct {
		Inner  `bson:"inner"`
		Others map[string]any `bson:",inline"`
	}
	ambiguous struct {
		A int
		B int `bson:"a"`
	}
	shadowing struct {
		Inner `bson:",inline"`
		A     string
	}
	own   struct{ A int }
	owner struct{ Own own }
)

type zero struct{}

func (zero) MarshalBSONValue() (byte, []byte, error) {
	return byte(bson.TypeInt32), make([]byte, 4), nil
}

func (own) MarshalBSON() ([]byte, error) { return bson.Marshal(bson.D{}) }

// What is read of a struct type is what the driver stores of its values.
func TestStruct(t *testing.T) {
	n := 1
	for _, v := range []any{
		outer{ID: 1, Name: "x", Zero: 1, Pointer: &n, At: time.Now(), Some: time.Now(), Below: Inner{1, "x"}, Inner: Inner{1, "x"}, Document: bson.D{}, hidden: 1},
		&more{}, shadowing{Inner: Inner{1, "x"}}, struct{}{},
	} {
		for _, c := range []codec.Codec{{}, {BSON: &options.BSONOptions{UseJSONStructTags: true}}} {
			raw, err := c.Document(v)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			elements, _ := raw.Elements()
			for _, e := range elements {
				want = append(want, e.Key())
			}
			got, all := c.Fields(reflect.TypeOf(v))
			slices.Sort(got)
			slices.Sort(want)
			if _, open := v.(*more); !slices.Equal(got, want) || all == open {
				t.Errorf("%T: %v, all %v, the driver writes %v", v, got, all, want)
			}
		}
	}
	for _, v := range []any{1, bson.D{}, time.Time{}, own{}, &own{}, ambiguous{}, bson.ObjectID{}} {
		if s := (codec.Codec{}).Struct(reflect.TypeOf(v)); s != nil {
			t.Errorf("%T: %+v", v, s)
		}
	}
	if s := (codec.Codec{Registry: bson.NewRegistry()}).Struct(reflect.TypeFor[outer]()); s == nil {
		t.Error("a registry without codecs of its own hides the fields")
	}
}

func TestLacks(t *testing.T) {
	got := map[string]bool{}
	for _, path := range []string{"_id", "name", "id", "a", "deep", "below", "below.a", "below.c", "below.deep.x", "at.x", "document.x", "skipped", "-", "hidden", "json"} {
		got[path] = (codec.Codec{}).Lacks(reflect.TypeFor[*outer](), path)
	}
	want := map[string]bool{"_id": false, "name": false, "id": true, "a": false, "deep": false, "below": false, "below.a": false, "below.c": true, "below.deep.x": false,
		"at.x": false, "document.x": false, "skipped": true, "-": false, "hidden": true, "json": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct {
		t    reflect.Type
		path string
	}{{reflect.TypeFor[more](), "anything"}, {reflect.TypeFor[bson.M](), "x"}, {reflect.TypeFor[owner](), "own.b"}} {
		if (codec.Codec{}).Lacks(test.t, test.path) {
			t.Errorf("%v has no %q", test.t, test.path)
		}
	}
}

func TestCheckKept(t *testing.T) {
	for path, refused := range map[string]bool{"": false, "name": false, "zero": true, "pointer": false, "some": true, "below.a": false, "below.deep": true, "deep": true, "unknown": false} {
		if err := (codec.Codec{}).CheckKept(reflect.TypeFor[outer](), "path", path); errors.Is(err, fault.ErrInvalid) != refused {
			t.Errorf("%q: %v", path, err)
		}
	}
	all := codec.Codec{BSON: &options.BSONOptions{OmitEmpty: true}}
	for path, refused := range map[string]bool{"name": true, "pointer": false, "at": true, "below": false} {
		err := all.CheckKept(reflect.TypeFor[outer](), "path", path)
		if errors.Is(err, fault.ErrInvalid) != refused || refused && !strings.Contains(err.Error(), "OmitEmpty") {
			t.Errorf("OmitEmpty, %q: %v", path, err)
		}
	}
}

// CheckKept refuses exactly the fields that the driver leaves out for a zero, also one behind a pointer. The zero time
// and the zero ObjectID behind a pointer are no values.
func TestCheckKeptAsTheDriver(t *testing.T) {
	type inner struct{ A int }
	type named interface{}
	zeros := struct {
		Number  int                 `bson:"number,omitempty"`
		Decimal bson.Decimal128     `bson:"decimal,omitempty"`
		Time    time.Time           `bson:"time,omitempty"`
		Struct  inner               `bson:"struct,omitempty"`
		Any     any                 `bson:"any,omitempty"`
		Named   named               `bson:"named,omitempty"`
		Methods fmt.Stringer        `bson:"methods,omitempty"`
		Encoded bson.ValueMarshaler `bson:"encoded,omitempty"`
		P       *int                `bson:"p,omitempty"`
		PStruct *inner              `bson:"pstruct,omitempty"`
		PPrice  *bson.Decimal128    `bson:"pprice,omitempty"`
		UUID    [16]byte            `bson:"uuid,omitempty"`
		None    [0]byte             `bson:"none,omitempty"`
		ID      bson.ObjectID       `bson:"id,omitempty"`
		Plain   inner
	}{Any: bson.Decimal128{}, Named: 0, Methods: bson.Decimal128{}, Encoded: zero{}, P: new(int), PStruct: new(inner), PPrice: new(bson.Decimal128)}
	for _, c := range []codec.Codec{{}, {BSON: &options.BSONOptions{OmitZeroStruct: true}}, {BSON: &options.BSONOptions{OmitEmpty: true}},
		{BSON: &options.BSONOptions{OmitEmpty: true, OmitZeroStruct: true}}} {
		raw, err := c.Document(zeros)
		if err != nil {
			t.Fatal(err)
		}
		names, _ := c.Fields(reflect.TypeOf(zeros))
		for _, name := range append(names, "struct.a", "pstruct.a", "plain.a") {
			err := c.CheckKept(reflect.TypeOf(zeros), "path", name)
			if stored := raw.Lookup(strings.Split(name, ".")...).Type != 0; stored != (err == nil) {
				t.Errorf("%q with %+v: stored %v, but %v", name, c.BSON, stored, err)
			}
		}
		type none struct {
			At *time.Time     `bson:"at,omitempty"`
			ID *bson.ObjectID `bson:"id,omitempty"`
		}
		if err := c.CheckKept(reflect.TypeFor[none](), "path", "at", "path", "id"); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckMore(t *testing.T) {
	type texts struct {
		Others map[string]string `bson:",inline"`
	}
	type raws struct {
		Others map[string]bson.RawValue `bson:",inline"`
	}
	for typ, refused := range map[reflect.Type]bool{reflect.TypeFor[texts](): true, reflect.TypeFor[*texts](): true, reflect.TypeFor[raws](): false, reflect.TypeFor[more](): false} {
		if err := (codec.Codec{}).CheckExtended("T", typ); errors.Is(err, fault.ErrInvalid) != refused {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestOrdered(t *testing.T) {
	type deep struct {
		Any  any
		Map  map[string]int `bson:",omitempty"`
		Skip map[string]int `bson:"-"`
	}
	two := map[string]int{"a": 1, "b": 2}
	for _, test := range []struct {
		v       any
		refused bool
	}{
		{nil, false}, {1, false}, {bson.M{}, false}, {bson.M{"a": 1}, false}, {bson.M{"a": 1, "b": 1}, true}, {two, true},
		{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}, false}, {bson.D{{Key: "a", Value: two}}, true}, {bson.A{1, two}, true},
		{deep{}, false}, {deep{Map: two}, true}, {&deep{Any: two}, true}, {deep{Skip: two}, false}, {(*deep)(nil), false},
		{bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}, false}, {own{1}, false}, {time.Now(), false}, {map[int]any{1: two}, true},
	} {
		if err := codec.Ordered(test.v); errors.Is(err, fault.ErrInvalid) != test.refused {
			t.Errorf("%#v: %v", test.v, err)
		}
		if _, err := (codec.Codec{}).Compared(test.v); errors.Is(err, fault.ErrInvalid) != test.refused {
			t.Errorf("compared %#v: %v", test.v, err)
		}
		for _, v := range documents(test.v) {
			if _, err := (codec.Codec{}).Stored(v); errors.Is(err, fault.ErrInvalid) != test.refused {
				t.Errorf("_id of %T is %#v: %v", v, test.v, err)
			}
			for path, v := range map[string]any{
				"a._id":   bson.D{{Key: "a", Value: [1]any{v}}},
				"a.b._id": bson.D{{Key: "a", Value: bson.A{1, bson.M{"b": v}}}},
				"a.0._id": bson.D{{Key: "a", Value: []any{v}}},
			} {
				if _, err := (codec.Codec{}).Stored(v, path); errors.Is(err, fault.ErrInvalid) != test.refused {
					t.Errorf("%q of %#v: %v", path, v, err)
				}
			}
		}
	}
	if err := errors.Join(codec.CheckOrder[any]("ID"), codec.CheckOrder[bson.D]("ID"), codec.CheckOrder[own]("ID"), codec.CheckOrder[bson.Raw]("ID")); err != nil {
		t.Error(err)
	}
	for _, err := range []error{codec.CheckOrder[bson.M]("ID"), codec.CheckOrder[*deep]("ID"), codec.CheckOrder[[]map[int]int]("ID")} {
		if !errors.Is(err, fault.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Maps in a filter and a pipeline are taken where their order means nothing.
func TestOrderedIn(t *testing.T) {
	two, operators := bson.M{"a": 1, "b": 2}, bson.M{"$gt": 1, "$lt": 5}
	for stage, tests := range map[string][]struct {
		v       any
		refused bool
	}{
		"$match": {
			{nil, false}, {two, false}, {&two, false}, {bson.M{"a": operators, "b": 1}, false}, {bson.D{{Key: "a", Value: operators}}, false},
			{bson.D{{Key: "$or", Value: []bson.M{two}}}, false}, {struct{ A, B int }{}, false},
			{bson.M{"a": two}, true}, {bson.D{{Key: "a", Value: bson.M{"$in": []any{two}}}}, true}, {struct{ A bson.M }{two}, true},
		},
		"": {
			{mongo.Pipeline{{{Key: "$match", Value: two}}, {{Key: "$group", Value: bson.M{"_id": "$a", "n": bson.M{"$sum": 1}}}}}, false},
			{mongo.Pipeline{{{Key: "$lookup", Value: bson.D{{Key: "pipeline", Value: mongo.Pipeline{{{Key: "$set", Value: &two}}}}}}}}, false},
			{mongo.Pipeline{{{Key: "$lookup", Value: bson.M{"from": "c", "as": "c", "pipeline": mongo.Pipeline{{{Key: "$unwind", Value: bson.M{"path": "$a", "includeArrayIndex": "i"}}}}}}}}, false},
			{mongo.Pipeline{{{Key: "$set", Value: bson.M{"a": bson.M{"$cond": bson.M{"if": true, "then": "$b", "else": "$c"}}}}}}, false},
			{mongo.Pipeline{{{Key: "$set", Value: bson.M{"a": bson.M{"$sortArray": bson.M{"input": "$b", "sortBy": bson.M{"c": 1}}}}}}}, false},
			{mongo.Pipeline{{{Key: "$set", Value: bson.M{"a": bson.M{"$sortArray": bson.M{"input": "$b", "sortBy": two}}}}}}, true},
			{mongo.Pipeline{{{Key: "$sort", Value: two}}}, true},
			{mongo.Pipeline{{{Key: "$group", Value: bson.M{"_id": two, "n": 1}}}}, true},
			{mongo.Pipeline{{{Key: "$set", Value: bson.D{{Key: "a", Value: named{{Key: "b", Value: two}}}}}}}, true},
		},
	} {
		for _, test := range tests {
			if err := codec.OrderedIn(stage, test.v); errors.Is(err, fault.ErrInvalid) != test.refused {
				t.Errorf("%s %v: %v", stage, test.v, err)
			}
		}
	}
}

type (
	named   []bson.E
	text    string
	spelled int
	inlined struct {
		Others map[string]any `bson:",inline"`
	}
)

func (text) String() string                  { return "other" }
func (spelled) MarshalText() ([]byte, error) { return []byte("_id"), nil }

// documents returns documents of each kind with this _id.
func documents(id any) []any {
	doc := struct {
		ID any `bson:"_id"`
	}{id}
	id = &doc.ID
	return []any{doc, &doc, bson.D{{Key: "_id", Value: id}}, bson.M{"_id": id, "x": bson.M{"a": 1, "b": 2}}, inlined{map[string]any{"_id": id}},
		named{{Key: "_id", Value: id}}, map[text]any{"_id": id}, map[spelled]any{1: id}}
}
