package codec

import (
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func collectionOf(t *testing.T, o *options.BSONOptions) *mongo.Collection {
	t.Helper()
	opts := options.Client().ApplyURI("mongodb://127.0.0.1:1")
	if o != nil {
		opts.SetBSONOptions(o)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
	return client.Database("db").Collection("c")
}

// Each BSON option of a client is found, alone and beside the others, without a server.
func TestClientOptions(t *testing.T) {
	every := reflect.New(reflect.TypeFor[options.BSONOptions]()).Elem()
	for i := range every.NumField() {
		one := new(options.BSONOptions)
		name := every.Type().Field(i).Name
		reflect.ValueOf(one).Elem().Field(i).SetBool(true)
		if name != "DefaultDocumentMap" { // which DefaultDocumentM is instead of
			every.Field(i).SetBool(true)
		}
		if got := New(collectionOf(t, one), nil, nil).BSON; got == nil || *got != *one {
			t.Errorf("%s: %+v", name, got)
		}
	}
	all := every.Interface().(options.BSONOptions)
	if got := New(collectionOf(t, &all), nil, nil).BSON; got == nil || *got != all {
		t.Errorf("all: %+v", got)
	}
	if got := New(collectionOf(t, nil), nil, nil); got != (Codec{}) {
		t.Errorf("none: %+v", got)
	}
	if got := New(collectionOf(t, &options.BSONOptions{}), nil, nil); got != (Codec{}) {
		t.Errorf("no option set: %+v", got)
	}
	own, registry := &options.BSONOptions{NilMapAsEmpty: true}, bson.NewRegistry()
	if got := New(collectionOf(t, &all), registry, own); got != (Codec{registry, own}) {
		t.Errorf("own: %+v", got)
	}
}

func BenchmarkOf(b *testing.B) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		b.Fatal(err)
	}
	coll := client.Database("db").Collection("c")
	for b.Loop() {
		New(coll, nil, nil)
	}
}

// Another version of the driver may decode no _id before it sends. Then the options are not found, and still nothing is
// sent.
func TestAskingSendsNothing(t *testing.T) {
	defer func(was *bson.Registry) { asking = was }(asking)
	asking = bson.NewRegistry()
	coll := mongotest.Database(t).Collection("c")
	if sent := mongotest.Record(t, coll.Database(), func() { client(coll) }); len(sent) > 0 {
		t.Errorf("sent %v", sent.Names())
	}
}
