package versioning

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

var (
	// ErrNotFound says that there is no such current document, or never was such
	// a revision. It matches mongo.ErrNoDocuments, as do ErrPruned and ErrDeleted.
	ErrNotFound error = missing.Error("no such document or revision")

	// ErrPruned says that the revision, or the one that held at the time asked
	// for, is no longer in the history: Prune, or something else, took it out.
	ErrPruned error = missing.Error("revision was pruned")

	// ErrDeleted says that the document was deleted by the revision, or at the
	// time, asked for.
	ErrDeleted error = missing.Error("document was deleted")

	// ErrExists says that Create found a document with this _id.
	ErrExists = errors.New("document exists")

	// ErrInvalid says that a document cannot be stored or read as a versioned one:
	// no _id, another _id than was read or of another type than ID, too large, a
	// name at the top that starts with "$", or fields of the names in Options that
	// hold something else; or that an argument makes no sense. Nothing was written.
	ErrInvalid = errors.New("invalid")

	// ErrInconsistent says that the history does not agree with itself or with the
	// current document; Check says how.
	ErrInconsistent = errors.New("inconsistent history")

	// ErrTransactionsUnsupported says that a write ran on a standalone server.
	ErrTransactionsUnsupported = txn.ErrUnsupported

	// ErrIndexConflict says that EnsureIndexes found an index on the same keys
	// with other options.
	ErrIndexConflict = indexes.ErrConflict
)

// A ConflictError says that the current document is another revision than the one
// that was read. Nothing was written, and a transaction that was joined can go on.
type ConflictError struct {
	ID            bson.RawValue // of the document
	Read, Current int64         // numbers of revisions
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("document %s: revision %d was read, %d is current", rawvalue.Text(e.ID), e.Read, e.Current)
}

// of names the document that a refusal is about.
func of(id bson.RawValue, err error) error { return fmt.Errorf("%w: _id %s", err, rawvalue.Text(id)) }

// ofRevision names the revision as well.
func ofRevision(id bson.RawValue, number int64, err error) error {
	return fmt.Errorf("%w, revision %d", of(id, err), number)
}

func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("versioning: %s: %w", op, err)
}
