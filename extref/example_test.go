package extref_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

type Address struct {
	Street string `bson:"street"`
	City   string `bson:"city"`
}

type Customer struct {
	ID      int     `bson:"_id"`
	Name    string  `bson:"name"`
	Address Address `bson:"address"`
	Phone   string  `bson:"phone"`
	Version int64   `bson:"version"`
}

type Order struct {
	ID       string `bson:"_id"`
	Customer struct {
		ID      int     `bson:"_id"`
		Name    string  `bson:"name"`
		Address Address `bson:"address"`
		Version int64   `bson:"version"`
	} `bson:"customer"`
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The calls that most programs need. The name follows, the address shipped to
// does not.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customerColl, orderColl := db.Collection("customers"), db.Collection("orders")

	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
		Collection: orderColl,
		Path:       "customer",
		Fields:     []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}},
	}}, nil)
	check(err)
	check(customers.EnsureIndexes(ctx))

	katrina := Customer{ID: 123, Name: "Katrina Pope", Address: Address{"123 Main St", "Somewhere"}}
	_, err = customerColl.InsertOne(ctx, katrina)
	check(err)
	copied, err := customers.Copy("orders.customer", katrina)
	check(err)
	_, err = orderColl.InsertOne(ctx, bson.D{{Key: "_id", Value: "A-17"}, {Key: "customer", Value: copied}})
	check(err)

	result, err := customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{
		{Key: "name", Value: "Katrina Pop"}, {Key: "address.city", Value: "Elsewhere"},
	}}})
	check(err)
	fmt.Println("version", result.Version, "in", result.Copies.Done, "order")

	var order Order
	check(orderColl.FindOne(ctx, bson.D{{Key: "_id", Value: "A-17"}}).Decode(&order))
	fmt.Println(order.Customer.Name, "of", order.Customer.Address.City)

	result, err = customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "phone", Value: "503-555-0100"}}}})
	check(err)
	fmt.Println("phone:", result.Changed)

	_, err = customers.Delete(ctx, 123)
	fmt.Println("refused:", errors.Is(err, mongopatterns.ErrReferenced))
	// Output:
	// version 1 in 1 order
	// Katrina Pop of Somewhere
	// phone: false
	// refused: true
}

// A copy with a nested document, beside the other fields of the order: the copy's type is inlined.
func ExampleAs_nested() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customerColl, orderColl := db.Collection("customers"), db.Collection("orders")
	type CustomerCopy struct {
		ID       int `bson:"customer_id"`
		Customer struct {
			Name    string `bson:"name"`
			Version int64  `bson:"version"`
		} `bson:"customer"`
	}
	type Order struct {
		ID           string `bson:"_id"`
		CustomerCopy `bson:",inline"`
	}
	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
		Collection: orderColl, IDField: "customer_id", VersionField: "customer.version",
		Fields: []extref.Field{{Path: "name", As: "customer.name"}},
	}}, nil)
	check(err)
	copies, err := extref.As[CustomerCopy](customers, "orders")
	check(err)
	_, err = customerColl.InsertOne(ctx, Customer{ID: 123, Name: "Katrina Pope", Version: 4})
	check(err)

	copied, err := copies.Fetch(ctx, 123)
	check(err)
	_, err = orderColl.InsertOne(ctx, Order{"A-17", copied})
	check(err)
	_, err = customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}})
	check(err)
	stored, err := orderColl.FindOne(ctx, bson.D{}).Raw()
	check(err)
	fmt.Println(stored)
	// Output:
	// {"_id": "A-17","customer_id": {"$numberInt":"123"},"customer": {"name": "Katrina Pop","version": {"$numberLong":"5"}}}
}

