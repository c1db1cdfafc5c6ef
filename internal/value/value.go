// Package value compares BSON values in memory as the server does for equality, finds them in documents,
// formats them for messages, and splits and builds documents.
package value

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lookup returns the value at a dotted path, the zero RawValue if it is missing.
func Lookup(doc bson.Raw, path string) bson.RawValue {
	var room [4]string // of the stack
	steps := room[:0]
	for step := range strings.SplitSeq(path, ".") {
		steps = append(steps, step)
	}
	value, err := doc.LookupErr(steps...)
	if err != nil {
		return bson.RawValue{}
	}
	return value
}

// Millis returns a time in milliseconds; one that does not fit an int64 becomes the least or the greatest.
func Millis(t time.Time) int64 {
	switch {
	case t.Before(time.UnixMilli(math.MinInt64)):
		return math.MinInt64
	case t.After(time.UnixMilli(math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixMilli()
}

// Number is the exact value of a finite number, nil for anything else.
func Number(v bson.RawValue) *big.Rat {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return new(big.Rat).SetInt64(v.AsInt64())
	case bson.TypeDouble:
		return new(big.Rat).SetFloat64(v.Double()) // nil if it is not finite
	case bson.TypeDecimal128:
		digits, exponent, err := v.Decimal128().BigInt()
		if err != nil {
			return nil
		}
		if exponent < 0 {
			return new(big.Rat).SetFrac(digits, Power(-exponent))
		}
		return new(big.Rat).SetInt(digits.Mul(digits, Power(exponent)))
	}
	return nil
}

// Agree reports whether a stored value is the one that follows from other data: a number that differs by at most
// slack, nil for not at all, or a value that is equal to the server.
func Agree(have, want bson.RawValue, slack *big.Rat) bool {
	if have.Type == want.Type && bytes.Equal(have.Value, want.Value) {
		return true
	}
	x, y := Number(have), Number(want)
	if x == nil || y == nil {
		return Same(have, want)
	}
	difference := x.Sub(x, y)
	return difference.Sign() == 0 || slack != nil && difference.Abs(difference).Cmp(slack) <= 0
}

// Key is a map key that is the same for values which are equal to the server
// under the simple collation: 1, int64(1) and 1.0 are one, and so are a string and
// a symbol, also inside documents and arrays.
func Key(v bson.RawValue) string {
	var room [64]byte // of the stack: most keys are short
	return string(AppendKey(room[:0], v))
}

// Same reports whether two values have one Key. It does not allocate for those whose keys are short.
func Same(a, b bson.RawValue) bool {
	if a.Type == b.Type && bytes.Equal(a.Value, b.Value) {
		return true
	}
	var roomA, roomB [64]byte
	return bytes.Equal(AppendKey(roomA[:0], a), AppendKey(roomB[:0], b))
}

// AppendKey appends Key to out: looked up as m[string(key)] it need not be allocated,
// and v does not escape.
func AppendKey(out []byte, v bson.RawValue) []byte {
	switch v.Type {
	case bson.TypeInt32:
		return strconv.AppendInt(append(out, 'n'), int64(int32(binary.LittleEndian.Uint32(v.Value))), 10)
	case bson.TypeInt64:
		return strconv.AppendInt(append(out, 'n'), int64(binary.LittleEndian.Uint64(v.Value)), 10)
	case bson.TypeDouble, bson.TypeDecimal128:
		return append(append(out, 'n'), numberText(Clone(v))...)
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		elements, _ := bson.Raw(bytes.Clone(v.Value)).Elements()
		out = append(out, byte(v.Type))
		for _, element := range elements {
			// With their lengths, so that different names and values have different keys.
			inner := AppendKey(nil, element.Value())
			out = strconv.AppendInt(out, int64(len(element.Key())), 10)
			out = append(append(out, ':'), element.Key()...)
			out = strconv.AppendInt(out, int64(len(inner)), 10)
			out = append(append(out, ':'), inner...)
		}
		return out
	case bson.TypeSymbol:
		return append(append(out, byte(bson.TypeString)), v.Value...)
	case bson.TypeCodeWithScope: // the numbers in the scope count by their values
		code, scope := Clone(v).CodeWithScope()
		out = strconv.AppendInt(append(out, byte(v.Type)), int64(len(code)), 10)
		return AppendKey(append(append(out, ':'), code...), Embedded(scope))
	}
	return append(append(out, byte(v.Type)), v.Value...)
}

// numberText is one text for equal doubles and decimals, also those that are not
// finite.
func numberText(v bson.RawValue) string {
	if n := Number(v); n != nil {
		return n.RatString()
	}
	sign, nan := 0, false
	if v.Type == bson.TypeDouble {
		nan = math.IsNaN(v.Double())
		if math.IsInf(v.Double(), 1) {
			sign = 1
		}
	} else {
		nan, sign = v.Decimal128().IsNaN(), v.Decimal128().IsInf()
	}
	switch {
	case nan:
		return "NaN"
	case sign > 0:
		return "Inf"
	}
	return "-Inf"
}

// Equal is the condition that a field equals v: v itself, or {$eq: v} where it
// could be read as operators or a pattern. The server refuses undefined as a value.
func Equal(v bson.RawValue) any {
	switch v.Type {
	case bson.TypeEmbeddedDocument, bson.TypeRegex:
		return bson.D{{Key: "$eq", Value: v}}
	case bson.TypeUndefined:
		return bson.D{{Key: "$type", Value: "undefined"}}
	}
	return v
}
