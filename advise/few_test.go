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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// tried tries the findings that can be tried, and prints their code.
func tried(t *testing.T, db *mongo.Database, report *advise.Report) {
	t.Helper()
	prints(t, report.Findings)
	scratch := scratchOf(t, db)
	for _, f := range report.Findings {
		trial, err := advise.Try(t.Context(), db, scratch, report, f, nil)
		if errors.Is(err, mongopatterns.ErrInvalid) && strings.Contains(err.Error(), "cannot be tried") {
			continue
		}
		if err != nil || !trial.Kept() {
			t.Errorf("%s: %s, %v", f.Name(), printedTrial(t, trial), err)
		}
	}
}

// scratchOf is a database for trials, which leave it empty. It needs no client of its own.
func scratchOf(t *testing.T, db *mongo.Database) *mongo.Database {
	t.Helper()
	return mongotest.Admin(t, db).Client().Database(db.Name() + "_try")
}

// loops are finds for values of answers, some for each.
func loops(t *testing.T, from advise.Origin, answers, each int64, find string) []advise.Query {
	t.Helper()
	from.First = true
	first := sends(t, answers, find)[0]
	first.From = from
	more := first
	more.Calls, more.From.First = answers*(each-1), false
	return []advise.Query{first, more}
}

// raises are lines of a log, each an update that raises a field, all in one second.
func raises(t *testing.T, db *mongo.Database, coll, filter, update string) []advise.Query {
	t.Helper()
	line := fmt.Sprintf(`{"t": {"$date": %q}, "id": 51803, "ctx": "conn7", "attr": {"type": "update", "ns": %q, "command": {"q": %s, "u": %s}}}`+"\n",
		time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339Nano), db.Name()+"."+coll, filter, update)
	return testkit.Value[[]advise.Query](t)(advise.Log(strings.NewReader(strings.Repeat(line, 150))))
}

