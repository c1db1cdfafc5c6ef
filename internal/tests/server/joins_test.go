package server_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// joined are the _ids of what a join puts under x, for the document 1.
func (s *server) joined(stage bson.D) any {
	all, err := s.aggregate(expr.Op("$match", expr.D("_id", 1)), stage)
	if err != nil {
		return err
	}
	out := bson.A{}
	for _, v := range values(all[0], "x") {
		out = append(out, v.Document().Lookup("_id"))
	}
	return out
}

// lookup joins the collection to itself, by the field "v" and a foreign one.
func (s *server) lookup(local, foreign string, stages ...bson.D) bson.D {
	stages = append(stages, expr.Op("$sort", expr.D("_id", 1)))
	return expr.Op("$lookup", expr.D("from", s.c.Name(), "localField", local, "foreignField", foreign, "pipeline", stages, "as", "x"))
}

// chain is 1 under 2 under 3 under none.
func (s *server) chain() {
	s.insert(expr.D("_id", 1, "v", 2), expr.D("_id", 2, "v", 3), expr.D("_id", 3, "v", nil), expr.D("_id", 4))
}

var joins = []row{
	{"what $lookup finds for a document without the local field: null and nothing", "[1, 2, 3]", "tree relation outlier versioning internal/maintain",
		func(s *server) any {
			s.insert(expr.D("_id", 1), expr.D("_id", 2, "v", nil), expr.D("_id", 3), expr.D("_id", 4, "v", 1))
			return s.joined(s.lookup("v", "v"))
		}},
	{"what $lookup finds for a local null: whether undefined is among it", "[1, 2]", "tree relation internal/maintain",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", nil), expr.D("_id", 2, "v", undefined))
			return s.joined(s.lookup("v", "v"))
		}},
	{"what $lookup finds for a local array: what each element equals", "[2, 3]", "relation tree advise",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", bson.A{2, 3.0}), expr.D("_id", 2), expr.D("_id", 3))
			return s.joined(s.lookup("v", "_id"))
		}},
	{"whether $lookup takes a local regular expression for itself, and not for a pattern", "[1]", "tree relation internal/maintain",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", bson.Regex{Pattern: "a"}), expr.D("_id", 2, "v", "a"))
			return s.joined(s.lookup("v", "v"))
		}},
	{"$lookup with fields and a pipeline of $match, $limit and $project", "[3]", "tree outlier split internal/maintain",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", 5), expr.D("_id", 2, "v", 5, "w", 1), expr.D("_id", 3, "v", 5, "w", 2))
			return s.joined(s.lookup("v", "v", expr.Op("$match", expr.D("w", expr.Op("$gt", 1))), expr.Op("$limit", 1), expr.Op("$project", expr.D("_id", 1))))
		}},
	{"$lookup with let, by a range in $expr", "[2, 3]", "tree",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", 1, "to", 4), expr.D("_id", 2, "v", 2), expr.D("_id", 3, "v", 3), expr.D("_id", 4, "v", 4))
			within := expr.Op("$match", expr.Op("$expr", expr.Op("$and", expr.Op("$gt", "$v", "$$from"), expr.Op("$lt", "$v", "$$to"))))
			return s.joined(expr.Op("$lookup", expr.D("from", s.c.Name(), "let", expr.D("from", "$v", "to", "$to"), "pipeline", bson.A{within, expr.Op("$sort", expr.D("_id", 1))}, "as", "x")))
		}},
	{"$lookup of no match: an empty array, which {x: []} and {x: {$size: 0}} find", "[1] and [1]", "tree versioning outlier internal/maintain",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", 5))
			match := func(v any) string {
				all, err := s.aggregate(s.lookup("v", "_id"), expr.Op("$match", expr.D("x", v)))
				if err != nil {
					return text(err)
				}
				return text(ids(all))
			}
			return match(bson.A{}) + " and " + match(expr.Op("$size", 0))
		}},
	{"$graphLookup upwards: how deep each is, as longs", "[[2, long 0], [3, long 1]]", "tree",
		func(s *server) any {
			s.chain()
			all, err := s.aggregate(expr.Op("$match", expr.D("_id", 1)), s.up("$v"), expr.Op("$unwind", "$x"), expr.Op("$sort", expr.D("x.d", 1)))
			if err != nil {
				return err
			}
			out := bson.A{}
			for _, doc := range all {
				out = append(out, bson.A{doc.Lookup("x", "_id"), doc.Lookup("x", "d")})
			}
			return out
		}},
	{"$graphLookup that starts from nothing, to a field that some lack", "[]", "tree",
		func(s *server) any {
			s.chain()
			return s.joined(expr.Op("$graphLookup", expr.D("from", s.c.Name(), "startWith", bson.A{}, "connectFromField", "_id", "connectToField", "v", "as", "x")))
		}},
	{"$graphLookup with restrictSearchWithMatch of {$not: {$type: regex}} and {$nor: […]}", "1", "tree",
		func(s *server) any {
			s.chain()
			stage := s.up("$v", "restrictSearchWithMatch", expr.D("v", expr.Op("$not", expr.Op("$type", "regex")), "$nor", bson.A{expr.D("v", nil)}))
			found, _ := s.joined(stage).(bson.A)
			return len(found)
		}},
}

// up is a $graphLookup from the field "v" to _id.
func (s *server) up(start any, more ...any) bson.D {
	return expr.Op("$graphLookup", append(expr.D("from", s.c.Name(), "startWith", start, "connectFromField", "v", "connectToField", "_id", "as", "x", "depthField", "d"), expr.D(more...)...))
}
