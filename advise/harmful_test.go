package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// query is a command that was sent a number of times.
func query(t *testing.T, calls int64, command bson.D) advise.Query {
	t.Helper()
	raw, err := bson.Marshal(command)
	testkit.OK(t, err)
	return advise.Query{Collection: command[0].Value.(string), Command: raw, Calls: calls}
}

// reviewed stores products whose reviews, and no other field, are large.
func reviewed(t *testing.T, db *mongo.Database) {
	t.Helper()
	var docs []any
	for i := range 200 {
		var reviews bson.A
		for j := range 40 {
			reviews = append(reviews, bson.D{{Key: "_id", Value: i*100 + j}, {Key: "stars", Value: j % 5}, {Key: "text", Value: strings.Repeat("x", 80)}})
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "title", Value: fmt.Sprint("t", i)}, {Key: "year", Value: i % 50}, {Key: "reviews", Value: reviews}})
	}
	insert(t, db.Collection("products"), docs)
}

// A list that reads take a part of is one that they need: split does not move it.
func TestSplitLeavesSlicedLists(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	reviewed(t, db)
	list := bson.D{{Key: "title", Value: 1}}
	for _, command := range []bson.D{
		{{Key: "find", Value: "products"}, {Key: "projection", Value: append(list, bson.E{Key: "reviews", Value: bson.D{{Key: "$slice", Value: -10}}})}},
		{{Key: "find", Value: "products"}, {Key: "projection", Value: append(list, bson.E{Key: "top", Value: bson.D{{Key: "$slice", Value: bson.A{"$reviews", 10}}}})}},
		{{Key: "aggregate", Value: "products"}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$project", Value: append(list, bson.E{Key: "top", Value: bson.D{{Key: "$slice", Value: bson.A{"$reviews", 10}}}})}}}}},
		{{Key: "find", Value: "products"}, {Key: "projection", Value: append(list, bson.E{Key: "all", Value: "$$ROOT"})}},
	} {
		report := look(t, db, unhurried([]advise.Query{query(t, 200, command)}))
		if slices.Contains(named(report), "split:products") {
			t.Errorf("%v: advised %v", command, named(report))
		}
	}
	report := look(t, db, unhurried([]advise.Query{query(t, 200, bson.D{{Key: "find", Value: "products"}, {Key: "projection", Value: list}})}))
	if !slices.Contains(named(report), "split:products") {
		t.Errorf("without the list: advised %v; %v", named(report), about(report, "products"))
	}
}
