package relation

import (
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
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
	// ErrFull: a list would have more than Options.Max references.
	ErrFull = fault.New("too many references", mongopatterns.ErrConflict)
	// ErrReferenced: a Restrict deletion met references.
	ErrReferenced = fault.New("still referenced", mongopatterns.ErrConflict)
)

// Options say where the references are: in ChildrenField, in OwnerField or OwnersField,
// in ChildrenField and one of these two, or in Links.
type Options struct {
	// ChildrenField is the field of the parent with the array of its children's _ids.
	// Default "": the parent has none.
	ChildrenField string
	// OwnerField is the field of the child with the _id of its parent. Default "": none.
	OwnerField string
	// OwnersField is the field of the child with the array of its parents' _ids. Default
	// "": none.
	OwnersField string
	// Links is the collection between with a document for each link, which may have
	// further fields of yours. Default nil: none.
	Links *mongo.Collection
	// ParentField and ChildField are the fields of Links with the two _ids. Default "parent"
	// and "child".
	ParentField, ChildField string
	// Max bounds the arrays; Link and Insert refuse more with ErrFull. Default 10,000.
	// An array that somebody else made longer stays readable.
	Max int
	// Sort is the order in which First and, with OwnerField or OwnersField alone, Children read the
	// children of a parent, such as {at: -1}; their index ends with it. Default {_id:
	// -1}.
	Sort bson.D
	// Registry and BSON encode the IDs and the children. Default: the driver's own.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Relation is between the documents of two collections, or of one. P and C are the
// types of the _ids of parents and children, T that of the children.
type Relation[P, C, T any] struct{ core *core }

var _ mongopatterns.Checker = (*Relation[int, int, int])(nil)

// New returns a relation. It does no I/O. Parents and children may be one collection;
// if ChildrenField and OwnersField are one field as well, links have no direction.
func New[P, C, T any](parents, children *mongo.Collection, opts *Options) (r *Relation[P, C, T], err error) {
	defer fault.In(&err, "relation: new")
	var o Options
	if opts != nil {
		o = *opts
	}
	self := parents != nil && children != nil && parents.Name() == children.Name()
	colls := []any{"parents", parents}
	if !self {
		colls = append(colls, "children", children)
	}
	if o.Links != nil {
		colls = append(colls, "Options.Links", o.Links)
	}
	down := []config.Setting{config.Name("Options.ChildrenField", &o.ChildrenField, ""), config.Number("Options.Max", &o.Max, 10_000, 1, 1_000_000)}
	up := []config.Setting{config.Name("Options.OwnerField", &o.OwnerField, ""), config.Name("Options.OwnersField", &o.OwnersField, "")}
	undirected := self && o.ChildrenField != "" && o.ChildrenField == o.OwnersField
	if self && !undirected {
		down = append(down, up...)
	}
	between := []config.Setting{config.Name("Options.ParentField", &o.ParentField, "parent"), config.Name("Options.ChildField", &o.ChildField, "child")}
	err = cmp.Or(config.Collections(colls...), config.Apply(down...), config.Apply(up...), config.Apply(between...))
	field := o.OwnerField + o.OwnersField
	switch {
	case err != nil:
		return nil, err
	case self && (parents.Database().Name() != children.Database().Name() || parents.Database().Client() != children.Database().Client()):
		return nil, fault.Invalid("children: of another database or client")
	case o.ChildrenField == "" && field == "" && o.Links == nil:
		return nil, fault.Invalid("Options.ChildrenField, OwnerField, OwnersField, Links: one is needed")
	case o.OwnerField != "" && o.OwnersField != "" || o.Links != nil && o.ChildrenField+field != "":
		return nil, fault.Invalid("Options.OwnerField, OwnersField, Links: only one of them, and Links without ChildrenField")
	case slices.Contains([]string{o.ChildrenField, field, o.ParentField, o.ChildField}, "_id"):
		return nil, fault.Invalid("a reference in _id")
	}
	if len(o.Sort) == 0 {
		o.Sort = bson.D{{Key: "_id", Value: -1}}
	}
	c := &core{Options: o, parents: parents, children: children, codec: codec.Codec{Registry: o.Registry, BSON: o.BSON},
		up: field, self: self, undirected: undirected,
		toChildren: end{other: children, from: "_id", field: o.ChildrenField, back: field, array: true},
		toParents:  end{other: parents, from: "_id", field: field, back: o.ChildrenField, array: o.OwnersField != ""}}
	if o.Links != nil {
		c.toChildren = end{coll: o.Links, other: children, from: o.ParentField, field: o.ChildField}
		c.toParents = end{coll: o.Links, other: parents, from: o.ChildField, field: o.ParentField}
	}
	if o.ChildrenField != "" {
		c.toChildren.coll = parents
	}
	if field != "" {
		c.toParents.coll = children
	}
	return &Relation[P, C, T]{c}, nil
}

// Indexes are {children: 1} of the parents and {owner: 1, sort…} or {owners: 1,
// sort…} of the children, or {parent: 1, child: 1}, unique, and {child: 1, parent: 1}
// of the links, by collection name.
func (r *Relation[P, C, T]) Indexes() map[string][]mongo.IndexModel {
	c, out := r.core, map[string][]mongo.IndexModel{}
	if c.Links != nil {
		pair := bson.D{{Key: c.ParentField, Value: 1}, {Key: c.ChildField, Value: 1}}
		out[c.Links.Name()] = []mongo.IndexModel{{Keys: pair, Options: options.Index().SetUnique(true)}, {Keys: bson.D{pair[1], pair[0]}}}
	}
	if c.ChildrenField != "" && !c.undirected {
		out[c.parents.Name()] = []mongo.IndexModel{{Keys: bson.D{{Key: c.ChildrenField, Value: 1}}}}
	}
	if c.up != "" {
		out[c.children.Name()] = append(out[c.children.Name()], mongo.IndexModel{Keys: append(bson.D{{Key: c.up, Value: 1}}, c.Sort...)})
	}
	return out
}

// EnsureIndexes creates the indexes that are missing. Like Check, Repair, Extract and Embed it
// refuses collections with a default collation.
//
// Cost: 1 round trip, and 1 for each collection with references, 2 if an index is missing.
func (r *Relation[P, C, T]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "relation: ensure indexes")
	if err := collation.Refuse(ctx, r.core.collections()...); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, r.core.parents.Database(), r.Indexes())
}

