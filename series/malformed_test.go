package series_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A series, or a start, in an array that somebody typed is met by an equality. A block would be for another place: Append
// refuses the document, which the error names.
func TestPlaceInAnArray(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]any{"series": bson.A{"s"}, "start": bson.A{day}} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("c")
			appendMany(t, open[string, event](t, coll, timeseries.Days(nil), nil), "s", seconds(3)...)
			testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
			before := testkit.Stored[bson.Raw](t, coll)
			fresh := open[string, event](t, coll, timeseries.Days(nil), nil)
			add := func(ctx context.Context) error { return fresh.Append(ctx, "s", event{Timestamp: at(1, 0, 0)}) }
			for _, err := range []error{add(ctx), mongopatterns.Transact(ctx, coll.Database().Client(), add)} {
				if !errors.Is(err, mongopatterns.ErrMalformed) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone {
					t.Error(err)
				}
			}
			testkit.Equal(t, before, testkit.Stored[bson.Raw](t, coll))
		})
	}
}

// Such a document is in the way of its own window only: a Gatherer stores what others get, also in a next document, and
// hands back the rest. So does Adopt.
func TestOneMisplaced(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]any{"an array": bson.A{at(0, 0, 0)}, "another time": at(5, 0, 0), "a text": "noon"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oneMisplaced(t, start)
		})
	}
}

func oneMisplaced(t *testing.T, start any) {
	ctx := t.Context()
	db := mongotest.Database(t)
	coll, src := db.Collection("c"), db.Collection("src")
	o := &series.Options{MaxCount: 16}
	s := open[string, event](t, coll, timeseries.Every(time.Minute), o)
	appendMany(t, s, "s", event{Timestamp: at(0, 0, 0)}, event{Timestamp: at(0, 1, 0)})
	testkit.Update(t, coll, bson.D{{Key: "start", Value: at(0, 0, 0)}}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: start}}}})
	g, err := series.NewGatherer(open[string, event](t, coll, timeseries.Every(time.Minute), o), nil)
	testkit.OK(t, err)
	lost := []event{{Timestamp: at(0, 0, 10)}, {Timestamp: at(0, 0, 11)}}
	for range 3 {
		for _, m := range lost {
			testkit.OK(t, g.Append(ctx, "s", m))
		}
		for i := range 16 { // each time the minute's document is full
			testkit.OK(t, g.Append(ctx, "s", event{Timestamp: at(0, 1, i)}))
		}
		result, err := g.Flush(ctx)
		var refused *series.RefusedError[string, event]
		if !errors.As(err, &refused) || !errors.Is(err, mongopatterns.ErrMalformed) || result.Done != 16 || result.Failed != 2 || len(result.Failures) != 1 {
			t.Fatalf("%+v, %v", result, err)
		}
		testkit.Equal(t, lost, refused.Refused[0].Measurements)
	}
	testkit.Equal(t, 0, g.Waiting())
	testkit.Insert(t, src, plainDoc(1, 1), plainDoc(2, 60), plainDoc(3, 120))
	got, err := s.Adopt(ctx, src, nil, nil)
	if err != nil || got.Done != 2 || got.Failed != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	testkit.Equal(t, 1+4+1, testkit.Count(t, coll, bson.D{}))
}

// A block that such a document holds, here with a symbol, is stored: it is not handed back as refused.
func TestMisplacedHolds(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{BatchField: "batches"})
	appendMany(t, s, "s", seconds(3)...)
	testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "series", Value: bson.Symbol("s")}}}})
	result(t, mongopatterns.Result{Examined: 3, Skipped: 3})(s.AppendMany(t.Context(), timeseries.Of("s", seconds(3)...), nil))
}

