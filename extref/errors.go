package extref

import "github.com/mongopatterns/mongopatterns/internal/fault"

// ErrReferenced says that Delete was refused because copies of the source are left;
// the error names a document that holds one.
var ErrReferenced = fault.New("still referenced", fault.ErrConflict)
