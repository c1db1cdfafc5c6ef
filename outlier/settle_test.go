package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// A written list is a split list of 20 elements, with a copy of its parent from before the split.
type written struct {
	*outlier.Lists[int, int]
	parents, extras *mongo.Collection
	before          bson.D
}

// split empties the collections of db first, because the cases of a table share them.
func split(t *testing.T, db *mongo.Database, isSet bool, items []int) written {
	t.Helper()
	testkit.Empty(t, db)
	w := written{newLists[int, int](t, db, &outlier.Options{MaxCount: 10, Set: isSet}), db.Collection("parents"), db.Collection("extras"),
		bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: items}}}
	insert(t, w.parents, w.before)
	w.adopted(t)
	if n := testkit.Count(t, w.parents, w.OutliersFilter()); n != 1 {
		t.Fatal("it is not split")
	}
	return w
}

// takes reports whether a case of a table is one of a set, or of a list: in the small run it is one of the two, by its name.
func takes(isSet bool, name ...any) bool {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, scale.Seed(), name)
	return scale.Of(h.Sum64()>>32%2 == 0 == isSet, true, true)
}

// adopted requires that Adopt leaves nothing, and Check finds nothing.
func (w written) adopted(t *testing.T) {
	t.Helper()
	if result, err := w.Adopt(t.Context(), nil); err != nil || result.Failed+result.Remaining > 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	testkit.Healthy(t, w)
}

// holds requires the elements, in order, and nothing else.
func (w written) holds(t *testing.T, want []int) {
	t.Helper()
	equal(t, want, testkit.Collect(t, w.All(t.Context(), 1)))
	if n, err := w.Total(t.Context(), 1); err != nil || n != int64(len(want)) {
		t.Error(n, err)
	}
}

func (w written) replace(t *testing.T, doc any) {
	t.Helper()
	replace(t, w.parents, 1, doc)
}

func (w written) update(t *testing.T, operator string, value any) {
	t.Helper()
	set(t, w.parents, w.Filter(1), bson.D{{Key: operator, Value: bson.D{{Key: "items", Value: value}}}})
}

// A copy from before the split, which other code writes back, is the whole list, also if one writer or
// the other changes it before the next Adopt.
func TestWriteBackOfTheWholeList(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for name, x := range map[string]struct {
		change func(*testing.T, written)
		want   []int
	}{
		"nothing":         {func(*testing.T, written) {}, ints(0, 20)},
		"Add":             {func(t *testing.T, w written) { add(t, w.Lists, 1, 20) }, ints(0, 21)},
		"many Adds":       {func(t *testing.T, w written) { add(t, w.Lists, 1, ints(20, 60)...) }, ints(0, 60)},
		"Remove":          {func(t *testing.T, w written) { testkit.OK(t, testkit.ErrorOf(w.Remove(t.Context(), 1, 3))) }, without(ints(0, 20), 3)},
		"Remove of a new": {func(t *testing.T, w written) { testkit.OK(t, testkit.ErrorOf(w.Remove(t.Context(), 1, 19))) }, ints(0, 19)},
		"$pull":           {func(t *testing.T, w written) { w.update(t, "$pull", 3) }, without(ints(0, 20), 3)},
		"$push":           {func(t *testing.T, w written) { w.update(t, "$push", 20) }, ints(0, 21)},
		"$pull and Add": {func(t *testing.T, w written) {
			w.update(t, "$pull", 3)
			add(t, w.Lists, 1, 20)
		}, append(without(ints(0, 20), 3), 20)},
		"an edit": {func(t *testing.T, w written) {
			set(t, w.parents, w.Filter(1), bson.D{{Key: "$set", Value: bson.D{{Key: "items.4", Value: 44}}}})
		}, append(append(ints(0, 4), 44), ints(5, 20)...)},
		"other types": {func(t *testing.T, w written) {
			floats := bson.A{}
			for _, x := range ints(0, 20) {
				floats = append(floats, float64(x))
			}
			w.replace(t, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: floats}})
		}, ints(0, 20)},
		"another write back": {func(t *testing.T, w written) {
			w.adopted(t)
			w.replace(t, w.before)
			add(t, w.Lists, 1, 20)
		}, ints(0, 21)},
	} {
		for _, isSet := range []bool{false, true} {
			if !takes(isSet, name) {
				continue
			}
			t.Run(fmt.Sprint(name, ", set=", isSet), func(t *testing.T) {
				w := split(t, db, isSet, ints(0, 20))
				w.replace(t, w.before)
				x.change(t, w)
				w.adopted(t)
				w.holds(t, x.want)
			})
		}
	}
}

