package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

var bucketCases = []benchmark{
	{"bucket", "published", "Sensors with a measurement a minute as documents, native time series and buckets: documents, bytes, load, reads.", bucketStorage},
	{"bucket", "ingest by series", "A day of measurements, 10,000 of one series in a batch.", bucketIngestBySeries},
	{"bucket", "ingest in time order", "A day of measurements, 50 of each series in a batch.", bucketIngestByTime},
	{"bucket", "trickle", "Measurements as they come, one of each series in a batch: where buckets cost more than documents.", bucketTrickle},
}

// reading is a measurement of the weather.
type reading struct {
	At          time.Time `bson:"at"`
	Temperature float64   `bson:"temperature"`
	Humidity    float64   `bson:"humidity"`
	Pressure    float64   `bson:"pressure"`
}

// plainReading is a reading as a document of its own.
type plainReading struct {
	Sensor  int32   `bson:"sensor_id"`
	Reading reading `bson:",inline"`
}

// slotReading is a reading whose time is its place.
type slotReading struct {
	Temperature float64 `bson:"temperature"`
	Humidity    float64 `bson:"humidity"`
	Pressure    float64 `bson:"pressure"`
}

// readingsFrom is when the weather begins.
var readingsFrom = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)

// late is how late a reading can be, in ms: any number below it is as likely.
const late = 1000

// weather holds the readings of all sensors in little memory: one a minute, and late.
type weather struct {
	sensors, minutes int
	packed           []packedReading // by sensor, then by time
}

type packedReading struct {
	at                              int64 // ms
	temperature, humidity, pressure int32 // tenths
}

func newWeather(random *rand.Rand, sensors, minutes int) *weather {
	w := &weather{sensors: sensors, minutes: minutes, packed: make([]packedReading, 0, sensors*minutes)}
	for range sensors {
		mean, drift, pressure := 5+15*random.Float64(), 0.0, 1000+30*random.Float64()
		for minute := range minutes {
			drift = 0.995*drift + 0.1*random.NormFloat64()
			pressure += 0.03 * random.NormFloat64()
			day := math.Sin(2 * math.Pi * (float64(minute)/1440 - 0.3))
			temperature := mean + 6*day + drift + 0.1*random.NormFloat64()
			humidity := min(max(65-12*day-2*drift+0.2*random.NormFloat64(), 5), 100)
			w.packed = append(w.packed, packedReading{
				at:          readingsFrom.UnixMilli() + int64(minute)*60_000 + random.Int64N(late),
				temperature: int32(math.Round(10 * temperature)),
				humidity:    int32(math.Round(10 * humidity)),
				pressure:    int32(math.Round(10 * pressure)),
			})
		}
	}
	return w
}

func (w *weather) reading(sensor, minute int) reading {
	p := w.packed[sensor*w.minutes+minute]
	return reading{time.UnixMilli(p.at).UTC(), float64(p.temperature) / 10, float64(p.humidity) / 10, float64(p.pressure) / 10}
}

// end is after the last reading.
func (w *weather) end() time.Time { return readingsFrom.Add(time.Duration(w.minutes) * time.Minute) }

// bySeries yields one sensor after the other.
func (w *weather) bySeries() iter.Seq2[int32, reading] {
	return func(yield func(int32, reading) bool) {
		for sensor := range w.sensors {
			for minute := range w.minutes {
				if !yield(int32(sensor), w.reading(sensor, minute)) {
					return
				}
			}
		}
	}
}

// byTime yields the readings as they come.
func (w *weather) byTime() iter.Seq2[int32, reading] {
	return func(yield func(int32, reading) bool) {
		for minute := range w.minutes {
			for sensor := range w.sensors {
				if !yield(int32(sensor), w.reading(sensor, minute)) {
					return
				}
			}
		}
	}
}

