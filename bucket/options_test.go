package bucket_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

// What New refuses is ErrInvalid and names the option.
func TestConfigurationErrors(t *testing.T) {
	coll := offline(t)
	hour := timeseries.Every(time.Hour)
	array := func(o bucket.Options) error { return second(bucket.New[int, reading](coll, hour, &o)) }
	kept := func(v ...timeseries.Value) error { return array(bucket.Options{Values: v}) }
	minutes := func(o slots.Options) error { return second(slots.New[int, reading](coll, hour, &o)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(bucket.New[int, reading](nil, hour, nil)), "coll: nil collection"},
		{second(bucket.New[int, reading](coll, nil, nil)), "window: nil"},
		{second(bucket.New[int, reading](coll, timeseries.Every(0), nil)), "window: the length of Every"},
		{second(bucket.New[int, reading](coll, timeseries.Every(1500*time.Microsecond), nil)), "window: the length of Every"},
		{array(bucket.Options{SeriesField: "a.b"}), `Options.SeriesField: invalid field name: "a.b" contains "."`},
		{array(bucket.Options{TimeField: "at.0"}), `Options.TimeField: invalid field name: "0" is a number`},
		{array(bucket.Options{IDField: "$id"}), `Options.IDField: invalid field name: "$id" starts with "$"`},
		{array(bucket.Options{EndField: "start"}), `Options.EndField: invalid field name: "start" collides with Options.StartField "start"`},
		{array(bucket.Options{ArrayField: "_id"}), `Options.ArrayField: invalid field name: "_id" collides with _id "_id"`},
		{array(bucket.Options{SeriesField: "n"}), `Options.SeriesField, Options.StartField: "n" is taken in _id`},
		{array(bucket.Options{EndTime: 3}), "Options.EndTime: 3"},
		{kept(timeseries.Value{Field: "v.0", Sum: "sum"}), `Options.Values[0].Field: invalid field name: "0" is a number`},
		{kept(timeseries.Value{Sum: "s"}), `Options.Values[0].Field: empty`},
		{kept(timeseries.Value{Field: "v", Squares: "s"}), `Options.Values[0].Squares: needs Sum`},
		{kept(timeseries.Value{Field: "v", Sum: "a", Min: "a.b"}), `Options.Values[0].Min: invalid field name: "a.b" collides with Options.Values[0].Sum "a"`},
		{kept(timeseries.Value{Field: "v", Sum: "measurements.sum"}), `Options.Values[0].Sum: invalid field name`},
		{kept(timeseries.Value{Field: "v", Sum: "a"}, timeseries.Value{Field: "v", Sum: "b"}), `Options.Values[1].Field: "v" is given twice`},
		{array(bucket.Options{MaxCount: -1}), "Options.MaxCount: -1"},
		{array(bucket.Options{MaxBytes: -1}), "Options.MaxBytes: -1"},
		{array(bucket.Options{MaxBytes: 5, CountField: "bytes"}), `Options.BytesField: invalid field name: "bytes" collides with Options.CountField "bytes"`},
		{second(slots.New[int, reading](coll, bucket.ByCount(), nil)), "window: longer than 292 years"},
		{minutes(slots.Options{DataField: "series"}), `Options.DataField: invalid field name: "series" collides with Options.SeriesField "series"`},
		{minutes(slots.Options{Levels: []time.Duration{time.Hour, 7 * time.Minute}}), `Options.Levels: 1h0m0s is not a whole multiple of 7m0s`},
		{minutes(slots.Options{Levels: []time.Duration{time.Hour, time.Hour}}), `Options.Levels: 1h0m0s is not a whole multiple of 1h0m0s`},
		{minutes(slots.Options{Levels: []time.Duration{time.Microsecond}}), `Options.Levels: 1µs is not a positive number`},
		{minutes(slots.Options{Levels: []time.Duration{8, 4, 2, 1}}), `Options.Levels: more than three`},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.HasPrefix(c.err.Error(), "bucket: new") && !strings.HasPrefix(c.err.Error(), "slots: new") || !strings.Contains(c.err.Error(), ": invalid: "+c.want) {
			t.Errorf("got  %v\nwant %v", c.err, c.want)
		}
	}
}