// A collection with few documents may be the other side of a reference, and have a counter or long lists. Two of them have
// nothing to save.
func TestFewDocuments(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 60)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	match := make([]bson.ObjectID, 3000)
	for i := range match {
		match[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("halls"), times(60, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "visits", Value: 0}}
	}))
	insert(t, db.Collection("shows"), times(900, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "hall", Value: ids[i%60]}, {Key: "day", Value: i % 50}, {Key: "seats", Value: i % 9}}
	}))
	insert(t, db.Collection("doors"), times(80, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "hall", Value: ids[i%60]}} }))
	insert(t, db.Collection("cups"), times(30, func(i int) bson.D {
		var list bson.A
		for _, id := range match[100*i : 100*i+100] {
			list = append(list, id, bson.NewObjectID())
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "games", Value: list}}
	}))
	one := fmt.Sprintf(`{"$oid": %q}`, ids[3].Hex())
	hall := advise.Origin{Collection: "halls", Path: "_id"}
	join := sends(t, 100, `{"aggregate": "shows", "pipeline": [{"$match": {"day": 7}}, {"$lookup": {"from": "halls", "localField": "hall", "foreignField": "_id", "as": "h"}}, {"$project": {"h.name": 1}}]}`)
	sum := sends(t, 200, `{"aggregate": "shows", "pipeline": [{"$match": {"hall": `+one+`}}, {"$group": {"_id": "$hall", "sum": {"$sum": "$seats"}}}]}`, `{"find": "halls", "filter": {"_id": `+one+`}}`)
	for _, test := range []struct {
		queries []advise.Query
		finding string
	}{
		{loops(t, hall, 20, 5, `{"find": "shows", "filter": {"hall": `+one+`}}`), "relation:shows.hall"},
		{append(loops(t, hall, 20, 5, `{"find": "shows", "filter": {"hall": `+one+`}}`), sends(t, 20, `{"find": "halls"}`)...), "relation:shows.hall"},
		{join, "extref:shows.hall"},
		{append(sum, sends(t, 3, `{"insert": "shows", "documents": [{"seats": 3}]}`)...), "computed:shows.hall"},
		{raises(t, db, "halls", `{"_id": `+one+`}`, `{"$inc": {"visits": 1}}`), "approx:halls.visits"},
	} {
		tried(t, db, said(t, db, test.queries, test.finding, "shows", ""))
	}
	said(t, db, loops(t, hall, 20, 5, `{"find": "doors", "filter": {"hall": `+one+`}}`), "", "doors", "doors has 80 documents, fewer than 100")

	// Few documents may have long lists, and reads take the newest elements.
	insert(t, db.Collection("yards"), times(40, func(i int) bson.D {
		moves, few := bson.A{}, bson.A{}
		for n := range 60 {
			moves = append(moves, bson.D{{Key: "day", Value: time.Date(2026, 1, 300-n, 0, 0, 0, 0, time.UTC)}, {Key: "text", Value: strings.Repeat("x", 60)}})
		}
		for n := range 20 {
			few = append(few, bson.D{{Key: "day", Value: n}})
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "moves", Value: moves}, {Key: "few", Value: few}}
	}))
	newest := func(list string) []advise.Query {
		return sends(t, 100, `{"find": "yards", "filter": {"_id": 7}, "projection": {"`+list+`": {"$slice": 10}}}`)
	}
	front := sends(t, 7, `{"update": "yards", "updates": [{"q": {"_id": 7}, "u": {"$push": {"moves": {"$each": [{"day": 1}], "$position": 0}}}}]}`)
	tried(t, db, said(t, db, append(newest("moves"), front...), "subset:yards.moves", "yards", ""))
	said(t, db, newest("few"), "", "yards", "the list takes 6.1 % of the bytes")
	testkit.OK(t, testkit.ErrorOf(db.Collection("yards").DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 19}}}})))
	if report := look(t, db, unhurried(newest("moves"))); len(report.Findings) > 0 {
		t.Errorf("19 documents: advised %v", named(report))
	}

	// Lists of references that grow: other documents than the lists name stay where they are.
	push := sends(t, 60, `{"update": "cups", "updates": [{"q": {"_id": 7}, "u": {"$push": {"games": 3}}}]}`)
	said(t, db, push, "", "cups", "the elements are no _ids of another collection")
	game := func(i int) string { return fmt.Sprintf("%060d", i) } // so that 40 take over 2 KiB
	insert(t, db.Collection("games"), times(1200, func(i int) bson.D { return bson.D{{Key: "_id", Value: game(i)}} }))
	testkit.OK(t, testkit.ErrorOf(db.Collection("cups").DeleteMany(t.Context(), bson.D{})))
	insert(t, db.Collection("cups"), times(30, func(i int) bson.D {
		list := bson.A{}
		for n := range 40 {
			list = append(list, game(40*i+n))
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "games", Value: list}}
	}))
	tried(t, db, said(t, db, push, "relation:cups.games", "cups", ""))
	insert(t, db.Collection("scores"), times(1200, func(i int) bson.D { return bson.D{{Key: "_id", Value: game(i)}} })) // each look names the first of the two
	for range 16 {
		if code := said(t, db, push, "relation:cups.games", "cups", "").Findings[0].Code; !strings.Contains(code, `"games"`) || strings.Contains(code, `"scores"`) {
			t.Errorf("the children are those of another collection:\n%s", code)
		}
	}
}

