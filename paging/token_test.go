package paging

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// offline is a collection that nothing is ever sent to.
func offline(t testing.TB, name string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database("shop").Collection(name)
}

func raw(v any) bson.RawValue {
	t, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: t, Value: data}
}

func newOffline(t testing.TB, name string, sort bson.D, opts *Options) *Pager[bson.Raw] {
	t.Helper()
	p, err := New[bson.Raw](offline(t, name), sort, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	tokenSort = bson.D{{Key: "price", Value: -1}, {Key: "at", Value: 1}}
	tokenDoc  = bson.D{
		{Key: "_id", Value: bson.ObjectID{7}}, {Key: "price", Value: bson.NewDecimal128(1, 2)}, {Key: "at", Value: bson.DateTime(1700000000000)},
	}
)

// Every value comes back as the type and bytes it was.
func TestTokenKeepsTypes(t *testing.T) {
	for _, keys := range [][][]byte{nil, {bytes.Repeat([]byte{7}, minKey)}} {
		p := newOffline(t, "c", bson.D{{Key: "v", Value: 1}}, &Options{SigningKeys: keys})
		src, err := p.core.source(bson.D{{Key: "x", Value: 1}})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []bson.RawValue{
			raw(int32(5)), raw(int64(5)), raw(5.0), raw(math.NaN()), raw("a\x00"), raw(bson.D{{Key: "$gt", Value: 1}}), raw(bson.Binary{Subtype: 5, Data: []byte{0}}),
			raw(bson.ObjectID{1}), raw(true), raw(bson.DateTime(-1)), raw(bson.Timestamp{T: 1}), raw(bson.MinKey{}), {Type: bson.TypeNull}, raw(bson.JavaScript("f")),
		} {
			for _, at := range []position{
				{kind: kindItem}, {kind: kindNext}, {kind: kindPrev}, {kind: kindNext, inclusive: true},
				{kind: kindPage, number: math.MaxInt64, size: maxSize, shown: maxSize}, {kind: kindPage, number: 1, size: 2, shown: 1},
			} {
				at.place = place{v, raw(int32(1))}
				token := p.core.encode(src.hash, at)
				if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
					t.Fatalf("%q is not safe in a URL", token)
				}
				got, err := p.core.decode(src.hash, token, at.kind)
				if err != nil {
					t.Fatalf("%v: %v", v, err)
				}
				if got.kind != at.kind || got.inclusive != at.inclusive || got.number != at.number || got.size != at.size || got.shown != at.shown ||
					!slices.EqualFunc(got.place, at.place, bson.RawValue.Equal) {
					t.Errorf("%+v became %+v", at, got)
				}
			}
		}
	}
}

