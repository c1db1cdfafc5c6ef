package attribute

import "github.com/mongopatterns/mongopatterns/internal/fault"

var (
	// ErrNoAttribute says that the document has no entry of this key. It matches
	// ErrNotFound, as does a missing document.
	ErrNoAttribute = fault.New("no such attribute", fault.ErrNotFound)

	// ErrExists says that the document has an entry of this key already.
	ErrExists = fault.New("attribute exists", nil)

	// ErrNotArray says that the document's ArrayField holds something that is no
	// array, or that what is above it is no document. Nothing was written.
	ErrNotArray = fault.New("not an array", nil)

	// ErrTwoArrays says that an index would hold two arrays of one document, which
	// MongoDB refuses.
	ErrTwoArrays = fault.New("an index cannot hold two arrays", nil)
)
