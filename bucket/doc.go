// Package bucket stores measurements in buckets: one document for an hour, a
// day or a month of a sensor, instead of one document for each measurement.
//
// # Documents
//
// [Buckets] append measurements to an array until the bucket is full, and keep
// running aggregates:
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
// A bucket takes Options.MaxCount measurements; then the next one of the same
// window begins, with n: 1. With [ByCount] buckets are pages of a series.
//
// # The calls
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
// Windows, values and what Aggregate returns are words of package timeseries. Filter and the
// pipelines are what the calls send, for stages of your own.
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
//	Page, Pages            1 RT  by _id
//	Update, Delete         1 RT  1 document written, its aggregates recomputed
//	Archive                5 RT  a batch, 2 writes for each document
//	Adopt                  4 RT  a batch of new documents, and reads the whole source
//	Compare                a scan of the source and, on the server, of the buckets
//	Check, Repair          a scan of the collection
//
// Indexes: {series, start} for all reads; {series, start, "measurements.id"}, unique, with
// IDField. Make {start} yourself to archive all series.
//
// # When to use it, and when not
//
// Time-series collections of the server compress columns: prefer them for metrics that
// are only appended. Buckets of your own are for aggregates kept with the data, updates
// and deletes of any measurement, unique IDs, transactions and change streams. Keep
// measurements as documents if they are mostly looked up one by one. Fewer than ten in a
// window: take a longer window. Each append rewrites its bucket as a whole, so keep that
// to some hundred kilobytes; single measurements of many series in turn cost more than
// plain inserts: collect them, see package series. A collection created with
// block_compressor=zstd stores arrays of a day in 43 % less disk space. For one measurement
// a minute that is set again and again, see package slots.
//
// # Concurrency
//
// Any number of processes may write the same series, with the same window. A bucket and
// its aggregates change in one write. Sums of doubles may differ in the last digits with
// the order of arrival; with Squares they are Decimal128, and do not. A writer that
// finds the bucket full gets a duplicate key, looks up the newest bucket and tries again;
// after 16 times it gives up with [ErrContended]. Archive and Adopt need a replica set. All calls join the caller's transaction; after an error from a
// call that writes, abort it.
//
// # Adoption and maintenance
//
// [Buckets.Adopt] copies a collection of single measurements into buckets, while old code
// still inserts them; a ledger beside the buckets says which, and [Buckets.Compare] what
// differs then. Adopt carries no later edits and deletions of the source over, and promises
// nothing once the ledger or the source was dropped and begun anew, or for writes to the
// source that were rolled back (w: 1).
//
// Buckets that something else made, with any _id, are read, edited and archived like these; Repair computes
// what they lack, and aggregates that you configure later. To delete old documents make
// a TTL index on EndField, to keep them elsewhere call [Buckets.Archive].
//
// # Sharding
//
// Shard by {series, start}: every write and every read of a series and a range is
// targeted. Create the collections of Archive and of Adopt's ledger beforehand: a
// transaction over several shards creates none.
package bucket
