package relation

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// core works on BSON. A link is kept in one end, or in two that are equal; a document
// of Links is both ends.
type core struct {
	Options
	parents, children     *mongo.Collection
	codec                 codec.Codec
	up                    string // the child's field with its parent or parents, "" for none
	toChildren, toParents end
	self                  bool // parents and children are one collection
	undirected            bool // and their arrays one field
}

// collections are all that hold documents or references.
func (c *core) collections() []*mongo.Collection {
	if c.Links == nil {
		return []*mongo.Collection{c.parents, c.children}
	}
	return []*mongo.Collection{c.parents, c.children, c.Links}
}

// end is where references to documents of other are: in field of the documents of
// coll, nil for nowhere. From is whose they are: _id, or the other field of a link.
// The documents of other name them back in field back, "" for none.
type end struct {
	coll, other       *mongo.Collection
	from, field, back string
	array             bool
}

// between says that the references are documents of Links.
func (e end) between() bool { return e.from != "_id" }

// to selects the documents with a reference, link that from one document.
func (e end) to(id bson.RawValue) bson.D { return bson.D{{Key: e.field, Value: value.Equal(id)}} }

func (e end) link(from, id bson.RawValue) bson.D {
	return append(bson.D{{Key: e.from, Value: value.Equal(from)}}, e.to(id)...)
}

// drop takes references out of the documents that a filter selects.
func (e end) drop(ctx context.Context, filter bson.D, ids ...bson.RawValue) (err error) {
	switch {
	case e.coll == nil:
	case e.between():
		_, err = fault.Many(e.coll.DeleteMany(ctx, filter))
	case e.array:
		_, err = fault.Many(e.coll.UpdateMany(ctx, filter, expr.Op("$pull", in(e.field, ids))))
	default:
		_, err = fault.Many(e.coll.UpdateMany(ctx, e.single(filter), expr.Op("$unset", bson.D{{Key: e.field, Value: ""}})))
	}
	return err
}

// single leaves out documents whose OwnerField is an array: an equality finds its elements too.
func (e end) single(filter bson.D) bson.D {
	return append(slices.Clip(filter), bson.E{Key: e.field, Value: expr.Op("$not", expr.Op("$type", "array"))})
}

// of are the references from each of the IDs, by its key; by whose they are that lead
// to each. An existing document without references is there, with none.
func (e end) of(ctx context.Context, ids ...bson.RawValue) (map[string][]bson.RawValue, error) {
	return lookup(ctx, e.coll, e.from, ids, e.field)
}

func (e end) by(ctx context.Context, ids ...bson.RawValue) (map[string][]bson.RawValue, error) {
	return lookup(ctx, e.coll, e.field, ids, e.from)
}

// lookup is what field holds in the documents that have each of the IDs in key. Of
// links the index alone is read, in its order; an array in one is no list of references.
func lookup(ctx context.Context, coll *mongo.Collection, key string, ids []bson.RawValue, field string) (map[string][]bson.RawValue, error) {
	projection, sort := bson.M{"_id": 0, key: 1}, any(nil)
	if field != "" {
		projection[field] = 1
	}
	link := projection["_id"] == 0
	if link {
		sort = bson.D{{Key: key, Value: 1}, {Key: field, Value: 1}}
	}
	found, err := read[bson.Raw](ctx, coll, key, ids, sort, projection)
	out := map[string][]bson.RawValue{}
	for id, i := range found.at {
		for _, doc := range found.docs[i] {
			if v := doc.Lookup(field); link && v.Type == bson.TypeArray {
				out[id] = append(out[id], v)
			} else {
				out[id] = append(out[id], references(doc, field)...)
			}
		}
	}
	return out, err
}

// references are the IDs in a field: of an array its elements, else the value; null
// is none.
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
	room := make([]byte, 0, 16*len(all)) // of all of them, as far as it goes
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
		var v V
		err := value.CheckID(id) // null would decode as a zero V
		if err == nil {
			v, err = codec.DecodeValue[V](c.codec, id)
		}
		if err != nil {
			return nil, fault.Of(id, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// distinct are IDs in their order without repetitions.
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
	return txn.Run(ctx, c.parents.Database().Client(), write)
}

func byID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: value.Equal(id)}} }

