package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

// told is a step of which only an error, or a line, is told.
type told struct {
	title string
	doc   *example
	run   func() (string, error)
}

func showAll(ctx context.Context, g *guide, steps []told) error {
	for _, s := range steps {
		err := g.show(ctx, s.title, s.doc, func() ([]string, error) {
			line, err := s.run()
			return []string{line}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func id(collection string, v any) *example {
	return &example{collection, bson.D{{Key: "_id", Value: v}}}
}

type course struct {
	ID     int    `bson:"_id"`
	Name   string `bson:"name"`
	Points int    `bson:"points"`
}

func relationChapter(ctx context.Context, g *guide) error {
	students, courses := g.db.Collection("students"), g.db.Collection("courses")
	if err := insert(ctx, students, bson.D{{Key: "_id", Value: "Sammy"}, {Key: "emails", Value: bson.A{bson.D{{Key: "email", Value: "sammy@example.com"}, {Key: "type", Value: "work"}}}}}); err != nil {
		return err
	}
	if err := insert(ctx, courses, course{101, "Physics 101", 7}, course{205, "Introduction to Cloud Computing", 4}); err != nil {
		return err
	}
	takes, err := relation.New[string, int, course](students, courses, &relation.Options{ChildrenField: "courses"})
	if err != nil {
		return err
	}
	people, taskColl := g.db.Collection("people"), g.db.Collection("tasks")
	if err := insert(ctx, people, bson.D{{Key: "_id", Value: "Ann"}}, bson.D{{Key: "_id", Value: "Bob"}}); err != nil {
		return err
	}
	tasks, err := relation.New[string, int, bson.M](people, taskColl, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err != nil {
		return err
	}
	if err := errors.Join(takes.EnsureIndexes(ctx), tasks.EnsureIndexes(ctx)); err != nil {
		return err
	}
	for i := range 3 {
		if _, err := tasks.Insert(ctx, "Ann", bson.M{"_id": i + 1}); err != nil {
			return err
		}
	}
	return showAll(ctx, g, []told{
		{"a student takes two courses, and one that there is not", id("students", "Sammy"), func() (string, error) { return "linked", takes.Link(ctx, "Sammy", 205, 101, 999) }},
		{"the courses in the order of the references: two round trips", nil, func() (string, error) {
			joined, err := takes.Children(ctx, "Sammy", nil)
			return fmt.Sprint(joined.Items, ", dangling ", joined.Dangling), err
		}},
		{"who takes Physics?", nil, func() (string, error) {
			who, err := takes.Parents(ctx, 101)
			return strings.Join(who, ", "), err
		}},
		{"a task goes from Ann to Bob: both sides in one transaction", id("people", "Bob"), func() (string, error) { return "moved", tasks.Transfer(ctx, 2, "Bob") }},
		{"two links of one task exclude each other", nil, func() (string, error) {
			if err := tasks.Link(ctx, "Ann", 2); !errors.Is(err, relation.ErrOwned) {
				return "", fmt.Errorf("not refused: %w", err)
			}
			return "refused: owned by another parent", nil
		}},
	})
}

func computedChapter(ctx context.Context, g *guide) error {
	all, err := data.Routes()
	if err != nil {
		return err
	}
	airports, err := data.Airports()
	if err != nil {
		return err
	}
	state := map[string]string{}
	var fields, states []any
	seen := map[string]bool{}
	for _, a := range airports {
		state[a.IATA] = a.State
		fields = append(fields, bson.D{{Key: "_id", Value: a.IATA}, {Key: "city", Value: a.City}, {Key: "state", Value: a.State}})
		if !seen[a.State] {
			seen[a.State] = true
			states = append(states, bson.D{{Key: "_id", Value: a.State}})
		}
	}
	var routes []any
	for i, r := range all {
		routes = append(routes, bson.D{{Key: "_id", Value: i}, {Key: "origin", Value: r.Origin}, {Key: "flights", Value: r.Flights}})
	}
	for name, docs := range map[string][]any{"computed_airports": fields, "computed_states": states, "computed_routes": routes} {
		if err := insert(ctx, g.db.Collection(name), docs...); err != nil {
			return err
		}
	}
	sum := func(key string) mongo.Pipeline {
		return mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + key}, {Key: "flights", Value: bson.M{"$sum": "$flights"}}}}}}
	}
	empty := bson.D{{Key: "flights", Value: 0}}
	byState, err := computed.New[string, string, bson.M](g.db.Collection("computed_airports"), g.db.Collection("computed_states"),
		computed.Rule{KeyField: "state", Pipeline: sum("state"), Empty: empty}, &computed.Options{Additive: true})
	if err != nil {
		return err
	}
	byAirport, err := computed.New[int, string, bson.M](g.db.Collection("computed_routes"), g.db.Collection("computed_airports"),
		computed.Rule{KeyField: "origin", Pipeline: sum("origin"), Empty: empty}, &computed.Options{Additive: true, Then: byState})
	if err != nil {
		return err
	}
	if err := errors.Join(byState.EnsureIndexes(ctx), byAirport.EnsureIndexes(ctx)); err != nil {
		return err
	}
	flights := func(c interface {
		Get(context.Context, string, time.Duration) (bson.M, error)
	}, key string) func() (string, error) {
		return func() (string, error) {
			doc, err := c.Get(ctx, key, time.Hour)
			return fmt.Sprintf("%s: %v flights", key, doc["flights"]), err
		}
	}
	refreshed := func(c interface {
		RefreshAll(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)
	}) func() (string, error) {
		return func() (string, error) {
			result, err := c.RefreshAll(ctx, nil)
			return fmt.Sprintf("%d computed", result.Done), err
		}
	}
	return showAll(ctx, g, []told{
		{"departures of every airport, in batches", id("computed_airports", "ATL"), refreshed(byAirport)},
		{"and of every state", nil, refreshed(byState)},
		{"a kept total is one document", nil, flights(byAirport, "ATL")},
		{"a route gets 1,000 more flights: its airport and its state follow in the transaction", id("computed_states", state[all[0].Origin]), func() (string, error) {
			err := byAirport.Change(ctx, []int{0}, func(ctx context.Context) error {
				_, err := g.db.Collection("computed_routes").UpdateByID(ctx, 0, bson.M{"$inc": bson.M{"flights": 1000}})
				return err
			})
			return all[0].Origin + " and " + state[all[0].Origin] + " follow", err
		}},
		{"what goes around the package is found", nil, func() (string, error) {
			if _, err := g.db.Collection("computed_routes").UpdateByID(ctx, 1, bson.M{"$inc": bson.M{"flights": 5}}); err != nil {
				return "", err
			}
			var found []string
			for p, err := range byAirport.Check(ctx, nil) {
				if err != nil {
					return "", err
				}
				found = append(found, p.String())
			}
			return strings.Join(found, "; "), nil
		}},
		{"and repaired, at both levels", nil, func() (string, error) {
			result, err := byAirport.Repair(ctx, nil)
			return fmt.Sprintf("%d of %d airports", result.Done, result.Examined), err
		}},
	})
}