func without(xs []int, x int) []int {
	return slices.DeleteFunc(slices.Clone(xs), func(y int) bool { return x == y })
}

// Old code decodes a split parent into a struct and writes it back, so that the fields of an outlier are gone.
func TestWriteBackOfAStruct(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, adds := range []int{0, 3, 10, 60} {
		for _, work := range []*mongopatterns.Work{nil, {Filter: bson.M{"_id": 1}}} {
			for _, isSet := range []bool{false, true} {
				if !takes(isSet, adds, work == nil) {
					continue
				}
				w := split(t, db, isSet, ints(0, 20))
				var order struct {
					ID    int   `bson:"_id"`
					Items []int `bson:"items"`
				}
				testkit.OK(t, w.parents.FindOne(t.Context(), w.Filter(1)).Decode(&order))
				order.Items = append(order.Items, 20)
				w.replace(t, order)
				if got := problems(t, w.Lists, nil); len(got) != 1 {
					t.Error(got)
				}
				for i := range adds {
					add(t, w.Lists, 1, 21+i)
				}
				if result, err := w.Adopt(t.Context(), work); err != nil || result.Failed+result.Remaining > 0 {
					t.Errorf("%+v, %v", result, err)
				}
				w.holds(t, ints(0, 21+adds))
				testkit.Healthy(t, w)
			}
		}
	}
}

// Old code that keeps fields it does not know writes a split parent back after elements have moved.
func TestWriteBackAfterAMove(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, pushes := range []int{0, 3, 6, 20} {
		for _, isSet := range []bool{false, true} {
			w := split(t, db, isSet, ints(0, 20))
			var doc struct {
				Items []int  `bson:"items"`
				Rest  bson.M `bson:",inline"`
			}
			testkit.OK(t, w.parents.FindOne(t.Context(), w.Filter(1)).Decode(&doc))
			for i := range pushes {
				w.update(t, "$push", 20+i)
			}
			w.adopted(t)
			doc.Items = append(doc.Items, ints(20, 21+pushes)...)
			w.replace(t, doc)
			w.adopted(t)
			w.holds(t, ints(0, 21+pushes))
		}
	}
}

// Where content does not say which elements to drop, the list stays as it is, and every way to it says so, until
// somebody decides.
func TestUnclear(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	again := func(xs ...int) func(*testing.T, written) {
		return func(t *testing.T, w written) { w.replace(t, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: xs}}) }
	}
	ones := make([]int, 20)
	for name, x := range map[string]struct {
		items  []int
		change func(*testing.T, written)
	}{
		"the first is taken out":       {ints(0, 20), again(ints(1, 20)...)},
		"the last is taken out":        {ints(0, 20), again(without(ints(0, 20), 14)...)},
		"half is taken out":            {ints(0, 20), again(append([]int{0}, ints(9, 20)...)...)},
		"in another order":             {ints(0, 20), again(append([]int{0, 2, 1}, ints(3, 20)...)...)},
		"from after the split, with 3": {ints(0, 20), again(15, 16, 17, 18, 19, 3)},
		"equal elements":               {ones, again(ones...)},
		"a run again and again":        {slices.Repeat([]int{1, 2, 3, 4, 5}, 4), again(slices.Repeat([]int{1, 2, 3, 4, 5}, 4)...)},
		"after a move that adds on": {ints(0, 20), func(t *testing.T, w written) {
			doc := testkit.One[bson.Raw](t, w.parents, 1)
			add(t, w.Lists, 1, ints(20, 29)...)
			w.replace(t, doc)
			add(t, w.Lists, 1, ints(30, 39)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := split(t, db, false, x.items)
			x.change(t, w)
			stands := testkit.One[bson.Raw](t, w.parents, 1)
			count := testkit.Count(t, w.extras, bson.D{})
			for _, work := range []*mongopatterns.Work{{DryRun: true}, {Filter: bson.M{"_id": 1}}, nil} {
				for of, call := range map[string]func() (mongopatterns.Result, error){
					"Adopt":  func() (mongopatterns.Result, error) { return w.Adopt(t.Context(), work) },
					"Repair": func() (mongopatterns.Result, error) { return w.Repair(t.Context(), work) },
				} {
					if result, err := call(); err != nil || result.Remaining != 1 || result.Done+result.Failed != 0 {
						t.Errorf("%s, %+v: %+v, %v", of, work, result, err)
					}
				}
			}
			found := testkit.Collect(t, w.Check(t.Context(), nil))
			if len(found) == 0 || found[0].Kind != outlier.Unclear {
				t.Error(found)
			}
			_, flagged := stands.Lookup("items_overflow").BooleanOK()
			if !flagged {
				if _, err := w.Add(t.Context(), 1, ints(100, 110)...); !errors.Is(err, mongopatterns.ErrNotAdopted) {
					t.Error(err)
				}
			}
			if now := testkit.One[bson.Raw](t, w.parents, 1); !slices.Equal(now, stands) || testkit.Count(t, w.extras, bson.D{}) != count {
				t.Error(now, stands)
			}
			if flagged {
				return
			}

			// It is the newest part.
			array := testkit.One[struct{ Items []int }](t, w.parents, 1).Items
			if name == "equal elements" {
				set(t, w.parents, w.Filter(1), bson.D{{Key: "$set", Value: bson.D{{Key: "items_moved", Value: bson.NewObjectID()}}}})
				w.adopted(t)
				w.holds(t, append(x.items[:15], array...))
				return
			}
			// It is the whole list.
			if _, err := w.extras.DeleteMany(t.Context(), w.OverflowFilter(1)); err != nil {
				t.Error(err)
			}
			w.adopted(t)
			w.holds(t, array)
		})
	}
}

