package attribute_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Keys and qualifiers that the collection's collation holds for equal are one.
func TestCollation(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ctx := t.Context()
	err := db.CreateCollection(ctx, "c", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2}))
	if err != nil {
		t.Fatal(err)
	}
	coll := db.Collection("c")
	a := newAttributes[int, int](t, coll, &attribute.Options{QualifierField: "u"})
	two, three := int32(2), int32(3)
	insert(t, coll, d("_id", 1))
	must(t, a.SetMany(ctx, 1, attribute.Attribute[int]{Key: "A", Value: 1, Qualifier: "Q"}, attribute.Attribute[int]{Key: "a", Value: 2, Qualifier: "q"}))
	want(t, stored(t, coll, 1), doc(1, e("a", two, "q")))
	must(t, a.Set(ctx, 1, attribute.Key("A").Qualified("Q"), 3))
	wantErr(t, a.Add(ctx, 1, attribute.Key("a").Qualified("q"), 3), attribute.ErrExists)
	want(t, stored(t, coll, 1), doc(1, e("A", three, "Q")))
	must(t, drain(a.Check(ctx, nil)))

	insert(t, coll, d("_id", 2, "x", 1, "y", 2))
	must(t, errOf(a.Adopt(ctx, []attribute.Column{{Path: "x", Key: "A"}, {Path: "y", Key: "a"}}, nil)))
	want(t, stored(t, coll, 2), doc(2, e("A", int32(1))))
	must(t, errOf(coll.DeleteOne(ctx, d("_id", 2))))

	must(t, a.EnsureIndexes(ctx))
	must(t, a.EnsureIndexes(ctx))

	// Another spelling of the key is no other key.
	for from, to := range map[string]string{"A": "a", "a": "A"} {
		must(t, errOf(coll.UpdateOne(ctx, d("_id", 1), d("$set", d("attributes.0.k", from)))))
		result, err := a.RenameKey(ctx, from, to, nil)
		must(t, err)
		want(t, result, mongopatterns.Result{Examined: 1, Done: 1})
		want(t, stored(t, coll, 1), doc(1, e(to, three, "Q")))
	}
}
