package subset

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// RepairOptions bounds Repair.
type RepairOptions struct {
	// BatchSize is how many documents are read at a time and repaired in one
	// transaction, fewer if they are large or have very many items. Default 100.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// RepairResult says what Repair did.
type RepairResult struct {
	Examined  int64 `json:"examined"`  // parents, or of a Split hot documents, read
	Repaired  int64 `json:"repaired"`  // of these written
	Remaining int64 `json:"remaining"` // problems it cannot repair: Orphan, NotAdopted, InvalidItem, OnBothSides; and documents refused
}

// Repair makes every parent that Check finds wrong hold what its items say, a
// batch in a transaction, beside live writes. Run it after changing N, Order,
// Fields, CountField or Values, once all writers have the new options. It can be
// stopped and run again. If a parent cannot be repaired (it would be too large, or
// a number of yours stands where the document around its array belongs), the others
// of its batch are, one by one, and then the rest; the error comes at the end, with
// the whole result, and names the first ten such parents.
//
// Cost: the scans of Check, 3 round trips for each Orphan, and 5 for each batch of
// BatchSize parents in which some are wrong, 6 if one of these is NotAdopted; 2
// writes to each wrong parent, and all its items read by the index {parent,
// order…}. With NoCount and no Values 4, and 1 for each wrong parent, of which N
// items are read.
func (s *Subset[P, T]) Repair(ctx context.Context, opts *RepairOptions) (RepairResult, error) {
	var result RepairResult
	var o RepairOptions
	if opts != nil {
		o = *opts
	}
	err := scan.Defaults(ErrInvalid, "RepairOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	var done rebuilt
	if err == nil {
		err = s.rebuildAll(ctx, nil, "", o.BatchSize, o.Progress, &result.Examined, &done)
		result.Repaired, result.Remaining = done.written, done.left+done.refused
	}
	if err == nil {
		for _, err = range s.left(ctx) {
			if err != nil {
				break
			}
			result.Remaining++
		}
	}
	if err == nil {
		err = done.errs
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
	// BatchSize is how many parents are read at a time and adopted in one
	// transaction, fewer if they are large or have very many items. Default 100.
	BatchSize int
	// Progress is called after each batch with the parents examined so far.
	// Default nil.
	Progress func(done int64)
}

// AdoptResult counts what Adopt did.
type AdoptResult struct {
	Examined int64 `json:"examined"` // parents read, or of a Split hot documents; in Join cold ones
	Adopted  int64 `json:"adopted"`  // of these written
	Moved    int64 `json:"moved"`    // items moved out of their arrays, or fields of a Split
	Skipped  int64 `json:"skipped"`  // of the examined: refused, see the error
}

// Adopt brings existing data into shape. Parents and a collection of items that
// are there already get the kept items and the aggregates. Of parents that hold
// all their items in an array, the items are moved out: those which the
// collection does not have, by _id, are inserted, with an ObjectID if they have
// none. A batch of parents is one transaction, so that Adopt can run beside
// writers, be stopped, and be run again, also to fetch what old programs have
// pushed since; a write of this package to the same parent would cut that off, so
// stop them soon. If a parent cannot be adopted, because an item in it is
// ErrInvalid or has the _id of another parent's, it is skipped, and the others of its
// batch are adopted one by one, and then the rest; the error comes at the end, with
// the whole result, and names the first ten such parents.
//
// A parent with items, in its array or in the collection, and no count refuses
// writes of this package (ErrNotAdopted) until Adopt has reached it. With NoCount
// nothing tells: adopt before the first write.
//
// Items in the collection are taken as they are: Check names those that Add would
// refuse.
//
// What stands in the array and not in the collection is taken for an item: for
// parents that are adopted already, and hold copies, use Repair.
//
// Cost: 1 round trip and further ones for many parents, the scans of Check but for
// orphans and invalid items, and for each batch what Repair needs; 2 more if
// parents in it hold items, which are looked for by _id and inserted.
func (s *Subset[P, T]) Adopt(ctx context.Context, opts *AdoptOptions) (AdoptResult, error) {
	var result AdoptResult
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	setDefault(&o.From, s.opts.ArrayField)
	err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, scanBatchSize, &o.Progress)
	if err == nil {
		err = fieldpath.CheckNamed("AdoptOptions.From", o.From)
	}
	if err == nil && o.From != s.opts.ArrayField {
		names := []string{"Options.ArrayField", s.opts.ArrayField, "Options.CountField", s.opts.CountField, "_id", "_id"}
		for _, v := range s.opts.Values {
			names = append(names, "Options.Values", v.Sum, "Options.Values", v.Mean, "Options.Values", v.Count)
		}
		err = fieldpath.CheckDisjoint(append(names, "AdoptOptions.From", o.From)...)
	}
	if err == nil {
		var done rebuilt
		err = s.rebuildAll(ctx, o.Filter, o.From, o.BatchSize, o.Progress, &result.Examined, &done)
		result.Adopted, result.Moved, result.Skipped = done.written, done.moved, done.refused
		if err == nil {
			err = done.errs
		}
	}
	if err != nil {
		return result, fmt.Errorf("subset: adopt: %w", err)
	}
	return result, nil
}

// rebuilt counts what became of parents.
type rebuilt struct {
	written int64 // that were wrong
	moved   int64 // items out of their arrays
	left    int64 // that are wrong and stay so
	refusals
}

// rebuildAll rebuilds the parents that a filter selects and that are wrong, or
// hold something in from, a batch in a transaction.
func (s *Subset[P, T]) rebuildAll(ctx context.Context, filter bson.D, from string, batch int, progress func(int64), examined *int64, total *rebuilt) error {
	for ids, err := range s.suspects(ctx, filter, from, batch, progress, examined) {
		if err != nil {
			return err
		}
		err = total.apart(ctx, ids, func(ids bson.A) error {
			done, err := s.rebuild(ctx, ids, from)
			if err == nil {
				total.written += done.written
				total.moved += done.moved
				total.left += done.left
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// refusals are the documents that were refused, each by itself, and the errors of
// the first of them.
type refusals struct {
	refused int64
	errs    error
}

// apart does something to a batch of documents, and to each of them by itself if
// one of them is refused: it must not hold up the others. Its error is one after
// which it makes no sense to go on.
func (r *refusals) apart(ctx context.Context, ids bson.A, do func(ids bson.A) error) error {
	err := do(ids)
	if err == nil || !onesOwn(ctx, err) {
		return named(ids, err)
	}
	if len(ids) > 1 {
		for i := range ids {
			if err := r.apart(ctx, ids[i:i+1], do); err != nil {
				return err
			}
		}
		return nil
	}
	if r.refused++; r.refused <= 10 {
		r.errs = errors.Join(r.errs, named(ids, err))
	}
	return nil
}

func named(ids bson.A, err error) error {
	if err == nil || len(ids) > 1 {
		return err
	}
	return fmt.Errorf("_id %s: %w", rawvalue.Text(ids[0].(bson.RawValue)), err)
}

const codeUnauthorized = 13

// onesOwn reports an error that may come of one document of a batch alone, and
// after which one can go on.
func onesOwn(ctx context.Context, err error) bool {
	var server mongo.ServerError
	return errors.Is(err, ErrInvalid) || !txn.Running(ctx) && errors.As(err, &server) &&
		!server.HasErrorCode(codeUnauthorized) && !server.HasErrorLabel("TransientTransactionError") &&
		!errors.Is(err, ErrTransactionsUnsupported) && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err)
}

// leftover reports a field to adopt from that goes once it is empty.
func (s *Subset[P, T]) leftover(parent bson.Raw, from string) bool {
	return from != "" && from != s.opts.ArrayField && !rawvalue.Lookup(parent, from).IsZero()
}

// rebuild moves what from holds into the items and sets what follows from all of
// them, in a transaction that begins with a write to all the parents.
func (s *Subset[P, T]) rebuild(ctx context.Context, ids bson.A, from string) (done rebuilt, err error) {
	joined := txn.Running(ctx)
	these := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
	mark := bson.D{{Key: fieldTouch, Value: true}}
	err = txn.Run(ctx, s.parents.Database().Client(), func(ctx context.Context) error {
		done = rebuilt{}
		if _, err := s.parents.UpdateMany(ctx, these, bson.D{{Key: "$set", Value: mark}}); err != nil {
			return err
		}
		docs, err := s.read(ctx, ids, from)
		if err != nil || len(docs) == 0 {
			return err
		}
		for _, doc := range docs {
			err = errors.Join(err, s.taken(doc, "object"))
		}
		if err == nil && from != "" {
			done.moved, err = s.moveOut(ctx, docs, from)
		}
		if err != nil {
			return s.refused(ctx, joined, err, func() error {
				_, err := s.parents.UpdateMany(ctx, these, bson.D{{Key: "$unset", Value: mark}})
				return err
			})
		}
		states, err := s.complete(ctx, docs)
		if err != nil {
			return err
		}
		stay := map[int]bool{}
		if from == "" {
			if stay, err = s.notAdopted(ctx, states); err != nil {
				return err
			}
		}
		models := make([]mongo.WriteModel, len(states))
		for i, st := range states {
			var update mongo.Pipeline
			gone := bson.A{fieldTouch}
			leftover := s.leftover(st.parent, from)
			switch {
			case stay[i]:
				done.left++
			case leftover || len(s.problems(st)) > 0:
				done.written++
				update = s.rebuilding(st)
			}
			if leftover {
				gone = append(gone, from)
			}
			models[i] = mongo.NewUpdateOneModel().SetFilter(byID(st.id())).
				SetUpdate(append(update, bson.D{{Key: "$unset", Value: gone}}))
		}
		_, err = s.parents.BulkWrite(ctx, models)
		return err
	})
	return done, err
}

// rebuilding sets in a parent all that follows from its items.
func (s *Subset[P, T]) rebuilding(st state) mongo.Pipeline {
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
	return append(mongo.Pipeline{{{Key: "$set", Value: set}}}, s.means()...)
}

// moveOut inserts those elements of the parents' arrays that the items lack, by
// _id. One that another parent's item has is a duplicate key.
func (s *Subset[P, T]) moveOut(ctx context.Context, parents []bson.Raw, from string) (int64, error) {
	var entries []entry
	seen := map[string]entry{}
	var of, known bson.A
	for _, doc := range parents {
		parent, array := doc.Lookup("_id"), rawvalue.Lookup(doc, from)
		switch array.Type {
		case 0, bson.TypeNull:
			continue
		case bson.TypeArray:
		default:
			return 0, fmt.Errorf("%w: a value of type %v in place of the items", ErrInvalid, array.Type)
		}
		values, err := array.Array().Values()
		if err != nil {
			return 0, err
		}
		of = append(of, parent)
		for i, v := range values {
			item, ok := v.DocumentOK()
			if !ok {
				return 0, fmt.Errorf("item %d: %w: a value of type %v", i, ErrInvalid, v.Type)
			}
			e, err := s.encoded(parent, item)
			if err != nil {
				return 0, fmt.Errorf("item %d: %w", i, err)
			}
			if !e.fresh {
				if twin, twice := seen[pair(parent, e.id)]; twice {
					if !bytes.Equal(twin.doc, e.doc) {
						return 0, fmt.Errorf("item %d: %w: another one has the _id %s", i, ErrInvalid, rawvalue.Text(e.id))
					}
					continue
				}
				seen[pair(parent, e.id)] = e
				known = append(known, e.id)
			}
			entries = append(entries, e)
		}
	}
	there, err := s.among(ctx, of, known)
	if err != nil {
		return 0, err
	}
	var docs []bson.Raw
	for _, e := range entries {
		if there[pair(e.doc.Lookup(s.opts.ParentField), e.id)] {
			continue
		}
		if err := s.valid(e.doc); err != nil {
			return 0, err
		}
		docs = append(docs, e.doc)
	}
	if len(docs) == 0 {
		return 0, nil
	}
	_, err = s.items.InsertMany(ctx, docs)
	return int64(len(docs)), err
}

// pair stands for an item of a parent.
func pair(parent, id bson.RawValue) string { return fmt.Sprintf("%q%q", key(parent), key(id)) }

// among says by pair which of these _ids items of these parents have.
func (s *Subset[P, T]) among(ctx context.Context, parents, ids bson.A) (map[string]bool, error) {
	there := map[string]bool{}
	if len(ids) == 0 {
		return there, nil
	}
	cursor, err := scan.Primary(s.items).Find(ctx, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}},
		{Key: s.opts.ParentField, Value: bson.D{{Key: "$in", Value: parents}}},
	}, options.Find().SetProjection(included([]string{s.opts.ParentField})).SetBatchSize(int32(min(len(ids), 1<<20)+1)))
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		there[pair(cursor.Current.Lookup(s.opts.ParentField), cursor.Current.Lookup("_id"))] = true
	}
	return there, cursor.Err()
}

// notAdopted says which parents hold items that are not known to be copies.
func (s *Subset[P, T]) notAdopted(ctx context.Context, states []state) (map[int]bool, error) {
	stay := map[int]bool{}
	var parents, ids bson.A
	held := map[int][]bson.RawValue{}
	for i, st := range states {
		if problems := s.problems(st); len(problems) == 0 || problems[0].Kind != NotAdopted {
			continue
		}
		parents = append(parents, st.id())
		array, _ := rawvalue.Lookup(st.parent, s.opts.ArrayField).ArrayOK()
		values, err := array.Values()
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			item, _ := v.DocumentOK()
			id := item.Lookup("_id")
			held[i] = append(held[i], id)
			if !id.IsZero() {
				ids = append(ids, id)
			}
		}
	}
	there, err := s.among(ctx, parents, ids)
	for i, of := range held {
		for _, id := range of {
			stay[i] = stay[i] || !there[pair(states[i].id(), id)]
		}
	}
	return stay, err
}
