package attribute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/rawvalue"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// Options names the fields and indexes. The zero value is attributes: [{k, v}]
// with the index {"attributes.k": 1, "attributes.v": 1}.
type Options struct {
	// ArrayField is the path of the array. Its parents, if it is dotted, must be
	// documents, not arrays. Default "attributes".
	ArrayField string
	// KeyField holds an entry's key, a string. This and the two below are names,
	// without dots. Default "k".
	KeyField string
	// ValueField holds an entry's value. Default "v".
	ValueField string
	// QualifierField holds the string that tells entries of one key apart.
	// Default "": a key stands once.
	QualifierField string

	// Indexes are the indexes to create. Default one, Index{}.
	Indexes []Index
}

// Index describes an index over the entries: {prefix…, key, qualifier, value,
// suffix…}, all ascending. The paths may be dotted.
type Index struct {
	// Prefix holds paths that queries compare for equality besides. Default
	// none.
	Prefix []string
	// KeyOnly leaves qualifier and value out. Default false.
	KeyOnly bool
	// Suffix holds paths to sort by. Default none.
	Suffix []string
}

// Attributes reads and writes the entries, of values V, in the documents with
// IDs of type ID in a collection. It is safe for concurrent use.
type Attributes[ID, V any] struct{ *core }

// An Attribute is an entry. Qualifier is "" if it has none.
type Attribute[V any] struct {
	Key       string `json:"key"`
	Value     V      `json:"value"`
	Qualifier string `json:"qualifier,omitempty"`
}

// core is what does not depend on the types.
type core struct {
	coll                         *mongo.Collection
	primary                      *mongo.Collection // for reads that a write depends on
	array, key, value, qualifier string
	indexes                      []Index
}

// New returns Attributes over coll. It does no I/O. opts may be nil. All that
// write one array must name its fields alike: without the QualifierField that
// others use, entries of one key are one.
func New[ID, V any](coll *mongo.Collection, opts *Options) (*Attributes[ID, V], error) {
	if coll == nil {
		return nil, errors.New("attribute: nil collection")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	setDefault(&o.ArrayField, "attributes")
	setDefault(&o.KeyField, "k")
	setDefault(&o.ValueField, "v")
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("attribute: %w", err)
	}
	c := &core{
		coll: coll, primary: scan.Primary(coll),
		array: o.ArrayField, key: o.KeyField, value: o.ValueField, qualifier: o.QualifierField,
	}
	for _, index := range o.Indexes {
		c.indexes = append(c.indexes, Index{
			Prefix: append([]string(nil), index.Prefix...), KeyOnly: index.KeyOnly, Suffix: append([]string(nil), index.Suffix...),
		})
	}
	if len(o.Indexes) == 0 {
		c.indexes = []Index{{}}
	}
	return &Attributes[ID, V]{c}, nil
}

// As returns the same attributes with another type of value, for arrays that
// hold several.
func As[T, ID, V any](a *Attributes[ID, V]) *Attributes[ID, T] { return &Attributes[ID, T]{a.core} }

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func (o *Options) check() error {
	if err := fieldpath.CheckNamed("Options.ArrayField", o.ArrayField); err != nil {
		return err
	}
	for _, f := range [][2]string{{"KeyField", o.KeyField}, {"ValueField", o.ValueField}, {"QualifierField", o.QualifierField}} {
		if f[1] == "" {
			continue // QualifierField
		}
		if err := fieldpath.CheckName("Options."+f[0], f[1]); err != nil {
			return err
		}
		if err := fieldpath.CheckNamed("Options."+f[0], f[1]); err != nil {
			return err
		}
	}
	if err := fieldpath.CheckDisjoint("_id", "_id", "Options.ArrayField", o.ArrayField); err != nil {
		return err
	}
	if err := fieldpath.CheckDisjoint("Options.KeyField", o.KeyField, "Options.ValueField", o.ValueField,
		"Options.QualifierField", o.QualifierField); err != nil {
		return err
	}
	for i, index := range o.Indexes {
		seen := map[string]bool{}
		for _, part := range []struct {
			name  string
			paths []string
		}{{"Prefix", index.Prefix}, {"Suffix", index.Suffix}} {
			for j, path := range part.paths {
				option := fmt.Sprintf("Options.Indexes[%d].%s[%d]", i, part.name, j)
				if err := fieldpath.CheckNamed(option, path); err != nil {
					return err
				}
				if fieldpath.CheckDisjoint("", o.ArrayField, "", path) != nil {
					return fmt.Errorf("%s: %w: %q overlaps Options.ArrayField", option, ErrTwoArrays, path)
				}
				if seen[path] {
					return fmt.Errorf("%s: %q stands twice", option, path)
				}
				seen[path] = true
			}
		}
		for j, other := range o.Indexes[:i] {
			if index.KeyOnly == other.KeyOnly && slices.Equal(index.Prefix, other.Prefix) && slices.Equal(index.Suffix, other.Suffix) {
				return fmt.Errorf("Options.Indexes[%d]: the same as Options.Indexes[%d]", i, j)
			}
		}
	}
	return nil
}

