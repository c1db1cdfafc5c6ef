package subset_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/subset"
)

type Review struct {
	ID      int       `bson:"_id"`
	Product int       `bson:"product_id"`
	Author  string    `bson:"author"`
	Rating  int       `bson:"rating"`
	Date    time.Time `bson:"date"`
}

type Product struct {
	ID      int      `bson:"_id"`
	Name    string   `bson:"name"`
	Reviews []Review `bson:"reviews"`
	Count   int      `bson:"num_reviews"`
	Mean    float64  `bson:"mean_rating"`
}

func productReviews(db *mongo.Database, n int) *subset.Subset[int, Review] {
	reviews, err := subset.New[int, Review](db.Collection("products"), db.Collection("reviews"), &subset.Options{
		ParentField: "product_id",
		ArrayField:  "reviews",
		N:           n,
		Sort:        bson.D{{Key: "date", Value: -1}},
		CountField:  "num_reviews",
		Values:      []subset.Value{{Field: "rating", Sum: "sum_ratings", Mean: "mean_rating"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := reviews.EnsureIndexes(context.Background()); err != nil {
		log.Fatal(err)
	}
	return reviews
}

// The five calls that most programs need, and the product page, which is one
// FindOne.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	products := db.Collection("products")
	reviews := productReviews(db, 2)

	if _, err := products.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Baseball bat"}}); err != nil {
		log.Fatal(err)
	}
	for i, author := range []string{"Kristina", "Mark", "Tim"} {
		date := time.Date(2019, 2, 18+i, 0, 0, 0, 0, time.UTC)
		if _, err := reviews.Insert(ctx, 1, Review{ID: 786 + i, Author: author, Rating: 5 - i, Date: date}); err != nil {
			log.Fatal(err)
		}
	}

	var product Product
	if err := products.FindOne(ctx, bson.D{{Key: "_id", Value: 1}}).Decode(&product); err != nil {
		log.Fatal(err)
	}
	fmt.Println(product.Name, "has", product.Count, "reviews, mean", product.Mean)
	for _, review := range product.Reviews {
		fmt.Println("kept:", review.Author, review.Rating)
	}

	if err := reviews.Update(ctx, 1, 787, bson.D{{Key: "$set", Value: bson.D{{Key: "rating", Value: 1}}}}); err != nil {
		log.Fatal(err)
	}
	if err := reviews.Delete(ctx, 1, 788); err != nil {
		log.Fatal(err)
	}
	newest, err := reviews.Top(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, review := range newest {
		fmt.Println("newest:", review.Author, review.Rating)
	}
	for review, err := range reviews.All(ctx, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("all:", review.Author, review.Rating)
	}
	// Output:
	// Baseball bat has 3 reviews, mean 4
	// kept: Tim 3
	// kept: Mark 4
	// newest: Mark 1
	// newest: Kristina 5
	// all: Mark 1
	// all: Kristina 5
}

// Many items of many parents in few round trips: from a file, say.
func ExampleSubset_InsertMany() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	hosts := db.Collection("hosts")
	logs, err := subset.New[string, bson.D](hosts, db.Collection("messages"), &subset.Options{
		ParentField: "host",
		ArrayField:  "logs",
		N:           3,
		Sort:        bson.D{{Key: "time", Value: -1}},
		BestLast:    true,
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := hosts.InsertOne(ctx, bson.D{{Key: "_id", Value: "goofy"}}); err != nil {
		log.Fatal(err)
	}
	start := time.Date(2014, 3, 28, 9, 42, 0, 0, time.UTC)
	result, err := logs.InsertMany(ctx, func(yield func(string, bson.D) bool) {
		for i := range 10 {
			message := bson.D{{Key: "time", Value: start.Add(time.Duration(i) * time.Second)}, {Key: "message", Value: fmt.Sprint("line ", i)}}
			if !yield("goofy", message) {
				return
			}
		}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	var host struct {
		Logs  []struct{ Message string }
		Count int `bson:"logs_count"`
	}
	if err := hosts.FindOne(ctx, bson.D{}).Decode(&host); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, host.Count, host.Logs)
	// Output:
	// 10 10 [{line 7} {line 8} {line 9}]
}

// Products that hold all their reviews, and programs that write meanwhile.
func ExampleSubset_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	all := bson.A{}
	for i := range 50 {
		all = append(all, bson.D{{Key: "author", Value: fmt.Sprint("reader ", i)}, {Key: "rating", Value: 4}, {Key: "date", Value: time.Unix(int64(i), 0)}})
	}
	if _, err := db.Collection("products").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "reviews", Value: all}}); err != nil {
		log.Fatal(err)
	}
	reviews := productReviews(db, 10)
	result, err := reviews.Adopt(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, "product")

	// Old code pushes one more. The next write, or Adopt, takes it into the collection.
	push := bson.D{{Key: "$push", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "rating", Value: 3}, {Key: "date", Value: time.Unix(50, 0)}}}}}}
	if _, err := db.Collection("products").UpdateByID(ctx, 1, push); err != nil {
		log.Fatal(err)
	}
	if _, err := reviews.Insert(ctx, 1, Review{ID: 1, Rating: 5, Date: time.Unix(51, 0)}); err != nil {
		log.Fatal(err)
	}
	n, err := db.Collection("reviews").CountDocuments(ctx, reviews.ItemsFilter(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "reviews")
	// Output:
	// 1 product
	// 52 reviews
}

