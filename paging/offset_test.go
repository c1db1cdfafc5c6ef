package paging_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

func TestNumbered(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		coll := mongotest.Database(t).Collection("rows")
		testkit.InsertAll(t, coll, rows(25))
		pager := newPager[row](t, coll, byS, opts)
		all := rowIDs(rows(25))
		for _, over := range []any{nil, mongo.Pipeline{}} {
			for number := int64(1); number <= 5; number++ {
				page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Number: number, Size: 10, Count: paging.CountExact}))
				from, to := min(int(number-1)*10, 25), min(int(number)*10, 25)
				if diff := cmp.Diff(append([]int{}, all[from:to]...), rowIDs(page.Items)); diff != "" {
					t.Error(diff)
				}
				if page.HasPrev != (number > 1) || page.HasNext != (number < 3) || page.Number != number || page.Pages != 3 || page.Total.N != 25 {
					t.Errorf("%+v", page)
				}
				if page.GroupFirst != 1 || page.GroupLast != 3 {
					t.Errorf("group %d to %d", page.GroupFirst, page.GroupLast)
				}
				if page.HasPrev {
					// From a page beyond the end the way back leads to the last one.
					back := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Size: 10, Before: page.Prev}))
					if diff := cmp.Diff(all[max(from-10, 0):from], rowIDs(back.Items)); diff != "" {
						t.Errorf("back from %d: %s", number, diff)
					}
				}
				if page.HasNext {
					next := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Size: 5, After: page.Next}))
					if diff := cmp.Diff(all[to:to+5], rowIDs(next.Items)); diff != "" {
						t.Errorf("on from %d: %s", number, diff)
					}
				}
			}
		}
		uncounted := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Number: 2, Size: 2}))
		if uncounted.Pages != 0 || uncounted.Total != nil || uncounted.GroupLast != 10 {
			t.Errorf("%+v", uncounted)
		}
		nothing := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, bson.D{{Key: "s", Value: -1}},
			paging.Request{Number: 3, Count: paging.CountExact}))
		if nothing.HasPrev || nothing.HasNext || nothing.Pages != 0 || nothing.Total.N != 0 || nothing.Position != "" {
			t.Errorf("%+v", nothing)
		}
		for _, number := range []int64{math.MaxInt64, math.MaxInt64 / 20} {
			if _, err := pager.Page(ctx, nil, paging.Request{Number: number}); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%d: %v", number, err)
			}
		}
	})
}

// Beyond the last page everything leads back to it.
func TestNumberedBeyondTheEnd(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("rows")
	testkit.InsertAll(t, coll, rows(5))
	pager := newPager[row](t, coll, byS, &paging.Options{Group: 2})
	u := testkit.Value[*url.URL](t)(url.Parse("/rows?page=99"))
	for number, header := range map[int64]string{
		3:  `</rows?page=1>; rel="first", </rows?page=2>; rel="prev"`,
		4:  `</rows?page=1>; rel="first", </rows?page=3>; rel="prev", </rows?page=3>; rel="last"`,
		99: `</rows?page=1>; rel="first", </rows?page=3>; rel="prev", </rows?page=3>; rel="last"`,
	} {
		page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Number: number, Size: 2, Count: paging.CountExact}))
		if page.GroupFirst != 3 || page.GroupLast != 3 || page.Pages != 3 || page.Number != number {
			t.Errorf("%+v", page)
		}
		if page.Position != "" { // there is something on it
			header = strings.Replace(header, "page=2", "page=2&position="+page.Position, 1)
		}
		if diff := cmp.Diff(header, page.LinkHeader(u)); diff != "" {
			t.Errorf("page %d: %s", number, diff)
		}
	}
	two := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Number: 2, Size: 2}))
	four := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{From: two.Position, Number: 4, Count: paging.CountExact}))
	header := testkit.Value[*url.URL](t)(url.Parse(links(t, four.LinkHeader(u))["prev"])).Query()
	if header.Get("page") != "3" || header.Get("position") != two.Position || len(four.Items) != 0 {
		t.Errorf("%v", header)
	}
	// What was skipped is on the way back.
	back := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Before: four.Prev, Size: 2}))
	if diff := cmp.Diff([]int{4, 5}, rowIDs(back.Items)); diff != "" {
		t.Error(diff)
	}
}

