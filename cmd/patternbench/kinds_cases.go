package main

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/examples/data"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/timeseries"
)

// measured is a set of measurements, by series and then by time.
type measured struct {
	name  string
	count int
	all   iter.Seq2[int32, bson.D]
}

// kindsOfData are the same number of measurements of three values, from data that compresses to data
// that does not, and a real set.
func kindsOfData(b *bench) []measured {
	sensors, minutes := b.size(8, 20, 50), b.size(2, 10, 30)*1440
	w := newWeather(b.rand, sensors, minutes)
	smooth := func(yield func(int32, bson.D) bool) {
		for sensor, r := range w.bySeries() {
			if !yield(sensor, d("at", r.At, "temperature", r.Temperature, "humidity", r.Humidity, "pressure", r.Pressure)) {
				return
			}
		}
	}
	seed := b.rand.Uint64()
	irregular := func(text bool) iter.Seq2[int32, bson.D] {
		return func(yield func(int32, bson.D) bool) {
			random := rand.New(rand.NewPCG(seed, 1)) // each layout gets the same
			for sensor := range sensors {
				at := readingsFrom
				for range minutes {
					at = at.Add(time.Duration(1+random.Int64N(120_000)) * time.Millisecond)
					m := d("at", at, "temperature", 20*random.NormFloat64(), "humidity", random.Float64(), "pressure", 1000+30*random.NormFloat64())
					if text {
						m = append(m, bson.E{Key: "tag", Value: randomText(random)})
					}
					if !yield(int32(sensor), m) {
						return
					}
				}
			}
		}
	}
	normals := readNormals()
	real := func(yield func(int32, bson.D) bool) {
		for _, m := range normals {
			if !yield(0, m) {
				return
			}
		}
	}
	n := sensors * minutes
	return []measured{
		{"tenths, a minute apart", n, smooth},
		{"full mantissas at irregular times", n, irregular(false)},
		{"the same with a random string of 16", n, irregular(true)},
		{"hourly normals of Seattle", len(normals), real},
	}
}

func randomText(random *rand.Rand) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	var text [16]byte
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text[:])
}

// readNormals are the hourly climate normals of Seattle, in which pressure, temperature and wind change slowly.
func readNormals() (out []bson.D) {
	for _, w := range must(data.SeattleWeather()) {
		out = append(out, d("at", w.Time, "pressure", w.Pressure, "temperature", w.Temperature, "wind", w.Wind))
	}
	return out
}

// stored is one way of storing measurements, in a collection that is empty.
type stored struct {
	name  string
	coll  *mongo.Collection
	store func(ctx context.Context, all iter.Seq2[int32, bson.D]) error
}

// storedWays are in collections of db, all but the first compressed by zstd.
func storedWays(ctx context.Context, db *mongo.Database) (ways []stored) {
	create := func(name string, opts *options.CreateCollectionOptionsBuilder, codec string) *mongo.Collection {
		opts.SetStorageEngine(d("wiredTiger", d("configString", "block_compressor="+codec)))
		check(db.CreateCollection(ctx, name, opts))
		return db.Collection(name)
	}
	for _, codec := range []string{"snappy", "zstd"} {
		coll := create("plain_"+codec, options.CreateCollection(), codec)
		must(coll.Indexes().CreateOne(ctx, sensorIndex))
		ways = append(ways, stored{"plain documents, " + codec, coll, insertMeasured(coll)})
	}
	native := create("native", options.CreateCollection().SetTimeSeriesOptions(
		options.TimeSeries().SetTimeField("at").SetMetaField("sensor_id").SetGranularity("minutes")), "zstd")
	days, blocks := create("array_day", options.CreateCollection(), "zstd"), create("series_days", options.CreateCollection(), "zstd")
	arrays := must(bucket.New[int32, bson.D](days, timeseries.Days(time.UTC), &bucket.Options{SeriesField: "sensor_id", TimeField: "at", MaxCount: 2000}))
	packed := must(series.New[int32, bson.D](blocks, timeseries.Days(time.UTC), &series.Options{SeriesField: "sensor_id", TimeField: "at"}))
	check(arrays.EnsureIndexes(ctx), packed.EnsureIndexes(ctx))
	return append(ways,
		stored{"native time series, zstd", native, func(ctx context.Context, all iter.Seq2[int32, bson.D]) error {
			if err := insertMeasured(native)(ctx, all); err != nil {
				return err
			}
			// The server compresses a bucket when it closes it, which a measurement of a later year makes it do.
			var later []any
			for sensor := range all {
				if len(later) == 0 || later[len(later)-1].(bson.D)[0].Value != sensor {
					later = append(later, d("sensor_id", sensor, "at", readingsFrom.AddDate(9, 0, 0)))
				}
			}
			return errorOf(native.InsertMany(ctx, later, options.InsertMany().SetOrdered(false)))
		}},
		stored{"array, day, zstd", days, func(ctx context.Context, all iter.Seq2[int32, bson.D]) error {
			return errorOf(arrays.AppendMany(ctx, all, work(10_000)))
		}},
		stored{"series, days, compacted, zstd", blocks, func(ctx context.Context, all iter.Seq2[int32, bson.D]) error {
			if _, err := packed.AppendMany(ctx, all, work(10_000)); err != nil {
				return err
			}
			return whole(packed.Compact(ctx, nil))
		}})
}

func insertMeasured(coll *mongo.Collection) func(ctx context.Context, all iter.Seq2[int32, bson.D]) error {
	return func(ctx context.Context, all iter.Seq2[int32, bson.D]) error {
		return insertBatches(ctx, coll, 10_000, all, func(sensor int32, m bson.D) any { return append(d("sensor_id", sensor), m...) })
	}
}

// bucketKinds reports what a measurement takes on disk, by kind of data.
func bucketKinds(ctx context.Context, b *bench) []comparison {
	kinds := kindsOfData(b)
	for i, kind := range kinds {
		ways := storedWays(ctx, b.db())
		for _, way := range ways {
			check(way.store(ctx, kind.all))
		}
		checkpoint(ctx, b.client)
		var used, allocated []value
		for _, way := range ways {
			s, n := must(storageOf(ctx, way.coll)), float64(kind.count)
			used = append(used, value{way.name, (s.StorageSize - s.FreeStorageSize) / n})
			allocated = append(allocated, value{way.name, s.StorageSize / n})
		}
		b.report(kind.name+": disk in use, a measurement", "bytes", used...)
		b.report(kind.name+": disk allocated, a measurement", "bytes", allocated...)
		b.progress(i+1, len(kinds))
	}
	return nil
}
