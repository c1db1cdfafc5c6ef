package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

type policy struct {
	ID     string   `bson:"_id"`
	Name   string   `bson:"name"`
	Policy string   `bson:"policy"`
	Items  []string `bson:"items"`
}

func versions(ctx context.Context, w *world) error {
	policies, err := versioning.New[string, policy](w.coll("current_policies"), w.coll("policy_revisions"), &versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, policies); err != nil {
		return err
	}
	day := time.Date(1941, time.April, 1, 9, 0, 0, 0, time.UTC)
	if _, err := policies.Insert(ctx, policy{"bilbo", "Bilbo Baggins", "Shire standard", []string{}}, versioning.Change{Author: "clerk", At: day}); err != nil {
		return err
	}
	for i, item := range []string{"Elven Sword", "One Ring"} {
		_, err := policies.Edit(ctx, "bilbo", func(p *policy) error {
			p.Items = append(p.Items, item)
			return nil
		}, versioning.Change{Author: "bilbo", Reason: item, At: day.AddDate(0, i+1, 0)})
		if err != nil {
			return err
		}
	}
	err = first(
		func() error {
			return w.stored(ctx, "current_policies", bson.D{}, `{"_id": "bilbo", "name": "Bilbo Baggins", "policy": "Shire standard", "items": ["Elven Sword", "One Ring"],
				"revision": 3, "change": {"at": {"$date": "1941-06-01T09:00:00Z"}, "author": "bilbo", "reason": "One Ring"}}`)
		},
		func() error {
			return w.stored(ctx, "policy_revisions", doc(`{"revision": 1}`), `{"_id": "*", "policy_id": "bilbo", "revision": 1, "change": {"at": {"$date": "1941-04-01T09:00:00Z"}, "author": "clerk"},
				"document": {"_id": "bilbo", "name": "Bilbo Baggins", "policy": "Shire standard", "items": []}}`)
		},
		func() error {
			return w.stored(ctx, "policy_revisions", doc(`{"revision": 2}`), `{"_id": "*", "policy_id": "bilbo", "revision": 2, "change": {"at": {"$date": "1941-05-01T09:00:00Z"}, "author": "bilbo", "reason": "Elven Sword"},
				"document": {"_id": "bilbo", "name": "Bilbo Baggins", "policy": "Shire standard", "items": ["Elven Sword"]}}`)
		},
		func() error { return clean(policies.Check(ctx, nil)) },
	)
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "policy_revisions", "policy_id change.at revision", false, func() error {
		then, err := policies.AsOf(ctx, "bilbo", day.AddDate(0, 1, 10))
		if err != nil {
			return err
		}
		return equal("items in May", then.Document.Items, "[Elven Sword]")
	})
	return err
}

type contact struct {
	ID      int      `bson:"_id"`
	Name    string   `bson:"name"`
	Methods []bson.D `bson:"contact_method"`
}

func schemas(ctx context.Context, w *world) error {
	contacts, err := schemaversion.New[contact](w.coll("contacts"), []schemaversion.Step{{Up: func(doc bson.D) (out bson.D, err error) {
		methods := bson.A{}
		for _, e := range doc {
			switch e.Key {
			case "home", "work", "mobile":
				methods = append(methods, bson.D{e})
			default:
				out = append(out, e)
			}
		}
		return append(out, bson.E{Key: "contact_method", Value: methods}), nil
	}}}, &schemaversion.Options{Text: true})
	if err != nil {
		return err
	}
	if err := ensure(ctx, contacts); err != nil {
		return err
	}
	old := []string{`{"_id": 1, "name": "Anakin Skywalker", "home": "503-555-0000", "work": "503-555-0010"}`,
		`{"_id": 2, "name": "Darth Vader", "home": "503-555-0100", "work": "503-555-0110", "mobile": "503-555-0120"}`,
		`{"_id": 3, "schema_version": "2", "name": "Anakin Skywalker (Retired)", "contact_method": [{"work": "503-555-0210"}, {"mobile": "503-555-0220"}, {"twitter": "@anakinskywalker"}, {"skype": "AlwaysWithYou"}]}`}
	if err := w.put(ctx, "contacts", old...); err != nil {
		return err
	}
	for id, n := range map[int]int{1: 2, 2: 3, 3: 4} { // on access, never written
		c, err := contacts.Get(ctx, id)
		if err != nil {
			return err
		}
		if len(c.Methods) != n {
			return fmt.Errorf("%+v", c)
		}
	}
	_, err = w.by(ctx, "contacts", "schema_version", false, func() error {
		counts, err := contacts.Status(ctx)
		if err != nil {
			return err
		}
		return equal("status", counts, "map[1:2 2:1]")
	})
	if err != nil {
		return err
	}
	return first(
		func() error { return w.stored(ctx, "contacts", bson.D{}, old...) },
		func() error { _, err := contacts.Migrate(ctx, contacts.Newest(), nil); return err }, // or all
		func() error {
			return w.stored(ctx, "contacts", bson.D{}, `{"_id": 1, "schema_version": "2", "name": "Anakin Skywalker", "contact_method": [{"home": "503-555-0000"}, {"work": "503-555-0010"}]}`,
				`{"_id": 2, "schema_version": "2", "name": "Darth Vader", "contact_method": [{"home": "503-555-0100"}, {"work": "503-555-0110"}, {"mobile": "503-555-0120"}]}`, old[2])
		},
	)
}

