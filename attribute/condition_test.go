package attribute_test

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, nil)
	entry := func(k string, v any) bson.D { return d("k", k, "v", v) }
	insert(t, coll,
		d("_id", 1, "attributes", bson.A{entry("color", "red"), entry("size", 5)}),
		d("_id", 2, "attributes", bson.A{entry("color", "blue"), entry("size", 7)}),
		d("_id", 3, "attributes", bson.A{entry("size", 9), entry("other", "red")}),
		d("_id", 4, "attributes", bson.A{}),
		d("_id", 5),
		d("_id", 6, "attributes", bson.A{entry("color", bson.A{"red", "blue"}), entry("size", "5")}),
		d("_id", 7, "attributes", bson.A{entry("color", bson.Regex{Pattern: "r"}), entry("size", nil)}),
		d("_id", 8, "attributes", bson.A{entry("color", d("$gt", "a"))}),
	)
	red, small := a.Equals(attribute.Named("color"), "red"), a.Lt(attribute.Named("size"), 7)
	for name, c := range map[string]struct {
		filter bson.D
		want   []int32
	}{
		"none":                 {a.Filter(), []int32{1, 2, 3, 4, 5, 6, 7, 8}},
		"equals":               {a.Filter(red), []int32{1, 6}},
		"equals array":         {a.Filter(a.Equals(attribute.Named("color"), bson.A{"red", "blue"})), []int32{6}},
		"equals regex":         {a.Filter(a.Equals(attribute.Named("color"), bson.Regex{Pattern: "r"})), []int32{7}},
		"equals document":      {a.Filter(a.Equals(attribute.Named("color"), d("$gt", "a"))), []int32{8}},
		"equals null":          {a.Filter(a.Equals(attribute.Named("size"), nil)), []int32{7}},
		"in":                   {a.Filter(a.In(attribute.Named("color"), []any{"red", "green"})), []int32{1, 6}},
		"in with a regex":      {a.Filter(a.In(attribute.Named("color"), []any{"green", bson.Regex{Pattern: "r"}})), []int32{7}},
		"in nothing":           {a.Filter(a.In(attribute.Named("color"), nil)), []int32{}},
		"all":                  {a.Filter(a.HoldsAll(attribute.Named("color"), []any{"red", "blue"})), []int32{6}},
		"all of one":           {a.Filter(a.HoldsAll(attribute.Named("color"), []any{"red"})), []int32{1, 6}},
		"all of nothing":       {a.Filter(a.HoldsAll(attribute.Named("color"), nil)), []int32{}},
		"gt":                   {a.Filter(a.Gt(attribute.Named("size"), 7)), []int32{3}},
		"gte":                  {a.Filter(a.Gte(attribute.Named("size"), 7)), []int32{2, 3}},
		"lt":                   {a.Filter(small), []int32{1}},
		"lte":                  {a.Filter(a.Lte(attribute.Named("size"), 7.0)), []int32{1, 2}},
		"range":                {a.Filter(a.Range(attribute.Named("size"), 5, 9)), []int32{1, 2}},
		"range of strings":     {a.Filter(attribute.As[string](a).Range(attribute.Named("size"), "", "z")), []int32{6}},
		"exists":               {a.Filter(a.Exists(attribute.Named("color"))), []int32{1, 2, 6, 7, 8}},
		"has all":              {a.Filter(a.HasAll(attribute.Named("size"), attribute.Named("color"))), []int32{1, 2, 6, 7}},
		"has all of none":      {a.Filter(a.HasAll()), []int32{1, 2, 3, 4, 5, 6, 7, 8}},
		"and":                  {a.Filter(red, small), []int32{1}},
		"and of three":         {a.Filter(red, a.Exists(attribute.Named("size")), a.HasAll(attribute.Named("color"), attribute.Named("size"))), []int32{1, 6}},
		"not or missing":       {a.Filter(red.NotOrMissing()), []int32{2, 3, 4, 5, 7, 8}},
		"present and not":      {a.Filter(a.Exists(attribute.Named("color")), red.NotOrMissing()), []int32{2, 7, 8}},
		"not range":            {a.Filter(a.Exists(attribute.Named("size")), small.NotOrMissing()), []int32{2, 3, 6, 7}},
		"not not":              {a.Filter(red.NotOrMissing().NotOrMissing()), []int32{1, 6}},
		"not exists":           {a.Filter(a.Exists(attribute.Named("color")).NotOrMissing()), []int32{3, 4, 5}},
		"not and not":          {a.Filter(red.NotOrMissing(), a.Equals(attribute.Named("color"), "blue").NotOrMissing()), []int32{3, 4, 5, 7, 8}},
		"not has all":          {a.Filter(a.HasAll(attribute.Named("color"), attribute.Named("size")).NotOrMissing()), []int32{3, 4, 5, 8}},
		"not, joined with yes": {a.Filter(a.Exists(attribute.Named("size")), red.NotOrMissing()), []int32{2, 3, 7}},
	} {
		if got := ids(t, coll, c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, c.filter)
		}
	}
}

