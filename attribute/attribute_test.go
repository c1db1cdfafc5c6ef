package attribute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Short names for what hundreds of lines call.
var (
	d      = testkit.D
	insert = testkit.Insert
	must   = testkit.OK
)

func newAttributes[ID, V any](t testing.TB, coll *mongo.Collection, opts *attribute.Options) *attribute.Attributes[ID, V] {
	t.Helper()
	a, err := attribute.New[ID, V](coll, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func want(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(bson.Decimal128{})); diff != "" {
		t.Fatalf("-want +got\n%s", diff)
	}
}

// ids are the IDs of the documents that a filter selects, sorted.
func ids(t testing.TB, coll *mongo.Collection, filter bson.D) []int32 {
	t.Helper()
	cursor, err := coll.Find(t.Context(), filter)
	must(t, err)
	var docs []struct {
		ID int32 `bson:"_id"`
	}
	must(t, cursor.All(t.Context(), &docs))
	out := []int32{}
	for _, doc := range docs {
		out = append(out, doc.ID)
	}
	slices.Sort(out)
	return out
}

func date(year int, month time.Month, day int) bson.DateTime {
	return bson.NewDateTimeFromTime(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

var films = &attribute.Options{ArrayField: "releases", KeyField: "location", ValueField: "date"}

func TestScenarioFilmReleases(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("films")
	ctx := t.Context()
	usa := time.Date(1977, 5, 20, 1, 0, 0, 0, time.FixedZone("", 3600))
	insert(t, coll, d("_id", 1, "title", "Star Wars", "director", "George Lucas",
		"release_US", usa, "release_France", date(1977, 10, 19), "release_Italy", date(1977, 10, 20), "release_UK", date(1977, 12, 27)))
	releases := newAttributes[int, time.Time](t, coll, films)
	must(t, releases.EnsureIndexes(ctx))
	result, err := releases.Adopt(ctx, []attribute.Column{
		{Path: "release_US", Key: "USA"}, {Path: "release_France", Key: "France"},
		{Path: "release_Italy", Key: "Italy"}, {Path: "release_UK", Key: "UK"},
	}, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 1, Done: 1})
	scenario := d("_id", int32(1), "title", "Star Wars", "director", "George Lucas", "releases", bson.A{
		d("location", "USA", "date", date(1977, 5, 20)),
		d("location", "France", "date", date(1977, 10, 19)),
		d("location", "Italy", "date", date(1977, 10, 20)),
		d("location", "UK", "date", date(1977, 12, 27)),
	})
	want(t, testkit.One[bson.D](t, coll, 1), scenario)

	// The same document by Set and by insert.
	insert(t, coll, d("_id", 2, "title", "Star Wars", "director", "George Lucas"))
	must(t, releases.Set(ctx, 2, attribute.Named("USA"), usa))
	must(t, releases.SetAll(ctx, 2,
		attribute.Attribute[time.Time]{Key: "France", Value: date(1977, 10, 19).Time()},
		attribute.Attribute[time.Time]{Key: "Italy", Value: date(1977, 10, 20).Time()}))
	must(t, releases.Add(ctx, 2, attribute.Named("UK"), date(1977, 12, 27).Time()))
	scenario[0].Value = int32(2)
	want(t, testkit.One[bson.D](t, coll, 2), scenario)

	models := releases.Indexes()[coll.Name()]
	if len(models) != 1 {
		t.Fatal(models)
	}
	want(t, models[0].Keys, any(d("releases.location", 1, "releases.date", 1)))
	// France in May matches no single entry.
	may, june := date(1977, 5, 1).Time(), date(1977, 6, 1).Time()
	want(t, ids(t, coll, releases.Filter(releases.Range(attribute.Named("USA"), may, june))), []int32{1, 2})
	want(t, ids(t, coll, releases.Filter(releases.Range(attribute.Named("France"), may, june))), []int32{})
	want(t, releases.Filter(releases.Range(attribute.Named("USA"), may, june)), d("releases", d("$elemMatch",
		d("location", "USA", "date", d("$gte", may, "$lt", june),
			"$or", bson.A{d("date", d("$not", d("$type", "array"))), d("date", d("$elemMatch", d("$gte", may, "$lt", june)))}))))
}

// A range is met inside one element of a value that is an array.
func TestRangeOfArrays(t *testing.T) {
	coll := mongotest.Database(t).Collection("c")
	a := testkit.Must(attribute.New[int32, any](coll, nil))
	for id, v := range map[int32]any{1: 150, 2: bson.A{50, 250}, 3: bson.A{50, 150, 250}, 4: 50, 5: bson.A{}, 6: 100, 7: 200, 8: bson.A{bson.A{150}}} {
		insert(t, coll, d("_id", id))
		must(t, a.Set(t.Context(), id, attribute.Named("x"), v))
	}
	within := a.Range(attribute.Named("x"), 100, 200)
	want(t, ids(t, coll, a.Filter(within)), []int32{1, 3, 6})
	want(t, ids(t, coll, a.Filter(within.NotOrMissing())), []int32{2, 4, 5, 7, 8})
}

func TestScenarioBottledWater(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("bottles")
	ctx := t.Context()
	specs := newAttributes[int, string](t, coll, &attribute.Options{ArrayField: "specs", QualifierField: "u"})
	must(t, specs.EnsureIndexes(ctx))
	insert(t, coll, d("_id", 1, "title", "Water"))
	must(t, specs.Set(ctx, 1, attribute.Named("volume").Qualified("ml"), "500"))
	must(t, specs.Set(ctx, 1, attribute.Named("volume").Qualified("ounces"), "11"))
	must(t, specs.Set(ctx, 1, attribute.Named("volume").Qualified("ounces"), "12"))
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "title", "Water", "specs", bson.A{
		d("k", "volume", "v", "500", "u", "ml"), d("k", "volume", "v", "12", "u", "ounces"),
	}))
	want(t, specs.Indexes()[coll.Name()][0].Keys, any(d("specs.k", 1, "specs.u", 1, "specs.v", 1)))
	for _, c := range []struct {
		condition attribute.Condition
		found     bool
	}{
		{specs.Equals(attribute.Named("volume").Qualified("ml"), "500"), true},
		{specs.Equals(attribute.Named("volume").Qualified("ounces"), "500"), false},
		{specs.Equals(attribute.Named("volume"), "500"), true},
		{specs.Equals(attribute.Named("volume").Qualified(""), "500"), false},
		{specs.Equals(attribute.Named("volume").Qualified("ml", "ounces"), "12"), true},
		{specs.Equals(attribute.Named("volume").Qualified("ml", ""), "12"), false},
		{specs.Exists(attribute.Named("volume").Qualified("ml")), true},
		{specs.Exists(attribute.Named("volume").Qualified("")), false},
	} {
		if found := len(ids(t, coll, specs.Filter(c.condition))) == 1; found != c.found {
			t.Errorf("%v: %v", specs.Filter(c.condition), found)
		}
	}
	value, err := specs.Get(ctx, 1, attribute.Named("volume").Qualified("ml"))
	must(t, err)
	want(t, value, "500")
	_, err = specs.Get(ctx, 1, attribute.Named("volume"))
	testkit.Is(t, err, attribute.ErrNoAttribute)
}

