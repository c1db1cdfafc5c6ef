package subset

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// RepairOptions bounds Repair.
type RepairOptions struct {
	// BatchSize is how many documents are read, and of a Split repaired, at a
	// time. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 // parents, or of a Split hot documents, read
	Repaired  int64 // of these written
	Remaining int64 // problems it cannot repair: Orphan, NotAdopted
}

// Repair makes every parent that Check finds wrong hold what its items say, each
// in a transaction of its own beside live writes. Run it after changing N, Order,
// Fields, CountField or Values, once all writers have the new options. It can be
// stopped and run again.
//
// Cost: the scans of Check, 3 round trips for each Orphan, and 5 for each wrong
// parent, 2 of them writes to it; 6 if it is NotAdopted.
func (s *Subset[P, T]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	err := scan.Defaults("RepairOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	if err == nil {
		err = s.rebuildAll(ctx, nil, "", o.BatchSize, o.Progress, func(done rebuilt) {
			result.Examined++
			result.Repaired += done.written
			result.Remaining += done.left
		})
	}
	if err == nil {
		for _, err = range s.orphans(ctx) {
			if err != nil {
				break
			}
			result.Remaining++
		}
	}
	if err != nil {
		return result, fmt.Errorf("subset: repair: %w", err)
	}
	return result, nil
}

// AdoptOptions bounds Adopt.
type AdoptOptions struct {
	// From is the path of the array that parents hold their items in so far. The
	// field is removed once its items are moved, unless it is Options.ArrayField.
	// Default Options.ArrayField.
	From string
	// Filter narrows the parents. Default nil: all.
	Filter bson.D
	// BatchSize is how many parents are read at a time. Default 100.
	BatchSize int
	// Progress is called after each batch with the parents examined so far.
	// Default nil.
	Progress func(done int64)
}

// AdoptResult counts what Adopt did.
type AdoptResult struct {
	Examined int64 // parents read, or of a Split hot documents
	Adopted  int64 // of these written
	Moved    int64 // items moved out of their arrays, or fields of a Split
}

// Adopt brings existing data into shape. Parents and a collection of items that
// are there already get the kept items and the aggregates. Of parents that hold
// all their items in an array, the items are moved out: those which the
// collection does not have, by _id, are inserted, with an ObjectID if they have
// none. Each parent is one transaction, so that Adopt can run beside writers, be
// stopped, and be run again, also to fetch what old programs have pushed since.
//
// A parent with items in its array and no count refuses writes of this package
// (ErrNotAdopted) until Adopt has reached it. With NoCount nothing tells: adopt
// before the first write.
//
// What stands in the array and not in the collection is taken for an item: for
// parents that are adopted already, and hold copies, use Repair.
//
// Cost: 1 round trip and further ones for many parents, the scan of Check but for
// orphans, and 5 for each parent that is not in shape, 2 of them writes to it; 2 more if it holds items, which are
// looked for by _id and inserted.
func (s *Subset[P, T]) Adopt(ctx context.Context, opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.From, s.opts.ArrayField)
	err := scan.Defaults("AdoptOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	if err == nil {
		err = checkPath("AdoptOptions.From", o.From)
	}
	if err == nil && o.From != s.opts.ArrayField {
		names := []string{"Options.ArrayField", s.opts.ArrayField, "Options.CountField", s.opts.CountField, "_id", "_id"}
		for _, v := range s.opts.Values {
			names = append(names, "Options.Values", v.Sum, "Options.Values", v.Mean, "Options.Values", v.Count)
		}
		err = fieldpath.CheckDisjoint(append(names, "AdoptOptions.From", o.From)...)
	}
	if err == nil {
		err = s.rebuildAll(ctx, o.Filter, o.From, o.BatchSize, o.Progress, func(done rebuilt) {
			result.Examined++
			result.Adopted += done.written
			result.Moved += done.moved
		})
	}
	if err != nil {
		return result, fmt.Errorf("subset: adopt: %w", err)
	}
	return result, nil
}

// rebuilt is what became of a parent.
type rebuilt struct {
	written int64 // 1 if it was wrong
	moved   int64 // items out of its array
	left    int64 // 1 if it is wrong and stays so
}

// rebuildAll rebuilds the parents that a filter selects and that are wrong, or
// hold something in from; tell is told of each.
func (s *Subset[P, T]) rebuildAll(ctx context.Context, filter bson.D, from string, batch int, progress func(int64), tell func(rebuilt)) error {
	examined := int64(0)
	for st, err := range s.states(ctx, filter, batch, from) {
		if err != nil {
			return err
		}
		var done rebuilt
		if len(s.problems(st)) > 0 || s.leftover(st.parent, from) {
			if done, err = s.rebuild(ctx, st.id(), from); err != nil {
				return fmt.Errorf("parent %v: %w", st.id(), err)
			}
		}
		tell(done)
		if examined++; examined%int64(batch) == 0 {
			progress(examined)
		}
	}
	if examined%int64(batch) != 0 {
		progress(examined)
	}
	return nil
}

// leftover reports a field to adopt from that goes once it is empty.
func (s *Subset[P, T]) leftover(parent bson.Raw, from string) bool {
	return from != "" && from != s.opts.ArrayField && !lookup(parent, from).IsZero()
}

