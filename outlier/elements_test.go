package outlier_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Elements of every kind are data: found, refused as duplicates and removed by
// equality alone, inside and outside, with their types kept.
func TestElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[string, any](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 5, Set: true, FoldBack: -1})
	insert(t, db, bson.D{{Key: "_id", Value: "in"}}, bson.D{{Key: "_id", Value: "out"}, {Key: "items", Value: bson.A{"a", "b", "c", "d"}}})
	decimal, err := bson.ParseDecimal128("2.5")
	if err != nil {
		t.Fatal(err)
	}
	elements := []any{
		"$items", "$$ROOT", "", int32(1), int64(1 << 40), 1.5, decimal, true, nil,
		bson.NewObjectID(), bson.NewDateTimeFromTime(time.Unix(1700000000, 0)), bson.Binary{Data: []byte{1}},
		bson.Regex{Pattern: "^a"},
		bson.D{{Key: "email", Value: "a@example.org"}, {Key: "rooms", Value: bson.A{int32(1)}}},
		bson.D{{Key: "$each", Value: bson.A{int32(7)}}},
		bson.D{{Key: "$gt", Value: ""}},
		bson.D{{Key: "$literal", Value: int32(1)}},
		bson.D{{Key: "0", Value: "x"}, {Key: "3", Value: "y"}}, // looks like a position
		bson.A{}, bson.A{int32(1), "x"},
	}
	for _, x := range elements {
		for _, id := range []string{"in", "out"} {
			contains := func(want bool) {
				t.Helper()
				if held, err := lists.Contains(t.Context(), id, x); err != nil || held != want {
					t.Fatalf("%s: %v: contains: %v, %v", id, x, held, err)
				}
			}
			contains(false)
			for _, want := range []bool{true, false} {
				if added, err := lists.Add(t.Context(), id, x); err != nil || added != want {
					t.Fatalf("%s: %v: added %v, %v", id, x, added, err)
				}
			}
			contains(true)
			if n, err := lists.AddMany(t.Context(), id, []any{x, "new", x, "new"}); err != nil || n != 1 {
				t.Fatalf("%s: %v: added %d, %v", id, x, n, err)
			}
			want := []any{x, "new"}
			if id == "out" {
				want = append([]any{"a", "b", "c", "d"}, want...)
			}
			got := collect(t, lists.Items(t.Context(), id))
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s: %v, want %v", id, got, want)
			}
			for _, y := range []any{x, "new"} {
				for _, want := range []bool{true, false} {
					if removed, err := lists.Remove(t.Context(), id, y); err != nil || removed != want {
						t.Fatalf("%s: %v: removed %v, %v", id, y, removed, err)
					}
				}
			}
			contains(false)
		}
	}
	// Equal to the server, and not.
	for _, id := range []string{"in", "out"} {
		add := func(x any, want bool) {
			t.Helper()
			if added, err := lists.Add(t.Context(), id, x); err != nil || added != want {
				t.Errorf("%s: %v: added %v, %v", id, x, added, err)
			}
		}
		add(int32(3), true)
		add(int64(3), false)
		add(3.0, false)
		add("3", true)
		add(bson.D{{Key: "x", Value: 1}, {Key: "y", Value: 2}}, true)
		if removed, err := lists.RemoveAll(t.Context(), id, int64(3)); err != nil || removed != 1 {
			t.Error(removed, err)
		}
	}
	healthy(t, lists)
}

