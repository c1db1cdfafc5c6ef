package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// holder is a struct with a map inside, whose order the struct does not show.
type holder struct{ Inner any }

// owned is a document with any _id.
type owned struct {
	ID any `bson:"_id"`
}

// tagged is a measurement with any other fields.
type tagged struct {
	At     time.Time      `bson:"at"`
	Others map[string]any `bson:",inline"`
}

// loose is a document whose _id is in an inline map, and listed one in a list of elements.
type (
	loose struct {
		Others map[string]any `bson:",inline"`
	}
	listed []bson.E
)

// Go maps have no order, and documents are compared field by field. A map of several fields is refused wherever a value
// is compared with stored ones: a type of maps by New, another by the call, before it sends anything.
func TestMapsHaveNoOrder(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m := bson.D{{Key: "at", Value: at}}
	c := func(db *mongo.Database) (*mongo.Collection, *mongo.Collection) {
		return db.Collection("c"), db.Collection("d")
	}
	owner := &relation.Options{OwnerField: "owner"}
	cold := &split.Options{ColdFields: []string{"x"}}
	types := map[string]func(db *mongo.Database) error{
		"approx": func(db *mongo.Database) error { return testkit.ErrorOf(approx.New[bson.M](db.Collection("c"), nil)) },
		"sampled": func(db *mongo.Database) error {
			return testkit.ErrorOf(approx.NewSampled[bson.M](db.Collection("c"), nil))
		},
		"distinct": func(db *mongo.Database) error {
			return testkit.ErrorOf(approx.NewDistinct[int, bson.M](db.Collection("c"), nil))
		},
		"attribute": func(db *mongo.Database) error {
			return testkit.ErrorOf(attribute.New[int, bson.M](db.Collection("c"), nil))
		},
		"bucket": func(db *mongo.Database) error {
			return testkit.ErrorOf(bucket.New[bson.M, bson.D](db.Collection("c"), hourly, nil))
		},
		"bucket, any": func(db *mongo.Database) error {
			return testkit.ErrorOf(bucket.New[[]map[string]int, bson.D](db.Collection("c"), hourly, nil))
		},
		"series": func(db *mongo.Database) error {
			return testkit.ErrorOf(series.New[bson.M, bson.D](db.Collection("c"), hourly, nil))
		},
		"series, batches": func(db *mongo.Database) error {
			return testkit.ErrorOf(series.New[int, bson.M](db.Collection("c"), hourly, &series.Options{BatchField: "batches"}))
		},
		"slots": func(db *mongo.Database) error {
			return testkit.ErrorOf(slots.New[bson.M, bson.D](db.Collection("c"), timeseries.Days(nil), nil))
		},
		"computed": func(db *mongo.Database) error {
			return testkit.ErrorOf(computed.New[int, bson.M, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil))
		},
		"computed, Empty": func(db *mongo.Database) error {
			return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", bson.M{"a": 1, "b": 2})}, nil))
		},
		"computed, Pipeline": func(db *mongo.Database) error {
			sorted := append(mongo.Pipeline{testkit.D("$sort", bson.M{"a": 1, "b": -1})}, perFilm...)
			return testkit.ErrorOf(computed.New[int, int, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: sorted, Empty: testkit.D("n", 0)}, nil))
		},
		"extref": func(db *mongo.Database) error {
			return testkit.ErrorOf(extref.New[bson.M, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil))
		},
		"outlier": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(outlier.New[bson.M, string](a, b, nil))
		},
		"outlier, set": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(outlier.New[int, bson.M](a, b, &outlier.Options{Set: true}))
		},
		"prealloc": func(db *mongo.Database) error {
			return testkit.ErrorOf(prealloc.New[int, bson.M](db.Collection("c"), nil))
		},
		"relation": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(relation.New[bson.M, int, bson.D](a, b, owner))
		},
		"split": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(split.New[bson.M, bson.D, bson.D](a, b, cold))
		},
		"subset": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(subset.New[bson.M, bson.D](a, b, nil))
		},
		"subset, Filter": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(subset.New[int, bson.D](a, b, &subset.Options{Filter: bson.M{"x": bson.M{"a": 1, "b": 2}}}))
		},
		"tree": func(db *mongo.Database) error {
			return testkit.ErrorOf(tree.New[bson.M, bson.D](db.Collection("c"), tree.AncestorArray, nil))
		},
		"versioning": func(db *mongo.Database) error {
			a, b := c(db)
			return testkit.ErrorOf(versioning.New[bson.M, bson.D](a, b, nil))
		},
	}
	for name, call := range types {
		t.Run("type/"+name, func(t *testing.T) {
			testkit.Is(t, call(mongotest.Database(t)), mongopatterns.ErrInvalid)
		})
	}
	calls := map[string]func(ctx context.Context, db *mongo.Database, v any) error{
		"approx.Add": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(approx.New[any](db.Collection("c"), nil)).Add(ctx, v, 1)
		},
		"approx.Get": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(approx.New[any](db.Collection("c"), nil)).Get(ctx, v))
		},
		"Distinct.Add": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(approx.NewDistinct[int, any](db.Collection("c"), nil)).Add(ctx, 1, v)
		},
		"approx.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, testkit.Must(approx.New[any](db.Collection("c"), nil)).Filter(v)))
		},
		"attribute.Set": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(attribute.New[int, any](db.Collection("c"), nil)).Set(ctx, 1, attribute.Named("k"), v)
		},
		"attribute.Set by ID": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(attribute.New[any, any](db.Collection("c"), nil)).Set(ctx, v, attribute.Named("k"), 1)
		},
		"attribute.Equals": func(ctx context.Context, db *mongo.Database, v any) error {
			a := testkit.Must(attribute.New[int, any](db.Collection("c"), nil))
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, a.Filter(a.Equals(attribute.Named("k"), v))))
		},
		"attribute.In": func(ctx context.Context, db *mongo.Database, v any) error {
			a := testkit.Must(attribute.New[int, any](db.Collection("c"), nil))
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, a.Filter(a.In(attribute.Named("k"), []any{v}))))
		},
		"attribute.Range": func(ctx context.Context, db *mongo.Database, v any) error {
			a := testkit.Must(attribute.New[int, any](db.Collection("c"), nil))
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, a.Filter(a.Range(attribute.Named("k"), 1, v))))
		},
		"bucket.Append": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(bucket.New[any, bson.D](db.Collection("c"), hourly, nil)).Append(ctx, v, m))
		},
		"bucket.Append, ID": func(ctx context.Context, db *mongo.Database, v any) error {
			b := testkit.Must(bucket.New[int, bson.D](db.Collection("c"), hourly, &bucket.Options{IDField: "id"}))
			return testkit.ErrorOf(b.Append(ctx, 1, append(m, bson.E{Key: "id", Value: v})))
		},
		"bucket.Aggregate": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(bucket.New[any, bson.D](db.Collection("c"), hourly, nil)).Aggregate(ctx, v, at, at.Add(1)))
		},
		"bucket.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			b := testkit.Must(bucket.New[any, bson.D](db.Collection("c"), hourly, nil))
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, b.Filter(v, at, at.Add(1))))
		},
		"bucket.Append, ID among other fields": func(ctx context.Context, db *mongo.Database, v any) error {
			b := testkit.Must(bucket.New[int, tagged](db.Collection("c"), hourly, &bucket.Options{TimeField: "at", IDField: "id"}))
			return testkit.ErrorOf(b.Append(ctx, 1, tagged{at, map[string]any{"id": v}}))
		},
		"series.Append": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(series.New[any, bson.D](db.Collection("c"), hourly, nil)).Append(ctx, v, m)
		},
		"series.Append, batch": func(ctx context.Context, db *mongo.Database, v any) error {
			s := testkit.Must(series.New[int, bson.D](db.Collection("c"), hourly, &series.Options{TimeField: "at", BatchField: "batches"}))
			return s.Append(ctx, 1, append(m, bson.E{Key: "tags", Value: v}))
		},
		"bucket.Append, ID, inline": func(ctx context.Context, db *mongo.Database, v any) error {
			b := testkit.Must(bucket.New[int, loose](db.Collection("c"), hourly, &bucket.Options{IDField: "id.x"}))
			return testkit.ErrorOf(b.Append(ctx, 1, loose{bson.M{"at": at, "id": listed{{Key: "x", Value: v}}}}))
		},
		"slots.Set": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(slots.New[any, bson.D](db.Collection("c"), timeseries.Days(nil), nil)).Set(ctx, v, at, m)
		},
		"computed.Get": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(computed.New[int, any, bson.D](db.Collection("c"), db.Collection("d"), computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, nil)).Get(ctx, v, 0))
		},
		"extref.Pin": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(extref.New[any, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil)).Pin(ctx, "orders.customer", v))
		},
		"extref.Copy": func(_ context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(extref.New[any, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil)).Copy("orders.customer", testkit.D("_id", v, "name", "x")))
		},
		"extref.Copy, followed": func(_ context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(extref.New[any, bson.D](db.Collection("c"), customer(db, "customer", "name"), nil)).Copy("orders.customer", testkit.D("_id", 1, "name", v)))
		},
		"extref.Copy, inline": func(_ context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(extref.New[any, loose](db.Collection("c"), customer(db, "customer", "name"), nil)).Copy("orders.customer", loose{bson.M{"_id": v, "name": "x"}}))
		},
		"outlier.Add": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(outlier.New[any, string](a, b, nil)).Add(ctx, v, "x"))
		},
		"outlier.Add, set": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(outlier.New[int, any](a, b, &outlier.Options{Set: true})).Add(ctx, 1, v))
		},
		"outlier.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(a.CountDocuments(ctx, testkit.Must(outlier.New[any, string](a, b, nil)).Filter(v)))
		},
		"outlier.OverflowFilter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(b.CountDocuments(ctx, testkit.Must(outlier.New[any, string](a, b, nil)).OverflowFilter(v)))
		},
		"outlier.Remove": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(outlier.New[int, any](a, b, nil)).Remove(ctx, 1, v))
		},
		"paging.Token": func(_ context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(paging.New[bson.D](db.Collection("c"), nil, nil)).Token(nil, testkit.D("_id", v)))
		},
		"paging.Token, inline": func(_ context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(paging.New[loose](db.Collection("c"), nil, nil)).Token(nil, loose{bson.M{"_id": v}}))
		},
		"prealloc.Claim": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(prealloc.New[int, any](db.Collection("c"), nil)).Claim(ctx, 1, v, prealloc.At("A", "1"))
		},
		"prealloc.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, testkit.Must(prealloc.New[any, int](db.Collection("c"), nil)).Filter(v)))
		},
		"relation.ChildrenFilter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(b.CountDocuments(ctx, testkit.Must(relation.New[any, int, bson.D](a, b, owner)).ChildrenFilter(v)))
		},
		"relation.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(relation.New[any, int, bson.D](a, b, owner)).Insert(ctx, v, testkit.D("_id", 1)))
		},
		"relation.Insert, child": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(relation.New[int, any, owned](a, b, owner)).Insert(ctx, 1, owned{v}))
		},
		"relation.Insert, child, inline": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(relation.New[int, any, loose](a, b, owner)).Insert(ctx, 1, loose{bson.M{"_id": v}}))
		},
		"schemaversion.Insert, inline": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(schemaversion.New[*loose](db.Collection("c"), nil, nil)).Insert(ctx, &loose{bson.M{"_id": v}}))
		},
		"schemaversion.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(schemaversion.New[*owned](db.Collection("c"), nil, nil)).Insert(ctx, &owned{v}))
		},
		"schemaversion.Get": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.ErrorOf(testkit.Must(schemaversion.New[*owned](db.Collection("c"), nil, nil)).Get(ctx, v))
		},
		"schemaversion.Update": func(ctx context.Context, db *mongo.Database, v any) error {
			return testkit.Must(schemaversion.New[*owned](db.Collection("c"), nil, nil)).Update(ctx, v, testkit.D("$set", testkit.D("x", 1)))
		},
		"split.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.Must(split.New[any, bson.D, bson.D](a, b, cold)).Insert(ctx, v, bson.D{}, bson.D{})
		},
		"split.HotFilter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(a.CountDocuments(ctx, testkit.Must(split.New[any, bson.D, bson.D](a, b, cold)).HotFilter(v)))
		},
		"subset.ItemsFilter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(b.CountDocuments(ctx, testkit.Must(subset.New[any, bson.D](a, b, nil)).ItemsFilter(v)))
		},
		"subset.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(subset.New[any, bson.D](a, b, nil)).Insert(ctx, v, bson.D{}))
		},
		"subset.Insert, item": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(subset.New[int, bson.M](a, b, nil)).Insert(ctx, 1, bson.M{"_id": v}))
		},
		"subset.Insert, item, listed": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(subset.New[int, listed](a, b, nil)).Insert(ctx, 1, listed{{Key: "_id", Value: v}}))
		},
		"subset.Insert, sorted": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			s := testkit.Must(subset.New[int, bson.D](a, b, &subset.Options{Sort: testkit.D("at.x", 1)}))
			return testkit.ErrorOf(s.Insert(ctx, 1, testkit.D("_id", 1, "at", bson.M{"x": v})))
		},
		"tree.Insert, inline": func(ctx context.Context, db *mongo.Database, v any) error {
			t := testkit.Must(tree.New[any, loose](db.Collection("c"), tree.AncestorArray, nil))
			return testkit.ErrorOf(t.Insert(ctx, loose{bson.M{"_id": v}}, t.AsRoot()))
		},
		"tree.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			t := testkit.Must(tree.New[any, owned](db.Collection("c"), tree.AncestorArray, nil))
			return testkit.ErrorOf(t.Insert(ctx, owned{v}, t.AsRoot()))
		},
		"tree.Under": func(ctx context.Context, db *mongo.Database, v any) error {
			t := testkit.Must(tree.New[any, owned](db.Collection("c"), tree.AncestorArray, nil))
			return testkit.ErrorOf(t.Insert(ctx, owned{1}, t.Under(v)))
		},
		"tree.Children": func(ctx context.Context, db *mongo.Database, v any) error {
			t := testkit.Must(tree.New[any, owned](db.Collection("c"), tree.AncestorArray, nil))
			return ended(t.Children(ctx, v))
		},
		"tree.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			t := testkit.Must(tree.New[any, owned](db.Collection("c"), tree.AncestorArray, nil))
			return testkit.ErrorOf(db.Collection("c").CountDocuments(ctx, t.Filter(v)))
		},
		"versioning.Insert": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(versioning.New[any, owned](a, b, nil)).Insert(ctx, owned{v}, versioning.Change{}))
		},
		"versioning.Insert, inline": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(versioning.New[any, loose](a, b, nil)).Insert(ctx, loose{bson.M{"_id": v}}, versioning.Change{}))
		},
		"versioning.Get": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(testkit.Must(versioning.New[any, owned](a, b, nil)).Get(ctx, v))
		},
		"versioning.Filter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(a.CountDocuments(ctx, testkit.Must(versioning.New[any, owned](a, b, nil)).Filter(v)))
		},
		"versioning.RevisionsFilter": func(ctx context.Context, db *mongo.Database, v any) error {
			a, b := c(db)
			return testkit.ErrorOf(b.CountDocuments(ctx, testkit.Must(versioning.New[any, owned](a, b, nil)).RevisionsFilter(v)))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			for shape, v := range map[string]any{
				"map":              bson.M{"device": 1, "metric": 2},
				"in a struct":      holder{map[string]int{"device": 1, "metric": 2}},
				"in a document":    bson.D{{Key: "a", Value: []any{&holder{bson.M{"device": 1, "metric": 2}}}}},
				"behind one field": bson.M{"a": bson.M{"device": 1, "metric": 2}},
			} {
				var err error
				sent := mongotest.Record(t, db, func() { err = call(t.Context(), db, v) })
				if !errors.Is(err, mongopatterns.ErrInvalid) || len(sent) > 0 {
					t.Errorf("%s: %v, sent %v", shape, err, sent.Names())
				}
			}
		})
	}
}

