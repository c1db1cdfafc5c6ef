package paging

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// place is where a document stands in the order: its sort values.
type place []bson.RawValue

// branches writes the condition "sorted after the place", or before it if backward,
// as filters that do not overlap and stand in the order of the result. Each fixes
// the first fields to their values at the place and lets the next one go on from
// there, so that each is a range of an index over the sort. If inclusive the place
// itself belongs to it. typed asks for plain ranges first, see beyond.
func (o order) branches(at place, backward, inclusive, typed bool) []bson.D {
	out := []bson.D{}
	last := len(o) - 1
	for i := last; i >= 0; i-- {
		for _, condition := range o[i].beyond(at[i], o[i].desc != backward, inclusive && i == last, typed) {
			branch := make(bson.D, 0, i+len(condition))
			for j := range i {
				branch = append(branch, expr.Element(o[j].path, value.Equal(at[j])))
			}
			out = append(out, append(branch, condition...))
		}
	}
	return out
}

// null reports a value that documents share with those that lack the field. The
// server's merge of sorted ranges takes the two for different where all else takes
// them for equal.
func (at place) null() bool {
	return slices.ContainsFunc(at, func(v bson.RawValue) bool { return v.Type == bson.TypeNull })
}

// same reports whether two places are one: equal in every value, under the simple
// collation, of whatever numeric type.
func same(a, b place) bool {
	return slices.EqualFunc(a, b, value.Same)
}

// brackets are the kinds of value that the comparisons of a filter tell apart, in
// the order in which the server sorts them, by the names $type knows. MinKey and
// null, which also stands for a missing field, come before all of them. Arrays
// sort between objects and binary data; they are no sort values.
var brackets = [...][]string{
	bracketNumber: {"double", "int", "long", "decimal"}, {"string", "symbol"}, bracketObject: {"object"},
	{"binData"}, {"objectId"}, {"bool"}, {"date"}, {"timestamp"}, {"regex"}, {"dbPointer"}, {"javascript"},
	{"javascriptWithScope"}, bracketMaxKey: {"maxKey"},
}

const (
	bracketMinKey = -2
	bracketNull   = -1
	bracketNumber = 0
	bracketObject = 2
	bracketMaxKey = 12
)

var bracketOf = map[bson.Type]int{
	bson.TypeMinKey: bracketMinKey, bson.TypeNull: bracketNull,
	bson.TypeDouble: bracketNumber, bson.TypeInt32: bracketNumber, bson.TypeInt64: bracketNumber,
	bson.TypeDecimal128: bracketNumber, bson.TypeString: 1, bson.TypeSymbol: 1,
	bson.TypeEmbeddedDocument: bracketObject, bson.TypeBinary: 3, bson.TypeObjectID: 4, bson.TypeBoolean: 5,
	bson.TypeDateTime: 6, bson.TypeTimestamp: 7, bson.TypeDBPointer: 9, bson.TypeJavaScript: 10,
	bson.TypeCodeWithScope: 11, bson.TypeMaxKey: bracketMaxKey,
}

func isNaN(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeDouble:
		return math.IsNaN(v.Double())
	case bson.TypeDecimal128:
		return v.Decimal128().IsNaN()
	}
	return false
}

