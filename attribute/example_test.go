package attribute_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// The five calls that most programs need.
func Example() {
	ctx := context.Background()
	films := mongotest.ExampleDatabase().Collection("films")

	releases, err := attribute.New[int, time.Time](films, &attribute.Options{
		ArrayField: "releases",
		KeyField:   "location",
		ValueField: "date",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := releases.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := films.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "Star Wars"}}); err != nil {
		log.Fatal(err)
	}

	day := func(month time.Month, day int) time.Time { return time.Date(1977, month, day, 0, 0, 0, 0, time.UTC) }
	if err := releases.Set(ctx, 1, attribute.Named("USA"), day(5, 20)); err != nil {
		log.Fatal(err)
	}
	err = releases.SetAll(ctx, 1,
		attribute.Attribute[time.Time]{Key: "France", Value: day(10, 19)},
		attribute.Attribute[time.Time]{Key: "Italy", Value: day(10, 20)},
		attribute.Attribute[time.Time]{Key: "UK", Value: day(12, 27)})
	if err != nil {
		log.Fatal(err)
	}
	date, err := releases.Get(ctx, 1, attribute.Named("UK"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("UK", date.UTC().Format(time.DateOnly))
	if err := releases.Remove(ctx, 1, attribute.Named("UK")); err != nil {
		log.Fatal(err)
	}
	all, err := releases.GetAll(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, release := range all {
		fmt.Println(release.Key, release.Value.UTC().Format(time.DateOnly))
	}
	n, err := films.CountDocuments(ctx, releases.Filter(
		releases.Range(attribute.Named("USA"), day(5, 1), day(6, 1)),
		releases.Exists(attribute.Named("Italy"))))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("found", n)
	// Output:
	// UK 1977-12-27
	// USA 1977-05-20
	// France 1977-10-19
	// Italy 1977-10-20
	// found 1
}

// One key several times, distinguished by its unit.
func ExampleAttributes_Set_qualifier() {
	ctx := context.Background()
	bottles := mongotest.ExampleDatabase().Collection("bottles")
	specs, err := attribute.New[int, string](bottles, &attribute.Options{ArrayField: "specs", QualifierField: "u"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bottles.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	if err := specs.Set(ctx, 1, attribute.Named("volume").Qualified("ml"), "500"); err != nil {
		log.Fatal(err)
	}
	if err := specs.Set(ctx, 1, attribute.Named("volume").Qualified("ounces"), "12"); err != nil {
		log.Fatal(err)
	}
	ml, err := specs.Get(ctx, 1, attribute.Named("volume").Qualified("ml"))
	fmt.Println(ml, err)
	for _, unit := range []string{"ml", "ounces"} {
		n, err := bottles.CountDocuments(ctx, specs.Filter(specs.Equals(attribute.Named("volume").Qualified(unit), "500")))
		fmt.Println(unit, n, err)
	}
	// Output:
	// 500 <nil>
	// ml 1 <nil>
	// ounces 0 <nil>
}

// Add does not overwrite.
func ExampleAttributes_Add() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("products")
	specs, err := attribute.New[int, any](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(specs.Add(ctx, 1, attribute.Named("color"), "red"))
	fmt.Println(errors.Is(specs.Add(ctx, 1, attribute.Named("color"), "blue"), mongopatterns.ErrExists))
	fmt.Println(errors.Is(specs.Replace(ctx, 1, attribute.Named("size"), 5), attribute.ErrNoAttribute))
	// Output:
	// <nil>
	// true
	// true
}

// Values of several types in one array, each read with its type.
func ExampleAs() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("products")
	specs, err := attribute.New[int, any](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	entries, err := specs.Elements(
		attribute.Attribute[any]{Key: "color", Value: "red"},
		attribute.Attribute[any]{Key: "weight", Value: 2.5})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "attributes", Value: entries}}); err != nil {
		log.Fatal(err)
	}
	weights := attribute.As[float64](specs)
	weight, err := weights.Get(ctx, 1, attribute.Named("weight"))
	fmt.Println(weight*2, err)
	n, err := coll.CountDocuments(ctx, weights.Filter(weights.Gte(attribute.Named("weight"), 2)))
	fmt.Println(n, err)
	// Output:
	// 5 <nil>
	// 1 <nil>
}

// The price of one channel for a screening, and all screenings of a channel.
func ExampleAttributes_Values() {
	ctx := context.Background()
	schedules := mongotest.ExampleDatabase().Collection("schedules")
	channels, err := attribute.New[string, int](schedules, &attribute.Options{
		ArrayField: "provider", KeyField: "channel", ValueField: "price",
		Indexes: []attribute.Index{
			{Prefix: []string{"scheduleId", "movie"}, KeyOnly: true},
			{KeyOnly: true},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := channels.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = schedules.InsertOne(ctx, bson.D{
		{Key: "_id", Value: "s1"}, {Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"},
		{Key: "provider", Value: bson.A{
			bson.D{{Key: "channel", Value: "gewala"}, {Key: "price", Value: 30}},
			bson.D{{Key: "channel", Value: "maoyan"}, {Key: "price", Value: 50}},
			bson.D{{Key: "channel", Value: "taopiao"}, {Key: "price", Value: 20}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	price, err := channels.GetBy(ctx, bson.D{{Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"}}, attribute.Named("gewala"))
	fmt.Println(price, err)
	for screening, err := range channels.Values(ctx, nil, attribute.Named("maoyan")) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(screening.ID, screening.Value)
	}
	// Output:
	// 30 <nil>
	// s1 50
}

func productsExample(ctx context.Context) *attribute.Attributes[int, string] {
	coll := mongotest.ExampleDatabase().Collection("products")
	specs, err := attribute.New[int, string](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	for id, colors := range []string{"red", "blue", "red", ""} {
		entries := bson.A{bson.D{{Key: "k", Value: "size"}, {Key: "v", Value: "M"}}}
		if colors != "" {
			entries = append(entries, bson.D{{Key: "k", Value: "color"}, {Key: "v", Value: colors}})
		}
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "attributes", Value: entries}}); err != nil {
			log.Fatal(err)
		}
	}
	return specs
}

// You decide whether documents without a color count as "not red".
func ExampleCondition() {
	ctx := context.Background()
	specs := productsExample(ctx)
	red := specs.Equals(attribute.Named("color"), "red")
	colored := specs.Exists(attribute.Named("color"))
	for _, all := range [][]attribute.Condition{{red}, {red.NotOrMissing()}, {colored, red.NotOrMissing()}} {
		facets, err := specs.Facets(ctx, specs.Filter(all...), &attribute.FacetOptions{Keys: []string{"size"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(facets[0].Count)
	}
	// Output:
	// 2
	// 2
	// 1
}

// The counts beside a search's results.
func ExampleAttributes_Facets() {
	ctx := context.Background()
	specs := productsExample(ctx)
	facets, err := specs.Facets(ctx, nil, &attribute.FacetOptions{Top: 5})
	if err != nil {
		log.Fatal(err)
	}
	for _, facet := range facets {
		fmt.Println(facet.Key, facet.Count)
		for _, value := range facet.Values {
			fmt.Println("-", value.Value, value.Count)
		}
	}
	// Output:
	// color 3
	// - red 2
	// - blue 1
	// size 4
	// - M 4
}

// Products by color; those without one come last.
func ExampleAttributes_SortPipeline() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("products")
	specs, err := attribute.New[int, int](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	for id, weight := range []int{30, 10, 20} {
		entries, err := specs.Elements(attribute.Attribute[int]{Key: "weight", Value: weight})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "attributes", Value: entries}}); err != nil {
			log.Fatal(err)
		}
	}
	lightest := append(specs.SortPipeline(nil, attribute.Named("weight"), nil), bson.D{{Key: "$limit", Value: 2}})
	cursor, err := coll.Aggregate(ctx, lightest)
	if err != nil {
		log.Fatal(err)
	}
	var products []struct {
		ID int `bson:"_id"`
	}
	if err := cursor.All(ctx, &products); err != nil {
		log.Fatal(err)
	}
	fmt.Println(products)
	// Output: [{1} {2}]
}

// Pages of products by weight; the paging package does the rest.
func ExampleAttributes_ValuesPipeline() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("products")
	weights, err := attribute.New[int, int](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	for id, weight := range []int{30, 10, 20, 30} {
		entries, err := weights.Elements(attribute.Attribute[int]{Key: "weight", Value: weight})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "attributes", Value: entries}}); err != nil {
			log.Fatal(err)
		}
	}
	pager, err := paging.New[attribute.Value[int, int]](coll, bson.D{{Key: "value", Value: -1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	filter := weights.Filter(weights.Gt(attribute.Named("weight"), 10))
	request := paging.Request{Size: 2}
	for {
		page, err := pager.Page(ctx, weights.ValuesPipeline(filter, attribute.Named("weight")), request)
		if err != nil {
			log.Fatal(err)
		}
		for _, item := range page.Items {
			fmt.Println(item.ID, item.Value)
		}
		if !page.HasNext {
			break
		}
		request.After = page.Next
	}
	// Output:
	// 3 30
	// 0 30
	// 2 20
}

// Fields become entries; the second run finds nothing to do.
func ExampleAttributes_Adopt() {
	ctx := context.Background()
	films := mongotest.ExampleDatabase().Collection("films")
	for id := range 100 {
		_, err := films.InsertOne(ctx, bson.D{
			{Key: "_id", Value: id},
			{Key: "release_US", Value: time.Date(1977, 5, 20, 0, 0, 0, 0, time.UTC)},
			{Key: "release_UK", Value: nil},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	releases, err := attribute.New[int, time.Time](films, &attribute.Options{ArrayField: "releases", KeyField: "location", ValueField: "date"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		result, err := releases.Adopt(ctx, []attribute.Column{
			{Path: "release_US", Key: "USA"},
			{Path: "release_UK", Key: "UK"},
		}, &mongopatterns.Work{BatchSize: 30})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Done, result.Skipped)
	}
	var film bson.Raw
	if err := films.FindOne(ctx, bson.D{{Key: "_id", Value: 7}}).Decode(&film); err != nil {
		log.Fatal(err)
	}
	fmt.Println(film)
	// Output:
	// 100 0
	// 0 0
	// {"_id": {"$numberInt":"7"},"releases": [{"location": "USA","date": {"$date":{"$numberLong":"232934400000"}}}]}
}

// A key is renamed in the whole collection.
func ExampleAttributes_RenameKey() {
	ctx := context.Background()
	specs := productsExample(ctx)
	result, err := specs.RenameKey(ctx, "color", "colour", nil)
	fmt.Println(result.Done, result.Skipped, err)
	color, err := specs.Get(ctx, 1, attribute.Named("colour"))
	fmt.Println(color, err)
	// Output:
	// 3 0 <nil>
	// blue <nil>
}

// The filter can be combined with others: here films out in the UK, or of 1977.
func ExampleAttributes_Filter() {
	ctx := context.Background()
	films := mongotest.ExampleDatabase().Collection("films")
	releases, err := attribute.New[int, int](films, &attribute.Options{ArrayField: "releases", KeyField: "location", ValueField: "year"})
	if err != nil {
		log.Fatal(err)
	}
	for id, location := range []string{"USA", "UK", "Italy"} {
		entries, err := releases.Elements(attribute.Attribute[int]{Key: location, Value: 1977 + id})
		if err != nil {
			log.Fatal(err)
		}
		_, err = films.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "year", Value: 1977 + id}, {Key: "releases", Value: entries}})
		if err != nil {
			log.Fatal(err)
		}
	}
	n, err := films.CountDocuments(ctx, bson.D{{Key: "$or", Value: bson.A{
		releases.Filter(releases.Gte(attribute.Named("UK"), 1978)),
		bson.D{{Key: "year", Value: 1977}},
	}}})
	fmt.Println(n, err)
	// Output: 2 <nil>
}

// Entries become fields again.
func ExampleAttributes_Unadopt() {
	ctx := context.Background()
	specs := productsExample(ctx)
	result, err := specs.Unadopt(ctx, []attribute.Column{{Path: "info.color", Key: "color"}}, nil)
	fmt.Println(result.Done, err)
	_, err = specs.Get(ctx, 0, attribute.Named("color"))
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// attribute: get: _id 0: no such attribute: key "color"
}

// A plain $push has added a key that existed already.
func ExampleAttributes_Repair() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("products")
	specs, err := attribute.New[int, string](coll, nil)
	if err != nil {
		log.Fatal(err)
	}
	red, blue := bson.D{{Key: "k", Value: "color"}, {Key: "v", Value: "red"}}, bson.D{{Key: "k", Value: "color"}, {Key: "v", Value: "blue"}}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "attributes", Value: bson.A{red, blue}}}); err != nil {
		log.Fatal(err)
	}
	for problem, err := range specs.Check(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem.Kind, problem.Detail)
	}
	result, err := specs.Repair(ctx, nil)
	fmt.Println(result.Done, err)
	color, err := specs.Get(ctx, 1, attribute.Named("color"))
	fmt.Println(color, err)
	// Output:
	// duplicate key "color"
	// 1 <nil>
	// blue <nil>
}
