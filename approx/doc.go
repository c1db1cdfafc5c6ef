// Package approx keeps counters that are written a hundredth as often as they change, or another
// fraction (Options.Every). Counters add up in memory and write every hundredth change. Sampled
// counters write one change in a hundred, chosen by chance and multiplied by a hundred. Distinct
// counts distinct values, such as visitors instead of visits, in a few kilobytes.
//
// # When to use it, and when not
//
// Use it where one document changes so often that the writes are the load, and where an error of
// some hundred does not matter, as with page views, likes or the population of a city. Do not use
// it for money, stock or seats. If a program collects counts anyway, one bulk write at intervals is
// cheapest. If counts are rarely read, store the events in buckets and add them up. Up to a
// thousand distinct values take no more space in an array with $addToSet, which is exact.
//
// Adding up is exact if every process calls Close before it ends. Sampling loses nothing in a crash
// and needs no memory, but has a standard error of √(count × (Every-1)). With an Every of 100 that
// is 1 percent at a million and 31 percent at a thousand.
//
// # Documents
//
// Each key has one document. The key is _id, or [Options].KeyField. The count is in
// [Options].CountField, at any path in a document of yours:
//
//	{_id: "/about", count: 700000}
//	{city: "Springfield", stats: {population: 39000}, mayor: "…"}
//
// [Distinct] stores registers in CountField, by default "distinct". These are small numbers, by
// default at most 1,024, under the name of their precision:
//
//	{_id: "/about", distinct: {p10: {"17": 3, "230": 1, …}}}
//
// # The five calls
//
//	views, err := approx.New[string](pages, &approx.Options{Every: 100})
//	err = views.Add(ctx, "/about", 1)       // mostly in memory
//	n, err := views.Get(ctx, "/about")      // what is stored, and what waits here
//	result, err := views.Flush(ctx)         // writes what waits, many keys a command
//	err = views.Close(ctx)                  // the last Flush
//
//	go func() { done <- views.Run(ctx, nil) }() // or: a Flush every Options.Interval, and Close when ctx ends
//
// The type parameter is the type of a key. Without Run, call Close before the process ends. An error
// of Close, or of Run, says that changes are lost. When a service stops, end Run after the last
// request, because requests that still run when its ctx has ended get ErrClosed.
//
// A constructor returns ErrInvalid for an option that it does not use: New for Precision and Random, NewSampled for
// Precision, Interval and MaxKeys, NewDistinct for Random.
//
// [NewSampled] keeps nothing in memory. Each change is written with the probability 1/Every,
// multiplied by Every. An [Estimate] is the count with its standard error:
//
//	views, err := approx.NewSampled[string](pages, nil)
//	err = views.Add(ctx, "/about", 1)
//	e, err := views.Estimate(ctx, "/about") // {Count: 699900, StdErr: 8324}
//
// [NewDistinct] counts each value once, whichever process has seen it. It also counts the distinct
// values of several documents together:
//
//	visitors, err := approx.NewDistinct[string, string](days, nil)
//	err = visitors.Add(ctx, "2024-05-01", "ann")
//	e, err := visitors.Estimate(ctx, "2024-05-01") // {Count: 51200, StdErr: 1664}
//	e, err = visitors.Union(ctx, may)              // may is a filter of days: not the sum of them
//
// Its type parameters are the types of a key and of a value. It also has Flush, Close and Run.
//
// # Concurrency, adoption
//
// All calls are safe for concurrent use, and any number of processes may add to the same key, by
// $inc. Add, Flush and Close write outside a transaction of the caller, because changes that wait
// in memory cannot be rolled back. So an Add counts even if the transaction is aborted.
//
// To reset a count, set it or delete the document. What still waits in a process is added afterwards. Do not
// reset distinct counts while processes run, because they do not send registers again that they have stored.
// Begin a new key instead.
//
// Existing documents work without preparation, because a missing CountField counts as 0. But the server
// refuses to add to a count that is null or a string, at each Flush and at Close, so $set a number first.
// With [Options].Existing an unknown key is ignored, and otherwise it is inserted.
//
// # What can be lost
//
// A process that crashes loses the changes that wait in its memory. These are at most Every-1 for each key,
// and with Interval no more than were added during one interval. Readers elsewhere do not see these changes
// until they are written. So a count is too low by at most (Every-1) × the number of processes. If a write
// fails, the changes that were not stored wait for the next Flush, or for Every more. If the answer to a write
// was lost, the changes may have been stored, and then count twice. (The driver's own retry of such a write
// cannot count twice.) A cancelled context loses answers, and clients hang up every day. So give Add a context that
// does not end with the request, such as context.WithoutCancel(r.Context()).
//
// While the server cannot be reached nothing is lost as long as the process lives. Each Add that
// should write returns an error, but has counted, and the waiting keys may become more than
// MaxKeys. If the process then ends, all of them are lost, and the errors of Close, and of Run at
// its end, say so. Sampled counters keep nothing in memory, so each write that fails loses Every
// changes, and its Add returns the error. Distinct values wait like changes, and never count twice.
//
// # Costs
//
//	call             round trips                 documents written
//	Add              1 every Every-th change     1
//	Add, sampled     1 in Every, by chance       1
//	Add, distinct    1 every Every-th register   1
//	Flush, Close     1 for 1000 keys that wait   1 a key
//	Get, Estimate    1                           0
//	Union            1                           0; reads all that the filter selects
//
// A distinct count has a standard error of 1.04/√registers, 3.3 percent for 1,024 registers in at
// most 10 KB; [Options].Precision sets their number. In memory a key takes a byte for each
// register. The first 20,000 values of a key take about 30 writes (TestDistinctCosts counts them).
// The more values a key has had, the less often a new one raises a register.
//
// # Sharding
//
// Filters contain only the key, so shard by it ([Counters.ShardKey]).
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package approx

// Notes for those who change this package.
//
//   - Approx keeps what was not stored. A write without an answer may so count twice, rather than not at all. There is
//     no hidden goroutine: `Run` is the caller's.
//   - Distinct keeps its registers as a document of numbers, because `$max` works on a value with a name of its own;
//     the hash is SHA-256, the same everywhere, and the estimator is Ertl's, which needs no tables.
