package relation

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// core works on BSON. A link is kept in one end, or in two that are equal; Links are
// both ends in one document.
type core struct {
	Options
	parents, children     *mongo.Collection
	codec                 codec.Codec
	up                    string // the child's field with its parent or parents, "" for none
	toChildren, toParents end
	self                  bool // parents and children are one collection
	undirected            bool // and their arrays one field
}

// end is where references to documents of other are: in field of the documents of
// coll, nil for nowhere. Those documents name them back in field back, "" for none.
type end struct {
	coll, other *mongo.Collection
	field, back string
	array, link bool // in an array; in a document of Links
}

// to selects the documents with a reference.
func (e end) to(id bson.RawValue) bson.D { return bson.D{{Key: e.field, Value: value.Equal(id)}} }

// drop takes a reference out of the documents that a filter selects.
func (e end) drop(ctx context.Context, filter bson.D, id bson.RawValue) (err error) {
	switch {
	case e.coll == nil:
	case e.link:
		_, err = e.coll.DeleteMany(ctx, filter)
	case e.array:
		_, err = e.coll.UpdateMany(ctx, filter, expr.Op("$pull", e.to(id)))
	default:
		_, err = e.coll.UpdateMany(ctx, filter, expr.Op("$unset", bson.D{{Key: e.field, Value: ""}}))
	}
	return err
}

func (c *core) indexes() map[string][]mongo.IndexModel {
	out := map[string][]mongo.IndexModel{}
	if c.Links != nil {
		pair := bson.D{{Key: c.Parent, Value: 1}, {Key: c.Child, Value: 1}}
		out[c.Links.Name()] = []mongo.IndexModel{{Keys: pair, Options: options.Index().SetUnique(true)}, {Keys: bson.D{pair[1], pair[0]}}}
	}
	if c.Children != "" && !c.undirected {
		out[c.parents.Name()] = []mongo.IndexModel{{Keys: bson.D{{Key: c.Children, Value: 1}}}}
	}
	if c.up != "" {
		out[c.children.Name()] = append(out[c.children.Name()], mongo.IndexModel{Keys: append(bson.D{{Key: c.up, Value: 1}}, c.Sort...)})
	}
	return out
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }

