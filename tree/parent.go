package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// parentField is the reading side of every representation with the parent in a
// field: parentRefs, ancestorArray, nestedSets.
type parentField struct {
	*core
	defaults
}

// except keeps out the nodes with an array for a parent: an equality would match its
// elements. Such a node is an orphan.
func (p parentField) except(field string) bson.D {
	if field != p.o.ParentField {
		return nil
	}
	return d("$nor", bson.A{d(field, d("$type", "array"))})
}

func (p parentField) up(match any, levels int) mongo.Pipeline {
	if levels > 0 {
		levels++ // the node itself
	}
	return concat(mongo.Pipeline{expr.Op("$match", match),
		p.graphLookup(expr.Field(p.o.IDField), p.o.ParentField, p.o.IDField, levels, expr.Element("depthField", fieldDepth))}, unfold())
}

func (p parentField) down(id any, depth int, self bool) mongo.Pipeline {
	return p.graphDown(id, p.o.IDField, p.o.IDField, p.o.ParentField, depth, self)
}

func (p parentField) children(id any) mongo.Pipeline {
	return concat(mongo.Pipeline{p.match(p.o.ParentField, equal(id))}, p.inOrder())
}

func (p parentField) siblings(id any) mongo.Pipeline {
	return p.beside(p.o.ParentField, id, p.inOrder())
}

// beside are the other nodes with the same value in a field.
func (c *core) beside(field string, id any, order mongo.Pipeline) mongo.Pipeline {
	match := append(c.byID(id), c.rep.except(field)...)
	return concat(mongo.Pipeline{expr.Op("$match", match), c.lookup(field, field, order...)},
		unfold(), mongo.Pipeline{expr.Op("$match", d(c.o.IDField, d("$ne", id)))})
}

func (p parentField) roots() mongo.Pipeline {
	return concat(mongo.Pipeline{p.match(p.o.ParentField, nil)}, p.inOrder())
}

func (p parentField) leaves() mongo.Pipeline { return p.childless(p.o.IDField, p.o.ParentField) }

func (p parentField) childrenOf(n node) (bson.D, bool) {
	return p.in(p.o.ParentField, equal(n.id)), false
}

func (p parentField) rootsMatch() bson.D { return p.in(p.o.ParentField, nil) }

// parentOf is the filter for a node's parent, nil for a root.
func (p parentField) parentOf(n node) bson.D {
	if isNull(n.parent) {
		return nil
	}
	return p.byID(n.parent)
}

func (p parentField) keepsParent() bool { return true }
func (p parentField) own(n node) string { return key(n.id) }
func (p parentField) link() string      { return p.o.ParentField }
func (p parentField) order() string     { return p.o.OrderField }

func (p parentField) ref(n node) (string, bool, string) {
	switch n.parent.Type {
	case bson.TypeNull:
		return "", true, ""
	case bson.TypeArray:
		return "", false, "the parent is an array"
	}
	return key(n.parent), false, ""
}

func (p parentField) parents(nodes []node, _ map[string]*spot) bson.D {
	ids := make([]bson.RawValue, len(nodes))
	for i, n := range nodes {
		ids[i] = n.parent
	}
	return p.byIDs(ids)
}

func (p parentField) kids(ctx context.Context, nodes []node) ([][]node, error) {
	at := map[string]int{}
	for i, n := range nodes {
		at[key(n.id)] = i
	}
	match := append(p.in(p.o.ParentField, d("$in", idsOf(nodes))), p.except(p.o.ParentField)...)
	kids, err := p.findAll(ctx, match, p.sorting()...)
	out := make([][]node, len(nodes))
	for _, kid := range kids {
		if i, ok := at[key(kid.parent)]; ok {
			out[i] = append(out[i], kid)
		}
	}
	return out, err
}

// sorting is by the order of siblings and _id.
func (c *core) sorting() []any {
	if f := c.rep.order(); f != "" {
		return []any{f, 1, "_id", 1}
	}
	return []any{"_id", 1}
}

func (p parentField) wrong() mongopatterns.ProblemKind { return WrongAncestors }

// cut makes the node of a cycle with the smallest ID a root.
func (p parentField) cut(n node, s *spot) *finding { return p.cutSmallest(n, s) }

func (c *core) cutSmallest(n node, s *spot) *finding {
	if slices.ContainsFunc(s.loop, func(o *spot) bool { return less(o.id, n.id) }) {
		return nil
	}
	return &finding{writes: c.rep.uproot(n), uproot: true, moves: true}
}

func (p parentField) uproot(n node) []mongo.WriteModel {
	return []mongo.WriteModel{update(p.byID(n.id), d("$set", d(p.o.ParentField, nil)))}
}

// parentRefs: {_id, parent}.
type parentRefs struct{ parentField }

func (p parentRefs) settings() []config.Setting {
	return []config.Setting{config.Name("Options.ParentField", &p.o.ParentField, ""), p.o.treeOnly()}
}

func (p parentRefs) fields() []string { return []string{p.o.ParentField} }

func (p parentRefs) keys() []indexKeys {
	return []indexKeys{{fields: p.orderedBy(p.o.ParentField)}}
}

// orderedBy is a field with that of the order after it.
func (c *core) orderedBy(field string) []string {
	if f := c.rep.order(); f != "" {
		return []string{field, f}
	}
	return []string{field}
}

func (p parentRefs) derive(_ node, chain []*spot) (bson.D, bool) {
	return d(p.o.ParentField, lastID(chain)), true
}

// lastID is the parent at the end of a chain, null for a root.
func lastID(chain []*spot) bson.RawValue {
	if len(chain) == 0 {
		return null
	}
	return chain[len(chain)-1].id
}

func (p parentRefs) place(parent *node) bson.D {
	if parent == nil {
		return d(p.o.ParentField, nil)
	}
	return d(p.o.ParentField, parent.id)
}

func (p parentRefs) heir(x node) node { return node{id: x.parent} }

func (p parentRefs) below(ctx context.Context, n, x node) (bool, error) {
	return p.isAbove(ctx, x.id, n.id)
}

// isAbove reports whether x is n or one of its ancestors, by asking the server
// for the way up from n.
func (c *core) isAbove(ctx context.Context, x, n bson.RawValue) (bool, error) {
	up, err := c.aggregate(ctx, c.rep.up(c.byID(n), 0))
	return holds(idsOf(up), x), err
}

func (p parentRefs) lift(x node, heir *node) []mongo.WriteModel {
	match, _ := p.childrenOf(x)
	return []mongo.WriteModel{update(append(match, p.except(p.o.ParentField)...), d("$set", p.place(heir)))}
}

func (p parentRefs) cascade(ctx context.Context, id bson.RawValue) (node, int64, error) {
	nodes, err := p.aggregate(ctx, p.down(id, 0, true))
	if err != nil {
		return node{}, 0, err
	}
	for _, n := range nodes {
		if same(n.id, id) {
			deleted, err := p.deleteIDs(ctx, idsOf(nodes))
			return n, deleted, err
		}
	}
	return node{}, 0, missing(id)
}
