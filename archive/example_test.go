package archive_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// An Order holds all that its readers need.
type Order struct {
	ID       int        `bson:"_id"`
	Customer string     `bson:"customer"`
	Total    int        `bson:"total"`
	ClosedAt *time.Time `bson:"closed_at,omitempty"`
	// ArchivedAt is set if the order comes from the archive.
	ArchivedAt *time.Time `bson:"archived_at,omitempty"`
}

var march = time.Date(2021, 3, 5, 0, 0, 0, 0, time.UTC)

// exampleOrders stores four orders in a new database. The last one is open.
func exampleOrders() (*mongo.Database, *archive.Archive) {
	db := mongotest.ExampleDatabase()
	orders, err := archive.New(db.Collection("orders"), db.Collection("orders_archive"), &archive.Options{TimeField: "closed_at"})
	if err != nil {
		log.Fatal(err)
	}
	if err := orders.EnsureIndexes(context.Background()); err != nil {
		log.Fatal(err)
	}
	closed := func(year int) *time.Time { at := march.AddDate(year-2021, 0, 0); return &at }
	_, err = db.Collection("orders").InsertMany(context.Background(), []Order{
		{ID: 1, Customer: "Ann", Total: 40, ClosedAt: closed(2020)},
		{ID: 2, Customer: "Ben", Total: 25, ClosedAt: closed(2021)},
		{ID: 3, Customer: "Ann", Total: 10, ClosedAt: closed(2025)},
		{ID: 4, Customer: "Ann", Total: 5},
	})
	if err != nil {
		log.Fatal(err)
	}
	return db, orders
}

// Orders that were closed before 2024 move to the archive, and those of one customer come back.
func Example() {
	ctx := context.Background()
	db, orders := exampleOrders()

	cut := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	result, err := orders.Move(ctx, orders.BeforeFilter(cut), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved:", result.Done)

	var old Order
	if err := db.Collection("orders_archive").FindOne(ctx, bson.D{{Key: "_id", Value: 2}}).Decode(&old); err != nil {
		log.Fatal(err)
	}
	fmt.Println(old.Customer, old.Total, old.ClosedAt.Format(time.DateOnly), old.ArchivedAt != nil)

	result, err = orders.Restore(ctx, bson.D{{Key: "customer", Value: "Ann"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("restored:", result.Done)
	// Output:
	// moved: 2
	// Ben 25 2021-03-05 true
	// restored: 1
}

// An aggregation over both sides. $unionWith reads the collections one after the other: a session with snapshot
// reads makes it one moment, so that an order that is being moved counts once. It needs both collections in one
// database.
func ExampleNew_union() {
	ctx := context.Background()
	db, orders := exampleOrders()
	if _, err := orders.Move(ctx, orders.BeforeFilter(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)), nil); err != nil {
		log.Fatal(err)
	}

	session, err := db.Client().StartSession(options.Session().SetSnapshot(true))
	if err != nil {
		log.Fatal(err)
	}
	defer session.EndSession(ctx)
	ofAnn := bson.D{{Key: "$match", Value: bson.D{{Key: "customer", Value: "Ann"}}}}
	cursor, err := db.Collection("orders").Aggregate(mongo.NewSessionContext(ctx, session), mongo.Pipeline{
		ofAnn,
		{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: "orders_archive"}, {Key: "pipeline", Value: mongo.Pipeline{ofAnn}}}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	var all []Order
	if err := cursor.All(mongo.NewSessionContext(ctx, session), &all); err != nil {
		log.Fatal(err)
	}
	for _, order := range all {
		fmt.Println(order.ID, order.Total, order.ArchivedAt != nil)
	}
	// Output:
	// 1 40 true
	// 3 10 false
	// 4 5 false
}

// A program that changes an order which may be archived looks at MatchedCount, restores and repeats.
func ExampleArchive_Restore() {
	ctx := context.Background()
	db, orders := exampleOrders()
	if _, err := orders.Move(ctx, orders.BeforeFilter(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)), nil); err != nil {
		log.Fatal(err)
	}

	order := bson.D{{Key: "_id", Value: 1}}
	err := mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		for range 2 {
			result, err := db.Collection("orders").UpdateOne(ctx, order, bson.D{{Key: "$inc", Value: bson.D{{Key: "total", Value: -40}}}})
			if err != nil || result.MatchedCount == 1 {
				return err
			}
			if _, err := orders.Restore(ctx, order, nil); err != nil {
				return err
			}
		}
		return errors.New("no such order")
	})
	var changed Order
	if err == nil {
		err = db.Collection("orders").FindOne(ctx, order).Decode(&changed)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(changed.Customer, changed.Total, changed.ArchivedAt != nil)
	// Output: Ann 0 false
}

// A copy of the archive was loaded into the live collection by mistake.
func ExampleArchive_Check() {
	ctx := context.Background()
	db, orders := exampleOrders()
	if _, err := orders.Move(ctx, orders.BeforeFilter(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)), nil); err != nil {
		log.Fatal(err)
	}
	at := march.AddDate(-1, 0, 0)
	_, err := db.Collection("orders").InsertMany(ctx, []Order{
		{ID: 1, Customer: "Ann", Total: 40, ClosedAt: &at}, // as it is in the archive
		{ID: 2, Customer: "Ben", Total: 20, ClosedAt: &march},
	})
	if err != nil {
		log.Fatal(err)
	}
	for problem, err := range orders.Check(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(problem)
	}
	result, err := orders.Repair(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("repaired:", result.Done, "remaining:", result.Remaining)
	// Output:
	// archive: orders 1: duplicate
	// archive: orders 2: different: total is 20: archived: 25
	// repaired: 1 remaining: 1
}

// A document with its history: the current document and its revisions move together, and a History of the two archives
// reads them. It ignores the mark of archived documents, which a Restore to an earlier revision would remove.
func ExampleArchive_Move_history() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	current, revisions := db.Collection("contracts"), db.Collection("contract_revisions")
	oldCurrent, oldRevisions := db.Collection("contracts_archive"), db.Collection("contract_revisions_archive")
	opts := &versioning.Options{DocumentIDField: "contract_id", Ignored: []string{"archived_at"}}
	contracts, err := versioning.New[string, bson.M](current, revisions, opts)
	check(err)
	archived, err := versioning.New[string, bson.M](oldCurrent, oldRevisions, opts)
	check(err)
	documents, err := archive.New(current, oldCurrent, &archive.Options{
		TimeField:  "ends",
		Companions: []archive.Companion{{Live: revisions, Archived: oldRevisions, Field: "contract_id"}},
	})
	check(err)
	for _, helper := range []interface{ EnsureIndexes(context.Context) error }{contracts, archived, documents} {
		check(helper.EnsureIndexes(ctx))
	}

	for id, year := range map[string]int{"c1": 2019, "c2": 2031} {
		contract, err := contracts.Insert(ctx, bson.M{"_id": id, "ends": time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), "rent": 900}, versioning.Change{})
		check(err)
		contract.Document["rent"] = 950
		_, err = contracts.Save(ctx, contract, versioning.Change{Author: "Ann"})
		check(err)
	}

	_, err = documents.Move(ctx, documents.BeforeFilter(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)), nil)
	check(err)

	_, err = contracts.Get(ctx, "c1")
	fmt.Println(errors.Is(err, mongopatterns.ErrNotFound))
	for r, err := range archived.Revisions(ctx, "c1") {
		check(err)
		fmt.Println(r.Number, r.Document["rent"], r.Change.Author)
	}
	_, err = archived.Restore(ctx, "c1", 1, versioning.Change{Author: "Ben"})
	check(err)
	for problem, err := range mongopatterns.CheckAll(ctx, contracts, archived, documents) {
		fmt.Println(problem, err)
	}
	// Output:
	// true
	// 2 950 Ann
	// 1 900
}

