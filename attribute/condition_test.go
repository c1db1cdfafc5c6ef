package attribute_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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
		"present and not":      {a.Filter(red.PresentAndNot()), []int32{2, 7, 8}},
		"not range":            {a.Filter(small.PresentAndNot()), []int32{2, 3, 6, 7}},
		"not not":              {a.Filter(red.NotOrMissing().NotOrMissing()), []int32{1, 6}},
		"present and not not":  {a.Filter(red.PresentAndNot().PresentAndNot()), []int32{1, 6}},
		"not exists":           {a.Filter(a.Exists(attribute.Named("color")).NotOrMissing()), []int32{3, 4, 5}},
		"present and not is":   {a.Filter(a.Exists(attribute.Named("color")).PresentAndNot()), []int32{}},
		"not and not":          {a.Filter(red.NotOrMissing(), a.Equals(attribute.Named("color"), "blue").NotOrMissing()), []int32{3, 4, 5, 7, 8}},
		"not has all":          {a.Filter(a.HasAll(attribute.Named("color"), attribute.Named("size")).NotOrMissing()), []int32{3, 4, 5, 8}},
		"not, joined with yes": {a.Filter(a.Exists(attribute.Named("size")), red.NotOrMissing()), []int32{2, 3, 7}},
	} {
		if got := ids(t, coll, c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, c.filter)
		}
	}
}

// The filters as they are sent: one $elemMatch a condition, joined in one
// document where that can be.
func TestFilterShape(t *testing.T) {
	t.Parallel()
	a := newAttributes[int, int](t, mongotest.Database(t).Collection("c"), &attribute.Options{QualifierField: "u"})
	plain := newAttributes[int, int](t, mongotest.Database(t).Collection("c"), nil)
	keys := []attribute.Key{attribute.Named("size")}
	size := a.HasAll(keys...)
	keys[0] = attribute.Named("color") // is the caller's
	five := d("attributes", d("$elemMatch", d("k", "size", "v", d("$eq", 5))))
	for _, c := range []struct{ got, want bson.D }{
		{a.Filter(), bson.D{}},
		{a.Filter(a.Equals(attribute.Named("size"), 5)), five},
		{a.Filter(a.Exists(attribute.Named("size"))), d("attributes.k", "size")},
		{a.Filter(a.Exists(attribute.Named("size")), a.Equals(attribute.Named("size"), 5)), append(d("attributes.k", "size"), five...)},
		{a.Filter(a.Equals(attribute.Named("size"), 5), a.Equals(attribute.Named("size"), 5)), d("$and", bson.A{five, five})},
		{a.Filter(a.Gt(attribute.Named("size").Qualified("cm"), 5)), d("attributes", d("$elemMatch", d("k", "size", "u", "cm", "v", d("$gt", 5))))},
		{a.Filter(a.In(attribute.Named("size").Qualified("cm", ""), []int{1, 2})), d("attributes", d("$elemMatch",
			d("k", "size", "u", d("$in", bson.A{"cm", nil, ""}), "v", d("$in", bson.A{1, 2}))))},
		{a.Filter(a.Exists(attribute.Named("size").Qualified("cm"))), d("attributes", d("$elemMatch", d("k", "size", "u", "cm")))},
		{plain.Filter(plain.Equals(attribute.Named("size").Qualified(""), 5)), five}, // no qualifier is none
		{plain.Filter(plain.Exists(attribute.Named("size").Qualified(""))), d("attributes", d("$elemMatch", d("k", "size")))},
		{a.Filter(a.Equals(attribute.Named("size"), 5).NotOrMissing()), d("$nor", bson.A{five})},
		{a.Filter(size.PresentAndNot()), d("attributes.k", "size", "$nor", bson.A{d("attributes.k", "size")})},
		{a.Filter(a.Equals(attribute.Named("size"), 5).PresentAndNot()), d("attributes.k", "size", "$nor", bson.A{five})},
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

// Random conditions over random documents select what the same conditions
// evaluated in Go select.
func TestConditionsModel(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	must(t, a.EnsureIndexes(t.Context()))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	keys, qualifiers := []string{"a", "b", "c"}, []string{"", "x", "y"}
	type entry = attribute.Attribute[int]
	docs := map[int32][]entry{}
	var raw []any
	for id := range int32(60) {
		var entries []entry
		for _, k := range keys {
			for _, q := range qualifiers {
				if random.IntN(3) == 0 {
					entries = append(entries, entry{k, random.IntN(6), q})
				}
			}
		}
		elements, err := a.Elements(entries...)
		must(t, err)
		docs[id] = entries
		raw = append(raw, d("_id", id, "attributes", elements))
	}
	insert(t, coll, raw...)

	type predicate func([]entry) bool
	condition := func() (attribute.Condition, predicate) {
		k := keys[random.IntN(3)]
		var qs []string
		if random.IntN(2) == 0 {
			qs = append(qs, qualifiers[random.IntN(3)])
		}
		of := func(entries []entry, test func(int) bool) bool {
			for _, e := range entries {
				if e.Key == k && (len(qs) == 0 || e.Qualifier == qs[0]) && test(e.Value) {
					return true
				}
			}
			return false
		}
		x, y := random.IntN(6), random.IntN(6)
		tests := []struct {
			c    attribute.Condition
			test func(int) bool
		}{
			{a.Equals(attribute.Named(k).Qualified(qs...), x), func(v int) bool { return v == x }},
			{a.In(attribute.Named(k).Qualified(qs...), []int{x, y}), func(v int) bool { return v == x || v == y }},
			{a.Gt(attribute.Named(k).Qualified(qs...), x), func(v int) bool { return v > x }},
			{a.Gte(attribute.Named(k).Qualified(qs...), x), func(v int) bool { return v >= x }},
			{a.Lt(attribute.Named(k).Qualified(qs...), x), func(v int) bool { return v < x }},
			{a.Lte(attribute.Named(k).Qualified(qs...), x), func(v int) bool { return v <= x }},
			{a.Range(attribute.Named(k).Qualified(qs...), x, y), func(v int) bool { return v >= x && v < y }},
			{a.Exists(attribute.Named(k).Qualified(qs...)), func(int) bool { return true }},
		}
		chosen := tests[random.IntN(len(tests))]
		c, p := chosen.c, func(entries []entry) bool { return of(entries, chosen.test) }
		switch random.IntN(4) {
		case 0:
			return c.NotOrMissing(), func(entries []entry) bool { return !p(entries) }
		case 1:
			return c.PresentAndNot(), func(entries []entry) bool {
				return of(entries, func(int) bool { return true }) && !p(entries)
			}
		}
		return c, p
	}
	for range 80 {
		var conditions []attribute.Condition
		var predicates []predicate
		for range 1 + random.IntN(3) {
			c, p := condition()
			conditions, predicates = append(conditions, c), append(predicates, p)
		}
		expected := []int32{}
		for id := range int32(len(docs)) {
			all := true
			for _, p := range predicates {
				all = all && p(docs[id])
			}
			if all {
				expected = append(expected, id)
			}
		}
		filter := a.Filter(conditions...)
		if got := ids(t, coll, filter); !slices.Equal(got, expected) {
			t.Fatalf("%v: %v, want %v", filter, got, expected)
		}
	}
}
