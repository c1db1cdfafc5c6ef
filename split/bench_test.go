package split_test

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

// BenchmarkMovieList reads a list of 100 films: the hot side of a split, and whole
// documents with a projection.
func BenchmarkMovieList(b *testing.B) {
	db := mongotest.Database(b)
	s := newSplit[int, bson.D, bson.D](b, db, &split.Options{ColdFields: []string{"plot", "fullplot"}})
	for i := range 100 {
		film := d("_id", i, "title", "t", "year", 1896, "plot", strings.Repeat("x", 300), "fullplot", strings.Repeat("x", 3000))
		testkit.Insert(b, db.Collection("whole"), film)
		testkit.Insert(b, db.Collection("movies"), film)
	}
	_, err := s.Adopt(b.Context(), nil)
	must(b, err)
	var split, whole time.Duration
	read := func(coll string, projection bson.D) time.Duration {
		start := time.Now()
		cursor, err := db.Collection(coll).Find(b.Context(), d(), options.Find().SetSort(d("_id", 1)).SetProjection(projection))
		must(b, err)
		var docs []bson.Raw
		must(b, cursor.All(b.Context(), &docs))
		return time.Since(start)
	}
	for b.Loop() {
		split += read("movies", d())
		whole += read("whole", d("title", 1, "year", 1))
	}
	b.ReportMetric(float64(whole)/float64(split), "whole/split")
}
