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

// rewritten returns the message of another command. It has no documents behind the command.
func rewritten(m wire.Message, change func(bson.D) bson.D) wire.Message {
	body, behind, _ := m.Parse() // which command has done without an error
	doc := document(body)
	for _, s := range behind {
		all := bson.A{}
		for _, one := range s.Documents {
			all = append(all, document(one))
		}
		doc = append(doc, bson.E{Key: s.Name, Value: all})
	}
	return wire.New(m.ID(), 0, marshal(change(doc)))
}

func document(raw bson.Raw) (d bson.D) {
	if err := bson.Unmarshal(raw, &d); err != nil {
		panic(err)
	}
	return d
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
	return marshal(append(document(doc), more...))
}
