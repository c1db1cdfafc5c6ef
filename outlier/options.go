package outlier

import (
	"cmp"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// largestBytes leaves room below the server's 16 MiB for what is not the array.
const largestBytes = 16<<20 - 64<<10

// Options names the fields and says when a document is an outlier. The zero value
// keeps up to 1000 elements, or 8 MiB of them, in the field "items". Fields are
// names without dots, each another.
type Options struct {
	// ArrayField holds the elements, in the parent and in overflow documents.
	// Default "items".
	ArrayField string
	// FlagField is true in parents with overflow documents and missing in others.
	// It, OutsideField and "items_moved", ArrayField with "_moved" added, belong to this
	// list alone. Default ArrayField with "_overflow" added: "items_overflow".
	FlagField string
	// OutsideField holds, in parents with overflow documents, how many elements
	// these have. Default ArrayField with "_outside" added: "items_outside".
	OutsideField string
	moved        string // holds there an ObjectID that changes when elements move in or out

	// ParentField holds, in overflow documents, the parent's _id. Default "parent".
	ParentField string
	// NumberField holds, in overflow documents, a number that orders them.
	// Default "n".
	NumberField string

	// Set refuses elements that the list holds already. Elements are equal if they
	// are to the server: 1 and 1.0 are. Default false: a list, which may hold an element
	// several times.
	Set bool

	// MaxCount is how many elements a parent takes. Default 1000.
	MaxCount int
	// MaxBytes is how many bytes of BSON the parent's array takes. It must leave
	// room for the other fields below 16 MiB. Default 8 MiB.
	MaxBytes int
	// OverflowMaxCount and OverflowMaxBytes bound each overflow document. One
	// element may exceed OverflowMaxBytes by itself. Defaults MaxCount, MaxBytes.
	OverflowMaxCount int
	OverflowMaxBytes int
	// FoldBack is the total at which a removal moves everything back into the
	// parent, if it takes no more than three quarters of MaxBytes. Being less than
	// MaxCount, it keeps a list that grows and shrinks around MaxCount from moving
	// each time. Default three quarters of MaxCount; negative: never.
	FoldBack int

	// ElementIndex adds {parent: 1, items: 1} to the Indexes, with which Contains,
	// Remove and, with Set, Add find an element of a long list without reading its
	// overflow documents. Default false.
	ElementIndex bool

	// Registry and BSON encode IDs and elements and decode elements. Give the
	// client's own: a collection does not show them. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

func (o *Options) complete() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	id, array := "_id", cmp.Or(out.ArrayField, "items")
	out.MaxCount, out.MaxBytes = cmp.Or(out.MaxCount, 1000), cmp.Or(out.MaxBytes, 8<<20)
	out.FoldBack = cmp.Or(out.FoldBack, int(int64(out.MaxCount)*3/4))
	err := config.Apply(
		config.Name("_id", &id, ""),
		config.Name("Options.ArrayField", &out.ArrayField, array),
		config.Name("Options.FlagField", &out.FlagField, array+"_overflow"),
		config.Name("Options.OutsideField", &out.OutsideField, array+"_outside"),
		config.Name(array+"_moved", &out.moved, array+"_moved"),
		config.Name("Options.ParentField", &out.ParentField, "parent"),
		config.Name("Options.NumberField", &out.NumberField, "n"),
		config.Number("Options.MaxCount", &out.MaxCount, 0, 1, math.MaxInt32),
		config.Number("Options.MaxBytes", &out.MaxBytes, 0, 1, largestBytes),
		config.Number("Options.OverflowMaxCount", &out.OverflowMaxCount, out.MaxCount, 1, math.MaxInt32),
		config.Number("Options.OverflowMaxBytes", &out.OverflowMaxBytes, out.MaxBytes, 1, largestBytes))
	if err == nil && out.FoldBack >= out.MaxCount {
		err = fault.Invalid("Options.FoldBack: not less than Options.MaxCount, %d", out.MaxCount)
	}
	return out, err
}
