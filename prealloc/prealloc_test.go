package prealloc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type grids = prealloc.Grids[string, string]

// theatre is a grid "s" with rows A of 4, B of 6 and C of 8 seats.
func theatre(t *testing.T) (*mongo.Database, *grids) {
	t.Helper()
	db := mongotest.Database(t)
	g := testkit.Must(prealloc.New[string, string](db.Collection("screenings"), nil))
	cells := slices.Concat(prealloc.Row("A", 4), prealloc.Row("B", 6), prealloc.Row("C", 8))
	testkit.OK(t, g.Insert(t.Context(), "s", bson.M{"film": "Dumbo"}, cells...))
	return db, g
}

func seats(names ...string) (out []prealloc.Cell) {
	for _, n := range names {
		out = append(out, prealloc.Cell{Section: n[:1], Name: n[1:]})
	}
	return out
}

// taken returns the cells that are not free, with their holders.
func taken(t *testing.T, g *grids) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range testkit.Must(g.Cells(t.Context(), "s")) {
		if !s.Free {
			out[s.Cell.Section+s.Cell.Name] = s.By
		}
	}
	return out
}

// expire ends the holds of a holder as if their time had passed.
func expire(t *testing.T, db *mongo.Database, cells ...string) {
	t.Helper()
	set := bson.D{}
	for _, c := range cells {
		set = append(set, bson.E{Key: "cells." + c[:1] + "." + c[1:] + ".until", Value: time.Now().Add(-time.Hour)})
	}
	_, err := db.Collection("screenings").UpdateByID(t.Context(), "s", bson.D{{Key: "$set", Value: set}})
	testkit.OK(t, err)
}

