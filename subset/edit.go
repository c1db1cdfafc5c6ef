package subset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Replace puts item in the place of the parent's item with the same _id, and
// brings the parent up to date: the kept copy, its rank, the aggregates. An item
// that sinks out of the best N is followed by the next one. ErrNotFound if the
// parent has no such item. An item whose parent is gone is replaced all the same.
//
// Cost: 2 round trips, 1 document written, if the parent keeps nothing of what
// changed; else 3 and 2 documents, 4 if the item is not among the best N, 5 if
// it has sunk to the last place or below (then the best N are read by the index
// {parent, order…}: N keys, N documents). Items and parents are found by _id.
func (s *Subset[P, T]) Replace(ctx context.Context, parent P, item T) error {
	if err := s.replace(ctx, parent, item); err != nil {
		return fmt.Errorf("subset: replace: %w", err)
	}
	return nil
}

func (s *Subset[P, T]) replace(ctx context.Context, parent P, item T) error {
	p, err := s.parentID(parent)
	if err != nil {
		return err
	}
	e, err := s.entry(p, item)
	if err != nil {
		return err
	}
	if e.fresh {
		return fmt.Errorf("%w: no _id", ErrInvalid)
	}
	joined := txn.Running(ctx)
	return txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		var before bson.Raw
		err := s.items.FindOneAndReplace(ctx, s.one(p, e.id), e.doc).Decode(&before)
		if err != nil {
			return notFound(err, e.id)
		}
		return s.refused(ctx, joined, s.edited(ctx, p, s.stored(before), e), func() error {
			_, err := s.items.ReplaceOne(ctx, s.one(p, e.id), before)
			return err
		})
	})
}

// Update changes the parent's item with this _id by an update document or
// pipeline, and brings the parent up to date as Replace does. It cannot change
// the item's parent (see Move): a document that does is ErrInvalid, a pipeline's
// change has no effect. ErrInvalid, and nothing changed, if the item could
// not be ranked or counted afterwards.
//
// Cost: 3 round trips, 1 document written, if the parent keeps nothing of what
// changed; else 4 to 6 as Replace has 3 to 5.
func (s *Subset[P, T]) Update(ctx context.Context, parent P, id, update any) error {
	if err := s.change(ctx, parent, id, update); err != nil {
		return fmt.Errorf("subset: update: %w", err)
	}
	return nil
}

func (s *Subset[P, T]) change(ctx context.Context, parent P, id, update any) error {
	p, err := s.parentID(parent)
	if err != nil {
		return err
	}
	raw, err := s.itemID(id)
	if err != nil {
		return err
	}
	// One that goes to another parent would go to another shard, too, and could not
	// be taken back.
	if update, err = tied(s.opts.Registry, s.opts.ParentField, p, update); err != nil {
		return fmt.Errorf("item %s: %w", rawvalue.Text(raw), err)
	}
	joined := txn.Running(ctx)
	return txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		var before, after bson.Raw
		if err := s.items.FindOneAndUpdate(ctx, s.one(p, raw), update).Decode(&before); err != nil {
			return notFound(err, raw)
		}
		err := s.items.FindOne(ctx, s.one(p, raw)).Decode(&after)
		if err == nil {
			err = s.valid(after)
		}
		if err == nil {
			err = s.edited(ctx, p, s.stored(before), s.stored(after))
		}
		return s.refused(ctx, joined, err, func() error {
			_, err := s.items.ReplaceOne(ctx, s.one(p, raw), before)
			return err
		})
	})
}

// edited brings the parent up to date with an item that has changed in the same
// transaction.
func (s *Subset[P, T]) edited(ctx context.Context, parent bson.RawValue, before, after entry) error {
	changed := !bytes.Equal(before.kept, after.kept)
	for _, v := range s.opts.Values {
		changed = changed || !same(rawvalue.Lookup(before.doc, v.Field), rawvalue.Lookup(after.doc, v.Field))
	}
	if !changed {
		return nil
	}
	var moved *entry
	for _, e := range s.opts.Order {
		if !same(rawvalue.Lookup(before.doc, e.Key), rawvalue.Lookup(after.doc, e.Key)) {
			moved = &after
		}
	}
	return s.follow(ctx, change{parent: parent, out: []entry{before}, in: []entry{after}}, moved)
}

