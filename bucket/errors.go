package bucket

import (
	"errors"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

var (
	// ErrNotFound says that no such measurement is stored. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound error = missing.Error("no such measurement")

	// ErrInvalid says that a series or measurement cannot be stored (no time, no
	// ID, no number where an aggregate needs one, too large), or that an argument
	// makes no sense. Nothing of it was written.
	ErrInvalid = errors.New("invalid")

	// ErrNotArray says that a bucket's ArrayField holds something that is no
	// array; the text names the bucket. Nothing was written.
	ErrNotArray = errors.New("not an array")

	// ErrContended says that other writers took the place in every bucket that
	// was tried (Options.MaxRetries), or that another unique index of the
	// collection refuses the write; the last duplicate-key error is wrapped.
	ErrContended = errors.New("gave up after repeated duplicate keys")

	// ErrSkip is for the convert function of Adopt to return, wrapped or not: the
	// document is counted as Skipped and not looked at again.
	ErrSkip = errors.New("skip this document")

	// ErrConcurrentAdopt says that another Adopt of the same source is running.
	ErrConcurrentAdopt = errors.New("another adoption of this source is running")

	// ErrTransactionsUnsupported says that Archive, Adopt or RangeAcross ran on a
	// standalone server.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)
