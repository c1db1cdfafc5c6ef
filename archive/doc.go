// Package archive moves old documents out of a live collection into an archive, which is another
// collection of the same database or of another database of the same client. Every document stays
// whole, and is in exactly one of the two at any time.
//
// # When to use it, and when not
//
// Use it if queries and indexes of the live collection get slow or expensive because of documents that
// are hardly read any more but must be kept. The archive may have fewer indexes, be on other shards,
// or be compressed harder. Do not use it:
//
//   - To delete old documents. Use a TTL index.
//   - If queries often span both sides. An index that begins with the date is enough.
//   - For measurements. bucket, series and slots have an Archive of their own, which knows when a
//     window has ended.
//
// # Documents
//
// A document of the live collection, and the same document in the archive:
//
//	{_id: 17, customer: "Ann", lines: [...], closed_at: ISODate("2021-03-05")}
//
//	{_id: 17, customer: "Ann", lines: [...], closed_at: ISODate("2021-03-05"), archived_at: ISODate("2026-11-23")}
//
// The document keeps its _id, its types and the order of its fields. The only addition is the
// MarkField, here archived_at, which holds the time of the move by the clock of the program. It
// distinguishes archived from live documents wherever both are read together. A TTL index on it can
// delete archived documents, though not their companions. Restore removes it again.
//
// # The calls
//
//	orders, err := archive.New(db.Collection("orders"), client.Database("cold").Collection("orders"),
//		&archive.Options{TimeField: "closed_at"})
//	err = orders.EnsureIndexes(ctx)
//
//	cut := time.Now().AddDate(-2, 0, 0)
//	result, err := orders.Move(ctx, orders.BeforeFilter(cut), nil)
//	result, err = orders.Restore(ctx, bson.D{{Key: "customer", Value: "Ann"}}, nil)
//
//	for problem, err := range orders.Check(ctx, nil) { ... }
//	result, err = orders.Repair(ctx, nil)
//
// Run Move as a job. It moves one batch after the other, and can be killed and run again. The result counts as
// Done what was moved, as Skipped what another writer moved first, and as Failed, with its error, what could not
// be moved; the others are moved anyway. For everything else, such as reading the archive, use the driver.
//
// # Which documents are old
//
// Move takes any filter. bson.D{} selects all documents, and nil is refused. BeforeFilter(t) selects
// the documents whose TimeField is a date before t. A document without the field, or with another
// value there than a date, stays live. In an array the newest date counts, and values that are no dates
// do not. A time of exactly t is not before t, so consecutive cuts select every document once. The
// default TimeField is _id, whose ObjectID holds the time of creation in seconds, and needs no other
// index. For any other field EnsureIndexes creates an index in the live collection.
//
// Choose a cut that lies behind every deadline of your programs. Archive what is complete ("closed
// two years ago"), not what has only been unchanged for a while.
//
// # Documents with companions
//
// A document is moved alone, unless Options.Companions names the collections whose documents belong to it, and the
// field in which they hold its _id:
//
//	trips, err := archive.New(db.Collection("trips"), db.Collection("trips_archive"), &archive.Options{
//		TimeField: "ended",
//		Companions: []archive.Companion{
//			{Live: db.Collection("comments"), Archived: db.Collection("comments_archive"), Field: "trip_id"},
//		},
//	})
//
// Then a trip and its comments are on one side at any time, because Move and Restore move both in one
// transaction. The comments stay as they were, without the MarkField, and no Result counts them. Companions
// have no companions of their own, so a like of a comment needs a field with the _id of the trip.
//
// The documents of these packages move with their parts, and a helper on each side reads them:
//
//	subset    {Live: items, Archived: oldItems, Field: "product_id"}     // its ParentField
//	outlier   {Live: extras, Archived: oldExtras, Field: "book_id"}      // its ParentField
//	split     {Live: cold, Archived: oldCold, Field: "movie_id"}         // its IDField, without one "_id"
//
// An Archive of items, extras or cold documents alone does not know their parents. They still count and show what has
// left, and subset stores what they show once more. If the parent stays and its old items go, use one
// mongopatterns.Transact for each parent: write to the parent, Move those of its items that it does not show, and call
// Repair of subset for this parent. Its counts then leave them out. Keep their number in a field of yours.
//
// Documents of package tree belong to one another, so archive only those without children.
//
// All companions of a document are moved in one transaction. If they are larger than Work.BatchBytes, by default 8
// MiB, nothing is written, and the document is Failed with [mongopatterns.ErrInvalid]. So a trip with 100,000
// comments stays live until a call allows it a larger transaction, which the server must be able to hold in its
// cache.
//
//	result, err := trips.Move(ctx, bson.D{{Key: "_id", Value: 17}}, &mongopatterns.Work{BatchBytes: 64 << 20})
//
// subset, outlier and split write to the trip in the transaction that adds a comment. A program that does not may
// add a comment while its trip is being archived or afterwards. The comment is then live, but its trip is not. Check
// reports the comment as [Apart], and Repair moves it to its trip, as it moves comments of trips that were archived
// without them. Repair does not move a comment that has other content on the other side. The [example of patterns
// together] has all of this in one program.
//
// Other references are not followed. After a move, a reference in the live collection may point at a document that
// is elsewhere, and helpers of other packages on the live collection report it as missing (a dangling reference, an
// orphan). So archive documents that hold what their readers need, or copy it into them before the move.
//
// A sum over documents counts only live ones. A target of package computed keeps its values when its sources are
// moved, because a Move is not a Change. If you know the documents, call Move inside Change, as the [example of
// patterns together] does. Otherwise, when the target is next computed from all sources, it leaves out those that are
// archived; until then its Check reports WrongField. If archived documents should not count, Mark the targets after
// the Move. If they should count, keep their sum in another field of the target, or archive targets only together
// with all their sources.
//
// A document of package versioning moves with its revisions as companions, and a History of the two archives then
// reads both. The [example of Move with a history] runs this. Name the MarkField in versioning's Options.Ignored, on
// both sides. Otherwise a Restore or Undo of the archived History removes it, and Check reports the document as
// Unmarked. Do not use the _id again, because the new document would begin at revision 1 and could not be archived.
//
// # Reading both sides
//
// A program that reads a document by its _id looks at the live collection first and then at the archive. A Restore
// between the two reads can hide the document. To exclude that, read both in a transaction or in a session with
// snapshot reads. Do the same to read many documents of both sides and see each once. The [example of a union]
// aggregates over both.
//
// # Concurrency
//
// All calls may run in any number of processes, at the same time, and while programs run that know
// nothing of this package. Two Moves at once need no lock, because each document is moved by one of
// them and Skipped by the other. A process can be killed at any moment. The server then ends its
// transaction and releases its documents after transactionLifetimeLimitSeconds, by default after 60 to 90 s.
//
// In its transaction Move first marks the documents that still match the filter, and then reads, inserts and
// deletes what it has marked. A change stream shows an update and a delete of the live document, and an insert
// in the archive. If a program changes such a document
//
//   - before the mark, the transaction conflicts, and runs again with the new content, or leaves
//     the document if it no longer matches the filter;
//   - after the mark, its update waits in the server until the move is committed, and then matches
//     nothing. An update in a transaction gets a write conflict, and matches nothing when it is run
//     again.
//
// So a program notices that it updates an archived document if it looks at MatchedCount. An upsert
// or a replacement with upsert creates the document again in the live collection, which the next
// section treats. A program that needs an archived document calls Restore and repeats its update.
//
// # The same _id on both sides
//
// If a document is to be moved and its _id exists on the other side, nothing is overwritten. If
// both are the same byte by byte except for the MarkField, as after a copy by other means, Move
// deletes the source and counts it as Done. Otherwise the document is Failed with
// [mongopatterns.ErrExists], and both stay. Compare them, and delete or change one. Check finds
// such pairs without a move. In a transaction of yours Move ends with the error of such a document,
// and you have to abort the transaction.
//
// # Failures
//
// A document also stays where it is, and is Failed, if:
//
//   - The other side refuses it, because of a unique index or a validator.
//   - It is larger than 16 MB with its mark.
//   - It is live and already has the MarkField.
//   - It has an empty timestamp in a top-level field, which the server would replace
//     ([mongopatterns.ErrMalformed]).
//
// A validator of the live collection must allow the MarkField as well, because documents have it
// during the move. A unique index guards one collection. Once a document is archived, the live
// collection accepts its unique values again, and then the document cannot be restored. If that must
// not happen, keep the values in a collection of their own.
//
// # The collections
//
// Move creates the archive if it does not exist, and Restore the live collection. Create the
// archive yourself to give it options such as a compressor. Time-series collections, capped
// collections and views are not supported. If a collection has a default collation, which could
// treat different _ids as equal, the calls return ErrInvalid.
//
// If the archive is in another database, Indexes and ShardKey name only the live collection, because they
// list collections by name. Create the indexes of the archive and shard it yourself.
//
// # Costs
//
// Round trips (RT) include the commit.
//
//	Move, Restore    2 RT to begin, and 5 RT a batch of 100 documents, 3 writes for each document
//	Check            1 RT to begin, 2 RT for each 1000 live documents and 1 for each 1000 unmarked ones in the archive
//	Repair           as Check, and 4 RT for each batch with something to repair
//	Companions       3 RT more a batch for each collection of them, 2 writes for each one; in Check 4 RT more
//	                 for each 1000 documents that have some
//
// All take 1 RT more to begin if the archive is in another database.
//
// Each batch is a transaction, which the server keeps in its cache, so make Work.BatchSize smaller
// rather than larger. A batch that meets an _id in the archive costs up to 9 RT more.
//
// # Sharding
//
// Shard both collections by _id, hashed or not, so that every write of a batch goes only to the
// shards of its documents. If both are on one shard the commit is a plain one, otherwise two-phase.
// A collection that is sharded by other fields works too, but all its shards are asked for each
// batch, and the server keeps an _id unique only on each shard. Shard companions by their Field.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of patterns together]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/archive#example-New-Together
// [example of Move with a history]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/archive#example-Archive.Move-History
// [example of a union]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/archive#example-New-Union
package archive

