package tree

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
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

// Options configure a Tree. The zero value of each field is a default that is documented; nil Options are all
// defaults. Fields of other representations than the tree's own are ignored, except that Convert and Adopt read
// some of them. All fields, those of the Scope too, are plain names at the top of the document, not dotted
// paths, but for NameField.
type Options struct {
	// IDField holds a node's ID. Any other field than _id gets a unique index behind the scope. Default "_id".
	IDField string
	// ParentField holds the parent's ID, null at a root (ParentReferences, AncestorArray, NestedSets). In the
	// others it says where nodes belong that are not adopted. Default "parent".
	ParentField string
	// RootParent is what the ParentField of roots holds, as null and missing do: 0 or "" in many collections, and
	// in data from SQL. New roots get it. No node can have it for an ID. Default none: new roots get null.
	RootParent any
	// ChildrenField holds the IDs of the children in order (ChildReferences). Default "children".
	ChildrenField string
	// AncestorsField holds the IDs of the ancestors, root first (AncestorArray). Default "ancestors".
	AncestorsField string
	// PathField holds the IDs of the ancestors between delimiters, null at a root (MaterializedPath). These IDs
	// are strings without the delimiter, integers or ObjectIDs (in hex), of one type in a tree. Default "path".
	PathField string
	// PathDelimiter is one ASCII punctuation character. Default ",".
	PathDelimiter string
	// LeftField and RightField hold the two numbers of NestedSets. Default "left" and "right".
	LeftField, RightField string

	// OrderField keeps siblings in order: an int64 with gaps, written by the library. ChildReferences and
	// NestedSets are ordered by themselves and refuse it. Default none: siblings have no order.
	OrderField string
	// ChildCountField keeps the exact number of children of each node. Default none.
	ChildCountField string
	// NameField is what Breadcrumb shows of a node; it may be dotted. Default the ID.
	NameField string

	// Scope keeps several trees in one collection: these fields are part of every filter, start every index and
	// are stored in every new document. The values are strings, numbers and the like: null, an array or a
	// regular expression is refused. Default none: one tree in the collection.
	Scope bson.D
	// Graph allows several parents of a node (ChildReferences only). Default false.
	Graph bool

	// MakeRoots lets Repair make roots of orphans, of nodes with a malformed path and of one node of each cycle
	// that no other node leads to. What their parent field or path held is lost. Default false: they stay as
	// they are.
	MakeRoots bool

	// LockCollection holds one document for each tree that was restructured. Default the collection's name with
	// "_locks" behind it.
	LockCollection string
	// Registry and BSON encode the documents and IDs that the tree is given and decode IDs; those of a client
	// are not visible to it. Default the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// oldParent is the ParentField where the tree only reads it: of nodes that are not adopted.
func (o *Options) oldParent() config.Setting {
	return config.Check("Options.ParentField", func() error {
		return config.Apply(config.Name("the field", &o.ParentField, "parent"))
	})
}

// check sets the defaults and refuses bad options; own are the settings of the representation.
func (o *Options) check(own []config.Setting) error {
	var settings []config.Setting
	for _, name := range internal {
		settings = append(settings, config.Name("the package", &name, ""))
	}
	settings = append(append(settings, config.Name("Options.IDField", &o.IDField, "_id")), own...)
	settings = append(settings, config.Name("Options.OrderField", &o.OrderField, ""),
		config.Name("Options.ChildCountField", &o.ChildCountField, ""))
	for i := range o.Scope {
		settings = append(settings, config.Name("Options.Scope", &o.Scope[i].Key, ""))
	}
	if err := config.Apply(settings...); err != nil {
		return err
	}
	return config.Apply(config.Path("Options.NameField", &o.NameField, ""))
}