// The article list: pages of 10 in groups of ten, sorted by _id.
func TestArticleList(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("articles")
	var docs []bson.D
	for i := 1; i <= 400; i++ {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "title", Value: fmt.Sprint("article ", i)}})
	}
	testkit.InsertAll(t, coll, docs)
	type article struct {
		ID int `bson:"_id"`
	}
	pager := newPager[article](t, coll, nil, &paging.Options{PageSize: 10})
	ten := testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, paging.Request{Number: 10}))
	if ten.Items[9].ID != 100 || ten.GroupFirst != 1 || ten.GroupLast != 10 {
		t.Fatalf("%+v", ten)
	}

	sent := func(fn func()) (find bson.D) {
		t.Helper()
		commands := mongotest.Record(t, db, fn)
		if len(commands) != 1 {
			t.Fatalf("%v", commands.Names())
		}
		for _, key := range []string{"filter", "sort", "skip", "limit"} {
			value, err := commands[0].Body.LookupErr(key)
			if err == nil {
				find = append(find, bson.E{Key: key, Value: value.String()})
			}
		}
		return find
	}
	e := func(filter, sort string, more ...string) bson.D {
		out := bson.D{{Key: "filter", Value: filter}, {Key: "sort", Value: sort}}
		for i := 0; i < len(more); i += 2 {
			out = append(out, bson.E{Key: more[i], Value: more[i+1]})
		}
		return out
	}
	var thirteen *paging.Page[article]
	got := sent(func() {
		thirteen = testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, paging.Request{From: ten.Position, Number: 13}))
	})
	want := e(`{"_id": {"$gt": {"$numberInt":"100"}}}`, `{"_id": {"$numberInt":"1"}}`,
		"skip", `{"$numberLong":"20"}`, "limit", `{"$numberLong":"11"}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page 13: %s", diff)
	}
	if thirteen.Items[0].ID != 121 || thirteen.GroupFirst != 11 || !thirteen.HasPrev || !thirteen.HasNext {
		t.Errorf("%+v", thirteen)
	}
	got = sent(func() {
		page := testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, paging.Request{After: thirteen.Next, Size: 20}))
		if page.Items[0].ID != 131 {
			t.Errorf("%+v", page)
		}
	})
	if diff := cmp.Diff(e(`{"_id": {"$gte": {"$numberInt":"130"}}}`, `{"_id": {"$numberInt":"1"}}`, "limit", `{"$numberLong":"22"}`), got); diff != "" {
		t.Errorf("next: %s", diff)
	}
	got = sent(func() {
		page := testkit.Value[*paging.Page[article]](t)(pager.Page(ctx, nil, paging.Request{Before: thirteen.Prev, Size: 20}))
		if page.Items[19].ID != 120 {
			t.Errorf("%+v", page)
		}
	})
	if diff := cmp.Diff(e(`{"_id": {"$lte": {"$numberInt":"121"}}}`, `{"_id": {"$numberInt":"-1"}}`, "limit", `{"$numberLong":"22"}`), got); diff != "" {
		t.Errorf("previous: %s", diff)
	}
}

// From every page every page within reach is where Numbered finds it.
func TestJump(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, opts *paging.Options) {
		ctx := context.Background()
		db := mongotest.Database(t)
		coll := db.Collection("rows")
		testkit.InsertAll(t, coll, rows(41))
		pager := newPager[row](t, coll, byS, &paging.Options{Group: 4, Sequential: opts != nil})
		for _, over := range []any{nil, mongo.Pipeline{}} {
			for from := int64(1); from < 10; from++ {
				position := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Number: from, Size: 5})).Position
				for to := max(1, from-4); to <= from+4; to++ {
					if !scale.Turn(int(to), 3) {
						continue // each distance has some
					}
					var page *paging.Page[row]
					commands := mongotest.Record(t, db, func() {
						page = testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{From: position, Number: to, Size: 5}))
					})
					want := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, over, paging.Request{Number: to, Size: 5}))
					if diff := cmp.Diff(rowIDs(want.Items), rowIDs(page.Items)); diff != "" {
						t.Errorf("from %d to %d: %s", from, to, diff)
					}
					if page.HasNext != want.HasNext || page.HasPrev != want.HasPrev || page.Number != to {
						t.Errorf("from %d to %d: %+v, not %+v", from, to, page, want)
					}
					for _, command := range commands.Named("find") {
						if skip, err := command.Body.LookupErr("skip"); err == nil && skip.AsInt64() > 20 {
							t.Errorf("from %d to %d: skipped %d", from, to, skip.AsInt64())
						}
					}
					if len(page.Items) > 0 && page.Position != want.Position {
						t.Errorf("from %d to %d: another position", from, to)
					}
				}
				if _, err := pager.Page(ctx, over, paging.Request{From: position, Number: from + 5, Size: 5}); !errors.Is(err, paging.ErrOutOfReach) {
					t.Errorf("from %d to %d: %v", from, from+5, err)
				}
				if from > 5 {
					if _, err := pager.Page(ctx, over, paging.Request{From: position, Number: from - 5}); !errors.Is(err, paging.ErrOutOfReach) {
						t.Errorf("from %d to %d: %v", from, from-5, err)
					}
				}
			}
		}
		position := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{Number: 2, Size: 5})).Position
		if _, err := pager.Page(ctx, nil, paging.Request{From: position, Number: 3, Size: 6}); !errors.Is(err, mongopatterns.ErrInvalid) ||
			!strings.Contains(err.Error(), "5") {
			t.Errorf("another size: %v", err)
		}
		for _, number := range []int64{0, -1, math.MinInt64} {
			if _, err := pager.Page(ctx, nil, paging.Request{From: position, Number: number}); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("page %d: %v", number, err)
			}
		}
		if _, err := pager.Page(ctx, nil, paging.Request{From: position, Number: math.MaxInt64}); !errors.Is(err, paging.ErrOutOfReach) {
			t.Error(err)
		}
		if _, err := pager.Page(ctx, nil, paging.Request{From: position[1:], Number: 3}); !errors.Is(err, paging.ErrInvalidToken) {
			t.Error(err)
		}
		// The group of the page is cut to what exists.
		page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{From: position, Number: 6, Count: paging.CountExact}))
		if page.GroupFirst != 5 || page.GroupLast != 8 || page.Pages != 9 {
			t.Errorf("%+v", page)
		}
		page = testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, nil, paging.Request{From: page.Position, Number: 9, Count: paging.CountExact}))
		if page.GroupFirst != 9 || page.GroupLast != 9 {
			t.Errorf("%+v", page)
		}
	})
}

func TestCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("rows")
	testkit.InsertAll(t, coll, rows(25))
	pager := newPager[row](t, coll, byS, nil)
	some := bson.D{{Key: "s", Value: bson.D{{Key: "$lt", Value: 4}}}} // 11 of them
	pipeline := mongo.Pipeline{{{Key: "$match", Value: some}}}
	for _, c := range []struct {
		over  any
		count paging.Count
		want  *paging.Total
		json  string
	}{
		{nil, 0, nil, ""},
		{nil, paging.CountExact, &paging.Total{N: 25}, `{"n":25}`},
		{some, paging.CountExact, &paging.Total{N: 11}, `{"n":11}`},
		{pipeline, paging.CountExact, &paging.Total{N: 11}, `{"n":11}`},
		{nil, paging.CountEstimated, &paging.Total{N: 25, Estimated: true}, `{"n":25,"estimated":true}`},
		{nil, 10, &paging.Total{N: 10, AtLeast: true}, `{"n":10,"atLeast":true}`},
		{nil, 24, &paging.Total{N: 24, AtLeast: true}, `{"n":24,"atLeast":true}`},
		{nil, 25, &paging.Total{N: 25}, `{"n":25}`},
		{some, 10, &paging.Total{N: 10, AtLeast: true}, `{"n":10,"atLeast":true}`},
		{pipeline, 10, &paging.Total{N: 10, AtLeast: true}, `{"n":10,"atLeast":true}`},
		{bson.D{{Key: "s", Value: -1}}, paging.CountExact, &paging.Total{N: 0}, `{"n":0}`},
	} {
		page := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, c.over, paging.Request{Size: 5, Count: c.count}))
		if diff := cmp.Diff(c.want, page.Total); diff != "" {
			t.Errorf("%v %v: %s", c.over, c.count, diff)
		}
		if page.Total != nil {
			if data := testkit.Value[[]byte](t)(json.Marshal(page.Total)); string(data) != c.json {
				t.Errorf("%s, want %s", data, c.json)
			}
		}
		// The count is of the list, not of what lies behind the token.
		if page.Next != "" {
			next := testkit.Value[*paging.Page[row]](t)(pager.Page(ctx, c.over, paging.Request{Size: 5, Count: c.count, After: page.Next}))
			if diff := cmp.Diff(c.want, next.Total); diff != "" {
				t.Errorf("next of %v %v: %s", c.over, c.count, diff)
			}
		}
	}
	err := mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
		return testkit.ErrorOf(pager.Page(ctx, nil, paging.Request{Count: paging.CountEstimated}))
	})
	testkit.Is(t, err, mongopatterns.ErrInvalid)
	for _, over := range []any{some, pipeline} {
		sent := mongotest.Record(t, db, func() {
			if _, err := pager.Page(ctx, over, paging.Request{Count: paging.CountEstimated}); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("an estimate of a part: %v", err)
			}
		})
		if len(sent) > 0 {
			t.Errorf("refused after a read: %v", sent)
		}
	}
}
