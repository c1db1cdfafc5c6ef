package server_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// nulls are a null, no field, undefined, a number, and an array that holds a null.
func nulls(s *server) { s.numbered(nil, absent, undefined, 1, bson.A{nil}) }

var null = []row{
	{"which documents a filter for null finds, of null, nothing, a number and [null]", "[1, 2, 4]", "tree paging relation outlier versioning extref",
		func(s *server) any {
			s.numbered(nil, absent, 1, bson.A{nil})
			return s.found(expr.D("v", nil))
		}},
	{"whether a filter for null finds undefined", "[1]", "tree paging relation outlier versioning extref",
		func(s *server) any {
			s.numbered(undefined)
			return s.found(expr.D("v", nil))
		}},
	{"whether $in with null finds undefined", "[1]", "outlier relation",
		func(s *server) any {
			s.numbered(undefined)
			return s.found(expr.D("v", expr.Op("$in", bson.A{nil, false})))
		}},
	{"whether a filter for null finds undefined by an index", "[1]", "tree paging relation",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			s.numbered(undefined)
			return s.found(expr.D("v", nil))
		}},
	{"which documents {$ne: null} finds, of null, nothing and a number", "[3]", "tree extref advise",
		func(s *server) any {
			s.numbered(nil, absent, 1)
			return s.found(expr.D("v", expr.Op("$ne", nil)))
		}},
	{"which documents {$type: undefined} finds", "[3]", "paging extref",
		func(s *server) any {
			nulls(s)
			return s.found(expr.D("v", expr.Op("$type", "undefined")))
		}},
	{"a filter for undefined itself", "a refusal with 2 BadValue", "extref",
		func(s *server) any { return s.found(expr.D("v", expr.Op("$eq", undefined))) }},
	{"the order of null and nothing in a sort by v and _id: as of equals", "[1, 2, 3, 4, 5]", "paging tree subset",
		func(s *server) any {
			s.numbered(nil, absent, nil, absent, 0)
			return s.found(bson.D{}, "v", 1, "_id", 1)
		}},
	{"the order of null and nothing by an index of v and _id: as of equals", "[1, 2, 3, 4, 5]", "paging tree",
		func(s *server) any {
			s.index(expr.D("v", 1, "_id", 1), nil)
			s.numbered(nil, absent, nil, absent, 0)
			return s.found(bson.D{}, "v", 1, "_id", 1)
		}},
	{"whether undefined sorts before null", "[2, 1, 3]", "paging internal/value",
		func(s *server) any {
			s.numbered(nil, undefined, 1)
			return s.found(bson.D{}, "v", 1)
		}},
	{"which documents $gt null in $expr finds, of null, nothing, undefined and others", "[4, 5]", "paging tree",
		func(s *server) any {
			nulls(s)
			return s.found(expr.Op("$expr", expr.Op("$gt", "$v", nil)))
		}},
	{"which documents a time of nothing, null or long ago is over for, by $lte of $$NOW in $expr", "[1, 2, 3]", "internal/lease computed extref schemaversion prealloc",
		func(s *server) any {
			s.numbered(absent, nil, bson.DateTime(0), bson.DateTime(1<<45))
			return s.found(expr.Op("$expr", expr.Op("$lte", "$v", "$$NOW")))
		}},
	{"$ifNull of null, nothing and undefined", "[0, 0, 0]", "subset computed relation series split prealloc",
		func(s *server) any {
			return s.computed(ab(nil, undefined), bson.A{expr.IfNull("$a", 0), expr.IfNull("$b", 0), expr.IfNull("$c", 0)})
		}},
	{"$type of nothing and of undefined", `["missing", "undefined"]`, "tree outlier attribute internal/expr",
		func(s *server) any {
			return s.computed(expr.D("b", undefined), bson.A{expr.Op("$type", "$a"), expr.Op("$type", "$b")})
		}},
	{"$sortArray of a null, nothing and a number by the field: as of equals before the number", "1", "subset",
		func(s *server) any {
			rows := bson.A{expr.D("v", 0, "n", 1), expr.D("v", nil, "n", 2), expr.D("n", 3)}
			sorted := expr.Op("$sortArray", expr.D("input", "$a", "sortBy", expr.D("v", -1)))
			return s.computed(expr.D("a", rows), expr.Op("$arrayElemAt", expr.Map(sorted, "x", "$$x.n"), 0))
		}},
	{"a unique index on documents that lack its field: whether a second one is refused", "a refusal with 11000", "versioning bucket tree",
		func(s *server) any {
			s.index(expr.D("v", 1, "w", 1), options.Index().SetUnique(true))
			_, err := s.c.InsertMany(s.t.Context(), []any{expr.D("_id", 1), expr.D("_id", 2, "v", nil)})
			return err
		}},
}