// Totals have their place in the documents of a small collection as well, even if no query names it, and the field that names
// these may be inside a subdocument, and an inflected form of the collection's name.
func TestTotalsOfSmallCollections(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("konten"), times(8, func(i int) bson.D { return bson.D{{Key: "_id", Value: fmt.Sprint("K", i)}} }))
	insert(t, db.Collection("entries"), times(400, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "konto", Value: fmt.Sprint("K", i%8)}, {Key: "state", Value: fmt.Sprint("K", i%8)},
			{Key: "of", Value: bson.D{{Key: "konto", Value: fmt.Sprint("K", i%8)}}}, {Key: "sum", Value: i}}
	}))
	for field, finding := range map[string]string{"konto": "computed:entries.konto", "of.konto": "computed:entries.of.konto", "state": ""} {
		queries := sends(t, 100, `{"aggregate": "entries", "pipeline": [{"$match": {"`+field+`": "K3"}}, {"$group": {"_id": null, "total": {"$sum": "$sum"}}}]}`)
		note := ""
		if finding == "" {
			note = "no collection has the values as its _id"
		}
		tried(t, db, said(t, db, append(queries, sends(t, 2, `{"insert": "entries", "documents": [{"sum": 3}]}`)...), finding, "entries", note))
	}

	// A log that has quick writes has all: the entries have none then.
	line := func(kind, coll, command string, took int) string {
		return fmt.Sprintf(`{"t": {"$date": "2026-03-01T00:00:00Z"}, "id": 51803, "attr": {"type": %q, "ns": %q, "command": %s, "durationMillis": %d}}`+"\n", kind, db.Name()+"."+coll, command, took)
	}
	sums := strings.Repeat(line("command", "entries", `{"aggregate": "entries", "pipeline": [{"$match": {"konto": "K3"}}, {"$group": {"_id": null, "total": {"$sum": "$sum"}}}]}`, 5), 60)
	for took, finding := range []string{"computed:entries.konto", ""} {
		log := sums + line("update", "konten", `{"q": {"_id": "K3"}, "u": {"$set": {"name": "x"}}}`, took)
		note := ""
		if finding == "" {
			note = "no write was seen"
		}
		said(t, db, testkit.Value[[]advise.Query](t)(advise.Log(strings.NewReader(log))), finding, "entries", note)
	}
}

// An update may find its counter by another field, if that is of one document alone.
func TestCountersByAnotherField(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("links"), times(200, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "code", Value: fmt.Sprint("c", i)}, {Key: "shop", Value: i % 9}, {Key: "clicks", Value: i}}
	}))
	report := said(t, db, raises(t, db, "links", `{"code": "c7"}`, `{"$inc": {"clicks": 1}}`), "approx:links.clicks", "links", "")
	tried(t, db, report)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Code, `KeyField:   "code"`) || !strings.Contains(report.Findings[0].Code, "approx.New[string]") {
		t.Errorf("%v", report.Findings)
	}
	said(t, db, raises(t, db, "links", `{"shop": 7}`, `{"$inc": {"clicks": 1}}`), "", "links", "several have one value of it")
	said(t, db, raises(t, db, "links", `{"code": "c7", "shop": 7}`, `{"$inc": {"clicks": 1}}`), "", "links", "by one field alone")
	said(t, db, raises(t, db, "links", `{"code": "c7"}`, `{"$inc": {"clicks": 1, "all": 1}}`), "", "links", "beside no other change")
}

// A findAndModify raises a counter if its answer is not asked for, and others show the number. A date may name the document.
func TestCountersThatAnswer(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("days"), times(200, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "day", Value: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)}, {Key: "views", Value: i}}
	}))
	raise := func(more string) []advise.Query {
		line := fmt.Sprintf(`{"t": {"$date": "2026-03-01T00:00:00Z"}, "id": 51803, "ctx": "conn7", "attr": {"type": "command", "ns": %q, "command": {"findAndModify": "days", "query": {"_id": 7}, "update": {"$inc": {"views": 1}}%s}}}`+"\n", db.Name()+".days", more)
		return testkit.Value[[]advise.Query](t)(advise.Log(strings.NewReader(strings.Repeat(line, 150))))
	}
	shown := sends(t, 20, `{"find": "days", "filter": {"_id": 7}, "projection": {"views": 1}}`)
	for _, test := range []struct {
		queries       []advise.Query
		finding, note string
	}{
		{raises(t, db, "days", `{"day": {"$date": "2026-01-07T00:00:00Z"}}`, `{"$inc": {"views": 1}}`), "approx:days.views", ""},
		{append(raise(""), shown...), "approx:days.views", ""},
		{append(raise(`, "new": false`), shown...), "approx:days.views", ""},
		{raise(""), "", "whose answer may be handed out"},
		{append(raise(""), sends(t, 20, `{"find": "days", "projection": {"day": 1}}`)...), "", "whose answer may be handed out"},
		{append(raise(`, "new": true`), shown...), "", "by one field alone"},
		{append(raise(`, "fields": {"views": 1}`), shown...), "", "by one field alone"},
	} {
		tried(t, db, said(t, db, test.queries, test.finding, "days", test.note))
	}
}

