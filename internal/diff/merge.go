package diff

import (
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Arrays says how Merge handles an array that ours has changed.
type Arrays int

const (
	// Whole: the array is one value. A mixture of the changes of two writers could break a property
	// that they rely on, such as its length.
	Whole Arrays = iota
	// Placed: base is a view of theirs. If both have the same number of elements, each element of
	// base is the one at its place in theirs; ours may have them in any order. Otherwise the array
	// is one value.
	Placed
	// Matched: the elements of base are matched with those of theirs and of ours, wherever they
	// are.
	Matched
)

// Options of a merge.
type Options struct {
	Arrays Arrays
	// Loose is for documents that come from Go maps: the order of fields inside is ignored, and
	// stays that of theirs. Default false.
	Loose bool
	// MadeUp keeps values that are equal in base and ours and that theirs does not have, because a
	// view made them from other fields. Default false: theirs has removed such a value.
	MadeUp bool
}

// Merge applies the changes from base to ours to theirs, as the package's documentation says.
// clashes are the dotted paths of values that both have changed; inside an array the path of the
// array.
func Merge(base, theirs, ours []Field, o Options) (merged []Field, clashes []string) {
	m := merge{Options: o}
	merged = m.document("", base, theirs, arranged(ours, theirs))
	return merged, m.clashes
}

type merge struct {
	Options
	clashes []string
}

func (m *merge) same(a, b bson.RawValue) bool { return Identical(a, b) || m.Loose && Alike(a, b) }

func (m *merge) clash(path string) {
	if !slices.Contains(m.clashes, path) {
		m.clashes = append(m.clashes, path)
	}
}

// document merges documents in the order of ours. path is the prefix of their fields, up to the
// dot. In an array, whose elements have no paths, it is the path of the array, without a dot.
func (m *merge) document(path string, base, theirs, ours []Field) []Field {
	inBase, inTheirs, inOurs := In(base), In(theirs), In(ours)
	at := func(key string) string {
		if path == "" || strings.HasSuffix(path, ".") {
			return path + key
		}
		return path
	}
	out := make([]Field, 0, len(theirs))
	behind := map[string][]Field{} // fields that only theirs has, by the field that they follow
	leader, led := "", false
	for _, t := range theirs {
		before := inBase.Value(t.Key)
		switch {
		case inOurs.Value(t.Key).Type != 0:
			leader, led = t.Key, true
		case before.Type != 0: // removed by ours
			if !m.same(before, t.Value) {
				m.clash(at(t.Key))
			}
		case led:
			behind[leader] = append(behind[leader], t)
		default:
			out = append(out, t)
		}
	}
	for _, f := range ours {
		f.Value = m.value(at(f.Key), inBase.Value(f.Key), inTheirs.Value(f.Key), f.Value)
		if f.Value.Type != 0 {
			out = append(out, f)
		}
		out = append(out, behind[f.Key]...)
	}
	return out
}

// value merges a value that ours has; the result has type 0 if theirs has removed it.
func (m *merge) value(path string, base, theirs, ours bson.RawValue) bson.RawValue {
	switch unchanged := m.same(base, ours); {
	case unchanged && theirs.Type == 0 && m.MadeUp:
		return ours
	case unchanged || Identical(theirs, ours):
		return theirs
	}
	b, bOK := inner(base)
	t, tOK := inner(theirs)
	o, oOK := inner(ours)
	if base.Type == theirs.Type && base.Type == ours.Type && bOK && tOK && oOK {
		if ours.Type == bson.TypeEmbeddedDocument {
			if m.Loose {
				o = arranged(o, t)
			}
			return Embedded(m.document(path+".", b, t, o))
		}
		if names, ok := m.elements(b, t); ok {
			return Array(m.array(path, b, t, o, names))
		}
	}
	if !m.same(theirs, base) {
		m.clash(path)
	}
	return ours
}

// elements returns for each element of theirs the place of the element of base that it is, -1 if
// none. ok is false if the array is one value.
func (m *merge) elements(base, theirs []Field) (names []int, ok bool) {
	switch {
	case m.Arrays == Matched:
		return match(base, theirs, Identical), true
	case m.Arrays == Placed && len(base) == len(theirs):
		for i := range theirs {
			names = append(names, i)
		}
		return names, true
	}
	return nil, false
}

// array merges arrays as documents: the name of an element is its place in base, or a name of its
// own if base does not have it.
func (m *merge) array(path string, base, theirs, ours []Field, names []int) []Field {
	called := func(all []Field, is []int, others string) []Field {
		out := make([]Field, len(all))
		for i, f := range all {
			out[i] = Field{others + strconv.Itoa(i), f.Value}
			if is[i] >= 0 {
				out[i].Key = strconv.Itoa(is[i])
			}
		}
		return out
	}
	from := match(base, ours, m.same)
	t, o := called(theirs, names, "theirs "), called(ours, from, "ours ")
	// An element that both have inserted alike is inserted once: the same change made twice has one
	// effect.
	inserted := map[string][]string{} // the names of theirs, by value
	key := func(v bson.RawValue) string { return string(rune(v.Type)) + string(v.Value) }
	for i, f := range t {
		if names[i] < 0 {
			inserted[key(f.Value)] = append(inserted[key(f.Value)], f.Key)
		}
	}
	for i, f := range o {
		if same := inserted[key(f.Value)]; from[i] < 0 && len(same) > 0 {
			o[i].Key, inserted[key(f.Value)] = same[0], same[1:]
		}
	}
	return m.document(path, base, t, o)
}

// arranged returns all in the order of like, with the fields that like does not have at the end. If
// like has a field twice, so has the result, each time with the value of all.
func arranged(all, like []Field) []Field {
	out := make([]Field, 0, len(all))
	inAll, inLike := In(all), In(like)
	for _, f := range like {
		if v := inAll.Value(f.Key); v.Type != 0 {
			out = append(out, Field{f.Key, v})
		}
	}
	for _, f := range all {
		if inLike.Value(f.Key).Type == 0 {
			out = append(out, f)
		}
	}
	return out
}
