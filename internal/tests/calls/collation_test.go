package calls_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func checks(c mongopatterns.Checker) func(context.Context) error {
	return func(ctx context.Context) error { return testkit.Drain(c.Check(ctx, nil)) }
}

// collated are the calls for many documents that do not look for a default collation, and why.
var collated = map[string]string{
	"computed.Computed.Drain":      "it runs all the time; EnsureIndexes and Check have looked",
	"computed.Computed.RefreshAll": "as Drain",
	"extref.Source.Drain":          "as that of computed",
	"extref.Source.Propagate":      "as Drain",
	"paging.Pager.EnsureIndexes":   "paging writes nothing, and reads with a collation",
	"bucket.Buckets.Compare":       "it reads",
	"series.Series.Compare":        "it reads",
	"series.Series.Documents":      "it reads",
}

// A call for many documents, Check and EnsureIndexes refuse a default collation on any of their collections, also in a
// transaction, and write nothing. In a small run the calls of a package take turns with its collections.
func TestDefaultCollations(t *testing.T) {
	calls, ensures := slices.Concat(registry.Writes(), registry.Reads()), registry.Indexes(t)
	looking := registry.Taking(t, func(kind string) bool { return kind == "*mongopatterns.Work" })
	looking = append(looking, "prealloc.Grids.Insert") // whoever has no index does without EnsureIndexes
	for name := range collated {
		if !slices.Contains(registry.Methods(slices.Concat(calls, ensures)), name) {
			t.Errorf("there is no row %s", name)
		}
	}
	rows := map[string]int{}
	for _, r := range append(eachMethod(calls), ensures...) {
		indexes := strings.HasSuffix(r.Name, ".EnsureIndexes")
		if !indexes && !slices.Contains(looking, r.Method()) || collated[r.Method()] != "" {
			continue
		}
		turn := rows[r.Package()]
		rows[r.Package()]++
		t.Run(strings.ReplaceAll(r.Name, "/", ": "), func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c := r.Start(&registry.Scene{T: t, DB: db})
			if c.Many != nil { // what the caller has is stored without a look
				return
			}
			names := collectionsOf(t, db, c)
			for i, name := range names {
				if !indexes && scale.Of((i+turn)%len(names) != 0, false, false) {
					continue
				}
				create(t, db, name, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2}))
				before := everything(t, db)
				refused := func(ctx context.Context) error {
					if _, err := c.Do(ctx); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `"`+name+`" has the default collation "en"`) {
						t.Errorf("%s: %v", name, err)
					}
					return nil
				}
				_ = refused(t.Context())
				if !indexes { // no transaction creates indexes
					testkit.OK(t, mongopatterns.Transact(t.Context(), db.Client(), refused))
				}
				testkit.Same(t, name, before, everything(t, db))
				if scale.Of(indexes, true, true) { // others follow
					create(t, db, name)
				}
			}
		})
	}
}

// collectionsOf returns the collections of a call, but for locks: there it does no harm if two names mean the same one.
func collectionsOf(t *testing.T, db *mongo.Database, c registry.Call) []string {
	t.Helper()
	names := slices.Concat(testkit.Must(db.ListCollectionNames(t.Context(), bson.D{})), c.Aside)
	for _, h := range c.Helpers() {
		names = slices.AppendSeq(names, maps.Keys(h.ShardKey()))
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return strings.HasSuffix(name, "_locks") })
}

// create creates a collection anew, with the documents that it has.
func create(t *testing.T, db *mongo.Database, name string, opts ...options.Lister[options.CreateCollectionOptions]) {
	t.Helper()
	docs := testkit.Stored[bson.Raw](t, db.Collection(name))
	testkit.OK(t, db.Collection(name).Drop(t.Context()))
	testkit.OK(t, db.CreateCollection(t.Context(), name, opts...))
	if len(docs) > 0 {
		testkit.InsertAll(t, db.Collection(name), docs)
	}
}
