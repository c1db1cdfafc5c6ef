package subset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/indexes"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// Subset keeps the best N items T of each parent inside the parent, whose _id is
// a P, and all items in their own collection. It is safe for concurrent use.
type Subset[P, T any] struct {
	parents, items *mongo.Collection
	opts           Options
	places         []place
	keep           selection // of Options.Fields; nil for all but the parent's field
}

// New returns a Subset over two collections of one database. It does no I/O.
//
// P is the type of the parents' _ids; T is an item, a struct, map or bson.D that
// encodes to a document. opts may be nil. All that write the collections must use
// the same options, but for the fields of a parent that other code keeps. A parent
// may have several Subsets, each with items, an array, a count and values of its
// own. Two Subsets over one collection of items (the newest and the best rated) are
// not supported, as the writes of one do not reach the array of the other: keep one
// of the two, and read the other with ItemsFilter, a sort and an index for it.
func New[P, T any](parents, items *mongo.Collection, opts *Options) (*Subset[P, T], error) {
	if err := checkCollections("parents", parents, "items", items); err != nil {
		return nil, err
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("subset: %w", err)
	}
	s := &Subset[P, T]{parents: parents, items: items, opts: o, places: o.places()}
	if len(o.Fields) > 0 {
		s.keep = selection{}
		for _, field := range o.Fields {
			s.keep.add(field)
		}
		for _, e := range o.Order {
			s.keep.add(e.Key)
		}
	}
	return s, nil
}

func checkCollections(nameA string, a *mongo.Collection, nameB string, b *mongo.Collection) error {
	switch {
	case a == nil:
		return fmt.Errorf("subset: %s: nil collection", nameA)
	case b == nil:
		return fmt.Errorf("subset: %s: nil collection", nameB)
	case a.Database().Client() != b.Database().Client() || a.Database().Name() != b.Database().Name():
		return fmt.Errorf("subset: %s: not in the client and database of %s", nameB, nameA)
	case a.Name() == b.Name():
		return fmt.Errorf("subset: %s: the same collection as %s", nameB, nameA)
	}
	return nil
}

// Indexes returns the index of the items, {parent: 1, order…, _id}. Parents are
// found by _id.
func (s *Subset[P, T]) Indexes() []mongo.IndexModel {
	return []mongo.IndexModel{{Keys: append(bson.D{{Key: s.opts.ParentField, Value: 1}}, s.opts.Order...)}}
}

// EnsureIndexes creates the index of the items if it is missing. An index on the
// same keys with other options is ErrIndexConflict; nothing is dropped.
//
// Cost: 1 round trip if it is there, else 2.
func (s *Subset[P, T]) EnsureIndexes(ctx context.Context) error {
	if err := indexes.Ensure(ctx, s.items, s.Indexes()); err != nil {
		return fmt.Errorf("subset: %w", err)
	}
	return nil
}

// ShardKey returns the recommended shard key of the items, {parent: 1}: all items
// of a parent lie on one shard. Every write of an item filters on it and on _id,
// so that {parent: 1, _id: 1} serves as well. Shard parents by _id.
func (s *Subset[P, T]) ShardKey() bson.D { return bson.D{{Key: s.opts.ParentField, Value: 1}} }

// Order returns the order of the items, the best first, _id included: the sort
// that goes with ItemsFilter.
func (s *Subset[P, T]) Order() bson.D { return append(bson.D(nil), s.opts.Order...) }

// ItemsFilter selects all items of a parent, for Find, paging or an aggregation.
// With the sort Order it reads the index in order.
func (s *Subset[P, T]) ItemsFilter(parent P) bson.D {
	id, err := s.value(parent)
	if err != nil { // for the driver to refuse
		return bson.D{{Key: s.opts.ParentField, Value: parent}}
	}
	return s.of(id)
}

// TopPipeline yields the kept items of a parent as documents, the best first: to
// be run on the collection of parents. What is no document in the array is an error
// of the server's.
func (s *Subset[P, T]) TopPipeline(parent P) mongo.Pipeline {
	var id any = parent
	if raw, err := s.value(parent); err == nil {
		id = rawvalue.Equal(raw)
	}
	return mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "_id", Value: id}}}},
		{{Key: "$project", Value: bson.D{{Key: "item", Value: s.kept()}}}},
		{{Key: "$unwind", Value: "$item"}},
		{{Key: "$replaceWith", Value: op("$mergeObjects", "$item", bson.D{{Key: s.opts.ParentField, Value: "$_id"}})}},
	}
}

