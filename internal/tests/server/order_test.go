package server_test

import (
	"fmt"
	"math"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/expr"
)

// kinds is a value of each type that a field can have, in the order of internal/value.Compare. Null, which is not told
// from a missing field, is not among them.
var kinds = []any{
	bson.MinKey{}, undefined, math.NaN(), math.Inf(-1), -1, decimal("0.5"), 1, math.Inf(1), "", "a", bson.Symbol("b"), "c",
	bson.D{}, expr.D("a", 1), expr.D("b", 0), expr.D("a", "x"), bson.Binary{}, bson.Binary{Data: []byte{9}}, bson.Binary{Subtype: 4, Data: make([]byte, 16)},
	bson.NilObjectID, false, true, time.UnixMilli(-1), time.UnixMilli(1), bson.Timestamp{T: 1}, bson.Regex{Pattern: "a"},
	bson.DBPointer{DB: "a"}, bson.JavaScript("a"), bson.CodeWithScope{Code: "a", Scope: bson.D{}}, bson.MaxKey{},
}

// ascending says whether the documents come in the order 1, 2, …
func ascending(v any) string {
	got, want := text(v), make([]string, len(kinds))
	for i := range want {
		want[i] = fmt.Sprint(i + 1)
	}
	if got == "["+strings.Join(want, ", ")+"]" {
		return "yes"
	}
	return "no: " + got
}

