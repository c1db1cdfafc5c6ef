package relation

import (
	"context"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// chunk bounds the IDs of one $in.
const chunk = 1000

// ReadOptions narrow a read.
type ReadOptions struct {
	// Projection is that of the driver's Find, for the children. Default nil: all
	// fields.
	Projection any
}

func (o *ReadOptions) find() *options.FindOptionsBuilder {
	find := options.Find()
	if o != nil && o.Projection != nil {
		find.SetProjection(o.Projection)
	}
	return find
}

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
func Fetch[ID, T any](ctx context.Context, coll *mongo.Collection, ids []ID, opts *ReadOptions) (joined Joined[ID, T], err error) {
	defer fault.In(&err, "relation: fetch")
	raw := make([]bson.RawValue, len(ids))
	for i, id := range ids {
		if raw[i], err = (codec.Codec{}).Value(id); err != nil {
			return joined, err
		}
	}
	found, err := fetch[T](ctx, coll, raw, opts)
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
func fetch[T any](ctx context.Context, coll *mongo.Collection, ids []bson.RawValue, opts *ReadOptions) (map[string]T, error) {
	found := map[string]T{}
	asked := map[string]bool{}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id bson.RawValue) bool {
		key := value.Key(id)
		again := asked[key]
		asked[key] = true
		return again
	})
	for part := range slices.Chunk(ids, chunk) {
		for c, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return coll.Find(ctx, in("_id", part), opts.find().SetBatchSize(chunk+1))
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
				return nil, fault.Invalid("ReadOptions.Projection: without _id the order is lost")
			}
			found[value.Key(id)] = v
		}
	}
	return found, nil
}

// Of are the children of a parent: with Children in the order of its references,
// with the dangling ones; else those that name it, in the order of Options.Sort.
//
// Cost: 2 round trips with Children, 1 more for each further 1000, index _id. Else 1,
// index {owner: 1, sort…}.
func (r *Relation[P, C, T]) Of(ctx context.Context, parent P, opts *ReadOptions) (joined Joined[C, T], err error) {
	defer fault.In(&err, "relation: of")
	id, err := r.core.id(parent)
	if err != nil {
		return joined, err
	}
	if r.core.Children == "" {
		joined.Items, err = cursor.Collect(r.named(ctx, id, opts.find()))
		return joined, err
	}
	all, err := r.many(ctx, []bson.RawValue{id}, opts)
	if err == nil && all[0] == nil {
		err = fault.Of(id, ErrNoParent)
	}
	if err != nil {
		return joined, err
	}
	return *all[0], nil
}

// OfMany is Of for many parents, in their order; a parent that does not exist has no
// children. It needs Children.
//
// Cost: 2 round trips for 1000 parents with 1000 children in all; 1 more for each
// further 1000 of either, index _id.
func (r *Relation[P, C, T]) OfMany(ctx context.Context, parents []P, opts *ReadOptions) (all []Joined[C, T], err error) {
	defer fault.In(&err, "relation: of many")
	if r.core.Children == "" {
		return nil, fault.Invalid("Options.Children: OfMany needs them")
	}
	ids := make([]bson.RawValue, len(parents))
	for i, p := range parents {
		if ids[i], err = r.core.id(p); err != nil {
			return nil, err
		}
	}
	found, err := r.many(ctx, ids, opts)
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

// many joins parents with their children, nil for a parent that does not exist.
func (r *Relation[P, C, T]) many(ctx context.Context, parents []bson.RawValue, opts *ReadOptions) ([]*Joined[C, T], error) {
	refs := map[string][]bson.RawValue{}
	var every []bson.RawValue
	for part := range slices.Chunk(parents, chunk) {
		for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
			return r.core.parents.Find(ctx, in("_id", part), options.Find().SetProjection(bson.D{{Key: r.core.Children, Value: 1}}).SetBatchSize(chunk+1))
		}) {
			if err != nil {
				return nil, err
			}
			all := references(doc.Lookup(r.core.Children))
			refs[value.Key(doc.Lookup("_id"))] = all
			every = append(every, all...)
		}
	}
	found, err := fetch[T](ctx, r.core.children, every, opts)
	if err != nil {
		return nil, err
	}
	out := make([]*Joined[C, T], len(parents))
	for i, p := range parents {
		all, ok := refs[value.Key(p)]
		if !ok {
			continue
		}
		out[i] = &Joined[C, T]{}
		for _, id := range all {
			if doc, ok := found[value.Key(id)]; ok {
				out[i].Items = append(out[i].Items, doc)
				continue
			}
			dangling, err := codec.DecodeValue[C](r.core.codec, id)
			if err != nil {
				return nil, fault.Of(p, err)
			}
			out[i].Dangling = append(out[i].Dangling, dangling)
		}
	}
	return out, nil
}

// Newest are the first n children that name a parent, in the order of Options.Sort.
// It needs Owner or Owners.
//
// Cost: 1 round trip, n keys of the index {owner: 1, sort…}.
func (r *Relation[P, C, T]) Newest(ctx context.Context, parent P, n int, opts *ReadOptions) (items []T, err error) {
	defer fault.In(&err, "relation: newest")
	id, err := r.core.id(parent)
	switch {
	case err != nil:
		return nil, err
	case n < 1:
		return nil, fault.Invalid("n: %d", n)
	case r.core.up() == "":
		return nil, fault.Invalid("Options.Owner, Owners: Newest needs one")
	}
	return cursor.Collect(r.named(ctx, id, opts.find().SetLimit(int64(n))))
}

// named are the children that name a parent.
func (r *Relation[P, C, T]) named(ctx context.Context, parent bson.RawValue, find *options.FindOptionsBuilder) iter.Seq2[T, error] {
	return cursor.Decode[T](ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return r.core.children.Find(ctx, bson.D{{Key: r.core.up(), Value: value.Equal(parent)}}, find.SetSort(r.core.Sort))
	})
}

// LookupPipeline adds the children of each parent as an array, as Of does on the
// server: unordered, and without dangling references. To compare, and for
// aggregations.
func (r *Relation[P, C, T]) LookupPipeline(as string) mongo.Pipeline {
	local, foreign := r.core.Children, "_id"
	if local == "" {
		local, foreign = "_id", r.core.up()
	}
	return mongo.Pipeline{expr.Op("$lookup", bson.D{{Key: "from", Value: r.core.children.Name()},
		{Key: "localField", Value: local}, {Key: "foreignField", Value: foreign}, {Key: "as", Value: as}})}
}
