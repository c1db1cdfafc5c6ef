package bucket_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type Reading struct {
	Timestamp   time.Time `bson:"timestamp"`
	Temperature float64   `bson:"temperature"`
}

type Weather struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
}

// The five calls that most programs need.
func Example() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("temperatures")

	buckets, err := bucket.New[int, Reading](coll, timeseries.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor_id",
		StartField:  "start_date",
		EndField:    "end_date",
		CountField:  "transaction_count",
		Values:      []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := buckets.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}

	ten := time.Date(2019, 1, 31, 10, 0, 0, 0, time.UTC)
	if _, err := buckets.Append(ctx, 12345, Reading{ten, 40}); err != nil {
		log.Fatal(err)
	}
	_, err = buckets.AppendMany(ctx, timeseries.Of(12345,
		Reading{ten.Add(time.Minute), 41.5},
		Reading{ten.Add(time.Hour), 38}), nil)
	if err != nil {
		log.Fatal(err)
	}

	for reading, err := range buckets.Range(ctx, 12345, ten, ten.Add(time.Hour)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(reading.Timestamp.UTC().Format("15:04"), reading.Temperature)
	}
	latest, err := buckets.Latest(ctx, 12345)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("latest", latest.Temperature)

	stats, err := buckets.Aggregate(ctx, 12345, ten, ten.Add(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("mean", stats.Values["temperature"].Mean(), "of", stats.Count)
	// Output:
	// 10:00 40
	// 10:01 41.5
	// latest 38
	// mean 40.75 of 2
}

// Measurements that are sent again, because the answer got lost, count once.
func ExampleBuckets_Append_duplicates() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("events")
	buckets, err := bucket.New[string, bson.D](coll, timeseries.Days(nil), &bucket.Options{
		IDField: "_id",
		Values:  []timeseries.Value{{Field: "amount", Sum: "total"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := buckets.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	event := bson.D{{Key: "_id", Value: "e-17"}, {Key: "timestamp", Value: time.Now()}, {Key: "amount", Value: 5}}
	for range 2 {
		stored, err := buckets.Append(ctx, "till 3", event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(stored)
	}
	stats, err := buckets.Aggregate(ctx, "till 3", time.Time{}, time.Time{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Values["amount"].Sum)
	// Output:
	// true
	// false
	// 5
}

// Every aggregate, hour by hour, from what the buckets keep.
func ExampleBuckets_AggregateWindows() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("temperatures")
	buckets, err := bucket.New[string, Reading](coll, timeseries.Every(time.Hour), &bucket.Options{
		Values: []timeseries.Value{{Field: "temperature", Sum: "sum", Min: "min", Max: "max", Last: "last", Squares: "squares"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	start := time.Date(2024, 5, 1, 8, 0, 0, 0, time.UTC)
	for i, temperature := range []float64{10, 12, 14, 20, 20, 26} {
		_, err := buckets.Append(ctx, "roof", Reading{start.Add(time.Duration(i) * 20 * time.Minute), temperature})
		if err != nil {
			log.Fatal(err)
		}
	}
	for hour, err := range buckets.AggregateWindows(ctx, "roof", time.Time{}, time.Time{}) {
		if err != nil {
			log.Fatal(err)
		}
		t := hour.Values["temperature"]
		fmt.Printf("%s  n %d  mean %v  min %v  max %v  last %v  deviation %.2f\n",
			hour.Start.Format("15:04"), t.Count, t.Mean(), t.Min, t.Max, t.Last.Value, t.StdDev())
	}
	// Output:
	// 08:00  n 3  mean 12  min 10  max 14  last 14  deviation 1.63
	// 09:00  n 3  mean 22  min 20  max 26  last 26  deviation 2.83
}

// Old buckets move to an archive; both are read as one.
func ExampleBuckets_Archive() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	coll, archive := db.Collection("temperatures"), db.Collection("temperatures_archive")
	buckets, err := bucket.New[string, Reading](coll, timeseries.Months(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	for month := range 6 {
		at := time.Date(2024, time.Month(1+month), 15, 12, 0, 0, 0, time.UTC)
		if _, err := buckets.Append(ctx, "roof", Reading{at, float64(month)}); err != nil {
			log.Fatal(err)
		}
	}
	result, err := buckets.Archive(ctx, time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), archive, nil)
	if err != nil {
		log.Fatal(err)
	}
	archived, err := bucket.New[string, Reading](archive, timeseries.Months(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	oldest, err := archived.Aggregate(ctx, "roof", time.Time{}, time.Time{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("archived", result.Done, "read", oldest.Count)
	// Output:
	// archived 4 read 4
}

// A collection of one document per measurement becomes buckets.
func ExampleBuckets_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	src := db.Collection("readings")
	start := time.Date(2024, 5, 1, 8, 0, 0, 0, time.UTC)
	for i := range 100 {
		_, err := src.InsertOne(ctx, bson.D{
			{Key: "sensor", Value: i % 2},
			{Key: "timestamp", Value: start.Add(time.Duration(i) * time.Minute)},
			{Key: "temperature", Value: i},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	buckets, err := bucket.New[int, Reading](db.Collection("buckets"), timeseries.Every(time.Hour), &bucket.Options{SeriesField: "sensor"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		result, err := buckets.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 30})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Done)
	}
	// Output:
	// 100
	// 0
}
