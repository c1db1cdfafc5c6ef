package diff

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Differences and duplicate fields are found in any order of the fields.
func TestDiffering(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	skip := []string{"c", "revision"}
	twice := 0
	for range 20000 {
		made := func() (all []Field) { // few changes to the order, and few values
			for key := range strings.SplitSeq("a b c d e f g h revision", " ") {
				if random.IntN(8) > 0 {
					all = append(all, Field{key, number(random.IntN(3) / 2)})
				}
			}
			if n := len(all); n > 2 && random.IntN(3) == 0 {
				i, j := random.IntN(n), random.IntN(n)
				all[i], all[j] = all[j], all[i]
			}
			return all
		}
		a, b := made(), made()
		if random.IntN(4) == 0 && len(b) > 0 {
			b = slices.Insert(b, random.IntN(len(b)+1), b[random.IntN(len(b))])
		}
		if !Same(Open(Raw(b)), b) || Size(b) != len(Raw(b)) {
			t.Fatalf("%v", Raw(b))
		}
		x, y, ok := Differing(a, b, Identical, skip...)
		if !Distinct(b) {
			key := ""
			for i, f := range b {
				if slices.ContainsFunc(b[:i], func(g Field) bool { return g.Key == f.Key }) {
					key = f.Key
				}
			}
			if want := !slices.Contains(skip, key) || Find(a, key).Type != 0; ok == want {
				t.Fatalf("%v and %v: %v", Raw(a), Raw(b), ok)
			}
			twice++
			continue
		}
		only := func(all, other []Field) []Field {
			return slices.DeleteFunc(Without(all, skip...), func(f Field) bool { return Identical(Find(other, f.Key), f.Value) })
		}
		wantX, wantY := only(a, b), only(b, a)
		byKey := func(f, g Field) int { return strings.Compare(f.Key, g.Key) }
		slices.SortFunc(x, byKey) // changed fields come before removed ones
		slices.SortFunc(wantX, byKey)
		if !ok || !Same(x, wantX) || !Same(y, wantY) {
			t.Fatalf("%v and %v: %v, %v, %v", Raw(a), Raw(b), Raw(x), Raw(y), ok)
		}
	}
	if twice < 1000 {
		t.Errorf("%d with a field that stands twice", twice)
	}
}
