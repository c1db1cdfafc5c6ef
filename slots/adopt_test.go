package slots_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// Slots whose day is a string are an error that names the field, and Adopt converts
// them, beside what was written since.
func TestSlotsAdopt(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, weather](t, coll, timeseries.Days(nil), &slots.Options{SeriesField: "sensor_id", StartField: "created_time", EndField: "end"})
	july := time.Date(2021, 7, 5, 0, 0, 0, 0, time.UTC)
	slot := func(t float64) bson.D { return bson.D{{Key: "temperature", Value: t}, {Key: "humidity", Value: 0.5}} }
	published := func(id any, created string, minutes bson.D) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "sensor_id", Value: "SENSOR-1"}, {Key: "created_time", Value: created}, {Key: "room", Value: 7},
			{Key: "data", Value: bson.D{{Key: "0", Value: minutes}}}}
	}
	testkit.OK(t, second(coll.InsertMany(t.Context(), []any{
		published(1, "2021-07-05 00:00:00", bson.D{{Key: "0", Value: slot(21.36)}, {Key: "1", Value: slot(21)}}),
		published(2, "2021-07-06", bson.D{{Key: "0", Value: slot(22)}, {Key: "1", Value: slot(22)}}),
		published(3, "2021-07-07T00:00:00+00:00", bson.D{{Key: "0", Value: slot(23)}}),
		published(4, "2021-07-08 10:00:00", bson.D{{Key: "0", Value: slot(23)}}),
		published(5, "yesterday", bson.D{{Key: "0", Value: slot(23)}}),
	})))
	for what, err := range map[string]error{
		"get":    second(s.Get(t.Context(), "SENSOR-1", july)),
		"range":  testkit.Drain(s.Range(t.Context(), "SENSOR-1", july, july.Add(time.Hour))),
		"all":    testkit.Drain(s.Range(t.Context(), "SENSOR-1", time.Time{}, time.Time{})),
		"latest": second(s.Latest(t.Context(), "SENSOR-1")),
	} {
		if err == nil || errors.Is(err, mongopatterns.ErrNotFound) || !strings.Contains(err.Error(), `created_time is "2021`) && !strings.Contains(err.Error(), `created_time is "yesterday"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	testkit.Equal(t, 5, len(testkit.Collect(t, s.Check(t.Context(), nil))))
	// Written since: the later value stays.
	testkit.OK(t, s.Set(t.Context(), "SENSOR-1", july.AddDate(0, 0, 1), weather{30, 1}))
	for _, dry := range []bool{true, false} {
		result, err := s.Adopt(t.Context(), nil, &mongopatterns.Work{BatchSize: 2, DryRun: dry})
		if err != nil || result.Examined != 5 || result.Done != 3 || result.Failed != 2 || len(result.Failures) != 2 {
			t.Errorf("%+v, %v", result, err)
		}
	}
	var got []string
	for _, slot := range testkit.Collect(t, s.Range(t.Context(), "SENSOR-1", july, july.AddDate(0, 0, 9))) {
		got = append(got, fmt.Sprint(slot.Time.Format("02 15:04 "), slot.Value.Temperature))
	}
	testkit.Equal(t, []string{"05 00:00 21.36", "05 00:01 21", "06 00:00 30", "06 00:01 22", "07 00:00 23"}, got)
	if doc := testkit.Stored[bson.M](t, coll)[0]; doc["_id"] != int32(1) || doc["room"] != int32(7) || doc["end"] != date(july.AddDate(0, 0, 1).Add(-time.Millisecond)) {
		t.Errorf("%v", doc)
	}
	result, err := s.Adopt(t.Context(), func(string) (time.Time, error) { return july.AddDate(0, 0, 3), nil }, &mongopatterns.Work{Filter: bson.M{"_id": 4}})
	if err != nil || !cmp.Equal(result, mongopatterns.Result{Examined: 1, Done: 1}) {
		t.Errorf("%+v, %v", result, err)
	}
	if n := len(testkit.Collect(t, s.Check(t.Context(), nil))); n != 1 || testkit.Count(t, coll, bson.D{}) != 5 {
		t.Errorf("%d problems, %d documents", n, testkit.Count(t, coll, bson.D{}))
	}
	// A wrong end is repaired.
	testkit.OK(t, second(coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "end", Value: day}}}})))
	if result, err := s.Repair(t.Context(), nil); err != nil || result.Done != 1 || result.Remaining != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// The window that ends at 1970 has an end like any other.
func TestSlotsAdoptBefore1970(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, int](t, coll, timeseries.Days(nil), &slots.Options{EndField: "end"})
	testkit.OK(t, second(coll.InsertOne(t.Context(), bson.D{{Key: "series", Value: "s"}, {Key: "start", Value: "1969-12-31"}, {Key: "end", Value: "23:59"}})))
	testkit.Done(t, 1)(s.Adopt(t.Context(), nil, nil))
	testkit.Equal(t, any(bson.DateTime(-1)), testkit.Stored[bson.M](t, coll)[0]["end"])
}

// Where Metadata is refused no document is made, also not beside others that are stored.
func TestRefusedMetadataMakesNoSlots(t *testing.T) {
	coll := fresh(t)
	s, err := slots.New[string, int](coll, timeseries.Days(nil), &slots.Options{
		Metadata: func(series any, _ time.Time) bson.D { return bson.D{{Key: series.(string), Value: 1}} }})
	testkit.OK(t, err)
	slots := func(yield func(string, slots.Slot[int]) bool) {
		_ = yield("room", slots.Slot[int]{Time: day, Value: 1}) && yield("_id", slots.Slot[int]{Time: day, Value: 2})
	}
	if result, err := s.SetMany(t.Context(), slots, nil); !errors.Is(err, mongopatterns.ErrInvalid) || result.Done != 1 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Equal(t, 1, testkit.Count(t, coll, bson.D{}))
}

// Get treats null as an empty slot, so null cannot be set.
func TestNullSlot(t *testing.T) {
	t.Parallel()
	s, err := slots.New[int, any](mongotest.Database(t).Collection("s"), timeseries.Every(time.Hour), nil)
	testkit.OK(t, err)
	if err := s.Set(t.Context(), 1, time.Unix(3600, 0), nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Error(err)
	}
}

// A start that is a list of strings is no string: Adopt leaves the document alone, also when it writes nothing.
func TestAdoptAListOfStrings(t *testing.T) {
	coll := fresh(t)
	s := newSlots[string, weather](t, coll, timeseries.Days(nil), &slots.Options{SeriesField: "sensor_id", StartField: "created_time"})
	testkit.Insert(t, coll, testkit.D("_id", 1, "sensor_id", "SENSOR-1", "created_time", bson.A{"2021-07-05"}, "data", bson.D{}))
	for _, dry := range []bool{true, false} {
		if result, err := s.Adopt(t.Context(), nil, &mongopatterns.Work{DryRun: dry}); err != nil || result.Done+result.Failed > 0 {
			t.Errorf("dry %v: %+v, %v", dry, result, err)
		}
	}
	testkit.Equal(t, 1, len(testkit.Collect(t, s.Check(t.Context(), nil))))
}

// Names that mean something else in a path, which only another program stores, are no slots: reads pass over them, and a
// document with them stays where it is.
func TestNamesOfOthers(t *testing.T) {
	for name, doc := range map[string]bson.D{
		"a dot":  {{Key: "data", Value: bson.D{{Key: "0", Value: bson.D{{Key: "1", Value: 21}, {Key: "2.5", Value: 22}}}}}},
		"above":  {{Key: "data", Value: bson.D{{Key: "0.1", Value: 22}, {Key: "0", Value: bson.D{{Key: "1", Value: 21}}}}}},
		"none":   {{Key: "data", Value: bson.D{{Key: "", Value: 22}, {Key: "0", Value: bson.D{{Key: "1", Value: 21}}}}}},
		"beside": {{Key: "data", Value: bson.D{{Key: "0", Value: bson.D{{Key: "1", Value: 21}}}}}, {Key: "a.b", Value: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			coll := mongotest.Database(t).Collection("slots")
			target := coll.Database().Collection("archive")
			s := newSlots[int, int](t, coll, timeseries.Days(nil), nil)
			testkit.OK(t, second(coll.InsertOne(ctx, append(bson.D{{Key: "_id", Value: 1}, {Key: "series", Value: 1}, {Key: "start", Value: day}}, doc...))))
			testkit.OK(t, second(coll.InsertOne(ctx, append(bson.D{{Key: "_id", Value: 2}, {Key: "series", Value: 2}, {Key: "start", Value: "2019-01-31"}}, doc...))))
			before := testkit.Stored[bson.Raw](t, coll)
			if all := testkit.Collect(t, s.Range(ctx, 1, time.Time{}, time.Time{})); len(all) != 1 || all[0].Value != 21 {
				t.Errorf("%v", all)
			}
			for what, call := range map[string]func() (mongopatterns.Result, error){
				"archive": func() (mongopatterns.Result, error) { return s.Archive(ctx, day.AddDate(1, 0, 0), target, nil) },
				"adopt":   func() (mongopatterns.Result, error) { return s.Adopt(ctx, nil, nil) },
			} {
				if result, err := call(); err != nil || result.Failed != 1 || !errors.Is(result.Failures[0].Err, mongopatterns.ErrMalformed) {
					t.Errorf("%s: %+v, %v", what, result, err)
				}
			}
			testkit.Equal(t, before, testkit.Stored[bson.Raw](t, coll))
			testkit.Equal(t, 0, testkit.Count(t, target, bson.D{}))
		})
	}
}
