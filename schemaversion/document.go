package schemaversion

import (
	"reflect"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
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
// T does not have are kept, as the steps leave them.
type Doc[T any, S Set] struct {
	V    T
	rest []bson.RawElement
}

// MarshalBSON encodes V with the newest version.
func (d Doc[T, S]) MarshalBSON() ([]byte, error) {
	var s S
	c := s.Chain()
	raw, err := c.codec.Document(d.V)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{raw[4 : len(raw)-1]}
	for _, e := range d.rest {
		if raw.Lookup(e.Key()).Type == 0 {
			parts = append(parts, e)
		}
	}
	return c.stamp(value.Document(parts...)), nil
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
	d.rest = nil
	if known, all := c.codec.Fields(reflect.TypeFor[T]()); all {
		if d.rest, err = slices.Clone(made).Elements(); err != nil { // made is the caller's
			return err
		}
		d.rest = slices.DeleteFunc(d.rest, func(e bson.RawElement) bool {
			return e.Key() == c.field || slices.Contains(known, e.Key())
		})
	}
	return c.codec.Decode(made, &d.V)
}
