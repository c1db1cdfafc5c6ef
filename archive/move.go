package archive

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/transfer"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A way is a direction in which documents move.
type way struct {
	mark     string // the MarkField
	marks    bool   // documents get the mark; otherwise they lose it
	from, to *scoped.Collection
	filter   any         // selects the documents
	with     []companion // what moves with them
	room     int         // for the bytes of all companions of a transaction
}

// run moves the documents that filter, an argument with the name what, and work select.
func (w *way) run(ctx context.Context, what string, filter any, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	if isNone(filter) {
		return result, fault.Invalid("%s: the filter is nil: use bson.D{} to select all documents", what)
	}
	if err := codec.CheckFilter(what, filter); err != nil {
		return result, err
	}
	checked, err := maintain.Completed(work, transfer.WholeBatch)
	if err != nil {
		return result, err
	}
	if err := transfer.Ready(ctx, work, w.targets(), w.sources()...); err != nil {
		return result, err
	}
	w.filter = expr.And(filter, checked.Filter)
	scan := maintain.Scan{Filter: expr.Op("$and", bson.A{filter}), Projection: expr.D("_id", 1, w.mark, 1),
		Whole: true, BatchSize: transfer.WholeBatch}
	return maintain.Run(ctx, w.from, work, scan, w.step)
}

// isNone reports whether a filter is nil, or a nil slice or map, which the client's BSON options encode as null or as
// the empty document.
func isNone(filter any) bool {
	v := reflect.ValueOf(filter)
	return !v.IsValid() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.IsNil()
}

// sources are the collections that documents leave, targets those where they arrive.
func (w *way) sources() []*scoped.Collection {
	all := []*scoped.Collection{w.from}
	for _, c := range w.with {
		all = append(all, c.from)
	}
	return all
}

func (w *way) targets() []*scoped.Collection {
	all := []*scoped.Collection{w.to}
	for _, c := range w.with {
		all = append(all, c.to)
	}
	return all
}

// bound is how large the companions of a transaction can be: what a transaction of the caller moves, the caller decides.
func bound(ctx context.Context, work mongopatterns.Work) int {
	if txn.Running(ctx) {
		return math.MaxInt
	}
	return work.BatchBytes
}

// step moves a batch.
func (w *way) step(ctx context.Context, batch []bson.Raw, work mongopatterns.Work, result *mongopatterns.Result) error {
	docs, refused := w.movable(batch)
	joined := txn.Running(ctx)
	w.room = bound(ctx, work)
	if len(refused) > 0 && (work.Strict || joined) {
		return refused[0].err
	}
	if work.DryRun {
		result.Done = int64(len(docs))
		w.fail(result, refused)
		return nil
	}
	var moved int64
	var err error
	if !joined {
		moved, err = w.move(ctx, docs, false)
	}
	// In a transaction of the caller an insert that is refused would end it: there the other side is looked at first.
	if cause := err; joined || mongo.IsDuplicateKeyError(cause) {
		same, taken, rest, err := w.meet(ctx, docs)
		if err != nil {
			return err
		}
		if !joined && len(rest) == len(docs) && len(w.with) == 0 {
			return ofAnother(docs, cause)
		}
		result.Done += same
		refused = append(refused, taken...)
		if len(taken) > 0 && (work.Strict || joined) {
			return taken[0].err
		}
		if moved, err = w.move(ctx, rest, true); err != nil {
			return ofAnother(rest, err)
		}
	} else if err != nil {
		return err
	}
	result.Done += moved
	result.Skipped = int64(len(batch)-len(refused)) - result.Done
	w.fail(result, refused)
	return nil
}

// ofAnother is a duplicate key of a document that the other side does not have: it is of another unique index, or another
// tenant has the _id there.
func ofAnother(docs []bson.Raw, err error) error {
	if len(docs) != 1 {
		return err
	}
	return fault.Taken("_id", docs[0].Lookup("_id"), err)
}

// A refusal is a document that cannot be moved.
type refusal struct {
	id  bson.RawValue
	err error
}

func (w *way) fail(result *mongopatterns.Result, refused []refusal) {
	for _, r := range refused {
		maintain.Fail(result, w.from.Name(), r.id, r.err)
	}
}

// movable refuses documents that have the mark before they get it.
func (w *way) movable(batch []bson.Raw) (docs []bson.Raw, refused []refusal) {
	for _, doc := range batch {
		if w.marks && doc.Lookup(w.mark).Type != 0 {
			id := doc.Lookup("_id")
			refused = append(refused, refusal{id, fault.Of(id, fmt.Errorf("%w: the document has the MarkField %q already", fault.ErrMalformed, w.mark))})
			continue
		}
		docs = append(docs, doc)
	}
	return docs, refused
}

