package main

import (
	"context"
	"fmt"
	"net/url"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/paging"
)

type pagedAirport struct {
	IATA  string `bson:"_id"`
	Name  string `bson:"name"`
	City  string `bson:"city"`
	State string `bson:"state"`
}

func (a pagedAirport) String() string {
	return fmt.Sprintf("%-3s %s, %s, %s", a.IATA, a.Name, a.City, a.State)
}

type pagedRoute struct {
	ID      bson.ObjectID `bson:"_id,omitempty"`
	From    string        `bson:"from"`
	To      string        `bson:"to"`
	Flights int           `bson:"flights"`
}

func (r pagedRoute) String() string { return fmt.Sprintf("%s-%s %d", r.From, r.To, r.Flights) }

const size = 20

func pagingChapter(ctx context.Context, g *guide) error {
	if err := articlePages(ctx, g); err != nil {
		return err
	}
	if err := loadPaged(ctx, g); err != nil {
		return err
	}
	byStateAndName := bson.D{{Key: "state", Value: 1}, {Key: "name", Value: 1}}
	airports, err := paging.New[pagedAirport](g.db.Collection("airports"), byStateAndName,
		&paging.Options{PageSize: size})
	if err != nil {
		return err
	}
	if err := airports.EnsureIndexes(ctx); err != nil {
		return err
	}
	var page *paging.Page[pagedAirport]
	stored := &example{"airports", bson.D{{Key: "_id", Value: "ATL"}}}
	err = g.show(ctx, "the first page of airports by state and name", stored, func() ([]string, error) {
		if page, err = airports.Page(ctx, nil, paging.Request{}); err != nil {
			return nil, err
		}
		return append(lines(page.Items[:3]),
			fmt.Sprintf("… %d airports; more before: %t, behind: %t", len(page.Items), page.HasPrev, page.HasNext)), nil
	})
	if err != nil {
		return err
	}

	const deep = 100
	before, err := airports.Page(ctx, nil, paging.Request{Number: deep - 1})
	if err != nil {
		return err
	}
	err = g.show(ctx, fmt.Sprintf("page %d, after the token of the one before it", deep), nil, func() ([]string, error) {
		if page, err = airports.Page(ctx, nil, paging.Request{After: before.Next}); err != nil {
			return nil, err
		}
		return lines(page.Items[:3]), nil
	})
	if err != nil {
		return err
	}

	sequential, err := paging.New[pagedAirport](g.db.Collection("airports"), byStateAndName,
		&paging.Options{PageSize: size, Sequential: true})
	if err != nil {
		return err
	}
	err = g.show(ctx, "the same page branch by branch, for engines that do not merge the branches of $or", nil, func() ([]string, error) {
		same, err := sequential.Page(ctx, nil, paging.Request{After: before.Next})
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("the same airports: %t", fmt.Sprint(same.Items) == fmt.Sprint(page.Items))}, nil
	})
	if err != nil {
		return err
	}

	err = g.show(ctx, fmt.Sprintf("page %d by its number: the server walks what it skips", deep), nil, func() ([]string, error) {
		numbered, err := airports.Page(ctx, nil, paging.Request{Number: deep, Count: paging.CountExact})
		if err != nil {
			return nil, err
		}
		return []string{
			fmt.Sprintf("the same airports: %t", fmt.Sprint(numbered.Items) == fmt.Sprint(page.Items)),
			fmt.Sprintf("page %d of %d, %d airports", numbered.Number, numbered.Pages, numbered.Total.N),
		}, nil
	})
	if err != nil {
		return err
	}

	err = g.show(ctx, "back from there, and the links a service would send", nil, func() ([]string, error) {
		back, err := airports.Page(ctx, nil, paging.Request{Before: page.Prev})
		if err != nil {
			return nil, err
		}
		link := back.LinkHeader(&url.URL{Path: "/airports"})
		return []string{
			fmt.Sprintf("the page before, in forward order: %t", fmt.Sprint(back.Items) == fmt.Sprint(before.Items)),
			"Link: " + link,
		}, nil
	})
	if err != nil {
		return err
	}

	routes, err := paging.New[pagedRoute](g.db.Collection("routes"),
		bson.D{{Key: "flights", Value: -1}}, &paging.Options{PageSize: 500})
	if err != nil {
		return err
	}
	if err := routes.EnsureIndexes(ctx); err != nil {
		return err
	}
	return g.show(ctx, "all routes by flights, busiest first, in batches; many tie", nil, func() ([]string, error) {
		var first []pagedRoute
		ties := map[int]int{}
		seen := map[bson.ObjectID]bool{}
		inOrder, last := true, 0
		for route, err := range routes.All(ctx, nil, paging.Request{}) {
			if err != nil {
				return nil, err
			}
			if len(first) < 3 {
				first = append(first, route)
			}
			inOrder = inOrder && (len(seen) == 0 || route.Flights <= last)
			last = route.Flights
			ties[route.Flights]++
			seen[route.ID] = true
		}
		most, flights := 0, 0
		for n, count := range ties {
			if count > most || count == most && n < flights {
				most, flights = count, n
			}
		}
		return append(lines(first),
			fmt.Sprintf("… %d routes, each once, in order: %t; %d of them tie at %d flights", len(seen), inOrder, most, flights)), nil
	})
}

func loadPaged(ctx context.Context, g *guide) error {
	airports, err := data.Airports()
	if err != nil {
		return err
	}
	var docs []any
	for _, a := range airports {
		docs = append(docs, pagedAirport{IATA: a.IATA, Name: a.Name, City: a.City, State: a.State})
	}
	if _, err := g.db.Collection("airports").InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)); err != nil {
		return err
	}
	routes, err := data.Routes()
	if err != nil {
		return err
	}
	docs = nil
	for _, r := range routes {
		docs = append(docs, pagedRoute{From: r.Origin, To: r.Destination, Flights: r.Flights})
	}
	_, err = g.db.Collection("routes").InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	return err
}

// lines prints values one by one.
func lines[T any](values []T) []string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = fmt.Sprint(value)
	}
	return out
}
