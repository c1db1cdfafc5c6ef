package advise_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Mappers write the same questions in other words.
func TestQueriesOfMappers(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	insert(t, db.Collection("readings"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "sensor", Value: i % 3}, {Key: "at", Value: begin.Add(time.Duration(i) * time.Minute)}, {Key: "v", Value: i}}
	}))
	insert(t, db.Collection("shops"), times(15, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "notes", Value: "x"}}
	}))
	insert(t, db.Collection("orders"), times(300, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "shop", Value: i % 15}, {Key: "state", Value: []string{"paid", "sent", "lost"}[i/15%3]}, {Key: "at", Value: begin}, {Key: "sum", Value: i}}
	}))
	insert(t, db.Collection("hits"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "page", Value: i}, {Key: "day", Value: 1}}}, {Key: "n", Value: i}}
	}))
	insert(t, db.Collection("films"), times(100, func(i int) bson.D {
		list := bson.A{}
		for n := range 40 {
			list = append(list, bson.D{{Key: "_id", Value: n}, {Key: "stars", Value: n}, {Key: "text", Value: "a text that takes some bytes of the film, as reviews do"}})
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "slug", Value: fmt.Sprint("f", i)}, {Key: "year", Value: i % 9}, {Key: "list", Value: list}}
	}))
	const from, to = `{"$date": "2026-01-01T01:00:00Z"}`, `{"$date": "2026-01-01T02:00:00Z"}`
	readings := func(filter string, others ...string) []advise.Query {
		return append(sends(t, 30, `{"find": "readings", "filter": `+filter+`}`), sends(t, 2, others...)...)
	}
	one := `{"sensor": 1, "at": {"$gte": ` + from + `}}`
	remove := func(filter string) string {
		return `{"delete": "readings", "deletes": [{"q": ` + filter + `, "limit": 0}]}`
	}
	sums := func(commands ...string) []advise.Query {
		return append(sends(t, 2, `{"insert": "orders", "documents": [{"sum": 3}]}`), sends(t, 60, commands...)...)
	}
	match := func(filter string) string {
		return `{"aggregate": "orders", "pipeline": [{"$match": ` + filter + `}, {"$group": {"_id": 1, "sum": {"$sum": "$sum"}}}]}`
	}
	joined := func(after string) []advise.Query {
		return sends(t, 60, `{"aggregate": "orders", "pipeline": [{"$match": {"sum": 7}}, {"$lookup": {"from": "shops", "localField": "shop", "foreignField": "_id", "as": "s"}}, {"$unwind": "$s"}, `+after+`]}`)
	}
	best := func(filter string) []advise.Query {
		return sends(t, 30, `{"aggregate": "films", "pipeline": [{"$match": `+filter+`}, {"$unwind": "$list"}, {"$sort": {"list.stars": -1}}, {"$limit": 5}]}`)
	}
	for _, test := range []struct {
		queries             []advise.Query
		coll, finding, note string
	}{
		{readings(`{"$and": [{"sensor": 1}, {"at": {"$gte": ` + from + `}}, {"at": {"$lt": ` + to + `}}]}`), "readings", "series:readings.at", ""},
		{readings(`{"sensor": {"$in": [1, 2]}, "at": {"$gte": ` + from + `}}`), "readings", "series:readings.at", ""},
		{readings(one, remove(`{"at": {"$lt": `+from+`}}`), remove(`{"sensor": 1, "at": {"$lte": `+from+`}}`)), "readings", "series:readings.at", ""},
		{readings(one, remove(`{"v": {"$lt": 3}}`)), "readings", "", "updates or deletes of other documents"},
		{readings(one, remove(`{"at": {"$gt": `+from+`}}`)), "readings", "", "updates or deletes of other documents"},

		{sums(`{"count": "orders", "query": {"shop": 3}}`, `{"count": "orders", "query": {"shop": 4}}`), "orders", "computed:orders.shop", ""},
		{sums(`{"aggregate": "orders", "pipeline": [{"$match": {"shop": 3}}, {"$count": "orders"}]}`), "orders", "computed:orders.shop", ""},
		{sums(match(`{"shop": 3, "state": {"$in": ["paid", "sent"]}}`), match(`{"shop": 4, "state": {"$in": ["paid", "sent"]}}`)), "orders", "computed:orders.shop", ""},
		{sums(match(`{"shop": 3, "at": {"$gte": `+from+`}}`), match(`{"shop": 4, "at": {"$gte": `+from+`}}`)), "orders", "", "of what a filter by several fields selects"},
		{sums(match(`{"shop": 3, "sum": {"$gt": 3}}`), match(`{"shop": 3, "sum": {"$gt": 4}}`)), "orders", "", "of what a filter by several fields selects"},

		{joined(`{"$set": {"name": "$s.name"}}, {"$project": {"s": 0}}`), "orders", "extref:orders.shop", ""},
		{joined(`{"$set": {"name": "$s.name"}}, {"$unset": "s"}`), "orders", "extref:orders.shop", ""},
		{joined(`{"$set": {"name": "$s.name"}}, {"$unset": "sum"}`), "orders", "", "hand on all of it"},

		{raises(t, db, "hits", `{"_id": {"page": 3, "day": 1}}`, `{"$inc": {"n": 1}}`), "hits", "approx:hits.n", ""},
		{raises(t, db, "hits", `{"_id": {"$gt": 3}}`, `{"$inc": {"n": 1}}`), "hits", "", "by one field alone"},

		{best(`{"slug": "f7"}`), "films", "subset:films.list", ""},
		{best(`{"year": 7}`), "films", "", "of all documents with one year together"},
	} {
		if !scale.Third(string(test.queries[len(test.queries)-1].Command)) {
			continue
		}
		report := said(t, db, test.queries, test.finding, test.coll, test.note)
		if slices.Contains([]string{"orders", "readings"}, test.coll) {
			tried(t, db, report)
		}
	}
}
