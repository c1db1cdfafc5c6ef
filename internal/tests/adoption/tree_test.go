//go:build unix

package adoption_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/tree"
)

func openTree(rep tree.Representation, opts *tree.Options) func(db *mongo.Database) (helper, error) {
	return func(db *mongo.Database) (helper, error) {
		c, err := tree.New[bson.ObjectID, bson.M](db.Collection("categories"), rep, opts)
		if err != nil {
			return helper{}, err
		}
		return helper{ensure: c.EnsureIndexes, adopt: c.Adopt, check: c.Check, repair: c.Repair, value: c}, nil
	}
}

// startTree has nodes in levels, so that no move makes a cycle: a parent is of a higher level.
// Ancestors and numbers take moves and whole documents of old code.
func startTree(rep tree.Representation) func(w *world) service {
	return func(w *world) service {
		moves := rep == tree.AncestorArray || rep == tree.NestedSets
		tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
		m := &model{coll: w.db.Collection("categories")}
		level := func(r *record) int { return r.tags["level"].(int) }
		parent := func(r *record) any { return r.doc["parent"] }

		byID := map[any]*record{}
		c := newClient('S', time30)
		for i := range 80 {
			id, lvl := c.id(), i/20
			doc := bson.M{"_id": id, "name": c.text(), "parent": nil}
			if i >= 4 {
				above := m.all[c.IntN(max(1, min(i, lvl*20)))]
				for lvl > 0 && level(above) >= lvl {
					above = m.all[c.IntN(i)]
				}
				if lvl > 0 {
					doc["parent"] = above.id
				}
			}
			if doc["parent"] == nil && i%2 == 0 {
				delete(doc, "parent") // a root has null, or nothing
			}
			m.seed(w, doc)
			byID[id] = m.all[i]
			m.all[i].tags["level"] = lvl
		}

		// under holds a node that may get children, which nobody deletes meanwhile.
		under := func(c *client, below int, not *record) (*record, func(), error) {
			return m.share(c, func(r *record) bool { return alive(r) && r != not && level(r) < below && r.tags["aside"] == nil })
		}
		// leaf says whether a node that is held exclusively has no children: those that insert
		// or move below it hold it, too.
		leaf := func(r *record) bool {
			for _, other := range m.all {
				if other.doc != nil && other.doc["parent"] == r.id {
					return false
				}
			}
			return alive(r) && r.tags["aside"] == nil
		}
		add := func(doc bson.M, lvl int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			r := &record{id: doc["_id"], doc: normal(doc).(bson.M), tags: map[string]any{"level": lvl}}
			m.all = append(m.all, r)
			byID[r.id] = r
		}
		place := func(c *client, do func(above *record) error) error {
			if c.IntN(10) == 0 {
				return do(nil)
			}
			above, release, err := under(c, 8, nil)
			if err != nil {
				return err
			}
			defer release()
			return do(above)
		}
		below := func(r *record) (id any, lvl int) {
			if r == nil {
				return nil, 0
			}
			return r.id, level(r) + 1
		}
		insert := op{"insert", func(ctx context.Context, c *client) error {
			return place(c, func(above *record) error {
				id, lvl := below(above)
				doc := bson.M{"_id": c.id(), "name": c.text(), "parent": id}
				if _, err := m.coll.InsertOne(ctx, doc); err != nil {
					return err
				}
				add(doc, lvl)
				return nil
			})
		}}
		// from holds the parent of a node that goes, so that nobody asks meanwhile whether it has
		// children.
		from := func(r *record, do func() error) error {
			m.mu.Lock()
			p := byID[parent(r)]
			m.mu.Unlock()
			if p == nil {
				return do()
			}
			if !p.lock.TryRLock() {
				return errNothing
			}
			defer p.lock.RUnlock()
			return do()
		}
		remove := m.write("delete", leaf, func(ctx context.Context, _ *client, r *record) error {
			return from(r, func() error { return m.remove(ctx, r) })
		})
		again := m.write("insert again", func(r *record) bool { return r.doc == nil }, func(ctx context.Context, c *client, r *record) error {
			if level(r) == 0 {
				return m.revive(ctx, r, bson.M{"name": c.text(), "parent": nil})
			}
			above, release, err := under(c, level(r), r)
			if err != nil {
				return err
			}
			defer release()
			return m.revive(ctx, r, bson.M{"name": c.text(), "parent": above.id})
		})
		inner := func(r *record) bool { return alive(r) && level(r) > 0 && r.tags["aside"] == nil }
		move := m.write("move", inner, func(ctx context.Context, c *client, r *record) error {
			above, release, err := under(c, level(r), r)
			if err != nil {
				return err
			}
			defer release()
			return from(r, func() error { return m.update(ctx, r, d("$set", d("parent", above.id))) })
		})
		replace := m.rewritten("replace", alive, func(c *client, r *record) bson.D { return d("$set", d("name", c.text())) })
		old := join(m.own(), []op{insert, insert, insert, remove, again})
		if moves {
			old = append(old, move, replace, m.write("replace by a new document", leaf, func(ctx context.Context, c *client, r *record) error {
				return m.replace(ctx, r, bson.M{"name": c.text(), "parent": parent(r)})
			}))
		}

		at := func(above *record) tree.Position[bson.ObjectID] {
			if above == nil {
				return tr.AsRoot()
			}
			return tr.Under(above.id.(bson.ObjectID))
		}
		// refusable is an operation that the page lets be refused.
		refusable := func(o op) op {
			return op{o.name, func(ctx context.Context, c *client) error {
				err := o.do(ctx, c)
				if errors.Is(err, mongopatterns.ErrNotAdopted) {
					w.count("refused: not adopted yet")
					return errNothing
				}
				if err != nil && moves && (strings.Contains(err.Error(), "run Adopt or Repair") || strings.Contains(err.Error(), "run Repair")) {
					w.count("refused: moved by old code")
					return errNothing
				}
				return err
			}}
		}
		fresh := []op{
			{"Insert", func(ctx context.Context, c *client) error {
				return place(c, func(above *record) error {
					id, lvl := below(above)
					doc := bson.M{"_id": c.id(), "name": c.text()}
					if _, err := tr.Insert(ctx, doc, at(above)); err != nil {
						return err
					}
					doc["parent"] = id
					add(doc, lvl)
					return nil
				})
			}},
			m.write("Move", inner, func(ctx context.Context, c *client, r *record) error {
				above, release, err := under(c, level(r), r)
				if err != nil {
					return err
				}
				defer release()
				return from(r, func() error {
					if err := tr.Move(ctx, r.id.(bson.ObjectID), at(above)); err != nil {
						return err
					}
					m.follow(r, d("$set", d("parent", above.id)))
					return nil
				})
			}),
			m.write("Delete", func(r *record) bool { return alive(r) && r.tags["aside"] == nil }, func(ctx context.Context, c *client, r *record) error {
				return from(r, func() error {
					m.mu.Lock()
					bare := leaf(r)
					m.mu.Unlock()
					_, err := tr.Delete(ctx, r.id.(bson.ObjectID), mongopatterns.Restrict)
					if bare && !moves && errors.Is(err, mongopatterns.ErrReferenced) && len(w.stored(w.t, "categories", r.id)["children"].(bson.A)) > 0 {
						w.count("refused: it lists children that old code has deleted")
						return errNothing
					}
					if !bare && errors.Is(err, mongopatterns.ErrReferenced) {
						return nil
					}
					if err == nil && !bare {
						return fmt.Errorf("%v was deleted, though it has children", r.id)
					}
					if err == nil {
						m.set(r, nil)
					}
					return err
				})
			}),
		}

		for i := range fresh {
			fresh[i] = refusable(fresh[i])
		}

		oracle := func(t *testing.T) {
			children := map[any][]any{}
			stored := read(t, m.coll)
			for _, r := range m.living() {
				children[parent(r)] = append(children[parent(r)], r.id)
			}
			idsOf := func(list []any) map[any]bool {
				out := map[any]bool{}
				for _, id := range list {
					out[fmt.Sprint(id)] = true
				}
				return out
			}
			collect := func(seq func(func(bson.M, error) bool)) map[any]bool {
				out := map[any]bool{}
				for doc, err := range seq {
					testkit.OK(t, err)
					if id := fmt.Sprint(doc["_id"]); out[id] {
						differ(t, "%s comes twice", id)
					} else {
						out[id] = true
					}
				}
				return out
			}
			if have, want := collect(tr.Roots(t.Context())), idsOf(children[nil]); !maps.Equal(have, want) {
				differ(t, "%d roots, want %d", len(have), len(want))
			}
			for _, r := range m.living() {
				id, name := r.id.(bson.ObjectID), fmt.Sprint(r.id)
				var want []string
				for p := r; p != nil; p = byID[parent(p)] {
					want = append(want, fmt.Sprint(p.id))
				}
				slices.Reverse(want)
				var way []string
				for _, crumb := range got(tr.Breadcrumb(t.Context(), id))(t) {
					way = append(way, fmt.Sprint(crumb.ID))
				}
				if !slices.Equal(way, want) {
					differ(t, "%s: breadcrumb %v, want %v\n%s", name, way, want, strings.Join(r.did, "\n"))
				}
				if have := stored[name]["parent"]; have != parent(r) && stored[name]["left"] != nil {
					differ(t, "%s: parent %v, want %v: %v\n%s", name, have, parent(r), stored[name], strings.Join(r.did, "\n"))
				}
				if have, want := collect(tr.Children(t.Context(), id)), idsOf(children[r.id]); !maps.Equal(have, want) {
					differ(t, "%s: children %v, want %v", name, have, want)
				}
				if parent(r) == nil || r.tags["level"] == 1 {
					all := []any{}
					for next := []any{r.id}; len(next) > 0; next = next[1:] {
						all, next = append(all, children[next[0]]...), append(next, children[next[0]]...)
					}
					if have, want := collect(tr.Descendants(t.Context(), id, 0)), idsOf(all); !maps.Equal(have, want) {
						differ(t, "%s: %d descendants, want %d", name, len(have), len(want))
					}
				}
				derived := []string{"parent", "ancestors", "path", "children", "left", "right"}
				same(t, name, without(stored[name], derived...), without(r.doc, "parent"))
				delete(stored, name)
			}
			if len(stored) > 0 {
				t.Errorf("%d nodes that nobody stored: %v", len(stored), stored)
			}
		}
		return service{old: old, fresh: fresh, oracle: oracle}
	}
}

