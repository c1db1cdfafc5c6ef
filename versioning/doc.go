// Package versioning keeps every revision of a document: the newest in one
// collection, the older ones in another, each with who made it, when and why.
//
// # Documents
//
//	// current_policies: your documents, with two fields added
//	{
//	  _id: "bilbo", name: "Bilbo Baggins", policy: "Shire standard",
//	  items: ["Elven Sword", "One Ring"],
//	  revision: 3,
//	  change: {at: 2941-06-01T09:00:00Z, author: "gandalf", reason: "found in a cave"}
//	}
//
//	// policy_revisions: what was before
//	{
//	  _id: ObjectId(…), policy_id: "bilbo", revision: 2,
//	  change: {at: 2941-05-01T09:00:00Z, author: "elrond", reason: "from the troll cave"},
//	  document: {_id: "bilbo", name: "Bilbo Baggins", policy: "Shire standard", items: ["Elven Sword"]}
//	}
//	{_id: …, policy_id: "bilbo", revision: 1, change: {…}, document: {…, items: []}}
//
// Queries of the current state stay as they are without history. A change says how its
// revision came about. A deletion is a revision too: {…, revision: 4, change: {…},
// deleted: true}. The names are options:
//
//	policies, err := versioning.New[string, Policy](
//		db.Collection("current_policies"), db.Collection("policy_revisions"),
//		&versioning.Options{DocumentIDField: "policy_id"})
//	err = policies.EnsureIndexes(ctx) // {policy_id, revision} unique where it is a number, {policy_id, change.at, revision}
//
// # Five calls
//
//	by := versioning.Change{Author: "elrond", Reason: "from the troll cave"}
//	policy, err := policies.Create(ctx, Policy{ID: "bilbo", Name: "Bilbo Baggins"}, by)
//	policy, err = policies.Get(ctx, "bilbo")
//
//	policy.Document.Items = append(policy.Document.Items, "Elven Sword")
//	policy, err = policies.Save(ctx, policy, by) // errors.Is(err, mongopatterns.ErrConflict): saved by someone else since
//
//	policy, err = policies.Update(ctx, "bilbo", func(p *Policy) error {
//		p.Items = append(p.Items, "One Ring")
//		return nil
//	}, by) // reads, saves, and again after a conflict
//
//	policy, err = policies.AsOf(ctx, "bilbo", march)
//
// At and History read, [Documents.HistoryFrom] from the oldest on, [Documents.Diff] compares
// two revisions, [Documents.Differences] two documents in memory, [Documents.Restore] and
// [Documents.Undo] make a new revision out of an old one, Delete and Create go on counting,
// SaveMany saves in bulk, [Documents.Prune] deletes old revisions. [ErrPruned] and
// [ErrDeleted] match mongopatterns.ErrNotFound. Who last changed a field is an example of Diff.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; each method says more.
//
//	Get              1 RT  1 key, 1 document
//	Create           3 RT  1 document written; 1 RT if its _id is made here
//	Save             3 RT  2 documents written; 1 RT if nothing changed, or without a history
//	Update           4 RT  2 documents written
//	SaveMany         4 RT  a batch, 2 documents written for each
//	Delete           3 RT  3 documents written
//	At               1 RT  1 key, 1 document; 2 RT if it is the current one
//	AsOf             1 RT  if it is the current one, else 2
//	History          2 RT  and a batch of the cursor each
//	HistoryFrom      that of History
//	Differences      none
//	Restore, Undo    that of At, and 4 RT
//	Prune            1 RT  and 3 for each 100 documents
//	Adopt            1 RT  and 3 for each 100 documents
//	Check, Repair    1 RT  and 3 for each 100 documents, all revisions are read
//
// # When to use it, and when not
//
// Use it where someone asks what a document said in March, who changed it, or for the
// state before that. Not so:
//
//   - Where nobody asks: a save is a transaction of two writes, a plain update is one.
//   - Where only the fact of a change matters: a log of events is smaller.
//   - All data at one moment, hours or days back: snapshot reads or a backup.
//   - Documents that change every second: package bucket.
//   - A history queried by any field: all revisions in one collection, with from and to.
//   - Where only conflicts are to be found: Options.NoHistory.
//
// # What a save stores
//
// A save is a merge of three documents. Base is the document that was read, ours the one
// that the caller hands back, theirs the one that is stored by now. What ours has different
// from base, both as T shows them, is changed in theirs; all else stays in theirs as it is:
//
//  1. Ours is encoded. Of the fields that differ from base, base is decoded and encoded once,
//     to see how T shows it: what T shows alike is not a change.
//  2. The changes are merged into base, at any depth. Fields that T does not have stay. An
//     element of an array is the same one if it is equal, or shares a value that no other
//     element has, or stands between the same neighbours.
//  3. The first write changes the current document if it still has the number read, and
//     returns theirs. If that is not base, the changes are merged into theirs, where an array
//     is one value, and written again.
//  4. Theirs goes to the history.
//
// Types count, and so does the order of fields inside a document, unless a Go map has made
// them.
//
// A T with its own UnmarshalBSON may read one field from others, as one that upgrades old
// documents does. What it then shows and is not stored is stored too. What is to be stored
// is read back first: if T does not show it as ours, it is stored as T writes it, and what T
// does not write goes. So such a T has to keep what it does not know, as schemaversion.Doc
// does. Codecs of single fields, a UUID's or one in Options.Registry, change nothing of this
// for the fields beside them.
//
// Numbers begin at 1 and have no gaps; times never go back. Options.Ignored names fields
// outside the history, a "last_seen" or a counter. With Options.SnapshotEvery: 20 only
// every twentieth revision is whole: a large document with small changes takes a few per
// cent of the space.
//
// # Concurrency
//
// A save is one transaction. As its first write finds what goes to the history, no state is
// missing or doubled at any isolation level. Fields that other code writes meanwhile, by
// update operators and without the number, are kept. Update, Restore and Undo begin again
// after a conflict until their context ends; a transaction of the caller's has to do that
// itself. Calls join the
// transaction of their context; after an error from a call that writes, abort it. With a
// read preference for secondaries, read the history in a session with causal consistency.
//
// # Copies that follow their source
//
// Package extref can keep a copy of a customer's name in each order. Where the copy follows,
// a change of the customer writes to orders beside this package: the current revision then
// says the new name, also for a time before the change, and deltas made from it are lost.
// Choose by what the order of March should say:
//
//   - The name of March: extref.Freeze. The copy is part of the order and of its history.
//   - Nothing, the name is the customer's: follow, with the field of the copy in
//     Options.Ignored. The history does not hold it, the current document has the newest.
//     Keep the key in a field of its own, which is not ignored.
//   - The old name until the change, and the new one after it: Freeze, and one Update of each
//     order with the new copy, a revision by propagation. The example of Update does it.
//
// # Adoption
//
// An existing collection works as it is. A document without a number is revision 1, without
// author and time; the first save moves it to the history. A collection that counts
// already goes on counting. [Documents.Adopt] writes numbers and what is known of
// authors and times; [Documents.AdoptHistory], before it, makes revisions of a history that
// was kept by hand. The indexes leave other rows of that collection alone, so old code
// can go on adding its own; Check names them. Code that writes without this package meanwhile loses its own states, and
// nothing else while revisions are whole. [Documents.Check] finds what it did.
//
// # Sharding
//
// Shard the current documents by _id, hashed if you like, and the revisions by the
// document's ID (ShardKey): every call but those over all documents is targeted. Create
// both collections beforehand: a transaction over several shards creates none.
package versioning
