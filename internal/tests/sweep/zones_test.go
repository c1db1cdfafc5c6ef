package sweep

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

const (
	zonesPage  = "docs/scaling.md"
	zonesBegin = "<!-- the zones: written by go test ./internal/tests/sweep -run TestZones -scale=whole -update -->\n"
	zonesEnd   = "<!-- the zones end -->\n"
)

// Keys are from 0 to zoneKeys-1; those from zoneCut on belong to the second zone.
const (
	zoneKeys = 40
	zoneCut  = 20
)

// A paired call writes to two collections under one key.
type paired struct {
	name    string
	helpers []mongopatterns.Sharder // of the same two collections
	write   func(ctx context.Context, key, n int) error
}

// pairs of collections, with what the calls need.
func pairedCalls(s *registry.Scene) []paired {
	var out []paired
	sp := testkit.Must(split.New[int, bson.D, bson.D](s.Coll("movies"), s.Coll("movie_details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}}))
	out = append(out, paired{"split.Update", []mongopatterns.Sharder{sp}, func(ctx context.Context, key, n int) error {
		return sp.Update(ctx, key, testkit.D("$set", testkit.D("title", n)), testkit.D("$set", testkit.D("plot", n)))
	}})
	su := testkit.Must(subset.New[int, bson.D](s.Coll("products"), s.Coll("reviews"), &subset.Options{ParentField: "product", ArrayField: "reviews", N: 2}))
	out = append(out, paired{"subset.Insert", []mongopatterns.Sharder{su}, func(ctx context.Context, key, n int) error {
		return testkit.ErrorOf(su.Insert(ctx, key, testkit.D("_id", n*zoneKeys+key)))
	}})
	ou := testkit.Must(outlier.New[int, int](s.Coll("books"), s.Coll("books_overflow"), &outlier.Options{MaxCount: 1, OverflowMaxCount: 1}))
	out = append(out, paired{"outlier.Add, overflowing", []mongopatterns.Sharder{ou}, func(ctx context.Context, key, n int) error {
		return testkit.ErrorOf(ou.Add(ctx, key, n))
	}})
	ve := testkit.Must(versioning.New[int, bson.D](s.Coll("policies"), s.Coll("revisions"), nil))
	out = append(out, paired{"versioning.Edit", []mongopatterns.Sharder{ve}, func(ctx context.Context, key, n int) error {
		return testkit.ErrorOf(ve.Edit(ctx, key, func(d *bson.D) error { *d = testkit.D("_id", key, "n", n); return nil }, versioning.Change{Author: "Bilbo"}))
	}})
	var trees []*tree.Tree[string, bson.D]
	nodes := paired{name: "tree.Insert, nested sets with Scope"}
	for key := range zoneKeys {
		tr := testkit.Must(tree.New[string, bson.D](s.Coll("nodes"), tree.NestedSets, &tree.Options{Scope: testkit.D("tenant", key)}))
		trees, nodes.helpers = append(trees, tr), append(nodes.helpers, tr)
	}
	nodes.write = func(ctx context.Context, key, n int) error {
		return testkit.ErrorOf(trees[key].Insert(ctx, testkit.D("_id", fmt.Sprint(key, " ", n)), trees[key].AsRoot()))
	}
	out = append(out, nodes)

	for key := range zoneKeys {
		s.OK(sp.Insert(s.Context(), key, testkit.D("title", 0), testkit.D("plot", 0)))
		s.Insert("products", testkit.D("_id", key))
		s.Insert("books", testkit.D("_id", key))
		s.OK(testkit.ErrorOf(ou.Add(s.Context(), key, -1)))
		s.OK(testkit.ErrorOf(ve.Insert(s.Context(), testkit.D("_id", key), versioning.Change{Author: "Bilbo"})))
	}
	return out
}

// Two collections that are cut and placed each for itself commit half of such calls over two shards. In the zones of
// docs/scaling.md, into which the config server's balancer moves their chunks, all calls commit on one.
func TestZones(t *testing.T) {
	t.Parallel()
	cluster := cluster(t)
	if len(cluster.Shards()) == 0 {
		t.Skip("the zones of MONGODB_URI are not ours")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	db := cluster.Database(t)
	calls := pairedCalls(&registry.Scene{T: t, DB: db})
	calls = calls[:scale.Of(1, len(calls), len(calls))]
	var helpers []mongopatterns.Sharder
	keys := map[string]string{} // the field of the key, by collection
	for _, c := range calls {
		helpers = append(helpers, c.helpers...)
		for name, key := range c.helpers[0].ShardKey() {
			keys[name] = key[0].Key
		}
	}
	if _, err := mongopatterns.Shard(ctx, db, helpers...); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		for i, name := range slices.Sorted(maps.Keys(c.helpers[0].ShardKey())) {
			var low any = bson.MinKey{}
			for j, high := range []any{zoneCut / 2, zoneCut, zoneCut * 3 / 2, bson.MaxKey{}} {
				on := [][]int{{0, 1, 0, 1}, {0, 0, 1, 1}}[i][j]
				if err := cluster.Move(ctx, db.Collection(name), testkit.D(keys[name], low), testkit.D(keys[name], high), on); err != nil {
					t.Fatal(err)
				}
				low = high
			}
		}
	}
	apart := twoPhase(ctx, t, cluster, db, calls, 1)

	zone(ctx, t, db, keys)
	for misplaced(ctx, t, db, keys) > 0 { // or until ctx ends
		time.Sleep(100 * time.Millisecond)
	}
	together := twoPhase(ctx, t, cluster, db, calls, 2)

	head, rows := fmt.Sprintf("| %d calls | placed each for itself | in the same zones |\n|---|--:|--:|\n", zoneKeys), ""
	for i, c := range calls {
		rows += fmt.Sprintf("| %s | %d two-phase | %d |\n", c.name, apart[i], together[i])
		if apart[i] == 0 || together[i] != 0 {
			t.Errorf("%s: %d two-phase commits, %d in zones", c.name, apart[i], together[i])
		}
	}
	for _, h := range helpers {
		for problem, err := range h.(mongopatterns.Checker).Check(ctx, nil) {
			t.Errorf("Check finds %v %v", problem, err)
		}
	}
	text, err := os.ReadFile(zonesPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), zonesBegin)
	inside, after, closed := strings.Cut(rest, zonesEnd)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no block of the zones", zonesPage)
	case t.Failed() || strings.HasPrefix(inside, "\n"+head+rows):
	case !*update || !scale.Whole():
		t.Errorf("%s says otherwise:\n%s", zonesPage, head+rows)
	default:
		if err := os.WriteFile(zonesPage, []byte(before+zonesBegin+"\n"+head+rows+"\n"+zonesEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Zones that are there before Shard hold from the first document: no chunk has to move.
func TestZonesBeforeShard(t *testing.T) {
	cluster := cluster(t)
	if len(cluster.Shards()) == 0 {
		t.Skip("the zones of MONGODB_URI are not ours")
	}
	ctx, db := t.Context(), cluster.Database(t)
	s := testkit.Must(split.New[int, bson.D, bson.D](db.Collection("movies"), db.Collection("movie_details"), &split.Options{IDField: "movie", ColdFields: []string{"plot"}}))
	keys := map[string]string{"movies": "_id", "movie_details": "movie"}
	zone(ctx, t, db, keys)
	if _, err := mongopatterns.Shard(ctx, db, s); err != nil {
		t.Fatal(err)
	}
	if n := misplaced(ctx, t, db, keys); n > 0 {
		t.Errorf("%d chunks are outside their zone", n)
	}
	insert := paired{"split.Insert", []mongopatterns.Sharder{s}, func(ctx context.Context, key, n int) error {
		return s.Insert(ctx, key, testkit.D("title", n), testkit.D("plot", n))
	}}
	if n := twoPhase(ctx, t, cluster, db, []paired{insert}, 1); n[0] != 0 {
		t.Errorf("%d two-phase commits", n[0])
	}
}

// twoPhase makes each call once for each key, and counts its two-phase commits.
func twoPhase(ctx context.Context, t *testing.T, cluster *mongotest.Server, db *mongo.Database, calls []paired, n int) (out []int) {
	t.Helper()
	for _, c := range calls {
		asked, err := cluster.Asked(ctx, db, func() error {
			for key := range zoneKeys {
				if err := c.write(ctx, key, n); err != nil {
					return err
				}
			}
			return nil
		})
		two := asked.Commits["twoPhaseCommit"]
		if one := asked.Commits["singleShard"] + asked.Commits["singleWriteShard"]; err != nil || one+two != zoneKeys {
			t.Errorf("%s: commits %v, %v", c.name, asked.Commits, err)
		}
		out = append(out, two)
	}
	return out
}

// shardIDs are the cluster's two shards.
func shardIDs(ctx context.Context, t *testing.T, db *mongo.Database) (out []string) {
	t.Helper()
	var list struct {
		Shards []struct {
			ID string `bson:"_id"`
		}
	}
	if err := db.Client().Database("admin").RunCommand(ctx, testkit.D("listShards", 1)).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Shards {
		out = append(out, s.ID)
	}
	return out
}

// zone has the keys below zoneCut belong to the first shard, and the others to the second, in all collections.
func zone(ctx context.Context, t *testing.T, db *mongo.Database, keys map[string]string) {
	t.Helper()
	run := func(cmd bson.D) {
		if err := db.Client().Database("admin").RunCommand(ctx, cmd).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range shardIDs(ctx, t, db) {
		name := []string{"low", "high"}[i]
		run(testkit.D("addShardToZone", id, "zone", name))
		for coll, field := range keys {
			ends := []any{bson.MinKey{}, zoneCut, bson.MaxKey{}}
			run(testkit.D("updateZoneKeyRange", db.Name()+"."+coll, "min", testkit.D(field, ends[i]), "max", testkit.D(field, ends[i+1]), "zone", name))
		}
	}
}

// misplaced counts the chunks that are not on the shard of their zone.
func misplaced(ctx context.Context, t *testing.T, db *mongo.Database, keys map[string]string) (n int64) {
	t.Helper()
	ids := shardIDs(ctx, t, db)
	config := db.Client().Database("config")
	for name, field := range keys {
		var entry struct {
			UUID bson.Binary `bson:"uuid"`
		}
		err := config.Collection("collections").FindOne(ctx, testkit.D("_id", db.Name()+"."+name)).Decode(&entry)
		var wrong int64
		if err == nil {
			wrong, err = config.Collection("chunks").CountDocuments(ctx, testkit.D("uuid", entry.UUID, "$or", bson.A{
				testkit.D("shard", ids[0], "$expr", testkit.D("$gt", bson.A{"$max." + field, zoneCut})),
				testkit.D("shard", ids[1], "$expr", testkit.D("$lt", bson.A{"$min." + field, zoneCut})),
			}))
		}
		if err != nil {
			t.Fatal(err)
		}
		n += wrong
	}
	return n
}
