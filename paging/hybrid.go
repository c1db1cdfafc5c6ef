package paging

import (
	"context"
	"fmt"
)

// Jump reads page Number starting from the Position of another numbered page: by
// keyset from there, and a skip of the pages in between. It
// goes at most Options.Group pages in either direction, further is
// ErrOutOfReach, so that the skip never exceeds one group however long the list
// is. An empty from is the beginning of the list.
//
// From page 10 (10 a page, sorted by a uniform `_id`, last `_id` 100) to page 13
// this sends {_id: {$gt: 100}} with skip 20.
//
// Numbers count from where the position was: if the list changed before it,
// pages reached from it keep joining up with it, and their numbers are off
// against Numbered.
//
// Size 0 means that of the position (Default Options.PageSize without one);
// another one is refused.
//
// Cost: 1 round trip on the index of Indexes, examining at most
// (Group+1)·Size+1 keys and one a branch. To the page next to the position it
// costs what Page does; reading the position's own page again, or finding
// nothing, is 1 more with limit 1. A count is one more. With Sequential, up to
// one round trip a branch, and one more for each branch skipped whole.
func (p *Pager[T]) Jump(ctx context.Context, over any, from string, req NumberedRequest) (*NumberedPage[T], error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	at := &position{} // page 0, of no documents
	if from != "" {
		if at, err = p.decode(src.hash, from, kindPage); err != nil {
			return nil, err
		}
		if req.Size != 0 && req.Size != at.size {
			return nil, fmt.Errorf("paging: %w: the position is for pages of %d", ErrInvalidRequest, at.size)
		}
		req.Size = at.size
	}
	size, err := p.size(req.Size)
	if err != nil {
		return nil, err
	}
	window, show := span{at: at.values}, size
	switch distance := req.Number - at.number; {
	case req.Number < 1:
		return nil, fmt.Errorf("paging: %w: page number %d", ErrInvalidRequest, req.Number)
	case distance > int64(p.opts.Group) || -distance > int64(p.opts.Group):
		return nil, fmt.Errorf("paging: %w: page %d from page %d, and groups have %d",
			ErrOutOfReach, req.Number, at.number, p.opts.Group)
	case distance > 0:
		window.skip = (distance - 1) * int64(size)
	default: // back, beginning with the last document of the position's page
		window.backward, window.inclusive = true, true
		if show = at.shown; distance < 0 {
			window.skip = int64(at.shown) + (-distance-1)*int64(size)
			show = size
		}
	}
	page, err := p.numbered(ctx, src, window, show, position{number: req.Number, size: size}, req.Count)
	if err != nil {
		return nil, err
	}
	page.reach = int64(p.opts.Group)
	if page.Position == "" {
		page.Position = from
	}
	return page, nil
}
