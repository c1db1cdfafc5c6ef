// Package mongopatterns has the types, errors and functions that the packages of this library share: the
// general errors, the [Problem] that a check finds, the [Work] and [Result] of calls that go over many
// documents, [OutcomeOf], which tells whether a call that failed has written, [Transact], which runs
// several calls in one transaction, and [Shard], which shards the collections of helpers.
//
// Each schema pattern is a package of its own: a typed helper over your collections, beside the official
// driver and not instead of it. docs/choosing.md leads from a symptom to a pattern. To begin, read three
// sections of its manual: when to use it, its documents and its calls. The others are for reference.
// docs/questions.md answers what a team asks before it adopts the library.
//
//   - [github.com/mongopatterns/mongopatterns/tree]: hierarchies in five representations
//   - [github.com/mongopatterns/mongopatterns/paging]: keyset and numbered pages
//   - [github.com/mongopatterns/mongopatterns/bucket]: time series in buckets
//   - [github.com/mongopatterns/mongopatterns/slots]: time series with one measurement for each slot
//     of time, such as a minute
//   - [github.com/mongopatterns/mongopatterns/series]: time series as packed blocks
//   - [github.com/mongopatterns/mongopatterns/timeseries]: the types that these three share
//   - [github.com/mongopatterns/mongopatterns/attribute]: many similar fields as key and value under
//     one index
//   - [github.com/mongopatterns/mongopatterns/outlier]: lists that overflow into further documents
//   - [github.com/mongopatterns/mongopatterns/subset]: the best N of a one-to-many kept in the parent
//   - [github.com/mongopatterns/mongopatterns/split]: hot and cold fields in two collections
//   - [github.com/mongopatterns/mongopatterns/extref]: copied fields of referenced documents, kept up
//     to date
//   - [github.com/mongopatterns/mongopatterns/archive]: old documents moved to another collection or
//     database
//   - [github.com/mongopatterns/mongopatterns/versioning]: documents with their revisions
//   - [github.com/mongopatterns/mongopatterns/schemaversion]: steps between the versions of a schema
//   - [github.com/mongopatterns/mongopatterns/polymorphic]: several Go types in one collection
//   - [github.com/mongopatterns/mongopatterns/relation]: references on one side, on both, or in a
//     collection between
//   - [github.com/mongopatterns/mongopatterns/computed]: values derived from many documents
//   - [github.com/mongopatterns/mongopatterns/approx]: counters written seldom, and distinct counts
//   - [github.com/mongopatterns/mongopatterns/prealloc]: seats and calendars
//   - [github.com/mongopatterns/mongopatterns/advise]: which of them would help a database that exists
//   - [github.com/mongopatterns/mongopatterns/mongotest]: a real server for integration tests, the
//     commands that code sends, and their plans
//
// # What they have in common
//
// New makes a helper from a *mongo.Collection, or of polymorphic from your types. It does no I/O. If it refuses an option, it returns
// [ErrInvalid] and names the option. A helper is safe for concurrent use, so make one when the program
// starts. Its type parameters are first the types of IDs, then those of documents or values. Most helpers
// have these methods:
//
//	Indexes() map[string][]mongo.IndexModel      // by collection name
//	EnsureIndexes(ctx) error                     // creates what is missing, drops nothing
//	ShardKey() map[string]bson.D                 // recommended, by collection name: Shard applies it
//	Check(ctx, *Work) iter.Seq2[Problem, error]  // what is inconsistent
//	Repair(ctx, *Work) (Result, error)           // safe during live writes
//	Adopt(ctx, …, *Work) (Result, error)         // from the plain schema, resumable
//
// Adopt converts documents in place. In bucket and series it reads another collection, which it does not change.
//
// A call with an empty list or sequence does nothing and returns nil. Exceptions are calls of prealloc without cells,
// Change of computed without sources and FindOrInsert of tree without names, which are surely mistakes and return
// ErrInvalid.
//
// Call EnsureIndexes before the first write, because some guarantees rest on unique indexes. Most reads
// are also available as a filter or a pipeline, to which you can add stages of your own. Reads that
// decode stored data in Go, such as packed series and the deltas of a history, are not.
//
// If your client has a registry of its own, set it in the Registry of each Options that has one as well. A helper cannot
// read it from a collection, and without it would encode IDs and documents differently from your own
// writes. The client's BSON options apply unless you set BSON.
//
// An ID may be of a type of your own, or any if the IDs of a collection have several types. A type made from a
// string or a number needs nothing more. A type made from bson.ObjectID needs the methods that the manual of
// package relation shows, because without them the driver stores it as binary data. An argument of type any,
// such as the _id of an item, must have the type of the stored _id, so a string of hex digits does not match
// an ObjectID.
//
// # Words
//
//   - A pattern is a way to store data. Its package has a helper, which is what New returns, and a manual, which is the
//     package's documentation.
//   - Old code is a program that writes the same data without this library. Adopt takes over what old code stored; until
//     then a document is not adopted.
//   - A parent has children, items, elements or copies. In tree it is the node above. In extref and computed, targets
//     are the documents that hold copies of a source, or values that are computed from sources.
//   - A conflict is a write that another writer prevented. An outcome says whether a call that failed has written.
//   - A guard is a condition in the filter of a write, so that the write changes nothing if the document has changed.
//   - A lease is the right of one worker to a document. It ends by itself, so that another worker can go on after a crash.
//   - An outbox is a collection with an entry for each source whose change is still to be propagated.
//   - A ledger is a collection in which Adopt of bucket and series notes what it has copied.
//   - A series is what one source measures, a window is a period of a series, and a bucket is a document with the
//     measurements of a window.
//   - "Left alone" means not changed.
//
// # Transactions and failures
//
// The packages need MongoDB 6.0 or later. A call that must change several documents together uses a transaction, which needs
// a replica set or a sharded cluster. On a standalone server such a call returns [ErrTransactionsUnsupported]. A call joins
// the transaction in its context, such as that of [Transact]. Exceptions: Add, Flush and Close of approx write outside it,
// and on shards before MongoDB 8.0 the server refuses the calls that docs/shards.csv marks with no. After an error from a
// call that writes, abort your transaction. If you begin a transaction with the driver, give it read concern snapshot, as
// Transact does. With another read concern, calls on a sharded cluster can miss documents that move to another shard.
//
// Give the context of each request a deadline, because it bounds a transaction as a whole. Without a deadline a
// transaction has 120 s, and the client's Timeout bounds only its single commands.
//
// Outside a transaction most reads use the read preference of the collection that you pass. Reads that a
// write, Check, Repair or Adopt depends on go to the primary, and so do all reads of package outlier.
//
// A call that returns an error may still have written, for example if the server's answer was lost.
// [OutcomeOf] tells, and docs/failures.md says which calls can then be repeated.
//
// # Costs
//
// The comment of each method with I/O has a line Cost, which a test proves. A round trip (RT) is one
// command to the server; a commit and the next batch of a cursor count as well. "Keys" are index entries
// and "documents" are documents that the server reads. A batch is what Work bounds, or, for a read, one
// reply of the cursor.
//
// # Comments
//
// The commands of a call carry its package and name as their comment, such as "mongopatterns subset.Insert", so that the
// profiler, the log, currentOp and Atlas show which call sent them. The calls of Distinct and Sampled of approx and of
// Gatherer of series have the type as well: "mongopatterns approx.Sampled.Add". Functions of this package are
// "mongopatterns Transact" and "mongopatterns Shard". A call inside another, as in the function that you give to
// computed's Change, names its own commands. [WithComment] sets another comment or none. A comment in the options of a
// find wins over both.
//
// These commands have no comment, because the driver takes none for them or because they end a transaction, a cursor or
// a session: createIndexes, listIndexes, listCollections, hello, commitTransaction, abortTransaction, killCursors,
// killSessions and endSessions. Commands that your own code sends in a callback have only yours.
//
// # Tenants
//
// Most packages have Options.Scope, such as {tenant: "acme"}. A helper with it sees and writes only documents with these
// fields. Make one for each tenant.
//   - Every document needs the fields, in all collections of the pattern, before the first call with a Scope. A
//     document without them belongs to no tenant, and one with an array in them to several. An update pipeline of yours
//     can make it one of several: only an array without the tenant is set back.
//   - All programs that write the collections give the same fields. A helper without a Scope is not one for all tenants,
//     because it stores documents without the fields.
//   - Where your own code stores the documents, as with attribute, computed and extref, it stores the fields. A reference
//     to a document of another tenant is one to a document that does not exist.
//   - The server keeps each _id unique for all tenants together. One that another tenant has is ErrExists, or Failed, so
//     choose ObjectIDs, or put the tenant into the _id.
//   - Check, Repair and Adopt of one tenant read all documents that no index excludes. Where many tenants share a large
//     collection, create one on the fields and _id.
//   - Your own pipelines, such as a $lookup, and your change streams are not restricted.
//
// Some packages have no Scope:
//   - In bucket, series and slots each call names a series or takes Work.Filter. Make the tenant a part of the series,
//     such as {tenant: "acme", sensor: 7}, and filter by {"series.tenant": "acme"}.
//   - In approx each call names a key or takes a filter, so make the tenant a part of the key in the same way.
//   - polymorphic only reads, by your filter, and timeseries has no I/O.
//
// # Collations
//
// A collection that a helper writes must not have a default collation. With one, the server can treat "Ann" and
// "ann" as equal, in IDs and in the conditions of writes, so that one could overwrite the other. EnsureIndexes,
// Check, Repair, Adopt and similar calls look for a default collation with one listCollections, which needs the
// privilege to run that command, and return ErrInvalid if they find one. Other calls do not look, but for Insert of prealloc,
// so call EnsureIndexes when the program starts. paging and polymorphic write nothing and accept any collection.
package mongopatterns
