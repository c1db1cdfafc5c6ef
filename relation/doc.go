// Package relation keeps references between documents: an array of children in the
// parent, the parent in each child, both sides equal in one transaction, or a
// collection between; and reads the other side in two round trips, in the order of
// the references.
//
// # Documents
//
// The fields are yours; [Options] names those that a schema has:
//
//	ChildrenField: "courses"                     student {_id: 1, courses: [101, 205]}
//	OwnerField: "host"                           message {_id: …, host: "web1", text: "…"}
//	ChildrenField: "tasks", OwnerField: "owner"  person {_id: "Ann", tasks: [1, 2]}, task {_id: 1, owner: "Ann"}
//	ChildrenField: "subjects", OwnersField: "teachers"
//	                                             many to many, an array on both sides
//	Links: coll, ParentField: "teacher_id", ChildField: "subject_id"
//	                                             many to many, {teacher_id: 7, subject_id: 3}
//
// All kinds have the same calls. Parents and children may be one collection: an
// employee with a manager, a product with related ones. If ChildrenField and
// OwnersField are then the same field, links have no direction: friends.
//
// # The five calls
//
//	tasks, err := relation.New[string, int, Task](people, taskColl, &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
//	err = tasks.Insert(ctx, "Ann", task)       // Ann must exist
//	err = tasks.Link(ctx, "Ann", 1, 2)         // nobody else may own them
//	err = tasks.Transfer(ctx, 1, "Bob")
//	joined, err := tasks.Children(ctx, "Ann", nil) // joined.Items, and joined.Dangling
//	owners, err := tasks.Parents(ctx, 1)
//
// [Fetch] is the join alone: documents by a list of IDs, in its order, with the IDs
// that have no document.
//
// # Costs
//
// Lists are ChildrenField or OwnersField, an owner is OwnerField.
//
//	call           one side                           both sides            Links
//	Link, Unlink   1, writes 1; n with an owner 2, n  3, writes 1 + n       1, writes n
//	Transfer       1 (owner)                          4, writes 3           –
//	Insert         3, writes 2                        3, writes 2           4, writes 3
//	Has, Parents   1                                  1                     1
//	Children       2 with a list, else 1              2                     2
//	ChildrenOf     the same for 1000 parents and 1000 children
//	First          1 (owner)                          1                     –
//	DeleteChild    2 or 3                             3                     3
//	DeleteParent   2 to 4                             3 or 4                3; Cascade 6
//	Check          1, and 2 a batch                   1, and 4              1, and 5
//	Repair         4 more for each document with problems                   5
//	Extract, Embed 1, and 3 and 5 for each parent     the same              –
//
// A list that is null, or has no room for all that are linked, takes 1 more.
//
// # When to use it, and when not
//
// Embed what is read with its parent, is few and is never looked for alone:
// addresses, e-mails, an identity card. That needs no package, and one round trip
// where references take two. Refer to what is read alone, is shared, or grows:
// [docs/choosing.md] decides by number, access and growth.
//
// A list in the parent suits hundreds of children, with an order of their own. An owner
// in the child suits any number, Links any number on both sides. Keep both sides only if
// both are queried much: each link is then a transaction. For copies of a referenced
// document's fields, see extref; for everybody below an employee, tree.
//
// # Concurrency
//
// With both sides a link is one transaction that writes both documents, so two links
// of one child conflict and the second is refused ([ErrOwned]). With one side or
// Links, a link to a document that does not exist, or is deleted at that moment, is
// not noticed: reads report it as dangling and Check finds it. Insert and the
// both-sided calls do notice. After an error from a call that writes, abort your
// transaction.
//
// # Adoption, check and repair
//
// Existing references need nothing but the names of their fields. Check finds dangling,
// one-sided and repeated references; Repair removes or completes them. Where an owner and
// a list disagree, the owner is right. Extract turns embedded documents into children with
// references, Embed turns them back; both can be stopped and run again. All of them, and
// EnsureIndexes, refuse collections with a default collation.
//
// Other programs may leave values among the references that cannot be an _id: null, a
// regular expression, operators, an array. Check names them, reads return them as
// Malformed, and no call matches or deletes anything by them. A child whose owner is an
// array is not touched: Link refuses it ([ErrOwned]), Transfer replaces the array.
//
// Beside Extract old code may go on to push embedded children, and to pull, edit and
// insert parents: the next Extract takes what is embedded by then, and reads return it as
// Malformed until then. Old code cannot find by their fields, edit or pull children that
// are extracted already. If it replaces a parent by the whole document of before, the next
// Extract links those children again that have _ids and that nobody has changed; else the
// parent is Failed, as there are two states of a child. Children without _ids are stored a
// second time.
//
// # Sharding
//
// Shard each collection by its _id, Links by both fields ([Relation.ShardKey]).
// Parents and DeleteChild then ask all shards, as they look for a child in the lists
// or links.
//
// [docs/choosing.md]: https://github.com/mongopatterns/mongopatterns/blob/main/docs/choosing.md
package relation
