package slots_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

type Climate struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
}

func ExampleNew() {
	ctx := context.Background()
	coll := mongotest.ExampleDatabase().Collection("sensors")

	days, err := slots.New[string, Climate](coll, timeseries.Days(nil), &slots.Options{
		SeriesField: "sensor_id",
		StartField:  "created_time",
	})
	if err != nil {
		log.Fatal(err)
	}
	day := time.Date(2019, 1, 31, 0, 0, 0, 0, time.UTC)
	for minute := range 120 {
		if err := days.Set(ctx, "SENSOR-1", day.Add(time.Duration(minute)*time.Minute), Climate{20 + float64(minute)/4, 0.5}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(days.Path(day.Add(61 * time.Minute)))
	weather, err := days.Get(ctx, "SENSOR-1", day.Add(61*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weather.Temperature)
	for slot, err := range days.Range(ctx, "SENSOR-1", day.Add(59*time.Minute), day.Add(61*time.Minute)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(slot.Time.Format("15:04"), slot.Value.Temperature)
	}
	// Output:
	// data.1.1
	// 35.25
	// 00:59 34.75
	// 01:00 35
}
