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
	for i := range 100 {
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
	// Joins need the documents of the collection that they read.
	join := func(project bson.D) bson.D {
		return bson.D{{Key: "aggregate", Value: "orders"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$lookup", Value: bson.D{{Key: "from", Value: "products"},
			{Key: "localField", Value: "product"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "of"}}}}, bson.D{{Key: "$project", Value: project}}}}}
	}
	lists := query(t, 200, bson.D{{Key: "find", Value: "products"}, {Key: "projection", Value: list}})
	for field, advised := range map[string]bool{"of.title": true, "of.reviews": false, "of": false} {
		report := look(t, db, unhurried([]advise.Query{lists, query(t, 100, join(bson.D{{Key: field, Value: 1}}))}))
		if slices.Contains(named(report), "split:products") != advised {
			t.Errorf("joins for %s: advised %v; %v", field, named(report), about(report, "products"))
		}
	}
	report := look(t, db, unhurried([]advise.Query{lists}))
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
		if lost := advise.Lost(query(t, 1, command), documents(before), documents(after), test.unordered); lost != test.lost {
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
	check("from the front", []advise.Query{slice(60, 5)}, "")
	for _, f := range look(t, db, unhurried([]advise.Query{slice(60, 5)})).Findings {
		if f.Pattern == "subset" && (!strings.Contains(f.Code, `{Key: "_id", Value: 1}`) || strings.Contains(f.Code, "BestLast")) {
			t.Error(f.Code)
		}
	}
	testkit.OK(t, testkit.ErrorOf(db.Collection("products").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "reviews.3._id", Value: 1}}}})))
	check("not in the order of _id", []advise.Query{slice(60, -5)}, "which in 1 document is not the order of an _id")
	testkit.OK(t, testkit.ErrorOf(db.Collection("products").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "reviews.$[]._id", Value: ""}}}})))
	check("from the end, without an _id", []advise.Query{slice(60, -5)}, "")
	check("from the front, without an _id", []advise.Query{slice(60, 5)}, "is not the order of an _id of theirs")
	sorted := query(t, 50, bson.D{{Key: "update", Value: "products"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}},
		{Key: "u", Value: bson.D{{Key: "$push", Value: bson.D{{Key: "reviews", Value: bson.D{{Key: "$each", Value: bson.A{bson.D{{Key: "stars", Value: 1}}}}, {Key: "$sort", Value: bson.D{{Key: "stars", Value: -1}}}}}}}}}}}}})
	check("from before the writes kept the order", []advise.Query{slice(60, 5), sorted}, "which in 100 documents is not the order by stars that the writes sort them in")
	reorder := func(filter bson.D) {
		order := bson.D{{Key: "$sortArray", Value: bson.D{{Key: "input", Value: "$reviews"}, {Key: "sortBy", Value: bson.D{{Key: "stars", Value: -1}}}}}}
		testkit.OK(t, testkit.ErrorOf(db.Collection("products").UpdateMany(t.Context(), filter, bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "reviews", Value: order}}}}})))
	}
	reorder(bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: 7}}}})
	check("but for one document", []advise.Query{slice(60, 5), sorted}, "which in 1 document is not the order by stars")
	reorder(bson.D{})
	check("from the front, in the order of the writes", []advise.Query{slice(60, 5), sorted}, "")
	for _, f := range look(t, db, unhurried([]advise.Query{slice(60, 5), sorted})).Findings {
		if want := `bson.D{{Key: "stars", Value: -1}, {Key: "_id", Value: 1}}`; f.Pattern == "subset" && !strings.Contains(f.Code, want) {
			t.Error(f.Code)
		}
	}
	check("in no order of some writes", []advise.Query{slice(60, 5), sorted, push(5)}, "is not the order of an _id of theirs")
}

