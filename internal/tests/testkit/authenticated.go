package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// An Authenticated is a replica set of one mongod with --auth.
type Authenticated struct {
	uri  string
	Root *mongo.Client // has the role root
}

var listening = regexp.MustCompile(`"msg":"Waiting for connections","attr":\{"port":(\d+)`)

// Authenticate starts the mongod that the tests run on once more, with --auth. It ends with the test, and with its
// process.
func Authenticate(t *testing.T) *Authenticated {
	t.Helper()
	raw, err := mongotest.Database(t).Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "getCmdLineOpts", Value: 1}}).Raw()
	OK(t, err)
	program, _ := raw.Lookup("argv", "0").StringValueOK()
	if _, err := os.Stat(program); err != nil {
		t.Skipf("the server's program is not on this machine: %v", err)
	}
	dir := t.TempDir()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	OK(t, os.WriteFile(filepath.Join(dir, "key"), []byte(hex.EncodeToString(key)), 0o600))
	OK(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	// The shell ends the server at the end of its input, however this process ends.
	cmd := exec.Command("sh", "-c", `"$@" & read -r _; kill -9 $!; wait`, "sh", program, "--auth", "--keyFile", filepath.Join(dir, "key"),
		"--replSet", "rs", "--bind_ip", "127.0.0.1", "--port", "0", "--dbpath", filepath.Join(dir, "data"), "--nounixsocket",
		"--wiredTigerCacheSizeGB", "0.25", "--journalCommitInterval", "10",
		"--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "enableTestCommands=1")
	log := filepath.Join(dir, "log")
	file, err := os.Create(log)
	OK(t, err)
	defer func() { _ = file.Close() }()
	cmd.Stdout = file
	stdin, err := cmd.StdinPipe()
	OK(t, err)
	OK(t, cmd.Start())
	t.Cleanup(func() {
		_, _ = io.WriteString(stdin, "\n")
		_ = cmd.Wait()
	})
	a := &Authenticated{}
	eventually(t, "the server with --auth does not listen", func() bool {
		text, _ := os.ReadFile(log)
		port := listening.FindSubmatch(text)
		if port != nil {
			a.uri = "mongodb://127.0.0.1:" + string(bytes.TrimSpace(port[1])) + "/?directConnection=true"
		}
		return port != nil
	})
	// From the server's own machine the set and the first user may be made without one.
	first := a.connect(t, options.Client())
	host := a.uri[len("mongodb://") : len(a.uri)-len("/?directConnection=true")]
	OK(t, first.Database("admin").RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"},
		{Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: host}}}}}}}).Err())
	eventually(t, "the server with --auth has no primary", func() bool {
		var hello struct{ IsWritablePrimary bool }
		err := first.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		return err == nil && hello.IsWritablePrimary
	})
	OK(t, first.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "secret"},
		{Key: "roles", Value: bson.A{"root"}}}).Err())
	a.Root = a.As(t, "root")
	return a
}

// eventually ends t with a text unless ready becomes true within a minute.
func eventually(t *testing.T, text string, ready func() bool) {
	t.Helper()
	for range 1200 {
		if ready() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(text)
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
	return a.connect(t, append(opts, options.Client().SetAuth(options.Credential{Username: name, Password: "secret"}))...)
}

func (a *Authenticated) connect(t *testing.T, opts ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(append([]*options.ClientOptions{options.Client().ApplyURI(a.uri)}, opts...)...)
	OK(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}