// ShardKey is _id of both, and {parent: 1, child: 1} of the links, by collection name.
func (r *Relation[P, C, T]) ShardKey() map[string]bson.D {
	c := r.core
	out := map[string]bson.D{c.parents.Name(): {{Key: "_id", Value: 1}}, c.children.Name(): {{Key: "_id", Value: 1}}}
	if c.Links != nil {
		out[c.Links.Name()] = bson.D{{Key: c.ParentField, Value: 1}, {Key: c.ChildField, Value: 1}}
	}
	return out
}

// Link adds children to a parent, in an array behind those it has. Links that are
// there already are no error, so it can be repeated. With an OwnerField, a child of another
// parent is [ErrOwned].
//
// Cost: 1 round trip, 1 document written, index _id, with ChildrenField alone or for one
// child; with Links 1 and n. n children of an OwnerField or OwnersField: 2 and n. Both sides: 3
// and 1 + n. A list that is null, or has no room for n more: 1 more.
func (r *Relation[P, C, T]) Link(ctx context.Context, parent P, children ...C) (err error) {
	defer fault.In(&err, "relation: link")
	return r.change(ctx, parent, children, r.core.link)
}

// Unlink takes children away from a parent. Those it does not have are no error.
//
// Cost: that of Link.
func (r *Relation[P, C, T]) Unlink(ctx context.Context, parent P, children ...C) (err error) {
	defer fault.In(&err, "relation: unlink")
	return r.change(ctx, parent, children, r.core.unlink)
}

