package paging

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Request asks for one page, by a token or a number, or for the first one.
type Request struct {
	// Size is the number of documents. Default Options.PageSize. With From, it is the size of that
	// page and must not differ.
	Size int

	// After is a token: the page begins after its document.
	After string

	// Before is a token: the page ends before its document.
	Before string

	// FromEnd asks for the last page, without a token.
	FromEnd bool

	// Number asks for a page by its number, from 1, without a token. The server
	// walks all that it skips.
	Number int64

	// From is the Position of a numbered page. The server walks only what lies between that page
	// and page Number, at most Options.Group pages in either direction. Beyond that the call
	// returns ErrOutOfReach. If the list changes before that page, pages still follow each other
	// without gaps, but their numbers are off.
	From string

	// Count says whether to count the documents of the whole list. Default 0: no.
	Count Count
}

func (r Request) backward() bool { return r.Before != "" || r.FromEnd }

// Count says how the documents of a whole list are counted. 0 does not count; n > 0 counts up to n,
// which is enough for "1,000+". A positive Count and CountExact are aggregations, in which a filter
// cannot hold $near or $where.
//
// Cost: 1 round trip, none if the page shows the whole list.
//   - CountExact walks all matching index keys, or, without a filter, all documents; a positive one at most one more
//     than its number; CountEstimated none.
type Count int64

const (
	// CountExact counts every matching document.
	CountExact Count = -1
	// CountEstimated takes the number in the metadata, for whole collections and not in transactions. On a
	// sharded cluster it may count orphaned documents, which are copies of a chunk that is moving or has
	// moved.
	CountEstimated Count = -2
)

// Total is the number of documents of a list, exact unless it says otherwise.
type Total struct {
	N         int64 `json:"n"`
	Estimated bool  `json:"estimated,omitempty"` // it is an estimate
	AtLeast   bool  `json:"atLeast,omitempty"`   // there are this many or more
}

// Page is a part of a list, always in the order of the sort.
type Page[T any] struct {
	Items []T `json:"items"` // never nil

	// HasNext and HasPrev say exactly whether there are documents after and
	// before the page.
	HasNext bool `json:"hasNext"`
	HasPrev bool `json:"hasPrev"`

	// Next goes into Request.After, and Prev into Request.Before. They are empty if there is no
	// such page.
	Next string `json:"next,omitempty"`
	Prev string `json:"prev,omitempty"`

	// Total is nil unless a count was asked for.
	Total *Total `json:"total,omitempty"`

	// What follows is set for pages asked for by number. Pages is the number of
	// pages, 0 unless counted exactly.
	Number int64 `json:"number,omitempty"`
	Pages  int64 `json:"pages,omitempty"`

	// GroupFirst and GroupLast are the first and last page number of the group of Options.Group
	// pages that holds this one. These are the buttons to show, and Position reaches them. If Pages
	// is known, they are not higher than Pages.
	GroupFirst int64 `json:"groupFirst,omitempty"`
	GroupLast  int64 `json:"groupLast,omitempty"`

	// Position goes into Request.From. It is empty if nothing was found.
	Position string `json:"position,omitempty"`

	cursor func(i int) string
}

// Cursor returns the token of the item at index i, for After and for Before. It is empty for a Page
// that no Pager made.
func (p *Page[T]) Cursor(i int) string {
	_ = p.Items[i]
	if p.cursor == nil {
		return ""
	}
	return p.cursor(i)
}

