// Package series stores the measurements of a series as packed blocks, one document for
// a window of the series: two to three bytes for a measurement of three values, where a
// document each takes a hundred.
//
// # Documents
//
// Each batch of measurements is a block, a binary that is appended to the document of its
// window in one write, together with what it adds to the sums:
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
// [Series.Compact] merges the blocks into one, sorted by time, and counts that in revision.
// The mark tells the document from one with the same _id that was archived or expired before.
//
// A document takes Options.MaxCount measurements, or MaxBytes; then the next one of the
// same window begins, with n: 1.
//
// A block holds columns. Times, integers and doubles with a decimal scale (21.5, not 1/3)
// are scaled to integers, and what is left of them after their neighbours, or above a line
// through 128 of them, is bit-packed. Other doubles keep their bits. Every number
// comes back as it was, with its type. Strings, booleans and everything else are kept
// once for each that differs, compressed where that pays; so are nested documents and
// arrays, as a whole. Fields may be missing. A checksum finds damage, and a block that was
// written for another series or window. A block has a version: a program that meets a later
// one says [ErrNewer] and leaves it alone.
//
// # The calls
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
//	_, err = s.Compact(ctx, &mongopatterns.Work{Filter: bson.D{{"start_date", bson.D{{"$lt", today}}}}})
//
// Measurements that come one by one go through a [Gatherer], which makes blocks of them.
//
// # Costs
//
// Round trips (RT) in the usual case; each call says more.
//
//	AppendMany, Append     1 RT  a batch, 1 write for each document in it
//	Gatherer.Add           none mostly
//	Range                  1 RT  a batch of the cursor; 1 key and document for each document
//	Aggregate              1 RT  1 key and document; blocks are read at the edges only
//	Latest                 1 RT  2 documents
//	Update, Delete         2 RT  1 document written
//	Compact                2 RT  a batch of 100 documents, 1 write each
//	Archive                5 RT  a batch, 2 writes for each document
//	Adopt                  4 RT  a batch of new documents; reads the whole source
//	Compare                a scan of the source and of the collection, which is decoded
//	Check, Repair          a scan of the collection, which is decoded
//
// Indexes: {series, start} for all reads; {series, start, batches}, unique, with
// BatchField.
//
// # When to use it, and when not
//
// For measurements that are appended, read by range and aggregated, in batches of fifty or
// more a series. docs/benchmarks.md has them beside the server's own time-series
// collections: less disk, less of the server's time to store, and a month is read in
// milliseconds. The server cannot look into a block: no query or pipeline finds single
// measurements, only the sums. If that is needed, if documents should be readable, or
// measurements have IDs, take package bucket, with block_compressor=zstd. An Update or
// Delete rewrites its whole document. By the measurements of a series in a batch, the
// server's time to store one is 4.8 times that of a plain document at 1, 1.6 times at 10,
// a quarter at 100, a twenty-eighth at 1,000: below some twenty take a Gatherer, or plain
// documents. Take a window that holds some thousand measurements: days or
// months.
//
// # Windows
//
// Windows are those of package timeseries: Every has a fixed length; Days and Months follow
// the calendar of a time zone, days of 23 and 25 hours included. A measurement goes to the window of its own time,
// however late it comes, also into one that is compacted. Ranges hold from and not to.
// The window of a collection must not change.
//
// # Sums
//
// Sums and sums of squares are Decimal128 of the decimals as they print, exact to 34
// digits in whatever order batches come, so that mean and variance are as well. The
// server can use them: stats.temperature.sum / count. Sums of parts of a window are
// computed from its blocks, 0.1 µs a measurement, so that none are stored.
//
// # Concurrency
//
// Any number of processes may write the same series. A writer that finds a document full
// gets a duplicate key, looks up the newest one and tries again. Compact leaves what
// is appended meanwhile; Update and Delete try again if the document has changed, Repair
// passes over it.
// With BatchField a batch that is repeated unchanged is stored once, at least for ten
// minutes; without, what was not answered may be stored twice. Archive and Adopt
// need a replica set. All calls join the transaction in their context. After an error
// from a call that writes, abort it.
//
// # Adoption and maintenance
//
// [Series.Adopt] copies plain documents, or with [Series.Unwind] buckets with arrays, in
// batches that can be stopped and resumed, while old code still inserts them; a ledger
// beside the collection says which. [Series.Compare] says what differs then. Adopt carries
// no later edits and deletions of the source over, and promises nothing once the ledger or
// the source was dropped and begun anew, or for writes to the source that were rolled back
// (w: 1). [Series.Documents] is the way back. A
// damaged block ends reads of its window with [ErrDamaged], which names the document;
// Check lists them all. [Series.Archive] moves old documents to another collection; a
// TTL index of yours on EndField deletes them.
//
// # Sharding
//
// Shard by {series, start}: every read of a series and a range is targeted, and the unique
// index starts with the key. Appends name _id alone, which takes a third less of the server,
// until a router asks for the shard key: a process learns that by its first append, which
// is then sent again (in a transaction the transaction is). From then on every write is
// targeted. Create the collections of Archive
// and of Adopt's ledger beforehand.
package series