func approxChapter(ctx context.Context, g *guide) error {
	pages := g.db.Collection("pages")
	views, err := approx.New[string](pages, nil)
	if err != nil {
		return err
	}
	seed := uint64(1)
	random := func() float64 { // the same at every tour
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed>>11) / (1 << 53)
	}
	sampled, err := approx.NewSampled[string](g.db.Collection("cities"), &approx.Options{KeyField: "city", CountField: "population", Random: random})
	if err != nil {
		return err
	}
	if err := sampled.EnsureIndexes(ctx); err != nil {
		return err
	}
	add := func(n int, to func(context.Context, string, int64) error, key string) (string, error) {
		for range n {
			if err := to(ctx, key, 1); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d changes", n), nil
	}
	return showAll(ctx, g, []told{
		{"1,999 page views, of which every hundredth writes", id("pages", "/about"), func() (string, error) { return add(1999, views.Add, "/about") }},
		{"here, with what waits in memory", nil, func() (string, error) {
			n, err := views.Get(ctx, "/about")
			return fmt.Sprint(n), err
		}},
		{"Close writes the rest", id("pages", "/about"), func() (string, error) { return "closed", views.Close(ctx) }},
		{"39,000 births, of which one in a hundred writes a hundred", nil, func() (string, error) { return add(39000, sampled.Add, "Springfield") }},
		{"the estimate and its standard error", nil, func() (string, error) {
			e, err := sampled.Estimate(ctx, "Springfield")
			return fmt.Sprintf("%d, give or take %.0f", e.Count, e.StdErr), err
		}},
	})
}

