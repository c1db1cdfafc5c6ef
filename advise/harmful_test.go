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

// A replay finds what an answer has lost, and only that.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command, before, after string
		unordered              bool
		lost                   string
	}{
		{`{"find": "x"}`, `[{"_id": 1, "a": 1, "b": [{"c": 1}, {"c": 2}]}]`, `[{"b": [{"c": 1, "d": 7}, {"c": 2.0}], "e": 2, "a": 1, "_id": 1}]`, false, ""},
		{`{"find": "x"}`, `[{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]`, `[{"_id": 2, "a": 2}, {"_id": 1, "a": 1}]`, false, ""},
		{`{"find": "x"}`, `[{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]`, `[{"_id": 2, "a": 2}, {"_id": 1, "a": 7}]`, false, "a"},
		{`{"find": "x"}`, `[{"_id": 1, "a": {"b": 1, "c": 2}}]`, `[{"_id": 1, "a": {"b": 1}}]`, false, "a.c"},
		{`{"find": "x"}`, `[{"_id": 1, "a": null}]`, `[{"_id": 1}]`, false, "a"},
		{`{"find": "x"}`, `[{"_id": 1, "a": [1, 2, 3]}]`, `[{"_id": 1, "a": [2, 3]}]`, false, "a"},
		{`{"find": "x"}`, `[{"_id": 1, "a": [1, 2]}]`, `[{"_id": 1, "a": [2, 1]}]`, false, "a.0"},
		{`{"find": "x"}`, `[{"_id": 1, "a": [1, 2]}]`, `[{"_id": 1, "a": [2, 1]}]`, true, ""},
		{`{"find": "x"}`, `[{"a": 1}, {"a": 2}]`, `[{"a": 1}]`, false, "document 2 of 2"},
		{`{"find": "x"}`, `[{"_id": 1}]`, `[]`, false, "document 1 of 1"},
		{`{"find": "x", "limit": 1}`, `[{"_id": 1, "a": 1}]`, `[{"_id": 2, "a": 2}]`, false, ""}, // as good
		{`{"find": "x", "limit": 1}`, `[{"_id": 1, "a": 1}]`, `[{"_id": 2}]`, false, "a"},
		{`{"find": "x", "limit": 1}`, `[{"_id": 1, "a": 1}]`, `[{"_id": 1, "a": 2}]`, false, "a"},
		{`{"aggregate": "x", "pipeline": [{"$limit": 2}]}`, `[{"_id": 1}, {"_id": 2}]`, `[{"_id": 1}]`, false, "document 2 of 2"},
	} {
		var command, before, after bson.D
		for text, into := range map[string]*bson.D{test.command: &command, `{"d": ` + test.before + `}`: &before, `{"d": ` + test.after + `}`: &after} {
			testkit.OK(t, bson.UnmarshalExtJSON([]byte(text), false, into))
		}
		documents := func(d bson.D) (out []bson.D) {
			for _, v := range d[0].Value.(bson.A) {
				out = append(out, v.(bson.D))
			}
			return out
		}
		if lost := advise.Lost(command, documents(before), documents(after), test.unordered); lost != test.lost {
			t.Errorf("%s: %s, then %s: lost %q, want %q", test.command, test.before, test.after, lost, test.lost)
		}
	}
}

// A list that is written more often than a part of it is read stays where it is, as does one whose parts are wanted
// from both ends, or in an order of storage that the package could not keep.
func TestSubsetWeighs(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	reviewed(t, db)
	slice := func(calls, n int) advise.Query {
		return query(t, int64(calls), bson.D{{Key: "find", Value: "products"}, {Key: "projection", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "$slice", Value: n}}}}}})
	}
	push := func(calls int64) advise.Query {
		return query(t, calls, bson.D{{Key: "update", Value: "products"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}},
			{Key: "u", Value: bson.D{{Key: "$push", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "stars", Value: 1}}}}}}}}}}})
	}
	check := func(name string, queries []advise.Query, reason string) {
		t.Helper()
		report := look(t, db, unhurried(queries))
		if notes := strings.Join(about(report, "products"), "; "); slices.Contains(named(report), "subset:products") != (reason == "") || !strings.Contains(notes, reason) {
			t.Errorf("%s: advised %v; %s", name, named(report), notes)
		}
	}
	check("few writes", []advise.Query{slice(60, -5), push(50)}, "")
	check("many writes", []advise.Query{slice(60, -5), push(900)}, "it is written more often (900) than a part of it is read (60)")
	check("few from the other end", []advise.Query{slice(60, -5), slice(10, 5)}, "")
	check("both ends", []advise.Query{slice(60, -5), slice(50, 5), query(t, 20, bson.D{{Key: "find", Value: "products"}})}, "60 reads want a part of it, but 70 all of it")
	if _, err := db.Collection("products").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "reviews.3._id", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	check("not in the order of _id", []advise.Query{slice(60, -5)}, "which in 1 document is not the order of _id")
}
