package registry

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/tree"
)

func init() {
	add(Pattern{Package: "tree", Writes: treeRows(), Reads: treeReads(), Writings: treeWritings, Steps: treeSteps, Role: treeRole})
}

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
			e := category{Value: testkit.D("_id", n[0])}
			if n[1] != "" {
				e.Parent = &n[1]
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// empty is a tree without nodes.
func empty(s *Scene, rep tree.Representation, opts tree.Options) *categories {
	opts.Scope = s.Scope
	c := testkit.Must(tree.New[string, bson.D](s.Coll("nodes"), rep, &opts))
	s.OK(c.EnsureIndexes(s.Context()))
	return c
}

func forest(s *Scene, rep tree.Representation, opts tree.Options) *categories {
	c := empty(s, rep, opts)
	s.OK(testkit.ErrorOf(c.Load(s.Context(), catalog(parents), c.AsRoot(), nil)))
	return c
}

// plain are nodes that know their parents only.
func plain(s *Scene) {
	s.InsertEach("nodes", len(parents), func(i int) bson.D {
		parent := any(parents[i][1])
		if parent == "" {
			parent = nil
		}
		return testkit.D("_id", parents[i][0], "parent", parent)
	})
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
				out["nodes"] = append(out["nodes"], testkit.D("_id", n[0], "parent", parent, "left", position))
			}
		}
	}
	return out
}

// damage is, by representation, what somebody wrote into a node that is not so.
var damage = map[tree.Representation]bson.D{
	tree.ParentReferences: testkit.D("n", 9),
	tree.ChildReferences:  testkit.D("n", 9),
	tree.AncestorArray:    testkit.D("ancestors", bson.A{"Books"}),
	tree.MaterializedPath: testkit.D("path", ",Music,Databases,"),
	tree.NestedSets:       testkit.D("left", 1, "right", 2),
}

