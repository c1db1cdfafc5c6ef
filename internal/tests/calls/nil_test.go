package calls_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/registry"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A call that takes a collection refuses nil, and sends nothing.
func TestNilCollections(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), testkit.Offline(t)
	b := testkit.Must(bucket.New[int, bson.D](db.Collection("c"), hourly, nil))
	s := testkit.Must(series.New[int, bson.D](db.Collection("c"), hourly, nil))
	slot := testkit.Must(slots.New[int, bson.D](db.Collection("c"), timeseries.Days(nil), nil))
	source := testkit.Must(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil))
	kinds := testkit.Must(polymorphic.New[any]([]polymorphic.Kind{polymorphic.Of[titled]("book")}, nil))
	calls := map[string]func() error{
		"bucket.Buckets.Adopt":   func() error { return testkit.ErrorOf(b.Adopt(ctx, nil, nil, nil)) },
		"bucket.Buckets.Compare": func() error { return testkit.Drain(b.Compare(ctx, nil, nil, nil)) },
		"bucket.Buckets.Archive": func() error { return testkit.ErrorOf(b.Archive(ctx, time.Now(), nil, nil)) },
		"series.Series.Adopt":    func() error { return testkit.ErrorOf(s.Adopt(ctx, nil, nil, nil)) },
		"series.Series.Compare":  func() error { return testkit.Drain(s.Compare(ctx, nil, nil, nil)) },
		"series.Series.Archive":  func() error { return testkit.ErrorOf(s.Archive(ctx, time.Now(), nil, nil)) },
		"slots.Slots.Archive":    func() error { return testkit.ErrorOf(slot.Archive(ctx, time.Now(), nil, nil)) },
		"extref.Source.Watch":    func() error { return source.Watch(ctx, nil, nil) },
		"polymorphic.Kinds.Find": func() error { return testkit.Drain(kinds.Find(ctx, nil, nil)) },
		"relation.Fetch":         func() error { return testkit.ErrorOf(relation.Fetch[int, bson.D](ctx, nil, []int{1}, nil)) },
	}
	for _, name := range registry.Taking(t, func(kind string) bool { return strings.HasSuffix(kind, "mongo.Collection") }) {
		call := calls[name]
		if call == nil {
			t.Errorf("%s takes a collection and has no row here", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Error(err)
			}
		})
	}
}
