// Package slots keeps one measurement for each slot of time, a minute say, in a document
// for a window of a series: the last one that was set there.
//
// # Documents
//
//	{
//	  _id: {sensor_id: "SENSOR-1", created_time: 2019-01-31T00:00:00Z},
//	  sensor_id: "SENSOR-1",
//	  created_time: 2019-01-31T00:00:00Z,
//	  data: {"0": {"0": {temperature: 21.36, humidity: 0.67}, ..., "59": {...}}, ..., "23": {...}}
//	}
//
// # The calls
//
//	days, err := slots.New[string, Climate](coll, timeseries.Days(nil), &slots.Options{
//		SeriesField: "sensor_id",
//		StartField:  "created_time",
//	})
//	err = days.EnsureIndexes(ctx)
//
//	err = days.Set(ctx, "SENSOR-1", now, Climate{21.36, 0.67})
//	climate, err := days.Get(ctx, "SENSOR-1", now)
//	for slot, err := range days.Range(ctx, "SENSOR-1", from, to) { ... }
//	err = days.Delete(ctx, "SENSOR-1", now)
//	_, err = days.SetMany(ctx, timeseries.Of("SENSOR-1", all...), nil)
//
// Filter, Path and Projection are what the calls send, for stages of your own.
//
// # Costs
//
// Round trips (RT) in the usual case; each call says more.
//
//	Set, Get, Delete       1 RT  1 key, 1 document
//	SetMany                1 RT  a batch, 1 write for each document in it
//	Range                  1 RT  a batch of the cursor; 1 key and document for each window
//	Latest                 1 RT  1 key
//	Archive, Adopt         4 RT  a batch, 2 writes for each document
//	Check, Repair          a scan of the collection
//
// The one index is {series, start}, unique. Make {start} yourself to archive all series.
//
// # When to use it, and when not
//
// For setting one place, and for reading one place without the others: the current value
// of each minute, whatever is set how often. It is not for storage: the keys take more
// than the arrays of package bucket, and package series takes a twentieth. It keeps no
// sums. Where several measurements of one slot count, take package bucket.
//
// # Concurrency
//
// Any number of processes may set slots of the same series, with the same window and
// levels: the last write of a slot stays. A Set can be repeated. All calls join the
// caller's transaction; after an error from a call that writes, abort it. Archive and
// Adopt need a replica set.
//
// # Adoption and maintenance
//
// Documents of another program are slots as they are if series, start and levels fit; the
// _id may be anything. [Slots.Adopt] converts those whose start is stored as a string;
// what old code then sets anew in a slot that has a date already is dropped. To delete old
// documents make a TTL index on EndField, to keep them elsewhere call [Slots.Archive].
//
// # Sharding
//
// Shard by {series, start}, unique: every write and every read of a series and a range is
// targeted. Call EnsureIndexes before shardCollection, or shard with unique: true: a plain
// index on the key is [mongopatterns.ErrIndexConflict] afterwards. Create the collection
// of Archive beforehand: a transaction over several shards creates none.
package slots
