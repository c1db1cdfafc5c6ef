package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/outlier"
)

func outlierChapter(ctx context.Context, g *guide) error {
	if err := bestSeller(ctx, g); err != nil {
		return err
	}
	routes, err := data.Routes()
	if err != nil {
		return err
	}
	destinations := map[string][]string{}
	for _, route := range routes {
		destinations[route.Origin] = append(destinations[route.Origin], route.Destination)
	}
	airports, overflow := g.db.Collection("airport_destinations"), g.db.Collection("airport_destinations_more")
	var docs []any
	for origin, all := range destinations {
		docs = append(docs, bson.D{{Key: "_id", Value: origin}, {Key: "destinations", Value: all}})
	}
	if _, err := airports.InsertMany(ctx, docs); err != nil {
		return err
	}
	lists, err := outlier.New[string, string](airports, overflow, &outlier.Options{
		ArrayField: "destinations", FlagField: "has_extras", ParentField: "airport", Set: true, MaxCount: 60,
	})
	if err != nil {
		return err
	}
	if err := lists.EnsureIndexes(ctx); err != nil {
		return err
	}
	err = g.show(ctx, "airports with all their destinations inside: which cap makes how many outliers?", nil, func() ([]string, error) {
		report, err := lists.Distribution(ctx, nil, 20, 60, 100)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, c := range report.Caps {
			out = append(out, fmt.Sprintf("cap %3d: %d of %d airports, %d destinations over it", c.MaxCount, c.Outliers, report.Documents, c.Over))
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	atlanta := &example{"airport_destinations", bson.D{{Key: "_id", Value: "ATL"}}}
	err = g.show(ctx, "adopt a cap of 60", atlanta, func() ([]string, error) {
		result, err := lists.Adopt(ctx, nil)
		return []string{fmt.Sprintf("%d airports made outliers", result.Done)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "a destination more for a typical airport: one round trip", nil, func() ([]string, error) {
		added, err := lists.Add(ctx, "ABE", "SEA")
		return []string{fmt.Sprintf("ABE to SEA added: %d", added)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "and for an outlier: three, as its overflow documents may hold it already", nil, func() ([]string, error) {
		added, err := lists.Add(ctx, "ATL", "CDG")
		return []string{fmt.Sprintf("ATL to CDG added: %d", added)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "does one fly from Atlanta to Seattle?", nil, func() ([]string, error) {
		has, err := lists.Contains(ctx, "ATL", "SEA")
		return []string{fmt.Sprint(has)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the whole list of Atlanta, in order", nil, func() ([]string, error) {
		n := 0
		for _, err := range lists.All(ctx, "ATL") {
			if err != nil {
				return nil, err
			}
			n++
		}
		return []string{fmt.Sprintf("%d destinations", n)}, nil
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "which airports are outliers? a filter for a query of one's own", nil, func() ([]string, error) {
		n, err := airports.CountDocuments(ctx, lists.OutliersFilter())
		return []string{fmt.Sprintf("%d airports", n)}, err
	})
}
