package paging_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

type row struct {
	ID int `bson:"_id"`
	S  int `bson:"s"`
}

func rows(n int) []row {
	out := make([]row, n)
	for i := range out {
		out[i] = row{ID: i + 1, S: (i + 1) / 3}
	}
	return out
}

func rowIDs(rows []row) []int {
	out := make([]int, len(rows))
	for i, r := range rows {
		out[i] = r.ID
	}
	return out
}

var byS = bson.D{{Key: "s", Value: 1}}

// strategies runs a test with both.
func strategies(t *testing.T, test func(t *testing.T, opts *paging.Options)) {
	t.Run("merged", func(t *testing.T) { test(t, nil) })
	t.Run("sequential", func(t *testing.T) { test(t, &paging.Options{Sequential: true}) })
}

func TestForwardAndBack(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		coll := mongotest.Database(t).Collection("rows")
		testkit.InsertAll(t, coll, rows(10))
		pager := newPager[row](t, coll, byS, opts)
		get := func(req paging.Request) *paging.Page[row] {
			t.Helper()
			req.Size = 4
			return testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, req))
		}
		expect := func(page *paging.Page[row], prev, next bool, want ...int) {
			t.Helper()
			if diff := cmp.Diff(append([]int{}, want...), rowIDs(page.Items)); diff != "" || page.HasPrev != prev || page.HasNext != next {
				t.Fatalf("prev %v next %v: %s", page.HasPrev, page.HasNext, diff)
			}
		}
		one := get(paging.Request{})
		expect(one, false, true, 1, 2, 3, 4)
		two := get(paging.Request{After: one.Next})
		expect(two, true, true, 5, 6, 7, 8)
		three := get(paging.Request{After: two.Next})
		expect(three, true, false, 9, 10)
		expect(get(paging.Request{Before: three.Prev}), true, true, 5, 6, 7, 8)
		expect(get(paging.Request{Before: two.Prev}), false, true, 1, 2, 3, 4)
		expect(get(paging.Request{FromEnd: true}), true, false, 7, 8, 9, 10)
		// The cursor of any item goes both ways.
		expect(get(paging.Request{After: two.Cursor(1)}), true, false, 7, 8, 9, 10)
		expect(get(paging.Request{Before: two.Cursor(1)}), true, true, 2, 3, 4, 5)
		expect(get(paging.Request{After: three.Cursor(1)}), true, false)
		expect(get(paging.Request{Before: one.Cursor(0)}), false, true)
	})
}

func TestFlagsWhenTheAnchorIsGoneOrMoved(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		coll := mongotest.Database(t).Collection("rows")
		pager := newPager[row](t, coll, byS, opts)
		for _, c := range []struct {
			name       string
			change     func()
			want       []int
			prev, next bool
		}{
			{"unchanged", func() {}, []int{4, 5, 6}, true, false},
			{"anchor deleted", func() { remove(t, coll, 3) }, []int{4, 5, 6}, true, false},
			{"all before deleted", func() { remove(t, coll, 1, 2, 3) }, []int{4, 5, 6}, false, false},
			{"all before but the anchor deleted", func() { remove(t, coll, 1, 2) }, []int{4, 5, 6}, true, false},
			{"anchor moved to the page, nothing left before", func() { remove(t, coll, 1, 2); set(t, coll, 3, 55) },
				[]int{4, 5, 3}, false, true},
			{"anchor moved to the front of the page", func() { set(t, coll, 3, 35) }, []int{3, 4, 5}, true, true},
			{"anchor alone moved to the front of the page", func() { remove(t, coll, 1, 2); set(t, coll, 3, 35) }, []int{3, 4, 5}, false, true},
			{"anchor moved before", func() { set(t, coll, 3, 5) }, []int{4, 5, 6}, true, false},
			{"anchor with an equal value of another type", func() { set(t, coll, 3, 30.0) }, []int{4, 5, 6}, true, false},
			{"anchor alone with an equal value of another type", func() { remove(t, coll, 1, 2); set(t, coll, 3, 30.0) },
				[]int{4, 5, 6}, true, false},
			{"page deleted", func() { remove(t, coll, 4, 5, 6) }, []int{}, true, false},
			{"everything deleted", func() { remove(t, coll, 1, 2, 3, 4, 5, 6) }, []int{}, false, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				if _, err := coll.DeleteMany(ctx, bson.D{}); err != nil {
					t.Fatal(err)
				}
				for i := 1; i <= 6; i++ {
					testkit.Insert(t, coll, row{ID: i, S: i * 10})
				}
				first := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Size: 3}))
				c.change()
				page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Size: 3, After: first.Next}))
				if diff := cmp.Diff(c.want, rowIDs(page.Items)); diff != "" {
					t.Error(diff)
				}
				if page.HasPrev != c.prev || page.HasNext != c.next {
					t.Errorf("prev %v, next %v", page.HasPrev, page.HasNext)
				}
			})
		}
	})
}

func remove(t *testing.T, coll *mongo.Collection, ids ...int) {
	t.Helper()
	if _, err := coll.DeleteMany(context.Background(), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, coll *mongo.Collection, id int, s any) {
	t.Helper()
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "s", Value: s}}}}
	if _, err := coll.UpdateByID(context.Background(), id, update); err != nil {
		t.Fatal(err)
	}
}

