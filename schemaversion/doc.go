// Package schemaversion upgrades documents from one version of their schema to the
// next: when they are read, when they are written, or all of them in the background,
// while old and new programs run side by side.
//
// # Documents
//
// Each carries the number of its version; without one it is of the first. The number
// may be of any numeric type, or a string as in the literature (Options.Text):
//
//	{_id: 1, name: "Anakin Skywalker", home: "503-555-0000", work: "503-555-0010"}
//	{_id: 2, schema_version: "2", name: "Anakin Skywalker (Retired)",
//	 contact_method: [{work: "503-555-0210"}, {twitter: "@anakinskywalker"}]}
//
// # The five calls
//
//	contacts, err := schemaversion.New[Contact](coll, []schemaversion.Step{
//		{Up: toContactMethods, Down: toPhones},              // from 1 to 2, on BSON
//		schemaversion.Between(func(old ContactV2) (Contact, error) { … }, // from 2 to 3
//			func(c Contact) (ContactV2, error) { … }),           // and back, or nil
//	}, &schemaversion.Options{Text: true})
//
//	c, err := contacts.Get(ctx, 1)            // in the newest version, whatever is stored
//	for c, err := range contacts.Find(ctx, filter) { … }
//	_, err = contacts.Insert(ctx, c)          // with its version
//	err = contacts.Update(ctx, 1, bson.M{"$set": …}) // upgrades first, then updates
//	result, err := contacts.Migrate(ctx, contacts.Newest(), work) // all, in the background
//
// Decode and Encode do the same without I/O for documents that you read and write
// yourself, and [Doc] is a T that upgrades itself in every other package.
//
// # Costs
//
//	call     round trips                                       documents written
//	Get      1; with WriteBack 1 more for an old document      0; 1
//	Find     1 a batch                                         0
//	Insert   1                                                 1
//	Update   1; for an old document 4                          1; 2
//	Migrate  3 a batch, 3 in all besides                       1 for each old document
//	Status   1, reads the collection or an index on the version  0
//
// Where all are to be upgraded, and the collection is large, an index on the version
// ([Collection.Indexes]) lets Status and Filter find the old ones.
//
// # When to use it, and when not
//
// Use it when documents outlive the code that wrote them, and the collection is too
// large, or must not be down, to be rewritten at once. A new optional field needs no
// version. If all fits into one updateMany, run that: it
// takes a small part of the time.
//
// Decide per collection: never write old documents (Get and Find suffice), write
// them when they are touched (Update, or Options.WriteBack), or all (Migrate).
// Filters on a field that has moved must look in both places as long as both exist:
// [Collection.Filter] writes such a filter.
//
// # Newer documents
//
// A document of a version that this program does not know is a [NewerError]. It is
// never overwritten, so a rollout can go back: give the new program's steps a Down
// and Migrate to the old version, or deploy programs that can read the new version
// before those that write it.
//
// # Concurrency
//
// A write of an upgraded document sets only the top-level fields that a step changed, and
// only if these, and what the step depends on, are still as they were read: of Between the
// fields of its struct, of a step on documents the whole document. Else it is read and
// upgraded again; what others write meanwhile stays. One Migrate of a collection runs at a time: a lease, in the collection
// named as this with ".migrations" added, keeps others out with [ErrRunning]; when
// its process is killed another takes over after Options.Lease. A
// document that a step or the server refuses is counted, named and passed over, or
// ends the run (Work.Strict).
//
// # Sharding
//
// Writes filter on _id: shard by it, or hand Migrate a filter per shard-key range.
package schemaversion
