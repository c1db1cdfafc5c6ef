package attribute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// maxAttempts bounds how often a write is sent again because what refused it
// was gone when the reason was asked for.
const maxAttempts = 16

// byID is the index that writes use which ask for more than an _id: the server might
// choose the one on the keys, and read all documents that have one.
var byID = bson.D{{Key: "_id", Value: 1}}

// Set gives the entry of this key the value, and adds the entry at the end if
// there is none. Further fields of the entry stay. Without such a document it
// is fault.ErrNotFound.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Set(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: set")
	name, q, err := a.c.one(key)
	if err == nil {
		err = a.set(ctx, id, []Attribute[V]{{name, value, q}}, bson.D{}, nil)
	}
	return err
}

// SetMany sets several entries in one write, one after the other; two of the
// same key and qualifier are fault.ErrInvalid. (Of two that only the collection's
// collation holds for the same, the later one counts.) Without any it does
// nothing.
//
// Cost: as Set.
func (a *Attributes[ID, V]) SetMany(ctx context.Context, id ID, attributes ...Attribute[V]) (err error) {
	defer fault.In(&err, "attribute: set many")
	if len(attributes) == 0 {
		return nil
	}
	return a.set(ctx, id, attributes, bson.D{}, nil)
}

// Add adds an entry of this key; if there is one it changes nothing and is
// ErrExists. An Add whose answer got lost, beyond the driver's own retry, finds
// what it has added when it is repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Add(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: add")
	name, q, err := a.c.one(key)
	if err == nil {
		absent := bson.D{{Key: a.c.array, Value: expr.Op("$not", expr.Op("$elemMatch", a.c.exact(name, a.c.identity(q))))}}
		err = a.set(ctx, id, []Attribute[V]{{name, value, q}}, absent, func(s state) error {
			if s.Has {
				return at(ErrExists, name, q)
			}
			return nil
		})
	}
	return err
}

// Change gives the entry of this key another value; without one it is
// ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Change(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: change")
	name, q, err := a.c.one(key)
	if err == nil {
		err = a.set(ctx, id, []Attribute[V]{{name, value, q}}, a.c.present(name, a.c.identity(q)), mustHave(name, q))
	}
	return err
}

// Remove removes the entry of this key; without one it is ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Remove(ctx context.Context, id ID, key Key) (err error) {
	defer fault.In(&err, "attribute: remove")
	name, q, err := a.c.one(key)
	if err == nil {
		update := expr.Op("$pull", bson.D{{Key: a.c.array, Value: a.c.exact(name, a.c.identity(q))}})
		err = a.c.write(ctx, id, a.c.present(name, a.c.identity(q)), update, func() bson.D { return a.c.question(name, q) }, mustHave(name, q))
	}
	return err
}

// Rename gives the entries of key from, of any qualifier, the key to. Without
// one it is ErrNoAttribute; if the document has an entry of to with a qualifier
// of theirs, it is ErrExists.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Rename(ctx context.Context, id ID, from, to string) (err error) {
	defer fault.In(&err, "attribute: rename")
	err = checkRename(from, to)
	if err == nil {
		question := func() bson.D {
			return bson.D{{Key: "has", Value: a.c.any(a.c.keyed("$$o", from, nil))}, {Key: "collides", Value: a.c.collides(from, to)}}
		}
		err = a.c.write(ctx, id, and(a.c.present(from, nil), a.c.separate(from, to)), a.c.rename(from, to, Skip), question, func(s state) error {
			switch {
			case !s.Has:
				return at(ErrNoAttribute, from, "")
			case s.Collides:
				return at(ErrExists, to, "")
			}
			return nil
		})
	}
	return err
}

// Elements makes the array of a document to insert.
func (a *Attributes[ID, V]) Elements(attributes ...Attribute[V]) (elements bson.A, err error) {
	defer fault.In(&err, "attribute: elements")
	if elements, err = a.elements(attributes); err != nil {
		return nil, err
	}
	if err := a.unencodable(attributes); err != nil {
		return nil, err
	}
	return elements, nil
}

func (a *Attributes[ID, V]) elements(attributes []Attribute[V]) (bson.A, error) {
	out := make(bson.A, 0, len(attributes))
	for i, attribute := range attributes {
		if err := checkKey(attribute.Key); err != nil {
			return nil, err
		}
		if err := a.c.checkQualifier(attribute.Qualifier); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(attributes[:i], func(other Attribute[V]) bool {
			return other.Key == attribute.Key && other.Qualifier == attribute.Qualifier
		}) {
			return nil, fault.Invalid("key %q stands twice", attribute.Key)
		}
		out = append(out, a.c.entry(attribute.Key, attribute.Value, attribute.Qualifier))
	}
	return out, nil
}

