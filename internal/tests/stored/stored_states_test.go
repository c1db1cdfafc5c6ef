package stored_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/schemaversion"
)

type storedFilm struct {
	ID      string `bson:"_id"`
	Viewers int    `bson:"viewers"`
}

// storedTotals are the films with viewers computed from their screenings: one up to date, and without additive one
// that is marked and one whose computation has failed.
func storedTotals(name string, additive bool) scenario {
	type totals = *computed.Computed[int, string, storedFilm]
	// add inserts a screening. Text for viewers makes the pipeline fail.
	add := func(t *testing.T, db *mongo.Database, id int, film string, viewers any) {
		t.Helper()
		testkit.Insert(t, db.Collection("screenings"), testkit.D("_id", id, "film", film, "viewers", viewers))
	}
	change := func(t *testing.T, db *mongo.Database, c totals, id, viewers int) {
		t.Helper()
		testkit.OK(t, c.Change(t.Context(), []int{id}, func(ctx context.Context) error {
			screening := testkit.D("_id", id, "film", "Dumbo", "viewers", viewers)
			return testkit.ErrorOf(db.Collection("screenings").InsertOne(ctx, screening))
		}))
	}
	films := func(t *testing.T, db *mongo.Database) []storedFilm {
		return testkit.Stored[storedFilm](t, db.Collection("films"))
	}
	return stored(name,
		func(db *mongo.Database) (totals, error) {
			sum := testkit.D("$sum", testkit.D("$add", bson.A{"$viewers", 0}))
			return computed.New[int, string, storedFilm](db.Collection("screenings"), db.Collection("films"), computed.Rule{
				KeyField: "film",
				Pipeline: mongo.Pipeline{testkit.D("$group", testkit.D("_id", "$film", "viewers", sum))},
				Empty:    testkit.D("viewers", 0),
			}, &computed.Options{Additive: additive, Attempts: 1})
		},
		func(t *testing.T, db *mongo.Database, c totals) {
			for _, film := range []string{"Bambi", "Dumbo", "Fantasia"} {
				testkit.Insert(t, db.Collection("films"), testkit.D("_id", film))
			}
			testkit.Done(t, 3)(c.Adopt(t.Context(), nil))
			change(t, db, c, 1, 120)
			change(t, db, c, 2, 80)
			if additive {
				return
			}
			add(t, db, 4, "Fantasia", "ten")
			testkit.OK(t, c.Mark(t.Context(), "Fantasia"))
			testkit.Done(t, 0)(c.Drain(t.Context(), nil))
			// The lease of the attempt has ended, also on a machine whose clock is behind.
			testkit.Update(t, db.Collection("films"), testkit.D("_id", "Fantasia"),
				testkit.D("$set", testkit.D("computed.until", day)))
			add(t, db, 3, "Bambi", 7)
			testkit.OK(t, c.Mark(t.Context(), "Bambi"))
		},
		func(t *testing.T, db *mongo.Database, c totals) {
			ctx := t.Context()
			testkit.Equal(t, []storedFilm{{"Bambi", 0}, {"Dumbo", 200}, {"Fantasia", 0}}, films(t, db))
			change(t, db, c, 5, 50)
			testkit.Gives(t, storedFilm{"Dumbo", 250})(c.Get(ctx, "Dumbo", time.Hour))
			if additive {
				return
			}
			testkit.Equal(t, 1, len(testkit.Collect(t, c.Failures(ctx))))
			testkit.Done(t, 1)(c.Drain(ctx, nil)) // Bambi; what was set aside stays so
			ten := testkit.D("$set", testkit.D("viewers", 10))
			testkit.Update(t, db.Collection("screenings"), testkit.D("_id", 4), ten)
			testkit.OK(t, c.Mark(ctx, "Fantasia"))
			testkit.Done(t, 1)(c.Drain(ctx, nil))
			testkit.Equal(t, []storedFilm{{"Bambi", 7}, {"Dumbo", 250}, {"Fantasia", 10}}, films(t, db))
		})
}

