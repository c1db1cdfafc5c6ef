//go:build unix

package mongotest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestUnknownServer(t *testing.T) {
	t.Setenv("MONGODB_URI", "")
	t.Setenv("MONGOTEST_SERVER", "postgres")
	_, err := Start(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), `"postgres"`) || !strings.Contains(err.Error(), "docker, mongod, embedded") {
		t.Errorf("got %v", err)
	}
}

// TestStart starts the server that this machine gets, for real.
func TestStart(t *testing.T) {
	if !apart(t) {
		return
	}
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	if os.Getenv("MONGODB_URI") != "" {
		t.Skip("MONGODB_URI is set, so nothing is started")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var notes bytes.Buffer
	s, err := Start(t.Context(), &Options{Stderr: &notes})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	t.Logf("%s %s at %s\n%s", s.Engine, s.Version, s.URI, notes.String())
	if s.Version == "" || s.Engine != "mongodb" {
		t.Errorf("got %+v", s)
	}
	opts := options.Client().ApplyURI(s.URI)
	client, err := mongo.Connect(opts)
	if err != nil {
		t.Fatal(err)
	}

	// A replica set: it has transactions.
	docs := client.Database("mongotest").Collection("docs")
	session, err := client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		return docs.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}}})
	})
	if err != nil {
		t.Errorf("a transaction: %v", err)
	}
	session.EndSession(t.Context())

	// On 127.0.0.1 only, as far as this machine knows addresses of its own.
	host, port, err := net.SplitHostPort(opts.Hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	if host == "127.0.0.1" {
		for _, address := range addresses {
			ip := address.(*net.IPNet).IP
			if ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.IsLinkLocalUnicast() {
				continue
			}
			if conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), port), time.Second); err == nil {
				_ = conn.Close()
				t.Errorf("it listens on %v", ip)
			}
		}
	}

	if err := client.Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second); err == nil {
		_ = conn.Close()
		t.Error("it still listens after Close")
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "mongotest-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestLibraryNeedsOnlyTheDriver: what users import brings in nothing of
// testcontainers-go, nor this package.
func TestLibraryNeedsOnlyTheDriver(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	list := func(args ...string) []string {
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %v: %v\n%s", args, err, complaints.String())
		}
		return strings.Fields(string(out))
	}
	const module = "github.com/mongopatterns/mongopatterns"
	var library []string
	for _, pkg := range list(module + "/...") {
		path := strings.TrimPrefix(pkg, module+"/")
		name, _, _ := strings.Cut(path, "/")
		if !slices.Contains([]string{"mongotest", "examples", "cmd"}, name) && !strings.HasPrefix(path, "internal/tests/") {
			library = append(library, pkg)
		}
	}
	const notStandard = "-f={{if not .Standard}}{{.ImportPath}}{{end}}"
	allowed := list("-deps", notStandard, "go.mongodb.org/mongo-driver/v2/mongo")
	for _, pkg := range list(append([]string{"-deps", notStandard}, library...)...) {
		if !slices.Contains(library, pkg) && !slices.Contains(allowed, pkg) && !strings.HasPrefix(pkg, "go.mongodb.org/mongo-driver/v2/") {
			t.Errorf("the library depends on %s", pkg)
		}
	}
}