// family is two roots, a and b, and x below a, after Adopt.
func family(t *testing.T, w *world) (a, b, x bson.ObjectID) {
	t.Helper()
	a, b, x = bson.NewObjectID(), bson.NewObjectID(), bson.NewObjectID()
	w.insert(t, "categories", d("_id", a, "parent", nil))
	w.insert(t, "categories", d("_id", b))
	w.insert(t, "categories", d("_id", x, "parent", a))
	w.clean(t)
	return a, b, x
}

var treeOrphan = sentence{"delete a node that has children. Check reports the children as orphans. In a tree with lists of children they become roots", func(t *testing.T, w *world) {
	a, _, x := family(t, w)
	list := w.stored(t, "categories", a)["children"] != nil
	w.remove(t, "categories", a)
	result, problems := w.again(t)
	if list {
		tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
		if p, err := tr.Parent(t.Context(), x); !errors.Is(err, tree.ErrIsRoot) || len(problems) > 0 {
			t.Errorf("%v, %v", p, problems)
		}
	} else {
		named(t, problems, mongopatterns.Orphan, x)
		if result.Remaining == 0 {
			t.Errorf("%+v", result)
		}
	}
	w.remove(t, "categories", x)
}}

// below reads what a second Adopt has derived for nodes that old code has inserted.
func below(t *testing.T, w *world) {
	tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
	a, b, x := family(t, w)
	if crumbs := got(tr.Breadcrumb(t.Context(), x))(t); len(crumbs) != 2 || crumbs[0].ID != a || crumbs[1].ID != x {
		t.Errorf("%v", crumbs)
	}
	if _, err := tr.Parent(t.Context(), b); !errors.Is(err, tree.ErrIsRoot) {
		t.Error(err)
	}
}

