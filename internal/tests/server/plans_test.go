package server_test

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// hundred are documents with the _ids 0 to 99, a of 0 to 9 and v like _id.
func (s *server) hundred() {
	docs := make([]any, 100)
	for i := range docs {
		docs[i] = expr.D("_id", i, "a", i%10, "v", i)
	}
	s.insert(docs...)
}

// shard is what a router puts before the plan of a shard.
const shard = "SINGLE_SHARD < "

// used says which indexes a plan uses, and whether it reads no more keys than most and does not sort or scan.
func used(p mongotest.Plan, most int64) string {
	slices.Sort(p.Indexes)
	out := "the index " + strings.Join(p.Indexes, ", ")
	for _, stage := range []string{"COLLSCAN", "SORT"} {
		if p.Has(stage) {
			out += ", " + stage
		}
	}
	if p.KeysExamined > most {
		out += ", and " + text(p.KeysExamined) + " keys"
	}
	return out
}

var plans = []row{
	{"explain of a find by an index: the stages, and what it counts", "FETCH < IXSCAN (index a_1; 10 keys, 10 documents examined, 10 returned)", "mongotest advise",
		func(s *server) any {
			s.index(expr.D("a", 1), nil)
			s.hundred()
			return strings.TrimPrefix(s.plan(expr.D("a", 3)).String(), shard)
		}},
	{"explain of a find without an index", "COLLSCAN", "mongotest advise",
		func(s *server) any {
			s.hundred()
			return strings.TrimPrefix(strings.Join(s.plan(expr.D("a", 3)).Stages, " < "), shard)
		}},
	{"explain of a find by _id: the index, keys and documents", "the index _id_, at most 1, at most 1", "mongotest advise",
		func(s *server) any {
			s.hundred()
			p := s.plan(expr.D("_id", 5))
			return used(p, 1) + ", " + atMost(p.KeysExamined, 1) + ", " + atMost(p.DocsExamined, 1)
		}},
	{"explain of a $lookup by an index of the other collection: whether it names that, without a scan", "the index _id_, a_1", "mongotest",
		func(s *server) any {
			s.index(expr.D("a", 1), nil)
			s.hundred()
			join := expr.Op("$lookup", expr.D("from", s.c.Name(), "localField", "v", "foreignField", "a", "as", "x"))
			p, err := mongotest.ExplainCommand(s.t.Context(), s.db, expr.D("aggregate", s.c.Name(), "pipeline", bson.A{expr.Op("$match", expr.D("_id", 5)), join}, "cursor", bson.D{}))
			if err != nil {
				return err
			}
			return used(p, 20)
		}},
	{"whether a page over two ranges of one index merges them in order, without a sort", "the index a_1_v_1__id_1", "paging",
		func(s *server) any {
			s.index(expr.D("a", 1, "v", 1, "_id", 1), nil)
			s.hundred()
			ranges := bson.A{expr.D("a", 3, "v", expr.Op("$gt", 53)), expr.D("a", expr.Op("$gt", 3))}
			return used(s.plan(expr.Op("$or", ranges), "sort", expr.D("a", 1, "v", 1, "_id", 1), "limit", 5), 12)
		}},
	{"whether $in on the first field of an index merges its ranges in the order of the second", "the index a_1_v_1", "paging tree",
		func(s *server) any {
			s.index(expr.D("a", 1, "v", 1), nil)
			s.hundred()
			return used(s.plan(expr.D("a", expr.Op("$in", bson.A{1, 2, 3})), "sort", expr.D("v", 1), "limit", 5), 12)
		}},
	{"whether $gt in $expr is a range of an index", "the index v_1", "paging tree",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			s.hundred()
			return used(s.plan(expr.Op("$expr", expr.Op("$gt", "$v", expr.Literal(95)))), 6)
		}},
	{"whether $lte of $$NOW in $expr is a range of an index", "the index v_1", "internal/lease computed extref",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			docs := make([]any, 100)
			for i := range docs {
				docs[i] = expr.D("_id", i, "v", bson.DateTime(1<<45))
			}
			s.insert(docs...)
			return used(s.plan(expr.Op("$expr", expr.Op("$lte", "$v", "$$NOW"))), 3)
		}},
	{"whether {n: {$gte: 5}} uses an index over n from 1 on", "the index v_1", "versioning",
		func(s *server) any {
			s.index(expr.D("v", 1), options.Index().SetPartialFilterExpression(expr.D("v", expr.Op("$gte", 1))))
			s.hundred()
			return used(s.plan(expr.D("v", expr.Op("$gte", 95))), 6)
		}},
	{"whether a range of documents as _ids is a range of the index", "the index _id_", "internal/windows approx",
		func(s *server) any {
			docs := make([]any, 100)
			for i := range docs {
				docs[i] = expr.D("_id", expr.D("s", i/10, "n", i%10))
			}
			s.insert(docs...)
			return used(s.plan(expr.D("_id", expr.D("$gte", expr.D("s", 3, "n", 0), "$lt", expr.D("s", 3, "n", "")))), 11)
		}},
	{"whether a find with a collation sorts by an index with the same collation", "the index v_1", "paging internal/indexes",
		func(s *server) any {
			s.index(expr.D("v", 1), options.Index().SetCollation(&options.Collation{Locale: "en", Strength: 2}))
			s.numbered("a", "B", "c")
			return used(s.plan(bson.D{}, "sort", expr.D("v", 1), "collation", expr.D("locale", "en", "strength", 2)), 3)
		}},
	{"explain of an aggregate that sorts by a computed field: whether the sort shows", "true", "mongotest",
		func(s *server) any {
			s.hundred()
			stages := bson.A{expr.Op("$set", expr.D("x", expr.Op("$add", "$a", "$v"))), expr.Op("$unwind", "$x"), expr.Op("$sort", expr.D("x", 1))}
			p, err := mongotest.ExplainCommand(s.t.Context(), s.db, expr.D("aggregate", s.c.Name(), "pipeline", stages, "cursor", bson.D{}))
			if err != nil {
				return err
			}
			return p.Has("$sort") || p.Has("SORT")
		}},
	{"whether the first batch of a find closes the cursor if it is larger than the limit", "long 0", "paging internal/cursor",
		func(s *server) any {
			s.hundred()
			return testkit.Must(s.run("find", s.c.Name(), "limit", 10, "batchSize", 11)).Lookup("cursor", "id")
		}},
	{"whether the first batch of an aggregate closes the cursor if it is larger than the result", "long 0", "paging subset approx internal/cursor",
		func(s *server) any {
			s.hundred()
			return testkit.Must(s.run("aggregate", s.c.Name(), "pipeline", bson.A{expr.Op("$group", expr.D("_id", "$a"))}, "cursor", expr.D("batchSize", 11))).Lookup("cursor", "id")
		}},
	{"whether $count of nothing is no document", "0", "tree paging",
		func(s *server) any {
			all, err := s.aggregate(expr.Op("$match", expr.D("v", 1)), expr.Op("$count", "n"))
			if err != nil {
				return err
			}
			return len(all)
		}},
}