func treeRows() (out []Row) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		counted := tree.Options{ChildCountField: "n"}
		add := func(method string, opts tree.Options, do func(ctx context.Context, c *categories) error, repeated ...error) {
			what := "/" + rep.String()
			if opts.ChildCountField != "" {
				what += ", counted"
			}
			out = append(out, Row{"tree.Tree." + method + what, func(s *Scene) Call {
				c := forest(s, rep, opts)
				return Call{One: func(ctx context.Context) error { return do(ctx, c) }, Repeated: repeated, Aside: locks, Check: []mongopatterns.Checker{c}}
			}})
		}
		for _, opts := range []tree.Options{{}, counted} {
			add("Insert", opts, func(ctx context.Context, c *categories) error {
				return testkit.ErrorOf(c.Insert(ctx, testkit.D("_id", "Go"), c.Under("Languages")))
			}, mongopatterns.ErrExists)
			add("Move", opts, func(ctx context.Context, c *categories) error { return c.Move(ctx, "Databases", c.Under("Music")) })
			add("Delete", opts, func(ctx context.Context, c *categories) error {
				return testkit.ErrorOf(c.Delete(ctx, "Databases", mongopatterns.Cascade))
			}, mongopatterns.ErrNotFound)
		}
		for i, policy := range []mongopatterns.DeletePolicy{mongopatterns.Promote, mongopatterns.Unlink} {
			out = append(out, Row{"tree.Tree.Delete/" + rep.String() + ", " + []string{"Promote", "Unlink"}[i], func(s *Scene) Call {
				c := forest(s, rep, tree.Options{})
				return Call{One: func(ctx context.Context) error { return testkit.ErrorOf(c.Delete(ctx, "Databases", policy)) },
					Repeated: []error{mongopatterns.ErrNotFound}, Aside: locks, Check: []mongopatterns.Checker{c}}
			}})
		}
		out = append(out,
			Row{"tree.Tree.Insert/" + rep.String() + ", root", func(s *Scene) Call {
				c := forest(s, rep, tree.Options{})
				return Call{One: func(ctx context.Context) error {
					return testkit.ErrorOf(c.Insert(ctx, testkit.D("_id", "Films"), c.AsRoot()))
				},
					Repeated: []error{mongopatterns.ErrExists}, Aside: locks, Check: []mongopatterns.Checker{c}}
			}},
			Row{"tree.Tree.Move/" + rep.String() + ", root", func(s *Scene) Call {
				c := forest(s, rep, tree.Options{})
				return Call{One: func(ctx context.Context) error { return c.Move(ctx, "Programming", c.AsRoot()) }, Aside: locks, Check: []mongopatterns.Checker{c}}
			}},
			Row{"tree.Tree.FindOrInsert/" + rep.String(), func(s *Scene) Call {
				c := forest(s, rep, tree.Options{})
				return Call{One: func(ctx context.Context) error {
					return testkit.ErrorOf(c.FindOrInsert(ctx, []string{"Music", "Jazz", "Bebop"}, func(name string) (bson.D, error) { return testkit.D("_id", name), nil }))
				}, Aside: locks, Check: []mongopatterns.Checker{c}}
			}},
			Row{"tree.Tree.Load/" + rep.String(), func(s *Scene) Call {
				c := forest(s, rep, tree.Options{})
				more := [][2]string{{"Jazz", ""}, {"Bebop", "Jazz"}, {"Swing", "Jazz"}}
				return Call{Many: func(ctx context.Context) (mongopatterns.Result, error) {
					return c.Load(ctx, catalog(more), c.Under("Music"), &mongopatterns.Work{BatchSize: 2})
				}, Masks: numbers, Passing: map[string][]bson.D{"nodes": {testkit.D("_id", "Jazz", "children", bson.A{"Bebop"})}}, // the first batch
					Aside: locks, Check: []mongopatterns.Checker{c}}
			}},
			Row{"tree.Tree.Repair/" + rep.String(), func(s *Scene) Call {
				opts := tree.Options{}
				if slices.Contains([]tree.Representation{tree.ParentReferences, tree.ChildReferences}, rep) {
					opts.ChildCountField = "n"
				}
				c := forest(s, rep, opts)
				s.OK(testkit.ErrorOf(s.Coll("nodes").UpdateMany(s.Context(), testkit.D("_id", testkit.D("$in", bson.A{"MongoDB", "dbm"})), testkit.D("$set", damage[rep]))))
				return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Repair(ctx, small) }, Aside: locks, Check: []mongopatterns.Checker{c}}
			}},
		)
		if rep != tree.ParentReferences {
			out = append(out,
				Row{"tree.Tree.Adopt/" + rep.String(), func(s *Scene) Call {
					plain(s)
					c := empty(s, rep, tree.Options{})
					return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return c.Adopt(ctx, small) }, Aside: locks, Check: []mongopatterns.Checker{c}}
				}},
				Row{"tree.Convert/" + rep.String(), func(s *Scene) Call {
					from := forest(s, tree.ParentReferences, tree.Options{})
					to := empty(s, rep, tree.Options{})
					return Call{Upkeep: func(ctx context.Context) (mongopatterns.Result, error) { return tree.Convert(ctx, from, to, small) }, Passing: sorted(rep), Aside: locks, Check: []mongopatterns.Checker{from, to}}
				}},
			)
		}
	}
	graph := func(name string, prepare, do func(ctx context.Context, c *categories) error, repeated ...error) Row {
		return Row{name, func(s *Scene) Call {
			c := forest(s, tree.ChildReferences, tree.Options{Graph: true})
			if prepare != nil {
				s.OK(prepare(s.Context(), c))
			}
			return Call{One: func(ctx context.Context) error { return do(ctx, c) }, Repeated: repeated, Aside: locks, Check: []mongopatterns.Checker{c}}
		}}
	}
	link := func(ctx context.Context, c *categories) error { return c.Link(ctx, "Music", "MongoDB") }
	return append(out,
		Row{"tree.Tree.Rename", func(s *Scene) Call {
			c := testkit.Must(tree.New[string, bson.D](s.Coll("nodes"), tree.MaterializedPath, &tree.Options{SegmentField: "slug", Scope: testkit.D("tenant", "a")}))
			s.OK(c.EnsureIndexes(s.Context()))
			s.OK(testkit.ErrorOf(c.FindOrInsert(s.Context(), []string{"books", "programming", "databases"}, func(name string) (bson.D, error) {
				return testkit.D("_id", name, "slug", name), nil
			})))
			return Call{One: func(ctx context.Context) error { return c.Rename(ctx, "books", "livres") }, Aside: locks, Check: []mongopatterns.Checker{c}}
		}},
		graph("tree.Tree.Link", nil, link),
		graph("tree.Tree.Unlink", link, func(ctx context.Context, c *categories) error { return c.Unlink(ctx, "Music", "MongoDB") }, mongopatterns.ErrNotFound),
	)
}

