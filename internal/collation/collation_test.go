package collation_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/collation"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// A default collation is refused, whichever of the collections has it, in a transaction
// too; the simple one, no collection and no collation are not.
func TestRefuse(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for name, locale := range map[string]string{"plain": "", "simple": "simple", "german": "de"} {
		opts := options.CreateCollection()
		if locale != "" {
			opts.SetCollation(&options.Collation{Locale: locale, Strength: 2})
		}
		if err := db.CreateCollection(t.Context(), name, opts); err != nil {
			t.Fatal(err)
		}
	}
	for names, refused := range map[string]bool{
		"": false, "plain": false, "simple": false, "missing": false, "missing plain simple": false,
		"german": true, "plain german": true, "german plain": true,
	} {
		var colls []*mongo.Collection
		for _, name := range strings.Fields(names) {
			colls = append(colls, db.Collection(name))
		}
		check := func(ctx context.Context) error {
			err := collation.Refuse(ctx, colls...)
			if refused != errors.Is(err, mongopatterns.ErrInvalid) || !refused && err != nil ||
				refused && !strings.Contains(err.Error(), `"german" has the default collation "de"`) {
				t.Errorf("%q: %v", names, err)
			}
			var seq iter.Seq2[int, error] = func(yield func(int, error) bool) { yield(7, nil) }
			for n, err := range collation.Seq(ctx, seq, colls...) {
				if refused != errors.Is(err, mongopatterns.ErrInvalid) || refused != (n == 0) {
					t.Errorf("%q: yields %d, %v", names, n, err)
				}
			}
			return nil
		}
		if err := check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := mongopatterns.Transact(t.Context(), db.Client(), check); err != nil {
			t.Error(err)
		}
	}
}
