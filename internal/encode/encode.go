// Package encode makes BSON of users' values with the registry that their
// options name, because a collection does not show the one its client was given.
package encode

import (
	"bytes"
	"errors"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Document encodes a document. A nil registry is the driver's default. A
// bson.Raw goes through as it is, if it is valid.
func Document(registry *bson.Registry, document any) (bson.Raw, error) {
	if raw, ok := document.(bson.Raw); ok {
		return raw, raw.Validate()
	}
	if isNil(document) {
		return nil, errors.New("nil document")
	}
	var out bytes.Buffer
	encoder := bson.NewEncoder(bson.NewDocumentWriter(&out))
	if registry != nil {
		encoder.SetRegistry(registry)
	}
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// isNil reports a nil that the driver would write as null, which is no document; a
// nil map is an empty one.
func isNil(document any) bool {
	v := reflect.ValueOf(document)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

// Value encodes what a field holds.
func Value(registry *bson.Registry, value any) (bson.RawValue, error) {
	document, err := Document(registry, bson.D{{Key: "v", Value: value}})
	if err != nil {
		return bson.RawValue{}, err
	}
	return document.Lookup("v"), nil
}
