package polymorphic_test

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/polymorphic"
)

type (
	// Product is the interface of bicycles and fishing rods.
	Product interface{ Price() int }
	Bicycle struct {
		ID    string `bson:"_id"`
		Cost  int    `bson:"price"`
		Gears int    `bson:"gears"`
	}
	FishingRod struct {
		ID     string `bson:"_id"`
		Cost   int    `bson:"price"`
		Length int    `bson:"length_cm"`
	}
)

func (b Bicycle) Price() int    { return b.Cost }
func (r FishingRod) Price() int { return r.Cost }

// A catalogue of bicycles and fishing rods: one query over all, code for each.
func Example() {
	ctx := context.Background()
	catalogue := mongotest.ExampleDatabase().Collection("catalogue")
	kinds, err := polymorphic.New([]polymorphic.Kind{
		polymorphic.Of[Bicycle]("bicycle"), polymorphic.Of[FishingRod]("fishing rod"),
	}, (*polymorphic.Options[Product])(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range []Product{Bicycle{"b1", 900, 21}, FishingRod{"r1", 80, 270}, Bicycle{"b2", 300, 3}} {
		raw, err := kinds.Encode(p)
		if err == nil {
			_, err = catalogue.InsertOne(ctx, raw)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	cheap := bson.M{"price": bson.M{"$lt": 500}}
	for p, err := range kinds.Find(ctx, catalogue, cheap, options.Find().SetSort(bson.D{{Key: "price", Value: 1}})) {
		switch p := p.(type) {
		case Bicycle:
			fmt.Printf("a bicycle of %d gears for %d\n", p.Gears, p.Price())
		case FishingRod:
			fmt.Printf("a rod of %d cm for %d\n", p.Length, p.Price())
		default:
			fmt.Println(err)
		}
	}
	n, err := catalogue.CountDocuments(ctx, polymorphic.FilterOf[Bicycle](kinds, cheap))
	fmt.Println("cheap bicycles:", n, err)
	// Output:
	// a rod of 270 cm for 80
	// a bicycle of 3 gears for 300
	// cheap bicycles: 1 <nil>
}

// Customers of two companies, whose documents differ, as one view.
func ExampleKinds_View() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	type (
		Shire struct {
			Name string `bson:"name"`
		}
		Rohan struct {
			Name string `bson:"name"`
		}
	)
	customers, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[Shire]("shire"), polymorphic.Of[Rohan]("rohan")},
		&polymorphic.Options[any]{KindField: "company"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pipeline, err := customers.View(
		polymorphic.Source{Collection: "shire", Kind: "shire"},
		polymorphic.Source{Collection: "rohan", Kind: "rohan", Map: mongo.Pipeline{{{Key: "$project", Value: bson.M{"name": "$title"}}}}})
	if err == nil {
		_, err = db.Collection("shire").InsertOne(ctx, bson.M{"_id": 1, "name": "Bilbo"})
	}
	if err == nil {
		_, err = db.Collection("rohan").InsertOne(ctx, bson.M{"_id": 2, "title": "Éowyn"})
	}
	if err == nil {
		err = db.CreateView(ctx, "customers", "shire", pipeline)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for c, err := range customers.Find(ctx, db.Collection("customers"), nil, options.Find().SetSort(bson.M{"_id": 1})) {
		fmt.Printf("%T %v %v\n", c, c, err)
	}
	// Output:
	// polymorphic_test.Shire {Bilbo} <nil>
	// polymorphic_test.Rohan {Éowyn} <nil>
}
