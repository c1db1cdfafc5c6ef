package attribute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/encode"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// maxAttempts bounds how often a write is sent again because what refused it
// was gone when the reason was asked for.
const maxAttempts = 16

// byID is the index that all writes use: the server might choose the one on the
// keys, and read all documents that have one.
var byID = bson.D{{Key: "_id", Value: 1}}

// Set gives the entry of this key the value, and adds the entry at the end if
// there is none. Further fields of the entry stay. Without such a document it
// is ErrNotFound.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Set(ctx context.Context, id ID, key string, value V, qualifier ...string) error {
	q, err := a.one(qualifier)
	if err == nil {
		err = a.set(ctx, id, []Attribute[V]{{key, value, q}}, bson.D{}, nil)
	}
	return wrap("set", err)
}

// SetMany sets several entries in one write, one after the other; two of the
// same key and qualifier are ErrInvalid. (Of two that only the collection's
// collation holds for the same, the later one counts.) Without any it does
// nothing.
//
// Cost: as Set.
func (a *Attributes[ID, V]) SetMany(ctx context.Context, id ID, attributes ...Attribute[V]) error {
	if len(attributes) == 0 {
		return nil
	}
	return wrap("set many", a.set(ctx, id, attributes, bson.D{}, nil))
}

// Add adds an entry of this key; if there is one it changes nothing and is
// ErrExists. An Add whose answer got lost, beyond the driver's own retry, finds
// what it has added when it is repeated.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Add(ctx context.Context, id ID, key string, value V, qualifier ...string) error {
	q, err := a.one(qualifier)
	if err == nil {
		absent := bson.D{{Key: a.array, Value: op("$not", op("$elemMatch", a.exact(key, a.identity(q))))}}
		err = a.set(ctx, id, []Attribute[V]{{key, value, q}}, absent, func(s state) error {
			if s.Has {
				return at(ErrExists, key, q)
			}
			return nil
		})
	}
	return wrap("add", err)
}

// Change gives the entry of this key another value; without one it is
// ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Change(ctx context.Context, id ID, key string, value V, qualifier ...string) error {
	q, err := a.one(qualifier)
	if err == nil {
		err = a.set(ctx, id, []Attribute[V]{{key, value, q}}, a.present(key, a.identity(q)), mustHave(key, q))
	}
	return wrap("change", err)
}

// Remove removes the entry of this key; without one it is ErrNoAttribute.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Remove(ctx context.Context, id ID, key string, qualifier ...string) error {
	q, err := a.one(qualifier)
	if err == nil {
		err = checkKey(key)
	}
	if err == nil {
		update := op("$pull", bson.D{{Key: a.array, Value: a.exact(key, a.identity(q))}})
		err = a.write(ctx, id, a.present(key, a.identity(q)), update, a.question(key, q), mustHave(key, q))
	}
	return wrap("remove", err)
}

// Rename gives the entries of key from, of any qualifier, the key to. Without
// one it is ErrNoAttribute; if the document has an entry of to with a qualifier
// of theirs, it is ErrExists.
//
// Cost: 1 round trip, 1 document written, found by _id. Refused: 1 more.
func (a *Attributes[ID, V]) Rename(ctx context.Context, id ID, from, to string) error {
	err := checkRename(from, to)
	if err == nil {
		question := bson.D{{Key: "has", Value: a.any(a.keyed("$$o", from, nil))}, {Key: "collides", Value: a.collides(from, to)}}
		err = a.write(ctx, id, and(a.present(from, nil), a.separate(from, to)), a.rename(from, to, Skip), question, func(s state) error {
			switch {
			case !s.Has:
				return at(ErrNoAttribute, from, "")
			case s.Collides:
				return at(ErrExists, to, "")
			}
			return nil
		})
	}
	return wrap("rename", err)
}

// Elements makes the array of a document to insert.
func (a *Attributes[ID, V]) Elements(attributes ...Attribute[V]) (bson.A, error) {
	elements, err := a.elements(attributes)
	if err == nil {
		err = a.unencodable(attributes)
	}
	if err != nil {
		return nil, wrap("elements", err)
	}
	return elements, nil
}

func (a *Attributes[ID, V]) elements(attributes []Attribute[V]) (bson.A, error) {
	out := bson.A{}
	seen := map[[2]string]bool{}
	for _, attribute := range attributes {
		if err := checkKey(attribute.Key); err != nil {
			return nil, err
		}
		if err := a.checkQualifier(attribute.Qualifier); err != nil {
			return nil, err
		}
		identity := [2]string{attribute.Key, attribute.Qualifier}
		if seen[identity] {
			return nil, fmt.Errorf("%w: key %q stands twice", ErrInvalid, attribute.Key)
		}
		seen[identity] = true
		out = append(out, a.entry(attribute.Key, attribute.Value, attribute.Qualifier))
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
	update := mongo.Pipeline{set(a.array, a.upsert(op("$ifNull", "$"+a.array, bson.A{}), literal(elements), true))}
	first := attributes[0]
	err = a.write(ctx, id, guard, update, a.question(first.Key, first.Qualifier), refused)
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
		_, err := a.coll.UpdateOne(context.Background(), bson.D{{Key: a.value, Value: attribute.Value}}, nil)
		if bad := (mongo.MarshalError{}); errors.As(err, &bad) {
			return fmt.Errorf("%w: %w", at(ErrInvalid, attribute.Key, attribute.Qualifier), bad.Err)
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
	return op("$gt", op("$size", filtered(c.entries(), "o", match)), 0)
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
func (c *core) write(ctx context.Context, id any, guard bson.D, update any, question bson.D, refused func(state) error) error {
	for range maxAttempts {
		result, err := c.coll.UpdateOne(ctx, and(c.target(id), guard), update, options.UpdateOne().SetHint(byID))
		if err != nil {
			return twoArrays(err)
		}
		if result.MatchedCount > 0 {
			return nil
		}
		var s state
		err = c.primary.FindOne(ctx, bson.D{{Key: "_id", Value: equal(id)}}, options.FindOne().
			SetProjection(append(bson.D{{Key: "writable", Value: c.isWritable()}}, question...))).Decode(&s)
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			return fmt.Errorf("%w: _id %s", ErrNotFound, text(id))
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
	return fmt.Errorf("%w: _id %s", ErrContended, text(id))
}

// text is an ID as messages show it.
func text(id any) string {
	v, err := encode.Value(nil, id)
	if err != nil || v.Type == bson.TypeEmbeddedDocument {
		return fmt.Sprint(id) // the client's registry may make something else of it
	}
	return rawvalue.Text(v)
}

// one is the qualifier of a call that means one entry.
func (c *core) one(qualifiers []string) (string, error) {
	switch {
	case len(qualifiers) > 1:
		return "", fmt.Errorf("%w: several qualifiers for one entry: %q", ErrInvalid, qualifiers)
	case len(qualifiers) == 0:
		return "", nil
	}
	return qualifiers[0], c.checkQualifier(qualifiers[0])
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: empty key", ErrInvalid)
	}
	return checkText("key", key)
}

func (c *core) checkQualifier(qualifier string) error {
	if qualifier != "" && c.qualifier == "" {
		return fmt.Errorf("%w: qualifier %q needs Options.QualifierField", ErrInvalid, qualifier)
	}
	return checkText("qualifier", qualifier)
}

// checkText refuses what is no string of BSON. Servers may store it, or refuse the
// command.
func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, text)
	}
	return nil
}

func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attribute: %s: %w", operation, err)
}
