package subset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// A change is what a write does to one parent: items that leave, items that come.
// One that is edited does both.
type change struct {
	parent  bson.RawValue
	out, in []entry
}

// counts reports whether the change alters the count, and with it the document
// in any case.
func (s *Subset[P, T]) counts(c change) bool {
	return s.opts.CountField != "" && len(c.in) != len(c.out)
}

// target selects a parent for a change.
func (s *Subset[P, T]) target(parent bson.RawValue, first bool) bson.D {
	return append(byID(parent), s.open(first)...)
}

// open leaves out parents without a count, whose items were never counted, and
// those that hold something else where a change belongs. The first items may come
// to a parent without a count that holds none in its array.
func (s *Subset[P, T]) open(first bool) bson.D {
	var closed bson.A
	if s.opts.CountField != "" {
		uncounted := s.uncounted()
		if first {
			uncounted = append(uncounted, bson.E{Key: s.opts.ArrayField + ".0", Value: bson.D{{Key: "$exists", Value: true}}})
		}
		closed = append(closed, uncounted)
	}
	for _, p := range s.places {
		closed = append(closed, bson.D{{Key: p.path, Value: bson.D{
			{Key: "$exists", Value: true}, {Key: "$not", Value: bson.D{{Key: "$type", Value: bson.A{p.kind, "null"}}}},
		}}})
		if p.kind != "array" { // whose elements $type looks at too
			closed = append(closed, bson.D{{Key: p.path, Value: bson.D{{Key: "$type", Value: "array"}}}})
		}
	}
	return bson.D{{Key: "$nor", Value: closed}}
}

// A place is a path in a parent and the type, by its name in $type, that stands
// there if anything does.
type place struct{ path, kind string }

// places are those of all that follows from the items, and of the documents around
// it.
func (o *Options) places() []place {
	var out []place
	add := func(path, kind string) {
		for _, step := range fieldpath.Above(path) {
			if around := (place{step, "object"}); !slices.Contains(out, around) {
				out = append(out, around)
			}
		}
		if path != "" && kind != "" {
			out = append(out, place{path, kind})
		}
	}
	add(o.ArrayField, "array")
	add(o.CountField, "number")
	for _, v := range o.Values {
		add(v.Sum, "number")
		add(v.Count, "number")
		add(v.Mean, "") // whatever it is, it is set anew
	}
	return out
}

// uncounted selects parents without a count.
func (s *Subset[P, T]) uncounted() bson.D { return bson.D{{Key: s.opts.CountField, Value: nil}} }

// taken is the error about a parent that holds something else in a place of one of
// these kinds.
func (s *Subset[P, T]) taken(parent bson.Raw, kinds ...string) error {
	for _, p := range s.places {
		value := rawvalue.Lookup(parent, p.path)
		fits := value.IsZero() || value.Type == bson.TypeNull
		switch p.kind {
		case "array":
			fits = fits || value.Type == bson.TypeArray
		case "object":
			fits = fits || value.Type == bson.TypeEmbeddedDocument
		default:
			fits = fits || value.IsNumber()
		}
		if !fits && slices.Contains(kinds, p.kind) {
			return fmt.Errorf("%w: a value of type %v in %q of the parent _id %s", ErrInvalid, value.Type, p.path, rawvalue.Text(parent.Lookup("_id")))
		}
	}
	return nil
}

// countless reports a parent without a count, and holds one with items in its
// array.
func (s *Subset[P, T]) countless(parent bson.Raw) bool {
	count := rawvalue.Lookup(parent, s.opts.CountField)
	return s.opts.CountField != "" && (count.IsZero() || count.Type == bson.TypeNull)
}

func (s *Subset[P, T]) holds(parent bson.Raw) bool {
	array, _ := rawvalue.Lookup(parent, s.opts.ArrayField).ArrayOK()
	return len(array) > 5 // more than none
}