func TestForeignTokens(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	filter := bson.D{{Key: "shop", Value: 1}}
	home := newOffline(t, "c", tokenSort, nil)
	token, err := home.Token(filter, tokenDoc)
	if err != nil {
		t.Fatal(err)
	}
	swapped := bson.D{tokenSort[1], tokenSort[0], {Key: "_id", Value: 1}}
	german := &Options{Find: options.Find().SetCollation(&options.Collation{Locale: "de"})}
	for name, c := range map[string]struct {
		pager *Pager[bson.Raw]
		over  any
		req   Request
		want  string
	}{
		"another filter":     {home, bson.D{{Key: "shop", Value: 2}}, Request{After: token}, "another filter"},
		"another type":       {home, bson.D{{Key: "shop", Value: "1"}}, Request{After: token}, "another filter"},
		"no filter":          {home, nil, Request{After: token}, "another filter"},
		"a pipeline":         {home, mongo.Pipeline{{{Key: "$match", Value: filter}}}, Request{After: token}, "another filter"},
		"another collection": {newOffline(t, "d", tokenSort, nil), filter, Request{After: token}, "another collection, sort"},
		"another direction":  {newOffline(t, "c", bson.D{{Key: "price", Value: 1}, {Key: "at", Value: 1}}, nil), filter, Request{After: token}, "sort"},
		"another field":      {newOffline(t, "c", bson.D{{Key: "price", Value: -1}, {Key: "to", Value: 1}}, nil), filter, Request{After: token}, "sort"},
		"fields swapped":     {newOffline(t, "c", swapped, nil), filter, Request{After: token}, "sort"},
		"fewer fields":       {newOffline(t, "c", tokenSort[:1], nil), filter, Request{After: token}, "sort"},
		"another let":        {newOffline(t, "c", tokenSort, &Options{Find: options.Find().SetLet(bson.D{{Key: "x", Value: 1}})}), filter, Request{After: token}, "let"},
		"another collation":  {newOffline(t, "c", tokenSort, german), filter, Request{After: token}, "collation"},
		"keys since":         {newOffline(t, "c", tokenSort, &Options{SigningKeys: [][]byte{bytes.Repeat([]byte{1}, minKey)}}), filter, Request{After: token}, "signature"},
	} {
		_, err := c.pager.Page(ctx, c.over, c.req)
		if !errors.Is(err, ErrInvalidToken) || !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	src, _ := home.core.source(filter)
	values := place{raw(1.0), raw(2.0), raw(3.0)}
	for name, req := range map[string]Request{
		"next as before":     {Before: home.core.encode(src.hash, position{kind: kindNext, place: values})},
		"prev as after":      {After: home.core.encode(src.hash, position{kind: kindPrev, place: values})},
		"position as after":  {After: home.core.encode(src.hash, position{kind: kindPage, number: 1, size: 1, shown: 1, place: values})},
		"position as before": {Before: home.core.encode(src.hash, position{kind: kindPage, number: 1, size: 1, shown: 1, place: values})},
	} {
		if _, err := home.Page(ctx, filter, req); !errors.Is(err, ErrInvalidToken) || !strings.Contains(err.Error(), "direction") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := home.Page(ctx, filter, Request{Number: 1, From: token}); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("a cursor as a position: %v", err)
	}
}

// Filters are bound as the server compares them: numbers by value, the fields of a
// value in order, the conditions of a filter (a Go map, say), of $and and $all, and $in in any.
func TestFiltersAreBoundByContent(t *testing.T) {
	p := newOffline(t, "c", tokenSort, nil)
	hashOf := func(filter any) hash {
		src, err := p.core.source(filter)
		if err != nil {
			t.Fatal(err)
		}
		return src.hash
	}
	d := func(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }
	xy, yx := bson.D{{Key: "x", Value: 1}, {Key: "y", Value: 2}}, bson.D{{Key: "y", Value: 2}, {Key: "x", Value: 1}}
	near := func(geometry bson.D) bson.D { return d("a", d("$near", d("$geometry", geometry))) }
	for _, alike := range [][]any{
		{nil, bson.D{}, bson.M{}, bson.D(nil), bson.M(nil), struct{}{}},
		{d("a", int32(1)), d("a", int64(1)), d("a", 1.0), d("a", bson.NewDecimal128(0x3040000000000000, 1))},
		{d("a", math.NaN()), d("a", bson.NewDecimal128(0x7c00000000000000, 0))},
		{d("a", d("b", int32(1))), d("a", d("b", 1.0))},
		{d("a", xy)}, {d("a", yx)}, {d("a", d("z", xy))}, {d("a", d("z", yx))},
		{append(d("a", 1), d("b", 2)...), append(d("b", 2), d("a", 1)...), bson.M{"a": 1, "b": 2}},
		{d("a", bson.D{{Key: "$gt", Value: 1}, {Key: "$lt", Value: 3}}), d("a", bson.D{{Key: "$lt", Value: 3.0}, {Key: "$gt", Value: 1}})},
		{d("a", d("$in", bson.A{1, 2, xy})), d("a", d("$in", bson.A{xy, 2.0, 1, 1}))}, {d("a", d("$in", bson.A{1, 2, yx}))},
		{d("a", bson.A{1, 2})}, {d("a", bson.A{2, 1})}, {d("a", d("$nin", bson.A{1, 2}))}, {d("a", "1")}, {d("a", bson.Regex{Pattern: "1"})}, {d("a", d("$eq", bson.Regex{Pattern: "1"}))},
		{d("$or", bson.A{xy, d("a", 1)}), d("$or", bson.A{yx, d("a", 1.0)}), d("$or", bson.A{d("a", 1), xy})},
		{d("$and", bson.A{xy, d("a", 1)}), d("$and", bson.A{d("a", 1), xy})}, {d("$nor", bson.A{xy, d("a", 1)}), d("$nor", bson.A{d("a", 1), xy})},
		{d("$and", bson.A{d("a", xy), d("b", 1)}), d("$and", bson.A{d("b", 1), d("a", xy)})}, {d("$and", bson.A{d("a", yx), d("b", 1)})},
		{d("a", d("$all", bson.A{1, xy})), d("a", d("$all", bson.A{xy, 1.0}))}, {d("a", d("$all", bson.A{1, yx}))},
		{d("a", d("$all", bson.A{d("$elemMatch", xy), d("$elemMatch", d("z", 1))})), d("a", d("$all", bson.A{d("$elemMatch", d("z", 1)), d("$elemMatch", yx)}))},
		{near(xy), near(yx)}, {d("a", d("$near", xy))}, {d("a", d("$near", yx))},
		{d("a", d("$all", bson.A{d("$elemMatch", xy)})), d("a", d("$all", bson.A{d("$elemMatch", yx)}))},
		{d("a", d("$elemMatch", xy)), d("a", d("$elemMatch", yx))}, {d("a", d("$not", d("$gt", 1))), d("a", d("$not", d("$gt", 1.0)))},
		{d("$expr", d("$eq", bson.A{"$a", xy}))}, {d("$expr", d("$eq", bson.A{"$a", yx}))}, {d("$expr", d("$eq", bson.A{"$a", d("$literal", yx)}))},
		{d("$expr", d("$cond", bson.D{{Key: "if", Value: 1}, {Key: "then", Value: 2}})), d("$expr", d("$cond", bson.D{{Key: "then", Value: 2.0}, {Key: "if", Value: 1}}))},
	} {
		for _, filter := range alike {
			if hashOf(filter) != hashOf(alike[0]) {
				t.Errorf("%v and %v are equal", filter, alike[0])
			}
		}
	}
	number := 1.5e91
	digits := strconv.FormatFloat(number, 'f', 0, 64)
	seen := map[hash]any{}
	for _, filter := range []any{
		nil, d("a", 1), d("a", math.NaN()), d("a", d("b", 1)), d("a", xy), d("a", yx), d("a", d("z", xy)), d("a", d("z", yx)), bson.M{"a": 1, "b": 2},
		d("a", bson.D{{Key: "$gt", Value: 1}, {Key: "$lt", Value: 3}}), d("a", d("$in", bson.A{1, 2, xy})), d("a", d("$in", bson.A{1, 2, yx})),
		d("a", bson.A{1, 2}), d("a", bson.A{2, 1}), d("a", d("$nin", bson.A{1, 2})), d("a", "1"), d("a", bson.Regex{Pattern: "1"}), d("a", d("$eq", bson.Regex{Pattern: "1"})),
		near(xy), d("a", d("$near", xy)), d("a", d("$near", yx)), d("a", d("$all", bson.A{xy})), d("a", d("$all", bson.A{yx})),
		d("$or", bson.A{xy, d("a", 1)}), d("$and", bson.A{xy, d("a", 1)}), d("$nor", bson.A{xy, d("a", 1)}), d("$and", bson.A{xy}), d("$and", bson.A{d("a", 1)}),
		d("$and", bson.A{d("a", xy), d("b", 1)}), d("$and", bson.A{d("a", yx), d("b", 1)}), d("a", d("$all", bson.A{1, xy})), d("a", d("$all", bson.A{1, yx})),
		d("a", d("$elemMatch", xy)), d("a", d("$not", d("$gt", 1))),
		d("$expr", d("$eq", bson.A{"$a", xy})), d("$expr", d("$eq", bson.A{"$a", yx})),
		// What looks like operators and is a value.
		d("a", d("$eq", append(d("$gt", 1), d("$lt", 3)...))), d("a", d("$eq", append(d("$lt", 3), d("$gt", 1)...))),
		d("$expr", d("$literal", d("$in", bson.A{1, 2}))), d("$expr", d("$literal", d("$in", bson.A{2, 1}))),
		// The name in the first reads like one more value of $in in the second.
		append(d("#", d("$in", bson.A{1})), d(digits+"]\x01cv\x13\v123456789012", bson.Regex{Pattern: "p"})...),
		append(d("#", d("$in", bson.A{1, number})), d("c", bson.Regex{Pattern: "123456789012v\x04\vp"})...),
	} {
		if other, ok := seen[hashOf(filter)]; ok {
			t.Errorf("%v and %v differ", filter, other)
		}
		seen[hashOf(filter)] = filter
	}
}

// The fields of a stage may come from a map, in any order; those of a sort not.
func TestPipelinesAreBoundByContent(t *testing.T) {
	p := newOffline(t, "c", tokenSort, nil)
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	hashOf := func(pipeline mongo.Pipeline) hash {
		src, err := p.core.source(pipeline)
		if err != nil {
			t.Fatal(err)
		}
		return src.hash
	}
	group := hashOf(mongo.Pipeline{{e("$group", bson.D{e("_id", "$a"), e("n", bson.D{e("$sum", 1)}), e("m", bson.D{e("$max", "$b")})})}})
	match := hashOf(mongo.Pipeline{{e("$match", bson.D{e("sortBy", bson.D{e("$gt", 1), e("$lt", 9)})})}})
	for range 20 {
		if got := hashOf(mongo.Pipeline{{e("$group", bson.M{"m": bson.M{"$max": "$b"}, "n": bson.M{"$sum": 1}, "_id": "$a"})}}); got != group {
			t.Fatal("a stage from a map")
		}
		if got := hashOf(mongo.Pipeline{{e("$match", bson.M{"sortBy": bson.M{"$lt": 9, "$gt": 1}})}}); got != match {
			t.Fatal("operators from a map")
		}
	}
	ab, ba := bson.D{e("a", 1), e("b", 1)}, bson.D{e("b", 1), e("a", 1)}
	for name, stage := range map[string]func(sort bson.D) bson.D{
		"sort": func(sort bson.D) bson.D { return bson.D{e("$sort", sort)} },
		"window": func(sort bson.D) bson.D {
			return bson.D{e("$setWindowFields", bson.D{e("sortBy", sort), e("output", bson.D{})})}
		},
		"top": func(sort bson.D) bson.D {
			return bson.D{e("$group", bson.D{e("x", bson.D{e("$top", bson.D{e("sortBy", sort)})})})}
		},
	} {
		if hashOf(mongo.Pipeline{stage(ab), {e("$limit", 4)}}) == hashOf(mongo.Pipeline{stage(ba), {e("$limit", 4)}}) {
			t.Errorf("%s: the order does not count", name)
		}
	}
	// Variables are bound as well, from a map too.
	vars := func(let any) hash {
		return newOffline(t, "c", nil, &Options{Find: options.Find().SetLet(let)}).core.orderHash
	}
	for range 20 {
		if vars(bson.M{"a": 1, "b": 2}) != vars(bson.D{e("a", 1), e("b", 2)}) || vars(bson.M{"a": 1, "b": 2}) == vars(bson.M{"a": 1, "b": 3}) {
			t.Fatal("let")
		}
	}
}

func TestTamperedTokens(t *testing.T) {
	filter := bson.D{{Key: "shop", Value: 1}}
	for _, keys := range [][][]byte{nil, {bytes.Repeat([]byte{7}, minKey)}} {
		p := newOffline(t, "c", tokenSort, &Options{SigningKeys: keys})
		src, _ := p.core.source(filter)
		token, err := p.Token(filter, tokenDoc)
		if err != nil {
			t.Fatal(err)
		}
		check := func(token string) (accepted bool) {
			t.Helper()
			at, err := p.core.decode(src.hash, token, kindItem, kindNext)
			if err != nil && !errors.Is(err, ErrInvalidToken) {
				t.Errorf("%q: %v", token, err)
			}
			if err != nil {
				return err == nil
			}
			if _, err := bson.Marshal(src.where(p.core.order.branches(at.place, false, false, false))); err != nil {
				t.Errorf("%q made a filter that cannot be sent: %v", token, err)
			}
			return err == nil
		}
		if !check(token) {
			t.Fatal("the token itself")
		}
		for n := range token {
			if check(token[:n]) {
				t.Errorf("cut to %d", n)
			}
		}
		for _, more := range []string{"A", "AAAA", "=", "\n", " ", token} {
			if check(token + more) {
				t.Errorf("with %q added", more)
			}
		}
		if check(strings.Repeat("A", maxToken+4)) {
			t.Error("huge")
		}
		bytes, _ := base64.RawURLEncoding.DecodeString(token)
		for i := range bytes {
			for bit := range 8 {
				changed := slices.Clone(bytes)
				changed[i] ^= 1 << bit
				accepted := check(base64.RawURLEncoding.EncodeToString(changed))
				if accepted && (keys != nil || i < bodyAt && i != 1) {
					t.Errorf("bit %d of byte %d is not noticed", bit, i)
				}
			}
		}
	}
}

// The last character may have spare bits; only one spelling counts.
func TestOneSpelling(t *testing.T) {
	p := newOffline(t, "c", bson.D{{Key: "v", Value: 1}}, &Options{SigningKeys: [][]byte{bytes.Repeat([]byte{7}, minKey)}})
	for _, v := range []string{"", "a", "aa"} {
		token, err := p.Token(nil, bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: v}})
		if err != nil {
			t.Fatal(err)
		}
		accepted := 0
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			if _, err := p.Filter(nil, Request{After: token[:len(token)-1] + string(c)}); err == nil {
				accepted++
			}
		}
		if accepted != 1 {
			t.Errorf("%d spellings of %q", accepted, token)
		}
	}
}