// tickets is the configuration of the ticket channels.
var tickets = &attribute.Options{
	ArrayField: "provider", KeyField: "channel", ValueField: "price",
	Indexes: []attribute.Index{{Prefix: []string{"scheduleId", "movie"}, KeyOnly: true}, {KeyOnly: true}},
}

func TestScenarioTicketChannels(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("schedules")
	ctx := t.Context()
	channels := newAttributes[int, int](t, coll, tickets)
	want(t, channels.Indexes()[coll.Name()][0].Keys, any(d("scheduleId", 1, "movie", 1, "provider.channel", 1)))
	want(t, channels.Indexes()[coll.Name()][1].Keys, any(d("provider.channel", 1)))
	must(t, channels.EnsureIndexes(ctx))
	must(t, channels.EnsureIndexes(ctx))
	provider, err := channels.Elements(
		attribute.Attribute[int]{Key: "gewala", Value: 30},
		attribute.Attribute[int]{Key: "maoyan", Value: 50},
		attribute.Attribute[int]{Key: "taopiao", Value: 20})
	must(t, err)
	insert(t, coll, d("_id", 1, "scheduleId", "0001", "movie", "你的名字", "provider", provider))
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "scheduleId", "0001", "movie", "你的名字", "provider", bson.A{
		d("channel", "gewala", "price", int32(30)), d("channel", "maoyan", "price", int32(50)), d("channel", "taopiao", "price", int32(20)),
	}))
	for i := range 200 {
		insert(t, coll, d("_id", 2+i, "scheduleId", "0002", "movie", "m", "provider", bson.A{d("channel", "maoyan", "price", i), d("channel", "gewala", "price", 1)}))
	}

	var price int
	cmds := record(t, db, 0, []string{"find"}, func() (err error) {
		price, err = channels.GetBy(ctx, d("scheduleId", "0001", "movie", "你的名字"), attribute.Named("gewala"))
		return err
	})
	want(t, price, 30)
	plan := mongotest.Explain(t, db, cmds[0].Body)
	plan.RequireIndex(t, "scheduleId_1_movie_1_provider.channel_1")
	plan.RequireMultiKey(t)
	plan.RequireExamined(t, 2, 1)

	var found []attribute.Value[int, int]
	cmds = record(t, db, 0, []string{"aggregate"}, func() error {
		for value, err := range channels.Values(ctx, nil, attribute.Named("taopiao")) {
			if err != nil {
				return err
			}
			found = append(found, value)
		}
		return nil
	})
	want(t, found, []attribute.Value[int, int]{{ID: 1, Value: 20}})
	plan = mongotest.Explain(t, db, cmds[0].Body)
	plan.RequireIndex(t, "provider.channel_1")
	plan.RequireMultiKey(t)
	plan.RequireExamined(t, 2, 1)
	// As a filter of one's own find.
	plan = mongotest.Explain(t, db, d("find", "schedules", "filter", channels.Filter(channels.Exists(attribute.Named("taopiao")))))
	plan.RequireIndex(t, "provider.channel_1")
	plan.RequireMultiKey(t)
}