// Documents whose _id others refer to stay documents, however they are read.
func TestSeriesLeavesWhatOthersName(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name    string
		id      func(i int) any
		payment func(id any) bson.D // of an order
		queries []advise.Query
		advised bool
	}{
		{"nobody", func(int) any { return bson.NewObjectID() }, func(any) bson.D { return bson.D{{Key: "order", Value: bson.NewObjectID()}} }, nil, true},
		{"a field", func(int) any { return bson.NewObjectID() }, func(id any) bson.D { return bson.D{{Key: "for", Value: id}} }, nil, false},
		{"a field of a subdocument", func(i int) any { return fmt.Sprint("o", i) }, func(id any) bson.D { return bson.D{{Key: "for", Value: bson.D{{Key: "order", Value: id}}}} }, nil, false},
		{"a list", func(int) any { return bson.NewObjectID() }, func(id any) bson.D { return bson.D{{Key: "orders", Value: bson.A{id}}} }, nil, false},
		{"a field in a list of documents", func(int) any { return bson.NewObjectID() }, func(id any) bson.D {
			return bson.D{{Key: "lines", Value: bson.A{bson.D{{Key: "sum", Value: 7}, {Key: "for", Value: id}}}}}
		}, nil, false},
		{"numbers in a list of documents", func(i int) any { return i }, func(any) bson.D { return bson.D{{Key: "lines", Value: bson.A{bson.D{{Key: "sum", Value: 7}}}}} }, nil, true},
		{"a number", func(i int) any { return i }, func(id any) bson.D { return bson.D{{Key: "order_id", Value: id}} }, nil, false},
		{"a few", func(int) any { return bson.NewObjectID() }, func(id any) bson.D { return bson.D{{Key: "for", Value: id}} }, nil, false},
		{"another number", func(i int) any { return i }, func(any) bson.D { return bson.D{{Key: "stars", Value: 3}} }, nil, true},
		{"a join", func(i int) any { return i }, func(id any) bson.D { return bson.D{{Key: "for", Value: id}} }, []advise.Query{query(t, 1, bson.D{{Key: "aggregate", Value: "payments"},
			{Key: "pipeline", Value: bson.A{bson.D{{Key: "$lookup", Value: bson.D{{Key: "from", Value: "orders"}, {Key: "localField", Value: "for"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "order"}}}}}}})}, false},
	} {
		db := mongotest.Database(t)
		var orders, payments []any
		for i := range 200 {
			id := test.id(i)
			orders = append(orders, bson.D{{Key: "_id", Value: id}, {Key: "customer", Value: fmt.Sprint("c", i%2)}, {Key: "date", Value: begin.Add(time.Duration(i) * time.Minute)},
				{Key: "total", Value: i * 7}, {Key: "state", Value: "paid"}})
			if i%2 == 0 && (test.name != "a few" || i < 40) {
				payments = append(payments, test.payment(id))
			}
		}
		insert(t, db.Collection("orders"), orders)
		insert(t, db.Collection("payments"), payments)
		queries := append(test.queries, query(t, 30, bson.D{{Key: "find", Value: "orders"}, {Key: "filter", Value: bson.D{{Key: "customer", Value: "c1"},
			{Key: "date", Value: bson.D{{Key: "$gte", Value: begin}, {Key: "$lt", Value: begin.Add(time.Hour)}}}}}}))
		if report := look(t, db, unhurried(queries)); slices.Equal(named(report), []string{"series:orders"}) != test.advised {
			t.Errorf("%s: advised %v; %v", test.name, named(report), about(report, "orders"))
		}
	}
}

// Each detector weighs the writes that its pattern makes more expensive against the reads that it serves.
func TestWritesAreWeighed(t *testing.T) {
	t.Parallel()
	for kind, reason := range map[string]string{
		"outlier: few very long lists":                      "500 writes change elements inside the list or take them out",
		"subset: pages show the newest":                     "it is written more often (500)",
		"split: lists leave texts out":                      "are written more often (500)",
		"tree: subtrees are read":                           "500 moves were seen",
		"extref: names of sources that change now and then": "but 500 writes set the reference",
		"relation: embedded children that are read alone":   "the list is written more often (500)",
		"attribute: many indexed fields of a subdocument":   "9000 writes to the fields were seen",
		"series: measurements read by range":                "500 updates and deletes of single documents were seen",
		"bucket: events read by range":                      "500 updates and deletes of single documents were seen",
		"computed: totals of a product":                     "501 writes would each compute it again",
		"approx: views of one page":                         "other updates change it by other steps",
	} {
		pattern, _, _ := strings.Cut(kind, ":")
		db := mongotest.Database(t)
		n := 200
		if pattern == "series" || pattern == "bucket" {
			n = 300 // of up to three series, a hundred of each
		}
		c := generate(rand.New(rand.NewPCG(7, 7)), kindOf(t, kind), n, "things")
		queries := store(t, db, []labelled{c})
		fields := c.docs[len(c.docs)-1].(bson.D)
		path, calls := fields[len(fields)-1].Key, int64(500)
		if pattern == "split" {
			path = fields[4].Key
		}
		update := bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: 7}}}}
		switch pattern {
		case "outlier":
			update = bson.D{{Key: "$set", Value: bson.D{{Key: path + ".$", Value: "x"}}}}
		case "computed":
			update = bson.D{{Key: "$set", Value: bson.D{{Key: fields[4].Key, Value: "x"}}}}
		case "attribute":
			calls = 9000
		}
		write := query(t, calls, bson.D{{Key: "update", Value: "things"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: update}}}}})
		for _, written := range []bool{false, true} {
			if written {
				queries = append(queries, write)
			}
			report := look(t, db, unhurried(queries))
			if slices.Contains(named(report), pattern+":things") == written || written && !strings.Contains(strings.Join(about(report, "things"), "; "), reason) {
				t.Errorf("%s, written %v: advised %v; %v", kind, written, named(report), about(report, "things"))
			}
		}
	}
}