// The reference is current when the order is committed, whatever happens to the
// customer meanwhile.
func ExampleSource_Pin() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customerColl, orderColl := db.Collection("customers"), db.Collection("orders")
	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
		Collection: orderColl, Path: "customer", Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	check(err)
	_, err = customerColl.InsertOne(ctx, Customer{ID: 7, Name: "Ada"})
	check(err)

	err = mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		copied, err := customers.Pin(ctx, "orders.customer", 7)
		if err != nil {
			return err
		}
		_, err = orderColl.InsertOne(ctx, bson.D{{Key: "customer", Value: copied}})
		return err
	})
	check(err)

	filter, err := customers.Filter("orders.customer", 7)
	check(err)
	n, err := orderColl.CountDocuments(ctx, filter)
	check(err)
	fmt.Println(n, "order")
	// Output:
	// 1 order
}

// A change returns at once; a worker brings it to the copies.
func ExampleSource_Drain() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	products, parts := db.Collection("products"), db.Collection("parts")
	refs, err := extref.New[string, bson.D](products, []extref.Target{{
		Collection: parts, IDField: "product_id", VersionField: "product_version",
		Fields: []extref.Field{{Path: "name", As: "product_name"}, {Path: "catalog_number", As: "product_catalog_number"}},
	}}, &extref.Options{Outbox: db.Collection("products.outbox")})
	check(err)
	check(refs.EnsureIndexes(ctx))

	shifter := bson.D{{Key: "_id", Value: "p1"}, {Key: "name", Value: "left-handed smoke shifter"}, {Key: "catalog_number", Value: 1234}}
	_, err = products.InsertOne(ctx, shifter)
	check(err)
	for i := range 5 {
		copied, err := refs.Copy("parts", shifter)
		check(err)
		_, err = parts.InsertOne(ctx, append(bson.D{{Key: "_id", Value: i}}, copied...))
		check(err)
	}

	_, err = refs.Update(ctx, "p1", bson.D{{Key: "$set", Value: bson.D{{Key: "catalog_number", Value: 4321}}}})
	check(err)
	behind := 0
	for problem, err := range refs.Check(ctx, nil) {
		check(err)
		if problem.Kind == extref.Behind {
			behind++
		}
	}
	fmt.Println(behind, "parts are behind")
	drained, err := refs.Drain(ctx, nil) // every so often
	check(err)
	fmt.Println(drained.Done, "parts written")
	n, err := parts.CountDocuments(ctx, bson.D{{Key: "product_catalog_number", Value: 4321}})
	check(err)
	fmt.Println(n, "of the new number")
	// Output:
	// 5 parts are behind
	// 5 parts written
	// 5 of the new number
}

