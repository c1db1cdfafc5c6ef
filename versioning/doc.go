// Package versioning keeps every revision of a document: the newest in one
// collection, the older ones in another, each with who made it, when and why.
//
// # The problem
//
// An insurance policy changes, and someone asks what it said in March, who added
// the sword to it, and for the state before that. Revisions in an array make
// every read carry the past along, and a document per revision in one collection
// makes every query say "the newest only". So the past has a collection of its
// own. Then a save is two writes, which a crash must not tear apart; two people
// who save what both have read must not overwrite each other; and a deleted
// document must not take its history along, or start it again at 1.
//
// # Document shapes
//
// The current documents are yours, with two fields added:
//
//	// current_policies
//	{
//	  _id: "bilbo",
//	  name: "Bilbo Baggins", policy: "Shire standard",
//	  items: ["Elven Sword", "One Ring"],
//	  revision: 3,
//	  change: {at: 2941-06-01T09:00:00Z, author: "gandalf", reason: "found in a cave"}
//	}
//
// All queries of the current state go to this collection, as they would without
// history. The other one has what was before:
//
//	// policy_revisions
//	{
//	  _id: ObjectId(…),
//	  policy_id: "bilbo",
//	  revision: 2,
//	  change: {at: 2941-05-01T09:00:00Z, author: "elrond", reason: "from the troll cave"},
//	  document: {_id: "bilbo", name: "Bilbo Baggins", policy: "Shire standard", items: ["Elven Sword"]}
//	}
//	{_id: …, policy_id: "bilbo", revision: 1, change: {…}, document: {…, items: []}}
//
// The change says how the revision it stands beside came about. A time that is not
// known, see Documents without a revision, is stored as 0001-01-01T00:00:00Z, so that
// ranges of change.at include it, and read as the zero time. A deletion is a revision
// too, {…, revision: 4, change: {…}, deleted: true}, without document. With
// Options.SnapshotEvery most revisions have delta: {…} in place of document, see
// below.
//
// The names are these by default, but for one:
//
//	policies, err := versioning.New[string, Policy](
//		db.Collection("current_policies"), db.Collection("policy_revisions"),
//		&versioning.Options{DocumentIDField: "policy_id"})
//	err = policies.EnsureIndexes(ctx)
//
// Five calls are enough for most:
//
//	by := versioning.Change{Author: "elrond", Reason: "from the troll cave"}
//	policy, err := policies.Create(ctx, Policy{ID: "bilbo", Name: "Bilbo Baggins"}, by)
//	policy, err = policies.Get(ctx, "bilbo")
//
//	policy.Document.Items = append(policy.Document.Items, "Elven Sword")
//	policy, err = policies.Save(ctx, policy, by)
//	var conflict *versioning.ConflictError
//	if errors.As(err, &conflict) {
//		// someone else has saved conflict.Current since conflict.Read was read
//	}
//
//	policy, err = policies.Update(ctx, "bilbo", func(p *Policy) error {
//		p.Items = append(p.Items, "One Ring")
//		return nil
//	}, by) // reads, saves, and again after a conflict
//
//	policy, err = policies.AsOf(ctx, "bilbo", march)
//
// A [Revision] is a document with its number and its change. Save takes what Get, or
// another call, returned, or one made by hand from what a client sent, as in answer to If-Match:
// versioning.Revision[Policy]{Number: 2, Document: body}, which costs one read
// more. [Documents.Decode] makes one of a document from a query of your own.
//
// # Saving
//
// Save changes what the caller changed. It compares the document with what was
// read and carries the differences over to the stored one, so fields that T does
// not have survive, at any depth. Elements of an array are the same ones if they are
// equal, wherever they are now; as many as there were between two neighbours are
// these, changed; others are new. A save is made only if the stored document still has
// the number read, or else the error is a [ConflictError].
//
// A save that changes nothing makes no revision and returns the number read. Types
// count: int32 5 is not int64 5. The order of fields does not.
//
// Options.Ignored names fields that are no part of the history, a "last_seen" or a
// counter: a save that changes nothing else is stored without a revision, reads of
// the history leave them out, and Restore leaves them as they are. They are gone
// with a deletion. A name can be added to Ignored at any time; one that is taken out
// appears in older revisions, where these are deltas with later values.
//
// Update operators of your own, or of other patterns, may change ignored fields at
// any time: a $push to a list that package subset keeps, an $inc of a counter, the
// version of a source of package extref. A save undoes none of it, also of what
// changed since the document was read, and also in fields that are not ignored, of
// which the history then has the last state before the save. Only where both changed
// the same value it is the saver's; an array is one value here.
//
// Numbers begin at 1 and have no gaps. Times are milliseconds and never go back:
// where clocks differ, the time of a revision is raised to that of the one before. So
// one clock that is far ahead, or one Change.At in the future, gives its time to all
// revisions of the document that follow, and AsOf finds none of them before; only
// years other than 1 to 9999 are refused ([ErrInvalid]).
//
// # Documents without a revision
//
// An existing collection works as it is. A document without Options.RevisionField
// is revision 1, by nobody, since ever (a zero [Change]); the first save moves it
// to the history like any other. So InsertMany of the driver is the way to load
// many documents. A collection that counts already, in a field of your choice,
// goes on counting. [Documents.Adopt] writes the number, and what you know about
// its author and time, into all documents. Only a document that comes back this way,
// over the history of a deleted one, has to have Adopt give it the number after that:
// before, saves of it are refused with [ErrInconsistent].
//
// # The history
//
//	policy, err = policies.At(ctx, "bilbo", 2)
//	policy, err = policies.AsOf(ctx, "bilbo", moment)
//	for policy, err := range policies.History(ctx, "bilbo", nil) { … } // newest first
//	differences, err := policies.Diff(ctx, "bilbo", 1, 3)             // path, old, new
//	policy, err = policies.LastChange(ctx, "bilbo", "items")           // who last changed it
//	policy, err = policies.Restore(ctx, "bilbo", 1, by)                // as a new revision
//	err = policies.Delete(ctx, "bilbo", 3, by)                         // as a new revision
//
// [ErrNotFound] says that there never was such a document or revision, [ErrPruned]
// that it was removed by Prune, [ErrDeleted] that the document was deleted then.
// All match mongo.ErrNoDocuments. Restore also brings back what was deleted; Create
// over a deleted document goes on counting where its history ends.
//
// # Retention
//
//	result, err := policies.PruneAll(ctx, &versioning.PruneOptions{Keep: 10, Before: lastYear})
//
// deletes what neither of the two protects:
//
//	Keep: 10                    all but the newest 10 of each document
//	Before: lastYear            all that AsOf does not need for any time since then
//	Keep: 10, Before: lastYear  only what is in both of these: the newest 10 stay
//	                            however old, those since then however many
//
// To delete what either names, call it once with each. The newest one always stays,
// so that numbers go on and what is gone can be told from what never was. To forget a
// document altogether, delete it by the driver: first where it is current, then all
// that HistoryFilter selects.
//
// # Snapshots and deltas
//
// By default each revision is kept whole. With Options.SnapshotEvery: 20 every
// twentieth is; the others hold what turns the following revision back into them.
// A large document with small changes then takes a few per cent of the space (see
// the benchmark), and a save writes that much less. To read such a revision up to
// 20 documents are read and applied, one after the other. As the newest is always
// whole, and deltas lead backwards, Prune never cuts them off. The option can be
// changed at any time; each revision says itself how it is stored.
//
// A delta holds for the revision it was made from: with SnapshotEvery, changes made
// without this package, but for Options.Ignored, show through to the revisions
// before, up to the next whole one, or make them unreadable ([ErrInconsistent]).
//
// # Indexes
//
//	current documents   none besides _id
//	revisions           {document_id: 1, revision: 1}                 unique
//	                    {document_id: 1, "change.at": 1, revision: 1} AsOf, Prune
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; each method says more.
//
//	Get                 1 RT  1 key, 1 document
//	Create              3 RT  1 document written; 1 RT if its _id is made here
//	Save                3 RT  2 documents written; 1 RT if nothing changed
//	Update              4 RT  2 documents written
//	SaveMany            4 RT  a batch, 2 documents written for each
//	Delete              3 RT  3 documents written
//	Restore             5 RT  2 documents written
//	At                  1 RT  1 key, 1 document; 2 RT if it is the current one
//	AsOf                1 RT  if it is the current one, else 2
//	History             2 RT  and a batch of the cursor each
//	Diff                that of At, twice
//	LastChange          that of History, as far back as it goes
//	PruneAll            1 RT  a batch of the cursor, 1 RT for each batch of documents
//	Adopt               3 RT  a batch
//	Check, Repair       a scan of both collections
//
// # Several writers and guarantees
//
// A save is one transaction, a commit with its two writes. The first replaces the
// current document if it still has the number read; the revision stored is the
// document that this write found. So there is no state that the history misses,
// none that it has twice, and no crash that leaves one without the other. Writers
// of one document conflict on it and not elsewhere, and no isolation level is
// relied on. Update repeats what conflicted, Options.MaxRetries times.
//
// SaveMany alone reads its documents first; there snapshot isolation keeps what is
// written without this package between that and its writes.
//
// Calls join the transaction of their context. A ConflictError, ErrNotFound,
// ErrExists, ErrInvalid, ErrPruned and ErrDeleted leave such a transaction as it was,
// with nothing written, so that it can go on and commit; after ErrInconsistent and any
// other error of a write abort it, as the server mostly has done. On a standalone server what needs a transaction returns
// [ErrTransactionsUnsupported].
//
// Reads of the history take two steps, of which the second relies on having seen all
// that the first has. With a read preference for secondaries, make them in a session
// with causal consistency (the driver's default for sessions) in the context; reads
// that a write depends on go to the primary in any case.
//
// Documents stop 16 KiB short of the server's 16 MiB, so that each can be stored as
// a revision: larger ones are refused with [ErrInvalid]. So are those with a field
// at the top that starts with "$", which the server takes in an insert and never in a
// replacement; one that is stored already can be read, deleted, and saved without it.
//
// # Sharding
//
// Shard the current documents by _id ([Documents.ShardKey]), hashed if you like,
// and the revisions by the document's ID ([Documents.RevisionShardKey]), with which
// the unique index starts: all of a document is on one shard each, and every call
// but those over whole collections is targeted. Create both collections beforehand:
// a transaction over several shards creates none.
//
// # Maintenance
//
// [Documents.Check] finds what other programs did to the history: missing and
// repeated numbers, numbers that run backwards, deltas that do not apply, current
// documents that were removed without a trace. [Documents.Repair] mends what can be
// mended without inventing anything.
//
// # Composing
//
// The current collection is an ordinary one: query it as you like.
// [Documents.HistoryFilter] selects the older revisions of a document for Find and
// paging, sorted by revision; [Documents.HistoryPipeline] lists numbers and changes
// of all of them, the current one included. [Differences] compares any two
// documents.
//
// # When not to use it
//
//   - Where only the fact of a change matters, an audit log of events is smaller.
//   - Where all of the data is to be seen at one past moment, for hours or days back,
//     snapshot reads (atClusterTime) or a backup do it.
//   - Documents that change every second: keep measurements in package bucket.
//   - A history that is queried like the present, by any field at any time, wants
//     all revisions in one collection with from and to in each.
package versioning
