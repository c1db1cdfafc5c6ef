package server_test

import (
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

var arrays = []row{
	{"which documents {$type: array} finds, of arrays, of one in an array, and others", "[1, 2]", "relation tree extref outlier attribute",
		func(s *server) any {
			s.numbered(bson.A{}, bson.A{bson.A{1}}, 1, nil, absent)
			return s.found(expr.D("v", expr.Op("$type", "array")))
		}},
	{"which documents {$elemMatch: {$eq: [1]}} finds, of [[1]] and [1]", "[1]", "outlier extref",
		func(s *server) any {
			s.numbered(bson.A{bson.A{1}}, bson.A{1})
			return s.found(expr.D("v", expr.Op("$elemMatch", expr.Op("$eq", bson.A{1}))))
		}},
	{"which documents {v.1: {$exists: false}} finds, of lists of 0, 1 and 2 and of no list", "[1, 2, 4]", "relation tree series",
		func(s *server) any {
			s.numbered(bson.A{}, bson.A{1}, bson.A{1, 2}, absent)
			return s.found(expr.D("v.1", expr.Op("$exists", false)))
		}},
	{"which documents {$lt: a date, $not: {$gte: the date}} finds, of dates and arrays of dates", "[1, 3]", "archive",
		func(s *server) any {
			early, late, at := bson.DateTime(1), bson.DateTime(3), bson.DateTime(2)
			s.numbered(early, late, bson.A{early}, bson.A{early, late})
			return s.found(expr.D("v", expr.D("$lt", at, "$not", expr.Op("$gte", at))))
		}},
	{"where arrays stand in a sort upwards: at their least element, and [] before null", "[3, 2, 1, 4]", "paging",
		func(s *server) any {
			s.numbered(bson.A{9, 1}, nil, bson.A{}, 5)
			return s.found(bson.D{}, "v", 1)
		}},
	{"where arrays stand in a sort downwards: at their greatest element", "[1, 4, 2, 3]", "paging",
		func(s *server) any {
			s.numbered(bson.A{9, 1}, nil, bson.A{}, 5)
			return s.found(bson.D{}, "v", -1)
		}},
	{"where $gt in $expr puts an array: as one value, beyond numbers", "[1, 2]", "paging",
		func(s *server) any {
			s.numbered(bson.A{1}, bson.A{}, 1)
			return s.found(expr.Op("$expr", expr.Op("$gt", "$v", 5)))
		}},
	{"how many keys $elemMatch of two fields reads in an index on both, of 100 entries with one that matches", "at most 2", "attribute outlier",
		func(s *server) any {
			s.index(expr.D("v.k", 1, "v.x", 1), nil)
			docs := make([]any, 100)
			for i := range docs {
				docs[i] = expr.D("_id", i, "v", bson.A{expr.D("k", "a", "x", i), expr.D("k", "b", "x", -i)})
			}
			s.insert(docs...)
			plan := s.plan(expr.D("v", expr.Op("$elemMatch", expr.D("k", "a", "x", 50))))
			return atMost(plan.KeysExamined, 2)
		}},
	{"whether the plan of a multikey index says so", "true", "mongotest attribute relation",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			s.numbered(bson.A{1, 2})
			return s.plan(expr.D("v", 1)).MultiKey
		}},
	{"a document with two arrays in one index", "a refusal with 171", "attribute",
		func(s *server) any {
			s.index(expr.D("a", 1, "b", 1), nil)
			_, err := s.c.InsertOne(s.t.Context(), ab(bson.A{}, bson.A{1}))
			return err
		}},
	{"an index over two arrays of a document", "a refusal with 171 CannotIndexParallelArrays", "attribute",
		func(s *server) any {
			s.insert(ab(bson.A{}, bson.A{1}))
			_, err := s.c.Indexes().CreateOne(s.t.Context(), mongo.IndexModel{Keys: expr.D("a", 1, "b", 1)})
			return err
		}},
	{"$slice with the count 0, with a place beyond the end, and with the greatest count", "[[], [], [2, 3]]", "subset outlier series tree",
		func(s *server) any {
			return s.computed(expr.D("a", bson.A{1, 2, 3}), bson.A{expr.Op("$slice", "$a", 0), expr.Op("$slice", "$a", 5, math.MaxInt32), expr.Op("$slice", "$a", 1, math.MaxInt32)})
		}},
	{"$min of an empty array", "null", "bucket tree",
		func(s *server) any { return s.computed(expr.D("a", bson.A{}), expr.Op("$min", "$a")) }},
	{"$set of a path below an array, in an update with expressions", "[{a: 1, x: 9}, {x: 9}]", "internal/windows attribute bucket series slots",
		func(s *server) any {
			return s.updated(expr.D("v", bson.A{expr.D("a", 1), 5}), mongo.Pipeline{expr.Op("$set", expr.D("v.x", 9))})
		}},
	{"$addToSet of 1.0 to [1]", "[1]", "relation",
		func(s *server) any { return s.updated(expr.D("v", bson.A{1}), expr.Op("$addToSet", expr.D("v", 1.0))) }},
	{"$addToSet to no field, and to null", "[1] and a refusal with 2", "relation",
		func(s *server) any {
			add := expr.Op("$addToSet", expr.D("v", 1))
			return text(s.updated(bson.D{}, add)) + " and " + text(s.updated(expr.D("v", nil), add))
		}},
	{"$pull of {$in: [{a: 1}]} from a list of documents: only those that are equal", "[{a: 1, b: 1}]", "tree relation",
		func(s *server) any {
			list := bson.A{expr.D("a", 1), expr.D("a", 1, "b", 1)}
			return s.updated(expr.D("v", list), expr.Op("$pull", expr.D("v", expr.Op("$in", bson.A{expr.D("a", 1)}))))
		}},
	{"which documents $elemMatch of {$not: {$type: object}} finds, of lists with and without another value, and of none", "[2]", "relation",
		func(s *server) any {
			s.numbered(bson.A{bson.D{}}, bson.A{bson.D{}, 1}, bson.A{}, 1, absent)
			return s.found(expr.D("v", expr.Op("$elemMatch", expr.Op("$not", expr.Op("$type", "object")))))
		}},
	{"an update with an array filter of $nor, $type and $elemMatch", "[{k: 1, x: 9}, {k: 1, x: 2}]", "extref",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", bson.A{expr.D("k", 1, "x", 1), expr.D("k", 1, "x", 2)}))
			same := expr.D("e.x", expr.D("$eq", 2, "$type", 16, "$not", expr.Op("$elemMatch", expr.Op("$eq", 2))))
			filter := expr.D("e.k", expr.D("$eq", 1, "$not", expr.Op("$type", "array")), "$nor", bson.A{same})
			_, err := s.run("update", s.c.Name(), "updates", bson.A{expr.D("q", expr.D("_id", 1), "u", expr.Op("$set", expr.D("v.$[e].x", 9)), "arrayFilters", bson.A{filter})})
			if err != nil {
				return err
			}
			return stored(s.c.FindOne(s.t.Context(), bson.D{}))
		}},
	{"$unwind with includeArrayIndex of no array: the index", "null", "outlier tree",
		func(s *server) any {
			s.numbered(5)
			all, err := s.aggregate(expr.Op("$unwind", expr.D("path", "$v", "preserveNullAndEmptyArrays", true, "includeArrayIndex", "i")))
			if err != nil {
				return err
			}
			return all[0].Lookup("i")
		}},
}

func atMost(n, most int64) string {
	if n <= most {
		return fmt.Sprintf("at most %d", most)
	}
	return fmt.Sprint(n)
}
