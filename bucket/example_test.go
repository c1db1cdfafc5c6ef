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

	buckets, err := bucket.New[int, Reading](coll, bucket.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor_id",
		StartField:  "start_date",
		EndField:    "end_date",
		CountField:  "transaction_count",
		Values:      []bucket.Value{{Field: "temperature", Sum: "sum_temperature"}},
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
	_, err = buckets.AppendMany(ctx, bucket.Of(12345,
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

func ExampleNewSlots() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("sensors")

	slots, err := bucket.NewSlots[string, Weather](coll, bucket.Days(nil), &bucket.SlotOptions{
		SeriesField: "sensor_id",
		StartField:  "created_time",
	})
	if err != nil {
		log.Fatal(err)
	}
	day := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	for minute := range 120 {
		if err := slots.Set(ctx, "SENSOR-1", day.Add(time.Duration(minute)*time.Minute), Weather{20 + float64(minute)/4, 0.5}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(slots.Path(day.Add(61 * time.Minute)))
	weather, err := slots.Get(ctx, "SENSOR-1", day.Add(61*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weather.Temperature)
	for slot, err := range slots.Range(ctx, "SENSOR-1", day.Add(59*time.Minute), day.Add(61*time.Minute)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(slot.Time.Format("15:04"), slot.Value.Temperature)
	}
	// Output:
	// data.1.1
	// 35.25
	// 00:59 34.75
	// 01:00 35
}

// Measurements that are sent again, because the answer got lost, count once.
func ExampleBuckets_Append_duplicates() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("events")
	buckets, err := bucket.New[string, bson.D](coll, bucket.Days(nil), &bucket.Options{
		IDField: "_id",
		Values:  []bucket.Value{{Field: "amount", Sum: "total"}},
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
	buckets, err := bucket.New[string, Reading](coll, bucket.Every(time.Hour), &bucket.Options{
		Values: []bucket.Value{{Field: "temperature", Sum: "sum", Min: "min", Max: "max", Last: "last", Moments: "moments"}},
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
	buckets, err := bucket.New[string, Reading](coll, bucket.Months(nil), nil)
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
	n := 0
	for _, err := range buckets.RangeAcross(ctx, archive, "roof", time.Time{}, time.Time{}) {
		if err != nil {
			log.Fatal(err)
		}
		n++
	}
	fmt.Println("archived", result.Done, "read", n)
	// Output:
	// archived 4 read 6
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
	buckets, err := bucket.New[int, Reading](db.Collection("buckets"), bucket.Every(time.Hour), &bucket.Options{SeriesField: "sensor"})
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
