package advise_test

import (
	"errors"
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

// document reads a document in JSON.
func document(t *testing.T, text string) (d bson.D) {
	t.Helper()
	testkit.OK(t, bson.UnmarshalExtJSON([]byte(text), false, &d))
	return d
}

// sends are queries, each a command in JSON.
func sends(t *testing.T, calls int64, commands ...string) (out []advise.Query) {
	t.Helper()
	for _, command := range commands {
		out = append(out, query(t, calls, document(t, command)))
	}
	return out
}

// said checks that a finding, or a note with a reason, is there. It returns the report.
func said(t *testing.T, db *mongo.Database, queries []advise.Query, finding, place, reason string) *advise.Report {
	t.Helper()
	report := look(t, db, unhurried(queries))
	found := slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Name() == finding })
	noted := slices.ContainsFunc(about(report, place), func(note string) bool { return strings.Contains(note, reason) })
	if finding != "" && !found || finding == "" && (len(report.Findings) > 0 || !noted) {
		t.Errorf("%s %q: advised %v; %q", finding, reason, named(report), about(report, place))
	}
	return report
}

// printedTrial is a trial in words.
func printedTrial(t *testing.T, trial *advise.Trial) string {
	t.Helper()
	if trial == nil {
		return "none"
	}
	var text strings.Builder
	testkit.OK(t, trial.Text(&text))
	return text.String()
}

// times repeats what depends on a number.
func times(n int, make func(i int) bson.D) (out []any) {
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

// Totals are found of expressions and of several values; reports say why they are none.
func TestTotalsOfAllKinds(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 20)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("products"), times(len(ids), func(i int) bson.D { return bson.D{{Key: "_id", Value: ids[i]}} }))
	insert(t, db.Collection("sales"), times(400, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "product", Value: ids[i%20]}, {Key: "price", Value: i % 7}, {Key: "amount", Value: i % 3}, {Key: "shop", Value: i % 9}}
	}))
	write := sends(t, 1, `{"insert": "sales", "documents": [{"price": 3}]}`)[0]
	one, several := fmt.Sprintf(`{"$oid": %q}`, ids[3].Hex()), fmt.Sprintf(`{"$in": [{"$oid": %q}, {"$oid": %q}]}`, ids[3].Hex(), ids[4].Hex())
	report := func(match, group string) (*advise.Report, string) {
		sum := sends(t, 200, `{"aggregate": "sales", "pipeline": [`+match+`{"$group": {"_id": `+group+`, "sum": {"$sum": {"$multiply": ["$price", "$amount"]}}}}]}`)[0]
		r := look(t, db, unhurried([]advise.Query{sum, write}))
		return r, strings.Join(about(r, "sales"), "; ")
	}
	for _, match := range []string{one, several} {
		r, notes := report(`{"$match": {"product": `+match+`}}, `, `"$product"`)
		if !slices.Equal(named(r), []string{"computed:sales"}) || !strings.Contains(r.Findings[0].Code, `{Key: "$multiply", Value: bson.A{"$price", "$amount"}}`) {
			t.Fatalf("%s: advised %v; %s", match, r.Findings, notes)
		}
		if match == several {
			prints(t, r.Findings)
		}
		trial, err := advise.Try(t.Context(), db, mongotest.Database(t), r, r.Findings[0], nil)
		if err != nil || !trial.Kept() || trial.Saved == 0 || len(trial.Replays) != 1 {
			t.Errorf("%s: %s, %v", match, printedTrial(t, trial), err)
		}
	}
	// A read adds up 20 documents, and so does a write, in a transaction.
	for writes, advised := range map[int64]bool{12: true, 60: false} {
		write.Calls = writes
		if r, notes := report(`{"$match": {"product": `+one+`}}, `, `"$product"`); slices.Equal(named(r), []string{"computed:sales"}) != advised {
			t.Errorf("%d writes: advised %v; %s", writes, named(r), notes)
		}
	}
	write = sends(t, 1, `{"insert": "others", "documents": [{"x": 3}]}`)[0]
	if r, notes := report(`{"$match": {"product": `+one+`}}, `, `"$product"`); !slices.Equal(named(r), []string{"computed:sales"}) {
		t.Errorf("writes of another collection: advised %v; %s", named(r), notes)
	}
	write = sends(t, 1, `{"find": "others"}`)[0]
	if r, notes := report(`{"$match": {"product": `+one+`}}, `, `"$product"`); len(r.Findings) > 0 || !strings.Contains(notes, "no write was seen") {
		t.Errorf("no writes: advised %v; %s", named(r), notes)
	}
	write = sends(t, 1, `{"insert": "sales", "documents": [{"price": 3}]}`)[0]
	for _, test := range [][3]string{
		{`{"$match": {"product": ` + one + `}}, `, `{"p": "$product", "s": "$shop"}`, "by several fields at once"},
		{``, `"$shop"`, "no collection has the values as its _id"},
		{``, `null`, "of the whole collection, which is a report"},
		{`{"$match": {"product": ` + one + `, "shop": 3}}, `, `"$product"`, "of what a filter by several fields selects"},
		{`{"$match": {"product": ` + one + `}}, `, `"$shop"`, "by another field than that of the filter"},
	} {
		if r, notes := report(test[0], test[1]); len(r.Findings) > 0 || !strings.Contains(notes, test[2]) {
			t.Errorf("%s, by %s: advised %v; %s", test[0], test[1], named(r), notes)
		}
	}
}

