package maintain

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
)

// maxFailures bounds Result.Failures.
const maxFailures = 10

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