func preallocChapter(ctx context.Context, g *guide) error {
	seats, err := prealloc.New[string, string](g.db.Collection("seats"), nil)
	if err != nil {
		return err
	}
	calendar, err := prealloc.New[string, string](g.db.Collection("calendar"), &prealloc.Options{CellsField: "days", Flat: true})
	if err != nil {
		return err
	}
	const show = "2019-04-05 20:00"
	c7, b3 := prealloc.Cell{Section: "C", Name: "7"}, prealloc.Cell{Section: "B", Name: "3"}
	working := func(day time.Time) bool { return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday }
	april, err := prealloc.DayCells(time.Date(2019, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2019, 4, 30, 0, 0, 0, 0, time.UTC), working)
	if err != nil {
		return err
	}
	return showAll(ctx, g, []told{
		{"a theatre with rows of 4, 6 and 8 seats, in one insert", id("seats", show), func() (string, error) {
			rows := append(append(prealloc.Row("A", 4), prealloc.Row("B", 6)...), prealloc.Row("C", 8)...)
			return "created", seats.Insert(ctx, show, bson.D{{Key: "film", Value: "Dumbo"}}, rows...)
		}},
		{"C.7 and B.3 are held for ten minutes", nil, func() (string, error) {
			return "held", seats.Hold(ctx, show, "order 1", 10*time.Minute, c7, b3)
		}},
		{"another order wants B3 and B4: all or none", nil, func() (string, error) {
			err := seats.Claim(ctx, show, "order 2", b3, prealloc.Cell{Section: "B", Name: "4"})
			if !errors.Is(err, prealloc.ErrTaken) {
				return "", fmt.Errorf("not refused: %w", err)
			}
			return err.Error(), nil
		}},
		{"paid: the hold becomes a claim", nil, func() (string, error) { return "claimed", seats.Claim(ctx, show, "order 1", c7, b3) }},
		{"free seats by row", nil, func() (string, error) {
			counts, err := seats.Counts(ctx, show)
			return fmt.Sprint(counts), err
		}},
		{"a calendar with one cell a working day of April 2019", nil, func() (string, error) {
			err := calendar.Insert(ctx, "room 1", nil, april...)
			if err != nil {
				return "", err
			}
			week, err := calendar.HoldAdjacent(ctx, "room 1", "Ann", time.Hour, 5)
			return fmt.Sprint("the first free week: ", week), err
		}},
	})
}

type bowler struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	Average int    `bson:"average"`
}

type tennisPlayer struct {
	ID      int    `bson:"_id"`
	Name    string `bson:"name"`
	Singles bson.M `bson:"singles"`
	Doubles bson.M `bson:"doubles"`
}

