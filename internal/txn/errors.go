package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// The server's codes that say how a transaction goes on.
const (
	codeIllegalOperation = 20
	codeWriteConflict    = 112
	codeLifetimeExceeded = 290
)

// errEndedByFn is the error of a function that has committed or aborted its transaction. What is stored is not known.
var errEndedByFn = fault.Invalid("fn has ended the transaction itself, and must only return")

// Conflict is the error for a filter whose guard no longer matches. Whoever started the transaction runs it
// again after this error.
func Conflict(what string) error {
	return fmt.Errorf("%s: %w", what, mongo.CommandError{
		Code:    codeWriteConflict,
		Name:    "WriteConflict",
		Message: "the document changed while it was read",
		Labels:  []string{fault.LabelTransient},
	})
}

// Conflicted reports whether a server ended a transaction that another run may complete: because of a conflict
// with another writer, or because of its size or duration.
func Conflicted(err error) bool {
	var server mongo.ServerError // without a code it is the driver's, which has found no server
	return transient(err) && errors.As(err, &server) && !server.HasErrorCode(0) && !mongo.IsNetworkError(err)
}

// transient reports whether the transaction is run again after this error. If a new connection ends during its login,
// the driver adds no label and does not try another.
func transient(err error) bool {
	return labelled(err, fault.LabelTransient) || unlabelledConflict(err) || expired(err) || fault.NoConnection(err)
}

// expired reports whether the server ended a transaction during a command because it took too long. Such an error
// has no label.
func expired(err error) bool {
	return fault.HasCode(err, codeLifetimeExceeded)
}

// labelled reports whether err has a label. When the driver finds no server on which to retry a commit, it returns the
// write concern error of the first attempt, and its type is not a mongo.ServerError.
func labelled(err error, label string) bool {
	var labels interface{ HasErrorLabel(string) bool }
	return errors.As(err, &labels) && labels.HasErrorLabel(label)
}

// unlabelledConflict reports whether err is a conflict without the label: DocumentDB sends conflicts like
// that, and those of snapshots with other codes.
func unlabelledConflict(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && !server.HasErrorLabel(fault.LabelTransient) &&
		(server.HasErrorCode(codeWriteConflict) || strings.Contains(server.Error(), "could not serialize access"))
}

// unsupported adds ErrTransactionsUnsupported to the error of a standalone server that refuses a transaction.
func unsupported(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCodeWithMessage(codeIllegalOperation, "Transaction numbers") {
		return fmt.Errorf("%w: %w", fault.ErrTransactionsUnsupported, err)
	}
	return err
}

// outOfTime reports whether a command ended for lack of time, though the context of its call has not: by the client's
// Timeout, or because it found no server.
func outOfTime(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// sendAgain reports whether a commit is sent again after this error.
func sendAgain(err error) bool {
	return err != nil && !aborted(err) &&
		(fault.CommitUncertain(err) || fault.NoConnection(err) || mongo.IsTimeout(err) || mongo.IsNetworkError(err) ||
			labelled(err, fault.LabelTransient) || labelled(err, fault.LabelRetryable) || labelled(err, fault.LabelOverloaded))
}

// aborted reports whether err is an answer to a commit, and says that the transaction was aborted. The labels
// alone do not tell: the driver adds the transient label to some errors after which the commit is sent again.
// Another refusal, and that of an overloaded server, tells nothing: it may answer the driver's repetition of a commit
// that is done.
func aborted(err error) bool {
	var server mongo.CommandError
	return errors.As(err, &server) && server.Code != 0 && !fault.CommitUncertain(err) && !labelled(err, fault.LabelOverloaded) &&
		(labelled(err, fault.LabelTransient) || unlabelledConflict(err))
}

// decided reports whether err, of a command that ends a transaction, answers it. A server that is overloaded or
// about to stop answers without having done anything.
func decided(err error) bool { return err == nil || fault.ServerDidNothing(err) }

// contextError is the error of Run after its context has ended: over is the error of the context, waited the conflict
// that made Run try again, last the error of the last attempt. Without over it is last.
func contextError(over, waited, last error) error {
	switch {
	case over == nil:
		return last
	case errors.Is(last, over) && waited == nil:
		return last
	case errors.Is(last, over): // waited is the conflict
	case errors.Is(last, context.Canceled): // the driver's word for the end of a context that shows no deadline
		waited = cmp.Or(waited, last)
	case transient(last):
		waited = last
	default:
		return fmt.Errorf("%w: %w", over, last)
	}
	return fmt.Errorf("%w; the transaction was waiting: %v", over, waited)
}
