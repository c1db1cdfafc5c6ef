// Package prealloc keeps grids whose cells exist before anybody takes them, such as the seats of a
// screening or the days of a booking calendar. A cell has at most one holder at a time. A call
// takes several cells together or none of them, by one write to one document.
//
// # When to use it, and when not
//
// Use it where all cells are known in advance and are read together. Claims in one grid at the same
// time wait for each other in the server, so a grid takes as many changes a second as any one
// document. For an arena where many want seats at once, make each block a grid, or each seat a
// document. For quantities without places (12 tickets left) use updateOne({_id, left: {$gte: n}},
// {$inc: {left: -n}}) instead of this package.
//
// TestWhatPreallocationBuys counts the advantages of cells that exist before they are taken:
//
//	the plan, with what is free    1 document; else one for each claim, and none of what is free
//	four seats, all or none        1 write; else a transaction of four
//	a seat that does not exist     refused; else it is sold
//	free cells in a row, counts    1 round trip each; else in the client
//
// # Documents
//
// A grid is one document, inserted with all its cells free. A cell is a document inside it. It is
// free if it has no holder, or if its hold has ended:
//
//	{_id: "2019-04-05 20:00", film: "Dumbo", cells: {
//	  A: {"1": {}, "2": {by: "order 7"}, …},             // 2 is taken
//	  B: {"1": {by: "order 8", until: ISODate("…")}, …}, // 1 is held until then
//	}}
//
// Names of sections and cells are field names: not empty, without a dot, not beginning with $. With
// [Options].Flat there are no sections. Here, with one cell for each working day:
//
//	{_id: "room 1, April 2019", cells: {"2019-04-01": {}, "2019-04-02": {by: "Ann"}, …}}
//
// Other fields of the grid and of its cells, such as a price, are yours, and the package keeps them. Insert makes
// empty cells, so set a price afterwards, by an update of "cells.A.1.price". To add a cell, set "cells.A.11" to
// {} where it does not exist.
//
// # The five calls
//
//	seats, err := prealloc.New[string, string](screenings, nil)
//	rows := slices.Concat(prealloc.Row("A", 10), prealloc.Row("B", 14))
//	err = seats.Insert(ctx, id, bson.M{"film": "Dumbo"}, rows...)
//	err = seats.Hold(ctx, id, "order 8", 10*time.Minute, prealloc.At("B", "3"), prealloc.At("B", "4"))
//	err = seats.Claim(ctx, id, "order 8", prealloc.At("B", "3"), prealloc.At("B", "4"))
//	err = seats.Release(ctx, id, "order 8", prealloc.At("B", "3"))
//	all, err := seats.Cells(ctx, id)
//
// The type parameters are the types of the grid's _id and of a holder. Hold takes cells for a time, here ten
// minutes. Claim takes cells permanently, both free cells and those that the holder already has. It needs no
// Hold before, and takes a cell whose hold has ended if nobody else has it. To confirm only what is still
// held, read Cells in the same transaction. If another holder has one of the cells, Hold and Claim return
// [ErrTaken], a *[TakenError] that lists these cells, and nothing changes.
//
// HoldAdjacent finds n free cells next to each other in a section and holds them. Name the sections if not
// all will do. Release frees cells of the holder. If you do not know which these are, look in Cells for
// those whose By is the holder. Cells reads the whole grid. To delete a grid, use DeleteOne of the driver
// with Filter(id).
//
// Use the order or the request as the holder, not the person. Then a call can be repeated if its answer was lost,
// because a second Claim by the same holder succeeds and changes nothing. A second Release returns ErrTaken if
// another holder has taken one of the cells since the first. Hold and Claim refuse an empty string as the holder.
//
// # A calendar, and the slots of a day
//
// With Options.Flat a grid is a room's month with a cell for each day, or a doctor's day with a cell for each
// slot:
//
//	april, err := prealloc.DayCells(first, last, nil) // a cell for each day, such as "2019-04-01"
//	rooms, err := prealloc.New[string, string](db.Collection("rooms"), &prealloc.Options{Flat: true})
//	err = rooms.Insert(ctx, "room 1, April 2019", nil, april...)
//	err = rooms.Claim(ctx, "room 1, April 2019", "Ann", april[3], april[4])
//
//	days, err := prealloc.New[string, string](db.Collection("days"), &prealloc.Options{Flat: true})
//	err = days.Insert(ctx, "Dr. Grey, 2026-12-01", nil, prealloc.At("", "09:00"), prealloc.At("", "09:30"))
//	err = days.Claim(ctx, "Dr. Grey, 2026-12-01", "request 7", prealloc.At("", "09:30"))
//
// The [example of DayCells] and the [example of Claim for a day] run.
//
// # Any free cell
//
// If the place does not matter, as with four places for an appointment at 09:00, make each time a section,
// choose a free cell of it from Cells, and choose again after ErrTaken. If the holder already has one of the
// cells, choose that one, so that a repeated request does not take a second. The [example of Claim] does this,
// and stores the appointment in the same transaction.
//
// # Concurrency, time, adoption
//
// The filter of each write requires that its cells are free, so if a hundred buyers claim one of the same
// four seats each, four succeed. All calls, including Insert, join the transaction of their context. After an
// error from a call that writes, abort it. Holds begin and end by the server's clock. Nothing has to remove a
// hold that has ended, even if its program is killed.
//
// To adopt existing grids, name your fields in [Options]. A cell without HolderField is free. Grids
// made of arrays must be rewritten first. Check finds grids and cells that no call can take or
// free, such as a hold whose end is a string and which therefore never ends.
//
// # Failures
//
// Besides ErrTaken, calls return [ErrNoCell] for a cell that the grid does not have, and
// mongopatterns.ErrNotFound for a grid that does not exist. Nothing is written then.
//
// # Costs
//
//	call                  round trips       documents written
//	Insert                2                 1
//	Hold, Claim, Release  1; refused 2      1; refused 0
//	Cells, Counts         1                 0
//	Check                 1, 1 for 100      0
//	HoldAdjacent          2; 2 more when somebody was quicker   1
//
// Every call finds its grid by _id; no other index is needed.
//
// Cells that exist do not make claims faster. Storage engines that moved a document when it grew
// gained from space made in advance, but today's engine writes every changed document anew, whatever
// its size. BenchmarkClaim claims the same seats in four layouts in one run, and gives ratios for
// your server. A claim takes less time in a document that grows, or as a document inserted with the
// claim, than in a grid, whose guard is longer. Nor do such cells save space, because a thousand
// free ones take about 10 KB from the start.
//
// # Sharding
//
// Shard by _id ([Grids.ShardKey]).
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of Claim]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/prealloc#example-Grids.Claim-AnyCell
// [example of Claim for a day]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/prealloc#example-Grids.Claim-DaySlots
// [example of DayCells]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/prealloc#example-DayCells
package prealloc

// Notes for those who change this package.
//
//   - Prealloc keeps a cell as a document under its name and not in an array: the condition that it is free, and the
//     write, name the same path, so several cells are one update, all or none. Holds end by the server's clock, in the
//     filter, so nothing sweeps.