func TestWrites(t *testing.T) {
	t.Parallel()
	for _, array := range []string{"attributes", "info.attrs"} {
		t.Run(array, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			ctx := t.Context()
			a := newAttributes[int, any](t, coll, &attribute.Options{ArrayField: array, QualifierField: "u"})
			insert(t, coll, d("_id", 1, "other", "x"))
			at := func() any {
				doc := testkit.One[bson.D](t, coll, 1)
				if array != "attributes" {
					doc = doc[2].Value.(bson.D)
					return doc[0].Value
				}
				return doc[2].Value
			}
			must(t, a.Add(ctx, 1, attribute.Named("color"), "red"))
			want(t, at(), any(bson.A{d("k", "color", "v", "red")}))
			testkit.Is(t, a.Add(ctx, 1, attribute.Named("color"), "blue"), mongopatterns.ErrExists)
			must(t, a.Add(ctx, 1, attribute.Named("color").Qualified("inside"), "blue"))
			testkit.Is(t, a.Replace(ctx, 1, attribute.Named("size"), 3), attribute.ErrNoAttribute)
			testkit.Is(t, a.Replace(ctx, 1, attribute.Named("size"), 3), mongo.ErrNoDocuments)
			testkit.Is(t, a.Replace(ctx, 1, attribute.Named("color").Qualified("outside"), 3), attribute.ErrNoAttribute)
			must(t, a.Replace(ctx, 1, attribute.Named("color"), "green"))
			must(t, a.Replace(ctx, 1, attribute.Named("color"), "green")) // no change, but found
			must(t, a.SetAll(ctx, 1,
				attribute.Attribute[any]{Key: "color", Value: "white", Qualifier: "inside"},
				attribute.Attribute[any]{Key: "$size", Value: "$color"},
				attribute.Attribute[any]{Key: "a.b", Value: d("$add", bson.A{1, 2})}))
			want(t, at(), any(bson.A{
				d("k", "color", "v", "green"), d("k", "color", "v", "white", "u", "inside"),
				d("k", "$size", "v", "$color"), d("k", "a.b", "v", d("$add", bson.A{int32(1), int32(2)})),
			}))
			for key, value := range map[string]any{"$size": "$color", "a.b": d("$add", bson.A{int32(1), int32(2)})} {
				got, err := a.Get(ctx, 1, attribute.Named(key))
				must(t, err)
				want(t, got, value)
			}
			rename := func(from, to string, result mongopatterns.Result) {
				t.Helper()
				got, err := a.RenameKey(ctx, from, to, &mongopatterns.Work{Filter: d("_id", 1)})
				must(t, err)
				want(t, got, result)
			}
			done := mongopatterns.Result{Examined: 1, Done: 1}
			rename("$size", "$other", done)
			rename("$other", "$size", done)
			rename("color", "colour", done)
			rename("color", "x", mongopatterns.Result{})
			must(t, a.Add(ctx, 1, attribute.Named("color").Qualified("outside"), 1))
			rename("color", "colour", done) // other qualifiers
			must(t, a.Add(ctx, 1, attribute.Named("color").Qualified("inside"), 1))
			rename("color", "colour", mongopatterns.Result{Examined: 1, Skipped: 1})
			must(t, a.Remove(ctx, 1, attribute.Named("color").Qualified("inside")))
			must(t, a.Remove(ctx, 1, attribute.Named("colour")))
			testkit.Is(t, a.Remove(ctx, 1, attribute.Named("colour")), attribute.ErrNoAttribute)
			must(t, a.Remove(ctx, 1, attribute.Named("$size")))
			want(t, at(), any(bson.A{
				d("k", "colour", "v", "white", "u", "inside"),
				d("k", "a.b", "v", d("$add", bson.A{int32(1), int32(2)})),
				d("k", "colour", "v", int32(1), "u", "outside"),
			}))
			all, err := a.GetAll(ctx, 1)
			must(t, err)
			want(t, all, []attribute.Attribute[any]{
				{Key: "colour", Value: "white", Qualifier: "inside"},
				{Key: "a.b", Value: d("$add", bson.A{int32(1), int32(2)})},
				{Key: "colour", Value: int32(1), Qualifier: "outside"},
			})
			must(t, a.SetAll(ctx, 1))

			// No such document.
			for name, err := range map[string]error{
				"set": a.Set(ctx, 9, attribute.Named("k"), 1), "add": a.Add(ctx, 9, attribute.Named("k"), 1), "change": a.Replace(ctx, 9, attribute.Named("k"), 1),
				"remove": a.Remove(ctx, 9, attribute.Named("k")), "get": errOf(a.Get(ctx, 9, attribute.Named("k"))), "get all": errOf(a.GetAll(ctx, 9)),
			} {
				if !errors.Is(err, mongopatterns.ErrNotFound) || errors.Is(err, attribute.ErrNoAttribute) || !errors.Is(err, mongo.ErrNoDocuments) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n, err := coll.CountDocuments(ctx, bson.D{}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		})
	}
}

func errOf[T any](_ T, err error) error { return err }

// Fields that the user has added to an entry stay through all changes of it.
func TestFurtherFieldsStay(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[string, int](t, coll, nil)
	insert(t, coll, d("_id", "x", "attributes", bson.A{d("source", "s", "k", "a", "note", d("n", 1), "v", 1), d("k", "b", "v", 2), d("k", "c")}))
	must(t, a.Set(ctx, "x", attribute.Named("a").Qualified(""), 5)) // no qualifier
	must(t, a.Replace(ctx, "x", attribute.Named("a"), 6))
	must(t, a.SetAll(ctx, "x", attribute.Attribute[int]{Key: "a", Value: 7}, attribute.Attribute[int]{Key: "d", Value: 8}))
	_, err := a.RenameKey(ctx, "a", "y", nil)
	must(t, err)
	want(t, testkit.One[bson.D](t, coll, "x"), d("_id", "x", "attributes", bson.A{
		d("source", "s", "k", "y", "note", d("n", int32(1)), "v", int32(7)), d("k", "b", "v", int32(2)), d("k", "c"), d("k", "d", "v", int32(8)),
	}))
	n, err := a.Get(ctx, "x", attribute.Named("c")) // an entry without a value
	must(t, err)
	want(t, n, 0)
}

func TestNotArray(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{ArrayField: "p.a"})
	bad := []any{
		d("_id", 1, "p", d("a", "text")), d("_id", 2, "p", d("a", d("k", "x", "v", 1))), d("_id", 3, "p", 5), d("_id", 5, "p", nil),
		d("_id", 4, "p", bson.A{d("a", bson.A{d("k", "x", "v", 1)})}),
	}
	insert(t, coll, bad...)
	insert(t, coll, d("_id", 6, "p", d("a", nil)), d("_id", 7, "p", d("b", 1)), d("_id", 8))
	for id := 1; id <= 5; id++ {
		before := testkit.One[bson.D](t, coll, id)
		for name, err := range map[string]error{
			"set": a.Set(ctx, id, attribute.Named("x"), 1), "add": a.Add(ctx, id, attribute.Named("x"), 1), "change": a.Replace(ctx, id, attribute.Named("x"), 1),
			"remove": a.Remove(ctx, id, attribute.Named("x")),
		} {
			if !errors.Is(err, mongopatterns.ErrMalformed) {
				t.Errorf("%d %s: %v", id, name, err)
			}
		}
		want(t, testkit.One[bson.D](t, coll, id), before)
		testkit.Is(t, errOf(a.Get(ctx, id, attribute.Named("x"))), mongopatterns.ErrMalformed)
		testkit.Is(t, errOf(a.GetAll(ctx, id)), mongopatterns.ErrMalformed)
		byFilter := attribute.ErrNoAttribute
		if id == 2 || id == 4 { // where the filter's path leads to a k of x
			byFilter = mongopatterns.ErrMalformed
		}
		testkit.Is(t, errOf(a.GetBy(ctx, d("_id", id), attribute.Named("x"))), byFilter)
	}
	for id := 6; id <= 8; id++ {
		testkit.Is(t, errOf(a.Get(ctx, id, attribute.Named("x"))), attribute.ErrNoAttribute)
		must(t, errOf(a.GetAll(ctx, id)))
	}
	entry := bson.A{d("k", "x", "v", int32(1))}
	for id := 6; id <= 8; id++ {
		must(t, a.Set(ctx, id, attribute.Named("x"), 1))
	}
	want(t, testkit.One[bson.D](t, coll, 6), d("_id", int32(6), "p", d("a", entry)))
	want(t, testkit.One[bson.D](t, coll, 7), d("_id", int32(7), "p", d("b", int32(1), "a", entry)))
	want(t, testkit.One[bson.D](t, coll, 8), d("_id", int32(8), "p", d("a", entry)))
}

