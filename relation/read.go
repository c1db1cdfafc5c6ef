package relation

import (
	"context"
	"maps"
	"slices"

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
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// chunk bounds the IDs of one $in. whole makes the answer one batch, if it is below 16 MB.
const (
	chunk = 1000
	whole = 1 << 20
)

// Joined holds the documents that references name.
type Joined[ID, T any] struct {
	// Items are the documents in the order of the references.
	Items []T
	// Dangling are the references without a document.
	Dangling []ID
	// Malformed are the other values among the references: null, a regular expression, a value that no document has
	// as its _id and that ID cannot hold, such as "2" where IDs are ints, or an embedded child (see Relation.Extract).
	Malformed []bson.RawValue
}

// FetchOptions configure Fetch. The zero value reads whole documents.
type FetchOptions struct {
	// Projection is that of the driver's Find, and must keep the _id. Default nil: all fields.
	Projection any
	// Scope selects the documents of a tenant, as that of Options. An _id of another tenant dangles. Default none: all
	// documents of the collection.
	Scope bson.D
	// Registry encodes the _ids. The client's registry cannot be read, so set it if your client has one of its own that
	// encodes ID, because otherwise Fetch asks for other _ids and finds no document. Default nil: the driver's.
	Registry *bson.Registry
}

// Fetch reads documents by their _ids and returns them in the order of ids. An _id given twice
// yields its document twice. opts may be nil.
//
// Cost: 1 round trip for 1000 IDs, index _id.
func Fetch[ID, T any](ctx context.Context, coll *mongo.Collection, ids []ID, opts *FetchOptions) (joined Joined[ID, T], err error) {
	ctx = comment.Call(ctx, "relation.Fetch")
	defer fault.In(&err, "relation.Fetch")
	if coll == nil {
		return joined, fault.Invalid("coll: the collection is nil")
	}
	var o FetchOptions
	if opts != nil {
		o = *opts
	}
	c := &core{}
	if o.Registry != nil || slices.ContainsFunc(ids, func(id ID) bool { return !value.Cacheable(id) }) {
		c.codec = codec.New(coll, o.Registry, nil)
	}
	raw, err := encoded(c, ids)
	if err != nil {
		return joined, err
	}
	own := scoped.On(coll)
	if o.Scope != nil {
		if err := config.Apply(config.Scope(slices.Clone(o.Scope))...); err != nil {
			return joined, err
		}
		of, err := scope.New(codec.New(coll, o.Registry, nil), o.Scope)
		if err != nil {
			return joined, err
		}
		own = own.In(of)
	}
	found, err := read[T](ctx, own, "_id", raw, nil, o.Projection)
	if err != nil {
		return joined, err
	}
	return arranged(raw, found, func(id bson.RawValue) (ID, bool) {
		lost, err := codec.DecodeID[ID](c.codec, id)
		return lost, err == nil
	}), nil
}

// found holds the documents with each of some IDs in a field.
type found[T any] struct {
	at   map[string]int // the index of an ID's documents, by its value.Key
	docs [][]T
}

func (f found[T]) of(id bson.RawValue) []T {
	var room [64]byte
	if i, ok := f.at[string(value.AppendKey(room[:0], id))]; ok {
		return f.docs[i]
	}
	return nil
}

// collect returns what pick finds in the documents of each ID, by its value.Key.
func (f found[T]) collect(pick func(doc T) []bson.RawValue) map[string][]bson.RawValue {
	out := make(map[string][]bson.RawValue, len(f.at))
	for id, i := range f.at {
		for _, doc := range f.docs[i] {
			out[id] = append(out[id], pick(doc)...)
		}
	}
	return out
}

// read reads the documents with each of the IDs in key, in the order of sort.
func read[T any](ctx context.Context, coll *scoped.Collection, key string, ids []bson.RawValue, sort, projection any) (f found[T], err error) {
	var room [64]byte
	f.at = make(map[string]int, len(ids))
	all := make([]bson.RawValue, 0, len(ids)) // without repetitions
	for _, id := range ids {
		name := value.AppendKey(room[:0], id)
		if _, ok := f.at[string(name)]; !ok && !malformed(id) {
			f.at[string(name)] = len(all)
			all = append(all, id)
		}
	}
	f.docs = make([][]T, len(all))
	heads := make([]T, 0, len(all)) // the first document of each ID
	latest := make([]int, len(all)) // the number of the last one
	var own []bson.RawValue
	for start, number := 0, 0; start < len(all); start += chunk {
		end := min(start+chunk, len(all))
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return coll.Find(ctx, in(key, all[start:end]), options.Find().SetProjection(projection).SetSort(sort).SetBatchSize(whole))
		}) {
			var v T
			if err != nil {
				return f, err
			}
			if err = cursor.Into(c, &v); err != nil {
				return f, err
			}
			has := all
			if len(all) > 1 {
				own = appendReferences(own[:0], c.Current, key)
				if has = own; len(has) == 0 {
					return f, fault.Invalid("projection: it must include %q, by which documents are found", key)
				}
			}
			number++
			for _, id := range has {
				// A document with several of the IDs is read once for each chunk, and may hold an ID twice.
				i, ok := f.at[string(value.AppendKey(room[:0], id))]
				if !ok || i < start || i >= end || latest[i] == number {
					continue
				}
				latest[i] = number
				if f.docs[i] != nil {
					f.docs[i] = append(f.docs[i], v)
				} else {
					heads = append(heads, v)
					f.docs[i] = heads[len(heads)-1 : len(heads) : len(heads)]
				}
			}
		}
	}
	return f, nil
}