// in selects by IDs. What is stored among references and no _id can be is left out: a
// regular expression would match strangers, and operators fail the whole command.
func in(field string, ids []bson.RawValue) bson.D {
	if slices.ContainsFunc(ids, malformed) {
		ids = slices.DeleteFunc(slices.Clone(ids), malformed)
	}
	return bson.D{{Key: field, Value: bson.D{{Key: "$in", Value: value.Array(ids)}}}}
}

func malformed(id bson.RawValue) bool { return value.CheckID(id) != nil }

// missing is err, or that there is no document.
func missing(id bson.RawValue, err, absent error) error {
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fault.Of(id, absent)
	}
	return err
}

func exists(ctx context.Context, coll *mongo.Collection, filter bson.D) (bool, error) {
	err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// link writes the parent first, on which all links of it conflict. Links are upserts,
// which the server repeats if they lose a race on just this unique key.
func (c *core) link(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.Links != nil {
		var models []mongo.WriteModel
		for _, id := range children {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(c.toChildren.link(p, id)).SetUpdate(expr.Op("$setOnInsert", bson.D{})).SetUpsert(true))
		}
		_, err := fault.Many(c.Links.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)))
		return err
	}
	if c.ChildrenField != "" {
		if err := c.add(ctx, p, children); err != nil {
			return err
		}
	}
	if c.up == "" {
		return nil
	}
	return c.name(ctx, p, children)
}

// errArray: Transfer can replace such an OwnerField; nothing else touches it.
var errArray = fault.New("its owner is an array", ErrOwned)

// name writes a parent into children that have no other OwnerField, or room among OwnersField.
func (c *core) name(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	named, err := c.own(ctx, p, children)
	if err != nil || named == int64(len(children)) {
		return err
	}
	found, err := read[bson.Raw](ctx, c.children, "_id", children, nil, bson.D{{Key: c.up, Value: 1}})
	if err != nil {
		return err
	}
	same := func(id bson.RawValue) bool { return value.Key(id) == value.Key(p) }
	for _, id := range children {
		docs := found.of(id)
		if docs == nil {
			return fault.Of(id, ErrNoChild)
		}
		owners := references(docs[0], c.up)
		switch {
		case c.OwnerField != "" && docs[0].Lookup(c.up).Type == bson.TypeArray:
			return fault.Of(id, errArray)
		case slices.ContainsFunc(owners, same):
		case c.OwnerField != "" && len(owners) > 0:
			return fault.Of(id, ErrOwned)
		case len(owners) >= c.Max:
			return fault.Of(id, ErrFull)
		}
	}
	// What was in the way is gone: once more.
	if !txn.Running(ctx) {
		return c.name(ctx, p, children)
	}
	return txn.Conflict("link")
}

// own writes a parent into those children that may have it, and says how many have it now.
func (c *core) own(ctx context.Context, p bson.RawValue, children []bson.RawValue) (int64, error) {
	filter := in("_id", children)
	if c.OwnerField != "" {
		free := append(filter, bson.E{Key: c.up, Value: expr.Op("$in", bson.A{nil, p})})
		return matched(fault.Many(c.children.UpdateMany(ctx, c.toParents.single(free), expr.Op("$set", bson.D{{Key: c.up, Value: p}}))))
	}
	// $addToSet refuses a list that is null: that one needs an expression.
	room := bson.A{c.toParents.to(p), bson.D{{Key: c.up + "." + strconv.Itoa(c.Max-1), Value: absent}}}
	quick := append(filter, bson.E{Key: c.up, Value: notNull}, bson.E{Key: "$or", Value: room})
	named, err := matched(fault.Many(c.children.UpdateMany(ctx, quick, expr.Op("$addToSet", bson.D{{Key: c.up, Value: p}}))))
	if err != nil || named == int64(len(children)) {
		return named, err
	}
	enough, add := c.appended(c.up, []bson.RawValue{p})
	return matched(fault.Many(c.children.UpdateMany(ctx, append(filter, enough), add)))
}

// matched is how many documents an update has found.
func matched(result *mongo.UpdateResult, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.MatchedCount, nil
}

var (
	notNull = expr.Fixed(expr.Op("$not", expr.Op("$type", "null")))
	absent  = expr.Fixed(expr.Op("$exists", false))
)

