package value

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// CheckID refuses what no _id can be and what no reference can name: nothing, null,
// undefined, arrays and regular expressions.
func CheckID(id bson.RawValue) error {
	switch id.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return errors.New("null is no _id")
	case bson.TypeArray:
		return errors.New("an array is no _id")
	case bson.TypeRegex:
		return errors.New("a regular expression is no _id")
	}
	return nil
}