// An element whose key or qualifier is an array with the right value matches in a filter, but is
// not an entry: nothing reads, refuses or removes it as one.
func TestArraysAsKeys(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	odd := bson.A{d("k", bson.A{"x"}, "v", int32(1)), d("k", "y", "v", int32(1), "u", bson.A{"q"})}
	before := d("_id", int32(1), "attributes", odd)
	insert(t, coll, before)
	var problems []string
	for p, err := range a.Check(ctx, nil) {
		must(t, err)
		problems = append(problems, p.String())
	}
	want(t, problems, []string{`attribute: c 1: malformed: attributes: 2 elements: "k" must be a string, not empty, "u" a string or missing`})
	for name, err := range map[string]error{
		"get": errOf(a.Get(ctx, 1, attribute.Named("x"))), "change": a.Replace(ctx, 1, attribute.Named("x"), 2), "change q": a.Replace(ctx, 1, attribute.Named("y").Qualified("q"), 2),
		"remove": a.Remove(ctx, 1, attribute.Named("x")), "remove q": a.Remove(ctx, 1, attribute.Named("y").Qualified("q")),
	} {
		if !errors.Is(err, attribute.ErrNoAttribute) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, errOf(a.RemoveKey(ctx, "x", nil)))
	must(t, errOf(a.RenameKey(ctx, "x", "z", nil)))
	want(t, testkit.One[bson.D](t, coll, 1), before)
	record(t, db, 1, []string{"update"}, func() error { return a.Add(ctx, 1, attribute.Named("x"), 3) })
	record(t, db, 1, []string{"update"}, func() error { return a.Add(ctx, 1, attribute.Named("y").Qualified("q"), 4) })
	record(t, db, 1, []string{"update"}, func() error { return a.Replace(ctx, 1, attribute.Named("x"), 5) })
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "attributes", append(slices.Clone(odd), e("x", int32(5)), e("y", int32(4), "q"))))
	must(t, errOf(a.RenameKey(ctx, "y", "z", nil)))
	must(t, a.Remove(ctx, 1, attribute.Named("x")))
	must(t, errOf(a.RemoveKey(ctx, "z", nil)))
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "attributes", odd[:1]))
}

