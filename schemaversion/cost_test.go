package schemaversion_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/costs"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	db, _, c := contacts(t, schemaversion.Options{})
	_, _, back := contacts(t, schemaversion.Options{WriteBack: true})
	rename := bson.M{"$set": bson.M{"name": "x"}}
	costs.Run(t, db, []costs.Case{
		{Name: "Get", Sends: []string{"find"}, Index: "_id_", Call: func(ctx context.Context) error { return errorOf(c.Get(ctx, 1)) }},
		{Name: "Find", Before: func() { testkit.Must(back.Get(t.Context(), 1)) }, Sends: []string{"find"},
			Call: func(ctx context.Context) error { return testkit.Drain(c.Find(ctx, bson.M{})) }},
		{Name: "Insert", Sends: []string{"insert"}, Writes: 1, Call: func(ctx context.Context) error { return errorOf(c.Insert(ctx, contact{ID: 9, Methods: []bson.D{}})) }},
		{Name: "Update", Sends: []string{"update"}, Writes: 1, Index: "_id_", Call: func(ctx context.Context) error { return c.Update(ctx, 9, rename) }},
		{Name: "Update that upgrades", Sends: []string{"update", "find", "update", "update"}, Writes: 2, Call: func(ctx context.Context) error { return c.Update(ctx, 1, rename) }},
		{Name: "Status with documents that have no version", Sends: []string{"aggregate", "aggregate"}, Call: func(ctx context.Context) error { return errorOf(c.Status(ctx)) }},
		{Name: "Migrate", Sends: []string{"listCollections", "findAndModify", "find", "update", "update", "update"}, Writes: 4 + 3,
			Call: func(ctx context.Context) error { return errorOf(c.Migrate(ctx, 3, nil)) }},
		{Name: "Status", Sends: []string{"aggregate"}, Call: func(ctx context.Context) error { return errorOf(c.Status(ctx)) }},
		{Name: "EnsureIndexes that creates one", Sends: []string{"listCollections", "aggregate", "listIndexes", "createIndexes"}, Call: c.EnsureIndexes},
		{Name: "EnsureIndexes", Sends: []string{"listCollections", "aggregate", "listIndexes"}, Call: c.EnsureIndexes},
	})
}
