package polymorphic

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Set says which kinds a Doc has. Make a type without fields whose method returns a
// package variable.
type Set[I any] interface{ Kinds() *Kinds[I] }

// Doc holds a value that encodes and decodes itself by the kinds of S, in BSON and in
// JSON. In a field, a nil V is null.
type Doc[I any, S Set[I]] struct{ V I }

func kindsOf[I any, S Set[I]]() *Kinds[I] {
	var s S
	return s.Kinds()
}

// MarshalBSON calls Kinds.Encode.
func (d Doc[I, S]) MarshalBSON() ([]byte, error) { return kindsOf[I, S]().Encode(d.V) }

// UnmarshalBSON calls Kinds.Decode.
func (d *Doc[I, S]) UnmarshalBSON(raw []byte) (err error) {
	d.V, err = kindsOf[I, S]().Decode(raw)
	return err
}

// MarshalBSONValue is MarshalBSON for a field, with null for a nil V.
func (d Doc[I, S]) MarshalBSONValue() (byte, []byte, error) {
	if any(d.V) == nil {
		return byte(bson.TypeNull), nil, nil
	}
	raw, err := d.MarshalBSON()
	return byte(bson.TypeEmbeddedDocument), raw, err
}

// UnmarshalBSONValue is UnmarshalBSON for a field, with a nil V for null.
func (d *Doc[I, S]) UnmarshalBSONValue(t byte, data []byte) (err error) {
	defer fault.In(&err, "polymorphic.Decode")
	switch bson.Type(t) {
	case bson.TypeNull:
		var none I
		d.V = none
		return nil
	case bson.TypeEmbeddedDocument:
		return d.UnmarshalBSON(data)
	}
	return fault.Malformed("the value is not a document")
}
