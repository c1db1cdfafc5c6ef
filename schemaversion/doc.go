// Package schemaversion upgrades documents from one version of their schema to the next, when they
// are read, when they are written, or all of them in the background, while old and new programs run
// side by side.
//
// # When to use it, and when not
//
// Use it when documents outlive the code that wrote them, and the collection cannot be rewritten at
// once, because it is too large or must be available all the time. A new optional field needs no
// version. If one updateMany can do the whole upgrade, run that, because it takes a small part of
// the time.
//
// Decide for each collection when to write old documents: never (Get and Find suffice), when they
// are used (Update, or Options.WriteBack), or all at once (Migrate). A filter on a field that has
// moved must look in both places as long as both exist. [Collection.Filter] makes such a filter.
//
// # Documents
//
// Each document holds the number of its version. A document without the field has the first version. The
// number may be stored in any numeric type, or as a string as in the literature (Options.Text):
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
//	result, err := contacts.Migrate(ctx, contacts.Newest(), nil) // all, in the background
//
// T, here Contact, is the newest version. A step for each version leads to the next. When the schema
// changes again, rename Contact to ContactV3, keep the steps and append one.
//
// A filter, a sort and an index see documents as they are stored, so Migrate before you sort, or page, by a
// field that a step makes. A projection must keep all fields that a step reads, and the version field,
// without which a document counts as one of the first version. Find refuses a projection without the
// version, but in reads of your own, for Decode or a Doc, nothing can.
//
// Decode and Encode do the same without I/O, for documents that you read and write yourself. [Doc]
// is a T that upgrades itself, for use with every other package:
//
//	type contactSteps struct{}
//	func (contactSteps) Chain() *schemaversion.Chain { return contactChain }
//	var contactChain = schemaversion.Must(schemaversion.NewChain(steps, &schemaversion.Options{Text: true}))
//	type ContactDoc = schemaversion.Doc[Contact, contactSteps] // its V is a Contact
//
//	pager, err := paging.New[ContactDoc](coll, bson.D{{Key: "name", Value: 1}}, nil)
//
// A page with a document of a newer version, or with one that a step refuses, returns an error. To
// show the others, make a Pager of bson.Raw, paging.New[bson.Raw], and Decode each item.
//
// Package versioning also reads old revisions in the newest version, as its manual and its [example of New with
// schema versions] show.
//
// # Rollout
//
// If a document has a version that a program does not know, calls return a [NewerError] and never overwrite
// the document. So old programs fail on the documents that new ones have written. Deploy programs that only
// read (Get without WriteBack, Find, Decode) before those that write. A program that knows a step writes the
// new version by Insert, Update and WriteBack. No option writes an older one, so while a service that reads
// and writes is deployed, its old instances get NewerError for such documents. Migrate when no old program
// runs any more.
//
// To reverse a rollout, stop the new programs that write, Migrate to the old version with a program that has
// the new steps, each with a Down, and then start the old programs. Without a Down a document is counted as
// Failed.
//
// # Concurrency
//
// An upgrade writes only the top-level fields that a step changed, and only if these fields, and
// those that the step depends on, have not changed since they were read. Otherwise the document is
// read and upgraded again, so the writes of others stay. A step of Between depends on the fields of
// its struct, and a step on documents depends on the whole document.
//
// One Migrate of a collection runs at a time. It holds a lease, in a collection with the name of
// this one plus ".migrations", and meanwhile another Migrate returns [mongopatterns.ErrRunning]. If
// its process is killed, another may begin after Options.Lease.
//
// # Failures
//
// Get and Update of an _id that does not exist return mongopatterns.ErrNotFound. If a step fails,
// they return a [StepError], and the document stays as it was. In Find the error of one document
// names its _id, and the loop may go on. Migrate counts a document that a step or the server refuses
// as Failed with its error, and continues; with Work.Strict it ends.
//
// # Costs
//
//	call     round trips                                       documents written
//	Get      1; with WriteBack 1 more for an old document      0; 1
//	Find     1 a batch                                         0
//	Insert   1                                                 1
//	Update   1; for an old document 4                          1; 2
//	Migrate  3 a batch, 3 in all besides                       1 for each old document
//	Status   1 or 2, reads the collection or an index on the version  0
//
// To upgrade all documents of a large collection, create an index on the version
// ([Collection.Indexes]), with which Status and Filter find the old documents.
//
// # Sharding
//
// Writes filter on _id, so shard by _id, or call Migrate with a filter for each range of the shard
// key.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of New with schema versions]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/versioning#example-New-SchemaVersions
package schemaversion

// Notes for those who change this package.
//
//   - Schemaversion writes an upgraded document by the difference, guarded by the old values of what it changes and of
//     what its steps read: a total made of a price that somebody changes meanwhile is not stored. A step between
//     structs is a merge (`diff`): base is what the old struct shows, ours what the new one holds. Where a type inside
//     decodes itself the result may read otherwise; one trial says so, and then only the top is merged. Migrate keeps
//     no checkpoint: a run that ends must have looked behind it anyway, as `_id`s of clients are not monotonic, and
//     the filter on the version passes over what is done.
