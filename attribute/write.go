package attribute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	name, q, err := a.c.one(key)
	if err != nil {
		return err
	}
	return a.set(ctx, id, nil, nil, Attribute[V]{name, value, strings.Join(q, "")})
}

// SetMany sets several entries in one write; two of the same key and qualifier are
// ErrInvalid. (Of two that only the collection's collation holds for the same, the later
// one counts.) Without any it does nothing.
//
// Cost: as Set.
func (a *Attributes[ID, V]) SetMany(ctx context.Context, id ID, attributes ...Attribute[V]) (err error) {
	defer fault.In(&err, "attribute: set many")
	if len(attributes) == 0 {
		return nil
	}
	return a.set(ctx, id, nil, nil, attributes...)
}

// Add adds an entry of this key; if there is one it changes nothing and is
// ErrExists. An Add whose answer got lost, beyond the driver's own retry, finds
// what it has added when it is repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Add(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: add")
	name, q, err := a.c.one(key)
	if err != nil {
		return err
	}
	absent := expr.D(a.c.array, expr.Op("$not", expr.Op("$elemMatch", a.c.exact(name, q))))
	return a.set(ctx, id, absent, func() []reason { return []reason{{a.c.holds(name, q), at(ErrExists, name, q)}} },
		Attribute[V]{name, value, strings.Join(q, "")})
}

// Change gives the entry of this key another value; without one it is
// ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Change(ctx context.Context, id ID, key Key, value V) (err error) {
	defer fault.In(&err, "attribute: change")
	name, q, err := a.c.one(key)
	if err != nil {
		return err
	}
	return a.set(ctx, id, a.c.present(name, q), a.c.absent(name, q), Attribute[V]{name, value, strings.Join(q, "")})
}

// Remove removes the entry of this key; without one it is ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Remove(ctx context.Context, id ID, key Key) (err error) {
	defer fault.In(&err, "attribute: remove")
	name, q, err := a.c.one(key)
	if err != nil {
		return err
	}
	update := expr.Op("$pull", expr.D(a.c.array, a.c.exact(name, q)))
	return a.c.write(ctx, id, a.c.present(name, q), update, a.c.absent(name, q))
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

// set writes attributes into the document if it also matches guard.
func (a *Attributes[ID, V]) set(ctx context.Context, id any, guard bson.D, reasons func() []reason,
	attributes ...Attribute[V]) error {
	elements, err := a.elements(attributes)
	if err != nil {
		return err
	}
	err = a.c.write(ctx, id, guard, mongo.Pipeline{set(a.c.array, a.c.upsert(expr.Literal(elements), true))}, reasons)
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
			return fmt.Errorf("%w: %w", at(fault.ErrInvalid, attribute.Key, []string{attribute.Qualifier}), bad.Err)
		}
	}
	return nil
}

// A reason why a write is refused: an expression of the document, and the error.
type reason struct {
	holds any
	err   error
}

// holds is whether the document has an entry of this key.
func (c *core) holds(key string, qualifiers []string) bson.D {
	return expr.Op("$gt", expr.Op("$size", c.values(key, qualifiers)), 0)
}

// absent is the reason that it has none.
func (c *core) absent(key string, qualifiers []string) func() []reason {
	return func() []reason {
		return []reason{{expr.Op("$not", bson.A{c.holds(key, qualifiers)}), at(ErrNoAttribute, key, qualifiers)}}
	}
}

// at names the entry that an error is about.
func at(err error, key string, qualifiers []string) error {
	if qualifier := strings.Join(qualifiers, ""); qualifier != "" {
		return fmt.Errorf("%w: key %q, qualifier %q", err, key, qualifier)
	}
	return fmt.Errorf("%w: key %q", err, key)
}

// write updates the document of this ID. If it matches no guard, the document is asked
// for the reason; if none holds, as it has gone meanwhile, the write is tried again.
func (c *core) write(ctx context.Context, id any, guard bson.D, update any, reasons func() []reason) error {
	filter, opts := and(expr.D("_id", equal(id)), c.x.inside, guard), options.UpdateOne()
	if len(filter) > 1 {
		opts.SetHint(byID)
	}
	for range maxAttempts {
		result, err := c.coll.UpdateOne(ctx, filter, update, opts)
		var server mongo.ServerError
		switch {
		case errors.As(err, &server) && slices.ContainsFunc(server.ErrorCodes(), noArray):
			return of(id, c.notArray())
		case err != nil:
			return twoArrays(err)
		case result.MatchedCount > 0:
			return nil
		}
		all := []reason{{expr.Op("$not", bson.A{c.x.isWritable}), c.notArray()}}
		if reasons != nil {
			all = append(all, reasons()...)
		}
		why := any(-1)
		for i, r := range slices.Backward(all) {
			why = expr.Cond(r.holds, i, why)
		}
		var found struct{ Why int }
		err = c.primary.FindOne(ctx, expr.D("_id", equal(id)), options.FindOne().SetProjection(expr.D("why", why))).Decode(&found)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			return of(id, fault.ErrNotFound)
		case err != nil:
			return err
		case found.Why >= 0:
			return of(id, all[found.Why].err)
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
