package paging_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// article is a document of a list page.
type article struct {
	ID    int       `bson:"_id"`
	S     int       `bson:"s"`
	Title string    `bson:"title"`
	Tags  []string  `bson:"tags"`
	At    time.Time `bson:"at"`
	Text  string    `bson:"text"`
}

func benchList(b testing.TB, n int) *mongo.Collection {
	coll := mongotest.Database(b).Collection("articles")
	for from := 0; from < n; from += 10_000 {
		docs := make([]article, min(n-from, 10_000))
		for i := range docs {
			docs[i] = article{from + i, (from + i) / 1000, "A title of some length", []string{"a", "b"}, time.UnixMilli(int64(i)), "The first words of it, as lists show them."}
		}
		testkit.InsertAll(b, coll, docs)
	}
	return coll
}

// BenchmarkPage reads a page of 20 behind a token, and the same find by hand.
func BenchmarkPage(b *testing.B) {
	ctx := context.Background()
	coll := benchList(b, 3000)
	pager := newPager[article](b, coll, byS, nil)
	ensure(b, pager)
	filter := bson.D{{Key: "at", Value: bson.D{{Key: "$gt", Value: time.UnixMilli(-1)}}}}
	token := testkit.Value[string](b)(pager.Token(filter, article{ID: 1500, S: 1}))
	req := paging.Request{Size: 20, After: token}
	var sent mongotest.Command
	for _, sent = range mongotest.Record(b, coll.Database(), func() { testkit.Value[*paging.Page[article]](b)(pager.Page(ctx, filter, req)) }) {
	}
	var query bson.D
	if err := sent.Body.Lookup("filter").Unmarshal(&query); err != nil {
		b.Fatal(err)
	}
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			testkit.Value[*paging.Page[article]](b)(pager.Page(ctx, filter, req))
		}
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cursor := testkit.Value[*mongo.Cursor](b)(coll.Find(ctx, query, options.Find().SetSort(pager.Sort(req)).SetLimit(22).SetBatchSize(23)))
			var found []article
			if err := cursor.All(ctx, &found); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDeepPage reads 20 articles behind 50,000 others, as a Pager does and
// by skip, in turn. skip/page is how many times longer skip took.
func BenchmarkDeepPage(b *testing.B) {
	ctx := context.Background()
	const depth = 50_000
	coll := benchList(b, depth+10_000)
	for _, c := range []struct {
		name string
		sort bson.D
		opts *paging.Options
	}{
		{"by _id", nil, nil},
		{"ties, merged", byS, nil},
		{"ties, sequential", byS, &paging.Options{Sequential: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			pager := newPager[article](b, coll, c.sort, c.opts)
			ensure(b, pager)
			token := testkit.Value[string](b)(pager.Token(nil, article{ID: depth - 1, S: (depth - 1) / 1000}))
			var paged, skipped time.Duration
			for b.Loop() {
				start := time.Now()
				page := testkit.Value[*paging.Page[article]](b)(pager.Page(ctx, nil, paging.Request{Size: 20, After: token}))
				paged += time.Since(start)

				start = time.Now()
				cursor := testkit.Value[*mongo.Cursor](b)(coll.Find(ctx, bson.D{},
					options.Find().SetSort(pager.Sort(paging.Request{})).SetSkip(depth).SetLimit(20)))
				var same []article
				if err := cursor.All(ctx, &same); err != nil {
					b.Fatal(err)
				}
				skipped += time.Since(start)
				if page.Items[0].ID != same[0].ID || len(page.Items) != len(same) {
					b.Fatalf("%v against %v", page.Items, same)
				}
			}
			b.ReportMetric(float64(skipped)/float64(paged), "skip/page")
			b.ReportMetric(float64(paged.Microseconds())/float64(b.N), "µs/page")
			b.ReportMetric(0, "ns/op")
		})
	}
}
