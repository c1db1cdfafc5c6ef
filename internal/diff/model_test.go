package diff

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
)

// A model is a merge that follows the rules and ignores the order of fields: slow, but short enough
// to check by reading. Arrays are one value.
type model struct {
	Options
	clashes []string
}

func (m *model) value(path string, base, theirs, ours bson.RawValue) bson.RawValue {
	equal := Identical
	if m.Loose {
		equal = Alike
	}
	switch {
	case equal(base, ours) && theirs.Type == 0 && m.MadeUp:
		return ours
	case equal(base, ours), Identical(theirs, ours):
		return theirs
	case equal(base, theirs):
		return ours
	}
	all := [3][]Field{}
	for i, v := range []bson.RawValue{base, theirs, ours} {
		fields, ok := inner(v)
		if !ok || v.Type != bson.TypeEmbeddedDocument {
			m.clashes = append(m.clashes, path)
			return ours
		}
		all[i] = fields
	}
	return Embedded(m.document(path+".", all[0], all[1], all[2]))
}

func (m *model) document(path string, base, theirs, ours []Field) (out []Field) {
	done := map[string]bool{}
	for _, f := range slices.Concat(theirs, ours) {
		if done[f.Key] {
			continue
		}
		done[f.Key] = true
		if v := m.value(path+f.Key, Find(base, f.Key), Find(theirs, f.Key), Find(ours, f.Key)); v.Type != 0 {
			out = append(out, Field{f.Key, v})
		}
	}
	return out
}

// ordered checks that the fields of got that first has are in the order of first.
func ordered(t *testing.T, got, first []Field) {
	t.Helper()
	at := -1
	for _, f := range got {
		i := slices.IndexFunc(first, func(g Field) bool { return g.Key == f.Key })
		if i >= 0 && i < at {
			t.Fatalf("%v is not in the order of %v", Raw(got), Raw(first))
		}
		at = max(at, i)
	}
}

// hide returns a value as a view shows it that does not have the hidden names, at any depth.
func hide(v bson.RawValue, hidden func(key string) bool) bson.RawValue {
	all, ok := inner(v)
	if !ok {
		return v
	}
	all = slices.DeleteFunc(all, func(f Field) bool { return v.Type == bson.TypeEmbeddedDocument && hidden(f.Key) })
	for i := range all {
		all[i].Value = hide(all[i].Value, hidden)
	}
	if v.Type == bson.TypeArray {
		return Array(all)
	}
	return Embedded(all)
}

// promises checks the rules of a merge in the package's documentation.
func promises(t *testing.T, base, theirs, ours []Field) {
	t.Helper()
	for mode := range 12 {
		o := Options{Arrays: Arrays(mode % 3), Loose: mode/3%2 == 1, MadeUp: mode/6 == 1}
		got, clashes := Merge(base, theirs, ours, o)
		if ordered(t, got, theirs); o.Arrays == Whole {
			m := model{Options: o}
			want := m.document("", base, theirs, ours)
			slices.Sort(m.clashes)
			slices.Sort(clashes)
			if !Alike(Embedded(got), Embedded(want)) || !slices.Equal(slices.Compact(m.clashes), clashes) {
				t.Fatalf("%+v: got %v and %q, want %v and %q", o, Raw(got), clashes, Raw(want), m.clashes)
			}
		}
		if got, clashes := Merge(base, theirs, base, o); !o.MadeUp && (len(Changes(theirs, got)) > 0 || clashes != nil) {
			t.Fatalf("%+v: nothing changed by ours: %v of %v, %v", o, Raw(got), Raw(theirs), clashes)
		}
		if got, clashes := Merge(base, base, ours, o); !Alike(Embedded(got), Embedded(ours)) || clashes != nil {
			t.Fatalf("%+v: nothing changed by theirs: %v of %v, %v", o, Raw(got), Raw(ours), clashes)
		}
		if got, _ := Merge(base, ours, ours, o); !o.Loose && len(Changes(ours, got)) > 0 {
			t.Fatalf("%+v: the same by both: %v of %v", o, Raw(got), Raw(ours))
		}
	}
	// base and ours are views that do not show everything: a view of the result equals ours.
	hidden := func(key string) bool { return strings.ContainsAny(key, "bdfhjln") }
	view := func(all []Field) []Field { return Open(hide(Embedded(all), hidden).Value) }
	shown := view(ours)
	got, _ := Merge(view(theirs), theirs, shown, Options{Arrays: Placed, MadeUp: true})
	if len(Changes(view(got), shown)) > 0 {
		t.Fatalf("%v shows %v, want %v", Raw(got), Raw(view(got)), Raw(shown))
	}
	for _, f := range theirs {
		if hidden(f.Key) && !Identical(f.Value, Find(got, f.Key)) {
			t.Fatalf("%v has lost %s", Raw(got), f.Key)
		}
	}
}

func TestPromises(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5+scale.Seed()))
	several := func(doc bson.D) bson.D {
		for range r.IntN(4) {
			doc = mutate(r, doc)
		}
		return doc
	}
	for range scale.Of(500, 2_000, 100_000) {
		base := several(everything())
		promises(t, Open(raw(t, base)), Open(raw(t, several(base))), Open(raw(t, several(base))))
	}
}

func FuzzMerge(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 4 {
		base := mutate(r, everything())
		f.Add([]byte(raw(f, base)), []byte(raw(f, mutate(r, base))), []byte(raw(f, mutate(r, base))))
	}
	f.Fuzz(func(t *testing.T, base, theirs, ours []byte) {
		var all [3][]Field
		for i, raw := range [][]byte{base, theirs, ours} {
			fields, err := Parse(raw)
			if err != nil {
				return
			}
			if all[i] = fields; !bytes.Equal(Raw(fields), raw) {
				return // bytes after its end
			}
		}
		Merge(all[0], all[1], all[2], Options{Arrays: Matched}) // of any make: no panic
		if Distinct(all[0]) && Distinct(all[1]) && Distinct(all[2]) {
			promises(t, all[0], all[1], all[2])
		}
	})
}