// The stored shape of the theatre and of the calendar of April 2019.
func TestShapes(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	testkit.OK(t, g.Claim(t.Context(), "s", "order 7", seats("A2")...))
	var got bson.D
	testkit.OK(t, db.Collection("screenings").FindOne(t.Context(), g.Filter("s"), options.FindOne().SetProjection(bson.D{{Key: "cells.C", Value: 0}, {Key: "cells.B", Value: 0}})).Decode(&got))
	want := bson.D{{Key: "_id", Value: "s"}, {Key: "film", Value: "Dumbo"}, {Key: "cells", Value: bson.D{{Key: "A", Value: bson.D{
		{Key: "1", Value: bson.D{}}, {Key: "2", Value: bson.D{{Key: "by", Value: "order 7"}}}, {Key: "3", Value: bson.D{}}, {Key: "4", Value: bson.D{}},
	}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	calendar := testkit.Must(prealloc.New[string, string](db.Collection("calendars"), &prealloc.Options{CellsField: "plan.days", HolderField: "guest", UntilField: "hold", Flat: true}))
	newYork := testkit.Must(time.LoadLocation("America/New_York"))
	working := func(day time.Time) bool { return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday }
	april := testkit.Must(prealloc.DayCells(time.Date(2019, 4, 1, 0, 0, 0, 0, newYork), time.Date(2019, 4, 30, 23, 0, 0, 0, newYork), working))
	if len(april) != 22 || april[0].Name != "2019-04-01" || april[21].Name != "2019-04-30" {
		t.Errorf("%v", april)
	}
	testkit.OK(t, calendar.Insert(t.Context(), "room 1", nil, april...))
	testkit.OK(t, calendar.Claim(t.Context(), "room 1", "Ann", april[3], april[4]))
	if counts := testkit.Must(calendar.Counts(t.Context(), "room 1")); !slices.Equal(counts, []prealloc.Count{{Free: 20, Claimed: 2}}) {
		t.Errorf("%+v", counts)
	}
	n, err := db.Collection("calendars").CountDocuments(t.Context(), bson.D{{Key: "plan.days.2019-04-05.guest", Value: "Ann"}})
	if n != 1 || err != nil {
		t.Error(n, err)
	}
	if days := testkit.Must(prealloc.DayCells(time.Date(2024, 3, 30, 23, 30, 0, 0, newYork), time.Date(2024, 4, 1, 0, 0, 0, 0, newYork), nil)); len(days) != 3 {
		t.Errorf("%v", days)
	}
}

func TestLifeOfACell(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	ctx := t.Context()
	is := func(want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, taken(t, g)); diff != "" {
			t.Error(diff)
		}
	}
	refused := func(err error, want ...string) {
		t.Helper()
		var detail *prealloc.TakenError
		if !errors.Is(err, prealloc.ErrTaken) || !errors.Is(err, mongopatterns.ErrConflict) || !errors.As(err, &detail) || !slices.Equal(detail.Cells, seats(want...)) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	testkit.OK(t, g.Hold(ctx, "s", "ann", time.Hour, seats("A1", "A2")...))
	testkit.OK(t, g.Hold(ctx, "s", "ann", time.Hour, seats("A1", "A2")...)) // again
	refused(g.Hold(ctx, "s", "bob", time.Hour, seats("A2", "A3")...), "A2")
	is(map[string]string{"A1": "ann", "A2": "ann"})
	expire(t, db, "A1", "A2")
	is(map[string]string{})
	testkit.OK(t, g.Hold(ctx, "s", "bob", time.Hour, seats("A2")...)) // its hold has ended, so it is free
	testkit.OK(t, g.Claim(ctx, "s", "ann", seats("A1")...))           // confirmed late, but nobody took it first
	refused(g.Claim(ctx, "s", "ann", seats("A1", "A2", "A4")...), "A2")
	is(map[string]string{"A1": "ann", "A2": "bob"})
	testkit.OK(t, g.Hold(ctx, "s", "ann", time.Hour, seats("A1")...)) // stays claimed
	for _, s := range testkit.Must(g.Cells(ctx, "s")) {
		if held := !s.Until.IsZero(); held != (s.Cell == prealloc.At("A", "2")) {
			t.Errorf("%s: held %t", s.Cell, held)
		}
	}
	want := []prealloc.Count{{Section: "A", Free: 2, Held: 1, Claimed: 1}, {Section: "B", Free: 6}, {Section: "C", Free: 8}}
	if diff := cmp.Diff(want, testkit.Must(g.Counts(ctx, "s"))); diff != "" {
		t.Error(diff)
	}
	refused(g.Release(ctx, "s", "bob", seats("A1", "A2")...), "A1")
	testkit.OK(t, g.Release(ctx, "s", "bob", seats("A2", "A3")...))
	testkit.OK(t, g.Release(ctx, "s", "bob", seats("A2", "A3")...)) // again
	is(map[string]string{"A1": "ann"})

	if got := testkit.Must(g.HoldAdjacent(ctx, "s", "cy", time.Hour, 4)); !slices.Equal(got, seats("B1", "B2", "B3", "B4")) {
		t.Errorf("%v", got)
	}
	if _, err := g.HoldAdjacent(ctx, "s", "cy", time.Hour, 9); !errors.Is(err, prealloc.ErrTaken) {
		t.Error(err)
	}
	if got := testkit.Must(g.HoldAdjacent(ctx, "s", "dan", time.Hour, 3, "C", "A")); !slices.Equal(got, seats("A2", "A3", "A4")) {
		t.Errorf("%v", got) // in the order of the grid; A1 is claimed
	}
	if _, err := g.HoldAdjacent(ctx, "s", "eve", time.Hour, 1, "A"); !errors.Is(err, prealloc.ErrTaken) {
		t.Error(err)
	}
	if got := testkit.Must(g.HoldAdjacent(ctx, "s", "dan", time.Hour, 2, "B")); !slices.Equal(got, seats("B5", "B6")) {
		t.Errorf("%v", got) // what dan holds in A does not count
	}
	testkit.OK(t, g.Claim(ctx, "s", "dan", seats("A2", "A3", "A4")...))
	if got := testkit.Must(g.HoldAdjacent(ctx, "s", "dan", time.Hour, 3, "C", "A")); !slices.Equal(got, seats("A2", "A3", "A4")) {
		t.Errorf("%v", got) // a repetition after the Claim
	}
	if _, err := g.HoldAdjacent(ctx, "s", "eve", time.Hour, 1, "C", "D"); !errors.Is(err, prealloc.ErrNoCell) {
		t.Error(err)
	}
	if err := g.Claim(ctx, "s", "x", seats("A1", "A9")...); !errors.Is(err, prealloc.ErrNoCell) || !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(err)
	}
	for _, err := range []error{
		g.Claim(ctx, "nothing", "x", seats("A1")...), errorOf(g.Cells(ctx, "nothing")), errorOf(g.Counts(ctx, "nothing")),
	} {
		if !errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, prealloc.ErrNoCell) {
			t.Error(err)
		}
	}
	if err := g.Insert(ctx, "s", nil, prealloc.Row("A", 1)...); !errors.Is(err, mongopatterns.ErrExists) || !mongo.IsDuplicateKeyError(err) {
		t.Error(err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// The user's own fields of a cell stay in all calls.
func TestOwnFieldsStay(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	ctx := t.Context()
	_, err := db.Collection("screenings").UpdateByID(ctx, "s", bson.D{{Key: "$set", Value: bson.D{{Key: "cells.A.1.price", Value: 30}}}})
	testkit.OK(t, err)
	testkit.OK(t, g.Hold(ctx, "s", "$x", time.Hour, seats("A1")...)) // a holder is not an expression
	testkit.OK(t, g.Claim(ctx, "s", "$x", seats("A1")...))
	testkit.OK(t, g.Release(ctx, "s", "$x", seats("A1")...))
	if price := testkit.Must(g.Cells(ctx, "s"))[0].Fields.Lookup("price"); price.AsInt64() != 30 {
		t.Error(price)
	}
}

// A hundred buyers want the same four seats, one or two at a time: each seat is sold once, and a
// pair is sold whole or not at all.
func TestFourWinners(t *testing.T) {
	_, g := theatre(t)
	var mu sync.Mutex
	sold := map[string]string{}
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			buyer := fmt.Sprint("buyer ", i)
			want := seats(fmt.Sprint("A", i%4+1))
			if i%10 == 0 {
				want = append(want, seats(fmt.Sprint("A", (i+1)%4+1))...)
			}
			err := g.Claim(t.Context(), "s", buyer, want...)
			if err == nil {
				err = g.Claim(t.Context(), "s", buyer, want...) // a repetition
				mu.Lock()
				defer mu.Unlock()
				for _, c := range want {
					if other, ok := sold[c.Section+c.Name]; ok {
						t.Errorf("%s sold to %s and %s", c, other, buyer)
					}
					sold[c.Section+c.Name] = buyer
				}
			} else if !errors.Is(err, prealloc.ErrTaken) {
				t.Error(err)
			}
			if err != nil && !errors.Is(err, prealloc.ErrTaken) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(sold) != 4 {
		t.Errorf("%d seats sold", len(sold))
	}
	if diff := cmp.Diff(sold, taken(t, g)); diff != "" {
		t.Error(diff)
	}
}

// Groups of two and three look for adjacent seats at once: no seat is given twice, and no group
// gets seats that are apart.
func TestAdjacentUnderContention(t *testing.T) {
	_, g := theatre(t)
	var mu sync.Mutex
	total := 0
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			cells, err := g.HoldAdjacent(t.Context(), "s", fmt.Sprint(i), time.Hour, 2+i%2)
			if errors.Is(err, prealloc.ErrTaken) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			total += len(cells)
			for j, c := range cells {
				if c.Section != cells[0].Section || c.Name[0] != cells[0].Name[0]+byte(j) {
					t.Errorf("apart: %v", cells)
				}
			}
		})
	}
	group.Wait()
	if n := len(taken(t, g)); n != total || n < 14 {
		t.Errorf("%d seats are held, %d were given", n, total)
	}
}

// A request that is sent again gets the same seats, not more.
func TestAdjacentAgain(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	hold := func(n int) []prealloc.Cell { return testkit.Must(g.HoldAdjacent(t.Context(), "s", "x", time.Hour, n)) }
	first := hold(3)
	if again := hold(3); !slices.Equal(first, again) || len(taken(t, g)) != 3 {
		t.Errorf("%v, then %v", first, again)
	}
	if more := hold(6); more[0] != seats("B1")[0] || len(taken(t, g)) != 9 {
		t.Errorf("six: %v", more)
	}
	expire(t, db, "A1", "A2", "A3")
	testkit.OK(t, g.Claim(t.Context(), "s", "y", seats("A2")...))
	testkit.OK(t, g.Claim(t.Context(), "s", "x", seats("B1", "B2", "B3", "B4")...))
	if again := hold(3); !slices.Equal(again, seats("B1", "B2", "B3")) { // claimed ones, though C is free
		t.Errorf("after Claim: %v", again)
	}
}

// Documents of the collection without a grid, or with one made of arrays, are not changed and count
// nothing.
func TestOtherDocuments(t *testing.T) {
	t.Parallel()
	for _, flat := range []bool{false, true} {
		db := mongotest.Database(t)
		coll := db.Collection("screenings")
		g := testkit.Must(prealloc.New[any, string](coll, &prealloc.Options{Flat: flat}))
		free := func() bson.A { return bson.A{bson.M{}, bson.M{}} }
		docs := []any{bson.M{"_id": 1}, bson.M{"_id": 2, "cells": nil}, bson.M{"_id": 3, "cells": free()}, bson.M{"_id": 4, "cells": bson.M{"A": free(), "B": nil, "C": "x"}}}
		_, err := coll.InsertMany(t.Context(), docs)
		testkit.OK(t, err)
		read := func() (out []bson.M) {
			cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
			testkit.OK(t, err)
			testkit.OK(t, cursor.All(t.Context(), &out))
			return out
		}
		before := read()
		cell := prealloc.Cell{Section: "A", Name: "1"}
		if flat {
			cell = prealloc.Cell{Name: "1"}
		}
		for id := range 4 {
			if err := g.Claim(t.Context(), id+1, "x", cell); !errors.Is(err, prealloc.ErrNoCell) {
				t.Errorf("%d: %v", id+1, err)
			}
			for _, count := range testkit.Must(g.Counts(t.Context(), id+1)) {
				if count.Free+count.Held+count.Claimed != 0 {
					t.Errorf("%d: %+v", id+1, count)
				}
			}
		}
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Error(diff)
		}
		if n := testkit.Must(coll.CountDocuments(t.Context(), g.Filter(bson.D{{Key: "$gt", Value: 1}}))); n != 0 {
			t.Errorf("an _id was an operator: %d", n)
		}
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	ctx := t.Context()
	coll := db.Collection("screenings")
	for _, opts := range []prealloc.Options{{CellsField: "_id"}, {CellsField: "_id.x"}, {CellsField: "$a"}, {CellsField: "a.0"}, {HolderField: "a.b"}, {HolderField: "x", UntilField: "x"}} {
		if _, err := prealloc.New[string, string](coll, &opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	flat := testkit.Must(prealloc.New[any, any](coll, &prealloc.Options{Flat: true}))
	nested := testkit.Must(prealloc.New[string, string](coll, &prealloc.Options{CellsField: "plan.cells"}))
	for name, err := range map[string]error{
		"no cells":          g.Claim(ctx, "s", "x"),
		"twice":             g.Claim(ctx, "s", "x", seats("A1", "A1")...),
		"created twice":     g.Insert(ctx, "new", nil, seats("A1", "A1")...),
		"dot":               g.Insert(ctx, "new", nil, prealloc.Cell{Section: "A", Name: "1.5"}),
		"no section":        g.Claim(ctx, "s", "x", prealloc.Cell{Name: "1"}),
		"section":           flat.Claim(ctx, "s", "x", seats("A1")...),
		"holder":            flat.Claim(ctx, "s", nil, prealloc.Cell{Name: "1"}),
		"no holder":         g.Claim(ctx, "s", "", seats("A1")...),
		"held by none":      g.Hold(ctx, "s", "", time.Hour, seats("A1")...),
		"no holder behind":  flat.Claim(ctx, "s", new(string), prealloc.Cell{Name: "1"}),
		"adjacent of none":  errorOf(g.HoldAdjacent(ctx, "s", "", time.Hour, 2)),
		"channel":           flat.Claim(ctx, "s", make(chan int), prealloc.Cell{Name: "1"}),
		"id":                flat.Claim(ctx, nil, "x", prealloc.Cell{Name: "1"}),
		"ttl":               g.Hold(ctx, "s", "x", 0, seats("A1")...),
		"the grid's fields": g.Insert(ctx, "new", bson.M{"cells": 1}, seats("A1")...),
		"the grid's _id":    g.Insert(ctx, "new", bson.M{"_id": "new"}, seats("A1")...),
		"above the cells":   nested.Insert(ctx, "new", bson.M{"plan": bson.M{"name": "x"}}, seats("A1")...),
		"fields":            g.Insert(ctx, "new", 7, seats("A1")...),
		"adjacent":          errorOf(g.HoldAdjacent(ctx, "s", "x", time.Hour, 0)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := prealloc.New[string, string](nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// CountsPipeline works after a $match of the caller's, and counts a hold that is over as free.
func TestCountsPipeline(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	testkit.OK(t, g.Claim(t.Context(), "s", "x", seats("B1", "B2")...))
	testkit.OK(t, g.Hold(t.Context(), "s", "x", time.Hour, seats("C1", "C2")...))
	expire(t, db, "C1")
	pipeline := append(mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "film", Value: "Dumbo"}}}}}, g.CountsPipeline()...)
	cursor, err := db.Collection("screenings").Aggregate(t.Context(), pipeline)
	testkit.OK(t, err)
	var docs []struct {
		Film     string
		Sections []prealloc.Count
	}
	testkit.OK(t, cursor.All(t.Context(), &docs))
	want := []prealloc.Count{{Section: "A", Free: 4}, {Section: "B", Free: 4, Claimed: 2}, {Section: "C", Free: 7, Held: 1}}
	if len(docs) != 1 || docs[0].Film != "Dumbo" || !slices.Equal(docs[0].Sections, want) {
		t.Errorf("%+v", docs)
	}
}

// A claim in the caller's transaction is undone with it.
func TestJoinsTheTransaction(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	no := errors.New("no")
	err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		if err := g.Claim(ctx, "s", "x", seats("A1")...); err != nil {
			return err
		}
		return no
	})
	if !errors.Is(err, no) || len(taken(t, g)) != 0 {
		t.Error(err, taken(t, g))
	}
}

// The advantages of preallocated cells: the whole plan, with free seats, is one document and one
// command; four seats together are one write without a transaction; a seat that the theatre does
// not have cannot be taken. With a document for each claim all of these cost more.
func TestWhatPreallocationBuys(t *testing.T) {
	t.Parallel()
	db, g := theatre(t)
	ctx := t.Context()
	four := seats("A1", "A2", "A3", "A4")
	costs.Record(t, db, 1, []string{"update"}, func() error { return g.Claim(ctx, "s", "x", four...) })
	cmds := costs.Record(t, db, 0, []string{"find"}, func() error { return errorOf(g.Cells(ctx, "s")) })
	mongotest.Explain(t, db, cmds[0].Body).RequireExamined(t, 1, 1)
	if err := g.Claim(ctx, "s", "x", seats("A5")...); !errors.Is(err, prealloc.ErrNoCell) {
		t.Error(err)
	}

	testkit.OK(t, g.Insert(ctx, "thousand", nil, prealloc.Row("A", 1000)...))
	if raw, err := db.Collection("screenings").FindOne(ctx, g.Filter("thousand")).Raw(); err != nil || len(raw) < 9_000 || len(raw) > 13_000 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	sold := db.Collection("sold") // a document with the claim: {_id: {show, seat}, by}
	costs.Record(t, db, 4, []string{"insert", "commitTransaction"}, func() error {
		return mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
			var docs []any
			for _, c := range four {
				docs = append(docs, bson.M{"_id": bson.D{{Key: "show", Value: "s"}, {Key: "seat", Value: c.String()}}, "by": "x"})
			}
			return errorOf(sold.InsertMany(ctx, docs))
		})
	})
	plan := mongotest.Explain(t, db, bson.D{{Key: "find", Value: "sold"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: bson.D{{Key: "show", Value: "s"}}}, {Key: "$lt", Value: bson.D{{Key: "show", Value: "s~"}}}}}}}})
	if plan.DocsExamined != 4 { // and they do not include the free seats
		t.Error(plan)
	}
}

