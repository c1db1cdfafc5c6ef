package paging

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/value"
)

// A token is, before base64:
//
//	1 byte   version
//	1 byte   flags: kind, inclusive
//	8 bytes  hash of collection, sort, collation and let
//	8 bytes  hash of the filter or pipeline
//	varints  page number, page size and documents shown (kindPage only)
//	BSON     array of the sort values
//	16 bytes HMAC-SHA-256 of all before it, cut to 128 bits (with Options.SigningKeys)
const (
	tokenVersion = 1

	flagKind      = 0b0011
	flagInclusive = 0b0100
	flagsKnown    = flagKind | flagInclusive

	hashSize = 8
	macSize  = 16
	minKey   = sha256.Size
	bodyAt   = 2 + 2*hashSize

	// These bound the work that a hostile token can ask for.
	maxToken = 64 << 10 // characters
	maxDepth = 100      // levels of documents in a sort value

	valueOverhead = 8 // bytes around a value, at most
	maxValues     = maxToken/4*3 - bodyAt - 3*binary.MaxVarintLen64 - macSize - 8
)

type kind byte

const (
	kindItem kind = iota // After and Before
	kindNext             // After
	kindPrev             // Before
	kindPage             // From
)

// position is what a token says: the place of a document, and what for.
type position struct {
	kind      kind
	inclusive bool // the document itself belongs to what is asked for
	place     place

	// of kindPage: the document is the last of a page
	number int64
	size   int // of a full page
	shown  int // documents the page has, in fact
}

type hash [hashSize]byte

// hashOf is the same for what is the same to the server, see appendCanonical.
func hashOf(v bson.RawValue, as reading) hash {
	sum := sha256.Sum256(appendCanonical(nil, v, as))
	return hash(sum[:hashSize])
}

var encoding = base64.RawURLEncoding.Strict()

func (p *core) encode(list hash, at position) string {
	flags := byte(at.kind)
	if at.inclusive {
		flags |= flagInclusive
	}
	out := append(make([]byte, 0, 128), tokenVersion, flags)
	out = append(out, p.orderHash[:]...)
	out = append(out, list[:]...)
	if at.kind == kindPage {
		out = binary.AppendUvarint(out, uint64(at.number))
		out = binary.AppendUvarint(out, uint64(at.size))
		out = binary.AppendUvarint(out, uint64(at.shown))
	}
	out = append(out, value.Array(at.place).Value...)
	if len(p.opts.SigningKeys) > 0 {
		out = append(out, mac(p.opts.SigningKeys[0], out)...)
	}
	return encoding.EncodeToString(out)
}

func mac(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)[:macSize]
}

// decode reads a token for a list and checks everything about it. allowed are
// the kinds that make sense where it was given.
func (p *core) decode(list hash, token string, allowed ...kind) (at position, err error) {
	bad := func(why string) (position, error) { return position{}, fmt.Errorf("%w: %s", ErrInvalidToken, why) }
	if len(token) > maxToken { // before it is decoded
		return bad("not a token")
	}
	raw, err := encoding.DecodeString(token)
	// The decoder would skip line ends, and two texts would be one token.
	if err != nil || strings.ContainsAny(token, "\r\n") {
		return bad("not a token")
	}
	if len(p.opts.SigningKeys) > 0 {
		end := max(0, len(raw)-macSize)
		signed := func(key []byte) bool { return hmac.Equal(raw[end:], mac(key, raw[:end])) }
		if !slices.ContainsFunc(p.opts.SigningKeys, signed) {
			return bad("wrong signature")
		}
		raw = raw[:end]
	}
	switch {
	case len(raw) < bodyAt:
		return bad("truncated")
	case raw[0] != tokenVersion || raw[1]&^flagsKnown != 0:
		return bad("unknown version")
	case !bytes.Equal(raw[2:2+hashSize], p.orderHash[:]):
		return bad("made for another collection, sort, collation or let")
	case !bytes.Equal(raw[2+hashSize:bodyAt], list[:]):
		return bad("made for another filter")
	}
	at.kind, at.inclusive = kind(raw[1]&flagKind), raw[1]&flagInclusive != 0
	if !slices.Contains(allowed, at.kind) || at.inclusive && (at.kind == kindItem || at.kind == kindPage) {
		return bad("made for another direction or use")
	}
	body := raw[bodyAt:]
	if at.kind == kindPage {
		var numbers [3]uint64
		for i, limit := range []uint64{math.MaxInt64, maxSize, maxSize} {
			n, length := binary.Uvarint(body)
			if length <= 0 || n < 1 || n > limit {
				return bad("bad page number or size")
			}
			numbers[i], body = n, body[length:]
		}
		at.number, at.size, at.shown = int64(numbers[0]), int(numbers[1]), int(numbers[2])
	}
	if at.kind == kindPrev && bytes.Equal(body, value.Array(nil).Value) {
		return at, nil // of a page beyond the end: before it is the end of the list
	}
	if at.place = p.parsePlace(body); at.place == nil || at.shown > at.size {
		return bad("damaged")
	}
	return at, nil
}

// parsePlace reads the sound values of a place. Anything else is nil.
func (p *core) parsePlace(body bson.Raw) place {
	elements, _ := body.Elements()
	out := make(place, len(elements))
	for i, e := range elements {
		out[i] = e.Value()
	}
	unsound := func(v bson.RawValue) bool { return !sound(v) }
	if len(out) != len(p.order) || !bytes.Equal(value.Array(out).Value, body) || slices.ContainsFunc(out, unsound) {
		return nil
	}
	return out
}

