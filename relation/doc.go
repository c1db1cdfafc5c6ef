// Package relation keeps references between documents: an array of children in the
// parent, the parent in each child, or both sides equal in one transaction; and reads
// the other side in two round trips, in the order of the references.
//
// # Documents
//
// The fields are yours; [Options] names those there are:
//
//	Children: "courses"                     student {_id: 1, courses: [101, 205]}
//	Owner: "host"                           message {_id: …, host: "web1", text: "…"}
//	Children: "tasks", Owner: "owner"       person {_id: "Ann", tasks: [1, 2]}, task {_id: 1, owner: "Ann"}
//	Children: "subjects", Owners: "teachers"  many to many, an array on both sides
//
// [NewJoin] keeps many to many in a collection between: {teacher_id: 7, subject_id:
// 3}.
//
// # The five calls
//
//	tasks, err := relation.New[string, int, Task](people, taskColl, &relation.Options{Children: "tasks", Owner: "owner"})
//	err = tasks.Insert(ctx, "Ann", task)       // Ann must exist
//	err = tasks.Link(ctx, "Ann", 1, 2)         // nothing else may own them
//	err = tasks.Transfer(ctx, 1, "Bob")
//	joined, err := tasks.Of(ctx, "Ann", nil)   // joined.Items, and joined.Dangling
//	owners, err := tasks.Parents(ctx, 1)
//
// [Fetch] is the join alone: documents by a list of IDs, in its order, with the IDs
// that have none.
//
// # Costs
//
//	call                   one side                 both sides
//	Link, Unlink           1, writes 1; n children of an Owner 2, writes n   3, writes 1 + n
//	Transfer               1 (Owner)                4, writes 3
//	Insert                 3, writes 2              3, writes 2
//	Has, Parents           1                        1
//	Of                     2 with Children, else 1  2
//	OfMany                 2 for 1000 parents and 1000 children each
//	Newest                 1 (Owner)                1
//	DeleteChild            2 or 3                   3
//	DeleteParent           2 to 4                   3 or 4
//
// # When to use it, and when not
//
// Embed what is read with its parent, is few and is never looked for alone:
// addresses, e-mails, an identity card. That needs no package. Refer to what is read
// alone, is shared, or grows: [docs/choosing.md] decides by number, access and
// growth.
//
// Children in the parent suit hundreds, with an order of their own. An owner in the
// child suits any number. Keep both sides only if both are queried much: each link
// is then a transaction. For copies of a referenced document's fields, see extref.
//
// # Concurrency
//
// With both sides a link is one transaction that writes both documents, so two links
// of one child conflict and the second is refused ([ErrOwned]). With one side, a
// link to a document that does not exist, or is deleted at that moment, is not
// noticed: reads report it as dangling and Check finds it. Insert and the both-sided
// calls do notice.
//
// # Adoption, check and repair
//
// Existing references need nothing but the names. Check finds dangling and one-sided
// references; Repair removes the former and completes the latter, where the single
// Owner decides against a list. Extract turns embedded documents into children with
// references, Embed turns them back; both can be stopped and run again.
//
// # Sharding
//
// Shard each collection by its _id ([Relation.ShardKey]). Parents and DeleteChild
// then ask all shards, as they look for a child in the arrays.
//
// [docs/choosing.md]: https://github.com/mongopatterns/mongopatterns/blob/main/docs/choosing.md
package relation
