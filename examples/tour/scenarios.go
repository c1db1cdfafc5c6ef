package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/timeseries"
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
			for c, err := range categories.Preorder(ctx, "Programming", 0) {
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
		&paging.Options{PageSize: 10, Group: 10})
	if err != nil {
		return err
	}
	tenth, err := pager.Page(ctx, nil, paging.Request{Number: 10})
	if err != nil {
		return err
	}
	return g.show(ctx, "an article list in groups of ten pages: from page 10 jump to page 13", nil, func() ([]string, error) {
		page, err := pager.Page(ctx, nil, paging.Request{Number: 13, From: tenth.Position})
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
	hours, err := bucket.New[int, reading](g.db.Collection("sensor_hours"), timeseries.Every(time.Hour), &bucket.Options{
		SeriesField: "sensor_id",
		StartField:  "start_date",
		EndField:    "end_date",
		CountField:  "transaction_count",
		Values:      []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
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
	days, err := slots.New[string, climate](g.db.Collection("sensor_days"), timeseries.Days(time.UTC), &slots.Options{
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

func bestSeller(ctx context.Context, g *guide) error {
	books := g.db.Collection("books")
	if _, err := books.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "Harry Potter"},
		{Key: "author", Value: "J.K. Rowling"}, {Key: "customers_purchased", Value: bson.A{}}}); err != nil {
		return err
	}
	customers, err := outlier.New[int, string](books, g.db.Collection("books_extra"), &outlier.Options{
		ArrayField: "customers_purchased", FlagField: "has_extras", MaxCount: 3, // 1000 in life
	})
	if err != nil {
		return err
	}
	if err := customers.EnsureIndexes(ctx); err != nil {
		return err
	}
	return g.show(ctx, "a best-seller: what is too much for the book is kept beside it",
		&example{"books", bson.D{{Key: "_id", Value: 1}}}, func() ([]string, error) {
			for i := range 5 {
				if _, err := customers.Add(ctx, 1, fmt.Sprintf("user%02d", i)); err != nil {
					return nil, err
				}
			}
			total, err := customers.Total(ctx, 1)
			return []string{fmt.Sprintf("%d customers", total)}, err
		})
}

type movie struct {
	ID      int    `bson:"_id"`
	Title   string `bson:"title"`
	Year    int    `bson:"year"`
	Runtime int    `bson:"runtime"`
}

type movieDetails struct {
	Plot   string `bson:"plot"`
	Poster string `bson:"poster"`
	IMDB   struct {
		Rating float64 `bson:"rating"`
		Votes  int     `bson:"votes"`
		ID     int     `bson:"id"`
	} `bson:"imdb"`
}

func movieSplit(ctx context.Context, g *guide) error {
	movies, err := split.New[int, movie, movieDetails](g.db.Collection("movie"), g.db.Collection("movie_details"),
		&split.Options{IDField: "movie_id"})
	if err != nil {
		return err
	}
	if err := movies.EnsureIndexes(ctx); err != nil {
		return err
	}
	details := movieDetails{Plot: "A train arrives at La Ciotat station.", Poster: "arrival.jpg"}
	details.IMDB.Rating, details.IMDB.Votes, details.IMDB.ID = 7.3, 5043, 12
	err = g.show(ctx, "a movie and its details, split by how often they are read", &example{"movie", bson.D{{Key: "_id", Value: 1}}},
		func() ([]string, error) {
			return nil, movies.Insert(ctx, 1, movie{1, "The Arrival of a Train", 1896, 1}, details)
		})
	if err != nil {
		return err
	}
	return g.show(ctx, "both in one round trip", nil, func() ([]string, error) {
		m, d, err := movies.Get(ctx, 1)
		return []string{fmt.Sprintf("%s (%d), rated %.1f", m.Title, m.Year, d.IMDB.Rating)}, err
	})
}

type buyer struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	Address string `bson:"address"`
	Version int64  `bson:"version"`
}

func orderWithCustomer(ctx context.Context, g *guide) error {
	customers, orders := g.db.Collection("buyers"), g.db.Collection("orders")
	refs, err := extref.New[int, buyer](customers, []extref.Target{{
		Collection: orders,
		Path:       "customer",
		Fields:     []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}},
	}}, nil)
	if err != nil {
		return err
	}
	if err := refs.EnsureIndexes(ctx); err != nil {
		return err
	}
	katrina := buyer{123, "Katrina Pope", "123 Main St", 1}
	if _, err := customers.InsertOne(ctx, katrina); err != nil {
		return err
	}
	copied, err := refs.Copy("orders.customer", katrina)
	if err != nil {
		return err
	}
	if _, err := orders.InsertOne(ctx, bson.D{{Key: "_id", Value: "A-17"}, {Key: "customer", Value: copied}}); err != nil {
		return err
	}
	return g.show(ctx, "an order follows its customer's name and keeps the address it was shipped to",
		&example{"orders", bson.D{{Key: "_id", Value: "A-17"}}}, func() ([]string, error) {
			result, err := refs.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{
				{Key: "name", Value: "Katrina Pop"}, {Key: "address", Value: "9 Sea Rd"}}}})
			return []string{fmt.Sprintf("%d order written", result.Copies.Done)}, err
		})
}
