package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Compare orders valid values as the server sorts them under the simple collation: first by
// kind, numbers of all types by their value.
func Compare(a, b bson.RawValue) int {
	if a.Type == b.Type {
		switch a.Type { // what most _ids are
		case bson.TypeObjectID:
			return bytes.Compare(a.Value, b.Value)
		case bson.TypeInt32:
			return cmp.Compare(a.Int32(), b.Int32())
		case bson.TypeString:
			return bytes.Compare(text(a), text(b))
		}
	}
	if order := cmp.Compare(kind(a.Type), kind(b.Type)); order != 0 {
		return order
	}
	switch a.Type {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return compareNumbers(a, b)
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		return bytes.Compare(text(a), text(b))
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		return compareDocuments(a.Value, b.Value)
	case bson.TypeBinary: // by length, subtype and bytes
		return cmp.Or(cmp.Compare(len(a.Value), len(b.Value)), bytes.Compare(a.Value[4:], b.Value[4:]))
	case bson.TypeDateTime:
		return cmp.Compare(a.DateTime(), b.DateTime())
	case bson.TypeTimestamp:
		return cmp.Compare(binary.LittleEndian.Uint64(a.Value), binary.LittleEndian.Uint64(b.Value))
	case bson.TypeRegex:
		p, o := a.Regex()
		q, r := b.Regex()
		return cmp.Or(strings.Compare(p, q), strings.Compare(o, r))
	case bson.TypeCodeWithScope:
		p, o := a.CodeWithScope()
		q, r := b.CodeWithScope()
		return cmp.Or(strings.Compare(p, q), compareDocuments(o, r))
	}
	return bytes.Compare(a.Value, b.Value) // booleans, ObjectIDs and those that have one value
}

// kind returns the place of a type in the sort order of types.
func kind(t bson.Type) int {
	switch t {
	case bson.TypeMinKey:
		return -1
	case bson.TypeUndefined:
		return 0
	case bson.TypeNull:
		return 5
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return 10
	case bson.TypeString, bson.TypeSymbol:
		return 15
	case bson.TypeEmbeddedDocument:
		return 20
	case bson.TypeArray:
		return 25
	case bson.TypeBinary:
		return 30
	case bson.TypeObjectID:
		return 35
	case bson.TypeBoolean:
		return 40
	case bson.TypeDateTime:
		return 45
	case bson.TypeTimestamp:
		return 47
	case bson.TypeRegex:
		return 50
	case bson.TypeDBPointer:
		return 55
	case bson.TypeJavaScript:
		return 60
	case bson.TypeCodeWithScope:
		return 65
	}
	return 127 // MaxKey
}

// text returns the bytes of a string, without its length and the final NUL.
func text(v bson.RawValue) []byte { return v.Value[4 : len(v.Value)-1] }

// compareDocuments compares documents field by field: by kind, then name, then value.
func compareDocuments(a, b bson.Raw) int {
	x, _ := a.Elements()
	y, _ := b.Elements()
	for i := range min(len(x), len(y)) {
		p, q := x[i].Value(), y[i].Value()
		if order := cmp.Or(cmp.Compare(kind(p.Type), kind(q.Type)), strings.Compare(x[i].Key(), y[i].Key()), Compare(p, q)); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}

// compareNumbers puts NaN before all others.
func compareNumbers(a, b bson.RawValue) int {
	integer := func(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }
	if integer(a) && integer(b) {
		return cmp.Compare(a.AsInt64(), b.AsInt64())
	}
	if x, ok := a.DoubleOK(); ok {
		if y, ok := b.DoubleOK(); ok {
			return cmp.Compare(x, y) // NaN is less for it as well
		}
	}
	x, y := Number(a), Number(b)
	if x != nil && y != nil {
		return x.Cmp(y)
	}
	return cmp.Compare(infinity(a), infinity(b))
}

// infinity returns the order of a number among the infinities: NaN below all, finite numbers between the two.
func infinity(v bson.RawValue) int {
	f, _ := v.DoubleOK()
	d, _ := v.Decimal128OK()
	switch {
	case math.IsNaN(f) || d.IsNaN():
		return -2
	case math.IsInf(f, -1) || d.IsInf() < 0:
		return -1
	case math.IsInf(f, 1) || d.IsInf() > 0:
		return 1
	}
	return 0
}
