// Package codec encodes and decodes users' values with the registry in a helper's options, and with the BSON options
// there or else of the client. A registry is an option because that of a client cannot be read from its collections.
//
// What encodes, each with the registry and the options of a Codec. What it refuses is ErrInvalid:
//
//	Document   a document
//	Value      the value of a field
//	Compared   a Value that stored ones are compared with, such as the key of a series
//	Condition  a Compared, as the condition of a filter
//	ID         a Compared that is an _id, or a reference to one
//	Plain      a Value of the types that most _ids have, if there is neither a registry nor an option
//
// Build begins a document of values that are encoded already.
//
// What decodes, likewise, and the error for what does not fit:
//
//	Decode            a document that the package has stored       ErrMalformed
//	DecodeValue       a value of one                               ErrMalformed
//	DecodeCompared    a value that Compared has encoded            ErrMalformed, also if T encodes it differently
//	DecodeID          an _id that ID has encoded                   ErrMalformed, also for what cannot be an _id
//	DecodeGiven       a document that comes from somewhere else    ErrInvalid
//	DecodeGivenValue  a value of one                               ErrInvalid
//	DecodeNew         the _id of a document that will be inserted  ErrInvalid
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Codec is a registry and BSON options. The zero Codec is the driver's default.
type Codec struct {
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// Document encodes a document. A value that cannot be a document is ErrInvalid. A valid bson.Raw is
// returned unchanged, without bytes after its end.
func (c Codec) Document(document any) (bson.Raw, error) {
	if raw, ok := document.(bson.Raw); ok {
		if err := CheckBSON(raw); err != nil {
			return nil, err
		}
		raw = raw[:binary.LittleEndian.Uint32(raw)]
		return raw, fault.CheckSize("the document", len(raw))
	}
	if isNil(document) {
		return nil, fault.Invalid("the document is nil")
	}
	out, err := c.document(document)
	if err != nil {
		return nil, c.unencodable(document, err)
	}
	return out, fault.CheckSize("the document", len(out))
}

// CheckBSON returns ErrInvalid for a document that is not valid BSON.
func CheckBSON(document bson.Raw) error {
	if err := document.Validate(); err != nil {
		return fault.Invalid("the document is not valid BSON: %w", err)
	}
	return nil
}

// unencodable is the error for a value that cannot be encoded. It names the type, because the driver's error
// often names only a type inside it. An error of this library, by a type with its own codec, stays as it is.
func (c Codec) unencodable(v any, err error) error {
	if fault.FromLibrary(err) {
		return fault.Invalid("%w", err)
	}
	return fault.Invalid("cannot encode %T%s: %w", v, c.by(), err)
}

// undecodable is the error for a value that does not fit the type of into, a pointer. An error of this library stays as
// it is.
func (c Codec) undecodable(into any, err error) error {
	if fault.FromLibrary(err) {
		return err
	}
	return fmt.Errorf("cannot decode into %v%s: %w", reflect.TypeOf(into).Elem(), c.by(), err)
}

// by names the registry if it was set.
func (c Codec) by() string {
	if c.Registry == nil {
		return ""
	}
	return " with Options.Registry"
}

// document encodes a value that is not nil with the registry and the options.
func (c Codec) document(document any) (bson.Raw, error) {
	if c == (Codec{}) {
		return bson.Marshal(document) // which pools its buffers
	}
	var out bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&out))
	e.SetRegistry(c.registry())
	if o := c.BSON; o != nil {
		set(o.ErrorOnInlineDuplicates, e.ErrorOnInlineDuplicates)
		set(o.IntMinSize, e.IntMinSize)
		set(o.NilByteSliceAsEmpty, e.NilByteSliceAsEmpty)
		set(o.NilMapAsEmpty, e.NilMapAsEmpty)
		set(o.NilSliceAsEmpty, e.NilSliceAsEmpty)
		set(o.OmitZeroStruct, e.OmitZeroStruct)
		set(o.OmitEmpty, e.OmitEmpty)
		set(o.StringifyMapKeysWithFmt, e.StringifyMapKeysWithFmt)
		set(o.UseJSONStructTags, e.UseJSONStructTags)
	}
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Two registries with the driver's codecs. A registry keeps how it first read a struct type, so there is one for the types
// that are read by their bson tags, and one for those that are read by their JSON tags.
var byBSON, byJSON = bson.NewRegistry(), bson.NewRegistry()

// registry returns the registry that c encodes and decodes with.
func (c Codec) registry() *bson.Registry {
	switch {
	case c.Registry != nil:
		return c.Registry
	case c.BSON != nil && c.BSON.UseJSONStructTags:
		return byJSON
	}
	return byBSON
}

func set(on bool, option func()) {
	if on {
		option()
	}
}

// isNil reports whether document is a nil that the driver would write as null, which is not a document. A
// nil map is an empty document.
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

