package attribute_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestSortPipeline(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll,
		doc(8, d("k", "size")), doc(7, e("size", 9, "q")), doc(6, e("size", nil)), d("_id", int32(5)), doc(4),
		doc(3, e("size", 5)), doc(2, e("x", 0), e("size", 2)), doc(1, e("size", 5), e("size", 1, "q")))
	for name, c := range map[string]struct {
		filter bson.D
		opts   *attribute.SortOptions
		want   []int32
	}{
		"default":    {nil, nil, []int32{6, 8, 2, 1, 3, 4, 5, 7}},
		"descending": {nil, &attribute.SortOptions{Descending: true}, []int32{1, 3, 2, 6, 8, 4, 5, 7}},
		"filter":     {a.Filter(a.Gt(attribute.Named("size").Qualified(""), 2)), nil, []int32{1, 3}},
		"qualifier":  {a.Filter(a.Exists(attribute.Named("size").Qualified("q"))), &attribute.SortOptions{Descending: true}, []int32{7, 1}},
	} {
		key := attribute.Named("size")
		if name == "qualifier" {
			key = key.Qualified("q")
		}
		cursor, err := coll.Aggregate(t.Context(), a.SortPipeline(c.filter, key, c.opts))
		must(t, err)
		var docs []bson.D
		must(t, cursor.All(t.Context(), &docs))
		got := []int32{}
		for _, doc := range docs {
			got = append(got, doc[0].Value.(int32))
			want(t, doc, testkit.One[bson.D](t, coll, doc[0].Value)) // unchanged
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A $limit that the caller appends becomes part of the sort.
func TestSortPipelineWithLimit(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, nil)
	for i := range 5 {
		insert(t, coll, d("_id", i, "attributes", bson.A{e("size", i)}))
	}
	var plan bson.Raw
	must(t, coll.Database().RunCommand(t.Context(), d("explain", d("aggregate", "c",
		"pipeline", append(a.SortPipeline(nil, attribute.Named("size"), nil), d("$limit", 2)), "cursor", bson.D{}))).Decode(&plan))
	if !strings.Contains(plan.String(), `"limit": {"$numberLong":"2"}`) && !strings.Contains(plan.String(), `"limitAmount"`) {
		t.Error(plan)
	}
}

func TestFacets(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	must(t, a.EnsureIndexes(ctx))
	for i := range int32(60) {
		color := []string{"red", "blue", "red", "green"}[i%4]
		insert(t, coll, d("_id", i, "old", i < 20, "attributes", bson.A{
			e("color", color), e("size", i%2, "eu"), e("size", 59-i), e("mixed", []any{1, 1.0, int64(1), nil}[i%4]), d("k", "none"), 7, d("k", 8), e("", 1), d("k", "x", "u", 5), bson.A{e("x", 1)},
		}))
	}
	insert(t, coll, d("_id", 100, "attributes", "text"), d("_id", 101))
	type value = attribute.FacetValue[any]
	facets, err := a.Facets(ctx, nil, &attribute.FacetOptions{Top: 2})
	must(t, err)
	want(t, facets, []attribute.Facet[any]{
		{Key: "color", Count: 60, Distinct: 3, Values: []value{{"red", 30}, {"blue", 15}}},
		{Key: "mixed", Count: 60, Distinct: 2, Values: []value{{int32(1), 45}, {nil, 15}}},
		{Key: "none", Count: 60, Distinct: 1, Values: []value{{nil, 60}}},
		{Key: "size", Count: 60, Distinct: 60, Values: []value{{int32(0), 1}, {int32(1), 1}}},
		{Key: "size", Qualifier: "eu", Count: 60, Distinct: 2, Values: []value{{int32(0), 30}, {int32(1), 30}}},
	})
	facets, err = a.Facets(ctx, and(d("old", true), a.Filter(a.Equals(attribute.Named("color"), "red"))), &attribute.FacetOptions{Keys: []string{"color", "$color", "absent"}})
	must(t, err)
	want(t, facets, []attribute.Facet[any]{{Key: "color", Count: 10, Distinct: 1, Values: []value{{"red", 10}}}})
	facets, err = a.Facets(ctx, nil, nil)
	must(t, err)
	want(t, len(facets[3].Values), 10)
	facets, err = a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{}})
	must(t, err)
	want(t, facets, []attribute.Facet[any]{})
	insert(t, coll, doc(200, e("$color", 1)))
	facets, err = a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{"$color"}})
	must(t, err)
	want(t, facets, []attribute.Facet[any]{{Key: "$color", Count: 1, Distinct: 1, Values: []value{{int32(1), 1}}}})
	if _, err := a.Facets(ctx, nil, &attribute.FacetOptions{Top: -1}); err == nil || !strings.Contains(err.Error(), "FacetOptions.Top: it must not be negative") {
		t.Error(err)
	}
	// A value of another type than V is an error, not a zero.
	if _, err := attribute.As[int](a).Facets(ctx, nil, nil); err == nil {
		t.Error("a color as an int")
	}
}

