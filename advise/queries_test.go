package advise_test

import (
	"math/rand/v2"
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

// service sends what a service with lists of films and pages of products sends.
func service(t *testing.T, db *mongo.Database, all []labelled, times int) {
	t.Helper()
	ctx := t.Context()
	list := string(all[1].commands[0].Body.Lookup("pipeline", "1", "$unwind").StringValue()[1:])
	for range times {
		cursor, err := db.Collection("films").Find(ctx, bson.D{{Key: "year", Value: 1950}}, options.Find().SetProjection(bson.D{{Key: "title", Value: 1}}))
		if err != nil {
			t.Fatal(err)
		}
		_ = cursor.Close(ctx)
		db.Collection("products").FindOne(ctx, bson.D{{Key: "_id", Value: 3}}, options.FindOne().SetProjection(bson.D{{Key: list, Value: bson.D{{Key: "$slice", Value: -5}}}}))
	}
	if _, err := db.Collection("products").UpdateOne(ctx, bson.D{{Key: "_id", Value: 3}}, bson.D{{Key: "$set", Value: bson.D{{Key: "year", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
}

// profile sets the profiler's level, and how slow a command is that the log has.
func profile(t *testing.T, db *mongo.Database, level, slow int) {
	t.Helper()
	if err := mongotest.Admin(t, db).RunCommand(t.Context(), bson.D{{Key: "profile", Value: level}, {Key: "slowms", Value: slow}}).Err(); err != nil {
		t.Fatal(err)
	}
}

// serverLog reads the last lines of the server's log.
func serverLog(t *testing.T, db *mongo.Database) []advise.Query {
	t.Helper()
	reply, err := mongotest.Admin(t, db).Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "getLog", Value: "global"}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	lines := "not JSON\n"
	values, err := reply.Lookup("log").Array().Values()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		lines += v.StringValue() + "\n"
	}
	queries, err := advise.Log(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	return queries
}

// Queries count, wherever they were seen: in a service's tests, in the profile, in the
// server's log. Without them nothing that depends on them is advised.
func TestSources(t *testing.T) {
	all := three(t, 200)
	want := []string{"outlier:books", "split:films", "subset:products"}
	db := mongotest.Database(t)
	store(t, db, all)
	if got := named(look(t, db, unhurried(nil))); !slices.Equal(got, want[:1]) {
		t.Errorf("without queries: %v", got)
	}
	cmds := mongotest.Record(t, db, func() { service(t, db, all, 60) })
	if got := named(look(t, db, unhurried(advise.Commands(cmds)))); !slices.Equal(got, want) {
		t.Errorf("with recorded commands: %v", got)
	}

	profile(t, db, 0, -1) // the log has every command
	service(t, db, all, 60)
	profile(t, db, 0, 100)
	logged := serverLog(t, db)
	if got := named(look(t, db, unhurried(logged))); !slices.Equal(got, want) {
		t.Errorf("with the log, %d queries: %v", len(logged), got)
	}

	profile(t, db, 2, 100)
	service(t, db, all, 60)
	look(t, mongotest.Admin(t, db), unhurried(nil)) // its own reads are in the profile, and do not count
	profile(t, db, 0, 100)
	report := look(t, mongotest.Admin(t, db), unhurried(nil))
	if got := named(report); !slices.Equal(got, want) {
		t.Errorf("with the profile: %v, %v", got, report.Sources)
	}
	for _, s := range report.Sources {
		if s.Name == "system.profile" && s.Queries != 121 {
			t.Errorf("%+v, want 121 queries", s)
		}
	}
}

// A command that the profiler and the log have counts once; those that one of them has count as well. Entries of the
// profiler have times: so many updates of one document in a second.
func TestSeenOnce(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	var docs []any
	for i := range 1200 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "year", Value: i % 7}, {Key: "views", Value: 0}})
	}
	profile(t, db, 0, 100_000) // a loaded machine may log the insert
	insert(t, db.Collection("pages"), docs)
	deep := func(times, from int, by string) {
		for i := range times {
			cursor, err := db.Collection("pages").Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: by, Value: 1}}).SetSkip(int64(from+i)).SetLimit(20))
			testkit.OK(t, err)
			testkit.OK(t, cursor.Close(ctx))
		}
	}
	raise := func(times int) {
		for range times {
			_, err := db.Collection("pages").UpdateOne(ctx, bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "views", Value: 1}}}})
			testkit.OK(t, err)
		}
	}
	add := func() {
		_, err := db.Collection("pages").InsertMany(ctx, []any{bson.D{}, bson.D{}, bson.D{}})
		testkit.OK(t, err)
	}
	seen := func(queries []advise.Query, kind string, want int64) *advise.Report {
		t.Helper()
		report := look(t, mongotest.Admin(t, db), unhurried(queries))
		total := int64(0)
		for _, q := range advise.QueriesOf(report) {
			if q.Collection == "pages" && q.Command.Lookup(kind).Type != 0 {
				total += q.Calls
			}
		}
		if total != want {
			t.Errorf("%d of %s, want %d: %v", total, kind, want, report.Sources)
		}
		return report
	}
	profile(t, db, 0, -1)
	deep(2, 1050, "views") // the log alone has these: other finds than the next, which are sent in the same second
	profile(t, db, 2, -1)
	deep(6, 1001, "year")
	raise(40)
	add()
	profile(t, db, 2, 100_000)
	deep(3, 1060, "_id") // and the profile these
	profile(t, db, 0, 100)
	logged := serverLog(t, db)
	seen(logged, "find", 11)
	seen(logged, "insert", 3)
	report := seen(logged, "update", 40)
	seen(nil, "find", 9)
	if !slices.ContainsFunc(report.Sources, func(s advise.Source) bool {
		return s.Name == "given" && strings.Contains(s.Note, "are in the profile, too")
	}) {
		t.Errorf("%+v", report.Sources)
	}
}

