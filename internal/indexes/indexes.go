// Package indexes creates the indexes a pattern needs and does not change existing ones.
package indexes

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// EnsureAll is Ensure for several collections of a database, in the order of their names. After a conflict in
// one, those before it have their indexes.
//
// Cost: that of Ensure for each collection.
func EnsureAll(ctx context.Context, db *mongo.Database, models map[string][]mongo.IndexModel) error {
	for i, name := range slices.Sorted(maps.Keys(models)) {
		err := Ensure(ctx, db.Collection(name), models[name])
		if err != nil && i > 0 {
			return fault.Unknown(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Ensure creates the models that the collection does not have yet. An index with the same keys and options
// counts, whatever its name is. If one differs or is hidden, Ensure returns an error that wraps ErrIndexConflict,
// and creates and drops nothing. If documents break a unique one, the error wraps ErrMalformed.
//
// Cost: 1 round trip, 2 if an index is missing.
func Ensure(ctx context.Context, coll *mongo.Collection, models []mongo.IndexModel) error {
	existing, err := list(ctx, coll)
	if err != nil {
		return err
	}
	var missing []mongo.IndexModel
	for _, model := range models {
		want, err := describe(model)
		if err != nil {
			return err
		}
		found, err := find(coll, existing, want)
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, model)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = fault.Many(coll.Indexes().CreateMany(ctx, missing))
	return createError(coll, err)
}

// find reports whether an index exists. It returns an error if one is in its way.
func find(coll *mongo.Collection, existing []spec, want spec) (bool, error) {
	for _, have := range existing {
		same := have.same(want)
		switch {
		case same && have.Hidden:
			return false, hidden(coll, have)
		case same:
			return true, nil
		case have.excludes(want):
			return false, fmt.Errorf("%w: %s has the index %q on %s, and needs it on %s", fault.ErrIndexConflict,
				coll.Name(), have.Name, have, want)
		}
	}
	return false, nil
}

// excludes reports whether s, by its name or its keys, keeps another index with other options from being created beside it.
// The server decides about collations that differ: it completes them by their locale, and determines whether the index
// exists already.
func (s spec) excludes(other spec) bool {
	sameKey := bytes.Equal(s.Key, other.Key)
	if s.Name == other.Name && (!sameKey || s.Collation.Locale != other.Collation.Locale) {
		return true
	}
	// A unique index over all documents refuses what one over some allows.
	stricter := s.Unique && len(s.PartialFilter) == 0 && len(other.PartialFilter) > 0
	return sameKey && s.Collation == other.Collation && (stricter || bytes.Equal(s.PartialFilter, other.PartialFilter))
}

// hidden is the error for an index that would do, but that somebody has hidden from all queries. The server would
// not create it once more.
func hidden(coll *mongo.Collection, have spec) error {
	return fmt.Errorf("%w: %s has the index %q on %s, but it is hidden, so no query uses it: unhide it with collMod, or drop it",
		fault.ErrIndexConflict, coll.Name(), have.Name, have)
}

// The server's codes for an index that exists with other options, or whose name has other keys.
const (
	indexOptionsConflict  = 85
	indexKeySpecsConflict = 86
)

// createError says what a server has against new indexes.
func createError(coll *mongo.Collection, err error) error {
	if err == nil {
		return nil
	}
	if fault.HasCode(err, indexOptionsConflict, indexKeySpecsConflict) {
		return fmt.Errorf("%w: %s: %w", fault.ErrIndexConflict, coll.Name(), &shortened{err})
	}
	if fault.Forbidden(err) {
		err = fault.NotDone(err)
	}
	err = fmt.Errorf("create indexes: %w", err)
	if mongo.IsDuplicateKeyError(err) {
		err = fmt.Errorf("%w: %s: several documents have the key below, and the index allows it once: %w", fault.ErrMalformed, coll.Name(), err)
	}
	return err
}

// Has reports whether the collection has a model, hidden or not.
//
// Cost: 1 round trip.
func Has(ctx context.Context, coll *mongo.Collection, model mongo.IndexModel) (bool, error) {
	want, err := describe(model)
	if err != nil {
		return false, err
	}
	existing, err := list(ctx, coll)
	return slices.ContainsFunc(existing, want.same), err
}

// list returns the indexes that exist, in a form in which they can be compared.
func list(ctx context.Context, coll *mongo.Collection) (existing []spec, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("list indexes: %w", err)
		}
	}()
	cursor, err := coll.Indexes().List(ctx)
	if err != nil {
		return nil, err
	}
	if err := cursor.All(ctx, &existing); err != nil {
		return nil, err
	}
	for i := range existing {
		if existing[i].Key, err = normalKey(existing[i].Key); err != nil {
			return nil, err
		}
		existing[i].Collation.complete()
	}
	return existing, nil
}

// EnsureFirst creates an index on ascending keys, unless the collection has one that begins with their fields, finds all
// documents, and is not hidden. It returns an error that wraps ErrIndexConflict if the index that it would create is hidden.
//
// Cost: that of Ensure.
func EnsureFirst(ctx context.Context, coll *mongo.Collection, keys bson.D) error {
	existing, err := list(ctx, coll)
	if err != nil {
		return err
	}
	var unused error
	for _, have := range existing {
		same, first := begins(have.Key, keys)
		if !first || have.Sparse || len(have.PartialFilter) > 0 || have.Collation.Locale != "" {
			continue
		}
		if !have.Hidden {
			return nil
		}
		if same {
			unused = hidden(coll, have)
		}
	}
	if unused != nil {
		return unused
	}
	_, err = fault.One(coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}))
	return createError(coll, err)
}

