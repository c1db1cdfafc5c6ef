package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// CheckOrder refuses a type of IDs, keys or other compared values that contains a map: Go encodes maps in random
// order, and the server compares documents field by field.
func CheckOrder[T any](what string) error {
	if t := reflect.TypeFor[T](); holds(t) == always {
		return fault.Invalid("%s: %v contains a map, whose fields have a random order: use a struct or bson.D", what, t)
	}
	return nil
}

// Ordered is CheckOrder for a value: a map of one field has an order.
func Ordered(v any) error {
	if v == nil || holds(reflect.TypeOf(v)) == never || !Shuffled(reflect.ValueOf(v)) {
		return nil
	}
	return fault.Invalid("%T contains a map of several fields, which have a random order: use a struct or bson.D", v)
}

// OrderedIn is Ordered for the argument of a stage, such as "$match" for a filter, or a pipeline, without a stage. It
// takes maps whose order means nothing: the fields of a filter, of its operators, and of stages that compute fields.
func OrderedIn(stage string, v any) error {
	if !shuffledIn(stage, reflect.ValueOf(v)) {
		return nil
	}
	return fault.Invalid("it contains a map of several fields, which have a random order, where the order matters: use bson.D")
}

// Stored is Document for a document that is inserted. The values at these paths and its _id will be compared, so they
// must have an order.
func (c Codec) Stored(document any, paths ...string) (bson.Raw, error) {
	raw, err := c.Document(document)
	if err != nil || holds(reflect.TypeOf(document)) == never {
		return raw, err
	}
	for _, path := range append(paths, "_id") {
		if path != "" && c.shuffledAt(reflect.ValueOf(document), path) {
			return nil, fault.Invalid("%q contains a map of several fields, which have a random order: use a struct or bson.D", path)
		}
	}
	return raw, nil
}

// shuffledAt is Shuffled for the values at a path. Those of a type with an encoding of its own have an order.
func (c Codec) shuffledAt(v reflect.Value, path string) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || path == "" {
		return Shuffled(v)
	}
	if holds(v.Type()) == never {
		return false
	}
	name, below, _ := strings.Cut(path, ".")
	switch v.Kind() {
	case reflect.Map:
		for key, value := range v.Seq2() {
			if c.key(key) == name && c.shuffledAt(value, below) {
				return true
			}
		}
	case reflect.Struct:
		s := c.Struct(v.Type())
		if s == nil {
			return false
		}
		if f := s.field(name); f != nil {
			inner, err := v.FieldByIndexErr(f.Index)
			return err == nil && c.shuffledAt(inner, below)
		}
		return s.Inline != nil && c.shuffledAt(v.FieldByIndex(s.Inline.Index), path)
	case reflect.Slice, reflect.Array:
		if d, ok := asD(v); ok {
			for _, e := range d {
				if e.Key == name && c.shuffledAt(reflect.ValueOf(e.Value), below) {
					return true
				}
			}
			return false
		}
		for i := range v.Len() {
			if c.shuffledAt(v.Index(i), path) || strconv.Itoa(i) == name && c.shuffledAt(v.Index(i), below) {
				return true
			}
		}
	}
	return false
}

// key is the name of the field that a key of a map becomes, "" if the driver refuses it.
func (c Codec) key(v reflect.Value) string {
	if v.Kind() == reflect.String && (c.BSON == nil || !c.BSON.StringifyMapKeysWithFmt) {
		return v.String()
	}
	one := reflect.MakeMap(reflect.MapOf(v.Type(), reflect.TypeFor[bool]()))
	one.SetMapIndex(v, reflect.ValueOf(true))
	document, err := c.document(one.Interface())
	if err != nil {
		return ""
	}
	return document.Index(0).Key()
}

// Shuffled reports whether a value contains a map of several fields, which the driver encodes in random order.
func Shuffled(v reflect.Value) bool {
	if !v.IsValid() || holds(v.Type()) == never {
		return false
	}
	switch v.Kind() {
	case reflect.Map:
		if v.Len() > 1 {
			return true
		}
		for _, value := range v.Seq2() {
			return Shuffled(value)
		}
	case reflect.Pointer, reflect.Interface:
		return Shuffled(v.Elem())
	case reflect.Slice, reflect.Array:
		if d, ok := asD(v); ok { // ten times as fast, for documents with thousands of fields
			return slices.ContainsFunc(d, func(e bson.E) bool { return Shuffled(reflect.ValueOf(e.Value)) })
		}
		for i := range v.Len() {
			if Shuffled(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() && Shuffled(f) && stored(v.Type().Field(i)) { // stored allocates
				return true
			}
		}
	}
	return false
}

// stored reports whether the driver encodes a field of a struct.
func stored(f reflect.StructField) bool { return f.IsExported() && (Codec{}).tag(f) != "-" }

// shuffledIn is Shuffled for the value of a field in a filter or pipeline. It passes over a map of operators, and over
// one that the server reads by names.
func shuffledIn(field string, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return shuffledIn(field, v.Elem())
	case reflect.Map:
		operators := true
		for key, value := range v.Seq2() {
			name := fmt.Sprint(key)
			if shuffledIn(name, value) {
				return true
			}
			operators = operators && strings.HasPrefix(name, "$")
		}
		return v.Len() > 1 && !operators && !slices.Contains(byName, field)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if e, ok := v.Index(i).Interface().(bson.E); ok && shuffledIn(e.Key, reflect.ValueOf(e.Value)) || !ok && shuffledIn(field, v.Index(i)) {
				return true
			}
		}
		return false
	}
	return Shuffled(v)
}

// byName are the stages and operators for which the order of the fields in their argument means nothing.
var byName = []string{
	"$match", "$and", "$or", "$nor", "$elemMatch", "$geometry", "$project", "$set", "$addFields", "$group",
	"$lookup", "$graphLookup", "$unwind", "$bucket", "$fill", "$setWindowFields",
	"$cond", "$switch", "$let", "$filter", "$map", "$reduce", "$zip", "$sortArray", "$top", "$topN", "$bottom", "$bottomN", "$firstN", "$lastN", "$maxN", "$minN",
	"$getField", "$setField", "$convert", "$dateAdd", "$dateDiff", "$dateFromParts", "$dateFromString", "$dateSubtract", "$dateToParts", "$dateToString", "$dateTrunc",
	"$ltrim", "$regexFind", "$regexFindAll", "$regexMatch", "$replaceAll", "$replaceOne", "$rtrim", "$trim",
}

// holding is whether values of a type contain maps.
type holding int

const (
	never holding = iota
	perhaps
	always // if they are not nil or empty
)

var holders sync.Map // of reflect.Type to holding

func holds(t reflect.Type) holding {
	if known, ok := holders.Load(t); ok {
		return known.(holding)
	}
	h := holdsBelow(t, nil)
	holders.Store(t, h)
	return h
}

func holdsBelow(t reflect.Type, seen []reflect.Type) (most holding) {
	// The driver calls a method of the pointer only for a value that has an address, which is not known of a type.
	if slices.Contains(seen, t) || t.Implements(reflect.TypeFor[bson.Marshaler]()) || t.Implements(reflect.TypeFor[bson.ValueMarshaler]()) {
		return never
	}
	seen = append(seen, t)
	switch t.Kind() {
	case reflect.Map:
		return always
	case reflect.Interface:
		return perhaps
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsBelow(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); stored(f) {
				most = max(most, holdsBelow(f.Type, seen))
			}
		}
	}
	return most
}