// numbered returns n values that are the same in every run.
func numbered(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("visitor %d", i))
	}
	return out
}

func storedCounts(name string, opts approx.Options) scenario {
	return stored(name,
		func(db *mongo.Database) (*approx.Counters[string], error) {
			return approx.New[string](db.Collection("pages"), &opts)
		},
		func(t *testing.T, _ *mongo.Database, c *approx.Counters[string]) {
			testkit.OK(t, c.Add(t.Context(), "/about", 7))
			testkit.OK(t, c.Close(t.Context()))
		},
		func(t *testing.T, _ *mongo.Database, c *approx.Counters[string]) {
			testkit.Gives(t, int64(7))(c.Get(t.Context(), "/about"))
			testkit.OK(t, c.Add(t.Context(), "/about", 5))
			testkit.Done(t, 1)(c.Flush(t.Context()))
			testkit.Gives(t, int64(12))(c.Get(t.Context(), "/about"))
		})
}

// storedSketch counts n values. Those that were counted must not count again: their hashes stay the same.
func storedSketch(name string, opts *approx.Options, n int, first, more string) scenario {
	type visitors = *approx.Distinct[string, any]
	values := []any{1, 2.5, bson.ObjectID{7}, day}
	for _, v := range numbered(n) {
		values = append(values, v)
	}
	return stored(name,
		func(db *mongo.Database) (visitors, error) {
			return approx.NewDistinct[string, any](db.Collection("days"), opts)
		},
		func(t *testing.T, _ *mongo.Database, d visitors) {
			testkit.OK(t, d.Add(t.Context(), "2024-05-01", values...))
			testkit.OK(t, d.Close(t.Context()))
		},
		func(t *testing.T, db *mongo.Database, d visitors) {
			ctx := t.Context()
			showing[approx.Estimate](t, first)(d.Estimate(ctx, "2024-05-01"))
			showing[approx.Estimate](t, first)(d.Union(ctx, bson.D{}))
			before := testkit.Stored[bson.D](t, db.Collection("days"))
			testkit.OK(t, d.Add(ctx, "2024-05-01", values...))
			testkit.OK(t, testkit.ErrorOf(d.Flush(ctx)))
			testkit.Same(t, "counted again", before, testkit.Stored[bson.D](t, db.Collection("days")))
			for _, v := range numbered(3 * n) {
				testkit.OK(t, d.Add(ctx, "2024-05-01", v))
			}
			testkit.OK(t, testkit.ErrorOf(d.Flush(ctx)))
			showing[approx.Estimate](t, more)(d.Estimate(ctx, "2024-05-01"))
		})
}

func storedGrid(name string, opts *prealloc.Options, section string) scenario {
	type grids = *prealloc.Grids[int, string]
	cell := func(name string) prealloc.Cell { return prealloc.At(section, name) }
	// held is longer than any version of the library lives.
	const held = 200 * 365 * 24 * time.Hour
	cells := func(t *testing.T, g grids) (out []string) {
		for _, c := range testkit.Value[[]prealloc.State[string]](t)(g.Cells(t.Context(), 1)) {
			state := "claimed by " + c.By
			switch {
			case c.Free:
				state = "free"
			case !c.Until.IsZero():
				state = "held by " + c.By
			}
			out = append(out, c.Cell.Name+" "+state)
		}
		return out
	}
	return stored(name,
		func(db *mongo.Database) (grids, error) {
			return prealloc.New[int, string](db.Collection("screenings"), opts)
		},
		func(t *testing.T, _ *mongo.Database, g grids) {
			film := testkit.D("film", "Dumbo")
			testkit.OK(t, g.Insert(t.Context(), 1, film, cell("1"), cell("2"), cell("3"), cell("4")))
			testkit.OK(t, g.Claim(t.Context(), 1, "order 7", cell("1")))
			testkit.OK(t, g.Hold(t.Context(), 1, "order 8", held, cell("2")))
		},
		func(t *testing.T, _ *mongo.Database, g grids) {
			ctx := t.Context()
			testkit.Equal(t, []string{"1 claimed by order 7", "2 held by order 8", "3 free", "4 free"}, cells(t, g))
			testkit.Is(t, g.Claim(ctx, 1, "order 9", cell("1")), prealloc.ErrTaken)
			testkit.Is(t, g.Hold(ctx, 1, "order 9", held, cell("2")), prealloc.ErrTaken)
			testkit.OK(t, g.Claim(ctx, 1, "order 8", cell("2"), cell("3")))
			testkit.OK(t, g.Release(ctx, 1, "order 7", cell("1")))
			testkit.Equal(t, []string{"1 free", "2 claimed by order 8", "3 claimed by order 8", "4 free"}, cells(t, g))
		})
}

