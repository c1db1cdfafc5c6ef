package failover_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// As docs/settings.md says: on secondaries that apply nothing, a read is older than the write before it. In a session it waits.
func TestOwnWritesOnASecondary(t *testing.T) {
	t.Parallel()
	set := mongotest.ReplicaSet(t, 3)
	db := set.Database(t, options.Client().SetReadPreference(readpref.Secondary()).SetWriteConcern(writeconcern.W1()))
	coll := db.Collection("films")
	everywhere := db.Collection("films", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: 3}))
	testkit.Value[*mongo.InsertOneResult](t)(everywhere.InsertOne(t.Context(), testkit.D("_id", 1, "attributes", bson.A{testkit.D("k", "stars", "v", 3)})))
	films := testkit.Must(attribute.New[int, int](coll, nil))
	stars := func(ctx context.Context) (n int, err error) { return films.Get(ctx, 1, attribute.Named("stars")) }

	primary := testkit.Value[*mongotest.Member](t)(set.Primary(t.Context()))
	var resume []func()
	for _, m := range set.Members() {
		if m.URI != primary.URI {
			resume = append(resume, applyNothing(t, m.URI))
		}
	}
	testkit.OK(t, db.Client().UseSession(t.Context(), func(ctx context.Context) error {
		testkit.OK(t, films.Set(ctx, 1, attribute.Named("stars"), 5))
		if n, err := stars(t.Context()); n != 3 || err != nil {
			t.Errorf("without the session: %d, %v", n, err)
		}
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if n, err := stars(short); err == nil {
			t.Errorf("in the session: %d", n)
		}
		for _, resume := range resume {
			resume()
		}
		if n, err := stars(ctx); n != 5 || err != nil {
			t.Errorf("in the session, later: %d, %v", n, err)
		}
		return nil
	}))
}

// applyNothing makes a secondary apply nothing until resume is called.
func applyNothing(t *testing.T, uri string) (resume func()) {
	const point = "rsSyncApplyStop"
	member := testkit.Value[*mongo.Client](t)(mongo.Connect(options.Client().ApplyURI(uri)))
	t.Cleanup(func() { _ = member.Disconnect(context.Background()) })
	var was struct{ Count int }
	admin := member.Database("admin")
	testkit.OK(t, admin.RunCommand(t.Context(), testkit.D("configureFailPoint", point, "mode", "alwaysOn")).Decode(&was))
	testkit.OK(t, admin.RunCommand(t.Context(), testkit.D("waitForFailPoint", point, "timesEntered", was.Count+1, "maxTimeMS", 60_000)).Err())
	return func() {
		testkit.OK(t, admin.RunCommand(t.Context(), testkit.D("configureFailPoint", point, "mode", "off")).Err())
	}
}
