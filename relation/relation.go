package relation

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

var (
	// ErrNoParent and ErrNoChild: the document that a reference would name does not
	// exist.
	ErrNoParent = fault.New("no such parent", mongopatterns.ErrNotFound)
	ErrNoChild  = fault.New("no such child", mongopatterns.ErrNotFound)
	// ErrOwned: the child has another owner; Transfer moves it.
	ErrOwned = fault.New("owned by another parent", mongopatterns.ErrConflict)
	// ErrFull: the parent would have more than Options.Max children.
	ErrFull = fault.New("too many children", mongopatterns.ErrConflict)
	// ErrReferenced: a Restrict deletion met references.
	ErrReferenced = fault.New("still referenced", mongopatterns.ErrConflict)
)

// Options say where the references are. At least one of Children, Owner and Owners is
// needed, and of Owner and Owners not both.
type Options struct {
	// Children is the field of the parent with the array of its children's _ids.
	// Default "": the parent has none.
	Children string
	// Owner is the field of the child with the _id of its parent. Default "": none.
	Owner string
	// Owners is the field of the child with the array of its parents' _ids. Default
	// "": none.
	Owners string
	// Max bounds Children; Link and Insert refuse more with ErrFull. Default 10,000.
	// A document that somebody else made longer stays readable.
	Max int
	// Sort is the order in which Newest and, without Children, Of read the children
	// of a parent, such as {at: -1}; the index of Owner ends with it. Default {_id:
	// -1}.
	Sort bson.D
	// Registry and BSON encode the IDs and the children. Default: the driver's own.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Relation is between the documents of two collections. P and C are the types of the
// _ids of parents and children, T that of the children.
type Relation[P, C, T any] struct{ core *core }

// New returns a relation. It does no I/O.
func New[P, C, T any](parents, children *mongo.Collection, opts *Options) (r *Relation[P, C, T], err error) {
	defer fault.In(&err, "relation: new")
	if err := config.Collections("parents", parents, "children", children); err != nil {
		return nil, err
	}
	c := &core{parents: parents, children: children}
	if opts != nil {
		c.Options = *opts
	}
	c.codec = codec.Codec{Registry: c.Registry, BSON: c.BSON}
	err = config.Apply(
		config.Name("Options.Children", &c.Children, ""),
		config.Number("Options.Max", &c.Max, 10_000, 1, 1_000_000))
	if err == nil {
		err = config.Apply(config.Name("Options.Owner", &c.Owner, ""), config.Name("Options.Owners", &c.Owners, ""),
			config.Check("Options.Sort", func() error {
				if len(c.Sort) == 0 {
					c.Sort = bson.D{{Key: "_id", Value: -1}}
				}
				return nil
			}))
	}
	switch {
	case err != nil:
		return nil, err
	case c.Children == "" && c.Owner == "" && c.Owners == "":
		return nil, fault.Invalid("Options.Children, Owner, Owners: one is needed")
	case c.Owner != "" && c.Owners != "":
		return nil, fault.Invalid("Options.Owner, Owners: only one of them")
	case c.Children == "_id" || c.Owner == "_id" || c.Owners == "_id":
		return nil, fault.Invalid("a reference in _id")
	}
	return &Relation[P, C, T]{c}, nil
}

// Indexes are {children: 1} of the parents and {owner: 1, sort…} or {owners: 1} of
// the children, by collection name.
func (r *Relation[P, C, T]) Indexes() map[string][]mongo.IndexModel { return r.core.indexes() }

// EnsureIndexes creates the indexes that are missing.
//
// Cost: 1 round trip for each side that has references, 2 if an index is missing.
func (r *Relation[P, C, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "relation: ensure indexes")
	return indexes.EnsureAll(ctx, r.core.parents.Database(), r.core.indexes())
}

// ShardKey is _id of both, by collection name.
func (r *Relation[P, C, T]) ShardKey() map[string]bson.D {
	return map[string]bson.D{r.core.parents.Name(): {{Key: "_id", Value: 1}}, r.core.children.Name(): {{Key: "_id", Value: 1}}}
}

// Link adds children to a parent, behind those it has. Links that are there already
// are no error, so it can be repeated. With an Owner, a child of another parent is
// [ErrOwned].
//
// Cost: 1 round trip, 1 document written, index _id, with Children alone or for one
// child. Several children of an Owner or Owners: 2 and n. Both sides: 3 and 1 + n.
func (r *Relation[P, C, T]) Link(ctx context.Context, parent P, children ...C) (err error) {
	defer fault.In(&err, "relation: link")
	p, all, err := r.core.ids(parent, anys(children))
	if err != nil {
		return err
	}
	return r.core.change(ctx, len(all), func(ctx context.Context) error { return r.core.link(ctx, p, all) })
}

// Unlink takes children away from a parent. Those it does not have are no error.
//
// Cost: that of Link.
func (r *Relation[P, C, T]) Unlink(ctx context.Context, parent P, children ...C) (err error) {
	defer fault.In(&err, "relation: unlink")
	p, all, err := r.core.ids(parent, anys(children))
	if err != nil {
		return err
	}
	return r.core.change(ctx, len(all), func(ctx context.Context) error { return r.core.unlink(ctx, p, all) })
}

// Transfer gives a child to another parent, or to its first. It needs an Owner.
//
// Cost: 1 round trip, 1 document written, index _id. Both sides: 4 and 3.
func (r *Relation[P, C, T]) Transfer(ctx context.Context, child C, to P) (err error) {
	defer fault.In(&err, "relation: transfer")
	if r.core.Owner == "" {
		return fault.Invalid("Options.Owner: Transfer needs one")
	}
	p, all, err := r.core.ids(to, []any{child})
	if err != nil {
		return err
	}
	return r.core.change(ctx, 1, func(ctx context.Context) error { return r.core.transfer(ctx, all[0], p) })
}

// Insert stores a new child and links it to its parent, which must exist. A field of
// the child for its owner is overwritten. Without Children the parent has the field
// "_mongopatterns_touched" while the transaction runs, as a write of it is what
// keeps the parent from being deleted meanwhile: a validator of yours must let it
// pass.
//
// Cost: 3 round trips, 2 documents written, index _id.
func (r *Relation[P, C, T]) Insert(ctx context.Context, parent P, child T) (id C, err error) {
	defer fault.In(&err, "relation: insert")
	p, err := r.core.id(parent)
	if err != nil {
		return id, err
	}
	made, err := r.core.insert(ctx, p, child)
	if err != nil {
		return id, err
	}
	return codec.DecodeValue[C](r.core.codec, made)
}

// Has reports whether a parent has a child.
//
// Cost: 1 round trip, index _id.
func (r *Relation[P, C, T]) Has(ctx context.Context, parent P, child C) (has bool, err error) {
	defer fault.In(&err, "relation: has")
	p, all, err := r.core.ids(parent, []any{child})
	if err != nil {
		return false, err
	}
	return r.core.has(ctx, p, all[0])
}

// Parents are the parents of a child, by their _ids.
//
// Cost: 1 round trip, index _id of the child with an Owner or Owners, else
// {children: 1}.
func (r *Relation[P, C, T]) Parents(ctx context.Context, child C) (out []P, err error) {
	defer fault.In(&err, "relation: parents")
	id, err := r.core.id(child)
	if err != nil {
		return nil, err
	}
	all, err := r.core.parentsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return decoded[P](r.core.codec, all)
}

// ParentsFilter selects the parents that have a child among their Children.
func (r *Relation[P, C, T]) ParentsFilter(child C) bson.D {
	return bson.D{{Key: r.core.Children, Value: r.core.operand(child)}}
}

// ChildrenFilter selects the children that name a parent as Owner or among their
// Owners.
func (r *Relation[P, C, T]) ChildrenFilter(parent P) bson.D {
	return bson.D{{Key: r.core.up(), Value: r.core.operand(parent)}}
}

// Policy says what a deletion does to the other side.
type Policy int

const (
	// Restrict refuses the deletion while there are references, with ErrReferenced.
	Restrict Policy = iota
	// Unlink takes the references away.
	Unlink
	// Cascade deletes the children with their parent; those that have further Owners
	// stay.
	Cascade
)

// DeleteParent deletes a parent.
//
// Cost: 2 round trips with Children alone. Else 3, with Cascade of Children and
// Owners 4. 1 document written, and each child with Unlink or Cascade.
func (r *Relation[P, C, T]) DeleteParent(ctx context.Context, parent P, policy Policy) (err error) {
	defer fault.In(&err, "relation: delete parent")
	id, err := r.core.id(parent)
	if err != nil {
		return err
	}
	if policy < Restrict || policy > Cascade {
		return fault.Invalid("policy: %d", policy)
	}
	return r.core.transact(ctx, func(ctx context.Context) error { return r.core.deleteParent(ctx, id, policy) })
}

// DeleteChild deletes a child, and with Unlink its references in the parents.
//
// Cost: 2 round trips with Owner or Owners alone, else 3, index {children: 1}. 1
// document written, and each parent with Unlink.
func (r *Relation[P, C, T]) DeleteChild(ctx context.Context, child C, policy Policy) (err error) {
	defer fault.In(&err, "relation: delete child")
	id, err := r.core.id(child)
	if err != nil {
		return err
	}
	if policy != Restrict && policy != Unlink {
		return fault.Invalid("policy: a child's deletion takes Restrict or Unlink")
	}
	return r.core.transact(ctx, func(ctx context.Context) error { return r.core.deleteChild(ctx, id, policy) })
}

func anys[V any](all []V) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}

func decoded[V any](c codec.Codec, all []bson.RawValue) ([]V, error) {
	out := make([]V, len(all))
	for i, v := range all {
		var err error
		if out[i], err = codec.DecodeValue[V](c, v); err != nil {
			return nil, fmt.Errorf("reference %d: %w", i, err)
		}
	}
	return out, nil
}

// isAbsent reports the driver's error of no document.
func isAbsent(err error) bool { return errors.Is(err, mongo.ErrNoDocuments) }
