package mongopatterns

import (
	"encoding/json"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Work says how a call goes over many documents: Check, Repair, Adopt and their
// like. nil, or the zero Work, is all documents in batches of the default size.
//
// Such a call reads in the order of _id, writes in bounded batches, and can be
// stopped and run again: what is done stays done. A document that the server
// refuses to write is counted, named and passed over, except in a transaction of
// the caller's, which the error has ended.
type Work struct {
	// Filter selects documents of the collection that the call says, in any form
	// the driver takes: bson.D, bson.M, a struct; but without $text and $near.
	// Default nil: all.
	Filter any
	// BatchSize bounds a batch by documents. Default: the call's, mostly 1000.
	BatchSize int
	// BatchBytes bounds a batch by the size of its documents. Default 8 MiB.
	BatchBytes int
	// Progress is called with the result so far: after each batch, and after each of
	// its Conflicts. Default nil.
	Progress func(Result)
	// Strict ends the call at the first document that is refused. Default false: it is
	// counted in Result.Failed and passed over.
	Strict bool
	// DryRun writes nothing; Result.Done counts what would be written.
	DryRun bool
}

// Result says what a call over many documents or items did. After an error it says
// what had been done by then.
type Result struct {
	// Examined were looked at.
	Examined int64 `json:"examined"`
	// Done were written.
	Done int64 `json:"done"`
	// Skipped were left alone though the call is about them: stored already,
	// or changed by somebody else meanwhile.
	Skipped int64 `json:"skipped,omitempty"`
	// Remaining are problems that the call cannot solve; Check lists them.
	Remaining int64 `json:"remaining,omitempty"`
	// Failed were refused by the server or could not be encoded or decoded. They
	// were not written.
	Failed int64 `json:"failed,omitempty"`
	// Unknown were sent, but no answer came: they may be written or not.
	Unknown int64 `json:"unknown,omitempty"`
	// Conflicts are transactions that met another writer: each is run again, those of
	// several documents in halves. Nothing is lost by them but time.
	Conflicts int64 `json:"conflicts,omitempty"`
	// Failures are the first ten of the Failed.
	Failures []Failure `json:"failures,omitempty"`
}

// maxFailures bounds Result.Failures.
const maxFailures = 10

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
	}{f.Collection, asJSON(f.ID), f.Err.Error()})
}

// Add adds another result to r.
func (r *Result) Add(other Result) {
	r.Examined += other.Examined
	r.Done += other.Done
	r.Skipped += other.Skipped
	r.Remaining += other.Remaining
	r.Failed += other.Failed
	r.Unknown += other.Unknown
	r.Conflicts += other.Conflicts
	room := max(0, maxFailures-len(r.Failures))
	r.Failures = append(r.Failures, other.Failures[:min(room, len(other.Failures))]...)
}

// Fail counts a document as failed and names it.
func (r *Result) Fail(collection string, id bson.RawValue, err error) {
	r.Add(Result{Failed: 1, Failures: []Failure{{collection, id, err}}})
}
