package server_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/indexes"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// listed is the entry of the row's collection in listCollections.
func (s *server) listed(more ...any) bson.Raw {
	raw := testkit.Must(s.run(append([]any{"listCollections", 1, "filter", expr.D("name", s.c.Name())}, more...)...))
	return values(raw, "cursor", "firstBatch")[0].Document()
}

// twice creates an index twice by package indexes, and says what the second time sends.
func (s *server) twice(model mongo.IndexModel) any {
	models := []mongo.IndexModel{model}
	testkit.OK(s.t, indexes.Ensure(s.t.Context(), s.c, models))
	var err error
	sent := mongotest.Record(s.t, s.db, func() { err = indexes.Ensure(s.t.Context(), s.c, models) })
	if err != nil {
		return err
	}
	return sent.Names()
}

// counts says whether $collStats knows the sizes that advise adds up.
func (s *server) counts() any {
	all, err := s.aggregate(expr.Op("$collStats", expr.D("storageStats", bson.D{})))
	s.may(err)
	return has(all[0], "storageStats.count", "storageStats.size", "storageStats.capped")
}

var catalog = []row{
	{"what listCollections says of a default collation", `"en"`, "internal/collation",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "collation", expr.D("locale", "en", "strength", 2)))
			return s.listed().Lookup("options", "collation", "locale")
		}},
	{"what listCollections with nameOnly calls a collection and a view", `"collection", "view"`, "advise",
		func(s *server) any {
			s.numbered(1)
			name := text(s.listed("nameOnly", true).Lookup("type"))
			testkit.OK(s.t, s.c.Drop(s.t.Context()))
			testkit.OK(s.t, s.db.CreateView(s.t.Context(), s.c.Name(), "none", mongo.Pipeline{}))
			return name + ", " + text(s.listed("nameOnly", true).Lookup("type"))
		}},
	{"what listCollections calls a time-series collection", `"timeseries"`, "advise",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "timeseries", expr.D("timeField", "t")))
			return s.listed("nameOnly", true).Lookup("type")
		}},
	{"an index with a partial filter, created again: what is sent", `["listIndexes"]`, "internal/indexes versioning series polymorphic",
		func(s *server) any {
			partial := options.Index().SetUnique(true).SetPartialFilterExpression(expr.D("v", expr.Op("$gte", 1), "w", expr.Op("$exists", true)))
			return s.twice(mongo.IndexModel{Keys: expr.D("v", 1, "w", -1), Options: partial})
		}},
	{"an index with a collation, created again: what is sent", `["listIndexes"]`, "internal/indexes paging",
		func(s *server) any {
			return s.twice(mongo.IndexModel{Keys: expr.D("v", 1), Options: options.Index().SetCollation(&options.Collation{Locale: "en", Strength: 2})})
		}},
	{"an index that expires documents, created again: what is sent", `["listIndexes"]`, "internal/indexes",
		func(s *server) any {
			return s.twice(mongo.IndexModel{Keys: expr.D("v", 1), Options: options.Index().SetExpireAfterSeconds(60)})
		}},
	{"$collStats: whether it has the sizes", "all of them", "advise",
		func(s *server) any {
			s.numbered(1)
			return s.counts()
		}},
	{"$collStats of a clustered collection: whether it has the sizes", "all of them", "advise",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "clusteredIndex", expr.D("key", expr.D("_id", 1), "unique", true)))
			s.numbered(1)
			return s.counts()
		}},
	{"a find by a range of _id in a clustered collection, sorted: whether it scans and sorts all", "false", "internal/maintain paging",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "clusteredIndex", expr.D("key", expr.D("_id", 1), "unique", true)))
			s.hundred()
			p := s.plan(expr.D("_id", expr.Op("$gt", 95)), "sort", expr.D("_id", 1))
			return p.Has("SORT") || p.DocsExamined > 10
		}},
	{"collStats: how many indexes", "2", "advise",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			raw, err := s.run("collStats", s.c.Name())
			s.may(err)
			return raw.Lookup("nindexes")
		}},
	{"collStats of a time-series collection: whether it counts buckets", "all of them", "cmd/patternbench",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "timeseries", expr.D("timeField", "t")))
			s.insert(expr.D("t", bson.DateTime(1000)))
			raw, err := s.run("collStats", s.c.Name())
			s.may(err)
			return has(raw, "timeseries.bucketCount", "storageSize", "totalIndexSize")
		}},
	{"what the profiler keeps of a find", "all of them", "advise",
		func(s *server) any {
			s.numbered(1)
			if msg, _ := s.hello().Lookup("msg").StringValueOK(); msg == "isdbgrid" {
				s.skip("a router has no profiler")
			}
			err := s.profile(2)
			s.may(err)
			_, err = s.run("find", s.c.Name(), "filter", expr.D("v", 1))
			testkit.OK(s.t, s.profile(0))
			if err != nil {
				return err
			}
			kept, err := mongotest.Admin(s.t, s.db).Collection("system.profile").FindOne(s.t.Context(), expr.D("op", "query", "command.find", s.c.Name())).Raw()
			if err != nil {
				return err
			}
			return has(kept, "ns", "op", "ts", "client", "nreturned", "command.filter")
		}},
	{"what an update is called in the profiler, and how its statement is kept", `{q: {v: 1}, u: {$inc: {w: 1}}}`, "advise",
		func(s *server) any {
			s.numbered(1)
			if msg, _ := s.hello().Lookup("msg").StringValueOK(); msg == "isdbgrid" {
				s.skip("a router has no profiler")
			}
			err := s.profile(2)
			s.may(err)
			_, err = s.c.UpdateOne(s.t.Context(), expr.D("v", 1), expr.Op("$inc", expr.D("w", 1)))
			testkit.OK(s.t, s.profile(0))
			if err != nil {
				return err
			}
			kept, err := mongotest.Admin(s.t, s.db).Collection("system.profile").FindOne(s.t.Context(), expr.D("op", "update", "ns", s.db.Name()+"."+s.c.Name())).Raw()
			if err != nil {
				return err
			}
			return expr.D("q", kept.Lookup("command", "q"), "u", kept.Lookup("command", "u"))
		}},
	{"what buildInfo and hello say of the server: whether mongotest knows it", "mongodb", "mongotest",
		func(s *server) any { return mongotest.Engine(s.t, s.db) }},
	{"what hello says of a member: its name, those of all, and whether it is the primary", "all of them", "mongotest",
		func(s *server) any {
			hello := s.hello()
			if hello.Lookup("setName").Type == 0 {
				s.skip("the server is no member of a replica set")
			}
			return has(hello, "me", "hosts", "isWritablePrimary", "electionId", "primary")
		}},
	{"the documents in config.shards on a server that is not a router", "no document", "mongopatterns",
		func(s *server) any {
			if msg, _ := s.hello().Lookup("msg").StringValueOK(); msg == "isdbgrid" {
				s.skip("the server is a router")
			}
			err := mongotest.Admin(s.t, s.db).Client().Database("config").Collection("shards").FindOne(s.t.Context(), bson.D{}).Err()
			if err == mongo.ErrNoDocuments {
				return "no document"
			}
			s.may(err)
			return err
		}},
}