// move moves documents in a transaction. Its first statement writes what is to be moved, so that from then on
// other writers wait, and the transaction cannot conflict with them; what is written must be all that is read
// and deleted. With look it compares companions with the other side.
func (w *way) move(ctx context.Context, batch []bson.Raw, look bool) (moved int64, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	these := expr.D("_id", expr.Op("$in", transfer.IDs(batch)))
	err = maintain.Once(ctx, w.from, func(ctx context.Context) error {
		moved = 0
		filter, lock := expr.And(these, w.filter), any(bson.NewObjectID())
		if w.marks {
			filter, lock = expr.And(filter, expr.D(w.mark, expr.Op("$exists", false))), bson.NewDateTimeFromTime(time.Now())
		}
		locked, err := fault.Many(w.from.UpdateMany(ctx, filter, expr.Op("$set", expr.D(w.mark, lock))))
		if err != nil || locked.MatchedCount == 0 {
			return err
		}
		held := expr.And(these, expr.D(w.mark, lock))
		docs, err := find(ctx, w.from, held, len(batch))
		if err != nil {
			return err
		}
		arrivals := make([]mongo.WriteModel, len(docs))
		for i, doc := range docs {
			if field := value.Replaced(doc); field != "" {
				return fault.Refuse(emptied(doc, field))
			}
			if !w.marks {
				doc = w.plain(doc)
			}
			arrivals[i] = mongo.NewInsertOneModel().SetDocument(doc)
		}
		loads, refused, err := w.gather(ctx, docs, look)
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			return fault.Refuse(refused[0].err)
		}
		if err := deliver(ctx, loads); err != nil {
			return err
		}
		moved = locked.MatchedCount
		departure := mongo.NewDeleteManyModel().SetFilter(held)
		return transfer.Exchange(ctx, w.from, w.to, arrivals, []mongo.WriteModel{departure}, moved)
	})
	return moved, err
}

// emptied is the error of a document with an empty timestamp.
func emptied(doc bson.Raw, field string) error {
	return fault.Of(doc.Lookup("_id"), fmt.Errorf("%w: the server would replace the empty timestamp in %q", fault.ErrMalformed, field))
}

func find(ctx context.Context, coll *scoped.Collection, filter any, most int) ([]bson.Raw, error) {
	return cursor.Collect(cursor.Find(ctx, coll, filter, options.Find().SetBatchSize(int32(most+1))))
}

// plain returns a document without the mark.
func (w *way) plain(doc bson.Raw) bson.Raw {
	return value.Pick(doc, func(field []byte) bool { return string(field) != w.mark })
}

// meet deletes the documents that are the same on the other side, and moves their companions. It refuses those that
// differ there, or whose companions do. rest are the others.
func (w *way) meet(ctx context.Context, docs []bson.Raw) (same int64, taken []refusal, rest []bson.Raw, err error) {
	var there map[string]bson.Raw
	err = maintain.Once(ctx, w.from, func(ctx context.Context) error {
		same, taken = 0, nil
		pairs, others, err := w.pairs(ctx, docs)
		if err != nil {
			return err
		}
		there = others
		var leaving []bson.Raw
		for _, p := range pairs {
			if w.same(p) {
				leaving = append(leaving, p.here)
				continue
			}
			id := p.here.Lookup("_id")
			taken = append(taken, refusal{id, fault.Of(id, fmt.Errorf("%w: %s has it with other content", fault.ErrExists, w.to.Name()))})
		}
		refused, err := w.accompany(ctx, leaving)
		if err != nil {
			return err
		}
		taken = append(taken, refused...)
		gone := keysOf(refused)
		leaving = slices.DeleteFunc(leaving, func(doc bson.Raw) bool { return gone[value.Key(doc.Lookup("_id"))] })
		if len(leaving) == 0 {
			return nil
		}
		// What stays must not leave meanwhile, as by the way back, which meets the same pair.
		if err := hold.Documents(ctx, w.to, expr.D("_id", expr.Op("$in", transfer.IDs(leaving)))); err != nil {
			return err
		}
		same = int64(len(leaving))
		deletes := make([]mongo.WriteModel, same)
		for i, doc := range leaving {
			deletes[i] = mongo.NewDeleteOneModel().SetFilter(expr.D("_id", value.Equal(doc.Lookup("_id"))))
		}
		done, err := fault.Many(w.from.BulkWrite(ctx, deletes))
		if err == nil && done.DeletedCount != same {
			err = txn.Conflict("archive")
		}
		return err
	})
	if err != nil {
		return 0, nil, nil, err
	}
	rest = slices.DeleteFunc(slices.Clone(docs), func(doc bson.Raw) bool { return there[value.Key(doc.Lookup("_id"))] != nil })
	return same, taken, rest, nil
}

// A pair is a document on both sides.
type pair struct{ here, there bson.Raw }

// pairs reads, in a transaction, those of the documents that exist on both sides, and all of the other side, by
// the value.Key of their _ids.
func (w *way) pairs(ctx context.Context, docs []bson.Raw) (pairs []pair, there map[string]bson.Raw, err error) {
	others, err := transfer.ByID(ctx, w.to, docs, nil)
	if err != nil || len(others) == 0 {
		return nil, nil, err
	}
	there = make(map[string]bson.Raw, len(others))
	for _, other := range others {
		there[value.Key(other.Lookup("_id"))] = other
	}
	here, err := transfer.ByID(ctx, w.from, others, nil)
	for _, doc := range here {
		pairs = append(pairs, pair{doc, there[value.Key(doc.Lookup("_id"))]})
	}
	return pairs, there, err
}

// same reports whether both are the same but for the mark.
func (w *way) same(p pair) bool { return bytes.Equal(w.plain(p.here), w.plain(p.there)) }
