// Package extref keeps copies of a few fields of one document, the source, in the documents
// that refer to it, the targets: the extended reference pattern.
//
// # When to use it, and when not
//
// Use it where nearly every read needs the same few fields of another document, and these fields
// change seldom. Do not use it for:
//
//   - Fields that change often and are read rarely, because every change writes every copy.
//   - Values that must be right at every moment, such as a balance or a stock level.
//   - Millions of copies, most of them old. Freeze the fields of old documents instead.
//
// # Documents
//
// A customer, and an order that holds a copy of two of the customer's fields. The name follows
// changes, and the shipping address is frozen:
//
//	{_id: 123, name: "Katrina Pope", address: {street: "123 Main St", …}, phone: "…", version: 4}
//	{_id: "A-17", date: …, customer: {_id: 123, name: "Katrina Pope", address: {…}, version: 4}}
//
//	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
//		Collection: orderColl,
//		Path:       "customer",
//		Fields:     []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}},
//	}}, nil)
//
// The type parameters are the type of the source's _id and the type T of the source. T, here Customer,
// is a struct, a map or bson.D. If you call Copy, a struct needs the copied fields and the version. ID
// may be a type of your own, such as type CustomerID string. For a type made from bson.ObjectID see the
// [example of New with typed IDs].
//
// A source has any number of targets. Copies of other forms, with the settings for them:
//
//	{parts: [{id: 7, name: "#4 grommet"}, …]}                 Path: "parts", Array: true, IDField: "id", Unversioned: true
//	{host: "AAAB", hostname: "goofy…", ipaddr: "127.…"}       Path: "", IDField: "host", Unversioned: true
//	{items: [{quantity: 2, product: {_id: 5, name: "…"}}]}    Path: "items", Array: true, IDField: "product._id", …
//	                                                          As: "product.name", VersionField: "product.version"
//	{product_name: "…", product_catalog_number: 1234}         IDField: "product_catalog_number", Options.KeyField: "catalog_number"
//
// # Five calls
//
//	err = customers.EnsureIndexes(ctx)
//	copied, err := customers.Copy("orders.customer", katrina) // no I/O; Fetch and Pin read the source
//	_, err = orderColl.InsertOne(ctx, bson.D{{Key: "date", Value: now}, {Key: "customer", Value: copied}})
//	_, err = customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}})
//	_, err = customers.Delete(ctx, 123) // refused while orders refer to it, see Target.OnDelete
//
// "orders.customer" is the name of the target: the collection's name and the Path, unless you set
// Target.Name. For everything else use the driver: insert sources and targets, read them, and
// change the fields that are not copied.
//
// [As] returns copies as a struct of yours, which can be a field of the document's struct or, with
// Array, an element. The struct has the fields of one copy. A dotted Field.As is a struct inside it.
// With Path "" the copy lies among the document's own fields, so inline it:
//
//	// Target{Collection: orderColl, IDField: "customer_id", VersionField: "customer.version",
//	//	Fields: []Field{{Path: "name", As: "customer.name"}}}
//	type CustomerCopy struct {
//		ID       int `bson:"customer_id"`
//		Customer struct {
//			Name    string `bson:"name"`
//			Version int64  `bson:"version"`
//		} `bson:"customer"`
//	}
//	type Order struct {
//		ID           string `bson:"_id"`
//		CustomerCopy `bson:",inline"` // {_id: "A-17", customer_id: 123, customer: {name: "…", version: 4}}
//	}
//	copies, err := extref.As[CustomerCopy](customers, "orders")
//	copied, err := copies.Fetch(ctx, 123)
//
// # Versions
//
// The source keeps a version, which is raised when, and only when, a field that some target follows changes. A
// copy keeps the version that it was made from, and only a higher version overwrites it. So propagating twice,
// late, or from two processes at once leaves the newest copy and writes it once. A missing version counts as
// 0, so existing sources need none.
//
// If you change a followed field of a source without this package, raise the version yourself, with {$inc:
// {version: 1}}. This alone does not write the copies. A running Watch does; otherwise call [Source.Propagate]
// for each such source, or Repair. For writers that you cannot change, [Source.Watch] and [Source.Repair]
// raise the version afterwards.
//
// Target.Unversioned leaves the version out of the copies. Propagation then compares values. For that,
// it reads every copy of a source, and each batch is a transaction that also writes to the source. The
// followed fields may then have at most 5 MiB together, because a command holds them three times; more
// is ErrInvalid.
//
// # Who propagates
//
//   - By default, Update propagates in the transaction of the change, so no reader sees one without
//     the other. This works well for up to about a thousand copies.
//   - With Options.Outbox, Update adds an entry to that collection, in the same transaction,
//     and workers call [Source.Drain] at intervals. Update does not see whether a target can hold
//     the value, which may get too large or too deep (180 levels) there. Then the entry keeps that error.
//   - With Options.Deferred, Update changes only the source. [Source.Watch] follows the source with
//     a change stream, whoever changes it, and survives elections. Watch may also run with the
//     first two, for changes by programs that do not know the version.
//
// # Concurrency
//
// A copy never goes back to an older state. When Update has returned, its change is in the copies,
// the outbox or the change stream, and is propagated from there at least once, also to documents that
// move between targets meanwhile. A copy that was
// built before a change and inserted after its propagation is behind until the next change or
// Repair. To prevent that, build it with [Source.Pin] in the transaction of the insert. Pin writes to
// the source, so transactions that pin the same source also conflict with each other, and of many at
// a time most run again. Where very many documents copy one source, use Fetch, and run Repair. After an
// error from a call that writes, abort your transaction. To keep a source from changing meanwhile,
// a transaction sets its field __touch and removes it in the same command; a validator must allow
// this field.
//
// # Failures
//
// An update of a source that does not exist returns mongopatterns.ErrNotFound. A Delete that a
// target refuses returns mongopatterns.ErrReferenced. A document whose copy has another shape is
// Failed and named, and the others are propagated. If the answer to an Update is lost, the update
// may have been applied, so repeat only what may be applied twice, such as $set. Delete may be
// repeated, and returns ErrNotFound if the first one had succeeded. Propagate, Drain, Repair and
// Adopt can always be repeated.
//
// # Chains
//
// If B carries a copy of A, and C a copy of that copy, an update of A does not raise the version of
// B. Either run Watch of the Source over B, or make its targets Unversioned and call its Propagate
// for each B in one mongopatterns.Transact with the update of A. The same holds for a source that
// the versioning package saves.
//
// # Targets with a history
//
// If the versioning package keeps revisions of the targets, a copy that follows changes also changes their past.
// Propagation does not make a revision, so the current revision shows the new name for earlier times too, and
// older revisions that are stored as deltas of it are lost. Choose for each field:
//
//   - Frozen. The history shows the copy as it was at that time.
//   - Not Frozen, with the field that holds the copy in versioning.Options.Ignored. The history
//     does not contain the copy. Keep the key beside it, with Path "" and As: {customer_id: 123,
//     customer: {name: "…", version: 4}}.
//   - Frozen, with each propagation as a revision. After an Update of the source, an Edit of
//     versioning sets the copy that Fetch builds in each document. [Source.Filter] finds the
//     documents.
//
// If an Undo, a Restore or a Save changes the key of a copy that the history does not contain, the copy stays as
// it is and then belongs to another source. Versions of different sources cannot be compared, so an Update of the
// new source may pass over the copy until Repair corrects it. So whatever changes the key must also set the copy
// in the same transaction. Pin the new key and $set what Pin returns, as the [example of Undo] in package
// versioning does.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; n is the number of targets with a followed
// field. The comment of each method says more.
//
//	Copy                  none
//	Fetch, Pin            1 RT, 2 RT
//	Update, not copied    1 RT      1 write, where operators show it; else 3 RT
//	Update, $set copied   2+n RT    1 write to the source, 1 for each document with a copy
//	Update, other ways    4+n RT    2 writes to the source
//	  with an outbox      n is 1, and 1 write for it
//	Propagate             1+n RT    nothing to write: reads no copy, or all if Unversioned
//	                      +1+n RT   two or more targets; 1 more if Unversioned
//	                      +1 RT     a batch of documents; 3 more if Unversioned
//	Drain, Watch          2 RT      an entry, 1 a batch of events; a Propagate for each source,
//	                                with Watch and 1 for each target with versions, and a commit
//	Delete                2 RT      and 1 for each target but Keep
//	Check, Repair         scan the targets, or the copies of the sources selected
//	Adopt                 6 RT      a batch
//
// # Adoption
//
// [Source.Adopt] completes references that have only a key so far, and gives their sources a version. It
// overwrites the values of copies that were kept by hand, which Check names before as [NoVersion], except
// those that their source lacks. {customer_id: 123} needs no change, because it is a target with Path "". To
// turn plain IDs into {customer: {_id: 123}} or [{id: 7}], run an update of your own first, as the [example
// of Adopt] does. To follow another field, configure it and run Repair.
//
// During and after Adopt, old code may change, replace, delete and insert sources, with a version
// or without, as long as Watch runs or Repair is run afterwards. Old code may also insert, replace
// and delete documents of the targets. Check reports references without a version until the next
// Adopt completes them. If old code writes to the followed fields of a copy, the source's values
// overwrite that.
//
// # Sharding
//
// Shard the source by its key ([Source.ShardKey]), so that every write to it is targeted. Targets
// keep the shard keys they have. Propagation goes to all shards with copies. Leave the outbox
// unsharded. Watch has not been tested on a sharded cluster.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of New with typed IDs]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/relation#example-New-TypedID
// [example of Undo]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Undo
// [example of Adopt]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/extref#example-Source.Adopt
package extref