// BenchmarkClaim claims 200 seats one after another in four layouts in the same run: a preallocated
// grid, a document that grows with each claim, a preallocated document for each seat, and a
// document inserted with each claim. Each ratio is the time of that layout divided by the grid's.
func BenchmarkClaim(b *testing.B) {
	db := mongotest.Database(b)
	ctx := b.Context()
	g := testkit.Must(prealloc.New[int, int](db.Collection("grids"), nil))
	growing, single, inserted := db.Collection("growing"), db.Collection("seats"), db.Collection("inserted")
	const seats = 200
	var times [4]time.Duration
	for i := 0; b.Loop(); i++ {
		cells := prealloc.Row("A", seats)
		var docs []any
		for n := range seats {
			docs = append(docs, bson.D{{Key: "_id", Value: bson.D{{Key: "s", Value: i}, {Key: "n", Value: n}}}})
		}
		err := errors.Join(g.Insert(ctx, i, nil, cells...), errorOf(single.InsertMany(ctx, docs)), errorOf(growing.InsertOne(ctx, bson.M{"_id": i})))
		if err != nil {
			b.Fatal(err)
		}
		for n := range seats {
			id := bson.D{{Key: "s", Value: i}, {Key: "n", Value: n}}
			path := "cells.A." + cells[n].Name
			for layout, claim := range []func() error{
				func() error { return g.Claim(ctx, i, 1, cells[n]) },
				func() error {
					return errorOf(growing.UpdateOne(ctx, bson.D{{Key: "_id", Value: i}, {Key: path, Value: nil}}, bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: bson.D{{Key: "by", Value: 1}}}}}}))
				},
				func() error {
					return errorOf(single.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "by", Value: nil}}, bson.D{{Key: "$set", Value: bson.D{{Key: "by", Value: 1}}}}))
				},
				func() error {
					return errorOf(inserted.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "by", Value: 1}}))
				},
			} {
				start := time.Now()
				if err := claim(); err != nil {
					b.Fatal(err)
				}
				times[layout] += time.Since(start)
			}
		}
	}
	b.ReportMetric(float64(times[0].Microseconds())/float64(b.N*seats), "µs/claim")
	for layout, name := range []string{"", "growing/grid", "seat/grid", "insert/grid"} {
		if layout > 0 {
			b.ReportMetric(float64(times[layout])/float64(times[0]), name)
		}
	}
}

