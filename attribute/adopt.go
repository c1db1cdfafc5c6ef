package attribute

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Collision says what happens to a document in which the entry that Adopt would write, or the field
// that Unadopt would write, already exists with another value.
type Collision string

const (
	// Skip does not change the document and counts it as Remaining. Reads then find the entry, and
	// old code finds the field.
	Skip Collision = ""
	// KeepTarget keeps the existing value and drops the other.
	KeepTarget Collision = "keep target"
	// KeepSource overwrites the existing value with the other.
	KeepSource Collision = "keep source"
)

func (c Collision) check() error {
	switch c {
	case Skip, KeepTarget, KeepSource:
		return nil
	}
	return fmt.Errorf("%q is not a Collision", string(c))
}

// A Column is a field of the documents and the entry that corresponds to it.
type Column struct {
	// Path is the path of the field. Its parents must be documents, not arrays.
	Path string
	// Key and Qualifier of the entry.
	Key       string
	Qualifier string
}

// Adopt turns fields into entries in the documents that work selects, and removes the fields,
// unless Options.Copy. A null field is treated like a missing one, so it is removed and does not
// become an entry. New entries come after existing ones, in the order of columns. Parent documents
// that become empty stay.
//
// Each document changes in one update. Result.Examined counts documents with one of the fields.
// Remaining counts documents that were not changed because of a collision under Skip, because
// ArrayField is not an array, or because a parent of a field is an array. Check does not list
// collisions. Without Options.Copy find them with {field: {$exists: true}}, because all Remaining
// documents still have one of the fields. Skipped counts documents that lost the fields meanwhile, or
// were deleted. Adopt can be stopped and run again, and then also converts fields that old code has
// written since.
//
// Cost: 1 round trip, 2 for each batch and perhaps 1 at the end, and 1 write for each document with one of the
// fields.
//   - These are found in the order of _id, or by an index on the fields.
//   - A batch in which not all are written: 1 more.
func (a *Attributes[ID, V]) Adopt(ctx context.Context, columns []Column, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "attribute.Adopt")
	defer fault.In(&err, "attribute.Adopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := a.c.checked(ctx, columns, work); err != nil {
		return result, err
	}
	parts, found, blocked := bson.A{}, bson.A{}, bson.A{}
	var paths []string
	for _, column := range columns {
		entry := a.c.entry(expr.Literal(column.Key), "$"+column.Path, "")
		if column.Qualifier != "" {
			entry = append(entry, expr.Element(a.c.qualifier, expr.Literal(column.Qualifier)))
		}
		parts = append(parts, expr.Cond(a.c.filled(column), bson.A{entry}, bson.A{}))
		found = append(found, expr.D(column.Path, expr.Op("$exists", true)))
		paths = append(paths, column.Path)
		for _, parent := range fieldpath.Above(column.Path) { // $path would be an array, too
			blocked = append(blocked, expr.Op("$isArray", bson.A{"$" + parent}))
		}
	}
	add := a.c.x.add
	if a.c.onCollision == KeepSource {
		add = a.c.x.overwrite
	}
	update := mongo.Pipeline{set(a.c.array, expr.Reduce(expr.Op("$concatArrays", parts), a.c.x.stored, add))}
	if !a.c.keep {
		update = append(update, expr.Op("$unset", paths))
	}
	return a.c.convert(ctx, columns, found, blocked, update, work)
}

// Unadopt turns entries into fields, the reverse of Adopt, and removes the entries. Other fields of an
// entry are lost. A new field comes after the existing fields of its document, so the order from
// before Adopt is not kept. Of duplicates (see Check) the first one counts; if they differ, that is a
// collision. Remaining counts as in Adopt.
//
// Cost: that of Adopt.
func (a *Attributes[ID, V]) Unadopt(ctx context.Context, columns []Column, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "attribute.Unadopt")
	defer fault.In(&err, "attribute.Unadopt")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	if err := a.c.checked(ctx, columns, work); err != nil {
		return result, err
	}
	found, blocked, moved := bson.A{}, bson.A{}, bson.A{}
	for _, column := range columns {
		found = append(found, a.c.has(column.Key, a.c.only(column.Qualifier)))
		moved = append(moved, a.c.is(column.Key, column.Qualifier))
		for _, parent := range fieldpath.Above(column.Path) { // an update cannot write into another value
			blocked = append(blocked, expr.Op("$and", expr.Op("$ne", a.c.hits(column), bson.A{}),
				expr.Op("$not", expr.IsType("$"+parent, append([]string{"object"}, nothing...)...))))
		}
	}
	update := mongo.Pipeline{expr.Op("$replaceWith", expr.Op("$mergeObjects", "$$ROOT", a.c.fields(columns, "")))}
	if !a.c.keep {
		update = append(update, a.c.without(expr.Op("$or", moved...)))
	}
	return a.c.convert(ctx, columns, found, blocked, update, work)
}

