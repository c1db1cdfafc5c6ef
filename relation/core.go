package relation

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/hold"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// core works on BSON. A link is kept on one side, or on two that agree; a document of Links is
// both sides.
type core struct {
	opts                  Options
	parents, children     *scoped.Collection
	links                 *scoped.Collection // nil without Options.Links
	codec                 codec.Codec
	inChild               string // the child's field that names its parent or parents: OwnerField, OwnersField or ""
	toChildren, toParents side
	oneCollection         bool // of parents and children
	undirected            bool // and their arrays one field

	isParentID, isChildID func(ref bson.RawValue) bool // whether asID takes it
}

// scope is that of all collections.
func (c *core) scope() *scope.Scope { return c.parents.Scope() }

// collections returns all collections with documents or references.
func (c *core) collections() []*scoped.Collection {
	if c.links == nil {
		return []*scoped.Collection{c.parents, c.children}
	}
	return []*scoped.Collection{c.parents, c.children, c.links}
}

// A side is the place of references to documents of target: field in the documents of holder, which is
// nil if there are no such references. from identifies where a reference comes from: _id, or the
// other field of a link. key is the field of target that references hold. back is the field in
// which the documents of target refer back, or "".
type side struct {
	holder, target         *scoped.Collection
	from, field, back, key string
	array                  bool
}

// between reports whether the references are documents of Links.
func (s side) between() bool { return s.from != "_id" }

// referringTo selects the documents with a reference to an ID. link selects that of one document.
func (s side) referringTo(id bson.RawValue) bson.D { return expr.D(s.field, value.Equal(id)) }

func (s side) link(from, id bson.RawValue) bson.D {
	return append(expr.D(s.from, value.Equal(from)), s.referringTo(id)...)
}

// withKey selects the document of target that references to an ID name.
func (s side) withKey(id bson.RawValue) bson.D { return expr.Is(s.key, id) }

// drop removes references from the documents that a filter selects.
func (s side) drop(ctx context.Context, filter bson.D, ids ...bson.RawValue) (err error) {
	switch {
	case s.holder == nil:
	case s.between():
		_, err = fault.Many(s.holder.DeleteMany(ctx, s.sound(filter)))
	case s.array:
		_, err = fault.Many(s.holder.UpdateMany(ctx, s.onlyArrays(filter), expr.Op("$pull", in(s.field, ids))))
	default:
		_, err = fault.Many(s.holder.UpdateMany(ctx, s.noArrays(filter), expr.Op("$unset", expr.D(s.field, ""))))
	}
	return err
}

// sound excludes links that somebody typed with an array, which an equality with its element also matches.
func (s side) sound(filter bson.D) bson.D {
	return append(s.noArrays(filter), expr.Element(s.from, expr.NotArray))
}

// onlyArrays excludes documents whose list is null, or any other value that $pull refuses.
func (s side) onlyArrays(filter bson.D) bson.D {
	return append(slices.Clip(filter), expr.Element(s.field, expr.AnArray))
}

// noArrays excludes documents whose OwnerField is an array, because an equality also matches its elements.
func (s side) noArrays(filter bson.D) bson.D {
	return append(slices.Clip(filter), expr.Element(s.field, expr.NotArray))
}

// of returns the references from each of the IDs, by value.Key of the ID. A document without references has an empty
// entry.
func (s side) of(ctx context.Context, ids ...bson.RawValue) (map[string][]bson.RawValue, error) {
	if s.between() {
		return linked(ctx, s.holder, s.from, ids, s.field)
	}
	return referred(ctx, s.holder, "_id", ids, s.field)
}

// by returns the documents that refer to each of the IDs, by value.Key of the ID.
func (s side) by(ctx context.Context, ids ...bson.RawValue) (map[string][]bson.RawValue, error) {
	if s.between() {
		return linked(ctx, s.holder, s.field, ids, s.from)
	}
	return referred(ctx, s.holder, s.field, ids, "_id")
}

// referred returns the references in a field of the documents that have each of the IDs in key; without a field it
// returns which of the IDs there are.
func referred(ctx context.Context, coll *scoped.Collection, key string, ids []bson.RawValue, field string) (map[string][]bson.RawValue, error) {
	projection := bson.M{"_id": 0, key: 1}
	if field != "" {
		projection[field] = 1
	}
	found, err := read[bson.Raw](ctx, coll, key, ids, nil, projection)
	if err != nil {
		return nil, err
	}
	return found.collect(func(doc bson.Raw) []bson.RawValue { return references(doc, field) }), nil
}

