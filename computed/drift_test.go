package computed_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Values that other programs leave in dirty hide no drift.
func TestAStrangeMarkHidesNoDrift(t *testing.T) {
	t.Parallel()
	opts := perFilm()
	db, c := cinema(t, opts)
	for _, dirty := range []any{1, false, nil, "yes", "true", bson.A{true}} {
		testkit.Must(c.Adopt(t.Context(), nil))
		update(t, db, "films", "A", bson.M{"computed.dirty": dirty, "viewers": -1})
		n := 0
		for p, err := range c.Check(t.Context(), nil) {
			check(t, err)
			if n++; p.ID.StringValue() != "A" || p.Kind != mongopatterns.WrongField {
				t.Error(p)
			}
		}
		if result := testkit.Must(c.Repair(t.Context(), nil)); n != 1 || result.Done != 1 {
			t.Errorf("%v: %d problems, %+v", dirty, n, result)
		}
		right(t, db, c, opts)
	}
}

// Doubles that are added and taken back leave a rounding error, which is not drift.
func TestWhatIsTakenBackIsNoDrift(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := testkit.Must(totalsOf[int, string, bson.M](db.Collection("screenings"), db.Collection("films"), &spec{
		Key: "film", Options: computed.Options{Additive: true}, Empty: bson.D{{Key: "revenue", Value: 0.0}},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
	}))
	_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": "A"})
	check(t, err)
	screenings := db.Collection("screenings")
	for i, revenue := range []float64{0.1, 0.2, 0.3} {
		check(t, c.Change(t.Context(), []int{i}, func(ctx context.Context) error {
			return errorOf(screenings.InsertOne(ctx, bson.M{"_id": i, "film": "A", "revenue": revenue}))
		}))
	}
	for i := range 2 {
		check(t, c.Change(t.Context(), []int{i}, func(ctx context.Context) error {
			return errorOf(screenings.DeleteOne(ctx, bson.M{"_id": i}))
		}))
	}
	if left := fields(t, db, "A")["revenue"].(float64); left == 0.3 {
		t.Fatal("there is no rounding error to test")
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	update(t, db, "films", "A", bson.M{"revenue": 0.01}) // but this is drift
	if result := testkit.Must(c.Repair(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// A new target without sources and without the computed fields has not drifted: Check and Repair
// ignore it; Adopt, Get and Drain give it the values of Empty.
func TestANewTargetHasNotDrifted(t *testing.T) {
	t.Parallel()
	db, c := cinema(t, perFilm())
	testkit.Must(c.Adopt(t.Context(), nil))
	for _, id := range []string{"D", "E", "F"} {
		_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": id, "title": "film " + id})
		check(t, err)
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	if result := testkit.Must(c.Repair(t.Context(), nil)); result.Done != 0 || fields(t, db, "D")["viewers"] != nil {
		t.Errorf("%+v", result)
	}
	check(t, c.Mark(t.Context(), "E"))
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	testkit.Must(c.Drain(t.Context(), nil))
	testkit.Must(c.Get(t.Context(), "F", time.Hour))
	if result := testkit.Must(c.Adopt(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
	for _, id := range []string{"D", "E", "F"} {
		if f := fields(t, db, id); f["viewers"] != int32(0) || f["theatres"] != int32(0) {
			t.Error(f)
		}
	}
	_, err := db.Collection("films").UpdateByID(t.Context(), "D", bson.M{"$unset": bson.M{"theatres": ""}}) // one of the two fields is missing: drift
	check(t, err)
	if result := testkit.Must(c.Repair(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// Changes that add to a wrong value again and again, each between the computation of a Repair
// and its write, do not keep it wrong.
func TestRepairUnderConstantChange(t *testing.T) {
	t.Parallel()
	opts := sums()
	db, c := cinema(t, opts)
	testkit.Must(c.Adopt(t.Context(), nil))
	_, err := db.Collection("films").UpdateByID(t.Context(), "A", bson.M{"$set": bson.M{"viewers": -1000}})
	check(t, err)
	aggregates := 0 // the first looks for problems, eleven more compute outside a transaction
	slow := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName != "aggregate" {
			return
		}
		if aggregates++; aggregates > 1 && aggregates <= 1+11 {
			check(t, c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": aggregates})))
		}
	}})).Client().Database(db.Name())
	other := testkit.Must(totalsOf[int, string, film](slow.Collection("screenings"), slow.Collection("films"), opts))
	if result := testkit.Must(other.Repair(t.Context(), nil)); result.Done != 1 || result.Skipped != 0 {
		t.Errorf("%+v", result)
	}
	right(t, db, c, opts)
}

// Sums inside documents and arrays may differ from the stored ones by as little as others may.
func TestRoundedSumsInside(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	sources, targets := db.Collection("sources"), db.Collection("targets")
	c := testkit.Must(computed.New[int, int, bson.D](sources, targets, computed.Rule{
		KeyField: "of", Empty: testkit.D("inside", testkit.D("sums", bson.A{}), "count", 0),
		Pipeline: mongo.Pipeline{
			testkit.D("$group", testkit.D("_id", "$of", "sum", testkit.D("$sum", "$n"), "count", testkit.D("$sum", 1))),
			testkit.D("$project", testkit.D("inside", testkit.D("sums", bson.A{"$sum"}), "count", 1)),
		}}, nil))
	testkit.Insert(t, sources, testkit.D("_id", 1, "of", 1, "n", 0.1), testkit.D("_id", 2, "of", 1, "n", 0.2), testkit.D("_id", 3, "of", 1, "n", 0.3))
	for _, test := range []struct {
		inside any
		wrong  int
	}{
		{testkit.D("sums", bson.A{0.6}), 0}, {testkit.D("sums", bson.A{0.6000000001}), 0}, {testkit.D("sums", bson.A{0.61}), 1},
		{testkit.D("sums", bson.A{0.6, 0}), 1}, {testkit.D("sums", 0.6), 1}, {testkit.D("sum", bson.A{0.6}), 1}, {bson.A{bson.A{0.6}}, 1}, {bson.D{}, 1}, {nil, 1},
	} {
		testkit.OK(t, errorOf(targets.ReplaceOne(t.Context(), testkit.D("_id", 1), testkit.D("_id", 1, "inside", test.inside, "count", 3), options.Replace().SetUpsert(true))))
		var found []mongopatterns.Problem
		for p, err := range c.Check(t.Context(), nil) {
			testkit.OK(t, err)
			found = append(found, p)
		}
		if len(found) != test.wrong {
			t.Errorf("%v: %v", test.inside, found)
		}
	}
}
