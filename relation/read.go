package relation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
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
}

// Fetch reads documents by their _ids and returns them in that order; an _id that is
// there twice yields its document twice. A projection must keep the _id.
//
// Cost: 1 round trip for 1000 IDs, index _id.
func Fetch[ID, T any](ctx context.Context, coll *mongo.Collection, ids []ID, projection any) (joined Joined[ID, T], err error) {
	defer fault.In(&err, "relation: fetch")
	raw, err := encoded(&core{}, ids)
	if err != nil {
		return joined, err
	}
	found, err := fetch[T](ctx, coll, raw, projection)
	if err != nil {
		return joined, err
	}
	for i, id := range raw {
		if doc, ok := found[value.Key(id)]; ok {
			joined.Items = append(joined.Items, doc)
		} else {
			joined.Dangling = append(joined.Dangling, ids[i])
		}
	}
	return joined, nil
}

// fetch is the documents that there are, by the key of their _id.
func fetch[T any](ctx context.Context, coll *mongo.Collection, ids []bson.RawValue, projection any) (map[string]T, error) {
	found := map[string]T{}
	for part := range slices.Chunk(distinct(ids), chunk) {
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return coll.Find(ctx, in("_id", part), options.Find().SetProjection(projection).SetBatchSize(whole))
		}) {
			var v T
			if err == nil {
				err = c.Decode(&v)
			}
			if err != nil {
				return nil, err
			}
			id := c.Current.Lookup("_id")
			if id.Type == 0 {
				return nil, fault.Invalid("projection: without _id the order is lost")
			}
			found[value.Key(id)] = v
		}
	}
	return found, nil
}

// Of are the children of a parent, with the dangling references: with Children in
// the order of the references, with Links in that of the children's _ids. With Owner or
// Owners alone they are those that name the parent, in the order of Options.Sort.
//
// Cost: 2 round trips, 1 more for each further 1000 children, index _id. Owner or
// Owners alone: 1, index {owner: 1, sort…}.
func (r *Relation[P, C, T]) Of(ctx context.Context, parent P, projection any) (joined Joined[C, T], err error) {
	defer fault.In(&err, "relation: of")
	all, err := r.join(ctx, []P{parent}, projection)
	switch {
	case err != nil:
		return joined, err
	case all[0] == nil:
		return joined, fmt.Errorf("_id %v: %w", parent, ErrNoParent)
	}
	return *all[0], nil
}

// OfMany is Of for many parents, in their order; a parent that does not exist has no
// children. With Owner or Owners alone a projection must keep that field.
//
// Cost: 2 round trips for 1000 parents with 1000 children in all; 1 more for each
// further 1000 of either, index _id. Owner or Owners alone: 1 for 1000 parents.
func (r *Relation[P, C, T]) OfMany(ctx context.Context, parents []P, projection any) (all []Joined[C, T], err error) {
	defer fault.In(&err, "relation: of many")
	found, err := r.join(ctx, parents, projection)
	if err != nil {
		return nil, err
	}
	all = make([]Joined[C, T], len(found))
	for i, joined := range found {
		if joined != nil {
			all[i] = *joined
		}
	}
	return all, nil
}

// join joins parents with their children; nil is a parent that does not exist.
func (r *Relation[P, C, T]) join(ctx context.Context, parents []P, projection any) ([]*Joined[C, T], error) {
	ids, err := encoded(r.core, parents)
	if err != nil {
		return nil, err
	}
	all := map[string]*Joined[C, T]{}
	if r.core.toChildren.coll == nil {
		err = r.named(ctx, ids, projection, all)
	} else {
		err = r.listed(ctx, ids, projection, all)
	}
	out := make([]*Joined[C, T], len(ids))
	for i, id := range ids {
		out[i] = all[value.Key(id)]
	}
	return out, err
}

// listed joins by the references that Children or Links have, in two steps.
func (r *Relation[P, C, T]) listed(ctx context.Context, parents []bson.RawValue, projection any, all map[string]*Joined[C, T]) error {
	c := r.core
	refs, err := c.toChildren.of(ctx, parents...)
	if err != nil {
		return err
	}
	for _, p := range parents {
		if key := value.Key(p); c.Links != nil {
			refs[key] = refs[key] // exists or not, nobody has looked
		}
	}
	every := slices.Concat(slices.Collect(maps.Values(refs))...)
	found, err := fetch[T](ctx, c.children, every, projection)
	if err != nil {
		return err
	}
	for p, ids := range refs {
		joined, dangling := &Joined[C, T]{}, []bson.RawValue(nil)
		for _, id := range ids {
			if doc, ok := found[value.Key(id)]; ok {
				joined.Items = append(joined.Items, doc)
			} else {
				dangling = append(dangling, id)
			}
		}
		if joined.Dangling, err = decoded[C](c, dangling); err != nil {
			return err
		}
		all[p] = joined
	}
	return nil
}

