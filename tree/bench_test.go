package tree_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// BenchmarkAncestors compares the one round trip of Ancestors with a find for
// each level, which is what parent references alone invite to. The ratio is
// loop/tree: above 1 the tree is faster.
func BenchmarkAncestors(b *testing.B) {
	for _, v := range variants()[:5] {
		b.Run(v.name, func(b *testing.B) {
			tr, coll := deep(b, v, 10)
			loop := func(ctx context.Context) error { return climb(ctx, coll, "d9") }
			ratio(b, loop, func(ctx context.Context) error { return errOf(tr.Ancestors(ctx, "d9")) })
		})
	}
}

// BenchmarkMove moves a subtree of 200 nodes; the other side writes each
// descendant by itself.
func BenchmarkMove(b *testing.B) {
	for _, v := range variants()[:5] {
		b.Run(v.name, func(b *testing.B) {
			db := mongotest.Database(b)
			coll := db.Collection("nodes")
			tr := v.open(b, coll)
			insertAll(b, v, tr, [][2]string{{"A", ""}, {"B", ""}, {"x", "A"}})
			var nodes [][2]string
			for i := range 200 {
				nodes = append(nodes, [2]string{fmt.Sprintf("x%d", i), "x"})
			}
			get(tr.Load(b.Context(), v.entries(nodes), tr.AsRoot(), nil))(b)
			to := "B"
			each := func(ctx context.Context) error {
				for _, n := range nodes {
					if _, err := coll.UpdateOne(ctx, dd("_id", n[0]), dd("$set", dd("copy", to))); err != nil {
						return err
					}
				}
				return nil
			}
			ratio(b, each, func(ctx context.Context) error {
				err := tr.Move(ctx, "x", tr.Under(to))
				to = map[string]string{"A": "B", "B": "A"}[to]
				return err
			})
		})
	}
}

func deep(b *testing.B, v variant, n int) (*trees, *mongo.Collection) {
	db := mongotest.Database(b)
	tr := v.open(b, db.Collection("nodes"))
	plain := variants()[0]
	other := plain.open(b, db.Collection("plain"))
	for i := range n {
		parent := ""
		if i > 0 {
			parent = fmt.Sprintf("d%d", i-1)
		}
		node := [][2]string{{fmt.Sprintf("d%d", i), parent}}
		insertAll(b, v, tr, node)
		insertAll(b, plain, other, node)
	}
	return tr, db.Collection("plain")
}

func climb(ctx context.Context, coll *mongo.Collection, id string) error {
	for {
		var doc struct{ Parent *string }
		if err := coll.FindOne(ctx, dd("_id", id)).Decode(&doc); err != nil || doc.Parent == nil {
			return err
		}
		id = *doc.Parent
	}
}

// ratio runs both sides in turn and reports how many times longer the first
// takes.
func ratio(b *testing.B, without, with func(context.Context) error) {
	var a, c time.Duration
	for b.Loop() {
		start := time.Now()
		ok(b, without(b.Context()))
		middle := time.Now()
		ok(b, with(b.Context()))
		a, c = a+middle.Sub(start), c+time.Since(middle)
	}
	b.ReportMetric(float64(a)/float64(c), "loop/tree")
	b.ReportMetric(float64(c.Microseconds())/float64(b.N), "µs/tree-op")
}
