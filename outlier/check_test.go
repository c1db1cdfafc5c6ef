package outlier_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// problems returns the problems that Check finds, as sorted text.
func problems[ID, E any](t testing.TB, lists *outlier.Lists[ID, E], work *mongopatterns.Work) []string {
	t.Helper()
	out := []string{}
	for _, p := range testkit.Collect(t, lists.Check(t.Context(), work)) {
		if p.Kind == mongopatterns.Orphan {
			p.ID = bson.RawValue{} // differs from run to run
		}
		out = append(out, strings.TrimPrefix(p.String(), "outlier: parents "))
	}
	slices.Sort(out)
	return out
}

// Every kind of damage is found and named, and repaired as the documentation says.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, extras := db.Collection("parents"), db.Collection("extras")
	lists := newLists[string, string](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 2, Set: true})
	items := func(s string) bson.E { return bson.E{Key: "items", Value: array(strings.Split(s, ""))} }
	flagged := []bson.E{{Key: "items_overflow", Value: true}, {Key: "items_outside", Value: 1}, {Key: "items_moved", Value: bson.NewObjectID()}}
	for _, id := range []string{"a fine", "b total", "c NaN", "d unflagged", "e over", "f twice"} {
		insert(t, coll, bson.D{{Key: "_id", Value: id}})
		add(t, lists, id, strings.Split("abcdefgh", "")...) // ab cd ef, gh
	}
	insert(t, coll,
		append(bson.D{{Key: "_id", Value: "g flagged"}, items("ab")}, flagged...),
		bson.D{{Key: "_id", Value: "h over"}, items("abcdefghi")},
		bson.D{{Key: "_id", Value: "i twice inside"}, items("abca")},
		bson.D{{Key: "_id", Value: "j text"}, {Key: "items", Value: "abcd"}},
		append(bson.D{{Key: "_id", Value: "k text outside"}, items("a")}, flagged...),
		bson.D{{Key: "_id", Value: "l fine"}, {Key: "items_overflow", Value: false}},
	)
	set(t, coll, lists.Filter("b total"), bson.D{{Key: "$set", Value: bson.D{{Key: "items_outside", Value: 7}}}})
	set(t, coll, lists.Filter("c NaN"), bson.D{{Key: "$set", Value: bson.D{{Key: "items_outside", Value: math.NaN()}}}})
	set(t, coll, lists.Filter("d unflagged"), bson.D{{Key: "$unset", Value: bson.D{{Key: "items_overflow", Value: ""}}}})
	set(t, coll, lists.Filter("e over"), bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: bson.D{{Key: "$each", Value: bson.A{"x", "y", "z"}}}}}}})
	set(t, coll, lists.Filter("f twice"), bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: "b"}}}})
	insert(t, extras,
		bson.D{{Key: "parent", Value: "f twice"}, {Key: "n", Value: 7}, items("bzdz")},
		bson.D{{Key: "parent", Value: "k text outside"}, {Key: "n", Value: 1}, {Key: "items", Value: "c"}},
		bson.D{{Key: "parent", Value: "m gone"}, {Key: "n", Value: 3}, items("xy")}, bson.D{{Key: "parent", Value: "m gone"}, {Key: "n", Value: 4}, items("z")})
	want := []string{
		`"b total": wrong field: items_outside is 7, want 6`,
		`"c NaN": wrong field: items_outside is NaN, want 6`,
		`"d unflagged": wrong flag: items_overflow: 3 overflow documents`,
		`"e over": over bounds: items: 5 elements`,
		`"f twice": duplicate: items is "b": 3 times`,
		`"f twice": duplicate: items is "d": 2 times`,
		`"f twice": duplicate: items is "z": 2 times`,
		`"f twice": wrong field: items_outside is 6, want 10`,
		`"g flagged": wrong flag: items_overflow is true: 0 overflow documents`,
		`"h over": over bounds: items: 9 elements`,
		`"i twice inside": duplicate: items is "a": 2 times`,
		`"j text": malformed: items`,
		`"k text outside": malformed: items: of an overflow document`,
		`outlier: extras: orphan: parent is "m gone": 2 overflow documents`,
	}
	equal(t, want, problems(t, lists, nil))
	one := &mongopatterns.Work{Filter: bson.M{"_id": "d unflagged"}}
	equal(t, want[2:3], problems(t, lists, one))
	for range lists.Check(t.Context(), nil) { // the loop may end early
		break
	}
	count := func(work *mongopatterns.Work, want mongopatterns.Result) {
		t.Helper()
		result, err := lists.Repair(t.Context(), work)
		if err != nil {
			t.Error(err)
		}
		equal(t, want, result)
	}
	count(&mongopatterns.Work{DryRun: true}, mongopatterns.Result{Examined: 12, Done: 9, Remaining: 2})
	equal(t, want, problems(t, lists, nil))
	count(one, mongopatterns.Result{Examined: 1, Done: 1})
	var last mongopatterns.Result
	count(&mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { last = r }}, mongopatterns.Result{Examined: 12, Done: 8, Remaining: 2})
	if last.Done != 8 {
		t.Error(last)
	}
	equal(t, want[11:13], problems(t, lists, nil))
	for id, want := range map[string]string{
		"a fine": "abcdefgh", "b total": "abcdefgh", "c NaN": "abcdefgh", "d unflagged": "abcdefgh",
		"e over": "abcdefghxyz", "f twice": "abcdefzgh", "g flagged": "ab", "h over": "abcdefghi", "i twice inside": "abc",
	} {
		if got := strings.Join(testkit.Collect(t, lists.All(t.Context(), id)), ""); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if _, err := lists.Repair(t.Context(), &mongopatterns.Work{BatchSize: -1}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// What the server refuses is counted and named, and the other lists go on; in a
// transaction of the caller's it ends the call.
func TestRefused(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4})
	for id := range 3 {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}, {Key: "items", Value: ints(0, 9)}})
	}
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "parents"}, {Key: "validator", Value: bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: 1}}}}, bson.D{{Key: "items_outside", Value: bson.D{{Key: "$exists", Value: false}}}}}}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	result, err := lists.Adopt(t.Context(), nil)
	if err != nil || result.Done != 2 || result.Failed != 1 || result.Failures[0].ID.Int32() != 1 {
		t.Error(result, err)
	}
	if _, err := lists.Repair(t.Context(), &mongopatterns.Work{Strict: true}); err == nil || !strings.HasPrefix(err.Error(), "outlier: repair: _id 1: ") {
		t.Error(err)
	}
	err = mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
		_, err := lists.Repair(ctx, nil)
		return err
	})
	if err == nil || !strings.HasPrefix(err.Error(), "outlier: repair: _id 1: ") {
		t.Error(err)
	}
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5})
	empty, err := lists.Distribution(t.Context(), nil, 3)
	if err != nil {
		t.Error(err)
	}
	equal(t, outlier.Distribution{Caps: []outlier.Cap{{MaxCount: 3}}}, empty)
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "no"}}, bson.D{{Key: "_id", Value: "text"}, {Key: "items", Value: "x"}})
	for id, n := range []int{1, 3, 3, 10, 25} {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}})
		add(t, lists, id, ints(0, n)...)
	}
	got, err := lists.Distribution(t.Context(), bson.M{}, 3, 10, 100)
	if err != nil {
		t.Error(err)
	}
	equal(t, outlier.Distribution{Documents: 7, Elements: 42, Longest: 25, Caps: []outlier.Cap{
		{MaxCount: 3, Outliers: 2, Over: 29}, {MaxCount: 10, Outliers: 1, Over: 15}, {MaxCount: 100}}}, got)
	usual, err := lists.Distribution(t.Context(), bson.D{{Key: "_id", Value: 4}})
	if err != nil || len(usual.Caps) != 13 || usual.Caps[12].MaxCount != 100_000 || usual.Documents != 1 {
		t.Error(usual, err)
	}
	if _, err := lists.Distribution(t.Context(), nil, 0); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// A list that is deleted while Check looks at it has no orphans.
func TestCheckBesideDelete(t *testing.T) {
	t.Parallel()
	var del func()
	looked := map[int64]bool{}
	db := mongotest.Database(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			level, _ := e.Command.Lookup("readConcern", "level").StringValueOK()
			inside := level == "snapshot"
			looked[e.RequestID] = e.CommandName == "aggregate" && inside || e.CommandName == "find" && e.Command.Lookup("find").StringValue() == "extras"
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if looked[e.RequestID] && del != nil {
				once := del
				del = nil
				once()
			}
		},
	}))
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	add(t, lists, 1, ints(0, 9)...)
	set(t, db.Collection("parents"), lists.Filter(1), bson.D{{Key: "$unset", Value: bson.D{{Key: "items_overflow", Value: ""}}}})
	del = func() {
		for _, coll := range []string{"parents", "extras"} {
			if _, err := db.Collection(coll).DeleteMany(t.Context(), bson.D{}); err != nil {
				t.Error(err)
			}
		}
	}
	for p, err := range lists.Check(t.Context(), nil) {
		if err != nil || p.Kind == mongopatterns.Orphan {
			t.Error(p, err)
		}
	}
	if del != nil {
		t.Error("nothing was deleted meanwhile")
	}
}
