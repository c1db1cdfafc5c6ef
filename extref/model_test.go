package extref_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Random changes, references and deletions against a model: after each step
// followed fields are those of the source, and frozen ones those of the moment
// the reference was made.
func TestModel(t *testing.T) {
	t.Parallel()
	modes := map[string]struct {
		o      *extref.Options
		change func(*extref.Target)
	}{
		"versions":    {nil, nil},
		"unversioned": {nil, unversioned},
		"deferred":    {&extref.Options{Deferred: true}, nil},
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, teams, colls := people(t, mode.o, func(target *extref.Target) {
				target.OnDelete = extref.Unset
				if mode.change != nil {
					mode.change(target)
				}
			})
			rng := rand.New(rand.NewPCG(7, 7))
			type source struct{ name, motto string }
			type ref struct {
				id    int
				motto string
			}
			sources := map[int]*source{}
			single, many := map[int]ref{}, map[int][]ref{}
			fresh := func(id int) {
				sources[id] = &source{"start", "first"}
				insert(t, teams, team(id, "start"))
			}
			for id := range 4 {
				fresh(id)
			}
			next := 100
			for step := range 60 {
				id := rng.IntN(4)
				s, exists := sources[id]
				if !exists {
					fresh(id)
					continue
				}
				value := fmt.Sprint("v", step)
				switch op := rng.IntN(10); {
				case op < 3:
					s.name = value
					ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("name", value)))
				case op == 3:
					s.motto = value
					ok[extref.UpdateResult](t)(r.Update(t.Context(), id, set("motto", value, "phone", step)))
				case op == 4: // by somebody else, without a version
					s.name = value
					must(t)(teams.UpdateByID(t.Context(), id, set("name", value)))
					work := &mongopatterns.Work{BatchSize: 1 + rng.IntN(3)}
					if mode.change == nil {
						work.Filter = d("_id", id)
						ok[tally](t)(r.Repair(t.Context(), work))
					} else {
						ok[tally](t)(r.Propagate(t.Context(), id, work))
					}
				case op == 5 && step%3 == 0:
					delete(sources, id)
					for doc, ref := range single {
						if ref.id == id {
							delete(single, doc)
						}
					}
					for doc, refs := range many {
						var rest []ref
						for _, ref := range refs {
							if ref.id != id {
								rest = append(rest, ref)
							}
						}
						many[doc] = rest
					}
					ok[tally](t)(r.Delete(t.Context(), id))
				case op < 8:
					next++
					single[next] = ref{id, s.motto}
					insert(t, colls[0], d("_id", next, "team", ok[bson.D](t)(r.Fetch(t.Context(), "single.team", id))))
				default:
					next++
					copies := bson.A{}
					for range rng.IntN(4) {
						other := rng.IntN(4)
						if o := sources[other]; o != nil {
							many[next] = append(many[next], ref{other, o.motto})
							copies = append(copies, ok[bson.D](t)(r.Fetch(t.Context(), "many.teams", other)))
						}
					}
					insert(t, colls[1], d("_id", next, "teams", copies))
				}
				if mode.o != nil && mode.o.Deferred {
					for id := range sources {
						ok[tally](t)(r.Propagate(t.Context(), id, nil))
					}
				}
				if step%5 > 0 {
					continue
				}
				diff(t, []string{}, problems(t, r))
				for _, doc := range stored(t, colls[0]) {
					want, referring := single[int(lookupD(doc, "_id").(int32))]
					copied, has := lookupD(doc, "team").(bson.D)
					if has != referring {
						t.Fatalf("step %d: %v", step, doc)
					}
					if has {
						diff(t, []any{sources[want.id].name, want.motto}, []any{lookupD(copied, "name"), lookupD(copied, "motto")})
					}
				}
				for _, doc := range stored(t, colls[1]) {
					want, have := []any{}, []any{}
					for _, ref := range many[int(lookupD(doc, "_id").(int32))] {
						want = append(want, sources[ref.id].name, ref.motto)
					}
					for _, copied := range lookupD(doc, "teams").(bson.A) {
						have = append(have, lookupD(copied.(bson.D), "name"), lookupD(copied.(bson.D), "motto"))
					}
					diff(t, want, have)
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
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
		{Collection: refs, Path: "stations", Array: true, Fields: []extref.Field{{Path: "temp"}}, OnDelete: extref.Unset},
	}, &extref.Options{Registry: registry})
	id := key{"NO", 7}
	insert(t, source, d("_id", id, "temp", "1 °C"))
	copied := ok[bson.D](t)(r.Reference("refs.station", station{ID: id, Temp: 1}))
	insert(t, refs, d("_id", 1, "station", copied, "stations", bson.A{copied}))
	diff(t, extref.UpdateResult{}, ok[extref.UpdateResult](t)(r.Update(t.Context(), id, d("$set", station{ID: id, Temp: 1}))))
	diff(t, updated(1, 2), ok[extref.UpdateResult](t)(r.Update(t.Context(), id, d("$set", station{ID: id, Temp: 2}))))
	want := d("_id", d("country", "NO", "number", int64(7)), "temp", "2 °C", "version", int64(1))
	diff(t, []bson.D{d("_id", i32(1), "station", want, "stations", bson.A{want})}, stored(t, refs))
	if _, err := r.Delete(t.Context(), id); !errors.Is(err, extref.ErrReferenced) || !strings.Contains(err.Error(), "refs.station: ") {
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

func TestIndexConflict(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c := db.Collection("c")
	must(t)(c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("ref._id", 1, "ref.version", 1), Options: options.Index().SetUnique(true)}))
	r, err := extref.New[int, bson.D](db.Collection("s"), []extref.Target{{Collection: c, Path: "ref", Fields: []extref.Field{{Path: "name"}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EnsureIndexes(t.Context()); !isIndexConflict(err) {
		t.Error(err)
	}
	diff(t, map[string]bson.D{"s": d("_id", 1)}, r.ShardKey())
	diff(t, d("ref._id", 1, "ref.version", 1), r.Indexes()["c"][0].Keys)
}

// An entry that was taken on by a worker which died is free after its lease.
func TestOutboxLease(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	outbox := db.Collection("outbox")
	r, _, _ := orders(t, db, 1, &extref.Options{Outbox: outbox})
	ok[extref.UpdateResult](t)(r.Update(t.Context(), 1, set("name", "x")))
	if _, err := outbox.UpdateOne(t.Context(), d(), set("due", time.Now().Add(time.Hour))); err != nil { // taken on
		t.Fatal(err)
	}
	diff(t, tally{}, ok[tally](t)(r.Drain(t.Context(), nil)))
	if _, err := outbox.UpdateOne(t.Context(), d(), set("due", time.Now().Add(-time.Millisecond))); err != nil { // and over
		t.Fatal(err)
	}
	diff(t, tally{Examined: 1, Done: 1}, ok[tally](t)(r.Drain(t.Context(), nil)))
}
