package adoption_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

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
// moves says whether the representation takes the moves of old code.
func startTree(moves bool) func(w *world) service {
	return func(w *world) service {
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
		remove := m.write("delete", leaf, func(ctx context.Context, _ *client, r *record) error { return m.remove(ctx, r) })
		again := m.write("insert again", func(r *record) bool { return r.doc == nil }, func(ctx context.Context, c *client, r *record) error {
			above, release, err := under(c, level(r), r)
			if level(r) == 0 {
				return m.revive(ctx, r, bson.M{"name": c.text(), "parent": nil})
			}
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
			return m.update(ctx, r, d("$set", d("parent", above.id)))
		})
		replace := m.rewritten("replace", alive, func(c *client, r *record) bson.D { return d("$set", d("name", c.text())) })
		old := join(m.own(), []op{insert, insert, insert, remove, again, replace})
		if moves {
			old = append(old, move, m.write("replace by a new document", leaf, func(ctx context.Context, c *client, r *record) error {
				return m.replace(ctx, r, bson.M{"name": c.text(), "parent": parent(r)})
			}))
		}

		at := func(above *record) tree.Position[bson.ObjectID] {
			if above == nil {
				return tr.AsRoot()
			}
			return tr.Under(above.id.(bson.ObjectID))
		}
		// later is the error of a call that Adopt has to go before: the page says so.
		later := func(err error) error {
			if errors.Is(err, tree.ErrNotAdopted) {
				return nil
			}
			return err
		}
		fresh := []op{
			{"Insert", func(ctx context.Context, c *client) error {
				return place(c, func(above *record) error {
					id, lvl := below(above)
					doc := bson.M{"_id": c.id(), "name": c.text()}
					if _, err := tr.Insert(ctx, doc, at(above)); err != nil {
						return later(err)
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
				if err := tr.Move(ctx, r.id.(bson.ObjectID), at(above)); err != nil {
					return later(err)
				}
				m.follow(r, d("$set", d("parent", above.id)))
				return nil
			}),
			m.write("Delete", func(r *record) bool { return alive(r) && r.tags["aside"] == nil }, func(ctx context.Context, c *client, r *record) error {
				m.mu.Lock()
				bare := leaf(r)
				m.mu.Unlock()
				_, err := tr.Delete(ctx, r.id.(bson.ObjectID), tree.Restrict)
				if !bare && errors.Is(err, tree.ErrHasChildren) {
					return nil
				}
				if err == nil && !bare {
					return fmt.Errorf("%v was deleted, though it has children", r.id)
				}
				if err == nil {
					m.set(r, nil)
				}
				return later(err)
			}),
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
					must(t, err)
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
					differ(t, "%s: breadcrumb %v, want %v", name, way, want)
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

var treeOrphan = sentence{"delete a node with children: Check names these as orphans", func(t *testing.T, w *world) {
	a, _, x := family(t, w)
	w.remove(t, "categories", a)
	result, problems := w.again(t)
	named(t, problems, tree.Orphan, x)
	if result.Remaining == 0 {
		t.Errorf("%+v", result)
	}
	w.remove(t, "categories", x)
}}

var treeAny = []sentence{
	{"adds ancestors, paths, children or numbers to parent references", nil},
	{"insert nodes with their parent, delete leaves, insert them again", nil},
	{"the second Adopt and Repair derive what is missing or behind from the parent", nil},
	treeOrphan,
	{"Until then a new node is not a root, and calls that write under it, or move or delete it, are `ErrNotAdopted`", func(t *testing.T, w *world) {
		a, b, x := family(t, w)
		y := bson.NewObjectID()
		w.insert(t, "categories", d("_id", y, "parent", a))
		tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
		for doc, err := range tr.Roots(t.Context()) {
			must(t, err)
			if id := doc["_id"]; id == x || id == y {
				t.Errorf("%v is a root", id)
			}
		}
		_, under := tr.Insert(t.Context(), bson.M{}, tr.Under(y))
		_, deleted := tr.Delete(t.Context(), y, tree.Restrict)
		for _, err := range []error{under, deleted, tr.Move(t.Context(), y, tr.Under(b))} {
			if !errors.Is(err, tree.ErrNotAdopted) {
				t.Error(err)
			}
		}
	}},
}

var treeMoves = append([]sentence{{"With ancestors and numbers: move nodes, write whole documents", nil}}, treeAny...)

var treeStays = append([]sentence{{"With paths and children: move a node, as its parent field is ignored once it is adopted", func(t *testing.T, w *world) {
	a, b, x := family(t, w)
	w.update(t, "categories", d("_id", x), d("$set", d("parent", b)))
	w.clean(t)
	tr := w.h.value.(*tree.Tree[bson.ObjectID, bson.M])
	if p := got(tr.Parent(t.Context(), x))(t); p["_id"] != a {
		t.Errorf("%v", p)
	}
}}}, treeAny...)
