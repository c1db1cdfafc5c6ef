package paging

import (
	"context"
	"fmt"
)

// Jump reads page Number starting from position, the Position of another
// numbered page: by keyset from there, and a skip of the pages in between. It
// goes at most Options.Group pages in either direction, further is
// ErrOutOfReach, so that the skip never exceeds one group however long the list
// is. An empty position is the beginning of the list.
//
// From page 10 (10 a page, sorted by a uniform `_id`, last `_id` 100) to page 13
// this sends {_id: {$gt: 100}} with skip 20.
//
// Numbers count from where the position was: if the list changed before it,
// pages reached from it keep joining up with it, and their numbers are off
// against Numbered.
//
// Size 0 means that of the position; another one is refused.
//
// Cost: 1 round trip on the index of Indexes, examining at most
// (Group+1)·Size+1 keys and one a branch. To the page next to the position it
// costs what Page does; reading the position's own page again, or finding
// nothing, is 1 more with limit 1. A count is one more. With Sequential, up to
// one round trip a branch, and one more for each branch skipped whole.
func (p *Pager[T]) Jump(ctx context.Context, over any, position string, req NumberedRequest) (*NumberedPage[T], error) {
	src, err := p.source(over)
	if err != nil {
		return nil, err
	}
	window, size, current := span{}, req.Size, int64(0)
	if position != "" {
		at, err := p.decode(src.hash, position, kindPage)
		if err != nil {
			return nil, err
		}
		if size != 0 && size != at.size {
			return nil, fmt.Errorf("paging: %w: the position is for pages of %d", ErrInvalidRequest, at.size)
		}
		window.at, size, current = at.values, at.size, at.number
	}
	if size, err = p.size(size); err != nil {
		return nil, err
	}
	switch distance := req.Number - current; {
	case req.Number < 1:
		return nil, fmt.Errorf("paging: %w: page number %d", ErrInvalidRequest, req.Number)
	case distance > int64(p.opts.Group) || -distance > int64(p.opts.Group):
		return nil, fmt.Errorf("paging: %w: page %d from page %d, and groups have %d",
			ErrOutOfReach, req.Number, current, p.opts.Group)
	case distance > 0:
		window.skip = (distance - 1) * int64(size)
	default: // back, beginning with the document of the position
		window.backward, window.inclusive = true, true
		window.skip = -distance * int64(size)
	}
	page, err := p.numbered(ctx, src, window, req.Number, size, req.Count, position)
	if err != nil {
		return nil, err
	}
	page.reach = int64(p.opts.Group)
	return page, nil
}
