package extref

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

// Which errors are about one source, so that Watch may go on without it.
func TestFailed(t *testing.T) {
	for _, try := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("x: %w", ErrInvalid), true},
		{fmt.Errorf("x: %w", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}}), true},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, false},
		{mongo.CommandError{Code: 13}, false},
		{mongo.CommandError{Code: 6, Labels: []string{"NetworkError"}}, false},
		{context.DeadlineExceeded, false},
	} {
		w := &watcher[int, bson.D]{o: WatchOptions{Failed: func(*SourceError) error { return nil }}}
		if got := w.failed(&SourceError{Err: try.err}) == nil; got != try.want {
			t.Errorf("%v: %t", try.err, got)
		}
		w.o.Failed = nil
		if err := w.failed(&SourceError{Err: try.err}); err == nil {
			t.Errorf("%v: passed over", try.err)
		}
	}
}
