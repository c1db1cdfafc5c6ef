package mongopatterns

import "fmt"

// DeletePolicy says what a deletion does to the documents that refer to the deleted one. Each call,
// or target of extref, documents the policies it takes, and any other is ErrInvalid. The zero value is Restrict.
type DeletePolicy int

const (
	// Restrict refuses the deletion with ErrReferenced while a document refers to the deleted one.
	Restrict DeletePolicy = iota
	// Cascade deletes the documents that refer to the deleted one: everything below a node, the children of
	// a parent, the documents that hold a copy.
	Cascade
	// Promote moves the children of a node up to the node's parent (tree).
	Promote
	// Unlink removes the references: children become roots or lose this parent, and copies are unset.
	Unlink
	// Keep does not change the references: a copy keeps its last values (extref).
	Keep
)

// String returns the name of the policy.
func (p DeletePolicy) String() string {
	names := []string{"Restrict", "Cascade", "Promote", "Unlink", "Keep"}
	if p < 0 || int(p) >= len(names) {
		return fmt.Sprintf("DeletePolicy(%d)", int(p))
	}
	return names[p]
}
