package attribute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func e(k string, v any, u ...string) bson.D {
	out := d("k", k, "v", v)
	if len(u) > 0 {
		out = append(out, bson.E{Key: "u", Value: u[0]})
	}
	return out
}

func doc(id int32, entries ...any) bson.D {
	return d("_id", id, "attributes", append(bson.A{}, entries...))
}

func TestRenameKey(t *testing.T) {
	t.Parallel()
	one, two, three := int32(1), int32(2), int32(3)
	before := []any{
		doc(1, e("x", 1), e("old", 2)),
		doc(2, e("old", 1, "a"), e("old", 2, "b"), e("x", 3)),
		doc(3, e("old", 1, "a"), e("new", 2, "b")),
		doc(4, e("new", 1), e("old", 2), e("x", 3)),             // a collision
		doc(5, e("old", 1), e("old", 2, "a"), e("new", 3, "a")), // a collision of one of two
		doc(6, e("x", 1)),
		d("_id", int32(7), "attributes", d("k", "old")), // no array
		d("_id", int32(8)),
	}
	untouched := []bson.D{
		doc(1, e("x", one), e("new", two)),
		doc(2, e("new", one, "a"), e("new", two, "b"), e("x", three)),
		doc(3, e("new", one, "a"), e("new", two, "b")),
	}
	rest := []bson.D{doc(6, e("x", one)), d("_id", int32(7), "attributes", d("k", "old")), d("_id", int32(8))}
	collided := []bson.D{
		doc(4, e("new", one), e("old", two), e("x", three)),
		doc(5, e("old", one), e("old", two, "a"), e("new", three, "a")),
	}
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll, before...)
	var progress []int64
	result, err := a.RenameKey(t.Context(), "old", "new", &mongopatterns.Work{
		BatchSize: 2, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) },
	})
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 6, Done: 3, Skipped: 3})
	want(t, progress, []int64{2, 4, 6})
	want(t, testkit.Stored[bson.D](t, coll), slices.Concat(untouched, collided, rest))
	// Skipped documents are found by the key that they still have.
	want(t, ids(t, coll, a.Filter(a.Exists(attribute.Named("old")))), []int32{4, 5, 7})
	again, err := a.RenameKey(t.Context(), "old", "new", nil)
	must(t, err)
	want(t, again, mongopatterns.Result{Examined: 3, Skipped: 3})

	// To let one of two keys win, remove the other first.
	must(t, errOf(a.RemoveKey(t.Context(), "new", &mongopatterns.Work{Filter: a.Filter(a.HasAll(attribute.Named("old"), attribute.Named("new")))})))
	must(t, errOf(a.RenameKey(t.Context(), "old", "new", nil)))
	want(t, testkit.Stored[bson.D](t, coll)[3:5], []bson.D{doc(4, e("new", two), e("x", three)), doc(5, e("new", one), e("new", two, "a"))})
}

func TestRemoveKey(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	for i := range int32(25) {
		insert(t, coll, d("_id", i, "even", i%2 == 0, "attributes", bson.A{e("x", i), e("y", i), e("x", i, "q")}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := a.RemoveKey(ctx, "x", &mongopatterns.Work{BatchSize: 10, Progress: func(mongopatterns.Result) { cancel() }})
	testkit.Is(t, err, context.Canceled)
	want(t, len(ids(t, coll, a.Filter(a.Exists(attribute.Named("x"))))), 15)
	result, err := a.RemoveKey(t.Context(), "x", &mongopatterns.Work{BatchSize: 10, Filter: d("even", true)})
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 8, Done: 8})
	result, err = a.RemoveKey(t.Context(), "x", nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 7, Done: 7})
	want(t, testkit.One[bson.D](t, coll, 3), d("_id", int32(3), "even", false, "attributes", bson.A{e("y", int32(3))}))
	if _, err := a.RemoveKey(t.Context(), "x", &mongopatterns.Work{BatchSize: -1}); err == nil || !strings.Contains(err.Error(), "Work.BatchSize") {
		t.Error(err)
	}
}

