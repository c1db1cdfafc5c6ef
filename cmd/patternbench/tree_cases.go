package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/tree"
)

var treeCases = []benchmark{
	{"tree", "ancestors", "The way up from a leaf: by representation, against a query for each parent.", treeAncestors},
	{"tree", "subtree", "All below a node: by representation, against a recursive query for each node.", treeSubtree},
	{"tree", "move", "A node moves with all below it: by representation, against saving one node after the other.", treeMove},
	{"tree", "insert", "A leaf comes under a parent: by representation, against a plain insert.", treeInsert},
}

// category is a node.
type category struct {
	ID   int64  `bson:"_id"`
	Name string `bson:"name"`
}

// plainCategory is what those store who do without the package.
type plainCategory struct {
	ID        int64   `bson:"_id"`
	Name      string  `bson:"name"`
	Parent    *int64  `bson:"parent"`
	Ancestors []int64 `bson:"ancestors"`
}

// The roots 1 and 2, and below one of them the node that is read and moved.
const rootA, rootB, top = 1, 2, 3

// treeEntries yields the two roots, and below the first one top with below nodes, five
// children each, and as many nodes beside it.
func treeEntries(below int) iter.Seq2[tree.Entry[int64, category], error] {
	return func(yield func(tree.Entry[int64, category], error) bool) {
		add := func(id, parent int64) bool {
			e := tree.Entry[int64, category]{Value: category{id, "Category " + strconv.FormatInt(id, 10)}}
			if parent > 0 {
				e.Parent = &parent
			}
			return yield(e, nil)
		}
		if !add(rootA, 0) || !add(rootB, 0) || !add(top, rootA) {
			return
		}
		for i := range int64(below) {
			if !add(nodeBelow(i), nodeBelow((i+5)/5-2)) {
				return
			}
		}
		other := int64(below) + top + 1
		if !add(other, rootA) {
			return
		}
		for i := range int64(below) {
			if !add(other+1+i, other+(i+5)/5-1) {
				return
			}
		}
	}
}

// nodeBelow is the i-th node below top, which itself is number -1.
func nodeBelow(i int64) int64 { return top + 1 + i }

// depthOf is how many ancestors the i-th node below top has.
func depthOf(i int64) int {
	depth := 1
	for ; i >= 0; i = (i+5)/5 - 2 {
		depth++
	}
	return depth
}

type grove struct {
	name string
	tree *tree.Tree[int64, category]
}

// planted has the same tree in all representations, and as parent references and arrays of ancestors
// without the package.
func planted(ctx context.Context, b *bench, below int) (plain *mongo.Collection, all []grove) {
	db := b.db()
	plain = db.Collection("plain")
	nodes := []plainCategory{}
	up := map[int64][]int64{}
	for entry := range treeEntries(below) {
		node := plainCategory{ID: entry.Value.ID, Name: entry.Value.Name, Parent: entry.Parent, Ancestors: []int64{}}
		if p := entry.Parent; p != nil {
			node.Ancestors = append(append(node.Ancestors, up[*p]...), *p)
		}
		up[node.ID] = node.Ancestors
		nodes = append(nodes, node)
	}
	check(fill(ctx, plain, len(nodes), func(i int) any { return nodes[i] }), index(ctx, plain, d("parent", 1)), index(ctx, plain, d("ancestors", 1)))
	for i, r := range []struct {
		name string
		as   tree.Representation
	}{
		{"ParentReferences", tree.ParentReferences}, {"ChildReferences", tree.ChildReferences}, {"AncestorArray", tree.AncestorArray},
		{"MaterializedPath", tree.MaterializedPath}, {"NestedSets", tree.NestedSets},
	} {
		t := must(tree.New[int64, category](db.Collection(r.name), r.as, nil))
		check(t.EnsureIndexes(ctx))
		must(t.Load(ctx, treeEntries(below), t.AsRoot(), nil))
		all = append(all, grove{r.name, t})
		b.progress(i+1, 5)
	}
	return plain, all
}

// descendants counts the nodes below a node.
func (g grove) descendants(ctx context.Context, id int64) (n int, err error) {
	err = each(g.tree.Descendants(ctx, id, 0), func(category) { n++ })
	return n, err
}

func treeAncestors(ctx context.Context, b *bench) []comparison {
	below := b.size(1000, 10_000, 10_000)
	plain, all := planted(ctx, b, below)
	leaves := make([]int64, 50)
	total := 0
	for i := range leaves {
		n := b.rand.Int64N(int64(below)/2+1) + int64(below)/2 - 1
		leaves[i] = nodeBelow(n)
		total += depthOf(n)
	}
	over := func(name string, count func(ctx context.Context, id int64) (int, error)) side {
		return side{name: name, run: func(ctx context.Context) error {
			have := 0
			for _, id := range leaves {
				n, err := count(ctx, id)
				if err != nil {
					return err
				}
				have += n
			}
			return want(have, total)
		}}
	}
	c := compared(fmt.Sprintf("ancestors in a tree of %s", number(float64(2*below))), len(leaves),
		over("a query for each parent", func(ctx context.Context, id int64) (int, error) {
			for n := 0; ; n++ {
				node, err := findOne[plainCategory](ctx, plain, d("_id", id))
				if err != nil || node.Parent == nil {
					return n, err
				}
				id = *node.Parent
			}
		}))
	for _, g := range all {
		c.sides = append(c.sides, over(g.name, func(ctx context.Context, id int64) (int, error) {
			nodes, err := g.tree.Ancestors(ctx, id)
			return len(nodes), err
		}))
	}
	return []comparison{c}
}

