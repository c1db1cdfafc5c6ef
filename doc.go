// Package mongopatterns has the words that the packages of this library share:
// errors, the [Problem] that a check finds, the [Work] and [Result] of calls that go
// over many documents, [OutcomeOf], which says what became of a call that failed, and
// [Transact], which runs several calls as one.
//
// Each schema pattern is a package:
//
//   - [github.com/mongopatterns/mongopatterns/tree]: hierarchies in five
//     representations
//   - [github.com/mongopatterns/mongopatterns/paging]: keyset and numbered pages
//   - [github.com/mongopatterns/mongopatterns/bucket]: time series in buckets
//   - [github.com/mongopatterns/mongopatterns/slots]: one measurement for each minute, say
//   - [github.com/mongopatterns/mongopatterns/series]: time series as packed blocks
//   - [github.com/mongopatterns/mongopatterns/timeseries]: the words that these three share
//   - [github.com/mongopatterns/mongopatterns/attribute]: many similar fields
//     as key and value under one index
//   - [github.com/mongopatterns/mongopatterns/outlier]: lists that overflow into
//     further documents
//   - [github.com/mongopatterns/mongopatterns/subset]: the best N of a
//     one-to-many kept in the parent
//   - [github.com/mongopatterns/mongopatterns/split]: hot and cold fields in two
//     collections
//   - [github.com/mongopatterns/mongopatterns/extref]: copied fields of
//     referenced documents, kept right
//   - [github.com/mongopatterns/mongopatterns/versioning]: documents with their
//     revisions
//   - [github.com/mongopatterns/mongopatterns/schemaversion]: steps between the
//     versions of a schema
//   - [github.com/mongopatterns/mongopatterns/polymorphic]: several Go types in one
//     collection
//   - [github.com/mongopatterns/mongopatterns/relation]: references on one side, on
//     both, or in a collection between
//   - [github.com/mongopatterns/mongopatterns/computed]: values derived from many
//     documents
//   - [github.com/mongopatterns/mongopatterns/approx]: counters written seldom, and
//     distinct counts
//   - [github.com/mongopatterns/mongopatterns/prealloc]: seats and calendars
//   - [github.com/mongopatterns/mongopatterns/mongotest]: a real server for
//     integration tests, the commands that code sends, and their plans
//
// # What they have in common
//
// A helper is made by New from a *mongo.Collection and is used beside the driver, not
// in place of it. New does no I/O; what it refuses is [ErrInvalid] and names the
// option. A helper is safe for concurrent use.
//
//	Indexes() map[string][]mongo.IndexModel      // by collection name
//	EnsureIndexes(ctx) error                     // creates what is missing, drops nothing
//	ShardKey() map[string]bson.D                 // recommended, by collection name
//	Check(ctx, *Work) iter.Seq2[Problem, error]  // what is inconsistent
//	Repair(ctx, *Work) (Result, error)           // safe beside live writes
//	Adopt(ctx, …, *Work) (Result, error)         // from the plain schema, resumable
//
// A collection that a helper writes must not have a default collation, by which filters, $expr
// and the index on _id would take "Ann" for "ann" and a correction would be overwritten:
// EnsureIndexes, Check, Repair, Adopt and the like ask for it by one listCollections, which
// needs the right to that, and return ErrInvalid. Other calls do not ask. paging and
// polymorphic, which write nothing, take any collection.
//
// Every read is also a filter or a pipeline. Every call joins the transaction in its
// context. After an error from a call that writes, abort your transaction.
package mongopatterns
