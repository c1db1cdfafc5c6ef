// Package computed keeps values that are derived from many documents with the one
// document that shows them: revenue and viewers of all screenings with the film.
//
// # Documents
//
// The computed fields lie in the target under the names that your pipeline gives
// them, beside your own, with the time of their computation:
//
//	screening {_id: 7, film: "Dumbo", viewers: 120, revenue: 960}
//	film      {_id: "Dumbo", title: "Dumbo", viewers: 13000, revenue: 91000,
//	           computed: {at: ISODate("…"), epoch: 42, run: ObjectId("…")}}
//
// # The five calls
//
//	totals, err := computed.New[int, string, Film](screenings, films,
//		"film", // of the source: which target
//		mongo.Pipeline{{{"$group", bson.D{{"_id", "$film"},
//			{"viewers", bson.M{"$sum": "$viewers"}}, {"revenue", bson.M{"$sum": "$revenue"}}}}}},
//		bson.D{{"viewers", 0}, {"revenue", 0}}, // of a target without sources
//		nil)
//
//	err = totals.Change(ctx, []int{7}, func(ctx context.Context) error { … }) // at the change
//	film, err := totals.Get(ctx, "Dumbo", time.Hour)     // when it is older than an hour
//	err = totals.Mark(ctx, "Dumbo")                      // later, by a worker:
//	result, err := totals.Drain(ctx, nil)
//	result, err := totals.RefreshAll(ctx, nil)           // on an interval
//
// The pipeline begins with the sources and ends with a document for each target:
// its _id, and the computed fields. Leave out what does not count, such as {deleted:
// true}, by a $match in it.
//
// A new target begins without the computed fields, unless you insert it with the
// values of one without sources; the first Change, Get, Refresh, Drain or Adopt gives them to it.
//
// # Which of the four
//
//	at the change   always right; a write costs more     few writes, or readers that must not see old values
//	when stale      as old as you allow; one reader pays many readers, values that may lag
//	marked, drained right after some seconds             many writes to one target
//	on an interval  as old as the interval               reports
//
// # Costs
//
//	call        round trips                              documents written
//	Change      6 and yours; 5 with Additive             1 for each target
//	Get         1; when stale 6                          0; 2
//	Mark        1                                        1
//	Drain       4 for each target, 1 for 100; refused 5  2
//	Failures    1 a batch                                0
//	RefreshAll  4 a batch of 1000 targets                1 for each target
//	Check       1, and 2 a batch of 100 targets          0
//
// Change reads all sources of a target (index {key: 1}). Where these are many and
// the pipeline only adds up ($sum), Options.Additive reads just those that change
// and adds the difference.
//
// # When to use it, and when not
//
// Use it where a value is read far more often than it changes: a million reads to a
// thousand writes an hour. At that ratio TestReadsAgainstWrites counts the documents
// examined with and without it, and BenchmarkRead the time, on your server. Where it
// is read as seldom as it is written, aggregate when it is read. For counters where
// the last hundred do not matter, see approx; for sums over time, bucket.
//
// # The queue
//
// Workers anywhere call Drain; each target is computed by one of them, and one that
// dies is replaced after Options.Lease. A target that cannot be computed, because a
// source holds what the pipeline stumbles over, keeps its old values, and the others
// go on. After Options.Attempts it is set aside with its error and not tried again:
//
//	{_id: "Dumbo", …, computed: {…, dirty: "set aside", attempts: 5, error: "…"}}
//
// Failures lists these, and readers go on getting the old value. Correct the source and
// Mark the target. An attempt counts when it begins, so that a computation that kills its
// worker is set aside, too.
//
// # Levels
//
// A target can be a source: the films' revenue adds up to their distributor's. Give
// the lower level Options.Then, and each call that writes films brings their
// distributors up to date in the same transaction.
//
// # Concurrency, drift, adoption
//
// A target's epoch rises with each write of its values. A computation outside a
// transaction is stored only if the epoch is still the one it began with, so that an
// old result never overwrites a newer one. Writers that go around the package make
// values drift: Check finds them, Repair computes them anew, beside live writes. A
// target that cannot be computed is named, and the others go on. Adopt gives every
// target its first values. Old code may write sources and targets as it likes, also
// whole targets with values of before: that is drift. Check and Repair leave targets in
// the queue to Drain, and those that Drain has set aside to you. A source without a key,
// or with one that cannot be an _id, counts for no target.
//
// # Sharding
//
// Shard the targets by _id and the sources by key ([Computed.ShardKey]): every write
// then names its shard. Change reads its sources by _id, on all shards.
package computed