// Remove and RemoveKey remove all entries with the key, and nothing else.
func TestRemoveDuplicates(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	rest := []any{int32(5), nil, "x", bson.A{e("x", int32(1))}, d("k", int32(7)), d(), e("x", int32(1), "q"), d("k", "x", "u", int32(7)), e("y", int32(1))}
	for id, call := range []func() error{
		func() error { return a.Remove(t.Context(), 0, attribute.Named("x")) },
		func() error { return a.Remove(t.Context(), 1, attribute.Named("x").Qualified("")) },
		func() error { return errOf(a.RemoveKey(t.Context(), "x", nil)) },
	} {
		entries := slices.Concat([]any{e("x", int32(1))}, rest, []any{e("x", int32(2), ""), d("k", "x", "u", nil)})
		insert(t, coll, doc(int32(id), entries...))
		must(t, call())
		left := slices.Clone(rest)
		if id == 2 {
			left = slices.Concat(rest[:6], rest[8:])
		}
		want(t, testkit.One[bson.D](t, coll, id), doc(int32(id), left...))
	}
}

func TestTypedAccess(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	specs := newAttributes[int, any](t, coll, nil)
	insert(t, coll, d("_id", 1))
	decimal, err := bson.ParseDecimal128("1.50")
	must(t, err)
	id := bson.NewObjectID()
	values := []any{int32(1), int64(2), 3.5, "text", true, decimal, id, date(2024, 1, 2), nil, bson.A{int32(1), "x"},
		d("a", int32(1)), bson.Regex{Pattern: "^a", Options: "i"}, bson.Binary{Data: []byte{1, 2}}}
	keys := "abcdefghijklm"
	for i, value := range values {
		must(t, specs.Set(ctx, 1, attribute.Named(keys[i:i+1]), value))
	}
	for i, value := range values {
		got, err := specs.Get(ctx, 1, attribute.Named(keys[i:i+1]))
		must(t, err)
		want(t, got, value)
		want(t, ids(t, coll, specs.Filter(specs.Equals(attribute.Named(keys[i:i+1]), value))), []int32{1})
		want(t, ids(t, coll, specs.Filter(specs.In(attribute.Named(keys[i:i+1]), []any{"no", value}))), []int32{1})
		raw, err := attribute.As[bson.RawValue](specs).Get(ctx, 1, attribute.Named(keys[i:i+1]))
		must(t, err)
		doc, err := bson.Marshal(d("v", value))
		must(t, err)
		want(t, raw.Type, bson.Raw(doc).Lookup("v").Type)
	}
	weight, err := attribute.As[float64](specs).Get(ctx, 1, attribute.Named("c"))
	must(t, err)
	want(t, weight, 3.5)
	when, err := attribute.As[time.Time](specs).Get(ctx, 1, attribute.Named("h"))
	must(t, err)
	want(t, when.UTC(), date(2024, 1, 2).Time().UTC())
	if _, err := attribute.As[float64](specs).Get(ctx, 1, attribute.Named("d")); err == nil {
		t.Fatal("a text as a number")
	}
	must(t, attribute.As[float64](specs).Set(ctx, 1, attribute.Named("c"), 4))
	want(t, ids(t, coll, specs.Filter(attribute.As[float64](specs).Gte(attribute.Named("c"), 4))), []int32{1})
}

