package paging

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Request asks for one page.
type Request struct {
	// Size is the number of documents. Default Options.PageSize.
	Size int

	// After is a token: the page begins behind its document.
	After string

	// Before is a token: the page ends before its document.
	Before string

	// FromEnd asks for the last page, without a token.
	FromEnd bool

	// Count says whether to count the documents of the whole list. Default
	// CountNone.
	Count Count
}

func (r Request) backward() bool { return r.Before != "" || r.FromEnd }

// Page is a part of a list, always in the order of the sort.
type Page[T any] struct {
	Items []T `json:"items"` // never nil

	// HasNext and HasPrev say exactly whether there are documents behind and
	// before the page.
	HasNext bool `json:"hasNext"`
	HasPrev bool `json:"hasPrev"`

	// Next goes into Request.After, Prev into Request.Before. They are empty
	// where there is nothing.
	Next string `json:"next,omitempty"`
	Prev string `json:"prev,omitempty"`

	// Total is nil unless a count was asked for.
	Total *Total `json:"total,omitempty"`

	cursor func(i int) string
}

// Cursor gives the token of the item at index i, for After and for Before. It
// panics if there is no such item, as indexing Items does. It is empty for pages
// that no Pager made.
func (p *Page[T]) Cursor(i int) string {
	_ = p.Items[i]
	if p.cursor == nil {
		return ""
	}
	return p.cursor(i)
}

// Page reads the page that req asks for. over is a filter or a [mongo.Pipeline];
// nil is every document. Tokens work with the over they were made with.
//
// A page that turns out empty has the tokens to go back from where it is.
//
// Cost: 1 round trip on the index of Indexes, examining Size plus 1 or 2 keys
// and one or two a branch, and a branch is one for each value if the filter gives
// an Equality field several. 1 more, with limit 1, when the document of the token
// is gone or the token came from an empty page; 2 more when the sort values of
// the document changed, or another with an `_id` that may be equal is there. A
// count is 1 more. With Sequential a read is up to one round trip a branch. A
// smaller BatchSize in Options.Find, or a page of more than 16 MB, takes more
// round trips. A pipeline of $match stages alone costs the same; another one
// examines what its stages do. Nothing is written.
func (p *Pager[T]) Page(ctx context.Context, over any, req Request) (*Page[T], error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	at, err := p.start(src, req)
	if err != nil {
		return nil, err
	}
	size, err := p.size(req.Size)
	if err != nil {
		return nil, err
	}
	window := span{backward: req.backward()}
	if at != nil {
		window.at, window.inclusive = at.values, at.inclusive
	}
	page, _, err := p.load(ctx, src, window, size, req.Count)
	return page, err
}

// start reads the token of a request; nil is the beginning, or end, of the list.
func (p *Pager[T]) start(src *source, req Request) (*position, error) {
	switch {
	case req.After != "" && req.Before != "":
		return nil, fmt.Errorf("paging: %w: After and Before exclude each other", ErrInvalidRequest)
	case req.FromEnd && (req.After != "" || req.Before != ""):
		return nil, fmt.Errorf("paging: %w: FromEnd excludes After and Before", ErrInvalidRequest)
	case req.After != "":
		return p.decode(src.hash, req.After, kindItem, kindNext)
	case req.Before != "":
		return p.decode(src.hash, req.Before, kindItem, kindPrev)
	}
	return nil, nil
}

func (p *Pager[T]) size(asked int) (int, error) {
	switch {
	case asked == 0:
		return p.opts.PageSize, nil
	case asked < 0 || asked > maxSize:
		return 0, fmt.Errorf("paging: %w: page size %d", ErrInvalidRequest, asked)
	}
	return asked, nil
}

// span is a stretch of a list: limit documents from a position, or from one end
// (at == nil), in either direction, after leaving out skip.
type span struct {
	at        []bson.RawValue
	inclusive bool
	backward  bool
	skip      int64
	limit     int64
	keysOnly  bool
}

// load reads a page and finds out what lies on both sides of it. It also gives
// the position of the last item, or nil.
func (p *Pager[T]) load(ctx context.Context, src *source, window span, size int, count Count) (*Page[T], []bson.RawValue, error) {
	if err := p.checkCount(src, count); err != nil {
		return nil, nil, err
	}
	window.limit = int64(size) + 1
	docs, behind, err := p.read(ctx, src, window)
	if err != nil {
		return nil, nil, err
	}
	more := len(docs.raw) > size
	if more {
		docs.raw = docs.raw[:size]
	}
	total := int64(-1) // what the page shows by itself
	if window.at == nil && !more && (len(docs.raw) > 0 || window.skip == 0) {
		total = window.skip + int64(len(docs.raw))
	}
	if window.backward {
		slices.Reverse(docs.raw)
		more, behind = behind, more
	}
	page := &Page[T]{Items: make([]T, len(docs.raw)), HasNext: more, HasPrev: behind}
	values := make([][]bson.RawValue, len(docs.raw))
	for i, raw := range docs.raw {
		if values[i], err = p.keys(raw); err == nil {
			err = p.fits(raw, values[i])
		}
		if err != nil {
			return nil, nil, fmt.Errorf("paging: %w", err)
		}
		if err := p.decodeItem(docs.cursor, raw, &page.Items[i]); err != nil {
			return nil, nil, err
		}
	}
	page.cursor = func(i int) string {
		return p.encode(src.hash, position{kind: kindItem, values: values[i]})
	}
	first, last := position{kind: kindPrev}, position{kind: kindNext}
	var end []bson.RawValue
	switch {
	case len(values) > 0:
		first.values, last.values = values[0], values[len(values)-1]
		end = last.values
	case window.at != nil:
		// Nothing here: the way back starts at the position itself, with its
		// document if the page would have been without it.
		first.values, last.values = window.at, window.at
		first.inclusive, last.inclusive = !window.inclusive, !window.inclusive
	default: // all was skipped: the way back starts at the end
		first.values, first.inclusive = p.order.end(), true
	}
	if page.HasNext && last.values != nil {
		page.Next = p.encode(src.hash, last)
	}
	if page.HasPrev && first.values != nil {
		page.Prev = p.encode(src.hash, first)
	}
	if page.Total, err = p.total(ctx, src, count, total); err != nil {
		return nil, nil, err
	}
	return page, end, nil
}