func treeReads() (out []Row) {
	for _, rep := range []tree.Representation{tree.ParentReferences, tree.ChildReferences, tree.AncestorArray, tree.MaterializedPath, tree.NestedSets} {
		out = append(out, reads("tree.Tree", "/"+rep.String(), func(s *Scene) *categories { return forest(s, rep, tree.Options{}) }, map[string]func(context.Context, *categories) error{
			"Ancestors":  func(ctx context.Context, c *categories) error { return testkit.ErrorOf(c.Ancestors(ctx, "MongoDB")) },
			"Breadcrumb": func(ctx context.Context, c *categories) error { return testkit.ErrorOf(c.Breadcrumb(ctx, "MongoDB")) },
			"Children":   func(ctx context.Context, c *categories) error { return testkit.Drain(c.Children(ctx, "Books")) },
			"CountDescendants": func(ctx context.Context, c *categories) error {
				return testkit.ErrorOf(c.CountDescendants(ctx, "Books", 0))
			},
			"Descendants": func(ctx context.Context, c *categories) error { return testkit.Drain(c.Descendants(ctx, "Books", 0)) },
			"Dump":        func(ctx context.Context, c *categories) error { return testkit.Drain(c.Dump(ctx)) },
			"Forest":      func(ctx context.Context, c *categories) error { return testkit.ErrorOf(c.Forest(ctx)) },
			"IsDescendant": func(ctx context.Context, c *categories) error {
				return testkit.ErrorOf(c.IsDescendant(ctx, "MongoDB", "Books"))
			},
			"Leaves":   func(ctx context.Context, c *categories) error { return testkit.Drain(c.Leaves(ctx)) },
			"Parent":   func(ctx context.Context, c *categories) error { return testkit.ErrorOf(c.Parent(ctx, "MongoDB")) },
			"Parents":  func(ctx context.Context, c *categories) error { return testkit.Drain(c.Parents(ctx, "MongoDB")) },
			"Preorder": func(ctx context.Context, c *categories) error { return testkit.Drain(c.Preorder(ctx, "Books", 0)) },
			"Roots":    func(ctx context.Context, c *categories) error { return testkit.Drain(c.Roots(ctx)) },
			"Siblings": func(ctx context.Context, c *categories) error { return testkit.Drain(c.Siblings(ctx, "MongoDB")) },
			"Subtree":  func(ctx context.Context, c *categories) error { return testkit.ErrorOf(c.Subtree(ctx, "Books", 0)) },
			"Check":    func(ctx context.Context, c *categories) error { return checked(c)(ctx) },
		})...)
		out = append(out, filterRows(rep)...)
	}
	for i, row := range out {
		out[i].Start = func(s *Scene) Call {
			c := row.Start(s)
			c.Aside = locks
			return c
		}
	}
	return out
}

func treeWritings(s *Scene) (out []Writing) {
	ctx := s.Context()
	representations := []tree.Representation{tree.AncestorArray, tree.NestedSets}
	if scale.Whole() {
		representations = append(representations, tree.ParentReferences, tree.ChildReferences, tree.MaterializedPath)
	}
	for _, rep := range representations {
		coll := "nodes " + strings.ReplaceAll(rep.String(), " ", "")
		c := testkit.Must(tree.New[int, bson.D](s.Coll(coll), rep, nil))
		s.OK(c.EnsureIndexes(ctx))
		for e := range Entities {
			s.OK(testkit.ErrorOf(c.Insert(ctx, testkit.D("_id", -1-e), c.AsRoot())))
		}
		below := func(t *testing.T, e int) []int {
			return collected(t, c.Descendants(ctx, -1-e, 0), func(d bson.D) int { return int(d[0].Value.(int32)) })
		}
		out = append(out, Writing{"tree.Insert and Move, " + rep.String(), sharders(c), func(ctx context.Context, e, n int) error {
			if _, err := c.Insert(ctx, testkit.D("_id", n), c.Under(-1-(e+1)%Entities)); err != nil {
				return err
			}
			return c.Move(ctx, n, c.Under(-1-e))
		}, below})
	}
	return out
}

