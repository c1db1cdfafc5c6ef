package main

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/tree"
)

// place is a country, a state, a city or an airport. The tree's own fields need
// not be in the struct.
type place struct {
	ID   string `bson:"_id"`
	Kind string `bson:"kind"`
	Name string `bson:"name"`
}

func (p place) String() string { return p.Kind + " " + p.Name }

func treeChapter(ctx context.Context, g *guide) error {
	if err := bookCategories(ctx, g); err != nil {
		return err
	}
	entries, err := placesOfTheWorld()
	if err != nil {
		return err
	}
	places, err := tree.New[string, place](g.db.Collection("places"), tree.AncestorArray, &tree.Options{NameField: "name"})
	if err != nil {
		return err
	}
	if err := places.EnsureIndexes(ctx); err != nil {
		return err
	}
	atlanta := &example{"places", bson.D{{Key: "_id", Value: "ATL"}}}
	err = g.show(ctx, "load countries, states, cities and airports", atlanta, func() ([]string, error) {
		result, err := places.Load(ctx, func(yield func(tree.Entry[string, place], error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}, places.AsRoot(), nil)
		return []string{fmt.Sprintf("%d nodes", result.Done)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "where is ATL? the breadcrumb", nil, func() ([]string, error) {
		crumbs, err := places.Breadcrumb(ctx, "ATL")
		names := make([]string, len(crumbs))
		for i, crumb := range crumbs {
			names[i] = crumb.Name
		}
		return []string{strings.Join(names, " > ")}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "how much lies in Georgia?", nil, func() ([]string, error) {
		kinds := map[string]int{}
		for p, err := range places.Descendants(ctx, "USA/GA", 0) {
			if err != nil {
				return nil, err
			}
			kinds[p.Kind]++
		}
		return []string{fmt.Sprintf("%d cities, %d airports", kinds["city"], kinds["airport"])}, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "composed with the driver: the descendants' filter in a count of one's own", nil, func() ([]string, error) {
		filter, err := places.DescendantsFilter(ctx, "USA/AK", 0)
		if err != nil {
			return nil, err
		}
		n, err := g.db.Collection("places").CountDocuments(ctx, append(filter, bson.E{Key: "kind", Value: "airport"}))
		return []string{fmt.Sprintf("%d airports in Alaska", n)}, err
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "a subtree as a nested value", nil, func() ([]string, error) {
		state, err := places.Subtree(ctx, "USA/DE", 0)
		if err != nil {
			return nil, err
		}
		out := []string{state.Value.String()}
		for _, city := range state.Children {
			var airports []string
			for _, airport := range city.Children {
				airports = append(airports, airport.Value.Name)
			}
			out = append(out, "  "+city.Value.Name+": "+strings.Join(airports, "; "))
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	err = g.show(ctx, "a move of all Alaska, one updateMany for all that lies below", &example{"places", bson.D{{Key: "_id", Value: "ANC"}}}, func() ([]string, error) {
		if _, err := places.Insert(ctx, place{"Arctic", "country", "Arctic"}, places.AsRoot()); err != nil {
			return nil, err
		}
		if err := places.Move(ctx, "USA/AK", places.Under("Arctic")); err != nil {
			return nil, err
		}
		above, err := places.Ancestors(ctx, "ANC")
		return []string{fmt.Sprintf("ANC is at depth %d", len(above))}, err
	})
	if err != nil {
		return err
	}
	return g.show(ctx, "under itself? refused", nil, func() ([]string, error) {
		err := places.Move(ctx, "Arctic", places.Under("ANC"))
		if err == nil {
			return nil, fmt.Errorf("a cycle was made")
		}
		return []string{err.Error()}, nil
	})
}

// placesOfTheWorld are the airports, under their cities, states and countries.
func placesOfTheWorld() (all []tree.Entry[string, place], err error) {
	airports, err := data.Airports()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	add := func(p place, under *string) *string {
		if !known[p.ID] {
			known[p.ID] = true
			all = append(all, tree.Entry[string, place]{Value: p, Parent: under})
		}
		return &p.ID
	}
	for _, a := range airports {
		country := add(place{a.Country, "country", a.Country}, nil)
		state := add(place{a.Country + "/" + a.State, "state", a.State}, country)
		city := add(place{a.Country + "/" + a.State + "/" + a.City, "city", a.City}, state)
		add(place{a.IATA, "airport", a.Name}, city)
	}
	return all, nil
}
