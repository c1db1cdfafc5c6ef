package versioning

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/diff"
)

// Differences is what Diff returns of two documents.
func Differences(before, after bson.Raw) []Difference {
	return differences(diff.Open(before), diff.Open(after))
}
