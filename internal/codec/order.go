package codec

import (
	"fmt"
	"reflect"
	"slices"
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
		if path != "" && c.at(reflect.ValueOf(document), path, Shuffled) {
			return nil, fault.Invalid("%q contains a map of several fields, which have a random order: use a struct or bson.D", path)
		}
	}
	return raw, nil
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
	most := never
	eachType(t, func(t reflect.Type) (deeper bool) {
		switch {
		case encodesItself(t):
			return false
		case t.Kind() == reflect.Map:
			most = always
		case t.Kind() == reflect.Interface:
			most = max(most, perhaps)
		}
		return most < always
	})
	holders.Store(t, most)
	return most
}
