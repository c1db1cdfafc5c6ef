package attribute

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/scan"
)

// A Column is a field of the documents and the entry that stands for it.
type Column struct {
	// Path of the field, dotted or not. Its parents must be documents, not arrays.
	Path string
	// Key and Qualifier of the entry.
	Key       string
	Qualifier string
}

// AdoptOptions bounds Adopt and Unadopt.
type AdoptOptions struct {
	// Filter narrows the documents, when they are found and again when they are
	// written. Default nil: all.
	Filter bson.D
	// Keep leaves what is moved where it was as well: the fields (Adopt), the
	// entries (Unadopt). Default false.
	Keep bool
	// Nulls makes fields that are null entries with the value null. Default
	// false: null is no value, like a missing field.
	Nulls bool
	// OnCollision says what happens where field and entry, or two entries, have
	// values that are not the same. Default Skip.
	OnCollision Collision
	// BatchSize is how many documents one write changes. Default 1000.
	BatchSize int
	// Progress is called after each batch with the documents examined so far.
	// Default nil.
	Progress func(done int64)
}

// AdoptResult counts documents.
type AdoptResult struct {
	Examined int64 `json:"examined"` // had one of the fields (Adopt) or entries (Unadopt)
	Adopted  int64 `json:"adopted"`  // changed
	// Skipped were left alone: on a collision, because ArrayField is no array or
	// the parent of a field no document, or because they were changed or deleted
	// by somebody else meanwhile. Without Keep they are found by what they still
	// have: one of the fields ({path: {$exists: true}}), or of the entries
	// (Exists).
	Skipped int64 `json:"skipped"`
}

// Adopt turns fields into entries and takes the fields away. The entries come
// behind those that are there, in the order of columns. (Of two columns whose keys
// only the collection's collation holds for the same, the first one counts.) A
// field whose documents are written by old code meanwhile is adopted by a later
// run; emptied parent documents stay.
//
// Each document changes in one update. Adopt can be stopped and run again.
//
// Cost: 2 round trips a batch and perhaps 1 at the end, 1 write for each
// document with one of the fields. The documents are found in the order of _id,
// or by an index on the fields, and written by _id.
func (a *Attributes[ID, V]) Adopt(ctx context.Context, columns []Column, opts *AdoptOptions) (AdoptResult, error) {
	o, err := a.conversion(columns, opts)
	if err != nil {
		return AdoptResult{}, wrap("adopt", err)
	}
	parts, selected, blocked := bson.A{}, bson.A{}, bson.A{}
	var paths []string
	for _, column := range columns {
		entry := a.entry(literal(column.Key), "$"+column.Path, "")
		if column.Qualifier != "" {
			entry = append(entry, bson.E{Key: a.qualifier, Value: literal(column.Qualifier)})
		}
		parts = append(parts, cond(o.holds(column), bson.A{entry}, bson.A{}))
		selected = append(selected, bson.D{{Key: column.Path, Value: bson.D{{Key: "$exists", Value: true}}}})
		paths = append(paths, column.Path)
		for _, parent := range fieldpath.Above(column.Path) { // $path would be an array too
			blocked = append(blocked, op("$isArray", bson.A{"$" + parent}))
		}
	}
	update := mongo.Pipeline{set(a.array, a.upsert(op("$ifNull", "$"+a.array, bson.A{}), op("$concatArrays", parts), o.OnCollision == KeepSource))}
	if !o.Keep {
		update = append(update, op("$unset", paths))
	}
	result, err := a.convert(ctx, columns, o, selected, blocked, update)
	return result, wrap("adopt", err)
}

// Unadopt turns entries into fields, as Adopt did the reverse, and takes the
// entries away. What else an entry held goes with it. Of duplicates, see Check,
// the first one counts; if they differ, that is a collision.
//
// Cost: 2 round trips a batch and perhaps 1 at the end, 1 write for each
// document with one of the entries, found by the index on the keys or in the
// order of _id.
func (a *Attributes[ID, V]) Unadopt(ctx context.Context, columns []Column, opts *AdoptOptions) (AdoptResult, error) {
	o, err := a.conversion(columns, opts)
	if err != nil {
		return AdoptResult{}, wrap("unadopt", err)
	}
	selected, blocked, moved := bson.A{}, bson.A{}, bson.A{}
	for _, column := range columns {
		selected = append(selected, a.has(column.Key, a.identity(column.Qualifier)))
		moved = append(moved, a.keyed("$$o", column.Key, a.identity(column.Qualifier)))
		for _, parent := range fieldpath.Above(column.Path) { // to write into
			blocked = append(blocked, op("$and", op("$gt", op("$size", a.hits(column)), 0),
				op("$not", bson.A{typeIn("$"+parent, append([]string{"object"}, nothing...)...)})))
		}
	}
	update := mongo.Pipeline{op("$replaceWith", op("$mergeObjects", "$$ROOT", a.fields(columns, o, "")))}
	if !o.Keep {
		update = append(update, set(a.array, filtered(a.entries(), "o", op("$not", bson.A{op("$or", moved)}))))
	}
	result, err := a.convert(ctx, columns, o, selected, blocked, update)
	return result, wrap("unadopt", err)
}

