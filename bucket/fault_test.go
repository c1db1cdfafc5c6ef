package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// seconds are n measurements, one a second from midnight on.
func seconds(n int) []event {
	out := make([]event, n)
	for i := range out {
		out[i] = event{ID: fmt.Sprint(i), Timestamp: at(0, 0, i), V: 1}
	}
	return out
}

// failUpdates has the server fail the next update commands of a database's clients
// with this application name.
func failUpdates(t *testing.T, app string, mode, data bson.D) {
	t.Helper()
	admin := mongotest.Database(t).Client().Database("admin")
	set := func(mode any) error {
		return admin.RunCommand(context.WithoutCancel(t.Context()), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode},
			{Key: "data", Value: append(bson.D{{Key: "failCommands", Value: bson.A{"update"}}, {Key: "appName", Value: app}}, data...)}}).Err()
	}
	if err := set(mode); err != nil {
		t.Skip("no fail points: ", err)
	}
	t.Cleanup(func() { _ = set("off") })
}

// What is stored, what is not and what is unknown stay apart when AppendMany ends
// with an error.
func TestAppendManyOutcomes(t *testing.T) {
	const app = "bucket-outcomes"
	db := mongotest.Database(t, options.Client().SetAppName(app).SetRetryWrites(false))
	stored := func(b *bucket.Buckets[string, event]) (n int64) {
		stats, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
		must(t, err)
		return stats.Count
	}
	work := &mongopatterns.Work{BatchSize: 1000}
	t.Run("lost", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("lost"), timeseries.Every(time.Minute), nil)
		failUpdates(t, app, bson.D{{Key: "skip", Value: 3}}, bson.D{{Key: "closeConnection", Value: true}})
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if !mongo.IsNetworkError(err) || result.Done != 3000 || result.Unknown != 1000 || result.Examined != 4000 || stored(b) != 3000 {
			t.Errorf("%+v, %v; stored %d", result, err, stored(b))
		}
	})
	t.Run("refused", func(t *testing.T) {
		must(t, db.CreateCollection(t.Context(), "refused", options.CreateCollection().SetValidator(
			bson.D{{Key: "start", Value: bson.D{{Key: "$ne", Value: at(0, 20, 0)}}}})))
		b := newBuckets[string, event](t, db.Collection("refused"), timeseries.Every(time.Minute), nil)
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(5000)...), work)
		if err == nil || result.Done != 1940 || result.Failed != 60 || result.Examined != 2000 || result.Unknown != 0 || stored(b) != 1940 {
			t.Errorf("%+v, %v; stored %d", result, err, stored(b))
		}
		if len(result.Failures) != 1 || result.Failures[0].ID.Document().Lookup("start").Time() != at(0, 20, 0).Local() {
			t.Errorf("%+v", result.Failures)
		}
	})
	t.Run("deadline before", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("before"), timeseries.Every(time.Minute), nil)
		ctx, cancel := context.WithCancel(t.Context())
		result, err := b.AppendMany(ctx, timeseries.Of("s", seconds(2500)...), &mongopatterns.Work{BatchSize: 1000, Progress: func(mongopatterns.Result) { cancel() }})
		if !errors.Is(err, context.Canceled) || result.Done != 1000 || result.Unknown != 0 || stored(b) != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("write concern", func(t *testing.T) {
		b := newBuckets[string, event](t, db.Collection("concern"), timeseries.Every(time.Minute), nil)
		failUpdates(t, app, bson.D{{Key: "times", Value: 1}}, bson.D{{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "timed out"}}}})
		result, err := b.AppendMany(t.Context(), timeseries.Of("s", seconds(2500)...), work)
		if err == nil || result.Done != 0 || result.Unknown != 1000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("slots", func(t *testing.T) {
		s := newSlots[string, int](t, db.Collection("slots"), timeseries.Every(time.Hour), &slots.Options{Levels: []time.Duration{time.Second}})
		failUpdates(t, app, bson.D{{Key: "skip", Value: 1}}, bson.D{{Key: "closeConnection", Value: true}})
		result, err := s.SetMany(t.Context(), func(yield func(string, slots.Slot[int]) bool) {
			for i := range 2500 {
				if !yield("s", slots.Slot[int]{Time: at(0, 0, i)}) {
					return
				}
			}
		}, work)
		if !mongo.IsNetworkError(err) || result.Done != 1000 || result.Unknown != 1000 || result.Examined != 2000 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// The variance of values around 1e9 with deviation 1 is right to 1e-9, in whatever
// order and by whatever call they come, stored or computed.
func TestVariance(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{
		MaxCount: 100, Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares"}},
	})
	random := rand.New(rand.NewPCG(1, 2))
	var events []event
	var mean, want float64
	for i := range 1000 {
		v := random.NormFloat64()
		events = append(events, event{Timestamp: at(i/60, i%60, 0), V: 1e9 + v})
		mean += (events[i].V - 1e9) / 1000
	}
	for _, e := range events {
		want += (e.V - 1e9 - mean) * (e.V - 1e9 - mean) / 1000
	}
	for i, e := range slices.Backward(events) {
		if i%5 == 0 {
			mustAppend(t, b, "s", e)
		}
	}
	for rest := range 4 {
		var part []event
		for i := 1 + rest; i < len(events); i += 5 {
			part = append(part, events[i])
		}
		must(t, second(b.AppendMany(t.Context(), timeseries.Of("s", part...), nil)))
	}
	mustCheck(t, b)
	check := func(what string, v timeseries.ValueStats, err error) {
		t.Helper()
		if err != nil || v.Count != 1000 || math.Abs(v.Variance()/want-1) > 1e-9 || math.Abs(v.StdDev()/math.Sqrt(want)-1) > 1e-9 {
			t.Errorf("%s: variance %v of %d, want %v (%v)", what, v.Variance(), v.Count, want, err)
		}
	}
	whole, err := b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	check("stored", whole.Values["v"], err)
	one := newBuckets[string, event](t, db.Collection("c"), timeseries.Months(nil), &bucket.Options{Values: []timeseries.Value{{Field: "v", Sum: "sum", Squares: "squares"}}})
	cut, err := one.Aggregate(t.Context(), "s", at(-1, 0, 0), at(100, 0, 0)) // from the measurements
	check("computed", cut.Values["v"], err)
	must(t, second(db.Collection("c").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "squares", Value: ""}, {Key: "sum", Value: ""}}}})))
	must(t, second(b.Repair(t.Context(), nil)))
	whole, err = b.Aggregate(t.Context(), "s", time.Time{}, time.Time{})
	check("repaired", whole.Values["v"], err)
	mustCheck(t, b)
}

