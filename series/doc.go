// Package series stores the measurements of a series as packed blocks, in one document for a window of the series.
// On disk a measurement of three values takes 3 bytes if they are smooth decimals, 24 if they are random doubles
// at irregular times, and 37 with a random string as well. As a document of its own it takes 19, 38 and 57 bytes
// (all with zstd, without indexes; cmd/patternbench measures it as "kinds of data").
//
// # When to use it, and when not
//
// Use it for measurements that are appended in batches, read by range and aggregated. docs/benchmarks.md
// compares it with the server's own time-series collections. It takes less disk space and less server time
// to store, and reads a month in milliseconds. Do not use it:
//
//   - If queries must find single measurements, because the server cannot look into a block, only at the sums.
//   - If documents should be readable, or measurements have IDs.
//   - If measurements are edited often, because a Replace or Delete rewrites the whole document.
//
// In these cases use package bucket, with block_compressor=zstd. Choose a window that holds some
// thousand measurements, such as a day or a month.
//
// The cost of a measurement depends on how many measurements of its series are in the batch. This table
// shows the server's CPU time to store a measurement, relative to a plain document with an index on
// series and time:
//
//	of one series in a batch         1       10          20          100         1,000
//	three numbers                    6–10    0.9–1.1     0.4–0.6     0.2–0.3     0.1–0.3
//	a number, a status, a message    7–14    1.1–1.3     0.5–0.7     0.2–0.5     0.1–0.5
//
// So it pays from about ten numbers in a batch, or twenty with texts. With fewer, use a [Gatherer] or
// plain documents. The ranges are of several runs of BenchmarkBatches, whose data is a measurement a
// minute at times that jitter, numbers with one or two decimal places, a status that is one of eight
// texts, and a message of 30 letters that is different every time.
//
// # Documents
//
// Each batch of measurements is packed into a block, a binary. One write appends the block to the document
// of its window and updates the sums:
//
//	{
//	  _id: {sensor_id: 12345, start_date: 2019-01-31T00:00:00Z, n: 0},
//	  sensor_id: 12345,
//	  start_date: 2019-01-31T00:00:00Z,
//	  count: 120,
//	  bytes: 420,
//	  blocks: [BinData(60 measurements), BinData(60 measurements)],
//	  stats: {temperature: {count: 120, sum: 4830.5, squares: 194512.25, min: 39.5, max: 41.5}},
//	  mark: 5577006791947779410
//	}
//
// [Series.Compact] merges the blocks into one, sorted by time, and increments the field revision. The
// field mark, a random number, distinguishes the document from an earlier one with the same _id that was
// archived or expired.
//
// A document takes Options.MaxCount measurements or Options.MaxBytes of blocks, by default 100,000 or 256 KiB, or four
// million values. Then the next document of the same window begins, with n: 1.
//
// A block holds columns, one for each field. Times, integers and doubles with few decimal places (21.5,
// not 1/3) are stored as integers, whose differences from their neighbours, or from a line through 128 of
// them, are bit-packed. Other doubles are stored by their bits. Every number is read back exactly and with
// its type. Each distinct value of any other type (strings, booleans, whole nested documents and arrays)
// is stored once, compressed if that makes it smaller. Fields may be missing. A checksum detects damage,
// and also a block that was written for another series or window. A block has a version. If a program
// meets a later version, it returns [mongopatterns.ErrNewer] and does not change the block.
//
// # The calls
//
//	type Reading struct {
//		Timestamp   time.Time `bson:"timestamp"` // Options.TimeField
//		Temperature float64   `bson:"temperature"`
//	}
//
//	s, err := series.New[int, Reading](coll, timeseries.Days(nil), &series.Options{
//		SeriesField: "sensor_id",
//		StartField:  "start_date",
//		Values:      []timeseries.Value{{Field: "temperature"}},
//	})
//	err = s.EnsureIndexes(ctx)
//
//	_, err = s.AppendMany(ctx, timeseries.Of(12345, readings...), nil)
//	for reading, err := range s.Range(ctx, 12345, from, to) { ... }
//	stats, err := s.Aggregate(ctx, 12345, from, to)
//	mean, deviation := stats.Values["temperature"].Mean(), stats.Values["temperature"].StdDev()
//
// The type parameters are the type of the key of a series, here a sensor, and the type of a
// measurement. Package timeseries explains windows and values.
//
// If measurements arrive one by one, a [Gatherer] collects them into blocks. Those that it has not flushed
// are lost if the process crashes:
//
//	g, err := series.NewGatherer(s, &series.GathererOptions{Interval: 10 * time.Second})
//	go g.Run(ctx, func(err error) { log.Print(err) }) // flushes; closes g when ctx ends
//	err = g.Append(ctx, 12345, Reading{now, 40})
//
// Compact windows that have ended, for example once a day. Reads do not need it, but it saves space if
// batches were small:
//
//	_, err = s.Compact(ctx, &mongopatterns.Work{Filter: bson.M{"start_date": bson.M{"$lt": today}}})
//
// # Sums
//
// A [timeseries.Value] with only Field keeps sum, squares, min, max and count below stats.<field>. Sums
// and sums of squares are Decimal128, exact to 34 digits in whatever order batches come, and so are mean
// and variance. Options.Values says how doubles count. Your pipelines can use the sums on the server,
// such as stats.temperature.sum / count. Sums of parts of a window are not stored, but computed from its
// blocks, which takes 0.1 µs for a measurement.
//
// # Concurrency
//
// Any number of processes may write the same series, if they use the same window and options. If other
// writers have filled the document, an append looks up the newest one and tries again. Compact keeps the
// blocks that are appended while it works. If the document has changed meanwhile, Replace and Delete try
// again, and Repair passes over it. All calls join the transaction in their context. After an error from
// a call that writes, abort it.
//
// # Failures
//
// With Options.BatchField a batch that is repeated unchanged within ten minutes is stored once, unless the
// clock of its writer is behind the server's: Compact forgets batches by comparing the two. Without it,
// repeating a batch that got no answer may store it twice. A repeated Delete returns
// [mongopatterns.ErrNotFound], or deletes a second measurement of the same time. A read of a window with a
// damaged block ends with [ErrDamaged], which names the document; Check lists all damaged documents.
// Archive and Adopt use transactions and need a replica set. They can be stopped and run again, and so can
// Compact.
//
// # Costs
//
// Round trips (RT) in the usual case; each call says more.
//
//	AppendMany, Append           1 RT  a batch, 1 write for each document in it
//	Gatherer.Append              none mostly
//	Range                        1 RT  a batch of the cursor; 1 key and document for each document
//	Aggregate, AggregateWindows  1 RT  1 key and document; blocks are read at the edges only
//	AggregateBy                  as Range: all measurements leave the server, packed
//	Latest                       1 RT  2 documents
//	Replace, Delete              2 RT  1 document written
//	Compact                      2 RT  a batch of 100 documents, 1 write each
//	Archive                      5 RT  a batch, 2 writes for each document
//	Adopt                        4 RT  a batch of new documents; reads the whole source
//	Compare                      a scan of the source and of the collection, which is decoded
//	Check, Repair                a scan of the collection, which is decoded
//
// All reads use the index {series, start}. With Options.BatchField there is also a unique index {series,
// start, "batches.id"}. To archive all series at once, create an index on {start} yourself, because
// without it Archive scans the collection.
//
// # Adoption and maintenance
//
// [Series.Adopt] copies plain documents or, with [Series.Unwind], buckets with arrays, while old code still
// inserts documents into the source. A ledger, a collection with the name of this one plus ".adopt", records
// which documents were copied, and [Series.Compare] then lists the differences. Adopt does not carry over
// later edits and deletions of the source. It guarantees nothing if the ledger or the source was dropped and
// created again, if the source or its database was renamed, or for writes to the source that were rolled
// back (w: 1). [Series.Documents] converts back to plain documents. After adding a Value, run Repair once
// all writers have it. Until then Aggregate returns for it only what was appended since.
//
// [Series.Archive] moves old documents to another collection. To delete them instead, set Options.EndField,
// run Repair if there are documents without it, and create a TTL index on it.
//
// # Sharding
//
// Shard by {series, start}, so that every write, and every read of a range of a series, goes only to the
// shards that hold it. The unique index starts with this key. Appends name only _id, which takes a third
// less server time, until a router asks for the shard key. So the first append of each process is sent
// twice; in a transaction of yours the transaction runs again.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package series

