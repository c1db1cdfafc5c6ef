package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// The server replaces an empty timestamp at the top of a document that is inserted or replaced. A call that computes or
// moves the document stores it as it is, or refuses it.
func TestEmptyTimestamp(t *testing.T) {
	var empty bson.Timestamp
	m := testkit.D("timestamp", moment, "v", 1)
	failed := func(result mongopatterns.Result, err error) error {
		if err == nil && result.Failed > 0 {
			err = result.Failures[0].Err
		}
		return err
	}
	mark := func(ctx context.Context, coll *mongo.Collection) error { // by an operator, which stores it as it is
		return testkit.ErrorOf(coll.UpdateMany(ctx, bson.D{}, testkit.D("$set", testkit.D("ts", empty))))
	}
	versions := func(c, d *mongo.Collection) *versioning.History[int, bson.D] {
		return testkit.Must(versioning.New[int, bson.D](c, d, nil))
	}
	add := func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "ts", Value: empty}); return nil }
	later := moment.AddDate(1, 0, 0)
	for name, call := range map[string]func(ctx context.Context, c, d *mongo.Collection) error{
		"bucket.Append": func(ctx context.Context, c, _ *mongo.Collection) error {
			o := &bucket.Options{Metadata: func(any, time.Time) bson.D { return testkit.D("ts", empty) }}
			return testkit.ErrorOf(testkit.Must(bucket.New[int, bson.D](c, hourly, o)).Append(ctx, 1, m))
		},
		"bucket.Archive": func(ctx context.Context, c, d *mongo.Collection) error {
			b := testkit.Must(bucket.New[int, bson.D](c, hourly, nil))
			return errors.Join(testkit.ErrorOf(b.Append(ctx, 1, m)), mark(ctx, c), failed(b.Archive(ctx, later, d, nil)))
		},
		"series.Archive": func(ctx context.Context, c, d *mongo.Collection) error {
			s := testkit.Must(series.New[int, bson.D](c, hourly, nil))
			return errors.Join(s.Append(ctx, 1, m), mark(ctx, c), failed(s.Archive(ctx, later, d, nil)))
		},
		"slots.Set": func(ctx context.Context, c, _ *mongo.Collection) error {
			o := &slots.Options{Metadata: func(any, time.Time) bson.D { return testkit.D("ts", empty) }}
			return testkit.Must(slots.New[int, bson.D](c, timeseries.Days(nil), o)).Set(ctx, 1, moment, m)
		},
		"slots.Archive": func(ctx context.Context, c, d *mongo.Collection) error {
			s := testkit.Must(slots.New[int, bson.D](c, timeseries.Days(nil), nil))
			return errors.Join(s.Set(ctx, 1, moment, m), mark(ctx, c), failed(s.Archive(ctx, later, d, nil)))
		},
		"slots.Adopt": func(ctx context.Context, c, _ *mongo.Collection) error {
			s := testkit.Must(slots.New[int, bson.D](c, timeseries.Days(nil), nil))
			return errors.Join(testkit.ErrorOf(c.InsertOne(ctx, testkit.D("series", 1, "start", "2020-01-01", "data", testkit.D("1", testkit.D("1", 1))))),
				mark(ctx, c), failed(s.Adopt(ctx, nil, nil)))
		},
		"relation.Extract": func(ctx context.Context, c, d *mongo.Collection) error {
			r := testkit.Must(relation.New[int, int, bson.D](c, d, &relation.Options{ChildrenField: "children"}))
			return errors.Join(testkit.ErrorOf(c.InsertOne(ctx, testkit.D("_id", 1, "children", bson.A{testkit.D("_id", 2, "ts", empty)}))), failed(r.Extract(ctx, nil)))
		},
		"versioning.Insert": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(versions(c, d).Insert(ctx, testkit.D("_id", 1, "ts", empty), versioning.Change{}))
		},
		"versioning.Insert, made _id": func(ctx context.Context, c, d *mongo.Collection) error {
			h := testkit.Must(versioning.New[bson.ObjectID, bson.D](c, d, nil))
			return testkit.ErrorOf(h.Insert(ctx, testkit.D("ts", empty), versioning.Change{}))
		},
		"versioning.Edit": func(ctx context.Context, c, d *mongo.Collection) error {
			h := versions(c, d)
			return errors.Join(testkit.ErrorOf(h.Insert(ctx, testkit.D("_id", 1), versioning.Change{})), testkit.ErrorOf(h.Edit(ctx, 1, add, versioning.Change{})))
		},
		"versioning.SaveMany": func(ctx context.Context, c, d *mongo.Collection) error {
			h := versions(c, d)
			r := testkit.Must(h.Insert(ctx, testkit.D("_id", 1), versioning.Change{}))
			all := func(yield func(*versioning.Revision[bson.D], error) bool) { yield(&r, nil) }
			return errors.Join(add(&r.Document), failed(h.SaveMany(ctx, all, versioning.Change{}, nil)))
		},
		"versioning.Restore": func(ctx context.Context, c, d *mongo.Collection) error {
			h := versions(c, d)
			return errors.Join(testkit.ErrorOf(h.Insert(ctx, testkit.D("_id", 1), versioning.Change{})), mark(ctx, c), h.Delete(ctx, 1, 1, versioning.Change{}),
				testkit.ErrorOf(h.Restore(ctx, 1, 1, versioning.Change{})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			c, d := db.Collection("c"), db.Collection("d")
			err := call(t.Context(), c, d)
			if errors.Is(err, mongopatterns.ErrInvalid) || errors.Is(err, mongopatterns.ErrMalformed) {
				t.Log(err)
				return
			}
			testkit.OK(t, err)
			kept := testkit.D("$or", bson.A{testkit.D("ts", empty), testkit.D("children.ts", empty)})
			if n := testkit.Count(t, c, kept) + testkit.Count(t, d, kept); n != 1 {
				t.Errorf("%d documents have the timestamp: %v %v", n, testkit.Stored[bson.D](t, c), testkit.Stored[bson.D](t, d))
			}
		})
	}
}
