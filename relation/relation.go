package relation

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

var (
	// ErrNoChild: the child of a reference does not exist. It matches mongopatterns.ErrNotFound.
	// For a parent that does not exist the error is mongopatterns.ErrNoParent.
	ErrNoChild = fault.New("no such child", mongopatterns.ErrNotFound)
	// ErrOwned: the child has another owner; Transfer changes it. It matches mongopatterns.ErrConflict.
	ErrOwned = fault.New("owned by another parent", mongopatterns.ErrConflict)
	// ErrFull: a list would have more than Options.MaxCount references. It matches mongopatterns.ErrConflict.
	ErrFull = fault.New("too many references", mongopatterns.ErrConflict)
)

// Options say where the references are. They are in ChildrenField, in OwnerField or OwnersField, in
// ChildrenField and one of these two, or in Links.
type Options struct {
	// ChildrenField is the parent's field with the array of its children's _ids. Default "":
	// the parent has no such field.
	ChildrenField string
	// OwnerField is the child's field with the _id of its parent. Default "": no such field.
	OwnerField string
	// OwnersField is the child's field with the array of its parents' _ids. Default "": no
	// such field.
	OwnersField string
	// KeyField is the parent's field whose value children hold in OwnerField or OwnersField, a
	// natural key such as "id" or "email". All calls then take this key as a parent's ID. It must
	// not change, and EnsureIndexes creates a unique index of it. It cannot be combined with
	// ChildrenField, with Links, or with parents and children in one collection. Default "_id".
	KeyField string
	// Links is a collection in between, with a document for each link, which may have further
	// fields of yours. Default nil: none.
	Links *mongo.Collection
	// ParentField and ChildField are the fields of Links with the two _ids. Default "parent"
	// and "child".
	ParentField, ChildField string
	// MaxCount bounds the arrays. Link and Insert return ErrFull for more. An array that somebody
	// else made longer stays readable. Default 10,000.
	MaxCount int
	// Sort is the order in which First, and with OwnerField or OwnersField alone also
	// Children, return the children of a parent, such as {at: -1}. Their index ends with it.
	// Default {_id: -1}.
	Sort bson.D
	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, start every index and are stored in every new child and link; children that are
	// embedded in a parent lack them. The values are strings, numbers and similar. Null, an array or a regular
	// expression is refused. A child with another value is ErrInvalid, a parent or child of another tenant is not
	// found, and a reference to it dangles. Default none: all documents of the collections.
	Scope bson.D
	// Registry and BSON encode the IDs and the children. By default BSON is what the client has. The client's registry
	// cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil: the
	// driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Relation is a relation between the documents of two collections, or of one. ParentID is the type of
// the parents' _ids (or of their KeyField), ChildID that of the children's _ids, T that of the children.
type Relation[ParentID, ChildID, T any] struct{ core *core }

var _ mongopatterns.Checker = (*Relation[int, int, int])(nil)

// New returns a relation. It does no I/O. Parents and children may be the same collection; if
// ChildrenField and OwnersField are then the same field, links have no direction.
func New[ParentID, ChildID, T any](parents, children *mongo.Collection, opts *Options) (r *Relation[ParentID, ChildID, T], err error) {
	defer fault.In(&err, "relation.New")
	if err := cmp.Or(codec.CheckOrder[ParentID]("ParentID"), codec.CheckOrder[ChildID]("ChildID")); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Scope, o.Sort = slices.Clone(o.Scope), slices.Clone(o.Sort)
	c := &core{opts: o, parents: scoped.On(parents), children: scoped.On(children), links: scoped.On(o.Links)}
	if err := c.complete(); err != nil {
		return nil, err
	}
	c.codec = codec.New(parents, o.Registry, o.BSON)
	tenant, err := scope.New(c.codec, o.Scope)
	if err != nil {
		return nil, err
	}
	c.parents, c.children, c.links = c.parents.In(tenant), c.children.In(tenant), c.links.In(tenant)
	c.toChildren, c.toParents = c.directions()
	c.isParentID = func(ref bson.RawValue) bool { _, ok := asID[ParentID](c.codec, ref); return ok }
	c.isChildID = func(ref bson.RawValue) bool { _, ok := asID[ChildID](c.codec, ref); return ok }
	if err := c.checkChild(reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	return &Relation[ParentID, ChildID, T]{c}, nil
}

// checkChild refuses a type of children that does not store what they are sorted by, or could not be read again.
func (c *core) checkChild(t reflect.Type) error {
	for _, e := range c.opts.Sort {
		if err := c.codec.CheckKept(t, "Options.Sort", e.Key); err != nil && e.Key != "_id" {
			return err
		}
	}
	return c.codec.CheckExtended("T", t)
}

// complete sets the defaults and refuses collections and options that do not fit together.
func (c *core) complete() error {
	o := &c.opts
	c.oneCollection = c.parents != nil && c.children != nil && c.parents.Name() == c.children.Name()
	if err := c.checkCollections(); err != nil {
		return err
	}
	c.undirected = c.oneCollection && o.ChildrenField != "" && o.ChildrenField == o.OwnersField
	if err := c.applySettings(); err != nil {
		return err
	}
	c.inChild = cmp.Or(o.OwnerField, o.OwnersField) // checkReferences refuses both
	return c.checkReferences()
}

// checkReferences refuses options that do not say in one way where the references are.
func (c *core) checkReferences() error {
	o := c.opts
	switch {
	case o.ChildrenField == "" && c.inChild == "" && c.links == nil:
		return fault.Invalid("Options: set ChildrenField, OwnerField, OwnersField or Links")
	case o.OwnerField != "" && o.OwnersField != "", c.links != nil && (o.ChildrenField != "" || c.inChild != ""):
		return fault.Invalid("Options: set only one of OwnerField, OwnersField and Links, and Links without ChildrenField")
	case o.KeyField != "_id" && (c.oneCollection || o.ChildrenField != "" || c.links != nil):
		return fault.Invalid("Options.KeyField: it needs OwnerField or OwnersField alone, and two collections")
	case slices.Contains([]string{o.ChildrenField, c.inChild, o.ParentField, o.ChildField}, "_id"):
		return fault.Invalid("Options: no reference can be in _id")
	}
	return nil
}

// checkCollections refuses collections that are nil or do not fit together.
func (c *core) checkCollections() error {
	all := []any{"parents", c.parents.Driver()}
	if !c.oneCollection {
		all = append(all, "children", c.children.Driver())
	}
	if c.links != nil {
		all = append(all, "Options.Links", c.opts.Links)
	}
	if err := config.Collections(all...); err != nil {
		return err
	}
	ofParents, ofChildren := c.parents.Database(), c.children.Database()
	if c.oneCollection && (ofParents.Name() != ofChildren.Name() || ofParents.Client() != ofChildren.Client()) {
		return fault.Invalid("children: the collection is in another database or of another client")
	}
	return nil
}

// applySettings sets the defaults of the options, and refuses bad names and two equal ones in one document.
func (c *core) applySettings() error {
	o := &c.opts
	if len(o.Sort) == 0 {
		o.Sort = expr.D("_id", -1)
	}
	for _, e := range o.Sort {
		if _, err := config.Direction(e); err != nil {
			return fault.Invalid("Options.Sort: %w", err)
		}
	}
	parent := []config.Setting{
		config.Name("Options.ChildrenField", &o.ChildrenField, ""),
		config.Name("Options.KeyField", &o.KeyField, "_id"),
		config.Number("Options.MaxCount", &o.MaxCount, 10_000, 1, 1_000_000),
	}
	child := []config.Setting{
		config.Name("Options.OwnerField", &o.OwnerField, ""),
		config.Name("Options.OwnersField", &o.OwnersField, ""),
	}
	link := []config.Setting{
		config.Name("Options.ParentField", &o.ParentField, "parent"),
		config.Name("Options.ChildField", &o.ChildField, "child"),
	}
	if c.oneCollection && !c.undirected { // one document has both
		parent = append(parent, child...)
	}
	touch := hold.Field
	own := append(config.Scope(o.Scope), config.Name(hold.Field, &touch, ""))
	for _, settings := range [][]config.Setting{parent, child, link} {
		if err := config.Apply(slices.Concat(own, settings)...); err != nil {
			return err
		}
	}
	return nil
}

// directions are the two ways from a document to those on the other side of its links.
func (c *core) directions() (toChildren, toParents side) {
	o := c.opts
	if c.links != nil {
		return side{holder: c.links, target: c.children, from: o.ParentField, field: o.ChildField, key: "_id"},
			side{holder: c.links, target: c.parents, from: o.ChildField, field: o.ParentField, key: "_id"}
	}
	toChildren = side{target: c.children, from: "_id", field: o.ChildrenField, back: c.inChild, key: "_id", array: true}
	toParents = side{target: c.parents, from: "_id", field: c.inChild, back: o.ChildrenField, key: o.KeyField, array: o.OwnersField != ""}
	if o.ChildrenField != "" {
		toChildren.holder = c.parents
	}
	if c.inChild != "" {
		toParents.holder = c.children
	}
	return toChildren, toParents
}

// Indexes returns {children: 1} for the parents, {owner: 1, sort…} or {owners: 1, sort…} for the
// children, and for the links {parent: 1, child: 1}, unique, and {child: 1, parent: 1}. If
// Options.KeyField is not _id, the parents have a unique index of it. All begin with the scope.
func (r *Relation[ParentID, ChildID, T]) Indexes() map[string][]mongo.IndexModel {
	c, out := r.core, map[string][]mongo.IndexModel{}
	if c.links != nil {
		pair := expr.D(c.opts.ParentField, 1, c.opts.ChildField, 1)
		out[c.links.Name()] = []mongo.IndexModel{{Keys: c.scope().Keys(pair), Options: options.Index().SetUnique(true)}, {Keys: c.scope().Keys(bson.D{pair[1], pair[0]})}}
	}
	if c.opts.KeyField != "_id" {
		out[c.parents.Name()] = []mongo.IndexModel{{Keys: c.scope().Keys(expr.D(c.opts.KeyField, 1)), Options: options.Index().SetUnique(true)}}
	}
	if c.opts.ChildrenField != "" && !c.undirected {
		out[c.parents.Name()] = []mongo.IndexModel{{Keys: c.scope().Keys(expr.D(c.opts.ChildrenField, 1))}}
	}
	if c.inChild != "" {
		out[c.children.Name()] = append(out[c.children.Name()], mongo.IndexModel{Keys: append(c.scope().Keys(expr.D(c.inChild, 1)), c.opts.Sort...)})
	}
	return out
}

// EnsureIndexes creates the indexes that are missing. It refuses collections with a default
// collation, as Check, Repair, Extract and Embed do.
//
// Cost: 1 round trip, and 1 for each collection with references, 2 if an index is missing.
//   - If New got types of yours and no Registry, 1 more: the client must encode them alike.
func (r *Relation[ParentID, ChildID, T]) EnsureIndexes(ctx context.Context) (err error) {
	ctx = comment.Call(ctx, "relation.EnsureIndexes")
	defer fault.In(&err, "relation.EnsureIndexes")
	if err := collation.Refuse(ctx, r.core.collections()...); err != nil {
		return err
	}
	if err := r.core.codec.CheckClient(ctx, r.core.parents, reflect.TypeFor[ParentID](), reflect.TypeFor[ChildID](), reflect.TypeFor[T]()); err != nil {
		return err
	}
	return indexes.EnsureAll(ctx, r.core.parents.Database(), r.Indexes())
}

// ShardKey returns the recommended shard keys by collection name, behind the scope: Options.KeyField for the
// parents, _id for the children, and {parent: 1, child: 1} for the links.
func (r *Relation[ParentID, ChildID, T]) ShardKey() map[string]bson.D {
	c := r.core
	out := map[string]bson.D{c.parents.Name(): c.scope().Keys(expr.D(c.opts.KeyField, 1)), c.children.Name(): c.scope().Keys(expr.D("_id", 1))}
	if c.links != nil {
		out[c.links.Name()] = c.scope().Keys(expr.D(c.opts.ParentField, 1, c.opts.ChildField, 1))
	}
	return out
}

// Link adds children to a parent, at the end of an array. It ignores links that exist already, so it can be repeated.
// Without children Link and Unlink do nothing. With an OwnerField Link returns [ErrOwned] for a child of another
// parent.
//
// Cost: 1 round trip, 1 document written, index _id, with ChildrenField alone or for one child; with Links 1 and n.
//   - n children of an OwnerField or OwnersField: 2 and n.
//   - Both sides: 3 and 1 + n.
//   - A list that is null, or has no room for n more: 1 more.
func (r *Relation[ParentID, ChildID, T]) Link(ctx context.Context, parent ParentID, children ...ChildID) (err error) {
	ctx = comment.Call(ctx, "relation.Link")
	defer fault.In(&err, "relation.Link")
	return r.change(ctx, parent, children, r.core.link)
}

// Unlink removes children from a parent. It ignores children that the parent does not have.
//
// Cost: that of Link.
func (r *Relation[ParentID, ChildID, T]) Unlink(ctx context.Context, parent ParentID, children ...ChildID) (err error) {
	ctx = comment.Call(ctx, "relation.Unlink")
	defer fault.In(&err, "relation.Unlink")
	return r.change(ctx, parent, children, r.core.unlink)
}

// Transfer gives a child another parent, or its first one. It needs an OwnerField.
//
// Cost: 1 round trip, 1 document written, index _id. Both sides: 4 and 3.
func (r *Relation[ParentID, ChildID, T]) Transfer(ctx context.Context, child ChildID, to ParentID) (err error) {
	ctx = comment.Call(ctx, "relation.Transfer")
	defer fault.In(&err, "relation.Transfer")
	if r.core.opts.OwnerField == "" {
		return fault.Invalid("Options.OwnerField: it must be set for Transfer")
	}
	return r.change(ctx, to, []ChildID{child}, r.core.transfer)
}

// change runs a write of links, in a transaction if it may write two documents that have to
// agree.
func (r *Relation[ParentID, ChildID, T]) change(ctx context.Context, parent ParentID, children []ChildID, write func(ctx context.Context, p bson.RawValue, all []bson.RawValue) error) error {
	p, err := r.core.id(parent)
	if err != nil {
		return err
	}
	all, err := encoded(r.core, children)
	if err != nil {
		return err
	}
	if all = distinct(all); len(all) == 0 {
		return nil
	}
	if r.core.inChild == "" || r.core.opts.ChildrenField == "" && len(all) == 1 {
		return write(ctx, p, all)
	}
	return r.core.transact(ctx, func(ctx context.Context) error { return write(ctx, p, all) })
}

// Insert stores a new child and links it to its parent, which must exist. It overwrites the child's
// field for its parents. Without ChildrenField it sets and removes the field "__touch" in the
// parent while the transaction runs, because only a write of the parent keeps others from deleting
// it meanwhile; a validator must allow this field. If the _id exists, Insert returns
// mongopatterns.ErrExists.
//
// Cost: 3 round trips, 2 documents written, index _id; without ChildrenField the parent is
// written twice. Links: 4 and 3.
func (r *Relation[ParentID, ChildID, T]) Insert(ctx context.Context, parent ParentID, child T) (id ChildID, err error) {
	ctx = comment.Call(ctx, "relation.Insert")
	defer fault.In(&err, "relation.Insert")
	err = r.core.insert(ctx, parent, child, func(made bson.RawValue, fresh bool) (err error) {
		id, err = codec.DecodeNew[ChildID](r.core.codec, made, fresh)
		return err
	})
	return id, err
}

// Has reports whether a parent has a child.
//
// Cost: 1 round trip, index _id; with Links {parent: 1, child: 1}.
func (r *Relation[ParentID, ChildID, T]) Has(ctx context.Context, parent ParentID, child ChildID) (has bool, err error) {
	ctx = comment.Call(ctx, "relation.Has")
	defer fault.In(&err, "relation.Has")
	c := r.core
	p, err := c.id(parent)
	if err != nil {
		return false, err
	}
	id, err := c.id(child)
	if err != nil {
		return false, err
	}
	if c.toParents.holder != nil {
		return maintain.Holds(ctx, c.toParents.holder, c.toParents.link(id, p))
	}
	return maintain.Holds(ctx, c.parents, c.toChildren.link(p, id))
}

// DeleteParent deletes a parent and returns the number of children that it deleted. With Restrict it returns
// mongopatterns.ErrReferenced if the parent has children. Unlink removes the links. Cascade also deletes the children,
// except those with further parents. If parents and children are one collection, Cascade returns ErrInvalid, because
// package tree deletes subtrees, and the other policies also remove the document's links as a child.
//
// Cost: 2 round trips with ChildrenField alone, else 3; 1 document written, and each child with Unlink or Cascade.
//   - Cascade: 4 with ChildrenField alone or OwnersField, 6 with Links.
//   - One collection: 1 more if links lead to children.
func (r *Relation[ParentID, ChildID, T]) DeleteParent(ctx context.Context, parent ParentID, policy mongopatterns.DeletePolicy) (children int64, err error) {
	ctx = comment.Call(ctx, "relation.DeleteParent")
	defer fault.In(&err, "relation.DeleteParent")
	c := r.core
	return c.delete(ctx, parent, policy, role{refs: c.toParents, others: c.toChildren, absent: mongopatterns.ErrNoParent, cascades: !c.oneCollection})
}

// DeleteChild deletes a child, with Restrict or Unlink. If parents and children are one collection,
// its links as a parent are removed too.
//
// Cost: 2 round trips with OwnerField or OwnersField alone, otherwise 3; 1 document written.
//   - Unlink: a write for each parent or link, found by the index {children: 1} or {child: 1, parent: 1}.
//   - One collection: 1 more if links lead to parents.
func (r *Relation[ParentID, ChildID, T]) DeleteChild(ctx context.Context, child ChildID, policy mongopatterns.DeletePolicy) (err error) {
	ctx = comment.Call(ctx, "relation.DeleteChild")
	defer fault.In(&err, "relation.DeleteChild")
	c := r.core
	_, err = c.delete(ctx, child, policy, role{refs: c.toChildren, others: c.toParents, absent: ErrNoChild})
	return err
}
