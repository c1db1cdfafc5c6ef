package tree

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// parentField is what the representations with the parent in a field have in common: parentRefs, ancestorArray,
// nestedSets.
type parentField struct{ base }

// except keeps out the nodes with an array for a parent: an equality would match its elements. Such a node is
// an orphan.
func (p parentField) except(field string) bson.D {
	if field != p.o.ParentField {
		return nil
	}
	return d("$nor", bson.A{d(field, d("$type", "array"))})
}

func (p parentField) up(levels int) mongo.Pipeline {
	if levels > 0 {
		levels++ // the node itself
	}
	return slices.Concat(mongo.Pipeline{p.graphLookup(expr.Field(p.o.IDField), p.o.ParentField, p.o.IDField, levels,
		expr.Element("depthField", fieldDepth))}, unfold())
}

func (p parentField) down(id any, depth int, self bool) mongo.Pipeline {
	return p.graphDown(id, p.o.IDField, p.o.IDField, p.o.ParentField, depth, self)
}

func (p parentField) children(id any) mongo.Pipeline {
	return slices.Concat(mongo.Pipeline{p.match(p.o.ParentField, equal(id))}, p.inOrder())
}

func (p parentField) leaves() mongo.Pipeline { return p.childless(p.o.IDField, p.o.ParentField) }

func (p parentField) place(parent *node) bson.D {
	if parent == nil {
		return d(p.o.ParentField, nil)
	}
	return d(p.o.ParentField, parent.id)
}

func (p parentField) ref(n node) (up node, broken string) {
	switch n.parent.Type {
	case bson.TypeNull:
		return up, ""
	case bson.TypeArray:
		broken = "the parent is an array"
	}
	return node{id: n.parent}, broken
}

// parentRefs: {_id, parent}.
type parentRefs struct{ parentField }

func (p parentRefs) layout() layout {
	link := p.o.ParentField
	return layout{[]config.Setting{config.Name("Options.ParentField", &p.o.ParentField, "parent")},
		[]string{link}, nil, link, p.o.OrderField, true, ""}
}

func (p parentRefs) lift(x node, heir *node) []mongo.WriteModel {
	if heir != nil && same(heir.id, x.id) {
		return nil
	}
	match := append(p.siblingsOf(&x), p.except(p.o.ParentField)...)
	return []mongo.WriteModel{update(match, d("$set", p.place(heir)))}
}

func (p parentRefs) cascade(ctx context.Context, id bson.RawValue) (int64, []mongo.WriteModel, error) {
	nodes, err := p.aggregate(ctx, p.down(id, 0, true))
	if err != nil {
		return 0, nil, err
	}
	x := pick(nodes, id)
	if x.raw == nil {
		return 0, nil, missing(id)
	}
	deleted, err := p.deleteIDs(ctx, idsOf(nodes))
	return deleted, p.recount(x, -1), err
}
