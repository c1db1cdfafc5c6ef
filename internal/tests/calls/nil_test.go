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
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
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

// The calls that take an update refuse one that says nothing, before they send it.
func TestUpdatesThatSayNothing(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), testkit.Offline(t)
	versions := testkit.Must(schemaversion.New[bson.D](db.Collection("c"), nil, nil))
	source := testkit.Must(extref.New[int, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil))
	halves := testkit.Must(split.New[int, bson.D, bson.D](db.Collection("c"), db.Collection("d"), &split.Options{ColdFields: []string{"x"}}))
	items := testkit.Must(subset.New[int, bson.D](db.Collection("c"), db.Collection("d"), nil))
	for name, call := range map[string]func(update any) error{
		"extref.Source.Update":     func(update any) error { return testkit.ErrorOf(source.Update(ctx, 1, update)) },
		"schemaversion.Update":     func(update any) error { return versions.Update(ctx, 1, update) },
		"split.Split.Update, hot":  func(update any) error { return halves.Update(ctx, 1, update, nil) },
		"split.Split.Update, cold": func(update any) error { return halves.Update(ctx, 1, nil, update) },
		"subset.Subset.Update":     func(update any) error { return items.Update(ctx, 1, 2, update) },
	} {
		for _, row := range []struct {
			update any
			want   string
		}{
			{(*bson.D)(nil), "the update is nil"}, {(*bson.M)(nil), "the update is nil"}, {bson.D{}, "the update is empty"}, {bson.D(nil), "the update is empty"},
			{bson.M{}, "the update is empty"}, {&bson.D{}, "the update is empty"}, {&bson.D{{Key: "n", Value: 1}}, "fields without an operator such as $set"},
			{bson.M{"$set": bson.M{"a": 1}, "$unset": bson.M{"b": 1}, "$inc": bson.M{"c": 1}, "n": 1}, "fields without an operator such as $set"},
			{map[string]any{}, "the update is empty"},
		} {
			if err := call(row.update); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s with %T(%v): %v", name, row.update, row.update, err)
			}
		}
	}
}