func treeSubtree(ctx context.Context, b *bench) []comparison {
	below := b.size(500, 10_000, 10_000)
	plain, all := planted(ctx, b, below)
	whole := func(name string, count func(ctx context.Context, id int64) (int, error)) side {
		return way(name, func(ctx context.Context, _ int) error {
			n, err := count(ctx, top)
			return cmp.Or(err, want(n, below))
		})
	}
	var recursive func(ctx context.Context, id int64) (int, error)
	recursive = func(ctx context.Context, id int64) (int, error) {
		nodes, err := findAll[plainCategory](ctx, -1, plain, d("parent", id))
		n := len(nodes)
		for _, node := range nodes {
			if err != nil {
				break
			}
			var more int
			more, err = recursive(ctx, node.ID)
			n += more
		}
		return n, err
	}
	c := compared(fmt.Sprintf("subtree of %s nodes", number(float64(below))), 1,
		whole("a query for each node", recursive),
		whole("a query for each level", func(ctx context.Context, id int64) (n int, err error) {
			for level := []int64{id}; len(level) > 0; {
				nodes, err := findAll[plainCategory](ctx, -1, plain, d("parent", d("$in", level)))
				if err != nil {
					return 0, err
				}
				level = nil
				for _, node := range nodes {
					level = append(level, node.ID)
				}
				n += len(nodes)
			}
			return n, nil
		}))
	for _, g := range all {
		c.sides = append(c.sides, whole(g.name, g.descendants))
	}
	c.runs = min(b.runs, 3)
	return []comparison{c}
}

func treeMove(ctx context.Context, b *bench) []comparison {
	below := b.size(500, 10_000, 10_000)
	plain, all := planted(ctx, b, below)
	// The node goes to the other root and at the next run back.
	at := map[string]int64{}
	there := func(name string) int64 {
		if at[name] == rootB {
			at[name] = rootA
		} else {
			at[name] = rootB
		}
		return at[name]
	}
	moves := compared(fmt.Sprintf("move of %s nodes", number(float64(below))), 1,
		way("ancestors saved one by one", func(ctx context.Context, _ int) error { return moveBySaving(ctx, plain, top, there("plain")) }))
	// Parent references say nothing of the nodes below, so by hand a move is one update.
	alone := compared("move of a node with a parent reference alone", 1,
		way("the parent set by hand", func(ctx context.Context, _ int) error {
			return errorOf(plain.UpdateOne(ctx, d("_id", top), d("$set", d("parent", there("by hand")))))
		}))
	for _, g := range all {
		to := &moves
		if g.name == "ParentReferences" {
			to = &alone
		}
		to.sides = append(to.sides, way(g.name, func(ctx context.Context, _ int) error {
			return g.tree.Move(ctx, top, g.tree.Under(there(g.name)))
		}))
	}
	moves.runs, alone.runs = min(b.runs, 3), min(b.runs, 3)
	alone.after = func(ctx context.Context) {
		for _, g := range all {
			if n := must(g.descendants(ctx, at[g.name])); n < below+1 {
				check(fmt.Errorf("%s: %d nodes have come along, not %d", g.name, n, below))
			}
		}
	}
	return []comparison{moves, alone}
}

// moveBySaving reads each node below and saves it with its new ancestors.
func moveBySaving(ctx context.Context, coll *mongo.Collection, id, parent int64) error {
	node, err := findOne[plainCategory](ctx, coll, d("_id", id))
	if err != nil {
		return err
	}
	under, err := findOne[plainCategory](ctx, coll, d("_id", parent))
	if err != nil {
		return err
	}
	above := len(node.Ancestors)
	up := append(under.Ancestors, parent)
	node.Parent, node.Ancestors = &parent, up
	nodes, err := findAll[plainCategory](ctx, -1, coll, d("ancestors", id))
	if err != nil {
		return err
	}
	for i := range nodes {
		nodes[i].Ancestors = append(append([]int64{}, up...), nodes[i].Ancestors[above:]...)
	}
	for _, n := range append(nodes, node) {
		if _, err := coll.ReplaceOne(ctx, bson.D{{Key: "_id", Value: n.ID}}, n); err != nil {
			return err
		}
	}
	return nil
}

func treeInsert(ctx context.Context, b *bench) []comparison {
	plain, all := planted(ctx, b, b.size(300, 10_000, 10_000))
	next := int64(1 << 32)
	id := func() int64 {
		next++
		return next
	}
	c := compared("a leaf", 10, way("plain insert", func(ctx context.Context, _ int) error {
		parent := int64(rootB)
		return errorOf(plain.InsertOne(ctx, plainCategory{id(), "New", &parent, []int64{parent}}))
	}))
	for _, g := range all {
		c.sides = append(c.sides, way(g.name, func(ctx context.Context, _ int) error {
			return errorOf(g.tree.Insert(ctx, category{id(), "New"}, g.tree.Under(rootB)))
		}))
	}
	return []comparison{c}
}
