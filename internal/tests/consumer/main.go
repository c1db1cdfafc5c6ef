// Consumer is a program that the tests run in a module outside of the repository, written from the packages'
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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
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
	db := client.Database(os.Args[1])
	for _, part := range []func(context.Context, *mongo.Database) error{run, furniture, owners, sold} {
		if err := part(ctx, db); err != nil {
			log.Fatal(err)
		}
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
	for problem, err := range rooms.Check(ctx, nil) {
		return fmt.Errorf("%v, %v", problem, err)
	}

	// What lies in the house, in pages.
	inside, err := rooms.DescendantsFilter(ctx, "house", 0)
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
	hours, err := bucket.New[string, reading](db.Collection("hours"), timeseries.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor",
		TimeField:   "at",
		Values:      []timeseries.Value{{Field: "value", Sum: "sum", Max: "max"}},
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
	appended, err := hours.AppendMany(ctx, timeseries.Of("cellar", readings...), nil)
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
	fmt.Println(appended.Done, stats.Count, stats.Values["value"].Mean(), stats.Values["value"].Max,
		latest.At.Format(time.TimeOnly))
	return nil
}

type note struct {
	ID   int       `bson:"_id"`
	At   time.Time `bson:"at"`
	Text string    `bson:"text"`
}

// furniture has attributes, its newest notes and those who sat on it in one
// document.
func furniture(ctx context.Context, db *mongo.Database) error {
	pieces := db.Collection("furniture")
	if _, err := pieces.InsertOne(ctx, bson.D{
		{Key: "_id", Value: "chair"}, {Key: "height_cm", Value: 80}, {Key: "wood", Value: "oak"},
	}); err != nil {
		return err
	}
	specs, err := attribute.New[string, any](pieces, &attribute.Options{ArrayField: "specs", QualifierField: "u"})
	if err != nil {
		return err
	}
	if err := specs.EnsureIndexes(ctx); err != nil {
		return err
	}
	adopted, err := specs.Adopt(ctx, []attribute.Column{
		{Path: "height_cm", Key: "height", Qualifier: "cm"}, {Path: "wood", Key: "wood"},
	}, nil)
	if err != nil {
		return err
	}
	if err := specs.Add(ctx, "chair", attribute.Named("wood"), "elm"); !errors.Is(err, mongopatterns.ErrExists) {
		return fmt.Errorf("wood twice: %v", err)
	}
	found, err := pieces.CountDocuments(ctx, specs.Filter(
		attribute.As[int](specs).Range(attribute.Named("height").Qualified("cm"), 70, 90), specs.Equals(attribute.Named("wood"), "oak")))
	if err != nil {
		return err
	}
	fmt.Println(adopted.Done, found)

	notes, err := subset.New[string, note](pieces, db.Collection("notes"), &subset.Options{
		ParentField: "piece", ArrayField: "newest", N: 2, Sort: bson.D{{Key: "at", Value: -1}}, CountField: "notes",
	})
	if err != nil {
		return err
	}
	if err := notes.EnsureIndexes(ctx); err != nil {
		return err
	}
	day := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	for i, text := range []string{"bought", "mended", "painted"} {
		if _, err := notes.Insert(ctx, "chair", note{i, day.AddDate(0, 0, i), text}); err != nil {
			return err
		}
	}
	if err := notes.Delete(ctx, "chair", 2); err != nil {
		return err
	}
	newest, err := notes.Top(ctx, "chair")
	if err != nil {
		return err
	}
	for _, n := range newest {
		fmt.Print(n.Text, " ")
	}
	fmt.Println()

	sitters, err := outlier.New[string, string](pieces, db.Collection("sitters"), &outlier.Options{
		ArrayField: "sitters", ParentField: "piece", Set: true, MaxCount: 2,
	})
	if err != nil {
		return err
	}
	if err := sitters.EnsureIndexes(ctx); err != nil {
		return err
	}
	for _, name := range []string{"ann", "bob", "cid", "ann"} {
		if _, err := sitters.Add(ctx, "chair", name); err != nil {
			return err
		}
	}
	total, err := sitters.Total(ctx, "chair")
	if err != nil {
		return err
	}
	there, err := sitters.Contains(ctx, "chair", "cid")
	if err != nil {
		return err
	}
	fmt.Println(total, there)
	for problem, err := range notes.Check(ctx, nil) {
		return fmt.Errorf("%v, %v", problem, err)
	}
	for problem, err := range sitters.Check(ctx, nil) {
		return fmt.Errorf("%v, %v", problem, err)
	}
	return nil
}

type owner struct {
	ID   string `bson:"_id"`
	Name string `bson:"name"`
}

// owners have a history, and houses carry their names.
func owners(ctx context.Context, db *mongo.Database) error {
	people, houses := db.Collection("owners"), db.Collection("houses")
	versions, err := versioning.New[string, owner](people, db.Collection("owner_revisions"), nil)
	if err != nil {
		return err
	}
	names, err := extref.New[string, owner](people, []extref.Target{
		{Collection: houses, Path: "owner", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
	}, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(versions.EnsureIndexes(ctx), names.EnsureIndexes(ctx)); err != nil {
		return err
	}
	created, err := versions.Insert(ctx, owner{ID: "o1", Name: "Ann"}, versioning.Change{Author: "clerk"})
	if err != nil {
		return err
	}
	copied, err := names.Fetch(ctx, "houses.owner", "o1")
	if err != nil {
		return err
	}
	if _, err := houses.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "owner", Value: copied}}); err != nil {
		return err
	}
	stale := created
	created.Document.Name = "Ann Summers"
	saved, err := versions.Save(ctx, created, versioning.Change{Author: "ann"})
	if err != nil {
		return err
	}
	propagated, err := names.Propagate(ctx, "o1", nil)
	if err != nil {
		return err
	}
	stale.Document.Name = "Anna"
	var conflict *versioning.ConflictError
	if _, err := versions.Save(ctx, stale, versioning.Change{}); !errors.As(err, &conflict) {
		return fmt.Errorf("a lost update: %v", err)
	}
	var house struct {
		Owner struct{ Name string }
	}
	if err := houses.FindOne(ctx, bson.D{{Key: "_id", Value: 1}}).Decode(&house); err != nil {
		return err
	}
	fmt.Println(saved.Number, conflict.Current, propagated.Done, house.Owner.Name)
	for revision, err := range versions.Revisions(ctx, "o1") {
		if err != nil {
			return err
		}
		fmt.Print(revision.Number, " ", revision.Change.Author, " ", revision.Document.Name, "; ")
	}
	fmt.Println()
	return nil
}