// Notes for those who change this package.
//
//   - The version rises only with a followed field, and a copy is written only by a higher one: propagation is
//     idempotent, needs neither order nor a transaction, and can be cut off anywhere. But a document that moves between
//     two targets can be in neither when it is read. So the end, and the look of Watch for copies that are not behind,
//     read all targets in one transaction. A snapshot session needs no commit, but shows what a majority has, which can
//     be older than the passes.
//   - Without a version in the copies, values are compared by equalities in the filter, and each batch is a
//     transaction that first writes to the source, which is more expensive.
//   - The outbox has one entry a source, not one a change, and an entry is removed only with the mark that the worker
//     read. Failing entries back off and stop nobody. Its times are `$$NOW`, as those of all leases are: a process
//     whose own clock was ahead took the entries of others and held back its own. `$$NOW` in `$expr` has bounds in the
//     index for find, findAndModify and aggregate. Null and numbers sort below a date, so the filter also asks for
//     one.
//   - An entry has no owner: if work takes longer than the lease, the worker that finishes first removes it. With
//     owners two such workers would take it from each other for ever. So `lease` shares the times alone; to take,
//     prolong and give back is one command in each package, on fields of its own, and a common form of it was longer.
//   - Watch asks for copies that are not behind and differ, one range of the target's index that is empty after a
//     change that raised the version. Where there are some the source's version goes above theirs, by `$max` and so
//     once, however many watch. Telling old code's changes by the event was weighed: a version that is set back, or
//     was read an hour ago, shows in it as any other.
//   - With a Scope the _id of an entry holds it, because two tenants may have one natural key. An event of an update has
//     only the source's _id, so the stream of a tenant looks the source up. Deletions, of which nothing is left to look
//     up, do not matter to Watch.
//   - On several shards a plain read meets the parts of a committing transaction one by one: what propagates or checks
//     runs in a causally consistent session.
//   - Delete deletes first and looks for copies afterwards: an error aborts it.
