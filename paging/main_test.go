package paging_test

import (
	"context"
	"iter"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// ids reads the _id of every document as comparable text.
func ids(docs []bson.Raw) []string {
	out := make([]string, len(docs))
	for i, doc := range docs {
		out[i] = doc.Lookup("_id").String()
	}
	return out
}

func newPager[T any](t testing.TB, coll *mongo.Collection, sort bson.D, opts *paging.Options) *paging.Pager[T] {
	t.Helper()
	return testkit.Value[*paging.Pager[T]](t)(paging.New[T](coll, sort, opts))
}

// pages walks page by page from the one req asks for to the end of the list, or to its
// beginning for Before and FromEnd.
func pages[T any](ctx context.Context, pager *paging.Pager[T], over any, req paging.Request) iter.Seq2[*paging.Page[T], error] {
	return func(yield func(*paging.Page[T], error) bool) {
		for {
			page, err := pager.Page(ctx, over, req)
			if !yield(page, err) || err != nil {
				return
			}
			if req.Before != "" || req.FromEnd {
				req = paging.Request{Size: req.Size, Before: page.Prev}
			} else {
				req = paging.Request{Size: req.Size, After: page.Next}
			}
			if req.After == "" && req.Before == "" {
				return
			}
		}
	}
}