// named joins by the parents that the children name, in one step.
func (r *Relation[P, C, T]) named(ctx context.Context, parents []bson.RawValue, projection any, all map[string]*Joined[C, T]) error {
	c := r.core
	sort := c.Sort
	if c.Owner != "" { // the index's order; of several Owners a child has one place
		sort = append(bson.D{{Key: c.up, Value: 1}}, sort...)
	}
	for part := range slices.Chunk(distinct(parents), chunk) {
		mine := map[string]*Joined[C, T]{}
		for _, p := range part {
			mine[value.Key(p)] = &Joined[C, T]{}
		}
		for cur, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return c.children.Find(ctx, in(c.up, part), options.Find().SetProjection(projection).SetSort(sort).SetBatchSize(whole))
		}) {
			var v T
			if err == nil {
				err = cur.Decode(&v)
			}
			if err != nil {
				return err
			}
			owners := parents
			if len(parents) > 1 {
				if owners = distinct(references(cur.Current, c.up)); len(owners) == 0 {
					return fault.Invalid("projection: without %s a child has no parent", c.up)
				}
			}
			for _, p := range owners {
				if joined := mine[value.Key(p)]; joined != nil {
					joined.Items = append(joined.Items, v)
				}
			}
		}
		maps.Copy(all, mine)
	}
	return nil
}

// Newest are the first n children that name a parent, in the order of Options.Sort.
// It needs Owner or Owners.
//
// Cost: 1 round trip, n keys of the index {owner: 1, sort…}.
func (r *Relation[P, C, T]) Newest(ctx context.Context, parent P, n int, projection any) (items []T, err error) {
	defer fault.In(&err, "relation: newest")
	id, err := r.core.id(parent)
	switch {
	case err != nil:
		return nil, err
	case n < 1:
		return nil, fault.Invalid("n: %d", n)
	case r.core.up == "":
		return nil, fault.Invalid("Options.Owner, Owners: Newest needs one")
	}
	return cursor.Collect(cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return r.core.children.Find(ctx, r.core.toParents.to(id), options.Find().SetProjection(projection).SetLimit(int64(n)).SetSort(r.core.Sort))
	}))
}

// Parents are the parents of a child, by their _ids.
//
// Cost: 1 round trip, index _id of the child with an Owner or Owners, else
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

// ParentsFilter selects the parents that have a child among their Children.
func (r *Relation[P, C, T]) ParentsFilter(child C) bson.D {
	return bson.D{{Key: r.core.Children, Value: r.core.operand(child)}}
}

// ChildrenFilter selects the children that name a parent as Owner or among their
// Owners.
func (r *Relation[P, C, T]) ChildrenFilter(parent P) bson.D {
	return bson.D{{Key: r.core.up, Value: r.core.operand(parent)}}
}

// operand is an ID as a filter's value; one that cannot be encoded stays for the
// driver to refuse.
func (c *core) operand(id any) any {
	v, err := c.codec.Value(id)
	if err != nil {
		return id
	}
	return value.Equal(v)
}

// LookupPipeline adds the children of each parent as an array, as Of does on the
// server: unordered, and without dangling references. To compare, and for
// aggregations.
func (r *Relation[P, C, T]) LookupPipeline(as string) (out mongo.Pipeline) {
	c := r.core
	lookup := func(from *mongo.Collection, local, foreign string) {
		out = append(out, expr.Op("$lookup", bson.D{{Key: "from", Value: from.Name()},
			{Key: "localField", Value: local}, {Key: "foreignField", Value: foreign}, {Key: "as", Value: as}}))
	}
	switch {
	case c.Links != nil:
		lookup(c.Links, "_id", c.Parent)
		lookup(c.children, as+"."+c.Child, "_id")
	case c.Children != "":
		lookup(c.children, c.Children, "_id")
	default:
		lookup(c.children, "_id", c.up)
	}
	return out
}