// Documents whose fields somebody has typed by hand, of any type, make no call panic. What cannot be read is an
// error that names the document; what follows from the measurements is repaired, and the rest is
// reported.
func TestTypedByHand(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	target := coll.Database().Collection("archive")
	o := &series.Options{BatchField: "batches", EndField: "end", Values: values}
	s := open[string, event](t, coll, timeseries.Every(time.Hour), o)
	open[string, event](t, target, timeseries.Every(time.Hour), o)
	appendMany(t, s, "s", seconds(3)...)
	appendMany(t, s, "s", event{Timestamp: at(0, 30, 0), V: 2})
	doc, err := coll.FindOne(t.Context(), bson.D{}).Raw()
	testkit.OK(t, err)
	var paths []string
	var walk func(prefix string, doc bson.Raw)
	walk = func(prefix string, doc bson.Raw) {
		elements, _ := doc.Elements()
		for _, e := range elements {
			if e.Key() == "_id" && prefix == "" {
				continue
			}
			paths = append(paths, prefix+e.Key())
			if inner, ok := e.Value().DocumentOK(); ok {
				walk(prefix+e.Key()+".", inner)
			}
			if array, ok := e.Value().ArrayOK(); ok {
				walk(prefix+e.Key()+".", bson.Raw(array))
			}
		}
	}
	walk("", doc)
	minus, _ := bson.ParseDecimal128("-Infinity")
	typed := []any{nil, "text", int64(math.MinInt64), math.NaN(), minus, bson.D{{Key: "a", Value: 1}}, bson.A{}, bson.A{1, "x"}, bson.Binary{Data: []byte{3, 0}}, time.UnixMilli(math.MinInt64)}
	ctx := t.Context()
	restore := func() {
		t.Helper()
		_, err := coll.DeleteMany(ctx, bson.D{})
		testkit.OK(t, err)
		_, err = target.DeleteMany(ctx, bson.D{})
		testkit.OK(t, err)
		_, err = coll.InsertOne(ctx, doc)
		testkit.OK(t, err)
	}
	fresh := func() *series.Series[string, event] {
		s, err := series.New[string, event](coll, timeseries.Every(time.Hour), o)
		testkit.OK(t, err)
		return s
	}
	from := at(0, 0, 1)
	reads := map[string]func(s *series.Series[string, event]) error{
		"range": func(s *series.Series[string, event]) error {
			return testkit.Drain(s.Range(ctx, "s", from, time.Time{}))
		},
		"latest": func(s *series.Series[string, event]) error { return second(s.Latest(ctx, "s")) },
		"aggregate": func(s *series.Series[string, event]) error {
			return second(s.Aggregate(ctx, "s", time.Time{}, time.Time{}))
		},
		"cut": func(s *series.Series[string, event]) error { return second(s.Aggregate(ctx, "s", from, time.Time{})) },
		"minutes": func(s *series.Series[string, event]) error {
			return testkit.Drain(s.AggregateBy(ctx, "s", from, time.Time{}, timeseries.Every(time.Minute)))
		},
		"documents": func(s *series.Series[string, event]) error { return testkit.Drain(s.Documents(ctx, nil)) },
		"check":     func(s *series.Series[string, event]) error { return testkit.Drain(s.Check(ctx, nil)) },
	}
	writes := map[string]func(s *series.Series[string, event]) error{
		"append": func(s *series.Series[string, event]) error { return s.Append(ctx, "s", event{Timestamp: at(0, 40, 0)}) },
		"repeat": func(s *series.Series[string, event]) error {
			return second(s.AppendMany(ctx, timeseries.Of("s", seconds(3)...), nil))
		},
		"update": func(s *series.Series[string, event]) error {
			return s.Replace(ctx, "s", event{Timestamp: at(0, 0, 1), V: 7})
		},
		"delete":  func(s *series.Series[string, event]) error { return s.Delete(ctx, "s", at(0, 0, 1)) },
		"compact": func(s *series.Series[string, event]) error { return second(s.Compact(ctx, nil)) },
		"archive": func(s *series.Series[string, event]) error { return second(s.Archive(ctx, at(5, 0, 0), target, nil)) },
	}
	for p, path := range paths {
		for i, v := range typed {
			if every := scale.Of(8, 1, 1); (p+i)%every != 0 {
				continue // another path has this value
			}
			restore()
			if _, err := coll.UpdateOne(ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: v}}}}); err != nil {
				continue // two IDs of batches
			}
			for name, call := range reads {
				if err := call(fresh()); err != nil && !errors.Is(err, series.ErrDamaged) && !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Errorf("%s is %v: %s: %v", path, v, name, err)
				}
			}
			testkit.OK(t, second(fresh().Repair(ctx, nil)))
			for p, err := range fresh().Check(ctx, nil) {
				if err != nil || p.Kind == mongopatterns.WrongField {
					t.Errorf("%s is %v: after Repair: %v, %v", path, v, p, err)
				}
			}
			if i%3 != 1 { // some are enough
				continue
			}
			for name, call := range writes {
				restore()
				_, err := coll.UpdateOne(ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: v}}}})
				testkit.OK(t, err)
				err = call(fresh())
				var server mongo.ServerError
				if err != nil && !errors.Is(err, mongopatterns.ErrMalformed) && !errors.Is(err, mongopatterns.ErrNotFound) && !errors.Is(err, mongopatterns.ErrConflict) && !errors.As(err, &server) {
					t.Errorf("%s is %v: %s: %v", path, v, name, err)
				}
			}
		}
	}
}

