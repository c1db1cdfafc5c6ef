package tree

import (
	"cmp"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
)

// Representation says how the documents of a tree store its shape.
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

// Options configure a Tree. The zero value of each field means its documented default; nil Options mean all
// defaults. Options that belong to other representations than the tree's are ignored, except that Convert
// and Adopt read some of them. All field names, also those of the Scope, are plain names at the top of the
// document; only NameField may be a dotted path.
type Options struct {
	// IDField holds a node's ID. If it is not _id, it gets a unique index together with the scope. Default
	// "_id".
	IDField string
	// ParentField holds the parent's ID, null at a root (ParentReferences, AncestorArray, NestedSets). The
	// other representations read it only to place nodes that are not adopted. Default "parent".
	ParentField string
	// RootParent is another value of ParentField that means a root, besides null and missing. In data from SQL
	// it is often 0 or "". New roots get it. A node cannot have it as its ID. 0 stands for the long 0 and the
	// double 0 too. If old data has both 0 and "", replace one by the other with an UpdateMany before each
	// Adopt. Default none: new roots get null.
	RootParent any
	// ChildrenField holds the IDs of the children in order (ChildReferences). Default "children".
	ChildrenField string
	// AncestorsField holds the IDs of the ancestors, root first (AncestorArray). Default "ancestors".
	AncestorsField string
	// PathField holds the IDs of the ancestors between delimiters, null at a root (MaterializedPath). These IDs
	// are strings without the delimiter, integers or ObjectIDs (in hex), of one type in a tree: nothing else in a path
	// tells the type. Insert, Move and Load under a parent with an ID of another type return ErrInvalid, and to Adopt and
	// Convert such a node is an orphan. Default "path".
	PathField string
	// SegmentField holds the string that represents a node in the paths below it, instead of its ID
	// (MaterializedPath). It is unique among siblings, not empty, and does not contain the delimiter.
	// Insert reads it from the document, and Rename changes it. Default none: paths hold IDs.
	SegmentField string
	// PathDelimiter is one ASCII punctuation character. Default ",".
	PathDelimiter string
	// LeftField and RightField hold the two numbers of NestedSets. Default "left" and "right".
	LeftField, RightField string

	// OrderField holds an int64 that orders siblings. The library writes it and leaves gaps between siblings.
	// Beside a number beyond ±2^61, no node can be placed until Repair has run. Numbers as large come from other code, or
	// from Promote where that has left a distance of 2^60 between siblings.
	// A node without a number, which old code may insert, has no place yet. Reads yield it before its siblings, and Adopt and
	// Repair put it after them. Until then Before and After it, and Promote and Unlink of its parent or of itself if
	// it has children, return mongopatterns.ErrMalformed.
	// ChildReferences and NestedSets always keep siblings in order and refuse this option. But the roots of
	// ChildReferences have no order, because no parent lists them; put them under one root if you need an order.
	// Default none: siblings are not ordered.
	OrderField string
	// ChildCountField holds the exact number of children of each node. Default none: not stored.
	ChildCountField string
	// NameField is the path of the name that Breadcrumb returns for a node. It may be dotted. Default:
	// the SegmentField, or the IDField if there is no SegmentField.
	NameField string

	// Scope separates several trees in one collection. Its fields are part of every filter, start every
	// index and are stored in every new document. The values are strings, numbers and similar. Null, an
	// array or a regular expression is refused. Default none: one tree in the collection.
	Scope bson.D
	// Graph allows several parents of a node (ChildReferences only). Default false.
	Graph bool

	// MakeRoots lets Repair turn orphans, nodes with a malformed path, and one node of each cycle that no
	// other node leads to, into roots. Their parent field or path is overwritten. Default false: Repair
	// does not change them.
	MakeRoots bool

	// LockCollection holds one document for each tree that was restructured. Default: the collection's name
	// plus "_locks".
	LockCollection string
	// Registry and BSON encode documents and IDs, and decode IDs. By default BSON is what the client has. The client's
	// registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two. Default nil:
	// the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// complete sets the defaults and refuses options that are not valid. The names of internal fields count as taken.
func (o *Options) complete(kind Representation) error {
	o.Scope = slices.Clone(o.Scope)
	if kind != MaterializedPath {
		o.SegmentField = ""
	}
	var settings []config.Setting
	for _, name := range internal {
		settings = append(settings, config.Name("the package", &name, ""))
	}
	settings = append(settings, config.Name("Options.IDField", &o.IDField, "_id"))
	settings = append(settings, o.settingsOf(kind)...)
	settings = append(settings, config.Name("Options.OrderField", &o.OrderField, ""),
		config.Name("Options.ChildCountField", &o.ChildCountField, ""))
	settings = append(settings, config.Scope(o.Scope)...)
	if err := config.Apply(settings...); err != nil {
		return err
	}
	return config.Apply(config.Path("Options.NameField", &o.NameField, ""))
}

// settingsOf are the settings that a representation has besides the common ones.
func (o *Options) settingsOf(kind Representation) []config.Setting {
	parent := config.Name("Options.ParentField", &o.ParentField, "parent")
	// Where the field is only read, for nodes that are not adopted, it may collide with others.
	oldParent := config.Apart(parent)
	switch kind {
	case ChildReferences:
		return []config.Setting{config.Name("Options.ChildrenField", &o.ChildrenField, "children"), oldParent}
	case AncestorArray:
		return []config.Setting{config.Name("Options.AncestorsField", &o.AncestorsField, "ancestors"), parent}
	case MaterializedPath:
		return []config.Setting{config.Name("Options.PathField", &o.PathField, "path"), o.delimiter(), oldParent,
			config.Name("Options.SegmentField", &o.SegmentField, "")}
	case NestedSets:
		return []config.Setting{config.Name("Options.LeftField", &o.LeftField, "left"),
			config.Name("Options.RightField", &o.RightField, "right"), parent}
	}
	return []config.Setting{parent}
}

func (o *Options) delimiter() config.Setting {
	return config.Check("Options.PathDelimiter", func() error {
		o.PathDelimiter = cmp.Or(o.PathDelimiter, ",")
		return checkDelimiter(o.PathDelimiter)
	})
}
