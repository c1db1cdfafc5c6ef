package outlier_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// Elements of every kind are data: they are found, refused as duplicates and removed by
// equality alone, inside and outside, and keep their types.
func TestElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[string, any](t, db, &outlier.Options{MaxCount: 4, OverflowMaxCount: 5, Set: true, FoldBack: -1})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "in"}}, bson.D{{Key: "_id", Value: "out"}})
	decimal, err := bson.ParseDecimal128("2.5")
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []any{
		"$items", "$$ROOT", "", int32(1), int64(1 << 40), 1.5, decimal, true, nil,
		bson.NewObjectID(), bson.NewDateTimeFromTime(time.Unix(1700000000, 0)), bson.Binary{Data: []byte{1}},
		bson.Regex{Pattern: "^a"},
		bson.D{{Key: "email", Value: "a@example.org"}, {Key: "rooms", Value: bson.A{int32(1)}}},
		bson.D{{Key: "$each", Value: bson.A{int32(7)}}},
		bson.D{{Key: "$gt", Value: ""}},
		bson.D{{Key: "$literal", Value: int32(1)}},
		bson.D{{Key: "0", Value: "x"}, {Key: "a.b", Value: "y"}},
		bson.A{}, bson.A{int32(1), "x"},
	} {
		for j, id := range []string{"in", "out"} {
			if !scale.Turn(i+j, 2) {
				continue
			}
			contains := func(want bool) {
				t.Helper()
				if held, err := lists.Contains(t.Context(), id, x); err != nil || held != want {
					t.Fatalf("%s: %v: contains: %v, %v", id, x, held, err)
				}
			}
			contains(false)
			for _, want := range []int64{1, 0} {
				if n, err := lists.Add(t.Context(), id, x); err != nil || n != want {
					t.Fatalf("%s: %v: added %v, %v", id, x, n, err)
				}
			}
			more := []any{"new"}
			if id == "out" { // moves x out
				more = []any{"a", "b", "c", "new"}
			}
			contains(true)
			if n, err := lists.Add(t.Context(), id, append(more, x, x, "new")...); err != nil || n != int64(len(more)) {
				t.Fatalf("%s: %v: added %d, %v", id, x, n, err)
			}
			contains(true)
			if n, err := lists.Add(t.Context(), id, x); err != nil || n != 0 {
				t.Fatalf("%s: %v: added %v, %v", id, x, n, err)
			}
			more = append([]any{x}, more...)
			if got := testkit.Collect(t, lists.All(t.Context(), id)); !reflect.DeepEqual(more, got) {
				t.Fatalf("%s: %v, want %v", id, got, more)
			}
			if page, err := lists.Slice(t.Context(), id, 0, 9); err != nil || !reflect.DeepEqual(more, page.Items) {
				t.Fatalf("%s: %v, want %v, %v", id, page.Items, more, err)
			}
			for _, y := range more {
				for _, want := range []bool{true, false} {
					if removed, err := lists.Remove(t.Context(), id, y); err != nil || removed != want {
						t.Fatalf("%s: %v: removed %v, %v", id, y, removed, err)
					}
				}
			}
			contains(false)
		}
	}
	for _, id := range []string{"in", "out"} { // equal on the server, and not equal
		for _, x := range []struct {
			x    any
			want int64
		}{{int32(3), 1}, {int64(3), 0}, {3.0, 0}, {"3", 1}} {
			if n, err := lists.Add(t.Context(), id, x.x); err != nil || n != x.want {
				t.Errorf("%s: %v: added %v, %v", id, x.x, n, err)
			}
		}
	}
	testkit.Healthy(t, lists)
}