// A token that is too long is refused before it is decoded, which would allocate as much again.
func TestLongToken(t *testing.T) {
	p, token := &core{}, strings.Repeat("A", 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := p.decode(hash{}, token, kindNext)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrInvalidToken) || n > 1<<20 {
		t.Errorf("%v, %d bytes allocated", err, n)
	}
}

// A pager takes every token that it issues: a value too large for one is refused
// with its document, as is one nested too deep.
func TestHugeValues(t *testing.T) {
	for _, keys := range [][][]byte{nil, {bytes.Repeat([]byte{7}, minKey)}} {
		p := newOffline(t, "c", bson.D{{Key: "v", Value: 1}, {Key: "w", Value: 1}}, &Options{SigningKeys: keys})
		src, _ := p.core.source(nil)
		largest := 0
		for size := maxValues - 200; size < maxValues+200; size++ {
			doc := bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: strings.Repeat("x", size)}, {Key: "w", Value: "y"}}
			token, err := p.Token(nil, doc)
			if err != nil {
				if !errors.Is(err, ErrUnsortable) || !strings.Contains(err.Error(), "too large") {
					t.Fatal(err)
				}
				continue
			}
			largest = size
			if _, err := p.Filter(nil, Request{After: token}); err != nil {
				t.Fatalf("%d characters: %v", len(token), err)
			}
			data, _ := bson.Marshal(doc)
			values, _ := p.core.place(data)
			page := p.core.encode(src.hash, position{kind: kindPage, number: math.MaxInt64, size: maxSize, shown: maxSize, place: values})
			if _, err := p.core.decode(src.hash, page, kindPage); err != nil {
				t.Fatalf("%d characters: %v", len(page), err)
			}
		}
		if largest < 48_000 || largest >= maxValues {
			t.Errorf("the largest is %d", largest)
		}
		for _, depth := range []int{maxDepth, maxDepth + 1} {
			_, err := p.Token(nil, bson.D{{Key: "_id", Value: nested(depth)}})
			if (err == nil) != (depth == maxDepth) || err != nil && !errors.Is(err, ErrUnsortable) {
				t.Errorf("depth %d: %v", depth, err)
			}
		}
	}
}

