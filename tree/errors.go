package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/missing"
	"github.com/mongopatterns/mongopatterns/internal/txn"
)

// Errors of this package. Everything else is the driver's own error, wrapped:
// mongo.IsDuplicateKeyError and the like keep working.
var (
	// ErrNotFound says that the node is not in the tree. It matches
	// mongo.ErrNoDocuments too, as do ErrParentNotFound and ErrNoParent.
	ErrNotFound error = missing.Error("node not found")
	// ErrParentNotFound says that a parent is not in the tree: the one to put a
	// node under, or that of an orphan.
	ErrParentNotFound error = missing.Error("no such parent")
	// ErrNoParent says that Parent was asked of a root, which is in the tree but
	// has no parent. No parent is missing; see ErrParentNotFound for that.
	ErrNoParent error = missing.Error("the node is a root and has no parent")
	// ErrCycle says that a node would come to lie under itself.
	ErrCycle = errors.New("node would lie under itself")
	// ErrHasChildren says that Delete with Restrict met a node with children.
	ErrHasChildren = errors.New("node has children")
	// ErrInvalid says that an argument or option of a call makes no sense. Nothing
	// was written.
	ErrInvalid = errors.New("invalid")
	// ErrInvalidSegment says that a path segment is empty, holds the delimiter
	// or has no string form.
	ErrInvalidSegment = errors.New("invalid path segment")
	// ErrUnsupported says that the tree's representation or options do not
	// allow the call.
	ErrUnsupported = errors.New("not supported by this tree")

	// ErrTransactionsUnsupported says that the deployment is a standalone
	// server and the call needs a transaction.
	ErrTransactionsUnsupported = txn.ErrUnsupported
	// ErrIndexConflict says that an index of the same name or keys exists with
	// other options.
	ErrIndexConflict = indexes.ErrConflict
)

// fail gives err the package's prefix once.
func fail(op string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "tree: ") {
		return err
	}
	return fmt.Errorf("tree: %s: %w", op, err)
}
