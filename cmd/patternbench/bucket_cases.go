package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
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
	{"bucket", "storage", "Sensors with a measurement a minute, three smooth values in tenths, as documents, native time series and buckets: documents, bytes, load, reads.", bucketStorage},
	{"bucket", "kinds of data", "What a measurement of three values takes on disk, after a bulk load, by the kind of data: smooth decimals a minute apart; doubles of full mantissas at irregular times; the same with a random string; and a real set, the hourly climate normals of Seattle. Indexes are not in it.", bucketKinds},
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
func layouts(db *mongo.Database) []layout {
	open, _ := packed(db, openName, timeseries.Days(time.UTC)) // as it is when nothing has been compacted
	return []layout{plainLayout(db), nativeLayout(db), arrayHourLayout(db), arrayDayLayout(db), slotsLayout(db), open}
}

var sensorIndex = mongo.IndexModel{Keys: d("sensor_id", 1, "at", 1)}

func plainLayout(db *mongo.Database) layout {
	coll := db.Collection("plain")
	return layout{
		name: plainName, coll: coll,
		empty:  dropAndIndex(coll, func(ctx context.Context) error { return errorOf(coll.Indexes().CreateOne(ctx, sensorIndex)) }),
		ingest: insertReadings(coll), read: findReadings(coll), hourly: groupReadings(coll),
	}
}

// nativeLayout is a time-series collection of the server.
func nativeLayout(db *mongo.Database) layout {
	coll := db.Collection("native")
	return layout{
		name: nativeName, coll: coll,
		empty: dropAndIndex(coll, func(ctx context.Context) error {
			err := db.CreateCollection(ctx, coll.Name(), options.CreateCollection().SetTimeSeriesOptions(
				options.TimeSeries().SetTimeField("at").SetMetaField("sensor_id").SetGranularity("minutes")))
			if err != nil {
				return err
			}
			return errorOf(coll.Indexes().CreateOne(ctx, sensorIndex))
		}),
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
			return errorOf(coll.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false)))
		},
	}
}

func insertReadings(coll *mongo.Collection) func(context.Context, iter.Seq2[int32, reading], int) error {
	return func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
		return insertBatches(ctx, coll, batch, readings, func(sensor int32, r reading) any { return plainReading{sensor, r} })
	}
}

// insertBatches inserts a document for each measurement, so many at a time.
func insertBatches[M any](ctx context.Context, coll *mongo.Collection, batch int, all iter.Seq2[int32, M], document func(sensor int32, m M) any) error {
	docs := make([]any, 0, batch)
	insert := func() error {
		_, err := coll.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
		docs = docs[:0]
		return err
	}
	for sensor, m := range all {
		if docs = append(docs, document(sensor, m)); len(docs) == batch {
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

func rangeOf(sensor int32, from, to time.Time) bson.D {
	return d("sensor_id", sensor, "at", d("$gte", from, "$lt", to))
}

func findReadings(coll *mongo.Collection) func(context.Context, int32, time.Time, time.Time, func(reading)) error {
	return func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
		opts := options.Find().SetSort(d("sensor_id", 1, "at", 1))
		return each(decoded[plainReading](ctx, coll, rangeOf(sensor, from, to), opts), func(r plainReading) { fn(r.Reading) })
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
	means, err := aggregate[slotReading](ctx, -1, coll, stages...)
	for _, mean := range means {
		fn(mean)
	}
	return err
}

// array is the readings as bucket.Buckets stores them.
func array(db *mongo.Database, name string, window timeseries.Window, most int) (layout, *bucket.Buckets[int32, reading]) {
	coll := db.Collection(strings.ReplaceAll(name, ", ", "_"))
	opts := &bucket.Options{SeriesField: "sensor_id", TimeField: "at", MaxCount: most}
	for _, field := range []string{"temperature", "humidity", "pressure"} {
		opts.Values = append(opts.Values, timeseries.Value{Field: field, Sum: "sum." + field, Min: "min." + field, Max: "max." + field})
	}
	b := must(bucket.New[int32, reading](coll, window, opts))
	writer := b
	return layout{
		name: name, coll: coll,
		empty: dropAndIndex(coll, func(ctx context.Context) error {
			writer = must(bucket.New[int32, reading](coll, window, opts)) // which remembers nothing of buckets that were dropped
			return writer.EnsureIndexes(ctx)
		}),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			return errorOf(writer.AppendMany(ctx, readings, work(batch)))
		},
		read: func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
			return each(b.Range(ctx, sensor, from, to), fn)
		},
	}, b
}

// meansOf calls fn with the means of windows.
func meansOf(windows iter.Seq2[timeseries.WindowStats, error], fn func(slotReading)) error {
	return each(windows, func(w timeseries.WindowStats) {
		fn(slotReading{w.Values["temperature"].Mean(), w.Values["humidity"].Mean(), w.Values["pressure"].Mean()})
	})
}

func arrayHourLayout(db *mongo.Database) layout {
	l, b := array(db, "array, hour", timeseries.Every(time.Hour), 100)
	l.hourly = func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
		return meansOf(b.AggregateWindows(ctx, sensor, from, to), fn)
	}
	return l
}