// linked returns what the links with each of the IDs in key have in field. It reads only the index, in
// its order. An array in a link is one value, not a list of references.
func linked(ctx context.Context, links *scoped.Collection, key string, ids []bson.RawValue, field string) (map[string][]bson.RawValue, error) {
	found, err := read[bson.Raw](ctx, links, key, ids, expr.D(key, 1, field, 1), bson.M{"_id": 0, key: 1, field: 1})
	if err != nil {
		return nil, err
	}
	return found.collect(func(doc bson.Raw) []bson.RawValue {
		if doc.Lookup(key).Type == bson.TypeArray { // no link of the ID
			return nil
		}
		if v := doc.Lookup(field); v.Type == bson.TypeArray {
			return []bson.RawValue{v}
		}
		return references(doc, field)
	}), nil
}

// references are the IDs in a field: the elements of an array, else the value, but not
// null.
func references(doc bson.Raw, field string) []bson.RawValue {
	return appendReferences(nil, doc, field)
}

func appendReferences(out []bson.RawValue, doc bson.Raw, field string) []bson.RawValue {
	v := doc.Lookup(field)
	if array, ok := v.ArrayOK(); ok {
		all, _ := array.Values()
		return append(out, all...)
	}
	if field == "" || v.Type == 0 || v.Type == bson.TypeNull {
		return out
	}
	return append(out, v)
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }

