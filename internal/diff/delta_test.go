package diff

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// roundTrip checks that the delta, as it is stored, makes b of a to the byte. Without a delta,
// because fields change their order, it checks nothing.
func roundTrip(t *testing.T, a, b bson.Raw) {
	t.Helper()
	all, ok := Delta(Open(a), Open(b))
	if !ok {
		return
	}
	delta := Raw(all)
	if err := delta.Validate(); err != nil {
		t.Fatalf("delta: %v", err)
	}
	made, err := Apply(Open(a), Open(delta))
	got := Raw(made)
	if err != nil || !bytes.Equal(got, b) {
		t.Fatalf("got %v, %v\nwant %v\nfrom %v\ndelta %v", got, err, b, a, delta)
	}
	if bytes.Equal(a, b) != (len(delta) == 5) {
		t.Fatalf("delta %v from %v to %v", delta, a, b)
	}
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
		if delta, ok := Delta(Open(raw(t, a)), Open(raw(t, b))); !ok || len(Raw(delta)) > 150 {
			t.Errorf("%s: %d bytes", name, len(Raw(delta)))
		}
		roundTrip(t, raw(t, a), raw(t, b))
	}
}

func change1(items bson.A, i int, v any) bson.A {
	out := append(bson.A{}, items...)
	out[i] = v
	return out
}

// A delta that cannot be applied is an error. Whether it was made from the document is checked by
// the digest, not here.
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
		if got, err := Apply(Open(raw(t, list)), Open(raw(t, bad))); err == nil {
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
		x, err := Parse(a)
		if err != nil {
			return
		}
		if bson.Raw(b).Validate() == nil && bytes.Equal(Raw(x), a) {
			if y, err := Parse(b); err == nil && bytes.Equal(Raw(y), b) {
				roundTrip(t, a, b)
				if Distinct(x) && Distinct(y) && (len(Diff(x, y)) == 0) != (len(Changes(x, y)) == 0) {
					t.Fatal("differences")
				}
			}
		}
		if bson.Raw(delta).Validate() == nil { // of any make: no panic
			Apply(x, Open(delta))
		}
	})
}
