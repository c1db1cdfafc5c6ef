// Package outlier keeps a list in an array of its document, and what is too much
// for a document in overflow documents, so that a few best-sellers do not decide
// how all books are stored.
//
// # Documents
//
// A typical document has the array and nothing else:
//
//	{_id: 17, title: "The Colour of Birch", customers_purchased: ["user00", "user01"]}
//
// An outlier has at most 1000 elements, the newest, and its overflow documents, in
// another collection, hold the others:
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
// It counts the elements outside; the ObjectID changes when elements move. A
// parent may have several lists, each with a Lists, an ArrayField and an overflow
// collection of its own.
//
// # Five calls
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
// And Delete instead of your own for parents that may be outliers. You insert, find
// and update parents as ever; an array that is missing or null is an empty list.
//
// The order is that in which elements were added: the overflow documents by n, then
// the parent's array. An Add that finds the parent full moves the older half out; a
// removal that brings the total down to Options.FoldBack moves everything back.
//
// # Costs
//
// Round trips (RT) and documents written, of typical documents and of outliers;
// each method says more.
//
//	Add              1 RT, 1 written    1 RT, 1 written; of a set 3 RT; when full 7 RT
//	Remove           1 RT, 1 written    3 RT, 1 written, from an overflow document 4 RT, 2 written
//	Contains         1 RT               2 or 3 RT
//	Total            1 RT               1 RT
//	All              1 RT               3 RT
//	Page             1 RT               2 RT for the newest, else 3
//	Delete           1 RT               4 RT
//	Adopt, Repair    a scan, and 4 RT or more for each list that changes
//	Check            a scan, and 2 RT for each batch of outliers
//
// Parents are found by _id; overflow documents by {book_id: 1, n: 1}, and with
// Options.ElementIndex elements by {book_id: 1, customers_purchased: 1}.
//
// # When to use it
//
// Use it if most lists are short, are read with their document, and a few have no
// bound. [Lists.Distribution] tells, for a collection as it is, how many documents
// would be outliers at which MaxCount. Do not use it if nearly every list is long
// (give elements a collection of their own), if only the newest few are ever read
// (the subset pattern), if elements are changed in place all the time (documents of
// their own again), or if no list will ever be long (an array and $push). All of an
// outlier, and Contains in one, cost several times what one document does.
//
// # Several writers
//
// All calls may run in any number of processes on the same list. Adding to a list,
// typical or outlier, is one guarded update of the parent, for which writers queue
// in the server: none starts over. What moves elements, or removes one from an outlier,
// is a transaction, whose first write is the parent's; others wait for it. There is no
// state in between: a process that is killed leaves the list as it was before, or after,
// and what it had locked is free when the server ends its transaction, after 60 s by
// default.
//
// All calls join the transaction in their context. After an error from a call that
// writes, abort your transaction. On a standalone server outliers are
// ErrTransactionsUnsupported; typical documents need no transaction. All reads go to
// the primary. Other code may add to and take from a parent's array, typical or not: the
// total stays right, the bounds and a set's uniqueness are then its business. What it pulls
// or edits by its value is found in the parent's array only, and by its place no longer
// where it was: what lies outside stays as it is.
//
// # Adoption
//
// [Lists.Adopt] brings a collection with arrays of any length, or with outliers as others
// wrote them, into this form, and one that has it into other bounds. It can be stopped and
// run again, beside live writes, and takes then what old code has pushed into a split parent
// or put into overflow documents of its own. The order is that of the numbers, then the
// parent's array, then overflow documents without a number by their _ids; so what old
// and new code add to one list at a time is in either order. A split parent that is
// written back as it was before it was split, or with more behind that, is the whole list;
// written back with another beginning it is what follows the elements outside. Until then every call refuses outliers of others with
// [ErrNotAdopted] and writes nothing. [Lists.Check] finds what is wrong afterwards, such as
// overflow documents whose parent somebody deleted; [Lists.Repair] removes it.
//
// # Sharding
//
// Shard the parents by _id, hashed or not, and the overflow documents by
// {book_id: 1}: every write is targeted, and those of a list lie on one shard. Create
// both collections beforehand. Check, Repair and adding to sets in a transaction of
// yours need MongoDB 8.0 there, as they use $lookup in a transaction.
package outlier
