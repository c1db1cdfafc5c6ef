package paging_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// Pages show what a find with the same projection shows, and still page.
func TestProjectionsAreThoseOfFind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := mongotest.Database(t)
	coll := db.Collection("articles")
	testkit.Insert(t, coll,
		bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "a"}, {Key: "meta", Value: bson.D{
			{Key: "date", Value: 1}, {Key: "by", Value: "x"}, {Key: "deep", Value: bson.D{{Key: "n", Value: 1}}}}}, {Key: "tags", Value: bson.A{1, 2, 3}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "title", Value: "b"}, {Key: "meta", Value: bson.D{{Key: "date", Value: 2}}}},
		bson.D{{Key: "_id", Value: 3}, {Key: "title", Value: "c"}, {Key: "meta", Value: bson.D{}}, {Key: "tags", Value: bson.A{}}},
		bson.D{{Key: "_id", Value: 4}, {Key: "title", Value: "d"}, {Key: "meta", Value: 5}},
		bson.D{{Key: "_id", Value: 5}, {Key: "title", Value: "e"}},
		bson.D{{Key: "_id", Value: 6}, {Key: "meta", Value: bson.D{{Key: "by", Value: "y"}, {Key: "date", Value: bson.D{{Key: "y", Value: 1}, {Key: "in", Value: bson.A{bson.D{{Key: "y", Value: 1}, {Key: "z", Value: 1}}}}}}}}},
	)
	type m = bson.D
	el := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	var refused []string
	for _, projection := range []any{
		m{el("title", 1)}, m{el("title", true), el("_id", 0)}, m{el("title", 1.5), el("_id", false)}, m{el("_id", 1)}, m{el("_id", 0)},
		m{el("meta", 1)}, m{el("meta.date", 1)}, m{el("meta.by", 1)}, m{el("meta.by", 1), el("_id", 0)}, m{el("meta.deep.n", 1)},
		m{el("meta", m{el("by", 1)})}, m{el("meta", m{el("by", 1)}), el("title", 1)}, m{el("meta", m{el("date", 1), el("deep", m{el("n", 1)})})},
		m{el("meta", 0)}, m{el("meta.date", 0)}, m{el("meta.by", 0)}, m{el("meta.date", 0), el("title", 0)}, m{el("meta", m{el("date", 0)})},
		m{el("meta.date", 0), el("_id", 0)}, m{el("title", 0), el("_id", 1)}, m{el("meta.date", 0), el("_id", 1)},
		m{el("tags", m{el("$slice", 1)})}, m{el("tags", m{el("$slice", -1)}), el("title", 1)}, m{el("tags", m{el("$slice", 1)}), el("meta.date", 0)},
		m{el("tags", m{el("$elemMatch", m{el("$gt", 1)})})}, m{el("size", m{el("$size", m{el("$ifNull", bson.A{"$tags", bson.A{}})})}), el("title", 1)},
		m{el("length", m{el("$strLenCP", m{el("$ifNull", bson.A{"$title", ""})})})}, m{},
		m{el("meta", "$title")}, m{el("meta.date", m{el("$literal", 1)}), el("title", 1)}, m{el("meta", m{el("$literal", 2)})}, m{el("meta", m{el("$slice", 1)}), el("title", 1)},
		bson.M{"title": 1}, struct {
			Title int `bson:"title"`
		}{1}, bson.D(nil), testkit.Value[bson.Decimal128](t)(bson.ParseDecimal128("1")),
	} {
		if d, ok := projection.(bson.Decimal128); ok {
			projection = m{el("title", d)}
		}
		if d, ok := projection.(bson.D); ok && d == nil {
			projection = nil
		}
		t.Run(fmt.Sprint(projection), func(t *testing.T) {
			find := options.Find()
			if projection != nil {
				find.SetProjection(projection)
			}
			for _, sort := range []bson.D{m{el("meta.date", 1)}, m{el("meta.date", -1), el("title", 1)}, nil, m{el("meta.by", 1)},
				m{el("meta.by", 1), el("meta", 1)}, m{el("meta", 1), el("meta.by", 1)}} {
				if len(sort) == 2 && sort[0].Key != "meta.date" && !cmp.Equal(projection, any(m{el("title", 1)})) {
					continue // a field and one in it
				}
				full := append(bson.D{}, sort...)
				if len(full) == 0 || full[0].Value == 1 || len(full) > 1 {
					full = append(full, el("_id", 1))
				}
				cursor, err := coll.Find(ctx, bson.D{}, find, options.Find().SetSort(full))
				if err != nil {
					t.Fatal(err)
				}
				var want []bson.D
				if err := cursor.All(ctx, &want); err != nil {
					t.Fatal(err)
				}
				pager, err := paging.New[bson.D](coll, sort, &paging.Options{Find: find})
				if errors.Is(err, mongopatterns.ErrInvalid) && strings.Contains(err.Error(), "leaves out or cuts the sort field") {
					refused = append(refused, fmt.Sprint(projection))
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, size := range []int{2, 5} {
					var got []bson.D
					for page, err := range pages(ctx, pager, nil, paging.Request{Size: size}) {
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, page.Items...)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("sort %v, size %d: (-find +pages)\n%s", sort, size, diff)
					}
				}
			}
		})
	}
	if len(refused) != 23 { // those that leave out a field of the sort
		t.Error(len(refused), refused)
	}
}

