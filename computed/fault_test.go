package computed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// fields are what a film has stored under these names.
func fields(t testing.TB, db *mongo.Database, id string) bson.M {
	t.Helper()
	var out bson.M
	check(t, db.Collection("films").FindOne(t.Context(), bson.M{"_id": id}).Decode(&out))
	return out
}

func update(t testing.TB, db *mongo.Database, coll string, id, set any) {
	t.Helper()
	_, err := db.Collection(coll).UpdateByID(t.Context(), id, bson.M{"$set": set})
	check(t, err)
}

// beside is a database whose aggregate commands have fn run behind the first of them.
func beside(t *testing.T, db *mongo.Database, fn func()) *mongo.Database {
	var once sync.Once
	return mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "aggregate" {
			once.Do(fn)
		}
	}})).Client().Database(db.Name())
}

// A Get that fails, or whose context ends, gives its lease back: the next reader of a new
// target does not wait for a minute.
func TestAFailedGetGivesItsLeaseBack(t *testing.T) {
	opts := perFilm()
	opts.Lease = time.Hour
	db, c := cinema(t, opts)
	opts = perFilm()
	opts.Lease = time.Hour
	opts.Pipeline = mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "viewers", Value: bson.M{"$sum": bson.M{"$toInt": "text"}}}}}}}
	failing := must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	check := func(step string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if f, err := c.Get(ctx, "A", time.Hour); err != nil || f.Viewers != 90 {
			t.Errorf("%s: %+v, %v", step, f, err)
		}
		update(t, db, "films", "A", bson.M{"computed": bson.M{}})
	}
	if _, err := failing.Get(t.Context(), "A", time.Hour); err == nil {
		t.Fatal("it did not fail")
	}
	check("failed")
	ctx, cancel := context.WithCancel(t.Context())
	canceling := beside(t, db, cancel)
	ended := must(totalsOf[int, string, film](canceling.Collection("screenings"), canceling.Collection("films"), perFilm()))
	if _, err := ended.Get(ctx, "A", time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	check("cancelled")
	// A cancelled Drain has not tried, either.
	opts = perFilm()
	opts.Attempts, opts.Lease = 1, time.Hour
	for range 2 {
		update(t, db, "films", "A", bson.M{"computed.dirty": true})
		ctx, cancel := context.WithCancel(t.Context())
		canceling := beside(t, db, cancel)
		ended := must(totalsOf[int, string, film](canceling.Collection("screenings"), canceling.Collection("films"), opts))
		if _, err := ended.Drain(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if result, err := must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts)).Drain(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	check("drained")
}

// A pipeline that makes other _ids than those of Key, or other fields than those of Empty,
// stores nothing, whatever the call.
func TestAPipelineThatDoesNotFit(t *testing.T) {
	group := func(id string, field string, more ...bson.E) mongo.Pipeline {
		return mongo.Pipeline{{{Key: "$group", Value: append(bson.D{{Key: "_id", Value: id}, {Key: field, Value: bson.M{"$sum": "$viewers"}}, {Key: "theatres", Value: bson.M{"$sum": 1}}}, more...)}}}
	}
	for name, pipeline := range map[string]mongo.Pipeline{
		"a misspelt key": group("$flim", "viewers"), "another key": group("$theatre", "viewers"), "a misspelt field": group("$film", "veiwers"),
		"a field too many": group("$film", "viewers", bson.E{Key: "revenue", Value: bson.M{"$sum": 1}}),
	} {
		for _, additive := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", additive), func(t *testing.T) {
				t.Parallel()
				opts := perFilm()
				opts.Pipeline, opts.Additive = pipeline, additive
				db, c := cinema(t, opts)
				same := func(call string) {
					t.Helper()
					if f := fields(t, db, "A"); f["viewers"] != nil {
						t.Errorf("%s has stored %v", call, f)
					}
				}
				if result, err := c.Refresh(t.Context(), "A", "C"); err != nil || result.Failed != 1 || result.Done != 1 {
					t.Errorf("Refresh: %+v, %v", result, err)
				}
				same("Refresh")
				if result, err := c.Adopt(t.Context(), nil); err != nil || result.Failed != 2 {
					t.Errorf("Adopt: %+v, %v", result, err)
				}
				same("Adopt")
				if _, err := c.Get(t.Context(), "A", 0); err == nil {
					t.Error("Get succeeds")
				}
				same("Get")
				if err := c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": 5})); err == nil {
					t.Error("Change succeeds")
				}
				same("Change")
				check(t, c.Mark(t.Context(), "A"))
				if result, err := c.Drain(t.Context(), nil); err != nil || result.Failed != 1 {
					t.Errorf("Drain: %+v, %v", result, err)
				}
				same("Drain")
				if result, err := c.RefreshAll(t.Context(), nil); err != nil || result.Failed != 2 || result.Done != 1 {
					t.Errorf("RefreshAll: %+v, %v", result, err)
				}
				same("RefreshAll")
				kinds := map[string]mongopatterns.ProblemKind{}
				update(t, db, "films", "A", bson.M{"computed": nil})
				for p, err := range c.Check(t.Context(), nil) {
					check(t, err)
					kinds[p.ID.StringValue()] = p.Kind
				}
				if kinds["A"] != computed.Uncomputable || kinds["B"] != computed.Uncomputable || len(kinds) != 2 {
					t.Error(kinds)
				}
			})
		}
	}
}