// Measurements of 20 KB fill buckets that take 1,000 of them by their count: a bucket
// that would be too large is full, to every writer, in a transaction as well.
func TestLargeMeasurements(t *testing.T) {
	coll := fresh(t)
	var events []event
	for i := range 1800 {
		events = append(events, event{ID: fmt.Sprint(i), Timestamp: at(1, 0, i), Note: strings.Repeat("x", 20_000), V: 1})
	}
	open := func() *bucket.Buckets[string, event] {
		return newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id"})
	}
	b := open()
	if result, err := b.AppendMany(t.Context(), timeseries.Of("s", events[:900]...), nil); err != nil || result.Done != 900 {
		t.Fatalf("%+v, %v", result, err)
	}
	// Bring each bucket to its limit, behind the writers' backs.
	for _, doc := range aggregate[bson.Raw](t, coll, mongo.Pipeline{}) {
		pad := bson.D{{Key: "$set", Value: bson.D{{Key: "pad", Value: strings.Repeat("x", 16<<20-30_000-len(doc))}}}}
		must(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: doc.Lookup("_id")}}, pad)))
	}
	before := count(t, coll)
	for i := 900; i < 902; i++ { // bucket 0 takes one more and is full then
		if got, err := open().Append(t.Context(), "s", events[i]); err != nil || !got {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	again := open()
	err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
		_, err := again.AppendMany(ctx, timeseries.Of("s", events[902:1400]...), nil)
		return err
	})
	must(t, err)
	if result, err := open().AppendMany(t.Context(), timeseries.Of("s", events...), nil); err != nil || result.Done != 400 || result.Skipped != 1400 {
		t.Errorf("%+v, %v", result, err)
	}
	if n := count(t, coll); n <= before {
		t.Errorf("%d buckets after %d", n, before)
	}
	if got := len(collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{}))); got != 1800 {
		t.Errorf("%d measurements", got)
	}
	mustCheck(t, b)
	huge := event{ID: "huge", Timestamp: at(1, 0, 0), Note: strings.Repeat("x", 16<<20)}
	fails(t, mongopatterns.ErrInvalid, second(b.Append(t.Context(), "s", huge)))
}