// A parent that counts more elements than lie outside is left until Repair, because elements are lost: here old code
// has overwritten those that had returned to the array.
func TestLacks(t *testing.T) {
	t.Parallel()
	w := split(t, mongotest.Database(t), false, ints(0, 20))
	doc := testkit.One[bson.Raw](t, w.parents, 1)
	for x := range 13 {
		testkit.OK(t, testkit.ErrorOf(w.Remove(t.Context(), 1, x)))
	}
	w.holds(t, ints(13, 20))
	w.replace(t, doc)
	if result, err := w.Adopt(t.Context(), nil); err != nil || result.Remaining != 1 || result.Done != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	equal(t, []string{"1: wrong flag: items_overflow is true: 0 overflow documents"}, problems(t, w.Lists, nil))
	if result, err := w.Repair(t.Context(), nil); err != nil || result.Done != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	w.adopted(t)
	w.holds(t, ints(15, 20))
}

// In a transaction of the caller's, an Add that would have to move elements out of a parent that was written back is
// refused.
func TestWrittenBackInATransaction(t *testing.T) {
	t.Parallel()
	w := split(t, mongotest.Database(t), false, ints(0, 20))
	w.replace(t, w.before)
	err := mongopatterns.Transact(t.Context(), w.parents.Database().Client(), func(ctx context.Context) error {
		_, err := w.Add(ctx, 1, 20)
		return err
	})
	if !errors.Is(err, mongopatterns.ErrNotAdopted) {
		t.Error(err)
	}
	w.adopted(t)
	w.holds(t, ints(0, 20))
}

// Old code pushes, pulls and writes copies back of any age and kind, beside the calls, in any order: nothing is doubled
// or lost unless Adopt leaves the list, Check names it or a call refuses it.
func TestWriteBackModel(t *testing.T) {
	mongotest.URI(t)
	t.Parallel()
	for seed := range uint64(scale.Of(2, 16, 400)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := split(t, mongotest.Database(t), seed%2 == 1, ints(0, 20))
			m := backs{written: w, random: rand.New(rand.NewPCG(seed, scale.Seed())), next: 20, must: map[int]bool{}, may: map[int]bool{}}
			for _, x := range ints(0, 20) {
				m.must[x] = true
			}
			m.copies = append(m.copies, held{doc: w.before, whole: true})
			for range scale.Of(40, 80, 200) {
				m.step(t, seed%2 == 1)
			}
			m.settled(t)
		})
	}
}

// backs is what the lists of TestWriteBackModel must hold. Every element is another number.
type backs struct {
	written
	random    *rand.Rand
	next      int
	must, may map[int]bool // may: what was taken out where it did not reach, or was written over
	copies    []held
	whole     bool // the last copy that was written back
	stale     bool // that one counts what lay outside before elements moved
}