// nested is a document of so many levels.
func nested(levels int) bson.Raw {
	out := []byte{5, 0, 0, 0, 0}
	for range levels - 1 {
		out = slices.Concat(binary.LittleEndian.AppendUint32(nil, uint32(len(out)+8)), []byte{byte(bson.TypeEmbeddedDocument), 'a', 0}, out, []byte{0})
	}
	return out
}

// Well-formed BSON that no pager would write.
func TestForgedValues(t *testing.T) {
	p := newOffline(t, "c", bson.D{{Key: "v", Value: 1}}, nil)
	src, _ := p.core.source(nil)
	head := slices.Concat([]byte{tokenVersion, 0}, p.core.orderHash[:], src.hash[:])
	for name, body := range map[string]any{
		"too few":      bson.D{{Key: "0", Value: 1}},
		"too many":     bson.D{{Key: "0", Value: 1}, {Key: "1", Value: 1}, {Key: "2", Value: 1}},
		"other names":  bson.D{{Key: "0", Value: 1}, {Key: "$where", Value: "f"}},
		"an array":     bson.D{{Key: "0", Value: bson.A{1}}, {Key: "1", Value: 1}},
		"a regex":      bson.D{{Key: "0", Value: bson.Regex{Pattern: ".*"}}, {Key: "1", Value: 1}},
		"undefined":    bson.D{{Key: "0", Value: bson.Undefined{}}, {Key: "1", Value: 1}},
		"nothing":      bson.D{},
		"too deep":     bson.D{{Key: "0", Value: nested(maxDepth + 1)}, {Key: "1", Value: 1}},
		"deep scope":   bson.D{{Key: "0", Value: 1}, {Key: "1", Value: bson.CodeWithScope{Code: "f", Scope: nested(maxDepth + 1)}}},
		"very deep":    bson.D{{Key: "0", Value: nested(5000)}, {Key: "1", Value: 1}},
		"wrong length": nil,
	} {
		data, _ := bson.Marshal(body)
		if body == nil {
			data, _ = bson.Marshal(bson.D{{Key: "0", Value: 1}, {Key: "1", Value: 1}})
			data[0]--
		}
		token := base64.RawURLEncoding.EncodeToString(append(bytes.Clone(head), data...))
		if _, err := p.core.decode(src.hash, token, kindItem); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A document stays a value, whatever its fields are called.
	data, _ := bson.Marshal(bson.D{{Key: "0", Value: bson.D{{Key: "$ne", Value: 1}}}, {Key: "1", Value: 1}})
	token := base64.RawURLEncoding.EncodeToString(append(bytes.Clone(head), data...))
	filter, err := p.Filter(nil, Request{After: token})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := bson.MarshalExtJSON(filter, false, false)
	if !strings.Contains(string(text), `{"v":{"$eq":{"$ne":1}},"$expr":{"$gt":["$_id",{"$literal":1}]}}`) || !strings.Contains(string(text), `{"$expr":{"$gt":["$v",{"$literal":{"$ne":1}}]}}`) {
		t.Errorf("%s", text)
	}
	for name, flags := range map[string]byte{
		"inclusive cursor": flagInclusive, "unknown flag": 0x80, "another unknown flag": 0b1000,
		"inclusive position": byte(kindPage) | flagInclusive,
	} {
		forged := append(bytes.Clone(head), data...)
		forged[1] = flags
		if _, err := p.core.decode(src.hash, base64.RawURLEncoding.EncodeToString(forged), kindItem, kindPage); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, numbers := range map[string][]byte{
		"page 0": {0, 1, 1}, "size 0": {1, 0, 1}, "nothing shown": {1, 1, 0}, "no size": {1}, "endless": bytes.Repeat([]byte{255}, 20),
		"size too large": {1, 255, 255, 255, 255, 15, 1}, "number too large": {255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1},
		"more shown than fit": {1, 2, 3},
	} {
		forged := slices.Concat(head, numbers, data)
		forged[1] = byte(kindPage)
		if _, err := p.core.decode(src.hash, base64.RawURLEncoding.EncodeToString(forged), kindPage); !errors.Is(err, ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyRotation(t *testing.T) {
	old, fresh := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	pager := func(keys ...[]byte) *Pager[bson.Raw] {
		return newOffline(t, "c", tokenSort, &Options{SigningKeys: keys})
	}
	token, err := pager(old).Token(nil, tokenDoc)
	if err != nil {
		t.Fatal(err)
	}
	accepts := func(p *Pager[bson.Raw], token string) error {
		_, err := p.Filter(nil, Request{After: token})
		return err
	}
	if err := accepts(pager(fresh, old), token); err != nil {
		t.Errorf("while the old key is known: %v", err)
	}
	if err := accepts(pager(fresh), token); !errors.Is(err, ErrInvalidToken) || !strings.Contains(err.Error(), "signature") {
		t.Errorf("when the old key is gone: %v", err)
	}
	if err := accepts(pager(), token); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("without keys: %v", err)
	}
	rotated, err := pager(fresh, old).Token(nil, tokenDoc)
	if err != nil {
		t.Fatal(err)
	}
	if err := accepts(pager(fresh), rotated); err != nil {
		t.Errorf("the first key signs: %v", err)
	}
	// The pager keeps its own copy of the keys.
	key := bytes.Clone(old)
	p := pager(key)
	key[0]++
	if err := accepts(p, token); err != nil {
		t.Error(err)
	}
}

// An altered token is a place in the list or ErrInvalidToken, never an error of the
// server.
func TestAlteredTokensAndTheServer(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("list")
	if _, err := coll.InsertMany(t.Context(), []bson.D{{{Key: "_id", Value: 1}}, {{Key: "_id", Value: 2}, {Key: "s", Value: 5}}}); err != nil {
		t.Fatal(err)
	}
	p, err := New[bson.Raw](coll, bson.D{{Key: "s", Value: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	src, _ := p.core.source(nil)
	list := bson.D{{Key: "a", Value: bson.A{"x", true, bson.D{}, bson.Regex{Pattern: "a", Options: "i"}, bson.Undefined{}}}}
	accepted := 0
	for _, v := range []any{
		nil, 5, 5.5, "a", "ä", bson.Symbol("a"), bson.D{}, list, bson.Binary{Subtype: 2, Data: []byte("abc")}, bson.ObjectID{1}, true, bson.DateTime(5), bson.Timestamp{T: 1},
		bson.JavaScript("f"), bson.CodeWithScope{Code: "f", Scope: list}, bson.DBPointer{DB: "x.y"}, bson.NewDecimal128(1, 2), bson.MinKey{},
	} {
		value := bson.RawValue{Type: bson.TypeNull}
		if v != nil {
			value = raw(v)
		}
		for _, at := range []position{{kind: kindNext}, {kind: kindPage, number: 3, size: 2, shown: 1}} {
			at.place = place{value, raw(1)}
			data, _ := base64.RawURLEncoding.DecodeString(p.core.encode(src.hash, at))
			for i := bodyAt; i < len(data); i++ {
				changed := bytes.Clone(data)
				changed[i] ^= 1 << (i * 5 % 8)
				req := Request{Size: 2, After: base64.RawURLEncoding.EncodeToString(changed)}
				if at.kind == kindPage {
					req = Request{Number: 4, From: req.After}
				}
				_, err := p.Page(t.Context(), nil, req)
				if err != nil && !errors.Is(err, ErrInvalidToken) && !errors.Is(err, mongopatterns.ErrInvalid) {
					t.Errorf("%v, byte %d: %v", v, i, err)
				}
				if err == nil {
					accepted++
				}
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d reached the server", accepted)
	}
}

// Whatever the part of a token behind its hashes is, it is invalid or a place that
// can be sent and becomes the same token again.
func FuzzToken(f *testing.F) {
	p := newOffline(f, "c", tokenSort, nil)
	src, _ := p.core.source(nil)
	head := slices.Concat([]byte{tokenVersion, 0}, p.core.orderHash[:], src.hash[:])
	for _, at := range []position{
		{kind: kindNext, inclusive: true, place: place{raw(bson.MaxKey{}), raw(bson.MinKey{}), raw(1)}}, {kind: kindPrev},
		{kind: kindPage, number: 3, size: 10, shown: 9, place: place{raw("a"), raw(bson.D{{Key: "$gt", Value: true}}), raw(bson.CodeWithScope{Code: "f", Scope: bson.D{}})}},
	} {
		data, _ := base64.RawURLEncoding.DecodeString(p.core.encode(src.hash, at))
		f.Add(data[1], data[bodyAt:])
	}
	f.Fuzz(func(t *testing.T, flags byte, body []byte) {
		data := append(bytes.Clone(head), body...)
		data[1] = flags
		token := base64.RawURLEncoding.EncodeToString(data)
		at, err := p.core.decode(src.hash, token, kindItem, kindNext, kindPrev, kindPage)
		if err != nil {
			if !errors.Is(err, ErrInvalidToken) {
				t.Fatalf("%q: %v", token, err)
			}
			return
		}
		// Only varints have several spellings.
		if again := p.core.encode(src.hash, at); again != token && at.kind != kindPage {
			t.Fatalf("%q became %q", token, again)
		}
		for i, v := range at.place {
			var into any
			if err := v.Unmarshal(&into); err != nil || !shallow(v, maxDepth) {
				t.Fatalf("value %d of %q: %v", i, token, err)
			}
		}
		for _, backward := range []bool{false, true} {
			if at.place == nil {
				break // the end
			}
			if _, err := bson.Marshal(src.where(p.core.order.branches(at.place, backward, at.inclusive, false))); err != nil {
				t.Fatalf("%q: %v", token, err)
			}
		}
	})
}