// layout is one way of storing readings.
type layout struct {
	name string
	coll *mongo.Collection
	// empty makes the collection anew.
	empty func(ctx context.Context) error
	// ingest stores readings, so many in a batch.
	ingest func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error
	// finish is what is done once all is stored; nil is nothing.
	finish func(ctx context.Context, w *weather) error
	// compact merges what was ingested; nil for layouts that cannot.
	compact func(ctx context.Context) error
	// read calls fn with the readings of a sensor in order.
	read func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error
	// hourly calls fn with the means of each hour.
	hourly func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error
}

const (
	plainName, nativeName   = "plain documents", "native time series"
	openName, compactedName = "series, open", "series, compacted"
	monthsName              = "series, months, compacted"
	gathererName            = "series, gatherer"
)

// layouts are all ways of storing readings in collections of db, plain documents
// first.
func layouts(db *mongo.Database) ([]layout, error) {
	all := []layout{plainLayout(db), nativeLayout(db)}
	for _, make := range []func(*mongo.Database) (layout, error){arrayHourLayout, arrayDayLayout, slotsLayout, seriesLayout} {
		l, err := make(db)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

var sensorIndex = mongo.IndexModel{Keys: d("sensor_id", 1, "at", 1)}

func plainLayout(db *mongo.Database) layout {
	coll := db.Collection("plain")
	return layout{
		name: plainName, coll: coll,
		empty: func(ctx context.Context) error {
			if err := coll.Drop(ctx); err != nil {
				return err
			}
			_, err := coll.Indexes().CreateOne(ctx, sensorIndex)
			return err
		},
		ingest: insertReadings(coll), read: findReadings(coll), hourly: groupReadings(coll),
	}
}

// nativeLayout is a time-series collection of the server.
func nativeLayout(db *mongo.Database) layout {
	coll := db.Collection("native")
	return layout{
		name: nativeName, coll: coll,
		empty: func(ctx context.Context) error {
			if err := coll.Drop(ctx); err != nil {
				return err
			}
			err := db.CreateCollection(ctx, coll.Name(), options.CreateCollection().SetTimeSeriesOptions(
				options.TimeSeries().SetTimeField("at").SetMetaField("sensor_id").SetGranularity("minutes")))
			if err != nil {
				return err
			}
			_, err = coll.Indexes().CreateOne(ctx, sensorIndex)
			return err
		},
		ingest: insertReadings(coll), read: findReadings(coll), hourly: groupReadings(coll),
		// The server compresses a bucket when it closes it, which a reading of a later
		// week makes it do.
		finish: func(ctx context.Context, w *weather) error {
			var docs []any
			for sensor := range w.sensors {
				r := w.reading(sensor, w.minutes-1)
				r.At = r.At.AddDate(0, 0, 7)
				docs = append(docs, plainReading{int32(sensor), r})
			}
			_, err := coll.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
			return err
		},
	}
}

func insertReadings(coll *mongo.Collection) func(context.Context, iter.Seq2[int32, reading], int) error {
	return func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
		docs := make([]any, 0, batch)
		insert := func() error {
			_, err := coll.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
			docs = docs[:0]
			return err
		}
		for sensor, r := range readings {
			if docs = append(docs, plainReading{sensor, r}); len(docs) == batch {
				if err := insert(); err != nil {
					return err
				}
			}
		}
		if len(docs) == 0 {
			return nil
		}
		return insert()
	}
}

func rangeOf(sensor int32, from, to time.Time) bson.D {
	return d("sensor_id", sensor, "at", d("$gte", from, "$lt", to))
}

func findReadings(coll *mongo.Collection) func(context.Context, int32, time.Time, time.Time, func(reading)) error {
	return func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
		cursor, err := coll.Find(ctx, rangeOf(sensor, from, to), options.Find().SetSort(d("sensor_id", 1, "at", 1)))
		if err != nil {
			return err
		}
		defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
		for cursor.Next(ctx) {
			var r plainReading
			if err := cursor.Decode(&r); err != nil {
				return err
			}
			fn(r.Reading)
		}
		return cursor.Err()
	}
}

func groupReadings(coll *mongo.Collection) func(context.Context, int32, time.Time, time.Time, func(slotReading)) error {
	return func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
		return eachMean(ctx, coll, fn, d("$match", rangeOf(sensor, from, to)), hourGroup("$", "$at"), d("$sort", d("_id", 1)))
	}
}