// Value encodes the value of a field. A value that cannot be encoded is ErrInvalid.
func (c Codec) Value(v any) (bson.RawValue, error) {
	if raw, ok := v.(bson.RawValue); ok && raw.Type != 0 {
		if err := raw.Validate(); err != nil {
			return raw, fault.Invalid("the value is not valid BSON: %w", err)
		}
		return raw, fault.CheckSize("the value", len(raw.Value))
	}
	if raw, ok := c.Plain(nil, v); ok {
		return raw, fault.CheckSize("the value", len(raw.Value))
	}
	document, err := c.document(bson.D{{Key: "v", Value: v}})
	if err != nil {
		return bson.RawValue{}, c.unencodable(v, err)
	}
	return document.Lookup("v"), fault.CheckSize("the value", len(document))
}

// Plain is Value for the types that most _ids and elements have, in a tenth of the time. It returns false
// if v has another type, or if there is a registry or BSON options. It appends the value to room, whose
// free capacity saves an allocation; v does not escape.
func (c Codec) Plain(room []byte, v any) (out bson.RawValue, ok bool) {
	if c != (Codec{}) {
		return out, false
	}
	start, little := len(room), binary.LittleEndian
	switch v := v.(type) {
	case string:
		out.Type = bson.TypeString
		room = append(append(little.AppendUint32(slices.Grow(room, len(v)+5), uint32(len(v)+1)), v...), 0)
	case bson.ObjectID:
		out.Type, room = bson.TypeObjectID, append(room, v[:]...)
	case int32:
		out.Type, room = bson.TypeInt32, little.AppendUint32(room, uint32(v))
	case int64:
		out.Type, room = bson.TypeInt64, little.AppendUint64(room, uint64(v))
	case int:
		if v == int(int32(v)) {
			out.Type, room = bson.TypeInt32, little.AppendUint32(room, uint32(v))
		} else {
			out.Type, room = bson.TypeInt64, little.AppendUint64(room, uint64(v))
		}
	default:
		return out, false
	}
	out.Value = room[start:len(room):len(room)]
	return out, true
}

// Compared is Value for a value that will be compared with stored ones: one whose fields have a random order is
// ErrInvalid.
func (c Codec) Compared(v any) (bson.RawValue, error) {
	if raw, ok := c.Plain(nil, v); ok {
		return raw, fault.CheckSize("the value", len(raw.Value))
	}
	if err := Ordered(v); err != nil {
		return bson.RawValue{}, err
	}
	return c.Value(v)
}

// Condition is Compared as the condition that a field equals v. The driver refuses a filter with it if v cannot be
// encoded or compared.
func (c Codec) Condition(v any) any {
	raw, err := c.Compared(v)
	if err != nil {
		return Refused{err}
	}
	return value.Equal(raw)
}

// Refused is a value that makes the driver refuse the filter or pipeline around it, with this reason. Functions that
// build these and return no error put it in place of what they refuse.
type Refused struct{ Reason error }

// MarshalBSONValue implements bson.ValueMarshaler.
func (r Refused) MarshalBSONValue() (byte, []byte, error) { return 0, nil, r.Reason }

// ID encodes an _id or a reference to one. A value that cannot be an _id is an ErrInvalid, which calls it
// what.
func (c Codec) ID(what string, id any) (bson.RawValue, error) {
	v, err := c.Compared(id)
	if err != nil {
		return v, err
	}
	if err := value.CheckID(v); err != nil {
		return v, fault.Invalid("%s: %w", what, err)
	}
	return v, nil
}

// Decode decodes a stored document into a pointer, as the driver's Decode does. One that does not fit is ErrMalformed.
func (c Codec) Decode(document bson.Raw, into any) error {
	return malformed(c.try(document, into))
}

// DecodeGiven is Decode for a document that is not stored in the form of the package. One that does not fit is ErrInvalid.
func (c Codec) DecodeGiven(document bson.Raw, into any) error {
	return invalid(c.try(document, into))
}

// Unfit is the error of Decode for one of the driver, which has decoded a stored document by the client's codecs.
func Unfit(into any, err error) error {
	if err == nil {
		return nil
	}
	return malformed(Codec{}.undecodable(into, err))
}

// malformed makes an error ErrMalformed, unless it is one of this library.
func malformed(err error) error {
	if err == nil || fault.FromLibrary(err) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrMalformed, err)
}

// invalid makes an error ErrInvalid.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fault.Invalid("%w", err)
}

// try decodes a document. Its error names the type.
func (c Codec) try(document bson.Raw, into any) error {
	if err := c.decode(document, into); err != nil {
		return c.undecodable(into, err)
	}
	return nil
}

func (c Codec) decode(document bson.Raw, into any) error {
	if c == (Codec{}) {
		return bson.Unmarshal(document, into)
	}
	d := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(document)))
	d.SetRegistry(c.registry())
	if o := c.BSON; o != nil {
		set(o.AllowTruncatingDoubles, d.AllowTruncatingDoubles)
		set(o.BinaryAsSlice, d.BinaryAsSlice)
		set(o.DefaultDocumentM, d.DefaultDocumentM)
		set(o.DefaultDocumentMap, d.DefaultDocumentMap)
		set(o.ObjectIDAsHexString, d.ObjectIDAsHexString)
		set(o.UseJSONStructTags, d.UseJSONStructTags)
		set(o.UseLocalTimeZone, d.UseLocalTimeZone)
		set(o.ZeroMaps, d.ZeroMaps)
		set(o.ZeroStructs, d.ZeroStructs)
	}
	return d.Decode(into)
}

