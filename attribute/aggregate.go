package attribute

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// SortOptions sets the order of SortPipeline.
type SortOptions struct {
	// Descending sorts the values from high to low. Default false.
	Descending bool
}

// sortField holds the sort keys while a SortPipeline runs.
const sortField = "__attribute"

// SortPipeline sorts the documents that filter selects (nil: all) by the value of this key, then by
// _id. Documents without the key come last. Values of several types are in MongoDB's order of
// types. An entry without a value sorts as null. The documents themselves are not changed.
//
// The server sorts in memory, or on disk if memory is not enough. If you append a $skip and a
// $limit, it keeps only that many documents.
func (a *Attributes[ID, V]) SortPipeline(filter any, key Key, opts *SortOptions) mongo.Pipeline {
	var o SortOptions
	if opts != nil {
		o = *opts
	}
	direction := 1
	if o.Descending {
		direction = -1
	}
	name, qualifier, err := a.c.one(key)
	if err != nil {
		return mongo.Pipeline{expr.Op("$match", refused(err))}
	}
	return a.c.coll.Scope().Stages(mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		// One expression, because $set would write into the elements of an array.
		set(sortField, expr.Let("hits", a.c.values(name, qualifier), expr.D(
			"missing", expr.Op("$eq", "$$hits", bson.A{}), "value", expr.Op("$arrayElemAt", "$$hits", 0)))),
		expr.Op("$sort", expr.D(sortField+".missing", 1, sortField+".value", direction, "_id", 1)),
		expr.Op("$unset", sortField),
	})
}

// FacetOptions narrows Facets.
type FacetOptions struct {
	// Keys are the keys to count. Default nil: all.
	Keys []string
	// Top is how many of the most frequent values of each key are returned. The values of one key
	// come in one document, of 16 MB at most. Default 10.
	Top int
}

// A Facet counts the values in the entries with one key and qualifier.
type Facet[V any] struct {
	Key       string `json:"key"`
	Qualifier string `json:"qualifier,omitempty"`
	Count     int64  `json:"count"`    // entries
	Distinct  int64  `json:"distinct"` // different values
	// Values are sorted by count, the highest first, and then by value.
	Values []FacetValue[V] `json:"values"`
}

// FacetValue is a value and the number of its entries.
type FacetValue[V any] struct {
	Value V     `bson:"value" json:"value"`
	Count int64 `bson:"count" json:"count"`
}

// Facets counts the values of each key in the documents that filter selects (nil: all), sorted by
// key and qualifier. Values are equal if the server compares them as equal, so 1 and 1.0 are equal.
// An array is one value.
//
// Cost: 1 round trip and more for very many keys; the documents of the filter are read, with Keys those that
// have one of them.
func (a *Attributes[ID, V]) Facets(ctx context.Context, filter any, opts *FacetOptions) (facets []Facet[V], err error) {
	ctx = comment.Call(ctx, "attribute.Facets")
	defer fault.In(&err, "attribute.Facets")
	if err := codec.CheckFilter("filter", filter); err != nil {
		return nil, err
	}
	docs, err := cursor.Collect(cursor.Decode[facet[V]](ctx, a.c.aggregate(a.FacetsPipeline(filter, opts))))
	if err != nil {
		return nil, err
	}
	facets = []Facet[V]{}
	for _, doc := range docs {
		facets = append(facets, Facet[V]{doc.ID.Key, doc.ID.Qualifier, doc.Count, doc.Distinct, doc.Values})
	}
	return facets, nil
}

type facet[V any] struct {
	ID struct {
		Key       string `bson:"key"`
		Qualifier string `bson:"qualifier"`
	} `bson:"_id"`
	Count    int64           `bson:"count"`
	Distinct int64           `bson:"distinct"`
	Values   []FacetValue[V] `bson:"values"`
}

// FacetsPipeline is the pipeline of Facets; its documents are {_id: {key, qualifier},
// count, distinct, values: [{value, count}]}.
func (a *Attributes[ID, V]) FacetsPipeline(filter any, opts *FacetOptions) mongo.Pipeline {
	var o FacetOptions
	if opts != nil {
		o = *opts
	}
	o.Top = cmp.Or(o.Top, 10)
	match, n := a.c.valid("$$o"), any(o.Top)
	if o.Top < 0 {
		n = invalid(fault.Invalid("FacetOptions.Top: it must not be negative"))
	}
	if o.Keys != nil {
		keys := bson.A{}
		for _, key := range o.Keys {
			keys = append(keys, checked(key))
		}
		filter = expr.And(filter, expr.D(a.c.keyPath, expr.Op("$in", keys)))
		match = expr.Op("$and", match, expr.Op("$in", "$$o."+a.c.key, expr.Literal(keys)))
	}
	return a.c.coll.Scope().Stages(mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", expr.D("entries", a.c.uniform(match))),
		expr.Op("$unwind", "$entries"),
		expr.Op("$group", expr.D("_id", "$entries", "count", expr.Op("$sum", 1))),
		expr.Op("$group", expr.D(
			"_id", expr.D("key", "$_id.key", "qualifier", "$_id.qualifier"),
			"count", expr.Op("$sum", "$count"),
			"distinct", expr.Op("$sum", 1),
			"values", expr.Op("$topN", expr.D(
				"n", n,
				"sortBy", expr.D("count", -1, "_id.value", 1),
				"output", expr.D("value", "$_id.value", "count", "$count"))))),
		expr.Op("$sort", expr.D("_id.key", 1, "_id.qualifier", 1)),
	})
}
