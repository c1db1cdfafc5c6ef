package extref

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Which events are acted upon, whatever form an update takes in them.
func TestConcerns(t *testing.T) {
	w := &watcher[int, bson.D]{Ref: &Ref[int, bson.D]{
		follow:    []Field{{Path: "name"}, {Path: "address.city"}},
		versioned: true, opts: Options{VersionField: "version"},
	}}
	update := func(field string, value any) bson.D {
		return bson.D{{Key: "operationType", Value: "update"}, {Key: "updateDescription", Value: bson.D{{Key: field, Value: value}}}}
	}
	updated := func(path string) bson.D { return update("updatedFields", bson.D{{Key: path, Value: 1}}) }
	removed := func(path string) bson.D { return update("removedFields", bson.A{path}) }
	truncated := func(path string) bson.D {
		return update("truncatedArrays", bson.A{bson.D{{Key: "field", Value: path}, {Key: "newSize", Value: 1}}})
	}
	for _, try := range []struct {
		event bson.D
		want  bool
	}{
		{updated("name"), true}, {updated("name.first"), true}, {updated("name.0"), true}, {updated("address"), true},
		{updated("address.city"), true}, {updated("version"), true},
		{updated("names"), false}, {updated("nam"), false}, {updated("address.street"), false}, {updated("other.name"), false},
		{updated("version.x"), false}, {updated("_id"), false},
		{removed("name"), true}, {removed("address"), true}, {removed("address.city"), true}, {removed("version"), true},
		{removed("phone"), false}, {removed("address.street"), false},
		{truncated("name"), true}, {truncated("tags"), false},
		{bson.D{{Key: "operationType", Value: "replace"}}, true},
		{bson.D{{Key: "operationType", Value: "invalidate"}}, false},
		{bson.D{{Key: "operationType", Value: "update"}}, false},
	} {
		event, err := bson.Marshal(try.event)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.concerns(event); got != try.want {
			t.Errorf("%v: %t", try.event, got)
		}
	}
}
