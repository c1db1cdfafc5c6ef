package versioning

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/doc"
)

// Differences is what Diff returns of two documents.
func Differences(before, after bson.Raw) []Difference {
	return differences(doc.Open(before), doc.Open(after))
}
