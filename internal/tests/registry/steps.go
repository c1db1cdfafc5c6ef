package registry

import (
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// done takes errors that say that a repeated step was done before.
func done(err error, before ...error) error {
	for _, b := range before {
		if errors.Is(err, b) {
			return nil
		}
	}
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return err
}

func ids(t *testing.T, coll *mongo.Collection, filter any) []int {
	t.Helper()
	var docs []struct {
		ID int `bson:"_id"`
	}
	cursor, err := coll.Find(t.Context(), filter, options.Find().SetSort(bson.M{"_id": 1}).SetProjection(bson.M{"_id": 1}))
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := []int{}
	for _, d := range docs {
		out = append(out, d.ID)
	}
	return out
}

// inOrder checks that the numbers of n steps are there, each once and in their order.
func inOrder(t *testing.T, got []int, n int) {
	t.Helper()
	if !slices.Equal(got, upTo(n)) {
		t.Errorf("%v of %d", got, n)
	}
}

func upTo(n int) []int {
	out := []int{}
	for i := range n {
		out = append(out, i)
	}
	return out
}