// Notes for those who change this package.
//
//   - The transaction first marks what is to be moved, then reads, inserts and deletes what is marked. So other
//     writers wait from its first statement on, and the content that is inserted cannot change before the commit,
//     whatever the isolation of the server. A guard on the whole document in the delete was weighed: it sends every
//     document twice, refuses those of nearly 16 MB, and conflicts with each writer that comes between. It is kept
//     where an `_id` exists on both sides, which is rare.
//   - The mark is stored in the archive: it tells both sides apart in a union, in a document that a function is given,
//     and by its time. Without it the documents would be the same byte by byte, and nothing would tell. Check compares
//     without it.
//   - The insert runs into an `_id` that is taken, instead of looking first: a look in each batch costs a sixth of
//     all. Only such a batch is compared, document by document.
//   - Old is a filter of the user's; BeforeFilter is one for a date or for the time in an ObjectID. A cut as an
//     argument, with the filter beside it, was two ways to say one thing. nil is refused, as it says "all" elsewhere.
//   - Companions are not marked: a helper such as subset compares them with copies in the parent. They are not locked
//     either, as parents are: whoever writes both meets the lock of the parent, and another writer of a companion
//     conflicts, which costs a repetition. So a batch takes three commands for them, and two writes.
//   - A parent with too many companions is refused. To move them in several transactions was weighed: between two of
//     them, a helper that writes to the parent counts, refills or adopts from a part of its items.
//   - The buckets' Archive keeps its own transaction: what arrives there depends on the layout, and its guards are
//     fields that every append changes. Both share the exchange and the creation of the target.
