package paging

import (
	"bytes"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
)

// maxBranches is how many branches a filter with $in may become.
const maxBranches = 100

// branches writes the condition "sorted after the position at", or before it if
// backward, as filters that do not overlap and stand in the order of the result.
// Each fixes the first fields to their values at the position and lets the next
// one go on from there, so that each is a range of an index over the sort. If
// inclusive the position itself belongs to it.
func (o order) branches(at []bson.RawValue, backward, inclusive bool) []bson.D {
	out := []bson.D{}
	last := len(o) - 1
	for i := last; i >= 0; i-- {
		for _, condition := range beyond(at[i], o[i].desc != backward, inclusive && i == last, o[i].kind) {
			branch := make(bson.D, 0, i+1)
			for j := range i {
				branch = append(branch, bson.E{Key: o[j].path, Value: equal(at[j])})
			}
			out = append(out, append(branch, bson.E{Key: o[i].path, Value: condition}))
		}
	}
	return out
}

// end is a position behind every document.
func (o order) end() []bson.RawValue {
	out := make([]bson.RawValue, len(o))
	for i, key := range o {
		out[i].Type = bson.TypeMaxKey
		if key.desc {
			out[i].Type = bson.TypeMinKey
		}
	}
	return out
}

// where is the condition of a read: the filter of the source in some branches.
// nil branches means no keyset condition; none means that nothing matches.
func (s *source) where(branches []bson.D) any {
	switch {
	case branches == nil && s.filter == nil:
		return bson.D{}
	case branches == nil:
		return s.filter
	case s.filter == nil:
		return combine(nil, branches)
	case len(s.split) > 0 && len(s.split)*len(branches) <= maxBranches:
		return combine(s.split, branches)
	}
	return combine([]any{s.filter}, branches)
}

// combine puts the filters into every branch: what the root-level $or holds is
// then complete, and the server plans each branch by itself.
func combine(filters []any, branches []bson.D) any {
	if len(branches) == 0 {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}
	}
	var parts bson.A
	for _, branch := range branches {
		if len(filters) == 0 {
			parts = append(parts, branch)
		}
		for _, filter := range filters {
			parts = append(parts, bson.D{{Key: "$and", Value: bson.A{filter, branch}}})
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return bson.D{{Key: "$or", Value: parts}}
}

// split writes a filter that allows several values ($in) of some fields as
// filters that fix each to one; they are nil if there is no such field, or too
// many values. A planner that is to merge branches needs points in front of the
// sort.
func split(filter bson.Raw, fields []string) []any {
	elements, err := filter.Elements()
	if err != nil {
		return nil
	}
	out, found := []any{bson.D{}}, false
	for _, e := range elements {
		values := []bson.RawValue{e.Value()}
		if listed := scalars(e.Value()); len(listed) > 0 && slices.Contains(fields, e.Key()) {
			values, found = listed, true
		}
		if len(out)*len(values) > maxBranches {
			return nil
		}
		var longer []any
		for _, start := range out {
			for _, value := range values {
				longer = append(longer, append(slices.Clone(start.(bson.D)), bson.E{Key: e.Key(), Value: value}))
			}
		}
		out = longer
	}
	if !found {
		return nil
	}
	return out
}

// scalars gives the values of {$in: […]}, if that is all there is and none is a
// document, an array or a pattern.
func scalars(condition bson.RawValue) []bson.RawValue {
	doc, ok := condition.DocumentOK()
	if !ok {
		return nil
	}
	elements, err := doc.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != "$in" {
		return nil
	}
	list, ok := elements[0].Value().ArrayOK()
	if !ok {
		return nil
	}
	values, err := list.Values()
	if err != nil || slices.ContainsFunc(values, func(v bson.RawValue) bool {
		return v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray || v.Type == bson.TypeRegex
	}) {
		return nil
	}
	var out []bson.RawValue
	for _, v := range values {
		if !slices.ContainsFunc(out, v.Equal) {
			out = append(out, v)
		}
	}
	return out
}

// values reads the sort values of a document. What is missing is null.
func (o order) values(doc bson.Raw) ([]bson.RawValue, error) {
	out := make([]bson.RawValue, len(o))
	for i, key := range o {
		value, trouble := valueAt(doc, key.segments)
		if trouble != "" {
			return nil, fmt.Errorf("%w: sort field %q of the document with _id %s %s",
				ErrUnsortable, key.path, describeID(doc), trouble)
		}
		out[i] = value
	}
	return out, nil
}

func describeID(doc bson.Raw) string {
	id, _ := doc.LookupErr("_id")
	return rawvalue.Text(id)
}

// valueAt follows a dotted path. trouble says what is wrong with the value found.
func valueAt(doc bson.Raw, segments []string) (value bson.RawValue, trouble string) {
	null := bson.RawValue{Type: bson.TypeNull}
	for i, segment := range segments {
		value, err := doc.LookupErr(segment)
		if err != nil {
			return null, ""
		}
		switch {
		case value.Type == bson.TypeArray:
			return null, "holds an array"
		case i == len(segments)-1:
			if _, ok := bracketOf(value.Type); !ok {
				return null, "is of type " + value.Type.String()
			}
			if deeper(value, maxDepth) {
				return null, fmt.Sprintf("is nested more than %d levels deep", maxDepth)
			}
			return bson.RawValue{Type: value.Type, Value: bytes.Clone(value.Value)}, ""
		case value.Type != bson.TypeEmbeddedDocument:
			return null, ""
		}
		doc = value.Document()
	}
	return null, ""
}

// holdsText reports strings at any depth, which a collation may take for equal.
func holdsText(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol:
		return true
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		elements, err := bson.Raw(v.Value).Elements()
		return err == nil && slices.ContainsFunc(elements, func(e bson.RawElement) bool {
			return holdsText(e.Value())
		})
	}
	return false
}

