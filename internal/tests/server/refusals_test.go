package server_test

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

const megabyte = 1 << 20

// large is a document of 9 MiB in its field "a".
func (s *server) large() bson.D {
	doc := expr.D("_id", 1, "a", strings.Repeat("x", 9*megabyte))
	s.insert(doc)
	return doc
}

// judged says what package fault makes of a refusal: too large or too deep, refused for good, or neither.
func judged(err error) string {
	switch sized := fault.Sized(err); {
	case err == nil:
		return "stored"
	case sized.Error() != err.Error():
		return "too large or too deep"
	case fault.Refused(err):
		return "refused for good: " + refusal(err)
	}
	return "refused for now: " + refusal(err)
}

// nested is a document of so many levels.
func nested(levels int) bson.D {
	doc := bson.D{}
	for range levels - 1 {
		doc = expr.D("a", doc)
	}
	return doc
}

// keys are the fields of the unique index that a duplicate names, in the first error of a write.
func keys(err error) any {
	var all []mongo.WriteError
	switch e := err.(type) {
	case mongo.WriteException:
		all = e.WriteErrors
	case mongo.BulkWriteException:
		for _, inner := range e.WriteErrors {
			all = append(all, inner.WriteError)
		}
	}
	if len(all) == 0 {
		return err
	}
	return fmt.Sprintf("%d for %s", all[0].Code, text(all[0].Raw.Lookup("keyPattern")))
}

// sets is an update to what an expression makes.
func sets(expression any) mongo.Pipeline {
	return mongo.Pipeline{expr.Op("$set", expr.D("w", expression))}
}

// noArrays says "malformed" if package fault knows each refusal of a text in the place of an array.
func noArrays(s *server) any {
	s.insert(expr.D("_id", 1, "v", "text"))
	for _, update := range []any{
		expr.Op("$push", expr.D("v", 1)), expr.Op("$addToSet", expr.D("v", 1)),
		sets(expr.Op("$size", "$v")), sets(expr.Map("$v", "x", "$$x")), sets(expr.Filter("$v", "x", true)),
		sets(expr.Op("$reverseArray", "$v")), sets(expr.Op("$in", 1, "$v")), sets(expr.Op("$concatArrays", "$v", bson.A{1})),
	} {
		if _, err := fault.One(s.c.UpdateOne(s.t.Context(), bson.D{}, update)); !errors.Is(err, fault.ErrMalformed) {
			return fmt.Sprintf("%v: %v", update, err)
		}
	}
	return "malformed"
}