func encoded[V any](c *core, all []V) (out []bson.RawValue, err error) {
	out = make([]bson.RawValue, len(all))
	room := make([]byte, 0, 16*len(all)) // for as many of them as fit
	for i, id := range all {
		var ok bool
		if out[i], ok = c.codec.Plain(room[len(room):], id); ok {
			room = room[:min(cap(room), len(room)+len(out[i].Value))]
		} else if out[i], err = c.id(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decoded[V any](c *core, all []bson.RawValue) (out []V, err error) {
	for _, id := range all {
		v, err := codec.DecodeID[V](c.codec, id)
		if err != nil {
			return nil, fault.Of(id, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// asID returns a reference to no document as an ID. ok is false if it is malformed: ID cannot hold it, so it is
// probably one of another type, or it is a document, and probably the child itself.
func asID[ID any](c codec.Codec, ref bson.RawValue) (id ID, ok bool) {
	if ref.Type == bson.TypeEmbeddedDocument {
		return id, false
	}
	id, err := codec.DecodeID[ID](c, ref)
	return id, err == nil
}

// isID reports whether asID takes a reference of a side.
func (c *core) isID(s side, ref bson.RawValue) bool {
	if s == c.toChildren {
		return c.isChildID(ref)
	}
	return c.isParentID(ref)
}

// distinct returns IDs in their order without repetitions.
func distinct(ids []bson.RawValue) []bson.RawValue {
	if len(ids) < 2 {
		return slices.Clone(ids)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(ids), func(id bson.RawValue) bool {
		key := value.Key(id)
		again := seen[key]
		seen[key] = true
		return again
	})
}

func (c *core) transact(ctx context.Context, write func(ctx context.Context) error) error {
	return txn.Run(ctx, c.parents, write)
}

// in selects by IDs. It leaves out stored references that cannot be an _id: a regular expression
// would match other documents, and operators would make the whole command fail.
func in(field string, ids []bson.RawValue) bson.D {
	if slices.ContainsFunc(ids, malformed) {
		ids = slices.DeleteFunc(slices.Clone(ids), malformed)
	}
	return expr.D(field, expr.Op("$in", value.Array(ids)))
}

func malformed(id bson.RawValue) bool { return value.CheckID(id) != nil }

// orAbsent replaces ErrNoDocuments by absent, for this ID.
func orAbsent(id bson.RawValue, err, absent error) error {
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, absent)
	}
	return err
}

// link writes the parent first, so that all links of it conflict. Documents of Links are upserts,
// which the server repeats if they lose a race on the unique key.
func (c *core) link(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.links != nil {
		var models []mongo.WriteModel
		for _, id := range children {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.toChildren.link(p, id)).SetUpdate(expr.Op("$setOnInsert", bson.D{})).SetUpsert(true))
		}
		_, err := fault.Many(c.links.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
		return err
	}
	if c.opts.ChildrenField != "" {
		if err := c.addToParent(ctx, p, children); err != nil {
			return err
		}
	}
	if c.inChild == "" {
		return nil
	}
	return c.addToChildren(ctx, p, children)
}

// errArray: only Transfer can replace such an OwnerField; all other calls leave it alone.
var errArray = fault.New("OwnerField is an array", ErrOwned)

// addToChildren writes a parent into children whose OwnerField is free, or whose OwnersField has room. An _id that is on two
// shards is two documents, so addWhereFree may count more of them than children. It is not promised that such a Link is right.
func (c *core) addToChildren(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	named, err := c.addWhereFree(ctx, p, children)
	if err != nil || named == int64(len(children)) {
		return err
	}
	found, err := read[bson.Raw](ctx, cursor.Primary(c.children), "_id", children, nil, expr.D(c.inChild, 1))
	if err != nil {
		return err
	}
	same := func(id bson.RawValue) bool { return value.Same(id, p) }
	lacking := false
	for _, id := range children {
		docs := found.of(id)
		if docs == nil {
			return fault.Of(id, ErrNoChild)
		}
		for _, doc := range docs {
			owners := references(doc, c.inChild)
			switch {
			case c.opts.OwnerField != "" && doc.Lookup(c.inChild).Type == bson.TypeArray:
				return fault.Of(id, errArray)
			case slices.ContainsFunc(owners, same):
				continue
			case c.opts.OwnerField != "" && len(owners) > 0:
				return fault.Of(id, ErrOwned)
			case len(owners) >= c.opts.MaxCount:
				return fault.Of(id, ErrFull)
			}
			lacking = true
		}
	}
	if !lacking {
		return nil
	}
	// The reason does not hold any more: try again.
	if !txn.Running(ctx) {
		return c.addToChildren(ctx, p, children)
	}
	return txn.Conflict("link")
}

// addWhereFree writes a parent into those children that may have it, and returns how many have it now.
func (c *core) addWhereFree(ctx context.Context, p bson.RawValue, children []bson.RawValue) (int64, error) {
	filter := in("_id", children)
	if c.opts.OwnerField != "" {
		free := append(filter, expr.Element(c.inChild, expr.Op("$in", bson.A{nil, p})))
		return matched(fault.Many(c.children.UpdateMany(ctx, c.toParents.noArrays(free), expr.Op("$set", expr.D(c.inChild, p)))))
	}
	// $addToSet refuses a list that is null or undefined, which needs an expression instead.
	room := bson.A{c.toParents.referringTo(p), expr.D(c.inChild+"."+strconv.Itoa(c.opts.MaxCount-1), absent)}
	quick := append(filter, expr.Element(c.inChild, notNull), expr.Element("$or", room))
	named, err := matched(fault.Many(c.children.UpdateMany(ctx, quick, expr.Op("$addToSet", expr.D(c.inChild, p)))))
	if err != nil || named == int64(len(children)) {
		return named, err
	}
	enough, add := c.appended(c.inChild, []bson.RawValue{p})
	return matched(fault.Many(c.children.UpdateMany(ctx, append(filter, enough), add)))
}

// matched returns the number of documents that an update has matched.
func matched(result *mongo.UpdateResult, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.MatchedCount, nil
}

var (
	notNull = expr.Fixed(expr.Op("$not", expr.Op("$type", bson.A{"null", "undefined"})))
	absent  = expr.Fixed(expr.Op("$exists", false))
)

// addToParent appends references to those of a parent, if they are missing and there is room. Most lists
// have room for all of them; then the server need not evaluate an expression to count.
func (c *core) addToParent(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if left := c.opts.MaxCount - len(children); left >= 0 {
		room := append(expr.ByID(p), expr.Element(c.opts.ChildrenField, notNull),
			expr.Element(c.opts.ChildrenField+"."+strconv.Itoa(left), absent))
		each := any(children[0])
		if len(children) > 1 {
			each = expr.Op("$each", value.Array(children))
		}
		set := expr.Op("$addToSet", expr.D(c.opts.ChildrenField, each))
		result, err := fault.One(c.parents.UpdateOne(ctx, room, set))
		if err != nil || result.MatchedCount == 1 {
			return err
		}
	}
	room, set := c.appended(c.opts.ChildrenField, children)
	result, err := fault.One(c.parents.UpdateOne(ctx, append(expr.ByID(p), room), set))
	if err != nil || result.MatchedCount == 1 {
		return err
	}
	found, err := maintain.Holds(ctx, cursor.Primary(c.parents), expr.ByID(p))
	switch {
	case err != nil:
		return err
	case !found:
		return fault.Of(p, mongopatterns.ErrNoParent)
	}
	return fault.Of(p, ErrFull)
}

// appended returns the update that appends missing references to a list, which may be null, and the
// condition that the list has room for them. A list that is too long already refuses only new
// references.
func (c *core) appended(field string, ids []bson.RawValue) (room bson.E, update mongo.Pipeline) {
	list := expr.IfNull(expr.Field(field), bson.A{})
	all := expr.Op("$concatArrays", list, expr.Filter(expr.Literal(value.Array(ids)), "c", expr.Op("$not", expr.Op("$in", "$$c", list))))
	fits := expr.Op("$lte", expr.Op("$size", all), expr.Op("$max", c.opts.MaxCount, expr.Op("$size", list)))
	return expr.Element("$expr", fits), mongo.Pipeline{expr.Op("$set", expr.D(field, all))}
}

func (c *core) unlink(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.opts.ChildrenField != "" {
		if err := c.toChildren.drop(ctx, expr.ByID(p), children...); err != nil {
			return err
		}
	}
	return c.toParents.drop(ctx, append(in(c.toParents.from, children), c.toParents.referringTo(p)...), p)
}

func (c *core) transfer(ctx context.Context, to bson.RawValue, one []bson.RawValue) error {
	set := expr.Op("$set", expr.D(c.opts.OwnerField, to))
	before, err := fault.Single(c.children.FindOneAndUpdate(ctx, expr.ByID(one[0]), set, options.FindOneAndUpdate().SetProjection(expr.D(c.opts.OwnerField, 1)))).Raw()
	if err != nil || c.opts.ChildrenField == "" {
		return orAbsent(one[0], err, ErrNoChild)
	}
	if from := before.Lookup(c.opts.OwnerField); !malformed(from) && !value.Same(from, to) {
		if err := c.toChildren.drop(ctx, expr.ByID(from), one...); err != nil {
			return err
		}
	}
	return c.addToParent(ctx, to, one)
}

// fields returns the _id of a document and its other fields, without the one for its parents.
func (c *core) fields(id bson.RawValue, raw bson.Raw) (bson.D, error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	out := append(make(bson.D, 0, len(elements)+2), expr.Element("_id", id))
	for _, e := range elements {
		if key := e.Key(); key != "_id" && (key != c.inChild || key == "") {
			out = append(out, expr.Element(key, e.Value()))
		}
	}
	return out, nil
}

// child makes a document a child of a parent; without an _id it gets one.
func (c *core) child(raw bson.Raw, p bson.RawValue) (id bson.RawValue, doc bson.D, err error) {
	if id = raw.Lookup("_id"); id.Type == 0 {
		id = value.NewID()
	}
	if err := value.CheckID(id); err != nil {
		return id, nil, fault.Invalid("child: %w", err)
	}
	if doc, err = c.fields(id, raw); err != nil {
		return id, nil, err
	}
	if c.toParents.array {
		doc = append(doc, expr.Element(c.inChild, bson.A{p}))
	} else if c.inChild != "" {
		doc = append(doc, expr.Element(c.inChild, p))
	}
	return id, doc, nil
}

// insert stores a new child of a parent. readable refuses an _id that cannot be returned to the caller.
func (c *core) insert(ctx context.Context, parent, child any, readable func(id bson.RawValue, fresh bool) error) error {
	p, err := c.id(parent)
	if err != nil {
		return err
	}
	raw, err := c.codec.Stored(child)
	if err != nil {
		return err
	}
	id, doc, err := c.child(raw, p)
	if err != nil {
		return err
	}
	if err := readable(id, raw.Lookup("_id").Type == 0); err != nil {
		return err
	}
	return c.transact(ctx, func(ctx context.Context) error {
		if err := c.writeParent(ctx, p, id); err != nil {
			return err
		}
		if _, err := fault.One(c.children.InsertOne(ctx, doc)); err != nil {
			return fault.Taken("_id", id, err)
		}
		if c.links == nil {
			return nil
		}
		return c.link(ctx, p, []bson.RawValue{id})
	})
}

// writeParent puts a new child into the list of its parent, or writes to the parent without changing it. Only a write
// ensures that the parent exists and is not deleted meanwhile.
func (c *core) writeParent(ctx context.Context, p, child bson.RawValue) error {
	if c.opts.ChildrenField != "" {
		return c.addToParent(ctx, p, []bson.RawValue{child})
	}
	return orAbsent(p, hold.Documents(ctx, c.parents, c.toParents.withKey(p)), mongopatterns.ErrNoParent)
}

// A role is that of a document which is deleted: parent or child.
type role struct {
	refs     side  // the references to it
	others   side  // those to it in the other role, if parents and children are one collection
	absent   error // it does not exist
	cascades bool  // Cascade can be used
}

// delete deletes a document, and returns how many children Cascade has deleted.
func (c *core) delete(ctx context.Context, which any, policy mongopatterns.DeletePolicy, as role) (children int64, err error) {
	id, err := c.id(which)
	if err != nil {
		return 0, err
	}
	known := policy == mongopatterns.Restrict || policy == mongopatterns.Unlink || policy == mongopatterns.Cascade && as.cascades
	if !known {
		return 0, fault.Invalid("policy: %s cannot be used here: use Restrict or Unlink, or Cascade for parents in a collection of their own", policy)
	}
	err = c.transact(ctx, func(ctx context.Context) (err error) {
		children, err = c.deleteIn(ctx, id, policy, as)
		return err
	})
	if err != nil {
		return 0, err
	}
	return children, nil
}

// deleteIn is delete within the transaction.
func (c *core) deleteIn(ctx context.Context, id bson.RawValue, policy mongopatterns.DeletePolicy, as role) (children int64, err error) {
	doc, err := fault.Single(as.refs.target.FindOneAndDelete(ctx, as.refs.withKey(id))).Raw()
	if err != nil {
		return 0, orAbsent(id, err, as.absent)
	}
	own := references(doc, as.refs.back)
	switch policy {
	case mongopatterns.Restrict:
		err = as.refs.checkNone(ctx, id, own)
	case mongopatterns.Unlink:
		err = as.refs.drop(ctx, as.refs.referringTo(id), id)
	case mongopatterns.Cascade:
		children, err = c.cascade(ctx, id, own)
	}
	if err != nil || !c.oneCollection || c.undirected {
		return children, err
	}
	return children, as.others.drop(ctx, as.others.referringTo(id), id)
}

// checkNone refuses a deleted document with references: own, which it held itself, or others to it.
func (s side) checkNone(ctx context.Context, id bson.RawValue, own []bson.RawValue) (err error) {
	referenced := len(own) > 0
	if !referenced && s.holder != nil {
		filter := s.referringTo(id)
		if s.between() {
			filter = s.sound(filter)
		}
		if referenced, err = maintain.Holds(ctx, s.holder, filter); err != nil {
			return err
		}
	}
	if referenced {
		return fault.Of(id, mongopatterns.ErrReferenced)
	}
	return nil
}

// cascade deletes the children of a deleted parent that have no other parent; own are the children
// in the deleted parent's list.
func (c *core) cascade(ctx context.Context, p bson.RawValue, own []bson.RawValue) (deleted int64, err error) {
	theirs := c.toParents.referringTo(p)
	if c.inChild != "" { // the children name their parents
		alone := theirs
		if c.opts.OwnerField != "" {
			alone = c.toParents.noArrays(theirs)
		}
		if c.opts.OwnersField != "" {
			another := expr.Op("$elemMatch", expr.Op("$ne", p)) // not $size 1: old code may have added p twice
			alone = append(c.toParents.onlyArrays(theirs), expr.Element(c.inChild, expr.Op("$not", another)))
		}
		result, err := fault.Many(c.children.DeleteMany(ctx, alone))
		if err != nil {
			return 0, err
		}
		if c.opts.OwnerField == "" {
			err = c.toParents.drop(ctx, theirs, p)
		}
		return result.DeletedCount, err
	}
	if c.links != nil {
		links, err := c.toChildren.of(ctx, p)
		if err != nil {
			return 0, err
		}
		if err := c.toParents.drop(ctx, theirs, p); err != nil {
			return 0, err
		}
		own = links[value.Key(p)]
	}
	shared, err := c.toChildren.by(ctx, own...)
	if err != nil {
		return 0, err
	}
	own = slices.DeleteFunc(own, func(id bson.RawValue) bool { return shared[value.Key(id)] != nil })
	if len(own) == 0 {
		return 0, nil
	}
	result, err := fault.Many(c.children.DeleteMany(ctx, in("_id", own)))
	if err != nil {
		return 0, err
	}
	return result.DeletedCount, nil
}
