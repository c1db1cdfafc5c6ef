package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A long result is read in batches; leaving the loop closes the cursor, and a
// cancelled context is the last error.
func TestIteratorsEnd(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Minute), full())
	s := newSlots[string, event](t, db.Collection("s"), timeseries.Every(time.Minute), &slots.Options{Levels: []time.Duration{time.Second}})
	var events []event
	var all []slots.Slot[event]
	for i := range 150 { // more than a first batch of 101
		e := event{ID: fmt.Sprint(i), Timestamp: at(0, i, 0), V: 1}
		events = append(events, e)
		all = append(all, slots.Slot[event]{Time: e.Timestamp, Value: e})
	}
	must(t, second(b.AppendMany(t.Context(), timeseries.Of("s", events...), nil)))
	must(t, second(s.SetMany(t.Context(), timeseries.Of("s", all...), nil)))
	must(t, second(coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "agg.sum", Value: ""}}}})))
	var none time.Time
	for name, open := range map[string]func(ctx context.Context) iter.Seq[error]{
		"Range":            func(ctx context.Context) iter.Seq[error] { return errs(b.Range(ctx, "s", none, none)) },
		"AggregateWindows": func(ctx context.Context) iter.Seq[error] { return errs(b.AggregateWindows(ctx, "s", none, none)) },
		"Check": func(ctx context.Context) iter.Seq[error] {
			return errs(b.Check(ctx, &mongopatterns.Work{BatchSize: 50}))
		},
		"Slots.Range": func(ctx context.Context) iter.Seq[error] { return errs(s.Range(ctx, "s", none, none)) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			cmds := mongotest.Record(t, db, func() {
				for err := range open(t.Context()) {
					must(t, err)
					seen++
				}
			})
			if seen != 150 || len(cmds.Named("getMore")) == 0 {
				t.Errorf("%d results by %v", seen, cmds.Names())
			}
			cmds = mongotest.Record(t, db, func() {
				for range open(t.Context()) {
					break
				}
			})
			diff(t, 1, len(cmds.Named("killCursors")))
			// Cancelled on the way, and before: one error, then the end.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 2 {
				var last error
				seen = 0
				for last = range open(ctx) {
					if seen++; seen == 5 {
						cancel()
					}
				}
				if !errors.Is(last, context.Canceled) || !strings.Contains(last.Error(), ": range: ") && !strings.HasPrefix(last.Error(), "bucket: ") || seen >= 150 {
					t.Errorf("cancelled: %v after %d", last, seen)
				}
			}
			diff(t, 1, seen)
		})
	}
}

// errs are the errors of a sequence, nil for its values; after an error it must end.
func errs[T any](seq iter.Seq2[T, error]) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, err := range seq {
			if !yield(err) {
				return
			}
		}
	}
}