// update is the write that a change makes in its parent. All of it is one update
// so that no reader sees a count without its item. Where nothing might change,
// it leaves a mark that untouch takes away: a write that changes nothing would
// not conflict with others.
func (s *Subset[P, T]) update(c change) mongo.Pipeline {
	items := any(op("$ifNull", "$"+s.opts.ArrayField, bson.A{}))
	if len(c.out) > 0 {
		gone := make(bson.A, len(c.out))
		for i, e := range c.out {
			gone[i] = e.id
		}
		items = bson.D{{Key: "$filter", Value: bson.D{
			{Key: "input", Value: items},
			{Key: "cond", Value: op("$not", op("$in", "$$this._id", literal(gone)))},
		}}}
	}
	if len(c.in) > 0 {
		come := make(bson.A, len(c.in))
		for i, e := range c.in {
			come[i] = e.kept
		}
		items = op("$concatArrays", items, literal(come))
	}
	order, n := s.storedOrder()
	items = op("$slice", bson.D{{Key: "$sortArray", Value: bson.D{{Key: "input", Value: items}, {Key: "sortBy", Value: order}}}}, n)

	var set bson.D
	if s.opts.CountField != "" {
		set = append(set, bson.E{Key: s.opts.CountField, Value: op("$add", op("$ifNull", "$"+s.opts.CountField, 0), len(c.in)-len(c.out))})
	}
	for _, v := range s.opts.Values {
		plus, minus := numbers(c.in, v.Field), numbers(c.out, v.Field)
		if v.Count != "" {
			set = append(set, bson.E{Key: v.Count, Value: op("$add", op("$ifNull", "$"+v.Count, 0), len(plus)-len(minus))})
		}
		terms := bson.A{op("$ifNull", "$"+v.Sum, 0)}
		for _, number := range plus {
			terms = append(terms, literal(number))
		}
		for _, number := range minus {
			terms = append(terms, literal(negated(number)))
		}
		set = append(set, bson.E{Key: v.Sum, Value: bson.D{{Key: "$add", Value: terms}}})
	}
	var stages mongo.Pipeline
	if s.counts(c) {
		stages = append(stages, bson.D{{Key: "$set", Value: append(bson.D{{Key: s.opts.ArrayField, Value: items}}, set...)}})
	} else {
		stages = append(stages,
			bson.D{{Key: "$set", Value: bson.D{{Key: fieldTouch, Value: items}}}},
			bson.D{{Key: "$set", Value: append(bson.D{
				{Key: s.opts.ArrayField, Value: "$" + fieldTouch},
				{Key: fieldTouch, Value: op("$cond", op("$eq", "$"+fieldTouch, "$"+s.opts.ArrayField), true, "$$REMOVE")},
			}, set...)}})
	}
	return append(stages, s.means()...)
}

// storedOrder is how the parent's array is sorted and sliced.
func (s *Subset[P, T]) storedOrder() (bson.D, int) {
	if !s.opts.BestLast {
		return s.opts.Order, s.opts.N
	}
	var worstFirst bson.D
	for _, e := range s.opts.Order {
		worstFirst = append(worstFirst, bson.E{Key: e.Key, Value: -e.Value.(int32)})
	}
	return worstFirst, -s.opts.N
}

// numbers are the values of a field that can be added up.
func numbers(entries []entry, field string) []bson.RawValue {
	var out []bson.RawValue
	for _, e := range entries {
		if value := rawvalue.Lookup(e.doc, field); isNumber(value) {
			out = append(out, value)
		}
	}
	return out
}

// means computes what follows from sums and counts. A sum of nothing is 0,
// whatever rounding has left.
func (s *Subset[P, T]) means() mongo.Pipeline {
	var set bson.D
	for _, v := range s.opts.Values {
		count := v.Count
		if count == "" {
			count = s.opts.CountField
		}
		if count == "" {
			continue
		}
		some := op("$gt", "$"+count, 0)
		set = append(set, bson.E{Key: v.Sum, Value: op("$cond", some, "$"+v.Sum, 0)})
		if v.Mean != "" {
			set = append(set, bson.E{Key: v.Mean, Value: op("$cond", some, op("$divide", "$"+v.Sum, "$"+count), "$$REMOVE")})
		}
	}
	if set == nil {
		return nil
	}
	return mongo.Pipeline{{{Key: "$set", Value: set}}}
}

// apply makes a change in its parent, within a transaction: the write on which
// all that change items of a parent conflict. It says whether the kept items must
// be read anew, and whether untouch must follow. moved is the item that may have
// sunk below others which are not kept.
func (s *Subset[P, T]) apply(ctx context.Context, c change, moved *entry) (stale, touched bool, err error) {
	fields := bson.D{{Key: "_id", Value: 1}}
	if len(c.out) > 0 {
		fields = append(fields, bson.E{Key: s.opts.ArrayField + "._id", Value: 1})
		if s.opts.CountField != "" {
			fields = append(fields, bson.E{Key: s.opts.CountField, Value: 1})
		}
	}
	if !s.counts(c) {
		fields = append(fields, bson.E{Key: fieldTouch, Value: 1})
	}
	var doc bson.Raw
	err = s.reach(ctx, c, len(c.out) == 0, func(filter bson.D) error {
		return s.parents.FindOneAndUpdate(ctx, filter, s.update(c), options.FindOneAndUpdate().
			SetReturnDocument(options.After).SetProjection(fields)).Decode(&doc)
	})
	if err != nil {
		return false, false, err
	}
	touched = !doc.Lookup(fieldTouch).IsZero()
	if len(c.out) == 0 {
		return false, touched, nil
	}
	var kept []bson.RawValue
	if array, ok := rawvalue.Lookup(doc, s.opts.ArrayField).ArrayOK(); ok {
		if kept, err = array.Values(); err != nil {
			return false, false, err
		}
	}
	if len(kept) < s.opts.N {
		count, counted := rawvalue.Lookup(doc, s.opts.CountField).AsInt64OK()
		return !counted && len(c.in) < len(c.out) || counted && count > int64(len(kept)), touched, nil
	}
	if moved == nil {
		return false, touched, nil
	}
	worst := kept[len(kept)-1]
	if s.opts.BestLast {
		worst = kept[0]
	}
	return key(worst.Document().Lookup("_id")) == key(moved.id), touched, nil
}