// Notes for those who change this package.
//
//   - A package and not a third layout of bucket: the server cannot look into a block, so hardly a call of bucket's
//     would have been the same.
//   - Runs of 128 values are packed as what is left after their neighbours, or above a straight line with the slope of
//     the run before, whichever is smaller: with a line, jitter of a clock counts once, and delta of delta counts it
//     twice. Doubles without a decimal scale are packed as integers in their order; of eight curves that was smaller
//     than XOR of neighbours in seven.
//   - Sums are Decimal128 of the decimals as they print, exact in any order of batches. Sums by hour are not stored: a
//     month decodes in some milliseconds.
//   - An append goes by `_id` alone while the writer knows that there is room, which takes the server a third less; so
//     `MaxCount` and `MaxBytes` are soft by a sixteenth for each writer. On a sharded collection the router refuses
//     that (code 61), once: from then on the key is named. An option for it was forgotten, and every append refused.
//   - Compact is guarded by mark and revision alone: blocks that come meanwhile stand after those that it read. Edits
//     and Repair guard mark, revision and count. Compact windows as they end: all at once doubles the file until its
//     space is used again.
//   - The mark is a random number that the upsert sets on insert, a new one each time an upsert is sent. `_id` and
//     revision alone do not tell a document from one that was begun after it was archived: a compaction that had read
//     the first overwrote the second. A number in `_id` was weighed: an append would have to know it. Buckets need no
//     mark: their edits and Repair compute on the server, from the document they match.
//   - De-duplication is by batch: an ID for each measurement would cost more than the measurement. Compact forgets IDs
//     that are older than ten minutes: a batch is repeated after a lost answer, which is sooner, and a Compact beside
//     it must not double it.
//   - A block's checksum covers series and start. It cannot cover the mark, which who appends does not know. Every
//     version of the format ends with the same checksum, so that damage is told from a version to come, and golden
//     blocks in the tests must be read for ever.
//   - Values that are not numbers are a dictionary whose bytes stand together, through deflate from 128 bytes on where
//     that saves a sixteenth.
//   - Flat structs are written by reflection and read by the offsets of their fields (`unsafe`, in shape.go, to which
//     read.go gives the room). Of a month of three values, 43,200 measurements, end to end with the driver, offsets
//     save 17 to 20 % of the client's CPU time to read (7.0 ms against 8.4), and 0 to 8 % to append (10.5 to 11.5 ms),
//     which was not worth it.
