package mongopatterns

import "github.com/mongopatterns/mongopatterns/internal/fault"

// Outcome says whether a call that writes took effect.
type Outcome int

const (
	// Unknown: the call took effect completely, in part or not at all. Read what is stored, or repeat the
	// call if it is safe to repeat.
	Unknown Outcome = iota
	// Done: the call took effect.
	Done
	// NotDone: the call wrote nothing and will write nothing later. It is safe to repeat.
	NotDone
)

// String is the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case NotDone:
		return "not done"
	}
	return "unknown"
}

// OutcomeOf says whether the call that returned err took effect. It depends on what the call had sent when
// it failed, not only on the kind of error.
//
//   - NotDone: nothing was sent, or the transaction was aborted, or the server refused the write of
//     a single document.
//   - Unknown: no answer to a write or a commit came, or the answer says that the write is done but not yet
//     safe (a write concern error), or an earlier write of the same call was done outside a transaction. In
//     a transaction of yours, a call that writes more than one document is Unknown, because your commit
//     decides; ask for the outcome of [Transact] instead.
//
// For a call that writes many documents, NotDone means that none was written. After Unknown, its [Result]
// counts those that were. An error that does not come from a call of this library is Unknown, and so is
// one that joins an error from elsewhere with one of this library.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case fault.WroteNothing(err):
		return NotDone
	}
	return Unknown
}
