package wire_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

func document(n int32) bson.Raw {
	out, err := bson.Marshal(bson.D{{Key: "n", Value: n}})
	if err != nil {
		panic(err)
	}
	return out
}

// insert is a message with a sequence of two documents before its command, and a checksum behind it.
func insert() wire.Message {
	docs := append(append([]byte("documents\x00"), document(1)...), document(2)...)
	sections := append(binary.LittleEndian.AppendUint32([]byte{1}, uint32(4+len(docs))), docs...)
	sections = append(append(append(sections, 0), document(3)...), 0xaa, 0xbb, 0xcc, 0xdd)
	m := wire.New(7, 0, nil)[:20]
	m[16] = 1 // a checksum follows
	m = append(m, sections...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

func TestParse(t *testing.T) {
	m, err := wire.Read(bytes.NewReader(insert()))
	if err != nil {
		t.Fatal(err)
	}
	doc, behind, err := m.Parse()
	if err != nil || !bytes.Equal(doc, document(3)) || len(behind) != 1 || behind[0].Name != "documents" ||
		!slices.EqualFunc(behind[0].Documents, []bson.Raw{document(1), document(2)}, func(a, b bson.Raw) bool { return bytes.Equal(a, b) }) {
		t.Errorf("%v, %v, %v", doc, behind, err)
	}
	reply := m.Reply(document(4))
	if reply.ResponseTo() != 7 || m.ID() != 7 || reply.MoreToCome() || !bytes.Equal(reply.Document(), document(4)) {
		t.Errorf("%v", reply)
	}
	hello := wire.New(8, 0, document(0))
	binary.LittleEndian.PutUint32(hello[12:], 2004)
	if reply := hello.Reply(document(5)); !hello.OldHello() || reply.ResponseTo() != 8 || !bytes.Equal(reply.Document(), document(5)) {
		t.Errorf("%v", reply)
	}
}

// Of a message that was cut or damaged no part is taken.
func TestDamaged(t *testing.T) {
	whole := insert()
	for n := range len(whole) {
		if _, err := wire.Read(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d bytes of %d are read", n, len(whole))
		}
	}
	for _, at := range []int{21, 35, 47, 60} { // the sizes of the section, its documents and the command
		m := slices.Clone(whole)
		m[at+1]++ // 256 bytes more
		if doc, _, err := m.Parse(); err == nil {
			t.Errorf("size at %d: %v", at, doc)
		}
	}
	for _, size := range []uint32{0, 15, 1 << 30, 1<<32 - 1} {
		m := slices.Clone(whole)
		binary.LittleEndian.PutUint32(m, size)
		if _, err := wire.Read(bytes.NewReader(m)); err == nil {
			t.Errorf("a message of %d bytes is read", size)
		}
	}
}
