package outlier

import (
	"cmp"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// largestBytes leaves room below the server's 16 MiB for the other fields of a parent.
const largestBytes = 16<<20 - 64<<10

// Options names the fields and sets the bounds of a document. The zero value keeps up to
// 1000 elements, or 8 MiB of them, in the field "items". Field names have no dots and must
// differ from each other.
type Options struct {
	// ArrayField holds the elements, in the parent and in overflow documents.
	// Default "items".
	ArrayField string
	// FlagField is true in parents with overflow documents and missing in others.
	// FlagField, OutsideField and "items_moved" (ArrayField plus "_moved") belong to this
	// list alone. Default: ArrayField plus "_overflow", "items_overflow".
	FlagField string
	// OutsideField holds, in parents with overflow documents, the number of elements in
	// these. Default: ArrayField plus "_outside", "items_outside".
	OutsideField string

	// ParentField holds, in overflow documents, the parent's _id. Default "parent".
	ParentField string
	// NumberField holds, in overflow documents, a number that orders them.
	// Default "n".
	NumberField string

	// Set keeps each element once, because Add leaves out those that the list already holds.
	// Elements are equal if the server compares them as equal, so 1 and 1.0 are. Default false: an
	// element may be there several times.
	Set bool

	// MaxCount is the largest number of elements in a parent. Default 1000.
	MaxCount int
	// MaxBytes is the largest size of the parent's array in bytes of BSON. It must leave
	// room for the other fields below 16 MiB. Default 8 MiB.
	MaxBytes int
	// OverflowMaxCount and OverflowMaxBytes bound each overflow document. A single
	// element may exceed OverflowMaxBytes. Defaults: MaxCount and MaxBytes.
	OverflowMaxCount int
	OverflowMaxBytes int
	// FoldBack is the total at which a removal moves all elements back into the parent, provided
	// they take at most three quarters of MaxBytes. It must be less than MaxCount, so that a list
	// that grows and shrinks around MaxCount does not move each time. A negative number means
	// never. Default: three quarters of MaxCount.
	FoldBack int

	// ElementIndex adds {parent: 1, items: 1} to the Indexes. With it Contains, Remove and,
	// with Set, Add find an element of a long list without reading its overflow documents.
	// Default false.
	ElementIndex bool

	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, start every index and are stored in every overflow document. The values are strings,
	// numbers and similar. Null, an array or a regular expression is refused. A parent of another tenant is not found.
	// Default none: all documents of the collections.
	Scope bson.D

	// Registry and BSON encode IDs and elements and decode elements. By default BSON is what the client has. The
	// client's registry cannot be read, so if it has one of its own, set Registry; EnsureIndexes compares the two.
	// Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// moved is the field for an ObjectID that changes when elements move in or out.
func (o *Options) moved() string { return o.ArrayField + "_moved" }

func (o *Options) complete() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	id, array := "_id", cmp.Or(out.ArrayField, "items")
	moved := array + "_moved"
	out.MaxCount, out.MaxBytes = cmp.Or(out.MaxCount, 1000), cmp.Or(out.MaxBytes, 8<<20)
	out.FoldBack = cmp.Or(out.FoldBack, int(int64(out.MaxCount)*3/4))
	out.Scope = slices.Clone(out.Scope)
	err := config.Apply(append(config.Scope(out.Scope),
		config.Name("_id", &id, ""),
		config.Name("Options.ArrayField", &out.ArrayField, array),
		config.Name("Options.FlagField", &out.FlagField, array+"_overflow"),
		config.Name("Options.OutsideField", &out.OutsideField, array+"_outside"),
		config.Name(moved, &moved, ""),
		config.Name("Options.ParentField", &out.ParentField, "parent"),
		config.Name("Options.NumberField", &out.NumberField, "n"),
		config.Number("Options.MaxCount", &out.MaxCount, 0, 1, math.MaxInt32),
		config.Number("Options.MaxBytes", &out.MaxBytes, 0, 1, largestBytes),
		config.Number("Options.OverflowMaxCount", &out.OverflowMaxCount, out.MaxCount, 1, math.MaxInt32),
		config.Number("Options.OverflowMaxBytes", &out.OverflowMaxBytes, out.MaxBytes, 1, largestBytes))...)
	if err == nil && out.FoldBack >= out.MaxCount {
		err = fault.Invalid("Options.FoldBack: it must be less than Options.MaxCount, %d", out.MaxCount)
	}
	return out, err
}