// fields is the document to merge into the one at parent: the columns below it for which there is
// an entry to convert, so that no empty parents are made. All columns are in one stage, because a
// pipeline has at most 1,000 stages.
func (c *core) fields(columns []Column, parent string) (out bson.D) {
	for _, column := range columns {
		rest, below := strings.CutPrefix(column.Path, parent)
		name, _, nested := strings.Cut(rest, ".")
		if !below || slices.ContainsFunc(out, func(other bson.E) bool { return other.Key == name }) {
			continue
		}
		if nested {
			path := parent + name
			merged := expr.Op("$mergeObjects", "$"+path, "$$inner")
			out = append(out, expr.Element(name, expr.Let("inner", c.fields(columns, path+"."),
				expr.Cond(expr.Op("$eq", "$$inner", bson.D{}), "$$REMOVE", merged))))
			continue
		}
		test := expr.Op("$ne", c.hits(column), bson.A{})
		if c.onCollision != KeepSource {
			test = expr.Op("$and", test, expr.Op("$not", c.filled(column)))
		}
		out = append(out, expr.Element(name, expr.Cond(test, expr.Op("$arrayElemAt", c.hits(column), 0), "$$REMOVE")))
	}
	return out
}

// hits is the values of the column's entries.
func (c *core) hits(column Column) bson.D { return c.values(column.Key, column.Qualifier) }

// filled is the condition that the column's field has a value.
func (c *core) filled(column Column) bson.D {
	return expr.Op("$not", expr.IsType("$"+column.Path, nothing...))
}

// convert updates the documents that match one of found, except where an expression of blocked
// is true.
func (c *core) convert(ctx context.Context, columns []Column, found, blocked bson.A, update mongo.Pipeline, work *mongopatterns.Work) (mongopatterns.Result, error) {
	if c.onCollision == Skip {
		for _, column := range columns {
			values := expr.Op("$setUnion", c.hits(column), expr.Cond(c.filled(column), bson.A{"$" + column.Path}, bson.A{}))
			blocked = append(blocked, expr.Op("$gt", expr.Op("$size", values), 1))
		}
	}
	return c.batches(ctx, expr.D("$or", found), blocked, update, work, true)
}

// checked refuses bad columns and a collection with a default collation.
func (c *core) checked(ctx context.Context, columns []Column, work *mongopatterns.Work) error {
	if err := c.checkColumns(columns); err != nil {
		return err
	}
	return c.ready(ctx, work)
}

func (c *core) checkColumns(columns []Column) error {
	if len(columns) == 0 {
		return fault.Invalid("columns: the list is empty")
	}
	paths := []string{"_id", "_id", "Options.ArrayField", c.array}
	for _, f := range c.coll.Scope().Fields() {
		paths = append(paths, "Options.Scope", f.Name)
	}
	seen := map[[2]string]bool{}
	for i, column := range columns {
		option := fmt.Sprintf("columns[%d]", i)
		if err := fieldpath.CheckNamed(option+".Path", column.Path); err != nil {
			return fault.Invalid("%w", err)
		}
		if err := checkKey(column.Key); err != nil {
			return fmt.Errorf("%s.Key: %w", option, err)
		}
		if err := c.checkQualifier(column.Qualifier); err != nil {
			return fmt.Errorf("%s.Qualifier: %w", option, err)
		}
		identity := [2]string{column.Key, column.Qualifier}
		if seen[identity] {
			return fault.Invalid("%s.Key: %q is given twice", option, column.Key)
		}
		seen[identity] = true
		paths = append(paths, option+".Path", column.Path)
	}
	if err := fieldpath.CheckDisjoint(paths...); err != nil {
		return fault.Invalid("%w", err)
	}
	return nil
}
