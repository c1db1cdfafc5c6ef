// Package wire reads and makes the messages of MongoDB's wire protocol, for the programs between a client and
// a server: internal/tests/proxy and mongotest/internal/router.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Message is one message: a header of four int32 (size, ID, ID of the request that it answers,
// code) and, in an OP_MSG, flags and sections.
type Message []byte

const (
	headerSize = 16
	maxSize    = 48_000_000 + headerSize

	opMsg     = 2013
	opQuery   = 2004 // the first hello of a connection, and
	opReply   = 1    // its answer: four numbers in 20 bytes, and the document
	replySize = 20

	flagChecksum   = 1 << 0
	flagMoreToCome = 1 << 1
)

// Read reads one message.
func Read(from io.Reader) (Message, error) {
	head := make(Message, headerSize)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	size := head.int32(0)
	if size < headerSize || size > maxSize {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	m := append(head, make(Message, size-headerSize)...)
	_, err := io.ReadFull(from, m[headerSize:])
	return m, err
}

func (m Message) int32(at int) int32 { return int32(binary.LittleEndian.Uint32(m[at:])) }

// ID is the ID of the message; ResponseTo is the ID of the request that it answers.
func (m Message) ID() int32         { return m.int32(4) }
func (m Message) ResponseTo() int32 { return m.int32(8) }
func (m Message) code() int32       { return m.int32(12) }

// OldHello reports whether the message is the old form of hello, with which drivers begin a connection.
func (m Message) OldHello() bool { return m.code() == opQuery }

// MoreToCome reports whether another answer follows without a request, or that a request gets no answer.
func (m Message) MoreToCome() bool {
	return m.code() == opMsg && len(m) >= headerSize+4 && m.int32(headerSize)&flagMoreToCome != 0
}

// A Sequence is a field of a command whose documents are sent after the command.
type Sequence struct {
	Name      string
	Documents []bson.Raw
}

// Parse returns the command or answer in a message, and the sequences after it.
func (m Message) Parse() (doc bson.Raw, behind []Sequence, err error) {
	switch {
	case m.code() == opReply && len(m) > headerSize+replySize:
		return bson.Raw(m[headerSize+replySize:]), nil, nil
	case m.code() != opMsg || len(m) < headerSize+4:
		return nil, nil, fmt.Errorf("a message of kind %d", m.code())
	}
	rest := m[headerSize+4:]
	if m.int32(headerSize)&flagChecksum != 0 && len(rest) >= 4 {
		rest = rest[:len(rest)-4]
	}
	for len(rest) > 5 {
		const document = 0
		kind, size := rest[0], int(rest.int32(1))
		if size < 5 || size > len(rest)-1 {
			return nil, nil, errors.New("a section longer than its message")
		}
		section := rest[1 : 1+size]
		rest = rest[1+size:]
		if kind == document {
			doc = bson.Raw(section)
			continue
		}
		s, err := sequence(section[4:])
		if err != nil {
			return nil, nil, err
		}
		behind = append(behind, s)
	}
	if doc == nil {
		return nil, nil, errors.New("no command")
	}
	return doc, behind, nil
}

func sequence(section Message) (s Sequence, err error) {
	end := slices.Index(section, 0)
	if end < 0 {
		return s, errors.New("a section without a name")
	}
	s.Name = string(section[:end])
	for rest := section[end+1:]; len(rest) >= 5; {
		n := int(rest.int32(0))
		if n < 5 || n > len(rest) {
			return s, errors.New("a document longer than its section")
		}
		s.Documents, rest = append(s.Documents, bson.Raw(rest[:n])), rest[n:]
	}
	return s, nil
}

// Document returns the command or answer in a message, nil if the message has none.
func (m Message) Document() bson.Raw {
	doc, _, _ := m.Parse()
	return doc
}

var lastID atomic.Int32

// NextID returns an ID for a new message.
func NextID() int32 { return lastID.Add(1) }

// New returns an OP_MSG with one document.
func New(id, responseTo int32, doc bson.Raw) Message {
	m := header(headerSize+5+len(doc), id, responseTo, opMsg)
	m = append(m, 0, 0, 0, 0, 0) // flags, and the kind of the section
	return append(m, doc...)
}

// Reply returns the message that answers m.
func (m Message) Reply(doc bson.Raw) Message {
	if !m.OldHello() {
		return New(NextID(), m.ID(), doc)
	}
	reply := header(headerSize+replySize+len(doc), NextID(), m.ID(), opReply)
	for _, v := range []uint32{8, 0, 0, 0, 1} { // flags, cursor, first, and one document
		reply = binary.LittleEndian.AppendUint32(reply, v)
	}
	return append(reply, doc...)
}

func header(size int, id, responseTo, code int32) Message {
	m := make(Message, 0, size)
	for _, v := range []int32{int32(size), id, responseTo, code} {
		m = binary.LittleEndian.AppendUint32(m, uint32(v))
	}
	return m
}
