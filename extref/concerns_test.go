package extref

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Which events are acted upon, whatever form an update takes in them.
func TestConcerns(t *testing.T) {
	w := &core{
		follow:    []Field{{Path: "name"}, {Path: "address.city"}},
		versioned: true, o: Options{KeyField: "number", VersionField: "version"},
	}
	update := func(field string, value any) bson.D {
		return bson.D{{Key: "kind", Value: "update"}, {Key: field, Value: value}}
	}
	updated := func(path string) bson.D { return update("set", bson.D{{Key: path, Value: 1}}) }
	removed := func(path string) bson.D { return update("removed", bson.A{path}) }
	truncated := func(path string) bson.D { return update("truncated", bson.A{path}) }
	for _, try := range []struct {
		event bson.D
		want  bool
	}{
		{updated("name"), true}, {updated("name.first"), true}, {updated("name.0"), true}, {updated("address"), true},
		{updated("address.city"), true}, {updated("version"), true},
		{updated("names"), false}, {updated("nam"), false}, {updated("address.street"), false}, {updated("other.name"), false},
		{updated("_id"), false},
		{removed("name"), true}, {removed("address"), true}, {removed("address.city"), true}, {removed("version"), true},
		{removed("phone"), false}, {removed("address.street"), false},
		{truncated("name"), true}, {truncated("tags"), false},
		{updated("number"), true}, {bson.D{{Key: "kind", Value: "insert"}}, true},
		{bson.D{{Key: "kind", Value: "replace"}}, true},
		{bson.D{{Key: "kind", Value: "invalidate"}}, false},
		{bson.D{{Key: "kind", Value: "update"}}, false},
	} {
		raw, err := bson.Marshal(try.event)
		if err != nil {
			t.Fatal(err)
		}
		var e event
		if err := bson.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		if got := w.concerns(e); got != try.want {
			t.Errorf("%v: %t", try.event, got)
		}
	}
}

// Which errors Watch waits out, and which are of one source alone.
func TestErrorsOfWatch(t *testing.T) {
	for _, try := range []struct {
		err                 error
		interrupted, failed bool
	}{
		{fmt.Errorf("x: %w", fault.ErrInvalid), false, true},
		{mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}}, false, true},
		{mongo.CommandError{Code: 11000}, false, true},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, true, false},
		{mongo.CommandError{Code: 13}, false, false},
		{mongo.CommandError{Code: 11600}, true, false},
		{mongo.CommandError{Code: 10107, Labels: []string{"RetryableWriteError"}}, true, false},
		{mongo.CommandError{Code: 91}, true, false},
		{mongo.CommandError{Code: 6, Labels: []string{"NetworkError"}}, true, false},
		{mongo.CommandError{Code: 112, Labels: []string{"TransientTransactionError"}}, true, false},
		{mongo.CommandError{Code: 286, Labels: []string{"NonResumableChangeStreamError"}}, false, true},
		{errors.New("connection pool was cleared"), true, false},
		{context.DeadlineExceeded, true, false}, // the client's
		{mongo.ErrClientDisconnected, false, false},
	} {
		if got := interrupted(try.err); got != try.interrupted {
			t.Errorf("%v: interrupted %t", try.err, got)
		}
		if got := ofOne(try.err); got != try.failed {
			t.Errorf("%v: failed %t", try.err, got)
		}
	}
}