// IDs are data, too.
func TestDocumentIDs(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	type key struct {
		A int32 `bson:"a"`
	}
	a := newAttributes[key, int](t, coll, nil)
	insert(t, coll, d("_id", d("a", int32(1))))
	must(t, a.Set(ctx, key{1}, attribute.Named("x"), 1))
	for value, err := range a.Values(ctx, nil, attribute.Named("x")) {
		must(t, err)
		want(t, value, attribute.Value[key, int]{ID: key{1}, Value: 1})
	}
	insert(t, coll, d("_id", 5), d("_id", "text"))
	untyped := newAttributes[any, int](t, coll, nil)
	testkit.Is(t, untyped.Set(ctx, d("$gt", 0), attribute.Named("x"), 1), mongopatterns.ErrNotFound)
	testkit.Is(t, untyped.Set(ctx, bson.Regex{Pattern: "."}, attribute.Named("x"), 1), mongopatterns.ErrNotFound)
	raw := func(value any) bson.RawValue {
		doc, err := bson.Marshal(d("v", value))
		must(t, err)
		return bson.Raw(doc).Lookup("v")
	}
	raws := newAttributes[bson.RawValue, bson.RawValue](t, coll, nil)
	testkit.Is(t, raws.Set(ctx, raw(bson.Regex{Pattern: "."}), attribute.Named("x"), raw(1)), mongopatterns.ErrNotFound)
	must(t, raws.Set(ctx, raw("text"), attribute.Named("y"), raw("text")))
	n, err := coll.CountDocuments(ctx, raws.Filter(raws.In(attribute.Named("y"), []bson.RawValue{raw(bson.Regex{Pattern: "."})})))
	must(t, err)
	want(t, n, int64(0))
	n = 0
	for range a.Values(ctx, nil, attribute.Named("x")) {
		n++
	}
	want(t, n, int64(1))
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	insert(t, coll, d("_id", 1))
	a := newAttributes[int, any](t, coll, nil)
	q := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	at := func(key, qualifier string) attribute.Attribute[any] {
		return attribute.Attribute[any]{Key: key, Qualifier: qualifier}
	}
	for name, err := range map[string]error{
		"empty key":         a.Set(ctx, 1, attribute.Named(""), 1),
		"empty key, remove": a.Remove(ctx, 1, attribute.Named("")),
		"empty key, get":    errOf(a.Get(ctx, 1, attribute.Named(""))),
		"empty key, rename": errOf(a.RenameKey(ctx, "x", "", nil)),
		"qualifier":         a.Set(ctx, 1, attribute.Named("k").Qualified("q"), 1),
		"qualifier, add":    a.Add(ctx, 1, attribute.Named("k").Qualified("q"), 1),
		"qualifier, many":   a.SetAll(ctx, 1, at("k", "q")),
		"qualifier, get":    errOf(a.Get(ctx, 1, attribute.Named("k").Qualified("q"))),
		"qualifier, get by": errOf(a.GetBy(ctx, nil, attribute.Named("k").Qualified("q"))),
		"two qualifiers":    q.Set(ctx, 1, attribute.Named("k").Qualified("q", "r"), 1),
		"twice":             q.SetAll(ctx, 1, at("k", "q"), at("k", ""), at("k", "q")),
		"elements":          errOf(a.Elements(at("k", ""), at("k", ""))),
		"rename key":        errOf(a.RenameKey(ctx, "x", "x", nil)),
		"remove key":        errOf(a.RemoveKey(ctx, "", nil)),
		"collision":         errOf(attribute.New[int, int](coll, &attribute.Options{OnCollision: "no"})),
		"NUL":               a.SetAll(ctx, 1, at("k\x00", "")),
		"filter":            errOf(coll.Find(ctx, a.Filter(a.Equals(attribute.Named("k").Qualified("q"), 1)))),
		"filter, exists":    errOf(coll.Find(ctx, a.Filter(a.Exists(attribute.Named("k").Qualified("q"))))),
		"no key, equals":    errOf(coll.Find(ctx, a.Filter(a.Equals(attribute.Named(""), 1)))),
		"no key, in":        errOf(coll.Find(ctx, a.Filter(a.In(attribute.Named(""), []any{1})))),
		"no key, range":     errOf(coll.Find(ctx, a.Filter(a.Range(attribute.Named(""), 1, 2)))),
		"no key, exists":    errOf(coll.Find(ctx, a.Filter(a.Exists(attribute.Named("")).NotOrMissing()))),
		"no key, has all":   errOf(coll.Find(ctx, a.Filter(a.HasAll(attribute.Named("k"), attribute.Named(""))))),
		"no key, values":    testkit.Drain(a.Values(ctx, nil, attribute.Named(""))),
		"no key, sort":      errOf(coll.Aggregate(ctx, a.SortPipeline(nil, attribute.Named(""), nil))),
		"no key, facets":    errOf(a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{"k", ""}})),
		"UTF-8":             a.Set(ctx, 1, attribute.Named("\xff"), 1),
		"UTF-8, get":        errOf(a.Get(ctx, 1, attribute.Named("\xff"))),
		"UTF-8, remove":     a.Remove(ctx, 1, attribute.Named("\xff")),
		"UTF-8, rename key": errOf(a.RenameKey(ctx, "k", "\xff", nil)),
		"UTF-8, remove key": errOf(a.RemoveKey(ctx, "\xff", nil)),
		"UTF-8, elements":   errOf(q.Elements(at("k", "\xff"))),
		"UTF-8, exists":     errOf(coll.Find(ctx, a.Filter(a.Exists(attribute.Named("\xff"))))),
		"UTF-8, equals":     errOf(coll.Find(ctx, q.Filter(q.Equals(attribute.Named("k").Qualified("q", "\xff"), 1)))),
		"UTF-8, values":     testkit.Drain(q.Values(ctx, nil, attribute.Named("k").Qualified("\xff"))),
		"UTF-8, get by":     errOf(q.GetBy(ctx, nil, attribute.Named("k").Qualified("\xff"))),
		"UTF-8, add":        q.Add(ctx, 1, attribute.Named("k").Qualified("\xff"), 1),
		"UTF-8, facets":     errOf(a.Facets(ctx, nil, &attribute.FacetOptions{Keys: []string{"\xff"}})),
		"UTF-8, sort":       errOf(coll.Aggregate(ctx, q.SortPipeline(nil, attribute.Named("k").Qualified("\xff"), nil))),
		"batch":             errOf(a.RemoveKey(ctx, "k", &mongopatterns.Work{BatchSize: -1})),
		"batch, repair":     errOf(a.Repair(ctx, &mongopatterns.Work{BatchSize: -1})),
		"top":               errOf(a.Facets(ctx, nil, &attribute.FacetOptions{Top: -1})),
		"sort":              errOf(coll.Aggregate(ctx, a.SortPipeline(nil, attribute.Named("k").Qualified("q"), nil))),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1)))
	var zero attribute.Condition
	for name, c := range map[string][]attribute.Condition{
		"zero": {zero}, "zero twice": {zero, zero}, "zero, joined": {a.Exists(attribute.Named("k")), zero}, "zero, not": {zero.NotOrMissing()},
		"zero, not not": {zero.NotOrMissing().NotOrMissing()}, "zero, not, joined": {zero.NotOrMissing(), a.HasAll()},
	} {
		if err := errOf(coll.DeleteMany(ctx, a.Filter(c...))); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	elements, err := a.Elements()
	must(t, err)
	want(t, elements, bson.A{})
}

