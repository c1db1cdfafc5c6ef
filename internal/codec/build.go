package codec

import (
	"encoding/binary"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A Builder writes a document of values that are already encoded. The driver's encoder uses reflection and
// takes several times as long for the documents that every call sends.
type Builder struct {
	out   []byte
	open  [8]int // where the documents that are not complete begin
	depth int
}

// Build begins a document of about size bytes.
func Build(size int) *Builder {
	return &Builder{out: append(make([]byte, 0, size), 0, 0, 0, 0), depth: 1}
}

func (b *Builder) head(kind bson.Type, key string) {
	b.out = append(append(append(b.out, byte(kind)), key...), 0)
}

// Value writes an element.
func (b *Builder) Value(key string, v bson.RawValue) {
	b.head(v.Type, key)
	b.out = append(b.out, v.Value...)
}

// Int writes n as an int32 if it fits, else as an int64, as the driver writes an int.
func (b *Builder) Int(key string, n int64) {
	if n == int64(int32(n)) {
		b.head(bson.TypeInt32, key)
		b.out = binary.LittleEndian.AppendUint32(b.out, uint32(n))
		return
	}
	b.head(bson.TypeInt64, key)
	b.out = binary.LittleEndian.AppendUint64(b.out, uint64(n))
}

// Later writes an int64 that is still to be set, and returns where it is in the document.
func (b *Builder) Later(key string) (at int) {
	b.head(bson.TypeInt64, key)
	at = len(b.out)
	b.out = binary.LittleEndian.AppendUint64(b.out, 0)
	return at
}

// Date writes a date in milliseconds.
func (b *Builder) Date(key string, ms int64) {
	b.head(bson.TypeDateTime, key)
	b.out = binary.LittleEndian.AppendUint64(b.out, uint64(ms))
}

// Binary writes a binary of the general kind.
func (b *Builder) Binary(key string, data []byte) {
	b.head(bson.TypeBinary, key)
	b.out = append(binary.LittleEndian.AppendUint32(b.out, uint32(len(data))), bson.TypeBinaryGeneric)
	b.out = append(b.out, data...)
}

// Array writes an array of n values.
func (b *Builder) Array(key string, n int, at func(i int) bson.RawValue) {
	b.begin(bson.TypeArray, key)
	for i := range n {
		v := at(i)
		b.out = append(strconv.AppendInt(append(b.out, byte(v.Type)), int64(i), 10), 0)
		b.out = append(b.out, v.Value...)
	}
	b.Close()
}

// Open begins a document, which Close ends.
func (b *Builder) Open(key string) { b.begin(bson.TypeEmbeddedDocument, key) }

// Some writes a document with the elements that write adds, and nothing if it adds none.
func (b *Builder) Some(key string, write func()) {
	from := len(b.out)
	b.Open(key)
	begun := len(b.out)
	if write(); len(b.out) > begun {
		b.Close()
		return
	}
	b.out = b.out[:from]
	b.depth--
}

func (b *Builder) begin(kind bson.Type, key string) {
	b.head(kind, key)
	b.open[b.depth] = len(b.out)
	b.depth++
	b.out = append(b.out, 0, 0, 0, 0)
}

// Close ends the innermost open document or array.
func (b *Builder) Close() {
	b.depth--
	at := b.open[b.depth]
	b.out = append(b.out, 0)
	binary.LittleEndian.PutUint32(b.out[at:], uint32(len(b.out)-at))
}

// Done ends the document and returns it.
func (b *Builder) Done() bson.Raw {
	b.Close()
	return b.out
}
