package bucket_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// plainReading is the measurement as a document of its own.
type plainReading struct {
	SensorID    string    `bson:"sensor_id"`
	CreatedTime time.Time `bson:"created_time"`
	Temperature float64   `bson:"temperature"`
	Humidity    float64   `bson:"humidity"`
}

const sensors, days = 5, 2 // of the published 100 and 30

func plainReadings() iter.Seq[plainReading] {
	return func(yield func(plainReading) bool) {
		for s := range sensors {
			for m := range days * 24 * 60 {
				r := plainReading{fmt.Sprint("SENSOR-", s), at(0, m, 0), 20 + float64(m%100)/16, 0.5 + float64(m%50)/128}
				if !yield(r) {
					return
				}
			}
		}
	}
}

func insertPlain(b *testing.B, coll *mongo.Collection) {
	b.Helper()
	if _, err := coll.Indexes().CreateOne(b.Context(), mongo.IndexModel{Keys: bson.D{{Key: "sensor_id", Value: 1}, {Key: "created_time", Value: 1}}}); err != nil {
		b.Fatal(err)
	}
	var docs []any
	for r := range plainReadings() {
		docs = append(docs, r)
	}
	for len(docs) > 0 {
		n := min(len(docs), 5000)
		if _, err := coll.InsertMany(b.Context(), docs[:n]); err != nil {
			b.Fatal(err)
		}
		docs = docs[n:]
	}
}

// size is what the server reports: bytes of documents, and of all indexes.
func size(b *testing.B, coll *mongo.Collection) (data, index, documents float64) {
	b.Helper()
	var stats struct {
		Size           float64 `bson:"size"`
		TotalIndexSize float64 `bson:"totalIndexSize"`
		Count          float64 `bson:"count"`
	}
	if err := coll.Database().RunCommand(b.Context(), bson.D{{Key: "collStats", Value: coll.Name()}}).Decode(&stats); err != nil {
		b.Fatal(err)
	}
	return stats.Size, stats.TotalIndexSize, stats.Count
}

// BenchmarkStorage is the published measurement, scaled down: daily slots
// against one document a minute. Published: data 0.46, index 0.53.
func BenchmarkStorage(b *testing.B) {
	for b.Loop() {
		db := mongotest.Database(b)
		plain, bucketed := db.Collection("plain"), db.Collection("slots")
		insertPlain(b, plain)
		s := newSlots[string, weather](b, bucketed, bucket.Days(nil), &bucket.SlotOptions{SeriesField: "sensor_id", StartField: "created_time"})
		_, err := s.SetMany(b.Context(), func(yield func(string, bucket.Slot[weather]) bool) {
			for r := range plainReadings() {
				if !yield(r.SensorID, bucket.Slot[weather]{Time: r.CreatedTime, Value: weather{r.Temperature, r.Humidity}}) {
					return
				}
			}
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
		plainData, plainIndex, plainDocs := size(b, plain)
		data, index, docs := size(b, bucketed)
		b.ReportMetric(data/plainData, "data-ratio")
		b.ReportMetric(index/plainIndex, "index-ratio")
		b.ReportMetric(docs/plainDocs, "docs-ratio")
	}
}

// BenchmarkAppend is one measurement at a time, against inserting a document
// and adding it to a running sum in a second write, as one would without
// buckets.
func BenchmarkAppend(b *testing.B) {
	db := mongotest.Database(b)
	plain, sums := db.Collection("plain"), db.Collection("sums")
	if _, err := plain.Indexes().CreateOne(b.Context(), mongo.IndexModel{Keys: bson.D{{Key: "sensor_id", Value: 1}, {Key: "created_time", Value: 1}}}); err != nil {
		b.Fatal(err)
	}
	buckets := newBuckets[string, reading](b, db.Collection("c"), bucket.Every(time.Hour), scenario())
	var with, without time.Duration
	n := 0
	for b.Loop() {
		moment := day.Add(time.Duration(n) * time.Minute)
		start := time.Now()
		if _, err := buckets.Append(b.Context(), "s", reading{moment, 20}); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := plain.InsertOne(b.Context(), plainReading{"s", moment, 20, 1}); err != nil {
			b.Fatal(err)
		}
		_, err := sums.UpdateOne(b.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "s", Value: "s"}, {Key: "h", Value: moment.Truncate(time.Hour)}}}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}, {Key: "sum", Value: 20.0}}}}, options.UpdateOne().SetUpsert(true))
		if err != nil {
			b.Fatal(err)
		}
		with += middle.Sub(start)
		without += time.Since(middle)
		n++
	}
	b.ReportMetric(float64(with)/float64(without), "time-ratio")
	b.ReportMetric(float64(n)/with.Seconds(), "appends/s")
}

