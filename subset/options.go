package subset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

const (
	defaultN         = 10
	defaultBatchSize = 1000
	scanBatchSize    = 100

	// A transaction takes a minute at most and its documents stay in memory:
	// batches end early at so many items or bytes.
	transactionItems = 100_000
	transactionBytes = 8 << 20

	// fieldTouch is written and taken off again within one transaction, where
	// nothing else would change in a parent that must not change meanwhile.
	fieldTouch = "__touch"
)

// Options names the fields of a Subset and chooses what a parent keeps. The zero
// value keeps the ten items with the highest _id in "items" and their number in
// "items_count".
type Options struct {
	// ParentField holds, in an item, the _id of its parent: "product_id" say. A
	// name, no path. Default "parent".
	ParentField string
	// ArrayField is the path, in the parent, of the kept items; it may be dotted, as
	// all that are called paths here. Default "items".
	ArrayField string
	// N is how many items a parent keeps. Default 10.
	N int
	// Order is the order of the items, the best first, as a sort document of paths:
	// bson.D{{Key: "rating", Value: -1}, {Key: "date", Value: -1}}. Values sort as
	// the server sorts them, missing ones as null; arrays are refused. _id is
	// added as the last field, in the direction of the one before, so that no two
	// items rank the same. Default {_id: -1}.
	Order bson.D
	// BestLast stores the kept items from the worst to the best, as $slice: -N
	// does: the newest log message last. Reads of this package give the best
	// first either way. Default false.
	BestLast bool
	// Fields are the paths of an item that the parent keeps; _id and the fields
	// of Order always are. Default nil: all but ParentField, which repeats the
	// parent's _id.
	Fields []string

	// CountField is the path, in the parent, of the number of all its items.
	// Default ArrayField with "_count" added: "items_count".
	CountField string
	// NoCount leaves out the count, and with it ErrNotAdopted (adopt existing items
	// before the first write) and some short cuts: see the costs. Default false.
	NoCount bool
	// Values are the numbers of items of which parents keep aggregates. Default
	// none.
	Values []Value

	// Registry encodes the parents' _ids and the items. Give the client's own
	// registry if it has one: a collection does not show it. Default nil: the
	// driver's.
	Registry *bson.Registry
}

// A Value is a number inside the items and the fields of the parent that
// aggregate it over all items, not only the kept ones. Paths in the parent may be
// dotted; those left "" are not kept, but Sum is required.
//
// The number may be int32, int64, double or Decimal128. An item without it
// (missing, null, another type, NaN, infinite) is refused with ErrInvalid, unless
// Count is kept: then it is left out. Sums keep the type of the numbers; sums of
// doubles round with each write, and Repair computes them anew.
type Value struct {
	// Field is the path inside the item, "rating" say. Required.
	Field string
	// Sum holds the sum. Required.
	Sum string
	// Mean holds the mean: Sum divided by Count, or by Options.CountField if
	// Count is not kept. Without any number there is no such field.
	Mean string
	// Count holds how many items have the number.
	Count string
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	setDefault(&out.ParentField, "parent")
	setDefault(&out.ArrayField, "items")
	switch {
	case out.NoCount && out.CountField != "":
		return out, errors.New("Options.NoCount: Options.CountField is set")
	case !out.NoCount:
		setDefault(&out.CountField, out.ArrayField+"_count")
	}
	if out.N == 0 {
		out.N = defaultN
	}
	if out.N < 0 || out.N > math.MaxInt32 {
		return out, fmt.Errorf("Options.N: %d is not a size of an array", out.N)
	}
	var err error
	if out.Order, err = fullOrder(out.Order); err != nil {
		return out, err
	}
	out.Fields, out.Values = slices.Clone(out.Fields), slices.Clone(out.Values)
	return out, out.check()
}

func (o *Options) check() error {
	if err := fieldpath.CheckName("Options.ParentField", o.ParentField); err != nil {
		return err
	}
	if o.ParentField == "_id" {
		return errors.New("Options.ParentField: _id is the item's own")
	}
	paths := []string{"_id", "_id", fieldTouch, fieldTouch}
	stored := func(option, path string) error {
		if path == "" {
			return nil
		}
		paths = append(paths, option, path)
		return fieldpath.CheckNamed(option, path)
	}
	if err := errors.Join(stored("Options.ArrayField", o.ArrayField), stored("Options.CountField", o.CountField)); err != nil {
		return err
	}
	for i, v := range o.Values {
		option := fmt.Sprintf("Options.Values[%d]", i)
		switch {
		case v.Sum == "":
			return fmt.Errorf("%s.Sum: empty", option)
		case v.Mean != "" && v.Count == "" && o.CountField == "":
			return fmt.Errorf("%s.Mean: needs a Count, as there is no Options.CountField", option)
		}
		for _, err := range []error{fieldpath.CheckNamed(option+".Field", v.Field), stored(option+".Sum", v.Sum),
			stored(option+".Mean", v.Mean), stored(option+".Count", v.Count)} {
			if err != nil {
				return err
			}
		}
	}
	if err := fieldpath.CheckDisjoint(paths...); err != nil {
		return err
	}
	// What an item brings along when it moves must not depend on its parent.
	own := func(option, path string) error {
		if path == o.ParentField || strings.HasPrefix(path, o.ParentField+".") {
			return fmt.Errorf("%s: %q is the same for all items of a parent", option, path)
		}
		return nil
	}
	for i, v := range o.Values {
		if err := own(fmt.Sprintf("Options.Values[%d].Field", i), v.Field); err != nil {
			return err
		}
	}
	for i, field := range o.Fields {
		option := fmt.Sprintf("Options.Fields[%d]", i)
		if err := errors.Join(fieldpath.CheckNamed(option, field), own(option, field)); err != nil {
			return err
		}
	}
	var sorted []string
	for _, e := range o.Order {
		if err := own("Options.Order", e.Key); err != nil {
			return err
		}
		sorted = append(sorted, "Options.Order", e.Key)
	}
	return fieldpath.CheckDisjoint(sorted...)
}

// fullOrder checks a sort document and ends it with _id. Directions become int32.
func fullOrder(order bson.D) (bson.D, error) {
	var out bson.D
	last := int32(-1)
	for _, e := range order {
		if err := fieldpath.CheckNamed("Options.Order", e.Key); err != nil {
			return nil, err
		}
		direction, ok := direction(e.Value)
		if !ok {
			return nil, fmt.Errorf("Options.Order: %q: %v is neither 1 nor -1", e.Key, e.Value)
		}
		last = direction
		out = append(out, bson.E{Key: e.Key, Value: direction})
		if e.Key == "_id" {
			if len(out) < len(order) {
				return nil, errors.New("Options.Order: _id must be last")
			}
			return out, nil
		}
	}
	return append(out, bson.E{Key: "_id", Value: last}), nil
}

func direction(value any) (int32, bool) {
	switch value {
	case 1, int32(1), int64(1), 1.0:
		return 1, true
	case -1, int32(-1), int64(-1), -1.0:
		return -1, true
	}
	return 0, false
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