// arranged returns the documents that references name, in the order of the references. A reference to no document
// dangles if asID takes it, and else it is malformed.
func arranged[ID, T any](refs []bson.RawValue, found found[T], asID func(id bson.RawValue) (ID, bool)) (joined Joined[ID, T]) {
	for _, id := range refs {
		docs := found.of(id)
		if docs == nil {
			if lost, ok := asID(id); ok {
				joined.Dangling = append(joined.Dangling, lost)
			} else {
				joined.Malformed = append(joined.Malformed, id)
			}
			continue
		}
		if joined.Items == nil {
			joined.Items = make([]T, 0, len(refs))
		}
		joined.Items = append(joined.Items, docs...)
	}
	return joined
}

// Children returns the children of a parent, and the dangling references. With ChildrenField the
// order is that of the references, and with Links that of the children's _ids. With OwnerField or
// OwnersField alone it returns the children that name the parent, in the order of Options.Sort.
// projection is that of the driver's Find, nil for all fields.
//
// Cost: 2 round trips, 1 more for each further 1000 children, index _id. OwnerField or
// OwnersField alone: 1, index {owner: 1, sort…}.
func (r *Relation[ParentID, ChildID, T]) Children(ctx context.Context, parent ParentID, projection any) (joined Joined[ChildID, T], err error) {
	ctx = comment.Call(ctx, "relation.Children")
	defer fault.In(&err, "relation.Children")
	all, err := r.join(ctx, []ParentID{parent}, projection, true)
	if err != nil {
		return joined, err
	}
	return all[0], nil
}

// ChildrenOf is Children for many parents, in their order. A parent that does not exist has no
// children. With OwnerField or OwnersField alone a projection must keep that field.
//
// Cost: 2 round trips for 1000 parents with 1000 children in all; 1 more for each further 1000 of either, index _id.
//   - OwnerField or OwnersField alone: 1 for 1000 parents.
func (r *Relation[ParentID, ChildID, T]) ChildrenOf(ctx context.Context, parents []ParentID, projection any) (all []Joined[ChildID, T], err error) {
	ctx = comment.Call(ctx, "relation.ChildrenOf")
	defer fault.In(&err, "relation.ChildrenOf")
	return r.join(ctx, parents, projection, false)
}

