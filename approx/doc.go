// Package approx keeps counters that are written a hundredth as often as they
// change: by adding up in memory and writing every hundredth change, or by writing
// a change with the probability of one in a hundred, a hundred times as large. It
// also counts different values in a few kilobytes: visitors rather than visits.
//
// # Documents
//
// One document a key. The key is _id, or [Options].KeyField; the count lies in
// [Options].CountField, anywhere in a document of yours:
//
//	{_id: "/about", count: 700000}
//	{city: "Springfield", stats: {population: 39000}, mayor: "…"}
//
// [Distinct] keeps registers there, by default in distinct, at most 1,024 small numbers, by
// their precision:
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
//	go views.Run(ctx, nil)                  // or: a Flush every Options.Interval, and at the end
//
// [NewSampled] keeps nothing in memory. Each change is written with the
// probability 1/Every, times Every; an [Estimate] comes with its standard error:
//
//	views, err := approx.NewSampled[string](pages, nil)
//	err = views.Add(ctx, "/about", 1)
//	e, err := views.Estimate(ctx, "/about") // {Count: 699900, StdErr: 8324}
//
// [NewDistinct] counts each value once, whoever has seen it, and several documents
// together:
//
//	visitors, err := approx.NewDistinct[string, string](days, nil)
//	err = visitors.Add(ctx, "2024-05-01", "ann")
//	e, err := visitors.Estimate(ctx, "2024-05-01") // {Count: 51200, StdErr: 1664}
//	e, err := visitors.Union(ctx, may)             // of a month: not the sum of its days
//	go visitors.Run(ctx, nil)                      // it flushes, too
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
// A distinct count is off by 1.04/√registers, 3.3 percent with 1,024 in at most 10 KB;
// [Options].Precision gives other numbers. In memory a key takes a byte a register. The
// first 20,000 values of a key are about 30 writes (TestDistinctCosts counts them); the
// more there were, the more seldom a new one raises anything.
//
// # When to use it, and when not
//
// Use it where a document is changed so often that the writes are the load, and
// where nobody counts the last hundred: page views, likes, the population of a
// city. Do not use it for money, stock or seats. Counts that a
// program collects anyway are cheapest as one bulk write every so often. If the counts are read seldom,
// store the events in buckets and add them up. Up to a thousand different values
// are as small, and exact, in an array with $addToSet.
//
// Adding up is exact while the process lives, and needs it to end well. Sampling
// forgets nothing in a crash and needs no memory, but is off by about
// √(count × (Every-1)): 1 percent at a million with an Every of 100, 32 percent at a
// thousand.
//
// # What can be lost
//
// A process that crashes loses what waits in it: at most Every-1 changes a key, and
// with Interval no more than came in during one. Readers elsewhere see that much
// less at any time. So the count is at most (Every-1) × the number of processes
// too low. A Flush that fails keeps what was not stored, and Add or Flush tries it
// again. If the answer to a write was lost, it may have been stored: then these
// changes count twice. The driver repeats such a write once by itself without
// that danger.
//
// While the server cannot be reached nothing is lost as long as the process lives:
// every Add that is due returns an error and has counted, and what waits grows with
// the keys, beyond MaxKeys. A process that ends then loses all of it: Close, and the
// end of Run, say so by their error. Sampled counters have no memory: each write that
// fails in an outage is Every changes lost, and its Add says so. Distinct values wait
// as changes do, and never count twice.
//
// # Concurrency, adoption, sharding
//
// All calls are safe for concurrent use; writers anywhere add up by $inc. In a
// transaction of the caller's nothing may wait in memory that is then rolled
// back: Add, Flush and Close write outside it.
//
// Existing documents need nothing: a missing CountField counts as 0, and
// [Options].Existing leaves unknown keys alone instead of inserting them.
//
// Filters name the key alone: shard by it ([Counters.ShardKey]).
package approx