// sparse does not store a zero.
type sparse struct {
	ID   int       `bson:"_id"`
	At   time.Time `bson:"at"`
	Name int       `bson:"name,omitempty"`
	V    int64     `bson:"version"`
}

// dense stores a zero.
type dense struct {
	ID   int       `bson:"_id"`
	At   time.Time `bson:"at"`
	Name *int      `bson:"name,omitempty"`
	V    int64     `bson:"version"`
}

// priced does not store a zero either, because the driver asks IsZero of the decimal behind the pointer.
type priced struct {
	ID   int              `bson:"_id"`
	At   time.Time        `bson:"at"`
	Name *bson.Decimal128 `bson:"name,omitempty"`
	V    int64            `bson:"version"`
}

// A package that reads a field from the user's struct refuses one that does not store a zero there: a token would begin
// before all documents, a copy would lack the field, a mean of 0 and 10 would be 10.
func TestZerosThatAreNotStored(t *testing.T) {
	db := mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	name := []timeseries.Value{{Field: "name", Count: "names"}}
	rated := []subset.Value{{Field: "name", Sum: "sum"}}
	for call, errs := range map[string][3]error{
		"paging.Token": {
			testkit.ErrorOf(testkit.Must(paging.New[sparse](c, testkit.D("name", 1), nil)).Token(nil, sparse{})),
			testkit.ErrorOf(testkit.Must(paging.New[dense](c, testkit.D("name", 1), nil)).Token(nil, &dense{})),
			testkit.ErrorOf(testkit.Must(paging.New[priced](c, testkit.D("name", 1), nil)).Token(nil, priced{Name: new(bson.Decimal128)})),
		},
		"extref.Copy": {
			testkit.ErrorOf(testkit.Must(extref.New[int, sparse](c, customer(db, "customer", "name"), nil)).Copy("orders.customer", sparse{})),
			testkit.ErrorOf(testkit.Must(extref.New[int, dense](c, customer(db, "customer", "name"), nil)).Copy("orders.customer", dense{})),
			testkit.ErrorOf(testkit.Must(extref.New[int, priced](c, customer(db, "customer", "name"), nil)).Copy("orders.customer", priced{Name: new(bson.Decimal128)})),
		},
		"bucket.New": {
			testkit.ErrorOf(bucket.New[int, sparse](c, hourly, &bucket.Options{TimeField: "at", Values: name})),
			testkit.ErrorOf(bucket.New[int, dense](c, hourly, &bucket.Options{TimeField: "at", Values: name})),
			testkit.ErrorOf(bucket.New[int, priced](c, hourly, &bucket.Options{TimeField: "at", Values: name})),
		},
		"series.New": {
			testkit.ErrorOf(series.New[int, sparse](c, hourly, &series.Options{TimeField: "at", Values: name})),
			testkit.ErrorOf(series.New[int, dense](c, hourly, &series.Options{TimeField: "at", Values: name})),
			testkit.ErrorOf(series.New[int, priced](c, hourly, &series.Options{TimeField: "at", Values: name})),
		},
		"subset.New": {
			testkit.ErrorOf(subset.New[int, sparse](c, d, &subset.Options{Values: rated})),
			testkit.ErrorOf(subset.New[int, dense](c, d, &subset.Options{Values: rated})),
			testkit.ErrorOf(subset.New[int, priced](c, d, &subset.Options{Values: rated})),
		},
	} {
		if !errors.Is(errs[0], mongopatterns.ErrInvalid) || errs[1] != nil || !errors.Is(errs[2], mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v, with a pointer %v, to a decimal %v", call, errs[0], errs[1], errs[2])
		}
	}
}

// texts is a struct whose inline map holds only strings.
type texts struct {
	ID     int               `bson:"_id"`
	Others map[string]string `bson:",inline"`
}

// A type that could be written and then not read, because its inline map cannot hold what the package adds, is refused.
func TestInlineMapsOfOneType(t *testing.T) {
	db := mongotest.Database(t)
	c, d := db.Collection("c"), db.Collection("d")
	for name, err := range map[string]error{
		"relation":      testkit.ErrorOf(relation.New[int, int, texts](c, d, &relation.Options{OwnerField: "owner"})),
		"schemaversion": testkit.ErrorOf(schemaversion.New[texts](c, nil, nil)),
		"subset":        testkit.ErrorOf(subset.New[int, texts](c, d, nil)),
		"tree":          testkit.ErrorOf(tree.New[int, texts](c, tree.AncestorArray, nil)),
		"versioning":    testkit.ErrorOf(versioning.New[int, texts](c, d, nil)),
	} {
		if !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
