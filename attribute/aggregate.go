package attribute

import (
	"cmp"
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// SortOptions says in which order SortPipeline brings documents.
type SortOptions struct {
	// Descending sorts the values from high to low. Default false.
	Descending bool
}

// sortField holds the sort keys while a SortPipeline runs.
const sortField = "__attribute"

// SortPipeline sorts the documents that filter selects (nil: all) by the value of this
// key, then by _id; those without the key come last. Values of several types are in
// MongoDB's order of types; an entry without a value has null. The documents come out
// as they are.
//
// The server sorts in memory, or on disk if that is not enough. Of a $skip and $limit
// that you append it keeps only that many.
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
	return mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		// In one expression: $set would write into the elements of an array.
		set(sortField, expr.Let("hits", a.c.values(name, qualifier), expr.D(
			"missing", expr.Op("$eq", "$$hits", bson.A{}), "value", expr.Op("$arrayElemAt", "$$hits", 0)))),
		expr.Op("$sort", expr.D(sortField+".missing", 1, sortField+".value", direction, "_id", 1)),
		expr.Op("$unset", sortField),
	}
}

// FacetOptions narrows Facets.
type FacetOptions struct {
	// Keys are the keys to count. Default nil: all.
	Keys []string
	// Top is how many values of each key are returned, the most frequent.
	// Default 10. The values of one key come in one document, of 16 MB at most.
	Top int
}

// A Facet is what the entries of one key and qualifier hold.
type Facet[V any] struct {
	Key       string `json:"key"`
	Qualifier string `json:"qualifier,omitempty"`
	Count     int64  `json:"count"`    // entries
	Distinct  int64  `json:"distinct"` // different values
	// Values are the most frequent ones first; equally frequent ones by value.
	Values []FacetValue[V] `json:"values"`
}

// FacetValue is a value and the number of its entries.
type FacetValue[V any] struct {
	Value V     `bson:"value" json:"value"`
	Count int64 `bson:"count" json:"count"`
}

// Facets counts the values of each key in the documents that filter selects (nil: all),
// sorted by key and qualifier. Values are told apart as the server does: 1 and 1.0 are
// one, and an array is a value as a whole.
//
// Cost: 1 round trip and further ones for very many keys; the documents of the
// filter are read, with Keys those that have one of them.
func (a *Attributes[ID, V]) Facets(ctx context.Context, filter any, opts *FacetOptions) (facets []Facet[V], err error) {
	defer fault.In(&err, "attribute: facets")
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

// FacetsPipeline is what Facets runs; its documents are {_id: {key, qualifier},
// count, distinct, values: [{value, count}]}.
func (a *Attributes[ID, V]) FacetsPipeline(filter any, opts *FacetOptions) mongo.Pipeline {
	var o FacetOptions
	if opts != nil {
		o = *opts
	}
	o.Top = cmp.Or(o.Top, 10)
	match, n := a.c.valid("$$o"), any(o.Top)
	if o.Top < 0 {
		n = invalid{fault.Invalid("FacetOptions.Top: negative")}
	}
	if o.Keys != nil {
		keys := bson.A{}
		for _, key := range o.Keys {
			keys = append(keys, checked(key))
		}
		filter = expr.And(filter, expr.D(a.c.keyPath, expr.Op("$in", keys)))
		match = expr.Op("$and", match, expr.Op("$in", "$$o."+a.c.key, expr.Literal(keys)))
	}
	return mongo.Pipeline{
		expr.Op("$match", expr.And(filter)),
		expr.Op("$project", bson.D{{Key: "entries", Value: a.c.uniform(match)}}),
		expr.Op("$unwind", "$entries"),
		expr.Op("$group", bson.D{{Key: "_id", Value: "$entries"}, {Key: "count", Value: expr.Op("$sum", 1)}}),
		expr.Op("$group", expr.D(
			"_id", expr.D("key", "$_id.key", "qualifier", "$_id.qualifier"),
			"count", expr.Op("$sum", "$count"),
			"distinct", expr.Op("$sum", 1),
			"values", expr.Op("$topN", expr.D(
				"n", n,
				"sortBy", expr.D("count", -1, "_id.value", 1),
				"output", expr.D("value", "$_id.value", "count", "$count"))))),
		expr.Op("$sort", bson.D{{Key: "_id.key", Value: 1}, {Key: "_id.qualifier", Value: 1}}),
	}
}