// sold moves what was sold long ago into another collection, and takes one piece back.
func sold(ctx context.Context, db *mongo.Database) error {
	sales, kept := db.Collection("sales"), db.Collection("sales_kept")
	old, err := archive.New(sales, kept, &archive.Options{TimeField: "sold"})
	if err != nil {
		return err
	}
	if err := old.EnsureIndexes(ctx); err != nil {
		return err
	}
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	if _, err := sales.InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "chair"}, {Key: "sold", Value: year(2021)}},
		bson.D{{Key: "_id", Value: "table"}, {Key: "sold", Value: year(2025)}},
	}); err != nil {
		return err
	}
	moved, err := old.Move(ctx, old.BeforeFilter(year(2023)), nil)
	if err != nil {
		return err
	}
	for problem, err := range old.Check(ctx, nil) {
		return fmt.Errorf("%v, %v", problem, err)
	}
	restored, err := old.Restore(ctx, bson.D{{Key: "_id", Value: "chair"}}, nil)
	if err != nil {
		return err
	}
	var back struct {
		ID string `bson:"_id"`
	}
	if err := sales.FindOne(ctx, old.BeforeFilter(year(2023))).Decode(&back); err != nil {
		return err
	}
	fmt.Println(moved.Done, restored.Done, back.ID)
	return nil
}