// Top returns the kept items of a parent, the best first: as All gives them, as
// far as Options.Fields keeps them. ErrNoParent if there is no such parent;
// ErrInvalid if it holds something else in place of the array. Programs that read
// the parent anyway find the items in its array.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the parents.
func (s *Subset[P, T]) Top(ctx context.Context, parent P) ([]T, error) {
	items, err := s.top(ctx, parent)
	if err != nil {
		return nil, fmt.Errorf("subset: top: %w", err)
	}
	return items, nil
}

func (s *Subset[P, T]) top(ctx context.Context, parent P) ([]T, error) {
	id, err := s.parentID(parent)
	if err != nil {
		return nil, err
	}
	kind := op("$type", op("$ifNull", "$"+s.opts.ArrayField, bson.A{}))
	cursor, err := s.parents.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: byID(id)}},
		{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: "kind", Value: kind},
			{Key: "items", Value: op("$cond", op("$eq", kind, "array"), bson.D{{Key: "$map", Value: bson.D{
				{Key: "input", Value: s.kept()},
				{Key: "in", Value: op("$mergeObjects", "$$this", bson.D{{Key: s.opts.ParentField, Value: "$_id"}})},
			}}}, bson.A{})}}}},
	})
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	if !cursor.Next(ctx) {
		if err := cursor.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: _id %s", ErrNoParent, rawvalue.Text(id))
	}
	var found struct {
		Kind  string `bson:"kind"`
		Items []T    `bson:"items"`
	}
	err = cursor.Decode(&found)
	if err == nil && found.Kind != "array" {
		err = fmt.Errorf("%w: a value of type %s in %q of the parent _id %s", ErrInvalid, found.Kind, s.opts.ArrayField, rawvalue.Text(id))
	}
	return found.Items, err
}

// kept is the expression for the kept items, the best first.
func (s *Subset[P, T]) kept() any {
	kept := op("$ifNull", "$"+s.opts.ArrayField, bson.A{})
	if s.opts.BestLast {
		return op("$reverseArray", kept)
	}
	return kept
}

// All yields all items of a parent, the best first. A parent that does not exist
// has none.
//
// Cost: 1 round trip a batch of the cursor; 1 key and 1 document for each item;
// the index {parent, order…}, in order.
func (s *Subset[P, T]) All(ctx context.Context, parent P) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		fail := func(err error) { yield(zero, fmt.Errorf("subset: all: %w", err)) }
		id, err := s.parentID(parent)
		if err != nil {
			fail(err)
			return
		}
		cursor, err := s.items.Find(ctx, s.of(id), options.Find().SetSort(s.opts.Order))
		if err != nil {
			fail(err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			var item T
			if err := cursor.Decode(&item); err != nil {
				fail(err)
				return
			}
			if !yield(item, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			fail(err)
		}
	}
}

// Get returns an item of a parent, whole. ErrNotFound if there is none.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the items.
func (s *Subset[P, T]) Get(ctx context.Context, parent P, id any) (T, error) {
	var item T
	p, err := s.parentID(parent)
	var raw bson.RawValue
	if err == nil {
		raw, err = s.itemID(id)
	}
	if err == nil {
		err = notFound(s.items.FindOne(ctx, s.one(p, raw)).Decode(&item), raw)
	}
	if err != nil {
		return item, fmt.Errorf("subset: get: %w", err)
	}
	return item, nil
}

// notFound names what was looked for.
func notFound(err error, id bson.RawValue) error {
	if errors.Is(err, mongo.ErrNoDocuments) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNoParent) {
		return fmt.Errorf("%w: _id %s", ErrNotFound, rawvalue.Text(id))
	}
	return err
}

func (s *Subset[P, T]) value(v any) (bson.RawValue, error) { return encode.Value(s.opts.Registry, v) }

// parentID encodes a parent's _id.
func (s *Subset[P, T]) parentID(parent P) (bson.RawValue, error) {
	id, err := s.value(parent)
	if err != nil {
		return id, fmt.Errorf("parent %v: %w: %w", parent, ErrInvalid, err)
	}
	return id, checkID("parent", id)
}

// checkID refuses what cannot be an _id, and null: a filter on it finds items
// without a parent.
func checkID(what string, id bson.RawValue) error {
	switch id.Type {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return fmt.Errorf("%s: %w: a value of type %v cannot be its _id", what, ErrInvalid, id.Type)
	}
	return nil
}

func byID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: rawvalue.Equal(id)}} }

// of selects the items of a parent.
func (s *Subset[P, T]) of(parent bson.RawValue) bson.D {
	return bson.D{{Key: s.opts.ParentField, Value: rawvalue.Equal(parent)}}
}

// one selects an item by the full shard key.
func (s *Subset[P, T]) one(parent, id bson.RawValue) bson.D {
	return append(byID(id), s.of(parent)...)
}

