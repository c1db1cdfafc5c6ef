package computed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type film struct {
	ID       string `bson:"_id"`
	Title    string `bson:"title"`
	Viewers  int    `bson:"viewers"`
	Theatres int    `bson:"theatres"`
	Computed struct {
		At    time.Time
		Epoch int
	}
}

type screening struct {
	ID      int    `bson:"_id"`
	Film    string `bson:"film"`
	Theatre string `bson:"theatre"`
	Viewers int    `bson:"viewers"`
	Deleted bool   `bson:"deleted,omitempty"`
}

// spec holds the arguments of New, for tests to vary.
type spec struct {
	Key      string
	Pipeline mongo.Pipeline
	Empty    bson.D
	computed.Options
}

func totalsOf[S, ID, T any](sources, targets *mongo.Collection, s *spec) (*computed.Computed[S, ID, T], error) {
	if s == nil {
		return computed.New[S, ID, T](sources, targets, computed.Rule{}, nil)
	}
	return computed.New[S, ID, T](sources, targets, computed.Rule{KeyField: s.Key, Pipeline: s.Pipeline, Empty: s.Empty}, &s.Options)
}

type totals = computed.Computed[int, string, film]

// perFilm counts each theatre once, and the viewers of screenings that are not deleted.
func perFilm() *spec {
	return &spec{
		Key: "film",
		Pipeline: mongo.Pipeline{
			{{Key: "$match", Value: bson.M{"deleted": bson.M{"$ne": true}}}},
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "theatres", Value: bson.M{"$addToSet": "$theatre"}}}}},
			{{Key: "$set", Value: bson.M{"theatres": bson.M{"$size": "$theatres"}}}},
		},
		Empty: bson.D{{Key: "viewers", Value: 0}, {Key: "theatres", Value: 0}},
	}
}

// sums is additive.
func sums() *spec {
	return &spec{
		Key: "film", Options: computed.Options{Additive: true},
		Pipeline: mongo.Pipeline{
			{{Key: "$match", Value: bson.M{"deleted": bson.M{"$ne": true}}}},
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "theatres", Value: bson.M{"$sum": 1}}}}},
		},
		Empty: bson.D{{Key: "viewers", Value: 0}, {Key: "theatres", Value: 0}},
	}
}

func errorOf[T any](_ T, err error) error { return err }

func check(t testing.TB, err error, wanted ...error) {
	t.Helper()
	if err != nil && !slices.Contains(wanted, err) || err == nil && len(wanted) > 0 {
		t.Fatal(err)
	}
}

// cinema has the films A, B and C and 12 screenings of A and B, never computed.
func cinema(t testing.TB, opts *spec) (*mongo.Database, *totals) {
	t.Helper()
	db := mongotest.Database(t)
	c := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	check(t, c.EnsureIndexes(t.Context()))
	for _, id := range []string{"A", "B", "C"} {
		_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": id, "title": "film " + id})
		check(t, err)
	}
	var screenings []any
	for i := range 12 {
		screenings = append(screenings, screening{i, []string{"A", "B"}[i%2], fmt.Sprint("theatre ", i%3), 10 + i, false})
	}
	_, err := db.Collection("screenings").InsertMany(t.Context(), screenings)
	check(t, err)
	return db, c
}

// truth returns the values that should be stored, and stored those that are.
func truth(t testing.TB, db *mongo.Database, theatres bool) map[string][2]int {
	t.Helper()
	cursor, err := db.Collection("screenings").Find(t.Context(), bson.M{"deleted": bson.M{"$ne": true}})
	check(t, err)
	var all []screening
	check(t, cursor.All(t.Context(), &all))
	out := map[string][2]int{"A": {}, "B": {}, "C": {}}
	seen := map[string]bool{}
	for _, s := range all {
		v := out[s.Film]
		v[0] += s.Viewers
		if key := s.Film + s.Theatre; !theatres || !seen[key] {
			v[1]++
			seen[key] = true
		}
		out[s.Film] = v
	}
	return out
}