// The options may change: a larger N, another order, another aggregate.
func ExampleSubset_Repair() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	if _, err := db.Collection("products").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	small := productReviews(db, 2)
	for i := range 5 {
		if _, err := small.Insert(ctx, 1, Review{ID: i, Rating: 5}); err != nil {
			log.Fatal(err)
		}
	}
	large := productReviews(db, 4)
	for problem, err := range large.Check(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem.Kind, problem.Field)
	}
	result, err := large.Repair(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	kept, err := large.Top(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, "repaired,", len(kept), "kept")
	// Output:
	// pulled reviews
	// 1 repaired, 4 kept
}

// Approved reviews alone are kept and counted; the others wait in the collection.
func ExampleOptions_filter() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	reviews, err := subset.New[int, bson.D](db.Collection("products"), db.Collection("reviews"), &subset.Options{
		ArrayField: "reviews",
		Filter:     bson.D{{Key: "approved", Value: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Collection("products").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	for id := range 3 {
		if _, err := reviews.Insert(ctx, 1, bson.D{{Key: "_id", Value: id}, {Key: "approved", Value: id == 2}}); err != nil {
			log.Fatal(err)
		}
	}
	kept, err := reviews.Top(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(kept), "kept")
	if err := reviews.Update(ctx, 1, 0, bson.D{{Key: "$set", Value: bson.D{{Key: "approved", Value: true}}}}); err != nil {
		log.Fatal(err)
	}
	kept, err = reviews.Top(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(kept), "kept")
	// Output:
	// 1 kept
	// 2 kept
}

// All items a page at a time: pass ItemsFilter and Sort to the paging package;
// EnsureIndexes has made the index that the pages need.
func ExampleSubset_ItemsFilter() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	if _, err := db.Collection("products").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		log.Fatal(err)
	}
	reviews := productReviews(db, 2)
	for i := range 5 {
		if _, err := reviews.Insert(ctx, 1, Review{ID: i, Rating: i + 1, Date: time.Unix(int64(i), 0)}); err != nil {
			log.Fatal(err)
		}
	}
	pages, err := paging.New[Review](db.Collection("reviews"), reviews.Sort(), &paging.Options{PageSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	filter := append(reviews.ItemsFilter(1), bson.E{Key: "rating", Value: bson.D{{Key: "$gte", Value: 2}}})
	var request paging.Request
	for {
		page, err := pages.Page(ctx, filter, request)
		if err != nil {
			log.Fatal(err)
		}
		for _, review := range page.Items {
			fmt.Println(review.ID, review.Rating)
		}
		if !page.HasNext {
			return
		}
		fmt.Println("next page")
		request.After = page.Next
	}
	// Output:
	// 4 5
	// 3 4
	// next page
	// 2 3
	// 1 2
}