func (s *Subset[P, T]) itemID(id any) (bson.RawValue, error) {
	raw, err := s.value(id)
	if err != nil {
		return raw, fmt.Errorf("item %v: %w: %w", id, ErrInvalid, err)
	}
	return raw, checkID("item", raw)
}

// An entry is an item as it is stored and what a parent keeps of it.
type entry struct {
	id    bson.RawValue
	doc   bson.Raw
	kept  bson.Raw
	fresh bool // id is a new one
}

// entry encodes an item for a parent: with an _id, and with the parent's in its
// field.
func (s *Subset[P, T]) entry(parent bson.RawValue, item any) (entry, error) {
	e, err := s.encoded(parent, item)
	if err != nil {
		return e, err
	}
	return e, s.valid(e.doc)
}

// encoded is an entry that may not be valid.
func (s *Subset[P, T]) encoded(parent bson.RawValue, item any) (entry, error) {
	raw, err := encode.Document(s.opts.Registry, item)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	elements, err := raw.Elements()
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if twice := repeated(elements); twice != "" {
		return entry{}, fmt.Errorf("%w: the field %q stands twice", ErrInvalid, twice)
	}
	var id any = raw.Lookup("_id")
	fresh := raw.Lookup("_id").IsZero()
	if fresh {
		id = bson.NewObjectID()
	}
	doc := bson.D{{Key: "_id", Value: id}}
	placed := false
	for _, e := range elements {
		switch e.Key() {
		case "_id":
		case s.opts.ParentField:
			doc = append(doc, bson.E{Key: e.Key(), Value: parent})
			placed = true
		default:
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if !placed {
		doc = append(doc[:1], append(bson.D{{Key: s.opts.ParentField, Value: parent}}, doc[1:]...)...)
	}
	if raw, err = bson.Marshal(doc); err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e := s.stored(raw)
	e.fresh = fresh
	return e, nil
}

// repeated is a field that a document has twice: readers do not agree on which
// one counts.
func repeated(elements []bson.RawElement) string {
	seen := map[string]bool{}
	for _, e := range elements {
		if seen[e.Key()] {
			return e.Key()
		}
		seen[e.Key()] = true
	}
	return ""
}

// stored is the entry of a document of the items.
func (s *Subset[P, T]) stored(doc bson.Raw) entry {
	return entry{id: doc.Lookup("_id"), doc: doc, kept: s.cut(doc)}
}

// valid refuses what would rank in two places or leave an aggregate wrong.
func (s *Subset[P, T]) valid(doc bson.Raw) error {
	if err := checkID("item", doc.Lookup("_id")); err != nil {
		return err
	}
	if field, why := s.fault(doc); field != "" {
		return fmt.Errorf("item %s: %w: %s %q", rawvalue.Text(doc.Lookup("_id")), ErrInvalid, why, field)
	}
	return nil
}

// fault is the field for which an item cannot be ranked or counted, and why.
func (s *Subset[P, T]) fault(doc bson.Raw) (field, why string) {
	for _, e := range s.opts.Order {
		if throughArray(doc, e.Key) {
			return e.Key, "items are sorted, and an array stands in"
		}
	}
	for _, v := range s.opts.Values {
		if v.Count == "" && !isNumber(rawvalue.Lookup(doc, v.Field)) {
			return v.Field, "no number in"
		}
	}
	return "", ""
}

// cut is what a parent keeps of an item.
func (s *Subset[P, T]) cut(doc bson.Raw) bson.Raw {
	var out bson.D
	if s.keep != nil {
		out = s.keep.cut(doc)
	} else {
		elements, _ := doc.Elements()
		for _, e := range elements {
			if e.Key() != s.opts.ParentField {
				out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
	}
	raw, _ := bson.Marshal(out) // values that were BSON before
	return raw
}

// projection reads of an item what cut needs, and more if it leaves out anything.
func (s *Subset[P, T]) projection(more ...string) bson.D {
	if s.keep == nil {
		return bson.D{{Key: s.opts.ParentField, Value: 0}}
	}
	for _, e := range s.opts.Order {
		more = append(more, e.Key)
	}
	return included(append(more, s.opts.Fields...))
}

// included is the projection of the top-level fields of paths, and of _id.
func included(paths []string) bson.D {
	out, seen := bson.D{}, map[string]bool{"_id": true, "": true}
	for _, path := range paths {
		name, _, _ := strings.Cut(path, ".")
		if !seen[name] {
			seen[name] = true
			out = append(out, bson.E{Key: name, Value: 1})
		}
	}
	if len(out) == 0 {
		return bson.D{{Key: "_id", Value: 1}}
	}
	return out
}
