package split

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// If a hot document has a cold field and a cold document exists, old code has written the field. A
// scalar was set anew and is newer. A number, an array or a document may be a fragment: $inc, $push
// and $set of a part start anew in a field that has moved away. It is not a fragment if all that
// the cold document holds is back: then old code has replaced the whole document, which is newer.
// A field is back if it exists; a document, if all its fields exist; an array, if it has a common
// element with the other, one of the two is empty, or a document of several fields is back. Numbers
// alone are not evidence.
//
// This file has the rule twice: for writes, and for the server, in reads.

// contested returns the names of the cold fields of a hot document, own, that stay in both.
func (c *core) contested(own, cold bson.Raw) (names []string) {
	elements, _ := cold.Elements()
	elements = slices.DeleteFunc(elements, func(e bson.RawElement) bool { return c.isID(e.Key()) })
	proven := slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		doc, _ := e.Value().DocumentOK()
		fields, _ := doc.Elements()
		return len(fields) > 1 && back(own.Lookup(e.Key()), e.Value(), false)
	})
	replaced, evidence := true, false
	for _, e := range elements {
		hot := own.Lookup(e.Key())
		replaced = replaced && back(hot, e.Value(), proven)
		evidence = evidence || telling(hot)
		switch {
		case hot.IsNumber(), hot.Type == bson.TypeArray, hot.Type == bson.TypeEmbeddedDocument:
			if !value.Same(hot, e.Value()) {
				names = append(names, e.Key())
			}
		}
	}
	if replaced && evidence {
		return nil
	}
	return names
}

func back(hot, cold bson.RawValue, proven bool) bool {
	if hot.Type == 0 {
		return false
	}
	ours, isArray := hot.ArrayOK()
	theirs, wasArray := cold.ArrayOK()
	if isArray && wasArray {
		a, _ := ours.Values()
		b, _ := theirs.Values()
		return proven || len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(x bson.RawValue) bool {
			return slices.ContainsFunc(b, func(y bson.RawValue) bool { return value.Same(x, y) })
		})
	}
	if old, was := cold.DocumentOK(); was {
		doc, is := hot.DocumentOK()
		fields, _ := old.Elements()
		return is && !slices.ContainsFunc(fields, func(e bson.RawElement) bool { return doc.Lookup(e.Key()).Type == 0 })
	}
	return true
}

// telling reports a value that an operator can make from nothing only by setting it.
func telling(hot bson.RawValue) bool {
	if doc, ok := hot.DocumentOK(); ok {
		values, _ := doc.Values()
		return slices.ContainsFunc(values, func(v bson.RawValue) bool { return !v.IsNumber() })
	}
	return hot.Type != 0 && !hot.IsNumber()
}

// contestedOnServer is contested as an expression; own and cold are expressions of documents.
func (c *core) contestedOnServer(own, cold any) bson.D {
	pairs := expr.Map(expr.Filter(expr.Op("$objectToArray", "$$theirs"), "field",
		expr.Op("$not", expr.Op("$in", "$$field.k", expr.Literal(c.inBoth())))), "field",
		expr.D("k", "$$field.k", "cold", "$$field.v", "hot", expr.Op("$arrayElemAt",
			expr.Filter(expr.Op("$objectToArray", "$$ours"), "own", expr.Op("$eq", "$$own.k", "$$field.k")), 0)))
	keys := func(doc string) bson.D { return expr.Map(expr.Op("$objectToArray", doc), "f", "$$f.k") }
	documentBack := expr.Cond(expr.IsType("$$pair.hot.v", "object"), expr.Op("$setIsSubset", keys("$$pair.cold"), keys("$$pair.hot.v")), false)
	proof := expr.Cond(expr.IsType("$$pair.cold", "object"),
		expr.Op("$and", expr.Op("$gt", expr.Op("$size", keys("$$pair.cold")), 1), documentBack), false)
	isBack := expr.Op("$switch", expr.D("branches", bson.A{
		expr.D("case", expr.IsType("$$pair.hot.v", "missing"), "then", false),
		expr.D("case", expr.Op("$and", expr.Op("$isArray", "$$pair.hot.v"), expr.Op("$isArray", "$$pair.cold")),
			"then", expr.Op("$or", "$$proven", expr.Op("$eq", "$$pair.hot.v", bson.A{}), expr.Op("$eq", "$$pair.cold", bson.A{}),
				expr.Op("$ne", expr.Op("$setIntersection", "$$pair.hot.v", "$$pair.cold"), bson.A{}))),
		expr.D("case", expr.IsType("$$pair.cold", "object"), "then", documentBack),
	}, "default", true))
	isNumber := func(v string) bson.D { return expr.Op("$isNumber", v) }
	isTelling := expr.Op("$switch", expr.D("branches", bson.A{
		expr.D("case", expr.IsType("$$pair.hot.v", "missing"), "then", false),
		expr.D("case", expr.IsType("$$pair.hot.v", "object"), "then", expr.Op("$anyElementTrue", bson.A{
			expr.Map(expr.Op("$objectToArray", "$$pair.hot.v"), "f", expr.Op("$not", bson.A{isNumber("$$f.v")}))})),
	}, "default", expr.Op("$not", bson.A{isNumber("$$pair.hot.v")})))
	some := func(test any) bson.D { return expr.Op("$anyElementTrue", bson.A{expr.Map("$$pairs", "pair", test)}) }
	replaced := expr.Let("proven", some(proof), expr.Op("$and",
		expr.Op("$allElementsTrue", bson.A{expr.Map("$$pairs", "pair", isBack)}), some(isTelling)))
	left := expr.Map(expr.Filter("$$pairs", "pair", expr.Op("$and",
		expr.Op("$or", isNumber("$$pair.hot.v"), expr.IsType("$$pair.hot.v", "array", "object")),
		expr.Op("$ne", "$$pair.hot.v", "$$pair.cold"))), "pair", "$$pair.k")
	none := expr.Op("$or", expr.Op("$eq", "$$ours", expr.Literal(bson.D{})), expr.Op("$eq", "$$theirs", expr.Literal(bson.D{})))
	return expr.Let("ours", own, expr.Let("theirs", cold,
		expr.Cond(none, bson.A{}, expr.Let("pairs", pairs, expr.Cond(replaced, bson.A{}, left)))))
}
