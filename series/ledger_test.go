package series_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// plainDoc is a document of a source.
func plainDoc(id any, i int) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "series", Value: "s"}, {Key: "timestamp", Value: at(0, 0, i)}, {Key: "v", Value: float64(i) / 4}}
}

// adopted fails unless the series holds the measurements of the seconds of these documents, each once.
func adopted(t testing.TB, s *series.Series[string, event], n int) {
	t.Helper()
	testkit.Healthy(t, s)
	seen := map[time.Time]int{}
	for _, e := range testkit.Collect(t, s.Range(context.Background(), "s", time.Time{}, time.Time{})) {
		if seen[e.Timestamp]++; seen[e.Timestamp] > 1 {
			t.Errorf("%v twice", e)
		}
	}
	if len(seen) != n {
		t.Errorf("%d measurements, want %d", len(seen), n)
	}
}

func result(t testing.TB, want mongopatterns.Result) func(got mongopatterns.Result, err error) {
	t.Helper()
	return func(got mongopatterns.Result, err error) {
		t.Helper()
		got.Failures = nil
		if err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, want, got)
	}
}

// Clients whose clocks are apart insert _ids behind those that were adopted.
func TestAdoptBehind(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	clock := func(i int, ahead time.Duration) bson.ObjectID {
		return bson.NewObjectIDFromTimestamp(day.Add(ahead + time.Duration(i)*time.Second))
	}
	n := 0
	for round := range 3 {
		for range 100 {
			testkit.Insert(t, src, plainDoc(clock(n, 0), n), plainDoc(clock(n+1, time.Hour), n+1))
			n += 2
		}
		result(t, mongopatterns.Result{Examined: int64(n), Done: 200, Skipped: int64(200 * round)})(s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 30}))
	}
	adopted(t, s, n)
	// A further run reads, and writes nothing.
	cmds := mongotest.Record(t, db, func() {
		result(t, mongopatterns.Result{Examined: 600, Skipped: 600})(s.Adopt(t.Context(), src, nil, nil))
	})
	if names := cmds.Names(); !slices.Equal(names, []string{"listCollections", "find", "find"}) {
		t.Errorf("sent %v", names)
	}
	healthyCopy(t, s, src)
}

// healthyCopy fails unless Compare finds nothing.
func healthyCopy(t testing.TB, s *series.Series[string, event], src *mongo.Collection) {
	t.Helper()
	for p, err := range s.Compare(context.Background(), src, nil, nil) {
		t.Error(p, err)
	}
}

// Two processes insert while Adopt runs, again and again: a last run finds the rest.
func TestAdoptBesideInserts(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	var writers sync.WaitGroup
	const each = 200
	for w := range 2 {
		writers.Go(func() {
			for i := range each {
				n := i*2 + w
				testkit.Insert(t, src, plainDoc(bson.NewObjectIDFromTimestamp(day.Add(time.Duration(w)*time.Hour+time.Duration(i)*time.Second)), n))
			}
		})
	}
	writing := make(chan struct{})
	go func() { writers.Wait(); close(writing) }()
	for running := true; running; {
		select {
		case <-writing:
			running = false
		default:
		}
		if result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 20}); err != nil || result.Failed+result.Remaining > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	adopted(t, s, 2*each)
	healthyCopy(t, s, src)
}

// Documents that failed are tried again: with the right options, and after the document was corrected.
func TestAdoptAfterFailures(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	for i := range 100 {
		doc := plainDoc(i, i)
		doc[2].Key = "at"
		testkit.Insert(t, src, doc)
	}
	forgotten := open[string, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	result(t, mongopatterns.Result{Examined: 100, Failed: 100})(forgotten.Adopt(t.Context(), src, nil, nil))
	set := open[string, bson.D](t, db.Collection("c"), timeseries.Every(time.Hour), &series.Options{TimeField: "at"})
	result(t, mongopatterns.Result{Examined: 100, Done: 100})(set.Adopt(t.Context(), src, nil, nil))

	ten := db.Collection("ten")
	for i := range 10 {
		doc := plainDoc(i, i)
		if i == 4 {
			doc[3].Value = "text"
		}
		testkit.Insert(t, ten, doc)
	}
	s := open[string, event](t, db.Collection("d"), timeseries.Every(time.Hour), nil)
	result(t, mongopatterns.Result{Examined: 10, Done: 9, Failed: 1})(s.Adopt(t.Context(), ten, nil, nil))
	if _, err := ten.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: 4}}, plainDoc(4, 4)); err != nil {
		t.Fatal(err)
	}
	result(t, mongopatterns.Result{Examined: 10, Done: 1, Skipped: 9})(s.Adopt(t.Context(), ten, nil, nil))
	adopted(t, s, 10)
}