func stored(t testing.TB, db *mongo.Database) map[string][2]int {
	t.Helper()
	cursor, err := db.Collection("films").Find(t.Context(), bson.M{})
	check(t, err)
	var all []film
	check(t, cursor.All(t.Context(), &all))
	out := map[string][2]int{}
	for _, f := range all {
		if f.Title != "film "+f.ID {
			t.Errorf("%+v", f)
		}
		out[f.ID] = [2]int{f.Viewers, f.Theatres}
	}
	return out
}

func right(t testing.TB, db *mongo.Database, c *totals, opts *spec) {
	t.Helper()
	if diff := cmp.Diff(truth(t, db, !opts.Additive), stored(t, db)); diff != "" {
		t.Error(diff)
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
}

func both(t *testing.T, test func(t *testing.T, opts *spec)) {
	t.Run("anew", func(t *testing.T) { test(t, perFilm()) })
	t.Run("additive", func(t *testing.T) { test(t, sums()) })
}

// set is a write of a source for Change.
func set(db *mongo.Database, id int, fields bson.M) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := db.Collection("screenings").UpdateByID(ctx, id, bson.M{"$set": fields}, options.UpdateOne().SetUpsert(true))
		return err
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		db, c := cinema(t, opts)
		testkit.Must(c.Adopt(t.Context(), nil))
		right(t, db, c, opts)
		for _, step := range []struct {
			name  string
			write func(ctx context.Context) error
		}{
			{"update", set(db, 3, bson.M{"viewers": 500})}, {"move", set(db, 3, bson.M{"film": "C"})}, {"move back", set(db, 3, bson.M{"film": "B"})},
			{"nothing", set(db, 3, bson.M{"film": "B"})}, {"soft delete", set(db, 3, bson.M{"deleted": true})}, {"undelete", set(db, 3, bson.M{"deleted": false})},
			{"to a film that does not exist", set(db, 3, bson.M{"film": "Z"})}, {"without a film", set(db, 3, bson.M{"film": nil})},
			{"again", set(db, 3, bson.M{"film": "A", "theatre": "theatre 0"})},
			{"delete", func(ctx context.Context) error {
				_, err := db.Collection("screenings").DeleteOne(ctx, bson.M{"_id": 3})
				return err
			}},
			{"create", set(db, 3, bson.M{"film": "A", "viewers": 7, "theatre": "new"})},
		} {
			check(t, c.Change(t.Context(), []int{3}, step.write))
			want, have := truth(t, db, !opts.Additive), stored(t, db)
			for _, film := range []string{"A", "B", "C"} {
				if diff := cmp.Diff(want[film], have[film]); diff != "" {
					t.Errorf("%s, %s: %s", step.name, film, diff)
				}
			}
		}
		check(t, c.Change(t.Context(), []int{100, 101, 4}, func(ctx context.Context) error {
			return errors.Join(set(db, 100, bson.M{"film": "C", "viewers": 1, "theatre": "x"})(ctx), set(db, 101, bson.M{"film": "C", "viewers": 1, "theatre": "x"})(ctx), set(db, 4, bson.M{"film": "B"})(ctx))
		}))
		if diff := cmp.Diff(truth(t, db, !opts.Additive)["C"], stored(t, db)["C"]); diff != "" {
			t.Error(diff)
		}
		no := errors.New("no")
		before := stored(t, db)
		err := c.Change(t.Context(), []int{5}, func(ctx context.Context) error {
			return errors.Join(set(db, 5, bson.M{"viewers": 1})(ctx), no)
		})
		if !errors.Is(err, no) || !maps.Equal(before, stored(t, db)) {
			t.Error(err, stored(t, db))
		}
	})
}

// A target was inserted after its sources, or not adopted yet: a Change of one source counts the
// others too.
func TestTheFirstChangeCountsAllSources(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, opts *spec) {
		db, c := cinema(t, opts)
		check(t, c.Change(t.Context(), []int{0, 1}, func(ctx context.Context) error {
			return errors.Join(set(db, 0, bson.M{"viewers": 500})(ctx), set(db, 1, bson.M{"film": "C"})(ctx))
		}))
		right(t, db, c, opts)
	})
	db, c := cinema(t, sums())
	agg, up := "aggregate", "update"
	costs.Record(t, db, 2, []string{agg, up, agg, up, agg, up, "commitTransaction"}, func() error {
		return c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": 500}))
	})
}

