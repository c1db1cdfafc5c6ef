package archive_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A short name for what hundreds of lines call.
var d = testkit.D

var day = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// on is the n-th day.
func on(n int) time.Time { return day.AddDate(0, 0, n) }

// all selects every document.
var all = bson.D{}

func open(t testing.TB, live, archived *mongo.Collection, opts *archive.Options) *archive.Archive {
	t.Helper()
	a, err := archive.New(live, archived, opts)
	testkit.OK(t, err)
	return a
}

// orders is an Archive by the field "at" in a database of its own.
func orders(t testing.TB) (a *archive.Archive, live, archived *mongo.Collection) {
	t.Helper()
	db := mongotest.Database(t)
	live, archived = db.Collection("orders"), db.Collection("orders_archive")
	a = open(t, live, archived, &archive.Options{TimeField: "at"})
	testkit.OK(t, a.EnsureIndexes(t.Context()))
	return a, live, archived
}

// stored returns the documents of a collection in the order of _id, without the mark.
func stored(t testing.TB, coll *mongo.Collection) []bson.Raw {
	t.Helper()
	return read(t.Context(), t, coll, all)
}

func read(ctx context.Context, t testing.TB, coll *mongo.Collection, filter any) (docs []bson.Raw) {
	t.Helper()
	c, err := coll.Find(ctx, filter, options.Find().SetSort(d("_id", 1)).SetProjection(d("archived_at", 0)))
	testkit.OK(t, err)
	testkit.OK(t, c.All(ctx, &docs))
	return docs
}

// ids returns the _ids of a collection, in order.
func ids(t testing.TB, coll *mongo.Collection) []any {
	t.Helper()
	out := []any{}
	for _, doc := range stored(t, coll) {
		var v struct {
			ID any `bson:"_id"`
		}
		testkit.OK(t, bson.Unmarshal(doc, &v))
		out = append(out, v.ID)
	}
	return out
}

func same(t testing.TB, want, got any) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // cmp takes minutes for a large document
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// done wants a result that has only Examined and Done.
func done(t testing.TB, want int64) func(mongopatterns.Result, error) {
	t.Helper()
	return func(result mongopatterns.Result, err error) {
		t.Helper()
		result.Examined, result.Conflicts = 0, 0
		if err != nil {
			t.Fatal(err)
		}
		same(t, mongopatterns.Result{Done: want}, result)
	}
}