func storedArchive(name string, opts *archive.Options) scenario {
	id := func(n byte) bson.ObjectID { return bson.ObjectID{0x60, n} } // of 2021, the higher the later
	orders := func(t *testing.T, coll *mongo.Collection) (out []any) {
		for _, doc := range testkit.Stored[bson.M](t, coll) {
			out = append(out, doc["n"])
		}
		return out
	}
	return stored(name,
		func(db *mongo.Database) (*archive.Archive, error) {
			return archive.New(db.Collection("orders"), db.Collection("orders_archive"), opts)
		},
		func(t *testing.T, db *mongo.Database, a *archive.Archive) {
			for n := range byte(4) {
				order := testkit.D("_id", id(n), "n", int32(n), "closed", id(n).Timestamp())
				testkit.Insert(t, db.Collection("orders"), order)
			}
			testkit.Done(t, 2)(a.Move(t.Context(), a.BeforeFilter(id(2).Timestamp()), nil))
		},
		func(t *testing.T, db *mongo.Database, a *archive.Archive) {
			live, archived := db.Collection("orders"), db.Collection("orders_archive")
			testkit.Equal(t, []any{int32(2), int32(3)}, orders(t, live))
			testkit.Equal(t, 2, testkit.Count(t, archived, a.ArchivedFilter()))
			testkit.Done(t, 1)(a.Restore(t.Context(), testkit.D("n", 0), nil))
			testkit.Equal(t, 3, testkit.Count(t, live, a.LiveFilter())) // also without the mark
			testkit.Done(t, 1)(a.Move(t.Context(), testkit.D("n", 3), nil))
			testkit.Equal(t, []any{int32(1), int32(3)}, orders(t, archived))
		})
}

type (
	storedName struct {
		ID   int `bson:"_id"`
		Name string
	}
	storedPerson struct {
		ID          int `bson:"_id"`
		First, Last string
	}
)

func storedSchema(name string, opts *schemaversion.Options) scenario {
	type people = *schemaversion.Collection[storedPerson]
	up := func(old storedName) (p storedPerson, err error) {
		p.ID = old.ID
		_, err = fmt.Sscan(old.Name, &p.First, &p.Last)
		return p, err
	}
	return stored(name,
		func(db *mongo.Database) (people, error) {
			steps := []schemaversion.Step{schemaversion.Between(up, nil)}
			return schemaversion.New[storedPerson](db.Collection("people"), steps, opts)
		},
		func(t *testing.T, db *mongo.Database, p people) {
			for i, name := range []string{"Ada Lovelace", "Alan Turing", "Grace Hopper"} {
				testkit.Insert(t, db.Collection("people"), testkit.D("_id", i+1, "name", name))
			}
			testkit.OK(t, testkit.ErrorOf(p.Insert(t.Context(), storedPerson{4, "Ken", "Thompson"})))
			testkit.Done(t, 1)(p.Migrate(t.Context(), 2, &mongopatterns.Work{Filter: testkit.D("_id", 1)}))
		},
		func(t *testing.T, _ *mongo.Database, p people) {
			ctx := t.Context()
			testkit.Gives(t, map[int]int64{1: 2, 2: 2})(p.Status(ctx))
			testkit.Equal(t, []storedPerson{
				{1, "Ada", "Lovelace"}, {2, "Alan", "Turing"}, {3, "Grace", "Hopper"}, {4, "Ken", "Thompson"},
			}, testkit.Collect(t, p.Find(ctx, nil, options.Find().SetSort(testkit.D("_id", 1)))))
			testkit.OK(t, p.Update(ctx, 2, testkit.D("$set", testkit.D("last", "T."))))
			testkit.Done(t, 1)(p.Migrate(ctx, 2, nil))
			testkit.Gives(t, map[int]int64{2: 4})(p.Status(ctx))
			testkit.Gives(t, storedPerson{2, "Alan", "T."})(p.Get(ctx, 2))
		})
}

