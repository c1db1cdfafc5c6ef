package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/paging"
)

var pagingCases = []benchmark{
	{"paging", "by depth", "A page of 20 articles, by _id and by date and title, at several depths: skip against a keyset token and against a number counted from a page nearby.", pagingByDepth},
	{"paging", "walk", "All articles, page by page: skip against tokens.", pagingWalk},
}

// article is what is paged over; many have the same date.
type article struct {
	ID        int64     `bson:"_id"`
	Topic     string    `bson:"topic"`
	Published time.Time `bson:"published"`
	Title     string    `bson:"title"`
}

const pageSize = 20

var byDate = d("published", -1, "title", 1)

// articles fills a collection with n articles.
func articles(ctx context.Context, b *bench, n int) (*mongo.Collection, error) {
	coll := b.db().Collection("articles")
	begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	const batch = 10_000
	for from := 0; from < n; from += batch {
		if err := fillFrom(ctx, coll, from, min(from+batch, n), func(i int) any {
			return article{int64(i + 1), topics[b.rand.IntN(len(topics))], begin.AddDate(0, 0, b.rand.IntN(1500)), fmt.Sprintf("Article %08x", b.rand.Uint32())}
		}); err != nil {
			return nil, err
		}
		b.progress(min(from+batch, n), n)
	}
	return coll, nil
}

var topics = []string{"sea", "sky", "land", "city"}

