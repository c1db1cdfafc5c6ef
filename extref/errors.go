package extref

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

var (
	// ErrNotFound says that there is no such source. It matches
	// mongo.ErrNoDocuments.
	ErrNotFound error = missing.Error("no such source")

	// ErrInvalid says that a document cannot be a source: it has no ID, or another
	// one than it should, no version in Options.VersionField (a whole number from 0
	// to math.MaxInt64-1), or an array on the way to a copied field; or that an
	// argument or option of a call makes no sense. Nothing was written, but by an
	// update which itself made the source so, in a transaction of the caller's: that
	// one must be aborted.
	ErrInvalid = errors.New("invalid")

	// ErrNoTarget says that the name given is not one of a target.
	ErrNoTarget = errors.New("no such target")

	// ErrReferenced says that Delete was refused because copies of the source
	// are left. The error is a *ReferencedError.
	ErrReferenced = errors.New("still referenced")

	// ErrNoTransaction says that Pin was called outside of a transaction.
	ErrNoTransaction = errors.New("needs a transaction in its context")

	// ErrTransactionsUnsupported says that a method which needs a transaction ran
	// on a standalone server.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)

// A ReferencedError says which target kept a source from being deleted.
type ReferencedError struct {
	Target string        // the target's name
	Source bson.RawValue // the source's _id
	ID     bson.RawValue // the _id of one document that refers to it
}

func (e *ReferencedError) Error() string {
	return fmt.Sprintf("source %s: still referenced by %s, document %s", rawvalue.Text(e.Source), e.Target, rawvalue.Text(e.ID))
}

// Is makes the error match ErrReferenced.
func (e *ReferencedError) Is(target error) bool { return target == ErrReferenced }

// A SourceError says which source Drain, Repair or Watch could not propagate.
type SourceError struct {
	Source bson.RawValue // the source's _id
	Err    error
}

func (e *SourceError) Error() string {
	source := fmt.Sprintf("source %s: ", rawvalue.Text(e.Source))
	return source + strings.TrimPrefix(e.Err.Error(), source) // most errors name it
}

// Unwrap returns why.
func (e *SourceError) Unwrap() error { return e.Err }

// refused reports that an error is about one source or its copies, so that others
// can be propagated all the same.
func refused(err error) bool {
	const codeDocumentValidationFailure = 121
	var write mongo.WriteException
	var command mongo.CommandError // of a findAndModify, which writes to the source
	return errors.Is(err, ErrInvalid) || errors.As(err, &write) && len(write.WriteErrors) > 0 ||
		errors.As(err, &command) && (command.HasErrorCode(codeDocumentValidationFailure) || mongo.IsDuplicateKeyError(command))
}
