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
// is ErrNotFound.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Set(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: set")
	return a.set(ctx, id, key, value, nil)
}

// SetMany sets several entries in one write; two of the same key and qualifier are
// ErrInvalid. Without any it does nothing.
//
// Cost: as Set.
func (a *Attributes[ID, V]) SetMany(ctx context.Context, id ID, attributes ...Attribute[V]) (err error) {
	defer fault.In(&err, "attribute: set many")
	if len(attributes) == 0 {
		return nil
	}
	return a.setMany(ctx, id, nil, attributes...)
}

// Add adds an entry of this key; if there is one it changes nothing and is
// ErrExists. An Add whose answer got lost, beyond the driver's own retry, finds
// what it has added when it is repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Add(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: add")
	return a.set(ctx, id, key, value, ErrExists)
}

// Change gives the entry of this key another value; without one it is
// ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Change(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: change")
	return a.set(ctx, id, key, value, ErrNoAttribute)
}

// Remove removes the entry of this key; without one it is ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Remove(ctx context.Context, id ID, key Key) (err error) {
	defer fault.In(&err, "attribute: remove")
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return err
	}
	update := mongo.Pipeline{a.c.without(a.c.is(name, qualifier))}
	return a.c.write(ctx, id, update, name, qualifier, ErrNoAttribute)
}

// Elements makes the array of a document to insert.
func (a *Attributes[ID, V]) Elements(attributes ...Attribute[V]) (elements bson.A, err error) {
	defer fault.In(&err, "attribute: elements")
	if err := a.unencodable(attributes); err != nil {
		return nil, err
	}
	return a.elements(attributes)
}

func (a *Attributes[ID, V]) elements(attributes []Attribute[V]) (bson.A, error) {
	out := make(bson.A, len(attributes))
	for i, attribute := range attributes {
		if err := cmp.Or(checkKey(attribute.Key), a.c.checkQualifier(attribute.Qualifier)); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(attributes[:i], func(other Attribute[V]) bool {
			return other.Key == attribute.Key && other.Qualifier == attribute.Qualifier
		}) {
			return nil, fault.Invalid("key %q stands twice", attribute.Key)
		}
		out[i] = a.c.entry(attribute.Key, attribute.Value, attribute.Qualifier)
	}
	return out, nil
}

func (c *core) entry(key, value, qualifier any) bson.D {
	out := expr.D(c.key, key, c.value, value)
	if qualifier != "" {
		out = append(out, expr.Element(c.qualifier, qualifier))
	}
	return out
}

// set sets one entry; refusal is as in write.
func (a *Attributes[ID, V]) set(ctx context.Context, id any, key Key, value V, refusal error) error {
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return err
	}
	return a.setMany(ctx, id, refusal, Attribute[V]{name, value, qualifier})
}

func (a *Attributes[ID, V]) setMany(ctx context.Context, id any, refusal error, attributes ...Attribute[V]) error {
	elements, err := a.elements(attributes)
	if err != nil {
		return err
	}
	update := mongo.Pipeline{set(a.c.array, expr.Reduce(expr.Literal(elements), a.c.x.stored, a.c.x.overwrite))}
	err = a.c.write(ctx, id, update, attributes[0].Key, attributes[0].Qualifier, refusal)
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
		_, err := a.c.coll.UpdateOne(context.Background(), expr.D(a.c.value, attribute.Value), nil)
		if bad := (mongo.MarshalError{}); errors.As(err, &bad) {
			return fmt.Errorf("%w: %w", at(fault.ErrInvalid, attribute.Key, attribute.Qualifier), bad.Err)
		}
	}
	return nil
}

// at names the entry that an error is about.
func at(err error, key, qualifier string) error {
	if qualifier != "" {
		return fmt.Errorf("%w: key %q, qualifier %q", err, key, qualifier)
	}
	return fmt.Errorf("%w: key %q", err, key)
}

// write updates the document of this ID. With the refusal ErrNoAttribute it must have the
// entry, with ErrExists it must not. A document that does not match is read for the
// reason; if that has gone meanwhile, the write is tried again.
func (c *core) write(ctx context.Context, id, update any, key, qualifier string, refusal error) error {
	self, opts := expr.D("_id", equal(id)), options.UpdateOne()
	tests := slices.Clip(c.x.inside)
	if refusal != nil {
		test := expr.Op("$in", expr.Literal(c.identity(key, qualifier)), c.x.identities)
		if refusal == ErrExists {
			test = expr.Op("$not", test)
		}
		tests = append(tests, test)
	}
	filter := self
	if len(tests) > 0 {
		filter = append(filter, expr.Element("$expr", expr.Op("$and", tests...)))
		opts.SetHint(byID)
	}
	for range maxAttempts {
		result, err := fault.One(c.coll.UpdateOne(ctx, filter, update, opts))
		var server mongo.ServerError
		switch {
		case errors.As(err, &server) && slices.ContainsFunc(server.ErrorCodes(), noArray):
			return of(id, c.notArray())
		case err != nil:
			return twoArrays(err)
		case result.MatchedCount > 0:
			return nil
		}
		found, err := read[bson.RawValue](ctx, c, c.primary, self, c.values(key, qualifier))
		if err != nil {
			return ofDocument(id, err)
		}
		if refusal != nil && (len(found) > 0) == (refusal == ErrExists) {
			return of(id, at(refusal, key, qualifier))
		}
	}
	return of(id, fault.ErrConflict)
}

func (c *core) notArray() error { return fmt.Errorf("%w: %q", ErrNotArray, c.array) }

// of names the document that an error is about.
func of(id any, err error) error { return fmt.Errorf("%w: _id %s", err, text(id)) }

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