// held is a copy of the parent that old code holds.
type held struct {
	doc   bson.D
	whole bool // it has the whole list
}

// stored returns what the parent and the overflow documents hold, and the parent.
func (m *backs) stored(t *testing.T) (inside, outside []int, doc bson.D) {
	t.Helper()
	testkit.OK(t, m.parents.FindOne(t.Context(), m.Filter(1)).Decode(&doc))
	inside = testkit.One[struct{ Items []int }](t, m.parents, 1).Items
	for _, extra := range testkit.Find[struct{ Items []int }](t, m.extras, bson.D{}) {
		outside = append(outside, extra.Items...)
	}
	return inside, outside, doc
}

func (m *backs) fresh(n int) (xs []int) {
	xs = ints(m.next, m.next+n)
	m.next += n
	return xs
}

func (m *backs) added(xs []int) {
	for _, x := range xs {
		m.must[x] = true
	}
}

// removed notes that x was taken out; where it is still stored, it may return.
func (m *backs) removed(t *testing.T, x int) {
	t.Helper()
	delete(m.must, x)
	if inside, outside, _ := m.stored(t); slices.Contains(append(inside, outside...), x) {
		m.may[x] = true
	}
}

func (m *backs) step(t *testing.T, isSet bool) {
	t.Helper()
	inside, outside, doc := m.stored(t)
	switch m.random.IntN(9) {
	case 0, 1:
		xs := m.fresh(1 + m.random.IntN(3))
		for _, x := range xs {
			m.update(t, "$push", x)
		}
		m.added(xs)
	case 2, 3:
		xs := m.fresh(1 + m.random.IntN(6))
		if n, err := m.Add(t.Context(), 1, xs...); err == nil && n == int64(len(xs)) {
			m.added(xs)
		} else if !errors.Is(err, mongopatterns.ErrNotAdopted) {
			t.Fatal(n, err)
		}
	case 4:
		if len(inside) > 0 {
			x := inside[m.random.IntN(len(inside))]
			m.update(t, "$pull", x)
			m.removed(t, x)
		}
	case 5:
		all := append(slices.Clone(outside), inside...)
		if len(all) == 0 {
			return
		}
		x := all[m.random.IntN(len(all))]
		if removed, err := m.Remove(t.Context(), 1, x); err == nil && removed {
			m.removed(t, x)
		} else if err != nil && !errors.Is(err, mongopatterns.ErrNotAdopted) {
			t.Fatal(err)
		}
	case 6:
		_, flagged := testkit.Raw(t, doc).Lookup("items_overflow").BooleanOK()
		m.copies = append(m.copies, held{doc, len(outside) == 0 || !flagged && m.whole})
	case 7:
		m.writeBack(t, m.copies[m.random.IntN(len(m.copies))], inside, outside, doc, isSet)
	case 8:
		m.settled(t)
	}
}

// writeBack writes a copy, possibly without the fields that this package has added, and with a further element or
// without one.
func (m *backs) writeBack(t *testing.T, copied held, inside, outside []int, now bson.D, isSet bool) {
	t.Helper()
	var copyOf struct {
		Items []int
		Rest  bson.M `bson:",inline"`
	}
	data, err := bson.Marshal(copied.doc)
	testkit.OK(t, err)
	testkit.OK(t, bson.Unmarshal(data, &copyOf))
	if m.random.IntN(2) == 0 {
		copyOf.Rest = bson.M{"_id": 1}
	}
	moved := copyOf.Rest["items_moved"]
	stale := !isSet && moved != nil && moved != testkit.One[bson.M](t, m.parents, 1)["items_moved"]
	if stale && int(copyOf.Rest["items_outside"].(int32)) == len(outside) || m.stale {
		return // it must not: the number outside is right by chance, or Adopt has not run since
	}
	m.stale = stale
	switch m.random.IntN(3) {
	case 0:
		copyOf.Items = append(copyOf.Items, m.fresh(1)...)
	case 1:
		if len(copyOf.Items) > 0 {
			i := m.random.IntN(len(copyOf.Items))
			copyOf.Items = slices.Delete(copyOf.Items, i, i+1)
		}
	}
	m.replace(t, copyOf)
	m.whole = copied.whole
	must := map[int]bool{}
	for _, x := range copyOf.Items {
		must[x] = true
	}
	for _, x := range outside { // a whole list has none of its own there
		if m.must[x] && !copied.whole {
			must[x] = true
		}
		m.may[x] = true
	}
	m.must = must
}

