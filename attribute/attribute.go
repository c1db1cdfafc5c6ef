package attribute

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/maintain"
	"github.com/mongopatterns/mongopatterns/internal/scope"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

var (
	// ErrNoAttribute: the document has no entry with this key. It matches ErrNotFound, like the
	// error for a missing document.
	ErrNoAttribute = fault.New("no such attribute", mongopatterns.ErrNotFound)

	// ErrTwoArrays: an index would hold two arrays of one document, which MongoDB refuses.
	// It matches ErrMalformed.
	ErrTwoArrays = fault.New("an index cannot hold two arrays", mongopatterns.ErrMalformed)
)

// Options names the fields and indexes. The zero value stores attributes: [{k, v}], with the index
// {"attributes.k": 1, "attributes.v": 1}.
//
// Values are encoded and decoded with the registry and the BSON options of the collection's client.
type Options struct {
	// ArrayField is the path of the array. If it is dotted, its parents must be documents,
	// not arrays. Default "attributes".
	ArrayField string
	// KeyField is the field of an entry's key, a string. KeyField, ValueField and
	// QualifierField are names without dots. Default "k".
	KeyField string
	// ValueField is the field of an entry's value. Default "v".
	ValueField string
	// QualifierField is the field of a string that distinguishes entries with the same key.
	// Default "": a document has one entry for each key.
	QualifierField string

	// Indexes are the indexes to create. Default: one, Index{}.
	Indexes []Index

	// OnCollision says what Adopt and Unadopt do on a collision. Default Skip.
	OnCollision Collision
	// Copy makes Adopt and Unadopt keep the old form too, for readers that do not know the new one
	// yet. Default false.
	Copy bool

	// Scope separates several tenants in the same collection. See Tenants in the manual of mongopatterns. Its fields are
	// part of every filter and start every index. Your own code stores them in the documents. The values are strings,
	// numbers and similar, which are stored as the driver encodes them without a registry. Null, an array or a regular
	// expression is refused. A document of another tenant is not found. Default none: all documents of the collection.
	Scope bson.D
}

// Index describes an index over the entries: {prefix…, key, qualifier, value,
// suffix…}, all ascending. The paths may be dotted.
type Index struct {
	// Prefix are paths of other fields that queries compare for equality. They must not hold arrays. Default
	// none.
	Prefix []string
	// KeyOnly leaves qualifier and value out of the index. Default false.
	KeyOnly bool
	// Suffix are paths to sort by, such as "title", or "title" and "_id" for package paging, which sorts
	// by _id last. A query that compares one entry for equality then needs no sort in memory. Default
	// none.
	Suffix []string
}

// Attributes reads and writes the entries, of values V, in the documents with
// IDs of type ID in a collection. It is safe for concurrent use.
type Attributes[ID, V any] struct{ c *core }

// An Attribute is an entry. Qualifier is "" if the entry has none.
//
// To read or insert the array as a field of your struct, use a type with the names of your Options, by
// default bson:"k" and bson:"v". An Attribute encodes with the names key, value and qualifier, so
// entries stored as Attributes are found only if the Options have these names.
type Attribute[V any] struct {
	Key       string `bson:"key" json:"key"`
	Value     V      `bson:"value" json:"value"`
	Qualifier string `bson:"qualifier" json:"qualifier,omitempty"`
}

// core holds everything that does not depend on the types.
type core struct {
	coll                         *scoped.Collection
	primary                      *scoped.Collection // for reads that a write depends on
	array, key, value, qualifier string
	keyPath                      string
	indexes                      []bson.D // the keys of Options.Indexes
	sides                        []string // all paths of Prefix and Suffix, each once
	onCollision                  Collision
	keep                         bool
	x                            expressions
}

// New returns Attributes over coll. It does no I/O; opts may be nil. ID is the type of the documents' _id,
// V that of the values. All programs that write one array must use the same field names.
func New[ID, V any](coll *mongo.Collection, opts *Options) (a *Attributes[ID, V], err error) {
	defer fault.In(&err, "attribute.New")
	if err := cmp.Or(codec.CheckOrder[ID]("ID"), codec.CheckOrder[V]("V")); err != nil {
		return nil, err
	}
	if err := config.Collections("coll", coll); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Scope = slices.Clone(o.Scope)
	if err := o.complete(); err != nil {
		return nil, err
	}
	of, err := scope.New(codec.Codec{}, o.Scope)
	if err != nil {
		return nil, err
	}
	own := scoped.On(coll).In(of)
	c := &core{
		coll: own, primary: cursor.Primary(own),
		array: o.ArrayField, key: o.KeyField, value: o.ValueField, qualifier: o.QualifierField,
		onCollision: o.OnCollision, keep: o.Copy,
	}
	for _, index := range o.Indexes {
		c.indexes = append(c.indexes, c.keys(index))
		c.sides = slices.Concat(c.sides, index.Prefix, index.Suffix)
	}
	slices.Sort(c.sides)
	c.sides = slices.Compact(c.sides)
	c.keyPath, c.x = c.path(c.key), c.expressions()
	return &Attributes[ID, V]{c}, nil
}

