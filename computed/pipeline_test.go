package computed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// fields returns the values that a film has stored under these names.
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

// A pipeline that returns _ids other than those in KeyField, or fields other than those of Empty,
// stores nothing, in any call.
func TestAPipelineThatDoesNotFit(t *testing.T) {
	t.Parallel()
	group := func(id string, field string, more ...bson.E) mongo.Pipeline {
		return mongo.Pipeline{{{Key: "$match", Value: bson.M{"film": bson.M{"$ne": nil}}}}, {{Key: "$group", Value: append(bson.D{{Key: "_id", Value: id}, {Key: field, Value: bson.M{"$sum": "$viewers"}}, {Key: "theatres", Value: bson.M{"$sum": 1}}}, more...)}}}
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

// A pipeline that writes is refused.
func TestAPipelineThatWritesIsRefused(t *testing.T) {
	t.Parallel()
	db, _ := cinema(t, perFilm())
	for _, stage := range []bson.D{{{Key: "$out", Value: "elsewhere"}}, {{Key: "$merge", Value: "films"}}} {
		opts := perFilm()
		opts.Pipeline = append(opts.Pipeline, stage)
		if _, err := totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), stage[0].Key) {
			t.Errorf("%v: %v", stage, err)
		}
	}
}

// A source on which the pipeline fails makes its own target fail, and no other.
func TestOneBadSourceFailsItsOwnTarget(t *testing.T) {
	t.Parallel()
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
	// Readers of a target that was set aside get its old value.
	update(t, db, "films", "B", bson.M{"viewers": 7, "computed": bson.M{"at": time.Now().Add(-time.Hour), "epoch": 1, "dirty": "set aside"}})
	if f, err := c.Get(t.Context(), "B", time.Minute); err != nil || f.Viewers != 7 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A target on which the pipeline of the next level fails is not stored, and does not count as Done.
func TestTheNextLevelFails(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	upper := testkit.Must(totalsOf[string, string, bson.D](db.Collection("films"), db.Collection("distributors"), &spec{
		Key: "distributor", Empty: bson.D{{Key: "viewers", Value: 0}},
		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$distributor"}, {Key: "viewers", Value: bson.M{"$sum": bson.M{"$toInt": "$share"}}}}}}},
	}))
	opts := perFilm()
	opts.Then = upper
	lower := testkit.Must(totalsOf[int, string, film](db.Collection("screenings"), db.Collection("films"), opts))
	testkit.Insert(t, db.Collection("distributors"), bson.M{"_id": "x"}, bson.M{"_id": "y"})
	testkit.Insert(t, db.Collection("films"), bson.M{"_id": "A", "distributor": "x", "share": "many"}, bson.M{"_id": "B", "distributor": "x", "share": 1},
		bson.M{"_id": "C", "distributor": "y", "share": 1}, bson.M{"_id": "D", "distributor": "x", "share": 1})
	all, err := lower.RefreshAll(t.Context(), nil)
	if err != nil || all.Done != 1 || all.Failed != 3 || all.Examined != 4 {
		t.Errorf("RefreshAll: %+v, %v", all, err)
	}
	some, err := lower.Refresh(t.Context(), "A", "C", "D")
	if err != nil || some.Done != 1 || some.Failed != 2 || some.Examined != 3 {
		t.Errorf("Refresh: %+v, %v", some, err)
	}
	strict, err := lower.RefreshAll(t.Context(), &mongopatterns.Work{Strict: true})
	if err == nil || strict.Done != 0 {
		t.Errorf("strict: %+v, %v", strict, err)
	}
	if f := fields(t, db, "B"); f["computed"] != nil {
		t.Error(f)
	}
}

// A source on which the pipeline fails is tried Options.Attempts times, and its target is set
// aside. The other targets are computed, and a new mark resets the attempts.
func TestPoisonIsSetAside(t *testing.T) {
	opts := perFilm()
	opts.Pipeline[1][0].Value.(bson.D)[1].Value = bson.M{"$sum": bson.M{"$toInt": "$viewers"}}
	opts.Attempts, opts.Lease = 2, time.Millisecond
	db, c := cinema(t, opts)
	check(t, set(db, 1, bson.M{"viewers": "many"})(t.Context())) // of film B
	check(t, c.Mark(t.Context(), "A", "B", "C"))
	if dry := testkit.Must(c.Drain(t.Context(), &mongopatterns.Work{DryRun: true})); dry.Done != 3 {
		t.Errorf("%+v", dry)
	}
	failures := func() (out []string) {
		for f, err := range c.Failures(t.Context()) {
			check(t, err)
			out = append(out, f.Collection+" "+f.ID.StringValue()+": "+f.Err.Error())
		}
		return out
	}
	var result mongopatterns.Result
	if strict, err := c.Drain(t.Context(), &mongopatterns.Work{Strict: true, Filter: bson.M{"_id": "B"}}); err == nil || strict.Failed != 1 ||
		mongopatterns.OutcomeOf(err) != mongopatterns.Unknown { // the attempt is counted
		t.Errorf("%+v, %v", strict, err)
	}
	for start := time.Now(); len(failures()) == 0 && time.Since(start) < time.Minute; {
		maintain.Add(&result, testkit.Must(c.Drain(t.Context(), nil)))
	}
	if all := failures(); len(all) != 1 || !strings.HasPrefix(all[0], "films B: ") || !strings.Contains(all[0], "many") {
		t.Errorf("%v", all)
	}
	if result.Done != 2 || result.Failed != 1 { // and the strict one
		t.Errorf("%+v", result)
	}
	time.Sleep(2 * opts.Lease)
	if again := testkit.Must(c.Drain(t.Context(), nil)); again.Examined != 0 {
		t.Errorf("tried for ever: %+v", again)
	}
	// The third is set aside, so the other two are computed one by one.
	check(t, set(db, 0, bson.M{"viewers": "few"})(t.Context()))
	costs.Record(t, db, 0, []string{"listCollections", "find", "aggregate", "aggregate", "aggregate", "find"}, func() error {
		for p, err := range c.Check(t.Context(), nil) {
			check(t, err)
			if p.Kind != computed.Uncomputable {
				t.Error(p)
			}
		}
		return nil
	})
	check(t, set(db, 0, bson.M{"viewers": 10})(t.Context()))
	cmds := costs.Record(t, db, 0, []string{"find"}, func() error { failures(); return nil })
	mongotest.Explain(t, db, cmds[0].Body).RequireIndex(t, "computed.dirty_1")
	check(t, set(db, 1, bson.M{"viewers": 11})(t.Context()))
	check(t, c.Mark(t.Context(), "B"))
	if again := testkit.Must(c.Drain(t.Context(), nil)); again.Done != 1 || len(failures()) != 0 {
		t.Errorf("%+v, %v", again, failures())
	}
	right(t, db, c, opts)
	var left bson.M
	check(t, db.Collection("films").FindOne(t.Context(), bson.M{"$or": bson.A{bson.M{"computed.error": bson.M{"$exists": true}}, bson.M{"computed.attempts": bson.M{"$exists": true}}}}).Decode(&left), mongo.ErrNoDocuments)
	// Attempts of workers that begin and never end are counted, too.
	check(t, c.Mark(t.Context(), "B"))
	_, err := db.Collection("films").UpdateByID(t.Context(), "B", bson.M{"$set": bson.M{"computed.attempts": 2}})
	check(t, err)
	if died := testkit.Must(c.Drain(t.Context(), nil)); died.Failed != 1 || len(failures()) != 1 {
		t.Errorf("%+v, %v", died, failures())
	}
	// A target that was set aside keeps its values for readers.
	costs.Record(t, db, 0, []string{"find"}, func() error { return errorOf(c.Get(t.Context(), "B", time.Hour)) })
	testkit.Must(c.Refresh(t.Context(), "B"))
	right(t, db, c, opts)
	// Check and Repair report a target that cannot be computed, and continue.
	check(t, set(db, 1, bson.M{"viewers": "many"})(t.Context()))
	check(t, set(db, 0, bson.M{"viewers": 1000})(t.Context()))
	kinds := map[string]mongopatterns.ProblemKind{}
	for p, err := range c.Check(t.Context(), nil) {
		check(t, err)
		kinds[p.ID.StringValue()] = p.Kind
	}
	if diff := cmp.Diff(map[string]mongopatterns.ProblemKind{"A": mongopatterns.WrongField, "B": computed.Uncomputable}, kinds); diff != "" {
		t.Error(diff)
	}
	if repaired := testkit.Must(c.Repair(t.Context(), nil)); repaired.Done != 1 || repaired.Failed != 1 || repaired.Examined != 3 {
		t.Errorf("%+v", repaired)
	}
}
