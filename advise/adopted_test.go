package advise_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
)

// What this library manages already is said to be so, and neither it nor the queries of it
// are advised.
func TestAdopted(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	nodes := generate(rand.New(rand.NewPCG(5, 5)), kindOf(t, "tree: subtrees are read"), 300, "folders")
	queries := store(t, db, []labelled{nodes})
	parent := nodes.docs[0].(bson.D)[4].Key
	has := func(report *advise.Report, pattern string) bool {
		return slices.ContainsFunc(report.Shapes, func(s advise.Shape) bool { return slices.Contains(s.Patterns, pattern) }) ||
			slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Pattern == pattern })
	}
	if report := look(t, db, unhurried(queries)); !has(report, "tree") {
		t.Fatalf("before: advised %v", named(report))
	}
	// The names of the fields are the package's defaults.
	if _, err := db.Collection("folders").UpdateMany(ctx, bson.D{}, bson.D{{Key: "$rename", Value: bson.D{{Key: parent, Value: "parent"}}}}); err != nil {
		t.Fatal(err)
	}
	for i := range queries {
		queries[i].Command = rename(t, queries[i].Command, map[string]string{parent: "parent"})
	}
	folders, err := tree.New[int32, bson.M](db.Collection("folders"), tree.AncestorArray, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := folders.Adopt(ctx, nil); err != nil || result.Failed > 0 {
		t.Fatalf("%+v, %v", result, err)
	}

	sensors, err := bucket.New[int32, bson.M](db.Collection("sensors"), timeseries.Days(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	measurements := func(yield func(int32, bson.M) bool) {
		for i := range 120 * 60 {
			if !yield(int32(i%120), bson.M{"timestamp": begin.Add(time.Duration(i) * time.Second), "text": strings.Repeat("x", 60)}) {
				return
			}
		}
	}
	cmds := mongotest.Record(t, db, func() {
		if result, err := sensors.AppendMany(ctx, measurements, nil); err != nil || result.Failed > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	})
	newest, err := bson.Marshal(bson.D{{Key: "find", Value: "sensors"}, {Key: "projection", Value: bson.D{{Key: "measurements", Value: bson.D{{Key: "$slice", Value: -5}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	queries = append(queries, advise.Commands(cmds)...)
	queries = append(queries, advise.Query{Collection: "sensors", Command: newest, Calls: 50})

	report := look(t, db, unhurried(queries))
	if len(report.Findings) > 0 || len(report.Shapes) > 0 {
		t.Errorf("advised %v, %v", named(report), report.Shapes)
	}
	for collection, want := range map[string]string{
		"folders": "tree: is in pattern tree already: documents have ancestors, parent",
		"sensors": "subset: is in pattern bucket already: documents have count, measurements, series, start",
	} {
		if notes := strings.Join(about(report, collection), "; "); !strings.Contains(notes, want) {
			t.Errorf("%s: %q, want %q", collection, notes, want)
		}
	}
}

// What the library itself sends is not said to get slower: here it takes the next best
// review, by skip, and puts it into a list that it had shortened.
func TestOwnQueries(t *testing.T) {
	db := mongotest.Database(t)
	ctx := t.Context()
	insert(t, db.Collection("products"), []any{bson.D{{Key: "_id", Value: 1}, {Key: "reviews", Value: bson.A{}}}})
	reviews, err := subset.New[int, bson.M](db.Collection("products"), db.Collection("reviews"), &subset.Options{
		ArrayField: "reviews", ParentField: "product", N: 3, Sort: bson.D{{Key: "rating", Value: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	cmds := mongotest.Record(t, db, func() {
		for i := range 6 {
			if _, err := reviews.Insert(ctx, 1, bson.M{"_id": i, "product": 1, "rating": i}); err != nil {
				t.Fatal(err)
			}
		}
		if err := reviews.Delete(ctx, 1, 5); err != nil {
			t.Fatal(err)
		}
	})
	if !slices.Contains(cmds.Names(), "find") {
		t.Errorf("the next best was not asked for: %v", cmds.Names())
	}
	for _, s := range advise.Shapes(advise.Commands(cmds)) {
		t.Error(s)
	}
}