var order = []row{
	{"whether a sort puts values of all types in their documented order", "yes", "paging tree internal/value internal/maintain",
		func(s *server) any {
			s.numbered(kinds...)
			return ascending(s.found(bson.D{}, "v", 1))
		}},
	{"whether a sort by an index puts them in the same order", "yes", "paging internal/value internal/maintain",
		func(s *server) any {
			s.index(expr.D("v", 1), nil)
			s.numbered(kinds...)
			return ascending(s.found(bson.D{}, "v", 1))
		}},
	{"whether $sortArray puts them in the same order", "yes", "subset",
		func(s *server) any {
			rows := bson.A{}
			for i, v := range kinds {
				rows = append(rows, expr.D("_id", i+1, "v", v))
			}
			sorted := expr.Op("$sortArray", expr.D("input", "$a", "sortBy", expr.D("v", 1)))
			return ascending(s.updated(expr.D("a", rows), set(expr.Map(sorted, "x", "$$x._id"))))
		}},
	{"whether $gt in $expr goes through all types in the order of a sort", "yes", "paging",
		func(s *server) any {
			s.numbered(kinds...)
			for i, v := range kinds {
				if v == undefined { // no page ends there
					continue
				}
				after := s.found(expr.Op("$expr", expr.Op("$gt", "$v", expr.Literal(v))), "v", 1)
				want := bson.A{}
				for j := i + 1; j < len(kinds); j++ {
					want = append(want, j+1)
				}
				if text(after) != text(want) {
					return fmt.Sprintf("no: after %T come %s", v, text(after))
				}
			}
			return "yes"
		}},
	{"which documents {$gt: a number} finds, of numbers, NaN and other types", "[1]", "paging attribute archive",
		func(s *server) any {
			s.numbered(6, 4, math.NaN(), "6", nil, time.UnixMilli(6), absent)
			return s.found(expr.D("v", expr.Op("$gt", 5)))
		}},
	{"which documents {$lt: a number} finds, of numbers, NaN and other types", "[2]", "paging attribute archive",
		func(s *server) any {
			s.numbered(6, 4, math.NaN(), "6", nil, time.UnixMilli(6), absent)
			return s.found(expr.D("v", expr.Op("$lt", 5)))
		}},
	{"which documents {$gt: a string} finds, of strings, symbols and other types", "[1, 2]", "paging",
		func(s *server) any {
			s.numbered("b", bson.Symbol("b"), 5, bson.D{}, bson.JavaScript("b"))
			return s.found(expr.D("v", expr.Op("$gt", "a")))
		}},
	{"which documents {$gt: a date} finds, of dates and timestamps", "[1]", "paging archive",
		func(s *server) any {
			s.numbered(time.UnixMilli(5000), bson.Timestamp{T: 5})
			return s.found(expr.D("v", expr.Op("$gt", time.UnixMilli(1000))))
		}},
	{"which documents a filter for NaN finds, of both types and others", "[1, 2]", "paging internal/value",
		func(s *server) any {
			s.numbered(math.NaN(), decimal("NaN"), 0, nil, math.Inf(-1))
			return s.found(expr.D("v", math.NaN()))
		}},
	{"which documents $in of MinKey, an empty array, NaN and null finds", "[1, 2, 3, 4, 5]", "paging",
		func(s *server) any {
			s.numbered(bson.MinKey{}, bson.A{}, decimal("NaN"), nil, absent, 1, "")
			return s.found(expr.D("v", expr.Op("$in", bson.A{math.NaN(), nil, bson.A{}, bson.MinKey{}})))
		}},
	{"which documents a filter for 1 finds, of numbers that are equal, and others", "[1, 2, 3, 4]", "internal/value tree paging attribute relation",
		func(s *server) any {
			s.numbered(1, int64(1), 1.0, decimal("1.0"), "1", true)
			return s.found(expr.D("v", 1))
		}},
	{"which documents a filter for a Decimal128 0.1 finds, of 0.1 as a double and as a Decimal128", "[2]", "internal/value",
		func(s *server) any {
			s.numbered(0.1, decimal("0.10"))
			return s.found(expr.D("v", decimal("0.1")))
		}},
	{"which documents a filter for {a: 1} finds, of {a: 1.0}, of more fields, and of another order", "[1]", "internal/value relation tree",
		func(s *server) any {
			s.numbered(expr.D("a", 1.0), expr.D("a", 1, "b", 1), expr.D("b", 1, "a", 1))
			return s.found(expr.D("v", expr.Op("$eq", expr.D("a", 1))))
		}},
	{"which documents {$eq: a regular expression} finds, of that and of strings", "[1]", "internal/value tree extref",
		func(s *server) any {
			s.numbered(bson.Regex{Pattern: "a"}, "a")
			return s.found(expr.D("v", expr.Op("$eq", bson.Regex{Pattern: "a"})))
		}},
	{"which documents {$type: -1} and {$type: 127} find, of MinKey and MaxKey", "[1] and [2]", "extref paging",
		func(s *server) any {
			s.numbered(bson.MinKey{}, bson.MaxKey{}, 1)
			return text(s.found(expr.D("v", expr.Op("$type", -1)))) + " and " + text(s.found(expr.D("v", expr.Op("$type", 127))))
		}},
	{"which documents a sort with a limit takes first, of ties in the sort field", "[1, 2, 3]", "paging tree subset",
		func(s *server) any {
			s.numbered(1, 1.0, decimal("1"))
			return s.found(bson.D{}, "v", 1, "_id", 1)
		}},
	{"whether _id 1 and _id 1.0 are one", "a refusal with 11000", "tree versioning internal/value internal/fault",
		func(s *server) any {
			_, err := s.c.InsertMany(s.t.Context(), []any{expr.D("_id", 1), expr.D("_id", 1.0)})
			return err
		}},
	{"$setUnion of 1, 1.0 and a Decimal128 1: how many remain", "1", "outlier bucket attribute",
		func(s *server) any {
			return s.computed(expr.D("a", bson.A{1, 1.0, decimal("1")}), expr.Op("$size", expr.Op("$setUnion", "$a", bson.A{})))
		}},
	{"$setIntersection of [{a: 1}] and [{a: 1.0}]: how many remain", "1", "split attribute series",
		func(s *server) any {
			return s.computed(ab(bson.A{expr.D("a", 1)}, bson.A{expr.D("a", 1.0)}), expr.Op("$size", expr.Op("$setIntersection", "$a", "$b")))
		}},
	{"$indexOfArray of 2.0 in [1, 2], and of 3", "[1, -1]", "outlier tree bucket",
		func(s *server) any {
			return s.computed(expr.D("a", bson.A{1, 2}), bson.A{expr.Op("$indexOfArray", "$a", 2.0), expr.Op("$indexOfArray", "$a", 3)})
		}},
	{"$in of 1.0, null and a document in an array of ints, with a null and the document", "[true, true, true]", "outlier attribute relation",
		func(s *server) any {
			in := func(v any) bson.D { return expr.Op("$in", expr.Literal(v), "$a") }
			return s.computed(expr.D("a", bson.A{1, nil, expr.D("x", 1)}), bson.A{in(1.0), in(nil), in(expr.D("x", int64(1)))})
		}},
}
