package subset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

const (
	benchParents = 20
	benchItems   = 200 // of each
)

var filler = strings.Repeat("x", 300)

// benchData stores products in three ways: with the newest reviews, with all of
// them, and with none.
func benchData(b *testing.B) (*mongo.Database, *subset.Subset[int, bson.D]) {
	b.Helper()
	db := mongotest.Database(b)
	s := newSubset[int, bson.D](b, db, reviewOptions())
	for p := range benchParents {
		all := bson.A{}
		for i := range benchItems {
			all = append(all, d("_id", p*1000+i, "rating", i%5, "date", time.Unix(int64(i), 0), "text", filler))
		}
		insert(b, db.Collection("parents"), d("_id", p))
		insert(b, db.Collection("bare"), d("_id", p))
		insert(b, db.Collection("embedded"), d("_id", p, "reviews", all))
		_, err := s.InsertMany(b.Context(), func(yield func(int, bson.D) bool) {
			for _, item := range all {
				if !yield(p, item.(bson.D)) {
					return
				}
			}
		}, nil)
		must(b, err)
	}
	return db, s
}

// BenchmarkProductPage reads a product with its ten newest reviews: kept in it,
// by a second query with an index, and out of all reviews in the product.
func BenchmarkProductPage(b *testing.B) {
	db, _ := benchData(b)
	one := func(coll string, i int) bson.Raw {
		var doc bson.Raw
		must(b, db.Collection(coll).FindOne(b.Context(), d("_id", i%benchParents)).Decode(&doc))
		return doc
	}
	var kept, joined, embedded time.Duration
	i, bytes := 0, 0
	for b.Loop() {
		start := time.Now()
		bytes = len(one("parents", i))
		kept += time.Since(start)

		start = time.Now()
		one("bare", i)
		cursor, err := db.Collection("items").Find(b.Context(), d("product_id", i%benchParents),
			options.Find().SetSort(d("date", -1, "_id", -1)).SetLimit(10))
		must(b, err)
		var docs []bson.Raw
		must(b, cursor.All(b.Context(), &docs))
		joined += time.Since(start)

		start = time.Now()
		one("embedded", i)
		embedded += time.Since(start)
		i++
	}
	b.ReportMetric(float64(joined)/float64(kept), "second-query/kept")
	b.ReportMetric(float64(embedded)/float64(kept), "all-embedded/kept")
	b.ReportMetric(float64(len(one("embedded", 0)))/float64(bytes), "bytes-embedded/kept")
}

// BenchmarkAdd stores a review with Insert, and as a user would without the pattern: with an
// insert alone.
func BenchmarkAdd(b *testing.B) {
	db, s := benchData(b)
	var added, inserted time.Duration
	i := 0
	for b.Loop() {
		item := d("_id", fmt.Sprint("a", i), "rating", 5, "date", time.Unix(int64(1000+i), 0), "text", filler)
		start := time.Now()
		_, err := s.Insert(b.Context(), i%benchParents, item)
		must(b, err)
		added += time.Since(start)
		start = time.Now()
		insert(b, db.Collection("items"), append(d("_id", fmt.Sprint("i", i), "product_id", -1), item[1:]...))
		inserted += time.Since(start)
		i++
	}
	b.ReportMetric(float64(added)/float64(inserted), "add/insert")
}

// BenchmarkAddMany stores 200 reviews of 20 products in one batch and one by one.
func BenchmarkAddMany(b *testing.B) {
	_, s := benchData(b)
	var many, single time.Duration
	i := 0
	item := func() bson.D {
		i++
		return d("_id", fmt.Sprint("a", i), "rating", 5, "date", time.Unix(int64(1000+i), 0), "text", filler)
	}
	for b.Loop() {
		start := time.Now()
		_, err := s.InsertMany(b.Context(), func(yield func(int, bson.D) bool) {
			for n := range 200 {
				if !yield(n%benchParents, item()) {
					return
				}
			}
		}, nil)
		must(b, err)
		many += time.Since(start)
		start = time.Now()
		for n := range 200 {
			_, err := s.Insert(b.Context(), n%benchParents, item())
			must(b, err)
		}
		single += time.Since(start)
	}
	b.ReportMetric(float64(single)/float64(many), "one-by-one/many")
}
