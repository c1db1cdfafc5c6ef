//go:build unix

package adoption_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
)

// ended fails unless a call has written something and left nothing.
func ended(t *testing.T) func(result mongopatterns.Result, err error) {
	return func(result mongopatterns.Result, err error) {
		t.Helper()
		testkit.OK(t, err)
		if result.Done == 0 || result.Failed+result.Remaining > 0 {
			t.Errorf("%+v", result)
		}
	}
}

// The ways of the section Back again bring back what Adopt took, with what new code has written since.
func TestBackAgain(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	plain := func(n int) (docs []any) {
		for i := range n {
			docs = append(docs, d("_id", i, "series", "a", "timestamp", noon.Add(time.Duration(i)*time.Minute), "v", i))
		}
		return docs
	}
	convert := func(doc bson.Raw) (string, bson.D, error) {
		var m bson.D
		err := bson.Unmarshal(doc, &m)
		return "a", testkit.D("timestamp", testkit.Get(m, "timestamp"), "v", testkit.Get(m, "v")), err
	}
	list := func(n int) (list bson.A) {
		for i := range n {
			list = append(list, d("_id", int32(i), "x", "text"))
		}
		return list
	}
	for name, test := range map[string]func(t *testing.T, db *mongo.Database){
		"tree": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			testkit.Insert(t, coll, d("_id", "a"), d("_id", "b", "parent", "a"), d("_id", "c", "parent", "b"))
			paths, err := tree.New[string, bson.M](coll, tree.MaterializedPath, nil)
			testkit.OK(t, err)
			ended(t)(paths.Adopt(t.Context(), nil))
			testkit.Value[string](t)(paths.Insert(t.Context(), bson.M{"_id": "d"}, paths.Under("c")))
			testkit.OK(t, paths.Move(t.Context(), "c", paths.Under("a")))
			parents, err := tree.New[string, bson.M](coll, tree.ParentReferences, nil)
			testkit.OK(t, err)
			ended(t)(tree.Convert(t.Context(), paths, parents, nil))
			_, err = coll.UpdateMany(t.Context(), bson.D{}, d("$unset", d("path", "")))
			testkit.OK(t, err)
			same(t, "nodes", testkit.Stored[bson.M](t, coll), []bson.M{{"_id": "a", "parent": nil}, {"_id": "b", "parent": "a"}, {"_id": "c", "parent": "a"}, {"_id": "d", "parent": "c"}})
		},
		"bucket": func(t *testing.T, db *mongo.Database) {
			testkit.Insert(t, db.Collection("old"), plain(20)...)
			b, err := bucket.New[string, bson.D](db.Collection("c"), timeseries.Days(nil), &bucket.Options{MaxCount: 6})
			testkit.OK(t, err)
			ended(t)(b.Adopt(t.Context(), db.Collection("old"), convert, nil))
			for range 2 { // it can be run again
				_, err = db.Collection("c").Aggregate(t.Context(), bson.A{
					d("$unwind", d("path", "$measurements", "includeArrayIndex", "i")),
					d("$replaceWith", d("$mergeObjects", bson.A{d("_id", d("bucket", "$_id", "i", "$i"), "series", "$series"), "$measurements"})),
					d("$merge", d("into", "readings")),
				})
				testkit.OK(t, err)
			}
			if n := testkit.Count(t, db.Collection("readings"), d("series", "a", "v", d("$gte", 0), "timestamp", d("$gte", noon))); n != 20 {
				t.Errorf("%d readings", n)
			}
		},
		"series": func(t *testing.T, db *mongo.Database) {
			testkit.Insert(t, db.Collection("old"), plain(20)...)
			s, err := series.New[string, bson.D](db.Collection("c"), timeseries.Days(nil), nil)
			testkit.OK(t, err)
			ended(t)(s.Adopt(t.Context(), db.Collection("old"), func(doc bson.Raw) (string, []bson.D, error) {
				key, m, err := convert(doc)
				return key, []bson.D{m}, err
			}, nil))
			for doc, err := range s.Documents(t.Context(), nil) {
				testkit.OK(t, err)
				testkit.Insert(t, db.Collection("readings"), doc)
			}
			if n := testkit.Count(t, db.Collection("readings"), d("series", "a", "v", d("$gte", 0), "timestamp", d("$gte", noon))); n != 20 {
				t.Errorf("%d readings", n)
			}
		},
		"attribute": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			testkit.Insert(t, coll, d("_id", 1, "color", "red", "spec", d("a", 1, "b", 2, "c", 3), "name", "x"))
			a, err := attribute.New[int, any](coll, nil)
			testkit.OK(t, err)
			columns := []attribute.Column{{Path: "color", Key: "color"}, {Path: "spec.a", Key: "a"}}
			ended(t)(a.Adopt(t.Context(), columns, nil))
			ended(t)(a.Unadopt(t.Context(), columns, nil))
			_, err = coll.UpdateMany(t.Context(), d("attributes", bson.A{}), d("$unset", d("attributes", "")))
			testkit.OK(t, err)
			same(t, "fields, last those that return", fmt.Sprint(testkit.One[bson.Raw](t, coll, 1)),
				fmt.Sprint(testkit.Raw(t, d("_id", 1, "spec", d("b", 2, "c", 3, "a", 1), "name", "x", "color", "red"))))
		},
		"outlier": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			large := bson.A{}
			for range 13 {
				large = append(large, strings.Repeat("x", 1<<20))
			}
			testkit.Insert(t, coll, d("_id", 1, "items", list(900)), d("_id", 2, "items", large))
			l, err := outlier.New[int, bson.RawValue](coll, db.Collection("extras"), &outlier.Options{MaxCount: 100})
			testkit.OK(t, err)
			ended(t)(l.Adopt(t.Context(), nil))
			back, err := outlier.New[int, bson.RawValue](coll, db.Collection("extras"), &outlier.Options{MaxCount: 1201, MaxBytes: 16<<20 - 64<<10})
			testkit.OK(t, err)
			ended(t)(back.Adopt(t.Context(), nil))
			same(t, "list", testkit.One[bson.M](t, coll, 1), bson.M{"_id": int32(1), "items": list(900)})
			same(t, "what stays", testkit.Find[bson.M](t, coll, back.OutliersFilter())[0]["_id"], int32(2))
		},
		"subset": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			testkit.Insert(t, coll, d("_id", int32(1), "items", list(30)))
			s, err := subset.New[int, bson.M](coll, db.Collection("items"), &subset.Options{N: 3})
			testkit.OK(t, err)
			ended(t)(s.Adopt(t.Context(), nil))
			testkit.Value[any](t)(s.Insert(t.Context(), 1, bson.M{"_id": int32(30), "x": "text"}))
			back, err := subset.New[int, bson.M](coll, db.Collection("items"), &subset.Options{N: 100, Sort: d("_id", 1)})
			testkit.OK(t, err)
			ended(t)(back.Repair(t.Context(), nil))
			testkit.Update(t, coll, bson.D{}, d("$unset", d("items_count", "")))
			same(t, "items", testkit.One[bson.M](t, coll, 1), bson.M{"_id": int32(1), "items": list(31)})
		},
		"split": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			whole := bson.M{"_id": int32(1), "title": "t", "plot": "long", "year": int32(1896)}
			testkit.Insert(t, coll, whole, d("_id", int32(2), "title", "bare"))
			s, err := split.New[int, bson.M, bson.M](coll, db.Collection("cold"), &split.Options{IDField: "movie_id", ColdFields: []string{"plot"}})
			testkit.OK(t, err)
			ended(t)(s.Adopt(t.Context(), nil))
			_, err = coll.Aggregate(t.Context(), append(s.JoinPipeline(), d("$merge", d("into", "c", "whenMatched", "replace", "whenNotMatched", "discard"))))
			testkit.OK(t, err)
			same(t, "whole", testkit.Stored[bson.M](t, coll), []bson.M{whole, {"_id": int32(2), "title": "bare"}})
		},
		"relation": func(t *testing.T, db *mongo.Database) {
			coll := db.Collection("c")
			testkit.Insert(t, coll, d("_id", int32(1), "children", list(3)))
			r, err := relation.New[int, int, bson.M](coll, db.Collection("children"), &relation.Options{ChildrenField: "children", OwnerField: "owner"})
			testkit.OK(t, err)
			ended(t)(r.Extract(t.Context(), nil))
			ended(t)(r.Embed(t.Context(), nil))
			same(t, "parent", testkit.One[bson.M](t, coll, 1), bson.M{"_id": int32(1), "children": list(3)})
			same(t, "children", testkit.Count(t, db.Collection("children"), bson.D{}), 0)
		},
		"archive": func(t *testing.T, db *mongo.Database) {
			testkit.Insert(t, db.Collection("c"), list(3)...)
			a, err := archive.New(db.Collection("c"), db.Collection("archive"), nil)
			testkit.OK(t, err)
			ended(t)(a.Move(t.Context(), bson.D{}, nil))
			ended(t)(a.Restore(t.Context(), bson.D{}, nil))
			same(t, "documents", testkit.Stored[bson.D](t, db.Collection("c")), []bson.D{list(3)[0].(bson.D), list(3)[1].(bson.D), list(3)[2].(bson.D)})
			same(t, "archived", testkit.Count(t, db.Collection("archive"), bson.D{}), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mongotest.Database(t))
		})
	}
}

