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
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// errUnadopted: a write met a parent whose items were never counted, and has changed
// nothing.
var errUnadopted = fault.New("the parent has not been adopted", mongopatterns.ErrNotAdopted)

// Subset keeps the best N items T of each parent inside the parent, and all items in their own
// collection. ID is the type of the parents' _id. It is safe for concurrent use.
type Subset[ID, T any] struct{ core *core }

var _ mongopatterns.Checker = (*Subset[int, bson.D])(nil)

// core does the work on BSON.
type core struct {
	parents, items *scoped.Collection
	o              Options // complete
	codec          codec.Codec
	itemType       reflect.Type
	filter         filter
	named          []string        // the paths of Sort that T may lack, as its type does not show its fields
	keep           map[string]bool // the fields that Options.Fields keeps; nil for all but ParentField
	rank           map[string]bool // the fields of Options.Sort
	single         []string        // the paths of an item that must not hold arrays: they are sorted or filtered
	around         []string        // the paths of the documents around the fields in the parent
	levels         int             // of documents and arrays that a kept item can have
	x              expressions
}

// New returns a Subset over two collections of one database. It does no I/O.
//
// ID is the type of the parents' _ids. T is the type of an item: a struct, map or bson.D that
// encodes to a document. opts may be nil. All programs that write the collections must use the same
// options. A parent may have several Subsets, each with its own collection of items, array, count
// and values. Two Subsets over one collection of items, such as the newest and the best rated, do
// not work. Keep one, and read the other order with ItemsFilter, a sort and an index for it.
func New[ID, T any](parents, items *mongo.Collection, opts *Options) (s *Subset[ID, T], err error) {
	defer fault.In(&err, "subset.New")
	if err := codec.CheckOrder[ID]("ID"); err != nil {
		return nil, err
	}
	if err := config.Collections("parents", parents, "items", items); err != nil {
		return nil, err
	}
	c := &core{}
	if opts != nil {
		c.o = *opts
	}
	if err := c.o.complete(); err != nil {
		return nil, err
	}
	c.codec = codec.New(items, c.o.Registry, c.o.BSON)
	of, err := scope.New(c.codec, c.o.Scope)
	if err != nil {
		return nil, err
	}
	c.parents, c.items = scoped.On(parents).In(of), scoped.On(items).In(of)
	c.filter, err = parseFilter(c.codec, c.o.Filter, c.o.itemPath)
	if err != nil {
		return nil, fault.Invalid("Options.Filter: %w", err)
	}
	c.itemType = reflect.TypeFor[T]()
	if err := c.checkNames(c.itemType); err != nil {
		return nil, err
	}
	for _, path := range c.o.inParent() {
		c.around = append(c.around, fieldpath.Above(path)...)
	}
	slices.Sort(c.around)
	c.around = slices.Compact(c.around)
	c.levels = value.MaxLevels - 1 - len(strings.Split(c.o.ArrayField, ".")) // the parent, and the path to the array
	c.rank = map[string]bool{}
	for _, e := range c.o.Sort {
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
	return &Subset[ID, T]{c}, nil
}

// checkNames refuses a T that does not encode to a document, and options with a path that T, a
// plain struct, never writes: all items would tie, or none would count. A filter may require that
// a field is missing.
func (c *core) checkNames(t reflect.Type) error {
	var paths []string
	for _, e := range c.o.Sort {
		paths = append(paths, "Options.Sort", e.Key)
	}
	for i, field := range c.o.Fields {
		paths = append(paths, fmt.Sprintf("Options.Fields[%d]", i), field)
	}
	for i, v := range c.o.Values {
		paths = append(paths, fmt.Sprintf("Options.Values[%d].Field", i), v.Field)
	}
	for _, test := range c.filter.tests {
		if test.not || test.keys[value.Key(bson.RawValue{})] {
			continue
		}
		paths = append(paths, "Options.Filter", test.path)
	}
	for i := 0; i+1 < len(paths); i += 2 {
		if paths[i+1] != "_id" && c.codec.Lacks(t, paths[i+1]) {
			return fault.Invalid("%s: %v has no field %q", paths[i], t, paths[i+1])
		}
		if _, all := c.codec.Fields(t); !all && paths[i+1] != "_id" && paths[i] == "Options.Sort" && !slices.Contains(c.named, paths[i+1]) {
			c.named = append(c.named, paths[i+1])
		}
		if paths[i+1] != "_id" && !strings.HasPrefix(paths[i], "Options.Fields") {
			if err := c.codec.CheckKept(t, paths[i], paths[i+1]); err != nil {
				return err
			}
		}
	}
	return c.codec.CheckExtended("T", t)
}

// Indexes returns the index of the items: {scope…, parent: 1, sort…, _id}. Fields that
// Options.Filter requires to equal one value come after the parent's field.
func (s *Subset[ID, T]) Indexes() map[string][]mongo.IndexModel {
	c := s.core
	keys := c.items.Scope().Keys(expr.D(c.o.ParentField, 1))
	ordered := func(path string) bool {
		return slices.ContainsFunc(c.o.Sort, func(e bson.E) bool { return e.Key == path })
	}
	for _, t := range c.filter.tests {
		if t.equal && !ordered(t.path) {
			keys = append(keys, expr.Element(t.path, 1))
		}
	}
	return map[string][]mongo.IndexModel{c.items.Name(): {{Keys: append(keys, c.o.Sort...)}}}
}

// EnsureIndexes creates the index of the items if it is missing. If an index on the same
// keys has other options, it returns mongopatterns.ErrIndexConflict.
//
// Cost: 2 round trips, 3 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (s *Subset[ID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "subset.EnsureIndexes")
	defer fault.In(&err, "subset.EnsureIndexes")
	if err := s.core.ready(ctx, nil); err != nil {
		return err
	}
	if err := s.core.codec.CheckClient(ctx, s.core.items, reflect.TypeFor[ID](), reflect.TypeFor[T]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, s.core.items.Database(), s.Indexes())
}