// The filters as they are sent: one $elemMatch for each condition, in one
// document if possible.
func TestFilterShape(t *testing.T) {
	t.Parallel()
	a := newAttributes[int, int](t, mongotest.Database(t).Collection("c"), &attribute.Options{QualifierField: "u"})
	plain := newAttributes[int, int](t, mongotest.Database(t).Collection("c"), nil)
	keys := []attribute.Key{attribute.Named("size")}
	size := a.HasAll(keys...)
	keys[0] = attribute.Named("color") // HasAll has copied what it needs
	five := d("attributes", d("$elemMatch", d("k", "size", "v", d("$eq", 5))))
	for _, c := range []struct{ got, want bson.D }{
		{a.Filter(), bson.D{}},
		{a.Filter(a.Equals(attribute.Named("size"), 5)), five},
		{a.Filter(a.Exists(attribute.Named("size"))), d("attributes.k", "size")},
		{a.Filter(size), d("attributes.k", "size")},
		{a.Filter(a.Exists(attribute.Named("size")), a.Equals(attribute.Named("size"), 5)), append(d("attributes.k", "size"), five...)},
		{a.Filter(a.Equals(attribute.Named("size"), 5), a.Equals(attribute.Named("size"), 5)), d("$and", bson.A{five, five})},
		{a.Filter(a.Gt(attribute.Named("size").Qualified("cm"), 5)), d("attributes", d("$elemMatch", d("k", "size", "u", "cm", "v", d("$gt", 5))))},
		{a.Filter(a.In(attribute.Named("size").Qualified("cm", ""), []int{1, 2})), d("attributes", d("$elemMatch",
			d("k", "size", "u", d("$in", bson.A{"cm", nil, ""}), "v", d("$in", bson.A{1, 2}))))},
		{a.Filter(a.Exists(attribute.Named("size").Qualified("cm"))), d("attributes", d("$elemMatch", d("k", "size", "u", "cm")))},
		{plain.Filter(plain.Equals(attribute.Named("size").Qualified(""), 5)), five}, // "" is an entry without a qualifier
		{plain.Filter(plain.Exists(attribute.Named("size").Qualified(""))), d("attributes", d("$elemMatch", d("k", "size")))},
		{a.Filter(a.Equals(attribute.Named("size"), 5).NotOrMissing()), d("$nor", bson.A{five})},
	} {
		want(t, c.got, c.want)
	}
	// Without QualifierField there is no path to it, which mongod would refuse.
	text, err := bson.MarshalExtJSON(d("p", bson.A{plain.FacetsPipeline(nil, nil), plain.ValuesPipeline(nil, attribute.Named("x")), plain.SortPipeline(nil, attribute.Named("x"), nil)}), false, false)
	must(t, err)
	if strings.Contains(string(text), `."`) {
		t.Errorf("%s", text)
	}
}
