// Package slots stores one measurement for each slot of time, such as a minute. It is the last one that
// was set. The slots of a window of a series are in one document.
//
// # When to use it, and when not
//
// Use it to set and read single slots, such as the current value of each minute, even if a slot is set
// many times. It keeps no sums. If you need several measurements of one slot, take package bucket. If
// measurements are only appended, take package series, which needs a fifth of the disk space
// (docs/benchmarks.md, storage).
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
// The keys of data are the hour and the minute since the window began, or the units of Options.Levels,
// whose last one is the length of a slot. Elapsed time counts, not the clock, so a day of 25 hours has
// an hour "24".
//
// # The calls
//
//	type Climate struct {
//		Temperature float64 `bson:"temperature"`
//		Humidity    float64 `bson:"humidity"`
//	}
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
//	all := []slots.Slot[Climate]{{Time: now, Value: climate}}
//	_, err = days.SetMany(ctx, timeseries.Of("SENSOR-1", all...), nil)
//
// Set, SetMany, Get and Delete take the slot that holds the given time. The measurement needs no time of its
// own. Range yields the slots that begin at or after from and before to. Get and Delete return
// [mongopatterns.ErrNotFound] for an empty slot. Filter, Path and Projection return what the calls send, so
// that you can add stages of your own.
//
// # Concurrency and failures
//
// Any number of processes may set slots of the same series, if they use the same window and levels. The
// last write of a slot wins. Set and SetMany can be repeated. A repeated Delete returns ErrNotFound. All
// calls join the caller's transaction. After an error from a call that writes, abort it. Archive and Adopt
// need a replica set. They can be stopped and run again.
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
// There is one index, {series, start}, which is unique. To archive all series at once, create an index
// on {start} yourself, because without it Archive scans the collection.
//
// # Adoption and maintenance
//
// Documents of another program can be used without conversion if series, start and levels have this form.
// Their _id may be anything. Archive and Adopt refuse a document in which the name of a field, or of a key of slots, has a
// dot, begins with $ or is empty, because an update would write elsewhere. [Slots.Adopt] converts documents whose start is
// stored as a string. If old code then sets a slot again that the converted document already has, the next Adopt drops
// that value. For documents of another form, read them yourself and call SetMany.
//
// To delete old documents, set Options.EndField, run Repair if there are documents without it, and create a
// TTL index on it. To move them to another collection, call [Slots.Archive].
//
// # Sharding
//
// Shard by {series, start}, unique, so that every write, and every read of a range of a series, goes
// only to the shards that hold it. [mongopatterns.Shard] does that. If you call shardCollection
// yourself, call EnsureIndexes first. Otherwise sharding creates a plain index on the key, and
// EnsureIndexes returns [mongopatterns.ErrIndexConflict].
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package slots

// Notes for those who change this package.
//
//   - Slots count elapsed time, not the clock on the wall, so a day of 25 hours has an hour "24" and none is
//     ambiguous.
//   - Slots reach an archive or a converted place by one pipeline upsert that keeps what is there. Of a slot that the
//     document with the string and that with the date both have, the latter's stays: which was set last cannot be
//     known, and a slot keeps one.