// A list counts distinct values if $addToSet adds to it and only its length is read. Short lists are exact as they are.
func TestDistinctValues(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("days"), times(20, func(i int) bson.D {
		long := bson.A{}
		for n := range 3000 {
			long = append(long, int64(1_000_000*i+n))
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "riders", Value: long}, {Key: "few", Value: long[:900]}}
	}))
	size := func(project string) []advise.Query {
		return sends(t, 20, `{"aggregate": "days", "pipeline": [{"$match": {"_id": 7}}, {"$project": `+project+`}]}`)
	}
	add := func(list string) []advise.Query {
		return sends(t, 90, `{"update": "days", "updates": [{"q": {"_id": 7}, "u": {"$addToSet": {"`+list+`": 3}}, "upsert": true}]}`)
	}
	for _, test := range []struct {
		queries       []advise.Query
		finding, note string
	}{
		{append(add("riders"), size(`{"n": {"$size": "$riders"}}`)...), "approx:days.riders", ""},
		{append(add("riders"), size(`{"n": {"$size": {"$ifNull": ["$riders", []]}}}`)...), "approx:days.riders", ""},
		{append(add("few"), size(`{"n": {"$size": "$few"}}`)...), "", "on average, and is exact"},
		{slices.Concat(add("riders"), size(`{"n": {"$size": "$riders"}}`), sends(t, 1, `{"find": "days", "filter": {"riders": 3}}`)), "", "1 read for more of it"},
		{slices.Concat(add("riders"), size(`{"n": {"$size": "$riders"}}`), sends(t, 1, `{"find": "days", "filter": {"_id": 3}}`)), "", "1 read for more of it"},
		{slices.Concat(add("riders"), size(`{"n": {"$size": "$riders"}}`), sends(t, 1, `{"update": "days", "updates": [{"q": {"_id": 7}, "u": {"$pull": {"riders": 3}}}]}`)), "", "other updates change it"},
	} {
		tried(t, db, said(t, db, test.queries, test.finding, "days", test.note))
	}
}

// Elements that are looked for by a field of theirs, and come alone, are documents of their own. Where the whole document
// comes they are what it is found by.
func TestElementsByAnotherField(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("halls"), times(24, func(i int) bson.D {
		var pallets bson.A
		for j := range 25 {
			pallets = append(pallets, bson.D{{Key: "_id", Value: i*25 + j}, {Key: "code", Value: fmt.Sprint("p", i*25+j)}, {Key: "row", Value: j % 9}, {Key: "text", Value: strings.Repeat("x", 60)}})
		}
		return bson.D{{Key: "_id", Value: fmt.Sprint("hall", i)}, {Key: "pallets", Value: pallets}}
	}))
	for _, test := range []struct{ command, finding, reason string }{
		{`{"find": "halls", "filter": {"pallets.code": "p7"}, "projection": {"pallets.$": 1}}`, "relation:halls.pallets", ""},
		{`{"find": "halls", "filter": {"pallets.code": "p7"}, "projection": {"pallets": {"$elemMatch": {"code": "p7"}}}}`, "relation:halls.pallets", ""},
		{`{"aggregate": "halls", "pipeline": [{"$match": {"pallets.code": "p7"}}, {"$unwind": "$pallets"}, {"$match": {"pallets.code": "p7"}}, {"$replaceRoot": {"newRoot": "$pallets"}}]}`, "relation:halls.pallets", ""},
		{`{"aggregate": "halls", "pipeline": [{"$match": {"pallets.code": "p7"}}, {"$project": {"one": {"$filter": {"input": "$pallets", "cond": {"$eq": ["$$this.code", "p7"]}}}}}]}`, "relation:halls.pallets", ""},
		{`{"find": "halls", "filter": {"pallets.row": 7}, "projection": {"pallets.$": 1}}`, "", "look for elements by row, which has 9 values in 600 elements"},
	} {
		tried(t, db, said(t, db, sends(t, 100, test.command), test.finding, "halls", test.reason))
	}
	if report := look(t, db, unhurried(sends(t, 100, `{"find": "halls", "filter": {"pallets.code": "p7"}}`))); len(report.Findings) > 0 {
		t.Errorf("advised %v", named(report))
	}
}