// beyond gives the conditions on one field that together match what is sorted
// after v in the given direction, and v itself if inclusive. They do not overlap
// and stand in the order of the result; there are none if nothing comes after v.
//
// A comparison in $expr follows the order of the sort, through all types: it is one
// range of the index. But it takes an array for one value, where the sort takes its
// elements. Documents with arrays must be met, so that they can be refused. So it
// serves where arrays lie beyond v, and for _id, which is never an array.
//
// Elsewhere three matches together do: the comparison of a filter, which stays
// within the bracket of v; $type for other brackets and for undefined, which sorts
// below null; and equality with null, MinKey, NaN and [], which neither of the two
// finds. An _id needs none of the last, for which the planner may leave the index of
// the sort, and is never undefined.
//
// typed puts the comparison of a filter in front of $expr: for who wants a plain
// range first, and reads on only if that ends.
func (k sortKey) beyond(v bson.RawValue, desc, inclusive, typed bool) []bson.D {
	bracket := bracketOf[v.Type]
	id := k.path == "_id"
	is := func(condition any) bson.D { return expr.D(k.path, condition) }
	// low finds these values and all below null. Undefined comes first, so that a page which
	// is read condition by condition meets it before it is full.
	low := func(values ...any) []bson.D {
		rest := is(expr.Op("$in", append(append(bson.A{}, values...), bson.A{}, bson.MinKey{})))
		if id {
			return []bson.D{rest}
		}
		return []bson.D{is(expr.Op("$type", "undefined")), rest}
	}
	compared := is(expr.D(operator(desc, inclusive), v))
	field := expr.Field(k.path)
	total := func(inclusive bool) bson.D { return expr.Op(operator(desc, inclusive), field, expr.Literal(v)) }
	computed := func(condition any) bson.D { return expr.Op("$expr", condition) }
	switch {
	case bracket == bracketNull && inclusive && !desc: // $expr puts missing before null
		return []bson.D{is(nil), computed(total(false))}
	case bracket == bracketNull && inclusive:
		return low(nil)
	case bracket == bracketNull && desc:
		return low()
	case bracket == bracketMinKey && desc, bracket == bracketMaxKey && !desc:
		if inclusive {
			return []bson.D{is(v)}
		}
		return nil
	case id, desc == (bracket > bracketObject):
		if typed && bracket >= bracketNumber && bracket < bracketMaxKey && !isNaN(v) {
			// The rest is what the comparison does not find: other types, and NaN.
			other := expr.Op("$or", expr.Op("$not", expr.IsType(field, brackets[bracket]...)), expr.Op("$eq", field, math.NaN()))
			return []bson.D{compared, computed(expr.Op("$and", total(inclusive), other))}
		}
		return []bson.D{computed(total(inclusive))}
	case !desc:
		return []bson.D{compared, is(types(bracket+1, bracketMaxKey))}
	case isNaN(v) && inclusive:
		return low(math.NaN(), nil)
	case isNaN(v):
		return low(nil)
	case bracket == bracketNumber:
		return append([]bson.D{compared}, low(math.NaN(), nil)...)
	}
	return append([]bson.D{compared, is(types(bracketNumber, bracket-1))}, low(nil)...)
}

func operator(desc, inclusive bool) string {
	op := "$gt"
	if desc {
		op = "$lt"
	}
	if inclusive {
		op += "e"
	}
	return op
}

func types(from, to int) bson.D {
	return expr.Op("$type", slices.Concat(brackets[from:to+1]...))
}

// place reads the sort values of a document that was read, which it shares the
// memory of, and refuses those that have no order. What is missing is null.
func (p *core) place(doc bson.Raw) (place, error) {
	out := make(place, len(p.order))
	err := p.readPlace(out, doc, p.projection.order)
	return out, err
}

func (p *core) readPlace(out place, doc bson.Raw, where order) error {
	unsortable := func(why string) error {
		return fault.Of(doc.Lookup(where[p.id].segments...), fmt.Errorf("%w: %s", ErrUnsortable, why))
	}
	size := 0
	for i, key := range where {
		v, trouble := valueAt(doc, key.segments)
		if trouble != "" {
			return unsortable(fmt.Sprintf("the sort field %q %s", key.path, trouble))
		}
		out[i] = v
		size += len(v.Value) + valueOverhead
	}
	if size > maxValues {
		return unsortable(fmt.Sprintf("the sort fields are too large for a token (%d bytes)", size))
	}
	if p.collated && slices.ContainsFunc(out, holdsSymbol) {
		// Which the server sorts by their bytes and compares by the collation.
		return unsortable("a sort field holds a symbol, under a collation")
	}
	if p.collated && !p.opts.DistinctIDs && holdsText(out[p.id]) {
		return unsortable("its _id is text under a collation; see Options.DistinctIDs")
	}
	return nil
}

// valueAt follows a dotted path. trouble says what is wrong with the value found.
func valueAt(doc bson.Raw, segments []string) (v bson.RawValue, trouble string) {
	v = value.Embedded(doc)
	for _, segment := range segments {
		inner, _ := v.DocumentOK()
		found, err := inner.LookupErr(segment)
		if err != nil {
			return value.Null, ""
		}
		if found.Type == bson.TypeArray {
			return value.Null, "holds an array"
		}
		v = found
	}
	if _, ok := bracketOf[v.Type]; !ok {
		return value.Null, "is of type " + v.Type.String()
	}
	if !shallow(v, maxDepth) {
		return value.Null, fmt.Sprintf("is nested more than %d levels deep", maxDepth)
	}
	return v, ""
}

