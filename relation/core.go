package relation

import (
	"context"
	"slices"

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

// core works on BSON.
type core struct {
	Options
	parents, children *mongo.Collection
	codec             codec.Codec
}

// up is the child's field with its parent or parents, "" if it has none.
func (c *core) up() string { return c.Owner + c.Owners }

func (c *core) both() bool { return c.Children != "" && c.up() != "" }

func (c *core) indexes() map[string][]mongo.IndexModel {
	out := map[string][]mongo.IndexModel{}
	if c.Children != "" {
		out[c.parents.Name()] = []mongo.IndexModel{{Keys: bson.D{{Key: c.Children, Value: 1}}}}
	}
	if up := c.up(); up != "" {
		out[c.children.Name()] = []mongo.IndexModel{{Keys: append(bson.D{{Key: up, Value: 1}}, c.Sort...)}}
	}
	return out
}

func (c *core) id(id any) (bson.RawValue, error) { return c.codec.ID("id", id) }

// ids are a parent and children without repetitions.
func (c *core) ids(parent any, children []any) (p bson.RawValue, all []bson.RawValue, err error) {
	if p, err = c.id(parent); err != nil {
		return p, nil, err
	}
	seen := map[string]bool{}
	for _, child := range children {
		id, err := c.id(child)
		if err != nil {
			return p, nil, err
		}
		if key := value.Key(id); !seen[key] {
			seen[key] = true
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		return p, nil, fault.Invalid("no children")
	}
	return p, all, nil
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

// change runs a write of so many children: in a transaction where it is of more than
// one document.
func (c *core) change(ctx context.Context, children int, write func(ctx context.Context) error) error {
	if !c.both() && (c.Children != "" || children == 1) {
		return write(ctx)
	}
	return c.transact(ctx, write)
}

func (c *core) transact(ctx context.Context, write func(ctx context.Context) error) error {
	return txn.Run(ctx, c.parents.Database().Client(), write)
}

func byID(id bson.RawValue) bson.D { return bson.D{{Key: "_id", Value: value.Equal(id)}} }

func in(field string, ids []bson.RawValue) bson.D {
	return bson.D{{Key: field, Value: expr.Op("$in", ids)}}
}

// link writes the parent first, on which all links of it conflict.
func (c *core) link(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.Children != "" {
		if err := c.add(ctx, p, children); err != nil {
			return err
		}
	}
	if c.up() == "" {
		return nil
	}
	filter := in("_id", children)
	set := expr.Op("$addToSet", bson.D{{Key: c.Owners, Value: p}})
	if c.Owner != "" {
		set = expr.Op("$set", bson.D{{Key: c.Owner, Value: p}})
		filter = append(filter, bson.E{Key: c.Owner, Value: expr.Op("$in", bson.A{nil, p})})
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
		return c.link(ctx, p, children)
	}
	return txn.Conflict("link")
}

// refusal says why children could not be linked, nil if they can.
func (c *core) refusal(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	found := map[string]bson.RawValue{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.children.Find(ctx, in("_id", children), options.Find().SetProjection(bson.D{{Key: c.up(), Value: 1}}))
	}) {
		if err != nil {
			return err
		}
		found[value.Key(doc.Lookup("_id"))] = doc.Lookup(c.up())
	}
	for _, id := range children {
		owner, ok := found[value.Key(id)]
		if !ok {
			return fault.Of(id, ErrNoChild)
		}
		if c.Owner != "" && owner.Type != 0 && owner.Type != bson.TypeNull && value.Key(owner) != value.Key(p) {
			return fault.Of(id, ErrOwned)
		}
	}
	return nil
}

// add puts references behind those of a parent, if they are not there and there is
// room.
func (c *core) add(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	field := expr.Array(expr.Field(c.Children))
	all := expr.Op("$concatArrays", field, expr.Filter(expr.Literal(children), "c", expr.Op("$not", expr.Op("$in", "$$c", field))))
	// A list that is longer already refuses only what is new.
	room := expr.Op("$max", c.Max, expr.Op("$size", field))
	filter := append(byID(p), bson.E{Key: "$expr", Value: expr.Op("$lte", expr.Op("$size", all), room)})
	// What holds something else than an array is not overwritten.
	filter = append(filter, bson.E{Key: "$or", Value: bson.A{bson.D{{Key: c.Children, Value: nil}}, bson.D{{Key: c.Children, Value: expr.Op("$type", "array")}}}})
	result, err := c.parents.UpdateOne(ctx, filter, mongo.Pipeline{expr.Op("$set", bson.D{{Key: c.Children, Value: all}})})
	if err != nil || result.MatchedCount == 1 {
		return err
	}
	doc, err := c.parents.FindOne(ctx, byID(p), options.FindOne().SetProjection(bson.D{{Key: c.Children, Value: 1}})).Raw()
	if isAbsent(err) {
		return fault.Of(p, ErrNoParent)
	}
	if err != nil {
		return err
	}
	if v := doc.Lookup(c.Children); v.Type != 0 && v.Type != bson.TypeNull && v.Type != bson.TypeArray {
		return fault.Of(p, fault.Invalid("%s is %s, no array", c.Children, value.Text(v)))
	}
	return fault.Of(p, ErrFull)
}

func (c *core) unlink(ctx context.Context, p bson.RawValue, children []bson.RawValue) error {
	if c.Children != "" {
		result, err := c.parents.UpdateOne(ctx, byID(p), expr.Op("$pull", in(c.Children, children)))
		if err != nil {
			return err
		}
		if result.MatchedCount == 0 {
			return fault.Of(p, ErrNoParent)
		}
	}
	if c.up() == "" {
		return nil
	}
	_, err := c.children.UpdateMany(ctx, append(in("_id", children), bson.E{Key: c.up(), Value: value.Equal(p)}), c.drop(p))
	return err
}

// drop takes a parent out of a child.
func (c *core) drop(p bson.RawValue) bson.D {
	if c.Owner != "" {
		return expr.Op("$unset", bson.D{{Key: c.Owner, Value: ""}})
	}
	return expr.Op("$pull", bson.D{{Key: c.Owners, Value: value.Equal(p)}})
}

func (c *core) transfer(ctx context.Context, child, to bson.RawValue) error {
	set := expr.Op("$set", bson.D{{Key: c.Owner, Value: to}})
	if !c.both() {
		result, err := c.children.UpdateOne(ctx, byID(child), set)
		if err == nil && result.MatchedCount == 0 {
			err = fault.Of(child, ErrNoChild)
		}
		return err
	}
	before, err := c.children.FindOneAndUpdate(ctx, byID(child), set, options.FindOneAndUpdate().SetProjection(bson.D{{Key: c.Owner, Value: 1}})).Raw()
	if isAbsent(err) {
		return fault.Of(child, ErrNoChild)
	}
	if err != nil {
		return err
	}
	if from := before.Lookup(c.Owner); from.Type != 0 && value.Key(from) != value.Key(to) {
		if _, err := c.parents.UpdateOne(ctx, byID(from), expr.Op("$pull", bson.D{{Key: c.Children, Value: value.Equal(child)}})); err != nil {
			return err
		}
	}
	return c.add(ctx, to, []bson.RawValue{child})
}

// insert writes the parent first: that it exists, and is not deleted meanwhile,
// hangs on a write of it.
func (c *core) insert(ctx context.Context, p bson.RawValue, child any) (id bson.RawValue, err error) {
	raw, err := c.codec.Document(child)
	if err != nil {
		return id, err
	}
	elements, err := raw.Elements()
	if err != nil {
		return id, fault.Invalid("child: %w", err)
	}
	var doc bson.D
	for _, e := range elements {
		if e.Key() != c.up() || c.up() == "" {
			doc = append(doc, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	if id = raw.Lookup("_id"); id.Type == 0 {
		made := bson.NewObjectID()
		id = bson.RawValue{Type: bson.TypeObjectID, Value: made[:]}
		doc = append(bson.D{{Key: "_id", Value: id}}, doc...)
	} else if bad := value.CheckID(id); bad != nil {
		return id, fault.Invalid("child: %w", bad)
	}
	switch {
	case c.Owner != "":
		doc = append(doc, bson.E{Key: c.Owner, Value: p})
	case c.Owners != "":
		doc = append(doc, bson.E{Key: c.Owners, Value: bson.A{p}})
	}
	return id, c.transact(ctx, func(ctx context.Context) error {
		if c.Children != "" {
			err = c.add(ctx, p, []bson.RawValue{id})
		} else {
			err = c.touch(ctx, p)
		}
		if err == nil {
			_, err = c.children.InsertOne(ctx, doc)
		}
		return err
	})
}

// touched is a field that a parent has for a moment inside a transaction: a write
// that changes nothing would not conflict with the parent's deletion.
const touched = "_mongopatterns_touched"

func (c *core) touch(ctx context.Context, p bson.RawValue) error {
	mark := bson.D{{Key: touched, Value: true}}
	result, err := c.parents.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(byID(p)).SetUpdate(expr.Op("$set", mark)),
		mongo.NewUpdateOneModel().SetFilter(byID(p)).SetUpdate(expr.Op("$unset", mark)),
	})
	if err == nil && result.MatchedCount == 0 {
		err = fault.Of(p, ErrNoParent)
	}
	return err
}

func (c *core) has(ctx context.Context, p, child bson.RawValue) (bool, error) {
	coll, filter := c.parents, append(byID(p), bson.E{Key: c.Children, Value: value.Equal(child)})
	if c.up() != "" {
		coll, filter = c.children, append(byID(child), bson.E{Key: c.up(), Value: value.Equal(p)})
	}
	err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if isAbsent(err) {
		return false, nil
	}
	return err == nil, err
}

// references are the IDs in a field: of an array its elements, else the value; null
// is none.
func references(v bson.RawValue) []bson.RawValue {
	if array, ok := v.ArrayOK(); ok {
		all, _ := array.Values()
		return all
	}
	if v.Type == 0 || v.Type == bson.TypeNull {
		return nil
	}
	return []bson.RawValue{v}
}

func (c *core) parentsOf(ctx context.Context, child bson.RawValue) ([]bson.RawValue, error) {
	if c.up() != "" {
		doc, err := c.children.FindOne(ctx, byID(child), options.FindOne().SetProjection(bson.D{{Key: c.up(), Value: 1}})).Raw()
		if isAbsent(err) {
			err = fault.Of(child, ErrNoChild)
		}
		if err != nil {
			return nil, err
		}
		return references(doc.Lookup(c.up())), nil
	}
	var out []bson.RawValue
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.parents.Find(ctx, bson.D{{Key: c.Children, Value: value.Equal(child)}}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	}) {
		if err != nil {
			return nil, err
		}
		out = append(out, doc.Lookup("_id"))
	}
	return out, nil
}

func (c *core) deleteParent(ctx context.Context, p bson.RawValue, policy Policy) error {
	doc, err := c.parents.FindOneAndDelete(ctx, byID(p)).Raw()
	if isAbsent(err) {
		return fault.Of(p, ErrNoParent)
	}
	if err != nil {
		return err
	}
	children := []bson.RawValue(nil)
	if c.Children != "" {
		children = references(doc.Lookup(c.Children))
	}
	refused := len(children) > 0
	up := c.up()
	if up != "" && policy == Restrict && !refused {
		err := c.children.FindOne(ctx, bson.D{{Key: up, Value: value.Equal(p)}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
		if err != nil && !isAbsent(err) {
			return err
		}
		refused = err == nil
	}
	switch {
	case policy == Restrict && refused:
		return fault.Of(p, ErrReferenced)
	case policy == Cascade && up == "":
		return c.deleteUnshared(ctx, children)
	case policy == Cascade && c.Owner != "":
		_, err = c.children.DeleteMany(ctx, bson.D{{Key: up, Value: value.Equal(p)}})
	case policy == Cascade:
		alone := bson.D{{Key: up, Value: value.Equal(p)}, {Key: up, Value: expr.Op("$size", 1)}}
		if _, err = c.children.DeleteMany(ctx, expr.Op("$and", bson.A{alone[:1], alone[1:]})); err == nil {
			_, err = c.children.UpdateMany(ctx, bson.D{{Key: up, Value: value.Equal(p)}}, c.drop(p))
		}
	case policy == Unlink && up != "":
		_, err = c.children.UpdateMany(ctx, bson.D{{Key: up, Value: value.Equal(p)}}, c.drop(p))
	}
	return err
}

// deleteUnshared deletes children that no other parent has.
func (c *core) deleteUnshared(ctx context.Context, children []bson.RawValue) error {
	shared := map[string]bool{}
	for doc, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return c.parents.Find(ctx, in(c.Children, children), options.Find().SetProjection(bson.D{{Key: c.Children, Value: 1}}))
	}) {
		if err != nil {
			return err
		}
		for _, id := range references(doc.Lookup(c.Children)) {
			shared[value.Key(id)] = true
		}
	}
	children = slices.DeleteFunc(slices.Clone(children), func(id bson.RawValue) bool { return shared[value.Key(id)] })
	if len(children) == 0 {
		return nil
	}
	_, err := c.children.DeleteMany(ctx, in("_id", children))
	return err
}

func (c *core) deleteChild(ctx context.Context, child bson.RawValue, policy Policy) error {
	doc, err := c.children.FindOneAndDelete(ctx, byID(child)).Raw()
	if isAbsent(err) {
		return fault.Of(child, ErrNoChild)
	}
	if err != nil {
		return err
	}
	if policy == Restrict && c.up() != "" && len(references(doc.Lookup(c.up()))) > 0 {
		return fault.Of(child, ErrReferenced)
	}
	if c.Children == "" {
		return nil
	}
	referring := bson.D{{Key: c.Children, Value: value.Equal(child)}}
	if policy == Unlink {
		_, err := c.parents.UpdateMany(ctx, referring, expr.Op("$pull", referring))
		return err
	}
	err = c.parents.FindOne(ctx, referring, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if err == nil {
		return fault.Of(child, ErrReferenced)
	}
	if isAbsent(err) {
		return nil
	}
	return err
}