// An empty page in the middle of nowhere leads back to what is there, with
// nothing skipped, in both directions and again.
func TestEmptyPageLeadsBack(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		coll := mongotest.Database(t).Collection("rows")
		testkit.InsertAll(t, coll, rows(6))
		pager := newPager[row](t, coll, byS, opts)
		get := func(req paging.Request) *paging.Page[row] {
			t.Helper()
			req.Size = 3
			return testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, req))
		}
		first := get(paging.Request{})
		remove(t, coll, 4, 5, 6)
		empty := get(paging.Request{After: first.Next})
		if len(empty.Items) != 0 || !empty.HasPrev || empty.HasNext || empty.Prev == "" {
			t.Fatalf("%+v", empty)
		}
		testkit.Insert(t, coll, row{ID: 4, S: 9})
		back := get(paging.Request{Before: empty.Prev})
		if diff := cmp.Diff([]int{1, 2, 3}, rowIDs(back.Items)); diff != "" || !back.HasNext || back.HasPrev {
			t.Fatalf("%+v %s", back, diff)
		}
		// The same from the other end.
		remove(t, coll, 1, 2, 3)
		empty = get(paging.Request{Before: empty.Prev})
		if len(empty.Items) != 0 || empty.HasPrev || !empty.HasNext || empty.Next == "" {
			t.Fatalf("%+v", empty)
		}
		again := get(paging.Request{After: empty.Next})
		if diff := cmp.Diff([]int{4}, rowIDs(again.Items)); diff != "" || again.HasPrev || again.HasNext {
			t.Fatalf("%+v %s", again, diff)
		}
		remove(t, coll, 4)
		last := get(paging.Request{FromEnd: true})
		if len(last.Items) != 0 || last.HasPrev || last.HasNext || last.Items == nil {
			t.Fatalf("%+v", last)
		}
	})
}

