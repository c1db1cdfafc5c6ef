package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// The Cost line of Look, for nine collections. It counts, where a costs.Case names the commands in order: Look reads
// its sources of queries in any order.
func TestCosts(t *testing.T) {
	db := mongotest.Database(t)
	opts := unhurried(store(t, db, seven(t, 200)))
	cmds := mongotest.Record(t, db, func() { look(t, db, opts) })
	want := 1 + // the list of collections
		2 + // system.profile, $queryStats
		1 + // the indexes of articles, which are read in an order
		9 + // the size of each collection
		9 + // its fields; none is large
		8 + // the indexes of the others, which have one each
		9 + 9 + // the kinds of its documents, and its texts
		2 + 1 + // the lists of books and products, and the _ids of the elements of one
		3 + // the references of categories, orders and students
		1 + 3 + // the ancestors of categories; the copies in orders, and a join with and without them
		7 + 1 + // a check for each finding, and one more where no index serves the page
		7 + 1 // the types of the _ids that code names, which are those of seven collections, and of the books' elements
	for _, c := range cmds {
		if spills, ok := c.Body.Lookup("allowDiskUse").BooleanOK(); c.Name == "aggregate" && (spills || !ok) {
			t.Errorf("may write temporary files: %s", c.Body)
		}
	}
	if cmds.RoundTrips() != want {
		t.Errorf("%d round trips, want %d: %v", cmds.RoundTrips(), want, cmds.Names())
	}
}

// The same for what the data alone refers to. No other command joins collections where no query was seen.
func TestCostsOfReferences(t *testing.T) {
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 200)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	name, post := func(i int) string { return fmt.Sprint("n", i) }, func(i int) string { return fmt.Sprint("p", i) }
	insert(t, db.Collection("users"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: name(i)}, {Key: "city", Value: name(i)}}
	}))
	insert(t, db.Collection("orders"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "user", Value: ids[i]}, {Key: "userName", Value: name(i)}, {Key: "userCity", Value: name(i)}}
	}))
	insert(t, db.Collection("posts"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: post(i)}, {Key: "comments", Value: bson.A{ids[100+i]}}, {Key: "likes", Value: bson.A{ids[i]}}}
	}))
	insert(t, db.Collection("comments"), times(100, func(i int) bson.D { return bson.D{{Key: "_id", Value: ids[100+i]}, {Key: "post", Value: post(i)}} }))
	cmds := mongotest.Record(t, db, func() { look(t, db, unhurried(nil)) })
	var joins []string
	for _, c := range cmds {
		if text := c.Body.String(); strings.Contains(text, "$lookup") {
			joins = append(joins, text)
		}
	}
	want := 1 + 1 + 1 + 2 + // orders.user: the collection, what it leads to, and the two copies beside it
		1 + 1 + // comments.post, without copies
		1 + 1 + 2 + // posts.comments, whose children name their parent
		2 + 1 // posts.likes, for which comments is tried first, and whose users name no post
	if len(joins) != want {
		t.Errorf("%d joins, want %d: %s", len(joins), want, strings.Join(joins, "\n"))
	}
}

// The Cost line of Try: what it asks of the database that it copies from. A costs.Case would name
// the commands to scratch, too, among them those of a Look.
func TestTryCosts(t *testing.T) {
	db, scratch := mongotest.Database(t), mongotest.Database(t)
	report := look(t, db, unhurried(store(t, db, three(t, 100)[:1]))) // one batch
	cmds := mongotest.Record(t, db, func() {
		if _, err := advise.Try(t.Context(), db, scratch, report, report.Findings[0], nil); err != nil {
			t.Fatal(err)
		}
	})
	var names []string
	for _, c := range cmds {
		if c.Body.Lookup("$db").StringValue() == db.Name() {
			names = append(names, c.Name)
		}
	}
	if want := []string{"listIndexes", "find", "count"}; !slices.Equal(names, want) {
		t.Errorf("sent %v, want %v", names, want)
	}
}