// Indexes returns the indexes that Options.Indexes describes; by default
// {"attributes.k": 1, "attributes.v": 1}, with QualifierField
// {"attributes.k": 1, "attributes.u": 1, "attributes.v": 1}.
func (c *core) Indexes() []mongo.IndexModel {
	models := make([]mongo.IndexModel, len(c.indexes))
	for i, index := range c.indexes {
		var paths []string
		paths = append(paths, index.Prefix...)
		paths = append(paths, c.path(c.key))
		if !index.KeyOnly {
			if c.qualifier != "" {
				paths = append(paths, c.path(c.qualifier))
			}
			paths = append(paths, c.path(c.value))
		}
		var keys bson.D
		for _, path := range append(paths, index.Suffix...) {
			keys = append(keys, bson.E{Key: path, Value: 1})
		}
		models[i] = mongo.IndexModel{Keys: keys}
	}
	return models
}

// EnsureIndexes creates the Indexes that are missing. An index on the same keys
// with other options is ErrIndexConflict; nothing is dropped. Where a Prefix or
// Suffix holds an array in some document, it is ErrTwoArrays.
//
// Cost: 1 round trip if they are all there, else 2; with a Prefix or Suffix 1
// more, and if one is missing another, which scans the collection.
func (c *core) EnsureIndexes(ctx context.Context) error {
	if err := c.refuseArrays(ctx); err != nil {
		return fmt.Errorf("attribute: ensure indexes: %w", err)
	}
	if err := indexes.Ensure(ctx, c.coll, c.Indexes()); err != nil {
		return fmt.Errorf("attribute: %w", twoArrays(err))
	}
	return nil
}

// refuseArrays looks for documents that an index could not hold before it is
// made: the server would find them only in the middle.
func (c *core) refuseArrays(ctx context.Context) error {
	paths := c.sides()
	if len(paths) == 0 {
		return nil
	}
	specs, err := c.coll.Indexes().ListSpecifications(ctx)
	if err != nil {
		return fmt.Errorf("list indexes: %w", err)
	}
	existing := map[string]bool{}
	for _, spec := range specs {
		existing[keyNames(spec.KeysDocument)] = true
	}
	missing := false
	for _, model := range c.Indexes() {
		keys, _ := bson.Marshal(model.Keys) // strings and numbers
		missing = missing || !existing[keyNames(keys)]
	}
	if !missing {
		return nil
	}
	var arrays bson.A
	for _, path := range paths {
		for _, part := range fieldpath.Steps(path) {
			arrays = append(arrays, bson.D{{Key: part, Value: isType("array")}})
		}
	}
	var doc bson.Raw
	err = c.primary.FindOne(ctx, bson.D{{Key: c.array, Value: isType("array")}, {Key: "$or", Value: arrays}},
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Decode(&doc)
	switch {
	case err == nil:
		return fmt.Errorf("%w: document %s: %q and one of %q", ErrTwoArrays, rawvalue.Text(doc.Lookup("_id")), c.array, paths)
	case !errors.Is(err, mongo.ErrNoDocuments):
		return err
	}
	return nil
}

func keyNames(keys bson.Raw) string {
	elements, _ := keys.Elements()
	names := make([]string, len(elements))
	for i, element := range elements {
		names[i] = element.Key()
	}
	return fmt.Sprintf("%q", names)
}

// sides are the paths that stand beside the array in indexes, each once.
func (c *core) sides() (paths []string) {
	seen := map[string]bool{}
	for _, index := range c.indexes {
		for _, path := range append(append([]string(nil), index.Prefix...), index.Suffix...) {
			if !seen[path] {
				seen[path] = true
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// twoArrays marks the server's refusal of a document with two arrays in an
// index.
func twoArrays(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCode(171) {
		return fmt.Errorf("%w: %w", ErrTwoArrays, err)
	}
	return err
}

// ShardKey returns {_id: 1}, on which every write of one document filters. An
// array cannot be part of a shard key; one that the documents suggest otherwise
// is as good, see the manual.
func (c *core) ShardKey() bson.D { return bson.D{{Key: "_id", Value: 1}} }
