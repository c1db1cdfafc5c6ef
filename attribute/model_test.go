package attribute_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Random calls leave what the same calls on a slice leave.
func TestModel(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{ArrayField: "x.y", KeyField: "key", ValueField: "value", QualifierField: "q"})
	seed := scale.Seed()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	insert(t, coll, d("_id", 1))
	type entry = attribute.Attribute[int]
	model := []entry{}
	keys, qualifiers := []string{"a", "b", "c"}, []string{"", "x"}
	find := func(k, q string) int {
		return slices.IndexFunc(model, func(e entry) bool { return e.Key == k && e.Qualifier == q })
	}
	put := func(e entry) {
		if i := find(e.Key, e.Qualifier); i >= 0 {
			model[i].Value = e.Value
		} else {
			model = append(model, e)
		}
	}
	kinds := [8]int{}
	for step := range scale.Of(100, 300, 10_000) {
		e := entry{keys[random.IntN(3)], random.IntN(100), qualifiers[random.IntN(2)]}
		i := find(e.Key, e.Qualifier)
		var err, expected error
		call := random.IntN(8)
		kinds[call]++
		switch call {
		case 0, 1:
			err = a.Set(ctx, 1, attribute.Named(e.Key).Qualified(e.Qualifier), e.Value)
			put(e)
		case 2:
			err = a.Add(ctx, 1, attribute.Named(e.Key).Qualified(e.Qualifier), e.Value)
			if i >= 0 {
				expected = mongopatterns.ErrExists
			} else {
				put(e)
			}
		case 3:
			err = a.Replace(ctx, 1, attribute.Named(e.Key).Qualified(e.Qualifier), e.Value)
			if i < 0 {
				expected = attribute.ErrNoAttribute
			} else {
				put(e)
			}
		case 4, 5:
			err = a.Remove(ctx, 1, attribute.Named(e.Key).Qualified(e.Qualifier))
			if i < 0 {
				expected = attribute.ErrNoAttribute
			} else {
				model = slices.Delete(model, i, i+1)
			}
		case 6:
			other := entry{keys[random.IntN(3)], 5, "y"}
			err = a.SetAll(ctx, 1, e, other)
			put(e)
			put(other)
		case 7:
			to := keys[random.IntN(3)]
			if to == e.Key {
				continue
			}
			var result, renamed mongopatterns.Result
			result, err = a.RenameKey(ctx, e.Key, to, &mongopatterns.Work{Filter: d("_id", 1)})
			for _, o := range model {
				if o.Key == e.Key {
					renamed.Examined, renamed.Done = 1, 1
					if find(to, o.Qualifier) >= 0 {
						renamed.Skipped = 1
					}
				}
			}
			renamed.Done -= renamed.Skipped
			want(t, result, renamed)
			for j := range model {
				if model[j].Key == e.Key && renamed.Done == 1 {
					model[j].Key = to
				}
			}
		}
		if !errors.Is(err, expected) {
			t.Fatalf("step %d: %v, want %v", step, err, expected)
		}
		got, err := a.GetAll(ctx, 1)
		must(t, err)
		want(t, got, slices.Clone(model))
	}
	if slices.Contains(kinds[:], 0) {
		t.Errorf("operations by their kinds: %v", kinds)
	}
	must(t, testkit.Drain(a.Check(ctx, nil)))
}

// Random conditions over random documents select what the same conditions
// evaluated in Go select.
func TestConditionsModel(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	must(t, a.EnsureIndexes(t.Context()))
	seed := scale.Seed()
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
		if random.IntN(3) == 0 {
			return c.NotOrMissing(), func(entries []entry) bool { return !p(entries) }
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
