package value

import (
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// OfRat rounds a number to a type, as the server does: half to even, to an infinity beyond the type, and an int to the
// next wider type that holds it.
func OfRat(r *big.Rat, kind bson.Type) bson.RawValue {
	isInt, n := r.IsInt() && r.Num().IsInt64(), r.Num().Int64()
	switch {
	case kind == bson.TypeDecimal128:
		return Decimal(decimal(r))
	case kind == bson.TypeInt32 && isInt && n == int64(int32(n)):
		return Int32(int32(n))
	case kind != bson.TypeDouble && isInt:
		return Int64(n)
	}
	f, _ := r.Float64()
	return Double(f)
}

// decimal rounds to 34 digits. It omits zeros at the end of a fraction.
func decimal(r *big.Rat) bson.Decimal128 {
	const bitsPerDigit = 3.3219
	exponent := int(float64(r.Num().BitLen()-r.Denom().BitLen())/bitsPerDigit) - 35 // one or two less than for 34 digits
	digits, most := new(big.Int), Power(34)
	for exponent = max(exponent, bson.MinDecimal128Exp); ; exponent++ {
		if digits = rounded(r, exponent); digits.CmpAbs(most) < 0 {
			break
		}
	}
	for tenth, rest := new(big.Int), new(big.Int); exponent < 0; exponent++ {
		if tenth.QuoRem(digits, big.NewInt(10), rest); rest.Sign() != 0 {
			break
		}
		digits.Set(tenth)
	}
	if d, ok := bson.ParseDecimal128FromBigInt(digits, exponent); ok {
		return d
	}
	d, _ := bson.ParseDecimal128("Infinity")
	if r.Sign() < 0 {
		d, _ = bson.ParseDecimal128("-Infinity")
	}
	return d
}

// rounded returns r / 10^exponent, half to even.
func rounded(r *big.Rat, exponent int) *big.Int {
	num, denom := new(big.Int).Set(r.Num()), new(big.Int).Set(r.Denom())
	if exponent < 0 {
		num.Mul(num, Power(-exponent))
	} else {
		denom.Mul(denom, Power(exponent))
	}
	return Quo(num, denom)
}

// Quo returns num / denom, rounded half to even as the server rounds a Decimal128; denom must be positive.
func Quo(num, denom *big.Int) *big.Int {
	out, rest := new(big.Int).QuoRem(num, denom, new(big.Int))
	switch order := rest.Lsh(rest, 1).CmpAbs(denom); {
	case order > 0, order == 0 && out.Bit(0) == 1:
		out.Add(out, big.NewInt(int64(num.Sign())))
	}
	return out
}

// Power returns 10^n.
func Power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
