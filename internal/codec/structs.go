package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Struct is how the driver stores a struct type. A field of an embedded or named struct with the flag inline is one
// of its own.
type Struct struct {
	Fields []Field
	// Inline is the inline map, which receives what has no field; nil without one.
	Inline *Field
}

// A Field is a stored field of a struct.
type Field struct {
	Name  string
	Type  reflect.Type
	Index []int  // for reflect.Value.FieldByIndex
	Flags string // of its tag, between commas
}

func (f Field) has(flag string) bool { return slices.Contains(strings.Split(f.Flags, ","), flag) }

// structEncoder and structDecoder are the driver's codec of structs.
var (
	structEncoder, _ = byBSON.LookupEncoder(reflect.TypeFor[struct{}]())
	structDecoder, _ = byBSON.LookupDecoder(reflect.TypeFor[struct{}]())
)

// Struct returns how a struct type, or a pointer to one, is stored. It returns nil if that is not known: for another
// type, and for one with a codec of its own, by its methods or in the registry. The caller must not change it.
func (c Codec) Struct(t reflect.Type) *Struct {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	if c.Registry != nil {
		return c.describe(t)
	}
	key := described{t, c.BSON != nil && c.BSON.UseJSONStructTags}
	if known, ok := structs.Load(key); ok {
		return known.(*Struct)
	}
	s := c.describe(t)
	structs.Store(key, s)
	return s
}

// described is a struct type, and whether its JSON tags count.
type described struct {
	t    reflect.Type
	json bool
}

var structs sync.Map // of described to *Struct, with the driver's registry

func (c Codec) describe(t reflect.Type) *Struct {
	encoder, err := c.registry().LookupEncoder(t)
	if err != nil || reflect.TypeOf(encoder) != reflect.TypeOf(structEncoder) {
		return nil
	}
	decoder, err := c.registry().LookupDecoder(t)
	if err != nil || reflect.TypeOf(decoder) != reflect.TypeOf(structDecoder) {
		return nil
	}
	s := &Struct{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag := c.tag(f)
		name, flags, _ := strings.Cut(tag, ",")
		own := Field{Name: name, Type: f.Type, Index: []int{i}, Flags: flags}
		switch {
		case tag == "-":
			continue
		case own.has("inline") && f.Type.Kind() == reflect.Map:
			s.Inline = &own
			continue
		case own.has("inline"):
			inner := c.Struct(f.Type)
			if inner == nil {
				return nil
			}
			for _, below := range inner.Fields {
				below.Index = append([]int{i}, below.Index...)
				if !s.add(below) {
					return nil
				}
			}
			continue
		case name == "":
			own.Name = strings.ToLower(f.Name)
		}
		if !s.add(own) {
			return nil
		}
	}
	return s
}

// tag is the tag of a field that the driver reads.
func (c Codec) tag(f reflect.StructField) string {
	tag, tagged := f.Tag.Lookup("bson")
	if !tagged && c.BSON != nil && c.BSON.UseJSONStructTags {
		tag, tagged = f.Tag.Lookup("json")
	}
	if !tagged && !strings.Contains(string(f.Tag), ":") {
		tag = string(f.Tag) // a tag without a key is a bson tag
	}
	return tag
}

// add adds a field. Of several with one name the driver takes the one that is inlined least, and refuses the type if
// there are two of these: then add returns false.
func (s *Struct) add(f Field) bool {
	other := s.Field(f.Name)
	switch {
	case other == nil:
		s.Fields = append(s.Fields, f)
	case len(f.Index) == len(other.Index):
		return false
	case len(f.Index) < len(other.Index):
		*other = f
	}
	return true
}

// Field returns the field with this name, or nil.
func (s *Struct) Field(name string) *Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

// Fields returns the names under which a struct's fields are stored, and whether a document can have no
// others. A type with its own encoding, a map and a document type have no fixed names, and an inline map
// may add names.
func (c Codec) Fields(t reflect.Type) (names []string, all bool) {
	s := c.Struct(t)
	if s == nil {
		return nil, false
	}
	for _, f := range s.Fields {
		names = append(names, f.Name)
	}
	return names, s.Inline == nil
}

// Lacks reports whether no document of type t has a value at the path, because a struct on the way has no such field
// and no inline map.
func (c Codec) Lacks(t reflect.Type, path string) bool {
	s, f, below := c.first(t, path)
	if f == nil {
		return s != nil && s.Inline == nil
	}
	return below != "" && c.Lacks(f.Type, below)
}

// first returns the field that a path begins with, and the rest of the path. The struct and the field are nil if
// they are not known.
func (c Codec) first(t reflect.Type, path string) (s *Struct, f *Field, below string) {
	name, below, _ := strings.Cut(path, ".")
	if s = c.Struct(t); s != nil {
		f = s.Field(name)
	}
	return s, f, below
}

// CheckKept refuses a type that stores a zero at one of the paths as no field at all, because of omitempty: for the
// package that reads the field there, zero and missing are not the same. paths alternates what a path is and the path;
// empty ones are not checked.
func (c Codec) CheckKept(t reflect.Type, paths ...string) error {
	for i := 0; i+1 < len(paths); i += 2 {
		if paths[i+1] != "" && c.omits(t, paths[i+1]) {
			return fault.Invalid("%s: %v does not store a zero of %q, because of omitempty, or of OmitEmpty or OmitZeroStruct in the BSON options: "+
				"leave that out, or make the field a pointer to a type without IsZero", paths[i], t, paths[i+1])
		}
	}
	return nil
}

