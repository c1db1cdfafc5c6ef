package polymorphic_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/relation"
)

type (
	// Part is a part of the shop: a customer, an order, a line of an order.
	Part     interface{ part() }
	Customer struct {
		ID   string `bson:"_id"`
		Name string `bson:"name"`
	}
	Order struct {
		ID        string   `bson:"_id"`
		RelatedTo []string `bson:"related_to,omitempty"`
		Day       string   `bson:"day"`
	}
	Line struct {
		ID        string   `bson:"_id"`
		RelatedTo []string `bson:"related_to,omitempty"`
		Article   string   `bson:"article"`
	}
	parts   struct{}
	PartDoc = polymorphic.Doc[Part, parts]
)

func (Customer) part() {}
func (Order) part()    {}
func (Line) part()     {}

var partKinds, errPartKinds = polymorphic.New([]polymorphic.Kind{
	polymorphic.Of[Customer]("customer"), polymorphic.Of[Order]("order"), polymorphic.Of[Line]("line"),
}, &polymorphic.Options[Part]{KindField: "doc_type"})

func (parts) Kinds() *polymorphic.Kinds[Part] { return partKinds }

// The single-collection pattern: customers, orders and lines in one collection, each naming what it belongs to. An
// order with its lines, or a customer with the orders, is one range of one index.
func ExampleKinds_Find_singleCollection() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	shop := db.Collection("shop")
	related, err := relation.New[string, string, PartDoc](shop, shop, &relation.Options{OwnersField: "related_to"})
	if err == nil {
		err = errPartKinds
	}
	if err == nil {
		_, err = shop.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "related_to", Value: 1}, {Key: "doc_type", Value: 1}}})
	}
	if err == nil {
		_, err = shop.InsertOne(ctx, PartDoc{V: Customer{"c7", "Ann"}})
	}
	insert := func(parent string, p Part) {
		if err == nil {
			_, err = related.Insert(ctx, parent, PartDoc{V: p})
		}
	}
	insert("c7", Order{ID: "o1", Day: "2026-11-20"})
	insert("c7", Order{ID: "o2", Day: "2026-11-23"})
	insert("o1", Line{ID: "o1-1", Article: "lamp"})
	insert("o1", Line{ID: "o1-2", Article: "chair"})
	if err == nil {
		err = related.Link(ctx, "c7", "o1-1", "o1-2") // a customer's lines, too, without a join
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	sorted := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})
	fmt.Println("all of the customer:")
	for p, err := range partKinds.Find(ctx, shop, bson.M{"related_to": "c7"}, sorted) {
		switch p := p.(type) {
		case Order:
			fmt.Println(" order", p.ID, p.Day)
		case Line:
			fmt.Println(" line", p.ID, p.Article)
		default:
			fmt.Println(p, err)
		}
	}
	orders, err := shop.CountDocuments(ctx, polymorphic.FilterOf[Order](partKinds, bson.M{"related_to": "c7"}))
	fmt.Println("orders:", orders, err)

	// An order that somebody deletes by hand leaves its lines behind.
	if _, err := shop.DeleteOne(ctx, bson.M{"_id": "o1"}); err != nil {
		fmt.Println(err)
	}
	for problem, err := range related.Check(ctx, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(problem)
	}
	// Output:
	// all of the customer:
	//  order o1 2026-11-20
	//  line o1-1 lamp
	//  line o1-2 chair
	//  order o2 2026-11-23
	// orders: 2 <nil>
	// relation: shop "o1-1": dangling: related_to is "o1": no such document in shop
	// relation: shop "o1-2": dangling: related_to is "o1": no such document in shop
}
