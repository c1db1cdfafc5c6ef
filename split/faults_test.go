package split_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/split"
)

// A server that takes no writes of users, as while mongosync ends a migration, refuses no document for good: Adopt
// ends with its error, and the next run does all.
func TestAdoptWhileWritesAreBlocked(t *testing.T) {
	t.Parallel()
	server := testkit.Authenticate(t)
	server.User(t, "app", "readWrite", "cinema")
	db := server.As(t, "app").Database("cinema")
	s, err := split.New[int, bson.D, bson.D](db.Collection("movies"), db.Collection("movie_details"), &split.Options{ColdFields: coldFields})
	must(t, err)
	for i := range 10 {
		testkit.Insert(t, db.Collection("movies"), whole(i))
	}
	must(t, db.CreateCollection(t.Context(), "movie_details"))
	block := func(global bool) {
		must(t, server.Root.Database("admin").RunCommand(t.Context(), d("setUserWriteBlockMode", 1, "global", global)).Err())
	}
	block(true)
	result, err := s.Adopt(t.Context(), nil)
	var refused mongo.ServerError
	if !errors.As(err, &refused) || !refused.HasErrorCode(371) || result.Failed > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	block(false)
	testkit.Done(t, 10)(s.Adopt(t.Context(), nil))
}
