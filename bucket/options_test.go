package bucket_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
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
	hour := bucket.Every(time.Hour)
	array := func(o bucket.Options) error { return second(bucket.New[int, reading](coll, hour, &o)) }
	kept := func(v ...bucket.Value) error { return array(bucket.Options{Values: v}) }
	slots := func(o bucket.SlotOptions) error { return second(bucket.NewSlots[int, reading](coll, hour, &o)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(bucket.New[int, reading](nil, hour, nil)), "coll: nil collection"},
		{second(bucket.New[int, reading](coll, nil, nil)), "window: nil"},
		{second(bucket.New[int, reading](coll, bucket.Every(0), nil)), "window: the length of Every"},
		{second(bucket.New[int, reading](coll, bucket.Every(1500*time.Microsecond), nil)), "window: the length of Every"},
		{array(bucket.Options{SeriesField: "a.b"}), `Options.SeriesField: invalid field name: "a.b" contains "."`},
		{array(bucket.Options{TimeField: "at.0"}), `Options.TimeField: invalid field name: "0" is a number`},
		{array(bucket.Options{IDField: "$id"}), `Options.IDField: invalid field name: "$id" starts with "$"`},
		{array(bucket.Options{EndField: "start"}), `Options.EndField: invalid field name: "start" collides with Options.StartField "start"`},
		{array(bucket.Options{ArrayField: "_id"}), `Options.ArrayField: invalid field name: "_id" collides with _id "_id"`},
		{array(bucket.Options{SeriesField: "n"}), `Options.SeriesField, Options.StartField: "n" is taken in _id`},
		{array(bucket.Options{EndTime: 3}), "Options.EndTime: 3"},
		{kept(bucket.Value{Field: "v.0", Sum: "sum"}), `Options.Values[0].Field: invalid field name: "0" is a number`},
		{kept(bucket.Value{Sum: "s"}), `Options.Values[0].Field: empty`},
		{kept(bucket.Value{Field: "v"}), `Options.Values[0].Field: "v" has no field`},
		{kept(bucket.Value{Field: "v", Sum: "a", Min: "a.b"}), `Options.Values[0].Min: invalid field name: "a.b" collides with Options.Values[0].Sum "a"`},
		{kept(bucket.Value{Field: "v", Sum: "measurements.sum"}), `Options.Values[0].Sum: invalid field name`},
		{kept(bucket.Value{Field: "v", Sum: "a"}, bucket.Value{Field: "v", Sum: "b"}), `Options.Values[1].Field: "v" stands twice`},
		{array(bucket.Options{MaxCount: -1}), "Options.MaxCount: -1"},
		{array(bucket.Options{MaxBytes: -1}), "Options.MaxBytes: -1"},
		{array(bucket.Options{MaxBytes: 5, CountField: "bytes"}), `Options.BytesField: invalid field name: "bytes" collides with Options.CountField "bytes"`},
		{slots(bucket.SlotOptions{DataField: "series"}), `SlotOptions.DataField: invalid field name: "series" collides with SlotOptions.SeriesField "series"`},
		{slots(bucket.SlotOptions{Levels: []time.Duration{time.Hour, 7 * time.Minute}}), `SlotOptions.Levels: 1h0m0s is no whole multiple of 7m0s`},
		{slots(bucket.SlotOptions{Levels: []time.Duration{time.Hour, time.Hour}}), `SlotOptions.Levels: 1h0m0s is no whole multiple of 1h0m0s`},
		{slots(bucket.SlotOptions{Levels: []time.Duration{time.Microsecond}}), `SlotOptions.Levels: 1µs is not a positive number`},
		{slots(bucket.SlotOptions{Levels: []time.Duration{8, 4, 2, 1}}), `SlotOptions.Levels: more than three`},
		{second(bucket.NewSlots[int, reading](coll, bucket.ByCount(), nil)), "window: ByCount has no slots"},
	} {
		if !errors.Is(c.err, mongopatterns.ErrInvalid) || !strings.HasPrefix(c.err.Error(), "bucket: new") || !strings.Contains(c.err.Error(), ": invalid: "+c.want) {
			t.Errorf("got  %v\nwant %v", c.err, c.want)
		}
	}
}