// Totals are found where a filter fixes other fields, always to the same values, where a $group has all of them, and where a
// $lookup is for sums alone.
func TestTotalsInOtherReads(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("teams"), times(5, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "x"}} }))
	insert(t, db.Collection("results"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "team", Value: i % 5}, {Key: "points", Value: i % 7}, {Key: "state", Value: []string{"ok", "no"}[i/5%2]}}
	}))
	seen := append(sends(t, 3, `{"insert": "results", "documents": [{"points": 3}]}`), sends(t, 9, `{"find": "teams", "filter": {"_id": 3}}`)...)
	each := func(command string, teams ...int) []advise.Query {
		out := slices.Clone(seen)
		for _, team := range teams {
			out = append(out, sends(t, 30, strings.ReplaceAll(command, "TEAM", fmt.Sprint(team)))...)
		}
		return out
	}
	const sum, one = `{"$group": {"_id": null, "sum": {"$sum": "$points"}, "n": {"$sum": 1}}}`, `{"$group": {"_id": "$team", "sum": {"$sum": "$points"}}}`
	joined := func(project string) string {
		return `{"aggregate": "teams", "pipeline": [{"$match": {"_id": TEAM}}, {"$lookup": {"from": "results", "localField": "_id", "foreignField": "team", "as": "r"}}, {"$project": ` + project + `}]}`
	}
	for _, test := range []struct{ command, code, reason string }{
		{`{"aggregate": "results", "pipeline": [{"$match": {"team": TEAM, "state": "ok"}}, ` + sum + `]}`, `{{Key: "$match", Value: bson.D{{Key: "state", Value: "ok"}}}}`, ""},
		{`{"aggregate": "results", "pipeline": [{"$match": {"state": "ok", "team": TEAM}}, ` + one + `]}`, `{{Key: "$match", Value: bson.D{{Key: "state", Value: "ok"}}}}`, ""},
		{`{"aggregate": "results", "pipeline": [{"$match": {"team": TEAM, "points": TEAM}}, ` + sum + `]}`, "", "of what a filter by several fields selects"},
		{`{"aggregate": "results", "pipeline": [{"$match": {"team": TEAM, "state": "ok"}}, {"$group": {"_id": "$state", "sum": {"$sum": "$points"}}}]}`, "", "of what a filter by several fields selects"},
		{`{"aggregate": "results", "pipeline": [` + one + `, {"$sort": {"sum": -1}}]}`, `KeyField: "team"`, ""},
		{joined(`{"name": 1, "sum": {"$sum": "$r.points"}, "best": {"$max": "$r.points"}, "n": {"$size": "$r"}}`), `{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}`, ""},
		{strings.Replace(joined(`{"n": {"$size": "$r"}}`), `{"_id": TEAM}}`, `{"name": "x"}}, {"$limit": 7}`, 1), `{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}`, ""},
		{joined(`{"name": 1, "sum": {"$sum": "$r.points"}, "r": 1}`), "", ""},
		{joined(`{"name": 1, "sum": {"$sum": "$r.points"}, "first": {"$first": "$r"}}`), "", ""},
	} {
		finding := "computed:results.team"
		if test.code == "" {
			finding = ""
		}
		report := look(t, db, unhurried(each(test.command, 3, 4)))
		if all := named(report); finding != "" && len(all) != 1 {
			t.Errorf("%s: advised %v", test.command, all)
		}
		found := slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Name() == finding && strings.Contains(f.Code, test.code) })
		if notes := strings.Join(about(report, "results"), "; "); found != (finding != "") || !strings.Contains(notes, test.reason) {
			t.Errorf("%s: advised %v; %s", test.command, report.Findings, notes)
		}
		tried(t, db, report)
	}
	_, err := db.Collection("results").InsertOne(t.Context(), bson.D{{Key: "points", Value: 7}})
	testkit.OK(t, err)
	said(t, db, each(`{"aggregate": "results", "pipeline": [`+one+`]}`, 3, 4), "", "results", "the reads add up documents as well whose team names no document of teams")
}

