package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// problems is what Check finds, as text.
func problems[ID, E any](t testing.TB, lists *outlier.Lists[ID, E]) []string {
	t.Helper()
	out := []string{}
	for p, err := range lists.Check(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p.String())
	}
	return out
}

// Every kind of damage is found and named, and mended as the documentation says.
func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, extras := db.Collection("parents"), db.Collection("extras")
	lists := newLists[string, string](t, db, &outlier.Options{MaxCount: 3, OverflowMaxCount: 2, Set: true})
	items := func(s string) bson.E { return bson.E{Key: "items", Value: array(strings.Split(s, ""))} }
	insert(t, db,
		bson.D{{Key: "_id", Value: "a fine"}, items("abc")},
		bson.D{{Key: "_id", Value: "b none"}},
		bson.D{{Key: "_id", Value: "c outlier"}, items("ab")},
		bson.D{{Key: "_id", Value: "d total"}},
		bson.D{{Key: "_id", Value: "e total of a kind"}},
		bson.D{{Key: "_id", Value: "f unflagged"}},
		bson.D{{Key: "_id", Value: "g flagged"}, items("ab"), {Key: "items_overflow", Value: true}, {Key: "items_total", Value: 2}},
		bson.D{{Key: "_id", Value: "h over"}, items("abcdefgh")},
		bson.D{{Key: "_id", Value: "i inside twice"}, items("aba")},
		bson.D{{Key: "_id", Value: "j twice"}},
		bson.D{{Key: "_id", Value: "k text"}, {Key: "items", Value: "abcd"}},
		bson.D{{Key: "_id", Value: "l over and outside"}},
		bson.D{{Key: "_id", Value: "m all at once"}, items("aab"), {Key: "items_overflow", Value: true}, {Key: "items_total", Value: 7}},
		bson.D{{Key: "_id", Value: "n text outside"}, items("a"), {Key: "items_overflow", Value: true}, {Key: "items_total", Value: 2}},
		bson.D{{Key: "_id", Value: "n text only"}, items("a"), {Key: "items_overflow", Value: true}},
	)
	for _, id := range []string{"c outlier", "d total", "e total of a kind", "f unflagged", "j twice", "l over and outside"} {
		if _, err := lists.AddMany(t.Context(), id, strings.Split("abcdefgh", "")); err != nil {
			t.Fatal(err)
		}
	}
	set := func(id string, value any) {
		t.Helper()
		if _, err := coll.UpdateOne(t.Context(), lists.Filter(id), value); err != nil {
			t.Fatal(err)
		}
	}
	set("d total", bson.D{{Key: "$set", Value: bson.D{{Key: "items_total", Value: 7}}}})
	set("e total of a kind", bson.D{{Key: "$set", Value: bson.D{{Key: "items_total", Value: math.NaN()}}}})
	set("f unflagged", bson.D{{Key: "$unset", Value: bson.D{{Key: "items_overflow", Value: ""}}}})
	set("l over and outside", bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: bson.D{{Key: "$each", Value: bson.A{"x", "y", "z"}}}}}}})
	overflow := func(id string, n int, s string) bson.D {
		return bson.D{{Key: "parent", Value: id}, {Key: "n", Value: n}, items(s)}
	}
	if _, err := extras.InsertMany(t.Context(), []any{
		overflow("m all at once", 1, "b"), overflow("m all at once", 5, ""), overflow("m all at once", 6, "cd"), overflow("m all at once", 7, "a"),
		overflow("n text outside", 0, "b"), bson.D{{Key: "parent", Value: "n text outside"}, {Key: "n", Value: 1}, {Key: "items", Value: "c"}},
		bson.D{{Key: "parent", Value: "n text only"}, {Key: "n", Value: 1}, {Key: "items", Value: "b"}},
		overflow("j twice", 7, "bzdz"), overflow("o gone", 3, "xy"), overflow("o gone", 4, "z"),
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`list "d total": wrong total: 7, want 8`,
		`list "e total of a kind": wrong total: -1, want 8`,
		`list "f unflagged": wrong flag: 3 overflow documents`,
		`list "g flagged": wrong flag: 0 overflow documents`,
		`list "h over": over bounds: 8, want 3`,
		`list "i inside twice": duplicate of "a": 2, want 1`,
		`list "j twice": duplicate of "b": 2, want 1`,
		`list "j twice": duplicate of "d": 2, want 1`,
		`list "j twice": duplicate of "z": 2, want 1`,
		`list "j twice": wrong total: 8, want 12`,
		`list "k text": not an array`,
		`list "l over and outside": over bounds: 6, want 3`,
		`list "l over and outside": wrong total: 8, want 11`,
		`list "m all at once": duplicate of "a": 3, want 1`,
		`list "m all at once": duplicate of "b": 2, want 1`,
		`list "n text only": not an array`,
		`list "n text only": wrong total: -1, want 1`,
		`list "n text outside": not an array`,
		`list "o gone": orphan: 2, want 0`,
	}
	got := problems(t, lists)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for _, err := range lists.Check(t.Context()) { // can be left
		if err != nil {
			t.Error(err)
		}
		break
	}
	if n, err := lists.Total(t.Context(), "n text only"); err != nil || n != 1 { // none is stored
		t.Error(n, err)
	}
	var progress []int64
	result, err := lists.Repair(t.Context(), &outlier.RepairOptions{BatchSize: 2, Progress: func(done int64) { progress = append(progress, done) }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(outlier.RepairResult{Examined: 14, Repaired: 10, Remaining: 4}, result); diff != "" {
		t.Error(diff)
	}
	if len(progress) != 10 || progress[9] != 10 {
		t.Error(progress)
	}
	remaining := slices.Concat(want[10:11], want[15:18])
	left := problems(t, lists)
	slices.Sort(left)
	if diff := cmp.Diff(remaining, left); diff != "" {
		t.Error(diff)
	}
	// Refused in a transaction that goes on: nothing is left behind.
	for _, id := range []string{"n text outside", "n text only"} {
		inTransaction(t, db, true, func(ctx context.Context) {
			if err := lists.Rebalance(ctx, id); !errors.Is(err, outlier.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	left = problems(t, lists)
	slices.Sort(left)
	if diff := cmp.Diff(remaining, left); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{
		"a fine": "abc", "b none": "", "c outlier": "abcdefgh", "d total": "abcdefgh", "e total of a kind": "abcdefgh",
		"f unflagged": "abcdefgh", "g flagged": "ab", "h over": "abcdefgh", "i inside twice": "ab",
		"j twice": "abcdefghz", "l over and outside": "abcxyzdefgh",
		"m all at once": "abcd",
	} {
		if got := strings.Join(collect(t, lists.Items(t.Context(), id)), ""); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if n, err := extras.CountDocuments(t.Context(), lists.OverflowFilter("o gone")); err != nil || n != 0 {
		t.Error(n, err)
	}
	// Nothing is left empty, and parents are full.
	outside := []bson.D{{{Key: "n", Value: int32(6)}, items("d")}}
	cursor, err := extras.Find(t.Context(), lists.OverflowFilter("m all at once"), findByNumber().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "parent", Value: 0}}))
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.D
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(outside, docs); diff != "" {
		t.Error(diff)
	}
	again, err := lists.Repair(t.Context(), nil)
	if err != nil || again.Repaired != 0 || again.Remaining != 4 {
		t.Error(again, err)
	}
	if _, err := lists.Repair(t.Context(), &outlier.RepairOptions{BatchSize: -1}); !errors.Is(err, outlier.ErrInvalid) || err.Error() != "outlier: repair: invalid: RepairOptions.BatchSize: negative" {
		t.Error(err)
	}
}

// Repair beside writers: no element is lost, and the total is right in the end.
// Meanwhile Check finds nothing but the damage that was done.
func TestRepairBesideWriters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 3})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	if _, err := lists.AddMany(t.Context(), 1, ints(0, 10)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for w := range 2 {
		group.Go(func() {
			for i := range 15 {
				if _, err := lists.Add(t.Context(), 1, 100*(w+1)+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		if got := problems(t, lists); len(got) > 0 {
			t.Error(got)
		}
		if _, err := db.Collection("parents").UpdateOne(t.Context(), lists.Filter(1), bson.D{{Key: "$inc", Value: bson.D{{Key: "items_total", Value: 5}}}}); err != nil {
			t.Fatal(err)
		}
		if result, err := lists.Repair(t.Context(), nil); err != nil || result.Repaired != 1 {
			t.Error(result, err)
		}
	}
	group.Wait()
	items := collect(t, lists.Items(t.Context(), 1))
	slices.Sort(items)
	if diff := cmp.Diff(slices.Concat(ints(0, 10), ints(100, 115), ints(200, 215)), items); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
}

// A collection of airports with their destinations in one array each.
func airports(t testing.TB) (docs []any, destinations map[string][]string) {
	t.Helper()
	routes, err := data.Routes()
	if err != nil {
		t.Fatal(err)
	}
	destinations = map[string][]string{}
	var order []string
	for _, r := range routes {
		if destinations[r.Origin] == nil {
			order = append(order, r.Origin)
		}
		destinations[r.Origin] = append(destinations[r.Origin], r.Destination)
	}
	for _, origin := range order {
		docs = append(docs, bson.D{{Key: "_id", Value: origin}, {Key: "destinations", Value: destinations[origin]}})
	}
	return docs, destinations
}

// Airports with more destinations than the bound become outliers; the others are
// not written. Then the bound is lowered and raised.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{false, true} {
		t.Run(fmt.Sprintf("counted=%v", counted), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			docs, destinations := airports(t)
			insert(t, db, docs...)
			at := func(bound int) *outlier.Lists[string, string] {
				return newLists[string, string](t, db, &outlier.Options{
					ArrayField: "destinations", ParentField: "airport", Set: true, MaxCount: bound, OverflowMaxCount: 40, CountTypical: counted,
				})
			}
			agree := func(lists *outlier.Lists[string, string], bound int) {
				t.Helper()
				longer := int64(0)
				for airport, want := range destinations {
					if len(want) > bound {
						longer++
					} else if len(want)%7 != 0 { // a few of the typical will do
						continue
					}
					if diff := cmp.Diff(want, collect(t, lists.Items(t.Context(), airport))); diff != "" {
						t.Errorf("%s: %s", airport, diff)
					}
					if n, err := lists.Total(t.Context(), airport); err != nil || n != int64(len(want)) {
						t.Error(airport, n, err)
					}
				}
				n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter())
				if err != nil || n != longer {
					t.Errorf("%d outliers, want %d, %v", n, longer, err)
				}
				if longer == 0 && bound < 200 {
					t.Error("the data has no outliers")
				}
				healthy(t, lists)
			}
			lists := at(100)
			plain, err := lists.Distribution(t.Context(), nil, 100, 60)
			if err != nil {
				t.Fatal(err)
			}
			// Cut off after the first outlier, then finished.
			ctx, cancel := context.WithCancel(t.Context())
			_, err = lists.Adopt(ctx, &outlier.AdoptOptions{BatchSize: 1, Progress: func(done int64) {
				if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter()); err != nil || n > 0 {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			var last int64
			result, err := lists.Adopt(t.Context(), &outlier.AdoptOptions{Progress: func(done int64) { last = done }})
			if err != nil || last != result.Adopted {
				t.Fatal(result, last, err)
			}
			if want := plain.Caps[0].Outliers - 1; !counted && result != (outlier.AdoptResult{Examined: want, Adopted: want}) {
				t.Errorf("%+v, want %d", result, want)
			}
			agree(lists, 100)
			if again, err := lists.Adopt(t.Context(), nil); err != nil || again != (outlier.AdoptResult{}) {
				t.Errorf("again: %+v, %v", again, err)
			}
			now, err := lists.Distribution(t.Context(), nil, 100, 60)
			if diff := cmp.Diff(plain, now); err != nil || diff != "" {
				t.Error("the distribution of outliers differs:", err, diff)
			}
			for _, bound := range []int{60, 90, 1000} {
				lists = at(bound)
				if _, err := lists.Adopt(t.Context(), &outlier.AdoptOptions{BatchSize: 7}); err != nil {
					t.Fatal(err)
				}
				agree(lists, bound)
			}
			// All are as they were.
			got := stored(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.E{Key: "destinations_total", Value: 0})
			for _, doc := range got {
				if len(doc) != 2 {
					t.Fatal(doc)
				}
			}
			if n, err := db.Collection("extras").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
				t.Error(n, err)
			}
			if _, err := lists.Adopt(t.Context(), &outlier.AdoptOptions{BatchSize: -1}); !errors.Is(err, outlier.ErrInvalid) || err.Error() != "outlier: adopt: invalid: AdoptOptions.BatchSize: negative" {
				t.Error(err)
			}
		})
	}
}

// What was changed is counted, also if the total that somebody has stored is right
// only afterwards.
func TestAdoptedOfASet(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, string](t, db, &outlier.Options{MaxBytes: 60, OverflowMaxBytes: 200, FoldBack: -1, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{"a"}}, {Key: "items_overflow", Value: true}, {Key: "items_total", Value: 2}})
	long := strings.Repeat("b", 60)
	if _, err := db.Collection("extras").InsertOne(t.Context(), bson.D{{Key: "parent", Value: 1}, {Key: "n", Value: 0}, {Key: "items", Value: bson.A{long, long}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []outlier.AdoptResult{{Examined: 1, Adopted: 1}, {Examined: 1}} {
		if result, err := lists.Adopt(t.Context(), nil); err != nil || result != want {
			t.Errorf("%+v, %v, want %+v", result, err, want)
		}
	}
	if diff := cmp.Diff([]string{"a", long}, collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
}

// Adoption beside writers, some of which do not know the pattern yet.
func TestAdoptBesideWriters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5, OverflowMaxCount: 5})
	const parents = 6
	for id := range parents {
		insert(t, db, bson.D{{Key: "_id", Value: id}, {Key: "items", Value: ints(0, 20)}, {Key: "skip", Value: id == 0}})
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 5 {
			for id := range parents {
				if _, err := lists.Add(t.Context(), id, 100+i); err != nil {
					t.Error(err)
				}
			}
		}
	})
	group.Go(func() {
		for i := range 5 {
			for id := range parents {
				if _, err := db.Collection("parents").UpdateOne(t.Context(), lists.Filter(id),
					bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: 200 + i}}}}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if _, err := lists.Adopt(t.Context(), &outlier.AdoptOptions{BatchSize: 1, Filter: bson.D{{Key: "skip", Value: false}}}); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := lists.Repair(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for id := range parents {
		items := collect(t, lists.Items(t.Context(), id))
		slices.Sort(items)
		if diff := cmp.Diff(slices.Concat(ints(0, 20), ints(100, 105), ints(200, 205)), items); diff != "" {
			t.Error(id, diff)
		}
	}
	healthy(t, lists)
}

func TestDistribution(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 5})
	empty, err := lists.Distribution(t.Context(), nil, 3)
	if diff := cmp.Diff(outlier.Distribution{Caps: []outlier.Cap{{MaxCount: 3}}}, empty); err != nil || diff != "" {
		t.Error(err, diff)
	}
	insert(t, db, bson.D{{Key: "_id", Value: "no"}}, bson.D{{Key: "_id", Value: "text"}, {Key: "items", Value: "x"}}, bson.D{{Key: "_id", Value: "null"}, {Key: "items", Value: nil}})
	for id, n := range []int{1, 2, 3, 3, 4, 10, 25} {
		insert(t, db, bson.D{{Key: "_id", Value: id}})
		if _, err := lists.AddMany(t.Context(), id, ints(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := lists.Distribution(t.Context(), nil, 3, 10, 100)
	want := outlier.Distribution{Documents: 10, Elements: 48, Longest: 25, Caps: []outlier.Cap{
		{MaxCount: 3, Outliers: 3, Inside: 18, Outside: 30, OverflowDocuments: 1 + 3 + 8},
		{MaxCount: 10, Outliers: 1, Inside: 33, Outside: 15, OverflowDocuments: 2},
		{MaxCount: 100, Inside: 48},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	usual, err := lists.Distribution(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 5}}}})
	if err != nil || len(usual.Caps) != 13 || usual.Caps[0].MaxCount != 10 || usual.Caps[12].MaxCount != 100_000 || usual.Documents != 2 || usual.Caps[0].Outliers != 1 {
		t.Errorf("%+v, %v", usual, err)
	}
	if _, err := lists.Distribution(t.Context(), nil, 3, 0); !errors.Is(err, outlier.ErrInvalid) || err.Error() != "outlier: distribution: maxCounts[1]: invalid: not positive" {
		t.Error(err)
	}
}

// A total that is too small does not fold more back than the parent takes.
func TestRemoveWithWrongTotal(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, int](t, db, &outlier.Options{MaxCount: 4})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	if _, err := lists.AddMany(t.Context(), 1, ints(0, 9)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("parents").UpdateOne(t.Context(), lists.Filter(1), bson.D{{Key: "$set", Value: bson.D{{Key: "items_total", Value: 3}}}}); err != nil {
		t.Fatal(err)
	}
	if removed, err := lists.Remove(t.Context(), 1, 8); err != nil || !removed {
		t.Fatal(removed, err)
	}
	if diff := cmp.Diff([]string{`list 1: wrong total: 2, want 8`}, problems(t, lists)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(ints(0, 8), collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
}