func hourGroup(prefix, at string) bson.D {
	return d("$group", d("_id", d("$dateTrunc", d("date", at, "unit", "hour")),
		"temperature", d("$avg", prefix+"temperature"), "humidity", d("$avg", prefix+"humidity"), "pressure", d("$avg", prefix+"pressure")))
}

func eachMean(ctx context.Context, coll *mongo.Collection, fn func(slotReading), stages ...bson.D) error {
	cursor, err := coll.Aggregate(ctx, mongo.Pipeline(stages))
	if err != nil {
		return err
	}
	var means []slotReading
	if err := cursor.All(ctx, &means); err != nil {
		return err
	}
	for _, mean := range means {
		fn(mean)
	}
	return nil
}

// array is the readings as bucket.Buckets stores them.
func array(db *mongo.Database, name string, window timeseries.Window, most int) (l layout, b *bucket.Buckets[int32, reading], err error) {
	coll := db.Collection(name)
	opts := &bucket.Options{SeriesField: "sensor_id", TimeField: "at", MaxCount: most}
	for _, field := range []string{"temperature", "humidity", "pressure"} {
		opts.Values = append(opts.Values, timeseries.Value{Field: field, Sum: "sum." + field, Min: "min." + field, Max: "max." + field})
	}
	if b, err = bucket.New[int32, reading](coll, window, opts); err != nil {
		return l, nil, err
	}
	return layout{
		coll:  coll,
		empty: dropAndIndex(coll, b.EnsureIndexes),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			_, err := b.AppendMany(ctx, readings, work(batch))
			return err
		},
		read: func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
			return each(b.Range(ctx, sensor, from, to), fn)
		},
	}, b, nil
}

func arrayHourLayout(db *mongo.Database) (layout, error) {
	l, b, err := array(db, "array_hour", timeseries.Every(time.Hour), 100)
	l.name = "array, hour"
	l.hourly = func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
		for hour, err := range b.AggregateWindows(ctx, sensor, from, to) {
			if err != nil {
				return err
			}
			fn(slotReading{hour.Values["temperature"].Mean(), hour.Values["humidity"].Mean(), hour.Values["pressure"].Mean()})
		}
		return nil
	}
	return l, err
}

// arrayDayLayout has no sums of hours, so the server computes them from the arrays.
func arrayDayLayout(db *mongo.Database) (layout, error) {
	l, b, err := array(db, "array_day", timeseries.Days(time.UTC), 2000)
	l.name = "array, day"
	l.hourly = func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
		return eachMean(ctx, l.coll, fn, d("$match", b.Filter(sensor, from, to)), d("$project", d("measurements", 1)),
			d("$unwind", "$measurements"), hourGroup("$measurements.", "$measurements.at"), d("$sort", d("_id", 1)))
	}
	return l, err
}

func slotsLayout(db *mongo.Database) (layout, error) {
	coll := db.Collection("slots")
	s, err := slots.New[int32, slotReading](coll, timeseries.Days(time.UTC), &slots.Options{SeriesField: "sensor_id"})
	if err != nil {
		return layout{}, err
	}
	return layout{
		name: "slots", coll: coll,
		empty: dropAndIndex(coll, s.EnsureIndexes),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			_, err := s.SetMany(ctx, func(yield func(int32, slots.Slot[slotReading]) bool) {
				for sensor, r := range readings {
					if !yield(sensor, slots.Slot[slotReading]{Time: r.At, Value: slotReading{r.Temperature, r.Humidity, r.Pressure}}) {
						return
					}
				}
			}, work(batch))
			return err
		},
		read: func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
			return each(s.Range(ctx, sensor, from, to), func(slot slots.Slot[slotReading]) {
				fn(reading{slot.Time, slot.Value.Temperature, slot.Value.Humidity, slot.Value.Pressure})
			})
		},
		hourly: func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
			var h hours
			err := each(s.Range(ctx, sensor, from, to), func(slot slots.Slot[slotReading]) { h.add(slot.Time, slot.Value, fn) })
			h.end(fn)
			return err
		},
	}, nil
}

