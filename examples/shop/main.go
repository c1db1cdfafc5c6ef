// Command shop is a small shop service in which the patterns meet: products with
// attributes, their newest reviews and their buyers, a category tree, customers
// with a history, and orders that carry copies of both. It is meant to be copied.
//
//	MONGODB_URI=mongodb://localhost:27017/?replicaSet=rs go run ./examples/shop
//
//	curl -X POST localhost:8080/categories -d '{"id":"drives","name":"Hard Drives"}'
//	curl -X POST localhost:8080/products -d '{"sku":"hd-1","name":"Disk","category":"drives","price":4900,"specs":{"size":"2.5in","capacity":1000}}'
//	curl -X POST localhost:8080/customers -d '{"id":"ann","name":"Ann","address":{"street":"1 Main St","city":"Atlanta"}}'
//	curl -X POST localhost:8080/orders -d '{"customer":"ann","lines":[{"sku":"hd-1","quantity":2}]}'
//	curl -X POST localhost:8080/products/hd-1/reviews -d '{"author":"ann","rating":5,"text":"Silent."}'
//	curl localhost:8080/products/hd-1
//	curl 'localhost:8080/categories/drives/products?sort=-price&spec=size:2.5in&spec=capacity:500..2000'
//
// Most of it is written in transactions, so the server must be a replica set or a
// sharded cluster.
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
	database := flag.String("db", "shop", "name of the database")
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

	// Page tokens are signed with SHOP_TOKEN_KEY, so that clients cannot make
	// their own. It has 32 bytes or more: openssl rand -base64 32. Without it they are not; what a token can ask for is bound to
	// the list all the same.
	var keys [][]byte
	if key := os.Getenv("SHOP_TOKEN_KEY"); key != "" {
		keys = append(keys, []byte(key))
	}
	service, err := newService(client.Database(database), settings{tokenKeys: keys})
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
	log.Printf("shop: listening on http://%s", listener.Addr())
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
