// Package outlier keeps a list in an array of its document. Lists that become too long for one document
// continue in overflow documents, so that a few best-sellers do not decide how all books are stored.
//
// The document that owns a list is called its parent. A parent without overflow documents is typical,
// and a parent with overflow documents is an outlier.
//
// # When to use it, and when not
//
// Use it if most lists are short and are read together with their document, while a few have no bound.
// [Lists.Distribution] counts, in an existing collection, how many documents would be outliers at several
// values of MaxCount. Do not use it:
//
//   - If nearly every list is long. Give the elements a collection of their own.
//   - If only the newest few are ever read. Use package subset.
//   - If people page through a list, newest first or sorted. Use package subset with package paging.
//   - If elements are changed in place all the time. Make them documents of their own.
//   - If no list will ever be long. Use an array and $push.
//
// All and Contains cost several times as much for an outlier as for a typical document.
//
// # Documents
//
// A typical document has the array and nothing else:
//
//	{_id: 17, title: "The Colour of Birch", customers_purchased: ["user00", "user01"]}
//
// An outlier keeps its newest elements, at most Options.MaxCount, 1000 by default. Its overflow documents,
// in another collection, hold the older ones:
//
//	{
//	  _id: 18, title: "Harbour Lights",
//	  customers_purchased: ["user1800", …, "user2399"],
//	  has_extras: true,
//	  customers_purchased_outside: 1800,
//	  customers_purchased_moved: ObjectId("…")
//	}
//	{_id: ObjectId("…"), book_id: 18, n: 0, customers_purchased: ["user00", …, "user999"]}
//	{_id: ObjectId("…"), book_id: 18, n: 1, customers_purchased: ["user1000", …, "user1799"]}
//
// customers_purchased_outside counts the elements in overflow documents, and customers_purchased_moved is an
// ObjectID that changes when elements move. A parent may have several lists, each with its own Lists,
// ArrayField and overflow collection.
//
// # The calls
//
//	books, err := outlier.New[int, string](db.Collection("books"), db.Collection("book_extras"), &outlier.Options{
//		ArrayField:  "customers_purchased",
//		FlagField:   "has_extras", // default "customers_purchased_overflow"
//		ParentField: "book_id",
//		Set:         true,         // each element once
//	})
//	err = books.EnsureIndexes(ctx)
//
//	added, err := books.Add(ctx, 17, "user02")
//	for customer, err := range books.All(ctx, 17) { ... }
//	held, err := books.Contains(ctx, 17, "user02")
//	n, err := books.Total(ctx, 17)
//	removed, err := books.Remove(ctx, 17, "user02")
//
// int is the type of the books' _id, and string the type of an element. Insert, find and update parents with the
// driver, as before. A missing or null array is an empty list. For a missing parent, calls return
// [mongopatterns.ErrNotFound].
//
// Two things differ from plain documents. Where a parent may be an outlier, call [Lists.Delete], so that its
// overflow documents are deleted as well. And a query or a $size on the array sees only the elements in the
// parent, so use [Lists.ContainingPipeline] to find the parents that hold an element, [Lists.ItemsPipeline] for
// all elements, and [Lists.TotalExpression] for their number.
//
// The elements are in the order in which they were added. First come those of the overflow documents,
// ordered by n, and then those of the parent's array. An Add to a full parent moves the older half out.
// When a removal brings the total down to Options.FoldBack, three quarters of MaxCount by default, all
// elements move back into the parent.
//
// # Concurrency
//
// All calls may run in any number of processes on the same list. An Add to a list with room, typical or
// outlier, is one guarded update of the parent. Concurrent Adds wait for each other in the server, and
// none has to be repeated. A call that moves elements, or removes one from an outlier, is a transaction
// that writes the parent first, so that other writers wait for it. Nobody sees an intermediate state.
//
// All calls join the transaction in their context. After an error from a call that writes, abort your
// transaction. On a standalone server, calls that move elements, remove from an outlier or delete it
// return ErrTransactionsUnsupported, because they need a transaction. Typical documents need none. All
// reads go to the primary.
//
// Other code may add to a parent's array and take from it, also in an outlier. The total stays right, but
// other code must itself respect the bounds and keep the elements of a set unique. When it pulls or edits
// an element by value, it reaches only the elements in the parent's array, not those in overflow
// documents. An element's position in the array changes when elements move.
//
// # Failures
//
// An Add to a set can be repeated. Another list could get the elements twice, and a repeated Remove could
// remove a second equal element. If a process is killed, its list is as before the call or as after it.
// The server releases the locks when it ends the transaction, by default after 60 s.
//
// An Add to a set or to a full parent, and a Remove, start over when others have moved elements between
// their read and their write. After 100 attempts they return [mongopatterns.ErrConflict] and have written
// nothing, so call again. All, Slice and Contains read again as often if elements have moved between their
// reads.
//
// # Costs
//
// Round trips (RT) and documents written, left for typical documents, right for outliers. The comment of
// each method gives the exceptions.
//
//	Add              1 RT, 1 written    1 RT, 1 written; of a set 3 RT; when full 7 RT
//	Remove           1 RT, 1 written    3 RT, 1 written, from an overflow document 4 RT, 2 written
//	Contains         1 RT               2 or 3 RT
//	Total            1 RT               1 RT
//	All              1 RT               3 RT
//	Slice            1 RT               2 RT for the newest, else 3
//	Delete           1 RT               4 RT
//	Adopt, Repair    scans, and 4 RT or more for each list that changes
//	Check            a scan, and 2 RT for each batch of outliers
//
// Parents are found by _id, overflow documents by the index {book_id: 1, n: 1}. With Options.ElementIndex,
// elements are found by {book_id: 1, customers_purchased: 1}.
//
// # Adoption and maintenance
//
// [Lists.Adopt] brings existing data into this form. It takes arrays of any length, outliers that other
// code has written, and lists of this package whose bounds have changed. It runs during live writes,
// and can be stopped and run again. Arrays within the bounds need no adoption. Until a list that other
// code has flagged as an outlier is adopted, every call but Delete refuses it with
// [mongopatterns.ErrNotAdopted] and writes nothing.
//
// Run it again after old code has written to adopted lists. It then takes up what old code has pushed
// into an outlier's array, and the overflow documents that old code has added. In the new order,
// overflow documents come first, by number, then the parent's array, and then overflow documents without
// a number, by _id. So the order of elements that old and new code have added at the same time is not
// defined.
//
// Old code may also write back an outlier's parent, whole from before the split, or without the fields
// that it does not know. The content decides. If the array begins with the elements of the overflow
// documents, it is the whole list, and the overflow documents are deleted. If it holds none of them, its
// elements follow them. Until Adopt has run, calls see only the array; an Add that would have to move
// elements out adopts the list first. If neither is certain, nothing is written: Adopt counts the list as
// Remaining, Check names it [Unclear], such an Add returns ErrNotAdopted, and you decide. An array that
// holds none of the elements because old code replaced every one is taken for the newest part.
//
// Old code must not write back a copy with the fields of an outlier after elements have moved. If Adopt
// runs next, it drops what is there twice. But if the list changes again before, or if meanwhile as many
// elements moved out as others were removed, elements can stay there twice, and Check may find that only in a set.
//
// [Lists.Check] finds what is wrong afterwards, such as overflow documents whose parent somebody deleted,
// and [Lists.Repair] repairs it.
//
// # Sharding
//
// Shard the parents by _id, hashed or not, and the overflow documents by {book_id: 1}, so that every write
// is targeted and the overflow documents of a list are on one shard. Create both collections beforehand.
// Inside your own transaction, Adopt, Check, Repair and adding to a set need MongoDB 8.0 on a sharded
// cluster, because they use $lookup.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package outlier

