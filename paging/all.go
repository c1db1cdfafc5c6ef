package paging

import (
	"context"
	"iter"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// All gives every document, in batches of req.Size (Default 500): from the
// beginning, or after the token of req.After; with FromEnd or Before from there
// back to the beginning, in reverse order. No cursor stays open between batches,
// so the loop may take hours. req.Number and req.Count must be zero.
//
// Cost: 1 round trip a batch on the index of Indexes, examining Size keys and
// one a branch; the last batch comes short or empty.
func (p *Pager[T]) All(ctx context.Context, over any, req Request) iter.Seq2[T, error] {
	return fault.Seq("paging: all", func(yield func(T, error) bool) {
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
		return fault.Invalid("All takes neither Count nor Number")
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
