package advise_test

import (
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

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
		{"the same documents again", func() {
			cursor, err := db.Collection("students").Find(ctx, bson.D{})
			if err != nil {
				t.Fatal(err)
			}
			_ = cursor.Close(ctx)
			find("students", "_id", 1, 2, 3)
		}, make([]string, 4)},
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
	return out
}