// A service of trips with six patterns: a thousand old trips are archived with their comments, the names of their
// drivers still follow, and the totals of a driver are there with and without them.
func ExampleNew_together() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	defer db.Drop(ctx)
	trips, old := db.Collection("trips"), db.Collection("trips_archive")
	comments, oldComments := db.Collection("comments"), db.Collection("comments_archive")
	drivers := db.Collection("drivers")

	// A trip moves with its comments, and so do the ones inside: the newest two.
	archived, err := archive.New(trips, old, &archive.Options{
		TimeField:  "ended",
		Companions: []archive.Companion{{Live: comments, Archived: oldComments, Field: "trip_id"}},
	})
	check(err)
	newest := &subset.Options{ParentField: "trip_id", ArrayField: "comments", N: 2, CountField: "num_comments"}
	said, err := subset.New[int, bson.M](trips, comments, newest)
	check(err)
	saidThen, err := subset.New[int, bson.M](old, oldComments, newest)
	check(err)

	// Copies follow in both collections: each is a target.
	name := []extref.Field{{Path: "name"}}
	people, err := extref.New[string, bson.M](drivers, []extref.Target{
		{Collection: trips, Path: "driver", Fields: name},
		{Collection: old, Path: "driver", Fields: name},
	}, nil)
	check(err)

	// Totals of the live trips, and of the archived ones in a field of their own.
	count := func(sources *mongo.Collection, field string) *computed.Computed[int, string, bson.M] {
		c, err := computed.New[int, string, bson.M](sources, drivers, computed.Rule{
			KeyField: "driver._id",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$driver._id"}, {Key: field, Value: bson.D{{Key: "$sum", Value: "$km"}}}}}}},
			Empty:    bson.D{{Key: field, Value: 0}},
		}, &computed.Options{StateField: field + "_state"})
		check(err)
		return c
	}
	km, oldKm := count(trips, "km"), count(old, "old_km")

	// An index holds one array: depot_path has one of its own, and attribute another.
	specs, err := attribute.New[int, string](trips, &attribute.Options{ArrayField: "specs"})
	check(err)
	_, err = trips.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "depot_path", Value: 1}}})
	check(err)
	for _, helper := range []mongopatterns.Sharder{said, saidThen, archived, people, km, oldKm, specs} {
		check(helper.EnsureIndexes(ctx))
	}

	_, err = drivers.InsertOne(ctx, bson.D{{Key: "_id", Value: "d1"}, {Key: "name", Value: "Katrina"}})
	check(err)
	fuel, err := specs.Elements(attribute.Attribute[string]{Key: "fuel", Value: "diesel"})
	check(err)
	driver, err := people.Fetch(ctx, "trips.driver", "d1")
	check(err)
	var docs []any
	for i := range 1010 {
		ended := march.AddDate(0, 0, i%300)
		if i >= 1000 {
			ended = march.AddDate(5, 0, i)
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "ended", Value: ended}, {Key: "km", Value: 10}, {Key: "driver", Value: driver},
			{Key: "depot_path", Value: []string{"Germany", "Berlin"}},
			{Key: "specs", Value: fuel}})
	}
	_, err = trips.InsertMany(ctx, docs)
	check(err)
	_, err = said.InsertMany(ctx, func(yield func(int, bson.M) bool) {
		for i := range 3030 {
			if !yield(i/3, bson.M{"_id": i, "text": "late"}) {
				return
			}
		}
	}, nil)
	check(err)
	refresh := func() {
		for _, c := range []*computed.Computed[int, string, bson.M]{km, oldKm} {
			_, err := c.RefreshAll(ctx, nil)
			check(err)
		}
	}
	refresh()

	result, err := archived.Move(ctx, archived.BeforeFilter(march.AddDate(1, 0, 0)), nil)
	check(err)
	refresh() // a move of unknown trips is no Change of the totals
	fmt.Println("archived:", result.Done)
	top, err := saidThen.Top(ctx, 7)
	check(err)
	all := 0
	for _, err := range saidThen.All(ctx, 7) {
		check(err)
		all++
	}
	fmt.Println("comments of an archived trip:", len(top), "of", all)

	_, err = people.Update(ctx, "d1", bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}})
	check(err)
	n, err := old.CountDocuments(ctx, bson.D{{Key: "driver.name", Value: "Katrina Pop"}})
	check(err)
	fmt.Println("archived copies that followed:", n)

	// A move of known trips is a Change of both totals.
	ids := []int{1000, 1001}
	err = km.Change(ctx, ids, func(ctx context.Context) error {
		return oldKm.Change(ctx, ids, func(ctx context.Context) error {
			_, err := archived.Move(ctx, bson.M{"_id": bson.M{"$in": ids}}, nil)
			return err
		})
	})
	check(err)
	total, err := km.Get(ctx, "d1", time.Hour)
	check(err)
	fmt.Println("km, live and archived:", total["km"], total["old_km"])

	diesel := specs.Filter(specs.Equals(attribute.Named("fuel"), "diesel"))
	n, err = trips.CountDocuments(ctx, append(diesel, bson.E{Key: "depot_path", Value: "Berlin"}))
	check(err)
	fmt.Println("live, diesel, below Berlin:", n)
	cursor, err := trips.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$unionWith", Value: old.Name()}},
		{{Key: "$match", Value: append(diesel, bson.E{Key: "depot_path", Value: "Berlin"})}},
		{{Key: "$count", Value: "trips"}},
	})
	check(err)
	var both []bson.M
	check(cursor.All(ctx, &both))
	fmt.Println("both:", both[0]["trips"])

	for problem, err := range mongopatterns.CheckAll(ctx, archived, said, saidThen, people, km, oldKm, specs) {
		fmt.Println(problem, err)
	}
	// Output:
	// archived: 1000
	// comments of an archived trip: 2 of 3
	// archived copies that followed: 1000
	// km, live and archived: 80 10020
	// live, diesel, below Berlin: 8
	// both: 1010
}

