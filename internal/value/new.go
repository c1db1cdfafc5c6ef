package value

import (
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Null is the value null.
var Null = bson.RawValue{Type: bson.TypeNull}

// New returns a value of a type that BSON has. It needs no registry, so it is not for values of users.
func New(v any) bson.RawValue {
	kind, data, _ := bson.MarshalValue(v)
	return bson.RawValue{Type: kind, Value: data}
}

// Embedded returns a document as a value.
func Embedded(doc bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}
}

// NewID returns a new ObjectID.
func NewID() bson.RawValue {
	id := bson.NewObjectID()
	return bson.RawValue{Type: bson.TypeObjectID, Value: id[:]}
}

// Clone returns a copy of v that does not retain the reply it was read from.
func Clone(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: slices.Clone(v.Value)}
}

// Int32 returns an int32, as New does with fewer allocations.
func Int32(n int32) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))}
}

// Int64 returns an int64, as New does with fewer allocations.
func Int64(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// Date returns a date, as New does with fewer allocations.
func Date(t bson.DateTime) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: binary.LittleEndian.AppendUint64(nil, uint64(t))}
}

// Double returns a double, as New does with fewer allocations.
func Double(f float64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDouble, Value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

// Decimal returns a Decimal128, as New does with fewer allocations.
func Decimal(d bson.Decimal128) bson.RawValue {
	high, low := d.GetBytes()
	data := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), low)
	return bson.RawValue{Type: bson.TypeDecimal128, Value: binary.LittleEndian.AppendUint64(data, high)}
}