var refusals = []row{
	{"an insert of an _id that exists: the code, and the keys of the index", "11000 for {_id: 1}", "internal/fault tree subset split versioning",
		func(s *server) any {
			s.numbered(1)
			return keys(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), expr.D("_id", 1))))
		}},
	{"an insert of many with an _id that exists: the code, and the keys of the index", "11000 for {_id: 1}", "internal/fault subset",
		func(s *server) any {
			s.numbered(1)
			return keys(testkit.ErrorOf(s.c.InsertMany(s.t.Context(), []any{expr.D("_id", 2), expr.D("_id", 1)})))
		}},
	{"an update to a value that is taken: the code, and the keys of the index", "11000 for {v: 1, w: -1}", "internal/fault versioning tree",
		func(s *server) any {
			s.index(expr.D("v", 1, "w", -1), options.Index().SetUnique(true))
			s.numbered(1, 2)
			return keys(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 2), expr.Op("$set", expr.D("v", 1)))))
		}},
	{"findAndModify to a value that is taken", "a refusal with 11000 DuplicateKey", "schemaversion internal/fault",
		func(s *server) any {
			s.index(expr.D("v", 1), options.Index().SetUnique(true))
			s.numbered(5, 6)
			return testkit.ErrorOf(s.modify("update", expr.Op("$set", expr.D("v", 6))))
		}},
	{"a document that a validator refuses", "refused for good: a refusal with 121", "internal/fault internal/maintain",
		func(s *server) any {
			_ = testkit.Must(s.run("create", s.c.Name(), "validator", expr.D("v", expr.Op("$type", "int"))))
			return judged(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), expr.D("v", "x"))))
		}},
	{"a validator of $or with $jsonSchema", "stored, refused for good: a refusal with 121", "polymorphic",
		func(s *server) any {
			schema := expr.D("required", bson.A{"a"})
			_ = testkit.Must(s.run("create", s.c.Name(), "validator", expr.Op("$or", bson.A{expr.D("k", expr.Op("$in", bson.A{"x"}), "$jsonSchema", schema)})))
			insert := func(doc bson.D) string { return judged(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), doc))) }
			return insert(expr.D("k", "x", "a", 1)) + ", " + insert(expr.D("k", "x"))
		}},
	{"$push that makes a document larger than 16 MiB", "too large or too deep", "internal/fault outlier bucket",
		func(s *server) any {
			doc := s.large()
			return judged(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$push", expr.D("l", doc[1].Value)))))
		}},
	{"an update with expressions that makes a document larger than 16 MiB", "too large or too deep", "internal/fault outlier subset attribute",
		func(s *server) any {
			s.large()
			return judged(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), set(bson.A{"$a"}))))
		}},
	{"$concat that makes a string larger than 16 MiB", "too large or too deep", "internal/fault tree",
		func(s *server) any {
			s.large()
			return judged(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), set(expr.Op("$concat", "$a", "$a")))))
		}},
	{"an upsert that makes a document larger than 16 MiB", "too large or too deep", "internal/fault bucket series",
		func(s *server) any {
			half := strings.Repeat("x", 9*megabyte)
			return judged(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$set", expr.D("a", half, "b", half)), options.UpdateOne().SetUpsert(true))))
		}},
	{"findAndModify that makes a document larger than 16 MiB", "too large or too deep", "internal/fault outlier subset",
		func(s *server) any {
			doc := s.large()
			return judged(testkit.ErrorOf(s.modify("update", expr.Op("$set", expr.D("b", doc[1].Value)))))
		}},
	{"an insert of a document that is larger than 16 MiB by some bytes", "too large or too deep", "internal/fault internal/maintain",
		func(s *server) any {
			return judged(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), expr.D("_id", 1, "a", strings.Repeat("x", 16*megabyte-20)))))
		}},
	{"an insert of a document of 180 levels", "stored", "internal/fault internal/value",
		func(s *server) any { return judged(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), nested(180)))) }},
	{"an insert of a document of 190 levels", "too large or too deep", "internal/fault internal/value",
		func(s *server) any { return judged(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), nested(190)))) }},
	{"$set that makes a document of 190 levels", "too large or too deep", "internal/fault internal/value",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "a", nested(100)))
			path := strings.Repeat("a.", 98) + "b"
			return judged(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$set", expr.D(path, nested(90))))))
		}},
	{"an _id that is an array, a regular expression or undefined, or has a field that begins with a dollar", "refused, refused, refused, refused", "internal/value",
		func(s *server) any {
			var out []string
			for _, id := range []any{bson.A{1}, bson.Regex{Pattern: "a"}, undefined, expr.D("$a", 1)} {
				if _, err := s.c.InsertOne(s.t.Context(), expr.D("_id", id)); fault.ServerDidNothing(err) {
					out = append(out, "refused")
				} else {
					out = append(out, refusal(err))
				}
			}
			return strings.Join(out, ", ")
		}},
	{"$in with a string in the place of the array", "40081", "attribute outlier relation",
		func(s *server) any { return s.codes(expr.Op("$in", 1, "$a")) }},
	{"$filter of a string", "28651", "attribute", func(s *server) any { return s.codes(expr.Filter("$a", "x", true)) }},
	{"$map of a string", "16883", "attribute", func(s *server) any { return s.codes(expr.Map("$a", "x", "$$x")) }},
	{"$concatArrays of a string", "28664", "internal/fault", func(s *server) any { return s.codes(expr.Op("$concatArrays", "$a", bson.A{1})) }},
	{"an index with other options than one on the same keys", "a refusal with 85 IndexOptionsConflict or 86 IndexKeySpecsConflict", "internal/indexes",
		func(s *server) any {
			s.index(expr.D("v", 1), options.Index().SetName("one"))
			return either(s.created(expr.D("v", 1), options.Index().SetName("two")), 85, 86)
		}},
	{"an index of a name that other keys have", "a refusal with 85 IndexOptionsConflict or 86 IndexKeySpecsConflict", "internal/indexes",
		func(s *server) any {
			s.index(expr.D("v", 1), options.Index().SetName("one"))
			return either(s.created(expr.D("w", 1), options.Index().SetName("one")), 85, 86)
		}},
	{"a collection that exists, created again", "yes or 48 NamespaceExists", "internal/collation",
		func(s *server) any {
			s.numbered(1)
			_, err := s.run("create", s.c.Name())
			if out := refusal(err); out == "yes" || out == "a refusal with 48 NamespaceExists" {
				return "yes or 48 NamespaceExists"
			}
			return err
		}},
	{"listIndexes of a collection that does not exist", "a refusal with 26 NamespaceNotFound", "mongopatterns internal/indexes",
		func(s *server) any { return testkit.ErrorOf(s.run("listIndexes", s.c.Name())) }},
	{"expressions and updates of a text that must be an array", "malformed", "internal/fault", noArrays},
	{"a stage that the server does not know", "a refusal with 40324 Location40324", "advise",
		func(s *server) any { return testkit.ErrorOf(s.aggregate(expr.Op("$noSuchStage", bson.D{}))) }},
	{"a command that the server does not know", "a refusal with 59 CommandNotFound", "mongotest internal/fault",
		func(s *server) any { return testkit.ErrorOf(s.run("noSuchCommand", 1)) }},
	{"a command that takes longer than its maxTimeMS", "a refusal with 50 MaxTimeMSExpired", "advise internal/fault",
		func(s *server) any {
			// Each stage makes ten documents of one: nobody waits for the last.
			ten := bson.A{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			stages := bson.A{expr.Op("$documents", bson.A{bson.D{}})}
			for range 12 {
				stages = append(stages, expr.Op("$set", expr.D("x", ten)), expr.Op("$unwind", "$x"))
			}
			stages = append(stages, expr.Op("$count", "n"))
			return testkit.ErrorOf(s.run("aggregate", 1, "pipeline", stages, "cursor", bson.D{}, "maxTimeMS", 50))
		}},
}