// A tail of 6 % is a tail, a map is none, and a list inside a subdocument is said to be there.
func TestTailsOfAllKinds(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	list := func(n int) bson.A {
		return bson.A(times(n, func(i int) bson.D { return bson.D{{Key: "sku", Value: i}} }))
	}
	insert(t, db.Collection("fat"), times(300, func(i int) bson.D {
		n := 4
		if i%16 == 0 {
			n = 2000
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "items", Value: list(n)}}
	}))
	said(t, db, nil, "outlier:fat.items", "fat", "")
	insert(t, db.Collection("nested"), times(300, func(i int) bson.D {
		n := 4
		if i%60 == 0 {
			n = 2000
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "of", Value: bson.D{{Key: "items", Value: list(n)}}}}
	}))
	insert(t, db.Collection("maps"), times(300, func(i int) bson.D {
		all := bson.D{{Key: "k", Value: 1}}
		for j := range 12_000 {
			if i == 77 {
				all = append(all, bson.E{Key: fmt.Sprint("k", j), Value: 1})
			}
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "all", Value: all}}
	}))
	report := look(t, db, unhurried(nil))
	for place, want := range map[string]string{"nested": "nested.of.items, outlier: the list is inside a subdocument; the package takes lists at the top",
		"maps": "maps.all, outlier: a document has a map of 1000 keys or more there, and the package takes lists alone, of {k, v} for example"} {
		if !slices.Contains(about(report, place), want) {
			t.Errorf("%s: %q", place, about(report, place))
		}
	}
}

// Deep pages are found in pipelines, in a $facet and behind a filter.
func TestPagesOfAllKinds(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("things"), times(1060, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "year", Value: i * 7919 % 1061}, {Key: "kind", Value: i % 3}, {Key: "maker", Value: i % 50}}
	}))
	aggregate := func(stages string) string { return `{"aggregate": "things", "pipeline": [` + stages + `]}` }
	const far, finding = `{"$skip": 1020}, {"$limit": 20}`, "paging:things.year"
	for _, test := range []struct{ command, finding, reason string }{
		{aggregate(`{"$sort": {"year": 1}}, ` + far), finding, ""},
		{aggregate(`{"$sort": {"year": 1}}, {"$limit": 1040}, {"$skip": 1020}`), finding, ""},
		{aggregate(`{"$lookup": {"from": "makers", "localField": "maker", "foreignField": "_id", "as": "of"}}, {"$sort": {"year": 1}}, ` + far), finding, ""},
		{aggregate(`{"$sort": {"year": 1}}, {"$facet": {"docs": [` + far + `], "count": [{"$count": "count"}]}}`), finding, ""},
		{aggregate(`{"$facet": {"count": [{"$count": "count"}], "docs": [{"$sort": {"year": 1}}, ` + far + `]}}`), finding, ""},
		{aggregate(`{"$set": {"year": {"$add": ["$year", 1]}}}, {"$sort": {"year": 1}}, ` + far), "", "the pipeline makes the fields"},
		{`{"find": "things", "filter": {"kind": 1}, "sort": {"year": 1}, "skip": 101, "limit": 20}`, finding, ""},
		{`{"find": "things", "filter": {"kind": 1}, "sort": {"year": 1}, "skip": 100, "limit": 20}`, "", "0 of 20 pages skip more"},
		{`{"find": "things", "skip": 1020, "limit": 1}`, "", "these are no pages, and $sample gives one by chance"},
		{`{"find": "things", "sort": {"year": 1}, "skip": 1020, "limit": 1}`, finding, ""},
		{`{"find": "things", "filter": {"maker": 1}, "sort": {"year": 1}, "skip": 101, "limit": 20}`, "", "behind the filter the server examines 1,060 for the deepest"},
	} {
		report := said(t, db, sends(t, 20, test.command), test.finding, "things", test.reason)
		shape := slices.ContainsFunc(report.Shapes, func(s advise.Shape) bool { return s.Kind == "skip" && s.Advised() == (test.finding != "") })
		if !shape {
			t.Errorf("%s: %v", test.command, report.Shapes)
		}
		if test.finding == "" {
			continue
		}
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
		if err != nil || !trial.Kept() || trial.Saved == 0 {
			t.Errorf("%s: %s, %v", test.command, printedTrial(t, trial), err)
		}
	}
}

