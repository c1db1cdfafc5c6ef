package mongotest

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A restricted user does what it may and nothing else, and its commands are recorded and fail as those of Database.
func TestRestricted(t *testing.T) {
	t.Parallel()
	db := Database(t)
	if _, err := db.Collection("orders").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	few := Restricted(t, db, map[string][]string{"orders": {"find", "update"}, "": {"listCollections"}})
	orders := few.Collection("orders")
	ship := func(ctx context.Context) error {
		_, err := orders.UpdateByID(ctx, 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "shipped", Value: 1}}}})
		return err
	}
	cmds := Record(t, few, func() {
		if err := ship(t.Context()); err != nil {
			t.Error(err)
		}
		if names, err := few.ListCollectionNames(t.Context(), bson.D{}); err != nil || len(names) != 1 {
			t.Error(names, err)
		}
	})
	cmds.RequireRoundTrips(t, 2)
	_, inserted := orders.InsertOne(t.Context(), bson.D{})
	for what, err := range map[string]error{"insert": inserted, "find": few.Collection("others").FindOne(t.Context(), bson.D{}).Err()} {
		var refused mongo.ServerError
		if !errors.As(err, &refused) || !refused.HasErrorCode(13) {
			t.Errorf("%s: %v", what, err)
		}
	}
	RunAgain(t, few, func(int) error { return transact(t.Context(), few.Client(), ship) })
	FailPoint(t, few, Fail{Commands: []string{"update"}, Times: 1, Code: 8000})
	var failed mongo.ServerError
	if err := ship(t.Context()); !errors.As(err, &failed) || !failed.HasErrorCode(8000) {
		t.Error(err)
	}
}