func pagingByDepth(ctx context.Context, b *bench) error {
	n := b.size(30_000, 300_000, 3_000_000)
	coll, err := articles(ctx, b, n)
	if err != nil {
		return err
	}
	for _, order := range []struct {
		name string
		sort bson.D
	}{{"by _id", nil}, {"by date and title", byDate}} {
		pager, err := paging.New[article](coll, order.sort, nil)
		if err != nil {
			return err
		}
		if err := pager.EnsureIndexes(ctx); err != nil {
			return err
		}
		for _, depth := range []int{0, 1000, 10_000, 100_000, 1_000_000, 2_500_000} {
			if b.scale == "tiny" {
				depth /= 50
			}
			if depth+2*pageSize > n {
				break
			}
			if err := pageAt(ctx, b, coll, pager, order.name, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// pageAt compares the ways to a page that depth articles lie before.
func pageAt(ctx context.Context, b *bench, coll *mongo.Collection, pager *paging.Pager[article], order string, depth int) error {
	sort := pager.Sort(paging.Request{})
	skip := func(ctx context.Context, coll *mongo.Collection) (first int64, err error) {
		cursor, err := coll.Find(ctx, d(), options.Find().SetSort(sort).SetSkip(int64(depth)).SetLimit(pageSize))
		if err != nil {
			return 0, err
		}
		var page []article
		if err := cursor.All(ctx, &page); err != nil {
			return 0, err
		}
		return firstOf(page)
	}
	want, err := skip(ctx, coll)
	if err != nil {
		return err
	}
	keyset, nearby := paging.Request{Size: pageSize}, paging.Request{Size: pageSize, Number: int64(depth/pageSize) + 1}
	if depth > 0 {
		var before article
		if err := coll.FindOne(ctx, d(), options.FindOne().SetSort(sort).SetSkip(int64(depth-1))).Decode(&before); err != nil {
			return err
		}
		if keyset.After, err = pager.Token(nil, before); err != nil {
			return err
		}
		near, err := pager.Page(ctx, nil, paging.Request{Size: pageSize, Number: max(nearby.Number-5, 1)})
		if err != nil {
			return err
		}
		nearby.From = near.Position
	}

	ways := []struct {
		name string
		page func(ctx context.Context, coll *mongo.Collection, pager *paging.Pager[article]) (int64, error)
	}{
		{"skip", func(ctx context.Context, coll *mongo.Collection, _ *paging.Pager[article]) (int64, error) {
			return skip(ctx, coll)
		}},
		{"keyset token", pageOf(keyset)},
		{"number from a page nearby", pageOf(nearby)},
	}
	ops, runs := 20, b.runs
	switch {
	case depth >= 1_000_000:
		ops, b.runs = 2, min(runs, 3)
	case depth >= 10_000:
		ops = 4
	}
	defer func() { b.runs = runs }()
	sides := make([]side, len(ways))
	keys := make([]value, len(ways))
	for i, way := range ways {
		sides[i] = side{name: way.name, run: func(ctx context.Context) error {
			for range ops {
				if first, err := way.page(ctx, coll, pager); err != nil || first != want {
					return fmt.Errorf("article %d comes first, not %d: %w", first, want, err)
				}
			}
			return nil
		}}
		if i > 0 { // a skip before it empties the server's cache, which is not to its account
			sides[i].reset = func(ctx context.Context) error {
				_, err := way.page(ctx, coll, pager)
				return err
			}
		}
		examined, err := b.keysExamined(ctx, coll.Database().Name(), func(ctx context.Context, db *mongo.Database) error {
			coll := db.Collection(coll.Name())
			var order bson.D
			if len(sort) > 1 {
				order = sort[:len(sort)-1]
			}
			pager, err := paging.New[article](coll, order, nil)
			if err != nil {
				return err
			}
			_, err = way.page(ctx, coll, pager)
			return err
		})
		if err != nil {
			return err
		}
		keys[i] = value{way.name, float64(examined)}
	}
	metric := fmt.Sprintf("%s, after %s", order, number(float64(depth)))
	if err := b.measure(ctx, metric, ops, sides[0], sides[1:]...); err != nil {
		return err
	}
	b.report(metric+": keys examined", "keys", keys[0], keys[1:]...)
	return nil
}

// pageOf asks a Pager.
func pageOf(req paging.Request) func(context.Context, *mongo.Collection, *paging.Pager[article]) (int64, error) {
	return func(ctx context.Context, _ *mongo.Collection, pager *paging.Pager[article]) (int64, error) {
		page, err := pager.Page(ctx, nil, req)
		if err != nil {
			return 0, err
		}
		return firstOf(page.Items)
	}
}

// firstOf is the first article of a full page.
func firstOf(page []article) (int64, error) {
	if len(page) != pageSize {
		return 0, fmt.Errorf("%d articles on a page of %d", len(page), pageSize)
	}
	return page[0].ID, nil
}

// pagingWalk reads everything, as an export does.
func pagingWalk(ctx context.Context, b *bench) error {
	n := b.size(5000, 20_000, 20_000)
	coll, err := articles(ctx, b, n)
	if err != nil {
		return err
	}
	pager, err := paging.New[article](coll, byDate, nil)
	if err != nil {
		return err
	}
	if err := pager.EnsureIndexes(ctx); err != nil {
		return err
	}
	const size = 100
	complete := func(seen int) error {
		if seen != n {
			return fmt.Errorf("%d of %d articles", seen, n)
		}
		return nil
	}
	return b.measure(ctx, fmt.Sprintf("all %s articles, a page of %d", number(float64(n)), size), n/size,
		side{name: "skip", run: func(ctx context.Context) error {
			seen := 0
			for seen < n {
				cursor, err := coll.Find(ctx, d(), options.Find().SetSort(pager.Sort(paging.Request{})).SetSkip(int64(seen)).SetLimit(size))
				if err != nil {
					return err
				}
				var page []article
				if err := cursor.All(ctx, &page); err != nil {
					return err
				}
				if len(page) == 0 {
					break
				}
				seen += len(page)
			}
			return complete(seen)
		}},
		side{name: "Pages", run: func(ctx context.Context) error {
			seen := 0
			for req := (paging.Request{Size: size}); ; {
				page, err := pager.Page(ctx, nil, req)
				if err != nil {
					return err
				}
				seen += len(page.Items)
				if req.After = page.Next; !page.HasNext {
					return complete(seen)
				}
			}
		}},
		side{name: "All", run: func(ctx context.Context) error {
			seen := 0
			if err := each(pager.All(ctx, nil, paging.Request{Size: size}), func(article) { seen++ }); err != nil {
				return err
			}
			return complete(seen)
		}},
	)
}
