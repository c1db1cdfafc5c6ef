package paging_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// Far back in a list of several values, where nulls stand, a page by number does not read what lies before it.
func TestNumberedFarBackAmongNulls(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("rows")
	var docs []bson.D
	var want []int
	for i := range 4000 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "x", Value: []string{"p", "q"}[i/3%2]}}
		docs = append(docs, with(doc, "s", []any{nil, missing{}}[i%2]))
		want = append(want, i)
	}
	testkit.InsertAll(t, coll, docs)
	filter := bson.D{{Key: "x", Value: bson.D{{Key: "$in", Value: bson.A{"p", "q"}}}}}
	pager := newPager[row](t, coll, bson.D{{Key: "s", Value: 1}}, &paging.Options{Equality: []string{"x"}, Group: 30})
	ensure(t, pager)
	const size = 100
	read := func(req paging.Request) (page *paging.Page[row]) {
		commands := mongotest.Record(t, db, func() {
			page = testkit.Value[*paging.Page[row]](t)(pager.Page(t.Context(), filter, req))
		})
		for _, c := range commands {
			if c.Name == "find" && c.Body.Lookup("limit").AsInt64() > 1000+size+2 {
				t.Errorf("page %d reads %d documents", req.Number, c.Body.Lookup("limit").AsInt64())
			}
		}
		from, to := min(int(req.Number-1)*size, len(want)), min(int(req.Number)*size, len(want))
		if diff := cmp.Diff(append([]int{}, want[from:to]...), rowIDs(page.Items)); diff != "" {
			t.Errorf("page %d: %s", req.Number, diff)
		}
		if page.HasPrev != (req.Number > 1) || page.HasNext != (req.Number < 40) {
			t.Errorf("page %d: %v, %v", req.Number, page.HasPrev, page.HasNext)
		}
		return page
	}
	for number, aggregates := range map[int64]int{1: 1, 11: 1, 12: 2, 25: 2, 40: 2, 41: 0} { // 41 is empty, so no null is met
		n := 0
		for _, name := range mongotest.Record(t, db, func() { read(paging.Request{Number: number, Size: size}) }).Names() {
			if name == "aggregate" {
				n++
			}
		}
		if n != aggregates {
			t.Errorf("page %d takes %d aggregates", number, n)
		}
	}
	near := read(paging.Request{Number: 15, Size: size})
	for _, number := range []int64{1, 3, 14, 15, 16, 30, 40} {
		read(paging.Request{Number: number, From: near.Position})
	}
	near = read(paging.Request{Number: 35, Size: size})
	read(paging.Request{Number: 6, From: near.Position})
}

// A page of several values, where nulls stand, is sorted in parts if its sort values are too large for one command.
func TestLargeSortValuesAmongNulls(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("rows")
	values := bson.A{"p", "q", "r", "s"}
	var docs []bson.D
	var want []int
	for i := range 2000 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "x", Value: values[i%4]}, {Key: "long", Value: strings.Repeat("x", 10<<10)}}
		docs = append(docs, with(doc, "s", []any{nil, missing{}}[i/4%2]))
		want = append(want, i)
	}
	testkit.InsertAll(t, coll, docs)
	filter := bson.D{{Key: "x", Value: bson.D{{Key: "$in", Value: values}}}}
	pager := newPager[row](t, coll, bson.D{{Key: "s", Value: -1}, {Key: "long", Value: -1}}, &paging.Options{Equality: []string{"x"}})
	ensure(t, pager)
	slices.Reverse(want)
	page := testkit.Value[*paging.Page[row]](t)(pager.Page(t.Context(), filter, paging.Request{Size: 500}))
	if diff := cmp.Diff(want[:500], rowIDs(page.Items)); diff != "" {
		t.Error(diff)
	}
	if _, err := pager.Page(t.Context(), filter, paging.Request{Size: 1000}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("more than the server can sort: %v", err)
	}
}