// reach calls do with the filter that selects a parent for a change, and says why
// if that has matched none. A parent without a count is open if items only come and
// the collection has no others of it: those were never counted. As nothing is
// written before that is known, nothing has to be taken back.
func (s *Subset[P, T]) reach(ctx context.Context, c change, first bool, do func(filter bson.D) error) error {
	err := do(s.target(c.parent, false))
	first = first && s.opts.CountField != ""
	if errors.Is(err, mongo.ErrNoDocuments) && first {
		if first, err = s.alone(ctx, bson.A{c.parent}, c.in); err != nil {
			return err
		}
		err = mongo.ErrNoDocuments
		if first {
			err = do(s.target(c.parent, true))
		}
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return s.absent(ctx, c.parent, first)
	}
	return err
}

// alone reports whether parents have no items but these.
func (s *Subset[P, T]) alone(ctx context.Context, parents bson.A, but []entry) (bool, error) {
	filter := bson.D{{Key: s.opts.ParentField, Value: bson.D{{Key: "$in", Value: parents}}}}
	if len(parents) == 1 {
		filter = s.of(parents[0].(bson.RawValue))
	}
	if len(but) > 0 {
		these := make(bson.A, len(but))
		for i, e := range but {
			these[i] = e.id
		}
		filter = append(filter, bson.E{Key: "_id", Value: bson.D{{Key: "$nin", Value: these}}})
	}
	err := scan.Primary(s.items).FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return true, nil
	}
	return false, err
}

// found looks for a parent that a filter selects.
func (s *Subset[P, T]) found(ctx context.Context, filter bson.D) error {
	return scan.Primary(s.parents).FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
}

// ready is the error that a change of this parent would get.
func (s *Subset[P, T]) ready(ctx context.Context, parent bson.RawValue, first bool) error {
	return s.reach(ctx, change{parent: parent}, first, func(filter bson.D) error { return s.found(ctx, filter) })
}

// absent says why target has not matched.
func (s *Subset[P, T]) absent(ctx context.Context, parent bson.RawValue, first bool) error {
	var doc bson.Raw
	err := scan.Primary(s.parents).FindOne(ctx, byID(parent), options.FindOne().SetProjection(s.derived())).Decode(&doc)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("%w: _id %s", ErrNoParent, rawvalue.Text(parent))
	case err != nil:
		return err
	}
	if err := s.taken(doc, "array", "object", "number"); err != nil {
		return err
	}
	if s.countless(doc) && (!first || s.holds(doc)) {
		return fmt.Errorf("%w: _id %s", ErrNotAdopted, rawvalue.Text(parent))
	}
	// It has changed after it was missed; if not, running again would not end.
	if err := s.found(ctx, s.target(parent, first)); errors.Is(err, mongo.ErrNoDocuments) {
		return fmt.Errorf("%w: what the parent _id %s holds in place of its items or numbers", ErrInvalid, rawvalue.Text(parent))
	} else if err != nil {
		return err
	}
	return txn.Conflict("the parent has changed")
}

// settle ends a change of a parent within its transaction.
func (s *Subset[P, T]) settle(ctx context.Context, parent bson.RawValue, stale, touched bool) error {
	var update bson.D
	if stale {
		best, err := s.best(ctx, parent)
		if err != nil {
			return err
		}
		update = append(update, bson.E{Key: "$set", Value: bson.D{{Key: s.opts.ArrayField, Value: s.arranged(best)}}})
	}
	if touched {
		update = append(update, bson.E{Key: "$unset", Value: bson.D{{Key: fieldTouch, Value: ""}}})
	}
	if update == nil {
		return nil
	}
	_, err := s.parents.UpdateOne(ctx, byID(parent), update)
	return err
}

// best reads the items that a parent is to keep, the best first.
func (s *Subset[P, T]) best(ctx context.Context, parent bson.RawValue) ([]bson.Raw, error) {
	cursor, err := scan.Primary(s.items).Find(ctx, s.of(parent), options.Find().SetSort(s.opts.Order).
		SetLimit(int64(s.opts.N)).SetBatchSize(int32(min(s.opts.N, 1<<20)+1)).SetProjection(s.projection()))
	if err != nil {
		return nil, err
	}
	var docs []bson.Raw
	err = cursor.All(ctx, &docs)
	return docs, err
}

// arranged is the array for these items, the best of which comes first.
func (s *Subset[P, T]) arranged(docs []bson.Raw) bson.A {
	kept := make(bson.A, len(docs))
	for i, doc := range docs {
		at := i
		if s.opts.BestLast {
			at = len(docs) - 1 - i
		}
		kept[at] = s.cut(doc)
	}
	return kept
}
