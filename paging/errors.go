package paging

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

var (
	// ErrInvalidToken says that a token is damaged, signed by another key, or
	// made for another list, order or direction. The text says which. Start
	// again from the first page.
	ErrInvalidToken = errors.New("invalid token")

	// ErrInvalidRequest says that a request contradicts itself or holds
	// something unreadable: the caller's fault, status 400 in a service.
	ErrInvalidRequest = errors.New("invalid request")

	// ErrUnsortable says that a document holds an array, undefined or a regular
	// expression where the sort needs one comparable value. The text names the
	// field and the document.
	ErrUnsortable = errors.New("unsortable value")

	// ErrCollatedID says that documents are sorted under a collation and have
	// `_id`s that may be equal under it; see Options.DistinctIDs.
	ErrCollatedID = errors.New("_id may tie under the collation")

	// ErrOutOfReach says that Jump was asked for a page more than
	// Options.Group pages away.
	ErrOutOfReach = errors.New("page out of reach")

	// ErrIndexConflict says that an existing index stands in the way of
	// EnsureIndexes.
	ErrIndexConflict = indexes.ErrConflict
)