// Metadata counts to what one update may hold, and what no document takes with it is refused: others are stored.
func TestLargeMetadata(t *testing.T) {
	coll := fresh(t)
	size := map[string]int{"large": 9 << 20, "huge": 16 << 20}
	for _, o := range []*bucket.Options{{}, {MaxBytes: 15 << 20}} {
		o.Metadata = func(series any, _ time.Time) bson.D {
			return bson.D{{Key: "pad", Value: strings.Repeat("x", size[series.(string)])}}
		}
		must(t, second(coll.DeleteMany(t.Context(), bson.D{})))
		b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), o)
		many := func(yield func(string, event) bool) {
			_ = yield("small", event{Timestamp: day})
			for i := range 700 {
				if !yield("large", event{Timestamp: at(1, 0, i), Note: strings.Repeat("x", 20_000)}) {
					return
				}
			}
			_ = yield("huge", event{Timestamp: day})
		}
		result, err := b.AppendMany(t.Context(), many, &mongopatterns.Work{BatchBytes: 20 << 20})
		if !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 701 || result.Failed != 1 || result.Unknown != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		diff(t, 700, len(collect(t, b.Range(t.Context(), "large", time.Time{}, time.Time{}))))
		mustCheck(t, b)
	}
}

// A bucket filled beyond its size within a transaction has the transaction run again
// and go on in the next one.
func TestLargeInTransaction(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
	mustAppend(t, b, "s", event{Timestamp: at(1, 0, 0)})
	must(t, second(coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "pad", Value: strings.Repeat("x", 16<<20-600)}}}})))
	large := event{Timestamp: at(1, 1, 0), Note: strings.Repeat("x", 1000)}
	for name, call := range map[string]func(ctx context.Context, b *bucket.Buckets[string, event]) error{
		"append": func(ctx context.Context, b *bucket.Buckets[string, event]) error {
			return second(b.Append(ctx, "s", large))
		},
		"many": func(ctx context.Context, b *bucket.Buckets[string, event]) error {
			return second(b.AppendMany(ctx, timeseries.Of("s", large), nil))
		},
	} {
		runs := 0
		fresh := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), nil)
		err := mongopatterns.Transact(t.Context(), coll.Database().Client(), func(ctx context.Context) error {
			runs++
			return call(ctx, fresh)
		})
		if err != nil || runs > 2 {
			t.Errorf("%s: %v after %d runs", name, err, runs)
		}
	}
	diff(t, 2, count(t, coll))
}

// Those of one time are read in the order in which they came.
func TestTiesKeepTheirOrder(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, timeseries.Every(time.Hour), &bucket.Options{IDField: "id", MaxCount: 15})
	var want, got []string
	for i := range 40 {
		e := event{ID: fmt.Sprint(i), Timestamp: at(1, 0, 0), V: 1}
		mustAppend(t, b, "s", e)
		want = append(want, e.ID)
	}
	must(t, b.Update(t.Context(), "s", event{ID: "6", Timestamp: at(1, 0, 0), V: 2}))
	for _, e := range collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})) {
		got = append(got, e.ID)
	}
	diff(t, want, got)
	if latest, err := b.Latest(t.Context(), "s"); err != nil || latest.ID != "39" {
		t.Errorf("%+v, %v", latest, err)
	}
}

// Archive bounds its batches by the bytes of the documents.
func TestArchiveByBytes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	newBuckets[string, event](t, db.Collection("archive"), timeseries.Every(time.Hour), nil)
	for h := range 10 {
		mustAppend(t, b, "s", event{Timestamp: at(h, 0, 0), Note: strings.Repeat("x", 1<<20)})
	}
	var steps []int64
	result, err := b.Archive(t.Context(), at(24, 0, 0), db.Collection("archive"), &mongopatterns.Work{BatchBytes: 4 << 20, Progress: func(r mongopatterns.Result) {
		steps = append(steps, r.Done)
	}})
	if err != nil || result.Done != 10 {
		t.Errorf("%+v, %v", result, err)
	}
	diff(t, []int64{3, 6, 9, 10}, steps)
}