// Parents are found by an _id of any type, as the server compares it.
func TestIDs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[any, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	ids := []any{1, 1.5, "1", "$x", bson.NewObjectID(), bson.D{{Key: "org", Value: "a"}, {Key: "n", Value: 1}}, bson.D{{Key: "$gt", Value: 0}}, time.UnixMilli(0).UTC(), false}
	for i, id := range ids {
		if _, ok := id.(bson.D); ok && i == 6 {
			continue // a server takes no such _id; reading finds none
		}
		insert(t, db, bson.D{{Key: "_id", Value: id}})
		if _, err := lists.AddMany(t.Context(), id, ints(0, 5)); err != nil {
			t.Fatalf("%v: %v", id, err)
		}
	}
	if _, err := lists.AddMany(t.Context(), int64(1), []int{5, 6}); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, lists.Items(t.Context(), 1.0)); !reflect.DeepEqual(got, ints(0, 7)) {
		t.Error(got)
	}
	if n, err := lists.Total(t.Context(), ids[6]); !errors.Is(err, outlier.ErrNotFound) {
		t.Error(n, err)
	}
	// What the overflow documents hold is the parent's _id, not the caller's.
	for _, doc := range stored(t, db.Collection("extras"), bson.D{{Key: "n", Value: 1}}) {
		if _, ok := doc[1].Value.(int64); ok {
			t.Error(doc)
		}
	}
	if err := lists.Delete(t.Context(), ids[5]); err != nil {
		t.Error(err)
	}
	if n, err := db.Collection("extras").CountDocuments(t.Context(), lists.OverflowFilter(ids[5])); err != nil || n != 0 {
		t.Error(n, err)
	}
	if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.Filter("$x")); err != nil || n != 1 {
		t.Error(n, err)
	}
	for _, id := range []any{nil, bson.A{1}, bson.Regex{Pattern: "."}, bson.Undefined{}, make(chan int)} {
		_, err := lists.AddMany(t.Context(), id, ints(0, 9))
		if !errors.Is(err, outlier.ErrInvalid) || !strings.Contains(err.Error(), "outlier: add: ID: ") {
			t.Errorf("%v: %v", id, err)
		}
	}
	healthy(t, lists)
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, any](t, db, &outlier.Options{MaxCount: 2})
	set := newLists[int, any](t, db, &outlier.Options{MaxCount: 2, Set: true})
	insert(t, db, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: "text"}},
		bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: bson.A{1, 2}}})
	invalid := func(err error, text string) {
		t.Helper()
		if !errors.Is(err, outlier.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	_, err := lists.AddMany(t.Context(), 1, []any{1, make(chan int)})
	invalid(err, "outlier: add: element 1: ")
	_, err = lists.Contains(t.Context(), 1, bson.Undefined{})
	invalid(err, "outlier: contains: element 0: ")
	_, err = set.Add(t.Context(), 1, strings.Repeat("x", 3<<20))
	invalid(err, "more than 2 MiB")
	for _, l := range []*outlier.Lists[int, any]{lists, set} {
		_, err = l.Add(t.Context(), 2, 1)
		invalid(err, `outlier: add: field "items": `)
		_, err = l.AddMany(t.Context(), 2, []any{1, 2, 3})
		invalid(err, `outlier: add: field "items": `)
		_, err = l.Remove(t.Context(), 2, 1)
		invalid(err, `outlier: remove: field "items": `)
	}
	for _, l := range []*outlier.Lists[int, any]{lists, set} {
		_, err = l.Contains(t.Context(), 2, 1)
		invalid(err, `outlier: contains: field "items": `)
		_, err = l.Total(t.Context(), 2)
		invalid(err, `outlier: total: field "items": `)
		_, err = l.Page(t.Context(), 2, 0, 1)
		invalid(err, `outlier: page: field "items": `)
		invalid(drain(l.Items(t.Context(), 2)), `outlier: items: field "items": `)
		invalid(l.Rebalance(t.Context(), 2), `outlier: rebalance: field "items": `)
	}
	// Too large for any document: nothing of the rest is stored either, nor in a
	// transaction that goes on.
	inTransaction(t, db, true, func(ctx context.Context) {
		_, err := lists.AddMany(ctx, 3, []any{3, 4, strings.Repeat("x", 16<<20)})
		invalid(err, "outlier: add: element 2: ")
	})
	if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter()); err != nil || n != 0 {
		t.Error(n, err)
	}
	if got := collect(t, lists.Items(t.Context(), 3)); len(got) != 2 {
		t.Error(got)
	}
	_, err = lists.Page(t.Context(), 3, -1, 1)
	invalid(err, "outlier: page: offset: ")
	_, err = lists.Page(t.Context(), 3, 0, 0)
	invalid(err, "outlier: page: limit: ")
	page, err := lists.Page(t.Context(), 3, 1<<62, 1<<62)
	if err != nil || page.Items == nil || len(page.Items) > 0 || page.Total != 2 || page.HasNext {
		t.Error(page, err)
	}
}