// What reads take of a list, as it is stored, is kept in the order of a date or number of the elements, if all lists are in it.
func TestListsInTheOrderOfAField(t *testing.T) {
	printing(t)
	t.Parallel()
	day := func(i int) time.Time { return time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		name, read, finding, want string // of the code, or the reason
		job                       func(i, j int) bson.D
	}{
		{"newest first", `{"$slice": 5}`, "subset:stables.jobs", `{Key: "day", Value: -1}`, func(_, j int) bson.D { return bson.D{{Key: "id", Value: j * 7 % 11}, {Key: "day", Value: day(-j)}} }},
		{"newest last", `{"$slice": -5}`, "subset:stables.jobs", `{Key: "day", Value: -1}`, func(i, j int) bson.D { return bson.D{{Key: "_id", Value: 1000*i - j}, {Key: "day", Value: day(j)}} }},
		{"by number", `{"$slice": 5}`, "subset:stables.jobs", `{Key: "n", Value: 1}`, func(i, j int) bson.D { return bson.D{{Key: "_id", Value: 1000*i + j*7%23}, {Key: "n", Value: j}} }},
		{"equal days", `{"$slice": 5}`, "", "no date or number of theirs gives it", func(i, j int) bson.D {
			return bson.D{{Key: "_id", Value: 1000*i + j*7%23}, {Key: "day", Value: day(j / 2)}}
		}},
		{"sorted, with equal ones", `{"$slice": [{"$sortArray": {"input": "$jobs", "sortBy": {"stars": -1}}}, 3]}`, "subset:stables.jobs", `{Key: "stars", Value: -1}`, func(i, j int) bson.D {
			return bson.D{{Key: "_id", Value: 1000*i + j}, {Key: "stars", Value: j * j % 7}}
		}},
		{"sorted, with equal ones, from the end", `{"$slice": [{"$sortArray": {"input": "$jobs", "sortBy": {"stars": 1}}}, -3]}`, "subset:stables.jobs", `{Key: "stars", Value: -1}`, func(i, j int) bson.D {
			return bson.D{{Key: "_id", Value: 1000*i + j}, {Key: "stars", Value: j * j % 7}}
		}},
		{"sorted", `{"$slice": [{"$sortArray": {"input": "$jobs", "sortBy": {"stars": -1}}}, 3]}`, "subset:stables.jobs", `{Key: "stars", Value: -1}`, func(i, j int) bson.D {
			return bson.D{{Key: "_id", Value: 1000*i + j}, {Key: "stars", Value: j * 7 % 23}}
		}},
		{"sorted, from the end", `{"$slice": [{"$sortArray": {"input": "$jobs", "sortBy": {"stars": 1}}}, -3]}`, "subset:stables.jobs", `{Key: "stars", Value: -1}`, func(i, j int) bson.D {
			return bson.D{{Key: "_id", Value: 1000*i + j}, {Key: "stars", Value: j * 7 % 23}}
		}},
		{"the same _ids in each document", `{"$slice": 5}`, "", "several documents have the same _id", func(i, j int) bson.D { return bson.D{{Key: "_id", Value: j}} }},
	} {
		db := mongotest.Database(t)
		insert(t, db.Collection("stables"), times(30, func(i int) bson.D {
			var jobs bson.A
			for j := range 20 {
				jobs = append(jobs, append(test.job(i, j), bson.E{Key: "text", Value: strings.Repeat("x", 100)}))
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "jobs", Value: jobs}}
		}))
		report := said(t, db, sends(t, 100, `{"aggregate": "stables", "pipeline": [{"$match": {"_id": 7}}, {"$project": {"jobs": `+strings.Replace(test.read, `": 5`, `": ["$jobs", 5]`, 1)+`}}]}`), test.finding, "stables", test.want)
		if strings.Contains(test.read, "-5") {
			report = said(t, db, sends(t, 100, `{"find": "stables", "projection": {"jobs": {"$slice": -5}}}`), test.finding, "stables", "")
		}
		tried(t, db, report)
		for _, f := range report.Findings {
			if !strings.Contains(f.Code, test.want) || strings.Contains(f.Code, "BestLast") != strings.Contains(test.read, "-5") {
				t.Errorf("%s: %s", test.name, f.Code)
			}
		}
	}
}

