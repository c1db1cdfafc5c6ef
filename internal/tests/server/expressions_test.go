package server_test

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
)

var expressions = []row{
	{"$convert to long of digits, nothing and words, with MinKey for an error", "[long 12, min key, min key]", "tree",
		func(s *server) any {
			to := func(v any) bson.D {
				return expr.Op("$convert", expr.D("input", v, "to", "long", "onError", expr.Literal(bson.MinKey{})))
			}
			return s.computed(expr.D("a", "12", "b", "", "c", "x"), bson.A{to("$a"), to("$b"), to("$c")})
		}},
	{"$convert to string of an int, a long, an ObjectID and nothing", `["5", "-5", "000000000000000000000000", null]`, "tree",
		func(s *server) any {
			to := func(v any) bson.D {
				return expr.Op("$convert", expr.D("input", v, "to", "string", "onError", nil, "onNull", nil))
			}
			return s.computed(expr.D("a", 5, "b", int64(-5), "c", bson.NilObjectID), bson.A{to("$a"), to("$b"), to("$c"), to("$d")})
		}},
	{"$convert to long of a document, with 0 for an error", "0", "extref",
		func(s *server) any {
			return s.computed(expr.D("a", bson.D{}), expr.Op("$convert", expr.D("input", "$a", "to", "long", "onError", 0, "onNull", 0)))
		}},
	{"$mergeObjects: the order of fields", "{a: 1, b: 3, c: 4}", "split attribute prealloc outlier",
		func(s *server) any {
			return s.computed(ab(expr.D("a", 1, "b", 2), expr.D("c", 4, "b", 3)), expr.Op("$mergeObjects", "$a", "$b"))
		}},
	{"$objectToArray and $arrayToObject of names with dots and dollars", "{x.y: 1, $z: 2}", "split",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "a", expr.D("x.y", 1, "$z", 2)))
			all, err := s.aggregate(expr.Op("$project", expr.D("v", expr.Op("$arrayToObject", expr.Op("$objectToArray", "$a")))))
			if err != nil {
				return err
			}
			return all[0].Lookup("v")
		}},
	{"$$REMOVE for a field below a document, in an update", "{b: 2}", "computed series bucket",
		func(s *server) any {
			return s.updated(expr.D("v", expr.D("a", 1, "b", 2)), mongo.Pipeline{expr.Op("$set", expr.D("v.a", "$$REMOVE"))})
		}},
	{"$$REMOVE as the result of $cond in a find", "{_id: 1}", "bucket",
		func(s *server) any {
			s.numbered(5)
			all, err := s.aggregate(expr.Op("$project", expr.D("x", expr.Cond(expr.Op("$isArray", "$v"), "$v", "$$REMOVE"))))
			if err != nil {
				return err
			}
			return bson.Raw(all[0])
		}},
	{"$add of $$NOW and milliseconds, in an update: the type", "date", "internal/lease computed extref prealloc schemaversion",
		func(s *server) any {
			v, ok := s.updated(bson.D{}, set(expr.Op("$add", "$$NOW", int64(1000)))).(bson.RawValue)
			if at, dated := v.DateTimeOK(); ok && dated && time.UnixMilli(at).Year() > 2000 {
				return "date"
			}
			return text(v)
		}},
	{"whether $$NOW is one time in all stages of an update", "true", "computed prealloc internal/lease",
		func(s *server) any {
			return s.updated(bson.D{}, mongo.Pipeline{expr.Op("$set", expr.D("a", "$$NOW")), expr.Op("$set", expr.D("v", expr.Op("$eq", "$a", "$$NOW")))})
		}},
	{"$literal of a document with names of operators", "{$add: [1]}", "attribute prealloc outlier subset internal/expr",
		func(s *server) any { return s.computed(bson.D{}, expr.Literal(expr.D("$add", bson.A{1}))) }},
	{"$eq of $$ROOT and the whole document", "[1]", "versioning schemaversion",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "a", expr.D("b", 1, "c", bson.A{nil})))
			return s.found(expr.D("_id", 1, "$expr", expr.Op("$eq", "$$ROOT", expr.Literal(expr.D("_id", 1, "a", expr.D("b", 1, "c", bson.A{nil}))))))
		}},
	{"whether $eq of a document tells the order of its fields", "[]", "versioning schemaversion relation",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "v", ab(1, 2)))
			return s.found(expr.D("_id", 1, "$expr", expr.Op("$eq", "$v", expr.Literal(expr.D("b", 2, "a", 1)))))
		}},
	{"{n: {$gte: 1}} with $trunc of n in $expr: whether a string is passed over before $trunc refuses it", "[2]", "versioning",
		func(s *server) any {
			s.numbered("x", 2, 2.5)
			return s.found(expr.D("v", expr.Op("$gte", int64(1)), "$expr", expr.Op("$eq", expr.Op("$trunc", "$v"), "$v")))
		}},
	{"$cond: whether the branch that is not taken is evaluated", "0", "versioning bucket outlier tree",
		func(s *server) any {
			return s.computed(expr.D("a", "x"), expr.Cond(expr.IsType("$a", "int", "long", "double"), expr.Op("$trunc", "$a"), 0))
		}},
	{"$and: whether what comes after a false condition is evaluated", "false", "attribute subset prealloc",
		func(s *server) any {
			return s.computed(expr.D("a", "x"), expr.Op("$and", expr.Op("$isArray", bson.A{"$a"}), expr.Op("$in", 1, "$a")))
		}},
	{"$topN when one document lacks the sort field", "[1, 3]", "subset attribute",
		func(s *server) any {
			top := expr.Op("$topN", expr.D("n", 2, "sortBy", expr.D("v", -1), "output", "$_id"))
			return s.grouped(top, expr.D("_id", 1, "v", 9), expr.D("_id", 2), expr.D("_id", 3, "v", 5))
		}},
	{"documents that the command holds, on a collection that does not exist, sorted by a collation", `["a", "B", "c"]`, "internal/scoped paging",
		func(s *server) any {
			rows := bson.A{expr.D("v", "B"), expr.D("v", "c"), expr.D("v", "a")}
			cursor, err := scoped.On(s.db.Collection("none")).AggregateGiven(s.t.Context(), rows, mongo.Pipeline{expr.Op("$sort", expr.D("v", 1))},
				options.Aggregate().SetCollation(&options.Collation{Locale: "en", Strength: 2}))
			if err != nil {
				return err
			}
			out := bson.A{}
			for cursor.Next(s.t.Context()) {
				out = append(out, cursor.Current.Lookup("v").StringValue())
			}
			return out
		}},
}

// values are those of an array in an answer.
func values(raw bson.Raw, path ...string) []bson.RawValue {
	array, _ := raw.Lookup(path...).ArrayOK()
	all, _ := array.Values()
	return all
}
