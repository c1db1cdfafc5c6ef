// Package versioning keeps every revision of a document: the newest in one
// collection, the older ones in another, each with who made it, when and why.
//
// # When to use it, and when not
//
// Use it where someone asks what a document said in March, who changed it, or wants an earlier
// state back. Use something else for:
//
//   - Documents whose past nobody asks for, because a save is a transaction of two writes and a
//     plain update is one write.
//   - The mere fact that something changed, because a log of events is smaller.
//   - All data at one moment, hours or days ago. Use snapshot reads or a backup.
//   - Documents that change every second. Use package bucket.
//   - Queries of the history by any field. Keep all revisions in one collection, each with the
//     times from and to.
//
// To detect conflicts without a history, set Options.NoHistory.
//
// # Documents
//
//	// current_policies: your documents, with two fields added
//	{
//	  _id: "bilbo", name: "Bilbo Baggins", policy: "Shire standard",
//	  items: ["Elven Sword", "One Ring"],
//	  revision: 3,
//	  change: {at: 1941-06-01T09:00:00Z, author: "gandalf", reason: "found in a cave"}
//	}
//
//	// policy_revisions: what was before, a row for each revision
//	{
//	  _id: ObjectId(…), policy_id: "bilbo", revision: 2,
//	  change: {at: 1941-05-01T09:00:00Z, author: "elrond", reason: "from the troll cave"},
//	  document: {_id: "bilbo", name: "Bilbo Baggins", policy: "Shire standard", items: ["Elven Sword"]}
//	}
//	{_id: …, policy_id: "bilbo", revision: 1, change: {…}, document: {…, items: []}}
//
// Queries of the current state are the same with and without a history. The field change holds who
// made the revision, when and why. A deletion is a row too: {…, revision: 4, change: {…},
// deleted: true}. The names policy_id, revision and change are options:
//
//	policies, err := versioning.New[string, Policy](
//		db.Collection("current_policies"), db.Collection("policy_revisions"),
//		&versioning.Options{DocumentIDField: "policy_id"})
//	err = policies.EnsureIndexes(ctx) // {policy_id, revision} unique where it is a number, {policy_id, change.at, revision}
//
// The type parameters are the type of the _id and the type of a document. ID may be a type of your own,
// such as type PolicyID string. For a type made from bson.ObjectID see the [example of New with typed
// IDs]. T, here Policy, is a struct with the fields you need, bson.M, bson.D or a type that decodes
// itself. It may have the fields revision, an int64, and change, a [Change]. Reads set them, except
// Change.Fields, and saves ignore them.
//
// So that a document fits into a row, it can have at most 16,760,832 bytes, number and change included, and 179 levels
// of documents and arrays, itself included. Insert and Save refuse a larger one with mongopatterns.ErrInvalid. If other
// code stored a larger one, it can be neither saved nor deleted; Adopt counts it as Failed, and Check reports it as
// Malformed. The same holds for a document with an empty timestamp in a top-level field, which the server would
// replace, except that it can be deleted.
//
// Numbers begin at 1 and have no gaps, and times never decrease. Options.Ignored names fields that the history
// does not keep, such as "last_seen" or a counter. You can add a name later, but do not take one away, because
// earlier revisions do not hold the field. With Options.SnapshotEvery: 20 only every twentieth revision is
// stored whole, and the others as the differences to the next one (deltas). A large document with small changes
// then takes a few per cent of the space. You can change this later, and stored revisions stay as they are.
//
// # Five calls
//
//	by := versioning.Change{Author: "elrond", Reason: "from the troll cave"}
//	policy, err := policies.Insert(ctx, Policy{ID: "bilbo", Name: "Bilbo Baggins"}, by)
//	policy, err = policies.Get(ctx, "bilbo")
//
//	policy.Document.Items = append(policy.Document.Items, "Elven Sword")
//	policy, err = policies.Save(ctx, policy, by) // errors.Is(err, mongopatterns.ErrConflict): saved by someone else since
//
//	policy, err = policies.Edit(ctx, "bilbo", func(p *Policy) error {
//		p.Items = append(p.Items, "One Ring")
//		return nil
//	}, by) // reads, saves, and again after a conflict
//
//	policy, err = policies.AsOf(ctx, "bilbo", march)
//
// policy is a [Revision]: its Number, Change and Document. Save is for a document that somebody has
// had on a screen, and Edit for a change by a program. The [example of Save] uses the number as an
// ETag.
//
// Several helpers with different T may serve one collection if their other options are the same. One with a small T
// changes one field under an If-Match; the fields that Price lacks stay:
//
//	type Price struct {
//		ID    string `bson:"_id"`
//		Price int    `bson:"price"`
//	}
//	prices, err := versioning.New[string, Price](current, revisions, nil)
//	_, err = prices.Save(ctx, versioning.Revision[Price]{Number: 2, Document: Price{"lamp", 30}}, by)
//
// At reads one old revision, and Revisions reads all, newest first. For pages, leave the loop after
// as many as you show. [History.RevisionsBefore] continues below a number, newest first, and
// [History.RevisionsFrom] begins at a number, oldest first:
//
//	page := func(before int64) (shown []versioning.Revision[Policy], more bool, err error) {
//		for r, err := range policies.RevisionsBefore(ctx, "bilbo", before) { // math.MaxInt64 for the first page
//			if err != nil || len(shown) == 5 {
//				return shown, err == nil, err
//			}
//			shown = append(shown, r)
//		}
//		return shown, false, nil
//	}
//
// [History.Diff] compares two revisions, and [History.Differences] two documents in memory.
// [History.Restore] makes an old revision current again, and [History.Undo] takes back the changes of
// one revision; both make a new revision. Neither compares a number with the current one. Where a request names it, call
// Get in the same mongopatterns.Transact, and return ErrConflict if its Number is another. After Delete, an Insert of
// the same _id continues the numbers. SaveMany saves in bulk, and [History.Prune] deletes old revisions. The [example
// of Diff] shows who last changed a field.
//
// # What a save stores
//
// A save stores what you have changed, that is, the differences between the document that was read
// and the one that you hand back, at any depth. Fields that T does not have stay. So does what
// other code has written meanwhile without raising the number, unless you have changed the same
// value; an array counts as one value here. Fields of an array's element that T does not have stay
// with the element, which is recognized by equality, by a value that no other element has, or by
// its neighbours. The BSON type of a value counts, and so does the order of fields inside a
// document, unless the document was encoded from a Go map.
//
// # Other patterns in the same document
//
// Undo and Restore also take back what other code has written without this package. Such a write makes no
// revision and counts as a change of the newest one. If other code sets a field after a save, an Undo of that
// save removes the field, and a Restore of an earlier revision does too.
//
// So if another pattern writes to the document, name its fields in Options.Ignored, as the section Documents of
// its manual lists them: the array of attribute, outlier, subset or relation with its counts and flags, the
// ancestors and the parent of tree, a counter of approx, the fields of computed with its StateField, a copy that
// follows. The names are of top-level fields: for a Sum in "rating.sum" write "rating". They then stay as the other
// pattern wrote them, and no revision shows them, neither At nor Diff. Of a document that was deleted, Restore does not
// bring them back. In documents that are all the other pattern's own,
// as those of prealloc, bucket, series and slots, this leaves only fields of yours to undo. Do not ignore a
// version of schemaversion or a kind of polymorphic, because they belong to the content. docs/pairs.csv has each
// pattern.
//
// # T with schema versions
//
// With schemaversion.Doc as T, old documents and old revisions are read in the newest version of
// their schema, and a save that changes something brings the document to it. As with any T, the save
// changes what V shows; fields that V does not have, and what others have written meanwhile, stay:
//
//	type claimSteps struct{}
//	func (claimSteps) Chain() *schemaversion.Chain { return claimChain } // a package variable
//	type ClaimDoc = schemaversion.Doc[Claim, claimSteps]
//
//	claims, err := versioning.New[string, ClaimDoc](current, revisions, nil)
//	_, err = claims.Edit(ctx, "c1", func(c *ClaimDoc) error { c.V.Items = …; return nil }, by)
//
// The [example of New with schema versions] runs this. A ClaimDoc{V: body} that you make yourself, from a request
// for example, is saved in the same way. A Doc that you make inside T replaces the stored one. Migrate of
// schemaversion writes the current documents without a revision, so do not run it with SnapshotEvery.
//
// Another T with its own UnmarshalBSON may also compute one field from others. Such fields are
// stored. Before it writes, the save decodes the result. If T then does not show what you handed
// back, the whole document is stored as T encodes it, and fields that T does not encode are lost. So
// such a T must keep the fields that it does not have, as schemaversion.Doc does. If you make values
// of it yourself, it must also have a method Over as Doc has. Codecs for single fields, such as a
// UUID type or a codec in Options.Registry, have no such effect.
//
// # Concurrency
//
// A save is one transaction. Its first write returns the document that it replaces, and that document goes to the
// history, so no state is missing or stored twice at any isolation level. Fields that other code writes meanwhile, by
// update operators and without the number, are kept. Edit, Restore and Undo retry after a conflict until their context
// ends, or for two minutes if it has no deadline. Calls join the transaction of their context. After an error from a call
// that writes, abort it. There they do not retry. mongopatterns.Transact, and Change of package computed, run again by
// themselves if another writer changes the document after their first read. A ConflictError ends both, because the
// revision to save was read before they began. So read it inside, or use Edit there. A read of
// the history is in a causally consistent session, so beside a save it misses no revision, whatever it reads from; a
// secondary that is behind makes it wait. But it may miss your own last save on a secondary, unless both are in a session of
// yours. If your context has a session, keep causal consistency on in it.
//
// The time of a revision is from the clock of the process that saves, and never before that of the previous revision.
// So AsOf is only as right as the clocks are. After a save by a process whose clock is an hour ahead, the document's
// later revisions have that time too, until the hour has passed. Check reports a time more than five minutes ahead of
// its own clock as [TimeAhead]. Correct the clock; the problem ends when the time has come.
//
// # Failures
//
// A save of a revision that is no longer current returns a [ConflictError], which matches
// mongopatterns.ErrConflict. Insert of an _id that exists returns mongopatterns.ErrExists. If a document does
// not exist, calls return mongopatterns.ErrNotFound, and so do Save and Delete; [ErrPruned] and [ErrDeleted]
// match it. [ErrInconsistent] means that other code has damaged the history; Check says where.
//
// If an answer is lost, mongopatterns.OutcomeOf is Unknown. Then repeat the call. If the first one was stored,
// a second Save, Delete, or Insert with an _id returns one of these errors, and a second Restore writes nothing.
// Nor does a second Undo, unless a later revision has changed the same array ([History.Undo]). But Edit calls fn
// again.
//
// A repeated Save that was stored conflicts with itself. To recognise that, put an ID of the request into
// Change.Fields. After a ConflictError, read the revision after ConflictError.Read with At. If it has the ID, the
// save is done. Without a history Get shows the ID, but only until the next save. The [example of a repeated Save]
// runs this.
//
// # Copies that follow their source
//
// Package extref can keep a copy of a customer's name in each order. If the copy follows its
// source, a change of the customer updates the orders without this package. The current revision of
// an order then shows the new name even for a time before the change, and deltas made from that
// revision become unreadable. Choose by what the order of March should say:
//
//   - The name that the customer had in March. Make it a Frozen field of extref. The copy is then
//     part of the order and of its history.
//   - Nothing, because the name belongs to the customer. Let the copy follow, and name its field in
//     Options.Ignored. The history then does not hold it, and the current document has the newest
//     name. Keep the customer's key in a separate field that is not ignored.
//   - The old name until the change, and the new one after it. Make it Frozen, and copy the new
//     name with one Edit of each order, which makes a revision of each. The [example of Edit] does
//     this.
//
// A copy in Options.Ignored does not change when its key does. After an Undo, a Restore or a save that
// changes the customer's key, the order has the new key beside the copy of the other customer. Versions of
// different sources cannot be compared, so propagation may pass over this copy when the new customer is
// renamed, until Repair of extref corrects it. So whatever changes the key must also set the copy, in the
// same mongopatterns.Transact. Pin the new key and $set what Pin returns, as the [example of Undo] does.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; each method says more.
//
//	Get              1 RT  1 key, 1 document
//	Insert           3 RT  1 document written; 1 RT if its _id is made here
//	Save             3 RT  2 documents written; 1 RT if nothing changed, or without a history;
//	                       4 RT for a Revision made by hand, as from If-Match
//	Edit             4 RT  2 documents written
//	SaveMany         4 RT  a batch, 2 documents written for each
//	Delete           3 RT  3 documents written
//	At               1 RT  1 key, 1 document; 2 RT if it is the current one
//	AsOf             1 RT  if it is the current one, else 2
//	Revisions        2 RT  and a batch of the cursor each
//	RevisionsFrom    that of Revisions
//	RevisionsBefore  that of Revisions, with deltas 1 RT more
//	Differences      none
//	Restore          that of At, and 4 RT, 2 documents written
//	Undo             that of At twice, and 4 RT, 2 documents written
//	Prune            1 RT  and 3 for each 100 documents
//	Adopt            1 RT  and 3 for each 100 documents
//	Check, Repair    1 RT  and 3 for each 100 documents, all revisions are read
//
// # Adoption
//
// An existing collection works without preparation. A document without a number is revision 1,
// without author and time, and the first save moves it to the history. A collection that already
// counts revisions keeps its numbers. [History.Adopt] writes numbers, and authors and times where
// you know them. [History.AdoptRevisions] turns a history that was kept by hand into revisions; run
// it before Adopt. The unique index covers only rows with a document's ID and a number, so old code
// can keep adding its own rows, which Check names as NotAdopted. If they have the same field names, the index
// covers them too, and refuses a number twice. It also covers a row whose document's ID is null.
//
// If other code writes the current documents without this package, the states that it overwrites
// are missing in the history. With SnapshotEvery 1 nothing else is lost. [History.Check] finds what
// such code did.
//
// # Sharding
//
// Shard the current documents by _id, hashed or not, and the revisions by the document's ID, as
// ShardKey recommends, so that every call for one document is targeted. Create both collections
// beforehand, because a transaction over several shards cannot create a collection.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of New with typed IDs]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/relation#example-New-TypedID
// [example of Save]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Save
// [example of Diff]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Diff
// [example of New with schema versions]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-New-SchemaVersions
// [example of Edit]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Edit
// [example of Undo]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Undo
// [example of a repeated Save]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-History.Save-Repeated
package versioning

