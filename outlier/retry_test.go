package outlier_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// A wire puts a document in the place of the next one that a findAndModify
// answers with.
type wire struct{ value atomic.Pointer[bson.Raw] }

func (w *wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &wireConn{Conn: conn, wire: w}, err
}

type wireConn struct {
	net.Conn
	wire   *wire
	answer bytes.Buffer
}

func (c *wireConn) Read(p []byte) (int, error) {
	if c.answer.Len() == 0 {
		message := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, message); err != nil {
			return 0, err
		}
		message = append(message, make([]byte, binary.LittleEndian.Uint32(message)-4)...)
		if _, err := io.ReadFull(c.Conn, message[4:]); err != nil {
			return 0, err
		}
		c.answer.Write(c.changed(message))
	}
	return c.answer.Read(p)
}

func (c *wireConn) changed(message []byte) []byte {
	const head = 16 + 4 + 1 // of an OP_MSG without a checksum, up to its document
	value := c.wire.value.Load()
	if value == nil || binary.LittleEndian.Uint32(message[12:]) != 2013 || message[16]&1 != 0 {
		return message
	}
	var body bson.D
	if err := bson.Unmarshal(message[head:], &body); err != nil {
		return message
	}
	for i, e := range body {
		if e.Key == "value" && c.wire.value.CompareAndSwap(value, nil) {
			body[i].Value = *value
		}
	}
	raw, err := bson.Marshal(body)
	if err != nil {
		return message
	}
	message = append(message[:head:head], raw...)
	binary.LittleEndian.PutUint32(message, uint32(len(message)))
	return message
}

// A server that is asked again, because its first answer was lost, answers a
// findAndModify with the whole document as it was before.
func TestAnswerToARetry(t *testing.T) {
	t.Parallel()
	w := &wire{}
	db := mongotest.Database(t, options.Client().SetDialer(w))
	// Fields of the user's own may have any name.
	insert(t, db, bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: bson.A{1, "x", 2}}, {Key: "fresh", Value: "f"}, {Key: "held", Value: "h"}, {Key: "total", Value: "t"}},
		bson.D{{Key: "_id", Value: 2}})
	again := func(id int) {
		raw, err := db.Collection("parents").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		w.value.Store(&raw)
	}
	set := newLists[int, any](t, db, &outlier.Options{Set: true})
	list := newLists[int, any](t, db, nil)
	for id, want := range map[int]int64{1: 2, 2: 4} {
		again(id)
		if n, err := set.AddMany(t.Context(), id, []any{1.0, 3, 3, "x", int64(3), 4}); err != nil || n != want || w.value.Load() != nil {
			t.Errorf("%d: added %d, %v", id, n, err)
		}
		healthy(t, set)
	}
	if _, err := list.AddMany(t.Context(), 1, []any{2.0, "2"}); err != nil {
		t.Fatal(err)
	}
	for x, want := range map[any]int64{2: 2, 3: 1, "none": 0} {
		again(1)
		if n, err := list.RemoveAll(t.Context(), 1, x); err != nil || n != want || w.value.Load() != nil {
			t.Errorf("%v: removed %d, %v", x, n, err)
		}
	}
	if n, err := list.Total(t.Context(), 1); err != nil || n != 4 {
		t.Error(n, err)
	}
}
