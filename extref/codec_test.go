package extref_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// The client's BSON options count where the package encodes by itself.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	o := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(o))
	type source struct {
		ID      int      `json:"_id"`
		Tags    []string `json:"tags"`
		Version int64    `json:"version"`
	}
	r := newRef[int, source](t, db.Collection("sources"), []extref.Target{
		{Collection: db.Collection("holders"), Path: "ref", Fields: []extref.Field{{Path: "tags"}}},
	}, &extref.Options{BSON: o})
	insert(t, db.Collection("sources"), source{ID: 1, Tags: []string{"x"}})
	copies := ok[*extref.Copies[source, int, source]](t)(extref.As[source](r, "holders.ref"))
	insert(t, db.Collection("holders"), d("_id", 1, "ref", ok[source](t)(copies.Fetch(t.Context(), 1))))
	diff(t, updated(1, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, d("$set", source{ID: 1}))))
	diff(t, updated(2, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("tags", []string{"y"}))))
	diff(t, updated(3, 1), ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, d("$set", struct {
		Tags []string `json:"tags"`
	}{}))))
	diff(t, d("_id", i32(1), "tags", bson.A{}, "version", int64(3)), testkit.Get(stored(t, db.Collection("holders"))[0], "ref"))
}

// IDs that are documents, dates in the user's own form, and equal numbers of
// different types.
func TestIDsAndRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	registry := bson.NewRegistry()
	registry.RegisterTypeEncoder(celsiusType, bson.ValueEncoderFunc(encodeCelsius))
	source, refs := db.Collection("source"), db.Collection("refs")
	type key struct {
		Country string `bson:"country"`
		Number  int64  `bson:"number"`
	}
	type station struct {
		ID      key     `bson:"_id"`
		Temp    celsius `bson:"temp"`
		Version int64   `bson:"version,omitempty"`
	}
	r := newRef[key, station](t, source, []extref.Target{
		{Collection: refs, Path: "station", Fields: []extref.Field{{Path: "temp"}}},
		{Collection: refs, Path: "stations", Array: true, Fields: []extref.Field{{Path: "temp"}}, OnDelete: mongopatterns.Unlink},
	}, &extref.Options{Registry: registry})
	id := key{"NO", 7}
	insert(t, source, d("_id", id, "temp", "1 °C"))
	copied := ok[bson.D](t)(r.Copy("refs.station", station{ID: id, Temp: 1}))
	insert(t, refs, d("_id", 1, "station", copied, "stations", bson.A{copied}))
	diff(t, extref.UpdateResult{}, ok[extref.UpdateResult](t)(r.Update(t.Context(), id, d("$set", station{ID: id, Temp: 1}))))
	diff(t, updated(1, 2), ok[extref.UpdateResult](t)(r.Update(t.Context(), id, d("$set", station{ID: id, Temp: 2}))))
	want := d("_id", d("country", "NO", "number", int64(7)), "temp", "2 °C", "version", int64(1))
	diff(t, []bson.D{d("_id", i32(1), "station", want, "stations", bson.A{want})}, stored(t, refs))
	if _, err := r.Delete(t.Context(), id); !errors.Is(err, mongopatterns.ErrReferenced) || !strings.Contains(err.Error(), "refs.station: ") {
		t.Error(err)
	}
	must(t)(refs.UpdateByID(t.Context(), 1, d("$unset", d("station", ""))))
	diff(t, tally{Done: 1}, ok[tally](t)(r.Delete(t.Context(), id)))
	diff(t, []bson.D{d("_id", i32(1), "stations", bson.A{})}, stored(t, refs))

	// A document as an ID cannot be read as operators.
	filter := ok[bson.D](t)(r.Filter("refs.station", id))
	if eq, isD := filter[0].Value.(bson.D); filter[0].Key != "station._id" || !isD || eq[0].Key != "$eq" {
		t.Error(filter)
	}
	// The outbox takes such an ID as well.
	boxed := newRef[key, station](t, source, []extref.Target{{Collection: refs, Path: "station", Fields: []extref.Field{{Path: "temp"}}}},
		&extref.Options{Registry: registry, Outbox: db.Collection("outbox")})
	insert(t, source, d("_id", id, "temp", "1 °C"))
	insert(t, refs, d("_id", 2, "station", copied))
	for i := range 2 {
		ok[extref.UpdateResult](t)(boxed.Update(t.Context(), id, set("temp", i)))
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(boxed.Drain(t.Context(), nil)))

	numbers := newRef[any, bson.D](t, db.Collection("numbers"), []extref.Target{{Collection: db.Collection("n"), Path: "n", Fields: []extref.Field{{Path: "name"}}}}, nil)
	one := ok[bson.Decimal128](t)(bson.ParseDecimal128("1.0"))
	insert(t, db.Collection("numbers"), d("_id", 1, "name", "one"))
	for i, id := range []any{int32(1), int64(1), 1.0, one} {
		insert(t, db.Collection("n"), d("_id", i, "n", d("_id", id, "version", 0, "name", "one")))
	}
	for problem, err := range numbers.Check(t.Context(), nil) {
		t.Error(problem, err)
	}
	diff(t, updated(1, 4), ok[extref.UpdateResult](t)(numbers.Update(t.Context(), 1.0, set("name", "eins"))))
}