// A join by another key than _id is one that extref takes, if no two sources share the key.
func TestJoinsByAnotherKey(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("orders"), times(400, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: fmt.Sprint("c", i%200)}, {Key: "shop", Value: i % 7}, {Key: "year", Value: i % 9}}
	}))
	insert(t, db.Collection("customers"), times(200, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "no", Value: fmt.Sprint("c", i)}, {Key: "shop", Value: i % 7}, {Key: "name", Value: fmt.Sprint("n", i)}}
	}))
	_, err := db.Collection("customers").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "no", Value: 1}}})
	testkit.OK(t, err)
	join := func(local, foreign string) []advise.Query {
		return sends(t, 100, fmt.Sprintf(`{"aggregate": "orders", "pipeline": [{"$match": {"year": 7}}, {"$lookup": {"from": "customers", "localField": %q, "foreignField": %q, "as": "of"}}, {"$project": {"of.name": 1}}]}`, local, foreign))
	}
	report := said(t, db, join("customer", "no"), "extref:orders.customer", "orders", "")
	tried(t, db, report)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Code, `&extref.Options{KeyField: "no"}`) || !strings.Contains(report.Findings[0].Code, "extref.New[string") ||
		!strings.Contains(strings.Join(report.Findings[0].Against, " "), "Drop the index no_1 of customers first") {
		t.Errorf("%v", report.Findings)
	}
	said(t, db, join("shop", "shop"), "", "orders", "reads join customers by shop, which several of its documents share")
}

// A reference in each document of a list is one for extref as well, whether the list is unwound, joined as it is, or asked for
// one by one. Elements that have copies are left alone, and so are lists of references.
func TestJoinsOfElements(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("orders"), times(400, func(i int) bson.D {
		lines, sent, parts := bson.A{}, bson.A{}, bson.A{}
		for n := range i%4 + 1 {
			article := (i + 7*n) % 60
			lines = append(lines, bson.D{{Key: "article", Value: article}, {Key: "n", Value: n}, {Key: "of", Value: bson.D{{Key: "_id", Value: article}}}})
			sent = append(sent, bson.D{{Key: "article", Value: article}, {Key: "article_name", Value: "x"}})
			parts = append(parts, article)
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "day", Value: i / 10}, {Key: "lines", Value: lines}, {Key: "sent", Value: sent}, {Key: "parts", Value: parts},
			{Key: "boxes", Value: bson.A{bson.D{{Key: "parts", Value: bson.A{bson.D{{Key: "article", Value: i % 60}}}}}}}}
	}))
	insert(t, db.Collection("articles"), times(60, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "text", Value: "x"}}
	}))
	join := func(before, local, after string) []advise.Query {
		return sends(t, 100, fmt.Sprintf(`{"aggregate": "orders", "pipeline": [{"$match": {"day": 7}}, %s{"$lookup": {"from": "articles", "localField": %q, "foreignField": "_id", "as": "a"}}, %s{"$project": {"day": 1, "a.name": 1}}]}`, before, local, after))
	}
	from := advise.Origin{Collection: "orders", Path: "lines.article", List: true}
	for _, test := range []struct {
		queries       []advise.Query
		finding, note string
		code          string
	}{
		{join("", "lines.article", ""), "extref:orders.lines.article", "", `IDField:      "article",`},
		{join(`{"$unwind": "$lines"}, `, "lines.article", `{"$unwind": "$a"}, `), "extref:orders.lines.article", "", `VersionField: "article_version",`},
		{join("", "lines.of._id", ""), "extref:orders.lines.of._id", "", `As: "of.name"`},
		{loops(t, from, 30, 3, `{"find": "articles", "filter": {"_id": 7}, "projection": {"name": 1}}`), "extref:orders.lines.article", "", `"lines"`},
		{join("", "sent.article", ""), "", "elements have the copies already: sent.article_name", ""},
		{join("", "parts", ""), "", "the reference must have one value", ""},
		{join("", "boxes.parts.article", ""), "", "some elements have an array on the way to it", ""},
	} {
		if !scale.Third(test.code + test.note) {
			continue
		}
		report := said(t, db, test.queries, test.finding, "orders", test.note)
		tried(t, db, report)
		for _, f := range report.Findings {
			if !strings.Contains(f.Code, test.code) || !strings.Contains(f.Code, "Array:") || !strings.Contains(f.Adopt, `Adopt(ctx, "orders.lines", nil)`) {
				t.Errorf("%s\n%s", f.Code, f.Adopt)
			}
		}
	}
}