// rebuild moves what from holds into the items and sets what follows from all of
// them, in a transaction that begins with a write to the parent.
func (s *Subset[P, T]) rebuild(ctx context.Context, parent bson.RawValue, from string) (done rebuilt, err error) {
	joined := txn.Running(ctx)
	err = txn.Run(ctx, s.parents.Database().Client(), func(ctx context.Context) error {
		done = rebuilt{}
		var doc bson.Raw
		err := s.parents.FindOneAndUpdate(ctx, byID(parent), bson.D{{Key: "$set", Value: bson.D{{Key: fieldTouch, Value: true}}}},
			options.FindOneAndUpdate().SetProjection(s.derived(from))).Decode(&doc)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err != nil {
			return err
		}
		leftover := s.leftover(doc, from)
		if from != "" {
			done.moved, err = s.moveOut(ctx, parent, lookup(doc, from))
		}
		if err != nil {
			return s.refused(ctx, joined, err, func() error { return s.settle(ctx, parent, false, true) })
		}
		st, err := s.complete(ctx, doc)
		if err != nil {
			return err
		}
		var update mongo.Pipeline
		problems := s.problems(st)
		if from == "" && len(problems) > 0 && problems[0].Kind == NotAdopted {
			if known, err := s.copies(ctx, doc); err != nil {
				return err
			} else if !known {
				done.left = 1
				return s.settle(ctx, parent, false, true)
			}
		}
		if len(problems) > 0 || leftover {
			done.written = 1
			set := bson.D{{Key: s.opts.ArrayField, Value: literal(s.arranged(st.top))}}
			if s.opts.CountField != "" {
				set = append(set, bson.E{Key: s.opts.CountField, Value: literal(number(st.stats.Lookup("n")))})
			}
			for i, v := range s.opts.Values {
				set = append(set, bson.E{Key: v.Sum, Value: literal(number(st.stats.Lookup(fmt.Sprintf("s%d", i))))})
				if v.Count != "" {
					set = append(set, bson.E{Key: v.Count, Value: literal(number(st.stats.Lookup(fmt.Sprintf("c%d", i))))})
				}
			}
			update = append(mongo.Pipeline{{{Key: "$set", Value: set}}}, s.means()...)
		}
		gone := bson.A{fieldTouch}
		if leftover {
			gone = append(gone, from)
		}
		_, err = s.parents.UpdateOne(ctx, byID(parent), append(update, bson.D{{Key: "$unset", Value: gone}}))
		return err
	})
	return done, err
}

// moveOut inserts those elements of a parent's array that the items lack, by
// _id. One that another parent's item has is a duplicate key.
func (s *Subset[P, T]) moveOut(ctx context.Context, parent, array bson.RawValue) (int64, error) {
	switch array.Type {
	case 0, bson.TypeNull:
		return 0, nil
	case bson.TypeArray:
	default:
		return 0, fmt.Errorf("%w: a %v in place of the items", ErrInvalid, array.Type)
	}
	values, err := array.Array().Values()
	if err != nil {
		return 0, err
	}
	var entries []entry
	var known bson.A
	for i, v := range values {
		item, ok := v.DocumentOK()
		if !ok {
			return 0, fmt.Errorf("item %d: %w: a %v", i, ErrInvalid, v.Type)
		}
		e, err := s.entry(parent, item)
		if err != nil {
			return 0, err
		}
		if entries = append(entries, e); !e.fresh {
			known = append(known, e.id)
		}
	}
	there, err := s.among(ctx, parent, known)
	if err != nil {
		return 0, err
	}
	var docs []bson.Raw
	for _, e := range entries {
		if k := key(e.id); !there[k] {
			there[k] = true
			docs = append(docs, e.doc)
		}
	}
	if len(docs) == 0 {
		return 0, nil
	}
	_, err = s.items.InsertMany(ctx, docs)
	return int64(len(docs)), err
}

// among says by key which of these _ids a parent's items have.
func (s *Subset[P, T]) among(ctx context.Context, parent bson.RawValue, ids bson.A) (map[string]bool, error) {
	there := map[string]bool{}
	if len(ids) == 0 {
		return there, nil
	}
	filter := append(bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, s.of(parent)...)
	cursor, err := scan.Primary(s.items).Find(ctx, filter, options.Find().
		SetProjection(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(int32(min(len(ids), 1<<20)+1)))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		there[key(cursor.Current.Lookup("_id"))] = true
	}
	return there, cursor.Err()
}

// copies reports whether the items have all that a parent's array holds.
func (s *Subset[P, T]) copies(ctx context.Context, parent bson.Raw) (bool, error) {
	var ids bson.A
	array, _ := lookup(parent, s.opts.ArrayField).ArrayOK()
	values, err := array.Values()
	if err != nil {
		return false, err
	}
	for _, v := range values {
		item, _ := v.DocumentOK()
		id := item.Lookup("_id")
		if id.IsZero() {
			return false, nil
		}
		ids = append(ids, id)
	}
	there, err := s.among(ctx, parent.Lookup("_id"), ids)
	for _, id := range ids {
		if !there[key(id.(bson.RawValue))] {
			return false, err
		}
	}
	return true, err
}
