package versioning_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// An element that was edited next to one that was inserted, removed or moved keeps the fields that
// T does not have.
func TestEditedElementsKeepTheirFields(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type item struct {
		Name  string `bson:"name"`
		Count int    `bson:"count"`
	}
	type bag struct {
		ID    string `bson:"_id"`
		Items []item `bson:"items"`
	}
	for name, test := range map[string]struct {
		change func(items []item) []item
		want   string
	}{
		"beside an insertion": {func(v []item) []item { v[1].Count = 5; return slices.Insert(v, 1, item{"bow", 1}) }, "sword/1/10 bow/1 ring/5/20 mail/1/30"},
		"behind an insertion": {func(v []item) []item { v[1].Count = 5; return slices.Insert(v, 2, item{"bow", 1}) }, "sword/1/10 ring/5/20 bow/1 mail/1/30"},
		"beside a removal":    {func(v []item) []item { v[1].Count = 5; return v[1:] }, "ring/5/20 mail/1/30"},
		"alone":               {func(v []item) []item { v[1].Count = 5; return []item{{"bow", 1}, v[1]} }, "bow/1/10 ring/5/20"},
		"moved":               {func(v []item) []item { v[0].Count = 5; return []item{v[1], v[2], v[0], {"bow", 1}} }, "ring/1/20 mail/1/30 sword/5/10 bow/1"},
		"several": {func(v []item) []item {
			v[0].Count, v[2].Count = 5, 6
			return slices.Insert(v, 1, item{"bow", 1}, item{"axe", 1})
		}, "sword/5/10 bow/1 axe/1 ring/1/20 mail/6/30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			d := helper[string, bag](t, db, nil)
			var items bson.A
			for i, name := range []string{"sword", "ring", "mail"} {
				items = append(items, bson.D{{Key: "name", Value: name}, {Key: "count", Value: 1}, {Key: "price", Value: 10 * (i + 1)}})
			}
			if _, err := db.Collection("current").InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "items", Value: items}}); err != nil {
				t.Fatal(err)
			}
			must[versioning.Revision[bag]](t)(d.Edit(ctx, "a", func(b *bag) error { b.Items = test.change(b.Items); return nil }, nobody))
			var got []string
			for _, e := range testkit.Get(all(t, db.Collection("current"), bson.D{})[0], "items").(bson.A) {
				var words []string
				for _, f := range e.(bson.D) {
					words = append(words, fmt.Sprint(f.Value))
				}
				got = append(got, strings.Join(words, "/"))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Differences inside arrays: an insertion is one, wherever it is.
func TestArrayDifferences(t *testing.T) {
	t.Parallel()
	list := func(v ...any) bson.Raw { return testkit.Raw(t, bson.D{{Key: "l", Value: append(bson.A{}, v...)}}) }
	one := func(n, v int) bson.D { return bson.D{{Key: "n", Value: n}, {Key: "v", Value: v}} }
	for name, test := range map[string]struct {
		a, b bson.Raw
		want string
	}{
		"insertion":          {list("a", "b", "c"), list("x", "a", "b", "c"), "l.0+"},
		"inside":             {list("a", "b", "c"), list("a", "b", "x", "c"), "l.2+"},
		"removal":            {list("a", "b", "c"), list("a", "c"), "l.1-"},
		"change":             {list("a", "b", "c"), list("a", "x", "c"), "l.1"},
		"both":               {list("a", "b", "c", "d"), list("x", "a", "b", "d"), "l.0+ l.2-"},
		"edit and insertion": {list(one(1, 1), one(2, 2), one(3, 3)), list(one(1, 1), one(9, 9), one(2, 5), one(3, 3)), "l.1+ l.2.v"},
		"move":               {list("a", "b", "c"), list("c", "a", "b"), "l.0+ l.2-"},
		"nested":             {list(bson.A{1, 2}, "x"), list(bson.A{1, 3, 2}, "x"), "l.0.1+"},
		"all":                {list(), list("a"), "l.0+"},
	} {
		var got []string
		for _, d := range versioning.Differences(test.a, test.b) {
			switch {
			case d.Old.Type == 0:
				d.Path += "+"
			case d.New.Type == 0:
				d.Path += "-"
			}
			got = append(got, d.Path)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	a := bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: int32(5)}, {Key: "gone", Value: "x"}, {Key: "same", Value: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}},
		{Key: "list", Value: bson.A{1, bson.D{{Key: "name", Value: "x"}}}}, {Key: "grown", Value: bson.A{1}}, {Key: "inner", Value: bson.D{{Key: "x", Value: 1}, {Key: "y", Value: 1}}}}
	b := bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: int64(5)}, {Key: "same", Value: bson.D{{Key: "b", Value: 2}, {Key: "a", Value: 1}}},
		{Key: "list", Value: bson.A{1, bson.D{{Key: "name", Value: "y"}}}}, {Key: "grown", Value: bson.A{1, 2}}, {Key: "inner", Value: bson.D{{Key: "x", Value: 2}, {Key: "z", Value: 1}}}, {Key: "new", Value: nil}}
	diff := versioning.Differences(testkit.Raw(t, a), testkit.Raw(t, b))
	var got []string
	for _, d := range diff {
		got = append(got, d.String())
	}
	want := []string{
		`n: {"$numberInt":"5"} is now {"$numberLong":"5"}`,
		`gone: removed "x"`,
		`same: {"a": {"$numberInt":"1"},"b": {"$numberInt":"2"}} is now {"b": {"$numberInt":"2"},"a": {"$numberInt":"1"}}`,
		`list.1.name: "x" is now "y"`,
		`grown.1: added {"$numberInt":"2"}`,
		`inner.x: {"$numberInt":"1"} is now {"$numberInt":"2"}`,
		`inner.y: removed {"$numberInt":"1"}`,
		`inner.z: added {"$numberInt":"1"}`,
		`new: added null`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDifferenceAsJSON(t *testing.T) {
	t.Parallel()
	a := bson.D{{Key: "text", Value: "old"}, {Key: "gone", Value: 1}, {Key: "list", Value: bson.A{}}}
	b := bson.D{{Key: "text", Value: "new"}, {Key: "list", Value: bson.A{bson.D{{Key: "x", Value: nil}}}}, {Key: "null", Value: nil}}
	got, err := json.Marshal(versioning.Differences(testkit.Raw(t, a), testkit.Raw(t, b)))
	const want = `[{"path":"text","old":"old","new":"new"},{"path":"gone","old":1},{"path":"list.0","new":{"x":null}},{"path":"null","new":null}]`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// Two documents in memory differ as revisions do: without the ignored fields and those of
// number and change, and the order in a map does not count.
func TestDifferencesInMemory(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	docs := helper[string, bson.M](t, db, &versioning.Options{Ignored: []string{"seen"}})
	document := func(n int) bson.M {
		inner := bson.M{}
		for i := range 9 {
			inner[fmt.Sprint(i)] = i
		}
		inner["n"] = n
		return bson.M{"_id": "a", "seen": n, "revision": n, "change": n, "in": inner, "list": bson.A{inner, "x"}[n-1:]}
	}
	for range 5 {
		got := must[[]versioning.Difference](t)(docs.Differences(document(1), document(2)))
		slices.SortFunc(got, func(a, b versioning.Difference) int { return strings.Compare(a.Path, b.Path) })
		if len(got) != 2 || got[0].String() != `in.n: {"$numberInt":"1"} is now {"$numberInt":"2"}` || got[1].Path != "list.0" {
			t.Fatalf("%v", got)
		}
		if same := must[[]versioning.Difference](t)(docs.Differences(document(1), document(1))); len(same) != 0 {
			t.Fatalf("%v", same)
		}
	}
	structs := helper[string, counter](t, db, nil)
	got := must[[]versioning.Difference](t)(structs.Differences(counter{ID: "a", N: 1, Revision: 3}, counter{ID: "a", N: 2, Note: "x"}))
	if fmt.Sprint(got) != `[n: {"$numberInt":"1"} is now {"$numberInt":"2"} note: added "x"]` {
		t.Errorf("%v", got)
	}
	_, err := docs.Differences(nil, document(1))
	wantErr(t, "nil", err, mongopatterns.ErrInvalid)
}