// A join that was seen is asked about, unless it writes.
func TestSeenJoinsDoNotWrite(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	all := []labelled{generate(rand.New(rand.NewPCG(3, 3)), kindOf(t, "extref: names of sources that change now and then"), 300, "things")}
	queries := store(t, db, all)
	var join bson.D
	for _, q := range queries {
		if pipeline, ok := q.Command.Lookup("pipeline").ArrayOK(); ok {
			var stages bson.A
			testkit.OK(t, bson.UnmarshalValue(bson.TypeArray, pipeline, &stages))
			join = bson.D{{Key: "aggregate", Value: "things"}, {Key: "pipeline", Value: append(stages, bson.D{{Key: "$out", Value: "written"}})}}
		}
	}
	cut := bson.D{{Key: "aggregate", Value: "things"}, {Key: "pipeline", Value: append(join[1].Value.(bson.A)[:2:2], bson.D{{Key: "$project", Value: bson.D{{Key: "joined.name", Value: "$truncated.."}}}})}}
	queries = append(queries, query(t, 7, join), query(t, 1, cut))
	var report *advise.Report
	for _, c := range mongotest.Record(t, db, func() { report = look(t, db, unhurried(queries)) }) {
		if strings.Contains(c.Body.String(), "$out") {
			t.Errorf("sent %s", c.Body)
		}
	}
	if !slices.Equal(named(report), []string{"extref:things"}) || report.Findings[0].Saving.Unit != "documents" {
		t.Errorf("advised %v, %v", report.Findings, about(report, "things"))
	}
}

// The index that the code makes begins with the field that the filter of each page fixes, and has no array.
func TestPagesOfATenant(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	var docs []any
	for i := range 3000 {
		docs = append(docs, bson.D{{Key: "tenant", Value: i % 2}, {Key: "kind", Value: i % 3}, {Key: "at", Value: i},
			{Key: "tags", Value: bson.A{"a"}}, {Key: "lines", Value: bson.A{bson.D{{Key: "sku", Value: 1}}}}})
	}
	insert(t, db.Collection("activities"), docs)
	page := func(filter bson.D, by string, skip int) advise.Query {
		return query(t, 30, bson.D{{Key: "find", Value: "activities"}, {Key: "filter", Value: filter}, {Key: "sort", Value: bson.D{{Key: by, Value: -1}}}, {Key: "skip", Value: skip}, {Key: "limit", Value: 20}})
	}
	kind := func(value any) bson.D {
		return bson.D{{Key: "tenant", Value: bson.D{{Key: "$eq", Value: 1}}}, {Key: "tags", Value: "a"}, {Key: "lines.sku", Value: 1}, {Key: "kind", Value: value}}
	}
	pages := []advise.Query{page(kind(1), "at", 1200), page(kind(bson.D{{Key: "$gt", Value: 0}}), "at", 1300)}
	report := said(t, db, pages, "paging:activities.at", "activities", "")
	if len(report.Findings) > 0 && !strings.Contains(report.Findings[0].Code, `&paging.Options{Equality: []string{"tenant", "tags"}}`) {
		t.Errorf("%s", report.Findings[0].Code)
	}
	said(t, db, []advise.Query{page(kind(1), "lines.sku", 1200)}, "", "activities", "some documents have an array there")
}
