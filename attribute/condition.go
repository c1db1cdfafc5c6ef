package attribute

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Condition is what a document's entries must meet. Conditions come from the
// methods of Attributes and are joined by [Attributes.Filter]. The zero Condition
// is not valid: a filter with it cannot be encoded, and the driver returns ErrInvalid.
type Condition struct {
	match bson.D // documents that meet it
	c     *core
	keys  []Key // that it looks at
}

// Filter selects the documents that meet all of the conditions; without any,
// all documents.
func (a *Attributes[ID, V]) Filter(conditions ...Condition) bson.D {
	filters := make([]bson.D, len(conditions))
	for i, c := range conditions {
		filters[i] = c.filter()
	}
	return and(filters...)
}

// Equals is met by an entry of this key with this value.
func (a *Attributes[ID, V]) Equals(key Key, value V) Condition {
	return a.c.condition(key, bson.E{Key: a.c.value, Value: expr.Op("$eq", value)})
}

// In is met by an entry of this key with one of these values; by none if there
// are none.
func (a *Attributes[ID, V]) In(key Key, values []V) Condition {
	list := bson.A{}
	for _, value := range values {
		if !plain(value) { // $in takes a regular expression for a pattern
			return a.c.condition(key, expr.Element("$or", a.each(values)))
		}
		list = append(list, value)
	}
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$in", list)))
}

// HoldsAll is met by an entry of this key whose value, an array, holds all of these
// values; by none if there are none, as with MongoDB's $all.
func (a *Attributes[ID, V]) HoldsAll(key Key, values []V) Condition {
	if len(values) == 0 {
		return a.In(key, nil)
	}
	return a.c.condition(key, expr.Element("$and", a.each(values)))
}

// each is a filter for each of the values.
func (a *Attributes[ID, V]) each(values []V) (filters bson.A) {
	for _, value := range values {
		filters = append(filters, expr.D(a.c.value, expr.Op("$eq", value)))
	}
	return filters
}

// Gt is met by an entry of this key with a value greater than this, of its type.
func (a *Attributes[ID, V]) Gt(key Key, value V) Condition {
	return a.c.condition(key, bson.E{Key: a.c.value, Value: expr.Op("$gt", value)})
}

// Gte is met by an entry of this key with this or a greater value.
func (a *Attributes[ID, V]) Gte(key Key, value V) Condition {
	return a.c.condition(key, bson.E{Key: a.c.value, Value: expr.Op("$gte", value)})
}

// Lt is met by an entry of this key with a value less than this, of its type.
func (a *Attributes[ID, V]) Lt(key Key, value V) Condition {
	return a.c.condition(key, bson.E{Key: a.c.value, Value: expr.Op("$lt", value)})
}

// Lte is met by an entry of this key with this or a lesser value.
func (a *Attributes[ID, V]) Lte(key Key, value V) Condition {
	return a.c.condition(key, bson.E{Key: a.c.value, Value: expr.Op("$lte", value)})
}

// Range is met by an entry of this key with a value from from until before to.
func (a *Attributes[ID, V]) Range(key Key, from, to V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.D("$gte", from, "$lt", to)))
}

// Exists is met by an entry of this key, with any value.
func (a *Attributes[ID, V]) Exists(key Key) Condition {
	return a.HasAll(key)
}

// HasAll is met by documents with entries of all of these keys; without any, by
// all documents.
func (a *Attributes[ID, V]) HasAll(keys ...Key) Condition {
	return Condition{a.c.hasAll(keys), a.c, slices.Clone(keys)}
}

func (c *core) hasAll(keys []Key) bson.D {
	filters := make([]bson.D, len(keys))
	for i, key := range keys {
		filters[i] = c.has(key.name, key.qualifiers)
	}
	return and(filters...)
}

// condition is met by an entry of key with test inside the same entry.
func (c *core) condition(key Key, test bson.E) Condition {
	return Condition{expr.D(c.array, expr.Op("$elemMatch", append(c.element(key.name, key.qualifiers), test))), c, []Key{key}}
}

// NotOrMissing is met by the documents that do not meet c: those without an
// entry of its key among them.
//
// It cannot use an index; join it with a condition that can.
func (c Condition) NotOrMissing() Condition {
	c.match = expr.D("$nor", bson.A{c.filter()})
	return c
}

// PresentAndNot is met by the documents that do not meet c but have an entry of its
// key, and of its qualifiers if it names some.
func (c Condition) PresentAndNot() Condition {
	c.match = and(c.c.hasAll(c.keys), c.NotOrMissing().match)
	return c
}

// filter is the documents that meet c, never all of them because c is not set.
func (c Condition) filter() bson.D {
	if c.match == nil {
		return refused(fault.Invalid("zero Condition"))
	}
	return c.match
}

// checked is a key in a filter or an expression, which is invalid if checkKey says
// so.
func checked(key string) any {
	if err := checkKey(key); err != nil {
		return invalid{err}
	}
	return key
}

// refused is a filter that cannot be encoded.
func refused(err error) bson.D { return bson.D{{Key: "invalid", Value: invalid{err}}} }

// invalid makes the driver refuse the filter or pipeline that it stands in.
type invalid struct{ err error }

func (i invalid) MarshalBSONValue() (byte, []byte, error) {
	err := i.err
	fault.In(&err, "attribute: filter")
	return 0, nil, err
}
