// Package extref keeps copies of a few fields of one document, the source, in
// the documents that refer to it: the extended reference pattern.
//
// # The problem
//
// An order refers to its customer. Every list of orders shows the customer's
// name, so every list joins. Copying the name into the order saves the join, and
// raises the questions this package answers: which copies follow a change of the
// name and which keep what was true (the address shipped to), how a change
// reaches ten thousand orders once and in order, what becomes of them when the
// customer is deleted, and which copies are wrong today.
//
// # Copies
//
// A customer, an order with a reference to it, and a route with two references
// to airports, also as an array of references:
//
//	{_id: 123, name: "Katrina Pope", address: {street: "123 Main St", city: "Somewhere"}, phone: "…", version: 4}
//
//	{_id: "A-17", date: …, customer: {_id: 123, name: "Katrina Pope", address: {street: "123 Main St", …}, version: 4}}
//
//	{_id: 1, origin: {iata: "ATL", name: "…", city: "Atlanta", version: 1}, destination: {iata: "SEA", …}, flights: 2371}
//
//	{_id: 5, catalog_number: 1234, parts: [{id: 7, name: "#4 grommet"}, {id: 9, name: "…"}]}
//
// These names come from these configurations:
//
//	customers, err := extref.New[int, Customer](customerColl, []extref.Target{{
//		Collection: orderColl,
//		Path:       "customer",
//		Fields:     []extref.Field{{Path: "name"}, {Path: "address", Policy: extref.Freeze}},
//	}}, nil)
//
//	fields := []extref.Field{{Path: "name"}, {Path: "city"}}
//	airports, err := extref.New[string, Airport](airportColl, []extref.Target{
//		{Collection: routeColl, Path: "origin", IDField: "iata", Fields: fields},
//		{Collection: routeColl, Path: "destination", IDField: "iata", Fields: fields},
//	}, nil)
//
//	parts, err := extref.New[int, Part](partColl, []extref.Target{{
//		Collection: productColl, Path: "parts", Array: true, IDField: "id", Unversioned: true,
//		Fields: []extref.Field{{Path: "name"}},
//	}}, nil)
//
// With Path "" the copy lies among the document's own fields, as in {customer_id:
// 123, customer_name: "Katrina Pope", shipping_address: {…}}. All names may be
// dotted, each from the start of the copy. The items of an order, of which each has a
// quantity of its own, {quantity: 2, product: {_id: 5, name: "…", version: 1}}, are
//
//	{
//		Collection: orderColl, Path: "items", Array: true,
//		IDField: "product._id", VersionField: "product.version",
//		Fields: []extref.Field{{Path: "name", As: "product.name"}},
//	}
//
// A source has any number of targets, also in its own collection. A target's name, by which calls and
// problems name it, is that of its collection and its path: "orders.customer".
//
// Five calls are enough for most:
//
//	err = customers.EnsureIndexes(ctx)
//	copied, err := customers.Reference("orders.customer", katrina) // no I/O; or Fetch by ID
//	_, err = orderColl.InsertOne(ctx, bson.D{{Key: "date", Value: now}, {Key: "customer", Value: copied}})
//	_, err = customers.Update(ctx, 123, bson.D{{Key: "$set", Value: bson.D{{Key: "name", Value: "Katrina Pop"}}}})
//	_, err = customers.Delete(ctx, 123)
//
// Everything else of source and targets stays your own: read, insert and update
// them with the driver.
//
// # Versions
//
// The source keeps a version, which rises when, and only when, a field that some
// target follows changes: a change of the phone number writes the customer and
// nothing else. A copy keeps the version that it was made from, and is written
// only by a higher one: propagating twice, late, or from two processes at once,
// leaves the newest copy and writes it once. Versions are whole numbers from 0 to
// math.MaxInt64-1, int64 where this package writes them. No version counts as 0, so
// existing sources need none to begin with. Update and Replace never set it back: a
// lower one that they bring is not kept.
//
// One version covers all followed fields of a source: a change of one of them
// stamps every copy that has a version. Frozen fields are never touched.
//
// Target.Unversioned leaves the version out of the copies where the schema has
// no place for it, and if no target has versions the source gets none either.
// Then propagation compares values, in transactions that write to the source
// too (a field __touch, set and taken off again), which makes two propagations
// of one source wait for each other. It reads every copy of a source each time
// to find those that differ, does not say by how much a copy is behind, and needs
// a transaction for each batch.
//
// # Propagation
//
// Who brings a change to the copies is chosen in [Options]:
//
//   - By default Update and Replace do it, in the transaction of the change: no
//     reader sees the one without the other. Good for up to a thousand copies or
//     so.
//   - With Options.Outbox they write an entry into that collection, in the
//     transaction of the change, and a worker calls [Ref.Drain] every so often.
//     Any number of workers may; an entry is removed only when the newest state
//     has been propagated.
//   - With Options.Deferred they change the source only. [Ref.Watch] follows
//     the source by a change stream, so it serves whoever changes it in whatever
//     way. Or call [Ref.Propagate].
//
// When the source is [ErrInvalid] (its version no number, say), or the server
// refuses to write a copy (a unique index, a validator), the first way refuses the
// change. Drain goes on with other sources and tries again later. Watch ends and
// begins with that source next time, unless WatchOptions.Failed has it go on.
//
// Your own update of a source must raise the version when it changes a followed
// field, {$inc: {version: 1}}, and should not otherwise, as each rise writes all
// copies once. Where writers cannot be made to, PropagateOptions.Compare and
// WatchOptions.Compare find what they changed and raise it for them.
//
// # New references and changes at the same time
//
// A reference built from a customer that was read before a change, and inserted
// after the change was propagated, is behind. Its version says so: [Ref.Stale]
// and Check find it, the next change or Repair mends it. Where that is not
// enough, insert in a transaction and take the reference from [Ref.Pin]: it
// writes to the source, so that a change or a deletion at the same time
// conflicts, one of the two runs again, and no stale reference is committed.
// The price is that inserts which pin one source wait for each other.
//
// # Deleting a source
//
// [Ref.Delete] deletes a source by the policy of each target, in one
// transaction: [Refuse] (the default) while a copy is left, [Keep] the last
// copy, [Unset] the reference (or pull it from the array), [Cascade] to the
// documents, but not further to what refers to these. It is meant for as many
// copies as a transaction can write in its time (a minute, unless the server is
// told otherwise), some thousands. Where there are more, unset or delete most of
// them first in batches of your own, by [Ref.Filter].
//
// # Indexes
//
// For each target, on its collection:
//
//	{"customer._id": 1, "customer.version": 1}   copies of a source, and those that are behind
//	{"parts.id": 1}                              with Unversioned
//	{due: 1}                                     on the outbox
//
// # Costs
//
// Round trips (RT) when nothing goes wrong, T the number of targets with a
// followed field; each method says more.
//
//	Reference          none
//	Fetch              1 RT
//	Pin                2 RT      2 writes to the source
//	Update, Replace    3 RT      no followed field changed: 1 document written
//	                   4+T RT    else; 2 writes to the source, 1 for each document with a copy
//	  with an outbox   5 RT      3 documents written
//	Propagate          1+T RT    nothing to write: reads no copy, or all if Unversioned
//	                   and       1 RT a target and batch, 1 to read on; 1 write for each document
//	  unversioned      and       3 RT more for each batch, 2 writes to the source
//	Delete             2 RT      and 1 for each target but Keep; 1 more if some refuse
//	Drain              2 RT      an entry, and a Propagate; 1 at the end
//	Watch              1 RT      a batch of events, a Propagate for each source, 1 write of the token
//	Stale              1 RT      a batch of the cursor; scans the target
//	Check, Repair      scan the targets
//	Adopt              7 RT      a batch, 1 write for each document, 2 for each source
//
// # Guarantees
//
// A copy never goes back to an older state by anything in this package. What
// Update has returned is in the copies (by default), or in the outbox, or in the
// change stream, and from these it is propagated at least once. The version and
// the values of a copy are written together. Arrays are updated by array
// filters that name the element by its ID and version: no position is ever
// computed and used later.
//
// Update, Replace, Pin, Delete and Adopt, and Propagate to targets without a
// version, need transactions and say [ErrTransactionsUnsupported] on a
// standalone server. Watch needs change streams.
//
// All join the session of their context, and a transaction it is in. [ErrNotFound],
// [ErrNoTarget], [ErrReferenced] and [ErrInvalid] leave such a transaction as it was,
// with nothing written, so that it can go on and commit. There is one exception: an
// update that itself makes the source invalid, {$set: {version: "abc"}}, is written
// when that shows; abort the transaction, as after any other error of a write, which
// the server mostly has aborted already. Outside of such a transaction every error
// leaves all as it was. What Propagate, Drain, Repair and Adopt have done in batches
// before an error is done, here and there.
//
// # Sharding
//
// The source is sharded by _id ([Ref.ShardKey]): every write to it names that.
// Leave the outbox unsharded. Targets keep the shard key they have. They are written by updateMany on the
// indexes above, which goes to all shards that hold copies. Propagate, Drain, Watch,
// Check and Repair read in a causally consistent session, unless their context has
// one: on several shards that, too, should be causally consistent.
//
// # Maintenance
//
// [Ref.Check] compares all copies with their sources: behind, different although
// of the same version, newer than the source, without a version, of a source that
// cannot be copied from, dangling, and malformed: what lies there is no copy at all,
// an array where Array is not set, no array where it is, or an ID by itself. That is
// never removed by Unset or Cascade, nor filled in.
// [Ref.Repair] propagates what differs, under live writes; dangling references and
// bad sources, which stop neither it nor Adopt, are left to you. [Ref.Adopt] fills in
// references that have only an ID so far, with followed and frozen fields and the
// version. All go in batches by _id and can be stopped and run again.
//
// Adopt wants the ID where the target says. {customer_id: 123} is a target with
// Path "" as it is; to make {customer: {_id: 123}} or [{id: 7}, {id: 9}] of plain
// IDs run one update of your own first, as the example of Adopt does. To follow
// a further field, configure it and run Repair.
//
// # Composing
//
// [Ref.Filter] selects the documents that refer to a source, [Ref.BehindFilter]
// those whose copy is older than a state of it, both for your own Find, UpdateMany
// and for paging. [Ref.StalePipeline] is what Stale runs, for stages of your own
// to follow.
//
// A source can have a history by package versioning. Put the version into its
// Options.Ignored and leave it out of the type that it saves, so that no save sets
// it back; take references from Fetch or Pin. Save and Restore raise no version, so
// propagate with Compare, in the same transaction:
//
//	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
//		if _, err := history.Save(ctx, revision, by); err != nil {
//			return nil, err
//		}
//		return customers.Propagate(ctx, 123, &extref.PropagateOptions{Compare: true})
//	})
//
// Its Delete knows nothing of policies: in a transaction with it, after it, look for
// references by Filter.
//
// Documents that hold copies can have one too. Put the field that holds the copy
// ("customer") into Options.Ignored there: propagation makes no revision, and would
// show in the revision it finds, with deltas also in older ones.
//
// # When not to use it
//
//   - Fields that change often and are read rarely: every change writes every
//     copy. A $lookup, or a second query for the IDs on the page, costs less.
//   - A value that must be right to the moment, a balance or a stock level: read
//     the source.
//   - References that are never shown: store the ID.
//   - A source with millions of copies of which most are old: freeze what old
//     documents should say, or follow in recent ones only, as two collections.
package extref
