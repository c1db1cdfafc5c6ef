package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/turn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// Calls whose first write is to a hot document send nothing while another call of this process has its turn there.
func TestTurns(t *testing.T) {
	db := mongotest.Database(t)
	products, customers := db.Collection("products"), db.Collection("customers")
	reviews := testkit.Must(subset.New[int, bson.D](products, db.Collection("reviews"), &subset.Options{ParentField: "product", ArrayField: "reviews"}))
	copies := testkit.Must(extref.New[int, bson.D](customers, []extref.Target{{Collection: db.Collection("orders"), Path: "customer",
		Fields: []extref.Field{{Path: "name"}}}}, nil))
	testkit.Insert(t, products, bson.D{{Key: "_id", Value: 1}})
	testkit.Insert(t, customers, bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "Ann"}, {Key: "version", Value: int64(1)}})
	testkit.OK(t, testkit.ErrorOf(reviews.Insert(t.Context(), 1, bson.D{{Key: "_id", Value: 1}})))
	for name, test := range map[string]struct {
		coll *mongo.Collection
		call func(ctx context.Context) error
	}{
		"subset.Insert": {products, func(ctx context.Context) error {
			return testkit.ErrorOf(reviews.Insert(ctx, 1, bson.D{{Key: "_id", Value: 2}}))
		}},
		"subset.DeleteParent": {products, func(ctx context.Context) error { return testkit.ErrorOf(reviews.DeleteParent(ctx, 1)) }},
		"extref.Update": {customers, func(ctx context.Context) error {
			return testkit.ErrorOf(copies.Update(ctx, 1, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Bob"}}}}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			document := turn.Document{Client: db.Client(), Name: db.Name() + "." + test.coll.Name() + " " + value.Key(value.New(1))}
			other, _ := turn.Take(t.Context(), []turn.Document{document})
			sent := mongotest.Record(t, db, func() {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				if err := test.call(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			if other.End(); len(sent) > 0 {
				t.Errorf("sent %v", sent.Names())
			}
		})
	}
}