// filterRows are the tree's filters, each read with the driver.
func filterRows(rep tree.Representation) (out []Row) {
	for name, filter := range map[string]func(ctx context.Context, c *categories) (bson.D, error){
		"Filter":            func(_ context.Context, c *categories) (bson.D, error) { return c.Filter("Books"), nil },
		"RootsFilter":       func(ctx context.Context, c *categories) (bson.D, error) { return c.RootsFilter(ctx) },
		"ChildrenFilter":    func(ctx context.Context, c *categories) (bson.D, error) { return c.ChildrenFilter(ctx, "Books") },
		"AncestorsFilter":   func(ctx context.Context, c *categories) (bson.D, error) { return c.AncestorsFilter(ctx, "MongoDB") },
		"DescendantsFilter": func(ctx context.Context, c *categories) (bson.D, error) { return c.DescendantsFilter(ctx, "Books", 0) },
	} {
		out = append(out, Row{"tree.Tree." + name + "/" + rep.String(), func(s *Scene) Call {
			c := forest(s, rep, tree.Options{})
			return Call{Shards: sharders(c), One: func(ctx context.Context) error {
				match, err := filter(ctx, c)
				if err != nil {
					return err
				}
				cursor, err := s.Coll("nodes").Find(ctx, match)
				if err != nil {
					return err
				}
				return cursor.All(ctx, &[]bson.D{})
			}}
		}})
	}
	return out
}

func treeSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	c := testkit.Must(tree.New[int, bson.M](db.Collection("tree"), tree.AncestorArray, nil))
	testkit.OK(t, c.EnsureIndexes(t.Context()))
	step := func(ctx context.Context, n int) error {
		at := c.Under(n / 3)
		if n == 0 {
			at = c.AsRoot()
		}
		if err := done(testkit.ErrorOf(c.Insert(ctx, bson.M{"_id": n}, at))); err != nil || n%4 != 3 {
			return err
		}
		return c.Move(ctx, n, c.Under(n/2))
	}
	return step, func(t *testing.T, n int) {
		testkit.Healthy(t, c)
		for i := range n {
			parent := i / 3
			if i%4 == 3 {
				parent = i / 2
			}
			if node, err := c.Parent(t.Context(), i); i > 0 && (err != nil || fmt.Sprint(node["_id"]) != fmt.Sprint(parent)) {
				t.Errorf("%d lies under %v, not %d: %v", i, node, parent, err)
			}
		}
		if got := testkit.Must(c.CountDescendants(t.Context(), 0, 0)); got != int64(n-1) {
			t.Errorf("%d below the root of %d", got, n)
		}
	}
}

var treeRole = &Role{Open: treePlayer, Writes: []string{"parent_%", "ancestors_%"}}

func treePlayer(s *Side) (*Player, error) {
	parent := s.name("parent")
	c, err := tree.New[any, bson.M](s.Main, tree.AncestorArray, &tree.Options{ParentField: parent, AncestorsField: s.name("ancestors"), LockCollection: s.name("locks")})
	return opened(&Player{
		Adopt: func(ctx context.Context, ids []any) error {
			_, err := s.Main.UpdateMany(ctx, bson.D{}, testkit.D("$set", testkit.D(parent, nil)))
			if err == nil {
				err = testkit.ErrorOf(c.Adopt(ctx, nil))
			}
			return err
		},
		Leaf: true,
		// The last document goes under the first, and back, and in the end below the second.
		Step: func(ctx context.Context, ids []any, n int) error {
			if n%2 == 0 {
				return c.Move(ctx, ids[2], c.Under(ids[0]))
			}
			return c.Move(ctx, ids[2], c.Under(ids[1]))
		},
		Oracle: func(ctx context.Context, ids []any) error {
			if err := s.has(ctx, ids[2], parent, ids[1]); err != nil {
				return err
			}
			n, err := c.CountDescendants(ctx, ids[1], 0)
			if err != nil {
				return err
			}
			return same(n, 1)
		},
	}, c, err)
}