type (
	storedBowler struct {
		ID      int `bson:"_id"`
		Average int `bson:"average"`
	}
	storedTennis struct {
		ID     int `bson:"_id"`
		Titles int `bson:"titles"`
	}
)

func storedKinds(name string, opts *polymorphic.Options[any]) scenario {
	type kinds = *polymorphic.Kinds[any]
	add := func(t *testing.T, db *mongo.Database, k kinds, v any) {
		testkit.Insert(t, db.Collection("athletes"), testkit.Value[bson.Raw](t)(k.Encode(v)))
	}
	return stored(name,
		func(*mongo.Database) (kinds, error) {
			return polymorphic.New([]polymorphic.Kind{
				polymorphic.Of[storedBowler]("bowling", "ten-pin"), polymorphic.Of[*storedTennis]("tennis"),
			}, opts)
		},
		func(t *testing.T, db *mongo.Database, k kinds) {
			add(t, db, k, storedBowler{1, 219})
			add(t, db, k, &storedTennis{2, 167})
		},
		func(t *testing.T, db *mongo.Database, k kinds) {
			add(t, db, k, storedBowler{3, 220})
			athletes, byID := db.Collection("athletes"), options.Find().SetSort(testkit.D("_id", 1))
			testkit.Equal(t, []any{storedBowler{1, 219}, &storedTennis{2, 167}, storedBowler{3, 220}},
				testkit.Collect(t, k.Find(t.Context(), athletes, bson.D{}, byID)))
			testkit.Equal(t, 2, testkit.Count(t, athletes, polymorphic.FilterOf[storedBowler](k, nil)))
		})
}

// storedStates returns the scenarios of packages computed, approx, prealloc, archive, schemaversion and polymorphic.
func storedStates() []scenario {
	return []scenario{
		storedTotals("computed", false),
		storedTotals("computed-additive", true),
		storedCounts("approx", approx.Options{}),
		storedCounts("approx-field", approx.Options{KeyField: "path", CountField: "stats.views"}),
		storedSketch("approx-distinct", nil, 4, `{"count":8,"stdErr":0.26}`, `{"count":16,"stdErr":0.52}`),
		storedSketch("approx-distinct-full", &approx.Options{CountField: "visitors", Precision: 4}, 300,
			`{"count":367,"stdErr":95.42}`, `{"count":936,"stdErr":243.36}`),
		storedGrid("prealloc", nil, "A"),
		storedGrid("prealloc-flat",
			&prealloc.Options{CellsField: "room.days", HolderField: "guest", UntilField: "end", Flat: true}, ""),
		storedArchive("archive", nil),
		storedArchive("archive-fields", &archive.Options{TimeField: "closed", MarkField: "moved"}),
		storedSchema("schemaversion", nil),
		storedSchema("schemaversion-text", &schemaversion.Options{VersionField: "version", Text: true}),
		storedKinds("polymorphic", nil),
		storedKinds("polymorphic-default", &polymorphic.Options[any]{KindField: "sport", Default: "tennis"}),
	}
}

type storedArticle struct {
	ID int `bson:"_id"`
}