// The change stream works whoever changes the source, here with a plain
// update.
func ExampleSource_Watch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db := mongotest.ExampleDatabase()
	suppliers, invoices := db.Collection("suppliers"), db.Collection("invoices")
	refs, err := extref.New[int, bson.D](suppliers, []extref.Target{{
		Collection: invoices, Path: "supplier", Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	check(err)
	acme := bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Acme"}}
	_, err = suppliers.InsertOne(ctx, acme)
	check(err)
	copied, err := refs.Copy("invoices.supplier", acme)
	check(err)
	_, err = invoices.InsertOne(ctx, bson.D{{Key: "supplier", Value: copied}})
	check(err)

	err = refs.Watch(ctx, db.Collection("tokens"), &extref.WatchOptions{
		MaxAwait: 10 * time.Millisecond,
		Reconciled: func(tally) { // the stream is open
			_, err := suppliers.UpdateByID(ctx, 1, bson.D{
				{Key: "$set", Value: bson.D{{Key: "name", Value: "Acme & Sons"}}},
				{Key: "$inc", Value: bson.D{{Key: "version", Value: 1}}},
			})
			check(err)
		},
		Progress: func(mongopatterns.Result) { cancel() },
	})
	fmt.Println(errors.Is(err, context.Canceled))

	var invoice struct{ Supplier struct{ Name string } }
	check(invoices.FindOne(context.Background(), bson.D{}).Decode(&invoice))
	fmt.Println(invoice.Supplier.Name)
	// Output:
	// true
	// Acme & Sons
}

// References that have been plain IDs so far.
func ExampleSource_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	parts, products := db.Collection("parts"), db.Collection("products")
	_, err := parts.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 7}, {Key: "name", Value: "#4 grommet"}},
		bson.D{{Key: "_id", Value: 9}, {Key: "name", Value: "washer"}},
	})
	check(err)
	_, err = products.InsertOne(ctx, bson.D{{Key: "_id", Value: 5}, {Key: "parts", Value: bson.A{7, 9}}})
	check(err)

	// [7, 9] becomes [{id: 7}, {id: 9}], by an update of your own.
	_, err = products.UpdateMany(ctx, bson.D{}, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "parts", Value: bson.D{{Key: "$map", Value: bson.D{
			{Key: "input", Value: "$parts"}, {Key: "in", Value: bson.D{{Key: "id", Value: "$$this"}}},
		}}}},
	}}}})
	check(err)
	refs, err := extref.New[int, bson.D](parts, []extref.Target{{
		Collection: products, Path: "parts", Array: true, IDField: "id", Unversioned: true,
		Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	check(err)
	adopted, err := refs.Adopt(ctx, "products.parts", nil)
	check(err)
	fmt.Println(adopted.Done, "document filled in")
	var product bson.D
	check(products.FindOne(ctx, bson.D{}).Decode(&product))
	fmt.Println(product)
	// Output:
	// 1 document filled in
	// {"_id":{"$numberInt":"5"},"parts":[{"id":{"$numberInt":"7"},"name":"#4 grommet"},{"id":{"$numberInt":"9"},"name":"washer"}]}
}

// Problems, and their repair.
func ExampleSource_Check() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	customers, orders := db.Collection("customers"), db.Collection("orders")
	refs, err := extref.New[int, bson.D](customers, []extref.Target{{
		Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}},
	}}, nil)
	check(err)
	_, err = customers.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Ada"}, {Key: "version", Value: 2}})
	check(err)
	_, err = orders.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "customer", Value: bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "A."}, {Key: "version", Value: 1}}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "customer", Value: bson.D{{Key: "_id", Value: 3}, {Key: "name", Value: "Eve"}, {Key: "version", Value: 1}}}},
	})
	check(err)
	for problem, err := range refs.Check(ctx, nil) {
		check(err)
		fmt.Println(problem)
	}
	repaired, err := refs.Repair(ctx, nil)
	check(err)
	fmt.Println(repaired.Done, "repaired,", repaired.Remaining, "left")
	// Output:
	// extref: orders 1: behind: customer.version is 1, want 2: copy of 1
	// extref: orders 2: dangling: customer._id is 3
	// 1 repaired, 1 left
}

// Unlink takes the copies away when their source is deleted; by default Delete refuses while there are any.
func ExampleSource_Delete() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	authors, books, talks := db.Collection("authors"), db.Collection("books"), db.Collection("talks")
	type Author struct {
		ID   int    `bson:"_id"`
		Name string `bson:"name"`
	}
	copied := []extref.Field{{Path: "name"}}
	refs, err := extref.New[int, Author](authors, []extref.Target{
		{Collection: books, Path: "author", Fields: copied, Unversioned: true},
		{Collection: talks, Path: "speaker", Fields: copied, Unversioned: true, OnDelete: mongopatterns.Unlink},
	}, nil)
	check(err)
	check(refs.EnsureIndexes(ctx))
	for _, a := range []Author{{1, "Ann"}, {2, "Bob"}} {
		_, err := authors.InsertOne(ctx, a)
		check(err)
	}
	_, err = books.InsertOne(ctx, bson.M{"_id": 1, "author": Author{1, "Ann"}})
	check(err)
	_, err = talks.InsertOne(ctx, bson.M{"_id": 1, "speaker": Author{2, "Bob"}})
	check(err)

	_, err = refs.Delete(ctx, 1)
	fmt.Println(errors.Is(err, mongopatterns.ErrReferenced))
	result, err := refs.Delete(ctx, 2)
	fmt.Println(result.Done, err)
	raw, err := talks.FindOne(ctx, bson.M{}).Raw()
	fmt.Println(raw, err)
	// Output:
	// true
	// 1 <nil>
	// {"_id": {"$numberInt":"1"}} <nil>
}