// As returns the same attributes with another type of value, for arrays with values of several
// types. a must not be nil.
func As[T, ID, V any](a *Attributes[ID, V]) *Attributes[ID, T] { return &Attributes[ID, T]{a.c} }

func (o *Options) complete() error {
	if len(o.Indexes) == 0 {
		o.Indexes = []Index{{}}
	}
	id := "_id"
	return cmp.Or(
		config.Apply(append(config.Scope(o.Scope), config.Name("_id", &id, id),
			config.Named("Options.ArrayField", &o.ArrayField, "attributes"))...),
		config.Apply(
			config.Name("Options.KeyField", &o.KeyField, "k"), config.Name("Options.ValueField", &o.ValueField, "v"),
			config.Name("Options.QualifierField", &o.QualifierField, "")),
		config.Apply( // a number would be a position in the array
			config.Named("Options.KeyField", &o.KeyField, ""), config.Named("Options.ValueField", &o.ValueField, ""),
			config.Named("Options.QualifierField", &o.QualifierField, ""),
			config.Check("Options.OnCollision", o.OnCollision.check), config.Check("Options.Indexes", o.checkIndexes)))
}

func (o *Options) checkIndexes() error {
	for i, index := range o.Indexes {
		seen := map[string]bool{}
		for _, part := range []struct {
			name  string
			paths []string
		}{{"Prefix", index.Prefix}, {"Suffix", index.Suffix}} {
			for j, path := range part.paths {
				option := fmt.Sprintf("[%d].%s[%d]", i, part.name, j)
				if err := fieldpath.CheckNamed(option, path); err != nil {
					return err
				}
				if fieldpath.CheckDisjoint("", o.ArrayField, "", path) != nil {
					return fmt.Errorf("%s: %w: %q overlaps Options.ArrayField", option, ErrTwoArrays, path)
				}
				if name, _, _ := strings.Cut(path, "."); slices.ContainsFunc(o.Scope, func(e bson.E) bool { return e.Key == name }) {
					return fmt.Errorf("%s: %q is a field of Options.Scope, which starts each index", option, path)
				}
				if seen[path] {
					return fmt.Errorf("%s: %q is given twice", option, path)
				}
				seen[path] = true
			}
		}
		for j, other := range o.Indexes[:i] {
			if index.KeyOnly == other.KeyOnly && slices.Equal(index.Prefix, other.Prefix) && slices.Equal(index.Suffix, other.Suffix) {
				return fmt.Errorf("[%d]: it is the same as [%d]", i, j)
			}
		}
	}
	return nil
}

// Indexes returns the indexes of Options.Indexes, by collection; by default
// {"attributes.k": 1, "attributes.v": 1}, or with QualifierField
// {"attributes.k": 1, "attributes.u": 1, "attributes.v": 1}. All begin with the scope.
func (a *Attributes[ID, V]) Indexes() map[string][]mongo.IndexModel {
	var models []mongo.IndexModel
	for _, keys := range a.c.indexes {
		models = append(models, mongo.IndexModel{Keys: slices.Clone(keys)})
	}
	return map[string][]mongo.IndexModel{a.c.coll.Name(): models}
}

func (c *core) keys(index Index) (keys bson.D) {
	paths := append(slices.Clone(index.Prefix), c.path(c.key))
	if !index.KeyOnly {
		if c.qualifier != "" {
			paths = append(paths, c.path(c.qualifier))
		}
		paths = append(paths, c.path(c.value))
	}
	for _, path := range append(paths, index.Suffix...) {
		keys = append(keys, expr.Element(path, 1))
	}
	return c.coll.Scope().Keys(keys)
}

// EnsureIndexes creates the Indexes that are missing. It drops nothing. If an index on the same
// keys has other options, it returns ErrIndexConflict. If a Prefix or Suffix is an array in some
// document, it returns ErrTwoArrays; Check finds these documents.
//
// Cost: 2 round trips, 3 if an index is missing.
func (a *Attributes[ID, V]) EnsureIndexes(ctx context.Context) (err error) {
	defer fault.In(&err, "attribute.EnsureIndexes")
	if err := a.c.ready(ctx, nil); err != nil {
		return err
	}
	return twoArrays(indexes.EnsureAll(ctx, a.c.coll.Database(), a.Indexes()))
}

func (c *core) ready(ctx context.Context, work *mongopatterns.Work) error {
	return maintain.Ready(ctx, work, c.coll)
}

// cannotIndexParallelArrays is the server's code for a document with two arrays in an index.
const cannotIndexParallelArrays = 171

// twoArrays adds ErrTwoArrays to the server's refusal of a document with two arrays in an
// index.
func twoArrays(err error) error {
	if fault.HasCode(err, cannotIndexParallelArrays) {
		return fmt.Errorf("%w: %w", ErrTwoArrays, err)
	}
	return err
}

// ShardKey returns the scope and {_id: 1}, by collection, because every write of one document filters on them.
func (a *Attributes[ID, V]) ShardKey() map[string]bson.D {
	return map[string]bson.D{a.c.coll.Name(): a.c.coll.Scope().Keys(expr.D("_id", 1))}
}