// arrayDayLayout has no sums of hours, so the server computes them from the arrays.
func arrayDayLayout(db *mongo.Database) layout {
	l, b := array(db, "array, day", timeseries.Days(time.UTC), 2000)
	l.hourly = func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
		return eachMean(ctx, l.coll, fn, d("$match", b.Filter(sensor, from, to)), d("$project", d("measurements", 1)),
			d("$unwind", "$measurements"), hourGroup("$measurements.", "$measurements.at"), d("$sort", d("_id", 1)))
	}
	return l
}

func slotsLayout(db *mongo.Database) layout {
	coll := db.Collection("slots")
	s := must(slots.New[int32, slotReading](coll, timeseries.Days(time.UTC), &slots.Options{SeriesField: "sensor_id"}))
	return layout{
		name: "slots", coll: coll,
		empty: dropAndIndex(coll, s.EnsureIndexes),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			return errorOf(s.SetMany(ctx, func(yield func(int32, slots.Slot[slotReading]) bool) {
				for sensor, r := range readings {
					if !yield(sensor, slots.Slot[slotReading]{Time: r.At, Value: slotReading{r.Temperature, r.Humidity, r.Pressure}}) {
						return
					}
				}
			}, work(batch)))
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
	}
}

// packed is the readings as series.Series stores them.
func packed(db *mongo.Database, name string, window timeseries.Window) (layout, *series.Series[int32, reading]) {
	coll := db.Collection(strings.ReplaceAll(name, ", ", "_"))
	opts := &series.Options{SeriesField: "sensor_id", TimeField: "at"}
	for _, field := range []string{"temperature", "humidity", "pressure"} {
		opts.Values = append(opts.Values, timeseries.Value{Field: field})
	}
	s := must(series.New[int32, reading](coll, window, opts))
	return layout{
		name: name, coll: coll,
		empty: dropAndIndex(coll, s.EnsureIndexes),
		ingest: func(ctx context.Context, readings iter.Seq2[int32, reading], batch int) error {
			return errorOf(s.AppendMany(ctx, readings, work(batch)))
		},
		read: func(ctx context.Context, sensor int32, from, to time.Time, fn func(reading)) error {
			return each(s.Range(ctx, sensor, from, to), fn)
		},
		hourly: func(ctx context.Context, sensor int32, from, to time.Time, fn func(slotReading)) error {
			return meansOf(s.AggregateBy(ctx, sensor, from, to, timeseries.Every(time.Hour)), fn)
		},
		compact: func(ctx context.Context) error { return whole(s.Compact(ctx, nil)) },
	}, s
}

// whole fails if something was left out.
func whole(r mongopatterns.Result, err error) error {
	if err == nil && r.Failed+r.Skipped > 0 {
		err = fmt.Errorf("not all is done: %+v", r)
	}
	return err
}

// gathered is readings that wait in the client until there are some of each sensor, as many as waiting says.
func gathered(db *mongo.Database, sensors int) layout {
	l, s := packed(db, gathererName, timeseries.Days(time.UTC))
	l.ingest = func(ctx context.Context, readings iter.Seq2[int32, reading], _ int) error {
		gatherer, err := series.NewGatherer(s, &series.GathererOptions{MaxCount: waiting * sensors})
		if err != nil {
			return err
		}
		for sensor, r := range readings {
			if err := gatherer.Append(ctx, sensor, r); err != nil {
				return err
			}
		}
		return gatherer.Close(ctx)
	}
	return l
}

