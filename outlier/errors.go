package outlier

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

var (
	// ErrNotFound says that there is no parent document with this ID. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound error = missing.Error("no such parent document")

	// ErrInvalid says that an argument is none that the call takes, such as an
	// element that cannot be stored or a page that begins nowhere, that the array's
	// field holds something else, or the number of an overflow document no number.
	// Nothing was written.
	ErrInvalid = errors.New("invalid")

	// ErrTransactionsUnsupported says that a call met an outlier, or no parent, on
	// a standalone server. Typical documents need no transaction.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)