func TestArraysAndOtherUnsortableValues(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	for i, c := range []struct {
		sort, want string
		doc        bson.D
	}{
		{"tags", `"tags"`, bson.D{{Key: "_id", Value: 7}, {Key: "tags", Value: bson.A{1, 2}}}},
		{"tags", `"tags"`, bson.D{{Key: "_id", Value: 7}, {Key: "tags", Value: bson.A{}}}},
		{"a.b", `"a.b"`, bson.D{{Key: "_id", Value: 7}, {Key: "a", Value: bson.A{bson.D{{Key: "b", Value: 1}}}}}},
		{"r", `"r"`, bson.D{{Key: "_id", Value: 7}, {Key: "r", Value: bson.Regex{Pattern: "x"}}}},
	} {
		coll := db.Collection(fmt.Sprint("c", i))
		testkit.Insert(t, coll, c.doc)
		pager := newPager[bson.M](t, coll, bson.D{{Key: c.sort, Value: 1}}, nil)
		_, err := pager.Page(ctx, nil, paging.Request{})
		if !errors.Is(err, paging.ErrUnsortable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "7") {
			t.Errorf("%v: %v", c.doc, err)
		}
		if _, err := pager.Token(nil, c.doc); !errors.Is(err, paging.ErrUnsortable) {
			t.Errorf("token of %v: %v", c.doc, err)
		}
		for _, err := range pager.All(ctx, nil, paging.Request{}) {
			if !errors.Is(err, paging.ErrUnsortable) {
				t.Errorf("all of %v: %v", c.doc, err)
			}
		}
	}
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	coll := client.Database("d").Collection("c")
	find := func(set func(*options.FindOptionsBuilder)) *paging.Options {
		builder := options.Find()
		set(builder)
		return &paging.Options{Find: builder}
	}
	project := func(p any) *paging.Options {
		return find(func(f *options.FindOptionsBuilder) { f.SetProjection(p) })
	}
	malformed := bson.D{{Key: "a", Value: bson.RawValue{Type: bson.TypeString, Value: []byte{1}}}}
	for _, c := range []struct {
		coll *mongo.Collection
		sort bson.D
		opts *paging.Options
		want string
	}{
		{nil, nil, nil, "the collection is nil"},
		{coll, bson.D{{Key: "", Value: 1}}, nil, "sort"},
		{coll, bson.D{{Key: "$a", Value: 1}}, nil, "sort"},
		{coll, bson.D{{Key: "a..b", Value: 1}}, nil, "sort"},
		{coll, bson.D{{Key: "a", Value: 2}}, nil, `sort: the direction of "a"`},
		{coll, bson.D{{Key: "a", Value: "asc"}}, nil, `sort: the direction of "a"`},
		{coll, bson.D{{Key: "a", Value: bson.D{{Key: "$meta", Value: "textScore"}}}}, nil, `sort: the direction of "a"`},
		{coll, bson.D{{Key: "a", Value: []int{1}}}, nil, `sort: the direction of "a"`},
		{coll, bson.D{{Key: "a", Value: 1}, {Key: "a", Value: -1}}, nil, "twice"},
		{coll, nil, &paging.Options{PageSize: -1}, "Options.PageSize"},
		{coll, nil, &paging.Options{Group: -1}, "Options.Group"},
		{coll, nil, &paging.Options{Group: tooMany}, "Options.Group"},
		{coll, nil, &paging.Options{Equality: []string{"$x"}}, "Options.Equality"},
		{coll, nil, &paging.Options{Equality: []string{"_id"}}, "Options.Equality"},
		{coll, nil, &paging.Options{SigningKeys: [][]byte{{}}}, "Options.SigningKeys: a key has 0 bytes and must have 32"},
		{coll, nil, &paging.Options{SigningKeys: [][]byte{make([]byte, 32), make([]byte, 31)}}, "Options.SigningKeys: a key has 31 bytes"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetSort(bson.D{{Key: "a", Value: 1}}) }), "Options.Find: sort"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetSkip(1) }), "Options.Find: skip"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetLimit(1) }), "Options.Find: limit"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetMin(bson.D{}) }), "Options.Find: min"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetMax(bson.D{}) }), "Options.Find: max"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetCursorType(options.TailableAwait) }), "Options.Find: tailable"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetMaxAwaitTime(1) }), "Options.Find: maxAwaitTime"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetReturnKey(true) }), "Options.Find: returnKey"},
		{coll, nil, find(func(f *options.FindOptionsBuilder) { f.SetShowRecordID(true) }), "Options.Find: showRecordID"},
		{coll, byS, project(bson.D{{Key: "s", Value: bson.D{{Key: "$slice", Value: 1}}}}), "Options.Find: projection"},
		{coll, byS, project(bson.D{{Key: "s.t", Value: 0}}), "cuts the sort field"},
		{coll, byS, project(bson.D{{Key: "_paging", Value: 1}}), "_paging"},
		{coll, byS, project(make(chan int)), "Options.Find: projection"},
		{coll, byS, project(bson.D{{Key: "tags.$", Value: 1}}), "$elemMatch"},
		{coll, byS, project(bson.D{{Key: "a", Value: bson.D{{Key: "tags.$", Value: 1}}}}), `"a.tags.$"`},
		{coll, byS, find(func(f *options.FindOptionsBuilder) { f.SetLet(make(chan int)) }), "Options.Find: let"},
		{coll, byS, find(func(f *options.FindOptionsBuilder) { f.SetLet(5) }), "Options.Find: let"},
		{coll, byS, find(func(f *options.FindOptionsBuilder) { f.SetLet(malformed) }), "Options.Find: let"},
		{coll, byS, find(func(f *options.FindOptionsBuilder) { f.SetLet(bson.D(nil)) }), "the document is nil"}, // the driver writes null
	} {
		_, err := paging.New[bson.M](c.coll, c.sort, c.opts)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "paging: new: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("sort %v: error %v, want %q", c.sort, err, c.want)
		}
	}
	for _, value := range []any{1, int32(-1), int64(1), -1.0} {
		if _, err := paging.New[bson.M](coll, bson.D{{Key: "_id.x", Value: value}}, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("rows")
	testkit.InsertAll(t, coll, rows(3))
	pager := newPager[row](t, coll, byS, nil)
	token := testkit.Value[string](t)(pager.Token(nil, rows(1)[0]))
	for _, req := range []paging.Request{
		{After: token, Before: token}, {After: token, FromEnd: true}, {Before: token, FromEnd: true},
		{Size: -1}, {Size: tooMany}, {Count: -9}, {From: "x"},
		{Number: -1}, {Number: 1, After: token}, {Number: 1, Before: token}, {Number: 1, FromEnd: true},
	} {
		if _, err := pager.Page(ctx, nil, req); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	id := bson.NewObjectID()
	for _, over := range []any{3, 2.5, "x", true, id, bson.A{bson.D{}}, []int{1}, time.Now()} {
		want := fmt.Sprintf("paging: page: invalid: over must be a filter or a mongo.Pipeline, not %T", over)
		if _, err := pager.Page(ctx, over, paging.Request{}); !errors.Is(err, mongopatterns.ErrInvalid) || err.Error() != want {
			t.Errorf("%T: %v", over, err)
		}
	}
	for _, over := range []any{make(chan int), bson.D{{Key: "s", Value: make(chan int)}}, (*row)(nil), mongo.Pipeline{{{Key: "$match", Value: make(chan int)}}}} {
		if _, err := pager.Page(ctx, over, paging.Request{}); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%T: %v", over, err)
		}
	}
	if _, err := pager.Token(nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	// Errors of the server and of decoding keep their type.
	_, err := pager.Page(ctx, bson.D{{Key: "$nonsense", Value: 1}}, paging.Request{})
	var server mongo.ServerError
	if !errors.As(err, &server) || !strings.HasPrefix(err.Error(), "paging: ") {
		t.Errorf("server's error: %v", err)
	}
	type wrong struct {
		S []string `bson:"s"`
	}
	_, err = newPager[wrong](t, coll, byS, nil).Page(ctx, nil, paging.Request{})
	if err == nil || !strings.Contains(err.Error(), "_id 1: ") {
		t.Errorf("decoding: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := pager.Page(cancelled, nil, paging.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A value that no token can hold is refused before a token is needed.
func TestValuesTooLargeForATokenAreMet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("c")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 7}, {Key: "s", Value: strings.Repeat("x", 50_000)}}, bson.D{{Key: "_id", Value: 8}, {Key: "s", Value: "y"}})
	pager := newPager[bson.M](t, coll, byS, nil)
	_, err := pager.Page(ctx, nil, paging.Request{Size: 1})
	if !errors.Is(err, paging.ErrUnsortable) || !strings.Contains(err.Error(), "_id 7: ") || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}

// A document that took the place of another, with an _id that is equal but for
// its bytes, stands where that one stood: it was shown, and it lies behind.
func TestEqualIDs(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		db := mongotest.Database(t)
		for i, c := range [][3]any{ // an _id, its equal, the next one
			{int32(1), 1.0, int32(2)}, {int64(1), int32(1), int32(2)}, {0.0, math.Copysign(0, -1), 2}, {1, decimal("1.00"), 2}, {decimal("1.0"), decimal("1.00"), 2},
			{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1.0}}, bson.D{{Key: "a", Value: 2}}},
			{int32(1), nil, int32(2)}, {"a", nil, "b"},
		} {
			coll := db.Collection(fmt.Sprint("c", i))
			for _, sort := range []bson.D{nil, byS} {
				if _, err := coll.DeleteMany(ctx, bson.D{}); err != nil {
					t.Fatal(err)
				}
				testkit.Insert(t, coll, bson.D{{Key: "_id", Value: c[0]}, {Key: "s", Value: 1}}, bson.D{{Key: "_id", Value: c[2]}, {Key: "s", Value: 1}})
				pager := newPager[bson.Raw](t, coll, sort, opts)
				first := testkit.Value[*paging.Page[bson.Raw]](t)(pager.Page(ctx, nil, paging.Request{Size: 1}))
				if _, err := coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: c[0]}}); err != nil {
					t.Fatal(err)
				}
				if c[1] != nil {
					testkit.Insert(t, coll, bson.D{{Key: "_id", Value: c[1]}, {Key: "s", Value: 1}})
				}
				finds := mongotest.Record(t, db, func() {
					page := testkit.Value[*paging.Page[bson.Raw]](t)(pager.Page(ctx, nil, paging.Request{Size: 2, After: first.Next}))
					if len(page.Items) != 1 || page.HasPrev != (c[1] != nil) {
						t.Errorf("%v: %v, prev %v", c, page.Items, page.HasPrev)
					}
				})
				if opts == nil && sort != nil && c[1] == nil && len(finds) != 2 {
					t.Errorf("%v is gone: %v", c[0], finds.Names())
				}
			}
		}
	})
}

