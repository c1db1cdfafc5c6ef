package advise_test

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Indexes are missing for filters that select little and for joins; prefixes of others could go, and what nobody uses.
func TestIndexes(t *testing.T) {
	advise.YoungIndexes(t)
	db := mongotest.Database(t)
	insert(t, db.Collection("orders"), times(2000, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: i % 200}, {Key: "open", Value: i%2 == 0}, {Key: "day", Value: i}, {Key: "n", Value: i % 100}, {Key: "m", Value: i}}
	}))
	insert(t, db.Collection("lines"), times(300, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "order", Value: i}} }))
	insert(t, db.Collection("few"), times(300, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "n", Value: i}} }))
	model := func(sparse bool, names ...string) mongo.IndexModel {
		keys := bson.D{}
		for _, name := range names {
			keys = append(keys, bson.E{Key: name, Value: 1})
		}
		return mongo.IndexModel{Keys: keys, Options: options.Index().SetSparse(sparse)}
	}
	if _, err := db.Collection("orders").Indexes().CreateMany(t.Context(), []mongo.IndexModel{
		model(false, "n"), model(false, "n", "m"), model(false, "m"), model(true, "m", "open"),
	}); err != nil {
		t.Fatal(err)
	}
	queries := sends(t, 7,
		`{"find": "orders", "filter": {"day": {"$gt": 1900}, "customer": 7}, "sort": {"total": -1}}`,
		`{"update": "orders", "updates": [{"q": {"customer": 7}, "u": {"$set": {"x": 1}}}]}`,
		`{"delete": "orders", "deletes": [{"q": {"customer": 7}, "limit": 0}]}`,
		`{"find": "orders", "filter": {"open": true}}`,                       // half of them
		`{"find": "orders", "filter": {"n": 7, "customer": 3}}`,              // an index begins with n
		`{"find": "orders", "filter": {"_id": 7}}`,                           //
		`{"find": "orders", "filter": {"$or": [{"customer": 7}, {"n": 1}]}}`, // not judged
		`{"find": "few", "filter": {"n": 7}}`,                                // 300 documents need no index
		`{"aggregate": "orders", "pipeline": [{"$match": {"_id": 7}}, {"$lookup": {"from": "lines", "localField": "_id", "foreignField": "order", "as": "l"}}]}`)
	for range 2 { // the scan of an index of m counts as its use
		if _, err := db.Collection("orders").Find(t.Context(), bson.D{{Key: "m", Value: 3}}, options.Find().SetHint(bson.D{{Key: "m", Value: 1}})); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Collection("orders").Find(t.Context(), bson.D{{Key: "m", Value: 3}}, options.Find().SetHint(bson.D{{Key: "n", Value: 1}})); err != nil {
			t.Fatal(err)
		}
	}
	admin := mongotest.Admin(t, db) // for $indexStats
	report := look(t, admin, unhurried(queries))
	var got []string
	for _, i := range report.Indexes {
		got = append(got, i.Name())
		command := strings.TrimSuffix(strings.TrimPrefix(i.Check, "db.runCommand("), ")")
		for _, name := range []string{"listIndexes", "aggregate", "pipeline", "cursor", "$indexStats"} {
			command = strings.ReplaceAll(command, name+":", `"`+name+`":`)
		}
		if err := admin.RunCommand(t.Context(), document(t, command)).Err(); err != nil {
			t.Errorf("%s: %v", i.Check, err)
		}
	}
	want := []string{
		"index:missing:lines {order: 1}",                        //
		"index:missing:orders {customer: 1, total: -1, day: 1}", // for an update and a delete, too
		"index:prefix:orders {n: 1}",
		"index:unused:orders {m: 1, open: 1}", "index:unused:orders {n: 1, m: 1}",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	var text strings.Builder
	testkit.OK(t, report.Text(&text))
	if !strings.Contains(text.String(), "\nIndexes:\n   orders {customer: 1, total: -1, day: 1} is missing (21 seen): the server examines 2,000\n      documents for 0 (counted,") {
		t.Errorf("%s", &text)
	}
}
