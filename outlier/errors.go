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

	// ErrInvalid says that an ID or an element cannot be stored, that a page begins
	// or ends nowhere, that the array's field holds something else, or the number
	// of an overflow document no number. Nothing was written.
	ErrInvalid = errors.New("invalid")

	// ErrTransactionsUnsupported says that a call met an outlier, or no parent, on
	// a standalone server. Typical documents need no transaction.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)