// seriesLayout is packed blocks, as they are when nothing has been compacted.
func seriesLayout(db *mongo.Database) (layout, error) {
	l, _, err := packed(db, openName, timeseries.Days(time.UTC))
	return l, err
}

// packed is the readings as series.Series stores them.
func packed(db *mongo.Database, name string, window timeseries.Window) (layout, *series.Series[int32, reading], error) {
	coll := db.Collection(strings.ReplaceAll(name, ", ", "_"))
	opts := &series.Options{SeriesField: "sensor_id", TimeField: "at"}
	for _, field := range []string{"temperature", "humidity", "pressure"} {
		opts.Values = append(opts.Values, timeseries.Value{Field: field})
	}
	s, err := series.New[int32, reading](coll, window, opts)
	if err != nil {
		return layout{}, nil, err
	}
	return layout{
		name: name, coll: coll,
		empty: dropAndIndex(coll, s.EnsureIndexes),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			_, err := s.AppendMany(ctx, readings, work(batch))
			return err
		},
		read: func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
			return each(s.Range(ctx, sensor, from, to), fn)
		},
		hourly: func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
			return each(s.AggregateWindows(ctx, sensor, from, to, timeseries.Every(time.Hour)), func(hour timeseries.WindowStats) {
				fn(slotReading{hour.Values["temperature"].Mean(), hour.Values["humidity"].Mean(), hour.Values["pressure"].Mean()})
			})
		},
		compact: func(ctx context.Context) error {
			result, err := s.Compact(ctx, nil)
			if err == nil && result.Failed+result.Skipped > 0 {
				err = fmt.Errorf("not compacted: %+v", result)
			}
			return err
		},
	}, s, nil
}

// gathered is readings that wait in the client until there are 50 of each sensor.
func gathered(db *mongo.Database, sensors int) (layout, error) {
	l, s, err := packed(db, gathererName, timeseries.Days(time.UTC))
	l.ingest = func(ctx context.Context, readings iter.Seq2[int32, reading], _ int) error {
		gatherer, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: 50 * sensors})
		if err != nil {
			return err
		}
		for sensor, r := range readings {
			if err := gatherer.Add(ctx, sensor, r); err != nil {
				return err
			}
		}
		return gatherer.Close(ctx)
	}
	return l, err
}

// compacted is a copy of a series, compacted.
func compacted(ctx context.Context, open layout) (l layout, took time.Duration, err error) {
	if l, _, err = packed(open.coll.Database(), compactedName, timeseries.Days(time.UTC)); err != nil {
		return l, 0, err
	}
	if err := l.empty(ctx); err != nil {
		return l, 0, err
	}
	cursor, err := open.coll.Aggregate(ctx, mongo.Pipeline{d("$merge", d("into", l.coll.Name()))})
	if err != nil {
		return l, 0, err
	}
	if err := cursor.Close(ctx); err != nil {
		return l, 0, err
	}
	began := time.Now()
	err = l.compact(ctx)
	return l, time.Since(began), err
}

// hours computes hourly means of readings that come in order.
type hours struct {
	hour time.Time
	sum  slotReading
	n    float64
}

func (h *hours) add(at time.Time, r slotReading, fn func(slotReading)) {
	if hour := at.Truncate(time.Hour); !hour.Equal(h.hour) {
		h.end(fn)
		*h = hours{hour: hour}
	}
	h.sum.Temperature += r.Temperature
	h.sum.Humidity += r.Humidity
	h.sum.Pressure += r.Pressure
	h.n++
}

func (h *hours) end(fn func(slotReading)) {
	if h.n > 0 {
		fn(slotReading{h.sum.Temperature / h.n, h.sum.Humidity / h.n, h.sum.Pressure / h.n})
	}
}

// each calls fn with the values of seq up to an error.
func each[T any](seq iter.Seq2[T, error], fn func(T)) error {
	for v, err := range seq {
		if err != nil {
			return err
		}
		fn(v)
	}
	return nil
}