// References that deletes left behind are what relation finds, in a field or a list, unless most lead nowhere.
func TestReferencesThatDangle(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("tasks"), times(400, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "day", Value: i / 10}, {Key: "who", Value: i % 110}, {Key: "team", Value: bson.A{i % 110, (i + 1) % 110}}, {Key: "was", Value: i % 300}}
	}))
	insert(t, db.Collection("people"), times(100, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "x"}} }))
	gone := sends(t, 3, `{"delete": "people", "deletes": [{"q": {"_id": 300}, "limit": 1}]}`)
	for field, finding := range map[string]string{"who": "relation:tasks.who", "team": "relation:tasks.team", "was": ""} {
		join := sends(t, 60, `{"aggregate": "tasks", "pipeline": [{"$match": {"day": 7}}, {"$lookup": {"from": "people", "localField": "`+field+`", "foreignField": "_id", "as": "p"}}, {"$project": {"p.name": 1}}]}`)
		note := ""
		if finding == "" {
			note = "name no document of people"
		}
		tried(t, db, said(t, db, append(join, gone...), finding, "tasks", note))
		if report := look(t, db, unhurried(join)); len(report.Findings) > 0 {
			t.Errorf("%s, without deletes: advised %v", field, named(report))
		}
	}
}

// Finds that ask by $in for what a field of the answer before them names join it, as populate does.
func TestFindsForAllOfAnAnswer(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 90)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("slots"), times(500, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "day", Value: i / 10}, {Key: "host", Value: ids[i%90]}}
	}))
	insert(t, db.Collection("hosts"), times(90, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "notes", Value: "x"}}
	}))
	populate := func(projection, field string) []advise.Query {
		return advise.Commands(mongotest.Record(t, db, func() {
			for i := range 60 {
				var slots []bson.M
				cursor := testkit.Value[*mongo.Cursor](t)(db.Collection("slots").Find(t.Context(), bson.D{{Key: "day", Value: i % 50}}))
				testkit.OK(t, cursor.All(t.Context(), &slots))
				var list bson.A
				for _, slot := range slots {
					list = append(list, slot[field])
				}
				find := append(document(t, `{"find": "hosts"}`), bson.E{Key: "filter", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: list}}}}}, bson.E{Key: "projection", Value: document(t, projection)})
				testkit.OK(t, db.RunCommand(t.Context(), find).Err())
			}
		}))
	}
	said(t, db, populate(`{"name": 1}`, "host"), "extref:slots.host", "slots", "")
	said(t, db, populate(`{"notes": 0}`, "host"), "", "slots", "hand on all of it")
	if report := look(t, db, unhurried(populate(`{"name": 1}`, "_id"))); len(report.Findings) > 0 {
		t.Errorf("advised %v", named(report))
	}
}

