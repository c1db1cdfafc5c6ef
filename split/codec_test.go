package split_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/split"
)

// Values are stored as the user's registry and BSON options say; these also name the cold
// fields.
func TestCodec(t *testing.T) {
	t.Parallel()
	type hot struct {
		ID   testkit.Number `json:"_id"`
		Tags []string       `json:"tags"`
	}
	type cold struct {
		Part testkit.Number `json:"part"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetRegistry(testkit.Registry()).SetBSONOptions(bsonOptions))
	s := newSplit[testkit.Number, hot, cold](t, db, &split.Options{Registry: testkit.Registry(), BSON: bsonOptions})
	must(t, s.Insert(t.Context(), 7, hot{}, cold{2}))
	h, c, err := s.Get(t.Context(), 7)
	must(t, err)
	same(t, "both", []any{hot{7, []string{}}, cold{2}}, []any{h, c})
	same(t, "hot", []bson.D{d("_id", "#7", "tags", bson.A{})}, testkit.Stored[bson.D](t, db.Collection("movies")))
	same(t, "cold", []bson.D{d("_id", "#7", "part", "#2")}, testkit.Stored[bson.D](t, db.Collection("movie_details")))
	testkit.Insert(t, db.Collection("movies"), d("_id", "#8", "part", "#3", "tags", bson.A{}))
	result, err := s.Adopt(t.Context(), nil)
	must(t, err)
	same(t, "adopt", mongopatterns.Result{Examined: 2, Done: 1}, result)
	sound(t, db, s)
}
