//go:build unix

// Package shards tests what sharded clusters do to documents and transactions.
package shards_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// splitOver creates movies, those with an _id of 20 or more on the second shard, and their details, which
// are on the other shard than the movie.
func splitOver(t *testing.T, cluster *mongotest.Server) (*mongo.Database, *split.Split[int, bson.D, bson.D]) {
	t.Helper()
	db := cluster.Database(t)
	s := testkit.Must(split.New[int, bson.D, bson.D](db.Collection("movies"), db.Collection("details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}}))
	if _, err := mongopatterns.Shard(t.Context(), db, s); err != nil {
		t.Fatal(err)
	}
	key := func(field string, v any) bson.D { return bson.D{{Key: field, Value: v}} }
	err := errors.Join(cluster.Move(t.Context(), db.Collection("movies"), key("_id", 20), key("_id", bson.MaxKey{}), 1),
		cluster.Move(t.Context(), db.Collection("details"), key("movie", bson.MinKey{}), key("movie", 20), 1))
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// An update of one document by an _id that exists on two shards changes both documents: the server keeps
// _id unique only within a shard. docs/scaling.md has the pipeline that finds such documents.
func TestOneIDOnTwoShards(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	coll := cluster.Database(t).Collection("c")
	if err := cluster.Shard(t.Context(), coll, bson.D{{Key: "k", Value: 1}}, bson.D{{Key: "k", Value: 10}}); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}, {Key: "k", Value: 1}}, bson.D{{Key: "_id", Value: 1}, {Key: "k", Value: 11}}, bson.D{{Key: "_id", Value: 2}, {Key: "k", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
	result, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}})
	if err != nil || result.MatchedCount != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	cursor, err := coll.Aggregate(t.Context(), mongo.Pipeline{
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$_id"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		{{Key: "$match", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$gt", Value: 1}}}}}},
	})
	var found []bson.M
	if err == nil {
		err = cursor.All(t.Context(), &found)
	}
	if err != nil || len(found) != 1 || found[0]["_id"] != int32(1) {
		t.Error(found, err)
	}
}