// A join by let and one equality is one by a field.
func TestJoinsOfAllKinds(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("orders"), times(200, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: i % 100}, {Key: "year", Value: i % 9}}
	}))
	insert(t, db.Collection("customers"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "notes", Value: "x"}}
	}))
	join := func(match string) string {
		return `{"aggregate": "orders", "pipeline": [{"$match": {"year": 7}}, {"$lookup": {"from": "customers", "let": {"c": "$customer"}, "pipeline": [{"$match": {"$expr": ` + match +
			`}}, {"$project": {"name": 1}}], "as": "of"}}]}`
	}
	for _, match := range []string{`{"$eq": ["$_id", "$$c"]}`, `{"$eq": ["$$c", "$_id"]}`} {
		report := said(t, db, sends(t, 100, join(match)), "extref:orders.customer", "orders", "")
		if len(report.Findings) == 0 {
			continue
		}
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
		if err != nil || !trial.Kept() || trial.Saved == 0 {
			t.Errorf("%s: %v, %v", match, printedTrial(t, trial), err)
		}
	}
	said(t, db, sends(t, 100, join(`{"$gt": ["$_id", "$$c"]}`)), "", "orders", "reads join customers by other conditions than one equality")

	// The one document of the list has a name of its own, or that of the list.
	named := func(name, projection string) []advise.Query {
		return sends(t, 100, `{"aggregate": "orders", "pipeline": [{"$match": {"year": 7}}, {"$lookup": {"from": "customers", "localField": "customer", "foreignField": "_id", "as": "of"}}, `+
			`{"$set": {"`+name+`": {"$first": "$of"}}}, {"$project": `+projection+`}]}`)
	}
	said(t, db, named("of", `{"of.name": 1}`), "extref:orders.customer", "orders", "")
	said(t, db, named("who", `{"who.name": 1}`), "extref:orders.customer", "orders", "")
	said(t, db, named("customer", `{"customer.name": 1}`), "extref:orders.customer", "orders", "")
	said(t, db, named("customer", `{"customer": 1}`), "", "orders", "hand on all of it")
	said(t, db, named("who", `{"who": 1}`), "", "orders", "hand on all of it, or name no field")

	// Each read joins 44 documents, each write changes 2 copies.
	writes := func(n int64) []advise.Query {
		return append(named("of", `{"of.name": 1}`), sends(t, n, `{"update": "customers", "updates": [{"q": {"_id": 7}, "u": {"$set": {"name": "x"}}}]}`)...)
	}
	said(t, db, writes(15), "extref:orders.customer", "orders", "")
	said(t, db, writes(50), "", "orders", "100 reads join customers, 2200 documents in all, but 50 writes to name would each change some 2 copies")

	// Shapes have no values, so nothing says how many documents they join.
	shape, err := bson.Marshal(bson.D{{Key: "calls", Value: int64(100)}, {Key: "shape", Value: bson.D{{Key: "cmdNs", Value: bson.D{{Key: "db", Value: db.Name()}, {Key: "coll", Value: "orders"}}},
		{Key: "command", Value: "aggregate"}, {Key: "pipeline", Value: document(t, `{"p": [{"$lookup": {"from": "customers", "localField": "customer", "foreignField": "_id", "as": "of"}}, {"$project": {"of.name": true}}]}`)[0].Value}}}})
	testkit.OK(t, err)
	known, _ := advise.ShapeQuery(shape)
	said(t, db, append(writes(30)[1:], known), "", "orders", "100 reads join customers, but 30 writes to name would each change some 2 copies")

	// What writes say needs no plan of the reads.
	cmds := mongotest.Record(t, db, func() {
		said(t, db, append(named("of", `{"of.name": 1}`), sends(t, 200, `{"update": "orders", "updates": [{"q": {"_id": 7}, "u": {"$set": {"customer": 8}}}]}`)...), "", "orders", "200 writes set the reference")
	})
	for _, c := range cmds {
		if c.Name == "explain" && c.Body.Lookup("verbosity").StringValue() == "executionStats" {
			t.Errorf("%s", c.Body)
		}
	}

	// Finds one by one, after fewer answers than that.
	one := sends(t, 40, `{"find": "customers", "filter": {"_id": 7}, "projection": {"name": 1}}`)[0]
	one.From = advise.Origin{Collection: "orders", Path: "customer", First: true}
	more := one
	more.Calls, more.From.First = 400, false
	report := said(t, db, append(sends(t, 40, `{"find": "orders", "filter": {"year": 7}}`), one, more), "extref:orders.customer", "orders", "")
	trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
	if err != nil || !trial.Kept() || len(trial.Replays) != 1 {
		t.Errorf("%v, %v", printedTrial(t, trial), err)
	}
}