var columns = []attribute.Column{
	{Path: "volume_ml", Key: "volume", Qualifier: "ml"},
	{Path: "volume_oz", Key: "volume", Qualifier: "ounces"},
	{Path: "info.color", Key: "color"},
	{Path: "info.size.x", Key: "$width"},
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	before := []any{
		d("_id", int32(1), "n", "a", "volume_ml", 500, "volume_oz", "12", "info", d("color", "$red", "size", d("x", 1.5, "y", int32(2)))),
		d("_id", int32(2), "info", d("color", nil), "attributes", bson.A{e("z", int32(1))}),
		d("_id", int32(3), "volume_ml", int32(5), "attributes", bson.A{d("k", "volume", "note", "n", "v", int32(6), "u", "ml")}), // differ
		d("_id", int32(4), "volume_ml", int32(5), "attributes", bson.A{e("volume", int32(5), "ml")}),                             // agree
		d("_id", int32(5), "n", "none"),
		d("_id", int32(6), "volume_ml", int32(1), "attributes", "text"),
		d("_id", int32(7), "info", bson.A{d("color", "red")}),
	}
	first := d("_id", int32(1), "n", "a", "info", d("size", d("y", int32(2))), "attributes", bson.A{
		e("volume", int32(500), "ml"), e("volume", "12", "ounces"), e("color", "$red"), e("$width", 1.5),
	})
	second := d("_id", int32(2), "info", d(), "attributes", bson.A{e("z", int32(1))})
	fourth := d("_id", int32(4), "attributes", bson.A{e("volume", int32(5), "ml")})
	rest := []bson.D{before[4].(bson.D), before[5].(bson.D), before[6].(bson.D)}
	for name, c := range map[string]struct {
		opts   attribute.Options
		result mongopatterns.Result
		want   []bson.D
	}{
		"skip": {attribute.Options{}, mongopatterns.Result{Examined: 6, Done: 3, Remaining: 3},
			[]bson.D{first, second, before[2].(bson.D), fourth}},
		"keep target": {attribute.Options{OnCollision: attribute.KeepTarget}, mongopatterns.Result{Examined: 6, Done: 4, Remaining: 2},
			[]bson.D{first, second, d("_id", int32(3), "attributes", bson.A{d("k", "volume", "note", "n", "v", int32(6), "u", "ml")}), fourth}},
		"keep source": {attribute.Options{OnCollision: attribute.KeepSource}, mongopatterns.Result{Examined: 6, Done: 4, Remaining: 2},
			[]bson.D{first, second, d("_id", int32(3), "attributes", bson.A{d("k", "volume", "note", "n", "v", int32(5), "u", "ml")}), fourth}},
		"keep": {attribute.Options{Copy: true}, mongopatterns.Result{Examined: 6, Done: 1, Remaining: 3},
			[]bson.D{append(slices.Clone(before[0].(bson.D)), first[3]), before[1].(bson.D), before[2].(bson.D), before[3].(bson.D)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			c.opts.QualifierField = "u"
			a := newAttributes[int, any](t, coll, &c.opts)
			insert(t, coll, before...)
			dry, err := a.Adopt(t.Context(), columns, &mongopatterns.Work{DryRun: true})
			must(t, err)
			if name != "keep" {
				want(t, dry, c.result)
			}
			var progress []int64
			result, err := a.Adopt(t.Context(), columns, &mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
			must(t, err)
			want(t, result, c.result)
			want(t, progress, []int64{2, 4, 6})
			c.want[0] = slices.Clone(c.want[0])
			if name == "keep" {
				c.want[0][2].Value = int32(500)
			}
			want(t, testkit.Stored[bson.D](t, coll), slices.Concat(c.want, rest))
			if !c.opts.Copy { // skipped documents are found by the fields that they still have
				still := bson.A{}
				for _, column := range columns {
					still = append(still, d(column.Path, d("$exists", true)))
				}
				want(t, int64(len(ids(t, coll, d("$or", still)))), result.Remaining)
			}
			// Again: nothing changes.
			result, err = a.Adopt(t.Context(), columns, nil)
			must(t, err)
			want(t, result.Done, int64(0))
			want(t, testkit.Stored[bson.D](t, coll), slices.Concat(c.want, rest))
		})
	}
}

func TestUnadopt(t *testing.T) {
	t.Parallel()
	before := []any{
		d("_id", int32(1), "n", "a", "info", d("size", d("y", int32(2))), "attributes", bson.A{
			e("volume", int32(500), "ml"), e("volume", "12", "ounces"), e("stays", int32(1)), e("color", "$red"), e("$width", 1.5)}),
		d("_id", int32(2), "attributes", bson.A{e("volume", int32(1), "ml")}),
		d("_id", int32(3), "volume_ml", int32(5), "attributes", bson.A{e("volume", int32(6), "ml")}), // differ
		d("_id", int32(4), "volume_ml", int32(5), "attributes", bson.A{e("volume", int32(5), "ml")}), // agree
		d("_id", int32(5), "n", "none", "attributes", bson.A{e("volume", int32(5))}),
		d("_id", int32(6), "info", "text", "attributes", bson.A{e("color", "red")}),
		d("_id", int32(7), "info", bson.A{}, "attributes", bson.A{e("color", "red")}),
	}
	first := d("_id", int32(1), "n", "a", "info", d("size", d("y", int32(2), "x", 1.5), "color", "$red"),
		"attributes", bson.A{e("stays", int32(1))}, "volume_ml", int32(500), "volume_oz", "12")
	second := d("_id", int32(2), "attributes", bson.A{}, "volume_ml", int32(1))
	fourth := d("_id", int32(4), "volume_ml", int32(5), "attributes", bson.A{})
	rest := []bson.D{before[4].(bson.D), before[5].(bson.D), before[6].(bson.D)}
	for name, c := range map[string]struct {
		opts   attribute.Options
		result mongopatterns.Result
		want   []bson.D
	}{
		"skip": {attribute.Options{}, mongopatterns.Result{Examined: 6, Done: 3, Remaining: 3},
			[]bson.D{first, second, before[2].(bson.D), fourth}},
		"keep target": {attribute.Options{OnCollision: attribute.KeepTarget}, mongopatterns.Result{Examined: 6, Done: 4, Remaining: 2},
			[]bson.D{first, second, d("_id", int32(3), "volume_ml", int32(5), "attributes", bson.A{}), fourth}},
		"keep source": {attribute.Options{OnCollision: attribute.KeepSource}, mongopatterns.Result{Examined: 6, Done: 4, Remaining: 2},
			[]bson.D{first, second, d("_id", int32(3), "volume_ml", int32(6), "attributes", bson.A{}), fourth}},
		"keep": {attribute.Options{Copy: true}, mongopatterns.Result{Examined: 6, Done: 2, Remaining: 3},
			[]bson.D{
				d("_id", int32(1), "n", "a", "info", first[2].Value, "attributes", before[0].(bson.D)[3].Value, "volume_ml", int32(500), "volume_oz", "12"),
				d("_id", int32(2), "attributes", bson.A{e("volume", int32(1), "ml")}, "volume_ml", int32(1)),
				before[2].(bson.D), before[3].(bson.D),
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := mongotest.Database(t).Collection("c")
			c.opts.QualifierField = "u"
			a := newAttributes[int, any](t, coll, &c.opts)
			insert(t, coll, before...)
			result, err := a.Unadopt(t.Context(), columns, nil)
			must(t, err)
			want(t, result, c.result)
			want(t, testkit.Stored[bson.D](t, coll), slices.Concat(c.want, rest))
			if !c.opts.Copy {
				still := bson.A{}
				for _, column := range columns {
					still = append(still, a.Filter(a.Exists(attribute.Named(column.Key).Qualified(column.Qualifier))))
				}
				want(t, int64(len(ids(t, coll, d("$or", still)))), result.Remaining)
			}
			result, err = a.Unadopt(t.Context(), columns, nil)
			must(t, err)
			want(t, result.Done, int64(0))
		})
	}
}

// Parents that are not documents block only the columns below them.
func TestAdoptParents(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	for i, parent := range []any{nil, "text", d("size", nil), d("size", "text"), bson.A{}, bson.A{d("color", "x")}} {
		insert(t, coll, d("_id", i, "volume_ml", i, "info", parent))
	}
	before := testkit.Stored[bson.D](t, coll)
	result, err := a.Adopt(t.Context(), columns, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 6, Done: 4, Remaining: 2})
	for i, doc := range testkit.Stored[bson.D](t, coll) {
		if i < 4 {
			want(t, doc, d("_id", int32(i), "info", before[i][2].Value, "attributes", bson.A{e("volume", int32(i), "ml")}))
		} else {
			want(t, doc, before[i])
		}
	}
	result, err = a.Unadopt(t.Context(), columns, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 4, Done: 4})
	for i := range 6 {
		must(t, a.Set(t.Context(), i, attribute.Named("$width"), 1))
	}
	result, err = a.Unadopt(t.Context(), columns, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 6, Done: 2, Remaining: 4})
	want(t, testkit.One[bson.D](t, coll, 0), d("_id", int32(0), "info", d("size", d("x", int32(1))), "attributes", bson.A{}, "volume_ml", int32(0)))
	want(t, testkit.One[bson.D](t, coll, 2), d("_id", int32(2), "info", d("size", d("x", int32(1))), "attributes", bson.A{}, "volume_ml", int32(2)))
}