// follow applies a change whose items exist already. A parent that is gone has
// nothing to bring up to date.
func (s *Subset[P, T]) follow(ctx context.Context, c change, moved *entry) error {
	stale, touched, err := s.apply(ctx, c, moved)
	if errors.Is(err, ErrNoParent) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.settle(ctx, c.parent, stale, touched)
}

// Delete deletes the parent's item with this _id and takes it out of the parent:
// the next one follows into the best N. ErrNotFound if the parent has no such
// item. An item whose parent is gone is deleted all the same.
//
// Cost: 3 round trips, 2 documents written; 5 and 3 if the next one follows (the
// best N are read by the index {parent, order…}: N keys, N documents). With
// NoCount 4 if the item was not kept, 5 if the parent keeps fewer than N.
func (s *Subset[P, T]) Delete(ctx context.Context, parent P, id any) error {
	if err := s.remove(ctx, parent, id); err != nil {
		return fmt.Errorf("subset: delete: %w", err)
	}
	return nil
}

func (s *Subset[P, T]) remove(ctx context.Context, parent P, id any) error {
	p, err := s.parentID(parent)
	if err != nil {
		return err
	}
	raw, err := s.itemID(id)
	if err != nil {
		return err
	}
	joined := txn.Running(ctx)
	return txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		var before bson.Raw
		if err := s.items.FindOneAndDelete(ctx, s.one(p, raw)).Decode(&before); err != nil {
			return notFound(err, raw)
		}
		err := s.follow(ctx, change{parent: p, out: []entry{s.stored(before)}}, nil)
		return s.refused(ctx, joined, err, func() error {
			_, err := s.items.InsertOne(ctx, before)
			return err
		})
	})
}

// Move gives the item with this _id to another parent. ErrNotFound if from has
// no such item; ErrNoParent if to does not exist.
//
// Cost: 4 round trips, 3 documents written; 2 more and 1 document if the next one
// follows in from; 2 more in a transaction of the caller's, where the parents are
// looked at first. 2 more, or 4 there, if to has no count yet, as Add. To the same
// parent 1, and nothing is written.
func (s *Subset[P, T]) Move(ctx context.Context, from, to P, id any) error {
	if err := s.move(ctx, from, to, id); err != nil {
		return fmt.Errorf("subset: move: %w", err)
	}
	return nil
}

func (s *Subset[P, T]) move(ctx context.Context, from, to P, id any) error {
	source, err := s.parentID(from)
	if err != nil {
		return err
	}
	target, err := s.parentID(to)
	if err != nil {
		return err
	}
	raw, err := s.itemID(id)
	if err != nil {
		return err
	}
	if key(source) == key(target) {
		return notFound(s.items.FindOne(ctx, s.one(source, raw)).Err(), raw)
	}
	joined := txn.Running(ctx)
	return txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
		if joined { // a refusal must not leave anything written
			if err := s.ready(ctx, source, false); err != nil && !errors.Is(err, ErrNoParent) {
				return err
			}
			if err := s.ready(ctx, target, true); err != nil {
				return err
			}
		}
		var before bson.Raw
		err := s.items.FindOneAndUpdate(ctx, s.one(source, raw),
			bson.D{{Key: "$set", Value: bson.D{{Key: s.opts.ParentField, Value: target}}}}).Decode(&before)
		if err != nil {
			return notFound(err, raw)
		}
		item := []entry{s.stored(before)} // the parent's field is in nothing that is derived
		leave := func() error { return s.follow(ctx, change{parent: source, out: item}, nil) }
		come := func() error {
			_, touched, err := s.apply(ctx, change{parent: target, in: item}, nil)
			if err != nil {
				return err
			}
			return s.settle(ctx, target, false, touched)
		}
		first, second := leave, come
		if compareIDs(source, target) > 0 { // in one order, so that two moves do not wait for each other
			first, second = come, leave
		}
		if err := first(); err != nil {
			return err
		}
		return second()
	})
}

