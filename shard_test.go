//go:build unix

package mongopatterns_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// sharders has a helper of each package and of each kind of key.
func sharders(db *mongo.Database) []mongopatterns.Sharder {
	c := db.Collection
	hour := timeseries.Every(time.Hour)
	return []mongopatterns.Sharder{
		testkit.Must(approx.New[string](c("views"), &approx.Options{KeyField: "page"})),
		testkit.Must(approx.NewDistinct[string, string](c("visitors"), nil)),
		testkit.Must(archive.New(c("invoices"), c("old invoices"), &archive.Options{TimeField: "paid"})),
		testkit.Must(attribute.New[int, int](c("films"), nil)),
		testkit.Must(bucket.New[string, bson.D](c("buckets"), hour, nil)),
		testkit.Must(computed.New[int, string, bson.D](c("screenings"), c("totals"), computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"}}}}},
			Empty:    bson.D{{Key: "n", Value: 0}},
		}, nil)),
		testkit.Must(extref.New[int, bson.D](c("customers"), []extref.Target{{Collection: c("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}},
			&extref.Options{KeyField: "number"})),
		testkit.Must(outlier.New[int, string](c("books"), c("books_overflow"), nil)),
		testkit.Must(paging.New[bson.D](c("articles"), bson.D{{Key: "at", Value: -1}}, nil)),
		testkit.Must(paging.New[bson.D](c("articles of authors"), bson.D{{Key: "at", Value: -1}}, &paging.Options{Equality: []string{"author"}})),
		testkit.Must(prealloc.New[string, string](c("seats"), nil)),
		testkit.Must(relation.New[string, int, bson.D](c("people"), c("tasks"), &relation.Options{Links: c("links")})),
		testkit.Must(schemaversion.New[bson.D](c("contacts"), []schemaversion.Step{{Up: func(d bson.D) (bson.D, error) { return d, nil }}}, nil)),
		testkit.Must(series.New[string, bson.D](c("events"), hour, nil)),
		testkit.Must(slots.New[string, int](c("slots"), timeseries.Days(nil), nil)),
		testkit.Must(split.New[int, bson.D, bson.D](c("movies"), c("details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}})),
		testkit.Must(subset.New[int, bson.D](c("products"), c("reviews"), &subset.Options{ParentField: "product", ArrayField: "reviews"})),
		testkit.Must(tree.New[string, bson.D](c("nodes"), tree.AncestorArray, &tree.Options{Scope: bson.D{{Key: "tenant", Value: "a"}}})),
		testkit.Must(tree.New[string, bson.D](c("nodes of all"), tree.NestedSets, nil)),
		testkit.Must(versioning.New[int, bson.D](c("policies"), c("revisions"), nil)),
	}
}

// Shard does everything needed for every package, and a second call does nothing more. All indexes exist
// afterwards, including unique ones that serve the shard key.
func TestShard(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	helpers := sharders(db)
	if _, err := db.Collection("views").InsertOne(ctx, bson.D{{Key: "page", Value: "a"}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bson.D{}
	for _, h := range helpers {
		for name, key := range h.ShardKey() {
			want[name] = key
		}
	}
	var unique []string
	for run, found := range []bool{false, true} {
		done, err := mongopatterns.Shard(ctx, db, helpers...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bson.D{}
		unique = nil
		for _, s := range done {
			got[s.Collection] = s.Key
			if s.Unique {
				unique = append(unique, s.Collection)
			}
			if s.Found != found {
				t.Errorf("run %d: %+v", run, s)
			}
		}
		if diff := cmp.Diff(texts(want), texts(got)); diff != "" {
			t.Errorf("run %d: %s", run, diff)
		}
	}
	for _, name := range []string{"views", "links", "details", "slots"} {
		if !slices.Contains(unique, name) {
			t.Errorf("%s has no unique shard key, only %v", name, unique)
		}
	}
	for _, h := range helpers {
		if err := h.EnsureIndexes(ctx); err != nil {
			t.Error(err)
		}
	}

	t.Run("documents, and no index", func(t *testing.T) {
		plain := keyed{coll: db.Collection("plain"), key: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}
		if _, err := plain.coll.InsertOne(ctx, bson.D{{Key: "a", Value: 1}}); err != nil {
			t.Fatal(err)
		}
		if done, err := mongopatterns.Shard(ctx, db, plain); err != nil || len(done) != 1 || done[0].Found || done[0].Unique {
			t.Errorf("%+v, %v", done, err)
		}
	})
	t.Run("hashed by the user", func(t *testing.T) {
		h := keyed{coll: db.Collection("hashed"), key: bson.D{{Key: "_id", Value: 1}}}
		if err := cluster.Shard(ctx, h.coll, bson.D{{Key: "_id", Value: "hashed"}}); err != nil {
			t.Fatal(err)
		}
		if done, err := mongopatterns.Shard(ctx, db, h); err != nil || !done[0].Found || done[0].Key[0].Value != "hashed" {
			t.Errorf("%+v, %v", done, err)
		}
	})
	for name, key := range map[string]string{"another key": "_id", "two helpers": "b"} {
		t.Run(name, func(t *testing.T) {
			h := []mongopatterns.Sharder{keyed{coll: db.Collection("plain"), key: bson.D{{Key: key, Value: 1}}}}
			if name == "two helpers" {
				h = append(h, keyed{coll: db.Collection("plain"), key: bson.D{{Key: "c", Value: 1}}})
			}
			if done, err := mongopatterns.Shard(ctx, db, h...); !errors.Is(err, mongopatterns.ErrInvalid) || done != nil {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// A server that is not a mongos is refused, and nothing is created.
func TestShardOnReplicaSet(t *testing.T) {
	db := mongotest.Admin(t, mongotest.Database(t)) // who may read the database config
	if cluster := db.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "listShards", Value: 1}}); cluster.Err() == nil {
		t.Skip("MONGODB_URI is a cluster")
	}
	if _, err := mongopatterns.Shard(t.Context(), db, sharders(db)...); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	if names, err := db.ListCollectionNames(t.Context(), bson.D{}); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
}

func texts(keys map[string]bson.D) map[string]string {
	out := map[string]string{}
	for name, key := range keys {
		raw, _ := bson.MarshalExtJSON(key, false, false)
		out[name] = string(raw)
	}
	return out
}

// keyed is a Sharder of one collection with a given shard key.
type keyed struct {
	coll *mongo.Collection
	key  bson.D
}

func (s keyed) Indexes() map[string][]mongo.IndexModel { return nil }
func (s keyed) EnsureIndexes(context.Context) error    { return nil }
func (s keyed) ShardKey() map[string]bson.D {
	return map[string]bson.D{s.coll.Name(): s.key}
}
