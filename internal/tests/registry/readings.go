package registry

import (
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// reading is a measurement of a sensor.
type reading struct {
	ID          int       `bson:"id"`
	Timestamp   time.Time `bson:"timestamp"`
	Temperature int       `bson:"temperature"`
}

// nine is the hour of all measurements.
var nine = time.Date(2019, 1, 31, 9, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return nine.Add(time.Duration(minute) * time.Minute) }

func measured(id int) reading { return reading{id, at(id), 20 + id} }

// eachSeries are readings of a sensor each, so that each makes a document.
func eachSeries(ids ...int) iter.Seq2[string, reading] {
	return func(yield func(string, reading) bool) {
		for _, id := range ids {
			if !yield(fmt.Sprint(id), measured(id)) {
				return
			}
		}
	}
}

// measurements are four that are not adopted.
func measurements(s *Scene) {
	s.InsertEach("plain", 4, func(id int) bson.D {
		return testkit.D("_id", id, "series", fmt.Sprint(id), "id", id, "timestamp", at(id), "temperature", id)
	})
}

// from and to are the bounds of a day of measurements.
var from, to = nine, nine.Add(24 * time.Hour)

// number is the ID of a measurement.
func number(r reading) int { return r.ID }

// moment is the time of write n.
func moment(n int) time.Time { return nine.Add(time.Duration(n) * time.Millisecond) }
