package attribute

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Condition is a condition on a document's entries. The methods of Attributes make conditions,
// and [Attributes.Filter] joins them. The zero Condition is not valid. A filter with it cannot be
// encoded, and the driver returns ErrInvalid.
type Condition struct {
	match bson.D // the filter for documents that meet it
}

// Filter selects the documents that meet all of the conditions. Without conditions it selects all
// documents of the scope.
func (a *Attributes[ID, V]) Filter(conditions ...Condition) bson.D {
	filters := make([]bson.D, len(conditions))
	for i, c := range conditions {
		filters[i] = c.filter()
	}
	return a.c.coll.Scope().Match(and(filters...))
}

// Equals is met by an entry with this key and this value.
func (a *Attributes[ID, V]) Equals(key Key, value V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$eq", compared(value))))
}

// In is met by an entry with this key and one of these values. Without values it is never met.
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

// HoldsAll is met by an entry with this key whose value is an array with all of these values.
// Without values it is never met, as with MongoDB's $all.
func (a *Attributes[ID, V]) HoldsAll(key Key, values []V) Condition {
	if len(values) == 0 {
		return a.In(key, nil)
	}
	return a.c.condition(key, expr.Element("$and", a.each(values)))
}

// each is a filter for each of the values.
func (a *Attributes[ID, V]) each(values []V) (filters bson.A) {
	for _, value := range values {
		filters = append(filters, expr.D(a.c.value, expr.Op("$eq", compared(value))))
	}
	return filters
}

// Gt is met by an entry with this key and a greater value of the same type.
func (a *Attributes[ID, V]) Gt(key Key, value V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$gt", compared(value))))
}

// Gte is met by an entry with this key and this or a greater value.
func (a *Attributes[ID, V]) Gte(key Key, value V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$gte", compared(value))))
}

// Lt is met by an entry with this key and a lesser value of the same type.
func (a *Attributes[ID, V]) Lt(key Key, value V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$lt", compared(value))))
}

// Lte is met by an entry with this key and this or a lesser value.
func (a *Attributes[ID, V]) Lte(key Key, value V) Condition {
	return a.c.condition(key, expr.Element(a.c.value, expr.Op("$lte", compared(value))))
}

// Range is met by an entry with this key and a value that is at least from and less than to, or that is an array with
// such an element.
func (a *Attributes[ID, V]) Range(key Key, from, to V) Condition {
	within := expr.D("$gte", compared(from), "$lt", compared(to))
	// Of an array, one element could meet the first test and another the second.
	single := expr.Element("$or", bson.A{
		expr.D(a.c.value, expr.Op("$not", expr.Op("$type", "array"))),
		expr.D(a.c.value, expr.Op("$elemMatch", within)),
	})
	return a.c.condition(key, expr.Element(a.c.value, within), single)
}

// compared is a value for a comparison with stored values.
func compared(value any) any {
	if plain(value) {
		return value
	}
	if err := codec.Ordered(value); err != nil {
		return invalid(err)
	}
	return value
}

// Exists is met by an entry with this key and any value.
func (a *Attributes[ID, V]) Exists(key Key) Condition {
	return a.HasAll(key)
}

// HasAll is met by documents with entries for all of these keys. Without keys it is met by all
// documents.
func (a *Attributes[ID, V]) HasAll(keys ...Key) Condition {
	return Condition{a.c.hasAll(keys)}
}

func (c *core) hasAll(keys []Key) bson.D {
	filters := make([]bson.D, len(keys))
	for i, key := range keys {
		filters[i] = c.has(key.name, key.qualifiers)
	}
	return and(filters...)
}

// condition is met by an entry with key that also meets the tests.
func (c *core) condition(key Key, tests ...bson.E) Condition {
	return Condition{expr.D(c.array, expr.Op("$elemMatch", append(c.element(key.name, key.qualifiers), tests...)))}
}

// NotOrMissing is met by the documents that do not meet c, including those without an entry
// for its key. Join it with Exists to leave those out.
//
// It cannot use an index, so join it with a condition that can.
func (c Condition) NotOrMissing() Condition {
	c.match = expr.D("$nor", bson.A{c.filter()})
	return c
}

// filter is the filter for the documents that meet c. For a zero Condition it cannot be encoded,
// instead of selecting all documents.
func (c Condition) filter() bson.D {
	if c.match == nil {
		return refused(fault.Invalid("a Condition is the zero value: make it with a method of Attributes"))
	}
	return c.match
}

// checked is a key for a filter or an expression, or a value that cannot be encoded if checkKey
// refuses the key.
func checked(key string) any {
	if err := checkKey(key); err != nil {
		return invalid(err)
	}
	return key
}

// refused is a filter that cannot be encoded.
func refused(err error) bson.D { return expr.D("invalid", invalid(err)) }

// invalid is a value that makes the driver refuse the filter or pipeline around it.
func invalid(err error) codec.Refused {
	fault.In(&err, "attribute.Filter")
	return codec.Refused{Reason: err}
}
