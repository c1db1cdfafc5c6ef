package paging_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
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

// sortable has values of every kind that can be sorted, among them equal ones of
// different types.
var sortable = []any{
	missing{}, nil, bson.MinKey{}, bson.MaxKey{},
	math.NaN(), decimal("NaN"), math.Inf(-1), decimal("-Infinity"), math.Inf(1), decimal("Infinity"),
	int32(5), int64(5), 5.0, decimal("5"), decimal("5.00"), 0.0, math.Copysign(0, -1), int32(-3), 2.5, decimal("2.5"),
	0.1, decimal("0.1"), int64(1)<<53 + 1, float64(1 << 53), int64(math.MinInt64), int64(math.MaxInt64), math.SmallestNonzeroFloat64,
	"", "a", "A", "b", "ä", "$gt", "a.b", "\x00", bson.Symbol("a"),
	bson.D{}, bson.D{{Key: "$gt", Value: 1}}, bson.D{{Key: "a", Value: int32(1)}}, bson.D{{Key: "a", Value: "x"}},
	bson.Binary{Data: []byte{}}, bson.Binary{Data: []byte{1}}, bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")},
	bson.ObjectID{}, bson.ObjectID{1}, bson.ObjectID{255},
	false, true,
	bson.DateTime(-1), bson.DateTime(0), bson.DateTime(1 << 40),
	bson.Timestamp{T: 1}, bson.Timestamp{T: 1, I: 2}, bson.Timestamp{T: math.MaxUint32},
	bson.JavaScript("f()"), bson.CodeWithScope{Code: "f()", Scope: bson.D{}}, bson.DBPointer{DB: "x.y"},
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
	func(i int) any { return []any{nil, math.NaN(), bson.MinKey{}, bson.MaxKey{}, int32(i)}[min(i, 4)] },
}

// list is a collection that is paged over with a filter and a sort.
type list struct {
	coll *mongo.Collection
	over any
	sort bson.D
	opts *paging.Options
}

// want is the server's own order, without any index.
func (l list) want(t testing.TB) []string {
	t.Helper()
	sort := slices.Clone(l.sort)
	if !slices.ContainsFunc(sort, func(e bson.E) bool { return e.Key == "_id" }) {
		direction := any(1)
		if len(sort) > 0 {
			direction = sort[len(sort)-1].Value
		}
		sort = append(sort, bson.E{Key: "_id", Value: direction})
	}
	filter := l.over
	if filter == nil {
		filter = bson.D{}
	}
	opts := options.Find().SetSort(sort).SetHint(bson.D{{Key: "$natural", Value: 1}})
	if l.opts != nil && l.opts.Find != nil {
		opts.Opts = append(slices.Clone(l.opts.Find.Opts), opts.Opts...)
	}
	cursor := testkit.Value[*mongo.Cursor](t)(l.coll.Find(context.Background(), filter, opts))
	var docs []bson.Raw
	if err := cursor.All(context.Background(), &docs); err != nil {
		t.Fatal(err)
	}
	return ids(docs)
}

// check walks the list in pages of every size from both ends, by tokens and by
// numbers, and in batches.
func (l list) check(t testing.TB, sizes ...int) {
	t.Helper()
	pager := newPager[bson.Raw](t, l.coll, l.sort, l.opts)
	want := l.want(t)
	defer func() {
		if t.Failed() {
			t.Logf("sort %v, over %v, options %+v", l.sort, l.over, l.opts)
		}
	}()
	for _, size := range sizes {
		walk(t, pager, l.over, size, false, want)
		walk(t, pager, l.over, size, true, want)
	}
	size := sizes[len(sizes)/2]
	for _, fromEnd := range []bool{false, true} {
		var got []bson.Raw
		for doc, err := range pager.All(t.Context(), l.over, paging.Request{Size: size, FromEnd: fromEnd}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, doc)
		}
		if fromEnd {
			slices.Reverse(got)
		}
		if diff := cmp.Diff(want, ids(got)); diff != "" && len(want) > 0 {
			t.Fatalf("All, from the end %v: (-server +all)\n%s", fromEnd, diff)
		}
	}
	from := ""
	for number := int64(1); (number-1)*int64(size) < int64(len(want)); number += 2 {
		start := (int(number) - 1) * size
		for _, req := range []paging.Request{{Number: number, Size: size}, {Number: number, From: from}} {
			if number == 1 && req.Size == 0 {
				continue
			}
			page := testkit.Value[*paging.Page[bson.Raw]](t)(pager.Page(t.Context(), l.over, req))
			if diff := cmp.Diff(want[start:min(len(want), start+size)], ids(page.Items)); diff != "" {
				t.Fatalf("page %d of %d, from %q: (-server +page)\n%s", number, size, req.From, diff)
			}
			from = page.Position
		}
	}
}

