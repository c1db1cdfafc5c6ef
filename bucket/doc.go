// Package bucket stores measurements in buckets: one document for an hour, a day or a month of a sensor,
// instead of one document for each measurement.
//
// # When to use it, and when not
//
// Use it for measurements that are read by range, and where you need aggregates kept with the data,
// updates and deletions of any measurement, unique IDs, transactions or change streams. Do not use it:
//
//   - For metrics that are only appended. The server's own time-series collections and package series
//     compress columns.
//   - If you mostly look measurements up one by one. Keep plain documents.
//   - For many single measurements that arrive from many series in turn. Each append costs as much
//     as five to ten plain inserts (docs/benchmarks.md, trickle). Collect them for AppendMany, or
//     take package series with its Gatherer.
//   - For one measurement a minute that is set again and again. See package slots.
//
// Choose a window that gets ten measurements or more. Each append rewrites its whole bucket, so keep
// buckets below a few hundred kilobytes (Options.MaxCount, MaxBytes). A collection created with
// block_compressor=zstd takes less disk space.
//
// # Documents
//
// [Buckets] append measurements to an array until the bucket is full, and keep running aggregates. All names are
// options. These are the names of the example below:
//
//	{
//	  _id: {sensor_id: 12345, start_date: 2019-01-31T10:00:00Z, n: 0},
//	  sensor_id: 12345,
//	  start_date: 2019-01-31T10:00:00Z,
//	  end_date:   2019-01-31T10:59:59.999Z,
//	  measurements: [
//	    {timestamp: 2019-01-31T10:00:00Z, temperature: 40},
//	    {timestamp: 2019-01-31T10:01:00Z, temperature: 41.5}
//	  ],
//	  transaction_count: 2,
//	  sum_temperature: 81.5
//	}
//
// A bucket takes Options.MaxCount measurements, 1000 by default. Then the next bucket of the same window begins,
// with n: 1. With [ByCount] there is one window for all times, and the buckets are the numbered pages of a series.
//
// # The calls
//
//	type Reading struct {
//		Timestamp   time.Time `bson:"timestamp"` // Options.TimeField
//		Temperature float64   `bson:"temperature"`
//	}
//
//	buckets, err := bucket.New[int, Reading](coll, timeseries.Every(time.Hour), &bucket.Options{
//		SeriesField: "sensor_id",
//		StartField:  "start_date",
//		EndField:    "end_date",
//		CountField:  "transaction_count",
//		Values:      []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
//	})
//	err = buckets.EnsureIndexes(ctx)
//
//	_, err = buckets.Append(ctx, 12345, Reading{now, 40})
//	_, err = buckets.AppendMany(ctx, timeseries.Of(12345, readings...), nil)
//	for reading, err := range buckets.Range(ctx, 12345, from, to) { ... }
//	latest, err := buckets.Latest(ctx, 12345)
//	stats, err := buckets.Aggregate(ctx, 12345, from, to)
//	mean := stats.Values["temperature"].Mean()
//
// The type parameters are the type of the key of a series, here a sensor, and the type of a
// measurement. Package timeseries explains windows, values and the result of Aggregate. Filter and
// the methods that end in Pipeline return what the calls send, so that you can add stages of your
// own.
//
// # Concurrency
//
// Any number of processes may write the same series, if they use the same window and options. A bucket and
// its aggregates change in one write. Sums of doubles can differ in the last digits, depending on the
// order of arrival. With Squares, sums are Decimal128 and do not depend on it. If other writers have
// filled the bucket, an append looks up the newest one and tries again; after 16 attempts it returns
// [mongopatterns.ErrConflict]. All calls join the caller's transaction. After an error from a call that
// writes, abort it.
//
// # Failures
//
// With Options.IDField an append can be repeated, because a measurement whose ID is already stored in
// its window is not stored again. After Archive has moved the window it is, and the next Archive leaves it
// out. Without IDField, repeating an append whose answer was lost may store
// its measurements twice. Replace can be repeated. A repeated Delete returns
// [mongopatterns.ErrNotFound], or deletes a second measurement of the same time.
//
// Archive and Adopt use transactions and need a replica set; they can be stopped and run again.
//
// # Costs
//
// Round trips (RT) in the usual case; each call says more.
//
//	Append                 1 RT  1 document written, by _id, rollover included
//	AppendMany             1 RT  a batch, 1 write for each bucket in it
//	Range                  1 RT  a batch of the cursor; 1 key and document for each bucket
//	Aggregate              1 RT  1 key and document for each bucket; arrays read at the edges only
//	Latest                 1 RT  the buckets of the newest window
//	Bucket, CountBuckets   1 RT  by _id
//	Replace, Delete        1 RT  1 document written, its aggregates recomputed
//	Archive                5 RT  a batch, 2 writes for each document
//	Adopt                  4 RT  a batch of new documents, and reads the whole source
//	Compare                a scan of the source and, on the server, of the buckets
//	Check, Repair          a scan of the collection
//
// All reads use the index {series, start}. With Options.IDField there is also a unique index {series,
// start, "measurements.id"}. To archive all series at once, create an index on {start} yourself, because
// without it Archive scans the collection.
//
// # Adoption and maintenance
//
// [Buckets.Adopt] copies a collection of single measurements into buckets while old code still inserts
// measurements into it. A ledger, a collection with the name of the buckets' plus ".adopt", records which
// documents were copied, and [Buckets.Compare] then lists the differences. Adopt does not carry over later edits
// and deletions of the source. It guarantees nothing if the ledger or the source was dropped and created again,
// if the source or its database was renamed, or for writes to the source that were rolled back (w: 1).
//
// Buckets made by other programs, with any _id, can be read, edited and archived too. Append starts buckets of
// its own beside them. Repair computes the aggregates that they lack.
//
// It also computes aggregates that you configure later; run it once all writers have the new Values. Until
// then Aggregate counts for new Values only what was appended with them, without an error, and a mean can be
// wrong.
//
// To delete old buckets, set Options.EndField, run Repair if there are buckets without it, and create a TTL
// index on it. To move them to another collection, call [Buckets.Archive].
//
// # Sharding
//
// Shard by {series, start}, so that every write, and every read of a range of a series, goes only to
// the shards that hold it.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package bucket

