// Package mongopatterns has the types, errors and functions that the packages of this library share: the
// general errors, the [Problem] that a check finds, the [Work] and [Result] of calls that go over many
// documents, [OutcomeOf], which tells whether a call that failed has written, [Transact], which runs
// several calls in one transaction, and [Shard], which shards the collections of helpers.
//
// Each schema pattern is a package of its own: a typed helper over your collections, beside the official
// driver and not instead of it. docs/choosing.md leads from a symptom to a pattern. In the manual of each, the
// sections on when to use it, its documents and its calls are enough to begin; the others are for reference.
// The examples that a manual names are links, as go doc prints none.
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
// New makes a helper from a *mongo.Collection. It does no I/O; if it refuses an option, it returns
// [ErrInvalid] and names the option. A helper is safe for concurrent use: make one when the program
// starts. Its type parameters are those of IDs first, then those of documents or values. Most helpers have
// these methods:
//
//	Indexes() map[string][]mongo.IndexModel      // by collection name
//	EnsureIndexes(ctx) error                     // creates what is missing, drops nothing
//	ShardKey() map[string]bson.D                 // recommended, by collection name: Shard applies it
//	Check(ctx, *Work) iter.Seq2[Problem, error]  // what is inconsistent
//	Repair(ctx, *Work) (Result, error)           // safe beside live writes
//	Adopt(ctx, …, *Work) (Result, error)         // from the plain schema, resumable
//
// Adopt works in the collection itself, in bucket and series from another one, which it does not change.
//
// A call with an empty list or sequence does nothing and returns nil, except where a caller cannot mean it: calls of
// prealloc without cells, and Change of computed without sources, return ErrInvalid.
//
// Call EnsureIndexes before the first write: some guarantees are unique indexes. Most reads are also
// available as a filter or a pipeline, for stages of your own; not those that decode in Go what is stored,
// such as packed series and the deltas of a history.
//
// If your client has a registry or BSON options, set them in the Registry and BSON of each Options as well:
// a collection does not tell them, and a helper without them encodes IDs and documents in another way than
// your own writes.
//
// An ID may be of a type of your own, or any if the IDs of a collection have several types. One made from a
// string or a number needs nothing more. One made from bson.ObjectID needs the methods in the manual of package
// relation: without them the driver stores it as binary data. An argument of type any, such as the _id of an
// item, must have the type of the stored _id: a string of hex digits does not match an ObjectID.
//
// # Transactions and failures
//
// The packages need MongoDB 6.0 or later. A call that must change several documents together does it in a
// transaction, which needs a replica set or a sharded cluster: on a standalone server it returns
// [ErrTransactionsUnsupported]. Every call joins the transaction in its context, such as that of [Transact].
// After an error from a call that writes, abort your transaction. If you begin a transaction by the driver,
// give it read concern snapshot, which Transact does: with another one, calls on a sharded cluster can miss
// documents that move to another shard.
//
// Give the context of each request a deadline, which bounds a transaction of the library with all its commands.
// Without one it has 120 s, and the Timeout of the client bounds each of its commands, but not the whole.
//
// Outside a transaction most reads have the read preference of the collection that you give;
// reads that a write, Check, Repair or Adopt depends on go to the primary, and so do all reads of package
// outlier.
//
// A call that returns an error may have written, for example if its answer was lost: ask [OutcomeOf].
// docs/failures.md says which calls can then be repeated.
//
// # Costs
//
// The comment of each method with I/O has a line Cost, which a test proves. A round trip (RT) is a command
// to the server, also a commit or the next batch of a cursor. Keys and documents are those of an index and
// of a collection that the server reads. A batch is what Work bounds or, of a read, one reply of the
// cursor.
//
// # Comments
//
// The commands of a call carry its package and name as their comment, such as "mongopatterns subset.Insert", so that the
// profiler, the log, currentOp and Atlas show which call sent them. The calls of Distinct and Sampled of approx and of
// Gatherer of series have the type as well: "mongopatterns approx.Sampled.Add". Functions of this package are
// "mongopatterns Transact" and "mongopatterns Shard". A call inside another, as in the function of computed's Change, names
// its own commands. [WithComment] gives another comment or none, and a comment in the options of a find comes before both.
//
// Some commands have no comment, because the driver takes none for them or because they end a transaction, a cursor or a
// session: createIndexes, listIndexes, listCollections, hello, commitTransaction, abortTransaction, killCursors,
// killSessions and endSessions. Commands that your own code sends in a callback have only yours.
//
// # Collations
//
// A collection that a helper writes must not have a default collation: the server would take "Ann" and
// "ann" for equal, as IDs and in the conditions of writes, and one could overwrite the other.
// EnsureIndexes, Check, Repair, Adopt and similar calls look for a default collation with one
// listCollections, which needs the privilege to run that command, and return ErrInvalid if they find one.
// Other calls do not look: call EnsureIndexes when the program starts. paging and polymorphic write nothing and
// accept any collection.
package mongopatterns
