package extref_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// seed makes customers with orders of each and returns the Source over them.
func seed(b *testing.B, sources, each int) (*extref.Source[int, bson.D], *mongo.Collection, *mongo.Collection) {
	b.Helper()
	db := mongotest.Database(b)
	customers, orders := db.Collection("customers"), db.Collection("orders")
	r := newRef[int, bson.D](b, customers, []extref.Target{{
		Collection: orders, Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "city"}},
	}}, nil)
	var docs, refs []any
	for c := range sources {
		doc := d("_id", c, "name", fmt.Sprint("customer ", c), "city", "Rome", "notes", fmt.Sprintf("%0500d", c))
		docs = append(docs, doc)
		for i := range each {
			refs = append(refs, d("_id", c*each+i, "customer", ok[bson.D](b)(r.Copy("orders.customer", doc)), "total", i))
		}
	}
	insert(b, customers, docs...)
	insert(b, orders, refs...)
	return r, customers, orders
}

// BenchmarkList reads a page of 50 orders with the names of their customers: from
// the copies, and by a join.
func BenchmarkList(b *testing.B) {
	_, customers, orders := seed(b, 500, 4)
	var copied, joined time.Duration
	page := func(i int) bson.D { return d("_id", d("$gte", i%1500)) }
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		cursor, err := orders.Find(b.Context(), page(i), options.Find().SetSort(d("_id", 1)).SetLimit(50))
		if err != nil {
			b.Fatal(err)
		}
		var docs []bson.Raw
		if err := cursor.All(b.Context(), &docs); err != nil || len(docs) != 50 {
			b.Fatal(len(docs), err)
		}
		copied += time.Since(start)

		start = time.Now()
		cursor, err = orders.Aggregate(b.Context(), mongo.Pipeline{
			d("$match", page(i)), d("$sort", d("_id", 1)), d("$limit", 50),
			d("$lookup", d("from", customers.Name(), "localField", "customer._id", "foreignField", "_id", "as", "customer")),
			d("$project", d("total", 1, "customer._id", 1, "customer.name", 1, "customer.city", 1)),
		})
		if err != nil {
			b.Fatal(err)
		}
		docs = nil
		if err := cursor.All(b.Context(), &docs); err != nil || len(docs) != 50 {
			b.Fatal(len(docs), err)
		}
		joined += time.Since(start)
	}
	b.ReportMetric(float64(joined)/float64(copied), "join/copy")
	b.ReportMetric(float64(copied.Microseconds())/float64(b.N), "copy-µs")
}

// BenchmarkUpdate changes a name with 500 copies: by Update, and by reading the
// orders and writing each, without a transaction or a version.
func BenchmarkUpdate(b *testing.B) {
	const copies = 500
	r, customers, orders := seed(b, 3, copies)
	var update, loop time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		result, err := r.Update(b.Context(), 1, set("name", fmt.Sprint(i)))
		if err != nil || result.Copies.Done != copies {
			b.Fatal(result, err)
		}
		update += time.Since(start)

		start = time.Now()
		must(b)(customers.UpdateByID(b.Context(), 2, set("name", fmt.Sprint(i))))
		cursor, err := orders.Find(b.Context(), d("customer._id", 2), options.Find().SetProjection(d("_id", 1)))
		if err != nil {
			b.Fatal(err)
		}
		for cursor.Next(b.Context()) {
			must(b)(orders.UpdateByID(b.Context(), cursor.Current.Lookup("_id"), set("customer.name", fmt.Sprint(i))))
		}
		loop += time.Since(start)
	}
	b.ReportMetric(float64(loop)/float64(update), "loop/update")
	b.ReportMetric(float64(update.Microseconds())/float64(b.N), "update-µs")
}
