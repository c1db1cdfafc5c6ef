package schemaversion

import (
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Chain is the steps alone, for [Doc].
type Chain struct {
	chain
	codec codec.Codec
}

// NewChain returns steps for [Doc]; of the options, those of Migrate and Get do not
// count.
func NewChain(steps []Step, opts *Options) (c *Chain, err error) {
	defer fault.In(&err, "schemaversion: new chain")
	var o Options
	if opts != nil {
		o = *opts
	}
	inner, err := newChain(steps, &o)
	return &Chain{inner, codec.Codec{Registry: o.Registry, BSON: o.BSON}}, err
}

// Must is for package variables: it panics on an error of NewChain.
func Must(c *Chain, err error) *Chain {
	if err != nil {
		panic(err)
	}
	return c
}

// Set says which steps a Doc has. Make a type without fields whose method returns a
// package variable.
type Set interface{ Chain() *Chain }

// Doc is a T that upgrades itself when it is decoded and is encoded with its version: the
// T of any other package. Stored documents become new when they are written. Fields that
// T does not have are kept, at any depth, as the steps leave them.
type Doc[T any, S Set] struct {
	V    T
	read bson.Raw // in the newest version; nil if T says itself what it keeps
}

// MarshalBSON encodes V with the newest version.
func (d Doc[T, S]) MarshalBSON() ([]byte, error) {
	var s S
	c := s.Chain()
	raw, err := c.codec.Document(d.V)
	if err != nil {
		return nil, err
	}
	if d.read != nil {
		base, err := view[T](c.codec, d.read)
		if err != nil {
			return nil, err
		}
		names, _ := c.codec.Fields(reflect.TypeFor[T]())
		raw = keep[T](c.codec, names, base, d.read, raw)
	}
	return c.stamp(raw, c.newest())
}

// UnmarshalBSON upgrades a document and decodes it. One without a version is of the
// first.
func (d *Doc[T, S]) UnmarshalBSON(raw []byte) error {
	var s S
	c := s.Chain()
	made, err := c.to(bson.Raw(raw), c.newest())
	if err != nil {
		return err
	}
	var none T // or what V was before would stay where the document has nothing
	d.V, d.read = none, nil
	if _, told := c.codec.Fields(reflect.TypeFor[T]()); told {
		d.read = slices.Clone(made) // which is the caller's
	}
	return c.codec.Decode(made, &d.V)
}