// One ledger serves all filters.
func TestAdoptByFilters(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	for i := range 60 {
		testkit.Insert(t, src, plainDoc(i, i))
	}
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	for _, c := range []struct {
		filter        any
		done, skipped int64
	}{
		{bson.D{{Key: "_id", Value: bson.D{{Key: "$mod", Value: bson.A{3, 0}}}}}, 20, 0},
		{bson.M{"_id": bson.M{"$gte": 30}}, 20, 10}, {struct{ V float64 }{1}, 1, 0}, {nil, 19, 41}, {bson.D{}, 0, 60},
	} {
		result(t, mongopatterns.Result{Examined: c.done + c.skipped, Done: c.done, Skipped: c.skipped})(
			s.Adopt(t.Context(), src, nil, &mongopatterns.Work{Filter: c.filter, BatchSize: 7}))
	}
	adopted(t, s, 60)
}

// Documents of the source that are edited, deleted or inserted again do not come twice, and do not keep a run from
// ending: Compare names them.
func TestAdoptEditedAndDeleted(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("src"), db.Collection("c")
	for i := range 20 {
		testkit.Insert(t, src, plainDoc(i, i))
	}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), &series.Options{Values: values})
	result(t, mongopatterns.Result{Examined: 20, Done: 20})(s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 6}))
	healthyCopy(t, s, src)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(second(src.DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{0, 7, 19}}}}})))
	testkit.Insert(t, src, plainDoc(7.0, 7)) // the same _id, and other bytes
	must(second(src.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 3}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 100}}}})))
	must(second(src.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 5}})))
	testkit.Insert(t, src, plainDoc(5, 5), plainDoc(30, 30), bson.D{{Key: "_id", Value: 31}, {Key: "series", Value: "s"}},
		bson.D{{Key: "_id", Value: 32}, {Key: "series", Value: "other"}, {Key: "timestamp", Value: day}})
	must(s.Append(t.Context(), "new", event{Timestamp: day}))
	describe := func(work *mongopatterns.Work) (out []string) {
		for p, err := range s.Compare(t.Context(), src, nil, work) {
			must(err)
			out = append(out, strings.ReplaceAll(p.String(), "series: ", ""))
		}
		return out
	}
	documents := []string{"src 0: deleted", "src 3: edited", "src 7: edited", "src 19: deleted",
		"src 30: not adopted", `src 31: not adopted: measurement: invalid: "timestamp" is not a date`, "src 32: not adopted"}
	testkit.Equal(t, append(documents, // 18 of the 20 are there, and 30
		`c: different: count is 20, want 19: series "s", count`,
		`c: different: timestamp is {"$date":{"$numberLong":"1711843200000"}}, want {"$date":{"$numberLong":"1711843201000"}}: series "s", first`,
		`c: different: timestamp is {"$date":{"$numberLong":"1711843219000"}}, want {"$date":{"$numberLong":"1711843230000"}}: series "s", last`,
		`c: different: v is 47.50, want 149.5: series "s", sum`,
		`c: different: count is 0, want 1: series "other", count`, `c: different: count is 1, want 0: series "new", count`), describe(nil))
	testkit.Equal(t, []string{documents[1], documents[2]}, describe(&mongopatterns.Work{Filter: bson.D{{Key: "_id", Value: bson.D{{Key: "$lt", Value: 19}}}}}))

	result(t, mongopatterns.Result{Examined: 21, Done: 2, Skipped: 20, Failed: 1})(s.Adopt(t.Context(), src, nil, nil)) // 18 met, 2 gone
	adopted(t, s, 21)
	must(second(src.DeleteMany(t.Context(), bson.D{})))
	result(t, mongopatterns.Result{Skipped: 22})(s.Adopt(t.Context(), src, nil, nil))
}

