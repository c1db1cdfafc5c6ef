package relation

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// chunk bounds the IDs of one $in. The answer is one batch, if it is below 16 MB.
const (
	chunk = 1000
	whole = 1 << 20
)

// Joined is what references lead to.
type Joined[ID, T any] struct {
	// Items are the documents in the order of the references.
	Items []T
	// Dangling are the references without a document.
	Dangling []ID
	// Malformed is what else stands among the references: null, a regular expression,
	// a value that is not an ID, or an embedded child (see Relation.Extract).
	Malformed []bson.RawValue
}

// Fetch reads documents by their _ids and returns them in that order; an _id that is
// there twice yields its document twice. Projection is that of the driver's Find, nil
// for all fields; it must keep the _id.
//
// Cost: 1 round trip for 1000 IDs, index _id.
func Fetch[ID, T any](ctx context.Context, coll *mongo.Collection, ids []ID, projection any) (joined Joined[ID, T], err error) {
	defer fault.In(&err, "relation: fetch")
	raw, err := encoded(&core{}, ids)
	if err != nil {
		return joined, err
	}
	found, err := read[T](ctx, coll, "_id", raw, nil, projection)
	if err != nil {
		return joined, err
	}
	return arranged[ID](&core{}, raw, found), nil
}

// found are the documents that have each of some IDs in a field.
type found[T any] struct {
	at   map[string]int // where the documents of an ID are, by its value.Key
	docs [][]T
}

func (f found[T]) of(id bson.RawValue) []T {
	var room [64]byte
	if i, ok := f.at[string(value.AppendKey(room[:0], id))]; ok {
		return f.docs[i]
	}
	return nil
}

// read is the documents that have each of the IDs in key, in the order of sort.
func read[T any](ctx context.Context, coll *mongo.Collection, key string, ids []bson.RawValue, sort, projection any) (f found[T], err error) {
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
			if err == nil {
				err = c.Decode(&v)
			}
			if err != nil {
				return f, err
			}
			has := all
			if len(all) > 1 {
				own = appendReferences(own[:0], c.Current, key)
				if has = own; len(has) == 0 {
					return f, fault.Invalid("projection: it leaves out %s, by which documents are found", key)
				}
			}
			number++
			for _, id := range has {
				// A document with several of the IDs is met for each part, and may have one twice.
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

// arranged are the documents that references lead to, in their order.
func arranged[ID, T any](c *core, refs []bson.RawValue, found found[T]) (joined Joined[ID, T]) {
	for _, id := range refs {
		docs := found.of(id)
		if docs == nil {
			if lost, err := decoded[ID](c, []bson.RawValue{id}); err == nil {
				joined.Dangling = append(joined.Dangling, lost...)
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

// Children are the children of a parent, with the dangling references: with ChildrenField in
// the order of the references, with Links in that of the children's _ids. With OwnerField or
// OwnersField alone they are those that name the parent, in the order of Options.Sort.
// Projection is that of the driver's Find, nil for all fields.
//
// Cost: 2 round trips, 1 more for each further 1000 children, index _id. OwnerField or
// OwnersField alone: 1, index {owner: 1, sort…}.
func (r *Relation[P, C, T]) Children(ctx context.Context, parent P, projection any) (joined Joined[C, T], err error) {
	defer fault.In(&err, "relation: children")
	all, err := r.join(ctx, []P{parent}, projection, true)
	if err != nil {
		return joined, err
	}
	return all[0], nil
}

// ChildrenOf is Children for many parents, in their order; a parent that does not exist has no
// children. With OwnerField or OwnersField alone a projection must keep that field.
//
// Cost: 2 round trips for 1000 parents with 1000 children in all; 1 more for each
// further 1000 of either, index _id. OwnerField or OwnersField alone: 1 for 1000 parents.
func (r *Relation[P, C, T]) ChildrenOf(ctx context.Context, parents []P, projection any) (all []Joined[C, T], err error) {
	defer fault.In(&err, "relation: children of")
	return r.join(ctx, parents, projection, false)
}

// join joins parents, which must exist or need not, with their children.
func (r *Relation[P, C, T]) join(ctx context.Context, parents []P, projection any, must bool) ([]Joined[C, T], error) {
	c := r.core
	ids, err := encoded(c, parents)
	if err != nil {
		return nil, err
	}
	out := make([]Joined[C, T], len(ids))
	if c.toChildren.coll == nil {
		sort := c.Sort
		if c.OwnerField != "" { // the index's order; of several Owners a child has one place
			sort = append(bson.D{{Key: c.up, Value: 1}}, sort...)
		}
		items, err := read[T](ctx, c.children, c.up, ids, sort, projection)
		for i, id := range ids {
			out[i].Items = items.of(id)
		}
		return out, err
	}
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
		if must && !ok && c.Links == nil {
			return nil, fault.Of(id, ErrNoParent)
		}
		out[i] = arranged[C](c, all, found)
	}
	return out, nil
}

// First are the first n children that name a parent, in the order of Options.Sort.
// It needs OwnerField or OwnersField.
//
// Cost: 1 round trip, n keys of the index {owner: 1, sort…}.
func (r *Relation[P, C, T]) First(ctx context.Context, parent P, n int, projection any) (items []T, err error) {
	defer fault.In(&err, "relation: first")
	id, err := r.core.id(parent)
	if err == nil && (n < 1 || r.core.up == "") {
		err = fault.Invalid("n: %d; First needs 1 and more, and Options.OwnerField or OwnersField", n)
	}
	if err != nil {
		return nil, err
	}
	return cursor.Collect(cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return r.core.children.Find(ctx, r.core.toParents.to(id), options.Find().SetProjection(projection).SetLimit(int64(n)).SetSort(r.core.Sort))
	}))
}

// Parents are the parents of a child, by their _ids.
//
// Cost: 1 round trip, index _id of the child with an OwnerField or OwnersField, else
// {children: 1} or {child: 1, parent: 1}.
func (r *Relation[P, C, T]) Parents(ctx context.Context, child C) (out []P, err error) {
	defer fault.In(&err, "relation: parents")
	c := r.core
	id, err := c.id(child)
	if err != nil {
		return nil, err
	}
	find := c.toParents.of
	if c.toParents.coll == nil {
		find = c.toChildren.by
	}
	found, err := find(ctx, id)
	if err != nil {
		return nil, err
	}
	all, ok := found[value.Key(id)]
	if c.up != "" && !ok {
		return nil, fault.Of(id, ErrNoChild)
	}
	return decoded[P](c, all)
}

// ParentsFilter selects the parents that have a child among their ChildrenField.
func (r *Relation[P, C, T]) ParentsFilter(child C) bson.D {
	return r.core.filter(r.core.ChildrenField, child)
}

// ChildrenFilter selects the children that name a parent as OwnerField or among their
// OwnersField.
func (r *Relation[P, C, T]) ChildrenFilter(parent P) bson.D { return r.core.filter(r.core.up, parent) }

// filter leaves an ID that cannot be encoded for the driver to refuse.
func (c *core) filter(field string, id any) bson.D {
	if v, err := c.codec.Value(id); err == nil {
		id = value.Equal(v)
	}
	return bson.D{{Key: field, Value: id}}
}
