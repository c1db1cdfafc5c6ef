package paging

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
)

var (
	// ErrInvalidToken says that a token is damaged, signed by another key, or
	// made for another list, order or direction. The text says which. Start
	// again from the first page. It is an ErrInvalidRequest too.
	ErrInvalidToken error = requestError("invalid token")

	// ErrInvalidRequest says that a request contradicts itself or holds
	// something unreadable, or that an argument makes no sense: the caller's
	// fault, status 400 in a service.
	// errors.Is finds it in ErrInvalidToken and ErrOutOfReach as well.
	ErrInvalidRequest = errors.New("invalid request")

	// ErrUnsortable says that a document holds an array, undefined or a regular
	// expression where the sort needs one comparable value, or a value that is
	// nested more than 100 levels deep or too large for a token (48 KB for all
	// sort fields together). The text names the field and the document.
	ErrUnsortable = errors.New("unsortable value")

	// ErrCollatedID says that documents are sorted under a collation and have
	// `_id`s that may be equal under it; see Options.DistinctIDs.
	ErrCollatedID = errors.New("_id may tie under the collation")

	// ErrOutOfReach says that Jump was asked for a page more than
	// Options.Group pages away. It is an ErrInvalidRequest too.
	ErrOutOfReach error = requestError("page out of reach")

	// ErrIndexConflict says that an existing index stands in the way of
	// EnsureIndexes.
	ErrIndexConflict = indexes.ErrConflict
)

// requestError is a kind of ErrInvalidRequest.
type requestError string

func (e requestError) Error() string { return string(e) }

func (e requestError) Unwrap() error { return ErrInvalidRequest }