// A refusal names the document and the entry.
func TestRefusalsNameTheEntry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	ctx := t.Context()
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll, doc(1, e("x", 1), e("y", 2), e("x", 3, "q")), d("_id", 2, "attributes", 5))
	bad := attribute.Attribute[any]{Key: "bad", Value: make(chan int)}
	names := newAttributes[string, any](t, coll, nil)
	for _, c := range []struct {
		err, target error
		want        string
	}{
		{a.Add(ctx, 1, attribute.Named("x"), 1), mongopatterns.ErrExists, `attribute: add: _id 1: exists already: key "x"`},
		{a.Add(ctx, 1, attribute.Named("x").Qualified("q"), 1), mongopatterns.ErrExists, `attribute: add: _id 1: exists already: key "x", qualifier "q"`},
		{a.Replace(ctx, 1, attribute.Named("z"), 1), attribute.ErrNoAttribute, `attribute: replace: _id 1: no such attribute: key "z"`},
		{a.Remove(ctx, 1, attribute.Named("y").Qualified("q")), attribute.ErrNoAttribute, `attribute: remove: _id 1: no such attribute: key "y", qualifier "q"`},
		{errOf(a.Get(ctx, 1, attribute.Named("y").Qualified("q"))), attribute.ErrNoAttribute, `attribute: get: _id 1: no such attribute: key "y", qualifier "q"`},
		{errOf(a.GetBy(ctx, nil, attribute.Named("z"))), attribute.ErrNoAttribute, `attribute: get by: no such attribute: key "z"`},
		{a.Set(ctx, 3, attribute.Named("x"), 1), mongopatterns.ErrNotFound, `attribute: set: _id 3: not found`},
		{errOf(a.Get(ctx, 3, attribute.Named("x"))), mongopatterns.ErrNotFound, `attribute: get: _id 3: not found`},
		{a.Set(ctx, 2, attribute.Named("x"), 1), mongopatterns.ErrMalformed, `attribute: set: _id 2: malformed: "attributes" is not an array`},
		{errOf(a.Get(ctx, 2, attribute.Named("x"))), mongopatterns.ErrMalformed, `attribute: get: _id 2: malformed: "attributes" is not an array`},
		{errOf(a.GetAll(ctx, 2)), mongopatterns.ErrMalformed, `attribute: get all: _id 2: malformed: "attributes" is not an array`},
		{errOf(names.GetAll(ctx, "p1")), mongopatterns.ErrNotFound, `attribute: get all: _id "p1": not found`},
		{names.Remove(ctx, "p1", attribute.Named("x")), mongopatterns.ErrNotFound, `attribute: remove: _id "p1": not found`},
		{a.Set(ctx, 1, attribute.Named("bad"), bad.Value), mongopatterns.ErrInvalid, `attribute: set: invalid: key "bad": cannot encode chan int with the client's registry: no encoder found for chan int`},
		{a.SetAll(ctx, 1, attribute.Attribute[any]{Key: "good"}, bad), mongopatterns.ErrInvalid, `attribute: set all: invalid: key "bad": cannot encode chan int with the client's registry: no encoder found for chan int`},
	} {
		if !errors.Is(c.err, c.target) || c.err.Error() != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	cmds := mongotest.Record(t, db, func() {
		elements, err := a.Elements(attribute.Attribute[any]{Key: "good"}, bad)
		if !errors.Is(err, mongopatterns.ErrInvalid) || err.Error() != `attribute: elements: invalid: key "bad": cannot encode chan int with the client's registry: no encoder found for chan int` || elements != nil {
			t.Error(elements, err)
		}
	})
	want(t, len(cmds), 0)
	want(t, testkit.One[bson.D](t, coll, 1), doc(1, e("x", int32(1)), e("y", int32(2)), e("x", int32(3), "q")))
}

func TestOptions(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	for option, o := range map[string]attribute.Options{
		"Options.ArrayField":             {ArrayField: "a..b"},
		"Options.KeyField":               {KeyField: "a.b"},
		"Options.ValueField":             {ValueField: "$v"},
		"Options.QualifierField":         {QualifierField: "k"},
		"Options.Indexes: [0].Prefix[0]": {Indexes: []attribute.Index{{Prefix: []string{"attributes.x"}}}},
		"Options.Indexes: [0].Prefix[1]": {Indexes: []attribute.Index{{Prefix: []string{"a", "a"}}}},
		"Options.Indexes: [1].Suffix[0]": {Indexes: []attribute.Index{{}, {Suffix: []string{""}}}},
		"Options.Indexes: [1]":           {Indexes: []attribute.Index{{}, {Prefix: []string{}}}},
		"Options.Indexes: [2]":           {Indexes: []attribute.Index{{KeyOnly: true}, {Prefix: []string{"a"}, Suffix: []string{"b"}}, {Prefix: []string{"a"}, Suffix: []string{"b"}}}},
	} {
		_, err := attribute.New[int, int](coll, &o)
		if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "attribute: new: invalid: "+option+": ") {
			t.Errorf("%s: %v", option, err)
		}
	}
	for _, o := range []attribute.Options{{ArrayField: "_id"}, {ArrayField: "a.0"}, {KeyField: "7"}} {
		if _, err := attribute.New[int, int](coll, &o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	_, err := attribute.New[int, int](coll, &attribute.Options{Indexes: []attribute.Index{{Prefix: []string{"attributes"}}}})
	testkit.Is(t, err, attribute.ErrTwoArrays)
	if _, err := attribute.New[int, int](nil, nil); err == nil {
		t.Error("a nil collection is taken")
	}
}

func TestTwoArraysInAnIndex(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, int](t, coll, &attribute.Options{Indexes: []attribute.Index{{Prefix: []string{"tags", "s.x"}}}})
	insert(t, coll, d("_id", 1, "tags", "a", "attributes", bson.A{}), d("_id", 2, "tags", bson.A{"a"}))
	must(t, a.Set(ctx, 2, attribute.Named("k"), 1))
	testkit.Is(t, a.EnsureIndexes(ctx), attribute.ErrTwoArrays)
	specs, err := coll.Indexes().ListSpecifications(ctx)
	must(t, err)
	want(t, len(specs), 1)
	var problems []string
	for p, err := range a.Check(ctx, nil) {
		must(t, err)
		problems = append(problems, p.String())
	}
	want(t, problems, []string{`attribute: c 2: two arrays in an index: tags`})
	// An array above the path counts, too.
	_, err = coll.UpdateOne(ctx, d("_id", 2), d("$set", d("tags", "a", "s", bson.A{d("x", 1)})))
	must(t, err)
	testkit.Is(t, a.EnsureIndexes(ctx), attribute.ErrTwoArrays)
	for p, err := range a.Check(ctx, nil) {
		must(t, err)
		want(t, p.String(), `attribute: c 2: two arrays in an index: s.x`)
	}
	_, err = coll.UpdateOne(ctx, d("_id", 2), d("$set", d("s", d("x", 1))))
	must(t, err)
	must(t, a.EnsureIndexes(ctx))
	insert(t, coll, d("_id", 3, "tags", bson.A{"a"}))
	for p, err := range a.Check(ctx, nil) { // one array is allowed
		t.Error(p, err)
	}

	// An index with other options is a conflict.
	other := coll.Database().Collection("other")
	_, err = other.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: d("attributes.k", 1, "attributes.v", 1), Options: unique()})
	must(t, err)
	testkit.Is(t, newAttributes[int, int](t, other, nil).EnsureIndexes(ctx), mongopatterns.ErrIndexConflict)
	want(t, a.ShardKey()["c"], d("_id", 1))
}

