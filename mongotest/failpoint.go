package mongotest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Fail says which commands a server fails, and how.
type Fail struct {
	// Commands are the names of the commands, such as "insert" or "commitTransaction". At least one.
	Commands []string
	// Skip is how many of them run first, before all others fail. Default 0. Set Skip or Times, not both.
	Skip int
	// Times is how many fail. Default 0: all, until the test ends.
	Times int

	// Code and Labels make the server answer with an error, and do nothing. 112 with "TransientTransactionError" is
	// a write conflict. A few codes, such as 121 and 11000, do not work, because the server has no such error
	// without details.
	Code   int
	Labels []string
	// WriteConcernCode makes the server do the write, and answer with this error of the write concern.
	WriteConcernCode int
	// Close makes the server close the connection, and do nothing.
	Close bool
	// Block makes the server wait before it does the rest. The test does not end before that.
	Block time.Duration
}

// document returns the fail point; on is the name of the application whose commands fail.
func (f Fail) document(on string) (bson.D, error) {
	if len(f.Commands) == 0 || f.Skip < 0 || f.Times < 0 {
		return nil, errors.New("a Fail needs Commands, and its numbers must not be negative")
	}
	if f.Skip > 0 && f.Times > 0 {
		return nil, errors.New("a Fail cannot have both Skip and Times: the server takes one of them")
	}
	if f.Code == 0 && !f.Close && f.WriteConcernCode == 0 && f.Block == 0 {
		return nil, errors.New("a Fail needs Code, WriteConcernCode, Close or Block: without them nothing fails")
	}
	var mode any = "alwaysOn"
	switch {
	case f.Skip > 0:
		mode = bson.D{{Key: "skip", Value: f.Skip}}
	case f.Times > 0:
		mode = bson.D{{Key: "times", Value: f.Times}}
	}
	data := bson.D{{Key: "failCommands", Value: f.Commands}, {Key: "appName", Value: on}, {Key: "closeConnection", Value: f.Close}}
	if f.Code != 0 {
		data = append(data, bson.E{Key: "errorCode", Value: f.Code})
	}
	if f.Labels != nil {
		data = append(data, bson.E{Key: "errorLabels", Value: f.Labels})
	}
	if f.WriteConcernCode != 0 {
		data = append(data, bson.E{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: f.WriteConcernCode}, {Key: "errmsg", Value: "mongotest"}}})
	}
	if f.Block > 0 {
		data = append(data, bson.E{Key: "blockConnection", Value: true}, bson.E{Key: "blockTimeMS", Value: f.Block.Milliseconds()})
	}
	return bson.D{{Key: "configureFailPoint", Value: failCommand}, {Key: "mode", Value: mode}, {Key: "data", Value: data}}, nil
}

const failCommand = "failCommand"

// holders are the tests that have a fail point: a server has one for all its clients.
var holders = struct {
	sync.Mutex
	changed *sync.Cond
	by      map[*Server]string // the name of the test
}{by: map[*Server]string{}}

func init() { holders.changed = sync.NewCond(&holders) }

// FailPoint makes the server of db fail commands of db's client, and of no other, until t ends. Call stop to end
// it earlier, for example to look at what is stored. db comes from [Database] or [Server.Database]. A second call
// of the same test replaces the first.
//
// A server has one fail point. While another test has it, FailPoint waits for the end of that test. It fails t if
// that is a test around t, or if the server refuses fail points. A server that this package did not start needs
// --setParameter enableTestCommands=1. The router of this module has none. On a set of several members the fail
// point is set on the present primary.
//
// Cost: 1 round trip, 1 for stop, and 1 at the end.
func FailPoint(t testing.TB, db *mongo.Database, fail Fail) (stop func()) {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: FailPoint needs a database from mongotest.Database")
	}
	made := of.(known)
	point, err := fail.document(made.app)
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	admin, err := made.server.admin() // the client of db may have few rights, or a strict API
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	first, err := claim(made.server, t.Name())
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	stop = func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := configure(ctx, admin, bson.D{{Key: "configureFailPoint", Value: failCommand}, {Key: "mode", Value: "off"}}); err != nil {
			t.Errorf("mongotest: take the fail point off: %v", err)
		}
	}
	if first {
		t.Cleanup(func() {
			defer letGo(made.server)
			stop()
		})
	}
	if err := configure(t.Context(), admin, point); err != nil {
		t.Fatalf("mongotest: FailPoint: %v (a server that mongotest did not start needs --setParameter enableTestCommands=1)", err)
	}
	return stop
}

func configure(ctx context.Context, admin *mongo.Client, point bson.D) error {
	return admin.Database("admin").RunCommand(ctx, point).Err()
}

// claim waits until no other test has the fail point of a server. first is false if this test has it already.
func claim(server *Server, test string) (first bool, err error) {
	holders.Lock()
	defer holders.Unlock()
	for {
		switch by := holders.by[server]; {
		case by == "":
			holders.by[server] = test
			return true, nil
		case by == test:
			return false, nil
		case strings.HasPrefix(test, by+"/"):
			return false, errors.New("FailPoint: " + by + " already has a fail point, which lasts until it ends, and this test is a part of it")
		}
		holders.changed.Wait()
	}
}

func letGo(server *Server) {
	holders.Lock()
	defer holders.Unlock()
	delete(holders.by, server)
	holders.changed.Broadcast()
}