// ShardKey returns the recommended shard keys, behind the scope: _id for the parents, and ParentField for the
// items, so that the items of a parent are on one shard.
func (s *Subset[ID, T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{
		s.core.parents.Name(): s.core.parents.Scope().Keys(expr.D("_id", 1)),
		s.core.items.Name():   s.core.items.Scope().Keys(expr.D(s.core.o.ParentField, 1)),
	}
}

// Sort returns the order of the items, the best first and including _id: the sort
// to use with ItemsFilter.
func (s *Subset[ID, T]) Sort() bson.D { return slices.Clone(s.core.o.Sort) }

// ItemsFilter selects the items of a parent that count, that is, those that Options.Filter selects.
// Use it with Find, paging or an aggregation. Sorted by Sort, the items are read from the index in
// order.
func (s *Subset[ID, T]) ItemsFilter(parent ID) bson.D {
	id, err := s.core.codec.Compared(parent)
	if err != nil { // for the driver to refuse
		return append(expr.D(s.core.o.ParentField, codec.Refused{Reason: err}), s.core.filter.doc...)
	}
	return s.core.items.Scope().Match(s.core.counted(id))
}

// Top returns the kept items of a parent, the best first, with the fields that
// Options.Fields keeps. It returns ErrNoParent if the parent does not exist. Programs that
// read the parent anyway find the items in its array.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the parents.
func (s *Subset[ID, T]) Top(ctx context.Context, parent ID) (items []T, err error) {
	ctx = comment.Call(ctx, "subset.Top")
	defer fault.In(&err, "subset.Top")
	c := s.core
	id, err := c.codec.ID("parent", parent)
	if err != nil {
		return nil, err
	}
	// A projection of the array alone costs the server a fifth less than one with the parent's field.
	opts := options.FindOne().SetProjection(expr.D("_id", 0, c.o.ArrayField, 1))
	doc, err := c.parents.FindOne(ctx, expr.ByID(id), opts).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, fault.Of(id, mongopatterns.ErrNoParent)
	case err != nil:
		return nil, err
	}
	array := value.Lookup(doc, c.o.ArrayField)
	if array.Type != 0 && array.Type != bson.TypeNull && array.Type != bson.TypeArray {
		return nil, fault.Of(id, fault.Malformed("%q is not an array", c.o.ArrayField))
	}
	kept := value.Values(array)
	if c.o.BestLast {
		slices.Reverse(kept)
	}
	items = make([]T, len(kept))
	for i, v := range kept {
		item, ok := v.DocumentOK()
		if !ok {
			return nil, fault.Of(id, fault.Malformed("%q holds a value of type %v, not an item", c.o.ArrayField, v.Type))
		}
		for _, f := range c.items.Scope().Fields() {
			if item.Lookup(f.Name).IsZero() {
				item = value.Append(item, f)
			}
		}
		if item.Lookup(c.o.ParentField).IsZero() { // an item that was never adopted may have it
			item = value.Append(item, value.Element{Name: c.o.ParentField, Value: id})
		}
		if err := c.codec.Decode(item, &items[i]); err != nil {
			return nil, fault.Of(id, err)
		}
	}
	return items, nil
}

// All yields the items of a parent that count (see ItemsFilter), the best first. It yields none if
// the parent does not exist.
//
// Cost: 1 round trip for each batch of the cursor; 1 key and 1 document for each item; the index {parent,
// order…}, in order.
func (s *Subset[ID, T]) All(ctx context.Context, parent ID) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "subset.All")
	c := s.core
	id, err := c.codec.ID("parent", parent)
	if err != nil {
		return fault.Seq("subset.All", fault.Stop[T](err))
	}
	return fault.Seq("subset.All", cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.items.Find(ctx, c.counted(id), options.Find().SetSort(c.o.Sort))
	}))
}

// Get returns a whole item of a parent, also one that Options.Filter leaves out, or
// mongopatterns.ErrNotFound. id must have the type of the stored _id, so a string of hex digits
// finds no ObjectID.
//
// Cost: 1 round trip, 1 key and 1 document, index _id of the items.
func (s *Subset[ID, T]) Get(ctx context.Context, parent ID, id any) (item T, err error) {
	ctx = comment.Call(ctx, "subset.Get")
	defer fault.In(&err, "subset.Get")
	p, raw, err := s.core.ids(parent, id)
	if err != nil {
		return item, err
	}
	err = fault.Found(raw, cursor.One(s.core.items.FindOne(ctx, s.core.one(p, raw)), &item))
	return item, err
}

func (c *core) ready(ctx context.Context, work *mongopatterns.Work) error {
	return maintain.Ready(ctx, work, c.parents, c.items)
}

// ids encodes the _ids of a parent and of one of its items.
func (c *core) ids(parent, item any) (p, id bson.RawValue, err error) {
	if p, err = c.codec.ID("parent", parent); err == nil {
		id, err = c.codec.ID("item", item)
	}
	return p, id, err
}

// of selects all items of a parent, also those that do not count.
func (c *core) of(parent bson.RawValue) bson.D {
	return expr.D(c.o.ParentField, value.Equal(parent))
}

// counted selects the items of a parent that count.
func (c *core) counted(parent bson.RawValue) bson.D { return append(c.of(parent), c.filter.doc...) }

// one selects an item by its _id and the full shard key.
func (c *core) one(parent, id bson.RawValue) bson.D { return append(expr.ByID(id), c.of(parent)...) }
