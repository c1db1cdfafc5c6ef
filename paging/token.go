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
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/encode"
)

// A token is, before base64:
//
//	1 byte   version
//	1 byte   flags: kind, inclusive, signed
//	8 bytes  hash of collection, sort and collation
//	8 bytes  hash of the filter or pipeline
//	varints  page number, page size and documents shown (kindPage only)
//	BSON     array of the sort values
//	16 bytes HMAC-SHA-256 of all before it, cut to 128 bits (signed only)
const (
	tokenVersion = 1

	flagKind      = 0b0011
	flagInclusive = 0b0100
	flagSigned    = 0b1000
	flagsKnown    = flagKind | flagInclusive | flagSigned

	hashSize = 8
	macSize  = 16
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
	kindPage             // Jump
)

// position is a place in a list: at the document that has, or had, the values.
type position struct {
	kind      kind
	inclusive bool // the document itself belongs to what is asked for
	values    []bson.RawValue

	// of kindPage: the document is the last of a page
	number int64
	size   int // of a full page
	shown  int // documents the page has, in fact
}

type hash [hashSize]byte

func hashOf(parts ...[]byte) hash {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(part)
	}
	return hash(h.Sum(nil)[:hashSize])
}

var encoding = base64.RawURLEncoding.Strict()

func (p *Pager[T]) encode(list hash, at position) string {
	flags := byte(at.kind)
	if at.inclusive {
		flags |= flagInclusive
	}
	if len(p.keyring) > 0 {
		flags |= flagSigned
	}
	out := append([]byte{tokenVersion, flags}, p.orderHash[:]...)
	out = append(out, list[:]...)
	if at.kind == kindPage {
		out = binary.AppendUvarint(out, uint64(at.number))
		out = binary.AppendUvarint(out, uint64(at.size))
		out = binary.AppendUvarint(out, uint64(at.shown))
	}
	out = appendValues(out, at.values)
	if len(p.keyring) > 0 {
		out = append(out, mac(p.keyring[0], out)...)
	}
	return encoding.EncodeToString(out)
}

// appendValues writes the BSON array {"0": …, "1": …}.
func appendValues(out []byte, values []bson.RawValue) []byte {
	start := len(out)
	out = append(out, 0, 0, 0, 0)
	for i, v := range values {
		out = append(out, byte(v.Type))
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, 0)
		out = append(out, v.Value...)
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out[start:], uint32(len(out)-start))
	return out
}

func mac(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)[:macSize]
}

func tokenError(reason string) error {
	return fmt.Errorf("paging: %w: %s", ErrInvalidToken, reason)
}

