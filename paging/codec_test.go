package paging_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// grade is stored as a letter; only the registry knows how.
type grade struct{ n chan int } // a channel has no default codec

func letters() *bson.Registry {
	registry := bson.NewRegistry()
	kind := reflect.TypeFor[grade]()
	registry.RegisterTypeEncoder(kind, bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteString(string(rune('A' + cap(v.Interface().(grade).n))))
	}))
	registry.RegisterTypeDecoder(kind, bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		s, err := r.ReadString()
		if err == nil {
			v.Set(reflect.ValueOf(grade{make(chan int, s[0]-'A')}))
		}
		return err
	}))
	return registry
}

func TestTheUsersCodecsCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	registry := letters()
	db := mongotest.Database(t, options.Client().SetRegistry(registry))
	coll := db.Collection("pupils")
	type pupil struct {
		ID    int   `bson:"_id"`
		Grade grade `bson:"grade"`
	}
	for i := range 6 {
		testkit.Insert(t, coll, pupil{i, grade{make(chan int, i%3)}})
	}
	pager := newPager[pupil](t, coll, bson.D{{Key: "grade", Value: 1}}, &paging.Options{
		Registry: registry, Find: options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}, {Key: "grade", Value: 1}}),
	})
	over := bson.D{{Key: "grade", Value: bson.D{{Key: "$gt", Value: grade{make(chan int)}}}}}
	var got []string
	req := paging.Request{Size: 1}
	for page, err := range pages(ctx, pager, over, req) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(page.Items[0].ID, cap(page.Items[0].Grade.n)))
	}
	if diff := cmp.Diff([]string{"1 1", "4 1", "2 2", "5 2"}, got); diff != "" {
		t.Error(diff)
	}
	token := testkit.Value[string](t)(pager.Token(over, pupil{4, grade{make(chan int, 1)}}))
	page := testkit.Value[*paging.Page[pupil]](t)(pager.Page(ctx, over, paging.Request{Size: 1, After: token}))
	if page.Items[0].ID != 2 {
		t.Errorf("%+v", page.Items)
	}
}

// The manual shows the filter of a page; this is it.
func TestTheFilterInTheManual(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("articles")
	pager := newPager[bson.D](t, coll, bson.D{{Key: "published", Value: -1}, {Key: "title", Value: 1}}, nil)
	sea := bson.D{{Key: "topic", Value: "sea"}}
	testkit.Insert(t, coll,
		bson.D{{Key: "_id", Value: 1}, {Key: "topic", Value: "sea"}, {Key: "published", Value: bson.DateTime(86400000)}, {Key: "title", Value: "Tides"}},
		bson.D{{Key: "_id", Value: 3}, {Key: "topic", Value: "sea"}, {Key: "title", Value: "Draft"}},
	)
	ctx := context.Background()
	first := testkit.Value[*paging.Page[bson.D]](t)(pager.Page(ctx, sea, paging.Request{Size: 1}))
	db := coll.Database()
	commands := mongotest.Record(t, db, func() {
		testkit.Value[*paging.Page[bson.D]](t)(pager.Page(ctx, sea, paging.Request{Size: 1, After: first.Next}))
	})
	const date = `{"$date":"1970-01-02T00:00:00Z"}`
	branch := func(keyset string) string { return `{"$and":[{"topic":"sea"},` + keyset + `]}` }
	want := `{"$or":[` +
		branch(`{"published":`+date+`,"title":"Tides","$expr":{"$gte":["$_id",{"$literal":1}]}}`) + `,` +
		branch(`{"published":`+date+`,"$expr":{"$gt":["$title",{"$literal":"Tides"}]}}`) + `,` +
		branch(`{"$expr":{"$lt":["$published",{"$literal":`+date+`}]}}`) + `]}`
	got := testkit.Value[[]byte](t)(bson.MarshalExtJSON(commands[0].Body.Lookup("filter").Document(), false, false))
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// The options of the client's BSON count where the package encodes.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	coll := mongotest.Database(t, options.Client().SetBSONOptions(bsonOptions)).Collection("rows")
	type jsonRow struct {
		ID   int      `json:"_id"`
		S    int      `json:"s"`
		Tags []string `json:"tags"`
	}
	type filter struct {
		Tags []string `json:"tags"`
	}
	testkit.Insert(t, coll, jsonRow{ID: 1, S: 1}, jsonRow{ID: 2, S: 2}, jsonRow{ID: 3, S: 3, Tags: []string{"x"}})
	pager := newPager[jsonRow](t, coll, byS, &paging.Options{BSON: bsonOptions, Equality: []string{"tags"}})
	token := testkit.Value[string](t)(pager.Token(filter{}, jsonRow{ID: 1, S: 1}))
	page := testkit.Value[*paging.Page[jsonRow]](t)(pager.Page(t.Context(), filter{}, paging.Request{After: token}))
	if len(page.Items) != 1 || page.Items[0].ID != 2 || !page.HasPrev {
		t.Errorf("%+v", page)
	}
}