// Filter gives the complete filter of the page that req asks for, for a query of
// your own with the sort of [Pager.Sort]: over is put into every branch. The
// document of the token itself is left out, so that a plain limit gives the page.
// Make tokens for what you read with [Pager.Token].
func (p *Pager[T]) Filter(over any, req Request) (bson.D, error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	if src.pipeline != nil {
		return nil, fmt.Errorf("paging: Filter: a pipeline has no filter; use Pipeline")
	}
	branches, err := p.requestBranches(src, req)
	if err != nil {
		return nil, err
	}
	switch filter := src.where(branches).(type) {
	case bson.D:
		return filter, nil
	default:
		return bson.D{{Key: "$and", Value: bson.A{filter}}}, nil
	}
}

// Sort gives the order in which the page that req asks for is read: the sort
// with `_id`, turned round for Before and FromEnd. Turn the documents round again
// after reading those.
func (p *Pager[T]) Sort(req Request) bson.D {
	return p.order.document(req.backward())
}

// Pipeline gives the stages of the page that req asks for, for an aggregation of
// your own: a pipeline given as over comes first, a filter becomes part of the
// $match; then $sort. Add $limit and what you like.
func (p *Pager[T]) Pipeline(over any, req Request) (mongo.Pipeline, error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	branches, err := p.requestBranches(src, req)
	if err != nil {
		return nil, err
	}
	return src.stages(branches, p.Sort(req), 0, 0), nil
}

// Token makes the token of a document that you read yourself: a bson.Raw or
// anything that encodes to a document with the sort fields. It can be used as
// After and as Before, with the same over.
func (p *Pager[T]) Token(over, document any) (string, error) {
	src, err := p.source(over)
	if err != nil {
		return "", err
	}
	raw, err := p.marshal(document)
	if err != nil {
		return "", fmt.Errorf("paging: %w: document: %w", ErrInvalidRequest, err)
	}
	values, err := p.keys(raw)
	if err == nil {
		err = p.fits(raw, values)
	}
	if err != nil {
		return "", fmt.Errorf("paging: %w", err)
	}
	return p.encode(src.hash, position{kind: kindItem, values: values}), nil
}

func (p *Pager[T]) requestBranches(src *source, req Request) ([]bson.D, error) {
	at, err := p.start(src, req)
	if err != nil {
		return nil, err
	}
	if at == nil {
		return nil, nil
	}
	return p.order.branches(at.values, req.backward(), at.inclusive), nil
}