func work(batch int) *mongopatterns.Work { return &mongopatterns.Work{BatchSize: batch} }

func dropAndIndex(coll *mongo.Collection, ensure func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := coll.Drop(ctx); err != nil {
			return err
		}
		return ensure(ctx)
	}
}

// bucketStorage loads all layouts with the same readings, and compares what they take
// and how fast they are read.
func bucketStorage(ctx context.Context, b *bench) error {
	days := b.size(5, 30, 30)
	w := newWeather(b.rand, b.size(8, 20, 100), days*1440)
	all, err := layouts(b.db())
	if err != nil {
		return err
	}
	total := w.sensors * w.minutes
	sides := make([]side, len(all))
	for i, l := range all {
		sides[i] = side{name: l.name, reset: l.empty, run: func(ctx context.Context) error {
			done := 0
			return l.ingest(ctx, func(yield func(int32, reading) bool) {
				for sensor, r := range w.bySeries() {
					if !yield(sensor, r) {
						return
					}
					if done++; done%10_000 == 0 {
						b.progress(i*total+done, len(all)*total)
					}
				}
			}, 10_000)
		}}
	}
	runs := b.runs
	b.runs = 1
	if err := b.measure(ctx, "load, a measurement", total, sides[0], sides[1:]...); err != nil {
		return err
	}
	b.runs = runs
	for _, l := range all {
		if l.finish == nil {
			continue
		}
		if err := l.finish(ctx, w); err != nil {
			return fmt.Errorf("finish %s: %w", l.name, err)
		}
	}
	byDay, took, err := compacted(ctx, all[len(all)-1])
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	b.report("time for a measurement", "µs", value{"load of plain documents", b.results[0].Baseline}, value{"compaction of series", micros(took) / float64(total)})
	months, _, err := packed(all[0].coll.Database(), monthsName, timeseries.Months(time.UTC))
	for _, step := range []func(context.Context) error{
		months.empty,
		func(ctx context.Context) error { return months.ingest(ctx, w.bySeries(), 10_000) },
		months.compact,
	} {
		if err == nil {
			err = step(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", monthsName, err)
	}
	all = append(all, byDay, months)
	if err := reportStorage(ctx, b, all); err != nil {
		return err
	}
	if err := errors.Join(reportParts(ctx, b, byDay, w, 1440), reportParts(ctx, b, months, w, w.minutes)); err != nil {
		return err
	}
	if w.minutes >= 30*1440 { // less than a month says nothing of files
		for metric, most := range map[string]float64{"data": 0.025, "disk": 0.08, "index": 0.002} {
			b.goal(metric, compactedName, most)
			b.goal(metric, monthsName, most)
			for _, name := range []string{compactedName, monthsName} {
				b.because(metric, name, "The table of parts says where the bytes are. Nearly half are the times, late by chance, for which no code takes fewer than the last line has; then the keys, sums and ID of each document, which many small documents have more of.")
			}
		}
	}
	b.against("disk", nativeName, 0.8, compactedName, monthsName)
	b.report("documents, published", "documents", value{"plain documents, published", 4_320_000}, value{"array, day, published", 3_000})
	b.report("data, published", "bytes", value{"plain documents, published", 432e6}, value{"array, day, published", 198e6})
	b.report("index, published", "bytes", value{"plain documents, published", 172e6}, value{"array, day, published", 91e6})

	read := fmt.Sprintf("read %d days of a sensor", days)
	if err := b.readings(ctx, read, all, w, w.minutes, func(l layout, sensor int32, n *int) error {
		return l.read(ctx, sensor, readingsFrom, w.end(), func(reading) { *n++ })
	}); err != nil {
		return err
	}
	if days >= 30 {
		b.against(read+": time", nativeName, 0, compactedName, monthsName)
		for i, r := range b.results { // 5 ms, whatever the server's own take
			if r.Metric == read+": time" && r.BaselineName == nativeName {
				b.results[i].Goal = round(5000 / r.Baseline)
			}
		}
	}
	return b.readings(ctx, fmt.Sprintf("hourly means of %d days", days), all, w, w.minutes/60, func(l layout, sensor int32, n *int) error {
		return l.hourly(ctx, sensor, readingsFrom, w.end(), func(slotReading) { *n++ })
	})
}

// readings measures a read of one sensor after the other, each of which must come to n.
func (b *bench) readings(ctx context.Context, metric string, all []layout, w *weather, want int, read func(l layout, sensor int32, n *int) error) error {
	const ops = 2
	sides := make([]side, len(all))
	for i, l := range all {
		sensor := 0
		sides[i] = side{name: l.name, run: func(ctx context.Context) error {
			for range ops {
				n := 0
				if err := read(l, int32(sensor%w.sensors), &n); err != nil {
					return err
				}
				if n != want {
					return fmt.Errorf("%d of %d", n, want)
				}
				sensor++
			}
			return nil
		}}
	}
	return b.measure(ctx, metric, ops, sides[0], sides[1:]...)
}

// reportStorage reports what the layouts take after a checkpoint.
func reportStorage(ctx context.Context, b *bench, all []layout) error {
	// A user who may not do this gets the sizes of the last checkpoint.
	_ = b.client.Database("admin").RunCommand(ctx, d("fsync", 1)).Err()
	metrics := []string{"documents", "data", "disk", "disk in use", "index"} // in use is without blocks that are free again
	values := make([][]value, len(metrics))
	for _, l := range all {
		stats, err := storageOf(ctx, l.coll)
		if err != nil {
			return fmt.Errorf("size of %s: %w", l.name, err)
		}
		for i, v := range []float64{stats.Count, stats.Size, stats.StorageSize, stats.StorageSize - stats.FreeStorageSize, stats.TotalIndexSize} {
			values[i] = append(values[i], value{l.name, v})
		}
	}
	for i, metric := range metrics {
		unit := "bytes"
		if i == 0 {
			unit = "documents"
		}
		b.report(metric, unit, values[i][0], values[i][1:]...)
	}
	return nil
}

// reportParts reports what a measurement of compacted series takes, with so many
// measurements in a document, and of it each part.
func reportParts(ctx context.Context, b *bench, l layout, w *weather, window int) error {
	stats, err := storageOf(ctx, l.coll)
	if err != nil {
		return fmt.Errorf("size of %s: %w", l.name, err)
	}
	// Each column is packed by itself, so it takes what a block with it takes more than one without.
	columns := []string{"at", "temperature", "humidity", "pressure"}
	bytes, total, columned := make([]float64, len(columns)), len(w.packed), 0.0
	for i, name := range columns {
		if bytes[i], err = blockBytes(ctx, l.coll.Database().Collection("parts"), w, window, i-1, name); err != nil {
			return err
		}
		if i > 0 {
			bytes[i] -= bytes[0]
		}
		columned += bytes[i]
	}
	var parts []value
	for i, name := range columns {
		parts = append(parts, value{name, bytes[i] / float64(total)})
	}
	parts = append(parts, value{"keys, sums, ID", (stats.Size - columned) / float64(total)},
		value{"least for at, any code", math.Log2(late) / 8})
	b.report(l.name+", bytes of a measurement", "bytes", value{"all", stats.Size / float64(total)}, parts...)
	return nil
}

// blockBytes is what the compacted blocks of the readings take with one column beside the time, or with -1 none.
func blockBytes(ctx context.Context, coll *mongo.Collection, w *weather, window, column int, name string) (float64, error) {
	if err := coll.Drop(ctx); err != nil {
		return 0, err
	}
	s, err := series.New[int, bson.D](coll, timeseries.Every(100*365*24*time.Hour), &series.Options{TimeField: "at", MaxCount: 1 << 24, MaxBytes: 8 << 20})
	if err != nil {
		return 0, err
	}
	_, err = s.AppendMany(ctx, func(yield func(int, bson.D) bool) {
		for i, r := range w.packed {
			m := d("at", bson.DateTime(r.at))
			if column >= 0 {
				m = append(m, bson.E{Key: name, Value: float64([]int32{r.temperature, r.humidity, r.pressure}[column]) / 10})
			}
			if !yield(i/window, m) {
				return
			}
		}
	}, work(100_000))
	if err == nil {
		_, err = s.Compact(ctx, nil)
	}
	var sum []struct{ Bytes float64 }
	if err == nil {
		var cursor *mongo.Cursor
		if cursor, err = coll.Aggregate(ctx, mongo.Pipeline{d("$group", d("_id", nil, "bytes", d("$sum", "$bytes")))}); err == nil {
			err = cursor.All(ctx, &sum)
		}
	}
	if err != nil || len(sum) == 0 {
		return 0, err
	}
	return sum[0].Bytes, coll.Drop(ctx)
}

// storage is what a collection takes, in bytes.
type storage struct {
	Count, Size, StorageSize, FreeStorageSize, TotalIndexSize float64
}

// storageOf asks the server; of a time-series collection it is that of the buckets.
func storageOf(ctx context.Context, coll *mongo.Collection) (s storage, err error) {
	raw, err := coll.Database().RunCommand(ctx, d("collStats", coll.Name())).Raw()
	if err != nil {
		return s, err
	}
	number := func(path ...string) float64 {
		v, _ := raw.Lookup(path...).AsFloat64OK()
		return v
	}
	s = storage{number("count"), number("size"), number("storageSize"), number("freeStorageSize"), number("totalIndexSize")}
	if n := number("timeseries", "bucketCount"); n > 0 {
		s.Count = n
	}
	return s, nil
}

func bucketIngestBySeries(ctx context.Context, b *bench) error {
	w := newWeather(b.rand, b.size(8, 50, 100), 1440)
	return b.ingest(ctx, w, w.bySeries(), 10_000)
}

func bucketIngestByTime(ctx context.Context, b *bench) error {
	w := newWeather(b.rand, b.size(8, 50, 100), 1440)
	return b.ingest(ctx, w, w.byTime(), 50*w.sensors)
}

func bucketTrickle(ctx context.Context, b *bench) error {
	w := newWeather(b.rand, b.size(20, 50, 100), b.size(60, 240, 240))
	return b.ingest(ctx, w, w.byTime(), w.sensors)
}

// ingest measures the storing of readings in all layouts, batch at a time.
func (b *bench) ingest(ctx context.Context, w *weather, readings iter.Seq2[int32, reading], batch int) error {
	db := b.db()
	all, err := layouts(db)
	if err != nil {
		return err
	}
	trickle := batch == w.sensors
	if trickle {
		l, err := gathered(db, w.sensors)
		if err != nil {
			return err
		}
		all = append(all, l)
	}
	sides := make([]side, len(all))
	for i, l := range all {
		sides[i] = side{name: l.name, reset: l.empty, run: func(ctx context.Context) error { return l.ingest(ctx, readings, batch) }}
	}
	b.runs = min(b.runs, 3)
	if err := b.measure(ctx, "a measurement", w.sensors*w.minutes, sides[0], sides[1:]...); err != nil {
		return err
	}
	name := openName
	if trickle {
		name = gathererName
	}
	b.goal("a measurement: time", name, 0.333)
	b.against("a measurement: server CPU", nativeName, 0.333, name)
	for _, metric := range []string{"time", "server CPU"} {
		b.because("a measurement: "+metric, name, fmt.Sprintf("A batch is of %d measurements, and a command costs the server something however little it stores. More series in a batch take less each, as at a larger scale.", batch))
	}
	return nil
}

// against reports once more what was reported under a metric, with another baseline
// and a goal.
func (b *bench) against(metric, base string, most float64, names ...string) {
	values := map[string]float64{}
	var like result
	for _, r := range b.results {
		if r.Metric == metric {
			values[r.Name], like = r.Value, r
		}
	}
	for _, name := range names {
		n := len(b.results)
		if _, ok := values[base]; ok {
			b.report(metric, like.Unit, value{base, values[base]}, value{name, values[name]})
		}
		for i := range b.results[n:] {
			b.results[n+i].Goal, b.results[n+i].Runs = most, like.Runs
		}
	}
}
