package tree

import (
	"errors"
	"fmt"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Representation is the way in which the documents of a tree store its shape.
type Representation int

// The representations. The package documentation says when to take which.
const (
	// ParentReferences: {_id, parent}.
	ParentReferences Representation = iota + 1
	// ChildReferences: {_id, children: […]}.
	ChildReferences
	// AncestorArray: {_id, ancestors: [root, …, parent], parent}.
	AncestorArray
	// MaterializedPath: {_id, path: ",root,…,parent,"}.
	MaterializedPath
	// NestedSets: {_id, left, right, parent}.
	NestedSets
)

// String returns the name of the constant.
func (r Representation) String() string {
	names := [...]string{"ParentReferences", "ChildReferences", "AncestorArray", "MaterializedPath", "NestedSets"}
	if r < 1 || int(r) > len(names) {
		return fmt.Sprintf("Representation(%d)", int(r))
	}
	return names[r-1]
}

// Options configure a Tree. The zero value of each field is a default that is
// documented; nil Options are all defaults. Fields of other representations
// than the tree's own are ignored, except that Convert and Adopt read some of
// them. All fields, those of the Scope too, are plain names at the top of the
// document, not dotted paths, but for NameField.
type Options struct {
	// IDField holds a node's ID. Any other field than _id gets a unique index
	// behind the scope. Default "_id".
	IDField string
	// ParentField holds the parent's ID, null at a root (ParentReferences,
	// AncestorArray, NestedSets). Default "parent".
	ParentField string
	// ChildrenField holds the IDs of the children in order (ChildReferences).
	// Default "children".
	ChildrenField string
	// AncestorsField holds the IDs of the ancestors, root first
	// (AncestorArray). Default "ancestors".
	AncestorsField string
	// PathField holds the segments of the ancestors between delimiters, null
	// at a root (MaterializedPath). Default "path".
	PathField string
	// SegmentField holds the string that stands for a node in the paths of its
	// descendants; it is unique among siblings and Rename changes it. Default
	// the ID itself: a string, an integer or an ObjectID (in hex).
	SegmentField string
	// PathDelimiter is one ASCII punctuation character. Default ",".
	PathDelimiter string
	// LeftField and RightField hold the two numbers of NestedSets. Default
	// "left" and "right".
	LeftField, RightField string

	// OrderField keeps siblings in order: an int64 with gaps, written by the
	// library. ChildReferences and NestedSets are ordered by themselves and
	// refuse it. Default none: siblings have no order.
	OrderField string
	// ChildCountField keeps the exact number of children of each node. Default
	// none.
	ChildCountField string
	// NameField is what Breadcrumb shows of a node; it may be dotted.
	// Default the ID.
	NameField string

	// Scope keeps several trees in one collection: these fields are part of
	// every filter, start every index and are stored in every new document. The
	// values are strings, numbers and the like: null, an array or a regular
	// expression is refused. Default none: one tree in the collection.
	Scope bson.D
	// Graph allows several parents of a node (ChildReferences only). Default
	// false.
	Graph bool

	// LockCollection holds one document for each tree that was restructured.
	// Default the collection's name with "_locks" behind it.
	LockCollection string
	// Registry encodes the documents and IDs given to the tree, because the
	// registry of a collection is not visible. Default the driver's.
	Registry *bson.Registry
}

func (o Options) withDefaults(coll *mongo.Collection) Options {
	for _, f := range []struct {
		field *string
		value string
	}{
		{&o.IDField, "_id"},
		{&o.ParentField, "parent"},
		{&o.ChildrenField, "children"},
		{&o.AncestorsField, "ancestors"},
		{&o.PathField, "path"},
		{&o.SegmentField, o.IDField},
		{&o.PathDelimiter, ","},
		{&o.LeftField, "left"},
		{&o.RightField, "right"},
		{&o.LockCollection, coll.Name() + "_locks"},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	if o.SegmentField == "" {
		o.SegmentField = o.IDField
	}
	return o
}

func (o Options) check(rep Representation) error {
	names := []string{"Options.IDField", o.IDField}
	switch rep {
	case ParentReferences:
		names = append(names, "Options.ParentField", o.ParentField)
	case ChildReferences:
		names = append(names, "Options.ChildrenField", o.ChildrenField)
	case AncestorArray:
		names = append(names, "Options.AncestorsField", o.AncestorsField, "Options.ParentField", o.ParentField)
	case MaterializedPath:
		names = append(names, "Options.PathField", o.PathField)
		if o.SegmentField != o.IDField {
			names = append(names, "Options.SegmentField", o.SegmentField)
		}
		if err := checkDelimiter(o.PathDelimiter); err != nil {
			return err
		}
	case NestedSets:
		names = append(names, "Options.LeftField", o.LeftField, "Options.RightField", o.RightField, "Options.ParentField", o.ParentField)
	default:
		return fmt.Errorf("unknown %v", rep)
	}
	if o.OrderField != "" {
		if rep == ChildReferences || rep == NestedSets {
			return fmt.Errorf("Options.OrderField: %v keeps siblings in order by itself", rep)
		}
		names = append(names, "Options.OrderField", o.OrderField)
	}
	if o.ChildCountField != "" {
		names = append(names, "Options.ChildCountField", o.ChildCountField)
	}
	if o.Graph && rep != ChildReferences {
		return fmt.Errorf("Options.Graph: %v cannot hold a node with several parents", rep)
	}
	for _, e := range o.Scope {
		names = append(names, "Options.Scope", e.Key)
	}
	for i := 0; i < len(names); i += 2 {
		if err := fieldpath.CheckName(names[i], names[i+1]); err != nil {
			return err
		}
		if names[i+1] == fieldTouch || names[i+1] == fieldDepth || names[i+1] == fieldStart || names[i+1] == fieldTree {
			return fmt.Errorf("%s: %q is used by the package", names[i], names[i+1])
		}
	}
	if err := fieldpath.CheckDisjoint(names...); err != nil {
		return err
	}
	if o.NameField != "" {
		return fieldpath.CheckPath("Options.NameField", o.NameField)
	}
	return nil
}

func checkDelimiter(s string) error {
	if len(s) != 1 {
		return errors.New("Options.PathDelimiter: must be one ASCII character")
	}
	c := s[0]
	if c <= ' ' || c >= '~' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
		return fmt.Errorf("Options.PathDelimiter: %q is not ASCII punctuation below %q", s, "~")
	}
	return nil
}
