package expr

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Shifted returns a stored sum after numbers have left and others have come. It is one $add, in which MongoDB 6.0 does
// not round ints and doubles before the end.
func Shifted(stored any, out, in []bson.RawValue) bson.D {
	terms, _ := difference(out, in)
	return Op("$add", append(bson.A{stored}, terms...)...)
}

// Sound is the condition that Shifted is as good as the sum of all numbers. An int is exact. A double or decimal must
// be finite, and not small beside what it was or what has left: their rounding would be most of it. If what it was or
// the difference is beyond the ints and the sum is not, the sum may be an int again. If stored is no number, Sound
// leaves it to Shifted to refuse it.
func Sound(stored any, out, in []bson.RawValue) bson.D {
	was, after := Var("stored"), Op("$abs", Var("after"))
	beyond := Op("$gt", after, mostInt*1.001)
	tests := bson.A{Op("$gte", after, 0), Op("$lt", after, math.Inf(1)), // NaN is less than all
		Op("$gte", after, part(was)), Op("$or", Op("$lt", part(was), mostInt/shrinks), beyond)}
	for _, v := range out {
		tests = append(tests, Op("$gte", after, part(Literal(v))))
	}
	terms, wide := difference(out, in)
	if wide {
		tests = append(tests, beyond)
	}
	return Let("stored", stored, Cond(Op("$isNumber", was), Let("after", Op("$add", append(bson.A{was}, terms...)...),
		Cond(IsType(Var("after"), "double", "decimal"), Op("$and", tests...), true)), true))
}

// shrinks is how many times smaller a sum of doubles may become in one write. A rounding error of 10^-16 becomes one of
// 10^-13 then, and one of 10^-10 in two writes.
const shrinks = 1000

// part is what a sum must not fall below. It is never an int: the least int has no absolute value.
func part(v any) bson.D { return Op("$abs", Op("$divide", v, shrinks)) }

const mostInt = 9.22e18 // about

// difference returns the terms of in - out, and whether one of them is beyond the ints. It adds the ints up here, because
// the server adds constants before everything else, and would make a double of two that exceed an int64.
func difference(out, in []bson.RawValue) (terms bson.A, wide bool) {
	ints, kind := new(big.Int), bson.Type(0)
	add := func(v bson.RawValue, sign int64) {
		switch v.Type {
		case bson.TypeInt32, bson.TypeInt64:
			ints.Add(ints, new(big.Int).Mul(big.NewInt(v.AsInt64()), big.NewInt(sign)))
			kind = max(kind, v.Type)
			return
		case bson.TypeDouble:
			wide = wide || math.Abs(v.Double()) >= mostInt
		}
		terms = append(terms, times(v, sign))
	}
	for _, v := range out {
		add(v, -1)
	}
	for _, v := range in {
		add(v, 1)
	}
	switch n := ints.Int64(); {
	case kind == 0:
	case !ints.IsInt64():
		f, _ := ints.Float64()
		terms, wide = append(terms, double(f)), true
	case kind == bson.TypeInt32 && n == int64(int32(n)):
		terms = append(terms, bson.RawValue{Type: kind, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))})
	default:
		terms = append(terms, bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))})
	}
	return terms, wide
}

func double(f float64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDouble, Value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

// times returns v × sign, which is 1 or -1.
func times(v bson.RawValue, sign int64) any {
	switch {
	case sign == 1:
		return Literal(v)
	case v.Type == bson.TypeDouble || v.Type == bson.TypeDecimal128:
		data := bytes.Clone(v.Value)
		data[len(data)-1] ^= 0x80 // the sign
		return bson.RawValue{Type: v.Type, Value: data}
	}
	return Op("$multiply", Literal(v), sign)
}
