package subset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

var (
	// ErrNoParent: the parent of an item does not exist. It matches
	// mongopatterns.ErrNotFound.
	ErrNoParent = fault.New("no such parent", fault.ErrNotFound)

	// ErrNotAdopted: the parent cannot be adopted, as the write wanted to do: its array
	// holds an item that Add would refuse or that has the _id of another parent's item, or
	// is not an array. Mend the parent, and repeat the call; Adopt names such parents.
	ErrNotAdopted = fault.New("the parent cannot be adopted", nil)

	// errUnadopted: a write met a parent with items that were never counted, and has
	// changed nothing.
	errUnadopted = fault.New("the parent has not been adopted", ErrNotAdopted)
)

// Subset keeps the best N items T of each parent inside the parent, whose _id is
// a P, and all items in their own collection. It is safe for concurrent use.
type Subset[P, T any] struct{ core *core }

var _ mongopatterns.Checker = (*Subset[int, bson.D])(nil)

// core does the work on BSON.
type core struct {
	parents, items *mongo.Collection
	o              Options // complete
	codec          codec.Codec
	filter         filter
	keep           map[string]bool // by Options.Fields; nil for all but the parent's field
	rank           map[string]bool // the fields of Options.Order
	single         []string        // the paths of an item where no array may stand: they are sorted or filtered
	around         []string        // the paths of the documents around what a parent holds
	x              expressions
}

// New returns a Subset over two collections of one database. It does no I/O.
//
// P is the type of the parents' _ids; T is an item, a struct, map or bson.D that
// encodes to a document. opts may be nil. All programs that write the collections
// must use the same options. A parent may have several Subsets, each with items, an
// array, a count and values of its own. Two Subsets over one collection of items
// (the newest and the best rated) do not work: keep one, and read the other
// with ItemsFilter, a sort and an index for it.
func New[P, T any](parents, items *mongo.Collection, opts *Options) (s *Subset[P, T], err error) {
	defer fault.In(&err, "subset: new")
	if err := config.Collections("parents", parents, "items", items); err != nil {
		return nil, err
	}
	c := &core{parents: parents, items: items}
	if opts != nil {
		c.o = *opts
	}
	if err := c.o.complete(); err != nil {
		return nil, err
	}
	c.codec = codec.Codec{Registry: c.o.Registry, BSON: c.o.BSON}
	for _, e := range c.o.Order {
		if e.Key != "_id" && c.codec.Lacks(reflect.TypeFor[T](), e.Key) { // all items would tie
			return nil, fault.Invalid("Options.Order: %v has no field %q", reflect.TypeFor[T](), e.Key)
		}
	}
	c.filter, err = parseFilter(c.codec, c.o.Filter, c.o.itemPath)
	if err != nil {
		return nil, fault.Invalid("Options.Filter: %w", err)
	}
	for _, path := range c.o.inParent() {
		c.around = append(c.around, fieldpath.Above(path)...)
	}
	slices.Sort(c.around)
	c.around = slices.Compact(c.around)
	c.rank = map[string]bool{}
	for _, e := range c.o.Order {
		name, _, _ := strings.Cut(e.Key, ".")
		c.rank[name] = true
		c.single = append(c.single, e.Key)
	}
	for _, t := range c.filter.tests {
		c.single = append(c.single, t.path)
	}
	if len(c.o.Fields) > 0 {
		c.keep = maps.Clone(c.rank)
		for _, name := range c.o.Fields {
			c.keep[name] = true
		}
	}
	c.x = c.expressions()
	return &Subset[P, T]{c}, nil
}

// Indexes returns the index of the items: {parent: 1, order…, _id}, with the fields
// that Options.Filter sets equal to one value after the parent's.
func (s *Subset[P, T]) Indexes() map[string][]mongo.IndexModel {
	c := s.core
	keys := expr.D(c.o.ParentField, 1)
	ordered := func(path string) bool {
		return slices.ContainsFunc(c.o.Order, func(e bson.E) bool { return e.Key == path })
	}
	for _, t := range c.filter.tests {
		if t.equal && !ordered(t.path) {
			keys = append(keys, expr.Element(t.path, 1))
		}
	}
	return map[string][]mongo.IndexModel{c.items.Name(): {{Keys: append(keys, c.o.Order...)}}}
}

// EnsureIndexes creates the index of the items if it is missing. An index on the
// same keys with other options is mongopatterns.ErrIndexConflict.
//
// Cost: 2 round trips if it is there, else 3.
func (s *Subset[P, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "subset: ensure indexes")
	if err := s.core.refuse(ctx, nil); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.items.Database(), s.Indexes())
}