// Notes for those who change this package.
//
//   - The `_id` is {series, start, n}. It needs no second unique index, existing buckets with other `_id`s keep being
//     read, and on a cluster sharded by series and start equal `_id`s lie on one shard. An append is one upsert by
//     `_id`, guarded by the bucket's count and bytes, in an unordered bulk write with all that go at the same time. A
//     duplicate key means that the bucket is full, perhaps through another writer: the append tries the next bucket,
//     or looks up the newest, at most 16 times. No hint is needed, because mongod always takes the `_id` index for an
//     equality on `_id`.
//   - What the server calls too large (17419, 17420, 10334) is a full bucket.
//   - Variance is right to 1e-9 at any mean: with Squares, sum and squares are Decimal128, exact by `$inc` in any
//     order, for some 60 bytes a bucket and value. Where even 34 digits are not enough it is NaN, not 0. A pivot was
//     weighed: it needs a guard, and a second round trip where two set it.
//   - The server turns a double into a Decimal128 with 34 digits only in `$sum`: `$inc`, `$multiply`, `$subtract`,
//     `$divide` and `$toDecimal` take 15, and so does `$add` inside `$group` and from MongoDB 7.0. `$sum` takes what
//     is not a number for 0, so it stands behind `$isNumber`.
//   - What is written, by the client, and what Check computes, on the server, are the same but for the order of
//     additions. `number.Rounding` bounds that for every type, also for sums that overflow on the way in one order and
//     not in another: there an infinity is no problem.
//   - AppendMany places and encodes each measurement once, and sends a batch that is at most one wire message: stored,
//     refused and unknown are told apart.
//   - De-duplication is a guard in the filter inside a bucket and a unique partial index over the buckets of a window.
//   - Edits recompute a bucket's aggregates from its array in the same write, and Repair uses the same stage, so
//     neither can lose a live append.
//   - Adopt keeps a ledger, for bucket and series alike: by interval of the source's `_id`s, the `_id` and an 8-byte
//     hash of each adopted document, written in the batch's own transaction. A checkpoint, the highest `_id` so far,
//     was used before and lost what clients inserted below it, whose ObjectIDs do not rise together, and what had
//     failed. Weighed and refused: a mark in the source's documents (dies with a ReplaceOne), a margin of time (a
//     clock can be off by more), an ID in the measurements (many have but time and value), a change stream (ends with
//     the oplog). Each run reads the source whole, in order, and the ledger beside it: 20 bytes a document, and a
//     second run writes nothing. An interval is guarded by its revision and bounded by 16 KiB, as every batch that
//     falls into it writes it anew. Order and equality of `_id`s are the server's, computed by the client; a source
//     that is not strictly in that order is refused, so a difference could not double anything.
//   - Archive moves a batch, bounded by documents and bytes, in a transaction. Who reads both collections as they were
//     at one moment reads them in one snapshot session.
//   - bucket, series and slots share one frame, which sends upserts and says what became of each: stored, taken by
//     another writer, too large, refused, unknown. What to do about it is a loop in each package: the next bucket, a
//     look at how full the newest is, the same again. What a bucket derives is one table, for recount, edits,
//     aggregates of a part and Check.
