package subset_test

import (
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// Values are stored as the user's registry encodes them.
func TestRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRegistry(testkit.Registry()))
	s := newSubset[testkit.Number, marked](t, db, &subset.Options{N: 1, Registry: testkit.Registry()})
	insert(t, db.Collection("parents"), d("_id", "#1"), d("_id", "#2"))
	for i := range 3 {
		id, err := s.Insert(t.Context(), 1, marked{ID: testkit.Number(i)})
		must(t, err)
		same(t, "_id", any("#"+strconv.Itoa(i)), id)
	}
	must(t, s.Update(t.Context(), 1, testkit.Number(0), d("$set", d("x", 1))))
	must(t, s.Update(t.Context(), 1, testkit.Number(1), d("$set", marked{ID: 1, Parent: 1})))
	must(t, move(t.Context(), db, s, 1, 2, testkit.Number(0)))
	must(t, s.Delete(t.Context(), 1, testkit.Number(2)))
	best, err := s.Top(t.Context(), 1)
	must(t, err)
	same(t, "best", []marked{{ID: 1, Parent: 1}}, best)
	same(t, "all", []marked{{ID: 0, Parent: 2}}, testkit.Collect(t, s.All(t.Context(), 2)))
	clean(t, db, s)
}

type marked struct {
	ID     testkit.Number `bson:"_id"`
	Parent testkit.Number `bson:"parent"`
}

// And as its BSON options say.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type tagged struct {
		ID   int      `json:"_id"`
		Tags []string `json:"tags"`
	}
	bsonOptions := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	db := mongotest.Database(t, options.Client().SetBSONOptions(bsonOptions))
	s := newSubset[int, tagged](t, db, &subset.Options{BSON: bsonOptions})
	insert(t, db.Collection("parents"), d("_id", 1))
	for i := range 12 {
		_, err := s.Insert(t.Context(), 1, tagged{ID: i})
		must(t, err)
	}
	_, err := s.InsertMany(t.Context(), seq(1, tagged{ID: 12}), nil)
	must(t, err)
	must(t, s.Delete(t.Context(), 1, 12))
	same(t, "stored", d("_id", int32(3), "parent", int32(1), "tags", bson.A{}), stored(t, db.Collection("items"))[3])
	best, err := s.Top(t.Context(), 1)
	must(t, err)
	same(t, "best", []any{10, tagged{11, []string{}}}, []any{len(best), best[0]})
	same(t, "all", tagged{11, []string{}}, testkit.Collect(t, s.All(t.Context(), 1))[0])
	clean(t, db, s)
}
