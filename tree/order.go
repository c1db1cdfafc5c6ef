package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// orderGap is the distance of neighbours in OrderField: 16 insertions can
// halve it before siblings have to make room.
const orderGap = 1 << 16

// orderAt finds the order of a node at a position among siblings; self is the
// node itself when it moves. If there is no room next to the sibling, those after it
// move up by one gap: room is that write, which has to come first.
func (c *core) orderAt(ctx context.Context, siblings bson.D, pos position, sib node, self bson.RawValue) (at int64, room []mongo.WriteModel, err error) {
	field := c.o.OrderField
	among := siblings[:len(siblings):len(siblings)]
	if self.Type != 0 {
		among = append(among, bson.E{Key: c.o.IDField, Value: d("$ne", self)})
	}
	// edge is the first order in a direction, or otherwise.
	edge := func(dir int, otherwise int64, bound ...any) (int64, bool, error) {
		match := among[:len(among):len(among)]
		if len(bound) > 0 {
			match = append(match, bson.E{Key: field, Value: d(bound...)})
		}
		n, err := c.findOne(ctx, match, fault.ErrNotFound, field, dir)
		if errors.Is(err, fault.ErrNotFound) {
			return otherwise, false, nil
		}
		if err == nil {
			err = c.checkOrder(n.raw.Lookup(field), n.id)
		}
		return n.order, err == nil, err
	}
	if !pos.sibling() {
		dir := -1
		if pos.first {
			dir = 1
		}
		at, found, err := edge(dir, 0)
		if !found {
			return 0, nil, err
		}
		return at - int64(dir)*orderGap, nil, err
	}
	if err := c.checkOrder(sib.raw.Lookup(field), sib.id); err != nil {
		return 0, nil, err
	}
	low, high, bound := sib.order, sib.order, "$gt" // the neighbours; a missing one is a gap away
	if pos.kind == afterSibling {
		high, _, err = edge(1, low+2*orderGap, "$gt", low)
	} else {
		bound = "$gte"
		low, _, err = edge(-1, high-2*orderGap, "$lt", high)
	}
	if err != nil {
		return 0, nil, err
	}
	if high-low < 2 {
		after := append(siblings[:len(siblings):len(siblings)], bson.E{Key: field, Value: d(bound, sib.order)})
		room = []mongo.WriteModel{update(after, d("$inc", d(field, int64(orderGap))))}
		high += orderGap
	}
	return low + (high-low)/2, room, nil
}

// checkOrder refuses positions between the whole numbers, which a collection
// that was adopted may hold: next to them there is no room to count on.
func (c *core) checkOrder(v, id bson.RawValue) error {
	if n := value.Number(v); n != nil && !n.IsInt() {
		return fmt.Errorf("%s is %s, not a whole number, run Repair, at %s or its children", c.o.OrderField, text(v), text(id))
	}
	return nil
}

// lastOrders gives for each parent of items the order of the next child. A parent of
// the same Load has none yet.
func (l linked) lastOrders(ctx context.Context, items []*item) (map[string]int64, error) {
	next := map[string]int64{}
	if l.o.OrderField == "" {
		return next, nil
	}
	values, owner := bson.A{}, map[string]string{}
	for _, it := range items {
		k := key(it.above)
		if _, ok := next[k]; ok || it.parent != nil && it.parent.raw == nil {
			continue
		}
		next[k] = 0
		v, err := l.codec.Value(l.naming(it.parent).Value)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		owner[key(v)] = k
	}
	if len(values) == 0 {
		return next, nil
	}
	field := l.naming(nil).Key
	open := opening(l.primary, mongo.Pipeline{
		l.match(field, d("$in", values)),
		expr.Op("$group", d("_id", expr.IfNull(expr.Field(field), nil), "last", d("$max", expr.Field(l.o.OrderField)))),
	}, 0)
	for row, err := range cursor.Docs(ctx, open) {
		if err != nil {
			return nil, err
		}
		k := owner[key(row.Lookup("_id"))]
		if last, ok := row.Lookup("last").AsInt64OK(); ok && last < math.MaxInt64-orderGap {
			next[k] = max(next[k], last+orderGap)
		}
	}
	return next, nil
}

// compare is the order of siblings; those without a whole number come last.
func (c *core) compare(a, b node) int { return cmp.Compare(c.at(a), c.at(b)) }

func (c *core) at(n node) int64 {
	if at, ok := integral(c.field(n.raw, c.rep.order())); ok && at <= math.MaxInt64-orderGap {
		return at
	}
	return math.MaxInt64
}

// positions are the writes that give siblings, which come sorted, different whole
// numbers. Those that have one keep it, unless two have the same: then all are
// numbered anew. The others follow in the order they come in.
func (c *core) positions(kids []node) (models []mongo.WriteModel) {
	field := c.rep.order()
	if field == "" {
		return nil
	}
	kids = slices.Clone(kids)
	slices.SortStableFunc(kids, c.compare)
	last, again := int64(-orderGap), false
	for i, kid := range kids {
		at := c.at(kid)
		if at != math.MaxInt64 {
			again = again || i > 0 && at == c.at(kids[i-1])
			last = at
		}
	}
	if again {
		last = -orderGap
	}
	for _, kid := range kids {
		if again || c.at(kid) == math.MaxInt64 {
			last += orderGap
			models = append(models, update(c.byID(kid.id), d("$set", d(field, last))))
		}
	}
	return models
}
