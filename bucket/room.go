package bucket

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// A room is the bucket of a window to write to next, and the least it holds. In a window that this process
// has not written to yet, that is bucket 0. If other writers have filled the bucket meanwhile, the write
// fails; it never overfills the bucket.
type room struct{ seq, count, size int64 }

// later returns the later of two rooms.
func (r room) later(o room) room {
	if o.seq > r.seq || o.seq == r.seq && o.count > r.count {
		return o
	}
	return r
}

// guessRooms sets the room of each group to the bucket where this process wrote last, without a read. It removes the items
// that come twice, and returns their number.
func (c *arrays) guessRooms(groups []*group) (dropped int) {
	for _, g := range groups {
		g.Content.room = c.known.Change(g.Place.Key, func(r room) room { return r.later(room{seq: g.Content.fullBelow}) })
		if c.opts.IDField != "" {
			dropped += dropHeld(g, map[string]bool{})
		}
	}
	return dropped
}

// lookUpRooms reads the buckets of groups from the guessed ones on, and sets the rooms by them. It removes the items that
// are stored already, and returns their number.
//
// Cost: 1 round trip.
func (c *arrays) lookUpRooms(ctx context.Context, groups []*group) (dropped int, err error) {
	byKey, all := map[string]*group{}, []*group(nil)
	for _, g := range groups {
		if len(g.Content.items) > 0 {
			byKey[g.Place.Key], all = g, append(all, g)
			g.Content.room = room{seq: g.Content.room.seq}
		}
	}
	if all == nil {
		return 0, nil
	}
	for doc, err := range c.readBuckets(ctx, all) {
		if err != nil {
			return dropped, err
		}
		if g := byKey[c.frame.KeyOf(doc)]; g != nil {
			dropped += c.note(g, doc)
		}
	}
	return dropped, nil
}

// readBuckets reads how full the buckets of groups are, from the current one on. With IDField it also reads the buckets
// of the window that hold one of the group's IDs, and which they hold.
//
// Cost: 1 round trip.
func (c *arrays) readBuckets(ctx context.Context, groups []*group) iter.Seq2[bson.Raw, error] {
	var wanted, all bson.A
	for _, g := range groups {
		wanted = append(wanted, c.frame.PlaceFilterFrom(g.Place, g.Content.room.seq))
		if c.opts.IDField == "" {
			continue
		}
		ids := bson.A{}
		for _, it := range g.Content.items {
			ids = append(ids, it.id)
		}
		wanted = append(wanted, append(c.frame.PlaceFilter(g.Place), expr.Element(c.idPath(), expr.Op("$in", ids))))
		all = append(all, ids...)
	}
	fields, opts := c.fields(c.opts.CountField, c.opts.BytesField), options.Find().SetBatchSize(1<<20)
	if c.opts.IDField != "" {
		fields = append(fields, expr.Element("~ids", expr.Filter(
			expr.Map(c.array(), "m", at(c.opts.IDField)), "id", expr.Op("$in", expr.Var("id"), expr.Literal(all)))))
	} else if len(wanted) == 1 {
		opts.SetSort(expr.D("_id", -1)).SetLimit(1)
	}
	return cursor.Find(ctx, cursor.Primary(c.frame.Coll), expr.Op("$or", wanted), opts.SetProjection(fields))
}

// note takes a bucket of a group's window into account. It removes the items that the bucket holds and returns their
// number.
func (c *arrays) note(g *group, doc bson.Raw) (dropped int) {
	if list, ok := doc.Lookup("~ids").ArrayOK(); ok {
		held := map[string]bool{}
		ids, _ := list.Values()
		for _, id := range ids {
			held[value.Key(id)] = true
		}
		dropped = dropHeld(g, held)
	}
	// This package did not make a bucket without a number.
	if seq, ok := windows.SeqOf(doc); ok && seq >= g.Content.room.seq {
		g.Content.room = c.roomIn(seq, doc)
	}
	return dropped
}

// roomIn is the room in a bucket, or in the next one if the bucket lacks the fields that say how full it is.
func (c *arrays) roomIn(seq int64, fill bson.Raw) room {
	count, counted := value.Lookup(fill, c.opts.CountField).AsInt64OK()
	size, sized := value.Lookup(fill, c.opts.BytesField).AsInt64OK()
	if !counted || c.opts.MaxBytes > 0 && !sized {
		return room{seq: seq + 1}
	}
	return room{seq, count, size}
}

// dropHeld removes the items whose IDs are held already, and repeated ones. It returns their number.
func dropHeld(g *group, held map[string]bool) int {
	all := len(g.Content.items)
	g.Content.items = slices.DeleteFunc(slices.Clone(g.Content.items), func(it item) bool {
		key := value.Key(it.id)
		twice := held[key]
		held[key] = true
		return twice
	})
	return all - len(g.Content.items)
}