// An order with several items is a source of several products.
func TestSourcesOfSeveralTargets(t *testing.T) {
	t.Parallel()
	for _, additive := range []bool{false, true} {
		db := mongotest.Database(t)
		orders, products := db.Collection("orders"), db.Collection("products")
		type product struct {
			ID   string `bson:"_id"`
			Sold int
		}
		c := testkit.Must(totalsOf[int, string, product](orders, products, &spec{
			Key: "items.product", Options: computed.Options{Additive: additive},
			Pipeline: mongo.Pipeline{
				{{Key: "$unwind", Value: "$items"}},
				{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$items.product"}, {Key: "sold", Value: bson.M{"$sum": "$items.n"}}}}},
			},
			Empty: bson.D{{Key: "sold", Value: 0}},
		}))
		_, err := products.InsertMany(t.Context(), []any{bson.M{"_id": "pen"}, bson.M{"_id": "ink"}, bson.M{"_id": "cap"}})
		check(t, err)
		order := func(id int, items bson.M) {
			t.Helper()
			check(t, c.Change(t.Context(), []int{id}, func(ctx context.Context) error {
				var all []bson.M
				for name, n := range items {
					all = append(all, bson.M{"product": name, "n": n})
				}
				_, err := orders.UpdateByID(ctx, id, bson.M{"$set": bson.M{"items": all}}, options.UpdateOne().SetUpsert(true))
				return err
			}))
		}
		order(1, bson.M{"pen": 2, "ink": 1})
		order(2, bson.M{"pen": 3, "cap": 1})
		order(1, bson.M{"ink": 4, "cap": 1}) // no pens any more
		for name, want := range map[string]int{"pen": 3, "ink": 4, "cap": 2} {
			var p product
			check(t, products.FindOne(t.Context(), bson.M{"_id": name}).Decode(&p))
			if p.Sold != want {
				t.Errorf("additive %v: %s sold %d, want %d", additive, name, p.Sold, want)
			}
		}
		for p, err := range c.Check(t.Context(), nil) {
			t.Error(p, err)
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	opts.Lease = time.Hour
	db, c := cinema(t, opts)
	check(t, mongotest.Admin(t, db).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "films"}, {Key: "validator", Value: bson.M{"$or": bson.A{
		bson.M{"_id": bson.M{"$ne": "B"}}, bson.M{"viewers": bson.M{"$exists": false}}}}}}).Err())
	check(t, c.Mark(t.Context(), "A", "B", "C", "Z"))
	fam, up := "findAndModify", "update"
	var result mongopatterns.Result
	costs.Record(t, db, 2, []string{"find", fam, "find", "aggregate", up, up, "find"}, func() error { // the second stores the error
		result = testkit.Must(c.Drain(t.Context(), &mongopatterns.Work{Filter: bson.M{"_id": "B"}}))
		return nil
	})
	maintain.Add(&result, testkit.Must(c.Drain(t.Context(), nil)))
	if result.Done != 2 || result.Failed != 1 || result.Failures[0].ID.StringValue() != "B" {
		t.Errorf("%+v", result)
	}
	if again := testkit.Must(c.Drain(t.Context(), nil)); again.Examined != 0 { // leased
		t.Errorf("%+v", again)
	}
	check(t, mongotest.Admin(t, db).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "films"}, {Key: "validator", Value: bson.M{}}}).Err())
	_, err := db.Collection("films").UpdateByID(t.Context(), "B", bson.M{"$set": bson.M{"computed.until": time.Now().Add(-time.Hour)}})
	check(t, err)
	if again := testkit.Must(c.Drain(t.Context(), &mongopatterns.Work{Filter: bson.M{"_id": "A"}})); again.Examined != 0 {
		t.Errorf("%+v", again)
	}
	if again := testkit.Must(c.Drain(t.Context(), nil)); again.Done != 1 {
		t.Errorf("%+v", again)
	}
	right(t, db, c, opts)
}

