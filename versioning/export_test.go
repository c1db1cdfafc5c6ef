package versioning

import "go.mongodb.org/mongo-driver/v2/bson"

// Differences is what Diff returns of two documents.
func Differences(before, after bson.Raw) []Difference {
	return differences(nil, "", open(before), open(after))
}
