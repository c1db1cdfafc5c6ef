package calls_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// Insert of a package returns ErrExists for an ID that exists, and not for a duplicate in an index of the user's.
// Both are the driver's duplicate key error too, and write nothing.
func TestInsertOfWhatExists(t *testing.T) {
	type insert = func(ctx context.Context, id int, email string) error
	person := func(id int, email string) bson.D { return testkit.D("_id", id, "email", email) }
	by := versioning.Change{Author: "ann"}
	// Each stores a document in the collection "c", in which email is unique.
	for name, open := range map[string]func(c, other *mongo.Collection) insert{
		"prealloc": func(c, _ *mongo.Collection) insert {
			g := testkit.Must(prealloc.New[int, string](c, nil))
			return func(ctx context.Context, id int, email string) error {
				return g.Insert(ctx, id, testkit.D("email", email), prealloc.At("A", "1"))
			}
		},
		"relation": func(c, other *mongo.Collection) insert {
			r := testkit.Must(relation.New[int, int, bson.D](other, c, &relation.Options{OwnerField: "owner"}))
			return func(ctx context.Context, id int, email string) error {
				return testkit.ErrorOf(r.Insert(ctx, 0, person(id, email)))
			}
		},
		"schemaversion": func(c, _ *mongo.Collection) insert {
			v := testkit.Must(schemaversion.New[bson.D](c, nil, nil))
			return func(ctx context.Context, id int, email string) error {
				return testkit.ErrorOf(v.Insert(ctx, person(id, email)))
			}
		},
		"split": func(c, other *mongo.Collection) insert {
			s := testkit.Must(split.New[int, bson.D, bson.D](c, other, &split.Options{ColdFields: []string{"cv"}}))
			return func(ctx context.Context, id int, email string) error {
				return s.Insert(ctx, id, testkit.D("email", email), testkit.D("cv", "long"))
			}
		},
		"split, cold": func(c, other *mongo.Collection) insert {
			s := testkit.Must(split.New[int, bson.D, bson.D](other, c, &split.Options{IDField: "person", ColdFields: []string{"email"}}))
			return func(ctx context.Context, id int, email string) error {
				return s.Insert(ctx, id, testkit.D("name", "x"), testkit.D("email", email))
			}
		},
		"subset": func(c, other *mongo.Collection) insert {
			s := testkit.Must(subset.New[int, bson.D](other, c, &subset.Options{ParentField: "group", N: 2, Sort: testkit.D("_id", -1)}))
			return func(ctx context.Context, id int, email string) error {
				return testkit.ErrorOf(s.Insert(ctx, 0, person(id, email)))
			}
		},
		"tree": func(c, _ *mongo.Collection) insert {
			tr := testkit.Must(tree.New[int, bson.D](c, tree.ParentReferences, nil))
			return func(ctx context.Context, id int, email string) error {
				if id == 1 {
					return testkit.ErrorOf(tr.Insert(ctx, person(id, email), tr.AsRoot()))
				}
				return testkit.ErrorOf(tr.Insert(ctx, person(id, email), tr.Under(1)))
			}
		},
		"tree, by a field": func(c, _ *mongo.Collection) insert {
			tr := testkit.Must(tree.New[int, bson.D](c, tree.ChildReferences, &tree.Options{IDField: "number"}))
			return func(ctx context.Context, id int, email string) error {
				return testkit.ErrorOf(tr.Insert(ctx, testkit.D("number", id, "email", email), tr.AsRoot()))
			}
		},
		"versioning": func(c, other *mongo.Collection) insert {
			h := testkit.Must(versioning.New[int, bson.D](c, other, nil))
			return func(ctx context.Context, id int, email string) error {
				return testkit.ErrorOf(h.Insert(ctx, person(id, email), by))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), mongotest.Database(t)
			c, other := db.Collection("c"), db.Collection("other")
			put := open(c, other)
			unique := []mongo.IndexModel{
				{Keys: testkit.D("email", 1), Options: options.Index().SetUnique(true)},
				{Keys: testkit.D("number", 1), Options: options.Index().SetUnique(true).SetSparse(true)},
				{Keys: testkit.D("person", 1), Options: options.Index().SetUnique(true).SetSparse(true)},
			}
			testkit.Must(c.Indexes().CreateMany(ctx, unique))
			testkit.Must(other.InsertOne(ctx, testkit.D("_id", 0))) // the parent of those that have one
			testkit.OK(t, put(ctx, 1, "ann@"))
			testkit.OK(t, put(ctx, 2, "bob@"))
			if name == "split, cold" { // half a document
				testkit.Must(other.DeleteOne(ctx, testkit.D("_id", 2)))
			}
			before := testkit.Stored[bson.D](t, c)
			for email, exists := range map[string]bool{"cy@": true, "ann@": false} {
				id := 3
				if exists {
					id = 2
				}
				err := put(ctx, id, email)
				if errors.Is(err, mongopatterns.ErrExists) != exists || !mongo.IsDuplicateKeyError(err) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
					t.Errorf("%s: %v, %v", email, err, mongopatterns.OutcomeOf(err))
				}
			}
			testkit.Same(t, "stored", before, testkit.Stored[bson.D](t, c))
		})
	}
}

// ErrExists is about the ID: another field of the same name, and the _id where that is not the ID, do not count.
func TestAnotherDuplicateIsNotErrExists(t *testing.T) {
	ctx, db := t.Context(), mongotest.Database(t)
	hot, cold, nodes := db.Collection("hot"), db.Collection("cold"), db.Collection("nodes")
	testkit.Must(hot.Indexes().CreateOne(ctx, testkit.Unique("person")))
	s := testkit.Must(split.New[int, bson.D, bson.D](hot, cold, &split.Options{IDField: "person", ColdFields: []string{"cv"}}))
	tr := testkit.Must(tree.New[int, bson.D](nodes, tree.ParentReferences, &tree.Options{IDField: "number"}))
	testkit.OK(t, s.EnsureIndexes(ctx))
	testkit.OK(t, tr.EnsureIndexes(ctx))
	testkit.OK(t, s.Insert(ctx, 1, testkit.D("person", "x"), testkit.D("_id", 77, "cv", "long")))
	testkit.Must(tr.Insert(ctx, testkit.D("_id", "x", "number", 1), tr.AsRoot()))
	for name, err := range map[string]error{
		"hot":  s.Insert(ctx, 2, testkit.D("person", "x"), testkit.D("cv", "long")),
		"cold": s.Insert(ctx, 2, testkit.D("person", "y"), testkit.D("_id", 77, "cv", "long")),
		"tree": testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", "x", "number", 2), tr.AsRoot())),
	} {
		if !mongo.IsDuplicateKeyError(err) || errors.Is(err, mongopatterns.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := testkit.ErrorOf(tr.Insert(ctx, testkit.D("number", 1), tr.AsRoot()))
	if !errors.Is(err, mongopatterns.ErrExists) || !strings.Contains(err.Error(), "number 1: exists already") {
		t.Error(err)
	}
}