// One write keeps the last value of each minute, and the mean of each hour: both or none is stored.
func ExampleNew_minutes() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	defer db.Drop(ctx)
	type reading struct {
		At    time.Time `bson:"timestamp"`
		Speed float64   `bson:"speed"`
	}
	minutes, err := slots.New[string, float64](db.Collection("minutes"), timeseries.Days(nil), nil)
	check(err)
	hours, err := bucket.New[string, reading](db.Collection("hours"), timeseries.Every(time.Hour), &bucket.Options{
		Values: []timeseries.Value{{Field: "speed", Sum: "sum_speed"}},
	})
	check(err)
	check(minutes.EnsureIndexes(ctx))
	check(hours.EnsureIndexes(ctx))
	store := func(r reading) {
		check(mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
			if err := minutes.Set(ctx, "bus 7", r.At, r.Speed); err != nil {
				return err
			}
			_, err := hours.Append(ctx, "bus 7", r)
			return err
		}))
	}
	store(reading{march, 30})
	store(reading{march.Add(20 * time.Second), 40})
	store(reading{march.Add(90 * time.Second), 50})

	last, err := minutes.Get(ctx, "bus 7", march)
	check(err)
	stats, err := hours.Aggregate(ctx, "bus 7", march, march.Add(time.Hour))
	check(err)
	fmt.Println(last, stats.Values["speed"].Mean())
	// Output: 40 40
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
