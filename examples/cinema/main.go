// Command cinema is a small service that sells seats: cells that are taken once,
// totals that follow each sale, page views that are counted a hundred at a time. It is
// meant to be copied.
//
//	go run ./cmd/devserver                                # prints a MONGODB_URI
//	MONGODB_URI=… go run ./examples/cinema
//
//	go run ./cmd/devserver -shards 2                      # or on a sharded cluster
//	MONGODB_URI=… go run ./examples/cinema -shard
//
//	curl -X POST localhost:8080/films -d '{"id":"dumbo","title":"Dumbo"}'
//	curl -X POST localhost:8080/screenings -d '{"id":"fri","film":"dumbo","price":8,"rows":[10,12,14]}'
//	curl -X POST localhost:8080/screenings/fri/holds -d '{"order":"7","seats":3}'
//	curl -X POST localhost:8080/screenings/fri/sales -d '{"order":"7","seats":["A.1","A.2","A.3"]}'
//	curl localhost:8080/films/dumbo
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	address := flag.String("http", "127.0.0.1:8080", "address to listen on")
	database := flag.String("db", "cinema", "name of the database")
	shard := flag.Bool("shard", false, "shard the collections, on a mongos")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("MONGODB_URI"), *database, *address, *shard); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, uri, database, address string, shard bool) error {
	if uri == "" {
		return errors.New("set MONGODB_URI to the server to use: go run ./cmd/devserver starts one and prints its URI")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil { // which may quote the password
		return errors.New("MONGODB_URI is not valid: special characters in user and password must be percent-encoded")
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	service, err := newService(client.Database(database))
	if err != nil {
		return err
	}
	prepare := service.ensureIndexes
	if shard {
		prepare = service.shard
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, service, listener)
}

// serve answers requests until ctx ends. The page views are flushed at intervals, and once more when
// no request is under way: a counter that is closed earlier counts no more views.
func serve(ctx context.Context, service *service, listener net.Listener) error {
	counting, stopCounting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCounting()
	flushed := make(chan error, 1)
	go func() {
		flushed <- service.views.Run(counting, func(err error) { log.Printf("cinema: page views: %v", err) })
	}()
	server := newServer(service.handler())
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(grace)
	}()
	log.Printf("cinema: listening on http://%s", listener.Addr())
	err := server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = <-stopped
	}
	stopCounting()
	return errors.Join(err, <-flushed)
}

// newServer bounds how long a client may take to send a request and to read the answer: otherwise a slow or silent
// one keeps its connection for ever.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
}
