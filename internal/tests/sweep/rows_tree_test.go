package sweep

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/tree"
)

type (
	categories = tree.Tree[string, bson.D]
	category   = tree.Entry[string, bson.D]
)

// parents are the categories and their parents, roots without.
var parents = [][2]string{
	{"Books", ""}, {"Music", ""}, {"Programming", "Books"}, {"Databases", "Programming"}, {"Languages", "Programming"},
	{"MongoDB", "Databases"}, {"dbm", "Databases"},
}

func catalog(nodes [][2]string) iter.Seq2[category, error] {
	return func(yield func(category, error) bool) {
		for _, n := range nodes {
			e := category{Value: doc("_id", n[0])}
			if n[1] != "" {
				e.Parent = &n[1]
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func forest(s *scene, rep tree.Representation, opts *tree.Options) *categories {
	c := testkit.Must(tree.New[string, bson.D](s.coll("nodes"), rep, opts))
	s.ok(c.EnsureIndexes(s.Context()))
	s.ok(void(c.Load(s.Context(), catalog(parents), c.AsRoot(), nil)))
	return c
}

// plain are nodes that know their parents only.
func plain(s *scene) {
	for _, n := range parents {
		parent := any(n[1])
		if n[1] == "" {
			parent = nil
		}
		s.insert("nodes", doc("_id", n[0], "parent", parent))
	}
}

// locks has a counter that each try raises.
var locks = []string{"nodes_locks"}

// numbers get nodes last, all at once; Check looks at them.
var numbers = []string{"left", "right"}

// sorted are the nodes on their way to nested sets, which get a position among their siblings
// first.
func sorted(rep tree.Representation) map[string][]bson.D {
	out := map[string][]bson.D{}
	for _, n := range parents {
		for _, position := range []int64{0, 65536} {
			parent := any(n[1])
			if n[1] == "" {
				parent = nil
			}
			if rep == tree.NestedSets {
				out["nodes"] = append(out["nodes"], doc("_id", n[0], "parent", parent, "left", position))
			}
		}
	}
	return out
}

// damage is, by representation, what somebody wrote into a node that is not so.
var damage = map[tree.Representation]bson.D{
	tree.ParentReferences: doc("n", 9),
	tree.ChildReferences:  doc("n", 9),
	tree.AncestorArray:    doc("ancestors", bson.A{"Books"}),
	tree.MaterializedPath: doc("path", ",Music,Databases,"),
	tree.NestedSets:       doc("left", 1, "right", 2),
}

func treeRows() (out []row) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		counted := &tree.Options{ChildCountField: "n"}
		add := func(method string, opts *tree.Options, do func(ctx context.Context, c *categories) error, repeated ...error) {
			what := "/" + rep.String()
			if opts != nil {
				what += ", counted"
			}
			out = append(out, row{"tree.Tree." + method + what, func(s *scene) call {
				c := forest(s, rep, opts)
				return call{one: func(ctx context.Context) error { return do(ctx, c) }, repeated: repeated, aside: locks, check: []mongopatterns.Checker{c}}
			}})
		}
		for _, opts := range []*tree.Options{nil, counted} {
			add("Insert", opts, func(ctx context.Context, c *categories) error {
				return void(c.Insert(ctx, doc("_id", "Go"), c.Under("Languages")))
			}, mongopatterns.ErrExists)
			add("Move", opts, func(ctx context.Context, c *categories) error { return c.Move(ctx, "Databases", c.Under("Music")) })
			add("Delete", opts, func(ctx context.Context, c *categories) error {
				return void(c.Delete(ctx, "Databases", mongopatterns.Cascade))
			}, mongopatterns.ErrNotFound)
		}
		for name, policy := range map[string]mongopatterns.DeletePolicy{"Promote": mongopatterns.Promote, "Unlink": mongopatterns.Unlink} {
			out = append(out, row{"tree.Tree.Delete/" + rep.String() + ", " + name, func(s *scene) call {
				c := forest(s, rep, nil)
				return call{one: func(ctx context.Context) error { return void(c.Delete(ctx, "Databases", policy)) },
					repeated: []error{mongopatterns.ErrNotFound}, aside: locks, check: []mongopatterns.Checker{c}}
			}})
		}
		out = append(out,
			row{"tree.Tree.Insert/" + rep.String() + ", root", func(s *scene) call {
				c := forest(s, rep, nil)
				return call{one: func(ctx context.Context) error { return void(c.Insert(ctx, doc("_id", "Films"), c.AsRoot())) },
					repeated: []error{mongopatterns.ErrExists}, aside: locks, check: []mongopatterns.Checker{c}}
			}},
			row{"tree.Tree.Move/" + rep.String() + ", root", func(s *scene) call {
				c := forest(s, rep, nil)
				return call{one: func(ctx context.Context) error { return c.Move(ctx, "Programming", c.AsRoot()) }, aside: locks, check: []mongopatterns.Checker{c}}
			}},
			row{"tree.Tree.FindOrInsert/" + rep.String(), func(s *scene) call {
				c := forest(s, rep, nil)
				return call{one: func(ctx context.Context) error {
					return void(c.FindOrInsert(ctx, []string{"Music", "Jazz", "Bebop"}, func(name string) (bson.D, error) { return doc("_id", name), nil }))
				}, aside: locks, check: []mongopatterns.Checker{c}}
			}},
			row{"tree.Tree.Load/" + rep.String(), func(s *scene) call {
				c := forest(s, rep, nil)
				more := [][2]string{{"Jazz", ""}, {"Bebop", "Jazz"}, {"Swing", "Jazz"}}
				return call{many: func(ctx context.Context) (mongopatterns.Result, error) {
					return c.Load(ctx, catalog(more), c.Under("Music"), &mongopatterns.Work{BatchSize: 2})
				}, masks: numbers, passing: map[string][]bson.D{"nodes": {doc("_id", "Jazz", "children", bson.A{"Bebop"})}}, // the first batch
					aside: locks, check: []mongopatterns.Checker{c}}
			}},
			row{"tree.Tree.Repair/" + rep.String(), func(s *scene) call {
				opts := &tree.Options{}
				if slices.Contains([]tree.Representation{tree.ParentReferences, tree.ChildReferences}, rep) {
					opts.ChildCountField = "n"
				}
				c := forest(s, rep, opts)
				s.ok(void(s.coll("nodes").UpdateMany(s.Context(), doc("_id", doc("$in", bson.A{"MongoDB", "dbm"})), doc("$set", damage[rep]))))
				return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Repair(ctx, small) }, aside: locks, check: []mongopatterns.Checker{c}}
			}},
		)
		if rep != tree.ParentReferences {
			out = append(out,
				row{"tree.Tree.Adopt/" + rep.String(), func(s *scene) call {
					plain(s)
					c := testkit.Must(tree.New[string, bson.D](s.coll("nodes"), rep, nil))
					s.ok(c.EnsureIndexes(s.Context()))
					return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Adopt(ctx, small) }, aside: locks, check: []mongopatterns.Checker{c}}
				}},
				row{"tree.Convert/" + rep.String(), func(s *scene) call {
					from := forest(s, tree.ParentReferences, nil)
					to := testkit.Must(tree.New[string, bson.D](s.coll("nodes"), rep, nil))
					s.ok(to.EnsureIndexes(s.Context()))
					return call{upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return tree.Convert(ctx, from, to, small) }, passing: sorted(rep), aside: locks, check: []mongopatterns.Checker{from, to}}
				}},
			)
		}
	}
	graph := func(name string, prepare, do func(ctx context.Context, c *categories) error, repeated ...error) row {
		return row{name, func(s *scene) call {
			c := forest(s, tree.ChildReferences, &tree.Options{Graph: true})
			if prepare != nil {
				s.ok(prepare(s.Context(), c))
			}
			return call{one: func(ctx context.Context) error { return do(ctx, c) }, repeated: repeated, aside: locks, check: []mongopatterns.Checker{c}}
		}}
	}
	link := func(ctx context.Context, c *categories) error { return c.Link(ctx, "Music", "MongoDB") }
	return append(out,
		row{"tree.Tree.Rename", func(s *scene) call {
			c := testkit.Must(tree.New[string, bson.D](s.coll("nodes"), tree.MaterializedPath, &tree.Options{SegmentField: "slug", Scope: doc("tenant", "a")}))
			s.ok(c.EnsureIndexes(s.Context()))
			s.ok(void(c.FindOrInsert(s.Context(), []string{"books", "programming", "databases"}, func(name string) (bson.D, error) {
				return doc("_id", name, "slug", name), nil
			})))
			return call{one: func(ctx context.Context) error { return c.Rename(ctx, "books", "livres") }, aside: locks, check: []mongopatterns.Checker{c}}
		}},
		graph("tree.Tree.Link", nil, link),
		graph("tree.Tree.Unlink", link, func(ctx context.Context, c *categories) error { return c.Unlink(ctx, "Music", "MongoDB") }, mongopatterns.ErrNotFound),
	)
}