// The document beyond the page only answers HasNext: what is in it is no matter.
func TestTheNextDocumentNeedNotDecode(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 1}, {Key: "s", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "s", Value: bson.A{2, 3}}})
	page := testkit.Value[*paging.Page[row]](t)(newPager[row](t, coll, byS, nil).Page(context.Background(), nil, paging.Request{Size: 1}))
	if !page.HasNext || len(page.Items) != 1 {
		t.Errorf("%+v", page)
	}
}

func TestCollation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	anyCase := options.Collation{Locale: "en", Strength: 2}
	find := options.Find().SetCollation(&anyCase)
	byName := bson.D{{Key: "name", Value: 1}}

	t.Run("ties of names that differ in case", func(t *testing.T) {
		coll := db.Collection("numbers")
		names := []any{"a", "A", "b", "B", nil, 5, "ä"}
		var docs []bson.D
		for i := range 40 {
			docs = append(docs, bson.D{{Key: "_id", Value: (i * 7) % 40}, {Key: "name", Value: names[i%len(names)]}})
		}
		testkit.InsertAll(t, coll, docs)
		for _, sequential := range []bool{false, true} {
			pager := newPager[bson.Raw](t, coll, byName, &paging.Options{Find: find, Sequential: sequential})
			if err := pager.EnsureIndexes(ctx); err != nil {
				t.Fatal(err)
			}
			cursor := testkit.Value[*mongo.Cursor](t)(coll.Find(ctx, bson.D{}, options.Find().SetCollation(&anyCase).
				SetSort(bson.D{{Key: "name", Value: 1}, {Key: "_id", Value: 1}})))
			var all []bson.Raw
			if err := cursor.All(ctx, &all); err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{1, 3, 11} {
				walk(t, pager, nil, size, false, ids(all))
				walk(t, pager, nil, size, true, ids(all))
				walk(t, pager, mongo.Pipeline{}, size, false, ids(all))
			}
		}
	})
	t.Run("symbols", func(t *testing.T) {
		coll := db.Collection("symbols")
		testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "b"}},
			bson.D{{Key: "_id", Value: 2}, {Key: "name", Value: bson.Symbol("a")}})
		collated := newPager[bson.Raw](t, coll, byName, &paging.Options{Find: find})
		for _, fromEnd := range []bool{false, true} {
			_, err := collated.Page(ctx, nil, paging.Request{FromEnd: fromEnd})
			if !errors.Is(err, paging.ErrUnsortable) || !strings.Contains(err.Error(), "symbol") {
				t.Errorf("from the end %v: %v", fromEnd, err)
			}
		}
		// In a document the server itself refuses to sort it.
		for _, name := range []any{bson.Symbol("a"), bson.D{{Key: "x", Value: bson.Symbol("a")}}} {
			if _, err := collated.Token(nil, bson.D{{Key: "_id", Value: 2}, {Key: "name", Value: name}}); !errors.Is(err, paging.ErrUnsortable) {
				t.Errorf("token of %v: %v", name, err)
			}
		}
		// The index that the pages need does not take them.
		if err := collated.EnsureIndexes(ctx); err == nil {
			t.Error("the server has symbols in an index with a collation: are pages right that begin after a text?")
		}
		if page, err := newPager[bson.Raw](t, coll, byName, nil).Page(ctx, nil, paging.Request{}); err != nil || len(page.Items) != 2 {
			t.Errorf("without a collation: %v, %v", page, err)
		}
	})
	t.Run("text as _id", func(t *testing.T) {
		coll := db.Collection("texts")
		testkit.Insert(t, coll, bson.D{{Key: "_id", Value: "x"}}, bson.D{{Key: "_id", Value: "y"}})
		refusing := newPager[bson.M](t, coll, byName, &paging.Options{Find: find})
		if _, err := refusing.Page(ctx, nil, paging.Request{}); !errors.Is(err, paging.ErrUnsortable) || !strings.Contains(err.Error(), "DistinctIDs") {
			t.Errorf("text ids under a collation: %v", err)
		}
		vouched := newPager[bson.Raw](t, coll, byName, &paging.Options{Find: find, DistinctIDs: true})
		walk(t, vouched, nil, 1, false, []string{`"x"`, `"y"`})
		simple := options.Find().SetCollation(&options.Collation{Locale: "simple"})
		walk(t, newPager[bson.Raw](t, coll, byName, &paging.Options{Find: simple}), nil, 1, false, []string{`"x"`, `"y"`})
		walk(t, newPager[bson.Raw](t, coll, byName, nil), nil, 1, true, []string{`"x"`, `"y"`})
	})
}

