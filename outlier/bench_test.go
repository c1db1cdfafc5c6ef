package outlier_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
)

// elementCollection is the usual alternative for lists of any length: a document for each
// element.
func elementCollection(b *testing.B, db *mongo.Database) *mongo.Collection {
	b.Helper()
	coll := db.Collection("elements")
	if _, err := coll.Indexes().CreateOne(b.Context(), mongo.IndexModel{Keys: bson.D{{Key: "parent", Value: 1}, {Key: "_id", Value: 1}}}); err != nil {
		b.Fatal(err)
	}
	return coll
}

// BenchmarkReadTypical reads a book with its 50 customers, against a book and its
// customers in a collection of their own.
func BenchmarkReadTypical(b *testing.B) {
	db := mongotest.Database(b)
	lists := newLists[int, string](b, db, nil)
	elements := elementCollection(b, db)
	insert(b, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}, {Key: "title", Value: "T"}})
	if _, err := lists.Add(b.Context(), 1, users(0, 50)...); err != nil {
		b.Fatal(err)
	}
	var docs []any
	for _, user := range users(0, 50) {
		docs = append(docs, bson.D{{Key: "parent", Value: 1}, {Key: "user", Value: user}})
	}
	if _, err := elements.InsertMany(b.Context(), docs); err != nil {
		b.Fatal(err)
	}
	var with, without time.Duration
	for b.Loop() {
		start := time.Now()
		if n := len(testkit.Collect(b, lists.All(b.Context(), 1))); n != 50 {
			b.Fatal(n)
		}
		middle := time.Now()
		var book bson.D
		if err := db.Collection("parents").FindOne(b.Context(), lists.Filter(1), options.FindOne().SetProjection(bson.D{{Key: "title", Value: 1}})).Decode(&book); err != nil {
			b.Fatal(err)
		}
		cursor, err := elements.Find(b.Context(), bson.D{{Key: "parent", Value: 1}}, options.Find().SetSort(bson.D{{Key: "parent", Value: 1}, {Key: "_id", Value: 1}}))
		if err != nil {
			b.Fatal(err)
		}
		var all []bson.D
		if err := cursor.All(b.Context(), &all); err != nil || len(all) != 50 {
			b.Fatal(len(all), err)
		}
		with += middle.Sub(start)
		without += time.Since(middle)
	}
	b.ReportMetric(float64(with)/float64(without), "time-ratio")
}

// BenchmarkAdd adds to typical documents and to outliers, against $push without
// a bound.
func BenchmarkAdd(b *testing.B) {
	for _, bench := range []struct {
		name   string
		before int // elements in the list
		max    int
	}{{"typical", 50, 1 << 20}, {"large", 900, 1 << 20}, {"outlier", 1500, 1000}} {
		b.Run(bench.name, func(b *testing.B) {
			db := mongotest.Database(b)
			lists := newLists[int, string](b, db, &outlier.Options{MaxCount: bench.max, OverflowMaxCount: 1000})
			insert(b, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}})
			for id := 1; id <= 2; id++ {
				if _, err := lists.Add(b.Context(), id, users(0, min(1000, bench.before))...); err != nil {
					b.Fatal(err)
				}
			}
			plain := db.Collection("plain")
			if _, err := plain.InsertOne(b.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "items", Value: users(0, bench.before)}}); err != nil {
				b.Fatal(err)
			}
			var with, without time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := lists.Add(b.Context(), 1, "another"); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				if _, err := plain.UpdateOne(b.Context(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$push", Value: bson.D{{Key: "items", Value: "another"}}}}); err != nil {
					b.Fatal(err)
				}
				with += middle.Sub(start)
				without += time.Since(middle)
			}
			b.ReportMetric(float64(with)/float64(without), "time-ratio")
		})
	}
}

// BenchmarkHot adds to one outlier from several writers.
func BenchmarkHot(b *testing.B) {
	for _, isSet := range []bool{false, true} {
		for _, writers := range []int{1, 4, 20} {
			b.Run(fmt.Sprintf("set=%v/writers=%d", isSet, writers), func(b *testing.B) {
				db := mongotest.Database(b)
				lists := newLists[int, string](b, db, &outlier.Options{Set: isSet})
				insert(b, db.Collection("parents"), bson.D{{Key: "_id", Value: 1}})
				add(b, lists, 1, users(0, 1100)...)
				const adds = 1000
				for b.Loop() {
					var all sync.WaitGroup
					for w := range writers {
						all.Go(func() {
							for i := range adds / writers {
								if _, err := lists.Add(b.Context(), 1, fmt.Sprint(b.Elapsed(), w, ".", i)); err != nil {
									b.Error(err)
								}
							}
						})
					}
					all.Wait()
				}
				b.ReportMetric(float64(b.N)*adds/b.Elapsed().Seconds(), "adds/s")
			})
		}
	}
}
