package calls_test

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A document that somebody typed with an array where the package has one value is not deleted, moved or written with those
// of one of its elements, although an equality meets it, and a range with two elements.
func TestCallsPassOverArrays(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	type m = bson.M
	long := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	starts := bson.A{bson.NewDateTimeFromTime(long), bson.NewDateTimeFromTime(long.AddDate(900, 0, 0))}
	archived := func(result mongopatterns.Result, err error) {
		t.Helper()
		if err != nil || result.Done != 0 || result.Failed != 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	for name, do := range map[string]func(t *testing.T, c, d *mongo.Collection){ // "typed" is in c
		"subset.DeleteParent": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(subset.New[int, bson.D](d, c, &subset.Options{ParentField: "p", Sort: testkit.D("x", 1)}))
			testkit.Insert(t, d, m{"_id": 1}, m{"_id": 2})
			testkit.Insert(t, c, m{"_id": "typed", "p": bson.A{1, 2}, "x": 1}, m{"_id": "own", "p": 1, "x": 1})
			testkit.Gives(t, int64(1))(s.DeleteParent(t.Context(), 1))
		},
		"split.Delete": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(split.New[int, m, struct {
				Plot string `bson:"plot"`
			}](d, c, &split.Options{IDField: "movie_id"}))
			testkit.Insert(t, d, m{"_id": 1}, m{"_id": 2})
			testkit.Insert(t, c, m{"_id": "typed", "movie_id": bson.A{1, 2}, "plot": "p"})
			testkit.OK(t, s.Delete(t.Context(), 1))
		},
		"versioning.Prune": func(t *testing.T, c, d *mongo.Collection) {
			h := testkit.Must(versioning.New[int, m](d, c, nil))
			r := testkit.Must(h.Insert(t.Context(), m{"_id": 1, "x": 0}, versioning.Change{}))
			for i := range 3 {
				r.Document["x"] = i + 1
				r = testkit.Must(h.Save(t.Context(), r, versioning.Change{}))
			}
			testkit.Insert(t, c, m{"_id": "typed", "document_id": bson.A{1, 2}, "revision": 1, "document": m{}})
			testkit.Must(h.Prune(t.Context(), versioning.Retention{Keep: 1}, nil))
			if n := testkit.Count(t, c, m{"document_id": 1}); n > 2 {
				t.Errorf("%d rows are left", n)
			}
		},
		"tree.Delete": func(t *testing.T, c, _ *mongo.Collection) {
			all := testkit.Must(tree.New[string, m](c, tree.MaterializedPath, nil))
			testkit.OK(t, testkit.ErrorOf(all.Insert(t.Context(), m{"_id": "A"}, all.AsRoot())))
			testkit.OK(t, testkit.ErrorOf(all.Insert(t.Context(), m{"_id": "B"}, all.Under("A"))))
			testkit.Insert(t, c, m{"_id": "typed", "path": bson.A{"#sale", "shoes"}})
			testkit.Gives(t, int64(2))(all.Delete(t.Context(), "A", mongopatterns.Cascade))
		},
		"relation.DeleteParent": func(t *testing.T, c, d *mongo.Collection) {
			r := testkit.Must(relation.New[int, int, m](d, d.Database().Collection("children"), &relation.Options{Links: c}))
			testkit.Insert(t, d, m{"_id": 1}, m{"_id": 2})
			testkit.Insert(t, d.Database().Collection("children"), m{"_id": 7}, m{"_id": 8})
			testkit.Insert(t, c, m{"_id": "typed", "parent": bson.A{1, 2}, "child": 7}, m{"_id": "own", "parent": 1, "child": 8})
			testkit.Gives(t, int64(1))(r.DeleteParent(t.Context(), 1, mongopatterns.Cascade))
			testkit.Gives(t, int64(0))(r.DeleteParent(t.Context(), 2, mongopatterns.Restrict))
		},
		"relation.DeleteParent, links of old code": func(t *testing.T, c, d *mongo.Collection) {
			r := testkit.Must(relation.New[int, int, m](d, d.Database().Collection("others"), &relation.Options{Links: c}))
			testkit.Insert(t, d, m{"_id": 1})
			testkit.Insert(t, d.Database().Collection("others"), m{"_id": 8})
			testkit.Insert(t, c, m{"_id": "typed", "parent": 1, "child": bson.A{7, 8}})
			testkit.Gives(t, int64(0))(r.DeleteParent(t.Context(), 1, mongopatterns.Unlink))
			testkit.OK(t, r.DeleteChild(t.Context(), 8, mongopatterns.Unlink))
		},
		"relation.DeleteParent, by a key": func(t *testing.T, c, d *mongo.Collection) {
			r := testkit.Must(relation.New[string, int, m](c, d, &relation.Options{OwnerField: "owner", KeyField: "email"}))
			testkit.Insert(t, c, m{"_id": "typed", "email": bson.A{"a", "b"}})
			if _, err := r.DeleteParent(t.Context(), "a", mongopatterns.Unlink); !errors.Is(err, mongopatterns.ErrNotFound) {
				t.Error(err)
			}
		},
		"extref.Delete": func(t *testing.T, c, d *mongo.Collection) {
			r := testkit.Must(extref.New[string, m](c, []extref.Target{{Collection: d, Path: "x", Fields: []extref.Field{{Path: "name"}}}}, &extref.Options{KeyField: "no"}))
			testkit.Insert(t, c, m{"_id": "typed", "no": bson.A{"a", "b"}})
			for _, err := range []error{testkit.ErrorOf(r.Delete(t.Context(), "a")), testkit.ErrorOf(r.Update(t.Context(), "a", testkit.D("$set", testkit.D("z", 1))))} {
				if !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Error(err)
				}
			}
			if testkit.Count(t, c, m{"z": 1}) != 0 {
				t.Error("it is changed")
			}
		},
		"outlier.Delete": func(t *testing.T, c, d *mongo.Collection) {
			l := testkit.Must(outlier.New[int, int](d, c, &outlier.Options{MaxCount: 3}))
			testkit.Insert(t, d, m{"_id": 1})
			for i := range 6 {
				testkit.OK(t, testkit.ErrorOf(l.Add(t.Context(), 1, i)))
			}
			testkit.Insert(t, c, m{"_id": "typed", "parent": bson.A{1, 2}, "n": 9, "items": bson.A{99}})
			for x, err := range l.All(t.Context(), 1) {
				if err != nil || x == 99 {
					t.Error(x, err)
				}
			}
			testkit.OK(t, l.Delete(t.Context(), 1))
		},
		"slots.Set": func(t *testing.T, c, _ *mongo.Collection) {
			s := testkit.Must(slots.New[string, int](c, timeseries.Days(nil), nil))
			testkit.Insert(t, c, m{"_id": "typed", "series": bson.A{"A", "B"}, "start": bson.NewDateTimeFromTime(long)})
			testkit.OK(t, s.Set(t.Context(), "A", long, 1))
			testkit.OK(t, s.Set(t.Context(), "B", long, 2))
			testkit.Gives(t, 1)(s.Get(t.Context(), "A", long))
			testkit.OK(t, s.Delete(t.Context(), "B", long))
			if testkit.Count(t, c, m{"_id": "typed", "data": nil}) != 1 {
				t.Error("it is changed")
			}
		},
		"split.Get": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(split.New[int, m, struct {
				Plot string `bson:"plot"`
			}](d, c, &split.Options{IDField: "movie_id"}))
			testkit.Insert(t, d, m{"_id": 1})
			testkit.Insert(t, c, m{"_id": "typed", "movie_id": bson.A{1, 2}, "plot": "p"})
			_, cold, err := s.Get(t.Context(), 1)
			if _, own := s.GetCold(t.Context(), 1); !errors.Is(err, mongopatterns.ErrNotFound) || !errors.Is(own, mongopatterns.ErrNotFound) {
				t.Errorf("%v, %v; %v", cold, err, own)
			}
			if found := testkit.Found(t, s.Check(t.Context(), nil)); len(found) != 1 {
				t.Errorf("Check finds %v", found)
			}
		},
		"subset.Update": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(subset.New[int, bson.D](d, c, &subset.Options{ParentField: "p", Sort: testkit.D("x", 1)}))
			testkit.Insert(t, d, m{"_id": 1})
			testkit.OK(t, testkit.ErrorOf(s.Insert(t.Context(), 1, testkit.D("_id", "typed", "p", 1, "x", 1))))
			err := s.Update(t.Context(), 1, "typed", testkit.D("$set", testkit.D("p", bson.A{1, 2})))
			if !errors.Is(err, mongopatterns.ErrInvalid) || testkit.Count(t, c, m{"p": 2}) != 0 {
				t.Error(err)
			}
		},
		"bucket.Archive": func(t *testing.T, c, d *mongo.Collection) {
			b := testkit.Must(bucket.New[string, m](c, timeseries.Days(nil), nil))
			testkit.Insert(t, c, m{"_id": "typed", "series": "a", "start": starts, "measurements": bson.A{}})
			archived(b.Archive(t.Context(), time.Now(), d, nil))
		},
		"series.Archive": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(series.New[string, m](c, timeseries.Days(nil), nil))
			testkit.Insert(t, c, m{"_id": "typed", "series": "a", "start": starts, "count": 1})
			archived(s.Archive(t.Context(), time.Now(), d, nil))
		},
		"slots.Archive": func(t *testing.T, c, d *mongo.Collection) {
			s := testkit.Must(slots.New[string, m](c, timeseries.Days(nil), nil))
			testkit.Insert(t, c, m{"_id": "typed", "series": "a", "start": starts})
			archived(s.Archive(t.Context(), time.Now(), d, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := db.Collection(name)
			do(t, c, db.Collection(name+" beside"))
			if testkit.Count(t, c, m{"_id": "typed"}) != 1 {
				t.Error("it is gone")
			}
		})
	}
}