func TestOptionsAndIndexesAreSent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("rows")
	testkit.InsertAll(t, coll, rows(9))
	find := options.Find().SetComment("list").SetAllowDiskUse(true).SetHint("s_1__id_1").
		SetBatchSize(2).SetLet(bson.D{{Key: "x", Value: 1}}).SetNoCursorTimeout(true)
	pager := newPager[row](t, coll, byS, &paging.Options{Find: find})
	if err := pager.EnsureIndexes(ctx); err != nil {
		t.Fatal(err)
	}
	find.SetComment("changed afterwards")
	commands := mongotest.Record(t, db, func() {
		first := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Size: 3, Count: paging.CountExact}))
		testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Size: 3, After: first.Next}))
	})
	for _, command := range commands.Named("find") {
		for _, want := range []string{"comment", "allowDiskUse", "hint", "let", "noCursorTimeout"} {
			if _, err := command.Body.LookupErr(want); err != nil {
				t.Errorf("%s was not sent with %s", want, command.Body)
			}
		}
		if got := command.Body.Lookup("batchSize").AsInt64(); got != 2 {
			t.Errorf("batch size %d", got)
		}
		if got := command.Body.Lookup("comment").StringValue(); got != "list" {
			t.Errorf("comment %q", got)
		}
	}
	for _, command := range commands.Named("aggregate") {
		if got, ok := command.Body.Lookup("comment").StringValueOK(); !ok || got != "list" {
			t.Errorf("comment of the count: %s", command.Body)
		}
	}
	if _, err := pager.Page(ctx, mongo.Pipeline{}, paging.Request{}); err == nil || !strings.Contains(err.Error(), "noCursorTimeout") {
		t.Errorf("an option that aggregate does not have: %v", err)
	}
	projecting := newPager[row](t, coll, byS, &paging.Options{Find: options.Find().SetProjection(bson.D{{Key: "s", Value: 1}})})
	if _, err := projecting.Page(ctx, mongo.Pipeline{}, paging.Request{}); err == nil || !strings.Contains(err.Error(), "$project") {
		t.Errorf("a projection over a pipeline: %v", err)
	}
	hinted := newPager[row](t, coll, byS, &paging.Options{Find: options.Find().SetComment("list").SetHint("s_1__id_1").SetAllowDiskUse(true)})
	commands = mongotest.Record(t, db, func() {
		testkit.Value[*paging.Page[row]](t)(hinted.Page(ctx, mongo.Pipeline{}, paging.Request{Size: 3, Count: 2}))
	})
	for _, command := range commands {
		for _, want := range []string{"comment", "allowDiskUse", "hint"} {
			if _, err := command.Body.LookupErr(want); err != nil {
				t.Errorf("%s was not sent with %s", want, command.Body)
			}
		}
	}
}