// Notes for those who change this package.
//
//   - Three documents: `current`, a `row` of the history, and a `draft`, a revision to be written. A draft begins with
//     a current document and becomes one; a row is made of one when it is archived.
//   - A Revision remembers the bytes it was read from, so a save needs no read. It is a three-way merge of what was
//     read, what is wanted and what is stored: fields that the type lacks, and what others wrote beside it, survive.
//     It works on bytes and takes apart only what differs. Save, Restore and Undo differ in the changes alone:
//     `revise` stores them, and merges them again where its first write finds another document than was read.
//   - An element of an array is known by equality, by a value that no other has, or by its neighbours. Between two
//     writers an array is one value.
//   - A type that decodes itself may make new fields out of old ones. What it shows and is not stored is stored with
//     the rest, or half of a document would be of the new version. The result is read back once: a type that keeps
//     what it does not know, as schemaversion.Doc, would take for unknown what it has renamed, and is stored as it
//     writes itself; one that does not, as polymorphic.Doc with a Default, loses nothing.
//   - SaveMany writes its answers where the revisions came from: the shape of the bulk calls has no room for numbers,
//     and without them every document had to be read again.
//   - The save's first write changes the document under its number; what it found is what goes into the history, so
//     there is no state that the history lacks. Update operators take the place of a replacement wherever they give
//     the same bytes.
//   - The unique index is partial, on rows with a document's ID and a number from 1 on: a history kept by hand has
//     others, which a full index refuses. The server uses it only for filters that say as much, so every read says
//     `{revision: {$gte: n}}`; the rows beside it are found by the index on time, for Check alone.
//   - Deltas lead from a revision to the one before it, and carry a digest of what they were made from: a change
//     beside the package makes older revisions unreadable, never silently different.
//   - Times are raised to that of the revision before, so the order of time is the order of numbers, and as-of is one
//     key. They are the client's: the server's `$$NOW` would make every save an update by a pipeline. Check reports a
//     time that has not come. To refuse such a Change.At was weighed: a process with a wrong clock sets none. Unknown
//     times are stored as year 1.
//   - The newest revision in the history stays, so numbers go on, and what was pruned can be told from what never was
//     without a mark.
