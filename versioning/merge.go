package versioning

import (
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A merge carries over to stored, one version of a document, what next has changed
// in known, another. What stored has beside known stays. Where both have changed the
// same value it is next's, and the path is a clash.
type merge struct {
	// loose: the order of fields inside does not count, as Go maps have made them.
	loose bool
	// full: what T makes up where it is missing is stored, too.
	full bool
	// elements says of each element of an array in stored which one of known it is,
	// -1 for none. nil: not known; an array that next has changed is then one value.
	elements func(stored, known []field) []int

	clashes []string
}

// same compares what stands in known and next.
func (m *merge) same(a, b bson.RawValue) bool { return identical(a, b) || m.loose && alike(a, b) }

// seen is a merge of what a caller has changed in the view that T has of stored: an
// element of an array in both is the same one at the same place.
func seen(loose bool) *merge {
	return &merge{loose: loose, elements: func(stored, known []field) []int {
		if len(stored) != len(known) {
			return nil
		}
		out := make([]int, len(stored))
		for i := range out {
			out[i] = i
		}
		return out
	}}
}

// beside is a merge with what somebody else has stored meanwhile. An array is one
// value: a mixture of two could break what its writers rely on, such as its length.
func beside() *merge { return &merge{elements: func(_, _ []field) []int { return nil }} }

// later is a merge with what later revisions have made of known.
func later() *merge {
	return &merge{elements: func(stored, known []field) []int { return match(known, stored, identical) }}
}

// document merges fields. The order at the top of a document does not count and
// stays that of stored; inside, a caller's own order counts.
func (m *merge) document(stored, known, next []field) []field {
	return m.fields("", stored, known, arranged(next, stored))
}

// arranged is all in the order of like, and what that does not have at the end.
func arranged(all, like []field) []field {
	out := make([]field, 0, len(all))
	inAll, inLike := index{all: all}, index{all: like}
	for _, f := range like {
		if v := inAll.value(f.key); v.Type != 0 {
			out = append(out, field{f.key, v})
		}
	}
	for _, f := range all {
		if inLike.value(f.key).Type == 0 {
			out = append(out, f)
		}
	}
	return out
}

// fields merges in the order of next. Fields of stored alone follow the one that
// they follow there. path is that of the fields up to the dot, or that of an array.
func (m *merge) fields(path string, stored, known, next []field) []field {
	inStored, inKnown, inNext := index{all: stored}, index{all: known}, index{all: next}
	out := make([]field, 0, len(stored))
	following := map[string][]field{}
	anchor, anchored := "", false
	for _, s := range stored {
		if inNext.value(s.key).Type != 0 {
			anchor, anchored = s.key, true
		} else if before := inKnown.value(s.key); before.Type != 0 { // next has removed it
			m.clash(path, s.key, !m.same(before, s.value))
		} else if anchored {
			following[anchor] = append(following[anchor], s)
		} else {
			out = append(out, s)
		}
	}
	for _, n := range next {
		s, before := inStored.value(n.key), inKnown.value(n.key)
		here, there := !m.same(before, n.value), s.Type == 0
		switch {
		case !there && before.Type != 0:
			n.value = m.value(path, n.key, s, before, n.value)
		case !there || before.Type == 0:
			m.clash(path, n.key, !there && !identical(s, n.value))
		case here: // changed here, and removed there
			m.clash(path, n.key, true)
		case !m.full: // removed there, or T makes it up
			n.value.Type = 0
		}
		if n.value.Type != 0 {
			out = append(out, n)
		}
		out = append(out, following[n.key]...)
	}
	return out
}

func (m *merge) clash(path, key string, is bool) {
	if path == "" || strings.HasSuffix(path, ".") {
		path += key
	}
	if is && !slices.Contains(m.clashes, path) {
		m.clashes = append(m.clashes, path)
	}
}

// value merges a value that all three have.
func (m *merge) value(path, key string, stored, known, next bson.RawValue) bson.RawValue {
	if m.same(known, next) || identical(stored, next) {
		return stored
	}
	if path == "" || strings.HasSuffix(path, ".") {
		path += key
	}
	s, sOK := parts(stored)
	k, kOK := parts(known)
	n, nOK := parts(next)
	if stored.Type == known.Type && known.Type == next.Type && sOK && kOK && nOK {
		if next.Type == bson.TypeEmbeddedDocument {
			if m.loose {
				n = arranged(n, s)
			}
			return documentValue(m.fields(path+".", s, k, n))
		}
		if names := m.elements(s, k); names != nil {
			return arrayValue(m.array(path, s, k, n, names))
		}
	}
	m.clash(path, "", !m.same(stored, known))
	return next
}

// array merges arrays as documents whose fields are the elements of known, by which
// those of stored and next are called where they are the same.
func (m *merge) array(path string, stored, known, next []field, names []int) []field {
	call := func(all []field, is []int, others string) []field {
		out := make([]field, len(all))
		for i, f := range all {
			if out[i].value = f.value; is[i] >= 0 {
				out[i].key = strconv.Itoa(is[i])
			} else {
				out[i].key = others + strconv.Itoa(i)
			}
		}
		return out
	}
	return m.fields(path, call(stored, names, "stored "), known, call(next, match(known, next, m.same), "next "))
}