// codes is the code of the refusal of an expression of {a: "x"} in an update and in the filter of one.
func (s *server) codes(v any) any {
	code := func(err error) string {
		var refused mongo.ServerError
		if e, ok := err.(mongo.ServerError); ok {
			refused = e
		}
		if refused == nil || len(refused.ErrorCodes()) == 0 {
			return refusal(err)
		}
		return fmt.Sprint(refused.ErrorCodes()[0])
	}
	s.insert(expr.D("_id", 1, "a", "x"))
	update := code(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), set(v))))
	filter := code(testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1, "$expr", v), expr.Op("$set", expr.D("b", 1)))))
	if update == filter {
		return update
	}
	return update + " in an update, and " + filter + " in a filter"
}

func (s *server) created(keys bson.D, opts *options.IndexOptionsBuilder) error {
	return testkit.ErrorOf(s.c.Indexes().CreateOne(s.t.Context(), mongo.IndexModel{Keys: keys, Options: opts}))
}

// either is one of two refusals, whichever it is.
func either(err error, codes ...int) string {
	names := map[int]string{85: "IndexOptionsConflict", 86: "IndexKeySpecsConflict"}
	refused, _ := err.(mongo.CommandError)
	for _, code := range codes {
		if int(refused.Code) == code {
			return fmt.Sprintf("a refusal with %d %s or %d %s", codes[0], names[codes[0]], codes[1], names[codes[1]])
		}
	}
	return refusal(err)
}