// Names of operators, at any depth of a series or an ID, are refused.
func TestOperatorsAreRefused(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	b := newBuckets[any, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{IDField: "id"})
	s := newSlots[any, int](t, db.Collection("s"), timeseries.Every(time.Hour), nil)
	ctx := t.Context()
	good := bson.D{{Key: "id", Value: 1}, {Key: "timestamp", Value: at(1, 0, 0)}}
	for _, bad := range []any{bson.D{{Key: "$gt", Value: ""}}, bson.D{{Key: "a", Value: bson.D{{Key: "$gt", Value: 1}}}}, bson.D{{Key: "a", Value: bson.A{bson.D{{Key: "$gt", Value: 1}}}}}} {
		m := bson.D{{Key: "id", Value: bad}, {Key: "timestamp", Value: at(1, 0, 0)}}
		for what, err := range map[string]error{
			"append": second(b.Append(ctx, bad, good)), "many": second(b.AppendMany(ctx, timeseries.Of(bad, good), nil)),
			"range": drain(b.Range(ctx, bad, day, day)), "latest": second(b.Latest(ctx, bad)), "aggregate": second(b.Aggregate(ctx, bad, day, day)),
			"windows": drain(b.AggregateWindows(ctx, bad, day, day)), "delete": b.Delete(ctx, bad, day), "page": second(b.Page(ctx, bad, day, 0)),
			"ID": second(b.Append(ctx, "s", m)), "many IDs": second(b.AppendMany(ctx, timeseries.Of[any]("s", m), nil)),
			"update ID": b.Update(ctx, "s", m), "delete ID": b.DeleteByID(ctx, "s", day, bad),
			"set": s.Set(ctx, bad, day, 1), "get": second(s.Get(ctx, bad, day)), "slots": drain(s.Range(ctx, bad, day, day)),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%v: %s: %v", bad, what, err)
			}
		}
	}
}

// Check agrees with sums of Decimal128, alone and among other numbers, however they
// were added.
func TestDecimalsAgree(t *testing.T) {
	coll := fresh(t)
	o := full()
	o.IDField = ""
	b := newBuckets[string, bson.D](t, coll, timeseries.Every(time.Hour), o)
	random := rand.New(rand.NewPCG(8, 8))
	for series, kinds := range map[string]int{"decimals": 1, "ints": 2, "doubles": 3} {
		for range 12 {
			var batch []bson.D
			for i := range 1 + random.IntN(6) {
				v := any(decimal(t, fmt.Sprintf("%d.%019dE%d", random.Int64N(2e15)-1e15, random.Int64N(1e18), random.IntN(8)-4)))
				switch kind := random.IntN(kinds); {
				case kind == 1:
					v = random.Int64() - random.Int64()
				case kind == 2:
					v = random.NormFloat64() * 1e9
				}
				batch = append(batch, bson.D{{Key: "id", Value: i}, {Key: "timestamp", Value: at(0, 0, random.IntN(3600))}, {Key: "v", Value: v}})
			}
			mustAppend(t, b, series, batch[0])
			must(t, second(b.AppendMany(t.Context(), timeseries.Of(series, batch[1:]...), nil)))
		}
		mustCheck(t, b)
	}
	must(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "series", Value: "decimals"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "agg.sum", Value: decimal(t, "1E-12")}}}})))
	diff(t, 1, len(collect(t, b.Check(t.Context(), nil))))
}

func TestEndTimes(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	for i, want := range []time.Time{timeseries.LastMillisecond: at(10, 59, 59).Add(999 * time.Millisecond), timeseries.LastSecond: at(10, 59, 59)} {
		name := fmt.Sprint("c", i)
		o := scenario()
		o.EndTime = timeseries.EndTime(i)
		b := newBuckets[int, reading](t, db.Collection(name), timeseries.Every(time.Hour), o)
		mustAppend(t, b, 12345, reading{at(10, 30, 0), 40})
		diff(t, any(date(want)), stored(t, db.Collection(name))[0]["end_date"])
		mustCheck(t, b)
		o.EndTime = (o.EndTime + 1) % 2 // another opinion, to repair by
		other := newBuckets[int, reading](t, db.Collection(name), timeseries.Every(time.Hour), o)
		done(t, 1)(other.Repair(t.Context(), nil))
		mustCheck(t, other)
	}
}

