package mongotest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// cleanupTimeout bounds the cleanup after a test, when the context of the test has ended.
const cleanupTimeout = 2 * time.Minute

// Database returns a database of its own for t, on a client of its own, and drops both when t ends. On a server that
// this package started, the client's user may do what the role readWrite allows and nothing else; [Admin] is for the
// rest. Database skips t under -short and fails it when there is no server. opts are applied to the client after the
// URI. A command monitor among them is called besides the one that [Record] uses.
//
// Cost: starts the process's server the first time; else no round trip before the first use, 1 at the end.
func Database(t testing.TB, opts ...*options.ClientOptions) *mongo.Database {
	t.Helper()
	return sharedServer(t).Database(t, opts...)
}

// Database is [Database] on this server. On a set of several members, or a cluster, the database is not
// dropped when t ends, because there may be no primary, but is removed with the set.
//
// Cost: no round trip before the first use, 1 at the end.
func (s *Server) Database(t testing.TB, opts ...*options.ClientOptions) *mongo.Database {
	t.Helper()
	db, err := s.database(opts...)
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	t.Cleanup(func() {
		if len(s.members) > 1 || len(s.shards) > 0 {
			disconnect(db, time.Second)
		} else if err := s.discard(db); err != nil {
			t.Errorf("mongotest: clean up after the test: %v", err)
		}
	})
	return db
}

// URI returns the URI of the server that [Database] uses, for code under test
// that connects by itself. Give it the Name of a Database, which drops what the
// code leaves there. It names the user of Database. Like Database, it skips t under -short and fails it when
// there is no server.
//
// Cost: starts the process's server the first time.
func URI(t testing.TB) string {
	t.Helper()
	return sharedServer(t).URI
}

func sharedServer(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// ExampleDatabase returns a database of its own for an example, which has no
// testing.TB to fail. Without a server it panics. Call it only in packages
// whose TestMain is [Main], which drops the database.
func ExampleDatabase() *mongo.Database {
	server, err := shared()
	if err != nil {
		panic(err)
	}
	db, err := server.database()
	if err != nil {
		panic(fmt.Sprintf("mongotest: %v", err))
	}
	examples.Lock()
	defer examples.Unlock()
	examples.dbs = append(examples.dbs, db)
	return db
}

var examples struct {
	sync.Mutex
	dbs []*mongo.Database
}

// known is what this package knows about a client that it made.
type known struct {
	recorder *Recorder
	server   *Server
	app      string // the name by which fail points know the client
}

var clients sync.Map // *mongo.Client -> known

func (s *Server) database(opts ...*options.ClientOptions) (*mongo.Database, error) {
	recorder := NewRecorder()
	merged := options.MergeClientOptions(append([]*options.ClientOptions{s.clientOptions(s.URI)}, opts...)...)
	merged.SetMonitor(both(merged.Monitor, recorder.Monitor()))
	name := databaseName()
	if merged.AppName == nil {
		merged.SetAppName(name)
	}
	connected, err := mongo.Connect(merged)
	if err != nil {
		return nil, err
	}
	clients.Store(connected, known{recorder, s, *merged.AppName})
	return connected.Database(name), nil
}

// databaseName is unique over the processes that share a server.
func databaseName() string {
	var random [6]byte
	rand.Read(random[:]) // never fails
	return fmt.Sprintf("mongotest_%d_%x", os.Getpid(), random)
}

// discard drops db and disconnects its client.
func (s *Server) discard(db *mongo.Database) error {
	defer disconnect(db, cleanupTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	client, err := s.admin()
	if err != nil {
		return err
	}
	return client.Database(db.Name()).Drop(ctx)
}

// disconnect closes the client of db. If it cannot tell the server about open sessions, the server ends them
// later.
func disconnect(db *mongo.Database, bound time.Duration) {
	// Not a deadline: until a deadline the driver waits for connections in use, in a loop without a pause.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(bound, cancel).Stop()
	clients.Delete(db.Client())
	_ = db.Client().Disconnect(ctx)
}

// Engine says what the server of db is: "mongodb", "documentdb" (the PostgreSQL
// extension), or "other". Tests need it only where an engine's plan differs from
// MongoDB's. db comes from [Database] or [Server.Database].
//
// Cost: none.
func Engine(t testing.TB, db *mongo.Database) string {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: Engine needs a database from mongotest.Database")
	}
	return of.(known).server.Engine
}

// identify asks the server for its engine and version. MongoDB names its storage engine in buildInfo, or is a
// mongos, whose buildInfo names the TLS library; DocumentDB has a field of its own in hello.
func identify(ctx context.Context, client *mongo.Client) (engine, version string, err error) {
	var info struct {
		Version        string   `bson:"version"`
		StorageEngines []string `bson:"storageEngines"`
		OpenSSL        bson.Raw `bson:"openssl"`
	}
	var hello struct {
		Message  string        `bson:"msg"`
		Internal bson.RawValue `bson:"internal"`
	}
	for _, ask := range []struct {
		command string
		answer  any
	}{{"buildInfo", &info}, {"hello", &hello}} {
		if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: ask.command, Value: 1}}).Decode(ask.answer); err != nil {
			return "", "", fmt.Errorf("ask the server what it is: %w", err)
		}
	}
	engine = "other"
	if !hello.Internal.IsZero() {
		engine = "documentdb"
	} else if slices.Contains(info.StorageEngines, "wiredTiger") || hello.Message == "isdbgrid" && info.OpenSSL != nil {
		engine = "mongodb"
	}
	return engine, info.Version, nil
}

// both calls two monitors; the first may be nil.
func both(first, second *event.CommandMonitor) *event.CommandMonitor {
	if first == nil {
		return second
	}
	return &event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			if first.Started != nil {
				first.Started(ctx, e)
			}
			second.Started(ctx, e)
		},
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) {
			if first.Succeeded != nil {
				first.Succeeded(ctx, e)
			}
			second.Succeeded(ctx, e)
		},
		Failed: func(ctx context.Context, e *event.CommandFailedEvent) {
			if first.Failed != nil {
				first.Failed(ctx, e)
			}
			second.Failed(ctx, e)
		},
	}
}
