//go:build unix

package mongotest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// listen returns the address of a listener that serves connections by serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// silent never answers. It holds the connection, which the garbage collector would close.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func closedPort(t *testing.T) string {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// brief are bounds that a test can sit out.
var brief = bounds{first: time.Second, busy: 1500 * time.Millisecond, margin: 500 * time.Millisecond}

// TestUnusableURI: an error within the bounds, with advice, without any secret.
func TestUnusableURI(t *testing.T) {
	t.Parallel()
	hole, closed := listen(t, silent), closedPort(t)
	for name, uri := range map[string]string{
		"closed port":           "mongodb://bob:Hush%40Hush@" + closed + "/?authSource=admin&serverSelectionTimeoutMS=300",
		"closed, long patience": "mongodb://bob:Hush%40Hush@" + closed + "/?serverSelectionTimeoutMS=60000&connectTimeoutMS=60000",
		"no answer":             "mongodb://bob:Hush%40Hush@" + hole + "/?connectTimeoutMS=60000",
		"replica set":           "mongodb://bob:Hush@" + closed + "," + hole + "/?replicaSet=rs&serverSelectionTimeoutMS=300",
		"@ in the password":     "mongodb://bob:Hush@Hush@" + closed + "/",
		": in the password":     "mongodb://bob:Hush:Hush@" + closed + "/",
		"/ in the password":     "mongodb://bob:Hush/Hush@" + closed + "/",
		"% in the password":     "mongodb://bob:Hush%ZZHush@" + closed + "/",
		"host forgotten":        "mongodb://bob:Hush",
		"@ forgotten":           "mongodb://bob:Hush" + closed + "/",
		"slash forgotten":       "mongodb://bob:Hush@" + closed + "?replicaSet=rs",
		"no scheme":             "bob:Hush@" + closed,
		"token":                 "mongodb://bob:Hush@" + closed + "/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:Hush&serverSelectionTimeoutMS=300",
		"bad property":          "mongodb://bob:Hush@" + closed + "/?authMechanismProperties=Hush",
		"key password":          "mongodb://" + closed + "/?tlsCertificateKeyFile=no-such-file&tlsCertificateKeyFilePassword=Hush",
		"bad option":            "mongodb://bob:Hush@" + closed + "/?maxPoolSize=Hush",
		"empty password":        "mongodb://bob:@" + closed + "/?serverSelectionTimeoutMS=300",
		"srv":                   "mongodb+srv://bob:Hush@no-such-host.invalid/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			_, err := brief.connect(t.Context(), uri)
			if err == nil {
				t.Fatal("no error")
			}
			if took := time.Since(begin); took > slow {
				t.Errorf("it took %v", took)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				text := err.Error()
				if strings.Contains(text, "Hush") || strings.Contains(text, "ZZ") {
					t.Errorf("the error tells the password: %s", text)
				}
				if !strings.Contains(text, "MONGODB_URI") || !strings.Contains(text, "unset it") {
					t.Errorf("the error does not tell what to do: %s", text)
				}
			}
		})
	}
}

func TestURI(t *testing.T) {
	f := &fakeServer{build: bson.D{{Key: "version", Value: "7.0.5"}, {Key: "openssl", Value: bson.D{}}}, primary: true}
	uri := "mongodb://" + listen(t, func(conn net.Conn) { _ = f.serve(conn) }) + "/?directConnection=true"
	t.Setenv("MONGODB_URI", uri)
	t.Setenv("MONGOTEST_SERVER", "mongod")
	var notes strings.Builder
	s, err := Start(t.Context(), &Options{Server: "embedded", Stderr: &notes})
	if err != nil {
		t.Fatal(err)
	}
	if s.URI != uri || s.Engine != "other" || s.Version != "7.0.5" {
		t.Errorf("got %+v", s)
	}
	if notes.String() != "mongotest: MONGODB_URI is set and wins over embedded\n" {
		t.Errorf("noted %q", notes.String())
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := uriBounds.connect(t.Context(), uri); err != nil {
		t.Errorf("Close stopped a server that Start did not start: %v", err)
	}
}

// TestEngines: DocumentDB and others are not taken for MongoDB.
func TestEngines(t *testing.T) {
	t.Parallel()
	storage := bson.E{Key: "storageEngines", Value: bson.A{"wiredTiger"}}
	for name, c := range map[string]struct {
		build, hello bson.D
		want         string
	}{
		"mongod":           {bson.D{storage}, nil, "mongodb"},
		"mongos":           {bson.D{{Key: "openssl", Value: bson.D{}}}, bson.D{{Key: "msg", Value: "isdbgrid"}}, "mongodb"},
		"DocumentDB":       {bson.D{storage}, bson.D{{Key: "internal", Value: bson.D{{Key: "documentdb_versions", Value: bson.A{"0.109-0"}}}}}, "documentdb"},
		"DocumentDB 0.108": {nil, bson.D{{Key: "msg", Value: "isdbgrid"}, {Key: "internal", Value: bson.D{}}}, "documentdb"},
		"something":        {bson.D{{Key: "ferretdb", Value: bson.D{}}}, nil, "other"},
	} {
		f := &fakeServer{build: append(bson.D{{Key: "version", Value: "7.0.0"}}, c.build...), hello: c.hello, primary: true}
		s, err := uriBounds.connect(t.Context(), "mongodb://"+listen(t, func(conn net.Conn) { _ = f.serve(conn) })+"/?directConnection=true")
		if err != nil || s.Engine != c.want || s.Version != "7.0.0" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// TestPromisedBounds: what the documentation of Start says of a named server, 10 s and 26 s. The second attempt
// comes on top of the first, and so does the connection that tells whether there is one.
func TestPromisedBounds(t *testing.T) {
	t.Parallel()
	if most := uriBounds.first + uriBounds.margin/2; most > 10*time.Second {
		t.Errorf("the first attempt takes %v", most)
	}
	if most := uriBounds.first + uriBounds.busy + listenTimeout; most > 26*time.Second {
		t.Errorf("both attempts take %v", most)
	}
}

// TestBusyServer: a server that takes connections and does not answer for a while is waited for.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	f := &fakeServer{build: bson.D{{Key: "version", Value: "7.0.0"}}, primary: true}
	var connections atomic.Int32
	waits := bounds{first: brief.first, busy: uriBounds.busy, margin: brief.margin}
	uri := "mongodb://" + listen(t, func(conn net.Conn) {
		if connections.Add(1) == 1 { // the first attempt waits on it
			silent(conn)
			return
		}
		_ = f.serve(conn)
	}) + "/?directConnection=true"
	if s, err := waits.connect(t.Context(), uri); err != nil || s.Version != "7.0.0" || connections.Load() == 1 {
		t.Errorf("%+v, %v, %d connections", s, err, connections.Load())
	}
}

func TestStartIsCancelled(t *testing.T) {
	t.Setenv("MONGODB_URI", "mongodb://"+listen(t, silent)+"/")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := Start(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > slow {
		t.Errorf("it took %v", took)
	}
}