// add puts references behind those of a parent, if they are not there and there is
// room. Most lists have room for all, whichever they have: then no expression needs to
// count.
func (c *core) add(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if left := c.Max - len(children); left >= 0 {
		room := append(byID(p), bson.E{Key: c.ChildrenField, Value: notNull},
			bson.E{Key: c.ChildrenField + "." + strconv.Itoa(left), Value: absent})
		each := any(children[0])
		if len(children) > 1 {
			each = bson.D{{Key: "$each", Value: value.Array(children)}}
		}
		set := bson.D{{Key: "$addToSet", Value: bson.D{{Key: c.ChildrenField, Value: each}}}}
		result, err := fault.One(c.parents.UpdateOne(ctx, room, set))
		if err != nil || result.MatchedCount == 1 {
			return err
		}
	}
	room, set := c.appended(c.ChildrenField, children)
	result, err := fault.One(c.parents.UpdateOne(ctx, append(byID(p), room), set))
	if err != nil || result.MatchedCount == 1 {
		return err
	}
	found, err := exists(ctx, c.parents, byID(p))
	switch {
	case err != nil:
		return err
	case !found:
		return fault.Of(p, ErrNoParent)
	}
	return fault.Of(p, ErrFull)
}

// appended is the update that puts references behind those of a list, which may be null, if
// they are not there; and the condition that the list has room for them. A list that is longer already
// refuses only what is new.
func (c *core) appended(field string, ids []bson.RawValue) (room bson.E, update mongo.Pipeline) {
	list := expr.IfNull(expr.Field(field), bson.A{})
	all := expr.Op("$concatArrays", list, expr.Filter(expr.Literal(value.Array(ids)), "c", expr.Op("$not", expr.Op("$in", "$$c", list))))
	fits := expr.Op("$lte", expr.Op("$size", all), expr.Op("$max", c.Max, expr.Op("$size", list)))
	return bson.E{Key: "$expr", Value: fits}, mongo.Pipeline{expr.Op("$set", bson.D{{Key: field, Value: all}})}
}

func (c *core) unlink(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.ChildrenField != "" {
		if err := c.toChildren.drop(ctx, byID(p), children...); err != nil {
			return err
		}
	}
	return c.toParents.drop(ctx, append(in(c.toParents.from, children), c.toParents.to(p)...), p)
}

func (c *core) transfer(ctx context.Context, to bson.RawValue, one []bson.RawValue) error {
	set := expr.Op("$set", bson.D{{Key: c.OwnerField, Value: to}})
	before, err := fault.Single(c.children.FindOneAndUpdate(ctx, byID(one[0]), set, options.FindOneAndUpdate().SetProjection(bson.D{{Key: c.OwnerField, Value: 1}}))).Raw()
	if err != nil || c.ChildrenField == "" {
		return missing(one[0], err, ErrNoChild)
	}
	if from := before.Lookup(c.OwnerField); !malformed(from) && value.Key(from) != value.Key(to) {
		if err := c.toChildren.drop(ctx, byID(from), one...); err != nil {
			return err
		}
	}
	return c.add(ctx, to, one)
}

// fields are the _id of a document, and its fields but for those for its parents.
func (c *core) fields(id bson.RawValue, raw bson.Raw) (bson.D, error) {
	elements, err := raw.Elements()
	out := append(make(bson.D, 0, len(elements)+2), bson.E{Key: "_id", Value: id})
	for _, e := range elements {
		if key := e.Key(); key != "_id" && (key != c.up || key == "") {
			out = append(out, bson.E{Key: key, Value: e.Value()})
		}
	}
	return out, err
}

// child is a document as a child of a parent; without an _id it gets one.
func (c *core) child(raw bson.Raw, p bson.RawValue) (id bson.RawValue, doc bson.D, err error) {
	if id = raw.Lookup("_id"); id.Type == 0 {
		made := bson.NewObjectID()
		id = bson.RawValue{Type: bson.TypeObjectID, Value: made[:]}
	}
	if err := value.CheckID(id); err != nil {
		return id, nil, fault.Invalid("id: %w", err)
	}
	doc, err = c.fields(id, raw)
	if c.toParents.array {
		doc = append(doc, bson.E{Key: c.up, Value: bson.A{p}})
	} else if c.up != "" {
		doc = append(doc, bson.E{Key: c.up, Value: p})
	}
	return id, doc, err
}