// join returns the children of parents; with must, it is an error if a parent does not exist.
func (r *Relation[ParentID, ChildID, T]) join(ctx context.Context, parents []ParentID, projection any, must bool) ([]Joined[ChildID, T], error) {
	c := r.core
	ids, err := encoded(c, parents)
	if err != nil {
		return nil, err
	}
	out := make([]Joined[ChildID, T], len(ids))
	if c.toChildren.holder == nil {
		sort := c.opts.Sort
		if c.opts.OwnerField != "" { // the index's order; with OwnersField a child would have only one place in it
			sort = append(expr.D(c.inChild, 1), sort...)
		}
		items, err := read[T](ctx, c.children, c.inChild, ids, sort, projection)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			out[i].Items = items.of(id)
		}
		return out, nil
	}
	ctx, end := txn.Causal(ctx, c.children) // a child whose reference was seen is not missed
	defer end()
	refs, err := c.toChildren.of(ctx, ids...)
	if err != nil {
		return nil, err
	}
	found, err := read[T](ctx, c.children, "_id", slices.Concat(slices.Collect(maps.Values(refs))...), nil, projection)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		all, ok := refs[value.Key(id)]
		if must && !ok && c.links == nil {
			return nil, fault.Of(id, mongopatterns.ErrNoParent)
		}
		out[i] = arranged(all, found, func(id bson.RawValue) (ChildID, bool) { return asID[ChildID](c.codec, id) })
	}
	return out, nil
}

// First returns the first n children that name a parent, in the order of Options.Sort. It
// needs OwnerField or OwnersField.
//
// Cost: 1 round trip, n keys of the index {owner: 1, sort…}.
func (r *Relation[ParentID, ChildID, T]) First(ctx context.Context, parent ParentID, n int, projection any) (items []T, err error) {
	ctx = comment.Call(ctx, "relation.First")
	defer fault.In(&err, "relation.First")
	id, err := r.core.id(parent)
	if err == nil && (n < 1 || r.core.inChild == "") {
		err = fault.Invalid("n: it is %d; First needs at least 1, and Options.OwnerField or OwnersField", n)
	}
	if err != nil {
		return nil, err
	}
	return cursor.Collect(cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return r.core.children.Find(ctx, r.core.toParents.referringTo(id), options.Find().SetProjection(projection).SetLimit(int64(n)).SetSort(r.core.opts.Sort))
	}))
}

// Parents returns the _ids of a child's parents, or their keys with Options.KeyField.
//
// Cost: 1 round trip, index _id of the child with an OwnerField or OwnersField, else
// {children: 1} or {child: 1, parent: 1}.
func (r *Relation[ParentID, ChildID, T]) Parents(ctx context.Context, child ChildID) (out []ParentID, err error) {
	ctx = comment.Call(ctx, "relation.Parents")
	defer fault.In(&err, "relation.Parents")
	c := r.core
	id, err := c.id(child)
	if err != nil {
		return nil, err
	}
	find := c.toParents.of
	if c.toParents.holder == nil {
		find = c.toChildren.by
	}
	found, err := find(ctx, id)
	if err != nil {
		return nil, err
	}
	all, ok := found[value.Key(id)]
	if c.inChild != "" && !ok {
		return nil, fault.Of(id, ErrNoChild)
	}
	return decoded[ParentID](c, all)
}

// ChildrenFilter selects the children that name a parent in their OwnerField or OwnersField. Without such a field it
// selects none.
func (r *Relation[ParentID, ChildID, T]) ChildrenFilter(parent ParentID) bson.D {
	c := r.core
	if c.inChild == "" {
		return expr.D("_id", expr.Op("$in", bson.A{}))
	}
	return c.scope().Match(expr.D(c.inChild, c.codec.Condition(parent)))
}
