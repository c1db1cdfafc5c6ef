package series_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// A measurement that cannot be stored, and a key that cannot identify a series, are ErrInvalid; nothing is
// sent.
func TestInvalid(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	s := open[any, bson.D](t, db.Collection("c"), timeseries.Days(nil), nil)
	ctx := t.Context()
	good := bson.D{{Key: "timestamp", Value: day}}
	cmds := mongotest.Record(t, db, func() {
		for _, m := range []bson.D{nil, {}, {{Key: "timestamp", Value: "today"}}, {{Key: "timestamp", Value: time.Time{}}}, {{Key: "timestamp", Value: day.AddDate(9000, 0, 0)}},
			append(good, good[0]), append(good, bson.E{Key: "a.b", Value: 1}), append(good, bson.E{Key: "$a", Value: 1}), append(good, bson.E{Key: "", Value: 1}),
			append(good, bson.E{Key: "a", Value: strings.Repeat("x", 5<<20)}), append(good, bson.E{Key: "a", Value: make(chan int)})} {
			for what, err := range map[string]error{"append": s.Append(ctx, "s", m), "update": s.Replace(ctx, "s", m)} {
				if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.HasPrefix(err.Error(), "series: ") {
					t.Errorf("%s %.100v: %v", what, m, err)
				}
			}
		}
		for _, bad := range []any{nil, bson.A{1}, bson.D{{Key: "$gt", Value: ""}}, bson.D{{Key: "a", Value: bson.D{{Key: "$gt", Value: 1}}}}, make(chan int)} {
			for what, err := range map[string]error{
				"append": s.Append(ctx, bad, good), "range": testkit.Drain(s.Range(ctx, bad, day, day)), "latest": second(s.Latest(ctx, bad)), "update": s.Replace(ctx, bad, good),
				"aggregate": second(s.Aggregate(ctx, bad, day, day)), "windows": testkit.Drain(s.AggregateWindows(ctx, bad, day, day)),
				"by": testkit.Drain(s.AggregateBy(ctx, bad, day, day, timeseries.Days(nil))), "by nothing": testkit.Drain(s.AggregateBy(ctx, "s", day, day, nil)), "delete": s.Delete(ctx, bad, day),
			} {
				if !errors.Is(err, mongopatterns.ErrInvalid) {
					t.Errorf("%v: %s: %v", bad, what, err)
				}
			}
		}
		negative := &mongopatterns.Work{BatchSize: -1}
		for what, err := range map[string]error{
			"delete": s.Delete(ctx, "s", time.Time{}), "archive": second(s.Archive(ctx, day, nil, nil)), "archive to itself": second(s.Archive(ctx, day, db.Collection("c"), nil)),
			"before": second(s.Archive(ctx, time.Time{}, db.Collection("archive"), nil)), "adopt": second(s.Adopt(ctx, nil, nil, nil)), "adopt itself": second(s.Adopt(ctx, db.Collection("c"), nil, nil)),
			"work": second(s.Compact(ctx, negative)), "check": testkit.Drain(s.Check(ctx, negative)), "documents": testkit.Drain(s.Documents(ctx, negative)),
			"filter": second(s.AppendMany(ctx, nil, &mongopatterns.Work{Filter: bson.D{}})),
		} {
			if !errors.Is(err, mongopatterns.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
	if len(cmds) > 0 {
		t.Errorf("sent %v", cmds.Names())
	}
	if stats, err := s.Aggregate(ctx, "s", time.Time{}, time.Time{}); stats.Count != 0 || err != nil {
		t.Errorf("empty: %+v, %v", stats, err)
	}
	for what, err := range map[string]error{"latest": second(s.Latest(ctx, "s")), "update": s.Replace(ctx, "s", good), "delete": s.Delete(ctx, "s", day)} {
		if !errors.Is(err, mongopatterns.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if result, err := s.AppendMany(ctx, nil, nil); err != nil || result.Examined != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

// New refuses bad options with an ErrInvalid that names the option.
func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("c")
	with := func(o series.Options) error { return second(series.New[int, event](coll, timeseries.Days(nil), &o)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(series.New[int, event](nil, timeseries.Days(nil), nil)), "coll: the collection is nil"},
		{second(series.New[int, event](coll, nil, nil)), "window: it is nil"},
		{second(series.New[int, event](coll, timeseries.Every(0), nil)), "window: the length of Every"},
		{with(series.Options{SeriesField: "a.b"}), "Options.SeriesField"}, {with(series.Options{SeriesField: "n"}), "Options.SeriesField"},
		{with(series.Options{EndField: "start"}), "Options.EndField"}, {with(series.Options{BlocksField: "_id"}), "Options.BlocksField"},
		{with(series.Options{TimeField: "a.b"}), "Options.TimeField"}, {with(series.Options{BatchField: "$b"}), "Options.BatchField"},
		{with(series.Options{MaxBytes: 9 << 20}), "Options.MaxBytes"}, {with(series.Options{MaxCount: -1}), "Options.MaxCount"},
		{with(series.Options{Values: []timeseries.Value{{}}}), "Options.Values[0].Field: it is empty"},
		{with(series.Options{Values: []timeseries.Value{{Field: "v"}, {Field: "v"}}}), `Options.Values[1].Field: "v" is given twice`},
		{with(series.Options{Values: []timeseries.Value{{Field: "v", Sum: "count"}}}), "Options.Values[0].Sum"},
		{with(series.Options{Values: []timeseries.Value{{Field: "v", Sum: "s", Min: "s.m"}}}), "Options.Values[0].Min"},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.HasPrefix(c.err.Error(), "series: new: invalid: "+c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

// A window of AggregateBy that has no length, or ends before what it holds, is refused.
func TestAggregateByWindows(t *testing.T) {
	s := testkit.Must(series.New[string, event](mongotest.Database(t).Collection("c"), timeseries.Days(nil), nil))
	testkit.OK(t, s.Append(t.Context(), "s", event{Timestamp: day}))
	for name, by := range map[string]timeseries.Window{"nil": nil, "0": timeseries.Every(0), "500µs": timeseries.Every(500 * time.Microsecond), "-1h": timeseries.Every(-time.Hour), "backwards": backwards{}} {
		if err := testkit.Drain(s.AggregateBy(t.Context(), "s", day, day.Add(time.Hour), by)); !errors.Is(err, mongopatterns.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// backwards are windows that end before the time that they hold.
type backwards struct{}

func (backwards) Bounds(t time.Time) (start, end time.Time) { return t, t.Add(-time.Hour) }
