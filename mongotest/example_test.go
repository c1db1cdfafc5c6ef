package mongotest_test

import (
	"context"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A program that is not a test starts a server, records what a client sends and reads the plan.
func ExampleStart() {
	ctx := context.Background()
	server, err := mongotest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	recorder := mongotest.NewRecorder()
	client, err := mongo.Connect(options.Client().ApplyURI(server.AdminURI).SetMonitor(recorder.Monitor()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	db := client.Database("mongotest_example")
	defer db.Drop(ctx)

	orders := db.Collection("orders")
	cmds := recorder.Record(func() {
		err = Place(ctx, orders, Order{Status: "open"})
		if err == nil {
			_, err = FindOpen(ctx, orders)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cmds.Names(), cmds.RoundTrips(), cmds.DocumentsWritten())
	plan, err := mongotest.ExplainCommand(ctx, db, cmds.Named("find")[0].Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Stages, plan.DocsExamined)
	// Output:
	// [insert find] 2 1
	// [SORT COLLSCAN] 1
}