// A start of text belongs to no window, so its stored sums count nowhere.
func TestSumsOfATextStart(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values})
	appendMany(t, s, "s", seconds(3)...)
	testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "start", Value: "2024-03-31"}}}})
	var none time.Time
	for _, err := range []error{
		testkit.ErrorOf(s.Aggregate(t.Context(), "s", none, none)),
		testkit.Drain(s.AggregateWindows(t.Context(), "s", none, none)),
		testkit.Drain(s.AggregateBy(t.Context(), "s", none, none, timeseries.Every(time.Hour))),
		testkit.Drain(s.Range(t.Context(), "s", none, none)),
		testkit.ErrorOf(s.Latest(t.Context(), "s")),
	} {
		testkit.Is(t, err, mongopatterns.ErrMalformed)
	}
}

// An archive can hold a batch twice: Check names the documents, and EnsureIndexes refuses them.
func TestBatchInTwoDocuments(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	coll, archive := db.Collection("c"), db.Collection("archive")
	o := &series.Options{BatchField: "batches"}
	s := open[string, event](t, coll, timeseries.Days(nil), o)
	for range 2 {
		appendMany(t, s, "s", seconds(3)...)
		testkit.Done(t, 1)(s.Archive(t.Context(), day.AddDate(0, 0, 1), archive, nil))
	}
	old, err := series.New[string, event](archive, timeseries.Days(nil), o)
	testkit.OK(t, err)
	testkit.Is(t, old.EnsureIndexes(t.Context()), mongopatterns.ErrMalformed)
	found := testkit.Collect(t, old.Check(t.Context(), nil))
	if len(found) != 1 || found[0].Kind != mongopatterns.Duplicate || found[0].Field != "batches.id" || found[0].Have.Type != bson.TypeInt64 {
		t.Error(found)
	}
}

// A write that a field of another type refuses is ErrMalformed, whichever field that is. Check names the field.
func TestRefusedByAType(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"stats", "stats.v", "stats.v.sum", "blocks", "bytes"} {
		for _, v := range []any{nil, "text"} {
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("c")
			s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values})
			appendMany(t, s, "s", seconds(3)...)
			testkit.Update(t, coll, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: v}}}})
			add := func(ctx context.Context) error {
				s := open[string, event](t, coll, timeseries.Days(nil), &series.Options{Values: values})
				return s.Append(ctx, "s", event{Timestamp: at(0, 1, 0)})
			}
			if found := testkit.Collect(t, s.Check(ctx, nil)); len(found) == 0 {
				t.Errorf("%s is %v: Check finds nothing", path, v)
			}
			for name, err := range map[string]error{
				"delete": s.Delete(ctx, "s", at(0, 0, 7)), "replace": s.Replace(ctx, "s", event{Timestamp: at(0, 0, 1)}),
				"append": add(ctx), "in a transaction": mongopatterns.Transact(ctx, coll.Database().Client(), add),
			} {
				if err != nil && !errors.Is(err, mongopatterns.ErrMalformed) && !errors.Is(err, mongopatterns.ErrNotFound) {
					t.Errorf("%s is %v: %s: %v", path, v, name, err)
				}
			}
		}
	}
}