// A missing array and null, which is how Go stores a nil slice, are empty lists.
func TestNoArray(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, o := range []outlier.Options{{}, {Set: true}, {CountTypical: true}, {Set: true, CountTypical: true}} {
		o.MaxCount = 2
		lists := newLists[string, int](t, db, &o)
		if _, err := db.Collection("parents").DeleteMany(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
		insert(t, db, bson.D{{Key: "_id", Value: "missing"}}, bson.D{{Key: "_id", Value: "null"}, {Key: "items", Value: nil}})
		for _, id := range []string{"missing", "null"} {
			if removed, err := lists.Remove(t.Context(), id, 1); err != nil || removed {
				t.Error(removed, err)
			}
			if n, err := lists.RemoveAll(t.Context(), id, 1); err != nil || n != 0 {
				t.Error(n, err)
			}
			if held, err := lists.Contains(t.Context(), id, 1); err != nil || held {
				t.Error(held, err)
			}
			if got := collect(t, lists.Items(t.Context(), id)); len(got) > 0 {
				t.Error(got)
			}
			page, err := lists.Page(t.Context(), id, 0, 5)
			if err != nil || len(page.Items) > 0 || page.Items == nil {
				t.Error(page, err)
			}
			record(t, db, 1, []string{"update"}, func() error { _, err := lists.Add(t.Context(), id, 1); return err })
			if n, err := lists.Total(t.Context(), id); err != nil || n != 1 {
				t.Error(n, err)
			}
		}
		healthy(t, lists)
	}
}

// Bytes bound parents and overflow documents as well as counts do.
func TestBytes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, set := range []bool{false, true} {
		lists := newLists[string, string](t, db, &outlier.Options{MaxBytes: 1000, OverflowMaxBytes: 500, Set: set})
		if err := db.Collection("parents").Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		insert(t, db, bson.D{{Key: "_id", Value: "one"}}, bson.D{{Key: "_id", Value: "many"}})
		var all []string
		for i := range 20 {
			all = append(all, strings.Repeat(string(rune('a'+i)), 85)) // 100 bytes with what is around it
		}
		all[12] = strings.Repeat("large", 200)
		for _, x := range all {
			if _, err := lists.Add(t.Context(), "one", x); err != nil {
				t.Fatal(err)
			}
		}
		// More than any parent takes is not tried there.
		record(t, db, 2+4, []string{"findAndModify", "find", "insert", "update", "commitTransaction"}, func() error {
			_, err := lists.AddMany(t.Context(), "many", all)
			return err
		})
		for _, id := range []string{"one", "many"} {
			if diff := cmp.Diff(all, collect(t, lists.Items(t.Context(), id))); diff != "" {
				t.Error(diff)
			}
			var sizes []int
			cursor, err := db.Collection("parents").Find(t.Context(), lists.Filter(id))
			if err != nil {
				t.Fatal(err)
			}
			extras, err := db.Collection("extras").Find(t.Context(), lists.OverflowFilter(id), findByNumber())
			if err != nil {
				t.Fatal(err)
			}
			for cursor.Next(t.Context()) {
				sizes = append(sizes, elementsIn(cursor.Current))
			}
			for extras.Next(t.Context()) {
				sizes = append(sizes, elementsIn(extras.Current))
			}
			// The large one alone. AddMany reckons with longer positions.
			want := map[string][]int{"one": {10, 2, 1, 5, 2}, "many": {9, 3, 1, 4, 3}}
			if diff := cmp.Diff(want[id], sizes); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
		// Not folded back while it is too large, although there are few, nor read.
		record(t, db, 1, []string{"update", "findAndModify", "commitTransaction"}, func() error {
			_, err := lists.Remove(t.Context(), "one", all[0])
			return err
		})
		if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter()); err != nil || n != 2 {
			t.Error(n, err)
		}
		for _, x := range all[1:17] {
			if _, err := lists.Remove(t.Context(), "one", x); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter()); err != nil || n != 1 {
			t.Error(n, err)
		}
		if diff := cmp.Diff(all[17:], collect(t, lists.Items(t.Context(), "one"))); diff != "" {
			t.Error(diff)
		}
		// Nor while what lies outside is too large.
		for _, x := range all[:10] {
			if _, err := lists.Remove(t.Context(), "many", x); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.OutliersFilter()); err != nil || n != 1 {
			t.Error(n, err)
		}
		healthy(t, lists)
		if err := lists.Delete(t.Context(), "many"); err != nil {
			t.Fatal(err)
		}
	}
}

func findByNumber() *options.FindOptionsBuilder {
	return options.Find().SetSort(bson.D{{Key: "n", Value: 1}})
}

func elementsIn(doc bson.Raw) int {
	values, _ := doc.Lookup("items").Array().Values()
	return len(values)
}

