// Package codec encodes and decodes users' values with the registry and the BSON
// options that a helper's options name. A collection does not show those of its
// client, so a package that encodes by itself has to be told.
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
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

// Document encodes a document; what cannot be one is ErrInvalid. A bson.Raw goes
// through as it is, if it is valid, but for bytes after its end.
func (c Codec) Document(document any) (bson.Raw, error) {
	out, err := c.document(document)
	if err != nil {
		return nil, fault.Invalid("%w", err)
	}
	return out, nil
}

func (c Codec) document(document any) (bson.Raw, error) {
	if raw, ok := document.(bson.Raw); ok {
		if err := raw.Validate(); err != nil {
			return nil, err
		}
		return raw[:binary.LittleEndian.Uint32(raw)], nil
	}
	if isNil(document) {
		return nil, errors.New("nil document")
	}
	if c == (Codec{}) {
		return bson.Marshal(document) // which pools its buffers
	}
	var out bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&out))
	if r := c.registry(); r != nil {
		e.SetRegistry(r)
	}
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

// byJSON is for types that are read by their JSON tags: a registry remembers
// how it has read a type first, so the default one must not serve both ways.
var byJSON = bson.NewRegistry()

func (c Codec) registry() *bson.Registry {
	if c.Registry == nil && c.BSON != nil && c.BSON.UseJSONStructTags {
		return byJSON
	}
	return c.Registry
}

func set(on bool, option func()) {
	if on {
		option()
	}
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

// Value encodes what a field holds; what cannot be encoded is ErrInvalid.
func (c Codec) Value(v any) (bson.RawValue, error) {
	if raw, ok := v.(bson.RawValue); ok && raw.Type != 0 {
		if err := raw.Validate(); err != nil {
			return raw, fault.Invalid("%w", err)
		}
		return raw, nil
	}
	if raw, ok := c.Plain(nil, v); ok {
		return raw, nil
	}
	document, err := c.Document(bson.D{{Key: "v", Value: v}})
	if err != nil {
		return bson.RawValue{}, err
	}
	return document.Lookup("v"), nil
}

// Plain is Value of what most _ids and elements are, at a tenth of the price: if v is of
// another type, or a registry or options are to be asked, it is false. The value stands
// behind room, whose free capacity saves an allocation; v does not escape.
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

// ID encodes an _id, or a reference to one; what cannot be one is an ErrInvalid that says
// what it is.
func (c Codec) ID(what string, id any) (bson.RawValue, error) {
	v, err := c.Value(id)
	if err != nil {
		return v, err
	}
	if err := value.CheckID(v); err != nil {
		return v, fault.Invalid("%s: %w", what, err)
	}
	return v, nil
}

// Decode decodes a document into a pointer, as the driver's Decode does.
func (c Codec) Decode(document bson.Raw, into any) error {
	if c == (Codec{}) {
		return bson.Unmarshal(document, into)
	}
	d := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(document)))
	if r := c.registry(); r != nil {
		d.SetRegistry(r)
	}
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

// DecodeValue decodes a value into a new T.
func DecodeValue[T any](c Codec, v bson.RawValue) (T, error) {
	var holder struct {
		V T `bson:"v" json:"v"`
	}
	if v.Type == 0 {
		return holder.V, errors.New("no value")
	}
	if c == (Codec{}) && unplain(v, &holder.V) {
		return holder.V, nil
	}
	size := len(v.Value) + 8
	document := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	document = append(append(append(document, byte(v.Type), 'v', 0), v.Value...), 0)
	err := c.Decode(document, &holder)
	return holder.V, err
}

// unplain is the way back from Plain.
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
			ok = int64(*into) == v.AsInt64() // else the driver says that it does not fit
		}
	}
	return ok
}