// Any _id that the server takes, of whatever type, in whatever order they come.
func TestAdoptAnyID(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, coll := db.Collection("src"), db.Collection("c")
	decimal := func(s string) bson.Decimal128 {
		d, err := bson.ParseDecimal128(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ids := []any{nil, bson.MinKey{}, bson.MaxKey{}, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), decimal("Infinity").String(), decimal("1E+6000"), decimal("-1E+6000"),
		decimal("0.1"), 0.1, decimal("0.10000000000000001"), int64(math.MaxInt64), int64(math.MinInt64), float64(1 << 63), decimal("9223372036854775806.5"), int64(1 << 53), decimal("9007199254740992.5"),
		"", "a", "a\x00", "a\x00b", "ab", "é", strings.Repeat("x", 40<<10), strings.Repeat("x", 40<<10) + "y", bson.Symbol("aa"), true, false, bson.ObjectID{}, bson.NewObjectID(),
		bson.D{}, bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 2}}, bson.D{{Key: "b", Value: 2}, {Key: "a", Value: 1}}, bson.D{{Key: "a", Value: "1"}}, bson.D{{Key: "b", Value: -1}},
		bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: bson.A{1, "2"}}}}}, bson.D{{Key: "a", Value: bson.A{}}}, bson.D{{Key: "a", Value: nil}}, bson.D{{Key: "a", Value: bson.Regex{Pattern: "a"}}},
		bson.Binary{Data: []byte{1, 2}}, bson.Binary{Data: []byte{9}}, bson.Binary{Subtype: 4, Data: make([]byte, 16)}, bson.Binary{Subtype: 5, Data: make([]byte, 16)}, bson.Binary{},
		bson.DateTime(-5), bson.DateTime(5), bson.Timestamp{T: 1, I: 1 << 31}, bson.Timestamp{T: 1 << 31, I: 1}, bson.JavaScript("a"), bson.CodeWithScope{Code: "a", Scope: bson.D{{Key: "x", Value: 1}}}}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 200 { // some are equal to others
		ids = append(ids, []any{random.IntN(1 << 20), random.Int64() - 1<<62, random.NormFloat64(), fmt.Sprint(i), bson.D{{Key: "sensor", Value: random.IntN(5)}, {Key: "at", Value: bson.DateTime(i)}}}[i%5])
	}
	random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	s := open[string, event](t, coll, timeseries.Every(time.Hour), nil)
	n := 0
	for part := range slices.Chunk(ids, 50) {
		for _, id := range part {
			switch _, err := src.InsertOne(t.Context(), plainDoc(id, n)); {
			case err == nil:
				n++
			case !mongo.IsDuplicateKeyError(err):
				t.Log(id, err)
			}
		}
		if result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 17}); err != nil || result.Failed > 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if n < 230 {
		t.Error("only", n)
	}
	adopted(t, s, n)
	healthyCopy(t, s, src)
}

// A ledger of many intervals, into which entries come everywhere.
func TestLedgerSplits(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src, ledger := db.Collection("src"), db.Collection("c.adopt")
	s := open[string, event](t, db.Collection("c"), timeseries.Days(nil), nil)
	const all = 4000
	order := rand.New(rand.NewPCG(1, 1)).Perm(all)
	check := func(n int) {
		t.Helper()
		entries, bytes := 0, 0
		for _, doc := range testkit.Find[bson.Raw](t, ledger, bson.D{}) {
			_, hashes, _ := doc.Lookup("hashes").BinaryOK()
			entries, bytes = entries+len(hashes)/8, bytes+len(doc)
			if len(doc) > 17<<10 {
				t.Errorf("an interval of %d bytes", len(doc))
			}
		}
		if entries != n || bytes > 26*n {
			t.Errorf("%d entries in %d bytes, want %d", entries, bytes, n)
		}
	}
	n := 0
	for _, step := range []int{3000, 20, 1, 979} {
		var docs []bson.D
		for _, i := range order[n : n+step] {
			id := bson.NewObjectIDFromTimestamp(day.Add(time.Duration(i) * time.Second))
			docs = append(docs, plainDoc(id, i))
		}
		testkit.InsertAll(t, src, docs)
		done, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 1000})
		result(t, mongopatterns.Result{Examined: int64(n + step), Done: int64(step), Skipped: int64(n)})(done, err)
		n += step
		check(n)
	}
	if got := len(testkit.Find[bson.Raw](t, ledger, bson.D{})); got < 5 || got > 14 {
		t.Errorf("%d intervals", got)
	}
	adopted(t, s, all)
	healthyCopy(t, s, src)
	// All but a few of the source are gone, and new ones lie between.
	if _, err := src.DeleteMany(t.Context(), bson.D{{Key: "v", Value: bson.D{{Key: "$gt", Value: 1}}}}); err != nil {
		t.Fatal(err)
	}
	var docs []bson.D
	for i := range 100 {
		docs = append(docs, plainDoc(bson.NewObjectIDFromTimestamp(day.Add(time.Duration(i)*2*time.Minute)), all+i))
	}
	testkit.InsertAll(t, src, docs)
	result(t, mongopatterns.Result{Examined: 105, Done: 100, Skipped: all})(s.Adopt(t.Context(), src, nil, nil))
	adopted(t, s, all+100)
	check(all + 100)
}