// Bytes are elements, too, not the list as a whole.
func TestBytesAsElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, byte](t, db, &outlier.Options{MaxCount: 2})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	if _, err := lists.AddMany(t.Context(), 1, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	page, err := lists.Page(t.Context(), 1, 1, 5)
	if diff := cmp.Diff([]byte{2, 3}, page.Items); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff([]byte{1, 2, 3}, collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
}

type celsius float64

// registry writes celsius as text, and reads it back.
func registry() *bson.Registry {
	r := bson.NewRegistry()
	kind := reflect.TypeFor[celsius]()
	r.RegisterTypeEncoder(kind, bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteString(strings.Repeat("i", int(v.Float())))
	}))
	r.RegisterTypeDecoder(kind, bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		s, err := r.ReadString()
		v.SetFloat(float64(len(s)))
		return err
	}))
	return r
}

// The user's codecs are used for IDs and elements, both ways.
func TestRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRegistry(registry()))
	lists := newLists[celsius, celsius](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, Set: true, Registry: registry()})
	insert(t, db, bson.D{{Key: "_id", Value: "iiii"}})
	all := []celsius{1, 2, 3, 4, 5}
	if _, err := lists.AddMany(t.Context(), 4, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, collect(t, lists.Items(t.Context(), 4))); diff != "" {
		t.Error(diff)
	}
	page, err := lists.Page(t.Context(), 4, 1, 3)
	if diff := cmp.Diff(all[1:4], page.Items); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if held, err := lists.Contains(t.Context(), 4, 5); err != nil || !held {
		t.Error(held, err)
	}
	if removed, err := lists.Remove(t.Context(), 4, 5); err != nil || !removed {
		t.Error(removed, err)
	}
	if n, err := db.Collection("parents").CountDocuments(t.Context(), lists.Filter(4)); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// Elements are equal if they are by the collections' collation.
func TestCollation(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, name := range []string{"parents", "extras"} {
		if err := db.CreateCollection(t.Context(), name, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})); err != nil {
			t.Fatal(err)
		}
	}
	lists := newLists[int, string](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, Set: true, FoldBack: -1})
	insert(t, db, bson.D{{Key: "_id", Value: 1}})
	n, err := lists.AddMany(t.Context(), 1, []string{"Ann", "ANN", "Bob", "Cem", "cem", "Dan", "Eva"})
	if err != nil || n != 5 {
		t.Fatal(n, err)
	}
	for _, x := range []string{"ann", "eva"} {
		if added, err := lists.Add(t.Context(), 1, x); err != nil || added {
			t.Error(x, added, err)
		}
		if held, err := lists.Contains(t.Context(), 1, x); err != nil || !held {
			t.Error(x, held, err)
		}
	}
	if n, err := lists.AddMany(t.Context(), 1, []string{"bob", "dan", "Fay", "FAY"}); err != nil || n != 1 {
		t.Error(n, err)
	}
	for _, x := range []string{"bob", "dan"} {
		if removed, err := lists.Remove(t.Context(), 1, x); err != nil || !removed {
			t.Error(x, removed, err)
		}
	}
	if diff := cmp.Diff([]string{"Ann", "Cem", "Eva", "Fay"}, collect(t, lists.Items(t.Context(), 1))); diff != "" {
		t.Error(diff)
	}
	healthy(t, lists)
}

// An array of too many bytes is found, and split.
func TestAdoptBytes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[string, string](t, db, &outlier.Options{MaxBytes: 1000, OverflowMaxBytes: 500})
	all := make([]string, 15)
	for i := range all {
		all[i] = strings.Repeat(string(rune('a'+i)), 85)
	}
	insert(t, db, bson.D{{Key: "_id", Value: "plain"}, {Key: "items", Value: all}})
	if diff := cmp.Diff([]string{`list "plain": over bounds: 1413, want 1000`}, problems(t, lists)); diff != "" {
		t.Error(diff)
	}
	// Of what a filter selects, what needs it.
	insert(t, db, bson.D{{Key: "_id", Value: "other"}, {Key: "items", Value: all}}, bson.D{{Key: "_id", Value: "small"}})
	if result, err := lists.Adopt(t.Context(), &outlier.AdoptOptions{Filter: bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: "other"}}}}}); err != nil || result != (outlier.AdoptResult{Examined: 1, Adopted: 1}) {
		t.Error(result, err)
	}
	if _, err := db.Collection("parents").DeleteOne(t.Context(), lists.Filter("other")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, collect(t, lists.Items(t.Context(), "plain"))); diff != "" {
		t.Error(diff)
	}
	if n, err := db.Collection("extras").CountDocuments(t.Context(), bson.D{}); err != nil || n != 2 {
		t.Error(n, err)
	}
	healthy(t, lists)
}