// sound reports a sort value that becomes the same bytes when it is decoded and encoded
// again: so it is well-formed everywhere inside, and the server takes it. Of the most
// common types a look is enough.
func sound(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDateTime, bson.TypeObjectID, bson.TypeNull:
		return true // whatever their bytes
	case bson.TypeString:
		return len(v.Value) > 4 && v.Value[len(v.Value)-1] == 0
	}
	var decoded any
	if _, ok := bracketOf[v.Type]; !ok || v.Unmarshal(&decoded) != nil {
		return false
	}
	kind, again, err := bson.MarshalValue(decoded)
	return err == nil && kind == v.Type && bytes.Equal(again, v.Value) && shallow(v, maxDepth)
}

// reading is what a part of a filter or pipeline is.
type reading int

const (
	asFilter     reading = iota // conditions, in any order
	asFilters                   // an array of filters, in any order
	asCondition                 // what a filter asks of a field: operators, or a value
	asConditions                // an array of them, in any order
	asExpression                // stages and operators, their arguments in any order
	asOrdered                   // a sort, or what a comparison in an expression compares
	asValue
)

// geographic are the operators that take an operator, as $geometry, or a value.
var geographic = []string{"$near", "$nearSphere", "$geoWithin", "$geoIntersects"}

// appendCanonical writes a part so that what the server takes for equal is equal bytes,
// and other things are not: numbers by their value; the fields of a value in their
// order, those that may come from a Go map in any; the values of $in and the conditions of
// $and in any. Two ways to ask for the same, as 1 and {$eq: 1}, stay two. Tokens are bound
// to a hash of it.
func appendCanonical(out []byte, v bson.RawValue, as reading) []byte {
	as = as.of(v)
	if as == asValue || v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		var room [64]byte // of the stack
		return appendText(append(out, 'v'), value.AppendKey(room[:0], v))
	}
	elements, _ := bson.Raw(v.Value).Elements()
	if v.Type == bson.TypeArray {
		return appendElements(out, elements, as)
	}
	if as != asOrdered {
		slices.SortStableFunc(elements, func(a, b bson.RawElement) int { return strings.Compare(a.Key(), b.Key()) })
	}
	out = binary.AppendUvarint(append(out, byte(v.Type)), uint64(len(elements)))
	for _, e := range elements {
		name := e.Key()
		out = appendText(out, name)
		if as == asFilter && (name == "$in" || name == "$nin") {
			out = appendSet(out, e.Value())
		} else {
			out = appendCanonical(out, e.Value(), as.inside(name))
		}
	}
	return out
}

// appendElements is appendCanonical for an array.
func appendElements(out []byte, elements []bson.RawElement, as reading) []byte {
	if as == asFilters || as == asConditions {
		return appendConditions(out, elements, as)
	}
	out = binary.AppendUvarint(append(out, byte(bson.TypeArray)), uint64(len(elements)))
	for _, e := range elements {
		out = appendCanonical(appendText(out, e.Key()), e.Value(), as)
	}
	return out
}

// of is how a value is read that may be one of operators.
func (as reading) of(v bson.RawValue) reading {
	doc, isDoc := v.DocumentOK()
	operated := isDoc && operators(doc)
	switch {
	case as == asCondition && operated:
		return asFilter
	case as == asCondition:
		return asValue
	case as == asOrdered && operated:
		return asExpression
	}
	return as
}

// inside is how the field of a document is read that is read as as.
func (as reading) inside(name string) reading {
	if as == asFilter {
		return insideFilter(name)
	}
	switch name {
	case "$literal":
		return asValue
	case "$match":
		return asFilter
	case "$sort", "sortBy", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp", "$in":
		return asOrdered
	}
	return as
}

func insideFilter(name string) reading {
	switch name {
	case "$and", "$or", "$nor":
		return asFilters
	case "$not", "$elemMatch", "$geometry":
		return asFilter
	case "$expr", "$text", "$jsonSchema":
		return asExpression
	case "$all":
		return asConditions
	}
	if !strings.HasPrefix(name, "$") || slices.Contains(geographic, name) {
		return asCondition
	}
	return asValue
}

func appendConditions(out []byte, elements []bson.RawElement, as reading) []byte {
	inner := asFilter
	if as == asConditions {
		inner = asCondition
	}
	parts := make([][]byte, len(elements))
	for i, e := range elements {
		parts[i] = appendCanonical(nil, e.Value(), inner)
	}
	slices.SortFunc(parts, bytes.Compare)
	out = binary.AppendUvarint(append(out, byte(bson.TypeArray)), uint64(len(parts)))
	for _, part := range parts {
		out = appendText(out, part)
	}
	return out
}

func appendSet(out []byte, v bson.RawValue) []byte {
	list, _ := bson.Raw(v.Value).Elements()
	keys := make([]string, len(list))
	for i, e := range list {
		keys[i] = value.Key(e.Value())
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	out = binary.AppendUvarint(out, uint64(len(keys)))
	for _, key := range keys {
		out = appendText(out, key)
	}
	return out
}

func appendText[T string | []byte](out []byte, text T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}
