// Command insurance is a small service that keeps policies with all their revisions,
// though their schema has changed and their covers are of several kinds, and shows the
// customers of two companies as one list. It is meant to be copied.
//
//	go run ./cmd/devserver                                # prints a MONGODB_URI
//	MONGODB_URI=… go run ./examples/insurance
//
//	curl -X POST localhost:8080/policies -d '{"id":"bilbo","holder":"Bilbo Baggins","plan":"Shire standard"}'
//	curl -X POST localhost:8080/policies/bilbo/covers -d '{"author":"elrond","reason":"from the troll cave","kind":"item","item":{"name":"Elven Sword","value":900}}'
//	curl localhost:8080/policies/bilbo/history
//	curl localhost:8080/customers
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
	database := flag.String("db", "insurance", "name of the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("MONGODB_URI"), *database, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, uri, database, address string) error {
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
	if err := service.ensureIndexes(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := newServer(service.handler())
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(grace)
	}()
	log.Printf("insurance: listening on http://%s", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// newServer bounds how long a client may take to send a request and to read the answer: otherwise a slow or silent
// one keeps its connection for ever.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
}
