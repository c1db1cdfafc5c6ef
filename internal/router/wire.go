package router

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	opQuery   = 2004
	opReply   = 1
	opMsg     = 2013
	headSize  = 16
	moreFlag  = 1 << 1
	checkFlag = 1
	maxSize   = 48_000_000 + headSize
)

// message is one message of the wire protocol, with its head.
type message []byte

func readMessage(from io.Reader) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < headSize || size > maxSize {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	m := make(message, size)
	copy(m, head[:])
	_, err := io.ReadFull(from, m[4:])
	return m, err
}

func (m message) id() uint32 { return binary.LittleEndian.Uint32(m[4:]) }
func (m message) op() uint32 { return binary.LittleEndian.Uint32(m[12:]) }

// moreToCome reports a command that is not answered.
func (m message) moreToCome() bool {
	return m.op() == opMsg && binary.LittleEndian.Uint32(m[16:])&moreFlag != 0
}

// body is the document of an answer, or of a command without its further documents.
func (m message) body() []byte {
	if m.op() != opMsg || len(m) < headSize+9 {
		return nil
	}
	return m[headSize+5:]
}

// command is the command of a message and its database, with all further documents inside it.
func (m message) command() (db string, cmd bson.D, err error) {
	switch m.op() {
	case opQuery: // drivers begin with one
		return "admin", bson.D{{Key: "hello", Value: 1}}, nil
	case opMsg:
	default:
		return "", nil, fmt.Errorf("a message of kind %d", m.op())
	}
	rest := m[headSize+4:]
	if binary.LittleEndian.Uint32(m[16:])&checkFlag != 0 {
		rest = rest[:len(rest)-4]
	}
	var further bson.D
	for len(rest) > 5 {
		kind, size := rest[0], int(binary.LittleEndian.Uint32(rest[1:]))
		if size < 5 || size > len(rest)-1 {
			return "", nil, errors.New("a section longer than its message")
		}
		section := rest[1 : 1+size]
		rest = rest[1+size:]
		if kind == 0 {
			cmd = decode(bson.Raw(section))
			continue
		}
		name := section[4:]
		end := slices.Index(name, 0)
		if end < 0 {
			return "", nil, errors.New("a section without a name")
		}
		docs := bson.A{}
		for at := name[end+1:]; len(at) >= 5; {
			n := int(binary.LittleEndian.Uint32(at))
			if n < 5 || n > len(at) {
				return "", nil, errors.New("a document longer than its section")
			}
			docs, at = append(docs, bson.Raw(at[:n])), at[n:]
		}
		further = append(further, bson.E{Key: string(name[:end]), Value: raw(docs)})
	}
	if len(cmd) == 0 {
		return "", nil, errors.New("no command")
	}
	db, _ = lookup(cmd, "$db").StringValueOK()
	return db, append(without(cmd, "$db"), further...), nil
}

// reply is the message that answers m.
func (m message) reply(doc bson.Raw) []byte {
	if m.op() == opQuery {
		out := head(len(doc)+20, m.id(), opReply)
		out = append(out, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
		return append(out, doc...)
	}
	return append(append(head(len(doc)+5, m.id(), opMsg), 0, 0, 0, 0, 0), doc...)
}

var requests atomic.Uint32

func head(size int, to, op uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(headSize+size))
	out = binary.LittleEndian.AppendUint32(out, requests.Add(1))
	out = binary.LittleEndian.AppendUint32(out, to)
	return binary.LittleEndian.AppendUint32(out, op)
}

// decode takes a document apart by its elements and leaves their values as they are.
func decode(doc bson.Raw) bson.D {
	elements, err := doc.Elements()
	if err != nil {
		return nil
	}
	out := make(bson.D, 0, len(elements)+4)
	for _, e := range elements {
		out = append(out, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return out
}

// encode never fails: what it gets was decoded from BSON, or is made here.
func encode(v any) bson.Raw {
	doc, err := bson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("router: encode: %v", err))
	}
	return doc
}

// raw is a value as it is encoded.
func raw(v any) bson.RawValue {
	if v, ok := v.(bson.RawValue); ok {
		return v
	}
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("router: encode: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}

// lookup is a field of a command, the zero value if it has none.
func lookup(d bson.D, field string) bson.RawValue {
	for _, e := range d {
		if e.Key == field {
			return raw(e.Value)
		}
	}
	return bson.RawValue{}
}

// document is a field that is a document, empty if it is not.
func document(d bson.D, field string) bson.D {
	if doc, ok := lookup(d, field).DocumentOK(); ok {
		return decode(doc)
	}
	return bson.D{}
}

// list is a field that is an array.
func list(d bson.D, field string) []bson.RawValue { return values(lookup(d, field)) }

func values(v bson.RawValue) []bson.RawValue {
	array, ok := v.ArrayOK()
	if !ok {
		return nil
	}
	out, _ := array.Values()
	return out
}

func without(d bson.D, fields ...string) bson.D {
	out := make(bson.D, 0, len(d)+4)
	for _, e := range d {
		if !slices.Contains(fields, e.Key) {
			out = append(out, e)
		}
	}
	return out
}

// with is d with fields put in the place of others of their names, or at its end.
func with(d bson.D, fields ...bson.E) bson.D {
	out := slices.Clone(d)
	for _, f := range fields {
		if i := slices.IndexFunc(out, func(e bson.E) bool { return e.Key == f.Key }); i >= 0 {
			out[i] = f
		} else {
			out = append(out, f)
		}
	}
	return out
}

func renamed(cmd bson.D, to string) bson.D {
	out := slices.Clone(cmd)
	out[0].Key = to
	return out
}

func number(v bson.RawValue) int64 {
	n, _ := v.AsInt64OK()
	return n
}

func truth(v bson.RawValue) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	return v.IsNumber() && v.AsFloat64() != 0
}