// Page reads the page that req asks for. over is a filter or a [mongo.Pipeline], and nil means
// every document. Tokens work only with the over that they were made with. An empty page has the
// tokens to go back from where it is.
//
// Cost: 1 round trip on the index of Indexes, examining Size plus 1 or 2 keys and one for each branch of the $or.
//   - 1 more, with limit 1, if the document of the token is gone or has moved, the token came from an empty page, or
//     a page by number is empty; a count is 1 more.
//
// Cost: by Number it walks all skipped keys; with From at most Group·Size of them.
// The manual has the rest.
func (p *Pager[T]) Page(ctx context.Context, over any, req Request) (page *Page[T], err error) {
	ctx = comment.Call(ctx, "paging.Page")
	defer fault.In(&err, "paging.Page")
	f, cursor, err := p.core.page(ctx, over, req)
	if err != nil {
		return nil, err
	}
	out := &Page[T]{
		Items: make([]T, len(f.Items)), HasNext: f.HasNext, HasPrev: f.HasPrev, Next: f.Next, Prev: f.Prev,
		Total: f.Total, Number: f.Number, Pages: f.Pages, GroupFirst: f.GroupFirst, GroupLast: f.GroupLast,
		Position: f.Position, cursor: f.cursor,
	}
	for i, raw := range f.Items {
		if err := p.core.decodeItem(cursor, raw, &out.Items[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// page reads a page, and returns a cursor that decodes its items.
func (p *core) page(ctx context.Context, over any, req Request) (*Page[bson.Raw], *mongo.Cursor, error) {
	src, err := p.source(over)
	if err != nil {
		return nil, nil, err
	}
	switch estimated := req.Count == CountEstimated; {
	case estimated && (src.filter != nil || src.pipeline != nil):
		return nil, nil, fault.Invalid("Request.Count: CountEstimated counts a whole collection, not a filter or pipeline")
	case estimated && txn.Running(ctx):
		return nil, nil, fault.Invalid("Request.Count: the server refuses CountEstimated in a transaction: use CountExact")
	}
	window, at, err := p.window(src, req)
	if err != nil {
		return nil, nil, err
	}
	out, cursor, err := p.load(ctx, src, window)
	if err != nil {
		return nil, nil, err
	}
	more := out.HasNext
	if window.backward {
		more = out.HasPrev
	}
	known := int64(-1) // the total, if the page shows it
	if window.at == nil && !more && (len(out.Items) > 0 || window.skip == 0) {
		known = window.skip + int64(len(out.Items))
	}
	if out.Total, err = p.total(ctx, src, req.Count, known); err != nil || req.Number == 0 {
		return out, cursor, err
	}
	out.Position = req.From
	if n := len(out.Items); n > 0 {
		at.kind, at.shown = kindPage, n
		at.place, _ = p.place(out.Items[n-1]) // load has read it
		out.Position = p.encode(src.hash, at)
	}
	p.number(out, at)
	return out, cursor, nil
}

// number says of a page what follows from its number and size, which at holds.
func (p *core) number(page *Page[bson.Raw], at position) {
	page.Number = at.number
	pages := int64(math.MaxInt64)
	if page.Total != nil && !page.Total.Estimated && !page.Total.AtLeast {
		size := int64(at.size)
		page.Pages = (page.Total.N + size - 1) / size
		pages = max(page.Pages, 1)
	}
	group, n := int64(p.opts.Group), min(at.number, pages)
	page.GroupFirst = n - (n-1)%group
	page.GroupLast = min(page.GroupFirst+group-1, pages)
}

func (r Request) check() error {
	ways := 0
	for _, on := range []bool{r.After != "", r.Before != "", r.FromEnd, r.Number != 0} {
		if on {
			ways++
		}
	}
	switch {
	case ways > 1:
		return fault.Invalid("Request: set only one of After, Before, FromEnd and Number")
	case r.Number < 0:
		return fault.Invalid("Request.Number: it is %d and must not be negative", r.Number)
	case r.Number == 0 && r.From != "":
		return fault.Invalid("Request.From: it needs a Number")
	case r.Size < 0 || r.Size > maxSize:
		return fault.Invalid("Request.Size: it is %d and must be between 0 and %d", r.Size, maxSize)
	case r.Count < CountEstimated:
		return fault.Invalid("Request.Count: %d is not a way to count", r.Count)
	}
	return nil
}

// window says what a request is to read, and for a page by number its number and
// size.
func (p *core) window(src *source, req Request) (span, position, error) {
	err := req.check()
	var from position // without a token the beginning, or end, of the list
	switch {
	case err != nil:
	case req.From != "":
		from, err = p.decode(src.hash, req.From, kindPage)
		if err == nil && req.Size != 0 && req.Size != from.size {
			err = fault.Invalid("Request.From is a position among pages of %d: use the same Size", from.size)
		}
	case req.After != "":
		from, err = p.decode(src.hash, req.After, kindItem, kindNext)
	case req.Before != "":
		from, err = p.decode(src.hash, req.Before, kindItem, kindPrev)
	}
	if err != nil {
		return span{}, from, err
	}
	size := cmp.Or(req.Size, from.size, p.opts.PageSize)
	at := position{number: req.Number, size: size}
	window := span{at: from.place, inclusive: from.inclusive, backward: req.backward(), limit: int64(size)}
	distance, group := req.Number-from.number, int64(p.opts.Group)
	switch {
	case req.Number == 0:
	case req.From == "" && req.Number > (math.MaxInt64-maxSize)/int64(size):
		return span{}, at, fault.Invalid("Request.Number: %d is too large", req.Number)
	case req.From != "" && (distance > group || -distance > group):
		return span{}, at, fmt.Errorf("%w: page %d is too far from page %d, because groups have %d",
			ErrOutOfReach, req.Number, from.number, group)
	case distance > 0:
		window.skip = (distance - 1) * int64(size)
	default: // back, beginning with the last document of the position's page
		window.backward, window.inclusive = true, true
		if distance == 0 {
			window.limit = int64(from.shown)
		} else {
			window.skip = int64(from.shown) + (-distance-1)*int64(size)
		}
	}
	return window, at, nil
}

// load reads a span as a page, and finds out what lies on both sides of it.
func (p *core) load(ctx context.Context, src *source, window span) (*Page[bson.Raw], *mongo.Cursor, error) {
	size := int(window.limit)
	window.limit++
	docs, behind, err := p.read(ctx, src, window)
	if err != nil {
		return nil, nil, err
	}
	more := len(docs.raw) > size
	items := docs.raw[:min(size, len(docs.raw))]
	if window.backward {
		slices.Reverse(items)
		more, behind = behind, more
	}
	last := make(place, len(p.order))
	for _, raw := range items {
		if err := p.readPlace(last, raw, p.projection.order); err != nil {
			return nil, nil, err
		}
	}
	prev, next := position{kind: kindPrev}, position{kind: kindNext}
	switch {
	case len(items) > 0:
		prev.place, _ = p.place(items[0])
		next.place = last
	case window.at != nil && (window.skip == 0 || window.backward):
		// Nothing here: the way back starts at the position itself, with its
		// document if the page would have been without it.
		prev.place, next.place = window.at, window.at
		prev.inclusive, next.inclusive = !window.inclusive, !window.inclusive
	}
	// Where all was skipped there is no place: the way back starts at the end.
	out := &Page[bson.Raw]{Items: items, HasNext: more, HasPrev: behind}
	if more {
		out.Next = p.encode(src.hash, next)
	}
	if behind {
		out.Prev = p.encode(src.hash, prev)
	}
	out.cursor = func(i int) string {
		at, _ := p.place(items[i])
		return p.encode(src.hash, position{kind: kindItem, place: at})
	}
	return out, docs.cursor, nil
}

func (p *core) decodeItem(c *mongo.Cursor, raw bson.Raw, item any) error {
	c.Current = p.projection.strip(raw)
	// An error names the document also where the user's projection leaves out _id.
	return fault.Of(raw.Lookup(p.projection.order[p.id].segments...), codec.Unfit(item, c.Decode(item)))
}

// All yields every document, in batches of req.Size (default 500), from the beginning or after the
// token of req.After. With FromEnd or Before it goes from there back to the beginning, in reverse
// order. No cursor stays open between batches, so the loop may take hours. req.Number and req.Count
// must be zero.
//
// Cost: 1 round trip for each batch on the index of Indexes, examining Size keys and one for each branch of the $or.
//   - The last batch comes short or empty.
func (p *Pager[T]) All(ctx context.Context, over any, req Request) iter.Seq2[T, error] {
	ctx = comment.Call(ctx, "paging.All")
	return fault.Seq("paging.All", func(yield func(T, error) bool) {
		if err := p.all(ctx, over, req, yield); err != nil {
			var zero T
			yield(zero, err)
		}
	})
}

func (p *Pager[T]) all(ctx context.Context, over any, req Request, yield func(T, error) bool) error {
	c := p.core
	src, err := c.source(over)
	if err != nil {
		return err
	}
	if req.Count != 0 || req.Number != 0 {
		return fault.Invalid("Request: All takes neither Count nor Number")
	}
	if req.Size == 0 {
		req.Size = defaultBatch
	}
	window, _, err := c.window(src, req)
	if err != nil {
		return err
	}
	for {
		docs, err := c.fetch(ctx, src, window)
		if err != nil {
			return err
		}
		at := make(place, len(c.order))
		for _, raw := range docs.raw {
			if err := c.readPlace(at, raw, c.projection.order); err != nil {
				return err
			}
			var item T
			if err := c.decodeItem(docs.cursor, raw, &item); err != nil {
				return err
			}
			if !yield(item, nil) {
				return nil
			}
		}
		if int64(len(docs.raw)) < window.limit {
			return nil
		}
		window.at, window.inclusive = at, false
	}
}
