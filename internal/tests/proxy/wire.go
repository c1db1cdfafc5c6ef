package proxy

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

// command returns the command in a message, and false for the old form of hello, with which a driver begins.
func command(m wire.Message) (Command, bool, error) {
	if m.OldHello() {
		return Command{}, false, nil
	}
	body, _, err := m.Parse()
	if err != nil {
		return Command{}, false, fmt.Errorf("proxy: not a command: %w", err)
	}
	elements, err := body.Elements()
	if err != nil || len(elements) == 0 {
		return Command{}, false, fmt.Errorf("proxy: not a command: %w", err)
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

// abort returns the message that ends the transaction of a command. It is sent instead of the command, with
// its ID.
func abort(id int32, c Command) wire.Message {
	return wire.New(id, 0, marshal(bson.D{
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

// with returns a document with further elements at its end.
func with(doc bson.Raw, more ...bson.E) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		panic(err)
	}
	return marshal(append(d, more...))
}