// A million reads to a thousand writes an hour, the published ratio, at a thousandth of the size: a
// stored value examines a hundredth of the documents, its writes and computations included.
func TestReadsAgainstWrites(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	const screenings, reads, writes = 200, 1000, 1
	var docs []any
	for i := range screenings {
		docs = append(docs, screening{100 + i, "C", fmt.Sprint(i % 50), i, false})
	}
	_, err := db.Collection("screenings").InsertMany(t.Context(), docs)
	check(t, err)
	testkit.Must(c.Adopt(t.Context(), nil))
	examined := func(fn func()) (n int64) {
		for _, cmd := range mongotest.Record(t, db, fn).Named("find", "aggregate", "update") {
			n += mongotest.Explain(t, db, cmd.Body).DocsExamined
		}
		return n
	}
	write := examined(func() { check(t, c.Change(t.Context(), []int{100}, set(db, 100, bson.M{"viewers": 7}))) })
	read := examined(func() { testkit.Must(c.Get(t.Context(), "C", time.Hour)) })
	each := examined(func() { eachTime(t, db) })
	kept, without := reads*read+writes*write, reads*each+writes
	t.Logf("%d reads and %d write of a film with %d screenings examine %d documents, without kept values %d", reads, writes, screenings, kept, without)
	if kept*100 > without {
		t.Errorf("%d documents examined, without kept values %d", kept, without)
	}
}

