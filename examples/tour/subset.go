package main

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/subset"
)

// flown is a route from the airport that holds it among its busiest.
type flown struct {
	ID          string `bson:"_id"`
	Destination string `bson:"destination"`
	Flights     int    `bson:"flights"`
}

func subsetChapter(ctx context.Context, g *guide) error {
	routes, err := data.Routes()
	if err != nil {
		return err
	}
	airports, items := g.db.Collection("busy_airports"), g.db.Collection("flown")
	origins := map[string]bool{}
	var parents, flights []any
	for _, r := range routes {
		if !origins[r.Origin] {
			origins[r.Origin] = true
			parents = append(parents, bson.D{{Key: "_id", Value: r.Origin}})
		}
		flights = append(flights, bson.D{{Key: "_id", Value: r.Origin + "-" + r.Destination}, {Key: "origin", Value: r.Origin},
			{Key: "destination", Value: r.Destination}, {Key: "flights", Value: r.Flights}})
	}
	if _, err := airports.InsertMany(ctx, parents); err != nil {
		return err
	}
	if _, err := items.InsertMany(ctx, flights); err != nil {
		return err
	}
	busiest, err := subset.New[string, flown](airports, items, &subset.Options{
		ParentField: "origin",
		ArrayField:  "busiest",
		N:           10,
		Sort:        bson.D{{Key: "flights", Value: -1}},
		Fields:      []string{"destination"},
		CountField:  "destinations",
		Values:      []subset.Value{{Field: "flights", Sum: "flights", Mean: "mean_flights"}},
	})
	if err != nil {
		return err
	}
	if err := busiest.EnsureIndexes(ctx); err != nil {
		return err
	}
	airport := &example{"busy_airports", bson.D{{Key: "_id", Value: "ATL"}}}
	err = g.show(ctx, "the ten busiest routes of each airport kept with it", airport, func() ([]string, error) {
		result, err := busiest.Adopt(ctx, nil)
		return []string{fmt.Sprintf("%d airports", result.Done)}, err
	})
	if err != nil {
		return err
	}
	top := func() ([]string, error) {
		kept, err := busiest.Top(ctx, "ATL")
		var out []string
		for _, f := range kept {
			out = append(out, fmt.Sprintf("%s %d", f.Destination, f.Flights))
		}
		return []string{strings.Join(out, ", ")}, err
	}
	if err := g.show(ctx, "they are read with the airport", nil, top); err != nil {
		return err
	}
	err = g.show(ctx, "a new route, busier than the others", nil, func() ([]string, error) {
		_, err := busiest.Insert(ctx, "ATL", flown{"ATL-CDG", "CDG", 20000})
		return nil, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "it is flown less: it leaves the ten, and the next one follows", nil, func() ([]string, error) {
		return nil, busiest.Update(ctx, "ATL", "ATL-CDG", bson.D{{Key: "$set", Value: bson.D{{Key: "flights", Value: 1}}}})
	})
	if err != nil {
		return err
	}
	if err := g.show(ctx, "the ten are as before", nil, top); err != nil {
		return err
	}
	err = g.show(ctx, "all routes of Atlanta in that order, for a page or an iterator", nil, func() ([]string, error) {
		n := 0
		for _, err := range busiest.All(ctx, "ATL") {
			if err != nil {
				return nil, err
			}
			n++
		}
		return []string{fmt.Sprintf("%d routes", n)}, nil
	})
	if err != nil {
		return err
	}
	return movieSplit(ctx, g)
}
