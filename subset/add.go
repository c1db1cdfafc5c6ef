package subset

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Add stores an item of a parent: in the collection of items, in the parent if it
// is one of the best N, and in its count and aggregates, all or nothing. It
// returns the item's _id, an ObjectID if the item came without: an empty
// string, or another zero value, is an _id like any other. Options.ParentField is
// set whatever the item holds there.
//
// ErrNoParent if there is no such parent; ErrNotAdopted if it has items that were
// never counted; ErrInvalid if the item cannot be ranked or counted; a
// duplicate-key error of the driver if its _id exists.
//
// Cost: 3 round trips, 2 documents written; index _id of the parents, 1 key. 5 for
// the first item of a parent that has no count yet: the collection is asked for
// others, 1 key of the index {parent, order…}. With NoCount 3, or 4 if the item is
// not among the best N.
func (s *Subset[P, T]) Add(ctx context.Context, parent P, item T) (id any, err error) {
	e, err := s.add(ctx, parent, item)
	if err == nil {
		err = e.id.Unmarshal(&id)
	}
	if err != nil {
		return nil, fmt.Errorf("subset: add: %w", err)
	}
	return id, nil
}

func (s *Subset[P, T]) add(ctx context.Context, parent P, item T) (entry, error) {
	p, err := s.parentID(parent)
	if err != nil {
		return entry{}, err
	}
	e, err := s.entry(p, item)
	if err != nil {
		return entry{}, err
	}
	return e, txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		_, touched, err := s.apply(ctx, change{parent: p, in: []entry{e}}, nil)
		if err != nil {
			return err
		}
		if _, err := s.items.InsertOne(ctx, e.doc); err != nil {
			return err
		}
		return s.settle(ctx, p, false, touched)
	})
}

// BatchOptions bounds AddMany.
type BatchOptions struct {
	// BatchSize is how many items one transaction stores, fewer if they have more
	// than 8 MB. Default 1000.
	BatchSize int
	// Progress is called after each batch with the items stored so far. Default
	// nil.
	Progress func(done int64)
}

// AddResult counts the items of AddMany.
type AddResult struct {
	Added int64 `json:"added"`
}