// computations: theatres, viewers and revenue of a film, by all four ways.
func computations(ctx context.Context, w *world) error {
	totals, err := computed.New[int, string, bson.M](w.coll("screenings"), w.coll("computed_films"), computed.Rule{
		KeyField: "film",
		Pipeline: mongo.Pipeline{
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "theatres", Value: bson.M{"$addToSet": "$theatre"}},
				{Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}},
			{{Key: "$set", Value: bson.M{"theatres": bson.M{"$size": "$theatres"}}}},
		},
		Empty: bson.D{{Key: "theatres", Value: 0}, {Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}},
	}, nil)
	if err != nil {
		return err
	}
	if err := ensure(ctx, totals); err != nil {
		return err
	}
	if err := w.put(ctx, "computed_films", `{"_id": "Dumbo", "title": "Dumbo"}`); err != nil {
		return err
	}
	viewers := 0
	film := func() error {
		return w.stored(ctx, "computed_films", bson.D{}, fmt.Sprintf(`{"_id": "Dumbo", "title": "Dumbo", "theatres": 2, "viewers": %d, "revenue": %d,
			"computed": {"at": "*", "epoch": "*", "run": "*"}}`, viewers, 8*viewers))
	}
	screen := func(id, n int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := w.coll("screenings").UpdateByID(ctx, id, bson.M{"$set": bson.M{"film": "Dumbo", "theatre": id % 2, "viewers": n, "revenue": 8 * n}}, options.UpdateOne().SetUpsert(true))
			return err
		}
	}
	for id, n := range []int{120, 80, 100} { // at the write
		if err := totals.Change(ctx, []int{id}, screen(id, n)); err != nil {
			return err
		}
		viewers += n
	}
	_, err = w.by(ctx, "screenings", "film", false, func() error { // on an interval
		if err := screen(3, 50)(ctx); err != nil {
			return err
		}
		viewers += 50
		_, err := totals.Refresh(ctx, "Dumbo")
		return err
	})
	if err != nil {
		return err
	}
	return first(film,
		func() error { return screen(4, 10)(ctx) },
		func() error { _, err := totals.Get(ctx, "Dumbo", 0); viewers += 10; return err }, film, // when stale
		func() error { return screen(5, 20)(ctx) },
		func() error { return totals.Mark(ctx, "Dumbo") }, // from a queue
		func() error {
			_, err := w.by(ctx, "computed_films", "computed.dirty", false, func() error {
				n, err := w.count(ctx, "computed_films", doc(`{"computed.dirty": true}`))
				if err != nil {
					return err
				}
				return equal("dirty", n, "1")
			})
			return err
		},
		func() error { _, err := totals.Drain(ctx, nil); viewers += 20; return err }, film,
		func() error { return screen(6, 30)(ctx) },
		func() error { _, err := totals.RefreshAll(ctx, nil); viewers += 30; return err }, film,
		func() error { return clean(totals.Check(ctx, nil)) },
	)
}