// If a shard, the coordinator or the other, is killed between prepare and commit and restarted on its data,
// it ends the transaction: everything or nothing is done, and an acknowledged commit is done.
func TestKilledBetweenPrepareAndCommit(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	shards := cluster.Shards()
	if len(shards) != 2 {
		t.Skip("the shards of MONGODB_URI cannot be killed")
	}
	for victim, name := range []string{"coordinator", "participant"} {
		t.Run(name, func(t *testing.T) {
			_, s := splitOver(t, cluster) // movie 1 is on the first shard, its details on the second
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if err := s.Insert(ctx, 1, bson.D{{Key: "title", Value: "Dumbo"}}, bson.D{{Key: "plot", Value: "an elephant"}}); err != nil {
				t.Fatal(err)
			}
			coordinator := testkit.Must(mongo.Connect(options.Client().ApplyURI(shards[0].URI)))
			defer func() { _ = coordinator.Disconnect(context.WithoutCancel(ctx)) }()
			const point = "hangBeforeWritingDecision" // all are prepared
			var was struct{ Count int }
			admin := coordinator.Database("admin")
			if err := admin.RunCommand(ctx, bson.D{{Key: "configureFailPoint", Value: point}, {Key: "mode", Value: "alwaysOn"}}).Decode(&was); err != nil {
				t.Fatal(err)
			}
			updated := make(chan error, 1)
			go func() {
				updated <- s.Update(ctx, 1, bson.D{{Key: "$set", Value: bson.D{{Key: "title", Value: "Bambi"}}}}, bson.D{{Key: "$set", Value: bson.D{{Key: "plot", Value: "a deer"}}}})
			}()
			err := admin.RunCommand(ctx, bson.D{{Key: "waitForFailPoint", Value: point}, {Key: "timesEntered", Value: was.Count + 1}}).Err()
			if err == nil {
				err = shards[victim].Restart(ctx) // which kills it
			}
			if err == nil && victim != 0 {
				err = admin.RunCommand(ctx, bson.D{{Key: "configureFailPoint", Value: point}, {Key: "mode", Value: "off"}}).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			err = <-updated
			hot, cold, readErr := s.Get(ctx, 1)
			if readErr != nil {
				t.Fatal(readErr)
			}
			title, plot := hot[0].Value, cold[0].Value
			for _, e := range hot {
				if e.Key == "title" {
					title = e.Value
				}
			}
			for _, e := range cold {
				if e.Key == "plot" {
					plot = e.Value
				}
			}
			done := title == "Bambi"
			if done != (plot == "a deer") || err == nil && !done {
				t.Errorf("%v and %v; Update answered %v", hot, cold, err)
			}
			t.Logf("done: %v; Update answered %v", done, err)
			testkit.Healthy(t, s)
		})
	}
}

// A commit that reaches no router, and whose answer the caller gives up, leaves nothing open: others can write
// the documents at once, on every shard, and not only after the server's transactionLifetimeLimitSeconds.
func TestCommitNotHeard(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	db, s := splitOver(t, cluster) // movie 1 is on the first shard, its details on the second
	if err := s.Insert(t.Context(), 1, bson.D{{Key: "title", Value: "Dumbo"}}, bson.D{{Key: "plot", Value: "an elephant"}}); err != nil {
		t.Fatal(err)
	}
	set := func(field, value string) bson.D {
		return bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}}
	}
	p := proxy.New(t, cluster.URI)
	client := testkit.Must(mongo.Connect(p.Options()))
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	broken := client.Database(db.Name())
	lost := testkit.Must(split.New[int, bson.D, bson.D](broken.Collection("movies"), broken.Collection("details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}}))
	ctx, cancel := context.WithCancel(t.Context())
	silent := proxy.SilentBefore
	silent.Before = cancel
	p.Break(proxy.Nth("commitTransaction", "", 0, silent))
	err := lost.Update(ctx, 1, set("title", "Bambi"), set("plot", "a deer"))
	if mongopatterns.OutcomeOf(err) != mongopatterns.Unknown {
		t.Errorf("%v: %v", mongopatterns.OutcomeOf(err), err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second) // half of what the server would keep it for
	defer cancel()
	if err := s.Update(ctx, 1, set("title", "Pinocchio"), set("plot", "a puppet")); err != nil {
		t.Error(err)
	}
	testkit.Healthy(t, s)
}

// An attempt that is not heard leaves nothing open either, on a shard that the next attempt does not use.
func TestAttemptNotHeard(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	db, _ := splitOver(t, cluster) // movie 1 is on the first shard, 20 on the second
	movies := db.Collection("movies")
	testkit.Insert(t, movies, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 20}})
	set := func(ctx context.Context, coll *mongo.Collection, id int) error {
		return testkit.ErrorOf(coll.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "title", Value: "Bambi"}}}}))
	}
	p := proxy.New(t, cluster.URI)
	client := testkit.Must(mongo.Connect(p.Options()))
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	p.Break(func(c proxy.Command) *proxy.Fault {
		switch {
		case c.Name == "update" && c.N == 1:
			return &proxy.CloseAfter
		case c.Name == "abortTransaction" && c.N == 0:
			return &proxy.CloseBefore
		}
		return nil
	})
	runs, lost := 0, client.Database(db.Name()).Collection("movies")
	err := mongopatterns.Transact(t.Context(), client, func(ctx context.Context) error {
		if runs++; runs == 1 {
			if err := set(ctx, lost, 20); err != nil {
				return err
			}
		}
		return set(ctx, lost, 1)
	})
	if err != nil || runs != 2 {
		t.Fatalf("%d runs, %v", runs, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // half of what the server would keep it for
	defer cancel()
	if err := set(ctx, movies, 20); err != nil {
		t.Error(err)
	}
}

// Behind a router, AggregateGiven returns what it was given once, whether the collection is sharded, is not, or does not
// exist. It returns nothing in a database that does not exist.
func TestGivenOnShards(t *testing.T) {
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	if err := cluster.Shard(t.Context(), db.Collection("sharded"), bson.D{{Key: "k", Value: 1}}, bson.D{{Key: "k", Value: 10}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sharded", "plain"} {
		if _, err := db.Collection(name).InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}, {Key: "k", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "k", Value: 11}}}); err != nil {
			t.Fatal(err)
		}
	}
	for coll, want := range map[*mongo.Collection]int{
		db.Collection("sharded"): 2, db.Collection("plain"): 2, db.Collection("none"): 2,
		db.Client().Database(db.Name() + "_none").Collection("none"): 0,
	} {
		var got []bson.D
		cursor, err := scoped.On(coll).AggregateGiven(t.Context(), bson.A{bson.D{{Key: "n", Value: 1}}, bson.D{{Key: "n", Value: 2}}}, nil)
		if err == nil {
			err = cursor.All(t.Context(), &got)
		}
		if err != nil || len(got) != want {
			t.Errorf("%s.%s: %v, %v, want %d documents", coll.Database().Name(), coll.Name(), got, err, want)
		}
	}
}
