package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func seriesChapter(ctx context.Context, g *guide) error {
	weather, err := data.SeattleWeather()
	if err != nil {
		return err
	}
	hours := make([]hour, len(weather))
	for i, w := range weather {
		hours[i] = hour{w.Time, w.Temperature, w.Pressure, w.Wind}
	}
	coll := g.db.Collection("packed_weather")
	months, err := series.New[string, hour](coll, timeseries.Months(time.UTC), &series.Options{
		SeriesField: "station",
		StartField:  "month",
		TimeField:   "time",
		Values:      []timeseries.Value{{Field: "temperature"}},
	})
	if err != nil {
		return err
	}
	if err := months.EnsureIndexes(ctx); err != nil {
		return err
	}
	july := time.Date(2010, time.July, 1, 0, 0, 0, 0, time.UTC)
	august := july.AddDate(0, 1, 0)
	stored := &example{"packed_weather", bson.D{{Key: "station", Value: station}, {Key: "month", Value: july}}}
	size := func(result mongopatterns.Result) (string, error) {
		var sum struct {
			Bytes int64 `bson:"bytes"`
			Count int64 `bson:"count"`
		}
		cursor, err := coll.Aggregate(ctx, bson.A{bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: nil}, {Key: "bytes", Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}}},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}}}}}})
		if err == nil {
			cursor.Next(ctx)
			err = cursor.Decode(&sum)
		}
		return fmt.Sprintf("%d done: %d documents, %.1f bytes an hour", result.Done, sum.Count, float64(sum.Bytes)/float64(len(hours))), err
	}
	return showAll(ctx, g, []told{
		{"a year of hours of three values each, in blocks", nil, func() (string, error) {
			result, err := months.AppendMany(ctx, timeseries.Of(station, hours...), nil)
			if err != nil {
				return "", err
			}
			return size(result)
		}},
		{"compacted: one binary a field", nil, func() (string, error) {
			result, err := months.Compact(ctx, nil)
			if err != nil {
				return "", err
			}
			return size(result)
		}},
		{"July's temperatures from the stored sums, nothing decoded", nil, func() (string, error) {
			stats, err := months.Aggregate(ctx, station, july, august)
			t := stats.Values["temperature"]
			return fmt.Sprintf("mean %.2f, deviation %.2f, lowest %v, highest %v °C over %d hours", t.Mean(), t.StdDev(), t.Min, t.Max, t.Count), err
		}},
		{"a range, decoded to the struct", nil, func() (string, error) {
			var out string
			for h, err := range months.Range(ctx, station, august.Add(-2*time.Hour), august.Add(2*time.Hour)) {
				if err != nil {
					return "", err
				}
				out += fmt.Sprintf("%s %.1f °C; ", h.Time.Format("2 Jan 15:04"), h.Temperature)
			}
			return out, nil
		}},
		{"an hour that comes late is a further block of its month", stored, func() (string, error) {
			return "", months.Append(ctx, station, hour{Time: july.Add(12*time.Hour + 30*time.Minute), Temperature: 25.5, Pressure: 1010, Wind: 2})
		}},
	})
}
