package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// checked runs the commands of remarks, which give the printed figures. It returns the remarks' names.
func checked(t *testing.T, db *mongo.Database, report *advise.Report) (names []string) {
	t.Helper()
	for _, r := range report.Remarks {
		names = append(names, r.Name())
		command := strings.TrimPrefix(strings.TrimPrefix(r.Check.Shell, "db.runCommand("), "EJSON.deserialize(")
		reply, err := db.RunCommand(t.Context(), document(t, strings.TrimRight(command, ")"))).Raw()
		testkit.OK(t, err)
		if n := reply.Lookup(r.Check.Path...).AsInt64(); n != r.Check.Answer || n == 0 || r.Sure == "" {
			t.Errorf("%s: the query gives %d, printed is %d", r.Name(), n, r.Check.Answer)
		}
	}
	return names
}

// What the data alone shows, in the order of the report. Each check gives the printed figure, and what is meant so is not
// remarked on.
func TestRemarks(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	ids := make([]bson.ObjectID, 200)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("users"), times(200, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "sex", Value: []any{"f", 1}[i%2]}, {Key: "born", Value: begin}, {Key: "zip", Value: "12345"}}
		if i == 7 {
			doc[4].Value = 12345
		}
		return doc
	}))
	insert(t, db.Collection("visits"), times(300, func(i int) bson.D {
		by := ids[i%200]
		if i < 5 {
			by = bson.NewObjectID()
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "by", Value: by}, {Key: "who", Value: by.Hex()}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Hour).Format(time.RFC3339)}, {Key: "code", Value: fmt.Sprint("2026-", i)}}
	}))
	insert(t, db.Collection("people"), times(200, func(i int) bson.D {
		if i%4 == 0 {
			return bson.D{{Key: "_id", Value: i}, {Key: "first", Value: "a"}, {Key: "last", Value: "b"}, {Key: "age", Value: i}}
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "a b"}, {Key: "age", Value: i}}
	}))
	insert(t, db.Collection("optional"), times(200, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "age", Value: i}}
		if i%2 == 0 {
			doc = append(doc, bson.E{Key: "nick", Value: "x"})
		}
		return doc
	}))
	large := make(bson.A, 50_000)
	for i := range large {
		large[i] = strings.Repeat("x", 100)
	}
	insert(t, db.Collection("logs"), times(120, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "created_at", Value: begin}, {Key: "lines", Value: bson.A{}}, {Key: "text", Value: strings.Repeat("y", 140_000)}}
		if i == 77 {
			doc[2].Value = large
		}
		return doc
	}))
	insert(t, db.Collection("goods"), times(200, func(i int) bson.D {
		if i < 7 {
			return bson.D{{Key: "_id", Value: i}, {Key: "size", Value: "7"}, {Key: "weight", Value: "7"}}
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "size", Value: float64(i) + 0.5*float64(i%2)}, {Key: "weight", Value: i}}
	}))
	report := look(t, db, unhurried(nil))
	got := checked(t, db, report)
	if want := []string{"data:limit:logs.lines", "data:dangling:visits.by", "data:references:visits.who", "data:mixed:users.zip", "data:mixed:goods.size", "data:mixed:goods.weight", "data:dates:visits.at", "data:shapes:people.first", "data:old:logs.created_at"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q; unknown %v", got, want, report.Unknown)
	}
	var printed strings.Builder
	testkit.OK(t, report.Text(&printed))
	for _, want := range []string{"1 document of 4 MiB or more, the largest 5.7 MB", "5 of 300 references name no document of users → relation", "300 documents have text that is the _id of users",
		"goods, mixed: size (7 of 200 no number), weight (7 of 200 no number) → schemaversion mixed: a query by one type", "users, mixed: zip (1 of 200 no string) → schemaversion goods,", "300 documents have dates as text", "documents are of 2 kinds", "120 of 120 documents are from before 20"} {
		if !strings.Contains(strings.Join(strings.Fields(printed.String()), " "), want) {
			t.Errorf("%q is not in %s", want, &printed)
		}
	}
}
