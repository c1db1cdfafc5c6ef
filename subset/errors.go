package subset

import "github.com/mongopatterns/mongopatterns/internal/fault"

var (
	// ErrNoParent: the parent of an item does not exist. It matches
	// mongopatterns.ErrNotFound.
	ErrNoParent = fault.New("no such parent", fault.ErrNotFound)

	// ErrNotAdopted: the parent has items that were never counted, or its array
	// holds one that is stored nowhere else and that the write would drop. Run
	// Adopt, or $pull an item that was deleted from the collection by hand; then
	// repeat the call.
	ErrNotAdopted = fault.New("the parent has not been adopted", nil)
)
