package mongotest

import (
	"context"
	"errors"
	"os"
	"sync"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a running server.
type Server struct {
	// URI connects to it.
	URI string
	// Engine is "mongod", "secantus-rs", "secantus-py" or "unknown".
	Engine string
	// Version is the engine's own version.
	Version string
}

// Options chooses the server.
type Options struct{}

// Start connects to or starts a server.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	uri := os.Getenv("MONGODB_URI")
	if uri == "" {
		return nil, errors.New("mongotest: MONGODB_URI is not set")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	defer client.Disconnect(ctx)
	engine, version, err := identify(ctx, client)
	if err != nil {
		return nil, err
	}
	return &Server{URI: uri, Engine: engine, Version: version}, nil
}

// Close stops what Start started.
func (s *Server) Close() error { return nil }

var theShared = sync.OnceValues(func() (*Server, error) { return Start(context.Background(), nil) })

func shared(context.Context) (*Server, error) { return theShared() }

func stopShared() {}
