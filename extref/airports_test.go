package extref_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

type airport struct {
	IATA    string `bson:"_id"`
	Name    string `bson:"name"`
	City    string `bson:"city"`
	Country string `bson:"country"`
	Version int64  `bson:"version,omitempty"`
}

// Routes carry the name and the city of both their airports. A new name of
// Atlanta's reaches every copy once, by each way to propagate.
func TestAtlanta(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	airports, routes := db.Collection("airports"), db.Collection("routes")
	rows := ok[[]data.Airport](t)(data.Airports())
	flights := ok[[]data.Route](t)(data.Routes())
	fields := []extref.Field{{Path: "name"}, {Path: "city"}}
	targets := []extref.Target{
		{Collection: routes, Path: "origin", IDField: "iata", Fields: fields},
		{Collection: routes, Path: "destination", IDField: "iata", Fields: fields},
	}
	r := newRef[string, airport](t, airports, targets, nil)
	known := map[string]airport{}
	var docs []any
	for _, row := range rows {
		known[row.IATA] = airport{IATA: row.IATA, Name: row.Name, City: row.City, Country: row.Country}
	}
	used := map[string]bool{}
	from, to := 0, 0
	for i, f := range flights {
		if f.Origin == "ATL" {
			from++
		}
		if f.Destination == "ATL" {
			to++
		}
		used[f.Origin], used[f.Destination] = true, true
		docs = append(docs, d("_id", i,
			"origin", ok[bson.D](t)(r.Copy("routes.origin", known[f.Origin])),
			"destination", ok[bson.D](t)(r.Copy("routes.destination", known[f.Destination])),
			"flights", f.Flights))
	}
	insert(t, routes, docs...)
	docs = nil
	for iata := range used {
		docs = append(docs, known[iata])
	}
	insert(t, airports, docs...)
	if from < 100 || to < 100 {
		t.Fatalf("%d routes from and %d to Atlanta", from, to)
	}
	t.Logf("%d copies of ATL in %d routes from it and %d to it", from+to, from, to)

	// In the transaction of the change.
	var result extref.UpdateResult
	cmds := mongotest.Record(t, db, func() {
		result = ok[extref.UpdateResult](t)(r.Update(t.Context(), "ATL", set("name", "Hartsfield-Jackson")))
	})
	if result.Copies.Done != int64(from+to) || cmds.DocumentsWritten() != from+to+1 {
		t.Errorf("%+v, %d documents written, want %d", result, cmds.DocumentsWritten(), from+to+1)
	}
	cmds = mongotest.Record(t, db, func() {
		diff(t, wrote(0), ok[tally](t)(r.Propagate(t.Context(), "ATL", nil)))
	})
	if cmds.DocumentsWritten() != 0 {
		t.Errorf("written again: %v", cmds.Names())
	}

	// By a worker, in batches.
	boxed := newRef[string, airport](t, airports, targets, &extref.Options{Outbox: db.Collection("outbox")})
	ok[extref.UpdateResult](t)(boxed.Update(t.Context(), "ATL", set("name", "Atlanta International")))
	var drained tally
	cmds = mongotest.Record(t, db, func() {
		drained = ok[tally](t)(boxed.Drain(t.Context(), &mongopatterns.Work{BatchSize: 50}))
	})
	diff(t, tally{Examined: 1, Done: int64(from + to)}, drained)
	if n := cmds.Named("update").DocumentsWritten(); n != from+to {
		t.Errorf("%d documents written, want %d", n, from+to)
	}
	for field, n := range map[string]int{"origin": from, "destination": to} {
		got := ok[int64](t)(routes.CountDocuments(t.Context(), d(field+".name", "Atlanta International", field+".version", 2)))
		if got != int64(n) {
			t.Errorf("%s: %d, want %d", field, got, n)
		}
	}
	for p, err := range r.Check(t.Context(), nil) {
		t.Fatal(p, err)
	}
}