// shallow reports that documents in v are nested no more than so many levels deep.
func shallow(v bson.RawValue, levels int) bool {
	inner := v.Value
	switch v.Type {
	case bson.TypeCodeWithScope:
		_, inner, _ = v.CodeWithScopeOK()
	case bson.TypeEmbeddedDocument, bson.TypeArray:
	default:
		return true
	}
	elements, _ := bson.Raw(inner).Elements()
	deep := func(e bson.RawElement) bool { return !shallow(e.Value(), levels-1) }
	return levels > 0 && !slices.ContainsFunc(elements, deep)
}

// holdsText reports strings at any depth, which a collation may take for equal.
func holdsText(v bson.RawValue) bool {
	text := func(v bson.RawValue) bool { return v.Type == bson.TypeString || v.Type == bson.TypeSymbol }
	return text(v) || inside(v, func(e bson.RawElement) bool { return text(e.Value()) })
}

func holdsSymbol(v bson.RawValue) bool {
	return v.Type == bson.TypeSymbol ||
		inside(v, func(e bson.RawElement) bool { return e.Value().Type == bson.TypeSymbol })
}

// inside reports that test holds for a field or an element of v, at any depth.
func inside(v bson.RawValue, test func(e bson.RawElement) bool) bool {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return false
	}
	elements, _ := bson.Raw(v.Value).Elements()
	return slices.ContainsFunc(elements, func(e bson.RawElement) bool { return test(e) || inside(e.Value(), test) })
}

// Filter returns the complete filter of the page that req asks for, with over in every branch. Use
// it in a query of your own with the sort of [Pager.Sort]. The document of the token itself is left
// out, so a plain limit gives the page. Make tokens for what you read with [Pager.Token].
//
// Where a sort field is null in some documents and missing in others, the order is not always that
// of the pages; see Order in the manual.
func (p *Pager[T]) Filter(over any, req Request) (filter bson.D, err error) {
	defer fault.In(&err, "paging.Filter")
	src, branches, err := p.core.query(over, req)
	if err != nil {
		return nil, err
	}
	if src.pipeline != nil {
		return nil, fault.Invalid("over is a pipeline, which has no filter: use Pipeline")
	}
	where := src.where(branches)
	if filter, ok := where.(bson.D); ok {
		return filter, nil
	}
	return expr.Op("$and", bson.A{where}), nil
}

// Sort returns the order in which the page that req asks for is read. It is the sort with `_id`,
// reversed for Before and FromEnd. After such a read, reverse the documents again.
func (p *Pager[T]) Sort(req Request) bson.D {
	return p.core.order.document(req.backward())
}

// Pipeline returns the stages of the page that req asks for, for an aggregation of your own. A
// pipeline given as over comes first, and a filter becomes part of the $match. Then comes $sort.
// Add $limit and further stages.
func (p *Pager[T]) Pipeline(over any, req Request) (pipeline mongo.Pipeline, err error) {
	defer fault.In(&err, "paging.Pipeline")
	src, branches, err := p.core.query(over, req)
	if err != nil {
		return nil, err
	}
	return src.stages(branches, p.Sort(req), 0, 0), nil
}

func (p *core) query(over any, req Request) (*source, []bson.D, error) {
	src, err := p.source(over)
	if err == nil && req.Number != 0 {
		err = fault.Invalid("Request.Number: it must be 0: a filter cannot skip pages")
	}
	if err != nil {
		return nil, nil, err
	}
	window, _, err := p.window(src, req)
	if err != nil || window.at == nil {
		return src, nil, err
	}
	return src, p.order.branches(window.at, window.backward, window.inclusive, false), nil
}

// Token makes the token of a document that you read yourself. The document is a bson.Raw or
// anything that encodes to a document with the sort fields and the _id. It can be used as After and
// as Before, with the same over.
func (p *Pager[T]) Token(over, document any) (token string, err error) {
	defer fault.In(&err, "paging.Token")
	src, err := p.core.source(over)
	if err != nil {
		return "", err
	}
	var sort, kept []string
	for _, key := range p.core.order {
		if sort = append(sort, key.path); key.path != "_id" {
			kept = append(kept, "document", key.path)
		}
	}
	raw, err := p.core.codec.Stored(document, sort...)
	if err != nil {
		return "", err
	}
	if err = cmp.Or(p.core.codec.CheckKept(reflect.TypeOf(document), kept...), p.core.codec.CheckNoHex(raw, sort...)); err != nil {
		return "", err
	}
	if raw.Lookup("_id").Type == 0 {
		return "", fault.Invalid("the document has no _id, with which every order ends")
	}
	at := make(place, len(p.core.order))
	if err := p.core.readPlace(at, raw, p.core.order); err != nil {
		return "", err
	}
	return p.core.encode(src.hash, position{kind: kindItem, place: at}), nil
}
