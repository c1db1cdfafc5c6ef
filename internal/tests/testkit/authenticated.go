package testkit

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// An Authenticated is a server of one test, which makes users as it likes.
type Authenticated struct {
	URI  string
	Root *mongo.Client // has all rights
}

// Authenticate starts a server, which ends with the test.
func Authenticate(t *testing.T) *Authenticated {
	t.Helper()
	server := mongotest.ReplicaSet(t, 1)
	if server.URI == server.AdminURI {
		t.Skip("MONGODB_URI names the only user")
	}
	return &Authenticated{server.URI, connect(t, options.Client().ApplyURI(server.AdminURI))}
}

// User makes a user with a role on a database.
func (a *Authenticated) User(t *testing.T, name, role, db string) {
	t.Helper()
	OK(t, a.Root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "secret"},
		{Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: role}, {Key: "db", Value: db}}}}}).Err())
}

// As connects as a user.
func (a *Authenticated) As(t *testing.T, name string, opts ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	user := options.Client().ApplyURI(a.URI).SetAuth(options.Credential{Username: name, Password: "secret"})
	return connect(t, append([]*options.ClientOptions{user}, opts...)...)
}

func connect(t *testing.T, opts ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(opts...)
	OK(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}