// fields is the document to merge into the one at parent: the columns below it
// of which there is an entry to take. A field that would stay is left out, so
// that no empty parents are made.
func (c *core) fields(columns []Column, o AdoptOptions, parent string) bson.D {
	pairs := bson.A{}
	seen := map[string]bool{}
	for _, column := range columns {
		rest, below := strings.CutPrefix(column.Path, parent)
		if !below {
			continue
		}
		field, _, nested := strings.Cut(rest, ".")
		if seen[field] {
			continue
		}
		seen[field] = true
		path := parent + field
		pair := func(value any) bson.A {
			return bson.A{bson.D{{Key: "k", Value: literal(field)}, {Key: "v", Value: value}}}
		}
		if nested {
			pairs = append(pairs, let("inner", c.fields(columns, o, path+"."),
				cond(op("$eq", "$$inner", bson.D{}), bson.A{}, pair(op("$mergeObjects", "$"+path, "$$inner")))))
			continue
		}
		hits := c.hits(column)
		test := op("$gt", op("$size", hits), 0)
		if o.OnCollision != KeepSource {
			test = op("$and", test, op("$not", bson.A{o.holds(column)}))
		}
		pairs = append(pairs, cond(test, pair(op("$arrayElemAt", hits, 0)), bson.A{}))
	}
	return op("$arrayToObject", op("$concatArrays", pairs))
}

// hits is the values of the column's entries.
func (c *core) hits(column Column) bson.D {
	return mapped(filtered(c.entries(), "o", c.keyed("$$o", column.Key, c.identity(column.Qualifier))), "o",
		op("$ifNull", "$$o."+c.value, nil))
}

// holds is whether the field of the column has a value.
func (o AdoptOptions) holds(column Column) bson.D {
	none := nothing
	if o.Nulls {
		none = nothing[:1]
	}
	return op("$not", bson.A{typeIn("$"+column.Path, none...)})
}

// convert runs the update over the documents that one of selected matches, but
// for those of which an expression of blocked is true.
func (c *core) convert(ctx context.Context, columns []Column, o AdoptOptions, selected, blocked bson.A, update mongo.Pipeline) (AdoptResult, error) {
	filter := selected[0].(bson.D)
	if len(selected) > 1 {
		filter = bson.D{{Key: "$or", Value: selected}}
	}
	if o.OnCollision == Skip {
		for _, column := range columns {
			values := op("$setUnion", c.hits(column), cond(o.holds(column), bson.A{"$" + column.Path}, bson.A{}))
			blocked = append(blocked, op("$gt", op("$size", values), 1))
		}
	}
	guard := filter
	if len(blocked) > 0 {
		guard = and(filter, op("$expr", op("$not", bson.A{op("$or", blocked)})))
	}
	result, err := c.batches(ctx, filter, guard, update, KeyOptions{Filter: o.Filter, BatchSize: o.BatchSize, Progress: o.Progress})
	return AdoptResult{Examined: result.Examined, Adopted: result.Changed, Skipped: result.Skipped}, err
}

func (c *core) conversion(columns []Column, opts *AdoptOptions) (AdoptOptions, error) {
	var o AdoptOptions
	if opts != nil {
		o = *opts
	}
	if err := scan.Defaults(ErrInvalid, "AdoptOptions", &o.BatchSize, 1000, &o.Progress); err != nil {
		return o, err
	}
	if err := o.OnCollision.check("AdoptOptions.OnCollision"); err != nil {
		return o, err
	}
	if len(columns) == 0 {
		return o, fmt.Errorf("%w: no columns", ErrInvalid)
	}
	paths := []string{"_id", "_id", "Options.ArrayField", c.array}
	seen := map[[2]string]bool{}
	for i, column := range columns {
		option := fmt.Sprintf("columns[%d]", i)
		if err := fieldpath.CheckNamed(option+".Path", column.Path); err != nil {
			return o, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if err := checkKey(column.Key); err != nil {
			return o, fmt.Errorf("%s.Key: %w", option, err)
		}
		if err := c.checkQualifier(column.Qualifier); err != nil {
			return o, fmt.Errorf("%s.Qualifier: %w", option, err)
		}
		identity := [2]string{column.Key, column.Qualifier}
		if seen[identity] {
			return o, fmt.Errorf("%s.Key: %w: %q stands twice", option, ErrInvalid, column.Key)
		}
		seen[identity] = true
		paths = append(paths, option+".Path", column.Path)
	}
	if err := fieldpath.CheckDisjoint(paths...); err != nil {
		return o, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return o, nil
}