// Parents are found by an _id of any type, as the server compares it.
func TestIDs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[any, int](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2})
	for _, id := range []any{1, 1.5, "1", "$x", bson.NewObjectID(), bson.D{{Key: "org", Value: "a"}}, time.UnixMilli(0).UTC(), false} {
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: id}})
		add(t, lists, id, ints(0, 5)...)
		equal(t, ints(0, 5), testkit.Collect(t, lists.All(t.Context(), id)))
	}
	add[any](t, lists, int64(1), 5, 6, 7)
	if _, err := lists.Total(t.Context(), bson.D{{Key: "$gt", Value: 0}}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	for _, doc := range stored(t, db.Collection("extras"), nil) {
		if _, ok := doc[1].Value.(int64); ok {
			t.Error("the caller's _id, not the parent's:", doc)
		}
	}
	if n := testkit.Count(t, db.Collection("parents"), lists.Filter("$x")); n != 1 {
		t.Error(n)
	}
	for _, id := range []any{nil, bson.A{1}, bson.Regex{Pattern: "."}, bson.Undefined{}, make(chan int)} {
		if _, err := lists.Add(t.Context(), id, 1); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "outlier: add: ") {
			t.Errorf("%v: %v", id, err)
		}
	}
	testkit.Healthy(t, lists)
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, any](t, db, &outlier.Options{MaxCount: 2, Set: true})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: "text"}})
	_, channel := lists.Add(t.Context(), 1, 1, make(chan int))
	_, undefined := lists.Contains(t.Context(), 1, bson.Undefined{})
	_, large := lists.Add(t.Context(), 1, strings.Repeat("x", 3<<20))
	_, many := lists.Add(t.Context(), 1, make([]any, 1001)...)
	_, offset := lists.Slice(t.Context(), 1, -1, 1)
	_, limit := lists.Slice(t.Context(), 1, 0, 0)
	_, pipeline := lists.ContainingPipeline(make(chan int))
	for i, err := range []error{channel, undefined, large, many, offset, limit, pipeline} {
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "outlier: ") {
			t.Errorf("%d: %v", i, err)
		}
	}
	// Where the field is not an array, the error names the _id.
	_, add := lists.Add(t.Context(), 2, 1)
	_, remove := lists.Remove(t.Context(), 2, 1)
	_, contains := lists.Contains(t.Context(), 2, 1)
	_, total := lists.Total(t.Context(), 2)
	for i, err := range []error{add, remove, contains, total} {
		if !errors.Is(err, mongopatterns.ErrMalformed) || !strings.Contains(err.Error(), ": _id 2: ") {
			t.Errorf("%d: %v", i, err)
		}
	}
	page, err := lists.Slice(t.Context(), 1, 1<<62, 1<<62)
	if err != nil || page.Items == nil || len(page.Items) > 0 || page.HasNext {
		t.Error(page, err)
	}
	if n := testkit.Count(t, db.Collection("extras"), bson.D{}); n != 0 {
		t.Error(n)
	}
}

// A missing array and null, which is how Go stores a nil slice, are empty lists.
func TestNoArray(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for i, o := range []outlier.Options{{}, {Set: true}} {
		o.MaxCount = 2
		lists := newLists[int, int](t, db, &o)
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 2 * i}}, bson.D{{Key: "_id", Value: 2*i + 1}, {Key: "items", Value: nil}})
		for _, id := range []int{2 * i, 2*i + 1} {
			if removed, err := lists.Remove(t.Context(), id, 1); err != nil || removed {
				t.Error(removed, err)
			}
			if held, err := lists.Contains(t.Context(), id, 1); err != nil || held {
				t.Error(held, err)
			}
			page, err := lists.Slice(t.Context(), id, 0, 5)
			if err != nil || len(page.Items) > 0 || page.Items == nil || len(testkit.Collect(t, lists.All(t.Context(), id))) > 0 {
				t.Error(page, err)
			}
			add(t, lists, id, 1)
			if n, err := lists.Total(t.Context(), id); err != nil || n != 1 {
				t.Error(n, err)
			}
		}
	}
}