// storedPages keep the tokens of a list in the collection tokens, with the _ids of the pages that they lead to.
func storedPages() []scenario {
	type pager = *paging.Pager[storedArticle]
	requests := map[string]func(token string) paging.Request{
		"next":     func(token string) paging.Request { return paging.Request{Size: 2, After: token} },
		"prev":     func(token string) paging.Request { return paging.Request{Size: 2, Before: token} },
		"cursor":   func(token string) paging.Request { return paging.Request{Size: 2, After: token} },
		"token":    func(token string) paging.Request { return paging.Request{Size: 2, Before: token} },
		"position": func(token string) paging.Request { return paging.Request{Size: 2, Number: 3, From: token} },
	}
	const three, four, five, six, seven = int32(3), int32(4), int32(5), int32(6), int32(7)
	sea := testkit.D("topic", "sea")
	article := func(id, days int, title string) bson.D {
		return append(testkit.D("_id", id, "title", title, "published", day.AddDate(0, 0, days)), sea...)
	}
	ids := func(t *testing.T, p pager, req paging.Request) (out bson.A) {
		t.Helper()
		for _, item := range testkit.Value[*paging.Page[storedArticle]](t)(p.Page(t.Context(), sea, req)).Items {
			out = append(out, int32(item.ID))
		}
		return out
	}
	storedTokens := func(name string, opts *paging.Options) scenario {
		return byName(stored(name,
			func(db *mongo.Database) (pager, error) {
				byDate := testkit.D("published", -1, "title", 1)
				return paging.New[storedArticle](db.Collection("articles"), byDate, opts)
			},
			func(t *testing.T, db *mongo.Database, p pager) {
				articles := db.Collection("articles")
				for i := 1; i <= 5; i++ {
					testkit.Insert(t, articles, article(i, -i/2, fmt.Sprintf("Tides %d", i)))
				}
				testkit.Insert(t, articles, testkit.D("_id", 6, "topic", "sea", "title", "Draft"))
				page := func(req paging.Request) *paging.Page[storedArticle] {
					return testkit.Value[*paging.Page[storedArticle]](t)(p.Page(t.Context(), sea, req))
				}
				for name, token := range map[string]string{
					"next":     page(paging.Request{Size: 2}).Next,
					"prev":     page(paging.Request{Size: 2, FromEnd: true}).Prev,
					"cursor":   page(paging.Request{Size: 4}).Cursor(2),
					"token":    testkit.Value[string](t)(p.Token(sea, testkit.One[bson.D](t, articles, 6))),
					"position": page(paging.Request{Size: 2, Number: 2}).Position,
				} {
					leads := ids(t, p, requests[name](token))
					testkit.Insert(t, db.Collection("tokens"), testkit.D("_id", name, "token", token, "page", leads))
				}
			},
			func(t *testing.T, db *mongo.Database, p pager) {
				lead := func() map[string]bson.A {
					pages := map[string]bson.A{}
					for _, stored := range testkit.Stored[bson.M](t, db.Collection("tokens")) {
						name := stored["_id"].(string)
						pages[name] = ids(t, p, requests[name](stored["token"].(string)))
					}
					return pages
				}
				testkit.Equal(t, map[string]bson.A{
					"next": {three, four}, "prev": {three, four}, "cursor": {four, five}, "token": {four, five},
					"position": {five, six},
				}, lead())
				testkit.Insert(t, db.Collection("articles"), article(7, -1, "Tides 9"))
				testkit.Equal(t, map[string]bson.A{
					"next": {three, seven}, "prev": {seven, four}, "cursor": {seven, four}, "token": {four, five},
					"position": {five, six},
				}, lead())
			}))
	}
	return []scenario{
		storedTokens("paging", &paging.Options{Equality: []string{"topic"}}),
		storedTokens("paging-signed", &paging.Options{SigningKeys: [][]byte{slices.Repeat([]byte{7}, 32)}}),
	}
}
