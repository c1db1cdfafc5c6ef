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
	if err == nil || !strings.Contains(err.Error(), `"postgres"`) || !strings.Contains(err.Error(), "docker, mongod, secantus-rs, secantus-py") {
		t.Errorf("got %v", err)
	}
}

// noDocker leaves the test out where a Docker engine has the default socket,
// which testcontainers-go finds whatever the environment says.
func noDocker(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/var/run/docker.sock"); err == nil {
		t.Skip("there is a Docker engine")
	}
}

// TestNothingFound: the error lists what was tried, why it failed, what to do.
func TestNothingFound(t *testing.T) {
	t.Parallel()
	noDocker(t)
	for name, c := range map[string]struct {
		prepare func(*world)
		env     []string
		has     []string
	}{
		"nothing":       {has: []string{"docker: no Docker engine answers", "mongod: not on PATH", "secantus-rs: not on PATH", "python3 is not on PATH"}},
		"old Python":    {prepare: func(w *world) { w.add(t, "python3", "echo 3.9; exit 1") }, has: []string{"3.10 or later, found", "(3.9)"}},
		"silent Docker": {env: []string{"DOCKER_HOST=tcp://" + listen(t, silent)}, has: []string{"docker: the Docker engine does not answer within 3s"}},
		"no network": {prepare: func(w *world) { w.add(t, "python3", fakePython) }, env: []string{"FAKE_PIP=hangs", "DOCKER_HOST=tcp://" + listen(t, silent)},
			has: []string{"no answer from the network", "end of its log"}},
		"no home": {env: []string{"HOME=", "MONGOTEST_CACHE=", "XDG_CACHE_HOME="}, has: []string{"set MONGOTEST_CACHE"}},
		"broken mongod": {prepare: func(w *world) { w.add(t, "mongod", "echo no disk; exit 9") },
			has: []string{"mongod is there but does not work", "status 9", "no disk", "secantus-rs: not"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.env...)
			if c.prepare != nil {
				c.prepare(w)
			}
			p := w.start(t)
			if status := p.wait(t); status != 1 {
				t.Errorf("status %d", status)
			}
			for _, part := range append(c.has, "MONGODB_URI: not set", "do one of these", "-short") {
				if !strings.Contains(p.output(), part) {
					t.Errorf("the error has no %q:\n%s", part, p.output())
				}
			}
			if p.took > slow {
				t.Errorf("it took %v", p.took)
			}
		})
	}
}

// TestForcedServerDoesNotFallBack, while without force the next is tried.
func TestForcedServerDoesNotFallBack(t *testing.T) {
	t.Parallel()
	noDocker(t)
	w := newWorld(t)
	w.add(t, "mongod", "exit 9")
	w.add(t, "secantusd-rs", "export "+roleVariable+"=secantus\nexec \"$TEST_BINARY\" \"$@\"\n")
	p := w.start(t)
	w.started(t, p)
	if status := p.wait(t); status != 0 || !strings.Contains(p.output(), "mongod is there but does not work") {
		t.Errorf("status %d:\n%s", status, p.output())
	}
	p = w.start(t, "MONGOTEST_SERVER=mongod")
	if status := p.wait(t); status != 1 || strings.Contains(p.output(), "secantus") {
		t.Errorf("status %d:\n%s", status, p.output())
	}
}

// TestRustBuild is made only when asked for, and used from then on.
func TestRustBuild(t *testing.T) {
	t.Parallel()
	noDocker(t)
	w := newWorld(t)
	w.add(t, "cargo", `
PATH=/usr/bin:/bin
echo "$*" >>"$FAKE_DIR/cargo.log"
echo "  Downloaded secantus-mdb" >&2
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
printf '#!/bin/sh\nexport `+roleVariable+`=secantus\nexec "$TEST_BINARY" "$@"\n' >"$2/bin/secantusd-rs"
chmod +x "$2/bin/secantusd-rs"
`)
	builds := func() string {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(w.bin), "cargo.log"))
		return string(text)
	}
	if status := w.start(t).wait(t); status != 1 || builds() != "" {
		t.Errorf("without being asked: status %d, built %s", status, builds())
	}
	for _, env := range []string{"MONGOTEST_SERVER=secantus-rs", "MONGOTEST_SERVER=secantus-rs", "MONGOTEST_SERVER="} {
		p := w.start(t, env)
		w.started(t, p)
		if status := p.wait(t); status != 0 {
			t.Errorf("status %d:\n%s", status, p.output())
		}
	}
	if !strings.HasPrefix(builds(), "install secantus-mdb --version "+secantusRustVersion+" --locked ") || strings.Count(builds(), "\n") != 1 {
		t.Errorf("built by\n%s", builds())
	}
}

// TestStart starts the server that this machine gets, for real.
func TestStart(t *testing.T) {
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
	if s.Version == "" || !slices.Contains([]string{engineMongod, engineSecantusRust, engineSecantusPython}, s.Engine) {
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
		if !slices.Contains([]string{"mongotest", "examples", "cmd"}, name) && path != "internal/costs" { // for tests
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
