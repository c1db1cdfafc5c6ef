package main

import (
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

// groves are the same tree in all representations.
func groves(ctx context.Context, b *bench, db *mongo.Database, below int) ([]grove, error) {
	all := []grove{}
	for i, r := range []struct {
		name string
		as   tree.Representation
	}{
		{"ParentReferences", tree.ParentReferences}, {"ChildReferences", tree.ChildReferences}, {"AncestorArray", tree.AncestorArray},
		{"MaterializedPath", tree.MaterializedPath}, {"NestedSets", tree.NestedSets},
	} {
		t, err := tree.New[int64, category](db.Collection(r.name), r.as, nil)
		if err != nil {
			return nil, err
		}
		if err := t.EnsureIndexes(ctx); err != nil {
			return nil, err
		}
		if _, err := t.Load(ctx, treeEntries(below), t.AsRoot(), nil); err != nil {
			return nil, fmt.Errorf("load %s: %w", r.name, err)
		}
		all = append(all, grove{r.name, t})
		b.progress(i+1, 5)
	}
	return all, nil
}

// plainGrove is the tree as parent references and arrays of ancestors without the
// package.
func plainGrove(ctx context.Context, db *mongo.Database, below int) (*mongo.Collection, error) {
	coll := db.Collection("plain")
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
	if err := fill(ctx, coll, len(nodes), func(i int) any { return nodes[i] }); err != nil {
		return nil, err
	}
	if err := index(ctx, coll, d("parent", 1)); err != nil {
		return nil, err
	}
	return coll, index(ctx, coll, d("ancestors", 1))
}

// planted has the tree in all forms.
func planted(ctx context.Context, b *bench, below int) (*mongo.Collection, []grove, error) {
	db := b.db()
	coll, err := plainGrove(ctx, db, below)
	if err != nil {
		return nil, nil, err
	}
	all, err := groves(ctx, b, db, below)
	return coll, all, err
}

func treeAncestors(ctx context.Context, b *bench) error {
	below := b.size(1000, 10_000, 10_000)
	coll, all, err := planted(ctx, b, below)
	if err != nil {
		return err
	}
	leaves := make([]int64, 50)
	want := 0
	for i := range leaves {
		n := b.rand.Int64N(int64(below)/2+1) + int64(below)/2 - 1
		leaves[i] = nodeBelow(n)
		want += depthOf(n)
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
			if have != want {
				return fmt.Errorf("%d ancestors, not %d", have, want)
			}
			return nil
		}}
	}
	sides := []side{over("a query for each parent", func(ctx context.Context, id int64) (int, error) {
		for n := -1; ; n++ {
			var node plainCategory
			if err := coll.FindOne(ctx, d("_id", id)).Decode(&node); err != nil {
				return 0, err
			}
			if node.Parent == nil {
				return n + 1, nil
			}
			id = *node.Parent
		}
	})}
	for _, g := range all {
		sides = append(sides, over(g.name, func(ctx context.Context, id int64) (int, error) {
			nodes, err := g.tree.Ancestors(ctx, id)
			return len(nodes), err
		}))
	}
	return b.measure(ctx, fmt.Sprintf("ancestors in a tree of %s", number(float64(2*below))), len(leaves), sides[0], sides[1:]...)
}

func treeSubtree(ctx context.Context, b *bench) error {
	below := b.size(500, 10_000, 10_000)
	coll, all, err := planted(ctx, b, below)
	if err != nil {
		return err
	}
	whole := func(name string, count func(ctx context.Context) (int, error)) side {
		return side{name: name, run: func(ctx context.Context) error {
			n, err := count(ctx)
			if err == nil && n != below {
				err = fmt.Errorf("%d nodes, not %d", n, below)
			}
			return err
		}}
	}
	children := func(ctx context.Context, filter any) ([]plainCategory, error) {
		cursor, err := coll.Find(ctx, filter)
		if err != nil {
			return nil, err
		}
		var nodes []plainCategory
		return nodes, cursor.All(ctx, &nodes)
	}
	var recursive func(ctx context.Context, id int64) (int, error)
	recursive = func(ctx context.Context, id int64) (int, error) {
		nodes, err := children(ctx, d("parent", id))
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
	sides := []side{
		whole("a query for each node", func(ctx context.Context) (int, error) { return recursive(ctx, top) }),
		whole("a query for each level", func(ctx context.Context) (int, error) {
			n := 0
			for level := []int64{top}; len(level) > 0; {
				nodes, err := children(ctx, d("parent", d("$in", level)))
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
		}),
	}
	for _, g := range all {
		sides = append(sides, whole(g.name, func(ctx context.Context) (int, error) {
			n := 0
			err := each(g.tree.Descendants(ctx, top, 0), func(category) { n++ })
			return n, err
		}))
	}
	b.runs = min(b.runs, 3)
	return b.measure(ctx, fmt.Sprintf("subtree of %s nodes", number(float64(below))), 1, sides[0], sides[1:]...)
}

func treeMove(ctx context.Context, b *bench) error {
	below := b.size(500, 10_000, 10_000)
	coll, all, err := planted(ctx, b, below)
	if err != nil {
		return err
	}
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
	sides := []side{{name: "saves one by one", run: func(ctx context.Context) error {
		return moveBySaving(ctx, coll, top, there("plain"))
	}}}
	for _, g := range all {
		sides = append(sides, side{name: g.name, run: func(ctx context.Context) error {
			return g.tree.Move(ctx, top, g.tree.Under(there(g.name)))
		}})
	}
	b.runs = min(b.runs, 3)
	if err := b.measure(ctx, fmt.Sprintf("move of %s nodes", number(float64(below))), 1, sides[0], sides[1:]...); err != nil {
		return err
	}
	for _, g := range all {
		n := 0
		if err := each(g.tree.Descendants(ctx, at[g.name], 0), func(category) { n++ }); err != nil {
			return err
		}
		if n < below+1 {
			return fmt.Errorf("%s: %d nodes have come along, not %d", g.name, n, below)
		}
	}
	return nil
}

// moveBySaving reads each node below and saves it with its new ancestors.
func moveBySaving(ctx context.Context, coll *mongo.Collection, id, parent int64) error {
	var node, under plainCategory
	if err := coll.FindOne(ctx, d("_id", id)).Decode(&node); err != nil {
		return err
	}
	if err := coll.FindOne(ctx, d("_id", parent)).Decode(&under); err != nil {
		return err
	}
	above := len(node.Ancestors)
	up := append(under.Ancestors, parent)
	node.Parent, node.Ancestors = &parent, up
	cursor, err := coll.Find(ctx, d("ancestors", id))
	if err != nil {
		return err
	}
	var nodes []plainCategory
	if err := cursor.All(ctx, &nodes); err != nil {
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

func treeInsert(ctx context.Context, b *bench) error {
	coll, all, err := planted(ctx, b, b.size(300, 10_000, 10_000))
	if err != nil {
		return err
	}
	const ops = 10
	next := int64(1 << 32)
	sides := []side{{name: "plain insert", run: func(ctx context.Context) error {
		for range ops {
			next++
			parent := int64(rootB)
			if _, err := coll.InsertOne(ctx, plainCategory{next, "New", &parent, []int64{parent}}); err != nil {
				return err
			}
		}
		return nil
	}}}
	for _, g := range all {
		sides = append(sides, side{name: g.name, run: func(ctx context.Context) error {
			for range ops {
				next++
				if _, err := g.tree.Insert(ctx, category{next, "New"}, g.tree.Under(rootB)); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return b.measure(ctx, "a leaf", ops, sides[0], sides[1:]...)
}
