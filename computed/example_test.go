package computed_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Viewers and revenue of a film, kept with it by each write of a screening.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	screenings, films := db.Collection("screenings"), db.Collection("films")
	type Film struct {
		Title   string `bson:"title"`
		Viewers int    `bson:"viewers"`
		Revenue int    `bson:"revenue"`
	}
	totals, err := computed.New[int, string, Film](screenings, films,
		"film",
		mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"},
			{Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
		bson.D{{Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}},
		nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := films.InsertOne(ctx, bson.M{"_id": "Dumbo", "title": "Dumbo"}); err != nil {
		fmt.Println(err)
		return
	}
	for id, viewers := range []int{120, 80, 100} {
		err := totals.Change(ctx, []int{id}, func(ctx context.Context) error {
			_, err := screenings.InsertOne(ctx, bson.M{"_id": id, "film": "Dumbo", "viewers": viewers, "revenue": 8 * viewers})
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	film, err := totals.Get(ctx, "Dumbo", time.Hour)
	fmt.Printf("%+v %v\n", film, err)
	// Output: {Title:Dumbo Viewers:300 Revenue:2400} <nil>
}
