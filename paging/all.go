package paging

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// All gives every document, in batches of req.Size (Default 500): from the
// beginning, or after the token of req.After; with FromEnd or Before from there
// back to the beginning, in reverse order. No cursor stays open between batches,
// so the loop may take hours. req.Count must be CountNone.
//
// An error comes once, and ends it.
//
// Cost: 1 round trip a batch on the index of Indexes, examining Size keys and
// one a branch; the last batch comes short or empty. With Sequential, up to one
// round trip a branch for a batch.
func (p *Pager[T]) All(ctx context.Context, over any, req Request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := p.all(ctx, over, req, yield); err != nil {
			var zero T
			yield(zero, err)
		}
	}
}

func (p *Pager[T]) all(ctx context.Context, over any, req Request, yield func(T, error) bool) error {
	src, err := p.source(over)
	if err != nil {
		return err
	}
	if req.Count != CountNone {
		return fmt.Errorf("paging: %w: All counts nothing", ErrInvalidRequest)
	}
	if req.Size == 0 {
		req.Size = defaultBatch
	}
	size, err := p.size(req.Size)
	if err != nil {
		return err
	}
	window := span{backward: req.backward(), limit: int64(size)}
	at, err := p.start(src, req)
	if err != nil {
		return err
	}
	if at != nil {
		window.at, window.inclusive = at.values, at.inclusive
	}
	for {
		docs, err := p.fetch(ctx, src, window)
		if err != nil {
			return err
		}
		var values []bson.RawValue
		for _, raw := range docs.raw {
			if values, err = p.keys(raw); err != nil {
				return fmt.Errorf("paging: %w", err)
			}
			var item T
			if err := p.decodeItem(docs.cursor, raw, &item); err != nil {
				return err
			}
			if !yield(item, nil) {
				return nil
			}
		}
		if len(docs.raw) < size {
			return nil
		}
		window.at, window.inclusive = values, false
	}
}

// Pages walks page by page from the one req asks for to the end of the list, or
// to its beginning for Before and FromEnd. Next (or Prev) of the last page seen
// goes on later. A count is made for the first page only.
//
// An error comes once, and ends it.
//
// Cost: that of Page for each page.
func (p *Pager[T]) Pages(ctx context.Context, over any, req Request) iter.Seq2[*Page[T], error] {
	return func(yield func(*Page[T], error) bool) {
		backward := req.backward()
		for {
			page, err := p.Page(ctx, over, req)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) {
				return
			}
			req = Request{Size: req.Size, After: page.Next}
			if backward {
				req = Request{Size: req.Size, Before: page.Prev}
			}
			if req.After == "" && req.Before == "" {
				return
			}
		}
	}
}
