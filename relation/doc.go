// Package relation keeps references between documents. A parent holds an array of its children,
// each child holds its parent, or both do and change in one transaction. Or a collection in between
// has a document for each link. The package reads the documents on the other side in two round
// trips, in the order of the references.
//
// # When to use it, and when not
//
// Embed children that are read with their parent, are few and are never searched alone, such as
// addresses, e-mails or an identity card. That needs no package, and takes one round trip where
// references take two. Refer to children that are read alone, are shared, or grow in number.
// [docs/choosing.md] decides by number, access and growth.
//
// A list in the parent suits up to some hundred children, in an order of their own. An owner in the
// child suits any number of children, and Links any number on both sides. Keep both sides only if
// both are queried often, because each link is then a transaction. To copy fields of a referenced
// document, see package extref. To find all employees below a manager, see package tree.
//
// # Documents
//
// You choose the fields; [Options] names those that your schema has:
//
//	ChildrenField: "courses"                     student {_id: 1, courses: [101, 205]}
//	OwnerField: "host"                           message {_id: …, host: "web1", text: "…"}
//	OwnerField: "posted_by", KeyField: "id"      user {_id: …, id: "ann"}, message {_id: …, posted_by: "ann"}
//	ChildrenField: "tasks", OwnerField: "owner"  person {_id: "Ann", tasks: [1, 2]}, task {_id: 1, owner: "Ann"}
//	ChildrenField: "subjects", OwnersField: "teachers"
//	                                             many to many, an array on both sides
//	Links: coll, ParentField: "teacher_id", ChildField: "subject_id"
//	                                             many to many, {teacher_id: 7, subject_id: 3}
//
// All kinds have the same calls. A link of a parent and a child is the reference, the two
// references, or the document of Links. Parents and children may be the same collection, as with an
// employee and a manager, or a product and related ones. If ChildrenField and OwnersField are then
// the same field, links have no direction, as between friends.
//
// # The calls
//
//	tasks, err := relation.New[string, int, Task](people, taskColl, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
//	err = tasks.EnsureIndexes(ctx)
//	_, err = tasks.Insert(ctx, "Ann", task)    // Ann must exist
//	err = tasks.Link(ctx, "Ann", 1, 2)         // nobody else may own them
//	err = tasks.Transfer(ctx, 1, "Bob")
//	joined, err := tasks.Children(ctx, "Ann", nil) // joined.Items, and joined.Dangling
//	owners, err := tasks.Parents(ctx, 1)
//	n, err := tasks.DeleteParent(ctx, "Ann", mongopatterns.Cascade) // her children too, which n counts
//
// The type parameters are the types of a parent's ID, a child's ID and a child, here Task. Insert parents, and
// update both, with the driver, but leave the fields of the references to the package. Only to change the
// order of a list, $set it yourself, with the list that you have read in the filter.
//
// [Fetch] is the join alone: it reads documents by a list of IDs, in the order of the list, and
// returns the IDs without a document.
//
// # IDs of your own types
//
// An ID may be a type of your own. A type made from string or a number needs nothing more. In every package
// here, a type made from bson.ObjectID needs the methods below, because without them the driver stores it
// as binary data, which is not equal to an ObjectID. IsZero is for omitempty. For hex digits in JSON add
// the MarshalText and UnmarshalText of bson.ObjectID in the same way.
//
//	type PersonID string
//	type TaskID bson.ObjectID
//
//	func (id TaskID) IsZero() bool { return id == TaskID{} }
//
//	func (id TaskID) MarshalBSONValue() (byte, []byte, error) {
//		kind, data, err := bson.MarshalValue(bson.ObjectID(id))
//		return byte(kind), data, err
//	}
//
//	func (id *TaskID) UnmarshalBSONValue(kind byte, data []byte) error {
//		return bson.UnmarshalValue(bson.Type(kind), data, (*bson.ObjectID)(id))
//	}
//
//	tasks, err := relation.New[PersonID, TaskID, Task](people, taskColl, opts)
//
// # Concurrency
//
// With both sides, a link is one transaction that writes both documents. So two links of one child to
// different owners conflict, and the second is refused ([ErrOwned]). With one side or Links, the calls
// do not notice that a linked document does not exist, or is being deleted. Reads then return the
// reference as dangling, and Check finds it. Insert and the calls with both sides do notice. After an
// error from a call that writes, abort your transaction. Insert without ChildrenField sets the field
// "__touch" in the parent and removes it in the same transaction; a validator must allow it.
//
// Of the policies for deletions, Restrict refuses while there are links, and Unlink removes them. Cascade, for
// parents, deletes the children that have no further parent.
//
// # Failures
//
// [mongopatterns.ErrNoParent] and [ErrNoChild] say that the document to be written does not exist;
// both match mongopatterns.ErrNotFound. [ErrOwned] and [ErrFull] refuse a link. A delete that
// Restrict refuses returns mongopatterns.ErrReferenced. For a parent that does not exist, Children
// returns ErrNoParent if lists are in parents, and otherwise no children. If an answer is lost, Link,
// Unlink and Transfer can be repeated. A repeated Insert returns [mongopatterns.ErrExists] if the
// child has an _id.
//
// # Costs
//
// Round trips, and documents written. "One side" is ChildrenField, OwnerField or OwnersField alone. A list is
// ChildrenField or OwnersField, n is the number of children in the call, and – means that there is no such call.
//
//	call           one side                           both sides            Links
//	Link, Unlink   1, writes 1; without               3, writes 1 + n       1, writes n
//	               ChildrenField n > 1: 2, writes n
//	Transfer       1 (OwnerField)                     4, writes 3           –
//	Insert         3, writes 2                        3, writes 2           4, writes 3
//	Has, Parents   1                                  1                     1
//	Children       2 with ChildrenField, else 1       2                     2
//	ChildrenOf     the same for 1000 parents and 1000 children
//	First          1 (without ChildrenField)          1                     –
//	DeleteChild    2 or 3                             3                     3
//	DeleteParent   2 to 4                             3 or 4                3; Cascade 6
//	Check          1, and 2 a batch                   1, and 4              1, and 5
//	Repair         4 more for each document with problems                   5
//	Extract, Embed 1, and 3 and 5 for each parent     the same              –
//
// If a list is null, or has no room for all children of the call, Link takes 1 more.
//
// # Adoption, check and repair
//
// Existing references need no conversion, only the names of their fields. If children name their parent by a
// KeyField, its values must be unique, because all calls treat parents with the same value as one parent.
// EnsureIndexes creates the unique index. Check finds dangling, one-sided and repeated references, and Repair
// removes or completes them. If an owner and a list disagree, Repair trusts the owner. Extract turns embedded
// documents into children with references, and Embed turns them back. Both can be stopped and run again. Check,
// Repair, Extract, Embed and EnsureIndexes refuse collections with a default collation.
//
// Other programs may leave values among the references that cannot be an _id, such as null, a regular
// expression, operators or an array. Check reports them, reads return them as Malformed, and no call matches or
// deletes anything by them. References of another type than the IDs, such as "2" where IDs are ints, are treated
// in the same way unless a document has this _id, so write them with the right type. With any as the type of the
// IDs they are dangling, and Repair removes them. All calls except Transfer, which replaces the array, leave a
// child alone whose owner is an array. Link, for example, refuses it ([ErrOwned]).
//
// Beside Extract, old code may continue to push and pull embedded children, and to edit and insert
// parents. The next Extract takes the children that are embedded by then, and until then reads
// return them as Malformed. But old code cannot find, edit or pull children by their fields once
// they are extracted.
//
// If old code replaces a parent by a copy from before its extraction, the next Extract links
// the children that have _ids and are unchanged in their collection. If one has changed, there
// are two versions of it, and the parent is Failed. Children without _ids are stored a second
// time.
//
// # Sharding
//
// Shard each collection by its _id, and Links by both fields ([Relation.ShardKey]). Parents and
// DeleteChild then ask all shards, because they search the lists or links for a child.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [docs/choosing.md]: https://github.com/mongopatterns/mongopatterns/blob/main/docs/choosing.md
package relation

// Notes for those who change this package.
//
//   - Relation has one type for references in the parent, in the child or in both: the operations are the same, and
//     Options names the fields there are. A collection between is one more kind: a link there is both ends in one
//     document. Parents and children may be one collection; a deletion then acts in both roles. An owner decides
//     against a list when the two disagree, as a child has one owner and a list may name any.
