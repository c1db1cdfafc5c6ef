//go:build unix

package adoption_test

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
)

// A validator that knows the old fields only: what it refuses is Failed, a dry run does not see it, and with
// validationAction "warn" Adopt ends.
func TestBesideAValidator(t *testing.T) {
	type adopt = func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)
	for name, open := range map[string]func(db *mongo.Database) (adopt, error){
		"tree": func(db *mongo.Database) (adopt, error) {
			tr, err := tree.New[int, bson.M](db.Collection("c"), tree.AncestorArray, nil)
			return tr.Adopt, err
		},
		"subset": func(db *mongo.Database) (adopt, error) {
			s, err := subset.New[int, bson.M](db.Collection("c"), db.Collection("items"), nil)
			return s.Adopt, err
		},
		"split": func(db *mongo.Database) (adopt, error) {
			s, err := split.New[int, bson.M, bson.M](db.Collection("c"), db.Collection("cold"), &split.Options{ColdFields: []string{"plot"}})
			return s.Adopt, err
		},
		"extref": func(db *mongo.Database) (adopt, error) {
			r, err := extref.New[int, bson.M](db.Collection("c"), []extref.Target{{Collection: db.Collection("orders"), Path: "film",
				Fields: []extref.Field{{Path: "plot"}}}}, nil)
			return func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return r.Adopt(ctx, "orders.film", w)
			}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			testkit.Insert(t, db.Collection("c"), d("_id", 1, "plot", "long", "items", bson.A{d("_id", 11)}))
			testkit.Insert(t, db.Collection("orders"), d("_id", 1, "film", d("_id", 1)))
			schema := d("$jsonSchema", d("additionalProperties", false, "properties", d("_id", bson.D{}, "plot", bson.D{}, "items", bson.D{})))
			testkit.OK(t, mongotest.Admin(t, db).RunCommand(t.Context(), d("collMod", "c", "validator", schema)).Err())
			call, err := open(db)
			testkit.OK(t, err)
			if dry, err := call(t.Context(), &mongopatterns.Work{DryRun: true}); err != nil || dry.Done != 1 {
				t.Errorf("%+v, %v", dry, err)
			}
			result, err := call(t.Context(), nil)
			if err != nil || result.Failed != 1 || !strings.Contains(result.Failures[0].Err.Error(), "failed validation") {
				t.Errorf("%+v, %v", result, err)
			}
			testkit.OK(t, mongotest.Admin(t, db).RunCommand(t.Context(), d("collMod", "c", "validationAction", "warn")).Err())
			ended(t)(call(t.Context(), nil))
		})
	}
}