// Notes for those who change this package.
//
//   - A typical document stores the array and nothing else; its length is the total. Only outliers carry the flag and
//     the number of elements outside. The cap is guarded by size and bytes in the filter.
//   - The parent holds the newest elements, the overflow documents the older ones. So an Add, to an outlier too, is
//     one guarded update of the parent, for which writers queue in the server; it was a transaction before, and twenty
//     writers were a quarter as fast as one. Only a full parent needs one, which moves its older half out.
//   - A token in the parent changes whenever elements move. Reads that take two trips, and adds to sets, which must
//     look into the overflow documents, are guarded by it.
//   - What other code wrote, a flag of "true" and overflow documents without numbers, is refused until Adopt takes it,
//     whole and in order. In a list that is in form already, documents without a number come last: their _ids say when
//     they were made, nothing says when the parent's elements came.
//   - What other code has written back is settled by content, and elements are dropped only where it leaves no doubt. An
//     array that is part of the end of what lies outside may be the newest part from before a move, or a whole list that was cut.
//   - A move does not count what lies outside, as it would have to read all of it; so a stale number lives until Adopt.
//   - An Add that finds its parent changed begins anew, 100 times at most, and is then ErrConflict.
//   - Folding back begins at three quarters of the cap, so that a list around the cap does not move each time.
//     FoldBack stays an option, as "never" is right for a parent that every page reads. So do the bounds of overflow
//     documents: a parent that is kept at 24 KB would force them to 24 KB.