// A way up a tree by finds is seen where the _ids are small integers as well, and no other reads of single documents.
func TestClimbsBySmallNumbers(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("folders"), times(300, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "stars", Value: i * 7 % 300}}
		if i > 0 {
			doc = append(doc, bson.E{Key: "up", Value: (i - 1) / 3})
		}
		return doc
	}))
	read := func(id int32) (doc struct{ Up *int32 }) {
		testkit.OK(t, db.Collection("folders").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc))
		return doc
	}
	climbs := mongotest.Record(t, db, func() {
		for i := range int32(20) {
			for up := read(200 + 5*i).Up; up != nil; up = read(*up).Up {
				continue
			}
		}
	})
	said(t, db, advise.Commands(climbs), "tree:folders.up", "folders", "")
	others := mongotest.Record(t, db, func() {
		for i := range int32(100) {
			read(i * 77 % 299)
		}
	})
	if shapes := look(t, db, unhurried(advise.Commands(others))).Shapes; len(shapes) > 0 {
		t.Errorf("single documents: %v", shapes)
	}
}

// A tree whose nodes list their children, however few, is found by finds for one after the other, or by $graphLookup. Lists
// that share children are a graph, which the package keeps without circles.
func TestTreesByLists(t *testing.T) {
	printing(t)
	t.Parallel()
	for _, test := range []struct {
		parts           func(i int) bson.A
		finding, reason string
	}{
		{func(i int) bson.A { return bson.A{3*i + 1, 3*i + 2, 3*i + 3} }, "tree:machines.parts", ""},
		{func(i int) bson.A { return bson.A{3*i + 1, 3*i + 2, 3*i + 5} }, "tree:machines.parts", ""},
		{func(i int) bson.A { return bson.A{3*i + 1, 3*i + 2, i / 2} }, "", "a graph, not a tree"},
		{func(i int) bson.A { return bson.A{(i - 1) / 2, (i - 1) / 3} }, "", "a graph, not a tree"},
		{func(i int) bson.A { return bson.A{3*i + 1, 3*i + 2, 9000 + i} }, "", "of the references name no document"},
	} {
		db := mongotest.Database(t)
		name := func(i int) string { return fmt.Sprint("part", i) }
		insert(t, db.Collection("machines"), times(100, func(i int) bson.D {
			parts := bson.A{}
			for _, part := range test.parts(i) {
				if n := part.(int); n < 100 || n >= 9000 {
					parts = append(parts, name(n))
				}
			}
			return bson.D{{Key: "_id", Value: name(i)}, {Key: "parts", Value: parts}}
		}))
		walks := mongotest.Record(t, db, func() {
			for i := range 12 {
				for open, seen := []string{name(3 + i)}, 0; len(open) > 0 && seen < 20; seen++ {
					var doc struct{ Parts []string }
					err := db.Collection("machines").FindOne(t.Context(), bson.D{{Key: "_id", Value: open[0]}}).Decode(&doc)
					if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
						t.Fatal(err)
					}
					open = append(open[1:], doc.Parts...)
				}
			}
		})
		report := said(t, db, advise.Commands(walks), test.finding, "machines", test.reason)
		tried(t, db, report)
		for _, s := range report.Shapes {
			if s.Kind == "loop" && s.Advised() != (test.finding != "") {
				t.Errorf("%v", s)
			}
		}
		climbs := said(t, db, sends(t, 20, `{"aggregate": "machines", "pipeline": [{"$match": {"_id": "part3"}}, {"$graphLookup": {"from": "machines", "startWith": "$parts", "connectFromField": "parts", "connectToField": "_id", "as": "all"}}]}`),
			test.finding, "machines", test.reason)
		tried(t, db, climbs)
	}
}

