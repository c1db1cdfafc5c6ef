package paging_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

type Article struct {
	ID        int        `bson:"_id" json:"id"`
	Topic     string     `bson:"topic" json:"topic"`
	Published *time.Time `bson:"published,omitempty" json:"-"`
	Title     string     `bson:"title" json:"title"`
}

// exampleArticles stores six articles: two of one day, a draft without a date.
func exampleArticles(ctx context.Context) *mongo.Collection {
	articles := mongotest.ExampleDatabase().Collection("articles")
	day := func(d int) *time.Time {
		t := time.Date(2024, 5, d, 0, 0, 0, 0, time.UTC)
		return &t
	}
	_, err := articles.InsertMany(ctx, []Article{
		{1, "sea", day(1), "Tides"},
		{2, "sea", day(1), "Whales"},
		{3, "sea", nil, "Draft"},
		{4, "sea", day(3), "Reefs"},
		{5, "sky", day(2), "Clouds"},
		{6, "sea", day(2), "Harbours"},
	})
	if err != nil {
		log.Fatal(err)
	}
	return articles
}

func titles(articles []Article) []string {
	out := make([]string, len(articles))
	for i, a := range articles {
		out[i] = a.Title
	}
	return out
}

func Example() {
	ctx := context.Background()
	articles := exampleArticles(ctx)

	newestFirst := bson.D{{Key: "published", Value: -1}, {Key: "title", Value: 1}}
	pager, err := paging.New[Article](articles, newestFirst, &paging.Options{Equality: []string{"topic"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := pager.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}

	filter := bson.D{{Key: "topic", Value: "sea"}}
	req := paging.Request{Size: 2}
	for {
		page, err := pager.Page(ctx, filter, req)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(titles(page.Items), "before:", page.HasPrev, "after:", page.HasNext)
		if !page.HasNext {
			back, err := pager.Page(ctx, filter, paging.Request{Size: 2, Before: page.Prev})
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("back to", titles(back.Items))
			break
		}
		req.After = page.Next
	}
	// Output:
	// [Reefs Harbours] before: false after: true
	// [Tides Whales] before: true after: true
	// [Draft] before: true after: false
	// back to [Tides Whales]
}

func ExamplePager_All() {
	ctx := context.Background()
	pager, err := paging.New[Article](exampleArticles(ctx), bson.D{{Key: "title", Value: 1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for article, err := range pager.All(ctx, nil, paging.Request{Size: 2}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(article.Title)
	}
	// Output:
	// Clouds
	// Draft
	// Harbours
	// Reefs
	// Tides
	// Whales
}

// Over a pipeline: topics, the one with most articles first.
func ExamplePager_All_pipeline() {
	ctx := context.Background()
	type topic struct {
		Name string `bson:"_id"`
		N    int    `bson:"n"`
	}
	pager, err := paging.New[topic](exampleArticles(ctx), bson.D{{Key: "n", Value: -1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	topics := mongo.Pipeline{{{Key: "$group", Value: bson.D{
		{Key: "_id", Value: "$topic"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
	}}}}
	for topic, err := range pager.All(ctx, topics, paging.Request{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(topic)
	}
	// Output:
	// {sea 5}
	// {sky 1}
}

// Page numbers for a long list: in groups of ten, each jump skips at most one
// group, wherever in the list it is.
func ExamplePager_Page_numbers() {
	ctx := context.Background()
	articles := mongotest.ExampleDatabase().Collection("articles")
	var docs []Article
	for i := 1; i <= 500; i++ {
		docs = append(docs, Article{ID: i})
	}
	if _, err := articles.InsertMany(ctx, docs); err != nil {
		log.Fatal(err)
	}
	pager, err := paging.New[Article](articles, nil, &paging.Options{PageSize: 10})
	if err != nil {
		log.Fatal(err)
	}
	ten, err := pager.Page(ctx, nil, paging.Request{Number: 10, Count: 300})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("page", ten.Number, "ends with", ten.Items[9].ID, "of", ten.Total.N, "or more:", ten.Total.AtLeast)

	// {_id: {$gt: 100}}, skip 20
	thirteen, err := pager.Page(ctx, nil, paging.Request{From: ten.Position, Number: 13})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("page", thirteen.Number, "starts with", thirteen.Items[0].ID,
		"in the group", thirteen.GroupFirst, "to", thirteen.GroupLast)

	_, err = pager.Page(ctx, nil, paging.Request{From: thirteen.Position, Number: 40})
	fmt.Println("too far:", errors.Is(err, paging.ErrOutOfReach))
	// Output:
	// page 10 ends with 100 of 300 or more: true
	// page 13 starts with 121 in the group 11 to 20
	// too far: true
}

// Pages of the products of a category and of all categories below it, cheapest first.
func ExamplePager_Page_category() {
	ctx := context.Background()
	db := mongotest.ExampleDatabase()
	categoryColl, products := db.Collection("categories"), db.Collection("products")
	type category struct {
		ID string `bson:"_id"`
	}
	categories, err := tree.New[string, category](categoryColl, tree.AncestorArray, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := categories.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	place := categories.AsRoot()
	for _, id := range []string{"Parts", "Storage", "SSDs"} {
		if _, err := categories.Insert(ctx, category{id}, place); err != nil {
			log.Fatal(err)
		}
		place = categories.Under(id)
	}
	type product struct {
		ID       string `bson:"_id"`
		Category string
		Price    int
	}
	_, err = products.InsertMany(ctx, []product{
		{"fan", "Parts", 9}, {"case", "Storage", 20}, {"ssd 1", "SSDs", 90}, {"ssd 2", "SSDs", 15},
	})
	if err != nil {
		log.Fatal(err)
	}

	pager, err := paging.New[product](products, bson.D{{Key: "price", Value: 1}}, &paging.Options{Equality: []string{"category"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := pager.EnsureIndexes(ctx); err != nil {
		log.Fatal(err)
	}
	below, err := categories.DescendantsFilter(ctx, "Storage", 0)
	if err != nil {
		log.Fatal(err)
	}
	var ids []string
	if err := categoryColl.Distinct(ctx, "_id", below).Decode(&ids); err != nil {
		log.Fatal(err)
	}
	filter := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: append(ids, "Storage")}}}}
	for req := (paging.Request{Size: 2}); ; {
		page, err := pager.Page(ctx, filter, req)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(page.Items)
		if !page.HasNext {
			break
		}
		req.After = page.Next
	}
	// Output:
	// [{ssd 2 SSDs 15} {case Storage 20}]
	// [{ssd 1 SSDs 90}]
}

// The query can be run by hand: here for articles with only the titles.
func ExamplePager_Filter() {
	ctx := context.Background()
	articles := exampleArticles(ctx)
	pager, err := paging.New[Article](articles, bson.D{{Key: "_id", Value: 1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	sea := bson.D{{Key: "topic", Value: "sea"}}
	token, err := pager.Token(sea, Article{ID: 2})
	if err != nil {
		log.Fatal(err)
	}
	req := paging.Request{After: token}
	filter, err := pager.Filter(sea, req)
	if err != nil {
		log.Fatal(err)
	}
	text, err := bson.MarshalExtJSON(filter, false, false)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	cursor, err := articles.Find(ctx, filter, options.Find().SetSort(pager.Sort(req)).SetLimit(2))
	if err != nil {
		log.Fatal(err)
	}
	var found []Article
	if err := cursor.All(ctx, &found); err != nil {
		log.Fatal(err)
	}
	fmt.Println(titles(found))
	// Output:
	// {"$and":[{"topic":"sea"},{"$expr":{"$gt":["$_id",{"$literal":2}]}}]}
	// [Draft Reefs]
}

// A handler: parameters in, a page and its links out.
func ExampleParseRequest() {
	ctx := context.Background()
	pager, err := paging.New[Article](exampleArticles(ctx), bson.D{{Key: "title", Value: 1}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		req, err := paging.ParseRequest(r.URL.Query(), 20, 50)
		if err != nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		page, err := pager.Page(r.Context(), nil, req)
		switch {
		case errors.Is(err, mongopatterns.ErrInvalid): // tokens too
			http.Error(w, "bad request", http.StatusBadRequest)
		case err != nil:
			http.Error(w, "internal error", http.StatusInternalServerError)
		default:
			if links := page.LinkHeader(r.URL); links != "" { // a list of one page has none
				w.Header().Set("Link", links)
			}
			_ = json.NewEncoder(w).Encode(page.Items)
		}
	}

	for _, target := range []string{"/articles?limit=1&lang=en&last=true", "/articles?after=tampered"} {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest("GET", target, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 [{"id":2,"topic":"sea","title":"Whales"}]
	//
	// 400 bad request
}

func ExamplePage_LinkHeader() {
	page := paging.Page[Article]{HasNext: true, Next: "AQAB"}
	u, err := url.Parse("https://example.com/articles?limit=5&lang=en")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.LinkHeader(u))
	// Output:
	// <https://example.com/articles?after=AQAB&lang=en&limit=5>; rel="next", <https://example.com/articles?lang=en&last=true&limit=5>; rel="last"
}