// settled adopts, and compares if nothing speaks against it.
func (m *backs) settled(t *testing.T) {
	t.Helper()
	m.stale = false
	result, err := m.Adopt(t.Context(), nil)
	if err != nil || result.Failed > 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	found := testkit.Collect(t, m.Check(t.Context(), nil))
	if result.Remaining > 0 != (len(found) > 0) && (result.Remaining > 0 || found[0].Kind != mongopatterns.Duplicate) {
		t.Fatalf("%+v, %v", result, found)
	}
	if len(found) > 0 {
		result, err = m.Repair(t.Context(), nil)
		testkit.OK(t, err)
	}
	all := testkit.Collect(t, m.All(t.Context(), 1))
	if result.Remaining > 0 { // somebody decides
		inside, outside, _ := m.stored(t)
		all = nil
		for _, x := range append(outside, inside...) {
			if !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
		m.replace(t, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: all}})
		_, err := m.extras.DeleteMany(t.Context(), bson.D{})
		testkit.OK(t, err)
		m.copies = m.copies[:1]
		m.adopted(t)
	}
	m.holds(t, all)
	testkit.Healthy(t, m.Lists)
	is := map[int]bool{}
	for _, x := range all {
		if is[x] || !m.must[x] && !m.may[x] {
			t.Errorf("%d is doubled, or has returned: %v", x, all)
		}
		is[x] = true
	}
	for x := range m.must {
		if !is[x] {
			t.Errorf("%d is lost: %v", x, all)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	m.must, m.may = is, map[int]bool{}
}

// A newest part of equal elements begins with what lies outside, too. It is not taken for the whole list.
func TestNewestPartOfEqualElements(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ added, removed, newest []string }{
		{[]string{"a", "b", "x", "x", "x"}, []string{"a", "b"}, []string{"x", "x"}},
		{[]string{"a", "b", "c", "a", "b", "c"}, nil, []string{"a", "b", "c"}},
	} {
		ctx, db := t.Context(), mongotest.Database(t)
		lists := newLists[int, string](t, db, &outlier.Options{MaxCount: 4, FoldBack: -1})
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
		for _, x := range test.added {
			add(t, lists, 1, x)
		}
		for _, x := range test.removed {
			testkit.Must(lists.Remove(ctx, 1, x))
		}
		newest := testkit.Stored[struct{ Items []string }](t, db.Collection("parents"))[0].Items
		equal(t, test.newest, newest)
		testkit.Must(db.Collection("parents").ReplaceOne(ctx, bson.D{}, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: newest}}))
		before := testkit.Stored[bson.D](t, db.Collection("extras"))
		if result, err := lists.Adopt(ctx, nil); err != nil || result.Remaining != 1 || result.Done != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		equal(t, before, testkit.Stored[bson.D](t, db.Collection("extras")))
		if found := problems(t, lists, nil); len(found) != 1 || !strings.Contains(found[0], "unclear") {
			t.Error(found)
		}
	}
}

// A program that reads documents into Go maps writes them back with their fields in another order. They are the same
// elements, which Adopt does not take for new ones.
func TestWrittenBackThroughMaps(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, bson.D](t, db, &outlier.Options{MaxCount: 4})
	element := func(i int) bson.D {
		return bson.D{{Key: "a", Value: i}, {Key: "b", Value: bson.D{{Key: "x", Value: i}, {Key: "y", Value: i}}}}
	}
	turned := func(i int) bson.D {
		return bson.D{{Key: "b", Value: bson.D{{Key: "y", Value: i}, {Key: "x", Value: i}}}, {Key: "a", Value: i}}
	}
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	add(t, lists, 1, element(0), element(1), element(2), element(3))
	add(t, lists, 1, element(4)) // three lie outside
	replace(t, db.Collection("parents"), 1, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{turned(0), turned(1), turned(2), turned(3), turned(9)}}})
	if _, err := lists.Adopt(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if total, err := lists.Total(t.Context(), 1); err != nil || total != 5 {
		t.Errorf("%d elements, %v, want 5", total, err)
	}
}