// The updates of one document in a second are counted, where the profiler has each by itself.
func TestRateOfProfile(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	all := []labelled{generate(rand.New(rand.NewPCG(6, 6)), kindOf(t, "approx: views of one page"), 200, "pages")}
	store(t, db, all)
	testkit.OK(t, mongotest.Admin(t, db).CreateCollection(ctx, "system.profile", options.CreateCollection().SetCapped(true).SetSizeInBytes(16<<20)))
	var many []mongo.WriteModel
	for i := range 4_100 { // in one command: any machine sends more than 100 in a second
		many = append(many, mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: max(i/100, 1)}}).SetUpdate(bson.D{{Key: "$inc", Value: bson.D{{Key: "views", Value: 1}}}}))
	}
	for i := range 3_000 {
		many[i] = mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: 150}}).SetUpdate(bson.D{{Key: "$inc", Value: bson.D{{Key: "views", Value: 1}}}})
	}
	profile(t, db, 2, 100)
	_, err := db.Collection("pages").BulkWrite(ctx, many)
	testkit.OK(t, err)
	profile(t, db, 0, 100)
	report := look(t, mongotest.Admin(t, db), unhurried(nil))
	if got := named(report); !slices.Equal(got, []string{"approx:pages"}) || report.Findings[0].Facts[1].Value <= 100 {
		t.Errorf("advised %v, %v; %v", got, report.Findings, about(report, "pages"))
	}
	var text strings.Builder
	testkit.OK(t, report.Text(&text))
	if want := "queries, system.profile: 4,000, the newest of 4,1"; !strings.Contains(text.String(), want) {
		t.Errorf("%s, want %s", text.String(), want)
	}
}

