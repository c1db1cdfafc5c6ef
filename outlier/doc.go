// Package outlier keeps a list in an array of its document, and what is too
// much for a document in overflow documents, so that a few best-sellers do not
// decide how all books are stored.
//
// # The problem
//
// A book has some dozens of customers, and an array inside the book is read with
// it, in one round trip, without a join. A best-seller has a million: its
// document grows, is rewritten with each customer, and ends at 16 MiB. Putting
// every customer of every book into a collection of its own makes the typical
// book pay for the exceptional one. The outlier pattern treats the exception as
// one: up to a number of elements the array is all there is; beyond it the
// document gets a flag, and further elements go to documents beside it.
//
// # Documents
//
// A typical document has the array and nothing else:
//
//	{_id: 17, title: "The Colour of Birch", author: "…", customers_purchased: ["user00", "user01"]}
//
// An outlier, in the parents' collection, and its overflow documents, in another:
//
//	{
//	  _id: 18, title: "Harbour Lights", author: "…",
//	  customers_purchased: ["user00", "user01", …, "user999"],
//	  has_extras: true,
//	  customers_purchased_total: 2400
//	}
//	{_id: ObjectId("…"), book_id: 18, n: 0, customers_purchased: ["user1000", …, "user1999"]}
//	{_id: ObjectId("…"), book_id: 18, n: 1, customers_purchased: ["user2000", …, "user2399"]}
//
// These names come from this configuration; all of it is optional:
//
//	books, err := outlier.New[int, string](db.Collection("books"), db.Collection("book_extras"), &outlier.Options{
//		ArrayField:  "customers_purchased",
//		FlagField:   "has_extras", // default "customers_purchased_overflow"
//		ParentField: "book_id",
//		Set:         true,
//	})
//	err = books.EnsureIndexes(ctx)
//
// The parents are yours: you insert, find and update them as ever. An array that
// is missing or null is an empty list. With Options.CountTypical typical documents
// have the total too, from their first Add on, for an index that sorts books by
// customers. Five calls are enough for most:
//
//	added, err := books.Add(ctx, 17, "user02")
//	for customer, err := range books.Items(ctx, 17) { ... }
//	held, err := books.Contains(ctx, 17, "user02")
//	n, err := books.Total(ctx, 17)
//	removed, err := books.Remove(ctx, 17, "user02")
//
// And Delete instead of your own for parents that may be outliers.
//
// A parent may have several lists, say of customers and of reviewers: a Lists for
// each, with an ArrayField and an overflow collection of its own. The flag and the
// total are named after the array, so that one list does not take the other's for
// its own; see to that if you name them yourself.
//
// # Lists and sets
//
// A list may hold an element several times. With Options.Set it holds each once:
// adding it again reports false, also when two add it at the same time and
// wherever it lies. Elements are scalars or documents, and equal if they are to
// the server: 1 and 1.0 are, documents with their fields in another order are
// not, and a collation of the collection counts (give both the same).
//
// # Order
//
// The order is that in which elements were added: the parent's array first, then
// the overflow documents by n. Once a document is an outlier new elements go
// behind the last one, also when removals have left room in the parent.
// Removing, folding back, splitting and refilling keep the order of all others.
// n only grows or, when a parent's array is split, goes below the lowest; gaps in
// it mean nothing.
//
// # Bounds
//
// A parent takes Options.MaxCount elements and Options.MaxBytes of them, whichever
// is reached first; overflow documents have bounds of their own. A list in a
// document is cheap while the document is: some hundred kilobytes at most. Choose
// by [Lists.Distribution], which tells for several MaxCounts how many documents
// would be outliers, of a collection as it is, before anything is adopted:
//
//	report, err := books.Distribution(ctx, nil, 100, 1000, 10000)
//	for _, c := range report.Caps {
//		fmt.Println(c.MaxCount, c.Outliers, c.Outside)
//	}
//
// # Shrinking
//
// Removals leave holes; an overflow document is deleted with its last element.
// When the total has come down to Options.FoldBack (three quarters of MaxCount),
// the removal moves everything back into the parent, a typical document again.
// The distance to MaxCount keeps a list that grows and shrinks around it from
// moving each time. [Lists.Rebalance] closes the holes of one list when you want
// it: the parent is filled up from its overflow documents.
//
// # Indexes
//
//	parents:   {has_extras: 1}                         partial: outliers only, for OutliersFilter
//	overflow:  {book_id: 1, n: 1}                      unique; all reads and writes
//	           {book_id: 1, customers_purchased: 1}    only with ElementIndex
//
// Parents are found by _id. Which books a customer bought
// ([Lists.ContainingPipeline]) takes {customers_purchased: 1} in both, which you
// create if you ask that.
//
// # Costs
//
// Round trips (RT) of typical documents, and of outliers; each method says more.
//
//	Add, AddMany     1 RT, 1 document written    4 RT, 2 documents written; with Set 5
//	Remove           1 RT, 1 document written    3 RT, 1 written, or 4 RT, 2 written; folding back 3 more
//	Contains         1 RT                        2 RT
//	Total            1 RT                        1 RT
//	Items            1 RT                        4 RT
//	Page             1 RT                        1 RT inside the parent, else 5
//	Delete           1 RT                        4 RT
//	Distribution     1 RT, a scan
//	Adopt            a scan, and 5 RT for each document that it splits; with Set 6
//	Check, Repair    a scan, and 3 RT for each outlier; with Set 4
//
// # Several writers
//
// All calls may run in any number of processes on the same list. What concerns a
// typical document is one update of it, guarded by its filter: no flag, and
// room. What concerns an outlier is a transaction whose first write counts in
// the parent; of several at the same time on one list one commits and the others
// run again, so adding to one very hot outlier is as fast as one writer is. On a
// standalone server that is [ErrTransactionsUnsupported]; typical documents need
// no transaction. A missing parent is [ErrNotFound], and nothing is written: no
// overflow document exists without its parent.
//
// All calls join the session of their context and a transaction it is in, which may
// go on after ErrNotFound and [ErrInvalid]: what was refused has left nothing
// behind. After any other error abort it, and after the ErrInvalid of a field that
// holds no array: that error is the server's, which has ended the transaction.
//
// Contains, Total and typical reads go by the collection's read preference; the
// rest reads from the primary.
//
// Other code may change all of a parent but the three fields. It may add to and
// take from the array of a typical document by the guard that this package uses:
// has_extras: {$ne: true} in the filter; with CountTypical it changes the total in
// the same update.
//
// # Sharding
//
// Shard the parents by _id, hashed or not, and the overflow documents by
// {book_id: 1} ([Lists.OverflowShardKey]): every write is targeted, those of a
// list lie on one shard, and the unique index starts with the key. Create both
// collections beforehand: a transaction over several shards creates none.
// Rebalance, Check and Repair of sets need MongoDB 8.0 there, as they use $lookup
// in a transaction.
//
// # Maintenance
//
// [Lists.Adopt] brings a collection with arrays of any length into this shape, and
// a collection that has it into that of other bounds: it splits arrays over
// MaxCount or MaxBytes, fills parents up and folds back what fits. Documents that
// need nothing are not written. It can be stopped at any time and run again, beside
// live writes by this package; run it again after the last writer that does not
// know the pattern is gone. Overflow documents written under larger bounds stay as
// they are.
//
// [Lists.Check] finds wrong totals and flags, arrays over the bounds, duplicates
// in sets, and overflow documents whose parent somebody deleted; [Lists.Repair]
// mends them, each list in a transaction of its own. A field that holds no array is
// left to you: Check names the list, Adopt and Repair count it.
//
// # Composing
//
// Filter and OverflowFilter select a list's documents, OutliersFilter all
// outliers. TotalExpression is the total in stages over any parents. Stored totals
// have outliers sorted by an index, and read by the paging package:
//
//	pager, err := paging.New[Book](db.Collection("books"),
//		bson.D{{Key: "customers_purchased_total", Value: -1}}, &paging.Options{Equality: []string{"has_extras"}})
//	err = pager.EnsureIndexes(ctx)
//	page, err := pager.Page(ctx, books.OutliersFilter(), paging.Request{Size: 20})
//
// With CountTypical, for all books, leave Equality and the filter away.
//
// A parent of several lists or patterns is deleted by one of them, and the other's
// documents by their filter, in one transaction. Deleting twice would be
// ErrNotFound the second time, and leave overflow documents:
//
//	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
//		if _, err := reviews.DeleteParent(ctx, 18); err != nil { // of a subset
//			return nil, err
//		}
//		return db.Collection("book_extras").DeleteMany(ctx, books.OverflowFilter(18))
//	})
//
// ItemsPipeline gives the elements of any parents as documents, for your own stages
// to follow (a page is $skip and $limit behind it), ContainingPipeline the parents
// that hold an element, DistributionPipeline what Distribution reads.
//
// # When not to use it
//
//   - Nearly every list is long, or all of them grow without end: give elements a
//     collection of their own from the start, with an index on the parent's ID.
//   - Only the newest or best few are read with the parent: keep those in it and
//     all of them in their own collection (the subset pattern).
//   - Elements are changed in place or looked up by their own key all the time:
//     documents of their own again.
//   - No list will ever be long: an array and $push are all you need.
package outlier