// A sum counts what archive has moved until the target is computed again.
func TestSumsOverWhatIsArchived(t *testing.T) {
	db := mongotest.Database(t)
	testkit.Insert(t, db.Collection("films"), d("_id", "A"))
	for i := range 4 {
		testkit.Insert(t, db.Collection("screenings"), d("_id", i, "film", "A", "viewers", 10))
	}
	for name, additive := range map[string]bool{"whole": false, "additive": true} {
		c, err := computed.New[int, string, bson.M](db.Collection("screenings"), db.Collection("films"), computed.Rule{
			KeyField: "film",
			Pipeline: mongo.Pipeline{
				d("$group", d("_id", "$film", "viewers", d("$sum", "$viewers")))},
			Empty: d("viewers", 0),
		}, &computed.Options{Additive: additive})
		testkit.OK(t, err)
		ended(t)(c.RefreshAll(t.Context(), nil))
		viewers := func() int64 { return testkit.One[bson.Raw](t, db.Collection("films"), "A").Lookup("viewers").AsInt64() }
		before := viewers()
		a, err := archive.New(db.Collection("screenings"), db.Collection("archive"), nil)
		testkit.OK(t, err)
		first := testkit.Find[bson.M](t, db.Collection("screenings"), bson.D{})[0]["_id"]
		ended(t)(a.Move(t.Context(), d("_id", first), nil))
		same(t, name+": after Move", viewers(), before)
		if found := testkit.Problems(t, c); len(found) != 1 || !strings.Contains(found[0], "wrong field") {
			t.Errorf("%s: %v", name, found)
		}
		testkit.OK(t, c.Mark(t.Context(), "A"))
		ended(t)(c.Drain(t.Context(), nil))
		same(t, name+": after Drain", viewers(), before-10)
		testkit.Healthy(t, c)
	}
}
