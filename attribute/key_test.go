package attribute_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A name never becomes a name and a qualifier, whatever it contains; otherwise a user's input
// could select another entry.
func TestKeysWithNUL(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("c")
	insert(t, coll, bson.D{{Key: "_id", Value: 1}})
	a := newAttributes[int, string](t, coll, &attribute.Options{QualifierField: "u"})
	if err := a.Set(ctx, 1, attribute.Named("role").Qualified("admin"), "old"); err != nil {
		t.Fatal(err)
	}
	bad := attribute.Named("role\x00admin")
	_, get := a.Get(ctx, 1, bad)
	_, find := coll.CountDocuments(ctx, a.Filter(a.Equals(bad, "old")))
	for name, err := range map[string]error{
		"set": a.Set(ctx, 1, bad, "new"), "add": a.Add(ctx, 1, bad, "new"), "change": a.Replace(ctx, 1, bad, "new"),
		"remove": a.Remove(ctx, 1, bad), "get": get, "find": find, "qualifier": a.Set(ctx, 1, attribute.Named("role").Qualified("a\x00b"), "new"),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := a.GetAll(ctx, 1); err != nil || len(all) != 1 || all[0].Value != "old" {
		t.Errorf("%+v, %v", all, err)
	}
}
