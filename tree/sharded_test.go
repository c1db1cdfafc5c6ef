package tree_test

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// A tree with a scope lies on one shard with its lock: every write commits there, and every call is right, also
// those that ask level by level there.
func TestSharded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := mongotest.Sharded(t, 2)
	db := cluster.Database(t)
	coll := db.Collection("nodes") // of all, because moving chunks takes long
	for i, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		t.Run(rep.String(), func(t *testing.T) {
			open := func(tenant string) *trees {
				return get(tree.New[string, bson.M](coll, rep, &tree.Options{Scope: dd("tenant", tenant)}))(t)
			}
			a, z := fmt.Sprint("a", i), fmt.Sprint("z", i)
			here, there := open(a), open(z)
			for name, key := range here.ShardKey() {
				match(t, name, dd("tenant", 1), key)
				if i == 0 {
					ok(t, cluster.Shard(ctx, db.Collection(name), key, dd("tenant", "m")))
				}
			}
			ok(t, here.EnsureIndexes(ctx))
			ok(t, there.EnsureIndexes(ctx))
			doc := func(id string) bson.M { return bson.M{"_id": id} }
			type tenant struct {
				tr     *trees
				prefix string
			}
			var tenants []tenant
			for k, tenant := range []tenant{{here, a}, {there, z}} {
				if scale.Turn(i+k, 2) {
					tenants = append(tenants, tenant)
				}
			}
			for _, tenant := range tenants {
				tr, p := tenant.tr, tenant.prefix
				asked, err := cluster.Asked(ctx, db, func() error {
					get(tr.Insert(ctx, doc(p+"A"), tr.AsRoot()))(t)
					get(tr.Insert(ctx, doc(p+"Z"), tr.AsRoot()))(t)
					for _, n := range [][2]string{{"B", "A"}, {"C", "B"}, {"D", "B"}} {
						get(tr.Insert(ctx, doc(p+n[0]), tr.Under(p+n[1])))(t)
					}
					good(t, tr.Move(ctx, p+"B", tr.Under(p+"Z")))
					is(t, tr.Move(ctx, p+"Z", tr.Under(p+"C")), tree.ErrCycle)
					good(t, tr.Move(ctx, p+"D", tr.AsRoot()))
					n, err := tr.Delete(ctx, p+"B", mongopatterns.Cascade)
					wrong(t, n != 2 || err != nil, "Cascade: %d, %v", n, err)
					get(tr.Insert(ctx, doc(p+"E"), tr.Under(p+"D")))(t)
					get(tr.Delete(ctx, p+"D", mongopatterns.Unlink))(t)
					return nil
				})
				ok(t, err)
				wrote := 0
				for _, commands := range asked.Shards {
					if len(commands.Named("insert", "update", "findAndModify", "delete")) > 0 {
						wrote++
					}
				}
				wrong(t, wrote != 1, "%s: %d shards were written: %v", p, wrote, asked.Shards)
				wrong(t, asked.Commits["twoPhaseCommit"] != 0, "%s: commits %v", p, asked.Commits)
				putDocs(t, coll, dd("_id", p+"N", "tenant", p, "parent", p+"A"))
				got, err := tr.Adopt(ctx, nil)
				wrong(t, err != nil || got.Remaining != 0, "Adopt: %+v, %v", got, err)
				if rep == tree.ChildReferences {
					changeDoc(t, coll, p+"A", dd("$push", dd("children", "missing")))
					get(tr.Repair(ctx, nil))(t)
				}
				for problem, err := range tr.Check(ctx, nil) {
					t.Errorf("%v, %v", problem, err)
				}
				found := map[string]bool{}
				for n, err := range tr.Roots(ctx) {
					ok(t, err)
					found[n["_id"].(string)] = true
				}
				match(t, "roots", map[string]bool{p + "A": true, p + "Z": true, p + "E": true}, found)
			}

			// In a transaction a filter is the way down that no server refuses.
			tr, p := tenants[0].tr, tenants[0].prefix
			get(tr.Insert(ctx, doc(p+"X"), tr.Under(p+"A")))(t)
			if rep == tree.ParentReferences || rep == tree.ChildReferences { // their filter is a $graphLookup
				byLevels(t, db, tr, p, rep)
				return
			}
			ok(t, mongopatterns.Transact(ctx, db.Client(), func(ctx context.Context) error {
				filter, err := tr.DescendantsFilter(ctx, p+"A", 0)
				if err != nil {
					return err
				}
				n, err := coll.CountDocuments(ctx, filter)
				wrong(t, n != 2, "%d below", n)
				return err
			}))
		})
	}
	t.Run("Convert", func(t *testing.T) { convertSharded(t, cluster) })
}

// byLevels counts what a Move under a deep node, and a Cascade of a tree, ask level by level: each level, and once more
// to see that there is no other.
func byLevels(t *testing.T, db *mongo.Database, tr *trees, prefix string, rep tree.Representation) {
	ctx := t.Context()
	above := prefix + "A"
	for i := range 4 {
		id := fmt.Sprint(prefix, i)
		get(tr.Insert(ctx, bson.M{"_id": id}, tr.Under(above)))(t)
		above = id
	}
	others := map[tree.Representation]int{tree.ParentReferences: 0, tree.ChildReferences: 2}[rep]
	got := mongotest.Record(t, db, func() { good(t, tr.Move(ctx, prefix+"X", tr.Under(above))) })
	levels := 5 // A and four below
	if n := got.RoundTrips(); n != 4+levels+1 {
		t.Errorf("Move: %d round trips: %v", n, got.Names())
	}
	got = mongotest.Record(t, db, func() { get(tr.Delete(ctx, prefix+"A", mongopatterns.Cascade))(t) })
	levels = 6
	if n := got.RoundTrips(); n != 3+others+levels+1 {
		t.Errorf("Cascade: %d round trips: %v", n, got.Names())
	}
}

// convertSharded: Convert reads the roots of lists in its transactions, where a sharded collection refuses to join them.
func convertSharded(t *testing.T, cluster *mongotest.Server) {
	ctx := t.Context()
	db := cluster.Database(t)
	for name, to := range map[string]variant{"nested": plain(tree.NestedSets, tree.Options{}), "order": plain(tree.AncestorArray, tree.Options{OrderField: "pos"})} {
		coll := db.Collection(name)
		ok(t, cluster.Shard(ctx, coll, dd("_id", 1), dd("_id", "m")))
		v := plain(tree.ChildReferences, tree.Options{})
		from, converted := v.open(t, coll), to.open(t, coll)
		insertAll(t, v, from, [][2]string{{"a", ""}, {"z", ""}, {"n", "a"}, {"b", "z"}, {"q", "b"}})
		for _, dry := range []bool{true, false} {
			fresh := to.open(t, coll) // which has not met the refusal yet
			got, err := tree.Convert(ctx, from, fresh, &mongopatterns.Work{DryRun: dry})
			wrong(t, err != nil || got.Done == 0, "%s: %+v, %v", name, got, err)
		}
		healthy(t, converted)
		to.ordered = true
		to.want(t, name, to.ids(t, converted.Roots(ctx)), "a", "z")
	}
}
