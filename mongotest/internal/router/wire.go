package router

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/wire"
)

// parse returns the command of a message and its database, with the documents that follow the command put into
// it.
func parse(m wire.Message) (db string, cmd bson.D, err error) {
	if m.OldHello() {
		return "admin", bson.D{{Key: "hello", Value: 1}}, nil
	}
	doc, behind, err := m.Parse()
	if err != nil {
		return "", nil, err
	}
	if cmd = decode(doc); len(cmd) == 0 {
		return "", nil, errors.New("no command")
	}
	db, _ = lookup(cmd, "$db").StringValueOK()
	cmd = without(cmd, "$db")
	for _, s := range behind {
		docs := bson.A{}
		for _, doc := range s.Documents {
			docs = append(docs, doc)
		}
		cmd = append(cmd, bson.E{Key: s.Name, Value: raw(docs)})
	}
	return db, cmd, nil
}

// decode returns the elements of a document, with their values still encoded.
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

// encode encodes a value. It cannot fail, because its values were decoded from BSON or made by this package.
func encode(v any) bson.Raw {
	doc, err := bson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("router: encode: %v", err))
	}
	return doc
}

// raw returns a value in its encoded form.
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

// lookup returns a field of a command, the zero value if it is missing.
func lookup(d bson.D, field string) bson.RawValue {
	for _, e := range d {
		if e.Key == field {
			return raw(e.Value)
		}
	}
	return bson.RawValue{}
}

// document returns a field that is a document, and an empty document if it is not.
func document(d bson.D, field string) bson.D {
	if doc, ok := lookup(d, field).DocumentOK(); ok {
		return decode(doc)
	}
	return bson.D{}
}

// list returns the elements of a field that is an array.
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

// with returns d with fields that replace those of the same names, or are added at its end.
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
