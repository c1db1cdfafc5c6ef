package advise_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Real data: airports, routes, hours of weather, and airports with their routes inside, which are skewed but small. Of
// routes and hours there are as many as are looked at whole.
// Nothing pays there by itself. What a consultant would say of the queries of a service is said, and nothing else.
func TestRealData(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	airports, err := data.Airports()
	if err != nil {
		t.Fatal(err)
	}
	routes, err := data.Routes()
	if err != nil {
		t.Fatal(err)
	}
	weather, err := data.SeattleWeather()
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]bson.A{}
	for _, r := range routes {
		from[r.Origin] = append(from[r.Origin], bson.D{{Key: "to", Value: r.Destination}, {Key: "flights", Value: r.Flights}})
	}
	var plain, hubs []any
	for _, a := range airports {
		plain = append(plain, bson.D{{Key: "_id", Value: a.IATA}, {Key: "name", Value: a.Name}, {Key: "city", Value: a.City}, {Key: "state", Value: a.State}})
		list := from[a.IATA]
		if list == nil {
			list = bson.A{}
		}
		hubs = append(hubs, bson.D{{Key: "_id", Value: a.IATA}, {Key: "routes", Value: list}})
	}
	insert(t, db.Collection("airports"), plain)
	insert(t, db.Collection("hubs"), hubs)
	insert(t, db.Collection("routes"), documents(routes[:3_000]))
	insert(t, db.Collection("weather"), documents(weather[:3_000]))
	report := look(t, db, unhurried(nil))
	if len(report.Findings)+len(report.Indexes)+len(report.Remarks) > 0 || len(report.Unknown) > 0 {
		t.Errorf("advised %v, %v, %v, could not tell %v", named(report), report.Indexes, report.Remarks, report.Unknown)
	}
	if want := "hubs.routes, outlier: the largest list takes 6.0 kB"; !slices.Contains(about(report, "hubs"), want) {
		t.Errorf("%q, want %q", about(report, "hubs"), want)
	}
	// What a service of flights asks: names of destinations joined to each list, lists in pages, places of a state, a hub.
	asked := sends(t, 120,
		`{"aggregate": "routes", "pipeline": [{"$match": {"origin": "SEA"}}, {"$lookup": {"from": "airports", "localField": "destination", "foreignField": "_id", "as": "to"}}, {"$project": {"flights": 1, "to.name": 1, "to.city": 1}}]}`,
		`{"find": "routes", "sort": {"flights": -1}, "skip": 2000, "limit": 20}`,
		`{"find": "airports", "filter": {"state": "WA"}}`,
		`{"find": "hubs", "filter": {"_id": "SEA"}}`,
		`{"find": "weather", "filter": {"time": {"$gte": {"$date": "2010-03-01T00:00:00Z"}, "$lt": {"$date": "2010-03-02T00:00:00Z"}}}}`)
	report = look(t, db, unhurried(asked))
	var all []string
	for _, f := range report.Findings {
		all = append(all, f.Name())
	}
	for _, index := range report.Indexes {
		all = append(all, index.Name())
	}
	want := []string{
		"paging:routes.flights", "extref:routes.destination", // and paging's index
		"index:missing:routes {origin: 1}", "index:missing:airports {state: 1}", "index:missing:weather {time: 1}",
	}
	if !slices.Equal(all, want) {
		t.Errorf("advised %q, want %q", all, want)
	}
}

func documents[T any](all []T) (out []any) {
	for _, v := range all {
		out = append(out, v)
	}
	return out
}
