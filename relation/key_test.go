package relation_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
)

// Children that name their parent by KeyField: the message board whose messages have the id of
// their author, which is not its _id.
func TestKeyField(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]relation.Options{
		"owner": {OwnerField: "posted_by", KeyField: "id"}, "owners": {OwnersField: "posted_by", KeyField: "id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), mongotest.Database(t)
			users, messages := db.Collection("users"), db.Collection("messages")
			r, err := relation.New[string, int, bson.M](users, messages, &opts)
			if err != nil {
				t.Fatal(err)
			}
			good := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			is := func(want, err error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			good(r.EnsureIndexes(ctx))
			_, err = users.InsertMany(ctx, []any{bson.M{"_id": 1, "id": "ann"}, bson.M{"_id": 2, "id": "bob"}, bson.M{"_id": "carl", "id": "dora"}})
			good(err)
			if _, err := users.InsertOne(ctx, bson.M{"_id": 3, "id": "ann"}); !mongo.IsDuplicateKeyError(err) {
				t.Errorf("a second ann: %v", err)
			}
			for i, user := range []string{"ann", "ann", "bob"} {
				_, err := r.Insert(ctx, user, bson.M{"_id": i})
				good(err)
			}
			_, err = r.Insert(ctx, "carl", bson.M{"_id": 9}) // an _id
			is(mongopatterns.ErrNoParent, err)
			joined, err := r.Children(ctx, "ann", nil)
			if err != nil || len(joined.Items) != 2 {
				t.Errorf("%+v, %v", joined, err)
			}
			all, err := r.ChildrenOf(ctx, []string{"bob", "ann"}, nil)
			if err != nil || len(all[0].Items) != 1 || len(all[1].Items) != 2 {
				t.Errorf("%+v, %v", all, err)
			}
			if owners, err := r.Parents(ctx, 2); err != nil || len(owners) != 1 || owners[0] != "bob" {
				t.Errorf("%v, %v", owners, err)
			}
			kinds := func() (out []mongopatterns.ProblemKind) {
				for p, err := range r.Check(ctx, nil) {
					good(err)
					out = append(out, p.Kind)
				}
				return out
			}
			if found := kinds(); found != nil {
				t.Errorf("%v", found)
			}
			// Dangling: the _id of a user, which is not a key.
			value := any("carl")
			if opts.OwnersField != "" {
				value = bson.A{"carl"}
			}
			_, err = messages.InsertOne(ctx, bson.M{"_id": 8, "posted_by": value})
			good(err)
			if found := kinds(); len(found) != 1 || found[0] != mongopatterns.Dangling {
				t.Errorf("%v", found)
			}
			if result, err := r.Repair(ctx, nil); err != nil || result.Done != 1 || kinds() != nil {
				t.Errorf("%+v, %v", result, err)
			}
			is(mongopatterns.ErrNoParent, testkit.ErrorOf(r.DeleteParent(ctx, "carl", mongopatterns.Cascade)))
			is(mongopatterns.ErrReferenced, testkit.ErrorOf(r.DeleteParent(ctx, "ann", mongopatterns.Restrict)))
			good(testkit.ErrorOf(r.DeleteParent(ctx, "ann", mongopatterns.Cascade)))
			good(testkit.ErrorOf(r.DeleteParent(ctx, "bob", mongopatterns.Unlink)))
			var left []bson.M
			cursor, err := messages.Find(ctx, bson.M{"_id": bson.M{"$lt": 8}})
			good(err)
			good(cursor.All(ctx, &left))
			if len(left) != 1 || left[0]["_id"] != int32(2) || kinds() != nil {
				t.Errorf("left %v, %v", left, kinds())
			}
			if n, err := users.CountDocuments(ctx, bson.M{}); err != nil || n != 1 {
				t.Errorf("%d users, %v", n, err)
			}
		})
	}
}

// KeyField is refused in combinations where it has no meaning.
func TestKeyFieldRefused(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for _, opts := range []relation.Options{
		{KeyField: "id", ChildrenField: "c"}, {KeyField: "id", ChildrenField: "c", OwnerField: "o"}, {KeyField: "id", Links: db.Collection("l")}, {KeyField: "a.b", OwnerField: "o"},
	} {
		if _, err := relation.New[int, int, bson.D](db.Collection("a"), db.Collection("b"), &opts); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if _, err := relation.New[int, int, bson.D](db.Collection("a"), db.Collection("a"), &relation.Options{KeyField: "id", OwnerField: "o"}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
