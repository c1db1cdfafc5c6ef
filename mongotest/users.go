package mongotest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A user of a server. The zero value is nobody, for a server without authentication.
type user struct{ name, password, source string }

// system is the user that each server with a key file has from its start, and that its set's members are to each other. It
// has all rights.
func system(key string) user {
	if key == "" {
		return user{}
	}
	return user{"__system", key, "local"}
}

// uri returns the URI of hosts for the user.
func (u user) uri(hosts, options string) string {
	if u == (user{}) {
		return "mongodb://" + hosts + "/?" + options
	}
	const form = "mongodb://%s:%s@%s/?%s&authSource=%s&authMechanism=SCRAM-SHA-256"
	return fmt.Sprintf(form, u.name, u.password, hosts, options, u.source)
}

// cheapPasswords makes the first login of a client as cheap as the server allows, because each test has a client of its own.
var cheapPasswords = []string{"--setParameter", "scramSHA256IterationCount=5000"}

// tester makes the user of the tests, who may in each database do what the role readWrite allows in one. The databases of
// tests have no names yet, and one user for all costs nothing per test.
func (s *Server) tester(ctx context.Context) (user, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	client, err := s.admin()
	if err != nil {
		return user{}, err
	}
	admin, u := client.Database("admin"), user{"tester", randomName(), "admin"}
	var info struct {
		Roles []struct {
			Privileges []struct {
				Actions bson.A `bson:"actions"`
			} `bson:"privileges"`
		} `bson:"roles"`
	}
	builtIn := bson.D{{Key: "rolesInfo", Value: bson.D{{Key: "role", Value: "readWrite"}, {Key: "db", Value: "any"}}},
		{Key: "showPrivileges", Value: true}}
	if err := admin.RunCommand(ctx, builtIn).Decode(&info); err != nil {
		return user{}, fmt.Errorf("ask for the rights of readWrite: %w", err)
	}
	if len(info.Roles) != 1 || len(info.Roles[0].Privileges) == 0 {
		return user{}, fmt.Errorf("the server does not say what readWrite allows")
	}
	const role = "readWriteEachDatabase"
	everywhere := bson.D{{Key: "db", Value: ""}, {Key: "collection", Value: ""}}
	for _, create := range []bson.D{
		{{Key: "createRole", Value: role}, {Key: "roles", Value: bson.A{}}, {Key: "privileges", Value: bson.A{bson.D{
			{Key: "resource", Value: everywhere}, {Key: "actions", Value: info.Roles[0].Privileges[0].Actions}}}}},
		{{Key: "createUser", Value: u.name}, {Key: "pwd", Value: u.password},
			{Key: "mechanisms", Value: bson.A{"SCRAM-SHA-256"}}, {Key: "roles", Value: bson.A{role}}},
	} {
		if err := admin.RunCommand(ctx, create).Err(); err != nil {
			return user{}, fmt.Errorf("make the user of the tests: %w", err)
		}
	}
	return u, nil
}

// admin returns a client with all rights, which [Server.forgetAdmin] disconnects.
func (s *Server) admin() (*mongo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adminClient != nil {
		return s.adminClient, nil
	}
	client, err := mongo.Connect(s.clientOptions(s.AdminURI))
	if err == nil {
		s.adminClient = client
	}
	return client, err
}

// forgetAdmin disconnects that client, when its server ends. A drop is not repeated on a new connection.
func (s *Server) forgetAdmin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adminClient == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.adminClient.Disconnect(ctx)
	s.adminClient = nil
}

// Admin returns db for another client, with all rights, until t ends. It is for what a test sets up or looks at and the
// user of [Database] may not do, such as collMod, profile, serverStatus, $indexStats, and users. [Record] and [FailPoint]
// do not know the client. db comes from [Database] or [Server.Database]. On the server of MONGODB_URI the client has the
// rights of the user named there.
//
// Cost: no round trip before the first use.
func Admin(t testing.TB, db *mongo.Database) *mongo.Database {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: Admin needs a database from mongotest.Database")
	}
	server := of.(known).server
	client, err := mongo.Connect(server.clientOptions(server.AdminURI))
	if err != nil {
		t.Fatalf("mongotest: Admin: %v", err)
	}
	admin := client.Database(db.Name())
	t.Cleanup(func() { disconnect(admin, cleanupTimeout) })
	return admin
}

// Restricted returns db for another client, whose user may do nothing but these actions on each collection, and those
// of "" on the database, until t ends. [Record], [FailPoint] and [RunAgain] know the client. db comes from [Database]
// or [Server.Database], and not from a cluster, which has no users. On the server of MONGODB_URI the user named there has
// to be allowed to create users and roles.
//
//	clerk := mongotest.Restricted(t, db, map[string][]string{"orders": {"find", "update"}, "": {"listCollections"}})
//
// Cost: 2 round trips, 2 at the end.
func Restricted(t testing.TB, db *mongo.Database, actions map[string][]string) *mongo.Database {
	t.Helper()
	of, ok := clients.Load(db.Client())
	if !ok {
		t.Fatal("mongotest: Restricted needs a database from mongotest.Database")
	}
	server, admin := of.(known).server, Admin(t, db)
	if len(server.shards) > 0 {
		t.Fatal("mongotest: Restricted: a cluster has no users")
	}
	privileges := bson.A{}
	for coll, allowed := range actions {
		resource := bson.D{{Key: "db", Value: db.Name()}, {Key: "collection", Value: coll}}
		privileges = append(privileges, bson.D{{Key: "resource", Value: resource}, {Key: "actions", Value: allowed}})
	}
	name := randomName()
	for _, cmd := range []bson.D{
		{{Key: "createRole", Value: name}, {Key: "roles", Value: bson.A{}}, {Key: "privileges", Value: privileges}},
		{{Key: "createUser", Value: name}, {Key: "pwd", Value: name}, {Key: "roles", Value: bson.A{name}}},
	} {
		if err := admin.RunCommand(t.Context(), cmd).Err(); err != nil {
			t.Fatalf("mongotest: Restricted: %v", err)
		}
	}
	user := options.Credential{Username: name, Password: name, AuthSource: db.Name()}
	restricted, err := server.database(options.Client().SetAuth(user))
	if err != nil {
		t.Fatalf("mongotest: Restricted: %v", err)
	}
	t.Cleanup(func() {
		disconnect(restricted, cleanupTimeout)
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		for _, drop := range []string{"dropUser", "dropRole"} {
			if err := admin.RunCommand(ctx, bson.D{{Key: drop, Value: name}}).Err(); err != nil {
				t.Errorf("mongotest: Restricted: %v", err)
			}
		}
	})
	return restricted.Client().Database(db.Name())
}

// AdminURI is [URI] for a user with all rights, for a program under test that needs them.
//
// Cost: that of URI.
func AdminURI(t testing.TB) string {
	t.Helper()
	return sharedServer(t).AdminURI
}