func (c Codec) omits(t reflect.Type, path string) bool {
	_, f, below := c.first(t, path)
	if f == nil {
		return false
	}
	if f.has("omitempty") || c.BSON != nil && c.BSON.OmitEmpty {
		switch zeroer := f.Type.Implements(reflect.TypeFor[bson.Zeroer]()); f.Type.Kind() {
		case reflect.Interface:
			// Only of an interface with an encoder, such as any, the driver looks at the interface and not at the value in
			// it. Null and missing are the same to the packages.
			if _, err := c.registry().LookupEncoder(f.Type); err != nil {
				return true
			}
		case reflect.Pointer: // the driver asks IsZero behind a pointer, too; but a zero time or ObjectID is no value, as nil
			if zeroer && f.Type != reflect.TypeFor[*time.Time]() && f.Type != reflect.TypeFor[*bson.ObjectID]() {
				return true
			}
		case reflect.Struct:
			if zeroer || c.BSON != nil && c.BSON.OmitZeroStruct {
				return true
			}
		case reflect.Array: // the driver looks at the length
			if zeroer || f.Type.Len() == 0 {
				return true
			}
		default:
			return true
		}
	}
	return below != "" && c.inside().omits(f.Type, below)
}

// inside is the codec of what is inside a field: the option OmitEmpty is only for the fields of the document itself.
func (c Codec) inside() Codec {
	if c.BSON != nil && c.BSON.OmitEmpty {
		own := *c.BSON
		own.OmitEmpty = false
		c.BSON = &own
	}
	return c
}

// CheckMore is CheckDocuments for documents to which the package adds fields: an inline map must be able to hold them.
func (c Codec) CheckMore(what string, t reflect.Type) error {
	if s := c.Struct(t); s != nil && s.Inline != nil && s.Inline.Type.Elem().Kind() != reflect.Interface && s.Inline.Type.Elem() != reflect.TypeFor[bson.RawValue]() {
		return fault.Invalid("%s: %v could not be read, because its inline %v cannot hold every field: make it a map[string]any", what, t, s.Inline.Type)
	}
	return c.CheckDocuments(what, t)
}

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
	if v == nil || holds(reflect.TypeOf(v)) == never || !shuffled(reflect.ValueOf(v)) {
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

// shuffledAt is shuffled for the values at a path. Those of a type with an encoding of its own have an order.
func (c Codec) shuffledAt(v reflect.Value, path string) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || path == "" {
		return shuffled(v)
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
		if f := s.Field(name); f != nil {
			inner, err := v.FieldByIndexErr(f.Index)
			return err == nil && c.shuffledAt(inner, below)
		}
		return s.Inline != nil && c.shuffledAt(v.FieldByIndex(s.Inline.Index), path)
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().ConvertibleTo(reflect.TypeFor[bson.D]()) { // the driver writes a document
			for _, e := range v.Convert(reflect.TypeFor[bson.D]()).Interface().(bson.D) {
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

// at is the value at a path of a value before it is encoded, the zero Value if the way there is not known. It is asked for
// each measurement, so it does not visit the values as shuffledAt does: that allocates.
func (c Codec) at(v reflect.Value, path string) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || path == "" {
		return v
	}
	name, below, _ := strings.Cut(path, ".")
	if d, ok := v.Interface().(bson.D); ok {
		for _, e := range d {
			if e.Key == name {
				return c.at(reflect.ValueOf(e.Value), below)
			}
		}
		return reflect.Value{}
	}
	if v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String {
		return c.at(v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())), below)
	}
	s, f, _ := c.first(v.Type(), path)
	switch {
	case f != nil:
		if inner, err := v.FieldByIndexErr(f.Index); err == nil {
			return c.at(inner, below)
		}
	case s != nil && s.Inline != nil:
		return c.at(v.FieldByIndex(s.Inline.Index), path)
	}
	return reflect.Value{}
}

// Time returns the time at a path of a value before it is encoded, because milliseconds cannot tell some times apart.
// ok is false if no time.Time is there, or if the way there is not known.
func (c Codec) Time(v any, path string) (t time.Time, ok bool) {
	if at := c.at(reflect.ValueOf(v), path); at.IsValid() {
		t, ok = at.Interface().(time.Time)
	}
	return t, ok
}

// Refused is a value that makes the driver refuse the filter or pipeline around it, with this reason. Functions that
// build these and return no error put it in place of what they refuse.
type Refused struct{ Reason error }

// MarshalBSONValue implements bson.ValueMarshaler.
func (r Refused) MarshalBSONValue() (byte, []byte, error) { return 0, nil, r.Reason }

// shuffled reports whether a value contains a map of several fields that the driver encodes.
func shuffled(v reflect.Value) bool {
	if !v.IsValid() || holds(v.Type()) == never {
		return false
	}
	switch v.Kind() {
	case reflect.Map:
		if v.Len() > 1 {
			return true
		}
		for _, value := range v.Seq2() {
			return shuffled(value)
		}
	case reflect.Pointer, reflect.Interface:
		return shuffled(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if shuffled(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("bson") != "-" && shuffled(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// shuffledIn is shuffled for the value of a field in a filter or pipeline. It passes over a map of operators, and over
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
	return shuffled(v)
}

// byName are the stages and operators for which the order of the fields in their argument means nothing.
var byName = []string{
	"$match", "$and", "$or", "$nor", "$project", "$set", "$addFields", "$group",
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
	if slices.Contains(seen, t) || reflect.PointerTo(t).Implements(reflect.TypeFor[bson.Marshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[bson.ValueMarshaler]()) {
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
			if f := t.Field(i); f.IsExported() && f.Tag.Get("bson") != "-" {
				most = max(most, holdsBelow(f.Type, seen))
			}
		}
	}
	return most
}
