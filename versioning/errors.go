package versioning

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

var (
	// ErrPruned: the revision, or the one that held at the time asked for, is no
	// longer in the history. It matches mongopatterns.ErrNotFound.
	ErrPruned = fault.New("revision was pruned", fault.ErrNotFound)
	// ErrDeleted: the document was deleted by the revision, or at the time, asked
	// for. It matches mongopatterns.ErrNotFound.
	ErrDeleted = fault.New("document was deleted", fault.ErrNotFound)
	// ErrExists: Create found a document with this _id.
	ErrExists = fault.New("document exists", nil)
	// ErrInconsistent: the history does not agree with itself or with the current
	// document. Check says how.
	ErrInconsistent = fault.New("inconsistent history", nil)
)

// A ConflictError says that the current document is another revision than the one
// that was read. It matches mongopatterns.ErrConflict.
type ConflictError struct {
	ID            bson.RawValue // of the document
	Read, Current int64         // numbers of revisions
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict: _id %s: revision %d was read, %d is current", value.Text(e.ID), e.Read, e.Current)
}

// Unwrap returns mongopatterns.ErrConflict.
func (e *ConflictError) Unwrap() error { return fault.ErrConflict }

// ofRevision names the document and the revision that an error is about.
func ofRevision(id bson.RawValue, number int64, err error) error {
	return fault.Of(id, fmt.Errorf("revision %d: %w", number, err))
}
