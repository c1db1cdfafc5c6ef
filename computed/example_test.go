package computed_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Viewers and revenue of a film, updated by each write of a screening.
func Example() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	screenings, films := db.Collection("screenings"), db.Collection("films")
	type Film struct {
		Title   string `bson:"title"`
		Viewers int    `bson:"viewers"`
		Revenue int    `bson:"revenue"`
	}
	totals, err := computed.New[int, string, Film](screenings, films, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"},
			{Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
		Empty: bson.D{{Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := films.InsertOne(ctx, bson.M{"_id": "Dumbo", "title": "Dumbo"}); err != nil {
		fmt.Println(err)
		return
	}
	for id, viewers := range []int{120, 80, 100} {
		if err := totals.Insert(ctx, bson.M{"_id": id, "film": "Dumbo", "viewers": viewers, "revenue": 8 * viewers}); err != nil {
			fmt.Println(err)
		}
	}
	err = totals.Change(ctx, []int{0}, func(ctx context.Context) error { // one is corrected
		_, err := screenings.UpdateByID(ctx, 0, bson.M{"$set": bson.M{"viewers": 130, "revenue": 1040}})
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	film, err := totals.Get(ctx, "Dumbo", time.Hour)
	fmt.Printf("%+v %v\n", film, err)
	// Output: {Title:Dumbo Viewers:310 Revenue:2480} <nil>
}

// filmTotals keeps viewers with films, and inserts a film and a screening of it beside that.
func filmTotals(ctx context.Context) (totals *computed.Computed[int, string, bson.M], screenings, films *mongo.Collection, err error) {
	db := mongotest.ExampleDatabase()
	screenings, films = db.Collection("screenings"), db.Collection("films")
	totals, err = computed.New[int, string, bson.M](screenings, films, computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}}}}},
		Empty:    bson.D{{Key: "viewers", Value: 0}},
	}, nil)
	if err != nil {
		return totals, screenings, films, err
	}
	_, err = films.InsertOne(ctx, bson.M{"_id": "Dumbo"})
	if err != nil {
		return totals, screenings, films, err
	}
	_, err = screenings.InsertOne(ctx, bson.M{"_id": 1, "film": "Dumbo", "viewers": 120})
	return totals, screenings, films, err
}

// A write marks its film, in the same transaction, and a worker computes what is marked.
func ExampleComputed_Mark() {
	ctx := context.Background()
	totals, screenings, films, err := filmTotals(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = mongopatterns.Transact(ctx, films.Database().Client(), func(ctx context.Context) error {
		if _, err := screenings.InsertOne(ctx, bson.M{"_id": 2, "film": "Dumbo", "viewers": 80}); err != nil {
			return err
		}
		return totals.Mark(ctx, "Dumbo")
	})
	fmt.Println(err)

	result, err := totals.Drain(ctx, nil) // the worker, every few seconds
	fmt.Println(result.Done, "computed", err)
	var film struct{ Viewers int }
	err = films.FindOne(ctx, bson.M{"_id": "Dumbo"}).Decode(&film)
	fmt.Println(film.Viewers, "viewers", err)
	// Output:
	// <nil>
	// 1 computed <nil>
	// 200 viewers <nil>
}

// Old values are computed anew when somebody reads them: here after an hour at the earliest, and at once.
func ExampleComputed_Get() {
	ctx := context.Background()
	totals, screenings, _, err := filmTotals(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(maxAge time.Duration) {
		film, err := totals.Get(ctx, "Dumbo", maxAge)
		fmt.Println(film["viewers"], err)
	}
	show(time.Hour) // never computed before
	if _, err := screenings.InsertOne(ctx, bson.M{"_id": 2, "film": "Dumbo", "viewers": 80}); err != nil {
		fmt.Println(err)
	}
	show(time.Hour)
	show(0)
	// Output:
	// 120 <nil>
	// 120 <nil>
	// 200 <nil>
}

// A program that knows nothing of the total has added a screening: Check finds it, Repair computes it.
func ExampleComputed_Check() {
	ctx := context.Background()
	totals, screenings, _, err := filmTotals(ctx)
	if err == nil {
		_, err = totals.RefreshAll(ctx, nil)
	}
	if err == nil {
		_, err = screenings.InsertOne(ctx, bson.M{"_id": 2, "film": "Dumbo", "viewers": 80})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for problem, err := range totals.Check(ctx, nil) {
		fmt.Println(problem, err)
	}
	result, err := totals.Repair(ctx, nil)
	fmt.Println(result.Done, "repaired", err)
	// Output:
	// computed: films "Dumbo": wrong field: viewers is 120, want 200 <nil>
	// 1 repaired <nil>
}
