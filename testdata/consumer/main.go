// A program of a module outside the repository, written from the packages'
// documentation alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

type room struct {
	ID   string `bson:"_id"`
	Name string `bson:"name"`
}

type reading struct {
	At    time.Time `bson:"at"`
	Value float64   `bson:"value"`
}

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Disconnect(ctx)
	if err := run(ctx, client.Database(os.Args[1])); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, db *mongo.Database) error {
	// Existing documents with a parent of another name, adopted into a tree.
	coll := db.Collection("rooms")
	if _, err := coll.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "house"}, {Key: "name", Value: "House"}, {Key: "in", Value: nil}},
		bson.D{{Key: "_id", Value: "attic"}, {Key: "name", Value: "Attic"}, {Key: "in", Value: "house"}},
		bson.D{{Key: "_id", Value: "cellar"}, {Key: "name", Value: "Cellar"}, {Key: "in", Value: "house"}},
	}); err != nil {
		return err
	}
	rooms, err := tree.New[string, room](coll, tree.AncestorArray, &tree.Options{ParentField: "in", AncestorsField: "within"})
	if err != nil {
		return err
	}
	if err := rooms.EnsureIndexes(ctx); err != nil {
		return err
	}
	if _, err := rooms.Adopt(ctx, nil); err != nil {
		return err
	}
	if _, err := rooms.Insert(ctx, room{"shelf", "Shelf"}, rooms.Under("cellar")); err != nil {
		return err
	}
	if err := rooms.Move(ctx, "cellar", rooms.Under("shelf")); !errors.Is(err, tree.ErrCycle) {
		return fmt.Errorf("a cellar on its own shelf: %v", err)
	}
	if err := rooms.Move(ctx, "cellar", rooms.Under("attic")); err != nil {
		return err
	}
	crumbs, err := rooms.Breadcrumb(ctx, "shelf")
	if err != nil {
		return err
	}
	for _, crumb := range crumbs {
		fmt.Print("/", crumb.ID)
	}
	fmt.Println()
	for problem, err := range rooms.Check(ctx) {
		return fmt.Errorf("%v, %v", problem, err)
	}

	// What lies in the house, in pages.
	inside, err := rooms.DescendantsFilter(ctx, "house", nil)
	if err != nil {
		return err
	}
	byName, err := paging.New[room](coll, bson.D{{Key: "name", Value: -1}}, nil)
	if err != nil {
		return err
	}
	for request := (paging.Request{Size: 2}); ; {
		page, err := byName.Page(ctx, inside, request)
		if err != nil {
			return err
		}
		for _, r := range page.Items {
			fmt.Print(r.Name, " ")
		}
		fmt.Println(page.HasPrev, page.HasNext)
		if !page.HasNext {
			break
		}
		request.After = page.Next
	}

	// A sensor by the hour.
	hours, err := bucket.New[string, reading](db.Collection("hours"), bucket.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor",
		TimeField:   "at",
		Values:      []bucket.Value{{Field: "value", Sum: "sum", Max: "max"}},
	})
	if err != nil {
		return err
	}
	if err := hours.EnsureIndexes(ctx); err != nil {
		return err
	}
	start := time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC)
	var readings []reading
	for i := range 180 {
		readings = append(readings, reading{start.Add(time.Duration(179-i) * time.Minute), float64(i % 60)})
	}
	appended, err := hours.AppendMany(ctx, bucket.Of("cellar", readings...), nil)
	if err != nil {
		return err
	}
	stats, err := hours.Aggregate(ctx, "cellar", start, start.Add(90*time.Minute))
	if err != nil {
		return err
	}
	latest, err := hours.Latest(ctx, "cellar")
	if err != nil {
		return err
	}
	fmt.Println(appended.Appended, stats.Count, stats.Values["value"].Mean(), stats.Values["value"].Max,
		latest.At.Format(time.TimeOnly))
	return nil
}
