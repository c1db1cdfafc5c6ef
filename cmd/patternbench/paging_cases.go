package main

import (
	"context"
	"errors"
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
func articles(ctx context.Context, b *bench, n int) *mongo.Collection {
	coll := b.db().Collection("articles")
	begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	const batch = 10_000
	for from := 0; from < n; from += batch {
		check(fillFrom(ctx, coll, from, min(from+batch, n), func(i int) any {
			return article{int64(i + 1), topics[b.rand.IntN(len(topics))], begin.AddDate(0, 0, b.rand.IntN(1500)), fmt.Sprintf("Article %08x", b.rand.Uint32())}
		}))
		b.progress(min(from+batch, n), n)
	}
	return coll
}

var topics = []string{"sea", "sky", "land", "city"}

func pagingByDepth(ctx context.Context, b *bench) (all []comparison) {
	n := b.size(30_000, 300_000, 3_000_000)
	coll := articles(ctx, b, n)
	for _, order := range []struct {
		name string
		sort bson.D
	}{{"by _id", nil}, {"by date and title", byDate}} {
		pager := must(paging.New[article](coll, order.sort, nil))
		check(pager.EnsureIndexes(ctx))
		for _, depth := range []int{0, 1000, 10_000, 100_000, 1_000_000, 2_500_000} {
			if b.scale == "tiny" {
				depth /= 50
			}
			if depth+2*pageSize > n {
				break
			}
			all = append(all, pageAt(ctx, b, coll, pager, order.name, depth))
		}
	}
	return all
}

// pageReader reads the page that a case asks for, and says which article is first.
type pageReader = func(ctx context.Context, coll *mongo.Collection, pager *paging.Pager[article]) (first int64, err error)

// pageAt compares the ways to a page that depth articles lie before.
func pageAt(ctx context.Context, b *bench, coll *mongo.Collection, pager *paging.Pager[article], order string, depth int) comparison {
	sort := pager.Sort(paging.Request{})
	skip := func(ctx context.Context, coll *mongo.Collection, _ *paging.Pager[article]) (int64, error) {
		page, err := findAll[article](ctx, -1, coll, d(), options.Find().SetSort(sort).SetSkip(int64(depth)).SetLimit(pageSize))
		if err != nil {
			return 0, err
		}
		return firstOf(page)
	}
	want := must(skip(ctx, coll, pager))
	keyset, nearby := paging.Request{Size: pageSize}, paging.Request{Size: pageSize, Number: int64(depth/pageSize) + 1}
	if depth > 0 {
		before := must(findOne[article](ctx, coll, d(), options.FindOne().SetSort(sort).SetSkip(int64(depth-1))))
		keyset.After = must(pager.Token(nil, before))
		nearby.From = must(pager.Page(ctx, nil, paging.Request{Size: pageSize, Number: max(nearby.Number-5, 1)})).Position
	}
	c := comparison{metric: fmt.Sprintf("%s, after %s", order, number(float64(depth))), ops: 20}
	switch {
	case depth >= 1_000_000:
		c.ops, c.runs = 2, min(b.runs, 3)
	case depth >= 10_000:
		c.ops = 4
	}
	var keys []value
	add := func(name string, page pageReader) {
		s := way(name, func(ctx context.Context, _ int) error {
			if first, err := page(ctx, coll, pager); err != nil || first != want {
				return fmt.Errorf("article %d comes first, not %d: %w", first, want, err)
			}
			return nil
		})
		if len(keys) > 0 { // a skip before it empties the server's cache, which is not to its account
			s.reset = func(ctx context.Context) error { return errorOf(page(ctx, coll, pager)) }
		}
		c.sides = append(c.sides, s)
		keys = append(keys, value{name, float64(must(examined(ctx, b, coll, sort[:len(sort)-1], page)))})
	}
	add("skip", skip)
	add("keyset token", pageOf(keyset))
	add("number from a page nearby", pageOf(nearby))
	c.after = func(context.Context) { b.report(c.metric+": keys examined", "keys", keys...) }
	return c
}

// examined is how many index keys the server looks at for a page in an order, whose last key is _id.
func examined(ctx context.Context, b *bench, coll *mongo.Collection, order bson.D, page pageReader) (int64, error) {
	return b.keysExamined(ctx, coll.Database().Name(), func(ctx context.Context, db *mongo.Database) error {
		coll := db.Collection(coll.Name())
		pager, err := paging.New[article](coll, order, nil)
		if err != nil {
			return err
		}
		return errorOf(page(ctx, coll, pager))
	})
}

// pageOf asks a Pager.
func pageOf(req paging.Request) pageReader {
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
func pagingWalk(ctx context.Context, b *bench) []comparison {
	n := b.size(5000, 20_000, 20_000)
	coll := articles(ctx, b, n)
	pager := must(paging.New[article](coll, byDate, nil))
	check(pager.EnsureIndexes(ctx))
	const size = 100
	// next reads the page after so many articles, and says whether it is the last.
	walk := func(name string, next func(ctx context.Context, seen int) (articles int, last bool, err error)) side {
		return side{name: name, run: func(ctx context.Context) error {
			for seen := 0; ; {
				count, last, err := next(ctx, seen)
				if seen += count; err != nil || last || count == 0 {
					return errors.Join(err, want(seen, n))
				}
			}
		}}
	}
	var req paging.Request
	return []comparison{compared(fmt.Sprintf("all %s articles, a page of %d", number(float64(n)), size), n/size,
		walk("skip", func(ctx context.Context, seen int) (int, bool, error) {
			page, err := findAll[article](ctx, -1, coll, d(), options.Find().SetSort(pager.Sort(paging.Request{})).SetSkip(int64(seen)).SetLimit(size))
			return len(page), seen+len(page) == n, err
		}),
		walk("Pages", func(ctx context.Context, seen int) (int, bool, error) {
			if seen == 0 {
				req = paging.Request{Size: size}
			}
			page, err := pager.Page(ctx, nil, req)
			req.After = page.Next
			return len(page.Items), !page.HasNext, err
		}),
		walk("All", func(ctx context.Context, seen int) (int, bool, error) {
			err := each(pager.All(ctx, nil, paging.Request{Size: size}), func(article) { seen++ })
			return seen, true, err
		}))}
}
