package series

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// save stores blocks. It sends a block again if its document was full or might hold it already. It sets stored on those
// that are stored, and refused on those that nobody can store.
//
// Cost: that of a batch of AppendMany.
func (c *core) save(ctx context.Context, blocks []*block) (r mongopatterns.Result, err error) {
	defer fault.PartlyDone(&err, &r.Done, &r.Unknown)
	c.guessDocuments(blocks)
	left := blocks
	for attempt := 0; len(left) > 0; attempt++ {
		if left, err = c.try(ctx, attempt, left, &r); err != nil {
			return r, err
		}
	}
	return r, maintain.First(&r)
}

// try sends blocks once and returns those to be sent again. At the first attempt the documents are guessed, except in a
// transaction, which a wrong guess would end by its duplicate key. After the last attempt, it refuses blocks of misplaced
// documents, and any other block is an error.
func (c *core) try(ctx context.Context, attempt int, blocks []*block, r *mongopatterns.Result) (again []*block, err error) {
	if txn.Running(ctx) || attempt > 0 {
		if blocks, err = c.lookUpDocuments(ctx, blocks, r); err != nil || len(blocks) == 0 {
			return nil, err
		}
	}
	again, reason, err := c.send(ctx, blocks, r)
	if err != nil || len(again) == 0 {
		return nil, err
	}
	noRetry := c.frame.CheckRetry(ctx, attempt, reason)
	if noRetry == nil {
		return again, nil
	}
	if others := c.refuseMisplaced(ctx, again, r); len(others) == 0 {
		return nil, nil // all are counted as refused
	}
	return nil, noRetry
}

// send sends blocks once and counts them. It returns those to be sent again, and the reason of the server for the last of them.
//
// Cost: 1 round trip.
func (c *core) send(ctx context.Context, blocks []*block, r *mongopatterns.Result) (again []*block, reason, err error) {
	upserts := make([]windows.Upsert, len(blocks))
	for i, b := range blocks {
		upserts[i] = windows.Upsert{Filter: c.documentFor(b), Update: b.withNewMark()}
	}
	outcomes, err := c.frame.Send(ctx, upserts)
	for i, o := range outcomes {
		b := blocks[i]
		switch o.Fate {
		case windows.Written:
			r.Done += int64(b.rows)
			b.stored = true
			if !txn.Running(ctx) { // a transaction may be undone
				c.rememberRoom(b)
			}
		case windows.Unanswered:
			r.Unknown += int64(b.rows)
		case windows.Taken:
			again, reason = append(again, b), o.Err
		case windows.TooLarge: // other fields of the document take the space
			c.rememberFull(b)
			again, reason = append(again, b), o.Err
		case windows.Unkeyed: // the collection is sharded
			c.sharded.Store(true)
			again, reason = append(again, b), o.Err
		case windows.Refused:
			c.refuse(b, upserts[i].ID(), o.Err, r)
		}
	}
	return again, reason, err
}

// refuse counts a block that nobody can store.
func (c *core) refuse(b *block, id bson.RawValue, err error, r *mongopatterns.Result) {
	b.refused = err
	c.frame.CountRefused(r, id, b.rows, err)
}

// refuseMisplaced refuses blocks whose document is there, but is not of their window by its fields. It returns the others, in a
// transaction all.
//
// Cost: 1 round trip.
func (c *core) refuseMisplaced(ctx context.Context, blocks []*block, r *mongopatterns.Result) (others []*block) {
	if txn.Running(ctx) {
		return blocks
	}
	ids := make([]bson.RawValue, len(blocks))
	for i, b := range blocks {
		raw, err := bson.Marshal(c.frame.ID(b.place, b.seq))
		if err != nil {
			return blocks
		}
		ids[i] = value.Embedded(raw)
	}
	places := map[string]string{}
	for doc, err := range cursor.Find(ctx, cursor.Primary(c.frame.Coll), expr.D("_id", expr.Op("$in", ids)),
		options.Find().SetProjection(c.frame.Keys())) {
		if err != nil {
			return blocks
		}
		places[value.Key(doc.Lookup("_id"))] = c.frame.KeyOf(doc)
	}
	for i, b := range blocks {
		if place, there := places[value.Key(ids[i])]; there && place != b.place.Key {
			c.refuse(b, ids[i], c.misplaced(ids[i]), r)
		} else {
			others = append(others, b)
		}
	}
	return others
}

// misplaced is the error of a document that only its _id puts into a window.
func (c *core) misplaced(id bson.RawValue) error {
	return fault.Refuse(fault.Of(id, fmt.Errorf("%w: %q or %q has not the value, or not the type, that the _id has", fault.ErrMalformed, c.frame.SeriesField, c.frame.StartField)))
}
