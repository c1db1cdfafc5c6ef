package calls_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A document that somebody typed with an array where the package has one value is not deleted or moved with those of one of
// its elements, although an equality meets it, and a range with two elements.
func TestDeletionsPassOverArrays(t *testing.T) {
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
