// Package extref keeps copies of a few fields of one document, the source, in the
// documents that refer to it: the extended reference pattern.
//
// # Documents
//
// A customer, and an order that carries the name, which follows changes, and the
// address shipped to, which does not:
//
//	{_id: 123, name: "Katrina Pope", address: {street: "123 Main St", …}, phone: "…", version: 4}
//	{_id: "A-17", date: …, customer: {_id: 123, name: "Katrina Pope", address: {…}, version: 4}}
//
//	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
//		Collection: orderColl,
//		Path:       "customer",
//		Fields:     []extref.Field{{Path: "name"}, {Path: "address", Policy: extref.Freeze}},
//	}}, nil)
//
// A source has any number of targets. Other shapes, with what makes them:
//
//	{parts: [{id: 7, name: "#4 grommet"}, …]}                 Path: "parts", Array: true, IDField: "id", Unversioned: true
//	{host: "AAAB", hostname: "goofy…", ipaddr: "127.…"}       Path: "", IDField: "host", Unversioned: true
//	{items: [{quantity: 2, product: {_id: 5, name: "…"}}]}    Path: "items", Array: true, IDField: "product._id", …
//	{product_name: "…", product_catalog_number: 1234}         IDField: "product_catalog_number", Options.KeyField: "catalog_number"
//
// # Five calls
//
//	err = customers.EnsureIndexes(ctx)
//	copied, err := customers.Reference("orders.customer", katrina) // no I/O; Fetch reads, Pin holds it
//	_, err = orderColl.InsertOne(ctx, bson.D{{Key: "date", Value: now}, {Key: "customer", Value: copied}})
//	_, err = customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}})
//	_, err = customers.Delete(ctx, 123)
//
// [For] makes copies of a type of your own. Everything else of source and targets
// stays yours: read, insert and update them with the driver.
//
// # Versions
//
// The source keeps a version, which rises when, and only when, a field that some
// target follows changes. A copy keeps the version it was made from, and is
// written only by a higher one: propagating twice, late, or from two processes at
// once leaves the newest copy and writes it once. No version counts as 0, so
// existing sources need none. Your own update of a source must raise it when it
// changes a followed field, {$inc: {version: 1}}; where writers cannot be made to do so,
// [Ref.Watch] and [Ref.Repair] raise it for them.
//
// Target.Unversioned leaves the version out of the copies. Then propagation compares values: it reads every copy of a
// source, and needs a transaction a batch that writes to the source too.
//
// # Who propagates
//
//   - By default Update does, in the transaction of the change: no reader sees the
//     one without the other. Good for up to a thousand copies or so.
//   - With Options.Outbox it notes the change in that collection, in the same
//     transaction, and workers call [Ref.Drain] every so often.
//   - With Options.Deferred it changes the source only. [Ref.Watch] follows the
//     source by a change stream, whoever changes it, also through elections. It serves
//     as well beside the other two, for changes by programs that know of no version.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong, T the number of targets with a followed
// field; each method says more.
//
//	Reference             none
//	Fetch, Pin            1 RT, 2 RT
//	Update, not copied    1 RT      1 write, where operators show it; else 3 RT
//	Update, $set copied   2+T RT    1 write to the source, 1 for each document with a copy
//	Update, other ways    4+T RT    2 writes to the source
//	  with an outbox      T is 1, and 1 write for it
//	Propagate             1+T RT    nothing to write: reads no copy, or all if Unversioned
//	                      +1 RT     a batch of documents; 3 more if Unversioned
//	Drain, Watch          2 RT      an entry, 1 a batch of events; a Propagate for each source,
//	                                with Watch and 1 for each target with versions
//	Delete                2 RT      and 1 for each target but Keep
//	Check, Repair         scan the targets, or the copies of the sources selected
//	Adopt                 6 RT      a batch
//
// # When not to use it
//
//   - Fields that change often and are read rarely: every change writes every copy.
//   - A value that must be right to the moment, a balance or a stock level.
//   - Millions of copies, most of them old: freeze what old documents should say.
//
// # Concurrency
//
// A copy never goes back to an older state. What Update has returned is in the
// copies, the outbox or the change stream, and is propagated from there at least
// once. A reference built before a change and inserted after its propagation is
// behind until the next change or Repair. Where that is not enough, take it from
// [Ref.Pin] in the transaction of the insert. Transactions need a replica set. After
// an error from a call that writes, abort your transaction.
//
// # Chains
//
// If B carries a copy of A, and C a copy of that copy, an update of A does not raise
// the version of B. Either have the Ref over B Watch it, or make its targets Unversioned
// and call its Propagate for each B in one mongopatterns.Transact with the update of A.
// The same goes for a source that the versioning package saves.
//
// # Targets with a history
//
// Where the versioning package keeps revisions of the targets, a copy that follows changes
// its past: propagation makes no revision, so the current one says the new name also for
// the time before, and older ones that are deltas of it are lost. Choose for each field:
//
//   - Freeze: the history says what the copy said then.
//   - Follow, with the field that holds the copy in versioning.Options.Ignored: the history
//     does not have it. Keep the key beside it, by Path "" and As: {customer_id: 123,
//     customer: {name: "…", version: 4}}.
//   - Freeze, and after an Update of the source one versioning Update of each document with
//     the copy that Fetch builds: a revision by propagation. [Ref.Filter] finds them.
//
// # Adoption
//
// [Ref.Adopt] fills in references that have only a key so far, and gives their sources a
// version. {customer_id: 123} is
// a target with Path "" as it is; to make {customer: {_id: 123}} or [{id: 7}] of plain
// IDs run one update of your own first, as the example of Adopt does. To follow a
// further field, configure it and run Repair.
//
// Beside Adopt and after it, old code may do to sources what it likes, while Watch runs
// or once Repair has: change, replace, delete and insert them again, with a version or
// without. In the targets it may insert, replace and delete documents; references without
// a version are what the next Adopt fills in, and Check names until then. The source
// decides: what old code writes into a copy's followed fields is overwritten.
//
// # Sharding
//
// Shard the source by its key ([Ref.ShardKey]): every write to it names that. Targets
// keep the shard keys they have; propagation goes to all shards that hold copies.
// Leave the outbox unsharded.
package extref