// A tree is found by finds for one level after the other; one by other fields than _id says so.
func TestTreesOfAllKinds(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("nodes"), times(400, func(i int) bson.D {
		d := bson.D{{Key: "_id", Value: i}, {Key: "code", Value: fmt.Sprint("c", i)}}
		if i > 0 {
			d = append(d, bson.E{Key: "parent", Value: (i - 1) / 3}, bson.E{Key: "up", Value: fmt.Sprint("c", (i-1)/3)})
		}
		return d
	}))
	insert(t, db.Collection("goods"), times(400, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "node", Value: i}} }))
	var levels []advise.Query
	for range 12 {
		levels = append(levels, sends(t, 1, `{"find": "nodes", "filter": {"parent": {"$in": [1, 2, 3]}}}`, `{"find": "nodes", "filter": {"parent": {"$in": [4, 5, 6, 7, 8, 9, 10, 11, 12]}}}`)...)
	}
	said(t, db, levels, "tree:nodes.parent", "nodes", "")
	climb := func(coll, start, from, to string) []advise.Query {
		return sends(t, 20, fmt.Sprintf(`{"aggregate": %q, "pipeline": [{"$graphLookup": {"from": "nodes", "startWith": %q, "connectFromField": %q, "connectToField": %q, "as": "all"}}]}`, coll, start, from, to))
	}
	said(t, db, climb("nodes", "$code", "code", "up"), "", "nodes", "goes from code to up, and the package's references are to _id")
	said(t, db, climb("goods", "$node", "parent", "_id"), "tree:nodes.parent", "nodes", "")
	var log strings.Builder // of walks that ask for the children of one node after the other
	line := func(command string) {
		fmt.Fprintf(&log, `{"t": {"$date": "2026-03-01T00:00:00Z"}, "id": 51803, "ctx": "conn7", "attr": {"type": "command", "ns": %q, "nreturned": 3, "command": %s}}`+"\n", db.Name()+".nodes", command)
	}
	for range 12 {
		line(`{"find": "nodes", "filter": {"code": {"$gt": "c7"}}}`)
		for _, parent := range []int{1, 4, 5, 6, 13, 14, 15} {
			line(fmt.Sprintf(`{"find": "nodes", "filter": {"parent": %d}}`, parent))
		}
	}
	said(t, db, testkit.Value[[]advise.Query](t)(advise.Log(strings.NewReader(log.String()))), "tree:nodes.parent", "nodes", "")
	others := sends(t, 1, `{"find": "nodes", "filter": {"parent": {"$in": [1, 2, 3]}}}`, `{"find": "nodes", "filter": {"parent": {"$in": [40, 50, 60]}}}`)
	if report := look(t, db, unhurried(slices.Repeat(others, 12))); len(report.Findings) > 0 {
		t.Errorf("lists of categories: advised %v", named(report))
	}
}

