package mongopatterns

import "github.com/mongopatterns/mongopatterns/internal/fault"

// Outcome says what became of a call that writes.
type Outcome int

const (
	// Unknown: the call is done, in part, or not at all. Look, or repeat a call that
	// may be repeated.
	Unknown Outcome = iota
	// Done: the call is done.
	Done
	// NotDone: the call has written nothing, and will write nothing later. It may be
	// repeated.
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

// OutcomeOf says what became of a call that returned err. It goes by what the call
// had sent when it failed, and not by the kind of the error alone.
//
//   - NotDone: nothing was sent; or the transaction was aborted; or the server
//     refused the write of a single document.
//   - Unknown: the answer to a write or to a commit did not come, or says that the
//     write is done and not yet safe (a write concern error); or an earlier write of
//     the same call was done, outside of a transaction. In a transaction of yours a call
//     that writes more than one document is Unknown until your commit is judged: ask for
//     the outcome of [Transact] instead.
//
// Of a call for many documents NotDone says that none was written; after Unknown its
// [Result] says which were. An error that is not of this library is Unknown.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case fault.Undone(err):
		return NotDone
	}
	return Unknown
}
