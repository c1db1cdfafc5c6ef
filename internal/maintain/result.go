package maintain

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// maxFailures bounds Result.Failures.
const maxFailures = 100

// Add adds another result to r.
func Add(r *mongopatterns.Result, other mongopatterns.Result) {
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
func Fail(r *mongopatterns.Result, collection string, id bson.RawValue, err error) {
	Add(r, mongopatterns.Result{Failed: 1, Failures: []mongopatterns.Failure{{Collection: collection, ID: id, Err: err}}})
}

// First returns the error of the first failure, with the _id of its document, or nil without a failure. A strict
// call ends with it.
func First(r *mongopatterns.Result) error {
	if len(r.Failures) == 0 {
		return nil
	}
	f := r.Failures[0]
	if f.ID.Type == 0 {
		return f.Err
	}
	return fault.Of(f.ID, f.Err)
}

// Unstored is deferred by a call that stores items of the caller's: nobody expects that some are not stored
// if there is no error. Its error matches those of the Failures.
//
//	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
//	defer maintain.Unstored(&err, &result)
func Unstored(err *error, r *mongopatterns.Result) {
	if *err == nil && r.Failed > 0 {
		*err = fault.NotDone(&unstored{*r})
	}
}

type unstored struct{ result mongopatterns.Result }

func (u *unstored) Error() string {
	text := fmt.Sprintf("%d of %d not stored", u.result.Failed, u.result.Examined)
	if err := First(&u.result); err != nil {
		text += ", the first: " + err.Error()
	}
	return text
}

func (u *unstored) Unwrap() []error {
	out := make([]error, len(u.result.Failures))
	for i, f := range u.result.Failures {
		out[i] = f.Err
	}
	return out
}