// Pages of trades: buckets by count alone, by number from either end.
func TestPages(t *testing.T) {
	coll := fresh(t)
	b := newBuckets[string, event](t, coll, bucket.ByCount(), &bucket.Options{MaxCount: 10, ArrayField: "trades"})
	for i := range 34 {
		e := event{ID: fmt.Sprint(i), Timestamp: at(-24*i*i, 0, 0), V: 1} // of any time
		if i < 21 {
			mustAppend(t, b, "MDB", e)
		} else if _, err := b.AppendMany(t.Context(), timeseries.Of("MDB", e), nil); err != nil {
			t.Fatal(err)
		}
	}
	var none time.Time
	for n, want := range map[int64]string{0: "0 9 10", 2: "20 29 10", 3: "30 33 4", -1: "30 33 4", -4: "0 9 10"} {
		page, err := b.Page(t.Context(), "MDB", none, n)
		if err != nil || fmt.Sprint(page[0].ID, " ", page[len(page)-1].ID, " ", len(page)) != want {
			t.Errorf("page %d: %v, %v", n, page, err)
		}
	}
	for _, n := range []int64{4, -5} {
		fails(t, mongopatterns.ErrNotFound, second(b.Page(t.Context(), "MDB", none, n)))
	}
	for series, want := range map[string]int64{"MDB": 4, "none": 0} {
		gives(t, want)(b.Pages(t.Context(), series, none))
	}
	if latest, err := b.Latest(t.Context(), "MDB"); err != nil || latest.ID != "0" {
		t.Errorf("%v, %v", latest, err)
	}
	mustCheck(t, b)
}

// The client's BSON options are honoured where the package encodes and decodes.
func TestBSONOptions(t *testing.T) {
	t.Parallel()
	type trade struct {
		At    time.Time `json:"at"`
		Price float64   `json:"price"`
		Tags  []string  `json:"tags"`
	}
	db := mongotest.Database(t)
	o := &options.BSONOptions{UseJSONStructTags: true, NilSliceAsEmpty: true}
	b := newBuckets[string, trade](t, db.Collection("c"), timeseries.Every(time.Hour), &bucket.Options{TimeField: "at", BSON: o,
		Values: []timeseries.Value{{Field: "price", Sum: "sum"}}})
	mustAppend(t, b, "s", trade{At: at(1, 0, 0), Price: 2})
	diff(t, any(bson.A{bson.D{{Key: "at", Value: date(at(1, 0, 0))}, {Key: "price", Value: 2.0}, {Key: "tags", Value: bson.A{}}}}),
		stored(t, db.Collection("c"))[0]["measurements"])
	diff(t, []trade{{at(1, 0, 0), 2, []string{}}}, collect(t, b.Range(t.Context(), "s", time.Time{}, time.Time{})))
	s := newSlots[string, trade](t, db.Collection("s"), timeseries.Days(nil), &slots.Options{BSON: o})
	must(t, s.Set(t.Context(), "s", at(1, 0, 0), trade{At: day, Price: 3}))
	gives(t, trade{day, 3, []string{}})(s.Get(t.Context(), "s", at(1, 0, 0)))
}

// Work.Filter may be a map; DryRun writes nothing.
func TestWork(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("src"), db.Collection("c")
	for i := range 6 {
		must(t, second(src.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "series", Value: i % 2}, {Key: "room", Value: 1}, {Key: "timestamp", Value: at(1, i, 0)}})))
	}
	b := newBuckets[int, bson.D](t, coll, timeseries.Every(time.Hour), nil)
	for i, want := range []int64{3, 3, 0, 0, 0} {
		w := &mongopatterns.Work{Filter: bson.M{"series": 0, "room": 1}, DryRun: i == 0}
		if result, err := b.Adopt(t.Context(), src, nil, w); err != nil || result.Done != want {
			t.Errorf("%d: %+v, %v", i, result, err)
		}
	}
	done(t, 3)(b.Adopt(t.Context(), src, nil, &mongopatterns.Work{Filter: bson.D{{Key: "series", Value: 1}}}))
	dry := &mongopatterns.Work{DryRun: true}
	done(t, 1)(b.AppendMany(t.Context(), timeseries.Of(5, bson.D{{Key: "timestamp", Value: day}}), dry))
	if result, err := b.Archive(t.Context(), at(24, 0, 0), db.Collection("archive"), dry); err != nil || result.Done != 2 || count(t, coll) != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	must(t, second(coll.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: 9}}}})))
	one := bson.D{{Key: "series", Value: 1}}
	done(t, 1)(b.Repair(t.Context(), &mongopatterns.Work{Filter: one, DryRun: true}))
	done(t, 1)(b.Repair(t.Context(), &mongopatterns.Work{Filter: one}))
	diff(t, 1, len(collect(t, b.Check(t.Context(), nil))))
}