// A log has no answers, so Look asks the database whether they had what the finds by $in ask for.
func TestFindsForAllOfAnAnswerInALog(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	ids := make([]bson.ObjectID, 90)
	for i := range ids {
		ids[i] = bson.NewObjectID()
	}
	insert(t, db.Collection("slots"), times(500, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "day", Value: i / 10}, {Key: "host", Value: ids[i%90]}, {Key: "room", Value: i % 90}}
	}))
	insert(t, db.Collection("hosts"), times(90, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: ids[i]}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "notes", Value: "x"}}
	}))
	insert(t, db.Collection("plans"), times(90, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: "x"}} }))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	asks := func(coll string, value func(day, n int) any) []advise.Query {
		var log strings.Builder
		line := func(coll string, command bson.D) {
			at = at.Add(10 * time.Millisecond)
			fmt.Fprintf(&log, `{"t": {"$date": %q}, "id": 51803, "ctx": "conn%d", "attr": {"type": "command", "ns": %q, "nreturned": 10, "command": %s}}`+"\n",
				at.Format(time.RFC3339Nano), at.Nanosecond()/10_000_000%7, db.Name()+"."+coll, testkit.Value[[]byte](t)(bson.MarshalExtJSON(command, false, false)))
		}
		for i := range 60 {
			day := i % 50
			var list bson.A
			for n := range 10 {
				list = append(list, value(day, n))
			}
			line("slots", bson.D{{Key: "find", Value: "slots"}, {Key: "filter", Value: bson.D{{Key: "day", Value: day}}}})
			line(coll, bson.D{{Key: "find", Value: coll}, {Key: "filter", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: list}}}}}, {Key: "projection", Value: bson.D{{Key: "name", Value: 1}}}})
		}
		return testkit.Value[[]advise.Query](t)(advise.Log(strings.NewReader(log.String())))
	}
	host := func(day, n int) any { return ids[(10*day+n)%90] }
	said(t, db, asks("hosts", host), "extref:slots.host", "slots", "")
	for _, test := range []struct {
		coll  string
		value func(day, n int) any
	}{
		{"hosts", func(day, n int) any { return ids[(10*day+n+45)%90] }}, // those of another day
		{"plans", func(day, n int) any { return (10*day + n) % 90 }},     // small integers stand everywhere
	} {
		if report := look(t, db, unhurried(asks(test.coll, test.value))); len(report.Findings) > 0 {
			t.Errorf("%s: advised %v", test.coll, named(report))
		}
	}
}

// A join of the first children in an order is one of a list that the parent may keep, if few writes come to many reads, and most
// children are left out.
func TestJoinsOfTheNewest(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	insert(t, db.Collection("rooms"), times(10, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "house", Value: i % 10}} }))
	insert(t, db.Collection("notes"), times(500, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "room", Value: i % 10}, {Key: "other", Value: i % 15}, {Key: "sent", Value: i}, {Key: "text", Value: "x"}}
	}))
	join := func(n int64, field, pipeline string) []advise.Query {
		return sends(t, n, `{"aggregate": "rooms", "pipeline": [{"$match": {"house": 7}}, {"$lookup": {"from": "notes", "localField": "_id", "foreignField": "`+field+`", "pipeline": [`+pipeline+`], "as": "newest"}}]}`)
	}
	write := func(n int64) []advise.Query { return sends(t, n, `{"insert": "notes", "documents": [{"sent": 3}]}`) }
	const three = `{"$sort": {"sent": -1}}, {"$limit": 3}`
	for _, test := range []struct {
		queries       []advise.Query
		finding, note string
	}{
		{append(join(100, "room", three), write(4)...), "subset:rooms.newest", ""},
		{append(join(100, "room", three+`, {"$project": {"text": 1}}`), write(4)...), "subset:rooms.newest", ""},
		{append(sends(t, 100, `{"aggregate": "rooms", "pipeline": [{"$lookup": {"from": "notes", "let": {"r": "$_id"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$room", "$$r"]}}}, `+three+`], "as": "newest"}}]}`), write(4)...), "subset:rooms.newest", ""},
		{append(join(20, "room", three), write(4)...), "", "20 reads join the first of notes"},
		{append(join(100, "room", three), write(40)...), "", "which are written 40 times"},
		{append(join(100, "room", `{"$sort": {"sent": -1}}, {"$limit": 30}`), write(4)...), "", "reads take up to 30 child documents of 50"},
		{append(join(100, "other", three), write(4)...), "", "of the references name no document of rooms"},
		{slices.Concat(join(100, "room", three), write(4), sends(t, 120, `{"find": "rooms"}`)), "", "100 of 220 reads join the first"},
		{join(100, "room", three), "", "no write was seen"},
	} {
		tried(t, db, said(t, db, test.queries, test.finding, "rooms", test.note))
	}
	for _, pipeline := range []string{`{"$match": {"text": "x"}}, ` + three, `{"$limit": 3}`, three + `, {"$skip": 1}`} {
		if report := look(t, db, unhurried(append(join(100, "room", pipeline), write(4)...))); len(report.Findings) > 0 {
			t.Errorf("%s: advised %v", pipeline, named(report))
		}
	}
}