// All calls join the transaction of their context.
func TestTransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	insert(t, coll, d("_id", 1), d("_id", 2, "attributes", "text"))
	a := newAttributes[int, int](t, coll, nil)
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	abort := errors.New("abort")
	var all []attribute.Attribute[int]
	var value int
	refusal := func(target error, call func() error) func() error {
		return func() error {
			if err := call(); !errors.Is(err, target) {
				return fmt.Errorf("want %q: %w", target.Error(), err)
			}
			return nil
		}
	}
	_, err = session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		for i, call := range []func() error{
			func() error { return a.Set(ctx, 1, attribute.Named("a"), 1) },
			func() error { return a.SetAll(ctx, 1, attribute.Attribute[int]{Key: "b", Value: 2}) },
			// After a refusal the transaction goes on.
			refusal(mongopatterns.ErrExists, func() error { return a.Add(ctx, 1, attribute.Named("a"), 1) }),
			refusal(attribute.ErrNoAttribute, func() error { return a.Replace(ctx, 1, attribute.Named("x"), 1) }),
			refusal(mongopatterns.ErrNotFound, func() error { return a.Remove(ctx, 9, attribute.Named("x")) }),
			refusal(mongopatterns.ErrMalformed, func() error { return a.Replace(ctx, 2, attribute.Named("x"), 1) }),
			refusal(mongopatterns.ErrMalformed, func() error { return errOf(a.Get(ctx, 2, attribute.Named("x"))) }),
			refusal(mongopatterns.ErrInvalid, func() error { return a.Set(ctx, 1, attribute.Named(""), 1) }),
			refusal(mongopatterns.ErrInvalid, func() error { return errOf(coll.DeleteMany(ctx, a.Filter(attribute.Condition{}))) }),
			func() error { return a.Add(ctx, 1, attribute.Named("c"), 1) },
			func() error { return a.Replace(ctx, 1, attribute.Named("c"), 2) },
			func() error { return a.Remove(ctx, 1, attribute.Named("c")) },
			func() (err error) { all, err = a.GetAll(ctx, 1); return err },
			func() error { return errOf(a.RenameKey(ctx, "a", "e", nil)) },
			func() error { return errOf(a.RemoveKey(ctx, "b", nil)) },
			func() (err error) { value, err = a.Get(ctx, 1, attribute.Named("e")); return err },
		} {
			if err := call(); err != nil {
				return nil, fmt.Errorf("call %d: %w", i, err) // some are for the driver to run it again
			}
		}
		return nil, abort
	})
	testkit.Is(t, err, abort)
	want(t, all, []attribute.Attribute[int]{{Key: "a", Value: 1}, {Key: "b", Value: 2}})
	want(t, value, 1)
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1)))
}

// The server's refusal of two arrays in an index is ErrTwoArrays.
func TestServerRefusesTwoArrays(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	coll := db.Collection("c")
	a := newAttributes[int, int](t, coll, nil)
	insert(t, coll, d("_id", 1, "x", 1, "attributes", bson.A{e("k", 1)}))
	for name, call := range map[string]func() error{
		"Set": func() error { return a.Set(ctx, 1, attribute.Named("k"), 1) },
		"Adopt": func() error {
			result, err := a.Adopt(ctx, []attribute.Column{{Path: "x", Key: "x"}}, nil)
			if err == nil && result.Done == 0 && len(result.Failures) == 1 {
				err = result.Failures[0].Err
			}
			return err
		},
		"EnsureIndexes": func() error { return a.EnsureIndexes(ctx) },
	} {
		times := map[bool]int{false: 1, true: 2}[name == "Adopt"]
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"update", "createIndexes"}, Times: times, Code: 171})
		if err := call(); !errors.Is(err, attribute.ErrTwoArrays) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