func encoded[V any](c *core, all []V) (out []bson.RawValue, err error) {
	out = make([]bson.RawValue, len(all))
	for i, id := range all {
		if out[i], err = c.id(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decoded[V any](c *core, all []bson.RawValue) (out []V, err error) {
	out = make([]V, len(all))
	for i, v := range all {
		if out[i], err = codec.DecodeValue[V](c.codec, v); err != nil {
			return nil, fmt.Errorf("reference %s: %w", value.Text(v), err)
		}
	}
	return out, nil
}

// distinct are IDs in their order without repetitions.
func distinct(ids []bson.RawValue) []bson.RawValue {
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

func in(field string, ids []bson.RawValue) bson.D {
	return bson.D{{Key: field, Value: expr.Op("$in", append([]bson.RawValue{}, ids...))}} // an array also for none
}

func exists(ctx context.Context, coll *mongo.Collection, filter bson.D) (bool, error) {
	err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if isAbsent(err) {
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
			models = append(models, mongo.NewUpdateOneModel().SetFilter(append(c.toParents.to(p), c.toChildren.to(id)...)).
				SetUpdate(expr.Op("$setOnInsert", bson.D{})).SetUpsert(true))
		}
		_, err := c.Links.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		return err
	}
	if c.Children != "" {
		if err := c.add(ctx, p, children); err != nil {
			return err
		}
	}
	if c.up == "" {
		return nil
	}
	return c.name(ctx, p, children)
}

// name writes a parent into children that have no other Owner, or room among Owners.
func (c *core) name(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	filter, set := in("_id", children), expr.Op("$set", bson.D{{Key: c.up, Value: p}})
	if c.Owner != "" {
		filter = append(filter, bson.E{Key: c.up, Value: expr.Op("$in", bson.A{nil, p})})
	} else {
		last := c.up + "." + strconv.Itoa(c.Max-1)
		filter = append(filter, bson.E{Key: "$or", Value: bson.A{c.toParents.to(p), bson.D{{Key: last, Value: expr.Op("$exists", false)}}}})
		set = expr.Op("$addToSet", bson.D{{Key: c.up, Value: p}})
	}
	result, err := c.children.UpdateMany(ctx, filter, set)
	if err != nil || result.MatchedCount == int64(len(children)) {
		return err
	}
	if err := c.refusal(ctx, p, children); err != nil {
		return err
	}
	// What was in the way is gone: once more.
	if !txn.Running(ctx) {
		return c.name(ctx, p, children)
	}
	return txn.Conflict("link")
}

// refusal says why children cannot name a parent, nil if they can.
func (c *core) refusal(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	found := map[string][]bson.RawValue{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.children.Find(ctx, in("_id", children), options.Find().SetProjection(bson.D{{Key: c.up, Value: 1}}))
	}) {
		if err != nil {
			return err
		}
		found[value.Key(doc.Lookup("_id"))] = references(doc, c.up)
	}
	same := func(id bson.RawValue) bool { return value.Key(id) == value.Key(p) }
	for _, id := range children {
		owners, ok := found[value.Key(id)]
		switch {
		case !ok:
			return fault.Of(id, ErrNoChild)
		case slices.ContainsFunc(owners, same):
		case c.Owner != "" && len(owners) > 0:
			return fault.Of(id, ErrOwned)
		case len(owners) >= c.Max:
			return fault.Of(id, ErrFull)
		}
	}
	return nil
}

// add puts references behind those of a parent, if they are not there and there is
// room. What holds something else than an array is not overwritten.
func (c *core) add(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	field := expr.Array(expr.Field(c.Children))
	all := expr.Op("$concatArrays", field, expr.Filter(expr.Literal(children), "c", expr.Op("$not", expr.Op("$in", "$$c", field))))
	// A list that is longer already refuses only what is new.
	room := expr.Op("$max", c.Max, expr.Op("$size", field))
	filter := append(byID(p), bson.E{Key: "$expr", Value: expr.Op("$lte", expr.Op("$size", all), room)},
		bson.E{Key: "$or", Value: bson.A{bson.D{{Key: c.Children, Value: nil}}, bson.D{{Key: c.Children, Value: expr.Op("$type", "array")}}}})
	result, err := c.parents.UpdateOne(ctx, filter, mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.Children, Value: all}})})
	if err != nil || result.MatchedCount == 1 {
		return err
	}
	doc, err := c.parents.FindOne(ctx, byID(p), options.FindOne().SetProjection(bson.D{{Key: c.Children, Value: 1}})).Raw()
	switch v := doc.Lookup(c.Children); {
	case isAbsent(err):
		err = ErrNoParent
	case err != nil:
		return err
	case v.Type != 0 && v.Type != bson.TypeNull && v.Type != bson.TypeArray:
		err = fault.Invalid("%s is %s, no array", c.Children, value.Text(v))
	default:
		err = ErrFull
	}
	return fault.Of(p, err)
}

func (c *core) unlink(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	switch {
	case c.Links != nil:
		return c.toParents.drop(ctx, append(in(c.Child, children), c.toParents.to(p)...), p)
	case c.Children != "":
		result, err := c.parents.UpdateOne(ctx, byID(p), expr.Op("$pull", in(c.Children, children)))
		if err != nil {
			return err
		}
		if result.MatchedCount == 0 {
			return fault.Of(p, ErrNoParent)
		}
	}
	return c.toParents.drop(ctx, append(in("_id", children), c.toParents.to(p)...), p)
}

func (c *core) transfer(ctx context.Context, to bson.RawValue, one []bson.RawValue) error {
	child, set := one[0], expr.Op("$set", bson.D{{Key: c.Owner, Value: to}})
	if c.Children == "" {
		result, err := c.children.UpdateOne(ctx, byID(child), set)
		if err == nil && result.MatchedCount == 0 {
			err = fault.Of(child, ErrNoChild)
		}
		return err
	}
	before, err := c.children.FindOneAndUpdate(ctx, byID(child), set, options.FindOneAndUpdate().SetProjection(bson.D{{Key: c.Owner, Value: 1}})).Raw()
	if isAbsent(err) {
		err = fault.Of(child, ErrNoChild)
	}
	if err != nil {
		return err
	}
	if from := before.Lookup(c.Owner); from.Type != 0 && value.Key(from) != value.Key(to) {
		if err := c.toChildren.drop(ctx, byID(from), child); err != nil {
			return err
		}
	}
	return c.add(ctx, to, one)
}

// fields are those of a document but for its _id and those for its parents.
func (c *core) fields(raw bson.Raw) (out bson.D, err error) {
	elements, err := raw.Elements()
	if err != nil {
		return nil, fault.Invalid("a damaged child: %w", err)
	}
	for _, e := range elements {
		if key := e.Key(); key != "_id" && (key != c.up || key == "") {
			out = append(out, bson.E{Key: key, Value: e.Value()})
		}
	}
	return out, nil
}

