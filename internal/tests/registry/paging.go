package registry

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
)

var pagingPattern = Pattern{Package: "paging", Reads: pagingReads()}

func pagingReads() (out []Row) {
	for kind, opts := range map[string]*paging.Options{"": nil, "/by its Equality": {Equality: []string{"author"}}} {
		filter := bson.D{}
		if opts != nil {
			filter = testkit.D("author", "Ann")
		}
		out = append(out, reads("paging.Pager", kind, func(s *Scene) *paging.Pager[bson.D] {
			for id := range 6 {
				s.Insert("articles", testkit.D("_id", id, "author", []string{"Ann", "Bob"}[id%2], "at", -id))
			}
			p := testkit.Must(paging.New[bson.D](s.Coll("articles"), testkit.D("at", -1), opts))
			s.OK(p.EnsureIndexes(s.Context()))
			return p
		}, map[string]func(context.Context, *paging.Pager[bson.D]) error{
			"Page": func(ctx context.Context, p *paging.Pager[bson.D]) error {
				return testkit.ErrorOf(p.Page(ctx, filter, paging.Request{Size: 2}))
			},
			"All": func(ctx context.Context, p *paging.Pager[bson.D]) error {
				return testkit.Drain(p.All(ctx, filter, paging.Request{Size: 2}))
			},
		})...)
	}
	return out
}