// walk goes through the pages from one end and checks them on the way.
func walk(t testing.TB, pager *paging.Pager[bson.Raw], over any, size int, backward bool, want []string) {
	t.Helper()
	var got []string
	for req := (paging.Request{Size: size, FromEnd: backward}); ; {
		page := testkit.Value[*paging.Page[bson.Raw]](t)(pager.Page(context.Background(), over, req))
		part := ids(page.Items)
		before, after := len(got), len(want)-len(got)-len(part)
		if backward {
			got = append(part, got...)
			before, after = after, before
		} else {
			got = append(got, part...)
		}
		if page.HasPrev != (before > 0) || page.HasNext != (after > 0) {
			t.Fatalf("size %d, backward %v: flags %v %v with %d before and %d after\n(-server +pages) %s",
				size, backward, page.HasPrev, page.HasNext, before, after, cmp.Diff(want, got))
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

func with(doc bson.D, field string, value any) bson.D {
	if value == (missing{}) {
		return doc
	}
	return append(doc, bson.E{Key: field, Value: value})
}

// Random lists of values of all kinds, mostly under the pager's own index.
func TestPagesAreTheServersOrder(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for seed := range scale.Of(5, 45, 2000) {
		rng := rand.New(rand.NewPCG(uint64(seed), 6+scale.Seed()))
		l := list{coll: db.Collection(fmt.Sprint("list", seed))}
		// Few distinct values give many ties; null and missing are in half of the lists.
		pool := make([]any, 1+rng.IntN(6))
		for i := range pool {
			pool[i] = sortable[rng.IntN(len(sortable))]
		}
		if rng.IntN(2) == 0 {
			pool = append(pool, nil, missing{})
		}
		kinds := rng.Perm(len(identifiers))[:1+rng.IntN(3)]
		var docs []bson.D
		for i := range rng.IntN(30) {
			doc := bson.D{{Key: "_id", Value: identifiers[kinds[rng.IntN(len(kinds))]](i)}, {Key: "x", Value: rng.IntN(3)}, {Key: "flag", Value: rng.IntN(3) > 0}}
			if _, isNull := doc[0].Value.(bson.MinKey); isNull && rng.IntN(2) == 0 {
				continue
			}
			for _, field := range []string{"a", "b"} {
				doc = with(doc, field, pool[rng.IntN(len(pool))])
			}
			doc = with(doc, "n", with(bson.D{{Key: "z", Value: 1}}, "c", pool[rng.IntN(len(pool))]))
			docs = append(docs, doc)
		}
		if len(docs) > 0 {
			_, _ = l.coll.InsertMany(t.Context(), docs, options.InsertMany().SetOrdered(false)) // ids may repeat
		}
		fields := []string{"a", "b", "n.c", "n", "_id"}
		rng.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		for _, field := range fields[:rng.IntN(4)] {
			l.sort = append(l.sort, bson.E{Key: field, Value: 1 - 2*rng.IntN(2)})
		}
		in := bson.D{{Key: "x", Value: bson.D{{Key: "$in", Value: bson.A{0, 2.0, 2, "x"}}}}}
		flag := bson.D{{Key: "flag", Value: true}}
		l.opts = &paging.Options{Sequential: rng.IntN(4) == 0, Group: 4}
		switch seed % 5 { // each kind of filter, and none
		case 1:
			l.over = flag
		case 2:
			l.over = bson.D{{Key: "$or", Value: bson.A{flag, bson.D{{Key: "a", Value: bson.D{{Key: "$exists", Value: true}}}}}}}
		case 3:
			l.over, l.opts.Equality = append(slices.Clone(in), flag...), []string{"x"}
		case 4:
			l.over, l.opts.Equality = bson.D{{Key: "$and", Value: bson.A{in, flag}}}, []string{"x"}
		}
		if rng.IntN(4) > 0 {
			ensure(t, newPager[bson.Raw](t, l.coll, l.sort, l.opts))
		}
		l.check(t, 1, 2, 5)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func ensure[T any](t testing.TB, pager *paging.Pager[T]) {
	t.Helper()
	if err := pager.EnsureIndexes(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// The server's merge of sorted ranges takes null and missing for different.
func TestNullAndMissing(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	var docs []bson.D
	for i := range 12 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "b", Value: i / 3}, {Key: "x", Value: []string{"p", "q"}[i/2%2]}, {Key: "tags", Value: bson.A{"p", []string{"q", "r"}[i%2]}}}
		doc = with(doc, "a", []any{nil, missing{}, nil, missing{}, 1}[i%5])
		docs = append(docs, with(doc, "c", []any{missing{}, nil, 7}[i%3]))
	}
	in := func(field string) bson.D {
		return bson.D{{Key: field, Value: bson.D{{Key: "$in", Value: bson.A{"p", "q"}}}}}
	}
	en := options.Find().SetCollation(&options.Collation{Locale: "en", Strength: 2})
	for i, l := range []list{
		{sort: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}},
		{sort: bson.D{{Key: "a", Value: -1}, {Key: "c", Value: 1}}},
		{sort: bson.D{{Key: "a", Value: 1}}, over: in("x"), opts: &paging.Options{Equality: []string{"x"}}},
		{sort: bson.D{{Key: "c", Value: -1}, {Key: "a", Value: 1}}, over: bson.D{{Key: "$and", Value: bson.A{in("x"), bson.D{{Key: "b", Value: bson.D{{Key: "$gte", Value: 0}}}}}}},
			opts: &paging.Options{Equality: []string{"x"}}},
		{sort: bson.D{{Key: "a", Value: 1}}, over: in("tags"), opts: &paging.Options{Equality: []string{"tags"}}},
		{sort: bson.D{{Key: "a", Value: -1}}, over: in("x"), opts: &paging.Options{Equality: []string{"x"}, Find: en}},
		{sort: bson.D{{Key: "a", Value: 1}, {Key: "c", Value: -1}}, over: append(in("x"), bson.E{Key: "b", Value: bson.D{{Key: "$gte", Value: 0}}}),
			opts: &paging.Options{Equality: []string{"x"}, Sequential: true}},
	} {
		l.coll = db.Collection(fmt.Sprint("list", i))
		testkit.InsertAll(t, l.coll, docs)
		ensure(t, newPager[bson.Raw](t, l.coll, l.sort, l.opts))
		var sizes []int
		for size := 1; size < 12; size++ {
			if scale.Turn(i+size, 3) {
				sizes = append(sizes, size)
			}
		}
		if l.check(t, sizes...); i != 2 {
			continue
		}
		err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			page, err := newPager[bson.Raw](t, l.coll, l.sort, l.opts).Page(ctx, l.over, paging.Request{})
			if err == nil && !slices.Equal(ids(page.Items), l.want(t)) {
				t.Errorf("in a transaction: %v", ids(page.Items))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Every kind of value, and of _id, from each to the next.
func TestEveryKindOfValue(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	values, byID := db.Collection("values"), db.Collection("ids")
	for i, value := range sortable {
		testkit.Insert(t, values, with(bson.D{{Key: "_id", Value: i}}, "s", value))
		_, _ = byID.InsertOne(t.Context(), with(bson.D{}, "_id", value)) // some are equal, or no _id
	}
	for i, l := range []list{
		{coll: values, sort: bson.D{{Key: "s", Value: 1}}}, {coll: values, sort: bson.D{{Key: "s", Value: -1}}},
		{coll: byID}, {coll: byID, sort: bson.D{{Key: "x", Value: 1}, {Key: "_id", Value: -1}}},
	} {
		for j, sequential := range []bool{false, true} {
			l.opts = &paging.Options{Sequential: sequential}
			ensure(t, newPager[bson.Raw](t, l.coll, l.sort, l.opts))
			sizes := []int{3}
			if scale.Turn(i+j, 2) {
				sizes = []int{1, 3}
			}
			l.check(t, sizes...)
		}
	}
}

// What has no place in the order is met, and not passed over, in both directions: before and
// after the documents that a filter takes for equal to it, and where there are none.
func TestUnsortableValuesAreMet(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	around := []any{1, 5, "a", "b", bson.D{}, bson.Binary{Data: []byte{1}}, bson.ObjectID{1}, true, bson.DateTime(5), bson.MinKey{}, bson.MaxKey{}}
	withNull := append([]any{nil}, around...)
	for i, bad := range []any{
		bson.A{}, bson.A{3}, bson.A{1, 9}, bson.A{bson.A{1, 2}}, bson.A{bson.A{}}, bson.A{nil}, bson.A{"x", true}, bson.Regex{Pattern: "x"},
		bson.Undefined{}, bson.Undefined{},
	} {
		for id, around := range map[int][]any{-1: withNull, 98: around, 99: withNull} {
			if !scale.Third(fmt.Sprint(i, id)) {
				continue
			}
			t.Run(fmt.Sprintf("%d %T %v", i, bad, id), func(t *testing.T) {
				unsortableIsMet(t, db.Collection(fmt.Sprint("list", i, id)), bson.D{{Key: "_id", Value: id}, {Key: "s", Value: bad}}, around, i%2 == 0)
			})
		}
	}
}

func unsortableIsMet(t *testing.T, coll *mongo.Collection, bad bson.D, around []any, indexed bool) {
	docs := []bson.D{bad}
	for j, value := range around {
		docs = append(docs, bson.D{{Key: "_id", Value: j}, {Key: "s", Value: value}})
	}
	testkit.InsertAll(t, coll, docs)
	for _, opts := range []*paging.Options{{}, {Sequential: true}} {
		for _, direction := range []int{1, -1} {
			pager := newPager[bson.Raw](t, coll, bson.D{{Key: "s", Value: direction}}, opts)
			if indexed {
				ensure(t, pager)
			}
			for _, req := range []paging.Request{{Size: 1}, {Size: 3}, {Size: 1, FromEnd: true}} {
				var err error
				for _, err = range pages(t.Context(), pager, nil, req) {
				}
				if !errors.Is(err, paging.ErrUnsortable) {
					t.Errorf("direction %d, %+v, %+v: %v", direction, req, opts, err)
				}
			}
		}
	}
}
