package paging

import "github.com/mongopatterns/mongopatterns/internal/fault"

var (
	// ErrInvalidToken says that a token is damaged, signed by another key, or
	// made for another list, order or direction. Start again from the first page.
	// It is an ErrInvalid too.
	ErrInvalidToken = fault.New("invalid token", fault.ErrInvalid)

	// ErrOutOfReach says that Request.Number is more than Options.Group pages
	// away from the page of Request.From. It is an ErrInvalid too.
	ErrOutOfReach = fault.New("page out of reach", fault.ErrInvalid)

	// ErrUnsortable says that a document, which it names, has no place in the order:
	// a sort field holds an array, undefined, a regular expression or a value nested
	// more than 100 levels deep, all together are too large for a token (48 KB), or
	// a text `_id` may tie under a collation (see Options.DistinctIDs).
	ErrUnsortable = fault.New("unsortable value", nil)
)
