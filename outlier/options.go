package outlier

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

const (
	defaultMaxCount  = 1000
	defaultMaxBytes  = 8 << 20
	defaultBatchSize = 1000
	// largestBytes leaves room below the server's 16 MiB for what is not the array.
	largestBytes = 16<<20 - 64<<10
	// elementOverhead is what an array element takes at most besides its value:
	// its type and its position as text.
	elementOverhead = 10
)

// Options names the fields and says when a document is an outlier. The zero
// value keeps up to 1000 elements, or 8 MiB of them, in the field "items". Fields
// are those of the document itself: names without dots, no paths.
type Options struct {
	// ArrayField holds the elements, in the parent and in overflow documents.
	// Default "items".
	ArrayField string
	// FlagField is true in parents with overflow documents and missing in all
	// others. It and TotalField must not be fields of yours, nor of another list in
	// the same parents. Default ArrayField with "_overflow" added:
	// "items_overflow".
	FlagField string
	// TotalField holds, in parents with overflow documents, the number of all
	// their elements. Default ArrayField with "_total" added: "items_total".
	TotalField string
	// CountTypical keeps TotalField in typical documents too, so that one index
	// on it sorts all of them: from their first Add on, or after Adopt, unless you
	// insert them with it. Default false: there the array's length is the total,
	// and nothing but the array is stored.
	CountTypical bool

	// ParentField holds, in overflow documents, the parent's _id. Default
	// "parent".
	ParentField string
	// NumberField holds, in overflow documents, a number by which they are in
	// the order of the list. Default "n".
	NumberField string

	// Set refuses elements that the list holds already; elements are equal if
	// they are to the server, by the collection's collation. An element of a set
	// takes up to 2 MiB. Default false: a list, which may hold an element several
	// times.
	Set bool

	// MaxCount is how many elements a parent takes. Default 1000.
	MaxCount int
	// MaxBytes is how many bytes of BSON the parent's array takes. It must leave
	// room for the parent's other fields below 16 MiB. Default 8 MiB.
	MaxBytes int
	// OverflowMaxCount and OverflowMaxBytes bound each overflow document. One
	// element may exceed OverflowMaxBytes by itself. Defaults MaxCount, MaxBytes.
	OverflowMaxCount int
	OverflowMaxBytes int

	// FoldBack is the total at which a removal moves everything back into the
	// parent, if it takes no more than three quarters of MaxBytes. Being less
	// than MaxCount, it keeps a list that grows and shrinks around MaxCount from
	// moving each time. Default three quarters of MaxCount; negative: never.
	FoldBack int

	// ElementIndex adds {parent: 1, items: 1} to OverflowIndexes, with which
	// Contains, Remove and, with Set, Add find an element of a long list without
	// reading its overflow documents. Default false.
	ElementIndex bool

	// Registry encodes IDs and elements. Give the client's own registry if it
	// has one: a collection does not show it. Default nil: the driver's.
	Registry *bson.Registry
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.ArrayField == "" {
		out.ArrayField = "items"
	}
	names := []string{"_id", "_id"}
	for _, f := range []struct {
		option string
		name   *string
		def    string
	}{
		{"Options.ArrayField", &out.ArrayField, "items"},
		{"Options.FlagField", &out.FlagField, out.ArrayField + "_overflow"},
		{"Options.TotalField", &out.TotalField, out.ArrayField + "_total"},
		{"Options.ParentField", &out.ParentField, "parent"},
		{"Options.NumberField", &out.NumberField, "n"},
	} {
		if *f.name == "" {
			*f.name = f.def
		}
		if err := fieldpath.CheckName(f.option, *f.name); err != nil {
			return out, err
		}
		names = append(names, f.option, *f.name)
	}
	// Parents and overflow documents have only the array in common.
	array, flag, total := names[2:4], names[4:6], names[6:8]
	for _, set := range [][][]string{{names[:2], array, flag, total}, {names[:2], array, names[8:10], names[10:12]}} {
		var flat []string
		for _, pair := range set {
			flat = append(flat, pair...)
		}
		if err := fieldpath.CheckDisjoint(flat...); err != nil {
			return out, err
		}
	}
	for _, f := range []struct {
		option string
		value  *int
		def    func() int
		max    int
	}{
		{"Options.MaxCount", &out.MaxCount, func() int { return defaultMaxCount }, 0},
		{"Options.MaxBytes", &out.MaxBytes, func() int { return defaultMaxBytes }, largestBytes},
		{"Options.OverflowMaxCount", &out.OverflowMaxCount, func() int { return out.MaxCount }, 0},
		{"Options.OverflowMaxBytes", &out.OverflowMaxBytes, func() int { return out.MaxBytes }, largestBytes},
	} {
		switch {
		case *f.value < 0:
			return out, fmt.Errorf("%s: negative", f.option)
		case f.max > 0 && *f.value > f.max:
			return out, fmt.Errorf("%s: more than a document's 16 MiB less 64 KiB", f.option)
		case *f.value == 0:
			*f.value = f.def()
		}
	}
	switch {
	case out.FoldBack >= out.MaxCount:
		return out, fmt.Errorf("Options.FoldBack: not less than Options.MaxCount, %d", out.MaxCount)
	case out.FoldBack == 0:
		out.FoldBack = out.MaxCount/4*3 + out.MaxCount%4*3/4
	}
	return out, nil
}