// ShardKey returns the recommended shard keys: _id for the parents, and the parent's
// field for the items, so that those of a parent lie on one shard.
func (s *Subset[P, T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{
		s.core.parents.Name(): expr.D("_id", 1),
		s.core.items.Name():   expr.D(s.core.o.ParentField, 1),
	}
}

// Order returns the order of the items, the best first, _id included: the sort
// that goes with ItemsFilter.
func (s *Subset[P, T]) Order() bson.D { return slices.Clone(s.core.o.Order) }

// ItemsFilter selects the items of a parent that count, for Find, paging or an
// aggregation. With the sort Order it reads the index in order.
func (s *Subset[P, T]) ItemsFilter(parent P) bson.D {
	id, err := s.core.codec.Value(parent)
	if err != nil { // for the driver to refuse
		return append(expr.D(s.core.o.ParentField, parent), s.core.filter.doc...)
	}
	return s.core.counted(id)
}

// Top returns the kept items of a parent, the best first: as All gives them, as
// far as Options.Fields keeps them. ErrNoParent if there is no such parent.
// Programs that read the parent anyway find the items in its array.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the parents.
func (s *Subset[P, T]) Top(ctx context.Context, parent P) (items []T, err error) {
	defer fault.In(&err, "subset: top")
	c := s.core
	id, err := c.codec.ID("parent", parent)
	if err != nil {
		return nil, err
	}
	// A plain projection costs the server a fifth less than one that adds the parent's field.
	opts := options.FindOne().SetProjection(expr.D("_id", 0, c.o.ArrayField, 1))
	doc, err := c.parents.FindOne(ctx, byID(id), opts).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, fault.Of(id, ErrNoParent)
	case err != nil:
		return nil, err
	}
	array := value.Lookup(doc, c.o.ArrayField)
	if array.Type != 0 && array.Type != bson.TypeNull && array.Type != bson.TypeArray {
		return nil, fault.Of(id, fmt.Errorf("%q is no array", c.o.ArrayField))
	}
	kept := elements(array)
	if c.o.BestLast {
		slices.Reverse(kept)
	}
	items = make([]T, len(kept))
	for i, v := range kept {
		item, ok := v.DocumentOK()
		if !ok {
			return nil, fault.Of(id, fmt.Errorf("a value of type %v among the items", v.Type))
		}
		if item.Lookup(c.o.ParentField).IsZero() { // but for one never adopted
			item = value.Append(item, value.Element{Name: c.o.ParentField, Value: id})
		}
		if err := c.codec.Decode(item, &items[i]); err != nil {
			return nil, fault.Of(id, err)
		}
	}
	return items, nil
}

// All yields the items of a parent that count, the best first. A parent that does
// not exist has none.
//
// Cost: 1 round trip a batch of the cursor; 1 key and 1 document for each item;
// the index {parent, order…}, in order.
func (s *Subset[P, T]) All(ctx context.Context, parent P) iter.Seq2[T, error] {
	c := s.core
	id, err := c.codec.ID("parent", parent)
	if err != nil {
		return fault.Seq("subset: all", fault.Stop[T](err))
	}
	return fault.Seq("subset: all", cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.items.Find(ctx, c.counted(id), options.Find().SetSort(c.o.Order))
	}))
}

// Get returns an item of a parent, whole; also one that Options.Filter leaves out.
// mongopatterns.ErrNotFound if there is none.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the items.
func (s *Subset[P, T]) Get(ctx context.Context, parent P, id any) (item T, err error) {
	defer fault.In(&err, "subset: get")
	p, raw, err := s.core.ids(parent, id)
	if err == nil {
		err = fault.Found(raw, s.core.items.FindOne(ctx, s.core.one(p, raw)).Decode(&item))
	}
	return item, err
}

// refuse refuses a Work that cannot be used, and collections with a default collation.
func (c *core) refuse(ctx context.Context, work *mongopatterns.Work) error {
	if _, err := maintain.Of(work, 0); err != nil {
		return err
	}
	return collation.Refuse(ctx, c.parents, c.items)
}

// ids encodes the _ids of a parent and of one of its items.
func (c *core) ids(parent, item any) (p, id bson.RawValue, err error) {
	if p, err = c.codec.ID("parent", parent); err == nil {
		id, err = c.codec.ID("item", item)
	}
	return p, id, err
}

func byID(id bson.RawValue) bson.D { return expr.D("_id", value.Equal(id)) }

// of selects the items of a parent, also those that do not count.
func (c *core) of(parent bson.RawValue) bson.D {
	return expr.D(c.o.ParentField, value.Equal(parent))
}

// counted selects the items of a parent that count.
func (c *core) counted(parent bson.RawValue) bson.D { return append(c.of(parent), c.filter.doc...) }

// one selects an item by its _id and the full shard key.
func (c *core) one(parent, id bson.RawValue) bson.D { return append(byID(id), c.of(parent)...) }