// A shape of $queryStats has names, and no values: it says which fields a read needs.
func TestQueryStatsShape(t *testing.T) {
	raw, err := bson.Marshal(bson.D{
		{Key: "shape", Value: bson.D{
			{Key: "cmdNs", Value: bson.D{{Key: "db", Value: "shop"}, {Key: "coll", Value: "films"}}},
			{Key: "command", Value: "find"},
			{Key: "filter", Value: bson.D{{Key: "year", Value: bson.D{{Key: "$eq", Value: "?number"}}}}},
			{Key: "projection", Value: bson.D{{Key: "title", Value: true}, {Key: "_id", Value: true}}},
		}},
		{Key: "calls", Value: int64(70)},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, ok := advise.ShapeQuery(raw)
	if !ok || q.Collection != "films" || q.Database != "shop" || q.Calls != 70 {
		t.Fatalf("%+v", q)
	}
	for path, want := range map[string]bool{"title": true, "year": true, "plot": false} {
		if got := advise.Needs(q, path); got != want {
			t.Errorf("needs %s: %v", path, got)
		}
	}
}

// What a read needs of a document.
func TestNeeds(t *testing.T) {
	for _, test := range []struct {
		command string
		needs   string // of a, b, c, d
	}{
		{`{"find": "x"}`, "abcd"},
		{`{"find": "x", "projection": {"a": 1}}`, "a"},
		{`{"find": "x", "projection": {"a.x": 1}, "filter": {"b": 1}, "sort": {"c": 1}}`, "abc"},
		{`{"find": "x", "projection": {"a": 0}}`, "bcd"},
		{`{"find": "x", "projection": {"a.x": 0}}`, "abcd"},
		{`{"find": "x", "projection": {"_id": 1}}`, ""},
		{`{"find": "x", "projection": {"_id": 0}}`, "abcd"},
		{`{"find": "x", "projection": {"n": "$b"}}`, "b"},
		{`{"find": "x", "projection": {"a": 1}, "filter": {"$or": [{"b": 1}, {"$and": [{"c.d": 2}]}]}}`, "abc"},
		{`{"find": "x", "projection": {"a": 1}, "filter": {"$expr": {"$gt": ["$b", {"$literal": "$c"}]}}}`, "ab"},
		{`{"find": "x", "projection": {"a": 1}, "filter": {"$where": "this.b"}}`, "abcd"},
		{`{"find": "x", "projection": {"a": {"$slice": 5}}}`, "abcd"},
		{`{"find": "x", "projection": {"a": {"$slice": 5}, "b": 1}}`, "ab"},
		{`{"find": "x", "projection": {"top": {"$slice": ["$a", 5]}, "b": 1}}`, "ab"},
		{`{"find": "x", "projection": {"top": {"$slice": [{"$filter": {"input": "$a", "cond": "$$this.c"}}, 5]}, "b": 1}}`, "ab"},
		{`{"find": "x", "projection": {"whole": "$$ROOT"}}`, "abcd"},
		{`{"aggregate": "x", "pipeline": [{"$project": {"b": 1, "top": {"$slice": ["$a", 10]}}}]}`, "ab"},
		{`{"count": "x", "query": {"a": 1}}`, "a"},
		{`{"distinct": "x", "key": "a", "query": {"b": 1}}`, "ab"},
		{`{"findAndModify": "x", "query": {"a": 1}, "update": {"$set": {"b": 1}}}`, "abcd"},
		{`{"findAndModify": "x", "query": {"a": 1}, "fields": {"b": 1}, "update": {"$set": {"c": 1}}}`, "ab"},
		{`{"aggregate": "x", "pipeline": []}`, "abcd"},
		{`{"aggregate": "x", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}]}`, "ab"},
		{`{"aggregate": "x", "pipeline": [{"$group": {"_id": "$b", "d": {"$push": "$$ROOT"}}}]}`, "abcd"},
		{`{"aggregate": "x", "pipeline": [{"$project": {"a": "$b"}}, {"$match": {"c": 1}}]}`, "ab"},
		{`{"aggregate": "x", "pipeline": [{"$project": {"a": 0}}, {"$unset": ["b"]}]}`, "cd"},
		{`{"aggregate": "x", "pipeline": [{"$match": {"a": 1}}, {"$count": "n"}]}`, "a"},
		{`{"aggregate": "x", "pipeline": [{"$lookup": {"from": "y", "localField": "a", "foreignField": "_id", "as": "z"}}, {"$project": {"z": 1}}]}`, "a"},
		{`{"aggregate": "x", "pipeline": [{"$facet": {"n": [{"$count": "n"}]}}]}`, "abcd"},
		{`{"aggregate": "x", "pipeline": [{"$sortByCount": "$c"}]}`, "c"},
	} {
		var command bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(test.command), false, &command); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, path := range []string{"a", "b", "c", "d"} {
			if advise.Needs(advise.Query{Collection: "x", Command: command}, path) {
				got += path
			}
		}
		if got != test.needs {
			t.Errorf("%s needs %q, want %q", test.command, got, test.needs)
		}
	}
}

// Which reads want a part of a list, and how much of it.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		command string
		part    bool
		n       int64
	}{
		{`{"find": "x"}`, false, 0},
		{`{"find": "x", "projection": {"a": {"$slice": 5}}}`, true, 5},
		{`{"find": "x", "projection": {"a": {"$slice": -7}}}`, true, 7},
		{`{"find": "x", "projection": {"a": {"$slice": [0, 7]}}}`, true, 7},
		{`{"find": "x", "projection": {"a": {"$slice": [20, 10]}}}`, true, 0},
		{`{"find": "x", "projection": {"a": {"$slice": "?number"}}}`, true, 0},
		{`{"find": "x", "projection": {"top": {"$slice": ["$a", 20, 10]}}}`, true, 0},
		{`{"find": "x", "projection": {"top": {"$slice": [{"$filter": {"input": "$a", "cond": "$$this.c"}}, 5]}}}`, false, 0},
		{`{"find": "x", "projection": {"top": {"$slice": ["$a", 3]}}}`, true, 3},
		{`{"find": "x", "projection": {"b": {"$slice": 5}}}`, false, 0},
		{`{"aggregate": "x", "pipeline": [{"$set": {"a": {"$slice": ["$a", 4]}}}]}`, true, 4},
		{`{"aggregate": "x", "pipeline": [{"$match": {"_id": 1}}, {"$unwind": "$a"}, {"$sort": {"a.at": -1}}, {"$limit": 6}]}`, true, 6},
		{`{"aggregate": "x", "pipeline": [{"$match": {"_id": {"$eq": 1}}}, {"$unwind": {"path": "$a"}}, {"$limit": 6}]}`, true, 6},
		// The best of all documents, and the best of some elements, are not in each parent.
		{`{"aggregate": "x", "pipeline": [{"$unwind": "$a"}, {"$sort": {"a.at": -1}}, {"$limit": 6}]}`, false, 0},
		{`{"aggregate": "x", "pipeline": [{"$match": {"_id": {"$in": [1, 2]}}}, {"$unwind": "$a"}, {"$sort": {"a.at": -1}}, {"$limit": 6}]}`, false, 0},
		{`{"aggregate": "x", "pipeline": [{"$match": {"_id": 1}}, {"$unwind": "$a"}, {"$match": {"a.ok": true}}, {"$sort": {"a.at": -1}}, {"$limit": 6}]}`, false, 0},
	} {
		var command bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(test.command), false, &command); err != nil {
			t.Fatal(err)
		}
		if part, n := advise.Part(advise.Query{Collection: "x", Command: command}, "a"); part != test.part || n != test.n {
			t.Errorf("%s: %v, %d, want %v, %d", test.command, part, n, test.part, test.n)
		}
	}
}
