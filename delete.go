package mongopatterns

import "fmt"

// DeletePolicy says what a deletion does to the documents that refer to the deleted one. Each call, and extref's
// Target, documents the policies that it accepts; any other returns ErrInvalid. The zero value is Restrict.
type DeletePolicy int

const (
	// Restrict refuses the deletion with ErrReferenced while a document refers to the deleted one.
	Restrict DeletePolicy = iota
	// Cascade deletes the documents that refer to the deleted one, such as everything below a node, the
	// children of a parent, or the documents that hold a copy.
	Cascade
	// Promote moves the children of a node up to the node's parent (tree).
	Promote
	// Unlink removes the references. Children become roots or lose this parent, and copies are unset.
	Unlink
	// Keep does not change the references, so a copy keeps its last values (extref).
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
