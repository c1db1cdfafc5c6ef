//go:build unix

package mongopatterns_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/proxy"
	"github.com/mongopatterns/mongopatterns/internal/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// sharders has a helper of each package and of each kind of key.
func sharders(db *mongo.Database) []mongopatterns.Sharder {
	c := db.Collection
	hour := timeseries.Every(time.Hour)
	return []mongopatterns.Sharder{
		testkit.Must(approx.New[string](c("views"), &approx.Options{KeyField: "page"})),
		testkit.Must(approx.NewDistinct[string, string](c("visitors"), nil)),
		testkit.Must(archive.New(c("invoices"), c("old invoices"), &archive.Options{TimeField: "paid"})),
		testkit.Must(attribute.New[int, int](c("films"), nil)),
		testkit.Must(bucket.New[string, bson.D](c("buckets"), hour, nil)),
		testkit.Must(computed.New[int, string, bson.D](c("screenings"), c("totals"), "film",
			mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}}}}}, bson.D{{Key: "n", Value: 0}}, nil)),
		testkit.Must(extref.New[int, bson.D](c("customers"), []extref.Target{{Collection: c("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}},
			&extref.Options{KeyField: "number"})),
		testkit.Must(outlier.New[int, string](c("books"), c("books_overflow"), nil)),
		testkit.Must(paging.New[bson.D](c("articles"), bson.D{{Key: "at", Value: -1}}, nil)),
		testkit.Must(paging.New[bson.D](c("articles of authors"), bson.D{{Key: "at", Value: -1}}, &paging.Options{Equality: []string{"author"}})),
		testkit.Must(prealloc.New[string, string](c("seats"), nil)),
		testkit.Must(relation.New[string, int, bson.D](c("people"), c("tasks"), &relation.Options{Links: c("links")})),
		testkit.Must(schemaversion.New[bson.D](c("contacts"), []schemaversion.Step{{Up: func(d bson.D) (bson.D, error) { return d, nil }}}, nil)),
		testkit.Must(series.New[string, bson.D](c("events"), hour, nil)),
		testkit.Must(slots.New[string, int](c("slots"), timeseries.Days(nil), nil)),
		testkit.Must(split.New[int, bson.D, bson.D](c("movies"), c("details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}})),
		testkit.Must(subset.New[int, bson.D](c("products"), c("reviews"), &subset.Options{ParentField: "product", ArrayField: "reviews"})),
		testkit.Must(tree.New[string, bson.D](c("nodes"), tree.AncestorArray, &tree.Options{Scope: bson.D{{Key: "tenant", Value: "a"}}})),
		testkit.Must(tree.New[string, bson.D](c("nodes of all"), tree.NestedSets, nil)),
		testkit.Must(versioning.New[int, bson.D](c("policies"), c("revisions"), nil)),
	}
}

// Shard does everything needed for every package, and a second call does nothing more. All indexes exist
// afterwards, including unique ones that serve the shard key.
func TestShard(t *testing.T) {
	ctx := t.Context()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	helpers := sharders(db)
	if _, err := db.Collection("views").InsertOne(ctx, bson.D{{Key: "page", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bson.D{}
	for _, h := range helpers {
		for name, key := range h.ShardKey() {
			want[name] = key
		}
	}
	var unique []string
	for run, found := range []bool{false, true} {
		done, err := mongopatterns.Shard(ctx, db, helpers...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bson.D{}
		unique = nil
		for _, s := range done {
			got[s.Collection] = s.Key
			if s.Unique {
				unique = append(unique, s.Collection)
			}
			if s.Found != found {
				t.Errorf("run %d: %+v", run, s)
			}
		}
		if diff := cmp.Diff(texts(want), texts(got)); diff != "" {
			t.Errorf("run %d: %s", run, diff)
		}
	}
	for _, name := range []string{"views", "links", "details", "slots"} {
		if !slices.Contains(unique, name) {
			t.Errorf("%s has no unique shard key, only %v", name, unique)
		}
	}
	for _, h := range helpers {
		if err := h.EnsureIndexes(ctx); err != nil {
			t.Error(err)
		}
	}

	t.Run("documents, and no index", func(t *testing.T) {
		plain := keyed{coll: db.Collection("plain"), key: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}
		if _, err := plain.coll.InsertOne(ctx, bson.D{{Key: "a", Value: 1}}); err != nil {
			t.Fatal(err)
		}
		if done, err := mongopatterns.Shard(ctx, db, plain); err != nil || len(done) != 1 || done[0].Found || done[0].Unique {
			t.Errorf("%+v, %v", done, err)
		}
	})
	t.Run("hashed by the user", func(t *testing.T) {
		h := keyed{coll: db.Collection("hashed"), key: bson.D{{Key: "_id", Value: 1}}}
		if err := cluster.Shard(ctx, h.coll, bson.D{{Key: "_id", Value: "hashed"}}); err != nil {
			t.Fatal(err)
		}
		if done, err := mongopatterns.Shard(ctx, db, h); err != nil || !done[0].Found || done[0].Key[0].Value != "hashed" {
			t.Errorf("%+v, %v", done, err)
		}
	})
	for name, key := range map[string]string{"another key": "_id", "two helpers": "b"} {
		t.Run(name, func(t *testing.T) {
			h := []mongopatterns.Sharder{keyed{coll: db.Collection("plain"), key: bson.D{{Key: key, Value: 1}}}}
			if name == "two helpers" {
				h = append(h, keyed{coll: db.Collection("plain"), key: bson.D{{Key: "c", Value: 1}}})
			}
			if done, err := mongopatterns.Shard(ctx, db, h...); !errors.Is(err, mongopatterns.ErrInvalid) || done != nil {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// A server that is not a mongos is refused, and nothing is created.
func TestShardOnReplicaSet(t *testing.T) {
	db := mongotest.Database(t)
	if cluster := db.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "listShards", Value: 1}}); cluster.Err() == nil {
		t.Skip("MONGODB_URI is a cluster")
	}
	if _, err := mongopatterns.Shard(t.Context(), db, sharders(db)...); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if names, err := db.ListCollectionNames(t.Context(), bson.D{}); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}

func texts(keys map[string]bson.D) map[string]string {
	out := map[string]string{}
	for name, key := range keys {
		raw, _ := bson.MarshalExtJSON(key, false, false)
		out[name] = string(raw)
	}
	return out
}

// keyed is a Sharder of one collection with a given shard key.
type keyed struct {
	coll *mongo.Collection
	key  bson.D
}

func (s keyed) Indexes() map[string][]mongo.IndexModel { return nil }
func (s keyed) EnsureIndexes(context.Context) error    { return nil }
func (s keyed) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.coll.Name(): s.key}
}

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
