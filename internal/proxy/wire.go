package proxy

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// message is one message of the wire protocol: a header of four int32 (size, ID, ID of the
// request that it answers, code) and, in an OP_MSG, flags and sections.
type message []byte

const (
	headerSize = 16
	opMsg      = 2013
	opQuery    = 2004 // the first hello of a connection, and
	opReply    = 1    // its answer: four numbers in 20 bytes, and the document

	flagMoreToCome = 1 << 1
)

func (m message) int32(at int) int32 { return int32(binary.LittleEndian.Uint32(m[at:])) }

func (m message) size() int         { return int(m.int32(0)) }
func (m message) id() int32         { return m.int32(4) }
func (m message) responseTo() int32 { return m.int32(8) }
func (m message) code() int32       { return m.int32(12) }

// moreToCome says that another answer follows without a request, or that a request gets none.
func (m message) moreToCome() bool {
	return m.code() == opMsg && m.int32(headerSize)&flagMoreToCome != 0
}

// document is the section that holds the command or the answer, nil if there is none.
func (m message) document() bson.Raw {
	if len(m) > headerSize+20 && m.code() == opReply {
		return bson.Raw(m[headerSize+20:])
	}
	if m == nil || m.code() != opMsg {
		return nil
	}
	const document, sequence = 0, 1
	for at := headerSize + 4; at+5 <= len(m); {
		size := int(m.int32(at + 1))
		switch kind := m[at]; {
		case kind == document && at+1+size <= len(m):
			return bson.Raw(m[at+1 : at+1+size])
		case kind == sequence:
			at += 1 + size
		default:
			return nil
		}
	}
	return nil
}

// command is the command that a message holds; false if the driver says hello in the old way.
func (m message) command() (Command, bool, error) {
	if m.code() == opQuery {
		return Command{}, false, nil
	}
	body := m.document()
	elements, err := body.Elements()
	if err != nil || len(elements) == 0 {
		return Command{}, false, fmt.Errorf("proxy: a message with code %d is not a command: %v", m.code(), err)
	}
	c := Command{Name: elements[0].Key(), Body: body}
	field := c.Name
	if field == "getMore" {
		field = "collection"
	}
	c.Collection, _ = body.Lookup(field).StringValueOK()
	c.Database, _ = body.Lookup("$db").StringValueOK()
	return c, true, nil
}

var lastID atomic.Int32

// build is an OP_MSG of one document.
func build(id, responseTo int32, doc bson.Raw) message {
	m := make(message, 0, headerSize+5+len(doc))
	for _, v := range []int32{int32(headerSize + 5 + len(doc)), id, responseTo, opMsg, 0} {
		m = binary.LittleEndian.AppendUint32(m, uint32(v))
	}
	return append(append(m, 0), doc...)
}

func reply(request int32, doc bson.Raw) message { return build(lastID.Add(1), request, doc) }

// abort ends the transaction that a command belongs to. It takes the command's place and ID.
func abort(id int32, c Command) message {
	return build(id, 0, marshal(bson.D{
		{Key: "abortTransaction", Value: 1}, {Key: "lsid", Value: c.Body.Lookup("lsid")},
		{Key: "txnNumber", Value: c.Body.Lookup("txnNumber")}, {Key: "autocommit", Value: false}, {Key: "$db", Value: "admin"},
	}))
}

func marshal(doc any) bson.Raw {
	out, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return out
}

// with is a document with further elements at its end.
func with(doc bson.Raw, more ...bson.E) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		panic(err)
	}
	return marshal(append(d, more...))
}
