package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/examples/data"
)

func attributeChapter(ctx context.Context, g *guide) error {
	for _, part := range []func(context.Context, *guide) error{filmReleases, bottledWater, ticketChannels, monthsAsAttributes} {
		if err := part(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func filmReleases(ctx context.Context, g *guide) error {
	films := g.db.Collection("films")
	day := func(month time.Month, day int) time.Time { return time.Date(1977, month, day, 0, 0, 0, 0, time.UTC) }
	_, err := films.InsertOne(ctx, bson.D{
		{Key: "_id", Value: 1}, {Key: "title", Value: "Star Wars"},
		{Key: "release_US", Value: day(time.May, 20)}, {Key: "release_France", Value: day(time.October, 19)},
		{Key: "release_Italy", Value: day(time.October, 20)}, {Key: "release_UK", Value: day(time.December, 27)},
	})
	if err != nil {
		return err
	}
	releases, err := attribute.New[int, time.Time](films, &attribute.Options{
		ArrayField: "releases", KeyField: "location", ValueField: "date",
	})
	if err != nil {
		return err
	}
	if err := releases.EnsureIndexes(ctx); err != nil {
		return err
	}
	film := &example{"films", bson.D{{Key: "_id", Value: 1}}}
	err = g.show(ctx, "a film's release dates: a field for each country becomes an entry", film, func() ([]string, error) {
		result, err := releases.Adopt(ctx, []attribute.Column{
			{Path: "release_US", Key: "USA"}, {Path: "release_France", Key: "France"},
			{Path: "release_Italy", Key: "Italy"}, {Path: "release_UK", Key: "UK"},
		}, nil)
		return []string{fmt.Sprintf("%d film adopted", result.Done)}, err
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "released in Italy in October 1977: country and date of the same entry", nil, func() ([]string, error) {
		n, err := films.CountDocuments(ctx, releases.Filter(releases.Range(attribute.Named("Italy"), day(time.October, 1), day(time.November, 1))))
		return []string{fmt.Sprintf("%d film", n)}, err
	})
}

func bottledWater(ctx context.Context, g *guide) error {
	bottles := g.db.Collection("bottles")
	if _, err := bottles.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "Spring water"}}); err != nil {
		return err
	}
	specs, err := attribute.New[int, string](bottles, &attribute.Options{ArrayField: "specs", QualifierField: "u"})
	if err != nil {
		return err
	}
	if err := specs.EnsureIndexes(ctx); err != nil {
		return err
	}
	return g.show(ctx, "a volume in two units: one key twice, told apart by its qualifier",
		&example{"bottles", bson.D{{Key: "_id", Value: 1}}}, func() ([]string, error) {
			return nil, specs.SetAll(ctx, 1,
				attribute.Attribute[string]{Key: "volume", Value: "500", Qualifier: "ml"},
				attribute.Attribute[string]{Key: "volume", Value: "12", Qualifier: "ounces"})
		})
}

func ticketChannels(ctx context.Context, g *guide) error {
	screenings := g.db.Collection("screenings")
	price := func(channel string, price int) bson.D {
		return bson.D{{Key: "channel", Value: channel}, {Key: "price", Value: price}}
	}
	_, err := screenings.InsertMany(ctx, []any{
		bson.D{{Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"},
			{Key: "provider", Value: bson.A{price("gewala", 30), price("maoyan", 50), price("taopiao", 20)}}},
		bson.D{{Key: "scheduleId", Value: "0002"}, {Key: "movie", Value: "你的名字"},
			{Key: "provider", Value: bson.A{price("gewala", 35)}}},
	})
	if err != nil {
		return err
	}
	channels, err := attribute.New[bson.ObjectID, int](screenings, &attribute.Options{
		ArrayField: "provider", KeyField: "channel", ValueField: "price",
		Indexes: []attribute.Index{{Prefix: []string{"scheduleId", "movie"}, KeyOnly: true}, {KeyOnly: true}},
	})
	if err != nil {
		return err
	}
	if err := channels.EnsureIndexes(ctx); err != nil {
		return err
	}
	screening := bson.D{{Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"}}
	err = g.show(ctx, "the price of one channel for a screening", &example{"screenings", screening}, func() ([]string, error) {
		price, err := channels.GetBy(ctx, screening, attribute.Named("taopiao"))
		return []string{fmt.Sprint(price)}, err
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "all screenings that a channel sells", nil, func() ([]string, error) {
		n := 0
		for _, err := range channels.Values(ctx, nil, attribute.Named("gewala")) {
			if err != nil {
				return nil, err
			}
			n++
		}
		return []string{fmt.Sprintf("%d screenings", n)}, nil
	})
}

// monthsAsAttributes has twelve documents with a mean of each measured value.
func monthsAsAttributes(ctx context.Context, g *guide) error {
	weather, err := data.SeattleWeather()
	if err != nil {
		return err
	}
	var sums [12]struct{ hours, temperature, pressure, wind float64 }
	for _, w := range weather {
		m := &sums[w.Time.Month()-1]
		m.hours, m.temperature, m.pressure, m.wind = m.hours+1, m.temperature+w.Temperature, m.pressure+w.Pressure, m.wind+w.Wind
	}
	coll := g.db.Collection("months")
	months, err := attribute.New[string, float64](coll, &attribute.Options{ArrayField: "means", QualifierField: "u"})
	if err != nil {
		return err
	}
	if err := months.EnsureIndexes(ctx); err != nil {
		return err
	}
	var docs []any
	for i, m := range sums {
		means, err := months.Elements(
			attribute.Attribute[float64]{Key: "temperature", Value: m.temperature / m.hours, Qualifier: "°C"},
			attribute.Attribute[float64]{Key: "pressure", Value: m.pressure / m.hours, Qualifier: "hPa"},
			attribute.Attribute[float64]{Key: "wind", Value: m.wind / m.hours, Qualifier: "m/s"})
		if err != nil {
			return err
		}
		docs = append(docs, bson.D{{Key: "_id", Value: time.Month(i + 1).String()}, {Key: "means", Value: means}})
	}
	if _, err := coll.InsertMany(ctx, docs); err != nil {
		return err
	}
	filter := months.Filter(months.Gte(attribute.Named("temperature").Qualified("°C"), 15), months.Lt(attribute.Named("wind").Qualified("m/s"), 3.4))
	return g.show(ctx, "Seattle's months: warm ones with little wind, the warmest first",
		&example{"months", bson.D{{Key: "_id", Value: "July"}}}, func() ([]string, error) {
			cursor, err := coll.Aggregate(ctx, months.SortPipeline(filter, attribute.Named("temperature").Qualified("°C"),
				&attribute.SortOptions{Descending: true}))
			if err != nil {
				return nil, err
			}
			var found []struct {
				Month string `bson:"_id"`
			}
			if err := cursor.All(ctx, &found); err != nil {
				return nil, err
			}
			var names []string
			for _, f := range found {
				names = append(names, f.Month)
			}
			return []string{strings.Join(names, ", ")}, nil
		})
}