// Bytes bound parents and overflow documents as well as counts do.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, isSet := range []bool{false, true} {
		db := mongotest.Database(t)
		lists := newLists[int, string](t, db, &outlier.Options{MaxBytes: 1000, OverflowMaxBytes: 500, Set: isSet})
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}})
		var all []string
		for i := range 20 {
			all = append(all, strings.Repeat(string(rune('a'+i)), 85)) // 92 bytes in the array
		}
		all[12] = strings.Repeat("large", 240)
		for _, x := range all {
			add(t, lists, 1, x)
		}
		add(t, lists, 2, all...)
		for id := 1; id <= 2; id++ {
			equal(t, all, testkit.Collect(t, lists.All(t.Context(), id)))
		}
		for _, coll := range []*mongo.Collection{db.Collection("parents"), db.Collection("extras")} {
			for _, doc := range stored(t, coll, nil) {
				raw, err := bson.Marshal(doc)
				if items, _ := bson.Raw(raw).Lookup("items").Array().Values(); err != nil || len(items) != 1 && (len(raw) > 1100 || coll.Name() == "extras" && len(raw) > 600) {
					t.Errorf("%d elements, %d bytes", len(items), len(raw))
				}
			}
		}
		testkit.Healthy(t, lists)
		for _, x := range all[:15] { // few are left, but the large one prevents folding back until it is removed
			if removed, err := lists.Remove(t.Context(), 1, x); err != nil || !removed {
				t.Fatal(removed, err)
			}
		}
		if n := testkit.Count(t, db.Collection("parents"), lists.OutliersFilter()); n != 1 {
			t.Error(n)
		}
		equal(t, all[15:], testkit.Collect(t, lists.All(t.Context(), 1)))
	}
}

type celsius float64

// registry encodes celsius as text, and decodes it.
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
func TestCodecs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[celsius, celsius](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, Set: true, Registry: registry()})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "iiii"}})
	add[celsius, celsius](t, lists, 4, 1, 2, 3, 4, 5)
	equal(t, []celsius{1, 2, 3, 4, 5}, testkit.Collect(t, lists.All(t.Context(), 4)))
	page, err := lists.Slice(t.Context(), 4, 1, 3)
	if err != nil {
		t.Error(err)
	}
	equal(t, []celsius{2, 3, 4}, page.Items)

	type invitee struct {
		Email string   `json:"mail"`
		Rooms []string `json:"rooms"`
	}
	others := newLists[string, invitee](t, db, &outlier.Options{BSON: &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: "m"}})
	add(t, others, "m", invitee{Email: "a@example.org"})
	if n := testkit.Count(t, db.Collection("parents"), bson.D{{Key: "items", Value: bson.D{{Key: "mail", Value: "a@example.org"}, {Key: "rooms", Value: bson.A{}}}}}); n != 1 {
		t.Error(stored(t, db.Collection("parents"), nil))
	}
	equal(t, []invitee{{"a@example.org", []string{}}}, testkit.Collect(t, others.All(t.Context(), "m")))

	numbers := newLists[int, byte](t, db, &outlier.Options{MaxCount: 2}) // not a []byte
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	add[int, byte](t, numbers, 1, 1, 2, 3)
	equal(t, []byte{1, 2, 3}, testkit.Collect(t, numbers.All(t.Context(), 1)))
}

