package calls_test

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A call that is refused without a transaction reads why from the primary, whatever the client prefers: a secondary that
// lags would show that nothing is in the way, and the call would try again until that catches up.
func TestRefusedByThePrimary(t *testing.T) {
	for name, row := range map[string]struct {
		want error
		call func(ctx context.Context, c, d *mongo.Collection) error
	}{
		"prealloc.Claim": {prealloc.ErrTaken, func(ctx context.Context, c, _ *mongo.Collection) error {
			testkit.Insert(t, c, testkit.D("_id", 1, "cells", testkit.D("A", testkit.D("1", testkit.D("by", 8)))))
			return testkit.Must(prealloc.New[int, int](c, nil)).Claim(ctx, 1, 7, prealloc.At("A", "1"))
		}},
		"relation.Link, owned": {relation.ErrOwned, func(ctx context.Context, c, d *mongo.Collection) error {
			testkit.Insert(t, d, testkit.D("_id", 1, "owner", 8))
			return testkit.Must(relation.New[int, int, any](c, d, &relation.Options{OwnerField: "owner"})).Link(ctx, 7, 1)
		}},
		"relation.Link, owners full": {relation.ErrFull, func(ctx context.Context, c, d *mongo.Collection) error {
			testkit.Insert(t, d, testkit.D("_id", 1, "owners", []int{8}))
			return testkit.Must(relation.New[int, int, any](c, d, &relation.Options{OwnersField: "owners", MaxCount: 1})).Link(ctx, 7, 1)
		}},
		"relation.Link, children full": {relation.ErrFull, func(ctx context.Context, c, d *mongo.Collection) error {
			testkit.Insert(t, c, testkit.D("_id", 7, "children", []int{8}))
			return testkit.Must(relation.New[int, int, any](c, d, &relation.Options{ChildrenField: "children", MaxCount: 1})).Link(ctx, 7, 1)
		}},
		"schemaversion.Update": {mongopatterns.ErrNotFound, func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(schemaversion.New[owned](c, nil, nil)).Update(ctx, 1, testkit.D("$set", testkit.D("x", 1)))
		}},
		"versioning.Save": {mongopatterns.ErrConflict, func(ctx context.Context, c, _ *mongo.Collection) error {
			testkit.Insert(t, c, testkit.D("_id", 1, "revision", 2))
			h := testkit.Must(versioning.New[any, owned](c, nil, &versioning.Options{NoHistory: true}))
			return testkit.ErrorOf(h.Save(ctx, versioning.Revision[owned]{Number: 1, Document: owned{1}}, versioning.Change{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t, options.Client().SetReadPreference(readpref.SecondaryPreferred()))
			var err error
			for _, command := range mongotest.Record(t, db, func() { err = row.call(t.Context(), db.Collection("c"), db.Collection("d")) }) {
				if mode, _ := command.Body.Lookup("$readPreference", "mode").StringValueOK(); mode == "secondaryPreferred" {
					t.Errorf("%s went to a secondary", command.Name)
				}
			}
			if !errors.Is(err, row.want) {
				t.Errorf("error %v, want %v", err, row.want)
			}
		})
	}
}
