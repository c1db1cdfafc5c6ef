package split_test

import (
	"context"
	"fmt"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

type Movie struct {
	ID    int    `bson:"_id"`
	Title string `bson:"title"`
	Year  int    `bson:"year"`
}

type Details struct {
	Plot string `bson:"plot"`
	IMDB struct {
		Rating float64 `bson:"rating"`
		Votes  int     `bson:"votes"`
	} `bson:"imdb"`
}

func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	movies, err := split.New[int, Movie, Details](db.Collection("movies"), db.Collection("movie_details"),
		&split.Options{IDField: "movie_id"})
	if err != nil {
		log.Fatal(err)
	}
	if err := movies.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	details := Details{Plot: "A train arrives."}
	details.IMDB.Rating, details.IMDB.Votes = 7.3, 5043
	if err := movies.Insert(ctx, 1, Movie{1, "The Arrival of a Train", 1896}, details); err != nil {
		log.Fatal(err)
	}
	votes := bson.D{{Key: "$inc", Value: bson.D{{Key: "imdb.votes", Value: 1}}}}
	if err := movies.Update(ctx, 1, nil, votes); err != nil {
		log.Fatal(err)
	}
	movie, err := movies.GetHot(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(movie.Title, movie.Year)
	movie, details, err = movies.Get(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(movie.ID, details.Plot, details.IMDB.Votes)
	// Output:
	// The Arrival of a Train 1896
	// 1 A train arrives. 5044
}

// A collection whose documents have grown too large for its lists.
func ExampleSplit_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll := db.Collection("movies")
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "The Arrival of a Train"},
		{Key: "plot", Value: "A train arrives."}, {Key: "fullplot", Value: "A train arrives at a station."}}); err != nil {
		log.Fatal(err)
	}
	movies, err := split.New[int, bson.D, bson.D](coll, db.Collection("movie_details"), &split.Options{
		IDField:    "movie_id",
		ColdFields: []string{"plot", "fullplot"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := movies.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	result, err := movies.Adopt(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, "document")
	movie, err := movies.GetHot(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(movie)
	// Output:
	// 1 document
	// {"_id":{"$numberInt":"1"},"title":"The Arrival of a Train"}
}

// Whole documents of a list: your own stages, then the join.
func ExampleSplit_JoinPipeline() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	movies, err := split.New[int, Movie, bson.D](db.Collection("movies"), db.Collection("details"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, title := range []string{"The Arrival of a Train", "A Trip to the Moon"} {
		if err := movies.Insert(ctx, i, Movie{Title: title, Year: 1896 + 6*i}, bson.D{{Key: "plot", Value: "…"}}); err != nil {
			log.Fatal(err)
		}
	}
	cursor, err := db.Collection("movies").Aggregate(ctx, append(mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "year", Value: bson.D{{Key: "$gt", Value: 1900}}}}}},
	}, movies.JoinPipeline()...))
	if err != nil {
		log.Fatal(err)
	}
	var whole []struct {
		Title, Plot string
	}
	if err := cursor.All(ctx, &whole); err != nil {
		log.Fatal(err)
	}
	fmt.Println(whole[0].Title, whole[0].Plot)
	// Output:
	// A Trip to the Moon …
}