// begins reports whether an index begins with the fields of ascending keys, in any direction, and whether it is the same.
func begins(have bson.Raw, keys bson.D) (same, first bool) {
	elements, _ := have.Elements()
	if len(elements) < len(keys) {
		return false, false
	}
	same = len(elements) == len(keys)
	for i, e := range keys {
		order, ordered := elements[i].Value().AsInt64OK()
		if elements[i].Key() != e.Key || !ordered {
			return false, false
		}
		same = same && order == 1
	}
	return same, true
}

// shortened leaves out what the server says about its documentation.
type shortened struct{ error }

func (s *shortened) Error() string {
	return strings.ReplaceAll(s.error.Error(), "Please refer to our documentation. ", "")
}

func (s *shortened) Unwrap() error { return s.error }

// spec has the properties in which two indexes must agree to be the same for the patterns.
type spec struct {
	Name          string    `bson:"name"`
	Key           bson.Raw  `bson:"key"`
	Unique        bool      `bson:"unique"`
	Sparse        bool      `bson:"sparse"`
	Hidden        bool      `bson:"hidden"`
	ExpireAfter   *int64    `bson:"expireAfterSeconds"`
	PartialFilter bson.Raw  `bson:"partialFilterExpression"`
	Collation     collation `bson:"collation"`
}

type collation struct {
	Locale          string `bson:"locale"`
	Strength        int    `bson:"strength"`
	CaseLevel       bool   `bson:"caseLevel"`
	CaseFirst       string `bson:"caseFirst"`
	NumericOrdering bool   `bson:"numericOrdering"`
	Alternate       string `bson:"alternate"`
	MaxVariable     string `bson:"maxVariable"`
	Normalization   bool   `bson:"normalization"`
	Backwards       bool   `bson:"backwards"`
}

// complete sets the values that the server uses for missing ones.
func (c *collation) complete() {
	if c.Locale == "" {
		return
	}
	c.Strength = cmp.Or(c.Strength, 3)
	c.CaseFirst = cmp.Or(c.CaseFirst, "off")
	c.Alternate = cmp.Or(c.Alternate, "non-ignorable")
	c.MaxVariable = cmp.Or(c.MaxVariable, "punct")
}

// same reports whether two indexes agree in their keys and all options; names may differ.
func (s spec) same(o spec) bool {
	return bytes.Equal(s.Key, o.Key) &&
		s.Unique == o.Unique && s.Sparse == o.Sparse && s.Collation == o.Collation &&
		bytes.Equal(s.PartialFilter, o.PartialFilter) &&
		(s.ExpireAfter == nil) == (o.ExpireAfter == nil) &&
		(s.ExpireAfter == nil || *s.ExpireAfter == *o.ExpireAfter)
}

func (s spec) String() string {
	out := s.Key.String()
	if s.Unique {
		out += " unique"
	}
	if s.Sparse {
		out += " sparse"
	}
	if s.ExpireAfter != nil {
		out += fmt.Sprintf(" expiring after %d s", *s.ExpireAfter)
	}
	if len(s.PartialFilter) > 0 {
		out += " where " + s.PartialFilter.String()
	}
	if s.Collation.Locale != "" {
		out += fmt.Sprintf(" collation %s/%d", s.Collation.Locale, s.Collation.Strength)
	}
	return out
}

// describe reads a model without writing into its options builder.
func describe(model mongo.IndexModel) (spec, error) {
	key, err := normalKey(model.Keys)
	if err != nil {
		return spec{}, fmt.Errorf("index keys: %w", err)
	}
	out := spec{Key: key}
	var opts options.IndexOptions
	if model.Options != nil {
		for _, set := range model.Options.List() {
			if err := set(&opts); err != nil {
				return spec{}, fmt.Errorf("index options: %w", err)
			}
		}
	}
	if opts.Name != nil {
		out.Name = *opts.Name
	}
	if opts.Unique != nil {
		out.Unique = *opts.Unique
	}
	if opts.Sparse != nil {
		out.Sparse = *opts.Sparse
	}
	if opts.ExpireAfterSeconds != nil {
		seconds := int64(*opts.ExpireAfterSeconds)
		out.ExpireAfter = &seconds
	}
	if opts.PartialFilterExpression != nil {
		if out.PartialFilter, err = bson.Marshal(opts.PartialFilterExpression); err != nil {
			return spec{}, fmt.Errorf("index partial filter: %w", err)
		}
	}
	if c := opts.Collation; c != nil && c.Locale != "simple" {
		out.Collation = collation{c.Locale, c.Strength, c.CaseLevel, c.CaseFirst, c.NumericOrdering, c.Alternate, c.MaxVariable, c.Normalization, c.Backwards}
		out.Collation.complete()
	}
	return out, nil
}

// normalKey writes directions as int32, because 1, int64(1) and 1.0 are one index.
func normalKey(keys any) (bson.Raw, error) {
	doc, err := bson.Marshal(keys)
	if err != nil {
		return nil, err
	}
	elements, err := bson.Raw(doc).Elements()
	if err != nil {
		return nil, err
	}
	var out bson.D
	for _, e := range elements {
		if n, ok := e.Value().AsInt64OK(); ok {
			out = append(out, expr.Element(e.Key(), int32(n)))
		} else {
			out = append(out, expr.Element(e.Key(), e.Value()))
		}
	}
	return bson.Marshal(out)
}
