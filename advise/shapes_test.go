package advise_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Which queries are said to get slower, for which packages, and how they are printed:
// with no value of theirs.
func TestShapes(t *testing.T) {
	for _, test := range []struct {
		commands string // one a line
		want     string // patterns: the query, one a line
	}{
		{`{"find": "x", "filter": {"a": "SECRET"}, "sort": {"b": -1}, "skip": 20, "limit": 10}`, "paging: find x {a: ?} sort {b: -1} skip ? limit ?"},
		{`{"find": "x", "skip": "?number", "limit": "?number"}`, "paging: find x skip ? limit ?"},
		{`{"find": "x", "sort": {"b": -1}, "skip": 0, "limit": 10}`, ""},
		{`{"find": "x", "limit": 10}`, ""},
		{`{"aggregate": "x", "pipeline": [{"$match": {"a": {"$in": ["SECRET"]}}}, {"$sort": {"b": 1}}, {"$skip": 40}, {"$limit": 20}]}`,
			"paging: aggregate x | $match {a: {$in: ?}} | $sort {b: 1} | $skip ? | $limit ?"},
		{`{"aggregate": "x", "pipeline": [{"$lookup": {"from": "y", "localField": "y", "foreignField": "_id", "as": "z"}}, {"$project": {"a": 1, "z.name": 1, "c": {"$literal": "SECRET"}, "d": {"$concat": ["$a", "SECRET $x"]}, "e": {"$eq": ["$e", 1]}}}]}`,
			"extref: aggregate x | $lookup {from: y, localField: y, foreignField: _id, as: z} | $project {a: 1, z.name: 1, c: {$literal: ?}, d: {$concat: [$a, ?]}, e: {$eq: [$e, ?]}}"},
		{`{"aggregate": "x", "pipeline": [{"$lookup": {"from": "y", "localField": "y", "foreignField": "_id", "as": "z"}}]}`, ""},
		{`{"aggregate": "x", "pipeline": [{"$match": {"_id": "SECRET"}}, {"$graphLookup": {"from": "x", "startWith": "$_id", "connectFromField": "_id", "connectToField": "up", "as": "z", "restrictSearchWithMatch": {"n": "SECRET", "m": 1}}}]}`,
			"tree: aggregate x | $match {_id: ?} | $graphLookup {from: x, startWith: $_id, connectFromField: _id, connectToField: up, as: z, restrictSearchWithMatch: {n: ?, m: ?}}"},
		{`{"update": "x", "updates": [{"q": {"_id": "SECRET"}, "u": {"$push": {"l": "SECRET"}, "$inc": {"n": 1}}}]}`, "outlier, subset: update x {_id: ?} {$push: {l: ?}, $inc: {n: ?}}"},
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$push": {"l": {"$each": [{"at": {"$date": "2026-01-01T00:00:00Z"}, "v": 1}]}}}}]}`, "outlier, subset, bucket: update x {_id: ?} {$push: {l: ?}}"},
		{`{"findAndModify": "x", "query": {"_id": 1}, "update": {"$push": {"l": 7}}}`, "outlier, subset: findAndModify x {_id: ?} update {$push: {l: ?}}"},
		// What bounds a list.
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$push": {"l": {"$each": [1], "$slice": -10}}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1, "l.99": {"$exists": false}}, "u": {"$push": {"l": 1}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1, "n": {"$lt": 100}}, "u": {"$push": {"l": 1}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1, "l": {"$ne": "a"}}, "u": {"$push": {"l": "a"}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$push": {"l.$.m": 1}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$addToSet": {"l": 1}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$push": {"l": 1}}}]}
{"update": "x", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"l": 1}}}]}`, ""},
		{`{"update": "x", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"l": "SECRET"}}]}]}`, ""},
	} {
		var queries []advise.Query
		for line := range strings.Lines(test.commands) {
			var command bson.Raw
			if err := bson.UnmarshalExtJSON([]byte(line), false, &command); err != nil {
				t.Fatal(err)
			}
			queries = append(queries, advise.Query{Collection: "x", Command: command, Calls: 3}, advise.Query{Collection: "x", Command: command})
		}
		var got []string
		for _, s := range advise.Shapes(queries) {
			got = append(got, strings.Join(s.Patterns, ", ")+": "+s.Query)
			if s.Seen != 4 || s.Collection != "x" || s.Why == "" {
				t.Errorf("%+v, want 4 seen", s)
			}
			if strings.Contains(fmt.Sprint(s), "SECRET") {
				t.Errorf("%s shows a value", s)
			}
		}
		if text := strings.Join(got, "\n"); text != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.commands, text, test.want)
		}
	}
}

// A service's loops are seen in its own tests, with few documents: finds for each value of
// an answer, for children, for parents and up a tree; and sorts that no index serves.
func TestShapesOfService(t *testing.T) {
	advise.Unhurried(t) // this machine may be slow
	db := mongotest.Database(t)
	ctx := t.Context()
	insert(t, db.Collection("orders"), []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "customer", Value: 51}, {Key: "items", Value: bson.A{61, 62, 63}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "customer", Value: 52}},
		bson.D{{Key: "_id", Value: 3}, {Key: "customer", Value: 53}},
	})
	insert(t, db.Collection("folders"), []any{
		bson.D{{Key: "_id", Value: "f1"}}, bson.D{{Key: "_id", Value: "f2"}, {Key: "up", Value: "f1"}},
		bson.D{{Key: "_id", Value: "f3"}, {Key: "up", Value: "f2"}}, bson.D{{Key: "_id", Value: "f4"}, {Key: "up", Value: "f3"}},
	})
	if _, err := db.Collection("orders").Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	find := func(name string, filter bson.D, sort bson.D) {
		t.Helper()
		cursor, err := db.Collection(name).Find(ctx, filter, options.Find().SetSort(sort))
		if err != nil {
			t.Fatal(err)
		}
		if err := cursor.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	is := func(field string, value any) bson.D { return bson.D{{Key: field, Value: value}} }
	serve := func() {
		find("orders", bson.D{}, bson.D{})
		for i := range 3 {
			find("customers", is("_id", 51+i), bson.D{})
			find("items", is("_id", 61+i), bson.D{})
			find("parcels", is("order", 1+i), bson.D{})
		}
		for i := range 4 {
			find("folders", is("_id", fmt.Sprint("f", 4-i)), bson.D{})
		}
		find("orders", is("total", 3), is("total", 1))
		for _, last := range []bson.D{is("$limit", 5), is("$group", is("_id", "$sum"))} {
			cursor, err := db.Collection("orders").Aggregate(ctx, bson.A{is("$match", is("total", 3)), is("$sort", is("sum", -1)), last})
			if err != nil {
				t.Fatal(err)
			}
			if err := cursor.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		find("orders", bson.D{}, is("at", -1))    // the index's order
		find("orders", is("at", 3), is("sum", 1)) // the index finds few
	}
	// The same from the answers, and from the profile and the log, which do not have them.
	reports := map[string]*advise.Report{"commands": look(t, db, unhurried(advise.Commands(mongotest.Record(t, db, serve))))}
	profile(t, db, 2, 100)
	serve()
	profile(t, db, 0, 100)
	reports["profile"] = look(t, mongotest.Admin(t, db), unhurried(nil))
	if err := mongotest.Admin(t, db).Collection("system.profile").Drop(ctx); err != nil {
		t.Fatal(err)
	}
	profile(t, db, 0, -1)
	serve()
	profile(t, db, 0, 100)
	logged := serverLog(t, db)
	reports["log"] = look(t, db, unhurried(logged))
	for _, s := range advise.Shapes(logged) {
		if s.Kind == "loop" {
			t.Errorf("%s, without a server to ask", s)
		}
	}
	want := []string{
		": aggregate orders | $match {total: ?} | $sort {sum: -1} | $limit ?: no index begins with a field of the filter or of the sort: the server reads and sorts the whole collection, which only an index or few documents make cheap",
		": find orders {total: ?} sort {total: 1}: no index begins with a field of the filter or of the sort: the server reads and sorts the whole collection, which only an index or few documents make cheap",
		"extref, relation: find customers {_id: ?}: one find for each value of orders.customer, after 1 answer",
		"relation: find items {_id: ?}: one find for each value of orders.items, after 1 answer",
		"relation: find parcels {order: ?}: one find for each value of orders._id, after 1 answer",
		"tree: find folders {_id: ?}: one find for each value of folders.up",
	}
	for source, report := range reports {
		var got []string
		for _, s := range report.Shapes {
			var avoid []string // too few documents for any of these
			for _, reason := range s.Reasons {
				pattern, why, _ := strings.Cut(reason, ": ")
				if avoid = append(avoid, pattern); !strings.HasSuffix(why, "documents, fewer than 100") && !strings.HasSuffix(why, " does not exist") {
					t.Errorf("%s: %s", s.Query, reason)
				}
			}
			got = append(got, fmt.Sprintf("%s: %s: %s", strings.Join(avoid, ", "), s.Query, s.Why))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s\nwant\n%s", source, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	report := reports["commands"]
	var text strings.Builder
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "find items {_id: ?}") {
		t.Errorf("the shapes are not in %s", text.String())
	}
}

// A query names the patterns that are advised for what it is about, or says why each is not.
func TestShapesAgreeWithFindings(t *testing.T) {
	t.Parallel()
	page := func(skip, times int) func(*maker) {
		return func(m *maker) {
			m.plain()
			m.send(times, bson.D{{Key: "aggregate", Value: m.out.name}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: bson.D{{Key: "price", Value: bson.D{{Key: "$gt", Value: 0}}}}}},
				bson.D{{Key: "$sort", Value: bson.D{{Key: "year", Value: -1}, {Key: "title", Value: 1}}}}, bson.D{{Key: "$skip", Value: skip}}, bson.D{{Key: "$limit", Value: 20}}}}})
		}
	}
	push := func(fill func(*maker), times int) func(*maker) {
		return func(m *maker) { fill(m); m.push(times) }
	}
	for _, test := range []struct {
		name string
		make func(*maker)
		end  string // of the query's line
	}{
		{"deep pages", page(1100, 30), " → paging"},
		{"shallow pages", page(40, 30), "; not paging: 0 of 30 pages skip more than 1,000 documents"},
		{"a tree", func(m *maker) { m.nodes(0, 3); m.graph(20, true) }, " → tree"},
		{"a chain", func(m *maker) { m.nodes(0, 1); m.graph(20, true) }, "; not tree: is a chain: no document has two children"},
		{"joins", func(m *maker) { m.orders(4, 0); m.join(80, "name") }, " → extref"},
		{"few joins", func(m *maker) { m.orders(4, 0); m.join(7, "name") }, "; not extref: 7 reads join things_source"},
		{"joins for what changes", func(m *maker) { m.orders(4, 0); m.join(80, "name"); m.change(90, "name") }, "; not extref: 80 reads join things_source, 720 documents in all, but 90 writes to name would each change some 4 copies"},
		{"children one by one", func(m *maker) { m.students(10, 0); m.oneByOne(20, 8, true) }, " → relation"},
		{"children one by one, seldom", func(m *maker) { m.students(10, 0); m.oneByOne(4, 5, true) }, "; not relation: 20 finds of things_source one by one, for 4 answers"},
		{"long lists", push((*maker).longTail, 5), " → outlier"},
		{"short lists", push(func(m *maker) {
			for range m.n {
				m.add(bson.E{Key: m.list, Value: m.strings(3, 8)})
			}
		}, 5), "; not outlier: no list there has 16 elements; not subset: no list there has 16 elements"},
	} {
		n := 600
		if test.name == "deep pages" {
			n = 1200
		}
		db := mongotest.Database(t)
		c := generate(rand.New(rand.NewPCG(2, 2)), kind{test.name, nil, test.make}, n, "things")
		report := look(t, db, unhurried(store(t, db, []labelled{c})))
		agrees(t, report)
		var lines []string
		for _, s := range report.Shapes {
			if s.Kind != "sort" {
				lines = append(lines, s.String())
			}
		}
		if len(lines) != 1 || !strings.HasSuffix(lines[0], test.end) {
			t.Errorf("%s: %q, want %q; advised %v", test.name, lines, test.end, named(report))
		}
	}
}

// A query says which calls of this library sent it, and no other comment.
func TestShapesNameTheirCalls(t *testing.T) {
	var queries []advise.Query
	for _, comment := range []string{"mongopatterns paging.Page", "SECRET", "mongopatterns paging.All", "mongopatterns paging.Page"} {
		command := testkit.Must(bson.Marshal(bson.D{{Key: "find", Value: "x"}, {Key: "sort", Value: bson.D{{Key: "b", Value: 1}}},
			{Key: "skip", Value: 20}, {Key: "limit", Value: 10}, {Key: "comment", Value: comment}}))
		queries = append(queries, advise.Query{Collection: "x", Command: command})
	}
	const want = "find x sort {b: 1} skip ? limit ? (4 seen, by paging.All, paging.Page): "
	if got := advise.Shapes(queries); len(got) != 1 || !strings.HasPrefix(got[0].String(), want) {
		t.Errorf("%v, want one that begins with %s", got, want)
	}
}

// agrees fails if a query is said to lead to a pattern that the report does not advise, or to none without a reason.
func agrees(t *testing.T, report *advise.Report) {
	t.Helper()
	for _, s := range report.Shapes {
		for _, p := range s.Patterns {
			if !slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == p }) {
				t.Errorf("%s, but %v are advised", s, named(report))
			}
		}
		if s.Kind != "sort" && (len(s.Patterns) == 0) != (len(s.Reasons) > 0) || strings.Contains(s.String(), "nothing else was seen") {
			t.Errorf("%s has no reason: %v", s, about(report, s.Collection))
		}
	}
}

// A log of any size takes little memory: queries that differ in values are one.
func TestLogMerges(t *testing.T) {
	var lines strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&lines, `{"id": 51803, "attr": {"type": "command", "ns": "shop.orders", "command": {"find": "orders", "filter": {"customer": "c%d"}, "skip": %d, "limit": 10}}}`+"\n", i, i%3*1000)
	}
	lines.WriteString(`{"id": 51803, "attr": {"type": "command", "ns": "shop.orders", "command": {"find": "` + strings.Repeat("x", 2<<20) + `"}}}` + "\n")
	lines.WriteString(`{"id": 51803, "attr": {"type": "command", "ns": "shop.orders", "command": {"count": "orders"}}}`) // no end of line
	queries, err := advise.Log(strings.NewReader(lines.String()))
	if err != nil || len(queries) != 4 || queries[0].Calls != 10_000 || queries[3].Calls != 1 {
		t.Errorf("%d queries, %v: %v", len(queries), err, queries)
	}
}

// Loops that the profile has are judged one by one: the user who is logged in may be fetched between, and some values
// may be of elsewhere. A loop after a $group of everything follows nothing.
func TestLoopsAmongStrangers(t *testing.T) {
	advise.Unhurried(t)
	db := mongotest.Database(t)
	var posts, tags []any
	for i := range 40 {
		posts = append(posts, bson.D{{Key: "_id", Value: fmt.Sprint("p", i)}, {Key: "page", Value: i / 10}, {Key: "author", Value: fmt.Sprint("u", i)}})
		tags = append(tags, bson.D{{Key: "_id", Value: fmt.Sprint("t", i)}, {Key: "author", Value: fmt.Sprint("u", i)}})
	}
	insert(t, db.Collection("posts"), posts)
	insert(t, db.Collection("tags"), tags)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		send func(send func(command bson.D))
		want string
	}{
		{"the user of another collection", func(send func(bson.D)) {
			send(find("sessions", "_id", "me"))
			send(find("posts", "page", 1))
			for i := range 10 {
				send(find("sessions", "_id", "me"))
				send(find("users", "_id", fmt.Sprint("u", 10+i)))
			}
		}, "find users {_id: ?} (10 seen): one find for each value of posts.author, after 1 answer"},
		{"the user of the same collection", func(send func(bson.D)) {
			send(find("posts", "page", 1))
			for i := range 10 {
				send(find("users", "_id", "me"))
				send(find("users", "_id", fmt.Sprint("u", 10+i)))
			}
		}, "find users {_id: ?} (10 seen): one find for each value of posts.author, after 1 answer (50 % of the finds between the first and the last)"},
		{"one loop of two", func(send func(bson.D)) {
			for page := range 2 {
				send(find("posts", "page", 3*page)) // pages 0 and 3
				for i := range 10 {
					send(find("users", "_id", fmt.Sprint("u", 10*page+i)))
				}
			}
		}, "find users {_id: ?} (10 seen): one find for each value of posts.author, after 1 answer"},
		{"mostly strangers", func(send func(bson.D)) {
			send(find("posts", "page", 1))
			for i := range 20 {
				send(find("users", "_id", fmt.Sprint("u", 12+i)))
			}
		}, ""},
		{"a $group of everything", func(send func(bson.D)) {
			send(bson.D{{Key: "aggregate", Value: "tags"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$author"}}}}}}})
			for i := range 10 {
				send(find("users", "_id", fmt.Sprint("u", 10+i)))
			}
		}, ""},
		{"a field that was not returned", func(send func(bson.D)) {
			send(append(find("posts", "page", 1), bson.E{Key: "projection", Value: bson.D{{Key: "page", Value: 1}}}))
			for i := range 10 {
				send(find("users", "_id", fmt.Sprint("u", 10+i)))
			}
		}, ""},
	} {
		for _, connections := range []int{1, 20} { // of a pool, one after the other
			var log strings.Builder
			sent := 0
			test.send(func(command bson.D) {
				at = at.Add(time.Millisecond)
				raw, err := bson.MarshalExtJSON(command, false, false)
				testkit.OK(t, err)
				fmt.Fprintf(&log, `{"t": {"$date": %q}, "id": 51803, "ctx": "conn%d", "attr": {"type": "command", "remote": "10.0.0.7:%d", "nreturned": 10, "ns": %q, "command": %s}}`+"\n",
					at.Format(time.RFC3339Nano), sent%connections, sent%connections, db.Name()+"."+command[0].Value.(string), raw)
				sent++
			})
			queries, err := advise.Log(strings.NewReader(log.String()))
			testkit.OK(t, err)
			var got []string
			for _, s := range look(t, db, unhurried(queries)).Shapes {
				if s.Kind == "loop" {
					text, _, _ := strings.Cut(s.String(), "; not ")
					got = append(got, text)
				}
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("%s, %d connections: %q, want %q", test.name, connections, got, test.want)
			}
		}
	}
}

func find(collection, field string, value any) bson.D {
	return bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: bson.D{{Key: field, Value: value}}}}
}
