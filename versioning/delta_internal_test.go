package versioning

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// roundTrip wants the delta, through its stored form, to make b of a to the byte. There
// is none only where fields change their order.
func roundTrip(t *testing.T, a, b bson.Raw) {
	t.Helper()
	all, ok := deltaOf(open(a), open(b))
	if !ok {
		return
	}
	delta := document(all)
	if err := delta.Validate(); err != nil {
		t.Fatalf("delta: %v", err)
	}
	made, err := applyDelta(open(a), delta)
	got := document(made)
	if err != nil || !bytes.Equal(got, b) {
		t.Fatalf("got %v, %v\nwant %v\nfrom %v\ndelta %v", got, err, b, a, delta)
	}
	if bytes.Equal(a, b) != (len(delta) == 5) {
		t.Fatalf("delta %v from %v to %v", delta, a, b)
	}
}

func raw(t testing.TB, v any) bson.Raw {
	t.Helper()
	out, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// everything is a document with each BSON type and some that only look alike.
func everything() bson.D {
	decimal, _ := bson.ParseDecimal128("1.50")
	return bson.D{
		{Key: "_id", Value: bson.ObjectID{1}}, {Key: "double", Value: 5.0}, {Key: "int", Value: int32(5)}, {Key: "long", Value: int64(5)},
		{Key: "decimal", Value: decimal}, {Key: "string", Value: "5"}, {Key: "symbol", Value: bson.Symbol("5")},
		{Key: "date", Value: bson.DateTime(5)}, {Key: "timestamp", Value: bson.Timestamp{T: 5, I: 5}}, {Key: "null", Value: nil},
		{Key: "undefined", Value: bson.Undefined{}}, {Key: "true", Value: true}, {Key: "binary", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}},
		{Key: "regex", Value: bson.Regex{Pattern: "a", Options: "i"}}, {Key: "code", Value: bson.JavaScript("1")},
		{Key: "min", Value: bson.MinKey{}}, {Key: "max", Value: bson.MaxKey{}}, {Key: "$dollar", Value: 1}, {Key: "a.b", Value: 2}, {Key: "", Value: 3},
		{Key: "document", Value: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.D{{Key: "c", Value: bson.A{}}}}}},
		{Key: "array", Value: bson.A{1, "two", bson.D{{Key: "three", Value: 3.0}}, bson.A{4}, nil}},
	}
}

// mutate changes a document at random places and depths.
func mutate(r *rand.Rand, doc bson.D) bson.D {
	out := append(bson.D(nil), doc...)
	for range 1 + r.IntN(3) {
		switch n := len(out); {
		case n == 0 || r.IntN(6) == 0:
			e := bson.E{Key: string(rune('a' + r.IntN(26))), Value: randomValue(r, 2)}
			for _, have := range out {
				if have.Key == e.Key {
					e.Key += e.Key
				}
			}
			i := r.IntN(n + 1)
			out = append(out[:i:i], append(bson.D{e}, out[i:]...)...)
			if !unique(out) {
				out = append(out[:i:i], out[i+1:]...)
			}
		case r.IntN(6) == 0:
			i := r.IntN(n)
			out = append(out[:i:i], out[i+1:]...)
		case r.IntN(6) == 0:
			i, j := r.IntN(n), r.IntN(n)
			out[i], out[j] = out[j], out[i]
		default:
			i := r.IntN(n)
			out[i].Value = change(r, out[i].Value)
		}
	}
	return out
}

func unique(doc bson.D) bool {
	seen := map[string]bool{}
	for _, e := range doc {
		if seen[e.Key] {
			return false
		}
		seen[e.Key] = true
	}
	return true
}

func change(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case bson.D:
		return mutate(r, v)
	case bson.A:
		out := append(bson.A(nil), v...)
		switch n := len(out); {
		case n == 0 || r.IntN(3) == 0:
			i := r.IntN(n + 1)
			return append(out[:i:i], append(bson.A{randomValue(r, 2)}, out[i:]...)...)
		case r.IntN(3) == 0:
			i := r.IntN(n)
			return append(out[:i:i], out[i+1:]...)
		default:
			i := r.IntN(n)
			out[i] = change(r, out[i])
			return out
		}
	}
	return randomValue(r, 2)
}

func randomValue(r *rand.Rand, depth int) any {
	switch r.IntN(8) {
	case 0:
		return int32(r.IntN(3))
	case 1:
		return int64(r.IntN(3))
	case 2:
		return float64(r.IntN(3))
	case 3:
		return bson.NewDateTimeFromTime(time.UnixMilli(r.Int64N(5)))
	case 4, 5:
		if depth > 0 {
			out := bson.A{}
			for range r.IntN(5) {
				out = append(out, randomValue(r, depth-1))
			}
			return out
		}
	case 6:
		if depth > 0 {
			out := bson.D{}
			for i := range r.IntN(5) {
				out = append(out, bson.E{Key: string(rune('a' + i)), Value: randomValue(r, depth-1)})
			}
			return out
		}
	}
	return []string{"", "a", "a longer string that is worth a delta"}[r.IntN(3)]
}

func TestDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a := everything()
		for range 8 {
			b := mutate(r, a)
			roundTrip(t, raw(t, a), raw(t, b))
			roundTrip(t, raw(t, b), raw(t, a))
			a = b
		}
	}
}

// A small change of a large document is a small delta.
func TestDeltaIsSmall(t *testing.T) {
	items := bson.A{}
	for i := range 500 {
		items = append(items, bson.D{{Key: "n", Value: i}, {Key: "name", Value: "Elven Sword"}})
	}
	a := bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: items}, {Key: "n", Value: 1}}
	for name, b := range map[string]bson.D{
		"element changed": {a[0], {Key: "items", Value: change1(items, 250, bson.D{{Key: "n", Value: 250}, {Key: "name", Value: "One Ring"}})}, a[2]},
		"appended":        {a[0], {Key: "items", Value: append(append(bson.A{}, items...), bson.D{{Key: "n", Value: 500}})}, a[2]},
		"inserted":        {a[0], {Key: "items", Value: append(append(append(bson.A{}, items[:3]...), "x"), items[3:]...)}, a[2]},
		"removed":         {a[0], {Key: "items", Value: append(append(bson.A{}, items[:3]...), items[4:]...)}, a[2]},
		"field":           {a[0], a[1], {Key: "n", Value: 2}},
	} {
		if delta, ok := deltaOf(open(raw(t, a)), open(raw(t, b))); !ok || len(document(delta)) > 150 {
			t.Errorf("%s: %d bytes", name, len(document(delta)))
		}
		roundTrip(t, raw(t, a), raw(t, b))
	}
}

func change1(items bson.A, i int, v any) bson.A {
	out := append(bson.A{}, items...)
	out[i] = v
	return out
}

// What does not fit is an error. What it was made from is told by the digest.
func TestDeltaDoesNotFit(t *testing.T) {
	list := bson.D{{Key: "items", Value: bson.A{1, 2, 3}}, {Key: "n", Value: 1}}
	splice := func(at, drop any) bson.D {
		return bson.D{{Key: "in", Value: bson.D{{Key: "items", Value: bson.D{{Key: "at", Value: at}, {Key: "drop", Value: drop}, {Key: "put", Value: bson.A{}}}}}}}
	}
	for name, bad := range map[string]bson.D{
		"unknown part": {{Key: "other", Value: bson.D{}}},
		"no array":     {{Key: "unset", Value: 1}},
		"no names":     {{Key: "unset", Value: bson.A{1}}},
		"no delta":     {{Key: "in", Value: bson.D{{Key: "items", Value: 1}}}},
		"no document":  {{Key: "in", Value: bson.D{{Key: "n", Value: bson.D{}}}}},
		"missing":      {{Key: "in", Value: bson.D{{Key: "x", Value: bson.D{}}}}},
		"out of place": splice(3, 1), "negative": splice(-1, 1), "no number": splice("x", 1), "beyond": splice(math.MaxInt32, math.MaxInt32),
	} {
		if got, err := applyDelta(open(raw(t, list)), raw(t, bad)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzDelta(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	a := everything()
	for range 4 {
		b := mutate(r, a)
		f.Add([]byte(raw(f, a)), []byte(raw(f, b)), []byte(raw(f, bson.D{{Key: "set", Value: bson.D{{Key: "a", Value: 1}}}})))
		a = b
	}
	f.Fuzz(func(t *testing.T, a, b, delta []byte) {
		if bson.Raw(a).Validate() != nil {
			return
		}
		x, err := fields(a)
		if err != nil {
			return
		}
		if bson.Raw(b).Validate() == nil && bytes.Equal(document(x), a) {
			if y, err := fields(b); err == nil && bytes.Equal(document(y), b) {
				roundTrip(t, a, b)
				merged := seen(false).document(x, x, y)
				if distinct(x) && distinct(y) && len(changes(merged, y)) > 0 {
					t.Fatalf("merged %v, want %v", document(merged), bson.Raw(b))
				}
				if distinct(x) && distinct(y) && (len(differences(nil, "", x, y)) == 0) != (len(changes(x, y)) == 0) {
					t.Fatal("differences")
				}
			}
		}
		if bson.Raw(delta).Validate() == nil { // of any make: no panic
			applyDelta(x, delta)
		}
	})
}
