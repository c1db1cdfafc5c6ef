package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

const station = "SEA"

type hour struct {
	Time        time.Time `bson:"time"`
	Temperature float64   `bson:"temperature"`
	Pressure    float64   `bson:"pressure"`
	Wind        float64   `bson:"wind"`
}

func bucketChapter(ctx context.Context, g *guide) error {
	if err := sensorHours(ctx, g); err != nil {
		return err
	}
	if err := sensorDay(ctx, g); err != nil {
		return err
	}
	weather, err := data.SeattleWeather()
	if err != nil {
		return err
	}
	hours := make([]hour, len(weather))
	for i, w := range weather {
		hours[i] = hour{w.Time, w.Temperature, w.Pressure, w.Wind}
	}
	days, err := bucket.New[string, hour](g.db.Collection("weather"), timeseries.Days(time.UTC), &bucket.Options{
		SeriesField: "station",
		StartField:  "day",
		ArrayField:  "hours",
		TimeField:   "time",
		Values: []timeseries.Value{
			{Field: "temperature", Sum: "temperature.sum", Min: "temperature.min", Max: "temperature.max"},
			{Field: "wind", Max: "wind.max"},
		},
	})
	if err != nil {
		return err
	}
	if err := days.EnsureIndexes(ctx); err != nil {
		return err
	}

	firstDay := &example{"weather", bson.D{{Key: "station", Value: station}, {Key: "day", Value: hours[0].Time.Truncate(24 * time.Hour)}}}
	err = g.show(ctx, "append one hour: the bucket of its day comes to be", firstDay, func() ([]string, error) {
		stored, err := days.Append(ctx, station, hours[0])
		return []string{fmt.Sprintf("%s: stored: %v", hours[0].Time.Format(time.RFC3339), stored)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, fmt.Sprintf("append the other %d hours of the year", len(hours)-1), firstDay, func() ([]string, error) {
		result, err := days.AppendMany(ctx, timeseries.Of(station, hours[1:]...), nil)
		if err != nil {
			return nil, err
		}
		buckets, err := g.db.Collection("weather").EstimatedDocumentCount(ctx)
		return []string{fmt.Sprintf("%d hours appended, %d buckets", result.Done, buckets)}, err
	})
	if err != nil {
		return err
	}

	july := time.Date(2010, time.July, 1, 0, 0, 0, 0, time.UTC)
	august := july.AddDate(0, 1, 0)
	err = g.show(ctx, "July's temperatures from the stored aggregates, no measurement read", nil, func() ([]string, error) {
		stats, err := days.Aggregate(ctx, station, july, august)
		if err != nil {
			return nil, err
		}
		t := stats.Values["temperature"]
		return []string{fmt.Sprintf("mean %.2f, lowest %v, highest %v °C over %d hours", t.Mean(), t.Min, t.Max, t.Count)}, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the warmest days, each window from its sums", nil, func() ([]string, error) {
		var warmest timeseries.WindowStats
		windows := 0
		for day, err := range days.AggregateWindows(ctx, station, time.Time{}, time.Time{}) {
			if err != nil {
				return nil, err
			}
			windows++
			if windows == 1 || day.Values["temperature"].Mean() > warmest.Values["temperature"].Mean() {
				warmest = day
			}
		}
		return []string{fmt.Sprintf("of %d days %s, mean %.2f °C", windows,
			warmest.Start.Format(time.DateOnly), warmest.Values["temperature"].Mean())}, nil
	})
	if err != nil {
		return err
	}

	noon := july.Add(12 * time.Hour)
	err = g.show(ctx, "a range across two buckets, in order", nil, func() ([]string, error) {
		var out []string
		for h, err := range days.Range(ctx, station, noon.Add(11*time.Hour), noon.Add(14*time.Hour)) {
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%s  %4.1f °C  %.1f hPa", h.Time.Format(time.DateTime), h.Temperature, h.Pressure))
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "correct one hour: the day's aggregates follow in the same write", &example{"weather", bson.D{
		{Key: "station", Value: station}, {Key: "day", Value: july}}}, func() ([]string, error) {
		return nil, days.Replace(ctx, station, hour{Time: noon, Temperature: 40, Pressure: 1010, Wind: 2})
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "archive the first half of the year", nil, func() ([]string, error) {
		result, err := days.Archive(ctx, july, g.db.Collection("weather_archive"), nil)
		return []string{fmt.Sprintf("%d buckets moved", result.Done)}, err
	})
	if err != nil {
		return err
	}
	archived, err := bucket.New[string, hour](g.db.Collection("weather_archive"), timeseries.Days(time.UTC), &bucket.Options{
		SeriesField: "station", StartField: "day", ArrayField: "hours", TimeField: "time"})
	if err != nil {
		return err
	}
	return g.show(ctx, "the whole year over both collections, each hour once", nil, func() ([]string, error) {
		count := 0
		for _, half := range []*bucket.Buckets[string, hour]{archived, days} {
			for _, err := range half.Range(ctx, station, time.Time{}, time.Time{}) {
				if err != nil {
					return nil, err
				}
				count++
			}
		}
		return []string{fmt.Sprintf("%d hours", count)}, nil
	})
}
