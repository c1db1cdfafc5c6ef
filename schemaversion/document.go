package schemaversion

import (
	"encoding/json"
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// A Chain holds steps without a collection, for [Doc].
type Chain struct {
	chain
	codec codec.Codec
}

// NewChain returns a Chain of steps. It uses VersionField, FirstVersion, Text, Registry and BSON of the
// options, and ignores those of Migrate and Get.
func NewChain(steps []Step, opts *Options) (c *Chain, err error) {
	defer fault.In(&err, "schemaversion.NewChain")
	var o Options
	if opts != nil {
		o = *opts
	}
	inner, err := newChain(steps, &o)
	return &Chain{inner, codec.Codec{Registry: o.Registry, BSON: o.BSON}}, err
}

// Must returns c, and panics if err is not nil. It is for package variables.
func Must(c *Chain, err error) *Chain {
	if err != nil {
		panic(err)
	}
	return c
}

// A Set gives a Doc its steps. Declare a type without fields whose method returns a package
// variable.
type Set interface{ Chain() *Chain }

// A Doc is a T that upgrades itself when it is decoded, and is encoded with its version. Use it as
// the T of any other package. An old document gets the newest version when it is next written.
// Fields that T does not have are kept, at any depth, as the steps leave them. A T with its own
// codec must keep them itself. A Doc that you make yourself, Doc[T, S]{V: v}, has no such fields,
// so a document that is replaced by it loses them, as it would if it were replaced by a T. To keep
// them, store what [Doc.Over] returns, as Save of package versioning does. As JSON a Doc is its V.
type Doc[T any, S Set] struct {
	V    T
	read bson.Raw // in the newest version; nil if the fields of T are not known
}

// MarshalBSON encodes V with the newest version.
func (d Doc[T, S]) MarshalBSON() ([]byte, error) { return d.over(d.read) }

// Over encodes V with the newest version. It takes the fields that T does not have from stored, a
// document of any version. It does not use the document that d was decoded from. If T has its own
// codec, Over encodes V alone.
func (d Doc[T, S]) Over(stored bson.Raw) (raw bson.Raw, err error) {
	defer fault.In(&err, "schemaversion.Over")
	if err := codec.CheckBSON(stored); err != nil {
		return nil, err
	}
	var s S
	c := s.Chain()
	if _, told := c.codec.Fields(reflect.TypeFor[T]()); !told {
		return d.over(nil)
	}
	made, err := c.to(stored, c.newest())
	if err != nil {
		return nil, err
	}
	return d.over(made)
}

// over encodes V with the fields of read that T does not have; nil for none.
func (d Doc[T, S]) over(read bson.Raw) (bson.Raw, error) {
	var s S
	c := s.Chain()
	raw, err := c.codec.Stored(d.V)
	if err != nil {
		return nil, err
	}
	if read != nil {
		base, err := view[T](c.codec, read)
		if err != nil {
			return nil, err
		}
		names, _ := c.codec.Fields(reflect.TypeFor[T]())
		raw = keep[T](c.codec, names, base, read, raw)
	}
	return c.stamp(raw, c.newest())
}

// UnmarshalBSON upgrades a document and decodes it. A document without a version has the first one.
func (d *Doc[T, S]) UnmarshalBSON(raw []byte) error {
	var s S
	c := s.Chain()
	made, err := c.to(bson.Raw(raw), c.newest())
	if err != nil {
		return err
	}
	var none T // otherwise old values of V would stay where the document has no field
	d.V, d.read = none, nil
	if _, told := c.codec.Fields(reflect.TypeFor[T]()); told {
		d.read = slices.Clone(made) // made may be memory of the caller
	}
	return c.codec.Decode(made, &d.V)
}

// MarshalJSON encodes V.
func (d Doc[T, S]) MarshalJSON() ([]byte, error) { return json.Marshal(d.V) }

// UnmarshalJSON decodes V. A Doc that was read keeps the fields that T does not have.
func (d *Doc[T, S]) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &d.V) }