func and(filters ...bson.D) (out bson.D) {
	for _, f := range filters {
		out = append(out, f...)
	}
	return out
}

func TestValues(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll, doc(1, e("x", 1), e("x", 2, "q"), e("y", 3)), doc(2, e("x", 4, "r")), doc(3), d("_id", int32(4)))
	type value = attribute.Value[int, int]
	values := func(filter bson.D, key string, qualifier ...string) []value {
		cursor, err := coll.Aggregate(ctx, append(a.ValuesPipeline(filter, attribute.Named(key).Qualified(qualifier...)), d("$sort", d("_id", 1, "value", 1))))
		must(t, err)
		var out []value
		must(t, cursor.All(ctx, &out))
		n := 0
		for _, err := range a.Values(ctx, filter, attribute.Named(key).Qualified(qualifier...)) {
			must(t, err)
			n++
		}
		want(t, n, len(out))
		return out
	}
	want(t, values(nil, "x"), []value{{1, 1, ""}, {1, 2, "q"}, {2, 4, "r"}})
	want(t, values(nil, "x", ""), []value{{1, 1, ""}})
	want(t, values(nil, "x", "q", "r"), []value{{1, 2, "q"}, {2, 4, "r"}})
	want(t, values(d("_id", 2), "x"), []value{{2, 4, "r"}})
	n, err := a.GetBy(ctx, nil, attribute.Named("x").Qualified("r")) // not the document that has the key otherwise
	must(t, err)
	want(t, n, 4)
	// A malformed element does not stop the reading of the entries.
	insert(t, coll, doc(5, e("x", 5), d("k", "x", "v", 6, "u", 7)))
	want(t, values(d("_id", 5), "x"), []value{{5, 5, ""}})
	if _, err := coll.UpdateOne(ctx, d("_id", 2), d("$set", d("attributes.0.v", "text"))); err != nil {
		t.Fatal(err)
	}
	errs := 0
	for _, err := range a.Values(ctx, d("_id", 2), attribute.Named("x")) {
		if err == nil || !strings.HasPrefix(err.Error(), "attribute: values: ") {
			t.Fatal(err)
		}
		errs++
	}
	want(t, errs, 1)
	_, err = a.GetBy(ctx, d("_id", 2), attribute.Named("x"))
	testkit.Is(t, err, attribute.ErrNoAttribute)
	testkit.Is(t, err, mongo.ErrNoDocuments)
	n, err = a.GetBy(ctx, d("_id", 1), attribute.Named("x").Qualified("q"))
	must(t, err)
	want(t, n, 2)
}

// A reader that stops early leaves no cursor open.
func TestStoppedEarly(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	a := newAttributes[int, int](t, coll, nil)
	var docs []any
	for i := range int32(150) { // more than a first batch
		docs = append(docs, doc(i, e("x", i), e("x", i)))
	}
	insert(t, coll, docs...)
	for name, seq := range map[string]func(){
		"Values": func() {
			for range a.Values(t.Context(), nil, attribute.Named("x")) {
				break
			}
		},
		"Check": func() {
			for range a.Check(t.Context(), &mongopatterns.Work{BatchSize: 100}) {
				break
			}
		},
		"Values, of the wrong type": func() {
			if testkit.Drain(attribute.As[string](a).Values(t.Context(), nil, attribute.Named("x"))) == nil {
				t.Error("a number as a string")
			}
		},
	} {
		cmds := mongotest.Record(t, db, seq)
		names := slices.DeleteFunc(cmds.Names(), func(name string) bool { return name == "listCollections" }) // of Check
		if len(names) != 2 || names[1] != "killCursors" {
			t.Errorf("%s: sent %v", name, names)
		}
	}
}

// The JSON that a service would return.
func TestJSON(t *testing.T) {
	t.Parallel()
	for text, result := range map[string]any{
		`{"key":"a","value":1}`:                                               attribute.Attribute[int]{Key: "a", Value: 1},
		`{"key":"a","value":1,"qualifier":"q"}`:                               attribute.Attribute[int]{Key: "a", Value: 1, Qualifier: "q"},
		`{"id":7,"value":1}`:                                                  attribute.Value[int, int]{ID: 7, Value: 1},
		`{"id":7,"value":1,"qualifier":"q"}`:                                  attribute.Value[int, int]{ID: 7, Value: 1, Qualifier: "q"},
		`{"key":"a","count":3,"distinct":2,"values":[{"value":1,"count":2}]}`: attribute.Facet[int]{Key: "a", Count: 3, Distinct: 2, Values: []attribute.FacetValue[int]{{Value: 1, Count: 2}}},
		`{"key":"a","qualifier":"q","count":0,"distinct":0,"values":null}`:    attribute.Facet[int]{Key: "a", Qualifier: "q"},
	} {
		got, err := json.Marshal(result)
		must(t, err)
		want(t, string(got), text)
	}
}