func (c *core) entry(key, value any, qualifier string) bson.D {
	out := bson.D{{Key: c.key, Value: key}, {Key: c.value, Value: value}}
	if qualifier != "" {
		out = append(out, bson.E{Key: c.qualifier, Value: qualifier})
	}
	return out
}

// set writes attributes into the document if it also matches guard.
func (a *Attributes[ID, V]) set(ctx context.Context, id any, attributes []Attribute[V], guard bson.D, refused func(state) error) error {
	elements, err := a.elements(attributes)
	if err != nil {
		return err
	}
	update := mongo.Pipeline{set(a.c.array, a.c.upsert(expr.Literal(elements), true))}
	first := attributes[0]
	err = a.c.write(ctx, id, guard, update, func() bson.D { return a.c.question(first.Key, first.Qualifier) }, refused)
	if bad := (mongo.MarshalError{}); errors.As(err, &bad) {
		return cmp.Or(a.unencodable(attributes), err)
	}
	return err
}

// unencodable names the first attribute whose value the client's registry, which
// nobody else sees, cannot encode: a filter is encoded first, and the missing
// update refused before anything is sent.
func (a *Attributes[ID, V]) unencodable(attributes []Attribute[V]) error {
	for _, attribute := range attributes {
		_, err := a.c.coll.UpdateOne(context.Background(), bson.D{{Key: a.c.value, Value: attribute.Value}}, nil)
		if bad := (mongo.MarshalError{}); errors.As(err, &bad) {
			return fmt.Errorf("%w: %w", at(fault.ErrInvalid, attribute.Key, attribute.Qualifier), bad.Err)
		}
	}
	return nil
}

// state is what a refused write finds.
type state struct {
	Writable bool `bson:"writable"`
	Has      bool `bson:"has"`
	Collides bool `bson:"collides"`
}

// question projects a state.
func (c *core) question(key, qualifier string) bson.D {
	return bson.D{{Key: "has", Value: c.any(c.keyed("$$o", key, c.identity(qualifier)))}}
}

func (c *core) any(match bson.D) bson.D {
	return expr.Op("$gt", expr.Op("$size", expr.Filter(c.x.entries, "o", match)), 0)
}

// mustHave refuses a document without the entry.
func mustHave(key, qualifier string) func(state) error {
	return func(s state) error {
		if s.Has {
			return nil
		}
		return at(ErrNoAttribute, key, qualifier)
	}
}

// at names the entry that an error is about.
func at(err error, key, qualifier string) error {
	if qualifier == "" {
		return fmt.Errorf("%w: key %q", err, key)
	}
	return fmt.Errorf("%w: key %q, qualifier %q", err, key, qualifier)
}

// write updates the document of this ID. If it matches no guard the question is
// asked and refused says why; if it does not know, as the reason has gone, the
// write is tried again.
func (c *core) write(ctx context.Context, id any, guard bson.D, update any, question func() bson.D, refused func(state) error) error {
	filter, opts := and(expr.D("_id", equal(id)), c.x.inside, guard), options.UpdateOne()
	if len(filter) > 1 {
		opts.SetHint(byID)
	}
	for range maxAttempts {
		result, err := c.coll.UpdateOne(ctx, filter, update, opts)
		var server mongo.ServerError
		switch {
		case errors.As(err, &server) && slices.ContainsFunc(server.ErrorCodes(), noArray):
			return fmt.Errorf("%w: %q: _id %s", ErrNotArray, c.array, text(id))
		case err != nil:
			return twoArrays(err)
		case result.MatchedCount > 0:
			return nil
		}
		var s state
		err = c.primary.FindOne(ctx, bson.D{{Key: "_id", Value: equal(id)}}, options.FindOne().
			SetProjection(append(bson.D{{Key: "writable", Value: c.x.isWritable}}, question()...))).Decode(&s)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			return fmt.Errorf("%w: _id %s", fault.ErrNotFound, text(id))
		case err != nil:
			return err
		case !s.Writable:
			return fmt.Errorf("%w: %q: _id %s", ErrNotArray, c.array, text(id))
		}
		if refused != nil {
			if err := refused(s); err != nil {
				return fmt.Errorf("%w: _id %s", err, text(id))
			}
		}
	}
	return fmt.Errorf("%w: _id %s", fault.ErrConflict, text(id))
}

// noArray reports the server's refusal to take something for an array, in $in, $filter, $map
// or $concatArrays.
func noArray(code int) bool { return code == 40081 || code == 28651 || code == 16883 || code == 28664 }

// text is an ID as messages show it.
func text(id any) string {
	v, err := codec.Codec{}.Value(id)
	if err != nil || v.Type == bson.TypeEmbeddedDocument {
		return fmt.Sprint(id) // the client's registry may make something else of it
	}
	return value.Text(v)
}