// Every method with I/O wraps the driver's error and names itself.
func TestErrorsAreWrapped(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll := db.Collection("c")
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), full())
	s := newSlots[string, event](t, db.Collection("s"), timeseries.Days(nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := event{ID: "1", Timestamp: at(1, 0, 0), V: 1}
	var none time.Time
	for name, err := range map[string]error{
		"EnsureIndexes":     b.EnsureIndexes(ctx),
		"Append":            second(b.Append(ctx, "s", e)),
		"AppendMany":        second(b.AppendMany(ctx, timeseries.Of("s", e), nil)),
		"Aggregate":         second(b.Aggregate(ctx, "s", none, none)),
		"Latest":            second(b.Latest(ctx, "s")),
		"Replace":           b.Update(ctx, "s", e),
		"Delete":            b.Delete(ctx, "s", day),
		"DeleteByID":        b.DeleteByID(ctx, "s", day, "x"),
		"Repair":            second(b.Repair(ctx, nil)),
		"Archive":           second(b.Archive(ctx, day, db.Collection("a"), nil)),
		"Adopt":             second(b.Adopt(ctx, db.Collection("src"), nil, nil)),
		"Slots.Set":         s.Set(ctx, "s", day, e),
		"Slots.SetMany":     second(s.SetMany(ctx, timeseries.Of("s", slots.Slot[event]{Time: day, Value: e}), nil)),
		"Slots.Get":         second(s.Get(ctx, "s", day)),
		"Slots.Delete":      s.Delete(ctx, "s", day),
		"Slots.Latest":      second(s.Latest(ctx, "s")),
		"Slots.Archive":     second(s.Archive(ctx, day, db.Collection("a"), nil)),
		"Slots.EnsureIndex": s.EnsureIndexes(ctx),
	} {
		if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "bucket: ") && !(strings.HasPrefix(name, "Slots") && strings.HasPrefix(err.Error(), "slots: ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conflicting := db.Collection("conflicting")
	index := b.Indexes()["c"][0]
	index.Options = uniqueOption()
	must(t, second(conflicting.Indexes().CreateOne(t.Context(), index)))
	c, err := bucket.New[string, event](conflicting, timeseries.Every(time.Hour), nil)
	must(t, err)
	fails(t, mongopatterns.ErrIndexConflict, c.EnsureIndexes(t.Context()))
}

func second[T any](_ T, err error) error { return err }

func mustNew[S, M any](t testing.TB, w timeseries.Window, o *bucket.Options) *bucket.Buckets[S, M] {
	t.Helper()
	b, err := bucket.New[S, M](offline(t), w, o)
	must(t, err)
	return b
}

func TestIndexesAndShardKey(t *testing.T) {
	b := mustNew[string, event](t, timeseries.Every(time.Hour), full())
	var keys []bson.D
	for _, model := range b.Indexes()["c"] {
		keys = append(keys, model.Keys.(bson.D))
	}
	diff(t, []bson.D{
		{{Key: "series", Value: 1}, {Key: "start", Value: 1}},
		{{Key: "series", Value: 1}, {Key: "start", Value: 1}, {Key: "measurements.id", Value: 1}},
	}, keys)
	diff(t, map[string]bson.D{"c": {{Key: "series", Value: 1}, {Key: "start", Value: 1}}}, b.ShardKey())
	if first, second := b.Indexes()["c"][1].Options, b.Indexes()["c"][1].Options; first == second {
		t.Error("the same options twice")
	}
	s, err := slots.New[int, event](offline(t), timeseries.Days(nil), nil)
	must(t, err)
	diff(t, bson.D{{Key: "series", Value: int32(5)}, {Key: "start", Value: bson.D{{Key: "$gte", Value: bson.NewDateTimeFromTime(day)}, {Key: "$lt", Value: bson.NewDateTimeFromTime(at(3, 0, 0))}}}},
		plainValues(s.Filter(5, at(1, 0, 0), at(3, 0, 0))))
}

// plainValues decodes raw values, to compare.
func plainValues(doc bson.D) bson.D {
	for i, e := range doc {
		if raw, ok := e.Value.(bson.RawValue); ok {
			var v any
			if err := raw.Unmarshal(&v); err == nil {
				doc[i].Value = v
			}
		}
	}
	return doc
}

// celsius is stored as text by the user's own codec.
type celsius float64

type coded struct {
	Timestamp time.Time `bson:"timestamp"`
	T         celsius   `bson:"t"`
}

// The user's registry encodes, and the client's decodes.
func TestRegistries(t *testing.T) {
	t.Parallel()
	registry := bson.NewRegistry()
	kind := reflect.TypeFor[celsius]()
	registry.RegisterTypeEncoder(kind, bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteInt64(int64(v.Float() * 10))
	}))
	registry.RegisterTypeDecoder(kind, bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		n, err := r.ReadInt64()
		v.SetFloat(float64(n) / 10)
		return err
	}))
	db := mongotest.Database(t, options.Client().SetRegistry(registry))
	b := newBuckets[string, coded](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{
		Registry: registry, Values: []timeseries.Value{{Field: "t", Sum: "sum"}},
	})
	mustAppend(t, b, "s", coded{at(1, 0, 0), 21.5}, coded{at(1, 1, 0), 22})
	diff(t, []coded{{at(1, 0, 0), 21.5}, {at(1, 1, 0), 22}}, collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	if latest, err := b.Latest(t.Context(), "s"); err != nil || latest.T != 22 {
		t.Errorf("%v, %v", latest, err)
	}
	if docs := stored(t, db.Collection("c")); docs[0]["sum"] != int64(435) {
		t.Errorf("%v", docs[0])
	}
	slots := newSlots[string, celsius](t, db.Collection("s"), timeseries.Days(nil), &slots.Options{Registry: registry})
	must(t, slots.Set(t.Context(), "s", at(1, 0, 0), 19.5))
	gives(t, celsius(19.5))(slots.Get(t.Context(), "s", at(1, 0, 0)))
	if got := collect(t, slots.Range(t.Context(), "s", at(1, 0, 0), at(2, 0, 0))); len(got) != 1 || got[0].Value != 19.5 {
		t.Errorf("%v", got)
	}
}

func TestNumberOfNothing(t *testing.T) {
	var n timeseries.Number
	if !n.IsZero() || n.String() != "" || !math.IsNaN(n.Float64()) || n.Raw().Type != 0 {
		t.Errorf("%v", n)
	}
	var v timeseries.ValueStats
	if !math.IsNaN(v.Mean()) || !math.IsNaN(v.Variance()) {
		t.Errorf("%v %v", v.Mean(), v.Variance())
	}
}

func newSlots[S, M any](t testing.TB, coll *mongo.Collection, w timeseries.Window, o *slots.Options) *slots.Slots[S, M] {
	t.Helper()
	s, err := slots.New[S, M](coll, w, o)
	must(t, err)
	must(t, s.EnsureIndexes(t.Context()))
	return s
}

func offline(t testing.TB) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	must(t, err)
	t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
	return client.Database("unused").Collection("c")
}
