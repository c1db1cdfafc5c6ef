package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

// The shapes that the schema-design literature uses, reached by configuration.

type category struct {
	ID string `bson:"_id"`
}

// books are the categories of the literature, parents first.
var books = [][2]string{
	{"Books", ""}, {"Programming", "Books"}, {"Databases", "Programming"},
	{"Languages", "Programming"}, {"MongoDB", "Databases"}, {"dbm", "Databases"},
}

func bookCategories(ctx context.Context, g *guide) error {
	for _, representation := range []tree.Representation{
		tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets,
	} {
		name := "books_" + representation.String()
		categories, err := tree.New[string, category](g.db.Collection(name), representation, nil)
		if err != nil {
			return err
		}
		if err := categories.EnsureIndexes(ctx); err != nil {
			return err
		}
		for _, book := range books {
			position := categories.Under(book[1])
			if book[1] == "" {
				position = categories.AsRoot()
			}
			if _, err := categories.Insert(ctx, category{book[0]}, position); err != nil {
				return err
			}
		}
		shown := &example{name, bson.D{{Key: "_id", Value: "Databases"}}}
		err = g.show(ctx, fmt.Sprintf("book categories as %v: what is below Programming?", representation), shown, func() ([]string, error) {
			var below []string
			for c, err := range categories.Descendants(ctx, "Programming", nil) {
				if err != nil {
					return nil, err
				}
				below = append(below, c.ID)
			}
			return []string{strings.Join(below, ", ")}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type article struct {
	ID int `bson:"_id"`
}

func articlePages(ctx context.Context, g *guide) error {
	articles := g.db.Collection("articles")
	var docs []any
	for i := range 1000 {
		docs = append(docs, article{i + 1})
	}
	if _, err := articles.InsertMany(ctx, docs); err != nil {
		return err
	}
	pager, err := paging.New[article](articles, bson.D{{Key: "_id", Value: 1}},
		&paging.Options{PageSize: 10, Group: 10, Uniform: []string{"_id"}})
	if err != nil {
		return err
	}
	tenth, err := pager.Numbered(ctx, nil, paging.NumberedRequest{Number: 10})
	if err != nil {
		return err
	}
	return g.show(ctx, "an article list in groups of ten pages: from page 10 jump to page 13", nil, func() ([]string, error) {
		page, err := pager.Jump(ctx, nil, tenth.Position, paging.NumberedRequest{Number: 13})
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("articles %d to %d", page.Items[0].ID, page.Items[len(page.Items)-1].ID)}, nil
	})
}

type reading struct {
	Timestamp   time.Time `bson:"timestamp"`
	Temperature float64   `bson:"temperature"`
}

func sensorHours(ctx context.Context, g *guide) error {
	hours, err := bucket.New[int, reading](g.db.Collection("sensor_hours"), bucket.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor_id",
		StartField:  "start_date",
		EndField:    "end_date",
		CountField:  "transaction_count",
		Values:      []bucket.Value{{Field: "temperature", Sum: "sum_temperature"}},
	})
	if err != nil {
		return err
	}
	if err := hours.EnsureIndexes(ctx); err != nil {
		return err
	}
	const sensor = 12345
	start := time.Date(2019, time.January, 31, 10, 0, 0, 0, time.UTC)
	readings := []reading{{start, 40}, {start.Add(time.Minute), 40}, {start.Add(2 * time.Minute), 41}}
	for _, r := range readings {
		if _, err := hours.Append(ctx, sensor, r); err != nil {
			return err
		}
	}
	shown := &example{"sensor_hours", bson.D{{Key: "sensor_id", Value: sensor}}}
	return g.show(ctx, "a sensor by the hour: the mean without touching the array", shown, func() ([]string, error) {
		stats, err := hours.Aggregate(ctx, sensor, start, start.Add(time.Hour))
		if err != nil {
			return nil, err
		}
		t := stats.Values["temperature"]
		return []string{fmt.Sprintf("%v over %d readings, mean %.2f", t.Sum, stats.Count, t.Mean())}, nil
	})
}

type climate struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
}

func sensorDay(ctx context.Context, g *guide) error {
	days, err := bucket.NewSlots[string, climate](g.db.Collection("sensor_days"), bucket.Days(time.UTC), &bucket.SlotOptions{
		SeriesField: "sensor_id",
		StartField:  "created_time",
	})
	if err != nil {
		return err
	}
	if err := days.EnsureIndexes(ctx); err != nil {
		return err
	}
	const sensor = "SENSOR-1"
	start := time.Date(2019, time.January, 31, 15, 30, 0, 0, time.UTC)
	for i, c := range []climate{{21.36, 0.67}, {21.4, 0.66}, {21.38, 0.66}} {
		if err := days.Set(ctx, sensor, start.Add(time.Duration(i)*time.Minute), c); err != nil {
			return err
		}
	}
	shown := &example{"sensor_days", bson.D{{Key: "sensor_id", Value: sensor}}}
	return g.show(ctx, "a sensor by the day, a place for each minute: one minute by projection", shown, func() ([]string, error) {
		c, err := days.Get(ctx, sensor, start.Add(time.Minute))
		return []string{fmt.Sprintf("15:31  %.2f °C, humidity %.2f", c.Temperature, c.Humidity)}, err
	})
}