// Several at once adopt every document once: who comes second ends.
func TestAdoptsAtOnce(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	const all = 1500
	var docs []bson.D
	for i := range all {
		docs = append(docs, plainDoc(rand.Int64(), i))
	}
	testkit.InsertAll(t, src, docs)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
			for {
				result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 75})
				if err == nil && result.Failed == 0 {
					return
				}
				if !errors.Is(err, mongopatterns.ErrRunning) || !errors.Is(err, mongopatterns.ErrConflict) || result.Failed > 0 {
					t.Errorf("%+v, %v", result, err)
					return
				}
			}
		})
	}
	wg.Wait()
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	adopted(t, s, all)
	healthyCopy(t, s, src)
}

// Adopt ends at any command: nothing is lost or doubled.
func TestAdoptCutOff(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRetryWrites(false).SetRetryReads(false))
	src := db.Collection("src")
	var docs []bson.D
	for i := range 100 {
		docs = append(docs, plainDoc(i, i))
	}
	testkit.InsertAll(t, src, docs)
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	for i := range 12 {
		for _, command := range []string{"find", "update", "commitTransaction"} {
			t.Run(fmt.Sprint(i, command), func(t *testing.T) {
				mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{command}, Skip: i % 4, Code: 8})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, _ = s.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 1 + i})
			})
		}
	}
	if result, err := s.Adopt(t.Context(), src, nil, &mongopatterns.Work{BatchSize: 9}); err != nil || result.Failed > 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	adopted(t, s, 100)
	healthyCopy(t, s, src)
}

// A source that the ledger could not follow is refused: in another order, or with an _id twice.
func TestAdoptRefusesSources(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	if err := db.CreateCollection(t.Context(), "collated", options.CreateCollection().SetCollation(&options.Collation{Locale: "de", Strength: 2})); err != nil {
		t.Fatal(err)
	}
	testkit.Insert(t, db.Collection("collated"), plainDoc("a", 1), plainDoc("B", 2))
	testkit.Insert(t, db.Collection("plain"), plainDoc(1, 1), append(plainDoc(2, 2), bson.E{Key: "list", Value: bson.A{1, 2}}))
	unwind := bson.D{{Key: "$unwind", Value: bson.D{{Key: "path", Value: "$list"}, {Key: "preserveNullAndEmptyArrays", Value: true}}}}
	if err := db.CreateView(t.Context(), "twice", "plain", mongo.Pipeline{unwind}); err != nil {
		t.Fatal(err)
	}
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	for name, want := range map[string]string{"collated": "collation", "twice": "two documents have this _id"} {
		if _, err := s.Adopt(t.Context(), db.Collection(name), nil, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := testkit.Drain(s.Compare(t.Context(), db.Collection(name), nil, nil)); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := testkit.Count(t, db.Collection("c"), bson.D{}); n != 0 {
		t.Errorf("%d documents", n)
	}
}

// Adopt joins the transaction of its context and vanishes with it.
func TestAdoptInATransaction(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	src := db.Collection("src")
	for i := range 30 {
		testkit.Insert(t, src, plainDoc(i, i))
	}
	s := open[string, event](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	abort := errors.New("abort")
	for _, end := range []error{abort, nil} {
		err := mongopatterns.Transact(t.Context(), db.Client(), func(ctx context.Context) error {
			for range 2 {
				if _, err := s.Adopt(ctx, src, nil, &mongopatterns.Work{BatchSize: 7}); err != nil {
					return err
				}
			}
			if err := testkit.Drain(s.Compare(ctx, src, nil, nil)); err != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Error(err)
		}
		if end != nil && (total(t, s) != 0 || len(testkit.Find[bson.Raw](t, db.Collection("c.adopt"), bson.D{})) != 0) {
			t.Error("something is left")
		}
	}
	adopted(t, s, 30)
}
