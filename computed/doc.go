// Package computed stores values that are computed from many documents in the one document that
// shows them, such as the revenue and the viewers of all screenings of a film in the film. The many
// documents are the sources, and the one is their target.
//
// # When to use it, and when not
//
// Use it where a value is read far more often than it changes, such as a million reads for a thousand writes an
// hour. At that ratio TestReadsAgainstWrites counts the documents examined with and without this package, and
// BenchmarkRead measures the time, on your server. Where a value is read as rarely as it is written, aggregate at
// each read. For counters that may be off by some hundred, see approx. For sums over periods of time, see bucket.
//
// # Documents
//
// The computed fields are top-level fields of the target. They have the names that your pipeline gives them
// and are stored beside your own fields, together with the time of their computation, an epoch that each write
// of them raises, and the run that wrote them. Change your own fields with $set, because a program that
// replaces a whole target writes back old values and removes a mark of the queue. Check then finds the drift.
//
//	screening {_id: 7, film: "Dumbo", viewers: 120, revenue: 960}
//	film      {_id: "Dumbo", title: "Dumbo", viewers: 13000, revenue: 91000,
//	           computed: {at: ISODate("…"), epoch: 42, run: ObjectId("…")}}
//
// # The calls
//
//	totals, err := computed.New[int, string, Film](screenings, films, computed.Rule{
//		KeyField: "film", // of the source: which target
//		Pipeline: mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$film"},
//			{Key: "viewers", Value: bson.M{"$sum": "$viewers"}}, {Key: "revenue", Value: bson.M{"$sum": "$revenue"}}}}}},
//		Empty: bson.D{{Key: "viewers", Value: 0}, {Key: "revenue", Value: 0}}, // of a target without sources
//	}, nil)
//	err = totals.EnsureIndexes(ctx)
//
//	err = totals.Insert(ctx, bson.M{"_id": 7, "film": "Dumbo", "viewers": 120, "revenue": 960})
//	err = totals.Change(ctx, []int{7}, func(ctx context.Context) error { … }) // any other change
//	film, err := totals.Get(ctx, "Dumbo", time.Hour)     // when it is older than an hour
//	err = totals.Mark(ctx, "Dumbo")                      // later, by a worker:
//	result, err := totals.Drain(ctx, nil)
//	result, err = totals.RefreshAll(ctx, nil)            // on an interval
//
// The type parameters are the types of a source's _id, a target's _id and a target. The function
// given to Change writes the sources that are named before it, with its ctx. A write that changes neither
// KeyField nor what the pipeline reads needs no Change.
//
// The pipeline gets sources and returns a document for each target, with its _id and the computed
// fields. Exclude sources that do not count, such as {deleted: true}, by a $match in it.
//
// A new target has no computed fields unless you insert it with the values of Empty. The first
// Change, Get, Refresh, Drain or Adopt sets them.
//
// # Which of the four
//
//	Insert,      always right; a write costs more     few writes, or readers that must not see old values
//	Change
//	Get          as old as you allow; one reader pays many readers, values that may lag
//	Mark, Drain  right after some seconds             many writes to one target
//	RefreshAll   as old as the interval               reports
//
// # The queue
//
// Several workers, in any processes, may call Drain. Each target is computed by one worker. If that dies, another
// takes over after Options.Lease. If a target cannot be computed, because the pipeline fails on a source, it keeps
// its old values and the other targets are computed. After the number of attempts in Options.Attempts it is set
// aside with its error and not tried again:
//
//	{_id: "Dumbo", …, computed: {…, dirty: "set aside", attempts: 5, error: "…"}}
//
// Failures lists the targets set aside, and readers still get the old values. To compute one again,
// correct the source and Mark the target. Drain takes it when Options.Lease has passed since its last
// attempt. An attempt is counted when it begins, so a computation that kills its worker is set aside
// too.
//
// # Levels
//
// A target can be a source of another target. The revenue of films, for example, adds up to that of their
// distributor. Give the lower level Options.Then, and each call of the lower level that writes films updates
// their distributors in the same transaction. If you move a film to another distributor, insert or delete one
// yourself, do that in Change of the upper level, with the film's _id.
//
// # Concurrency, drift, adoption
//
// Each write of a target's values raises its epoch. A computation outside a transaction is stored only if the
// epoch has not changed since it began, so an old result never overwrites a newer one. Code that writes sources
// without this package makes the values wrong. Check finds these targets, and Repair computes them again, both
// while others write. A target that cannot be computed is reported, and the others are still handled. Adopt gives
// every target its first values. Old code may write sources and also targets, and even replace targets with old
// values. Check finds that as well. Check and Repair leave marked targets to Drain, and targets that Drain has set
// aside to you. A source without KeyField, or in which it cannot be an _id, counts for no target.
//
// Neither does one that names no target, such as "1" for 1, and text in a sum counts 0. Nothing reports them. To find them:
//
//	db.orders.aggregate([
//		{$lookup: {from: "customers", localField: "customer", foreignField: "_id", as: "c"}},
//		{$match: {$or: [{"c.0": {$exists: false}}, {customer: {$type: "array"}}, {total: {$not: {$type: "number"}}}]}},
//	])
//
// # Failures
//
// If the pipeline fails on a source, Insert, Change and Get return the error, and the first two write nothing. The
// calls for several targets count the target as Failed, keep its old values and go on. Get of a
// target that does not exist returns mongopatterns.ErrNotFound. If the answer to Change is lost, its
// write may be stored, so repeat it only if the write can be repeated. An Insert that is repeated returns
// mongopatterns.ErrExists if the sources are stored. All other calls can be repeated.
//
// # Costs
//
//	call        round trips                              documents written
//	Insert      4                                        1 for each source and target
//	Change      5 and yours; 4 with Additive             1 for each target
//	Get         1; when stale 6                          0; 2
//	Mark        1                                        1
//	Drain       4 for each target, 1 for 100; refused 5  2
//	Failures    1 a batch                                0
//	RefreshAll  4 a batch of 1000 targets                1 for each target
//	Check       2, and 2 a batch of 100 targets          0
//
// Change reads all sources of a target, by the index on KeyField. If a target has many sources and the
// pipeline only adds up ($sum), set Options.Additive. Change then reads only the sources that change, and
// adds the difference. A target that was never computed is computed from all sources, with 2 round trips
// more. So is one with a sum that shrinks to less than a thousandth of what it was or of what leaves it, or
// that is NaN or infinite before or after the change. If several Changes in a row each make a sum of doubles
// or decimals some hundred times smaller, its error may exceed what Check allows. Then Check reports it, and
// Repair computes it. Sums of ints are exact, so keep money in cents.
//
// # Sharding
//
// Shard the targets by _id and the sources by KeyField ([Computed.ShardKey]), so that every write of a
// target goes to one shard. Change reads its sources by _id, on all shards. If programs change the
// KeyField of sources that they name by _id alone, shard the sources by _id, because MongoDB refuses to
// change a shard key that the filter lacks.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package computed

// Notes for those who change this package.
//
//   - Computed takes an aggregation of the user's and runs it over what a change touches, before and after: sums are
//     then a difference, anything else is computed anew. Deltas told by the caller were weighed: a move or a soft
//     delete is told wrongly once, and for good. A sum of doubles that shrinks step by step loses digits. To compute
//     it anew at every inexact step was weighed: 0.1 + 0.2 is one, so Additive would save nothing for doubles, and an
//     exact step from a sum that was rounded before proves nothing. A result that was computed outside a transaction
//     is stored only under the epoch it began with. An attempt of the queue counts when it begins: a computation that
//     ends its process counts too.
