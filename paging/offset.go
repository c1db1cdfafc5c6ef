package paging

import (
	"context"
	"fmt"
	"math"
)

// NumberedRequest asks for a page by its number.
type NumberedRequest struct {
	Number int64 // from 1
	Size   int   // Default Options.PageSize.
	Count  Count // Default CountNone; CountExact gives Pages
}

// NumberedPage is a page that knows its number. Its tokens are those of any
// page, so a list can go on by keyset from here.
type NumberedPage[T any] struct {
	Page[T]

	Number int64 `json:"number"`
	Pages  int64 `json:"pages,omitempty"` // number of pages; 0 unless counted exactly

	// GroupFirst and GroupLast are the page numbers of the group of
	// Options.Group pages that holds this one: the buttons to show. Jump reaches
	// each of them from here. If Pages is known the group is cut to it, and
	// beyond the last page it is that of the last page.
	GroupFirst int64 `json:"groupFirst"`
	GroupLast  int64 `json:"groupLast"`

	// Position is what Jump starts from. It is empty if nothing was found.
	Position string `json:"position,omitempty"`

	reach int64 // how far Jump goes, if this page came from it
}

// Numbered reads page Number by skipping all before it.
//
// Cost: 1 round trip on the index of Indexes, examining Number·Size+1 keys. One
// more, with limit 1, for an empty page other than the first. CountExact is one
// more, except on the last page, which shows the total.
func (p *Pager[T]) Numbered(ctx context.Context, over any, req NumberedRequest) (*NumberedPage[T], error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	size, err := p.size(req.Size)
	if err != nil {
		return nil, err
	}
	if req.Number < 1 || req.Number > (math.MaxInt64-maxSize)/int64(size) {
		return nil, fmt.Errorf("paging: %w: page number %d", ErrInvalidRequest, req.Number)
	}
	window := span{skip: (req.Number - 1) * int64(size)}
	return p.numbered(ctx, src, window, size, position{number: req.Number, size: size}, req.Count)
}

// numbered reads at most show documents as the page that at tells the number and
// size of.
func (p *Pager[T]) numbered(ctx context.Context, src *source, window span, show int, at position, count Count) (*NumberedPage[T], error) {
	page, end, err := p.load(ctx, src, window, show, count)
	if err != nil {
		return nil, err
	}
	number, size := at.number, at.size
	out := &NumberedPage[T]{Page: *page, Number: number}
	if end != nil {
		at.kind, at.values, at.shown = kindPage, end, len(page.Items)
		out.Position = p.encode(src.hash, at)
	}
	pages := int64(math.MaxInt64)
	if page.Total != nil && page.Total.Kind == TotalExact {
		out.Pages = (page.Total.N + int64(size) - 1) / int64(size)
		pages = max(out.Pages, 1)
	}
	group := int64(p.opts.Group)
	number = min(number, pages)
	out.GroupFirst = number - (number-1)%group
	out.GroupLast = min(out.GroupFirst+group-1, pages)
	return out, nil
}