// read fetches a span and says whether anything lies behind it, on the side it
// comes from.
func (p *Pager[T]) read(ctx context.Context, src *source, window span) (documents, bool, error) {
	exclusive := window.at != nil && !window.inclusive
	if exclusive && window.skip == 0 {
		// Start at the document of the position: if it is there, it lies behind.
		probing := window
		probing.inclusive = true
		probing.limit++
		docs, err := p.fetch(ctx, src, probing)
		if err != nil {
			return documents{}, false, err
		}
		switch p.relate(docs, window.at) {
		case same:
			docs.raw = docs.raw[1:]
			return docs, true, nil
		case other:
			behind, err := p.exists(ctx, src, window)
			return docs, behind, err
		}
		// It has changed, and the server alone can tell whether what is there
		// now still stands at the position.
	}
	docs, err := p.fetch(ctx, src, window)
	switch {
	case err != nil:
		return documents{}, false, err
	case window.skip > 0 && len(docs.raw) > 0:
		return docs, true, nil
	case window.skip == 0 && window.at == nil:
		return docs, false, nil
	}
	behind, err := p.exists(ctx, src, window)
	return docs, behind, err
}

// exists looks for a document on the side that the span comes from.
func (p *Pager[T]) exists(ctx context.Context, src *source, window span) (bool, error) {
	probe := span{at: window.at, inclusive: !window.inclusive, backward: !window.backward, limit: 1, keysOnly: true}
	docs, err := p.fetch(ctx, src, probe)
	return len(docs.raw) > 0, err
}

type relation int

const (
	same    relation = iota // the document of the position, unchanged
	other                   // another document
	changed                 // the document of the position with other values, or one with an equal _id
)

// relate compares the first document read with the position.
func (p *Pager[T]) relate(docs documents, at []bson.RawValue) relation {
	if len(docs.raw) == 0 {
		return other
	}
	values, err := p.order.values(docs.raw[0])
	if err != nil {
		return other
	}
	if slices.EqualFunc(values, at, sameValue) {
		return same
	}
	if id := p.order.index("_id"); mayEqual(values[id], at[id], p.collated) {
		return changed
	}
	return other
}

// documents are raw results and a cursor that decodes them as the client would.
type documents struct {
	raw    []bson.Raw
	cursor *mongo.Cursor
}

func (p *Pager[T]) decodeItem(cursor *mongo.Cursor, raw bson.Raw, item *T) error {
	stripped, err := without(raw, p.projection.strip)
	if err == nil {
		cursor.Current = stripped
		err = cursor.Decode(item)
	}
	if err != nil {
		return fmt.Errorf("paging: decode the document with _id %s: %w", describeID(raw), err)
	}
	return nil
}

// fetch reads a span by the strategy.
func (p *Pager[T]) fetch(ctx context.Context, src *source, window span) (documents, error) {
	var out documents
	sort := p.order.document(window.backward)
	if window.at == nil {
		err := out.append(ctx, src, nil, sort, window.skip, window.limit, window.keysOnly)
		return out, err
	}
	branches := p.order.branches(window.at, window.backward, window.inclusive)
	if len(branches) == 0 {
		return out, nil
	}
	if p.opts.Strategy == Merged {
		err := out.append(ctx, src, branches, sort, window.skip, window.limit, window.keysOnly)
		return out, err
	}
	skip := window.skip
	for i, branch := range branches {
		had := len(out.raw)
		one := []bson.D{branch}
		if err := out.append(ctx, src, one, sort, skip, window.limit-int64(had), window.keysOnly); err != nil {
			return out, err
		}
		switch {
		case int64(len(out.raw)) == window.limit:
			return out, nil
		case len(out.raw) > had:
			skip = 0
		case skip > 0 && i < len(branches)-1:
			passed, err := p.count(ctx, src, one, skip)
			if err != nil {
				return out, err
			}
			skip -= passed
		}
	}
	return out, nil
}

func (d *documents) append(ctx context.Context, src *source, branches []bson.D, sort bson.D, skip, limit int64, keysOnly bool) error {
	cursor, err := src.open(ctx, branches, sort, skip, limit, keysOnly)
	if err != nil {
		return fmt.Errorf("paging: %w", err)
	}
	defer closeCursor(ctx, cursor)
	for cursor.Next(ctx) {
		d.raw = append(d.raw, bytes.Clone(cursor.Current))
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("paging: %w", err)
	}
	if d.cursor == nil {
		d.cursor = cursor
	}
	return nil
}