// Duplicates that differ are a collision: dropping one silently would lose it.
func TestAdoptDuplicates(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	a := newAttributes[int, any](t, coll, nil)
	column := []attribute.Column{{Path: "f", Key: "x"}}
	differ := doc(1, e("x", int32(1)), e("x", int32(2)))
	insert(t, coll, differ, doc(2, e("x", int32(1)), e("x", 1.0)))
	result, err := a.Unadopt(ctx, column, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 2, Done: 1, Remaining: 1})
	want(t, testkit.Stored[bson.D](t, coll), []bson.D{differ, append(doc(2), bson.E{Key: "f", Value: int32(1)})})
	must(t, errOf(coll.UpdateOne(ctx, d("_id", 1), d("$set", d("f", 1)))))
	result, err = a.Adopt(ctx, column, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 2, Done: 1, Remaining: 1})
	keeps := newAttributes[int, any](t, coll, &attribute.Options{OnCollision: attribute.KeepTarget})
	must(t, errOf(keeps.Unadopt(ctx, column, nil)))
	want(t, testkit.One[bson.D](t, coll, 1), append(doc(1), bson.E{Key: "f", Value: int32(1)}))
}

// Keys and qualifiers are data.
func TestAdoptDollars(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll, d("_id", 1, "x", 5, "y", 6))
	dollars := []attribute.Column{{Path: "x", Key: "$y", Qualifier: "$y"}}
	want := func(doc bson.D) {
		t.Helper()
		want(t, testkit.One[bson.D](t, coll, 1), doc)
	}
	must(t, errOf(a.Adopt(t.Context(), dollars, nil)))
	want(d("_id", int32(1), "y", int32(6), "attributes", bson.A{e("$y", int32(5), "$y")}))
	must(t, errOf(a.Unadopt(t.Context(), dollars, nil)))
	want(d("_id", int32(1), "y", int32(6), "attributes", bson.A{}, "x", int32(5)))
}

