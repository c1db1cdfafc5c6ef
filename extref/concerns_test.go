package extref

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
)

// Which events are acted upon.
func TestConcerns(t *testing.T) {
	c := &core{
		follow:    []Field{{Path: "name"}, {Path: "address.city"}},
		versioned: true, o: Options{KeyField: "number", VersionField: "version"},
	}
	for path, want := range map[string]bool{
		"name": true, "name.first": true, "name.0": true, "address": true, "address.city": true, "version": true, "number": true,
		"names": false, "nam": false, "address.street": false, "other.name": false, "_id": false, "phone": false,
	} {
		if got := c.concerns(event{Kind: "update", Paths: []string{"other", path}}); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	for kind, want := range map[string]bool{"insert": true, "replace": true, "invalidate": false, "update": false} {
		if got := c.concerns(event{Kind: kind}); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
}

// Which errors Watch waits out, and which are of one source alone.
func TestErrorsOfWatch(t *testing.T) {
	for _, try := range []struct {
		err                 error
		interrupted, failed bool
	}{
		{fmt.Errorf("x: %w", mongopatterns.ErrInvalid), false, true},
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
