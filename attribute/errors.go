package attribute

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
)

var (
	// ErrNotFound says that there is no document of this ID. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound error = missing.Error("no such document with attributes")

	// ErrNoAttribute says that the document has no entry of this key and
	// qualifier. It matches mongo.ErrNoDocuments.
	ErrNoAttribute error = missing.Error("no such attribute")

	// ErrExists says that the document has an entry of this key and qualifier
	// already.
	ErrExists = errors.New("attribute exists")

	// ErrInvalid says that an argument makes no sense (a key or qualifier that is
	// empty where it may not be, or not UTF-8, the zero Condition, the fields to
	// adopt, a negative number), or that a value cannot be encoded. Nothing was
	// written.
	ErrInvalid = errors.New("invalid")

	// ErrNotArray says that the document's ArrayField holds something that is no
	// array, or that what is above it is no document. Nothing was written.
	ErrNotArray = errors.New("not an array")

	// ErrContended says that other writers changed the attribute between each
	// attempt to write it and the question why that was refused.
	ErrContended = errors.New("gave up after repeated changes by other writers")

	// ErrTwoArrays says that an index would hold two arrays of one document,
	// which MongoDB refuses.
	ErrTwoArrays = errors.New("an index cannot hold two arrays")

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)
