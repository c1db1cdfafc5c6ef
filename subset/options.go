package subset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/config"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
	"github.com/mongopatterns/mongopatterns/internal/hold"
)

// Options names the fields of a Subset and chooses what a parent keeps. The zero
// value keeps the ten items with the highest _id in "items" and the number of all items
// in "items_count". A path may be dotted, a name may not.
type Options struct {
	// ParentField is the name of an item's field with the _id of its parent. Default "parent".
	ParentField string
	// ArrayField is the path of the kept items in the parent. Default "items".
	ArrayField string
	// CountField is the path of the number of all items in the parent.
	// Default: ArrayField plus "_count".
	CountField string
	// N is the number of items that a parent keeps. Default 10.
	N int
	// Sort is the order of the items, the best first, as a sort document of paths. Values are
	// ordered as the server orders them. Arrays are refused. So is a path that T never writes, if T
	// is a plain struct. _id is added as the last field, in the direction of the one before.
	// Default {_id: -1}.
	Sort bson.D
	// BestLast stores the kept items from the worst to the best, as $push with $slice: -N
	// does. Reads by this package return the best first either way. Default false.
	BestLast bool
	// Fields are the names of an item's fields that the parent keeps, as a whole. _id and the
	// fields of Sort are always kept. Default nil: all but ParentField.
	Fields []string
	// Filter selects the items that are kept and counted, such as approved ones: {approved: true},
	// {deleted_at: {$exists: false}}. The others are stored only in the collection. It may hold
	// equalities, $eq, $ne, $in, $nin and $exists, and all of them must match. A field with omitempty
	// does not exist in an item where it is zero. Strings are compared without a collation. A value that is a Go map with several fields is refused, because the
	// order of its fields is random. Default nil: all items.
	Filter any
	// Values are the numbers in items that parents aggregate. Default none.
	Values []Value

	// Scope separates several tenants in the same collections. See Tenants in the manual of mongopatterns. Its fields
	// are part of every filter, start every index and are stored in every new item; like ParentField, the items in an
	// array lack them. The values are strings, numbers and similar. Null, an array or a regular expression is refused.
	// An item or an update with another value is ErrInvalid, and a parent or item of another tenant is not found.
	// Default none: all documents of the collections.
	Scope bson.D

	// Registry and BSON encode the parents' _ids and the items, and decode the items that Top returns. By default
	// BSON is what the client has. The client's registry cannot be read, so if it has one of its own, set Registry;
	// EnsureIndexes compares the two. Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// A Value is a number inside the items, and the paths in the parent that aggregate
// it over all items that count, not only the kept ones.
//
// The number may be int32, int64, double or Decimal128. An item without a finite number is refused
// with ErrInvalid or, if Count is set, left out of the aggregates. Sums keep the type of the
// numbers, and sums of ints are exact as long as an int64 holds them.
//
// A write adds new numbers to the sum and subtracts those that leave, so sums of doubles and
// decimals are rounded, by up to a part in 10^9 of the sum of the absolute numbers. The write
// computes a sum from all items if the result is infinite, comes back from beyond an int64, or is
// less than a thousandth of the former sum or of a number that leaves. Otherwise, taking 1e17 away
// from the sum of 11.0 and 1e17 would leave 16. If several writes in a row each make a sum some
// hundred times smaller, its error may exceed a part in 10^9. Then Check reports it, and Repair
// computes it.
type Value struct {
	// Field is the path inside the item, such as "rating". Required.
	Field string
	// Sum is the path of the sum. Required.
	Sum string
	// Mean is the path of the mean, which is Sum divided by Count, or by Options.CountField if
	// Count is not set. The field is missing while no item has the number. Default "": not kept.
	Mean string
	// Count is the path of the number of items that have the number. Default "": not kept.
	Count string
}

// complete sets the defaults and refuses what cannot work.
func (o *Options) complete() error {
	o.Fields, o.Values, o.Scope = slices.Clone(o.Fields), slices.Clone(o.Values), slices.Clone(o.Scope)
	err := config.Apply(append(config.Scope(o.Scope), config.Name("Options.ParentField", &o.ParentField, "parent"),
		config.Number("Options.N", &o.N, 10, 1, math.MaxInt32),
		config.Check("Options.ParentField", func() error {
			if o.ParentField == "_id" {
				return errors.New("it must not be _id, which identifies the item")
			}
			return nil
		}),
		config.Check("Options.Sort", o.fullOrder))...)
	if err != nil {
		return err
	}
	id, touch := "_id", hold.Field
	o.ArrayField = cmp.Or(o.ArrayField, "items")
	settings := append(config.Scope(o.Scope), config.Path("_id", &id, ""), config.Path(hold.Field, &touch, ""),
		config.Named("Options.ArrayField", &o.ArrayField, ""),
		config.Named("Options.CountField", &o.CountField, o.ArrayField+"_count"))
	for i := range o.Values {
		v, option := &o.Values[i], fmt.Sprintf("Options.Values[%d]", i)
		settings = append(settings, config.Check(option+".Field", func() error { return o.itemPath(v.Field) }),
			config.Named(option+".Sum", &v.Sum, ""), config.Named(option+".Mean", &v.Mean, ""),
			config.Named(option+".Count", &v.Count, ""), config.Check(option+".Sum", func() error {
				if v.Sum == "" {
					return errors.New("it is empty")
				}
				return nil
			}))
	}
	for i, field := range o.Fields {
		settings = append(settings, config.Check(fmt.Sprintf("Options.Fields[%d]", i), func() error {
			if err := o.itemPath(field); err != nil {
				return err
			}
			return fieldpath.CheckName("name", field)
		}))
	}
	return config.Apply(settings...)
}

// inParent is the paths of all fields that this package writes in a parent.
func (o *Options) inParent() []string {
	paths := []string{o.ArrayField, o.CountField}
	for _, v := range o.Values {
		paths = append(paths, v.Sum, v.Mean, v.Count)
	}
	return paths
}

// constant reports whether all items of a parent have the same value in a field.
func (o *Options) constant(field string) bool {
	return field == o.ParentField || slices.ContainsFunc(o.Scope, func(e bson.E) bool { return e.Key == field })
}

// itemPath refuses an invalid path, and the parent's _id: an item's rank and copy must not
// change when it moves to another parent.
func (o *Options) itemPath(path string) error {
	if name, _, _ := strings.Cut(path, "."); o.constant(name) {
		return fmt.Errorf("%q is the same for all items of a parent", path)
	}
	return fieldpath.CheckNamed("path", path)
}

// fullOrder checks Sort and ends it with _id. Directions become int32.
func (o *Options) fullOrder() error {
	var out bson.D
	var paths []string
	last := int32(-1)
	for i, e := range o.Sort {
		var err error
		if last, err = config.Direction(e); err != nil {
			return err
		}
		if e.Key == "_id" && i < len(o.Sort)-1 {
			return errors.New("it must end with _id, if it has that")
		}
		if err := o.itemPath(e.Key); err != nil {
			return err
		}
		out, paths = append(out, expr.Element(e.Key, last)), append(paths, "Sort", e.Key)
	}
	if len(out) == 0 || out[len(out)-1].Key != "_id" {
		out = append(out, expr.Element("_id", last))
	}
	o.Sort = out
	return fieldpath.CheckDisjoint(paths...)
}
