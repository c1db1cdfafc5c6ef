package sweep

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"

	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// notSharded are the rows that do not run on mongotest's cluster, and why.
var notSharded = map[string]string{
	"extref.Source.Watch":    "mongotest's router has no change streams",
	"mongopatterns.Transact": "it has no collection of its own; all rows with a transaction test it",
}

// cluster returns the sharded cluster of all tests of this package. It ends with the process.
func cluster(t *testing.T) *mongotest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; not run with -short")
	}
	return testkit.Value[*mongotest.Server](t)(theCluster())
}

var theCluster = sync.OnceValues(func() (*mongotest.Server, error) {
	return mongotest.Start(context.Background(), &mongotest.Options{Shards: 2})
})

// sharded is a database for the row whose collections are sharded by the helper's own keys. Of each
// collection half of the documents lie on each shard, of parents the first half on the first, of
// items, which come next by name, on the second, so that transactions meet both.
func (r placed) sharded(t *testing.T) (*mongo.Database, call) {
	t.Helper()
	ctx := t.Context()
	db := r.cluster.Database(t)
	c := call{r.Start(&registry.Scene{T: t, DB: db})}
	helpers := c.Helpers()
	if r.Package() == "extref" { // which leaves the key of its targets to the user
		helpers = append(helpers, registry.Keyed{Coll: db.Collection("orders"), Key: testkit.D("_id", 1)})
	}
	done, err := mongopatterns.Shard(ctx, db, helpers...)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range done {
		spread(t, r.cluster, db.Collection(s.Collection), s.Key, i%2)
	}
	return db, c
}

// spread moves the upper half of a collection to the second shard, or with first 1 the lower half. Of one
// key the range below it is the lower half; an empty collection goes as a whole, or stays.
func spread(t *testing.T, cluster *mongotest.Server, coll *mongo.Collection, key bson.D, first int) {
	t.Helper()
	ctx := t.Context()
	if key[0].Value == "hashed" {
		if err := cluster.Move(ctx, coll, bson.D{{Key: key[0].Key, Value: int64(0)}}, bson.D{{Key: key[0].Key, Value: bson.MaxKey{}}}, 1); err != nil {
			t.Fatal(err)
		}
		return
	}
	low, high := ends(key)
	docs := keysOf(t, coll, key)
	var from, to bson.D
	half := len(docs) / 2
	switch {
	case len(docs) == 0 && first == 0:
		return
	case len(docs) == 0:
		from, to = low, high
	case (first == 0) == (len(docs) > 1):
		from, to = docs[half], high
	default:
		from, to = low, docs[half]
	}
	if err := cluster.Move(ctx, coll, from, to, 1); err != nil {
		t.Fatal(err)
	}
}

// ends are the ends of all values of a key.
func ends(key bson.D) (low, high bson.D) {
	for _, e := range key {
		low = append(low, bson.E{Key: e.Key, Value: bson.MinKey{}})
		high = append(high, bson.E{Key: e.Key, Value: bson.MaxKey{}})
	}
	return low, high
}

// keysOf are the values of a key that a collection has, in their order.
func keysOf(t *testing.T, coll *mongo.Collection, key bson.D) (out []bson.D) {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(key))
	var docs []bson.Raw
	if err == nil {
		err = cursor.All(t.Context(), &docs)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		var value bson.D
		for _, e := range key {
			v, err := doc.LookupErr(strings.Split(e.Key, ".")...)
			if err != nil {
				v = bson.RawValue{Type: bson.TypeNull}
			}
			value = append(value, bson.E{Key: e.Key, Value: v})
		}
		out = append(out, value)
	}
	return slices.CompactFunc(out, func(a, b bson.D) bool { return text(a) == text(b) })
}

// The calls hold on a sharded cluster what they hold on a replica set.
func TestSharded(t *testing.T) {
	cluster := cluster(t)
	rows := registry.Writes()
	for name := range notSharded {
		if !slices.ContainsFunc(rows, func(r registry.Row) bool { return r.Name == name }) {
			t.Errorf("there is no row %s", name)
		}
	}
	figures := newFigures()
	var all []placed
	for _, r := range onShards(rows) {
		all = append(all, placed{Row: r, cluster: cluster})
	}
	together(t, all, func(t *testing.T, r placed) { r.sweep(t, figures) })
	t.Log(figures.lines())
}
