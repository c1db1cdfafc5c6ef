package mongopatterns

import "github.com/mongopatterns/mongopatterns/internal/fault"

// The general errors; test for them with errors.Is. Every error that a package defines itself matches one of
// them (prealloc.ErrTaken matches ErrConflict), so a service has to map only these. If it has unique indexes of
// its own, it also maps the driver's duplicate key error (mongo.IsDuplicateKeyError).
var (
	// ErrInvalid: an argument or an option is not valid, or a document would exceed what MongoDB stores, which is 16
	// MiB and 180 levels of documents and arrays. Nothing was written. Exceptions: a call for many items may have
	// written some before it met an invalid one; its Result counts them. In a transaction of yours, abort it after any
	// error of a call that writes, because the call may have written before; Transact does so.
	ErrInvalid = fault.ErrInvalid
	// ErrNotFound: the document or element that the call names does not exist. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound = fault.ErrNotFound
	// ErrConflict: the stored data does not allow the call, usually because another writer changed it
	// meanwhile. Read again and decide again. A call that waited for other writers until its context ended
	// returns the context's error instead.
	ErrConflict = fault.ErrConflict
	// ErrMalformed: a stored document does not have the form that the package writes, or your type cannot decode it:
	// read such documents as bson.Raw, or with a type that takes all values. The call does not change it. If the
	// package has a Check, it lists those of another form. From EnsureIndexes: several documents have a key that its
	// unique index allows once, and the error has the key.
	ErrMalformed = fault.ErrMalformed
	// ErrIndexConflict: an index with the same keys or name exists with other options, or is hidden. No index was
	// created or dropped.
	ErrIndexConflict = fault.ErrIndexConflict
	// ErrTransactionsUnsupported: the call needs a transaction, and the server is a standalone. No document was
	// written.
	ErrTransactionsUnsupported = fault.ErrTransactionsUnsupported
	// ErrClosed: the value was closed before the call. The call did nothing.
	ErrClosed = fault.ErrClosed
	// ErrSkip is what the convert function that you give to Adopt returns, wrapped or not, to skip a
	// document. The document is counted as Skipped, and the next Adopt calls convert for it again.
	ErrSkip = fault.ErrSkip
)

// More specific errors, shared by several packages.
var (
	// ErrNoParent: a parent does not exist. It matches ErrNotFound.
	ErrNoParent = fault.ErrNoParent
	// ErrExists: the document or element to insert exists already. It matches ErrConflict. If an Insert returns
	// it, mongo.IsDuplicateKeyError is also true.
	ErrExists = fault.ErrExists
	// ErrReferenced: a deletion with Restrict found documents, such as the children of a node, that refer
	// to the one to delete. It matches ErrConflict.
	ErrReferenced = fault.ErrReferenced
	// ErrRunning: another call is doing the same work, such as an Adopt of the same source or a Migrate of
	// the same collection. It matches ErrConflict.
	ErrRunning = fault.ErrRunning
	// ErrNotAdopted: a document still has the form that other code gave it, and the call needs the
	// package's own form. Nothing was written. Run Adopt, which also names the documents that it cannot
	// adopt, and repeat the call. It matches ErrMalformed.
	ErrNotAdopted = fault.ErrNotAdopted
	// ErrNewer: a later version of the program wrote the document. The document is not damaged, so read
	// it with that version. It matches ErrMalformed.
	ErrNewer = fault.ErrNewer
)
