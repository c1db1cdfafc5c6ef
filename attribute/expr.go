package attribute

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Expressions and filters that the rest is made of. In expressions $$o is an
// entry of the document.

func set(path string, value any) bson.D {
	return expr.Op("$set", expr.D(path, value))
}

var nothing = []string{"missing", "null", "undefined"}

func (c *core) path(field string) string { return c.array + "." + field }

// expressions are the same in every call. They are encoded once, because they are most of what a
// call sends.
type expressions struct {
	// entries is the array, or [] if the field is not an array; stored is the field as it is,
	// or [] where it is null or missing.
	entries, stored any
	// entry is the entry $$o as {key, value, qualifier}, value its value. identity is what
	// distinguishes it from others; identities are those of all entries.
	entry, value, identity, identities any
	// has is the condition that an entry of $$value has the identity of $$this. add appends $$this
	// if not; overwrite merges it into that entry, or else appends it.
	has, add, overwrite any
	// inside is the condition that the parents of the array, if any, are documents or missing:
	// an update would replace or traverse other values. writable also requires that the array is
	// an array, null or missing.
	inside   bson.A
	writable any
}

func (c *core) expressions() (x expressions) {
	x.entries = expr.Fixed(expr.Cond(expr.Op("$isArray", bson.A{"$" + c.array}), "$"+c.array, bson.A{}))
	x.value = expr.Fixed(expr.IfNull("$$o."+c.value, nil))
	x.entry = expr.Fixed(expr.D("key", "$$o."+c.key, "value", x.value, "qualifier", c.qualifierOf("$$o")))
	x.identity = expr.Fixed(c.identityOf("$$o"))
	x.identities = expr.Fixed(expr.Map(x.entries, "o", x.identity))
	x.stored = expr.Fixed(expr.IfNull("$"+c.array, bson.A{}))
	this := c.identityOf("$$this")
	x.has = expr.Fixed(expr.Op("$in", this, expr.Map("$$value", "o", x.identity)))
	merged := expr.Map("$$value", "o", expr.Cond(expr.Op("$eq", x.identity, this), expr.Op("$mergeObjects", "$$o", "$$this"), "$$o"))
	longer := expr.Op("$concatArrays", "$$value", bson.A{"$$this"})
	x.add, x.overwrite = expr.Fixed(expr.Cond(x.has, "$$value", longer)), expr.Fixed(expr.Cond(x.has, merged, longer))
	var parents bson.A
	for _, part := range fieldpath.Above(c.array) {
		parents = append(parents, expr.IsType("$"+part, "object", "missing"))
	}
	if parents != nil {
		x.inside = bson.A{expr.Fixed(expr.Op("$and", parents...))}
	}
	x.writable = expr.Fixed(expr.Op("$and", append(parents, expr.IsType("$"+c.array, "array", "missing", "null"))...))
	return x
}

// qualifierOf is the qualifier of an entry, "" if it has none.
func (c *core) qualifierOf(entry string) any {
	if c.qualifier == "" {
		return ""
	}
	return expr.Op("$ifNull", entry+"."+c.qualifier, "")
}

// identity distinguishes entries: the key, and the qualifier if there is a QualifierField.
func (c *core) identity(key, qualifier any) any {
	if c.qualifier == "" {
		return key
	}
	return bson.A{key, qualifier}
}

func (c *core) identityOf(entry string) any { return c.identity(entry+"."+c.key, c.qualifierOf(entry)) }

// is is the condition that an entry has this identity.
func (c *core) is(key, qualifier string) bson.D {
	return expr.Op("$eq", c.x.identity, expr.Literal(c.identity(key, qualifier)))
}

func (c *core) values(key, qualifier string) bson.D {
	return expr.Map(c.those(c.is(key, qualifier)), "o", c.x.value)
}

// those are the entries that meet match.
func (c *core) those(match any) bson.D { return expr.Filter(c.x.entries, "o", match) }

// without is the stage that removes the entries that meet match.
func (c *core) without(match any) bson.D { return set(c.array, c.those(expr.Op("$not", match))) }

// keyed is the condition that an entry has this key and, if given, one of these qualifiers.
func (c *core) keyed(key string, qualifiers []string) bson.D {
	match := expr.Op("$eq", "$$o."+c.key, expr.Literal(checked(key)))
	if len(qualifiers) == 0 {
		return match
	}
	return expr.Op("$and", match, expr.Op("$in", c.qualifierOf("$$o"), expr.Literal(qualifiers)))
}

// only is the qualifiers of a filter for one identity.
func (c *core) only(qualifier string) []string {
	if c.qualifier == "" {
		return nil
	}
	return []string{qualifier}
}

// valid is the condition that an element of the array is an entry.
func (c *core) valid(entry string) bson.D {
	tests := bson.A{
		expr.Op("$eq", expr.Op("$type", entry+"."+c.key), "string"),
		expr.Op("$ne", entry+"."+c.key, ""),
	}
	if c.qualifier != "" {
		tests = append(tests, expr.IsType(entry+"."+c.qualifier, append([]string{"string"}, nothing...)...))
	}
	return expr.Op("$and", tests...)
}

// has is the filter for documents with an entry with this key and, if given, one
// of these qualifiers.
func (c *core) has(key string, qualifiers []string) bson.D {
	if len(qualifiers) == 0 { // one field cannot be matched by two entries
		return expr.D(c.keyPath, checked(key))
	}
	return expr.D(c.array, expr.Op("$elemMatch", c.element(key, qualifiers)))
}

// element is the condition on an element of the array. It also matches an element whose key or
// qualifier is an array with the right value, so writes are guarded by expressions.
func (c *core) element(key string, qualifiers []string) bson.D {
	match := expr.D(c.key, checked(key))
	for _, q := range qualifiers {
		if err := c.checkQualifier(q); err != nil {
			return append(match, refused(err)...)
		}
	}
	switch {
	case len(qualifiers) == 0 || c.qualifier == "": // no entry has a qualifier
		return match
	case len(qualifiers) == 1 && qualifiers[0] != "":
		return append(match, expr.Element(c.qualifier, qualifiers[0]))
	}
	values := bson.A{}
	for _, q := range qualifiers {
		if q == "" {
			values = append(values, nil)
		}
		values = append(values, q)
	}
	return append(match, expr.Element(c.qualifier, expr.Op("$in", values)))
}

// equal is the condition that a field equals value: the value itself, or {$eq: value} if it could
// be read as an operator or a pattern.
func equal(value any) any {
	if plain(value) {
		return value
	}
	return expr.Op("$eq", compared(value))
}

// plain reports whether value is certainly read as a value in a filter. Other types may be encoded
// as anything by the client's registry, which is not known here.
func plain(value any) bool {
	switch value.(type) {
	case nil, bool, string, int, int32, int64, float64, time.Time, bson.DateTime, bson.ObjectID, bson.Decimal128, bson.Binary:
		return true
	}
	return false
}

// and joins filters, in one document if no field occurs twice.
func and(filters ...bson.D) bson.D {
	out := make(bson.D, 0, 2*len(filters))
	for _, filter := range filters {
		for _, e := range filter {
			if slices.ContainsFunc(out, func(other bson.E) bool { return other.Key == e.Key }) {
				parts := bson.A{}
				for _, filter := range filters {
					if len(filter) > 0 {
						parts = append(parts, filter)
					}
				}
				return expr.D("$and", parts)
			}
			out = append(out, e)
		}
	}
	return out
}
