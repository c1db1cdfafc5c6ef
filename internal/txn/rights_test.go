package txn_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/tests/proxy"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A user who may write in one database or collection only gives up during a command of a transaction, and the command comes late.
// The transaction is ended with few commands: by a read of a collection that a call named, or else by the end of its session.
func TestFewRights(t *testing.T) {
	t.Parallel()
	server := testkit.Authenticate(t)
	server.User(t, "writer", "readWrite", "shop")
	testkit.OK(t, server.Root.Database("admin").RunCommand(t.Context(), testkit.D("createRole", "collection", "roles", bson.A{}, "privileges", bson.A{
		testkit.D("resource", testkit.D("db", "shop", "collection", "c"), "actions", bson.A{"find", "insert"})})).Err())
	server.User(t, "inserter", "collection", "admin")
	type fn = func(ctx context.Context) error
	for name, test := range map[string]struct {
		run     func(ctx context.Context, client *mongo.Client, insert fn) error
		user    string // default writer
		fences  int
		refused bool // are the fences
		killed  bool
	}{
		"named": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.Run(ctx, scoped.On(client.Database("shop").Collection("c")), insert)
		}, fences: 1},
		"named, with rights on the collection alone": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.Run(ctx, scoped.On(client.Database("shop").Collection("c")), insert)
		}, user: "inserter", fences: 2},
		"named by a call": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.RunOf(ctx, client, func(ctx context.Context) error {
				return txn.Run(ctx, scoped.On(client.Database("shop").Collection("c")), insert)
			})
		}, fences: 1},
		"named by a command": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.RunOf(ctx, client, func(ctx context.Context) error {
				none := testkit.D("_id", "none")
				if err := scoped.On(client.Database("shop").Collection("c")).FindOne(ctx, none).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
					return err
				}
				return insert(ctx)
			})
		}, user: "inserter", fences: 3}, // the find of the function is one of them
		"named by a session": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			ctx, end := txn.Causal(ctx, scoped.On(client.Database("shop").Collection("c")))
			defer end()
			return txn.RunOf(ctx, client, insert)
		}, fences: 1},
		"not named": {run: txn.RunOf, killed: true},
		"named after a call of another client": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.RunOf(ctx, client, func(ctx context.Context) error {
				apart := mongo.NewSessionContext(ctx, nil)
				if err := txn.Run(apart, scoped.On(server.Root.Database("shop").Collection("c")), func(context.Context) error { return nil }); err != nil {
					return err
				}
				return txn.Run(ctx, scoped.On(client.Database("shop").Collection("c")), insert)
			})
		}, fences: 1},
		"not allowed": {run: func(ctx context.Context, client *mongo.Client, insert fn) error {
			return txn.Run(ctx, scoped.On(client.Database("other").Collection("c")), insert)
		}, fences: 2, refused: true, killed: true},
	} {
		t.Run(name, func(t *testing.T) {
			commands := make(chan string, 1000)
			p := proxy.New(t, server.URI)
			if test.refused {
				unauthorized := proxy.Refuse(proxy.Unauthorized)
				p.Break(func(c proxy.Command) *proxy.Fault {
					if c.Name == "aggregate" || c.Name == "find" {
						return &unauthorized
					}
					return nil
				})
			}
			opts := options.Client().SetHosts(p.Options().Hosts).SetAppName(t.Name())
			client := server.As(t, cmp.Or(test.user, "writer"), opts.SetMonitor(&event.CommandMonitor{
				Started: func(_ context.Context, e *event.CommandStartedEvent) { commands <- e.CommandName }}))
			testkit.OK(t, client.Ping(patient(t), nil)) // a busy machine takes long to log in, which the deadline is not about
			const block = 600 * time.Millisecond
			testkit.OK(t, server.Root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "configureFailPoint", Value: "failCommand"},
				{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}}, {Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"insert"}},
					{Key: "appName", Value: t.Name()}, {Key: "blockConnection", Value: true}, {Key: "blockTimeMS", Value: block.Milliseconds()}}}}).Err())
			ctx, cancel := context.WithTimeout(t.Context(), block/3)
			defer cancel()
			id := bson.D{{Key: "_id", Value: name}}
			tries := 0
			err := test.run(ctx, client, func(ctx context.Context) error {
				tries++
				return testkit.ErrorOf(client.Database("shop").Collection("c").InsertOne(ctx, id))
			})
			testkit.Is(t, err, context.DeadlineExceeded)

			sent := map[string]int{}
			for sent["killSessions"] == 0 && sent["hello"] == 0 { // the last command
				select {
				case command := <-commands:
					sent[command]++
				case <-time.After(time.Minute):
					t.Fatalf("not ended: %v", sent)
				}
			}
			fences := sent["aggregate"] + sent["find"] // MongoDB 7.0 allows the first without the right
			if fences > test.fences || fences < min(1, test.fences) || (sent["killSessions"] == 1) != test.killed || sent["abortTransaction"] > tries+1 {
				t.Errorf("%d tries sent %v, want %d fences, killSessions %v", tries, sent, test.fences, test.killed)
			}
			if !test.killed {
				ctx, cancel := freed(t.Context())
				defer cancel()
				testkit.OK(t, testkit.ErrorOf(server.Root.Database("shop").Collection("c").InsertOne(ctx, id)))
			}
		})
	}
}
