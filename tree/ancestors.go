package tree

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ancestorArray: {_id, ancestors: [root, …, parent], parent}.
type ancestorArray struct{ parentField }

func (ancestorArray) owned(c *core) []string { return []string{c.o.AncestorsField, c.o.ParentField} }

// array is the ancestors as an expression that holds for any document.
func (ancestorArray) array(c *core) bson.D {
	f := "$" + c.o.AncestorsField
	return d("$cond", bson.A{d("$isArray", bson.A{f}), f, bson.A{}})
}

func (a ancestorArray) up(c *core, match bson.D) mongo.Pipeline {
	self := d("$concatArrays", bson.A{a.array(c), bson.A{"$" + c.o.IDField}})
	return concat(mongo.Pipeline{
		d("$match", match),
		d("$project", d(fieldStart, "$"+c.o.IDField, fieldTouch, d("$reverseArray", self))),
		d("$unwind", d("path", "$"+fieldTouch, "includeArrayIndex", fieldDepth)),
		c.lookup(fieldTouch, c.o.IDField),
	}, unfold(fieldDepth, "$"+fieldDepth, fieldStart, "$"+fieldStart))
}

func (a ancestorArray) down(c *core, id bson.RawValue, depth int, self bool) mongo.Pipeline {
	sort := d(fieldDepth, 1)
	if c.o.OrderField != "" {
		sort = append(sort, bson.E{Key: c.o.OrderField, Value: 1})
	}
	match, _ := a.descendantsOf(c, node{id: id}, depth)
	if self {
		match = d("$or", bson.A{c.byID(id), match})
	}
	return mongo.Pipeline{
		d("$match", match),
		d("$set", d(fieldDepth, d("$size", a.array(c)))),
		d("$sort", sort),
	}
}

func (a ancestorArray) descendantsOf(c *core, n node, depth int) (bson.D, bool) {
	match := c.in(c.o.AncestorsField, equal(n.id))
	if depth > 0 {
		distance := d("$subtract", bson.A{d("$size", a.array(c)), d("$indexOfArray", bson.A{a.array(c), literal(n.id)})})
		match = append(match, bson.E{Key: "$expr", Value: d("$lte", bson.A{distance, depth})})
	}
	return match, true
}

func (ancestorArray) ancestorsOf(c *core, n node) (bson.D, bool) { return c.byIDs(n.ancestors), true }

func (ancestorArray) place(c *core, parent *node) bson.D {
	if parent == nil {
		return d(c.o.AncestorsField, bson.A{}, c.o.ParentField, nil)
	}
	return d(c.o.AncestorsField, parent.lineage(), c.o.ParentField, parent.id)
}

// lineage are the ancestors of the node's children.
func (n *node) lineage() []bson.RawValue {
	if n == nil {
		return []bson.RawValue{}
	}
	return append(n.ancestors[:len(n.ancestors):len(n.ancestors)], n.id)
}

func (ancestorArray) below(_ context.Context, _ *core, p, x node) (bool, error) {
	for _, id := range p.lineage() {
		if same(id, x.id) {
			return true, nil
		}
	}
	return false, nil
}

// replace puts a new beginning to the arrays of the descendants of x, up to
// and including x. It finds x in each array, so doing it twice does no harm.
func (a ancestorArray) replace(ctx context.Context, c *core, x node, beginning []bson.RawValue, more ...bson.E) error {
	f := "$" + c.o.AncestorsField
	rest := d("$slice", bson.A{f,
		d("$add", bson.A{d("$indexOfArray", bson.A{f, literal(x.id)}), 1}),
		d("$size", f)})
	set := d(c.o.AncestorsField, d("$concatArrays", bson.A{literal(beginning), rest}))
	_, err := c.coll.UpdateMany(ctx, c.in(c.o.AncestorsField, equal(x.id)),
		mongo.Pipeline{d("$set", append(set, more...))})
	return err
}

func (a ancestorArray) rebase(ctx context.Context, c *core, x node, parent *node) error {
	return a.replace(ctx, c, x, append(parent.lineage(), x.id))
}

func (a ancestorArray) lift(ctx context.Context, c *core, x node, parent *node) error {
	heir := null
	if parent != nil {
		heir = parent.id
	}
	f := "$" + c.o.ParentField
	return a.replace(ctx, c, x, parent.lineage(), bson.E{Key: c.o.ParentField,
		Value: d("$cond", bson.A{d("$eq", bson.A{f, literal(x.id)}), literal(heir), f})})
}

func (ancestorArray) cascade(ctx context.Context, c *core, x node) (int64, error) {
	res, err := c.coll.DeleteMany(ctx, c.in("$or", bson.A{
		d(c.o.IDField, equal(x.id)), d(c.o.AncestorsField, equal(x.id))}))
	if err != nil {
		return 0, err
	}
	return res.DeletedCount, nil
}

func (ancestorArray) check(*core, bson.D) error { return nil }