func TestIndexesAndShardKey(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := context.Background()
	mixed := bson.D{{Key: "published", Value: -1}, {Key: "title", Value: 1}}
	collation := options.Collation{Locale: "de", Strength: 3}
	for i, c := range []struct {
		sort  bson.D
		opts  *paging.Options
		index string
		shard string
	}{
		{nil, nil, "", `{"_id":"hashed"}`},
		{bson.D{{Key: "_id", Value: -1}}, nil, "", `{"_id":"hashed"}`},
		{mixed, nil, `{"published":-1,"title":1,"_id":1}`, `{"_id":"hashed"}`},
		{bson.D{{Key: "s", Value: -1}}, nil, `{"s":-1,"_id":-1}`, `{"_id":"hashed"}`},
		{mixed, &paging.Options{Equality: []string{"tenant", "state"}}, `{"tenant":1,"state":1,"published":-1,"title":1,"_id":1}`,
			`{"tenant":1,"state":1,"_id":1}`},
		{bson.D{{Key: "_id", Value: 1}}, &paging.Options{Equality: []string{"tenant"}}, `{"tenant":1,"_id":1}`, `{"tenant":1,"_id":1}`},
		{nil, &paging.Options{Find: options.Find().SetCollation(&collation)}, "", `{"_id":"hashed"}`},
		{byS, &paging.Options{Find: options.Find().SetCollation(&collation)}, `{"s":1,"_id":1}`, `{"_id":"hashed"}`},
	} {
		coll := db.Collection(fmt.Sprint("c", i))
		pager := newPager[bson.M](t, coll, c.sort, c.opts)
		got := ""
		for _, model := range pager.Indexes()[coll.Name()] {
			got = string(testkit.Value[[]byte](t)(bson.MarshalExtJSON(model.Keys, false, false)))
		}
		if got != c.index {
			t.Errorf("index %s, want %s", got, c.index)
		}
		if got := string(testkit.Value[[]byte](t)(bson.MarshalExtJSON(pager.ShardKey()[coll.Name()], false, false))); got != c.shard {
			t.Errorf("shard key %s, want %s", got, c.shard)
		}
		created := mongotest.Record(t, db, func() {
			for range 2 {
				if err := pager.EnsureIndexes(ctx); err != nil {
					t.Error(err)
				}
			}
		}).Named("createIndexes")
		if len(created) == 0 {
			continue
		}
		locale, _ := created[0].Body.Lookup("indexes", "0", "collation", "locale").StringValueOK()
		if want := c.opts != nil && c.opts.Find != nil; want != (locale == "de") || len(created) != 1 {
			t.Errorf("%d indexes created, with the locale %q", len(created), locale)
		}
	}
	coll := db.Collection("conflict")
	if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "s", Value: 1}, {Key: "_id", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		t.Fatal(err)
	}
	if err := newPager[bson.M](t, coll, byS, nil).EnsureIndexes(ctx); !errors.Is(err, mongopatterns.ErrIndexConflict) {
		t.Errorf("conflict: %v", err)
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		coll := mongotest.Database(t).Collection("rows")
		testkit.InsertAll(t, coll, rows(25))
		pager := newPager[row](t, coll, byS, opts)
		all := func(over any, req paging.Request) []int {
			t.Helper()
			out := []int{}
			for r, err := range pager.All(ctx, over, req) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, r.ID)
			}
			return out
		}
		want := rowIDs(rows(25))
		backward := slices.Clone(want)
		slices.Reverse(backward)
		token := testkit.Value[string](t)(pager.Token(nil, rows(10)[9]))
		overPipeline := mongo.Pipeline{{{Key: "$match", Value: bson.D{}}}}
		for _, size := range []int{0, 1, 4, 25, 30} {
			for _, c := range []struct {
				over any
				req  paging.Request
				want []int
			}{
				{nil, paging.Request{Size: size}, want},
				{overPipeline, paging.Request{Size: size}, want},
				{nil, paging.Request{Size: size, FromEnd: true}, backward},
				{nil, paging.Request{Size: size, After: token}, want[10:]},
				{nil, paging.Request{Size: size, Before: token}, backward[16:]},
			} {
				if diff := cmp.Diff(c.want, all(c.over, c.req)); diff != "" {
					t.Errorf("%+v: %s", c.req, diff)
				}
			}
		}
		for range pager.All(ctx, nil, paging.Request{Size: 3}) {
			break
		}
		for _, bad := range []paging.Request{{Size: -1}, {Count: paging.CountExact}, {Number: 1}, {After: "x"}} {
			errs := 0
			for _, err := range pager.All(ctx, nil, bad) {
				if err == nil {
					t.Fatalf("%+v went on", bad)
				}
				errs++
			}
			if errs != 1 {
				t.Errorf("%+v: %d errors", bad, errs)
			}
		}
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		seen := 0
		for _, err := range pager.All(cancelled, nil, paging.Request{Size: 5}) {
			if seen++; seen == 3 {
				cancel()
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if seen != 6 { // the batch that was there, and the error
			t.Errorf("%d after cancelling", seen)
		}
	})
}