// Transfer gives a child to another parent, or to its first. It needs an OwnerField.
//
// Cost: 1 round trip, 1 document written, index _id. Both sides: 4 and 3.
func (r *Relation[P, C, T]) Transfer(ctx context.Context, child C, to P) (err error) {
	defer fault.In(&err, "relation: transfer")
	if r.core.OwnerField == "" {
		return fault.Invalid("Options.OwnerField: Transfer needs one")
	}
	return r.change(ctx, to, []C{child}, r.core.transfer)
}

// change runs a write of links, in a transaction where it may write two documents
// that have to agree.
func (r *Relation[P, C, T]) change(ctx context.Context, parent P, children []C, write func(ctx context.Context, p bson.RawValue, all []bson.RawValue) error) error {
	p, err := r.core.id(parent)
	if err != nil {
		return err
	}
	all, err := encoded(r.core, children)
	if err != nil {
		return err
	}
	if all = distinct(all); len(all) == 0 {
		return fault.Invalid("no children")
	}
	if r.core.up == "" || r.core.ChildrenField == "" && len(all) == 1 {
		return write(ctx, p, all)
	}
	return r.core.transact(ctx, func(ctx context.Context) error { return write(ctx, p, all) })
}

// Insert stores a new child and links it to its parent, which must exist. A field of
// the child for its parents is overwritten. Without ChildrenField the parent has the field
// "_mongopatterns_touched" while the transaction runs, as a write of it is what
// keeps the parent from being deleted meanwhile: a validator of yours must let it
// pass.
//
// Cost: 3 round trips, 2 documents written, index _id; without ChildrenField the parent is
// written twice. Links: 4 and 3.
func (r *Relation[P, C, T]) Insert(ctx context.Context, parent P, child T) (id C, err error) {
	defer fault.In(&err, "relation: insert")
	made, err := r.core.insert(ctx, parent, child)
	if err != nil {
		return id, err
	}
	return codec.DecodeValue[C](r.core.codec, made)
}

// Has reports whether a parent has a child.
//
// Cost: 1 round trip, index _id; with Links {parent: 1, child: 1}.
func (r *Relation[P, C, T]) Has(ctx context.Context, parent P, child C) (has bool, err error) {
	defer fault.In(&err, "relation: has")
	c := r.core
	p, err := c.id(parent)
	if err != nil {
		return false, err
	}
	id, err := c.id(child)
	if err != nil {
		return false, err
	}
	if c.toParents.coll != nil {
		return exists(ctx, c.toParents.coll, c.toParents.link(id, p))
	}
	return exists(ctx, c.parents, c.toChildren.link(p, id))
}

// DeletePolicy says what a deletion does to the other side.
type DeletePolicy int

const (
	// Restrict refuses the deletion while there are links, with ErrReferenced.
	Restrict DeletePolicy = iota
	// Unlink takes the links away.
	Unlink
	// Cascade deletes the children with their parent; those that have further parents
	// stay. It is ErrInvalid where the children are parents of the same collection:
	// package tree deletes what is below.
	Cascade
)

// DeleteParent deletes a parent. In one collection its links as a child go too.
//
// Cost: 2 round trips with ChildrenField alone, else 3; 1 document written, and each child
// with Unlink or Cascade. Cascade: 4 with ChildrenField alone or OwnersField, 6 with Links. One
// collection: 1 more if links lead to children.
func (r *Relation[P, C, T]) DeleteParent(ctx context.Context, parent P, policy DeletePolicy) (err error) {
	defer fault.In(&err, "relation: delete parent")
	return r.core.delete(ctx, parent, policy, r.core.toParents, r.core.toChildren, ErrNoParent)
}

// DeleteChild deletes a child. In one collection its links as a parent go too.
//
// Cost: 2 round trips with OwnerField or OwnersField alone, else 3, index {children: 1} or
// {child: 1, parent: 1}; 1 document written, and each parent or link with Unlink. One
// collection: 1 more if links lead to parents.
func (r *Relation[P, C, T]) DeleteChild(ctx context.Context, child C, policy DeletePolicy) (err error) {
	defer fault.In(&err, "relation: delete child")
	return r.core.delete(ctx, child, policy, r.core.toChildren, r.core.toParents, ErrNoChild)
}