// Each element once, of parents of every kind.
func TestPipelines(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, any](t, db, &outlier.Options{MaxCount: 2, OverflowMaxCount: 2, FoldBack: -1})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "items", Value: nil}},
		bson.D{{Key: "_id", Value: 3}, {Key: "items", Value: bson.A{1, 2}}}, bson.D{{Key: "_id", Value: 4}})
	add[int, any](t, lists, 4, 1, 2, 3, 4, 5, 1)
	run := func(pipeline mongo.Pipeline) (out []bson.D) {
		t.Helper()
		cursor, err := db.Collection("parents").Aggregate(t.Context(), pipeline)
		if err != nil {
			t.Fatal(err)
		}
		if err := cursor.All(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := map[int32]bson.A{}
	for _, doc := range run(lists.ItemsPipeline(nil)) {
		got[doc[0].Value.(int32)] = append(got[doc[0].Value.(int32)], int(doc[1].Value.(int32)))
	}
	equal(t, map[int32]bson.A{3: {1, 2}, 4: {1, 1, 2, 3, 4, 5}}, got) // the newest first
	if docs := run(lists.ItemsPipeline(lists.Filter(3))); len(docs) != 2 {
		t.Error(docs)
	}
	totals := run(mongo.Pipeline{
		{{Key: "$project", Value: bson.D{{Key: "n", Value: lists.TotalExpression()}}}},
		{{Key: "$sort", Value: bson.D{{Key: "n", Value: -1}}}},
	})
	if totals[0][1].Value != int32(6) || totals[1][1].Value != int32(2) {
		t.Error(totals)
	}
	for x, want := range map[any]int{1: 2, 3: 1, 9: 0, "$items": 0, bson.Regex{Pattern: "."}: 0} {
		pipeline, err := lists.ContainingPipeline(x)
		if err != nil {
			t.Fatal(err)
		}
		if docs := run(pipeline); len(docs) != want {
			t.Errorf("%v: %v", x, docs)
		}
	}
}

// The empty timestamp is refused as an _id: in overflow documents the server would store its
// own time for it, and their elements would be lost.
func TestEmptyTimestampAsID(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[bson.Timestamp, int](t, db, &outlier.Options{MaxCount: 4})
	parent := bson.D{{Key: "_id", Value: bson.Timestamp{}}, {Key: "items", Value: bson.A{1, 2, 3, 4, 5, 6}}}
	insert(t, db.Collection("parents"), parent)
	if _, err := lists.Add(t.Context(), bson.Timestamp{}, 7); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	for name, call := range map[string]func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error){"adopt": lists.Adopt, "repair": lists.Repair} {
		if result, err := call(t.Context(), nil); err != nil || result.Failed != 1 || result.Done != 0 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	if n := testkit.Count(t, db.Collection("extras"), bson.D{}); n != 0 {
		t.Errorf("%d overflow documents", n)
	}
	if n := testkit.Count(t, db.Collection("parents"), parent); n != 1 {
		t.Error("the parent has changed")
	}
}

// An element as large as a document allows is removed as it was added.
func TestRemoveLargeElements(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, string](t, db, &outlier.Options{MaxBytes: 16<<20 - 64<<10, MaxCount: 4})
	large := strings.Repeat("x", 9<<20) // a command cannot have it twice
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	remove := func(id int, e string, want bool) {
		t.Helper()
		if removed, err := lists.Remove(t.Context(), id, e); err != nil || removed != want {
			t.Fatal(removed, err)
		}
		testkit.Healthy(t, lists)
	}
	add(t, lists, 1, "a")
	add(t, lists, 1, large)
	if held, err := lists.Contains(t.Context(), 1, large); err != nil || !held {
		t.Error(held, err)
	}
	remove(1, large, true)
	remove(1, large, false)
	equal(t, []string{"a"}, testkit.Collect(t, lists.All(t.Context(), 1)))
	// In an outlier: in the parent, in an overflow document, in neither.
	for _, outside := range []bool{false, true} {
		for _, e := range []string{"b", "c", "d"} {
			add(t, lists, 1, e)
		}
		add(t, lists, 1, large)
		for i := 0; outside && i < 4; i++ {
			add(t, lists, 1, fmt.Sprint(i))
		}
		remove(1, large, true)
		remove(1, large, false)
		if err := lists.Delete(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{"a"}}})
	}
}

// Inside an array the server stores the empty timestamp unchanged: as an element it comes back,
// from the parent and from overflow documents.
func TestEmptyTimestampAsElement(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	lists := newLists[int, bson.Timestamp](t, db, &outlier.Options{MaxCount: 4})
	insert(t, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
	want := []bson.Timestamp{{}, {T: 1}, {}, {T: 2}, {}, {T: 3}, {}}
	add(t, lists, 1, want...)
	if got := testkit.Collect(t, lists.All(t.Context(), 1)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := testkit.Count(t, db.Collection("extras"), bson.D{}); n == 0 {
		t.Error("nothing overflows")
	}
}
