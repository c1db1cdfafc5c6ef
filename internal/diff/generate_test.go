package diff

import (
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func raw(t testing.TB, v any) bson.Raw {
	t.Helper()
	out, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// everything returns a document with each BSON type, and some values that only look alike.
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
