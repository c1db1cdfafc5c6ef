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
	"github.com/mongopatterns/mongopatterns/internal/fieldpath"
)

// Options names the fields of a Subset and chooses what a parent keeps. The zero
// value keeps the ten items with the highest _id in "items" and their number in
// "items_count". What is called a path may be dotted.
type Options struct {
	// ParentField is the name of the field that holds, in an item, the _id of its
	// parent. Default "parent".
	ParentField string
	// ArrayField is the path, in the parent, of the kept items. Default "items".
	ArrayField string
	// CountField is the path, in the parent, of the number of all its items.
	// Default: ArrayField with "_count" added.
	CountField string
	// N is how many items a parent keeps. Default 10.
	N int
	// Order is the order of the items, the best first, as a sort document of paths.
	// Values sort as the server sorts them; arrays are refused, and a path that T, a plain
	// struct, never writes. _id is added as the
	// last field, in the direction of the one before. Default {_id: -1}.
	Order bson.D
	// BestLast stores the kept items from the worst to the best, as $slice: -N
	// does. Reads of this package give the best first either way. Default false.
	BestLast bool
	// Fields are the names of the fields of an item that the parent keeps, whole; _id
	// and those of Order always are. Default nil: all but ParentField.
	Fields []string
	// Filter selects the items that are kept and counted, such as approved ones:
	// {approved: true}, {deleted_at: {$exists: false}}. The others are stored in
	// the collection only. It may hold equalities, $eq, $ne, $in, $nin and $exists,
	// all of which must hold; strings compare without a collation. Default nil: all.
	Filter any
	// Values are the numbers of items of which parents keep aggregates. Default
	// none.
	Values []Value

	// Registry and BSON encode the parents' _ids and the items, and decode what Top
	// returns. Give the client's own, if it has any: a collection does not show them.
	// Default nil: the driver's.
	Registry *bson.Registry
	BSON     *options.BSONOptions
}

// A Value is a number inside the items and the paths in the parent that aggregate
// it over all items that count, not only the kept ones.
//
// The number may be int32, int64, double or Decimal128. An item without a finite
// number is ErrInvalid, unless Count is kept: then it is left out. Sums keep the
// type of the numbers; sums of doubles round with each write, and Repair computes
// them anew.
type Value struct {
	// Field is the path inside the item, "rating" say. Required.
	Field string
	// Sum holds the sum. Required.
	Sum string
	// Mean holds Sum divided by Count, or by Options.CountField if Count is not
	// kept. Without any number there is no such field. Default "": not kept.
	Mean string
	// Count holds how many items have the number. Default "": not kept.
	Count string
}

// fieldTouch marks a parent where a write changes nothing else in it, so that
// other writers conflict with it. It is set and removed in one transaction.
const fieldTouch = "__touch"

// complete sets the defaults and refuses what cannot work.
func (o *Options) complete() error {
	o.Fields, o.Values = slices.Clone(o.Fields), slices.Clone(o.Values)
	err := config.Apply(config.Name("Options.ParentField", &o.ParentField, "parent"),
		config.Number("Options.N", &o.N, 10, 1, math.MaxInt32),
		config.Check("Options.ParentField", func() error {
			if o.ParentField == "_id" {
				return errors.New("_id is the item's own")
			}
			return nil
		}),
		config.Check("Options.Order", o.fullOrder))
	if err != nil {
		return err
	}
	id, touch := "_id", fieldTouch
	o.ArrayField = cmp.Or(o.ArrayField, "items")
	settings := []config.Setting{config.Path("_id", &id, ""), config.Path(fieldTouch, &touch, ""),
		config.Named("Options.ArrayField", &o.ArrayField, ""),
		config.Named("Options.CountField", &o.CountField, o.ArrayField+"_count")}
	for i := range o.Values {
		v, option := &o.Values[i], fmt.Sprintf("Options.Values[%d]", i)
		settings = append(settings, config.Check(option+".Field", func() error { return o.itemPath(v.Field) }),
			config.Named(option+".Sum", &v.Sum, ""), config.Named(option+".Mean", &v.Mean, ""),
			config.Named(option+".Count", &v.Count, ""), config.Check(option+".Sum", func() error {
				if v.Sum == "" {
					return errors.New("empty")
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

// inParent are the paths of all that a parent holds.
func (o *Options) inParent() []string {
	paths := []string{o.ArrayField, o.CountField}
	for _, v := range o.Values {
		paths = append(paths, v.Sum, v.Mean, v.Count)
	}
	return paths
}

// itemPath refuses what is no path in an item, and the parent's _id: what a parent
// keeps of an item must stay the same when the item moves.
func (o *Options) itemPath(path string) error {
	if path == o.ParentField || strings.HasPrefix(path, o.ParentField+".") {
		return fmt.Errorf("%q is the same for all items of a parent", path)
	}
	return fieldpath.CheckNamed("path", path)
}

// fullOrder checks Order and ends it with _id. Directions become int32.
func (o *Options) fullOrder() error {
	var out bson.D
	var paths []string
	last := int32(-1)
	for i, e := range o.Order {
		switch e.Value {
		case 1, int32(1), int64(1), 1.0:
			last = 1
		case -1, int32(-1), int64(-1), -1.0:
			last = -1
		default:
			return fmt.Errorf("%q: %v is neither 1 nor -1", e.Key, e.Value)
		}
		if e.Key == "_id" && i < len(o.Order)-1 {
			return errors.New("_id must be last")
		}
		if err := o.itemPath(e.Key); err != nil {
			return err
		}
		out, paths = append(out, bson.E{Key: e.Key, Value: last}), append(paths, "Order", e.Key)
	}
	if len(out) == 0 || out[len(out)-1].Key != "_id" {
		out = append(out, bson.E{Key: "_id", Value: last})
	}
	o.Order = out
	return fieldpath.CheckDisjoint(paths...)
}
