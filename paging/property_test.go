package paging_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// missing stands for a field that is not there.
type missing struct{}

func decimal(s string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		panic(err)
	}
	return d
}

// sortable has values of the kinds that sort, among them equal ones of different
// types. What is sent for the others is checked against a model in TestBeyond.
var sortable = []any{
	missing{}, nil, bson.MinKey{}, bson.MaxKey{},
	math.NaN(), decimal("NaN"), math.Inf(-1), decimal("-Infinity"), math.Inf(1), decimal("Infinity"),
	int32(5), int64(5), 5.0, decimal("5"), decimal("5.00"), 0.0, math.Copysign(0, -1), int32(-3), 2.5, decimal("2.5"),
	int64(1)<<53 + 1, float64(1 << 53), int64(math.MinInt64), int64(math.MaxInt64), math.SmallestNonzeroFloat64,
	"", "a", "A", "b", "ä", "$gt", "a.b", "\x00",
	bson.D{}, bson.D{{Key: "$gt", Value: 1}}, bson.D{{Key: "a", Value: int32(1)}}, bson.D{{Key: "a", Value: "x"}},
	bson.Binary{Data: []byte{}}, bson.Binary{Data: []byte{1}}, bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")},
	bson.ObjectID{}, bson.ObjectID{1}, bson.ObjectID{255},
	false, true,
	bson.DateTime(-1), bson.DateTime(0), bson.DateTime(1 << 40),
	bson.Timestamp{T: 1}, bson.Timestamp{T: 1, I: 2}, bson.Timestamp{T: math.MaxUint32},
	bson.JavaScript("f()"),
}

var identifiers = []func(i int) any{
	func(i int) any { return int32(i) },
	func(i int) any { return int64(i) + 1<<40 },
	func(i int) any { return float64(i) + 0.5 },
	func(i int) any { return decimal(fmt.Sprintf("%d.25", i)) },
	func(i int) any { return fmt.Sprintf("id-%d", i) },
	func(i int) any { return bson.ObjectID{byte(i), byte(i >> 8)} },
	func(i int) any { return bson.DateTime(i) },
	func(i int) any { return bson.D{{Key: "k", Value: int32(i)}} },
	func(i int) any { return bson.Binary{Subtype: 4, Data: []byte(fmt.Sprintf("%016d", i))} },
}

// randomList is a collection with a filter and a sort.
type randomList struct {
	coll   *mongo.Collection
	filter bson.D
	sort   bson.D
	opts   *paging.Options
}

