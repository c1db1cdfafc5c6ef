package value

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// CheckID refuses what no _id can be and what no reference can name: nothing, null,
// undefined, arrays, regular expressions, documents that a filter would take for
// operators, and the empty timestamp, which no reference keeps (see IsReplaced).
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
	if IsReplaced(id) {
		return errors.New("an empty timestamp, which the server replaces in references, is no _id")
	}
	return nil
}

// IsReplaced reports the empty timestamp. Where an inserted document, or a replacement, has
// it as a field other than _id, the server stores its own time in its place. Inside of
// documents and arrays, and by an operator, it is stored as it is.
func IsReplaced(v bson.RawValue) bool {
	return v.Type == bson.TypeTimestamp && bytes.Equal(v.Value, make([]byte, 8))
}

// Replaced is the first field of a document in whose place the server would store its own
// time, empty if there is none.
func Replaced(doc bson.Raw) string {
	if bytes.IndexByte(doc, byte(bson.TypeTimestamp)) < 0 {
		return ""
	}
	elements, _ := doc.Elements()
	for _, e := range elements {
		if e.Key() != "_id" && IsReplaced(e.Value()) {
			return e.Key()
		}
	}
	return ""
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
