package value

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// CheckID refuses values that cannot be an _id or be stored as a reference: a missing value, null,
// undefined, arrays, regular expressions, documents that a filter would treat as operators or that have names of
// operators inside, and the empty timestamp, which a reference cannot keep (see IsReplaced).
func CheckID(id bson.RawValue) error {
	switch id.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return errors.New("an _id cannot be null")
	case bson.TypeArray:
		return errors.New("an _id cannot be an array")
	case bson.TypeRegex:
		return errors.New("an _id cannot be a regular expression")
	case bson.TypeEmbeddedDocument:
		if first, err := bson.Raw(id.Value).IndexErr(0); err == nil && strings.HasPrefix(first.Key(), "$") {
			return errors.New("an _id cannot be a document of operators")
		}
		if name := operator(bson.Raw(id.Value)); name != "" {
			return fmt.Errorf("an _id cannot have a field %q", name)
		}
	}
	if IsReplaced(id) {
		return errors.New("an _id cannot be the empty timestamp, because the server replaces it in references")
	}
	return nil
}

// operator returns a name in doc, at any level, that the server does not store in an _id: one that begins with $ and is
// not of a DBRef.
func operator(doc bson.Raw) string {
	elements, _ := doc.Elements()
	for _, e := range elements {
		name, v := e.Key(), e.Value()
		if strings.HasPrefix(name, "$") && name != "$ref" && name != "$id" && name != "$db" {
			return name
		}
		if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
			continue
		}
		if name := operator(bson.Raw(v.Value)); name != "" {
			return name
		}
	}
	return ""
}

// Twice returns the name of two fields of a document, v or one inside it; "" if no two fields have the same name.
func Twice(v bson.RawValue) string {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return ""
	}
	elements, _ := bson.Raw(v.Value).Elements()
	met := make(map[string]bool, len(elements))
	for _, e := range elements {
		if met[e.Key()] {
			return e.Key()
		}
		met[e.Key()] = true
		if name := Twice(e.Value()); name != "" {
			return name
		}
	}
	return ""
}

// IsReplaced reports whether v is the empty timestamp. If an inserted document or a replacement has it in a
// top-level field other than _id, the server stores its own time instead. Inside documents and arrays, and
// with an update operator, it is stored unchanged.
func IsReplaced(v bson.RawValue) bool {
	return v.Type == bson.TypeTimestamp && bytes.Equal(v.Value, make([]byte, 8))
}

// Replaced returns the first field of a document that the server would replace by its own time, empty if
// there is no such field.
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

// CheckKey is CheckID for a key inside an _id: it also refuses names of operators at any depth.
func CheckKey(v bson.RawValue) error {
	if v.Type == 0 {
		return errors.New("the key is missing")
	}
	if err := CheckID(v); err != nil {
		return fmt.Errorf("it is part of an _id, and %w", err)
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
			return fmt.Errorf("a key cannot have the field %q, because it begins with $", e.Key())
		}
		if err := checkNames(e.Value()); err != nil {
			return err
		}
	}
	return nil
}

// Chunks divides IDs into as many as fit in the filter of one command.
func Chunks(ids []bson.RawValue) iter.Seq[[]bson.RawValue] {
	return func(yield func([]bson.RawValue) bool) {
		for len(ids) > 0 {
			n, size := 0, 0
			for n < len(ids) && n < 50_000 && (n == 0 || size+len(ids[n].Value) < 8<<20) {
				size += len(ids[n].Value) + 8 // with its offset in the array
				n++
			}
			if !yield(ids[:n]) {
				return
			}
			ids = ids[n:]
		}
	}
}

// Cacheable reports whether a Go value never changes, is encoded like all values equal to it, and can be the
// key of a map, so that its encoding can be cached.
func Cacheable(v any) bool {
	switch v.(type) {
	case bson.ObjectID, int, int32, int64, string:
		return true
	}
	kind := reflect.ValueOf(v).Kind()
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}