func newRandomList(t testing.TB, db *mongo.Database, rng *rand.Rand, n int) randomList {
	t.Helper()
	ctx := context.Background()
	coll := db.Collection(fmt.Sprintf("list%d", rng.Uint64()))

	// Few distinct values give many ties.
	pool := make([]any, 1+rng.IntN(8))
	for i := range pool {
		pool[i] = sortable[rng.IntN(len(sortable))]
	}
	kinds := 1 + rng.IntN(len(identifiers))
	var uniform []string
	if rng.IntN(3) == 0 { // all of one kind, or null, or missing
		first := reflect.TypeOf(pool[0])
		for i := range pool {
			for reflect.TypeOf(pool[i]) != first && pool[i] != nil && pool[i] != (missing{}) {
				pool[i] = sortable[rng.IntN(len(sortable))]
			}
		}
		kinds = 1
		uniform = []string{"a", "b", "n.c", "_id"}
		if pool[0] == (bson.MinKey{}) || pool[0] == (bson.MaxKey{}) || pool[0] == nil || pool[0] == (missing{}) {
			uniform = nil
		}
	}
	docs := make([]bson.D, n)
	for i := range docs {
		doc := bson.D{{Key: "_id", Value: identifiers[rng.IntN(kinds)](i)}, {Key: "flag", Value: rng.IntN(3) > 0}}
		for _, field := range []string{"a", "b", "n"} {
			value := pool[rng.IntN(len(pool))]
			if field == "n" && rng.IntN(4) > 0 {
				inner := bson.D{{Key: "z", Value: 1}}
				if value != (missing{}) {
					inner = append(inner, bson.E{Key: "c", Value: value})
				}
				value = inner
			}
			if value != (missing{}) {
				doc = append(doc, bson.E{Key: field, Value: value})
			}
		}
		docs[i] = doc
	}
	if n > 0 {
		insert(t, coll, docs...)
	}

	list := randomList{coll: coll}
	fields := []string{"a", "b", "n.c", "_id", "n"}
	rng.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	for _, field := range fields[:rng.IntN(4)] {
		list.sort = append(list.sort, bson.E{Key: field, Value: 1 - 2*rng.IntN(2)})
	}
	switch rng.IntN(4) {
	case 0:
	case 1:
		list.filter = bson.D{{Key: "flag", Value: true}}
	case 2:
		list.filter = bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "flag", Value: false}}, bson.D{{Key: "a", Value: bson.D{{Key: "$exists", Value: true}}}},
		}}}
	case 3:
		list.filter = bson.D{{Key: "b", Value: bson.D{{Key: "$ne", Value: pool[0]}}}, {Key: "flag", Value: true}}
		if pool[0] == (missing{}) {
			list.filter = bson.D{{Key: "b", Value: bson.D{{Key: "$exists", Value: true}}}}
		}
	}
	list.opts = &paging.Options{Strategy: paging.Strategy(rng.IntN(2))}
	for _, path := range uniform {
		if path == "_id" || slices.ContainsFunc(list.sort, func(e bson.E) bool { return e.Key == path }) {
			list.opts.Uniform = append(list.opts.Uniform, path)
		}
	}
	if rng.IntN(3) == 0 {
		if !slices.ContainsFunc(list.sort, func(e bson.E) bool { return e.Key == "flag" }) && rng.IntN(2) == 0 {
			list.opts.Equality = []string{"flag"}
		}
		pager := newPager[bson.Raw](t, coll, list.sort, list.opts)
		if err := pager.EnsureIndexes(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// order is the server's own.
func (l randomList) order(t testing.TB) []string {
	t.Helper()
	sort := slices.Clone(l.sort)
	if !slices.ContainsFunc(sort, func(e bson.E) bool { return e.Key == "_id" }) {
		direction := any(1)
		if len(sort) > 0 {
			direction = sort[len(sort)-1].Value
		}
		sort = append(sort, bson.E{Key: "_id", Value: direction})
	}
	filter := l.filter
	if filter == nil {
		filter = bson.D{}
	}
	cursor := must[*mongo.Cursor](t)(l.coll.Find(context.Background(), filter, options.Find().SetSort(sort)))
	var docs []bson.Raw
	if err := cursor.All(context.Background(), &docs); err != nil {
		t.Fatal(err)
	}
	return ids(docs)
}

// walk goes through the pages from one end and checks them on the way.
func walk(t testing.TB, pager *paging.Pager[bson.Raw], over any, size int, backward bool, want []string) {
	t.Helper()
	var got []string
	req := paging.Request{Size: size, FromEnd: backward}
	for {
		page := must[*paging.Page[bson.Raw]](t)(pager.Page(context.Background(), over, req))
		part := ids(page.Items)
		before, after := len(got), len(want)-len(got)-len(part)
		if backward {
			got = append(part, got...)
			before, after = after, before
		} else {
			got = append(got, part...)
		}
		if page.HasPrev != (before > 0) || page.HasNext != (after > 0) {
			t.Fatalf("size %d, backward %v: flags %v %v with %d before and %d after",
				size, backward, page.HasPrev, page.HasNext, before, after)
		}
		if (page.Prev != "") != page.HasPrev || (page.Next != "") != page.HasNext {
			t.Fatalf("tokens %q %q against flags %v %v", page.Prev, page.Next, page.HasPrev, page.HasNext)
		}
		req = paging.Request{Size: size, After: page.Next}
		if backward {
			req = paging.Request{Size: size, Before: page.Prev}
		}
		if req.After == "" && req.Before == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" && (len(want) > 0 || len(got) > 0) {
		t.Fatalf("size %d, backward %v: (-server +pages)\n%s", size, backward, diff)
	}
}

func TestPagesAreTheServersOrder(t *testing.T) {
	db := mongotest.Database(t)
	walks := 0
	const lists, shards = 300, 2
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			for i := range lists / shards {
				seed := uint64(shard<<32 | i)
				rng := rand.New(rand.NewPCG(seed, 7))
				list := newRandomList(t, db, rng, rng.IntN(40))
				describe := func() string {
					return fmt.Sprintf("seed %d: sort %v filter %v options %+v", seed, list.sort, list.filter, *list.opts)
				}
				pager := newPager[bson.Raw](t, list.coll, list.sort, list.opts)
				want := list.order(t)
				var over any = list.filter
				switch {
				case list.filter == nil:
					over = nil
				case rng.IntN(4) == 0:
					over = mongo.Pipeline{{{Key: "$match", Value: list.filter}}}
				}
				failed := true
				defer func() {
					if failed {
						t.Log(describe())
					}
				}()
				for size := 1; size <= 11; size++ {
					walk(t, pager, over, size, false, want)
					walk(t, pager, over, size, true, want)
					walks += 2
				}
				failed = false
				list.coll.Drop(context.Background())
			}
		})
	}
	t.Logf("%d walks", walks)
}