// insertedAgain is the parent of a node that was deleted and inserted again under another, after Adopt.
func insertedAgain(t *testing.T, w *world, id, under bson.ObjectID) any {
	t.Helper()
	w.remove(t, "categories", id)
	w.insert(t, "categories", d("_id", id, "parent", under))
	w.clean(t)
	return got(w.h.value.(*tree.Tree[bson.ObjectID, bson.M]).Parent(t.Context(), id))(t)["_id"]
}

var treeAny = []sentence{
	{"Adopt adds ancestors, paths, children or numbers to nodes that name their parent", below},
	{"insert nodes with their parent, delete leaves, and insert these again", func(t *testing.T, w *world) {
		meanwhile("insert", "delete")(t, w)
		a, b, x := family(t, w)
		for _, under := range []bson.ObjectID{a, b} {
			if above := insertedAgain(t, w, x, under); above != under {
				t.Errorf("under %v, not %v", above, under)
			}
		}
	}},
	{"The second Adopt and Repair derive from the parent what is missing or out of date", below},
	// They may: the harness takes the refusal of new code's operations there, and of no others (refusable).
	{"Until Repair, calls may refuse a node that old code has moved or whose children it has deleted, and in a tree with numbers also nodes beside it", meanwhile("delete")},
	{"Until then a new node is not a root, and calls that write under it, move it or delete it return `ErrNotAdopted`", func(t *testing.T, w *world) {
		tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
		a, _, x := family(t, w)
		late := bson.NewObjectID()
		w.insert(t, "categories", d("_id", late, "parent", x))
		for doc, err := range tr.Roots(t.Context()) {
			testkit.OK(t, err)
			if doc["_id"] == late {
				t.Errorf("%v is a root", doc)
			}
		}
		_, insert := tr.Insert(t.Context(), bson.M{"_id": bson.NewObjectID()}, tr.Under(late))
		move := tr.Move(t.Context(), late, tr.Under(a))
		_, remove := tr.Delete(t.Context(), late, mongopatterns.Restrict)
		for what, err := range map[string]error{"Insert": insert, "Move": move, "Delete": remove} {
			if !errors.Is(err, mongopatterns.ErrNotAdopted) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := tr.Delete(t.Context(), x, mongopatterns.Restrict); err == nil {
			t.Error("a node with a child that is not adopted was deleted")
		}
		w.clean(t)
		if p := got(tr.Parent(t.Context(), late))(t); p["_id"] != x {
			t.Errorf("%v", p)
		}
		testkit.OK(t, tr.Move(t.Context(), late, tr.Under(a)))
	}},
	treeOrphan,
}

var treeMoves = append([]sentence{{"move nodes and write whole documents, in a tree with ancestors or numbers", func(t *testing.T, w *world) {
	// A node that Adopt has met as the parent of another one moves before its own batch.
	var ids [4]bson.ObjectID
	for i := range ids {
		ids[i] = bson.NewObjectIDFromTimestamp(time.Unix(int64(1_800_000_000+i), 0))
	}
	below, a, b, x := ids[0], ids[1], ids[2], ids[3]
	w.insert(t, "categories", d("_id", below, "parent", x))
	w.insert(t, "categories", d("_id", a, "parent", nil))
	w.insert(t, "categories", d("_id", b, "parent", nil))
	w.insert(t, "categories", d("_id", x, "parent", a))
	moved := false
	work := &mongopatterns.Work{BatchSize: 1, Filter: d("_id", d("$gte", below)), Progress: func(mongopatterns.Result) {
		if !moved {
			moved = w.update(t, "categories", d("_id", x), d("$set", d("parent", b)))
		}
	}}
	got(w.adopt(t.Context(), work))(t)
	w.again(t)
	w.repaired(t)
	if p := w.stored(t, "categories", x)["parent"]; p != b {
		t.Errorf("Adopt took back the move from %v to %v: parent %v", a, b, p)
	}
}}}, treeAny...)

var treeParentIgnored = sentence{"move a node in a tree with paths or lists of children, because the parent field of an adopted node is ignored", func(t *testing.T, w *world) {
	a, b, x := family(t, w)
	w.update(t, "categories", d("_id", x), d("$set", d("parent", b)))
	w.clean(t)
	tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
	if p := got(tr.Parent(t.Context(), x))(t); p["_id"] != a {
		t.Errorf("%v", p)
	}
}}

var pathSays = append([]sentence{treeParentIgnored, {"write a whole document without its path, because the second Adopt then puts the node under the parent that this document names, even if new code has moved it", func(t *testing.T, w *world) {
	a, b, x := family(t, w)
	tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
	testkit.OK(t, tr.Move(t.Context(), x, tr.Under(b)))
	w.replace(t, "categories", bson.M{"_id": x, "parent": a})
	w.clean(t)
	if p := got(tr.Parent(t.Context(), x))(t); p["_id"] != a {
		t.Errorf("%v", p)
	}
}}}, treeAny...)

var childrenSays = append([]sentence{treeParentIgnored, {"write a whole document with an older list of children, because the children that this list lacks become roots", func(t *testing.T, w *world) {
	a, _, x := family(t, w)
	w.replace(t, "categories", bson.M{"_id": a, "children": bson.A{}})
	w.clean(t)
	tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
	if p, err := tr.Parent(t.Context(), x); !errors.Is(err, tree.ErrIsRoot) {
		t.Errorf("%v", p)
	}
}}}, treeAny...)