// Samoa skipped 30 December 2011: no day is repeated, and the skipped day is left out.
func TestDaysLeavesOutASkippedDay(t *testing.T) {
	apia := testkit.Must(time.LoadLocation("Pacific/Apia"))
	var got []string
	for _, cell := range testkit.Must(prealloc.DayCells(time.Date(2011, 12, 28, 9, 0, 0, 0, apia), time.Date(2012, 1, 1, 9, 0, 0, 0, apia), nil)) {
		got = append(got, cell.Name)
	}
	if want := []string{"2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

// The manual's calls pass vet in other modules, which refuses struct literals without field names.
func TestTheManualPassesVet(t *testing.T) {
	manual := testkit.Must(os.ReadFile("doc.go"))
	if bad := regexp.MustCompile(`Cell\{[^}:]*"[^}:]*\}`).Find(manual); bad != nil {
		t.Errorf("%s", bad)
	}
	if at := prealloc.At("B", "3"); at != (prealloc.Cell{Section: "B", Name: "3"}) {
		t.Error(at)
	}
}

// The list of days is bounded, and ends with the largest year.
func TestDaysAreBounded(t *testing.T) {
	date := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 1, 0, 0, 0, time.UTC)
	}
	for _, test := range []struct {
		first, last time.Time
		days        int
		want        error
	}{
		{date(9999, 12, 30), date(9999, 12, 31), 2, nil},
		{date(9999, 12, 31), date(10000, 1, 1), 0, mongopatterns.ErrInvalid},
		{date(10000, 1, 1), date(10000, 1, 2), 0, mongopatterns.ErrInvalid},
		{date(0, 1, 1), date(0, 12, 31), 366, nil},
		{date(-1, 12, 31), date(0, 1, 1), 0, mongopatterns.ErrInvalid},
		{date(2000, 1, 1), date(2000, 1, 1).AddDate(0, 0, 99_999), 100_000, nil},
		{date(2000, 1, 1), date(2000, 1, 1).AddDate(0, 0, 100_000), 0, mongopatterns.ErrInvalid},
		{date(0, 1, 1), date(9999, 12, 31), 0, mongopatterns.ErrInvalid},
		{date(2000, 1, 2), date(2000, 1, 1), 0, nil},
	} {
		if cells, err := prealloc.DayCells(test.first, test.last, nil); len(cells) != test.days || !errors.Is(err, test.want) {
			t.Errorf("%v to %v: %d cells, %v; want %d, %v", test.first, test.last, len(cells), err, test.days, test.want)
		}
	}
}
