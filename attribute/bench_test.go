package attribute_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

const (
	benchFilms     = 2000
	benchCountries = 10
)

func country(i int) string { return fmt.Sprintf("country%02d", i) }

// BenchmarkStorage compares an array of ten entries and its index with ten fields
// and theirs: time to insert (above 1 the array is faster), number of indexes,
// and bytes of the documents, which grow as each entry repeats its field names.
// Bytes of indexes are left out: what the embedded engines report for them is an
// estimate.
func BenchmarkStorage(b *testing.B) {
	for b.Loop() {
		db := mongotest.Database(b)
		plain, array := db.Collection("plain"), db.Collection("array")
		var models []mongo.IndexModel
		for i := range benchCountries {
			models = append(models, mongo.IndexModel{Keys: d("release_"+country(i), 1)})
		}
		if _, err := plain.Indexes().CreateMany(b.Context(), models); err != nil {
			b.Fatal(err)
		}
		releases := newAttributes[int, bson.DateTime](b, array, films)
		if err := releases.EnsureIndexes(b.Context()); err != nil {
			b.Fatal(err)
		}
		docs := make([]any, benchFilms)
		for id := range docs {
			doc := d("_id", id)
			for i := range benchCountries {
				doc = append(doc, bson.E{Key: "release_" + country(i), Value: date(1977, 1, 1+id%300+i)})
			}
			docs[id] = doc
		}
		start := time.Now()
		insert(b, plain, docs...)
		without := time.Since(start)
		for id := range docs {
			entries := bson.A{}
			for i := range benchCountries {
				entries = append(entries, d("location", country(i), "date", date(1977, 1, 1+id%300+i)))
			}
			docs[id] = d("_id", id, "releases", entries)
		}
		start = time.Now()
		insert(b, array, docs...)
		b.ReportMetric(float64(without)/float64(time.Since(start)), "insert-speedup")
		b.ReportMetric(indexes(b, array)/indexes(b, plain), "indexes-ratio")
		b.ReportMetric(size(b, array)/size(b, plain), "data-ratio")
	}
}

func size(b *testing.B, coll *mongo.Collection) float64 {
	b.Helper()
	var stats struct {
		Size float64 `bson:"size"`
	}
	if err := coll.Database().RunCommand(b.Context(), d("collStats", coll.Name())).Decode(&stats); err != nil {
		b.Fatal(err)
	}
	return stats.Size
}

// indexes counts those besides _id.
func indexes(b *testing.B, coll *mongo.Collection) float64 {
	b.Helper()
	specs, err := coll.Indexes().ListSpecifications(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return float64(len(specs) - 1)
}

// BenchmarkSet compares Set with the usual code without it: an update of the entry, and a guarded
// $push if there was none. Half of the calls add. Above 1 Set is faster; on a local server round
// trips cost next to nothing.
func BenchmarkSet(b *testing.B) {
	coll := mongotest.Database(b).Collection("c")
	a := newAttributes[int, int](b, coll, nil)
	insert(b, coll, d("_id", 1), d("_id", 2))
	var with, without time.Duration
	n, trips := 0, 0
	ctx := b.Context()
	own := mongotest.Record(b, coll.Database(), func() {
		for i := range 2 { // one call adds
			if err := a.Set(ctx, 1, attribute.Named("k"), i); err != nil {
				b.Fatal(err)
			}
		}
	}).RoundTrips()
	for b.Loop() {
		key := fmt.Sprint(n / 2 % 20)
		if n%40 == 0 {
			if _, err := coll.UpdateMany(ctx, bson.D{}, d("$set", d("attributes", bson.A{}))); err != nil {
				b.Fatal(err)
			}
		}
		start := time.Now()
		if err := a.Set(ctx, 1, attribute.Named(key), n); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		steps, err := twoSteps(ctx, coll, 2, key, n)
		if err != nil {
			b.Fatal(err)
		}
		trips += steps
		with += middle.Sub(start)
		without += time.Since(middle)
		n++
	}
	b.ReportMetric(float64(without)/float64(with), "speedup")
	b.ReportMetric(float64(trips)/float64(n), "round-trips-without")
	b.ReportMetric(float64(own)/2, "round-trips")
}

// twoSteps returns how many round trips it took.
func twoSteps(ctx context.Context, coll *mongo.Collection, id int, key string, value int) (int, error) {
	result, err := coll.UpdateOne(ctx, d("_id", id, "attributes.k", key), d("$set", d("attributes.$.v", value)))
	if err != nil || result.MatchedCount > 0 {
		return 1, err
	}
	_, err = coll.UpdateOne(ctx, d("_id", id, "attributes.k", d("$ne", key)), d("$push", d("attributes", d("k", key, "v", value))))
	return 2, err
}

// BenchmarkFacets compares one aggregation with a $sortByCount for each key.
// Above 1 Facets is faster.
func BenchmarkFacets(b *testing.B) {
	coll := mongotest.Database(b).Collection("c")
	a := newAttributes[int, int](b, coll, nil)
	docs := make([]any, 1000)
	for id := range docs {
		entries := bson.A{}
		for i := range 8 {
			entries = append(entries, d("k", country(i), "v", id%(i+2)))
		}
		docs[id] = d("_id", id, "attributes", entries)
	}
	insert(b, coll, docs...)
	var with, without time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := a.Facets(b.Context(), nil, nil); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		for i := range 8 {
			cursor, err := coll.Aggregate(b.Context(), mongo.Pipeline{
				d("$unwind", "$attributes"), d("$match", d("attributes.k", country(i))), d("$sortByCount", "$attributes.v"), d("$limit", 10),
			})
			if err != nil {
				b.Fatal(err)
			}
			var out []bson.Raw
			if err := cursor.All(b.Context(), &out); err != nil {
				b.Fatal(err)
			}
		}
		with += middle.Sub(start)
		without += time.Since(middle)
	}
	b.ReportMetric(float64(without)/float64(with), "speedup")
}