// Two fields may tell a series.
func TestSeriesOfAllKinds(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	two := sends(t, 30, `{"find": "readings", "filter": {"metric": "cpu", "host": "h1", "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}, "$lt": {"$date": "2026-01-01T05:00:00Z"}}}}`)
	var findings []advise.Finding
	for _, number := range []bool{true, false} {
		if err := db.Collection("readings").Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
		insert(t, db.Collection("readings"), times(300, func(i int) bson.D {
			value := any(i)
			if !number {
				value = "up"
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "host", Value: fmt.Sprint("h", i%2)}, {Key: "metric", Value: "cpu"}, {Key: "value", Value: value}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}}
		}))
		want := "bucket:readings.at"
		if number {
			want = "series:readings.at"
		}
		report := said(t, db, two, want, "readings", "")
		if len(report.Findings) == 0 {
			continue
		}
		findings = append(findings, report.Findings...)
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
		if err != nil || !trial.Kept() || len(trial.Replays) != 1 || !strings.Contains(report.Findings[0].Code, `SeriesField: "host_metric"`) {
			t.Errorf("%s, %v; %s", printedTrial(t, trial), err, report.Findings[0].Code)
		}
	}
	prints(t, findings)
	// What is changed by series and time now and then stays readable in a bucket.
	insert(t, db.Collection("corrected"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "host", Value: fmt.Sprint("h", i%2)}, {Key: "value", Value: i}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}}
	}))
	change := func(n int64, filter, update string) []advise.Query {
		return append(sends(t, 30, `{"find": "corrected", "filter": {"host": "h1", "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`),
			sends(t, n, `{"update": "corrected", "updates": [{"q": `+filter+`, "u": `+update+`}]}`)...)
	}
	const single = `{"host": "h1", "at": {"$date": "2026-01-01T00:01:00Z"}}`
	const value = `{"$set": {"value": 7}}`
	for _, update := range []string{value, `{"$set": {"value": 7}, "$setOnInsert": ` + single + `}`, strings.TrimSuffix(single, "}") + `, "value": 7}`} {
		said(t, db, change(10, single, update), "bucket:corrected.at", "corrected", "")
	}
	said(t, db, change(16, single, value), "", "corrected", "16 updates and deletes of single documents were seen, and 30 reads of a range")
	said(t, db, change(10, `{"_id": 7}`, value), "bucket:corrected.at", "corrected", "")
	said(t, db, change(1, `{"value": 7}`, value), "", "corrected", "updates or deletes of other documents")
	said(t, db, change(1, `{"_id": 7}`, strings.TrimSuffix(single, "}")+`, "value": 7}`), "", "corrected", "updates or deletes of other documents")
	removed := func(n int64, filter string, limit int) []advise.Query {
		return append(change(1, single, value)[:1], sends(t, n, fmt.Sprintf(`{"delete": "corrected", "deletes": [{"q": %s, "limit": %d}]}`, filter, limit))...)
	}
	said(t, db, removed(15, single, 1), "bucket:corrected.at", "corrected", "")
	said(t, db, removed(16, `{"_id": 7}`, 1), "", "corrected", "16 updates and deletes of single documents were seen")
	said(t, db, removed(1, single, 0), "", "corrected", "updates or deletes of other documents")
	said(t, db, removed(1, `{"value": 7}`, 1), "", "corrected", "updates or deletes of other documents")
	// Some of the reads of a range search it, which packed blocks cannot do.
	searched := func(all, some int64) []advise.Query {
		return append(sends(t, all, `{"find": "corrected", "filter": {"host": "h1", "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`),
			sends(t, some, `{"find": "corrected", "filter": {"host": "h1", "value": 8, "at": {"$gte": {"$date": "2026-01-01T00:00:00Z"}}}}`)...)
	}
	said(t, db, searched(30, 5), "series:corrected.at", "corrected", "")
	said(t, db, searched(30, 20), "bucket:corrected.at", "corrected", "")
	said(t, db, searched(20, 30), "", "corrected", "20 of 50 reads are a range of at for one host")
	for _, moves := range []string{`{"$set": {"at": {"$date": "2026-01-02T00:00:00Z"}}}`, `{"host": "h2", "at": {"$date": "2026-01-01T00:01:00Z"}, "value": 7}`, `[{"$set": {"value": 7}}]`} {
		said(t, db, change(1, single, moves), "", "corrected", "updates or deletes of other documents")
	}
}

// Fields are found where they are of several types, few of one name, or without an index, and else it is said why not.
func TestAttributesOfAllKinds(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	fields := func(format string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf(format, i))
		}
		return names
	}
	type goods struct {
		names   []string
		each    int // documents have every so many of them
		value   func(i int) any
		indexed []string // besides the field
	}
	number := func(i int) any { return i }
	mixed := func(i int) any { return []any{i, "x"}[i%2] }
	for name, g := range map[string]goods{
		"plain":    {fields("size%d", 16), 4, number, nil},
		"mixed":    {fields("size%d", 16), 4, mixed, []string{}},
		"releases": {fields("release_%d", 8), 4, func(i int) any { return time.Unix(int64(i), 0) }, []string{}},
		"address":  {fields("address_%d", 8), 0, func(int) any { return "x" }, []string{}},
		"compound": {fields("size%d", 16), 4, number, []string{"t"}},
	} {
		var models []mongo.IndexModel
		for _, field := range g.names {
			keys := bson.D{{Key: field, Value: 1}}
			for _, also := range g.indexed {
				keys = append(keys, bson.E{Key: also, Value: 1})
			}
			models = append(models, mongo.IndexModel{Keys: keys})
		}
		if g.indexed != nil {
			if _, err := db.Collection(name).Indexes().CreateMany(t.Context(), models); err != nil {
				t.Fatal(err)
			}
		}
		insert(t, db.Collection(name), times(200, func(i int) bson.D {
			doc := bson.D{{Key: "_id", Value: i}, {Key: "t", Value: i}}
			for j, field := range g.names {
				if g.each > 0 && (i+j)%g.each == 0 || g.each == 0 && i%4 == 0 {
					doc = append(doc, bson.E{Key: field, Value: g.value(j)})
				}
			}
			return doc
		}))
	}
	report := look(t, db, unhurried(nil))
	if got := named(report); !slices.Equal(got, []string{"attribute:mixed", "attribute:releases"}) {
		t.Fatalf("advised %v: %v", got, report.NotAdvised)
	}
	prints(t, report.Findings)
	for _, f := range report.Findings {
		if want := map[string]string{"mixed": "16 fields of several types (int and string)", "releases": "8 fields of one type (date)"}[f.Collection]; !strings.HasPrefix(f.Summary, want) {
			t.Errorf("%s: %s", f.Name(), f.Summary)
		}
		// An index has a key for each document, also for those without the field.
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, f, nil)
		if err != nil || f.Saving.Unit != "keys" || trial.Saved != trial.Finding.Saving.Low {
			t.Errorf("%s: %s, %v", f.Name(), printedTrial(t, trial), err)
		}
	}
	for place, want := range map[string]string{
		"plain":    "have no index, and no read that was seen filters by them",
		"address":  "documents with one of the 8 fields have 8.0 of them on average: they are parts of one thing",
		"compound": "are in indexes with others",
	} {
		if !slices.ContainsFunc(about(report, place), func(note string) bool { return strings.Contains(note, want) }) {
			t.Errorf("%s: %q", place, about(report, place))
		}
	}
	var reads []advise.Query
	for _, field := range fields("size%d", 16) {
		reads = append(reads, sends(t, 5, fmt.Sprintf(`{"find": "plain", "filter": {%q: 7}}`, field))...)
	}
	if report := look(t, db, unhurried(reads)); !slices.Contains(named(report), "attribute:plain") {
		t.Errorf("advised %v; %q", named(report), about(report, "plain"))
	}
}

