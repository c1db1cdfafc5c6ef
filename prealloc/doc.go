// Package prealloc keeps grids whose cells exist before anybody takes them: the seats
// of a screening, the days of a booking calendar. A cell is taken at most once,
// several are taken all or none, and each call is one write to one document.
//
// # Documents
//
// One document a grid, made empty in one insert. A cell is a document; it is free
// while it names no holder, or its hold is over:
//
//	{_id: "2019-04-05 20:00", film: "Dumbo", cells: {
//	  A: {"1": {}, "2": {by: "order 7"}, …},             // 2 is taken
//	  B: {"1": {by: "order 8", until: ISODate("…")}, …}, // 1 is held until then
//	}}
//
// With [Options].Flat there are no sections: one cell a working day:
//
//	{_id: "room 1, April 2019", cells: {"2019-04-01": {}, "2019-04-02": {by: "Ann"}, …}}
//
// Other fields of the grid and of its cells (a price, say) are yours and stay.
//
// # The five calls
//
//	seats, err := prealloc.New[string, string](screenings, nil)
//	rows := slices.Concat(prealloc.Row("A", 10), prealloc.Row("B", 14))
//	err = seats.Create(ctx, id, bson.M{"film": "Dumbo"}, rows...)
//	err = seats.Hold(ctx, id, "order 8", 10*time.Minute, prealloc.At("B", "3"), prealloc.At("B", "4"))
//	err = seats.Claim(ctx, id, "order 8", prealloc.At("B", "3"), prealloc.At("B", "4"))
//	err = seats.Release(ctx, id, "order 8", prealloc.At("B", "3"))
//	all, err := seats.Cells(ctx, id)
//
// Claim takes cells for good: free ones, and those that the holder holds. If somebody
// else has one, it is [ErrTaken], a *[TakenError] that lists them, and nothing
// is changed. HoldAdjacent finds n free neighbours of a section and holds them.
//
// Let the holder be the order or the request, not the person. Then every call can
// be repeated after a lost answer: a second Claim by the same holder succeeds and
// changes nothing; a second Release is ErrTaken where a cell that the first freed has
// been taken since.
//
// # Costs
//
//	call                  round trips       documents written
//	Create                2                 1
//	Hold, Claim, Release  1; refused 2      1; refused 0
//	Cells, Counts         1                 0
//	Check                 1, 1 for 100      0
//	HoldAdjacent          2; 2 more when somebody was quicker   1
//
// Every call finds its grid by _id and needs no index.
//
// # When to use it, and when not
//
// Use it where all cells are known ahead and are read together. What the cells that
// are there before buy (TestWhatPreallocationBuys counts it):
//
//	the plan, with what is free    1 document; else one for each claim, and none of what is free
//	four seats, all or none        1 write; else a transaction of four
//	a seat that there is not       refused; else it is sold
//	free cells in a row, counts    1 round trip each; else in the client
//
// What they do not buy is speed. Where a document once had to move when it grew,
// space made before saved that; today's storage engine writes every change of a
// document as a new one, whatever its size was before. BenchmarkClaim claims the same
// seats in four layouts in one run, as ratios for your server: a document that grows
// and one inserted with the claim take less time than a claim in a grid, whose guard
// is longer. Nor is space saved: a thousand free cells are about 11 KB from the start.
//
// Two claims in one grid at the same time wait for each other in the server, so a grid
// takes as many changes a second as any one document does. For an arena with a rush
// on every seat make a grid of each block, or keep one document a seat. For quantities
// without places (12 tickets left) use
// updateOne({_id, left: {$gte: n}}, {$inc: {left: -n}}) and no package.
//
// # Concurrency, time, sharding
//
// The condition that a cell is free stands in the filter of the write, so of a
// hundred claims of four seats four succeed. Holds begin and end by the clock of the
// server; one that is over needs no cleaning up.
//
// Adoption: name your fields in [Options]; a cell without HolderField is free. A grid
// made of arrays has to be rewritten first. Check finds grids and cells that no call can
// take or free: such as a hold whose end is a text, which never ends.
//
// Shard by _id ([Grids.ShardKey]).
package prealloc