func TestPipelines(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		db := mongotest.Database(t)
		coll := db.Collection("orders")
		var docs []bson.D
		for i := range 30 {
			docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "who", Value: i % 7}, {Key: "items", Value: bson.A{i % 3, i % 5}}})
		}
		testkit.InsertAll(t, coll, docs)
		type who struct {
			ID int `bson:"_id"`
			N  int `bson:"n"`
		}
		perWho := mongo.Pipeline{{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: "$who"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
		}}}}
		pager := newPager[who](t, coll, bson.D{{Key: "n", Value: -1}}, opts)
		var got []who
		for page, err := range pages(ctx, pager, perWho, paging.Request{Size: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page.Items...)
		}
		if diff := cmp.Diff([]who{{1, 5}, {0, 5}, {6, 4}, {5, 4}, {4, 4}, {3, 4}, {2, 4}}, got); diff != "" {
			t.Error(diff)
		}
		page := testkit.Value[*paging.Page[who]](t)(pager.Page(ctx, perWho, paging.Request{Size: 2, Count: paging.CountExact}))
		if *page.Total != (paging.Total{N: 7}) {
			t.Errorf("total %v", page.Total)
		}

		// After $unwind the index of the element tells apart what has one _id.
		unwind := mongo.Pipeline{{{Key: "$unwind", Value: bson.D{
			{Key: "path", Value: "$items"}, {Key: "includeArrayIndex", Value: "i"},
		}}}}
		elements := newPager[bson.Raw](t, coll, bson.D{{Key: "items", Value: 1}, {Key: "_id", Value: 1}, {Key: "i", Value: 1}}, opts)
		n := 0
		last := ""
		for doc, err := range elements.All(ctx, unwind, paging.Request{Size: 4}) {
			if err != nil {
				t.Fatal(err)
			}
			if doc.String() == last {
				t.Errorf("%s twice", doc)
			}
			last = doc.String()
			n++
		}
		if n != 60 {
			t.Errorf("%d elements", n)
		}
		_, err := pager.Page(ctx, mongo.Pipeline{{{Key: "$nonsense", Value: 1}}}, paging.Request{})
		var server mongo.ServerError
		if !errors.As(err, &server) {
			t.Errorf("%v", err)
		}
		if _, err := pager.Filter(perWho, paging.Request{}); err == nil {
			t.Error("a pipeline as a filter")
		}
		if _, err := pager.Page(ctx, mongo.Pipeline{{{Key: "$match", Value: make(chan int)}}}, paging.Request{}); err == nil {
			t.Error("a pipeline that cannot be encoded")
		}
	})
}

// What Filter, Sort and Pipeline give, run by hand, is what Page reads.
func TestComposing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("rows")
	testkit.InsertAll(t, coll, rows(20))
	pager := newPager[row](t, coll, bson.D{{Key: "s", Value: -1}}, nil)
	type odd struct {
		S bson.D `bson:"s"`
	}
	for _, over := range []any{nil, bson.D{}, bson.M{}, bson.D{{Key: "s", Value: bson.D{{Key: "$gt", Value: 1}}}}, odd{bson.D{{Key: "$gt", Value: 1}}}} {
		first := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Size: 5}))
		for _, req := range []paging.Request{{Size: 3}, {Size: 3, After: first.Next}, {Size: 3, Before: first.Cursor(4)}, {Size: 3, FromEnd: true}} {
			want := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, req))
			filter := testkit.Value[bson.D](t)(pager.Filter(over, req))
			var found, aggregated []row
			cursor := testkit.Value[*mongo.Cursor](t)(coll.Find(ctx, filter, options.Find().SetSort(pager.Sort(req)).SetLimit(3)))
			if err := cursor.All(ctx, &found); err != nil {
				t.Fatal(err)
			}
			stages := append(testkit.Value[mongo.Pipeline](t)(pager.Pipeline(over, req)), bson.D{{Key: "$limit", Value: 3}})
			cursor = testkit.Value[*mongo.Cursor](t)(coll.Aggregate(ctx, stages))
			if err := cursor.All(ctx, &aggregated); err != nil {
				t.Fatal(err)
			}
			if req.Before != "" || req.FromEnd {
				slices.Reverse(found)
				slices.Reverse(aggregated)
			}
			if diff := cmp.Diff(want.Items, found); diff != "" {
				t.Errorf("Filter: %+v: %s", req, diff)
			}
			if diff := cmp.Diff(want.Items, aggregated); diff != "" {
				t.Errorf("Pipeline: %+v: %s", req, diff)
			}
		}
	}
	token := testkit.Value[string](t)(pager.Token(nil, row{ID: 14, S: 4}))
	page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Size: 2, After: token}))
	if diff := cmp.Diff([]int{13, 12}, rowIDs(page.Items)); diff != "" {
		t.Error(diff)
	}
	for _, req := range []paging.Request{{After: "x"}, {After: token, Before: token}, {Size: -1}} {
		if _, err := pager.Filter(nil, req); err == nil {
			t.Error("Filter took", req)
		}
		if _, err := pager.Pipeline(nil, req); err == nil {
			t.Error("Pipeline took", req)
		}
	}
	if _, err := pager.Token(nil, 5); err == nil {
		t.Error("a token of a number")
	}
	// Beyond the last possible value there is nothing, and the filter says so.
	byID := newPager[row](t, coll, nil, nil)
	end := testkit.Value[string](t)(byID.Token(nil, bson.D{{Key: "_id", Value: bson.MaxKey{}}}))
	n := testkit.Value[int64](t)(coll.CountDocuments(ctx, testkit.Value[bson.D](t)(byID.Filter(nil, paging.Request{After: end}))))
	if n != 0 {
		t.Errorf("%d documents beyond the end", n)
	}
}

// Reads join the session of the context.
func TestInATransaction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("rows")
	testkit.InsertAll(t, coll, rows(5))
	pager := newPager[row](t, coll, byS, nil)
	session := testkit.Value[*mongo.Session](t)(db.Client().StartSession())
	defer session.EndSession(ctx)
	rollback := errors.New("roll back")
	_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if _, err := coll.InsertOne(ctx, row{ID: 6, S: 9}); err != nil {
			return nil, err
		}
		page, err := pager.Page(ctx, nil, paging.Request{Count: paging.CountExact, Size: 4})
		if err != nil {
			return nil, err
		}
		if page.Total.N != 6 || !page.HasNext {
			t.Errorf("inside: %v", page.Total)
		}
		page, err = pager.Page(ctx, nil, paging.Request{After: page.Next})
		if err != nil {
			return nil, err
		}
		if diff := cmp.Diff([]int{5, 6}, rowIDs(page.Items)); diff != "" {
			t.Error(diff)
		}
		return nil, rollback
	})
	if !errors.Is(err, rollback) {
		t.Fatal(err)
	}
	page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{}))
	if len(page.Items) != 5 {
		t.Errorf("outside: %d", len(page.Items))
	}
}