// approximations: 39,000 people and 700,000 views at a hundredth of the writes.
func approximations(ctx context.Context, w *world) error {
	people, err := approx.New[string](w.coll("cities"), &approx.Options{KeyField: "city", CountField: "population", Every: 100})
	if err != nil {
		return err
	}
	seed := uint64(1)
	sampled, err := approx.NewSampled[string](w.coll("pages"), &approx.Options{Every: 100, CountField: "views", Random: func() float64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed>>11) / (1 << 53)
	}})
	if err != nil {
		return err
	}
	if err := ensure(ctx, people); err != nil {
		return err
	}
	w.commands = nil
	for range 39_000 {
		if err := people.Add(ctx, "Springfield", 1); err != nil {
			return err
		}
	}
	writes := len(w.commands)
	err = first(
		func() error { return equal("writes of 39,000", writes, "390") },
		func() error {
			return w.stored(ctx, "cities", bson.D{}, `{"_id": "*", "city": "Springfield", "population": 39000}`)
		},
		func() error { return people.Close(ctx) },
	)
	if err != nil {
		return err
	}
	w.commands = nil
	for range 70_000 { // a tenth of the published views
		if err := sampled.Add(ctx, "/about", 1); err != nil {
			return err
		}
	}
	e, err := sampled.Estimate(ctx, "/about")
	if err != nil {
		return err
	}
	if off := e.Count - 70_000; float64(max(off, -off)) > 3*e.StdErr || len(w.commands) > 900 {
		return fmt.Errorf("%+v of 70,000 by %d writes", e, len(w.commands))
	}
	return w.stored(ctx, "pages", bson.D{}, fmt.Sprintf(`{"_id": "/about", "views": %d}`, e.Count))
}

func grids(ctx context.Context, w *world) error {
	seats, err := prealloc.New[string, string](w.coll("seats"), &prealloc.Options{CellsField: "seats"})
	if err != nil {
		return err
	}
	calendar, err := prealloc.New[string, string](w.coll("calendar"), &prealloc.Options{CellsField: "days", Flat: true})
	if err != nil {
		return err
	}
	rows := append(append(prealloc.Row("A", 1), prealloc.Row("B", 3)...), prealloc.Row("C", 7)...) // of different lengths
	working := func(day time.Time) bool { return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday }
	april, err := prealloc.DayCells(time.Date(2019, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2019, 4, 30, 0, 0, 0, 0, time.UTC), working)
	if err != nil {
		return err
	}
	return first(
		func() error { return seats.Insert(ctx, "tonight", bson.D{{Key: "film", Value: "Dumbo"}}, rows...) },
		func() error {
			return seats.Claim(ctx, "tonight", "order 1", prealloc.Cell{Section: "C", Name: "7"}, prealloc.Cell{Section: "B", Name: "3"})
		},
		func() error {
			err := seats.Claim(ctx, "tonight", "order 2", prealloc.Cell{Section: "C", Name: "7"})
			if !errors.Is(err, prealloc.ErrTaken) {
				return fmt.Errorf("C.7 twice: %w", err)
			}
			return nil
		},
		func() error {
			return w.stored(ctx, "seats", bson.D{}, `{"_id": "tonight", "film": "Dumbo", "seats": {"A": {"1": {}}, "B": {"1": {}, "2": {}, "3": {"by": "order 1"}},
				"C": {"1": {}, "2": {}, "3": {}, "4": {}, "5": {}, "6": {}, "7": {"by": "order 1"}}}}`)
		},
		func() error { return calendar.Insert(ctx, "room 1", nil, april...) },
		func() error { return calendar.Claim(ctx, "room 1", "Ann", april[4]) },
		func() error {
			days := ""
			for d := 1; d <= 30; d++ {
				switch { // the weekends of April 2019 begin on the 6th
				case d%7 == 6 || d%7 == 0:
				case d == 5:
					days += `"2019-04-05": {"by": "Ann"}, `
				default:
					days += fmt.Sprintf(`"2019-04-%02d": {}, `, d)
				}
			}
			return w.stored(ctx, "calendar", bson.D{}, `{"_id": "room 1", "days": {`+days[:len(days)-2]+`}}`)
		},
	)
}

type titles struct {
	Titles int `bson:"titles"`
}

type (
	bowler struct {
		ID      int    `bson:"_id"`
		Name    string `bson:"name"`
		Average int    `bson:"average"`
	}
	tennisPlayer struct {
		ID      int    `bson:"_id"`
		Name    string `bson:"name"`
		Singles titles `bson:"singles"`
		Doubles titles `bson:"doubles"`
	}
	bicycle struct {
		ID    int `bson:"_id"`
		Gears int `bson:"gears"`
	}
	fishingRod struct {
		ID     int `bson:"_id"`
		Length int `bson:"length_cm"`
	}
	customer struct {
		ID     int    `bson:"_id"`
		Name   string `bson:"name"`
		Policy string `bson:"policy"`
	}
)

