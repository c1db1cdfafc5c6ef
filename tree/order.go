package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// orderGap is the distance of neighbours in OrderField: 16 insertions can
// halve it before siblings have to make room.
const orderGap = 1 << 16

// orderAt finds the order of a node at a position among siblings; self is the
// node itself when it moves. If there is no room next to the sibling those
// behind move up by one gap, in one command.
func (c *core) orderAt(ctx context.Context, siblings bson.D, pos position, sib node, self bson.RawValue) (int64, error) {
	field := c.o.OrderField
	if pos.sibling() {
		if err := c.checkOrder(sib.raw.Lookup(field)); err != nil {
			return 0, fmt.Errorf("%w, at %s", err, text(sib.id))
		}
	}
	among := siblings[:len(siblings):len(siblings)]
	if self.Type != 0 {
		among = append(among, bson.E{Key: c.o.IDField, Value: d("$ne", self)})
	}
	edge := func(dir int, bound ...any) (int64, bool, error) {
		match := among
		if len(bound) > 0 {
			match = append(match[:len(match):len(match)], bson.E{Key: field, Value: d(bound...)})
		}
		n, err := c.findOne(ctx, match, ErrNotFound, field, dir)
		if errors.Is(err, ErrNotFound) {
			return 0, false, nil
		}
		if err == nil {
			if err = c.checkOrder(n.raw.Lookup(field)); err != nil {
				err = fmt.Errorf("%w, at %s", err, text(n.id))
			}
		}
		return n.order, err == nil, err
	}
	if !pos.sibling() {
		dir := int64(-1)
		if pos.first {
			dir = 1
		}
		at, found, err := edge(int(dir))
		if err != nil || !found {
			return 0, err
		}
		return at - dir*orderGap, nil
	}
	// low and high are the neighbours; a missing one is a gap away.
	low, high := sib.order, sib.order
	var found bool
	var err error
	bound := "$gt"
	if pos.kind == afterSibling {
		if high, found, err = edge(1, "$gt", sib.order); !found {
			high = low + 2*orderGap
		}
	} else {
		bound = "$gte"
		if low, found, err = edge(-1, "$lt", sib.order); !found {
			low = high - 2*orderGap
		}
	}
	if err != nil {
		return 0, err
	}
	if high-low < 2 {
		match := append(siblings[:len(siblings):len(siblings)], bson.E{Key: field, Value: d(bound, sib.order)})
		if _, err := c.coll.UpdateMany(ctx, match, d("$inc", d(field, int64(orderGap)))); err != nil {
			return 0, err
		}
		high += orderGap
	}
	return low + (high-low)/2, nil
}

// checkOrder refuses positions between the whole numbers, which a collection
// that was adopted may hold: next to them there is no room to count on.
func (c *core) checkOrder(v bson.RawValue) error {
	if strings.Contains(number(v), "/") {
		return fmt.Errorf("%s is %s, not a whole number, run Repair", c.o.OrderField, text(v))
	}
	return nil
}
