package series_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func kinds(t testing.TB, s *series.Series[string, event]) map[mongopatterns.ProblemKind]int {
	t.Helper()
	out := map[mongopatterns.ProblemKind]int{}
	for p, err := range s.Check(t.Context(), nil) {
		testkit.OK(t, err)
		out[p.Kind]++
	}
	return out
}

// Blocks that two documents have swapped, of two series or of two windows, are damaged and
// not read as somebody else's.
func TestSwappedBlocks(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Every(time.Hour), nil)
	appendMany(t, s, "a", event{Timestamp: at(1, 0, 0), N: 1})
	appendMany(t, s, "b", event{Timestamp: at(1, 0, 0), N: 2})
	appendMany(t, s, "c", event{Timestamp: at(1, 0, 0), N: 3}, event{Timestamp: at(2, 0, 0), N: 4})
	blocks := func(series string, hour int) (bson.D, bson.RawValue) {
		filter := bson.D{{Key: "series", Value: series}, {Key: "start", Value: at(hour, 0, 0)}}
		doc, err := coll.FindOne(t.Context(), filter).Raw()
		testkit.OK(t, err)
		return filter, doc.Lookup("blocks")
	}
	swap := func(a, b bson.D, of, with bson.RawValue) {
		for _, one := range []struct {
			filter bson.D
			blocks bson.RawValue
		}{{a, with}, {b, of}} {
			_, err := coll.UpdateOne(t.Context(), one.filter, bson.D{{Key: "$set", Value: bson.D{{Key: "blocks", Value: one.blocks}}}})
			testkit.OK(t, err)
		}
	}
	fa, a := blocks("a", 1)
	fb, b := blocks("b", 1)
	fc, c := blocks("c", 1)
	fd, d := blocks("c", 2)
	swap(fa, fb, a, b)
	swap(fc, fd, c, d)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Latest(t.Context(), name); !errors.Is(err, series.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Equal(t, map[mongopatterns.ProblemKind]int{series.Damaged: 4}, kinds(t, s))
	swap(fa, fb, b, a)
	swap(fc, fd, d, c)
	testkit.Healthy(t, s)
}

// A series that is a number of another type is the same series.
func TestSeriesOfEqualNumbers(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	appendMany(t, open[int64, event](t, coll, timeseries.Every(time.Hour), nil), 7, event{Timestamp: at(1, 0, 0), N: 1})
	appendMany(t, open[float64, event](t, coll, timeseries.Every(time.Hour), nil), 7, event{Timestamp: at(1, 1, 0), N: 2})
	testkit.Equal(t, 2, len(testkit.Collect(t, open[int, event](t, coll, timeseries.Every(time.Hour), nil).Range(t.Context(), 7, time.Time{}, time.Time{}))))
}

// A block that a later version has written is newer: nothing here calls it damaged, or
// rewrites it.
func TestNewerBlocks(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	s := open[string, event](t, coll, timeseries.Every(time.Hour), nil)
	appendMany(t, s, "s", event{Timestamp: at(1, 0, 0), N: 1})
	doc, err := coll.FindOne(t.Context(), bson.D{}).Raw()
	testkit.OK(t, err)
	_, block := doc.Lookup("blocks", "0").Binary()
	write := func(version byte) bson.Raw {
		t.Helper()
		body := append([]byte{version}, block[1:len(block)-4]...)
		place := strconv.FormatInt(at(1, 0, 0).UnixMilli(), 10) + value.Key(doc.Lookup("series"))
		other := binary.LittleEndian.AppendUint32(body, crc32.Checksum(append(append([]byte(nil), body...), place...), crc32.MakeTable(crc32.Castagnoli)))
		blocks := bson.A{bson.Binary{Data: other}, bson.Binary{Data: other}}
		_, err := coll.UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "blocks", Value: blocks}}}})
		testkit.OK(t, err)
		doc, err := coll.FindOne(t.Context(), bson.D{}).Raw()
		testkit.OK(t, err)
		return doc
	}
	before := write(block[0] + 1)
	if _, err := s.Latest(t.Context(), "s"); !errors.Is(err, mongopatterns.ErrNewer) || errors.Is(err, series.ErrDamaged) {
		t.Error(err)
	}
	testkit.Equal(t, map[mongopatterns.ProblemKind]int{series.Newer: 1}, kinds(t, s))
	if result, err := s.Compact(t.Context(), nil); err != nil || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrNewer) {
		t.Errorf("%+v, %v", result, err)
	}
	if err := s.Delete(t.Context(), "s", at(1, 0, 0)); !errors.Is(err, mongopatterns.ErrNewer) {
		t.Error(err)
	}
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Done != 0 || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if after, err := coll.FindOne(t.Context(), bson.D{}).Raw(); err != nil || string(after) != string(before) {
		t.Error("the document has changed", err)
	}
	write(1)
	testkit.Equal(t, map[mongopatterns.ProblemKind]int{series.Damaged: 1}, kinds(t, s))
}

// Every float32 is read back, also NaN; a number that is needed must be present.
func TestNumbersOfFields(t *testing.T) {
	t.Parallel()
	type small struct {
		Timestamp time.Time `bson:"timestamp"`
		V         float32   `bson:"v"`
	}
	db := mongotest.Database(t)
	s := open[string, small](t, db.Collection("c"), timeseries.Every(time.Hour), nil)
	nan := float32(math.NaN())
	appendMany(t, s, "s", small{at(1, 0, 0), 1.5}, small{at(1, 1, 0), nan})
	got := testkit.Collect(t, s.Range(t.Context(), "s", time.Time{}, time.Time{}))
	if len(got) != 2 || got[0].V != 1.5 || got[1].V == got[1].V {
		t.Errorf("%v", got)
	}
	needed := &series.Options{Values: []timeseries.Value{{Field: "v", Sum: "sum", First: "first", Last: "last"}}}
	strict := open[string, small](t, db.Collection("strict"), timeseries.Every(time.Hour), needed)
	if err := strict.Append(t.Context(), "s", small{at(1, 0, 0), nan}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
	appendMany(t, strict, "s", small{at(1, 2, 0), 2}, small{at(1, 1, 0), 1})
	appendMany(t, strict, "s", small{at(1, 3, 0), 3}, small{at(1, 0, 0), 4})
	testkit.Healthy(t, strict)
	for _, to := range []time.Time{{}, at(1, 30, 0)} { // stored and computed
		stats, err := strict.Aggregate(t.Context(), "s", time.Time{}, to)
		testkit.OK(t, err)
		v := stats.Values["v"]
		if v.Count != 4 || v.Sum.String() != "10" || v.First.Value.String() != "4" || v.Last.Value.String() != "3" || !v.Last.Time.Equal(at(1, 3, 0)) ||
			!v.Min.IsZero() || !v.Squares.IsZero() || !math.IsNaN(v.Variance()) {
			t.Errorf("%+v", v)
		}
	}
	documents := open[string, bson.D](t, db.Collection("documents"), timeseries.Every(time.Hour), needed)
	for _, v := range []any{"text", nil, math.Inf(1)} {
		if err := documents.Append(t.Context(), "s", bson.D{{Key: "timestamp", Value: at(1, 0, 0)}, {Key: "v", Value: v}}); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Error(v, err)
		}
	}
	if _, err := series.New[string, small](db.Collection("c"), timeseries.Every(time.Hour), &series.Options{Values: []timeseries.Value{{Field: "temperature"}}}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}