// insert writes the parent first: that it exists, and is not deleted meanwhile,
// hangs on a write of it.
func (c *core) insert(ctx context.Context, parent, child any) (id bson.RawValue, err error) {
	p, err := c.id(parent)
	if err != nil {
		return id, err
	}
	raw, err := c.codec.Document(child)
	if err != nil {
		return id, err
	}
	id, doc, err := c.child(raw, p)
	if err != nil {
		return id, err
	}
	return id, c.transact(ctx, func(ctx context.Context) error {
		if c.ChildrenField != "" {
			err = c.add(ctx, p, []bson.RawValue{id})
		} else {
			err = missing(p, touch(ctx, c.parents, p), ErrNoParent)
		}
		if err == nil {
			_, err = fault.One(c.children.InsertOne(ctx, doc))
		}
		if err == nil && c.Links != nil {
			err = c.link(ctx, p, []bson.RawValue{id})
		}
		return err
	})
}

// touched is a field that a document has for a moment inside a transaction: a write
// that changes nothing would not conflict with its deletion, or a change of its links.
const touched = "_mongopatterns_touched"

var mark, unmark = expr.Raw(expr.D("$set", expr.D(touched, true))), expr.Raw(expr.D("$unset", expr.D(touched, true)))

func touch(ctx context.Context, coll *mongo.Collection, id bson.RawValue) error {
	filter := byID(id)
	result, err := fault.Many(coll.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(mark),
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(unmark),
	}))
	if err == nil && result.MatchedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return err
}

// delete deletes a document, of which refs are the references to it. Rear are those
// to it in its other role, if it has one.
func (c *core) delete(ctx context.Context, which any, policy DeletePolicy, refs, rear end, absent error) error {
	id, err := c.id(which)
	if err == nil && (policy < Restrict || policy > Cascade || policy == Cascade && (c.self || absent == ErrNoChild)) {
		err = fault.Invalid("policy %d: Restrict, Unlink, or for parents in a collection of their own Cascade", policy)
	}
	if err != nil {
		return err
	}
	return c.transact(ctx, func(ctx context.Context) error {
		doc, err := fault.Single(refs.other.FindOneAndDelete(ctx, byID(id))).Raw()
		if err != nil {
			return missing(id, err, absent)
		}
		own := references(doc, refs.back)
		switch policy {
		case Restrict:
			refused := len(own) > 0
			if !refused && refs.coll != nil {
				refused, err = exists(ctx, refs.coll, refs.to(id))
			}
			if refused {
				err = fault.Of(id, ErrReferenced)
			}
		case Unlink:
			err = refs.drop(ctx, refs.to(id), id)
		case Cascade:
			err = c.cascade(ctx, id, own)
		}
		if err == nil && c.self && !c.undirected {
			err = rear.drop(ctx, rear.to(id), id)
		}
		return err
	})
}

// cascade deletes the children of a deleted parent that no other parent has; own are
// those that it has listed itself.
func (c *core) cascade(ctx context.Context, p bson.RawValue, own []bson.RawValue) error {
	theirs := c.toParents.to(p)
	if c.up != "" { // the children know
		alone := theirs
		if c.OwnerField != "" {
			alone = c.toParents.single(theirs)
		}
		if c.OwnersField != "" {
			alone = bson.D{{Key: "$and", Value: bson.A{theirs, bson.D{{Key: c.up, Value: expr.Op("$size", 1)}}}}}
		}
		if _, err := fault.Many(c.children.DeleteMany(ctx, alone)); err != nil || c.OwnerField != "" {
			return err
		}
		return c.toParents.drop(ctx, theirs, p)
	}
	if c.Links != nil {
		links, err := c.toChildren.of(ctx, p)
		if err == nil {
			err = c.toParents.drop(ctx, theirs, p)
		}
		if err != nil {
			return err
		}
		own = links[value.Key(p)]
	}
	shared, err := c.toChildren.by(ctx, own...)
	own = slices.DeleteFunc(own, func(id bson.RawValue) bool { return shared[value.Key(id)] != nil })
	if err != nil || len(own) == 0 {
		return err
	}
	_, err = fault.Many(c.children.DeleteMany(ctx, in("_id", own)))
	return err
}