// DecodeValue decodes a stored value into a new T. One that does not fit is ErrMalformed.
func DecodeValue[T any](c Codec, v bson.RawValue) (T, error) {
	out, err := tryValue[T](c, v)
	return out, malformed(err)
}

// DecodeGivenValue is DecodeValue for a value that is not stored in the form of the package. One that does not fit is
// ErrInvalid.
func DecodeGivenValue[T any](c Codec, v bson.RawValue) (T, error) {
	out, err := tryValue[T](c, v)
	return out, invalid(err)
}

// tryValue decodes a value. Its error names the type.
func tryValue[T any](c Codec, v bson.RawValue) (T, error) {
	var holder struct {
		V T `bson:"v" json:"v"`
	}
	if v.Type == 0 {
		return holder.V, c.undecodable(&holder.V, errors.New("the value is missing"))
	}
	if c == (Codec{}) && unplain(v, &holder.V) {
		return holder.V, nil
	}
	size := len(v.Value) + 8
	document := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	document = append(append(append(document, byte(v.Type), 'v', 0), v.Value...), 0)
	if err := c.decode(document, &holder); err != nil {
		return holder.V, c.undecodable(&holder.V, err)
	}
	return holder.V, nil
}

// DecodeCompared decodes a stored value that Compared encodes. A value that T encodes differently is ErrMalformed: the
// driver also decodes true as 1, and a string of hex digits as an ObjectID.
func DecodeCompared[T any](c Codec, v bson.RawValue) (T, error) {
	out, err := DecodeValue[T](c, v)
	if err != nil {
		return out, err
	}
	if back, err := c.Compared(out); err != nil || !value.Same(back, v) {
		return out, fmt.Errorf("%w: it is no %v", fault.ErrMalformed, reflect.TypeFor[T]())
	}
	return out, nil
}

// DecodeID is DecodeCompared for an _id or a reference to one. What cannot be an _id is ErrMalformed, too.
func DecodeID[T any](c Codec, id bson.RawValue) (T, error) {
	if err := value.CheckID(id); err != nil { // null would decode as a zero T
		var none T
		return none, malformed(err)
	}
	return DecodeCompared[T](c, id)
}

// DecodeNew decodes the _id of a document that will be inserted; fresh says that the document had no _id
// and gets this ObjectID.
func DecodeNew[ID any](c Codec, v bson.RawValue, fresh bool) (ID, error) {
	if !fresh {
		id, err := DecodeGivenValue[ID](c, v)
		return id, fault.Of(v, err)
	}
	id, err := DecodeCompared[ID](c, v) // with ObjectIDAsHexString the driver decodes it as a string, too
	if err != nil {
		var none ID
		return none, noObjectID(reflect.TypeFor[ID]())
	}
	return id, nil
}

// CheckMade refuses a document that had no _id and got an ObjectID, if that cannot be decoded into type t again. Of a type
// without a decoder of its own it decodes the _id alone.
func (c Codec) CheckMade(document bson.Raw, t reflect.Type) error {
	if c.Struct(t) != nil {
		document = value.Pick(document, func(field []byte) bool { return string(field) == "_id" })
	}
	if c.Decode(document, reflect.New(t).Interface()) != nil {
		return noObjectID(t)
	}
	return nil
}

func noObjectID(t reflect.Type) error {
	return fault.Invalid("the document has no _id, and %v cannot hold a new ObjectID: set the _id", t)
}

// CheckNoHex refuses a document with a string at one of the paths that may be an ObjectID, which the option
// ObjectIDAsHexString has decoded so: encoded again it is another value than the one that is stored.
func (c Codec) CheckNoHex(document bson.Raw, paths ...string) error {
	if c.BSON == nil || !c.BSON.ObjectIDAsHexString {
		return nil
	}
	for _, path := range paths {
		if text, ok := value.Lookup(document, path).StringValueOK(); ok {
			if _, err := bson.ObjectIDFromHex(text); err == nil {
				return fault.Invalid("%q may be an ObjectID that the BSON option ObjectIDAsHexString has decoded as a string: decode it into a bson.ObjectID", path)
			}
		}
	}
	return nil
}

// unplain decodes the values that Plain encodes.
func unplain(v bson.RawValue, into any) (ok bool) {
	switch into := into.(type) {
	case *string:
		*into, ok = v.StringValueOK()
	case *bson.ObjectID:
		*into, ok = v.ObjectIDOK()
	case *int32:
		*into, ok = v.Int32OK()
	case *int64:
		if ok = v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64; ok {
			*into = v.AsInt64()
		}
	case *int:
		if v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 {
			*into = int(v.AsInt64())
			ok = int64(*into) == v.AsInt64() // otherwise let the driver report that it does not fit
		}
	}
	return ok
}