// tied is an update of a document that leaves the field by which it belongs to
// another one as it is.
func tied(registry *bson.Registry, field string, id bson.RawValue, update any) (any, error) {
	raw, err := encodedUpdate(registry, update)
	if err != nil {
		return nil, err
	}
	if stages, ok := raw.ArrayOK(); ok {
		var pipeline bson.A
		values, err := stages.Values()
		for _, v := range values {
			stage, ok := v.DocumentOK()
			if !ok {
				return update, nil // for the server to refuse
			}
			pipeline = append(pipeline, stage)
		}
		return append(pipeline, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: literal(id)}}}}), err
	}
	doc, _ := raw.DocumentOK()
	operators, _ := doc.Elements()
	for _, o := range operators {
		fields, _ := o.Value().DocumentOK()
		elements, _ := fields.Elements()
		for _, e := range elements {
			names := []string{e.Key()}
			if to, ok := e.Value().StringValueOK(); ok && o.Key() == "$rename" {
				names = append(names, to)
			}
			for _, name := range names {
				stays := o.Key() == "$set" && name == field && key(e.Value()) == key(id)
				if !stays && (name == field || strings.HasPrefix(name, field+".")) {
					return nil, fmt.Errorf("%w: the update changes %q", ErrInvalid, field)
				}
			}
		}
	}
	return update, nil
}

// encodedUpdate refuses what is no update document or pipeline.
func encodedUpdate(registry *bson.Registry, update any) (bson.RawValue, error) {
	raw, err := encode.Value(registry, update)
	if err != nil {
		return raw, fmt.Errorf("update: %w: %w", ErrInvalid, err)
	}
	if raw.Type == bson.TypeArray {
		return raw, nil
	}
	doc, ok := raw.DocumentOK()
	switch elements, _ := doc.Elements(); {
	case !ok:
		err = fmt.Errorf("update: %w: a value of type %v", ErrInvalid, raw.Type)
	case len(elements) == 0:
		err = fmt.Errorf("update: %w: it is empty", ErrInvalid)
	case !strings.HasPrefix(elements[0].Key(), "$"):
		err = fmt.Errorf("update: %w: %q is no operator", ErrInvalid, elements[0].Key())
	}
	return raw, err
}

// refused takes a change of an item back if the call is refused: the transaction
// may be the caller's and go on.
func (s *Subset[P, T]) refused(ctx context.Context, joined bool, refusal error, back func() error) error {
	if !joined || !errors.Is(refusal, ErrInvalid) && !errors.Is(refusal, ErrNotAdopted) {
		return refusal
	}
	if err := back(); err != nil {
		return fmt.Errorf("%w (%w)", refusal, err)
	}
	return refusal
}

// DeleteParent deletes a parent and all its items, and says how many these were.
// ErrNoParent if there is no such parent. It is one transaction: where a parent
// has very many items (tens of thousands), delete most of them beforehand. Where it
// has those of another Subset or pattern too, see Composing in the manual.
//
// Cost: 3 round trips; 1 write for the parent and each item; items by the index
// {parent, order…}.
func (s *Subset[P, T]) DeleteParent(ctx context.Context, parent P) (items int64, err error) {
	p, err := s.parentID(parent)
	if err == nil {
		err = txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
			done, err := s.parents.DeleteOne(ctx, byID(p))
			if err != nil {
				return err
			}
			if done.DeletedCount == 0 {
				return fmt.Errorf("%w: _id %s", ErrNoParent, rawvalue.Text(p))
			}
			if done, err = s.items.DeleteMany(ctx, s.of(p)); err != nil {
				return err
			}
			items = done.DeletedCount
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("subset: delete parent: %w", err)
	}
	return items, nil
}

// DeleteEmptyParent deletes a parent that has no items, and is ErrHasItems if it
// has. ErrNoParent if there is no such parent.
//
// Cost: 3 round trips, 1 document written; 1 key of the index {parent, order…}.
func (s *Subset[P, T]) DeleteEmptyParent(ctx context.Context, parent P) error {
	p, err := s.parentID(parent)
	if err == nil {
		joined := txn.Running(ctx)
		err = txn.Run(ctx, s.items.Database().Client(), func(ctx context.Context) error {
			var gone bson.Raw
			err := s.parents.FindOneAndDelete(ctx, byID(p)).Decode(&gone)
			if errors.Is(err, mongo.ErrNoDocuments) {
				return fmt.Errorf("%w: _id %s", ErrNoParent, rawvalue.Text(p))
			}
			if err != nil {
				return err
			}
			err = s.items.FindOne(ctx, s.of(p), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
			switch {
			case errors.Is(err, mongo.ErrNoDocuments):
				return nil
			case err != nil:
				return err
			}
			if joined { // the transaction may go on
				if _, err := s.parents.InsertOne(ctx, gone); err != nil {
					return err
				}
			}
			return fmt.Errorf("%w: _id %s", ErrHasItems, rawvalue.Text(p))
		})
	}
	if err != nil {
		return fmt.Errorf("subset: delete empty parent: %w", err)
	}
	return nil
}
