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

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/pause"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// byID is the index for writes that filter on more than _id. Without the hint the server might
// choose the index on the keys, and read all documents with a key.
var byID = expr.D("_id", 1)

// Set sets the value of the entry with this key, or appends the entry if it does not exist. It keeps
// other fields of the entry. It returns ErrNotFound if the document does not exist.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more.
func (a *Attributes[ID, V]) Set(ctx context.Context, id ID, key Key, value V) (err error) {
	ctx = comment.Call(ctx, "attribute.Set")
	defer fault.In(&err, "attribute.Set")
	return a.set(ctx, id, key, value, nil)
}

// SetAll sets several entries in one write. It returns ErrInvalid if two have the same key and
// qualifier. Without entries it does nothing.
//
// Cost: that of Set.
func (a *Attributes[ID, V]) SetAll(ctx context.Context, id ID, attributes ...Attribute[V]) (err error) {
	ctx = comment.Call(ctx, "attribute.SetAll")
	defer fault.In(&err, "attribute.SetAll")
	if len(attributes) == 0 {
		return nil
	}
	return a.setMany(ctx, id, nil, attributes...)
}

// Add adds an entry with this key. If there is one already, it changes nothing and returns
// ErrExists. If the reply is lost despite the driver's own retry, a repeated Add finds the entry of
// the first.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more.
func (a *Attributes[ID, V]) Add(ctx context.Context, id ID, key Key, value V) (err error) {
	ctx = comment.Call(ctx, "attribute.Add")
	defer fault.In(&err, "attribute.Add")
	return a.set(ctx, id, key, value, mongopatterns.ErrExists)
}

// Replace sets the value of the existing entry with this key, or returns
// ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more.
func (a *Attributes[ID, V]) Replace(ctx context.Context, id ID, key Key, value V) (err error) {
	ctx = comment.Call(ctx, "attribute.Replace")
	defer fault.In(&err, "attribute.Replace")
	return a.set(ctx, id, key, value, ErrNoAttribute)
}

// Remove removes the entry with this key, or returns ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, index _id. Refused: 1 more.
func (a *Attributes[ID, V]) Remove(ctx context.Context, id ID, key Key) (err error) {
	ctx = comment.Call(ctx, "attribute.Remove")
	defer fault.In(&err, "attribute.Remove")
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return err
	}
	update := mongo.Pipeline{a.c.without(a.c.is(name, qualifier))}
	return a.c.write(ctx, id, update, name, qualifier, ErrNoAttribute)
}

// Elements returns the array for a document that you insert.
func (a *Attributes[ID, V]) Elements(attributes ...Attribute[V]) (elements bson.A, err error) {
	defer fault.In(&err, "attribute.Elements")
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
		if err := codec.Ordered(attribute.Value); err != nil {
			return nil, at(err, attribute.Key, attribute.Qualifier)
		}
		if slices.ContainsFunc(attributes[:i], func(other Attribute[V]) bool {
			return other.Key == attribute.Key && other.Qualifier == attribute.Qualifier
		}) {
			return nil, fault.Invalid("the key %q is given twice with the same qualifier", attribute.Key)
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

// unencodable returns an error for the first attribute whose value the client's registry cannot
// encode. The registry is not accessible; but UpdateOne encodes the filter first, and then refuses
// the missing update before it sends anything.
func (a *Attributes[ID, V]) unencodable(attributes []Attribute[V]) error {
	for _, attribute := range attributes {
		_, err := a.c.coll.UpdateOne(context.Background(), expr.D(a.c.value, attribute.Value), nil)
		if bad := (mongo.MarshalError{}); errors.As(err, &bad) {
			return fmt.Errorf("%w: cannot encode %T with the client's registry: %w", at(mongopatterns.ErrInvalid, attribute.Key, attribute.Qualifier), attribute.Value, bad.Err)
		}
	}
	return nil
}

// at adds the key and qualifier of an entry to an error.
func at(err error, key, qualifier string) error {
	if qualifier != "" {
		return fmt.Errorf("%w: key %q, qualifier %q", err, key, qualifier)
	}
	return fmt.Errorf("%w: key %q", err, key)
}

// write updates the document with this ID. With the refusal ErrNoAttribute it must have the
// entry, with ErrExists it must not. If the document does not match, write reads it for the reason;
// if the reason does not hold any more, it tries again.
func (c *core) write(ctx context.Context, id, update any, key, qualifier string, refusal error) error {
	self, opts := expr.D("_id", equal(id)), options.UpdateOne()
	tests := slices.Clip(c.x.inside)
	if refusal != nil {
		test := expr.Op("$in", expr.Literal(c.identity(key, qualifier)), c.x.identities)
		if refusal == mongopatterns.ErrExists {
			test = expr.Op("$not", test)
		}
		tests = append(tests, test)
	}
	filter := self
	if len(tests) > 0 {
		filter = append(filter, expr.Element("$expr", expr.Op("$and", tests...)))
		opts.SetHint(byID)
	}
	for range pause.Attempts {
		result, err := fault.One(c.coll.UpdateOne(ctx, filter, update, opts))
		switch {
		case errors.Is(err, fault.ErrMalformed):
			return of(id, c.notArray())
		case err != nil:
			return of(id, twoArrays(err))
		case result.MatchedCount > 0:
			return nil
		}
		found, err := read[bson.RawValue](ctx, c, c.primary, self, c.values(key, qualifier))
		if err != nil {
			return ofDocument(id, err)
		}
		if refusal != nil && (len(found) > 0) == (refusal == mongopatterns.ErrExists) {
			return of(id, at(refusal, key, qualifier))
		}
	}
	return of(id, mongopatterns.ErrConflict)
}

func (c *core) notArray() error {
	return fmt.Errorf("%w: %q is not an array", mongopatterns.ErrMalformed, c.array)
}

// of adds to an error the document that it is about.
func of(id any, err error) error { return fmt.Errorf("_id %s: %w", text(id), err) }

// text is an ID as error messages show it.
func text(id any) string {
	v, err := codec.Codec{}.Value(id)
	if err != nil || v.Type == bson.TypeEmbeddedDocument {
		return fmt.Sprint(id) // the client's registry may make something else of it
	}
	return value.Text(v)
}
