package subset

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

var (
	// ErrNotFound says that there is no such item, or of a Split no such hot or
	// cold document. It matches mongo.ErrNoDocuments.
	ErrNotFound error = missing.Error("not found")

	// ErrNoParent says that the parent of an item does not exist. Nothing was
	// written. It matches mongo.ErrNoDocuments.
	ErrNoParent error = missing.Error("no such parent")

	// ErrInvalid says that an argument makes no sense or a document cannot be stored:
	// an array where items are sorted, no number where a Value needs one, a field that
	// stands twice or belongs to the other side of a Split; or that a parent holds
	// another type where its array, count or sums belong, or a document around them.
	// Nothing of it was written.
	ErrInvalid = errors.New("invalid")

	// ErrNotAdopted says that the parent has items, in its array or in the
	// collection, and no count: a write would cut the former off, and count
	// without the latter. Run Adopt, or Repair if the array holds copies or none.
	ErrNotAdopted = errors.New("the parent has not been adopted")

	// ErrHasItems says that DeleteEmptyParent found items of the parent.
	ErrHasItems = errors.New("the parent has items")

	// ErrTransactionsUnsupported says that a write ran on a standalone server.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)
