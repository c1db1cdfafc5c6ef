// Package bucket stores measurements in buckets: one document for an hour, a
// day or a month of a sensor, a stock or a player, instead of one document for
// each measurement.
//
// # The problem
//
// A sensor that measures once a minute makes 43,200 documents a month. Each
// repeats the sensor's key and its field names and has an entry in every index,
// and every mean over an hour reads 60 documents. A bucket holds the key and the
// time once, is one index entry, and keeps sum and count beside the
// measurements, so that the mean is read, not computed.
//
// There are two layouts. [Buckets] appends measurements to an array, any number
// at any times, until the bucket is full, and keeps running aggregates. [Slots]
// has a fixed place for each minute of a day, say, and keeps the last
// measurement set there.
//
// # Array buckets
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
// These names come from this configuration; all but the window are optional:
//
//	type Reading struct {
//		Timestamp   time.Time `bson:"timestamp"`
//		Temperature float64   `bson:"temperature"`
//	}
//
//	buckets, err := bucket.New[int, Reading](coll, bucket.Every(time.Hour), &bucket.Options{
//		SeriesField: "sensor_id",
//		StartField:  "start_date",
//		EndField:    "end_date",
//		CountField:  "transaction_count",
//		Values:      []bucket.Value{{Field: "temperature", Sum: "sum_temperature"}},
//	})
//	err = buckets.EnsureIndexes(ctx)
//
// Five calls are enough for most:
//
//	_, err = buckets.Append(ctx, 12345, Reading{now, 40})
//	_, err = buckets.AppendMany(ctx, bucket.Of(12345, readings...), nil)
//	for reading, err := range buckets.Range(ctx, 12345, from, to) { ... }
//	latest, err := buckets.Latest(ctx, 12345)
//	stats, err := buckets.Aggregate(ctx, 12345, from, to)
//	mean := stats.Values["temperature"].Mean()
//
// A bucket takes Options.MaxCount measurements, and Options.MaxBytes if you set
// it; then the next one of the same window begins, with n: 1 in its _id. The
// _id alone keeps two writers from making the same bucket. Buckets that
// something else made, with any _id, are read, edited and archived like these,
// but appends go to new ones; without a count they are missing in aggregates
// until Repair has run.
//
// A [Value] says which number inside a measurement is aggregated, and under
// which names the bucket keeps its sum, minimum, maximum, first and last by
// time, sum of squares and count. All of them are updated in the write that
// appends. Numbers keep their BSON type: sums of ints are ints, unless one is
// very large, and of Decimal128 Decimal128; squares of ints are doubles. Sums of
// doubles are added one by one, in the order of arrival, so two ways to the same
// sum may differ in the last digits.
//
// # Slots
//
//	{
//	  _id: {sensor_id: "SENSOR-1", created_time: 2019-01-31T00:00:00Z},
//	  sensor_id: "SENSOR-1",
//	  created_time: 2019-01-31T00:00:00Z,
//	  data: {"0": {"0": {temperature: 21.36, humidity: 0.67}, ..., "59": {...}}, ..., "23": {...}}
//	}
//
//	slots, err := bucket.NewSlots[string, Weather](coll, bucket.Days(nil), &bucket.SlotOptions{
//		SeriesField: "sensor_id",
//		StartField:  "created_time",
//	})
//	err = slots.Set(ctx, "SENSOR-1", now, Weather{21.36, 0.67})
//	weather, err := slots.Get(ctx, "SENSOR-1", now)
//	for slot, err := range slots.Range(ctx, "SENSOR-1", from, to) { ... }
//
// A write is an upsert of data.H.M and can be repeated without harm; a read
// takes one slot, or the slots of a range, out of the document. The times inside
// the document are the keys: there is no timestamp to store. Slots keeps no
// aggregates; [Slots.Aggregate] has the server compute them.
//
// # Windows and time
//
// [Every] has a fixed length, [Days] and [Months] follow the calendar of a time
// zone, days of 23 and 25 hours included; any type with the one method of
// [Window] will do. A measurement goes to the window of its own time, however
// late it comes. Times are BSON dates, milliseconds, of the years 1 to 9999; others
// are [ErrInvalid]. (A time.Time beyond 292 million years overflows the date
// before this package sees it in a measurement, and is refused but for the rare
// one that falls into these years.) Ranges hold from and not to; limits may be
// any time.
//
// Slots count the hours since the window began, not those on the wall, so that
// the hour which comes twice in autumn has two places: a day of 25 hours goes to
// "24".
//
// The window of a collection must not change; a helper with another window does
// not find what falls between.
//
// # Several writers, repeats and late data
//
// Append and AppendMany may run in any number of processes on the same series.
// A writer that finds the bucket full gets a duplicate key from the server,
// looks up the newest bucket once and tries again, Options.MaxRetries times at
// most, then gives up with [ErrContended].
//
// With Options.IDField a measurement with an ID that the window holds already is
// reported as a duplicate and not stored: what is sent again after a failure
// counts once. IDs, and series, that are equal to the server are the same, as 1
// and 1.0 are. A guard in the filter keeps it out of the same bucket, a unique
// index out of the window's other buckets, so EnsureIndexes must have run. The
// time is part of the identity: the same ID in another window is another
// measurement. What was archived or deleted is not remembered.
//
// # Indexes
//
//	{sensor_id: 1, start_date: 1}                          all reads
//	{sensor_id: 1, start_date: 1, "measurements.id": 1}    unique, partial; only with IDField
//	{start_date: 1}                                        only with RetentionIndex
//
// Appends go by _id.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; each method says more. After an error
// of the server 1 more finds out whether a bucket without an array is the cause.
//
//	Append                 1 RT  1 document written, rollover included
//	AppendMany, SetMany    1 RT  a batch, 1 write for each bucket in it
//	Range                  1 RT  a batch of the cursor; 1 key and document for each bucket
//	Aggregate              1 RT  1 key and document for each bucket; arrays read at the edges only
//	Latest                 1 RT  the buckets of the newest window
//	Replace, Delete        1 RT  1 document written, its aggregates recomputed
//	Set, Get, Unset        1 RT  1 key, 1 document
//	Archive                5 RT  a batch, 2 writes for each document
//	DeleteBefore           1 RT  a batch
//	Adopt                  4 RT  a batch
//	Check, Repair          a scan of the collection
//
// # Guarantees
//
// A bucket and its aggregates change in one write: a reader never sees a sum
// without its measurement. No method but [Buckets.Archive], [Buckets.Adopt] and
// [Buckets.RangeAcross] needs a transaction; these say
// [ErrTransactionsUnsupported] on a standalone server. All join the session of
// their context, and a transaction it is in. Range does not see one state of all
// windows, as no cursor does; run it in a transaction for that.
//
// A transaction of the caller's may go on after [ErrInvalid], [ErrNotFound] and a
// duplicate reported by IDField: what was refused has left nothing behind. After
// any other error abort it; most have ended it on the server.
//
// A bucket whose array was overwritten with something else is [ErrNotArray] to
// what needs the array, and the text names it. Reads never pass over it; sums
// that it keeps are still read.
//
// # Retention
//
// [Buckets.Archive] moves old buckets to another collection, each batch in a
// transaction; [Buckets.RangeAcross] reads both collections as one meanwhile.
// [Buckets.DeleteBefore] deletes them. Both delete whole documents, which is
// what makes buckets cheap to expire: a TTL index on EndField does the same
// without a call.
//
// # Sharding
//
// Shard by {series, start} ([Buckets.ShardKey]): a series is spread over time,
// every write and every read of a series and a range is targeted, and the unique
// index on IDs starts with the key. A _id holds the key, so it is unique
// over the shards. Create the collections of Archive and of Adopt's checkpoints
// beforehand: a transaction over several shards creates none. Latest in a
// transaction needs MongoDB 8.0 on a sharded collection.
//
// # Maintenance
//
// [Buckets.Adopt] copies a collection of single measurements into buckets and
// can be stopped at any time; documents that its conversion answers with
// [ErrSkip] are left out. [Buckets.Check] compares aggregates with the
// measurements, [Buckets.Repair] computes wrong ones anew, beside live appends,
// and counts what it cannot repair.
// To add an aggregate to buckets that exist, configure it and run Repair.
// Slots have nothing derived to repair, and SetMany over a cursor adopts a
// plain collection, as often as you like.
//
// # Composing
//
// Filter selects the documents of a range for your own Find and UpdateMany;
// RangePipeline, AggregatePipeline, AggregateWindowsPipeline and LatestPipeline
// are what the methods run, for your own stages to follow.
//
// # When not to use it
//
//   - Time-series collections of the server (MongoDB 5.0) bucket by themselves,
//     compress columns, and are queried as single measurements. Prefer them for
//     metrics that are only appended. Buckets of your own are for what those do
//     not do: aggregates kept with the data, updates and deletes of any
//     measurement, unique IDs, transactions that write, change streams,
//     several levels of keys, or a server without them.
//   - Measurements that are mostly looked up, changed or indexed one by one by
//     something else than series and time: keep them as documents.
//   - Fewer than ten or so measurements in a window: take a longer window.
//   - Large ones: a bucket is rewritten as a whole on each append, so keep it to
//     some hundred kilobytes.
package bucket