// compacted fills l with a copy of a series, compacted, and says how long that took.
func compacted(ctx context.Context, l, open layout) time.Duration {
	check(l.empty(ctx))
	check(must(open.coll.Aggregate(ctx, mongo.Pipeline{d("$merge", d("into", l.coll.Name()))})).Close(ctx))
	began := time.Now()
	check(l.compact(ctx))
	return time.Since(began)
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
func bucketStorage(ctx context.Context, b *bench) []comparison {
	days := b.size(5, 30, 30)
	w := newWeather(b.rand, b.size(8, 20, 100), days*1440)
	db := b.db()
	loaded := layouts(db)
	byDay, _ := packed(db, compactedName, timeseries.Days(time.UTC))
	byMonth, _ := packed(db, monthsName, timeseries.Months(time.UTC))
	all := append(slices.Clone(loaded), byDay, byMonth)
	total := w.sensors * w.minutes
	load := comparison{metric: "load, a measurement", ops: total, runs: min(b.runs, 3)} // in turns; the last load of each stays
	for i, l := range loaded {
		load.sides = append(load.sides, side{name: l.name, reset: l.empty, run: func(ctx context.Context) error {
			done := 0
			return l.ingest(ctx, func(yield func(int32, reading) bool) {
				for sensor, r := range w.bySeries() {
					if !yield(sensor, r) {
						return
					}
					if done++; done%10_000 == 0 {
						b.progress(i*total+done, len(loaded)*total)
					}
				}
			}, 10_000)
		}})
	}
	load.after = func(ctx context.Context) {
		for _, l := range loaded {
			if l.finish != nil {
				check(l.finish(ctx, w))
			}
		}
		took := compacted(ctx, byDay, loaded[len(loaded)-1])
		b.report("time for a measurement", "µs", value{"load of plain documents", b.results[0].Baseline}, value{"compaction of series", micros(took) / float64(total)})
		check(byMonth.empty(ctx), byMonth.ingest(ctx, w.bySeries(), 10_000), byMonth.compact(ctx))
		reportStorage(ctx, b, all)
		reportParts(ctx, b, byDay, w, 1440)
		reportParts(ctx, b, byMonth, w, w.minutes)
		storageGoals(b, w)
	}
	reads := w.reads(fmt.Sprintf("read %d days of a sensor", days), all, w.minutes, func(ctx context.Context, l layout, sensor int32, n *int) error {
		return l.read(ctx, sensor, readingsFrom, w.end(), func(reading) { *n++ })
	})
	if days >= 30 {
		reads.after = func(context.Context) {
			b.against(reads.metric+": time", nativeName, 0, compactedName, monthsName)
			for i, r := range b.results { // 5 ms, whatever the server's own take
				if r.Metric == reads.metric+": time" && r.BaselineName == nativeName {
					b.results[i].Goal = round(5000 / r.Baseline)
				}
			}
		}
	}
	return []comparison{load, reads, w.reads(fmt.Sprintf("hourly means of %d days", days), all, w.minutes/60, func(ctx context.Context, l layout, sensor int32, n *int) error {
		return l.hourly(ctx, sensor, readingsFrom, w.end(), func(slotReading) { *n++ })
	})}
}

// storageGoals are those of what series takes.
func storageGoals(b *bench, w *weather) {
	if w.minutes >= 30*1440 { // less than a month says nothing of files
		for metric, most := range map[string]float64{"data": 0.025, "disk in use": 0.08, "index": 0.002} {
			for _, name := range []string{compactedName, monthsName} {
				b.goal(metric, name, most)
				b.because(metric, name, "Most bytes are those of the times, which jitter and cannot be stored in fewer bytes. The keys, sums and ID of each document weigh more if documents are small.")
			}
		}
	}
	b.against("disk in use", nativeName, 0.8, compactedName, monthsName)
}

// reads compares layouts by reading one sensor after the other. Each sensor must have count measurements.
func (w *weather) reads(metric string, all []layout, count int, read func(ctx context.Context, l layout, sensor int32, n *int) error) comparison {
	c := compared(metric, 2)
	for _, l := range all {
		c.sides = append(c.sides, way(l.name, func(ctx context.Context, i int) error {
			n := 0
			return cmp.Or(read(ctx, l, int32(i%w.sensors), &n), want(n, count))
		}))
	}
	return c
}

// reportStorage reports what the layouts take after a checkpoint.
func reportStorage(ctx context.Context, b *bench, all []layout) {
	checkpoint(ctx, b.client)
	metrics := []string{"documents", "data", "disk", "disk in use", "index"} // in use is without blocks that are free again
	values := make([][]value, len(metrics))
	for _, l := range all {
		stats := must(storageOf(ctx, l.coll))
		for i, v := range []float64{stats.Count, stats.Size, stats.StorageSize, stats.StorageSize - stats.FreeStorageSize, stats.TotalIndexSize} {
			values[i] = append(values[i], value{l.name, v})
		}
	}
	for i, metric := range metrics {
		unit := "bytes"
		if i == 0 {
			unit = "documents"
		}
		b.report(metric, unit, values[i]...)
	}
}

// checkpoint writes what is in memory. A user who may not do this gets the sizes of the last checkpoint.
func checkpoint(ctx context.Context, client *mongo.Client) {
	_ = client.Database("admin").RunCommand(ctx, d("fsync", 1)).Err()
}

// partsOf ends the name of a table of parts of one thing, which are no ways of storing it.
const partsOf = ", bytes of a measurement"

// reportParts reports what a measurement of compacted series takes, with so many
// measurements in a document, and of it each part.
func reportParts(ctx context.Context, b *bench, l layout, w *weather, window int) {
	stats := must(storageOf(ctx, l.coll))
	// Each column is packed by itself, so it takes what a block with it takes more than one without.
	columns := []string{"at", "temperature", "humidity", "pressure"}
	bytes, total, columned := make([]float64, len(columns)), len(w.packed), 0.0
	parts := []value{{"all", stats.Size / float64(total)}}
	for i, name := range columns {
		bytes[i] = blockBytes(ctx, l.coll.Database().Collection("parts"), w, window, i-1, name)
		if i > 0 {
			bytes[i] -= bytes[0]
		}
		columned += bytes[i]
		parts = append(parts, value{name, bytes[i] / float64(total)})
	}
	parts = append(parts, value{"keys, sums, ID", (stats.Size - columned) / float64(total)},
		value{"least for at, any code", math.Log2(late) / 8})
	b.report(l.name+partsOf, "bytes", parts...)
}

// blockBytes is what the compacted blocks of the readings take with one column beside the time, or with -1 none.
func blockBytes(ctx context.Context, coll *mongo.Collection, w *weather, window, column int, name string) float64 {
	check(coll.Drop(ctx))
	s := must(series.New[int, bson.D](coll, timeseries.Every(100*365*24*time.Hour), &series.Options{TimeField: "at", MaxCount: 1 << 20, MaxBytes: 8 << 20}))
	must(s.AppendMany(ctx, func(yield func(int, bson.D) bool) {
		for i, r := range w.packed {
			m := d("at", bson.DateTime(r.at))
			if column >= 0 {
				m = append(m, bson.E{Key: name, Value: float64([]int32{r.temperature, r.humidity, r.pressure}[column]) / 10})
			}
			if !yield(i/window, m) {
				return
			}
		}
	}, work(100_000)))
	must(s.Compact(ctx, nil))
	sum := must(aggregate[struct{ Bytes float64 }](ctx, 1, coll, d("$group", d("_id", nil, "bytes", d("$sum", "$bytes")))))
	check(coll.Drop(ctx))
	return sum[0].Bytes
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

func bucketIngestBySeries(_ context.Context, b *bench) []comparison {
	w := newWeather(b.rand, b.size(8, 50, 100), 1440)
	return b.ingest(w, layouts(b.db()), w.bySeries(), 10_000)
}

func bucketIngestByTime(_ context.Context, b *bench) []comparison {
	w := newWeather(b.rand, b.size(8, 50, 100), 1440)
	return b.ingest(w, layouts(b.db()), w.byTime(), 50*w.sensors)
}

// ingest stores readings in all layouts, batch at a time.
func (b *bench) ingest(w *weather, all []layout, readings iter.Seq2[int32, reading], batch int) []comparison {
	c := w.stores(acknowledged, min(b.runs, 3), all, readings, batch)
	c.after = func(context.Context) {
		b.goal(acknowledged+": time", openName, 0.333)
		b.against(acknowledged+": server CPU", nativeName, 0.333, openName)
	}
	return []comparison{c}
}

func (w *weather) stores(metric string, runs int, all []layout, readings iter.Seq2[int32, reading], batch int) comparison {
	c := comparison{metric: metric, ops: w.sensors * w.minutes, runs: runs}
	for _, l := range all {
		c.sides = append(c.sides, side{name: l.name, reset: l.empty, run: func(ctx context.Context) error { return l.ingest(ctx, readings, batch) }})
	}
	return c
}

// bucketTrickle stores readings as they come. What waits in the client is lost when the client ends, so it
// is set against others that wait there too.
func bucketTrickle(_ context.Context, b *bench) []comparison {
	w, db := newWeather(b.rand, b.size(20, 50, 100), b.size(60, 240, 240)), b.db()
	all := layouts(db)
	inClient := w.stores(buffered, min(b.runs, 3), []layout{all[0], all[1], gathered(db, w.sensors)}, w.byTime(), waiting*w.sensors)
	for i, name := range []string{plainName + ", buffered", nativeName + ", buffered", gathererName} {
		inClient.sides[i].name = name
	}
	inClient.after = func(context.Context) {
		b.goal(buffered+": time", gathererName, 0.333)
		b.against(buffered+": server CPU", nativeName+", buffered", 0.333, gathererName)
	}
	return []comparison{w.stores(acknowledged, min(b.runs, 3), all, w.byTime(), w.sensors), inClient}
}

// What is measured of an ingest, by its durability.
const (
	acknowledged = "a measurement, acknowledged by the majority"
	buffered     = "a measurement, buffered in the client: a crash loses up to 50 minutes"
	waiting      = 50 // measurements of each series, one a minute
)

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