// decode reads a token for a list and checks everything about it. allowed are
// the kinds that make sense where it was given.
func (p *Pager[T]) decode(list hash, token string, allowed ...kind) (*position, error) {
	if len(token) > maxToken {
		return nil, tokenError("too long")
	}
	// The decoder would skip line ends, and two texts would be one token.
	if strings.ContainsAny(token, "\r\n") {
		return nil, tokenError("not a token")
	}
	raw, err := encoding.DecodeString(token)
	if err != nil {
		return nil, tokenError("not a token")
	}
	if len(raw) < bodyAt {
		return nil, tokenError("truncated")
	}
	if raw[0] != tokenVersion {
		return nil, tokenError("unknown version")
	}
	flags := raw[1]
	if flags&^flagsKnown != 0 {
		return nil, tokenError("unknown flags")
	}
	switch signed := flags&flagSigned != 0; {
	case signed && len(p.keyring) == 0:
		return nil, tokenError("signed, and there is no key to check it")
	case !signed && len(p.keyring) > 0:
		return nil, tokenError("not signed")
	case signed:
		if len(raw) < bodyAt+macSize {
			return nil, tokenError("truncated")
		}
		sum := raw[len(raw)-macSize:]
		raw = raw[:len(raw)-macSize]
		if !slices.ContainsFunc(p.keyring, func(key []byte) bool { return hmac.Equal(sum, mac(key, raw)) }) {
			return nil, tokenError("wrong signature")
		}
	}
	switch {
	case !bytes.Equal(raw[2:2+hashSize], p.orderHash[:]):
		return nil, tokenError("made for another collection, sort, collation or let")
	case !bytes.Equal(raw[2+hashSize:bodyAt], list[:]):
		return nil, tokenError("made for another filter")
	}
	out := &position{kind: kind(flags & flagKind), inclusive: flags&flagInclusive != 0}
	if !slices.Contains(allowed, out.kind) {
		return nil, tokenError("made for another direction or use")
	}
	if out.inclusive && (out.kind == kindItem || out.kind == kindPage) {
		return nil, tokenError("contradictory flags")
	}
	body := raw[bodyAt:]
	if out.kind == kindPage {
		var numbers [3]uint64
		for i, limit := range []uint64{math.MaxInt64, maxSize, maxSize} {
			n, length := binary.Uvarint(body)
			if length <= 0 || n < 1 || n > limit {
				return nil, tokenError("bad page number or size")
			}
			numbers[i], body = n, body[length:]
		}
		out.number, out.size, out.shown = int64(numbers[0]), int(numbers[1]), int(numbers[2])
		if out.shown > out.size {
			return nil, tokenError("bad page number or size")
		}
	}
	if out.values, err = p.decodeValues(body); err != nil {
		return nil, err
	}
	return out, nil
}

func (p *Pager[T]) decodeValues(body []byte) ([]bson.RawValue, error) {
	doc := bson.Raw(body)
	if len(body) < 5 || uint64(binary.LittleEndian.Uint32(body)) != uint64(len(body)) || doc.Validate() != nil {
		return nil, tokenError("damaged values")
	}
	elements, err := doc.Elements()
	if err != nil || len(elements) != len(p.order) {
		return nil, tokenError("damaged values")
	}
	out := make([]bson.RawValue, len(elements))
	for i, e := range elements {
		v := e.Value()
		if _, ok := bracketOf(v.Type); !ok || e.Key() != strconv.Itoa(i) {
			return nil, tokenError("damaged values")
		}
		if deeper(v, maxDepth) {
			return nil, tokenError("nested too deep")
		}
		out[i] = bson.RawValue{Type: v.Type, Value: v.Value}
	}
	return out, nil
}

// canonical encodes a document so that equal ones have equal bytes: the fields of
// a Go map come in any order, so all are sorted but those of a sort, which mean
// something by their order.
func canonical(doc bson.Raw) ([]byte, error) {
	elements, err := doc.Elements()
	if err != nil {
		return nil, err
	}
	return canonicalElements(nil, elements, true)
}

func canonicalElements(out []byte, elements []bson.RawElement, sorted bool) ([]byte, error) {
	if sorted {
		slices.SortStableFunc(elements, func(a, b bson.RawElement) int { return strings.Compare(a.Key(), b.Key()) })
	}
	out = binary.AppendUvarint(out, uint64(len(elements)))
	for _, e := range elements {
		v := e.Value()
		out = append(out, e.Key()...)
		out = append(out, 0, byte(v.Type))
		if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
			out = binary.AppendUvarint(out, uint64(len(v.Value)))
			out = append(out, v.Value...)
			continue
		}
		inner, err := bson.Raw(v.Value).Elements()
		if err != nil {
			return nil, err
		}
		if out, err = canonicalElements(out, inner, v.Type == bson.TypeEmbeddedDocument && !isSort(e.Key(), inner)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// isSort reports whether a field is the sort of a stage or an expression.
func isSort(key string, inner []bson.RawElement) bool {
	return (key == "$sort" || key == "sortBy") && len(inner) > 0 && !strings.HasPrefix(inner[0].Key(), "$")
}

// marshal encodes with the registry of the options.
func (p *Pager[T]) marshal(document any) (bson.Raw, error) {
	return encode.Document(p.opts.Registry, document)
}
