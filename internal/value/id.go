package value

import (
	"errors"
	"fmt"
	"reflect"
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

// CheckKey refuses what CheckID refuses, and names of operators at any depth: a key that
// stands inside an _id.
func CheckKey(v bson.RawValue) error {
	if CheckID(v) != nil {
		return fmt.Errorf("a value of the type %v tells nothing apart", v.Type)
	}
	return checkNames(v)
}

func checkNames(v bson.RawValue) error {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil
	}
	elements, err := bson.Raw(v.Value).Elements()
	if err != nil {
		return err
	}
	for _, e := range elements {
		if strings.HasPrefix(e.Key(), "$") {
			return fmt.Errorf("the field %q", e.Key())
		}
		if err := checkNames(e.Value()); err != nil {
			return err
		}
	}
	return nil
}

// Fixed reports a Go value whose equals are encoded alike and never change, so that one
// encoding serves all of them, and which can be the key of a map.
func Fixed(v any) bool {
	switch v.(type) {
	case bson.ObjectID, int, int32, int64, string:
		return true
	}
	kind := reflect.ValueOf(v).Kind()
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}