// A filter has to fix the fields of Equality, and may do so in several ways.
func TestEqualityIsChecked(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 1}, {Key: "x", Value: "a"}, {Key: "s", Value: 1}}, bson.D{{Key: "_id", Value: 2}, {Key: "x", Value: "b"}, {Key: "s", Value: 2}})
	pager := newPager[row](t, coll, byS, &paging.Options{Equality: []string{"x"}})
	d := func(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }
	and := func(filters ...any) bson.D { return d("$and", append(bson.A{}, filters...)) }
	for _, over := range []any{
		nil, d("y", 1), d("x", d("$gt", "a")), d("x", d("$ne", "a")), d("x", bson.Regex{Pattern: "^a"}), d("x", d("$in", bson.A{"a", bson.Regex{Pattern: "^b"}})),
		d("x", d("$nin", bson.A{"a"})), d("$or", bson.A{d("x", "a"), d("x", "b")}), and(d("x", d("$gte", "a"))),
	} {
		if _, err := pager.Page(t.Context(), over, paging.Request{}); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `Options.Equality: the filter must give "x" a value`) {
			t.Errorf("%v: %v", over, err)
		}
	}
	for _, c := range []struct {
		over any
		want []int
	}{
		{d("x", "a"), []int{1}}, {d("x", d("$eq", "a")), []int{1}}, {bson.M{"x": "b"}, []int{2}}, {and(d("x", "a"), d("s", 1)), []int{1}},
		{d("x", d("$in", bson.A{"a", "b", "c"})), []int{1, 2}}, {d("x", d("$in", bson.A{})), []int{}}, {and(and(d("x", d("$in", bson.A{"a", "b"})))), []int{1, 2}},
		{and(d("x", d("$in", bson.A{"a", "b"})), d("x", d("$ne", "b"))), []int{1}}, {d("x", bson.D{{Key: "$in", Value: bson.A{"a", "b"}}, {Key: "$ne", Value: "a"}}), []int{2}},
		{and(d("x", "a"), d("x", d("$in", bson.A{"a", "b"}))), []int{1}}, {d("x", nil), []int{}},
		{mongo.Pipeline{d("$sort", d("s", 1))}, []int{1, 2}},
	} {
		got := []int{}
		for page, err := range pages(t.Context(), pager, c.over, paging.Request{Size: 1}) {
			if err != nil {
				t.Fatal(c.over, err)
			}
			got = append(got, rowIDs(page.Items)...)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.over, diff)
		}
	}
}

// What cannot stand inside $or stands beside it.
func TestTextAndNear(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("rows")
	for i := range 9 {
		testkit.Insert(t, coll, bson.D{{Key: "_id", Value: i}, {Key: "s", Value: i / 3}, {Key: "title", Value: "a whale"}, {Key: "at", Value: bson.A{i, 0}}})
	}
	for _, keys := range []bson.D{{{Key: "title", Value: "text"}}, {{Key: "at", Value: "2d"}}} {
		if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
			t.Fatal(err)
		}
	}
	text := bson.D{{Key: "$text", Value: bson.D{{Key: "$search", Value: "whale"}}}}
	near := bson.D{{Key: "at", Value: bson.D{{Key: "$near", Value: bson.A{4, 0}}, {Key: "$maxDistance", Value: 10}}}}
	for _, over := range []any{text, bson.D{{Key: "$and", Value: bson.A{text}}}, near} {
		for _, opts := range []*paging.Options{nil, {Sequential: true}, {Equality: []string{"x"}}} {
			pager := newPager[bson.Raw](t, coll, byS, opts)
			var want []string
			for i := range 9 {
				want = append(want, fmt.Sprintf(`{"$numberInt":"%d"}`, i))
			}
			walk(t, pager, over, 2, false, want)
			walk(t, pager, over, 4, true, want)
		}
	}
}

// Two pagers of one sort and different collations have an index each.
func TestTwoCollations(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	names := map[string]bool{}
	for _, collation := range []*options.Collation{nil, {Locale: "en"}, {Locale: "en", Strength: 2}, {Locale: "en", NumericOrdering: true}, {Locale: "sv"}} {
		find := options.Find()
		if collation != nil {
			find.SetCollation(collation)
		}
		pager := newPager[row](t, coll, byS, &paging.Options{Find: find})
		for range 2 {
			ensure(t, pager)
		}
	}
	for _, index := range testkit.Value[[]mongo.IndexSpecification](t)(coll.Indexes().ListSpecifications(t.Context())) {
		names[index.Name] = true
	}
	if len(names) != 6 || !names["s_1__id_1_en_strength_2"] || !names["s_1__id_1"] {
		t.Errorf("%v", names)
	}
}

// tooMany is more than fits the server's 32 bits, or negative if an int has 32 bits.
var tooMany = func() int { n := math.MaxInt32; return n + 1 }()