// child is a document as a child of a parent; without an _id it gets one.
func (c *core) child(raw bson.Raw, p bson.RawValue) (id bson.RawValue, doc bson.D, err error) {
	if id = raw.Lookup("_id"); id.Type == 0 {
		made := bson.NewObjectID()
		id = bson.RawValue{Type: bson.TypeObjectID, Value: made[:]}
	}
	if id, err = c.id(id); err != nil {
		return id, nil, err
	}
	rest, err := c.fields(raw)
	doc = append(bson.D{{Key: "_id", Value: id}}, rest...)
	switch {
	case c.Owner != "":
		doc = append(doc, bson.E{Key: c.Owner, Value: p})
	case c.Owners != "":
		doc = append(doc, bson.E{Key: c.Owners, Value: bson.A{p}})
	}
	return id, doc, err
}

// insert writes the parent first: that it exists, and is not deleted meanwhile,
// hangs on a write of it.
func (c *core) insert(ctx context.Context, p bson.RawValue, child any) (id bson.RawValue, err error) {
	raw, err := c.codec.Document(child)
	if err != nil {
		return id, err
	}
	id, doc, err := c.child(raw, p)
	if err != nil {
		return id, err
	}
	return id, c.transact(ctx, func(ctx context.Context) error {
		if c.Children != "" {
			err = c.add(ctx, p, []bson.RawValue{id})
		} else if found, e := touch(ctx, c.parents, p); e != nil || !found {
			if err = e; e == nil {
				err = fault.Of(p, ErrNoParent)
			}
		}
		if err == nil {
			_, err = c.children.InsertOne(ctx, doc)
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

func touch(ctx context.Context, coll *mongo.Collection, id bson.RawValue) (found bool, err error) {
	mark := bson.D{{Key: touched, Value: true}}
	result, err := coll.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(expr.Op("$set", mark)),
		mongo.NewUpdateOneModel().SetFilter(byID(id)).SetUpdate(expr.Op("$unset", mark)),
	})
	return err == nil && result.MatchedCount > 0, err
}

func (c *core) has(ctx context.Context, p, child bson.RawValue) (bool, error) {
	switch {
	case c.Links != nil:
		return exists(ctx, c.Links, append(c.toParents.to(p), c.toChildren.to(child)...))
	case c.up != "":
		return exists(ctx, c.children, append(byID(child), c.toParents.to(p)...))
	}
	return exists(ctx, c.parents, append(byID(p), c.toChildren.to(child)...))
}

// references are the IDs in a field: of an array its elements, else the value; null
// is none.
func references(doc bson.Raw, field string) []bson.RawValue {
	v := doc.Lookup(field)
	if array, ok := v.ArrayOK(); ok {
		all, _ := array.Values()
		return all
	}
	if field == "" || v.Type == 0 || v.Type == bson.TypeNull {
		return nil
	}
	return []bson.RawValue{v}
}

// delete deletes a document, of which refs are the references to it. Rear are those
// to it in its other role, if it has one.
func (c *core) delete(ctx context.Context, id bson.RawValue, policy Policy, refs, rear end, absent error) error {
	doc, err := refs.other.FindOneAndDelete(ctx, byID(id)).Raw()
	if isAbsent(err) {
		return fault.Of(id, absent)
	}
	if err != nil {
		return err
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
}

// cascade deletes the children of a deleted parent that no other parent has; own are
// those that it has listed itself.
func (c *core) cascade(ctx context.Context, p bson.RawValue, own []bson.RawValue) (err error) {
	switch {
	case c.Owner != "":
		_, err = c.children.DeleteMany(ctx, c.toParents.to(p))
		return err
	case c.Owners != "":
		alone := expr.Op("$and", bson.A{c.toParents.to(p), bson.D{{Key: c.up, Value: expr.Op("$size", 1)}}})
		if _, err = c.children.DeleteMany(ctx, alone); err != nil {
			return err
		}
		return c.toParents.drop(ctx, c.toParents.to(p), p)
	case c.Links != nil:
		if own, err = values(ctx, c.Links, c.toParents.to(p), c.Child); err != nil {
			return err
		}
		if err := c.toParents.drop(ctx, c.toParents.to(p), p); err != nil {
			return err
		}
	}
	shared := map[string]bool{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.toChildren.coll.Find(ctx, in(c.toChildren.field, own), options.Find().SetProjection(bson.D{{Key: c.toChildren.field, Value: 1}}))
	}) {
		if err != nil {
			return err
		}
		for _, id := range references(doc, c.toChildren.field) {
			shared[value.Key(id)] = true
		}
	}
	own = slices.DeleteFunc(own, func(id bson.RawValue) bool { return shared[value.Key(id)] })
	if len(own) > 0 {
		_, err = c.children.DeleteMany(ctx, in("_id", own))
	}
	return err
}
