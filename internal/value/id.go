package value

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// CheckID refuses what no _id can be and what no reference can name: nothing, null,
// undefined, arrays, regular expressions, and documents that a filter would take for
// operators.
func CheckID(id bson.RawValue) error {
	switch id.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return errors.New("null is no _id")
	case bson.TypeArray:
		return errors.New("an array is no _id")
	case bson.TypeRegex:
		return errors.New("a regular expression is no _id")
	case bson.TypeEmbeddedDocument:
		if first, err := bson.Raw(id.Value).IndexErr(0); err == nil && strings.HasPrefix(first.Key(), "$") {
			return errors.New("a document of operators is no _id")
		}
	}
	return nil
}
