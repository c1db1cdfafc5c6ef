package server_test

import (
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// watch opens a change stream with the pipeline of package extref.
func (s *server) watch(opts *options.ChangeStreamOptionsBuilder) (*mongo.ChangeStream, error) {
	s.replicated()
	const update = "$updateDescription."
	stream, err := s.c.Watch(s.t.Context(), mongo.Pipeline{
		expr.Op("$match", expr.D("operationType", expr.Op("$in", bson.A{"insert", "update", "replace", "invalidate"}))),
		expr.Op("$project", expr.D("kind", "$operationType", "id", "$documentKey._id", "paths", expr.Op("$concatArrays",
			expr.Map(expr.Op("$objectToArray", expr.IfNull(update+"updatedFields", bson.D{})), "field", "$$field.k"),
			expr.IfNull(update+"removedFields", bson.A{}), expr.IfNull(update+"truncatedArrays.field", bson.A{})))),
	}, opts)
	var refused mongo.CommandError
	if errors.As(err, &refused) && refused.Name == "TestRouter" {
		s.skip("mongotest's router has no change streams")
	}
	return stream, err
}

// event is the next event of a change of document 1.
func (s *server) event(change func()) any {
	s.insert(expr.D("_id", 1, "a", bson.D{}, "v", bson.A{1, 2, 3}, "more", strings.Repeat("x", 1000))) // else an event has the whole document
	stream := testkit.Must(s.watch(nil))
	s.t.Cleanup(func() { _ = stream.Close(s.t.Context()) })
	change()
	if !stream.Next(s.t.Context()) {
		return stream.Err()
	}
	out := []string{}
	for _, v := range values(stream.Current, "paths") {
		out = append(out, v.StringValue())
	}
	slices.Sort(out)
	return expr.D("kind", stream.Current.Lookup("kind"), "id", stream.Current.Lookup("id"), "paths", out)
}

func (s *server) change(update any) func() {
	return func() { _ = testkit.Must(s.c.UpdateOne(s.t.Context(), expr.D("_id", 1), update)) }
}

var streams = []row{
	{"the event of $set and $unset: the paths", `{kind: "update", id: 1, paths: ["a.b", "v"]}`, "extref",
		func(s *server) any {
			return s.event(s.change(expr.D("$set", expr.D("a.b", 1), "$unset", expr.D("v", ""))))
		}},
	{"the event of an array that is cut: the path", `{kind: "update", id: 1, paths: ["v"]}`, "extref",
		func(s *server) any { return s.event(s.change(set(expr.Op("$slice", "$v", 1)))) }},
	{"the event of an element that $push appends: the path", `{kind: "update", id: 1, paths: ["v.3"]}`, "extref",
		func(s *server) any { return s.event(s.change(expr.Op("$push", expr.D("v", 4)))) }},
	{"the event of a replacement", `{kind: "replace", id: 1, paths: []}`, "extref",
		func(s *server) any {
			return s.event(func() { _ = testkit.Must(s.c.ReplaceOne(s.t.Context(), expr.D("_id", 1), expr.D("b", 1))) })
		}},
	{"the event of an insert", `{kind: "insert", id: 2, paths: []}`, "extref",
		func(s *server) any { return s.event(func() { s.insert(expr.D("_id", 2)) }) }},
	{"a stream without an event: whether it has a token to go on from", "true", "extref",
		func(s *server) any {
			s.numbered(1)
			stream := testkit.Must(s.watch(options.ChangeStream().SetMaxAwaitTime(1e6)))
			defer func() { _ = stream.Close(s.t.Context()) }()
			return !stream.TryNext(s.t.Context()) && stream.ResumeToken() != nil
		}},
	{"the end of a stream when its collection is dropped, and a stream that starts after it", `"invalidate", then 1`, "extref",
		func(s *server) any {
			s.numbered(1)
			stream := testkit.Must(s.watch(nil))
			defer func() { _ = stream.Close(s.t.Context()) }()
			testkit.OK(s.t, s.c.Drop(s.t.Context()))
			if !stream.Next(s.t.Context()) {
				return stream.Err()
			}
			kind, token := stream.Current.Lookup("kind"), stream.ResumeToken()
			s.numbered(1)
			after, err := s.watch(options.ChangeStream().SetStartAfter(token))
			if err != nil {
				return err
			}
			defer func() { _ = after.Close(s.t.Context()) }()
			after.Next(s.t.Context())
			return text(kind) + ", then " + text(after.Current.Lookup("id"))
		}},
	{"a token that the history does not have: whether the code is one after which Watch begins anew", "yes", "extref",
		func(s *server) any {
			s.numbered(1)
			other := testkit.Must(s.watch(nil))
			defer func() { _ = other.Close(s.t.Context()) }()
			s.change(expr.Op("$inc", expr.D("v", 1)))()
			if !other.Next(s.t.Context()) {
				return other.Err()
			}
			s.c = s.db.Collection(s.c.Name() + "other") // whose stream has no such event
			stream, err := s.watch(options.ChangeStream().SetStartAfter(other.ResumeToken()))
			if err == nil {
				defer func() { _ = stream.Close(s.t.Context()) }()
				s.numbered(1)
				stream.Next(s.t.Context())
				err = stream.Err()
			}
			var refused mongo.ServerError
			if errors.As(err, &refused) && slices.ContainsFunc([]int{136, 260, 280, 286}, refused.HasErrorCode) {
				return "yes"
			}
			return refusal(err)
		}},
}