// Unadopt makes the parents that its fields need, in the order of columns, and no others.
func TestUnadoptMakesParents(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	insert(t, coll, doc(1, e("$width", 1.5), e("color", "red")), doc(2, e("$width", nil)), doc(3, e("volume", "12", "ounces")), doc(4, d("k", "color")),
		d("_id", int32(5), "info", bson.A{d("color", "x")}, "n", nil, "attributes", bson.A{e("volume", "12", "ounces")}))
	result, err := a.Unadopt(t.Context(), columns, nil)
	must(t, err)
	want(t, result, mongopatterns.Result{Examined: 5, Done: 5})
	want(t, testkit.Stored[bson.D](t, coll), []bson.D{
		d("_id", int32(1), "attributes", bson.A{}, "info", d("color", "red", "size", d("x", 1.5))),
		d("_id", int32(2), "attributes", bson.A{}, "info", d("size", d("x", nil))),
		d("_id", int32(3), "attributes", bson.A{}, "volume_oz", "12"),
		d("_id", int32(4), "attributes", bson.A{}, "info", d("color", nil)),
		d("_id", int32(5), "info", bson.A{d("color", "x")}, "n", nil, "attributes", bson.A{}, "volume_oz", "12"),
	})
}

// A pipeline has at most 1,000 stages; there may be more columns.
func TestUnadoptManyColumns(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, int](t, coll, nil)
	insert(t, coll, doc(1, e("k999", 1), e("x", 2), e("k0", 3)))
	many := []attribute.Column{{Path: "x", Key: "x"}}
	for i := range 1000 {
		many = append(many, attribute.Column{Path: fmt.Sprintf("p.f%d", i), Key: fmt.Sprintf("k%d", i)})
	}
	must(t, errOf(a.Unadopt(t.Context(), many, nil)))
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "attributes", bson.A{}, "x", int32(2), "p", d("f0", int32(3), "f999", int32(1))))
}