// What other programs leave in dirty hides no drift.
func TestAStrangeMarkHidesNoDrift(t *testing.T) {
	opts := perFilm()
	db, c := cinema(t, opts)
	for _, dirty := range []any{1, false, nil, "yes", "true", bson.A{true}} {
		must(c.Adopt(t.Context(), nil))
		update(t, db, "films", "A", bson.M{"computed.dirty": dirty, "viewers": -1})
		n := 0
		for p, err := range c.Check(t.Context(), nil) {
			check(t, err)
			if n++; p.ID.StringValue() != "A" || p.Kind != computed.Drifted {
				t.Error(p)
			}
		}
		if result := must(c.Repair(t.Context(), nil)); n != 1 || result.Done != 1 {
			t.Errorf("%v: %d problems, %+v", dirty, n, result)
		}
		right(t, db, c, opts)
	}
}

// Doubles that are added and taken back leave a rounding error, which is not drift.
func TestWhatIsTakenBackIsNoDrift(t *testing.T) {
	db := mongotest.Database(t)
	c := must(totalsOf[int, string, bson.M](db.Collection("screenings"), db.Collection("films"), &spec{
		Key: "film", Options: computed.Options{Additive: true}, Empty: bson.D{{Key: "revenue", Value: 0.0}},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
	}))
	_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": "A"})
	check(t, err)
	screenings := db.Collection("screenings")
	for i, revenue := range []float64{0.1, 0.2} {
		check(t, c.Change(t.Context(), []int{i}, func(ctx context.Context) error {
			return errorOf(screenings.InsertOne(ctx, bson.M{"_id": i, "film": "A", "revenue": revenue}))
		}))
	}
	for i := range 2 {
		check(t, c.Change(t.Context(), []int{i}, func(ctx context.Context) error {
			return errorOf(screenings.DeleteOne(ctx, bson.M{"_id": i}))
		}))
	}
	if left := fields(t, db, "A")["revenue"].(float64); left == 0 {
		t.Fatal("there is no rounding error to test")
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	update(t, db, "films", "A", bson.M{"revenue": 0.01}) // but this is
	if result := must(c.Repair(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// A pipeline computes: one that stores is refused.
func TestAPipelineThatWritesIsRefused(t *testing.T) {
	db, _ := cinema(t, perFilm())
	for _, stage := range []bson.D{{{Key: "$out", Value: "elsewhere"}}, {{Key: "$merge", Value: "films"}}} {
		opts := perFilm()
		opts.Pipeline = append(opts.Pipeline, stage)
		if _, err := totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), stage[0].Key) {
			t.Errorf("%v: %v", stage, err)
		}
	}
}

// A new target without sources and without the computed fields has not drifted: Check and
// Repair leave it, Adopt, Get and Drain give it the values of Empty.
func TestANewTargetHasNotDrifted(t *testing.T) {
	db, c := cinema(t, perFilm())
	must(c.Adopt(t.Context(), nil))
	for _, id := range []string{"D", "E", "F"} {
		_, err := db.Collection("films").InsertOne(t.Context(), bson.M{"_id": id, "title": "film " + id})
		check(t, err)
	}
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	if result := must(c.Repair(t.Context(), nil)); result.Done != 0 || fields(t, db, "D")["viewers"] != nil {
		t.Errorf("%+v", result)
	}
	check(t, c.Mark(t.Context(), "E"))
	for p, err := range c.Check(t.Context(), nil) {
		t.Error(p, err)
	}
	must(c.Drain(t.Context(), nil))
	must(c.Get(t.Context(), "F", time.Hour))
	if result := must(c.Adopt(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
	for _, id := range []string{"D", "E", "F"} {
		if f := fields(t, db, id); f["viewers"] != int32(0) || f["theatres"] != int32(0) {
			t.Error(f)
		}
	}
	_, err := db.Collection("films").UpdateByID(t.Context(), "D", bson.M{"$unset": bson.M{"theatres": ""}}) // one of both is drift
	check(t, err)
	if result := must(c.Repair(t.Context(), nil)); result.Done != 1 {
		t.Errorf("%+v", result)
	}
}

// One source that the pipeline cannot take fails its own target, and no other.
func TestOneBadSourceFailsItsOwnTarget(t *testing.T) {
	opts := perFilm()
	opts.Pipeline[1][0].Value.(bson.D)[1].Value = bson.M{"$sum": bson.M{"$toInt": "$viewers"}}
	db, c := cinema(t, opts)
	check(t, set(db, 1, bson.M{"viewers": "many"})(t.Context())) // of film B
	all, err := c.RefreshAll(t.Context(), nil)
	if err != nil || all.Done != 2 || all.Failed != 1 || all.Examined != 3 || all.Failures[0].ID.StringValue() != "B" {
		t.Errorf("RefreshAll: %+v, %v", all, err)
	}
	check(t, set(db, 0, bson.M{"viewers": 1000})(t.Context()))
	some, err := c.Refresh(t.Context(), "A", "B", "C")
	if err != nil || some.Done != 2 || some.Failed != 1 || some.Examined != 3 || some.Failures[0].ID.StringValue() != "B" {
		t.Errorf("Refresh: %+v, %v", some, err)
	}
	if f := fields(t, db, "A"); f["viewers"] != int32(1080) {
		t.Error(f)
	}
	// Readers of a target that was set aside get the value that it had.
	update(t, db, "films", "B", bson.M{"viewers": 7, "computed": bson.M{"at": time.Now().Add(-time.Hour), "epoch": 1, "dirty": "set aside"}})
	if f, err := c.Get(t.Context(), "B", time.Minute); err != nil || f.Viewers != 7 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A Change that commits between the computation of RefreshAll and its write stays.
func TestRefreshAllBesideAChange(t *testing.T) {
	for name, opts := range map[string]*spec{"computed": perFilm(), "added": sums()} {
		t.Run(name, func(t *testing.T) {
			db, c := cinema(t, opts)
			must(c.Adopt(t.Context(), nil))
			slow := beside(t, db, func() { check(t, c.Change(t.Context(), []int{0}, set(db, 0, bson.M{"viewers": 999}))) })
			other := must(totalsOf[int, string, film](slow.Collection("screenings"), slow.Collection("films"), opts))
			if result, err := other.RefreshAll(t.Context(), nil); err != nil || result.Done != 3 {
				t.Errorf("%+v, %v", result, err)
			}
			right(t, db, c, opts)
		})
	}
}