// The sort fields are read even if nobody asked for them, and no more than them.
func TestProjectionSent(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 1}})
	sort := bson.D{{Key: "meta.date", Value: 1}}
	place := bson.E{Key: "_paging", Value: bson.D{{Key: "v0", Value: "$meta.date"}, {Key: "v1", Value: "$_id"}}}
	for _, c := range []struct{ user, sent bson.D }{
		{bson.D{{Key: "title", Value: 1}}, bson.D{{Key: "title", Value: int32(1)}, place}},
		{bson.D{{Key: "title", Value: 1}, {Key: "_id", Value: 0}}, bson.D{{Key: "title", Value: int32(1)}, {Key: "_id", Value: int32(0)}, place}},
		{bson.D{{Key: "x", Value: 0}}, bson.D{{Key: "x", Value: int32(0)}}},
		{bson.D{{Key: "meta", Value: 1}}, bson.D{{Key: "meta", Value: int32(1)}}},
	} {
		pager := newPager[bson.D](t, coll, sort, &paging.Options{Find: options.Find().SetProjection(c.user)})
		commands := mongotest.Record(t, db, func() {
			testkit.Value[*paging.Page[bson.D]](t)(pager.Page(context.Background(), nil, paging.Request{}))
		})
		var got bson.D
		if value, err := commands[0].Body.LookupErr("projection"); err == nil {
			if err := value.Unmarshal(&got); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.sent, got); diff != "" {
			t.Errorf("%v: %s", c.user, diff)
		}
	}
}

// Parts of the _id, or none of it, take nothing from the order.
func TestProjectionsOfTheID(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	coll := mongotest.Database(t).Collection("c")
	for x := range 2 {
		for y := range 3 {
			testkit.Insert(t, coll, bson.D{{Key: "_id", Value: bson.D{{Key: "x", Value: x}, {Key: "y", Value: y}}}, {Key: "of", Value: x}})
		}
	}
	filter := bson.D{{Key: "of", Value: bson.D{{Key: "$in", Value: bson.A{0, 1}}}}}
	for _, projection := range []bson.D{
		{{Key: "_id.x", Value: 1}, {Key: "s", Value: 1}}, {{Key: "_id", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "s", Value: 1}}, {{Key: "_id", Value: 0}, {Key: "of", Value: 1}},
		{{Key: "_id", Value: "one"}, {Key: "of", Value: 1}},
	} {
		// All documents are without the sort field: each value of Equality is read by itself.
		for _, equality := range [][]string{nil, {"of"}} {
			pager := newPager[bson.D](t, coll, bson.D{{Key: "s", Value: 1}}, &paging.Options{Find: options.Find().SetProjection(projection), Equality: equality})
			n := 0
			for page, err := range pages(ctx, pager, filter, paging.Request{Size: 2}) {
				if err != nil {
					t.Fatal(projection, err)
				}
				if n += len(page.Items); n > 6 {
					break
				}
			}
			if n != 6 {
				t.Errorf("%v, Equality %v: %d documents", projection, equality, n)
			}
		}
	}
}

// An error names the document also if its _id is left out.
func TestErrorsNameTheDocument(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	testkit.Insert(t, coll, bson.D{{Key: "_id", Value: 77}, {Key: "s", Value: bson.A{1}}, {Key: "x", Value: 1}})
	for _, projection := range []bson.D{{{Key: "_id", Value: 0}, {Key: "x", Value: 1}}, {{Key: "x", Value: 1}}} {
		pager := newPager[bson.D](t, coll, byS, &paging.Options{Find: options.Find().SetProjection(projection)})
		if _, err := pager.Page(context.Background(), nil, paging.Request{}); !errors.Is(err, paging.ErrUnsortable) || !strings.Contains(err.Error(), "77") {
			t.Errorf("%v: %v", projection, err)
		}
	}
}