func TestRefreshAllAndRepair(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	db, c := cinema(t, opts)
	check(t, c.Mark(t.Context(), "C"))
	testkit.Must(c.RefreshAll(t.Context(), nil))
	right(t, db, c, opts)
	if result := testkit.Must(c.Drain(t.Context(), nil)); result.Examined != 0 { // the computation cleared the mark
		t.Errorf("%+v", result)
	}
	_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$set": bson.M{"viewers": "many", "theatres": -1}})
	check(t, err)
	_, err = db.Collection("films").UpdateByID(t.Context(), "C", bson.M{"$unset": bson.M{"viewers": 1}})
	check(t, err)
	var got []string
	for p, err := range c.Check(t.Context(), nil) {
		check(t, err)
		got = append(got, p.String())
	}
	want := []string{`computed: films "A": wrong field: viewers is "many", want 90`, `computed: films "A": wrong field: theatres is -1, want 3`, `computed: films "C": wrong field: viewers is missing, want 0`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if dry := testkit.Must(c.Repair(t.Context(), &mongopatterns.Work{DryRun: true})); dry.Done != 2 || dry.Examined != 3 {
		t.Errorf("%+v", dry)
	}
	if one := testkit.Must(c.Repair(t.Context(), &mongopatterns.Work{Filter: bson.M{"_id": "A"}})); one.Done != 1 || one.Examined != 1 {
		t.Errorf("%+v", one)
	}
	if rest := testkit.Must(c.Repair(t.Context(), nil)); rest.Done != 1 || rest.Examined != 3 {
		t.Errorf("%+v", rest)
	}
	right(t, db, c, opts)
}

// Films are computed from screenings, distributors from films, in one transaction.
func TestLevels(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	type distributor struct {
		ID      string `bson:"_id"`
		Viewers int
		Films   int
	}
	upper := testkit.Must(totalsOf[string, string, distributor](db.Collection("films"), db.Collection("distributors"), &spec{
		Key: "distributor", Options: computed.Options{Additive: true},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$distributor"}, {Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "films", Value: bson.M{"$sum": 1}}}}}},
		Empty:    bson.D{{Key: "viewers", Value: 0}, {Key: "films", Value: 0}},
	}))
	opts := perFilm()
	opts.Then = upper
	lower := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	_, err := db.Collection("distributors").InsertMany(ctx, []any{bson.M{"_id": "x"}, bson.M{"_id": "y"}})
	check(t, err)
	for id, of := range map[string]string{"A": "x", "B": "x", "C": "y"} {
		check(t, upper.Change(ctx, []string{id}, func(ctx context.Context) error {
			_, err := db.Collection("films").InsertOne(ctx, bson.M{"_id": id, "distributor": of})
			return err
		}))
	}
	for i := range 6 {
		check(t, lower.Change(ctx, []int{i}, set(db, i, bson.M{"film": string("ABC"[i%3]), "viewers": 10})))
	}
	check(t, lower.Change(ctx, []int{0}, set(db, 0, bson.M{"film": "C"})))
	want := map[string]distributor{"x": {"x", 30, 2}, "y": {"y", 30, 1}}
	is := func() {
		t.Helper()
		for id, want := range want {
			if got := testkit.Must(upper.Get(ctx, id, time.Hour)); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		for p, err := range mongopatterns.CheckAll(ctx, lower, upper) {
			t.Error(p, err)
		}
	}
	is()
	check(t, set(db, 1, bson.M{"viewers": 110})(ctx)) // without the package
	testkit.Must(lower.Repair(ctx, nil))
	want["x"] = distributor{"x", 130, 2}
	is()
	if _, err := totalsOf[int, string, film](db.Collection("films"), db.Collection("other"), opts); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// Departures by airport and by state, from the routes of a whole year: two levels, computed at once
// and kept right through changes.
func TestDepartures(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	routes, airports, states := db.Collection("routes"), db.Collection("airports"), db.Collection("states")
	sum := func(key string) *spec {
		return &spec{Key: key, Options: computed.Options{Additive: true}, Empty: bson.D{{Key: "flights", Value: 0}},
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + key}, {Key: "flights", Value: bson.M{"$sum": "$flights"}}}}}}}
	}
	type place struct {
		ID      string `bson:"_id"`
		Flights int
	}
	byState := testkit.Must(totalsOf[string, string, place](airports, states, sum("state")))
	opts := sum("origin")
	opts.Then = byState
	byAirport := testkit.Must(totalsOf[int, string, place](routes, airports, opts))
	check(t, errors.Join(byState.EnsureIndexes(ctx), byAirport.EnsureIndexes(ctx)))
	var places, flights, all []any
	stateOf, want := map[string]string{}, map[string]int{}
	for _, a := range testkit.Must(data.Airports()) {
		if a.State > "GA" {
			continue // some are enough
		}
		stateOf[a.IATA] = a.State
		places = append(places, bson.M{"_id": a.IATA, "state": a.State})
		if _, ok := want[a.State]; !ok {
			want[a.State] = 0
			all = append(all, bson.M{"_id": a.State})
		}
	}
	rows := slices.DeleteFunc(testkit.Must(data.Routes()), func(r data.Route) bool { return stateOf[r.Origin] == "" })
	for i, r := range rows {
		flights = append(flights, bson.M{"_id": i, "origin": r.Origin, "flights": r.Flights})
		want[stateOf[r.Origin]] += r.Flights
	}
	for coll, docs := range map[*mongo.Collection][]any{routes: flights, airports: places, states: all} {
		_, err := coll.InsertMany(ctx, docs)
		check(t, err)
	}
	testkit.Must(byState.RefreshAll(ctx, nil))
	testkit.Must(byAirport.RefreshAll(ctx, nil))
	for i := range 20 { // a route gets more flights, another moves to Atlanta
		id := i * 97 % len(rows)
		want[stateOf[rows[id].Origin]] -= rows[id].Flights
		if i%2 == 1 {
			rows[id].Origin = "ATL"
		}
		rows[id].Flights += i
		want[stateOf[rows[id].Origin]] += rows[id].Flights
		check(t, byAirport.Change(ctx, []int{id}, func(ctx context.Context) error {
			_, err := routes.UpdateByID(ctx, id, bson.M{"$set": bson.M{"origin": rows[id].Origin, "flights": rows[id].Flights}})
			return err
		}))
	}
	got := map[string]int{}
	cursor, err := states.Find(ctx, bson.M{})
	check(t, err)
	var stored []place
	check(t, cursor.All(ctx, &stored))
	for _, s := range stored {
		got[s.ID] = s.Flights
	}
	if diff := cmp.Diff(want, got); diff != "" || got["GA"] == 0 {
		t.Error(diff)
	}
	for p, err := range mongopatterns.CheckAll(ctx, byAirport, byState) {
		t.Error(p, err)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	a, b := db.Collection("screenings"), db.Collection("films")
	for name, change := range map[string]func(*spec){
		"key": func(o *spec) { o.Key = "" }, "pipeline": func(o *spec) { o.Pipeline = nil }, "empty": func(o *spec) { o.Empty = nil },
		"path": func(o *spec) { o.Empty = bson.D{{Key: "a.b", Value: 1}} }, "id": func(o *spec) { o.Empty = bson.D{{Key: "_id", Value: 1}} },
		"state":        func(o *spec) { o.StateField = "viewers" },
		"sums from 1":  func(o *spec) { o.Additive, o.Empty[0].Value = true, 1 },
		"sums of text": func(o *spec) { o.Additive, o.Empty[0].Value = true, "" }, "lease": func(o *spec) { o.Lease = -1 },
		"attempts": func(o *spec) { o.Attempts = -1 },
	} {
		opts := perFilm()
		change(opts)
		if _, err := totalsOf[int, string, film](a, b, opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unregistered := perFilm() // a type that only a registry can encode is the cause, not its value
	unregistered.Additive, unregistered.Empty[0].Value = true, struct{ cents int }{}
	if err := errorOf(totalsOf[int, string, film](a, b, unregistered)); !strings.Contains(err.Error(), "Options.Registry") {
		t.Error(err)
	}
	anything := testkit.Must(totalsOf[any, any, bson.M](a, b, perFilm()))
	for name, err := range map[string]error{
		"nil": errorOf(totalsOf[int, string, film](a, b, nil)), "same": errorOf(totalsOf[int, string, film](a, a, perFilm())),
		"no ids": c.Change(t.Context(), nil, func(context.Context) error { return nil }), "source": anything.Change(t.Context(), []any{nil}, nil), "target": anything.Mark(t.Context(), bson.A{}),
		"operators": errorOf(anything.Get(t.Context(), bson.M{"$gt": 1}, 0)), "work": errorOf(c.Drain(t.Context(), &mongopatterns.Work{BatchSize: -1})),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(c.ShardKey())), []string{"films", "screenings"}) {
		t.Error(c.ShardKey())
	}
}

// eachTime computes the totals of film C at each read, without the package.
func eachTime(t testing.TB, db *mongo.Database) {
	t.Helper()
	cursor, err := db.Collection("screenings").Aggregate(t.Context(), append(mongo.Pipeline{{{Key: "$match", Value: bson.M{"film": "C"}}}}, perFilm().Pipeline...))
	check(t, err)
	var out []bson.M
	check(t, cursor.All(t.Context(), &out))
}

// BenchmarkRead compares 1,000 reads and one write, the published ratio, of a film with 1,000
// screenings: first kept by Change, then computed at each read. ratio is the time of the second
// divided by that of the first.
func BenchmarkRead(b *testing.B) {
	db, c := cinema(b, perFilm())
	var docs []any
	for i := range 1000 {
		docs = append(docs, screening{100 + i, "C", fmt.Sprint(i % 50), i, false})
	}
	_, err := db.Collection("screenings").InsertMany(b.Context(), docs)
	check(b, err)
	testkit.Must(c.Adopt(b.Context(), nil))
	var kept, each time.Duration
	for b.Loop() {
		start := time.Now()
		check(b, c.Change(b.Context(), []int{100}, set(db, 100, bson.M{"viewers": 7})))
		for range 1000 {
			testkit.Must(c.Get(b.Context(), "C", time.Hour))
		}
		middle := time.Now()
		check(b, set(db, 100, bson.M{"viewers": 8})(b.Context()))
		for range 1000 {
			eachTime(b, db)
		}
		kept += middle.Sub(start)
		each += time.Since(middle)
	}
	b.ReportMetric(float64(kept.Milliseconds())/float64(b.N), "kept-ms/op")
	b.ReportMetric(float64(each.Milliseconds())/float64(b.N), "each-time-ms/op")
	b.ReportMetric(float64(each)/float64(kept), "ratio")
}