// BenchmarkAppendMany is a day of five sensors in bulk against InsertMany.
func BenchmarkAppendMany(b *testing.B) {
	var with, without time.Duration
	total := 0
	for b.Loop() {
		db := mongotest.Database(b)
		buckets := newBuckets[string, reading](b, db.Collection("c"), bucket.Every(time.Hour), scenario())
		start := time.Now()
		result, err := buckets.AppendMany(b.Context(), func(yield func(string, reading) bool) {
			for r := range plainReadings() {
				if !yield(r.SensorID, reading{r.CreatedTime, r.Temperature}) {
					return
				}
			}
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		insertPlain(b, db.Collection("plain"))
		with += middle.Sub(start)
		without += time.Since(middle)
		total += int(result.Done)
	}
	b.ReportMetric(float64(with)/float64(without), "time-ratio")
	b.ReportMetric(float64(total)/with.Seconds(), "measurements/s")
}

// BenchmarkReads are six hours of one sensor and their mean, against one
// document a minute.
func BenchmarkReads(b *testing.B) {
	db := mongotest.Database(b)
	plain := db.Collection("plain")
	insertPlain(b, plain)
	buckets := newBuckets[string, reading](b, db.Collection("c"), bucket.Every(time.Hour), scenario())
	_, err := buckets.AppendMany(b.Context(), func(yield func(string, reading) bool) {
		for r := range plainReadings() {
			if !yield(r.SensorID, reading{r.CreatedTime, r.Temperature}) {
				return
			}
		}
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	from, to := at(12, 0, 0), at(18, 0, 0)
	filter := bson.D{{Key: "sensor_id", Value: "SENSOR-3"}, {Key: "created_time", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}}
	b.Run("range", func(b *testing.B) {
		var with, without time.Duration
		for b.Loop() {
			start := time.Now()
			if n := len(collect(b, buckets.Range(b.Context(), "SENSOR-3", from, to))); n != 360 {
				b.Fatal(n)
			}
			middle := time.Now()
			cursor, err := plain.Find(b.Context(), filter, options.Find().SetSort(bson.D{{Key: "created_time", Value: 1}}))
			if err != nil {
				b.Fatal(err)
			}
			var all []plainReading
			if err := cursor.All(b.Context(), &all); err != nil || len(all) != 360 {
				b.Fatal(len(all), err)
			}
			with += middle.Sub(start)
			without += time.Since(middle)
		}
		b.ReportMetric(float64(with)/float64(without), "time-ratio")
	})
	b.Run("mean", func(b *testing.B) {
		var with, without time.Duration
		for b.Loop() {
			start := time.Now()
			if _, err := buckets.Aggregate(b.Context(), "SENSOR-3", from, to); err != nil {
				b.Fatal(err)
			}
			middle := time.Now()
			cursor, err := plain.Aggregate(b.Context(), mongo.Pipeline{{{Key: "$match", Value: filter}},
				{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}, {Key: "mean", Value: bson.D{{Key: "$avg", Value: "$temperature"}}}}}}})
			if err != nil {
				b.Fatal(err)
			}
			var all []bson.M
			if err := cursor.All(b.Context(), &all); err != nil {
				b.Fatal(err)
			}
			with += middle.Sub(start)
			without += time.Since(middle)
		}
		b.ReportMetric(float64(with)/float64(without), "time-ratio")
	})
}
