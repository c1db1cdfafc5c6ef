package server_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// counted says how many documents an update has matched, modified and upserted.
func counted(r *mongo.UpdateResult, err error) any {
	if err != nil {
		return err
	}
	return fmt.Sprintf("%d matched, %d modified, %d upserted", r.MatchedCount, r.ModifiedCount, r.UpsertedCount)
}

// modify is a findAndModify of the document 1.
func (s *server) modify(more ...any) (bson.Raw, error) {
	return s.run(append([]any{"findAndModify", s.c.Name(), "query", expr.D("_id", 1)}, more...)...)
}

var updates = []row{
	{"an update that changes nothing", "1 matched, 0 modified, 0 upserted", "outlier split extref internal/maintain internal/hold",
		func(s *server) any {
			s.numbered(1)
			return counted(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$set", expr.D("v", 1))))
		}},
	{"an update with expressions that changes nothing", "1 matched, 0 modified, 0 upserted", "outlier attribute internal/maintain",
		func(s *server) any {
			s.numbered(1)
			return counted(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), set(expr.Op("$add", "$v", 0))))
		}},
	{"$set of an int 1 to a double 1: the type", "double 1", "extref split attribute",
		func(s *server) any { return s.updated(expr.D("v", 1), expr.Op("$set", expr.D("v", 1.0))) }},
	{"$set with expressions of an int 1 to a double 1: the type", "double 1", "extref bucket computed",
		func(s *server) any { return s.updated(expr.D("v", 1), set(1.0)) }},
	{"an empty $setOnInsert, with upsert, of a document that exists", "1 matched, 0 modified, 0 upserted", "relation",
		func(s *server) any {
			s.numbered(1)
			return counted(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), expr.Op("$setOnInsert", bson.D{}), options.UpdateOne().SetUpsert(true)))
		}},
	{"an upsert by {$nor: [{}]}, which nothing matches", "0 matched, 0 modified, 1 upserted", "subset tree",
		func(s *server) any {
			filter := expr.D("_id", 1, "$nor", bson.A{bson.D{}})
			return counted(s.c.UpdateOne(s.t.Context(), filter, expr.Op("$setOnInsert", expr.D("v", 1)), options.UpdateOne().SetUpsert(true)))
		}},
	{"the same upsert of a document that exists", "a refusal with 11000", "subset tree internal/fault",
		func(s *server) any {
			s.numbered(1)
			filter := expr.D("_id", 1, "$nor", bson.A{bson.D{}})
			return testkit.ErrorOf(s.c.UpdateOne(s.t.Context(), filter, expr.Op("$setOnInsert", expr.D("v", 1)), options.UpdateOne().SetUpsert(true)))
		}},
	{"a replacement with upsert by {_id: {$eq: …}, x: {$type: minKey}}: what is stored", "{_id: 1, a: 2}", "tree",
		func(s *server) any {
			filter := expr.D("_id", expr.Op("$eq", 1), "x", expr.Op("$type", "minKey"))
			_ = testkit.Must(s.c.ReplaceOne(s.t.Context(), filter, expr.D("_id", 1, "a", 2), options.Replace().SetUpsert(true)))
			return testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw())
		}},
	{"what an upsert stores of equalities and of conditions in its filter", "2 fields of the filter", "bucket series slots approx tree",
		func(s *server) any {
			filter := expr.D("a", 1, "b", expr.Op("$eq", 2), "c", expr.Op("$lt", 3), "d", expr.Op("$exists", false))
			_ = testkit.Must(s.c.UpdateOne(s.t.Context(), filter, expr.Op("$inc", expr.D("n", 1)), options.UpdateOne().SetUpsert(true)))
			doc := testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw())
			if has(doc, "a", "b", "n") != "all of them" || doc.Lookup("c").Type != 0 || doc.Lookup("d").Type != 0 {
				return doc
			}
			return "2 fields of the filter"
		}},
	{"an upsert of a path that the update itself makes: {a.b: 1} and $set of a.c", "{b: 1, c: 2}", "bucket series slots",
		func(s *server) any {
			_ = testkit.Must(s.c.UpdateOne(s.t.Context(), expr.D("a.b", 1), expr.Op("$set", expr.D("a.c", 2)), options.UpdateOne().SetUpsert(true)))
			return testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw()).Lookup("a")
		}},
	{"$set below a string", "a refusal with 28", "versioning extref split",
		func(s *server) any { return s.updated(expr.D("v", "x"), expr.Op("$set", expr.D("v.a", 1))) }},
	{"$set below a null", "a refusal with 28", "versioning extref",
		func(s *server) any { return s.updated(expr.D("v", nil), expr.Op("$set", expr.D("v.a", 1))) }},
	{"$set of v.5 where there is no v", "{5: 1}", "approx slots",
		func(s *server) any { return s.updated(bson.D{}, expr.Op("$set", expr.D("v.5", 1))) }},
	{"an empty timestamp at the top of an inserted document", "replaced", "internal/value archive subset split relation",
		func(s *server) any {
			s.numbered(bson.Timestamp{})
			return stamp(testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw()).Lookup("v"))
		}},
	{"an empty timestamp below a document, in an array, and in $set", "kept, kept, kept", "internal/value archive subset relation",
		func(s *server) any {
			s.insert(expr.D("_id", 1, "a", expr.D("b", bson.Timestamp{}), "l", bson.A{bson.Timestamp{}}))
			doc := testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw())
			set := s.updated(bson.D{}, expr.Op("$set", expr.D("v", bson.Timestamp{})))
			return stamp(doc.Lookup("a", "b")) + ", " + stamp(doc.Lookup("l", "0")) + ", " + stamp(set)
		}},
	{"an empty timestamp as the _id", "kept", "internal/value archive",
		func(s *server) any {
			s.insert(expr.D("_id", bson.Timestamp{}))
			return stamp(testkit.Must(s.c.FindOne(s.t.Context(), bson.D{}).Raw()).Lookup("_id"))
		}},
	{"a field below a document whose name begins with a dollar", "yes", "subset split",
		func(s *server) any {
			return refusal(testkit.ErrorOf(s.c.InsertOne(s.t.Context(), expr.D("a", expr.D("$x", 1)))))
		}},
	{"findAndModify that matches nothing: the value", "null", "computed extref tree outlier",
		func(s *server) any {
			return testkit.Must(s.modify("update", expr.Op("$set", expr.D("v", 1)))).Lookup("value")
		}},
	{"findAndModify with upsert that answers with the document before: the value and the count", "null and 1", "tree mongotest",
		func(s *server) any {
			raw := testkit.Must(s.modify("update", expr.Op("$inc", expr.D("v", 1)), "upsert", true))
			return text(raw.Lookup("value")) + " and " + text(raw.Lookup("lastErrorObject", "n"))
		}},
	{"findAndModify that answers with expressions of the document before", "{n: 2}", "subset outlier",
		func(s *server) any {
			s.numbered(bson.A{1, 2})
			return testkit.Must(s.modify("update", expr.Op("$push", expr.D("v", 3)), "fields", expr.D("_id", 0, "n", expr.Op("$size", "$v")))).Lookup("value")
		}},
	{"findAndModify with upsert and expressions of $$NOW, that answers with the document after", "yes", "schemaversion",
		func(s *server) any {
			own := expr.Cond(expr.Op("$lte", "$until", "$$NOW"), "me", "$owner")
			raw := testkit.Must(s.modify("update", bson.A{expr.Op("$set", expr.D("owner", own))}, "upsert", true, "new", true))
			if owner, _ := raw.Lookup("value", "owner").StringValueOK(); owner == "me" {
				return "yes"
			}
			return raw.Lookup("value")
		}},
	{"findAndModify with a sort and a condition in $expr: which document it takes", "2", "extref",
		func(s *server) any {
			s.numbered(bson.DateTime(2000), bson.DateTime(1000), absent)
			filter := expr.D("v", expr.Op("$type", "date"), "$expr", expr.Op("$lte", "$v", "$$NOW"))
			return testkit.Must(s.run("findAndModify", s.c.Name(), "query", filter, "sort", expr.D("v", 1), "update", expr.Op("$set", expr.D("w", 1)))).Lookup("value", "_id")
		}},
	{"an unordered bulk write whose second write is refused: the positions in its answer", "1 refused, at 1, and 2 upserted", "approx schemaversion internal/windows",
		func(s *server) any {
			s.insert(expr.D("_id", 2, "v", "x"))
			var models []mongo.WriteModel
			for id := range 3 {
				models = append(models, mongo.NewUpdateOneModel().SetFilter(expr.D("_id", id+1)).SetUpdate(expr.Op("$inc", expr.D("v", 1))).SetUpsert(true))
			}
			done, err := s.c.BulkWrite(s.t.Context(), models, options.BulkWrite().SetOrdered(false))
			refused, _ := err.(mongo.BulkWriteException)
			if len(refused.WriteErrors) != 1 {
				return err
			}
			return fmt.Sprintf("1 refused, at %d, and %d upserted", refused.WriteErrors[0].Index, done.UpsertedCount)
		}},
}

func stamp(v any) string {
	raw, _ := v.(bson.RawValue)
	if t, i, ok := raw.TimestampOK(); ok && t == 0 && i == 0 {
		return "kept"
	}
	if raw.Type == bson.TypeTimestamp {
		return "replaced"
	}
	return text(v)
}