// What a list of outlier continues in stays where it is.
func TestOverflowIsNotEmbedded(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("books"), times(150, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "buyers", Value: bson.A{i}}, {Key: "buyers_moved", Value: bson.NewObjectID()}}
	}))
	insert(t, db.Collection("more"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "parent", Value: i % 150}, {Key: "n", Value: i}, {Key: "buyers", Value: bson.A{i}}}
	}))
	said(t, db, sends(t, 60, `{"aggregate": "books", "pipeline": [{"$lookup": {"from": "more", "localField": "_id", "foreignField": "parent", "as": "all"}}]}`), "", "books", "is in another pattern already")
}

// Lines that are always read with their order belong into it, unless something else needs them.
func TestChildrenReadWithTheirParent(t *testing.T) {
	printing(t)
	t.Parallel()
	join := sends(t, 60, `{"aggregate": "orders", "pipeline": [{"$match": {"year": 7}}, {"$lookup": {"from": "lines", "localField": "_id", "foreignField": "order", "as": "all"}}]}`)[0]
	for _, test := range []struct {
		each          int // lines of the first order
		others        []advise.Query
		finding, want string
	}{
		{4, nil, "relation:orders.lines", ""},
		{4, sends(t, 40, `{"find": "lines", "filter": {"product": 3}}`), "", "60 of 100 reads ask for all of one parent"},
		{4, sends(t, 90, `{"find": "orders", "filter": {"year": 3}}`), "", "60 of 150 reads join them"},
		{4, sends(t, 90, `{"update": "lines", "updates": [{"q": {"_id": 7}, "u": {"$set": {"sent": true}}}]}`), "", "they are written more often by themselves (90)"},
		{101, nil, "", "they may grow without a bound"},
	} {
		db := mongotest.Database(t)
		ids := make([]bson.ObjectID, 100)
		for i := range ids {
			ids[i] = bson.NewObjectID()
		}
		insert(t, db.Collection("orders"), times(len(ids), func(i int) bson.D { return bson.D{{Key: "_id", Value: ids[i]}, {Key: "year", Value: i % 9}} }))
		insert(t, db.Collection("lines"), times(test.each+200, func(i int) bson.D {
			return bson.D{{Key: "_id", Value: i}, {Key: "order", Value: ids[max(i-test.each+1, 0)%len(ids)]}, {Key: "product", Value: i % 9}, {Key: "amount", Value: i}}
		}))
		report := said(t, db, append(test.others, join), test.finding, "orders", test.want)
		if test.finding == "" || len(report.Findings) == 0 {
			continue
		}
		prints(t, report.Findings)
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, report.Findings[0], nil)
		if err != nil || !trial.Kept() || trial.Saved == 0 || len(trial.Replays) != 1 {
			t.Errorf("%s, %v", printedTrial(t, trial), err)
		}
	}
}
