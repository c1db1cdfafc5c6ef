package series_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type Reading struct {
	Timestamp   time.Time `bson:"timestamp"`
	Temperature float64   `bson:"temperature"`
}

// The five calls that most programs need, on the documents of the sensors scenario.
func Example() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("temperatures")

	s, err := series.New[int, Reading](coll, timeseries.Every(time.Hour), &series.Options{
		SeriesField: "sensor_id",
		StartField:  "start_date",
		EndField:    "end_date",
		BlocksField: "measurements",
		CountField:  "transaction_count",
		Values:      []timeseries.Value{{Field: "temperature", Sum: "sum_temperature", Squares: "squares_temperature"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}

	ten := time.Date(2019, 1, 31, 10, 0, 0, 0, time.UTC)
	_, err = s.AppendMany(ctx, timeseries.Of(12345, Reading{ten, 40}, Reading{ten.Add(time.Minute), 41.5}, Reading{ten.Add(time.Hour), 38}), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Compact(ctx, nil); err != nil {
		log.Fatal(err)
	}
	for reading, err := range s.Range(ctx, 12345, ten, ten.Add(time.Hour)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(reading.Timestamp.Format("15:04"), reading.Temperature)
	}
	stats, err := s.Aggregate(ctx, 12345, ten, ten.Add(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	temperature := stats.Values["temperature"]
	fmt.Println(stats.Count, temperature.Sum, temperature.Mean(), temperature.StdDev())

	// Others see the sums.
	var doc struct {
		Sum   bson.Decimal128 `bson:"sum_temperature"`
		Count int             `bson:"transaction_count"`
		End   time.Time       `bson:"end_date"`
	}
	if err := coll.FindOne(ctx, bson.D{{Key: "sensor_id", Value: 12345}, {Key: "start_date", Value: ten}}).Decode(&doc); err != nil {
		log.Fatal(err)
	}
	fmt.Println(doc.Sum, doc.Count, doc.End.UTC().Format(time.TimeOnly))
	// Output:
	// 10:00 40
	// 10:01 41.5
	// 2 81.5 40.75 0.75
	// 81.5 2 10:59:59
}

// Measurements that come one by one wait for each other and are stored as one block.
func ExampleGatherer() {
	ctx := context.Background()
	s, err := series.New[string, Reading](mongotest.ExampleDatabase().Collection("gathered"), timeseries.Days(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 1000, Interval: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	day := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	for i := range 100 {
		if err := g.Append(ctx, "kitchen", Reading{day.Add(time.Duration(i) * time.Minute), 20}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(g.Waiting(), "wait")
	if err := g.Close(ctx); err != nil {
		log.Fatal(err)
	}
	stats, err := s.Aggregate(ctx, "kitchen", day, day.AddDate(0, 0, 1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Count, "are stored")
	// Output:
	// 100 wait
	// 100 are stored
}

// Means of the hours of a day of 23 hours.
func ExampleSeries_AggregateBy() {
	ctx := context.Background()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	s, err := series.New[string, Reading](mongotest.ExampleDatabase().Collection("hours"), timeseries.Days(berlin), &series.Options{
		Values: []timeseries.Value{{Field: "temperature"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	midnight := time.Date(2024, 3, 31, 0, 0, 0, 0, berlin)
	var day []Reading
	for t := midnight; t.Day() == 31; t = t.Add(10 * time.Minute) {
		day = append(day, Reading{t, float64(t.Hour())})
	}
	if _, err := s.AppendMany(ctx, timeseries.Of("kitchen", day...), nil); err != nil {
		log.Fatal(err)
	}
	hours := 0
	for hour, err := range s.AggregateBy(ctx, "kitchen", midnight, midnight.AddDate(0, 0, 1), timeseries.Every(time.Hour)) {
		if err != nil {
			log.Fatal(err)
		}
		if hours++; hours == 3 {
			fmt.Println(hour.Start.In(berlin).Format("15:04"), hour.Count, hour.Values["temperature"].Mean())
		}
	}
	fmt.Println(hours)
	// Output:
	// 03:00 6 3
	// 23
}

// From plain documents and back.
func ExampleSeries_Adopt() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	day := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	_, err := db.Collection("plain").InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "series", Value: "kitchen"}, {Key: "timestamp", Value: day.Add(time.Minute)}, {Key: "temperature", Value: 20.5}},
		bson.D{{Key: "_id", Value: 2}, {Key: "series", Value: "kitchen"}, {Key: "timestamp", Value: day}, {Key: "temperature", Value: 20}},
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := series.New[string, Reading](db.Collection("adopted"), timeseries.Days(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	result, err := s.Adopt(ctx, db.Collection("plain"), nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done)
	for doc, err := range s.Documents(ctx, &mongopatterns.Work{Filter: bson.D{{Key: "series", Value: "kitchen"}}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(doc)
	}
	// Output:
	// 2
	// {"series": "kitchen","timestamp": {"$date":{"$numberLong":"1548892800000"}},"temperature": {"$numberInt":"20"}}
	// {"series": "kitchen","timestamp": {"$date":{"$numberLong":"1548892860000"}},"temperature": {"$numberDouble":"20.5"}}
}