// AddMany stores items of any parents, a batch in a transaction. An error leaves
// the batches before it: the first Added of the sequence are stored, no other is.
// It names a parent that does not exist or an item that cannot be stored, by its
// place in the sequence, from 0. A nil sequence has no items.
//
// Cost: for each batch of BatchSize 3 round trips, 1 write for each item and each
// parent in it; 6 if some of the parents have no count yet; 4 with NoCount. In a
// transaction of the caller's parents are looked for first, in 1 more, or 3 if some
// have no count yet.
func (s *Subset[P, T]) AddMany(ctx context.Context, items iter.Seq2[P, T], opts *BatchOptions) (AddResult, error) {
	var o BatchOptions
	if opts != nil {
		o = *opts
	}
	var result AddResult
	err := scan.Defaults(ErrInvalid, "BatchOptions", &o.BatchSize, defaultBatchSize, &o.Progress)
	if err != nil {
		return result, fmt.Errorf("subset: add many: %w", err)
	}
	var groups []change
	known, pending, size := map[string]int{}, 0, 0
	flush := func() error {
		if pending == 0 {
			return nil
		}
		if err := s.addBatch(ctx, groups); err != nil {
			return err
		}
		result.Added += int64(pending)
		o.Progress(result.Added)
		groups, pending, size = nil, 0, 0
		clear(known)
		return nil
	}
	if items == nil {
		return result, nil
	}
	for parent, item := range items {
		var p bson.RawValue
		var e entry
		if p, err = s.parentID(parent); err == nil {
			e, err = s.entry(p, item)
		}
		if err != nil {
			err = fmt.Errorf("at %d: %w", result.Added+int64(pending), err)
			break
		}
		if size += len(e.doc); size > transactionBytes { // an update must fit into 16 MB
			if err = flush(); err != nil {
				break
			}
			size = len(e.doc)
		}
		i, ok := known[key(p)]
		if !ok {
			i = len(groups)
			known[key(p)] = i
			groups = append(groups, change{parent: p})
		}
		groups[i].in = append(groups[i].in, e)
		if pending++; pending == o.BatchSize {
			if err = flush(); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = flush()
	}
	if err != nil {
		return result, fmt.Errorf("subset: add many: %w", err)
	}
	return result, nil
}

func (s *Subset[P, T]) addBatch(ctx context.Context, groups []change) error {
	// In one order, so that two batches do not wait for each other in a circle.
	slices.SortFunc(groups, func(a, b change) int { return compareIDs(a.parent, b.parent) })
	models, firsts := make([]mongo.WriteModel, len(groups)), make([]mongo.WriteModel, len(groups))
	ids := make(bson.A, len(groups))
	var docs []bson.Raw
	for i, c := range groups {
		update := s.update(c)
		models[i] = mongo.NewUpdateOneModel().SetFilter(s.target(c.parent, false)).SetUpdate(update)
		firsts[i] = mongo.NewUpdateOneModel().SetFilter(append(s.target(c.parent, true), s.uncounted()...)).SetUpdate(update)
		ids[i] = c.parent
		for _, e := range c.in {
			docs = append(docs, e.doc)
		}
	}
	these := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	joined, missed := txn.Running(ctx), 0
	refusal := func(ctx context.Context) error {
		for _, c := range groups {
			if err := s.ready(ctx, c.parent, true); err != nil {
				return err
			}
		}
		if missed++; missed < 3 && !joined {
			return txn.Conflict("a parent appeared") // after it was missed
		}
		return fmt.Errorf("%w: the collection holds two of these parents' _ids for one", ErrInvalid) // by its collation
	}
	return txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		if joined { // a refusal must not leave the others written
			n, err := scan.Primary(s.parents).CountDocuments(ctx, append(these, s.open(false)...))
			if err == nil && n < int64(len(groups)) {
				var first int64
				first, err = s.firsts(ctx, these)
				n += first
			}
			if err != nil {
				return err
			}
			if n < int64(len(groups)) {
				return refusal(ctx)
			}
		}
		done, err := s.parents.BulkWrite(ctx, models)
		if err != nil {
			return err
		}
		n := done.MatchedCount
		if n < int64(len(groups)) {
			first, err := s.firsts(ctx, these)
			if err != nil {
				return err
			}
			if first > 0 {
				if done, err = s.parents.BulkWrite(ctx, firsts); err != nil {
					return err
				}
				n += done.MatchedCount
			}
		}
		if n < int64(len(groups)) {
			return refusal(ctx)
		}
		if _, err := s.items.InsertMany(ctx, docs); err != nil {
			return err
		}
		if s.opts.CountField != "" {
			return nil
		}
		_, err = s.parents.UpdateMany(ctx, append(these, bson.E{Key: fieldTouch, Value: true}),
			bson.D{{Key: "$unset", Value: bson.D{{Key: fieldTouch, Value: ""}}}})
		return err
	})
}

// firsts counts those of these parents that have no count and wait for their first
// items; none if one of them has some that were never counted.
func (s *Subset[P, T]) firsts(ctx context.Context, these bson.D) (int64, error) {
	if s.opts.CountField == "" {
		return 0, nil
	}
	cursor, err := scan.Primary(s.parents).Find(ctx, append(append(these, s.uncounted()...), s.open(true)...),
		options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return 0, err
	}
	var found []bson.Raw
	if err := cursor.All(ctx, &found); err != nil || len(found) == 0 {
		return 0, err
	}
	ids := make(bson.A, len(found))
	for i, doc := range found {
		ids[i] = doc.Lookup("_id")
	}
	if ok, err := s.alone(ctx, ids, nil); !ok {
		return 0, err
	}
	return int64(len(found)), nil
}
