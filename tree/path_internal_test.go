package tree

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// FuzzPath: a path gives back its segments, and the range under a path holds
// exactly the paths that start with it.
func FuzzPath(f *testing.F) {
	f.Add(",", "Books", "Programming", ",Books,")
	f.Add("/", "größer", "\x00", "/größer0")
	f.Add("$", "$where", "", "$$where$")
	f.Fuzz(func(t *testing.T, delimiter, a, b, other string) {
		if checkDelimiter(delimiter) != nil {
			return
		}
		c := &store{o: Options{PathDelimiter: delimiter}}
		named := func(s string) bson.RawValue { v, _ := c.codec.Value(s); return v }
		if c.checkSegment(ref{id: named(a)}) != nil || c.checkSegment(ref{id: named(b)}) != nil {
			return
		}
		full := c.full(ref{path: c.full(ref{path: delimiter, id: named(a)}), id: named(b)})
		if got := c.segments(full); len(got) != 2 || got[0] != a || got[1] != b {
			t.Errorf("segments of %q: %q", full, got)
		}
		bounds := c.pathRange(full)
		low, high := bounds[0].Value.(string), bounds[1].Value.(string)
		for _, path := range []string{other, full + other, full, full[:len(full)-1] + other, full + other + delimiter} {
			if got, want := low <= path && path < high, strings.HasPrefix(path, full); got != want {
				t.Errorf("%q in [%q, %q): %v", path, low, high, got)
			}
		}
	})
}

// FuzzSegmentID: an ID has one string form, which gives the ID back.
func FuzzSegmentID(f *testing.F) {
	f.Add("Books", int64(1), []byte("123456789012"))
	f.Add("", int64(-1<<63), []byte{})
	f.Fuzz(func(t *testing.T, s string, n int64, hex []byte) {
		var oid bson.ObjectID
		copy(oid[:], hex)
		c := &store{}
		for _, v := range []any{s, n, int32(n), oid} {
			id, err := c.codec.Value(v)
			if err != nil {
				t.Fatal(err)
			}
			segment, err := segmentString(id)
			if err != nil {
				t.Fatal(err)
			}
			if back, ok := segmentID(segment, id); !ok || !same(back, id) {
				t.Errorf("%v: segment %q gives %v", v, segment, back)
			}
			segmentID(s, id) // whatever it is
		}
	})
}
