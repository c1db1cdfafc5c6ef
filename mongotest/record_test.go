package mongotest_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	t.Parallel()
	var name string
	var other *mongo.Database
	t.Run("inner", func(t *testing.T) {
		db := mongotest.Database(t)
		name = db.Name()
		must[*mongo.InsertOneResult](t)(db.Collection("c").InsertOne(t.Context(), bson.D{{Key: "x", Value: 1}}))
		other = mongotest.Database(t)
		if other.Name() == name {
			t.Fatalf("two databases named %s", name)
		}
		names := must[[]string](t)(other.Client().ListDatabaseNames(t.Context(), bson.D{}))
		if !slices.Contains(names, name) {
			t.Fatalf("database %s not listed in %v", name, names)
		}
	})
	names := must[[]string](t)(mongotest.Database(t).Client().ListDatabaseNames(t.Context(), bson.D{}))
	if slices.Contains(names, name) {
		t.Errorf("database %s outlived its test", name)
	}
	if err := other.Client().Ping(t.Context(), nil); err == nil {
		t.Error("the client outlived its test")
	}
}

func TestURI(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	client, err := mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	must[*mongo.InsertOneResult](t)(client.Database(db.Name()).Collection("c").InsertOne(t.Context(), bson.D{}))
	if n := must[int64](t)(db.Collection("c").CountDocuments(t.Context(), bson.D{})); n != 1 {
		t.Errorf("%d documents by the other client", n)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	ctx := t.Context()
	check := func(name string, want []string, written int, fn func()) mongotest.Commands {
		t.Helper()
		cmds := mongotest.Record(t, db, fn)
		if diff := cmp.Diff(want, cmds.Names()); diff != "" {
			t.Errorf("%s: commands (-want +got):\n%s", name, diff)
		}
		if cmds.RoundTrips() != len(want) {
			t.Errorf("%s: %d round trips, want %d", name, cmds.RoundTrips(), len(want))
		}
		if n := cmds.DocumentsWritten(); n != written {
			t.Errorf("%s: %d documents written, want %d", name, n, written)
		}
		return cmds
	}
	docs := []any{}
	for i := range 10 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "s", Value: i % 2}})
	}
	cmds := check("insert", []string{"insert"}, 10, func() { must[*mongo.InsertManyResult](t)(coll.InsertMany(ctx, docs)) })
	inserted, _ := cmds[0].Body.Lookup("documents").Array().Values()
	if cmds[0].Collection != "c" || len(inserted) != 10 {
		t.Errorf("insert into %q of %d documents recorded", cmds[0].Collection, len(inserted))
	}
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "y", Value: 1}}}}
	check("update", []string{"update"}, 5, func() {
		must[*mongo.UpdateResult](t)(coll.UpdateMany(ctx, bson.D{{Key: "s", Value: 0}}, set))
	})
	check("an update that changes nothing", []string{"update"}, 0, func() {
		must[*mongo.UpdateResult](t)(coll.UpdateMany(ctx, bson.D{{Key: "s", Value: 0}}, set))
	})
	check("upsert", []string{"update"}, 1, func() {
		must[*mongo.UpdateResult](t)(coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: 99}}, set, options.UpdateOne().SetUpsert(true)))
	})
	check("find and modify", []string{"findAndModify"}, 1, func() {
		if err := coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: 1}}, set).Err(); err != nil {
			t.Error(err)
		}
	})
	check("delete", []string{"delete"}, 1, func() {
		must[*mongo.DeleteResult](t)(coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: 99}}))
	})
	cmds = check("find in batches", []string{"find", "getMore", "getMore"}, 0, func() {
		cursor := must[*mongo.Cursor](t)(coll.Find(ctx, bson.D{}, options.Find().SetBatchSize(4)))
		var all []bson.Raw
		if err := cursor.All(ctx, &all); err != nil || len(all) != 10 {
			t.Errorf("%d documents, %v", len(all), err)
		}
	})
	if cmds[1].Collection != "c" {
		t.Errorf("getMore on %q", cmds[1].Collection)
	}
	cmds = check("a refused command", []string{"find"}, 0, func() {
		if err := coll.FindOne(ctx, bson.D{{Key: "$nonsense", Value: 1}}).Err(); err == nil {
			t.Error("no error")
		}
	})
	if cmds[0].Err == nil || cmds[0].Reply != nil {
		t.Errorf("failed command recorded with error %v and reply %v", cmds[0].Err, cmds[0].Reply)
	}
	check("nothing", []string{}, 0, func() {})
}

func TestRecordsGoroutinesAndOverlaps(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	var inner mongotest.Commands
	outer := mongotest.Record(t, db, func() {
		inner = mongotest.Record(t, db, func() {
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() { _ = db.Collection("c").FindOne(t.Context(), bson.D{}).Err() })
			}
			group.Wait()
		})
		_ = db.Collection("c").FindOne(t.Context(), bson.D{}).Err()
	})
	if len(inner) != 4 || len(outer) != 5 {
		t.Errorf("%d and %d commands, want 4 and 5", len(inner), len(outer))
	}
}

func TestOwnMonitorIsCalledToo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, e.CommandName)
		},
	}))
	cmds := mongotest.Record(t, db, func() { _ = db.Collection("c").FindOne(t.Context(), bson.D{}).Err() })
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(seen, cmds.Names()); diff != "" || len(seen) != 1 {
		t.Errorf("monitor saw %v, Record %v", seen, cmds.Names())
	}
}
