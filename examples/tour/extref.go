package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/extref"
)

type named struct {
	IATA    string `bson:"_id"`
	Name    string `bson:"name"`
	City    string `bson:"city"`
	State   string `bson:"state"`
	Version int64  `bson:"version"`
}

func extrefChapter(ctx context.Context, g *guide) error {
	if err := orderWithCustomer(ctx, g); err != nil {
		return err
	}
	airports, err := data.Airports()
	if err != nil {
		return err
	}
	routes, err := data.Routes()
	if err != nil {
		return err
	}
	sources, targets := g.db.Collection("named_airports"), g.db.Collection("named_routes")
	fields := []extref.Field{{Path: "name"}, {Path: "city"}}
	refs, err := extref.New[string, named](sources, []extref.Target{
		{Collection: targets, Path: "origin", IDField: "iata", Fields: fields},
		{Collection: targets, Path: "destination", IDField: "iata", Fields: fields},
	}, nil)
	if err != nil {
		return err
	}
	if err := refs.EnsureIndexes(ctx); err != nil {
		return err
	}
	known := map[string]named{}
	var docs []any
	for _, a := range airports {
		known[a.IATA] = named{a.IATA, a.Name, a.City, a.State, 1}
		docs = append(docs, known[a.IATA])
	}
	if _, err := sources.InsertMany(ctx, docs); err != nil {
		return err
	}
	docs = nil
	for i, r := range routes {
		origin, err := refs.Copy("named_routes.origin", known[r.Origin])
		if err != nil {
			return err
		}
		destination, err := refs.Copy("named_routes.destination", known[r.Destination])
		if err != nil {
			return err
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "origin", Value: origin},
			{Key: "destination", Value: destination}, {Key: "flights", Value: r.Flights}})
	}
	if _, err := targets.InsertMany(ctx, docs); err != nil {
		return err
	}
	fromAtlanta := &example{"named_routes", bson.D{{Key: "origin.iata", Value: "ATL"}}}
	rename := func(name string) func() ([]string, error) {
		return func() ([]string, error) {
			result, err := refs.Update(ctx, "ATL", bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: name}}}})
			return []string{fmt.Sprintf("version %d, %d routes written", result.Version, result.Copies.Done)}, err
		}
	}
	err = g.show(ctx, "rename Atlanta's airport: every route from and to it follows, in the same transaction", fromAtlanta,
		rename("Hartsfield-Jackson Atlanta International"))
	if err != nil {
		return err
	}
	err = g.show(ctx, "a field that no route copies changes: one write", nil, func() ([]string, error) {
		result, err := refs.Update(ctx, "ATL", bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: "Georgia"}}}})
		return []string{fmt.Sprintf("%d routes written", result.Copies.Done)}, err
	})
	if err != nil {
		return err
	}
	if _, err := sources.UpdateOne(ctx, bson.D{{Key: "_id", Value: "SEA"}}, bson.D{
		{Key: "$set", Value: bson.D{{Key: "name", Value: "Seattle-Tacoma"}}}, {Key: "$inc", Value: bson.D{{Key: "version", Value: 1}}},
	}); err != nil {
		return err
	}
	err = g.show(ctx, "Seattle's was renamed by somebody else: which copies are behind?", nil, func() ([]string, error) {
		n := 0
		for _, err := range refs.Check(ctx, nil) {
			if err != nil {
				return nil, err
			}
			n++
		}
		return []string{fmt.Sprintf("%d copies", n)}, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "bring it to them", nil, func() ([]string, error) {
		result, err := refs.Propagate(ctx, "SEA", nil)
		return []string{fmt.Sprintf("%d routes written", result.Done)}, err
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "again: nothing is left to write", nil, func() ([]string, error) {
		result, err := refs.Propagate(ctx, "SEA", nil)
		return []string{fmt.Sprintf("%d routes written", result.Done)}, err
	})
}
