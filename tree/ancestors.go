package tree

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// ancestorArray: {_id, ancestors: [root, …, parent], parent}.
type ancestorArray struct{ parentField }

func (a ancestorArray) layout() layout {
	o := &a.o
	return layout{[]config.Setting{config.Name("Options.AncestorsField", &o.AncestorsField, "ancestors"),
		config.Name("Options.ParentField", &o.ParentField, "parent")},
		[]string{o.AncestorsField, o.ParentField},
		[]string{o.AncestorsField}, o.ParentField, o.OrderField, true, o.AncestorsField}
}

// array is the ancestors as an expression that holds for any document.
func (a ancestorArray) array() bson.D { return expr.Array(expr.Field(a.o.AncestorsField)) }

func (a ancestorArray) up(levels int) mongo.Pipeline {
	return a.upBy(expr.Op("$reverseArray", expr.Op("$concatArrays", a.array(), bson.A{expr.Field(a.o.IDField)})), levels)
}

// upBy joins the nodes of way, an array of IDs, the node itself first, in no order. One lookup for all takes
// the server less than one for each.
func (c *core) upBy(way any, levels int) mongo.Pipeline {
	if levels > 0 {
		way = expr.Op("$slice", way, levels+1)
	}
	return slices.Concat(mongo.Pipeline{
		expr.Op("$project", d(fieldTouch, way)),
		c.lookup(fieldTouch, c.o.IDField),
	}, unfold(fieldDepth, expr.Op("$indexOfArray", expr.Field(fieldTouch), expr.Field(fieldTree+"."+c.o.IDField))))
}

func (a ancestorArray) down(id any, depth int, self bool) mongo.Pipeline {
	match := a.under(id, depth)
	if self {
		match = a.in("$or", bson.A{d(a.o.IDField, equal(id)), match})
	}
	return mongo.Pipeline{expr.Op("$match", match)}
}

// under matches the descendants, by one range of the ancestors index.
func (a ancestorArray) under(id any, depth int) bson.D {
	match := a.in(a.o.AncestorsField, equal(id))
	if depth > 0 {
		distance := expr.Op("$subtract", expr.Op("$size", a.array()), expr.Op("$indexOfArray", a.array(), expr.Literal(id)))
		match = append(match, bson.E{Key: "$expr", Value: expr.Op("$lte", distance, depth)})
	}
	return match
}

func (a ancestorArray) descendantsOf(n node, depth int) (bson.D, bool) {
	return a.under(n.id, depth), false
}

func (a ancestorArray) above(n node) []bson.RawValue {
	if n.raw == nil {
		return a.lineage(n.up)
	}
	return append([]bson.RawValue{}, elements(n.raw.Lookup(a.o.AncestorsField))...)
}

func (a ancestorArray) place(parent *node) bson.D {
	if parent == nil {
		return d(a.o.AncestorsField, bson.A{}, a.o.ParentField, nil)
	}
	return d(a.o.AncestorsField, a.lineage(parent), a.o.ParentField, parent.id)
}

// lineage are the ancestors of a node's children.
func (a ancestorArray) lineage(n *node) []bson.RawValue {
	if n == nil {
		return []bson.RawValue{}
	}
	return append(a.above(*n), n.id)
}

// adopted refuses a node whose ancestors do not end with its parent: what is above it, and so whether a move
// closes a cycle, cannot be told.
func (a ancestorArray) adopted(n node) error {
	if err := a.base.adopted(n); err != nil {
		return err
	}
	last := null
	if above := a.above(n); len(above) > 0 {
		last = above[len(above)-1]
	}
	if !same(last, n.parent) {
		return fmt.Errorf("%w: %s has parent %s and ancestors %s, run Adopt or Repair", ErrNotAdopted,
			text(n.id), text(n.parent), text(n.raw.Lookup(a.o.AncestorsField)))
	}
	return nil
}

// lift puts a new beginning to the arrays of the descendants of x, up to and including x. It finds x in each
// array, so doing it twice does no harm.
func (a ancestorArray) lift(x node, heir *node) []mongo.WriteModel {
	f, parent := expr.Field(a.o.AncestorsField), expr.Field(a.o.ParentField)
	rest := expr.Op("$slice", f, expr.Op("$add", expr.Op("$indexOfArray", f, expr.Literal(x.id)), 1), expr.Op("$size", f))
	set := d(a.o.AncestorsField, expr.Op("$concatArrays", expr.Literal(a.lineage(heir)), rest))
	if heir == nil || !same(heir.id, x.id) {
		lifted := expr.Cond(expr.Op("$eq", parent, expr.Literal(x.id)), expr.Literal(a.reference(heir)), parent)
		set = append(set, bson.E{Key: a.o.ParentField, Value: lifted})
	}
	return []mongo.WriteModel{update(a.in(a.o.AncestorsField, equal(x.id)), mongo.Pipeline{expr.Op("$set", set)})}
}

func (a ancestorArray) cascade(ctx context.Context, id bson.RawValue) (int64, []mongo.WriteModel, error) {
	x, err := a.doomed(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	res, err := fault.Many(a.primary.DeleteMany(ctx, a.in("$or", bson.A{d(a.o.IDField, equal(id)), a.under(id, 0)})))
	if err != nil {
		return 0, nil, err
	}
	return res.DeletedCount, a.recount(x, -1), nil
}
