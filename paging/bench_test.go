package paging_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
)

// BenchmarkDeepPage reads 20 articles behind 50,000 others, as a Pager does and
// by skip, in turn. skip/page is how many times longer skip took. The engine
// matters: see the manual.
func BenchmarkDeepPage(b *testing.B) {
	ctx := context.Background()
	db := mongotest.Database(b)
	coll := db.Collection("articles")
	const n, depth = 60_000, 50_000
	for from := 0; from < n; from += 10_000 {
		docs := make([]row, 10_000)
		for i := range docs {
			docs[i] = row{ID: from + i, S: (from + i) / 1000}
		}
		insert(b, coll, docs...)
	}
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
			pager := newPager[row](b, coll, c.sort, c.opts)
			if err := pager.EnsureIndexes(ctx); err != nil {
				b.Fatal(err)
			}
			token := must[string](b)(pager.Token(nil, row{ID: depth - 1, S: (depth - 1) / 1000}))
			var paged, skipped time.Duration
			for b.Loop() {
				start := time.Now()
				page := must[*paging.Page[row]](b)(pager.Page(ctx, nil, paging.Request{Size: 20, After: token}))
				paged += time.Since(start)

				start = time.Now()
				cursor := must[*mongo.Cursor](b)(coll.Find(ctx, bson.D{},
					options.Find().SetSort(pager.Sort(paging.Request{})).SetSkip(depth).SetLimit(20)))
				var same []row
				if err := cursor.All(ctx, &same); err != nil {
					b.Fatal(err)
				}
				skipped += time.Since(start)
				if page.Items[0] != same[0] || len(page.Items) != len(same) {
					b.Fatalf("%v against %v", page.Items, same)
				}
			}
			b.ReportMetric(float64(skipped)/float64(paged), "skip/page")
			b.ReportMetric(float64(paged.Microseconds())/float64(b.N), "µs/page")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkToken makes and reads the token of a document.
func BenchmarkToken(b *testing.B) {
	client := must[*mongo.Client](b)(mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1")))
	defer func() { _ = client.Disconnect(context.Background()) }()
	pager := newPager[row](b, client.Database("d").Collection("c"), byS, &paging.Options{Keys: [][]byte{make([]byte, 32)}})
	b.ReportAllocs()
	for b.Loop() {
		token := must[string](b)(pager.Token(nil, row{ID: 5, S: 7}))
		must[bson.D](b)(pager.Filter(nil, paging.Request{After: token}))
	}
}
