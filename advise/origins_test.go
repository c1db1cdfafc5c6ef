package advise_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// Finds for the values of an earlier answer have that answer's collection and path, if
// only one path can be it; the first of each answer is marked.
func TestOrigins(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	insert(t, db.Collection("students"), []any{
		bson.D{{Key: "_id", Value: 1}, {Key: "courses", Value: bson.A{11, 12, 13}}, {Key: "again", Value: bson.A{11, 12}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "courses", Value: bson.A{14, 15, 16}}, {Key: "same", Value: bson.A{14, 15, 16}}},
		bson.D{{Key: "_id", Value: 3}, {Key: "at", Value: bson.D{{Key: "room", Value: 21}}}},
		bson.D{{Key: "_id", Value: 4}, {Key: "ranks", Value: bson.A{41, 42, 43, 44, 45}}},
	})
	insert(t, db.Collection("courses"), []any{bson.D{{Key: "_id", Value: int64(12)}, {Key: "next", Value: 99}}})
	find := func(name, field string, values ...any) {
		t.Helper()
		for _, v := range values {
			cursor, err := db.Collection(name).Find(ctx, bson.D{{Key: field, Value: v}})
			if err != nil {
				t.Fatal(err)
			}
			if err := cursor.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	var marks []any
	for i := range 90 {
		marks = append(marks, bson.D{{Key: "_id", Value: 900 + i}, {Key: "course", Value: 501 + i%9}, {Key: "points", Value: i}})
	}
	insert(t, db.Collection("marks"), marks)
	groups := func(by string, filter bson.D) {
		t.Helper()
		id := any("$" + by)
		if by == "" {
			id = bson.D{{Key: "$add", Value: bson.A{"$course", 0}}}
		}
		pipeline := mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: id}, {Key: "points", Value: bson.D{{Key: "$sum", Value: "$points"}}}}}}}
		if filter != nil {
			pipeline = append(mongo.Pipeline{{{Key: "$match", Value: filter}}}, pipeline...)
		}
		cursor, err := db.Collection("marks").Aggregate(ctx, pipeline)
		if err != nil {
			t.Fatal(err)
		}
		_ = cursor.Close(ctx)
	}
	for _, test := range []struct {
		name string
		run  func()
		want []string
	}{
		{"a list", func() { find("students", "_id", 1); find("courses", "_id", 11, int64(12), 13) }, []string{"", "students.courses list first", "students.courses list", "students.courses list"}},
		{"two of its values", func() { find("students", "_id", 1); find("courses", "_id", 12, 13) }, []string{"", "", ""}},
		{"two paths", func() { find("students", "_id", 2); find("courses", "_id", 14, 15, 16) }, []string{"", "", "", ""}},
		{"values of nobody", func() { find("students", "_id", 1); find("courses", "_id", 31, 32, 33) }, []string{"", "", "", ""}},
		{"an owner", func() {
			cursor, err := db.Collection("students").Find(ctx, bson.D{})
			if err != nil {
				t.Fatal(err)
			}
			_ = cursor.Close(ctx)
			find("messages", "student", 1, 2, 3)
		}, []string{"", "students._id first", "students._id", "students._id"}},
		{"small integers of another name", func() {
			find("students", "_id", 1)
			find("ratings", "_id", 11, 12, 13)
		}, make([]string, 4)},
		{"some small integers of another name", func() { find("students", "_id", 4); find("ratings", "_id", 41, 42, 43, 44) }, make([]string, 5)},
		{"all of them", func() { find("students", "_id", 4); find("ratings", "_id", 41, 42, 43, 44, 45) },
			[]string{"", "students.ranks list first", "students.ranks list", "students.ranks list", "students.ranks list", "students.ranks list"}},
		{"the same documents again", func() {
			cursor, err := db.Collection("students").Find(ctx, bson.D{})
			if err != nil {
				t.Fatal(err)
			}
			_ = cursor.Close(ctx)
			find("students", "_id", 1, 2, 3)
		}, make([]string, 4)},
		{"the same user between", func() {
			find("students", "_id", 1)
			find("courses", "_id", 11)
			find("courses", "_id", 99)
			find("courses", "_id", 12, 13)
		}, []string{"", "students.courses list first +1", "", "students.courses list", "students.courses list"}},
		{"the same user before each", func() {
			find("students", "_id", 1)
			find("courses", "_id", 99, 11, 99, 12, 99, 13)
		}, []string{"", "", "students.courses list first +2", "", "students.courses list", "", "students.courses list"}},
		{"mostly others", func() {
			find("students", "_id", 1)
			find("courses", "_id", 11, 97, 98, 12, 99, 13)
		}, make([]string, 7)},
		{"a group of everything", func() {
			groups("course", nil)
			find("courses", "_id", 501, 502, 503, 504)
		}, make([]string, 5)},
		{"most of a group of everything", func() {
			groups("course", nil)
			for i := range 8 {
				find("courses", "_id", 501+i)
			}
		}, append([]string{"", "marks.course first"}, slices.Repeat([]string{"marks.course"}, 7)...)},
		{"a group of some", func() {
			groups("course", bson.D{{Key: "course", Value: bson.D{{Key: "$lt", Value: 505}}}})
			find("courses", "_id", 501, 502, 503)
		}, []string{"", "marks.course first", "marks.course", "marks.course"}},
		{"a group by what is computed", func() {
			groups("", nil)
			find("courses", "_id", 501, 502, 503, 504, 505, 506, 507, 508, 509)
		}, make([]string, 10)},
		{"other answers between", func() {
			find("students", "_id", 1)
			for i := range 40 {
				find("other", "x", i+1000)
			}
			find("courses", "_id", 11, 12, 13)
		}, append(make([]string, 41), "students.courses list first", "students.courses list", "students.courses list")},
	} {
		cmds := mongotest.Record(t, db, test.run)
		var got []string
		for _, q := range advise.Commands(cmds) {
			got = append(got, origin(q))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func origin(q advise.Query) string {
	if q.From == (advise.Origin{}) {
		return ""
	}
	out := fmt.Sprintf("%s.%s", q.From.Collection, q.From.Path)
	if q.From.List {
		out += " list"
	}
	if q.From.First {
		out += " first"
	}
	if q.From.Others > 0 {
		out += fmt.Sprint(" +", q.From.Others)
	}
	return out
}
