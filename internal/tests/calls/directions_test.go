package calls_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/subset"
)

// A sort of the caller has the directions 1 and -1, of any type of number, and every New refuses others.
func TestDirections(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	news := map[string]func(sort bson.D) error{
		"paging": func(sort bson.D) error {
			return testkit.ErrorOf(paging.New[bson.D](c, sort, nil))
		},
		"relation": func(sort bson.D) error {
			return testkit.ErrorOf(relation.New[int, int, bson.D](c, d, &relation.Options{OwnerField: "owner", Sort: sort}))
		},
		"subset": func(sort bson.D) error {
			return testkit.ErrorOf(subset.New[int, bson.D](c, d, &subset.Options{ParentField: "p", N: 2, Sort: sort}))
		},
	}
	for name, open := range news {
		for _, good := range []any{1, -1, int32(1), int64(-1), 1.0} {
			testkit.OK(t, open(testkit.D("at", good)))
		}
		for _, bad := range []any{0, 2, int32(-2), 0.5, true, nil, "text", testkit.D("$meta", "textScore")} {
			err := open(testkit.D("at", bad))
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `the direction of "at" must be 1 or -1`) {
				t.Errorf("%s, %v: %v", name, bad, err)
			}
		}
	}
}
