package tree

import "github.com/mongopatterns/mongopatterns/internal/fault"

// Errors that a caller decides by, besides those of the root package.
var (
	// ErrParentNotFound: a parent is not in the tree, either the one to put a node under or that of an
	// orphan. It matches mongopatterns.ErrNotFound.
	ErrParentNotFound = fault.New("no such parent", fault.ErrNotFound)
	// ErrNoParent: Parent was asked of a root. It matches mongopatterns.ErrNotFound.
	ErrNoParent = fault.New("the node is a root and has no parent", fault.ErrNotFound)
	// ErrCycle: a node would lie under itself.
	ErrCycle = fault.New("node would lie under itself", nil)
	// ErrHasChildren: Delete with Restrict met a node with children.
	ErrHasChildren = fault.New("node has children", nil)
)