// Columns to attributes and back gives the same documents, and stopping in between loses nothing.
func TestAdoptThereAndBack(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
	var docs []any
	for i := range int32(50) {
		doc := d("_id", i, "n", i)
		if i%2 == 0 {
			doc = append(doc, bson.E{Key: "volume_ml", Value: i})
		}
		if i%3 == 0 {
			doc = append(doc, bson.E{Key: "info", Value: d("color", fmt.Sprint(i))})
		}
		docs = append(docs, doc)
	}
	insert(t, coll, docs...)
	before := testkit.Stored[bson.D](t, coll)
	run := func(convert func(context.Context, []attribute.Column, *mongopatterns.Work) (mongopatterns.Result, error)) {
		ctx, cancel := context.WithCancel(t.Context())
		first, err := convert(ctx, columns, &mongopatterns.Work{BatchSize: 7, Progress: func(r mongopatterns.Result) {
			if r.Examined >= 14 {
				cancel()
			}
		}})
		testkit.Is(t, err, context.Canceled)
		second, err := convert(t.Context(), columns, &mongopatterns.Work{BatchSize: 7})
		must(t, err)
		want(t, first.Done, int64(14))
		want(t, first.Done+second.Done, int64(33))
	}
	run(a.Adopt)
	want(t, ids(t, coll, d("$or", bson.A{d("volume_ml", d("$exists", true)), d("info.color", d("$exists", true))})), []int32{})
	run(a.Unadopt)
	after := testkit.Stored[bson.D](t, coll)
	for i := range after { // an empty array and an emptied parent stay
		after[i] = slices.DeleteFunc(after[i], func(f bson.E) bool { return f.Key == "attributes" })
	}
	sorted := func(docs []bson.D) (out []bson.M) {
		for _, doc := range docs {
			m := bson.M{}
			for _, f := range doc {
				m[f.Key] = f.Value
			}
			out = append(out, m)
		}
		return out
	}
	want(t, sorted(after), sorted(before))
}

