package mongopatterns

import "github.com/mongopatterns/mongopatterns/internal/fault"

// The errors that all packages return; use errors.Is. A package has further ones
// only where a caller decides by them, and each matches the general one here: a
// missing parent is an ErrNotFound.
var (
	// ErrInvalid: an argument or an option is not valid. Nothing was sent, but for a call
	// for many that met it on its way: its Result says what it had done by then.
	ErrInvalid = fault.ErrInvalid
	// ErrNotFound: what the call is about does not exist. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound = fault.ErrNotFound
	// ErrConflict: somebody else changed meanwhile what the call was to change.
	// Read again and decide anew.
	ErrConflict = fault.ErrConflict
	// ErrIndexConflict: an index with the same keys or the same name exists with
	// other options. No index was created or dropped.
	ErrIndexConflict = fault.ErrIndexConflict
	// ErrTransactionsUnsupported: the call needs a transaction and the server is
	// a standalone one. Nothing was written.
	ErrTransactionsUnsupported = fault.ErrTransactionsUnsupported
)
