package paging

import "github.com/mongopatterns/mongopatterns/internal/fault"

var (
	// ErrInvalidToken says that a token is damaged, signed by another key, or
	// made for another list, order or direction. The text says which. Start
	// again from the first page. It is an ErrInvalid too.
	ErrInvalidToken = fault.New("invalid token", fault.ErrInvalid)

	// ErrOutOfReach says that Request.Number is more than Options.Group pages
	// away from the page of Request.From. It is an ErrInvalid too.
	ErrOutOfReach = fault.New("page out of reach", fault.ErrInvalid)

	// ErrUnsortable says that a document cannot be given a place in the order:
	// it holds an array, undefined or a regular expression where the sort needs
	// one comparable value, a value nested more than 100 levels deep or too large
	// for a token (48 KB for all sort fields together), or a text `_id` that may
	// tie under a collation (see Options.DistinctIDs). The text names the field
	// and the document.
	ErrUnsortable = fault.New("unsortable value", nil)
)
