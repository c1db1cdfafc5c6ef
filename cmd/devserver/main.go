// Command devserver starts a MongoDB server for development, prints its URI,
// and keeps it until it is interrupted by Ctrl-C or SIGTERM:
//
//	go run ./cmd/devserver                # one member: transactions, change streams
//	go run ./cmd/devserver -members 3     # with elections
//	go run ./cmd/devserver -shards 2      # a sharded cluster
//
// Give the URI to a service in another shell, most often as MONGODB_URI. Its user may do
// what the role readWrite allows; stderr has the URI of one with all rights. In a
// script run the built command: go run does not pass SIGTERM on.
// The server is the one that tests get: package mongotest says which, and which
// variables choose another. Its data goes with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

func main() {
	members := flag.Int("members", 1, "mongods in the replica set; 3 have elections")
	shards := flag.Int("shards", 0, "shards of a cluster, each of one mongod; 0 is a replica set")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, mongotest.Options{Members: *members, Shards: *shards}, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts a server, prints its URI as the only line on out, and closes it
// when ctx ends.
func run(ctx context.Context, opts mongotest.Options, out, notes io.Writer) error {
	opts.Stderr = notes
	server, err := mongotest.Start(ctx, &opts)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, server.URI); err != nil {
		_ = server.Close()
		return err
	}
	_, _ = fmt.Fprintf(notes, "%s %s runs until Ctrl-C\n", server.Engine, server.Version)
	if server.AdminURI != server.URI {
		_, _ = fmt.Fprintf(notes, "with all rights: %s\n", server.AdminURI)
	}
	<-ctx.Done()
	return server.Close()
}
