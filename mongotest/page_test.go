package mongotest_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// The code blocks of docs/mongotest.md are parts of this file.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/mongotest.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 6 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		if block := string(b[1]); !strings.Contains(string(source), "\n"+block) {
			t.Errorf("not in page_test.go:\n%s", block)
		}
	}
}

type Order struct {
	ID     bson.ObjectID `bson:"_id,omitempty"`
	Status string        `bson:"status"`
	Due    time.Time     `bson:"due"`
}

// FindOpen returns the open orders, the first due first.
func FindOpen(ctx context.Context, orders *mongo.Collection) (open []Order, err error) {
	cursor, err := orders.Find(ctx, bson.D{{Key: "status", Value: "open"}}, options.Find().SetSort(bson.D{{Key: "due", Value: 1}}))
	if err != nil {
		return nil, err
	}
	err = cursor.All(ctx, &open)
	return open, err
}

// Place stores an order, and tries again after an error.
func Place(ctx context.Context, orders *mongo.Collection, order Order) (err error) {
	order.ID = bson.NewObjectID()
	for range 3 {
		if _, err = orders.InsertOne(ctx, order); err == nil || mongo.IsDuplicateKeyError(err) {
			return nil
		}
	}
	return err
}

func TestFindOpen(t *testing.T) {
	db := mongotest.Database(t) // of its own, dropped when the test ends
	orders := db.Collection("orders")
	index := mongo.IndexModel{Keys: bson.D{{Key: "status", Value: 1}, {Key: "due", Value: 1}}}
	if _, err := orders.Indexes().CreateOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"open", "paid", "open"} {
		if err := Place(t.Context(), orders, Order{Status: status, Due: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}

	cmds := mongotest.Record(t, db, func() {
		open, err := FindOpen(t.Context(), orders)
		if err != nil || len(open) != 2 {
			t.Errorf("%v, %v", open, err)
		}
	})
	cmds.RequireRoundTrips(t, 1)
	plan := mongotest.Explain(t, db, cmds[0].Body)
	plan.RequireIndex(t, "status_1_due_1")
	plan.RequireNoSort(t)
	plan.RequireExamined(t, 2, 2)
}

func TestPlaceAfterAnError(t *testing.T) {
	db := mongotest.Database(t)
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"insert"}, Times: 2, Code: 13})
	if err := Place(t.Context(), db.Collection("orders"), Order{Status: "open"}); err != nil {
		t.Error(err)
	}
}

func TestPlaceWithoutAnAnswer(t *testing.T) {
	db := mongotest.Database(t, options.Client().SetRetryWrites(false))
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"insert"}, Times: 1, WriteConcernCode: 64})
	err := Place(t.Context(), db.Collection("orders"), Order{Status: "open"})
	n, countErr := db.Collection("orders").CountDocuments(t.Context(), bson.D{})
	if n != 1 || err != nil || countErr != nil {
		t.Errorf("%d orders, %v, %v", n, err, countErr)
	}
}

func TestConflict(t *testing.T) {
	db := mongotest.Database(t)
	mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"insert"}, Times: 1, Code: 112, Labels: []string{"TransientTransactionError"}})
	runs := 0
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		runs++
		return db.Collection("orders").InsertOne(ctx, Order{Status: "open"})
	})
	if runs != 2 || err != nil {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func Ship(ctx context.Context, orders *mongo.Collection, order Order) error {
	return mongopatterns.Transact(ctx, orders.Database().Client(), func(ctx context.Context) error {
		var stored Order // of this run: read into order, an error would leave it empty for the next run
		if err := orders.FindOne(ctx, bson.D{{Key: "_id", Value: order.ID}}).Decode(&stored); err != nil {
			return err
		}
		_, err := orders.UpdateByID(ctx, stored.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "shipped"}}}})
		return err
	})
}

func TestShipRunsAgain(t *testing.T) {
	db := mongotest.Database(t)
	orders := db.Collection("orders")
	mongotest.RunAgain(t, db, func(n int) error { // call n has an order of its own
		order := Order{ID: bson.NewObjectID(), Status: "open"}
		if _, err := orders.InsertOne(t.Context(), order); err != nil {
			return err
		}
		return Ship(t.Context(), orders, order)
	})
}

func TestServiceWithItsOwnClient(t *testing.T) {
	db := mongotest.Database(t)
	recorder := mongotest.NewRecorder()
	client, err := mongo.Connect(options.Client().ApplyURI(mongotest.URI(t)).SetMonitor(recorder.Monitor()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	cmds := recorder.Record(func() {
		_, err = FindOpen(t.Context(), client.Database(db.Name()).Collection("orders"))
	})
	if err != nil {
		t.Fatal(err)
	}
	cmds.RequireRoundTrips(t, 1)
}

func TestElection(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	set := mongotest.ReplicaSet(t, 3)
	orders := set.Database(t).Collection("orders")
	place := func() {
		if err := Place(t.Context(), orders, Order{Status: "open"}); err != nil {
			t.Error(err)
		}
	}
	place() // it also connects: the driver does not repeat a write that cannot open its connection
	primary, err := set.Primary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	place()
}

func TestTwoShards(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	orders := db.Collection("orders")
	if err := cluster.Shard(t.Context(), orders, bson.D{{Key: "_id", Value: "hashed"}}); err != nil {
		t.Fatal(err)
	}
	asked, err := cluster.Asked(t.Context(), db, func() error {
		return orders.FindOne(t.Context(), bson.D{{Key: "_id", Value: 7}}).Err()
	})
	if !errors.Is(err, mongo.ErrNoDocuments) || asked.Reached() != 1 {
		t.Errorf("%d shards were asked, %v", asked.Reached(), err)
	}
}
