package registry

import (
	"context"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
)

func init() {
	add(Pattern{Package: "paging", Reads: pagingReads(), Steps: pagingSteps, Role: pagingRole})
}

func pagingReads() (out []Row) {
	for kind, opts := range map[string]*paging.Options{"": nil, "/by its Equality": {Equality: []string{"author"}}} {
		filter := bson.D{}
		if opts != nil {
			filter = testkit.D("author", "Ann")
		}
		out = append(out, reads("paging.Pager", kind, func(s *Scene) *paging.Pager[bson.D] {
			s.InsertEach("articles", 6, func(id int) bson.D { return testkit.D("_id", id, "author", []string{"Ann", "Bob"}[id%2], "at", -id) })
			own := paging.Options{Scope: s.Scope}
			if opts != nil {
				own.Equality = opts.Equality
			}
			p := testkit.Must(paging.New[bson.D](s.Coll("articles"), testkit.D("at", -1), &own))
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

func pagingSteps(t *testing.T, db *mongo.Database) (func(context.Context, int) error, func(*testing.T, int)) {
	coll := db.Collection("paging")
	p := testkit.Must(paging.New[struct {
		ID int `bson:"_id"`
	}](coll, bson.D{{Key: "rank", Value: 1}}, nil))
	testkit.OK(t, p.EnsureIndexes(t.Context()))
	var docs []any
	var want, got []int
	for i := range 100 {
		docs = append(docs, bson.M{"_id": i, "rank": i / 8})
		want = append(want, i)
	}
	testkit.OK(t, done(testkit.ErrorOf(coll.InsertMany(t.Context(), docs))))
	after := "" // a walk that was interrupted goes on behind the last page
	step := func(ctx context.Context, n int) error {
		for {
			page, err := p.Page(ctx, nil, paging.Request{Size: 9, After: after})
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				got = append(got, item.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("walk %d: %v", n, got)
		}
		got, after = nil, ""
		return nil
	}
	return step, func(*testing.T, int) {}
}

var pagingRole = &Role{Open: pagingPlayer}

func pagingPlayer(s *Side) (*Player, error) {
	rank := s.name("rank")
	p, err := paging.New[bson.D](s.Main, bson.D{{Key: rank, Value: 1}}, nil)
	walk := func(ctx context.Context) error {
		want, err := s.Main.CountDocuments(ctx, bson.D{})
		if err != nil {
			return err
		}
		var have int64
		for after := ""; ; {
			page, err := p.Page(ctx, nil, paging.Request{Size: 2, After: after})
			if err != nil {
				return err
			}
			have += int64(len(page.Items))
			if after = page.Next; after == "" {
				return same(have, want)
			}
		}
	}
	return opened(&Player{
		Adopt: func(ctx context.Context, ids []any) error {
			return each(ids, func(i int, id any) error { return s.set(ctx, id, rank, -i) })
		},
		Step:   func(ctx context.Context, _ []any, _ int) error { return walk(ctx) },
		Oracle: func(ctx context.Context, _ []any) error { return walk(ctx) },
	}, p, err)
}
