package mongopatterns

import (
	"encoding/json"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Work says how a call such as Check, Repair or Adopt goes over many documents. nil and the zero Work mean
// all documents, in batches of the default size.
//
// Such a call writes in bounded batches. It can be stopped and run again, because finished batches
// stay. If the server refuses to write a document, the call counts and names it and goes on. In a
// transaction of the caller it returns the error instead, and the caller has to abort the transaction.
//
// Calls that store many items of yours, such as AppendMany, take a Work too. Their batches consist of items.
// They return ErrInvalid for a Filter, and for DryRun if the call has none. If items were refused, such a
// call returns an error at its end that matches those of Result.Failures. A call over stored documents does
// not.
type Work struct {
	// Filter selects documents of the collection that the call's documentation names. It has any form that
	// the driver takes (bson.D, bson.M, a struct), but must not use $text or $near. Default nil: all.
	Filter any
	// BatchSize is the largest number of documents or items in a batch. Default: the call's own, mostly 1000.
	BatchSize int
	// BatchBytes is the largest size of a batch's documents together. Default 8 MiB.
	BatchBytes int
	// Progress is called with the result so far, after each batch and each conflict with another writer, in
	// the goroutine of the call. A call without a Result, such as Check, does not call it. Default nil.
	Progress func(Result)
	// Strict ends the call with the error of the first document or item that is refused; others of its batch may
	// be written. Default false: it is counted in Result.Failed, and the call goes on.
	Strict bool
	// DryRun writes nothing; Result.Done counts what would be written.
	DryRun bool
}

// Result counts what a call over many documents or items did, even if the call returns an error.
type Result struct {
	// Examined documents or items were read.
	Examined int64 `json:"examined"`
	// Done ones were written.
	Done int64 `json:"done"`
	// Skipped ones belong to the call but were left alone, because they are stored already, another writer
	// changed them meanwhile, or a function of yours returned ErrSkip.
	Skipped int64 `json:"skipped,omitempty"`
	// Remaining ones were not changed, because other writers kept changing them (run again) or because another
	// call, or you, must decide. Check lists them or their cause, such as an orphan above them, unless the comment
	// of the call says otherwise.
	Remaining int64 `json:"remaining,omitempty"`
	// Failed ones were refused by the server or could not be encoded or decoded. They were not written.
	Failed int64 `json:"failed,omitempty"`
	// Unknown ones were sent, but no answer came, so they may be written or not.
	Unknown int64 `json:"unknown,omitempty"`
	// Conflicts counts the transactions that met another writer. Each is run again; one with several
	// documents is run again in halves. Conflicts cost time but lose no data.
	Conflicts int64 `json:"conflicts,omitempty"`
	// Failures names the first hundred of the Failed ones.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure names a document that was passed over.
type Failure struct {
	Collection string
	ID         bson.RawValue
	Err        error
}

// MarshalJSON writes the ID as relaxed extended JSON and the error as text.
func (f Failure) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Collection string          `json:"collection"`
		ID         json.RawMessage `json:"id,omitempty"`
		Error      string          `json:"error"`
	}{f.Collection, value.JSON(f.ID), f.Err.Error()})
}