func polymorphicChapter(ctx context.Context, g *guide) error {
	athletes := g.db.Collection("athletes")
	kinds, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling"), polymorphic.Of[tennisPlayer]("tennis")},
		&polymorphic.Options[any]{KindField: "sport", Unknown: func(u polymorphic.Unknown) any { return u }})
	if err != nil {
		return err
	}
	index, err := polymorphic.IndexOf[tennisPlayer](kinds, bson.D{{Key: "name", Value: 1}}, nil)
	if err != nil {
		return err
	}
	if _, err := athletes.Indexes().CreateOne(ctx, index); err != nil {
		return err
	}
	list := func(filter any, opts ...options.Lister[options.FindOptions]) func() (string, error) {
		return func() (string, error) {
			var out []string
			for a, err := range kinds.Find(ctx, athletes, filter, opts...) {
				if err != nil {
					return "", err
				}
				out = append(out, fmt.Sprintf("%T", a))
			}
			return strings.Join(out, ", "), nil
		}
	}
	return showAll(ctx, g, []told{
		{"a bowler and a tennis player in one collection", id("athletes", 2), func() (string, error) {
			for _, v := range []any{bowler{1, "Earl Anthony", 219}, tennisPlayer{2, "Martina Navratilova", bson.M{"titles": 167}, bson.M{"titles": 177}}} {
				raw, err := kinds.Encode(v)
				if err != nil {
					return "", err
				}
				if err = insert(ctx, athletes, raw); err != nil {
					return "", err
				}
			}
			return "stored", nil
		}},
		{"one query over all, each its own Go type", nil, list(nil, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))},
		{"one kind alone, by its own index", nil, list(polymorphic.FilterOf[tennisPlayer](kinds, bson.D{{Key: "name", Value: "Martina Navratilova"}}))},
		{"a kind that this program does not know is kept", nil, func() (string, error) {
			if err := insert(ctx, athletes, bson.D{{Key: "_id", Value: 3}, {Key: "sport", Value: "chess"}}); err != nil {
				return "", err
			}
			return list(bson.D{{Key: "sport", Value: "chess"}})()
		}},
		{"two collections as one view", nil, func() (string, error) {
			if err := insert(ctx, g.db.Collection("guests"), bowler{9, "Don Carter", 200}); err != nil {
				return "", err
			}
			pipeline, err := kinds.View(polymorphic.Source{Collection: "athletes"}, polymorphic.Source{Collection: "guests", Kind: "bowling"})
			if err != nil {
				return "", err
			}
			if err = g.db.CreateView(ctx, "everybody", "athletes", pipeline); err != nil {
				return "", err
			}
			n, err := g.db.Collection("everybody").CountDocuments(ctx, bson.D{})
			return fmt.Sprintf("%d athletes", n), err
		}},
	})
}

func schemaversionChapter(ctx context.Context, g *guide) error {
	coll := g.db.Collection("contacts")
	err := insert(ctx, coll,
		bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Anakin Skywalker"}, {Key: "home", Value: "503-555-0000"}, {Key: "work", Value: "503-555-0010"}},
		bson.D{{Key: "_id", Value: 2}, {Key: "name", Value: "Darth Vader"}, {Key: "home", Value: "503-555-0100"}, {Key: "work", Value: "503-555-0110"}, {Key: "mobile", Value: "503-555-0120"}},
		bson.D{{Key: "_id", Value: 3}, {Key: "schema_version", Value: "2"}, {Key: "name", Value: "Anakin Skywalker (Retired)"}, {Key: "contact_method", Value: bson.A{
			bson.D{{Key: "work", Value: "503-555-0210"}}, bson.D{{Key: "mobile", Value: "503-555-0220"}}, bson.D{{Key: "twitter", Value: "@anakinskywalker"}}, bson.D{{Key: "skype", Value: "AlwaysWithYou"}}}}})
	if err != nil {
		return err
	}
	type contact struct {
		Name    string              `bson:"name"`
		Methods []map[string]string `bson:"contact_method"`
	}
	contacts, err := schemaversion.New[contact](coll, []schemaversion.Step{{Up: contactMethods}}, &schemaversion.Options{Text: true})
	if err != nil {
		return err
	}
	return showAll(ctx, g, []told{
		{"a contact of the first version, read as the newest", id("contacts", 1), func() (string, error) {
			c, err := contacts.Get(ctx, 1)
			return fmt.Sprint(c), err
		}},
		{"an update upgrades it first", id("contacts", 1), func() (string, error) {
			return "updated", contacts.Update(ctx, 1, bson.M{"$push": bson.M{"contact_method": bson.M{"skype": "podracer"}}})
		}},
		{"how many of which version?", nil, func() (string, error) {
			counts, err := contacts.Status(ctx)
			return fmt.Sprint(counts), err
		}},
		{"a work phone, wherever its version has it", nil, func() (string, error) {
			n, err := coll.CountDocuments(ctx, contacts.Filter(func(version int) bson.D {
				if version == 1 {
					return bson.D{{Key: "work", Value: bson.D{{Key: "$exists", Value: true}}}}
				}
				return bson.D{{Key: "contact_method.work", Value: bson.D{{Key: "$exists", Value: true}}}}
			}))
			return fmt.Sprintf("%d contacts", n), err
		}},
		{"all that are left, in the background", id("contacts", 2), func() (string, error) {
			result, err := contacts.Migrate(ctx, contacts.Newest(), nil)
			return fmt.Sprintf("%d upgraded", result.Done), err
		}},
	})
}
