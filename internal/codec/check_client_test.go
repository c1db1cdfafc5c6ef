package codec

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

type word string

type loud struct{ N int }

func (loud) MarshalBSON() ([]byte, error) { panic("a value that no program makes") }

// Types that no registry changes alone send nothing, and neither does a helper with a registry.
func TestAgreeAsks(t *testing.T) {
	db := mongotest.Database(t)
	coll := scoped.On(db.Collection("c"))
	for _, test := range []struct {
		t    reflect.Type
		asks bool
	}{
		{reflect.TypeFor[int](), false}, {reflect.TypeFor[bson.D](), false}, {reflect.TypeFor[map[string]any](), false},
		{reflect.TypeFor[any](), false}, {reflect.TypeFor[bson.ObjectID](), false},
		{reflect.TypeFor[word](), true}, {reflect.TypeFor[[]*word](), true}, {reflect.TypeFor[map[string]word](), true},
		{reflect.TypeFor[struct{ At time.Time }](), true}, {reflect.TypeFor[struct{ A, B struct{ C word } }](), true},
		{reflect.TypeFor[loud](), false}, // asking for it fails before it is sent
	} {
		cmds := mongotest.Record(t, db, func() { testkit.OK(t, Codec{}.CheckClient(t.Context(), coll, test.t)) })
		if got := len(cmds) > 0; got != test.asks {
			t.Errorf("%v: asks %v", test.t, got)
		}
	}
	if cmds := mongotest.Record(t, db, func() {
		testkit.OK(t, Codec{Registry: bson.NewRegistry()}.CheckClient(t.Context(), coll, reflect.TypeFor[word]()))
	}); len(cmds) > 0 {
		t.Error("asked in spite of a registry")
	}
}

// A registry that refuses what the driver's takes is one of its own.
func TestAgreeRefused(t *testing.T) {
	registry := bson.NewRegistry()
	registry.RegisterTypeEncoder(reflect.TypeFor[word](), bson.ValueEncoderFunc(func(bson.EncodeContext, bson.ValueWriter, reflect.Value) error {
		return errors.New("no such word")
	}))
	coll := scoped.On(mongotest.Database(t, options.Client().SetRegistry(registry)).Collection("c"))
	testkit.Is(t, Codec{}.CheckClient(t.Context(), coll, reflect.TypeFor[word]()), fault.ErrInvalid)
}

type stamped struct{ At time.Time }

func (s stamped) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "at", Value: time.Now().UnixNano()}})
}

type huge struct{ All [1 << 18]word }

// A type that is encoded in another way each time, or in many bytes, is no reason to refuse the client.
func TestAgreeLetsPass(t *testing.T) {
	coll := scoped.On(mongotest.Database(t).Collection("c"))
	testkit.OK(t, Codec{}.CheckClient(t.Context(), coll, reflect.TypeFor[stamped](), reflect.TypeFor[huge]()))
}

// What the client encodes by its BSON options is no difference, and asking for a type does not decide how it is read later.
func TestAgreeByJSONTags(t *testing.T) {
	type tagged struct {
		N int `json:"_id"`
	}
	db := mongotest.Database(t, options.Client().SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}))
	testkit.OK(t, Codec{}.CheckClient(t.Context(), scoped.On(db.Collection("c")), reflect.TypeFor[tagged]()))
	testkit.OK(t, testkit.ErrorOf(db.Collection("c").InsertOne(t.Context(), tagged{7})))
	testkit.Equal(t, testkit.D("_id", int32(7)), testkit.Stored[bson.D](t, db.Collection("c"))[0])
}