func kinds(ctx context.Context, w *world) error {
	athletes, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling"), polymorphic.Of[*tennisPlayer]("tennis")}, &polymorphic.Options[any]{KindField: "sport"})
	if err != nil {
		return err
	}
	catalogue, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[bicycle]("bicycle"), polymorphic.Of[fishingRod]("fishing rod")}, (*polymorphic.Options[any])(nil))
	if err != nil {
		return err
	}
	insert := func(k *polymorphic.Kinds[any], coll string, values ...any) error {
		for _, v := range values {
			raw, err := k.Encode(v)
			if err != nil {
				return err
			}
			_, err = w.coll(coll).InsertOne(ctx, raw)
			if err != nil {
				return err
			}
		}
		return nil
	}
	byName, err := polymorphic.IndexOf[*tennisPlayer](athletes, bson.D{{Key: "name", Value: 1}}, nil)
	if err != nil {
		return err
	}
	if _, err := w.coll("athletes").Indexes().CreateOne(ctx, byName); err != nil {
		return err
	}
	err = first(
		func() error {
			return insert(athletes, "athletes", bowler{1, "Earl Anthony", 219}, &tennisPlayer{2, "Martina Navratilova", titles{167}, titles{177}})
		},
		func() error { return insert(catalogue, "catalogue", bicycle{1, 21}, fishingRod{2, 270}) },
		func() error {
			return w.stored(ctx, "athletes", bson.D{}, `{"_id": 1, "sport": "bowling", "name": "Earl Anthony", "average": 219}`,
				`{"_id": 2, "sport": "tennis", "name": "Martina Navratilova", "singles": {"titles": 167}, "doubles": {"titles": 177}}`)
		},
		func() error {
			return w.stored(ctx, "catalogue", bson.D{}, `{"_id": 1, "kind": "bicycle", "gears": 21}`, `{"_id": 2, "kind": "fishing rod", "length_cm": 270}`)
		},
	)
	if err != nil {
		return err
	}
	code := "" // of each kind
	for a, err := range athletes.Find(ctx, w.coll("athletes"), nil, options.Find().SetSort(doc(`{"_id": 1}`))) {
		switch a := a.(type) {
		case bowler:
			code += fmt.Sprint("bowls ", a.Average)
		case *tennisPlayer:
			code += fmt.Sprint(", won ", a.Singles.Titles+a.Doubles.Titles)
		default:
			return err
		}
	}
	if err := equal("athletes", code, "bowls 219, won 344"); err != nil {
		return err
	}
	_, err = w.by(ctx, "athletes", "name", false, func() error {
		n, err := w.count(ctx, "athletes", polymorphic.FilterOf[*tennisPlayer](athletes, bson.M{"name": "Martina Navratilova"}))
		if err != nil {
			return err
		}
		return equal("tennis players", n, "1")
	})
	if err != nil {
		return err
	}
	return companies(ctx, w)
}

// companies: one view over the customers of two acquired companies.
func companies(ctx context.Context, w *world) error {
	all, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[customer]("shire"), polymorphic.Of[*customer]("rohan")}, &polymorphic.Options[any]{KindField: "company"})
	if err != nil {
		return err
	}
	pipeline, err := all.View(polymorphic.Source{Collection: "shire", Kind: "shire"}, polymorphic.Source{Collection: "rohan", Kind: "rohan", Map: mongo.Pipeline{
		{{Key: "$project", Value: bson.D{{Key: "name", Value: bson.D{{Key: "$concat", Value: bson.A{"$first", " of ", "$of"}}}}, {Key: "policy", Value: 1}}}}}})
	if err != nil {
		return err
	}
	return first(
		func() error { return w.put(ctx, "shire", `{"_id": 1, "name": "Bilbo", "policy": "s1"}`) },
		func() error {
			return w.put(ctx, "rohan", `{"_id": 2, "first": "Éowyn", "of": "Rohan", "policy": "r1"}`)
		},
		func() error { return w.db.CreateView(ctx, "customers", "shire", pipeline) },
		func() error {
			return w.stored(ctx, "customers", bson.D{}, `{"_id": 1, "company": "shire", "name": "Bilbo", "policy": "s1"}`, `{"_id": 2, "company": "rohan", "name": "Éowyn of Rohan", "policy": "r1"}`)
		},
	)
}