func TestAdoptInvalid(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	ctx := t.Context()
	insert(t, coll, d("_id", 1, "x", 1))
	a := newAttributes[int, any](t, coll, nil)
	for name, c := range map[string]struct {
		columns []attribute.Column
		opts    *mongopatterns.Work
		message string
	}{
		"no columns": {nil, nil, "columns: the list is empty"},
		"path":       {[]attribute.Column{{Path: "a..b", Key: "k"}}, nil, "columns[0].Path"},
		"number":     {[]attribute.Column{{Path: "a.0", Key: "k"}}, nil, "columns[0].Path"},
		"_id":        {[]attribute.Column{{Path: "_id", Key: "k"}}, nil, "columns[0].Path"},
		"array":      {[]attribute.Column{{Path: "attributes.x", Key: "k"}}, nil, "columns[0].Path"},
		"overlap":    {[]attribute.Column{{Path: "a", Key: "k"}, {Path: "a.b", Key: "l"}}, nil, "columns[1].Path"},
		"key":        {[]attribute.Column{{Path: "x"}}, nil, "columns[0].Key"},
		"twice":      {[]attribute.Column{{Path: "x", Key: "k"}, {Path: "y", Key: "k"}}, nil, "columns[1].Key"},
		"qualifier":  {[]attribute.Column{{Path: "x", Key: "k", Qualifier: "q"}}, nil, "columns[0].Qualifier"},
		"UTF-8":      {[]attribute.Column{{Path: "x", Key: "\xff"}}, nil, "columns[0].Key"},
		"batch":      {[]attribute.Column{{Path: "x", Key: "k"}}, &mongopatterns.Work{BatchSize: -1}, "Work.BatchSize"},
	} {
		for _, err := range []error{errOf(a.Adopt(ctx, c.columns, c.opts)), errOf(a.Unadopt(ctx, c.columns, c.opts))} {
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	want(t, testkit.One[bson.D](t, coll, 1), d("_id", int32(1), "x", int32(1)))
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	before := []any{
		doc(1, e("a", int32(1)), e("b", int32(1)), e("a", int32(1), "q"), e("A", int32(1))),                                 // fine
		doc(2, e("a", int32(1)), e("b", int32(2)), e("a", int32(3)), e("a", int32(4), "q"), e("a", int32(5))),               // a three times
		doc(3, e("a", int32(1), "q"), e("a", int32(2), "q"), e("b", int32(3)), d("k", "b", "u", nil), e("b", int32(4), "")), // two of them
		doc(4, int32(5), d("v", int32(1)), d("k", int32(7)), e("", int32(1)), d("k", "a", "u", int32(1)), bson.A{e("a", int32(1))}, e("a", int32(1)), e("a", int32(2))),
		d("_id", int32(5), "attributes", "text"),
		d("_id", int32(6), "attributes", nil),
		d("_id", int32(7)),
	}
	problems := []string{
		`attribute: c 2: duplicate: attributes: key "a"`,
		`attribute: c 3: duplicate: attributes: key "a" ["q"]`,
		`attribute: c 3: duplicate: attributes: key "b"`,
		`attribute: c 4: duplicate: attributes: key "a"`,
		`attribute: c 4: malformed: attributes: 6 elements: "k" must be a string, not empty, "u" a string or missing`,
		`attribute: c 5: malformed: attributes`,
	}
	malformed := append(bson.A{}, before[3].(bson.D)[1].Value.(bson.A)[:6]...)
	repaired := []bson.D{
		doc(2, e("b", int32(2)), e("a", int32(4), "q"), e("a", int32(5))),
		doc(3, e("a", int32(2), "q"), e("b", int32(4), "")),
		doc(4, append(malformed, e("a", int32(2)))...),
	}
	{
		coll := mongotest.Database(t).Collection("c")
		a := newAttributes[int, any](t, coll, &attribute.Options{QualifierField: "u"})
		insert(t, coll, before...)
		check := func() (out []string) {
			for p, err := range a.Check(t.Context(), nil) {
				must(t, err)
				out = append(out, p.String())
			}
			slices.Sort(out)
			return out
		}
		want(t, check(), problems)
		for range a.Check(t.Context(), nil) {
			break
		}
		var progress []int64
		result, err := a.Repair(t.Context(), &mongopatterns.Work{BatchSize: 2, Progress: func(r mongopatterns.Result) { progress = append(progress, r.Examined) }})
		must(t, err)
		want(t, result, mongopatterns.Result{Examined: 4, Done: 3, Remaining: 2})
		want(t, progress, []int64{2, 4})
		want(t, testkit.Stored[bson.D](t, coll), slices.Concat([]bson.D{before[0].(bson.D)}, repaired,
			[]bson.D{before[4].(bson.D), before[5].(bson.D), before[6].(bson.D)}))
		want(t, check(), problems[4:])
		record(t, coll.Database(), 0, []string{"listCollections", "aggregate"}, func() error { return errOf(a.Repair(t.Context(), nil)) })
		if _, err := a.Repair(t.Context(), &mongopatterns.Work{BatchSize: -1}); err == nil || !strings.Contains(err.Error(), "Work.BatchSize") {
			t.Error(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range a.Check(cancelled, nil) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		// GetAll leaves out the malformed ones.
		all, err := a.GetAll(t.Context(), 4)
		must(t, err)
		want(t, len(all), 1)
	}
}
