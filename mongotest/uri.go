package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/credentials"
)

// bounds are those of the check that a named server answers.
type bounds struct {
	// A server that takes connections has busy after first: on a busy machine a server is slow to answer, and a
	// wrong URI mostly names a port where nobody listens.
	first, busy time.Duration
	// margin is the part of them after the selection of a server, whose error tells more than that of a context.
	margin time.Duration
}

var uriBounds = bounds{first: 8 * time.Second, busy: 16 * time.Second, margin: 2 * time.Second}

// listenTimeout bounds the check that a port takes connections.
const listenTimeout = time.Second

// connect checks that the server at uri answers, and asks what it is. Its errors do not contain or wrap a
// secret of uri.
func (b bounds) connect(ctx context.Context, uri string) (*Server, error) {
	begin := time.Now()
	s, err := b.try(ctx, uri, b.first)
	if err != nil && time.Since(begin) >= b.selecting(b.first) && ctx.Err() == nil && listens(ctx, uri) {
		s, err = b.try(ctx, uri, b.busy)
	}
	if err == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("mongotest: reach the server of MONGODB_URI: %w", context.Cause(ctx))
	}
	return nil, fmt.Errorf("mongotest: MONGODB_URI: %v\nstart that server or correct MONGODB_URI, or unset it to let mongotest find or start a server", err)
}

func (b bounds) try(ctx context.Context, uri string, bound time.Duration) (*Server, error) {
	s, answers := &Server{URI: uri, AdminURI: uri}, make(chan error, 1)
	go func() { answers <- s.reach(ctx, bound, b.selecting(bound)) }()
	select {
	case err := <-answers:
		return s, err
	case <-time.After(bound + b.margin/2): // the driver looks up mongodb+srv names without a context
	case <-ctx.Done():
	}
	return s, errNoAnswer
}

var errNoAnswer = errors.New("no answer")

// listens reports whether every host of uri takes connections.
func listens(ctx context.Context, uri string) bool {
	if strings.HasPrefix(uri, "mongodb+srv:") { // looks up names without a context
		return false
	}
	dialer := net.Dialer{Timeout: listenTimeout}
	for _, host := range options.Client().ApplyURI(uri).Hosts {
		if !strings.Contains(host, ":") {
			host += ":27017"
		}
		conn, err := dialer.DialContext(ctx, "tcp", host)
		if err != nil {
			return false
		}
		_ = conn.Close()
	}
	return true
}

// selecting is the part of bound for the selection of a server.
func (b bounds) selecting(bound time.Duration) time.Duration { return bound - b.margin }

func (s *Server) reach(ctx context.Context, bound, selecting time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	opts, err := credentials.Options(s.URI)
	if err != nil {
		return err
	}
	opts.SetServerMonitoringMode(options.ServerMonitoringModePoll) // as shortLived does
	if opts.ServerSelectionTimeout == nil || *opts.ServerSelectionTimeout > selecting {
		opts.SetServerSelectionTimeout(selecting)
	}
	if err := s.describe(ctx, opts); err != nil {
		return fmt.Errorf("server %s: %s", strings.Join(opts.Hosts, ","), credentials.Hide(err.Error(), s.URI))
	}
	return nil
}
