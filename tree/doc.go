// Package tree stores trees, such as categories, folders and organisation charts, in a MongoDB collection
// in one of five representations.
//
// # When to use it, and when not
//
// Use it to read everything below a node, or the way from a node up to the root, at any depth. If there
// are two or three fixed levels, embed the children instead. A tree that is always read and written
// whole, and stays well under 16 MB, is simpler as one document. Graphs with long paths belong in a graph
// database, but ChildReferences with Options.Graph allow nodes with several parents ([Tree.Link],
// [Tree.Parents]) and refuse cycles.
//
//	                  good at                                bad at                              indexes
//	ParentReferences  few fields, cheap moves                deep trees: level by level          {parent}
//	ChildReferences   order of siblings; graphs              nodes with very many children       {children}
//	AncestorArray     reads up and down, filters             moves write every descendant        {ancestors}, {parent}
//	MaterializedPath  the same, in path order; URLs          the same; the types of IDs          {path}, with slugs {path, slug}
//	NestedSets        ordered subtrees as one range, counts  every write moves half the tree     {left, right}, {parent, left}
//
// If in doubt, take AncestorArray, because a plain filter selects descendants without reading anything
// first. Take NestedSets only for trees that hardly ever change. With AncestorArray and MaterializedPath,
// moving a node with 10,000 descendants is one update of 10,000 small documents, which must finish within
// the server's limit for a transaction (60 s). ParentReferences and ChildReferences read with $graphLookup,
// which can hold a subtree of at most 100 MB, and a level whose IDs have at most 16 MB. [Convert] changes
// the representation later.
//
// # Documents
//
// Each line is one node, with the default field names. [Options] can change the names; no other fields are
// stored.
//
//	ParentReferences  {_id: "MongoDB", parent: "Databases"}
//	ChildReferences   {_id: "Databases", children: ["MongoDB", "dbm"]}
//	AncestorArray     {_id: "MongoDB", ancestors: ["Books", "Programming", "Databases"], parent: "Databases"}
//	MaterializedPath  {_id: "MongoDB", path: ",Books,Programming,Databases,"}
//	NestedSets        {_id: "Databases", left: 3, right: 8, parent: "Programming"}
//
// A root has a null or missing parent, or Options.RootParent. Its ancestors are [], and its path is null, or
// the delimiter if Options.SegmentField is set. A leaf has the children [].
//
// With Options.SegmentField a path has readable names instead of IDs, like a URL:
//
//	// {_id: ObjectId("…"), slug: "databases", path: "/books/programming/"}
//	cats, err := tree.New[bson.ObjectID, Page](coll, tree.MaterializedPath, &tree.Options{SegmentField: "slug", PathDelimiter: "/"})
//
// The path of a node is its parent's path plus the parent's slug, and the path of a root is the delimiter. A
// slug is a string that is not empty and does not contain the delimiter. EnsureIndexes creates a unique
// index, so a second sibling with the same slug is a duplicate key error. To find the node of a URL, query
// {path, slug}. [Tree.Rename] changes a slug and the paths below it. Do not set a slug with the driver,
// because the nodes below would become orphans.
//
// A collection may hold any number of roots. To separate the trees of different owners, set Options.Scope,
// whose fields are part of every filter and start every index. Make a Tree for each owner, or for each
// request, because New does no I/O.
//
// # The main calls
//
//	cats, err := tree.New[string, Category](coll, tree.AncestorArray, nil)
//	err = cats.EnsureIndexes(ctx) // once, before the first write: it also creates the lock document
//
//	_, err = cats.Insert(ctx, Category{ID: "Programming"}, cats.AsRoot()) // Position has the others: Before, After, First
//	_, err = cats.Insert(ctx, Category{ID: "Databases"}, cats.Under("Programming"))
//	err = cats.Move(ctx, "Databases", cats.Under("Software")) // with all below it
//	_, err = cats.Delete(ctx, "dbm", mongopatterns.Restrict)
//	crumbs, err := cats.Breadcrumb(ctx, "MongoDB") // root first
//	menu, err := cats.Subtree(ctx, "Books", 0)     // a nested value; 0: all levels
//
// ID, here string, is the type of the IDs. T, here Category, is the type of a whole document: a struct with
// the fields you need, bson.M or bson.Raw. It may have the tree fields, such as Ancestors []string. Insert
// overwrites them, and no call saves a whole document. Update your own fields with the driver:
//
//	coll.UpdateOne(ctx, cats.Filter("Databases"), bson.D{{Key: "$set", Value: changes}})
//
// ID may be a type of your own, such as type CategoryID string. A type made from bson.ObjectID needs the
// two methods of the [example of New with typed IDs], because without them the driver stores it as binary
// data.
//
// If a node has children, Restrict refuses to delete it, Cascade deletes all below it, Promote puts the
// children in its place, and Unlink makes them roots.
//
// Each read is also available as a pipeline ([Tree.DescendantsPipeline], …) or a filter
// ([Tree.DescendantsFilter], …), for your own stages, Find, counting and paging. Each call returns a new
// one, which you may change. ChildReferences and NestedSets keep siblings in order, and the others do if
// you set Options.OrderField. The roots of ChildReferences have no order, because no parent lists them.
//
// # Pages of a category and all below it
//
// To page over the nodes themselves, give the DescendantsFilter of AncestorArray or MaterializedPath to
// package paging. To page over documents of another collection that name their category, read the IDs first:
//
//	below, err := cats.DescendantsFilter(ctx, "Storage", 0)
//	err = coll.Distinct(ctx, "_id", below).Decode(&ids) // a strict server API refuses it: use Find, with a projection
//	filter := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: append(ids, "Storage")}}}}
//	page, err := products.Page(ctx, filter, req) // a paging.Pager with Equality: []string{"category"}
//
// If Storage does not exist, the page is empty, while Breadcrumb and Subtree return ErrNotFound. A category that is
// added or moved below it changes the filter. Then paging answers tokens of earlier pages with ErrInvalidToken, and
// the reader begins again. The manual of paging says when each product had better hold the ancestors of its
// category.
//
// Delete with Restrict sees nodes, not documents of other collections. To keep a category from being deleted while a
// product is in it, $inc a counter of the category in the transaction that inserts a product, and read that counter
// in the transaction that deletes the category.
//
// # Concurrency
//
// Any number of processes may write. A move, rename, delete, load or repair first increments a number in
// the tree's document in Options.LockCollection. So two such calls conflict, and the second waits and
// runs again on the result of the first. An insertion takes that lock in nested sets, as an
// ordered root, and Before or After a sibling. Otherwise it writes to its parent, so that it conflicts with a
// move or deletion of the parent. That write changes the child count, the parent's children, or a field
// (__touch) that the same transaction removes again; if a validator refuses unknown fields, set
// Options.ChildCountField.
//
// Every call joins the transaction in its context, but some cannot on two shards (docs/shards.csv). After an error from a call that writes, abort your
// transaction. Transactions need a replica set. A read of several documents outside a transaction may mix
// states before and after a concurrent write.
//
// # Failures
//
// If no node has an ID, writes to that node, and reads of it or of the nodes above it, return
// [mongopatterns.ErrNotFound]. Children, Descendants and other sets are empty. Insert, Move and Load under it
// return [mongopatterns.ErrNoParent].
//
// Delete with Restrict returns [mongopatterns.ErrReferenced] if the node has children. A move below the node
// itself returns [ErrCycle], and so do Insert and Load of a node below its own orphans, with the limit that Insert names.
// Parent of a root returns [ErrIsRoot]. Insert of an ID that exists returns [mongopatterns.ErrExists]. For a node
// without its tree fields, calls return [mongopatterns.ErrNotAdopted] (see Adoption). After these errors nothing is
// written, except that Load keeps its earlier batches. In a transaction that is not Transact's, abort it: Delete looks
// for children after it has deleted.
//
// EnsureIndexes, Check, Repair, Adopt and Convert refuse a collection with a default collation. The other
// calls do not look for one.
//
// # Costs
//
// Round trips, including the commit, for any number of descendants. Only the keys of the result are
// examined. A read takes 1 round trip as long as its result fits in one reply.
//
//	                  Insert  Move          Delete          documents written by a move,
//	                  under   under / root  leaf, Promote,  and the lock
//	                                        Cascade
//	ParentReferences  3       5 / 4         4, 5, 4         1
//	ChildReferences   3       5 / 4         5, 5, 6         the old and the new parent
//	AncestorArray     3       4 / 4         4, 5, 4         the subtree
//	MaterializedPath  3       4 / 4         4, 5, 4         the subtree
//	NestedSets        5       4 / 6         5, 5, 5         all between the old and the new place
//
// Insert as a root is 1, in NestedSets 5. OrderField and ChildCountField cost 1 or 2 more, as the methods
// say. Check, Repair, Adopt and Convert are linear in the nodes.
//
// # Adoption
//
// [Tree.Adopt] adds the fields to a collection of plain parent references, and [Convert] changes the
// representation in place. [Tree.Dump], [Tree.Forest] and [Tree.Load] export and import trees. [Tree.Check] finds
// wrong fields, and [Tree.Repair] computes them again from the parent references, while others write. In a path
// the parent reference is the last ID, and in ChildReferences the arrays are. A node with a path of slugs has no
// other reference to its parent. If the path does not lead to a node, Repair can only make the node a root.
//
// If old code that writes only the parent is running, run Adopt, start the new code, stop the old code, and then
// run Adopt again and Repair.
//
// A node that names a parent in Options.ParentField but lacks its ancestors, path or numbers is not
// adopted. It is not a root. In ChildReferences a node is not adopted if it names a parent, has no array of
// children and is not listed by its parent. Adopt puts such a node in its place. Until then:
//   - These calls return [mongopatterns.ErrNotAdopted]: Insert, Load and Move under it, beside it or below
//     it; Move and Delete of it; Cascade above it; Promote and Unlink of its parent. Restrict of its parent
//     returns [mongopatterns.ErrReferenced]. Nothing is written. Run Adopt, with Work.Filter if it is only
//     one node, and repeat the call. Moving a node above it works. In NestedSets, Load works too, and so do
//     Promote and Unlink of its parent.
//   - Reads of its ancestors, and its Subtree, return ErrNotAdopted. Only NestedSets read its ancestors,
//     by the parent fields.
//   - Roots, Descendants and other reads of sets do not contain it, and its own sets are empty. But
//     AncestorArray and NestedSets find children and leaves by the parent field, and ChildReferences find
//     it in an array that still lists it. Forest and Dump contain it, except that Dump of ChildReferences
//     returns ErrNotAdopted.
//   - FindOrInsert finds it, and Check reports it. Convert converts it, but counts it as Remaining
//     if it converts from ChildReferences.
//
// Old code may insert and delete nodes. It may also move nodes in the representations where the parent
// field decides. Check then finds the stale fields, and Repair corrects them. In MaterializedPath and
// ChildReferences the path or the array of children decides, and a change of the parent field does not
// move a node. A document that old code replaces loses the derived fields, and Adopt adds them again. In
// ChildReferences, however, the children of a node that old code replaces are roots until Adopt has run,
// and the children of a node that it deletes stay roots. So there old code should use $set, and delete
// only leaves. Repair takes the ID of a deleted leaf out of its parent's array. Until then do not insert that ID
// again, because arrays would then contain it twice.
//
// # Sharding
//
// [Tree.ShardKey] is the scope, so that one tree is on one shard, or without a scope the ID. The filter of
// a write to one document contains this key. With a scope the lock collection has the same shard key, so
// with the same zones or chunks each write commits on one shard. Without a scope the lock is on one shard
// and the nodes are on all. Then a write that takes the lock is usually a two-phase commit of two shards or
// more, and MongoDB refuses the unique index of a SegmentField.
//
// On a sharded collection MongoDB refuses $graphLookup in transactions, and before 8.0 also $lookup. Move, Cascade
// and Link in ParentReferences and ChildReferences read level by level instead, with a round trip for each level
// above or below, and 1 more. Convert from ChildReferences to a tree with ordered roots reads all nodes into memory
// instead. The first such call of a Tree runs its transaction twice. In a transaction of yours it fails once with
// the server's error, and you have to run the transaction again.
//
// In a transaction on a sharded collection MongoDB refuses these reads, because they join: Ancestors,
// Breadcrumb, Parent, Siblings and Leaves; Preorder, Subtree and Descendants, except in AncestorArray;
// Children in MaterializedPath and ChildReferences; and Roots in ChildReferences. It allows
// DescendantsFilter with a Find of your own in AncestorArray, MaterializedPath and NestedSets, and
// IsDescendant and AncestorsFilter in AncestorArray and MaterializedPath.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of New with typed IDs]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/relation#example-New-TypedID
package tree

// Notes for those who change this package.
//
//	| files | hold |
//	|---|---|
//	| `tree.go`, `options.go`, `store.go` | what New makes: `Tree`, `core`, and `store` with the reads and writes that all calls use |
//	| `document.go`, `ids.go`, `segments.go` | what is parsed from a document and encoded for one, IDs, paths |
//	| `representation.go` | the interfaces between the calls and the five representations |
//	| `parent.go`, `ancestors.go`, `path.go`, `nested.go` | four representations, in which a node names one parent |
//	| `parented.go`, `oneparent*.go`, `order.go` | what these four have in common: reads, writes, the order of siblings |
//	| `children*.go`, `graph.go` | ChildReferences |
//	| `bare.go`, `lock.go`, `levels.go`, `pipelines.go` | nodes of old code, the lock, reads level by level, stages |
//	| `write.go`, `position.go`, `names.go`, `load.go`, `dump.go` | the calls that write, and Dump |
//	| `read*.go` | the calls that read |
//	| `maintain.go`, `adopt.go`, `convert.go` | Check and Repair, Adopt, Convert |
//	| `engine.go`, `places.go`, `cycles.go`, `findings.go`, `*_repair.go`, `children_adopt.go` | the engine behind these four |
//
// The words of this package:
//
//	under, below  one level down; any number of levels down
//	to name       to hold a reference to a parent, or to children
//	to list       to name in an array of children
//	reference     what a node holds to name another; ref in names of the code
//	to derive     to compute a field from the parent that a node names
//	link          an edge between a parent and a child, in a graph
//	bare          of a node that names a parent and lacks the derived field: see bare.go
//	not adopted   bare, and in ChildReferences not listed by the parent that it names
//	layout        the names of the fields of a representation, and what it can tell
//	position      where Insert and Move put a node; its anchor is the parent or sibling that it gives. A foundPosition is
//	              one whose nodes were read
//	order         what sorts siblings: a number in a field, or the offset in a list
//	count         of children, in the ChildCountField
//	lock, epoch   the document that restructurings write; the number in it, which they increment
//	engine        Check, Repair, Adopt and Convert: one scan over all nodes
//	place         where the engine has found a node, always named at; its way up is the places above
//	piece         the keys of a node that was read, from which nested values are assembled
//
//   - One type over five representations, as the operations are the same and converting between representations is one
//     of them. In four of them there is one truth, the parent that a node names: in a field, or in the last segment of
//     its path. Ancestors, paths and numbers are derived from it. ChildReferences are the exception, as nodes name
//     their children and a graph has several parents: they are `lists`, with reads, writes and parts of the engine of
//     their own, behind the same interface `shape`. Few others ask whether a tree has lists: Load, and what computes places.
//   - A `representation` is nine small functions, and nobody else knows which fields it has:
//
//	| function | says | used by |
//	|---|---|---|
//	| `parent` | the parent that a node names, the truth | everything |
//	| `fieldsUnder` | what a node holds under a parent | Insert, Move, Load, Check, Repair, Adopt, Convert |
//	| `updatesBelow` | the updates of a subtree whose top moves | Move, Rename, Repair |
//	| `handOver` | the updates of a subtree whose top is deleted and leaves its children to another node | Delete |
//	| `refExpr` | what the children of a node hold to name it, as an expression | Children, Leaves |
//	| `up`, `above` | the nodes above, and their IDs where the node tells them | Ancestors, Parent; IsDescendant, the test for cycles |
//	| `down`, `descendantsMatch` | the nodes below, as a pipeline and as a filter | Descendants, Subtree; filters, Cascade |
//
//     `oneParent` (`oneparent*.go`) writes Insert, Move and Delete once on them, and the engine Check, Repair, Adopt and
//     Convert. So a Move is read in `oneparent.go` and in the `fieldsUnder` and `updatesBelow` of one more file: nothing
//     for parent references, one update of the descendants' beginning for arrays and paths.
//   - In `oneparent*.go` and `parented.go` a call of a function that differs by representation, or by the order of siblings,
//     names the interface, as in `s.representation.fieldsUnder` and `s.siblingOrder.orderAt`. The other functions are of
//     `oneParent`, `parented` and `store`.
//   - The order of siblings is a second question, with two answers: gaps in an OrderField, and the numbers of
//     NestedSets. So nested sets are parent references whose siblings are numbered in a way that makes a subtree a
//     range; what a Move shifts is in `numbers.swap`, and `liesBelow` finds a cycle.
//   - Stored documents have the literature's fields and no other. The lock lives in a collection beside it, so that
//     `Roots` and users' queries never meet them.
//   - Moves, deletes, loads and repairs begin with a real `$inc` of the tree's lock document; snapshot isolation alone
//     lets two opposite moves make a cycle. The identity of the lock is that of the scope to the server: 1, 1.0 and
//     int64(1) are one lock. Waiters pause at random up to 50 ms, and not longer the longer they wait.
//   - The lock document holds the scope, so that a lock collection that is sharded by it, with the tree's zones, has
//     each lock on the shard of its tree. A field in the tree's own collection was weighed: Roots and users' queries
//     would meet it.
//   - $graphLookup is one round trip for any depth, but a sharded collection refuses it in a transaction. The refusal
//     itself tells: from then on the Tree asks level by level. To ask the server first would cost every Tree a round
//     trip.
//   - An insertion does not take the lock. It marks its parent, and one further command inserts the child (as an
//     upsert that matches nothing) and takes the mark off. All updates are `updateMany`, as the driver sends one
//     command only for updates of one kind.
//   - Check, Repair, Adopt and Convert are one engine: one scan ordered by `_id` with a memo of the ways up, which is
//     valid while the lock's epoch stands still; suspects are looked at again, in a snapshot or with the lock. It
//     is linear in the nodes. What the calls do differently is their `mode`, in `engine.go`.
//   - A derived field that is missing beside a parent says that a node is not adopted, and nothing else: it is no root
//     and no leaf. Nothing is guessed for such a node: what needs its place refuses, and Adopt writes it. Cascade asks
//     for such nodes before it deletes by the derived field, which is a round trip more in AncestorArray and
//     ChildReferences.
//   - Delete refuses a node without its derived field even if it names no parent. It may be a document of another
//     representation, with children that only that one names. A missing parent field and a missing list say nothing,
//     as roots and leaves may lack them: there Delete cannot tell.
//   - Repair cuts a cycle where something leads into it, so that nothing reachable is lost.
//   - Descendants of an ancestor array are a find and not an aggregation: the first of 10,000 comes in half a
//     millisecond instead of tens, in no order. `Preorder` is for order.
//   - Only IDs go from data into filters (`anyOf`): in `$in` the server reads a regular expression as a pattern. So
//     does `$graphLookup`, where nothing can be filtered on the way. Up, a chain, what comes after such a parent is
//     cut off by its depth. Down in lists the node is passed over; Cascade takes the superset and keeps what the lists
//     reach.
//   - Path: descendants are the range [",A,", ",A-"), not a regular expression: exact bounds without escaping, the
//     same in `$expr`.
//   - Orders are sparse int64 with gaps of 65,536; when a gap is used up the siblings after it move by one `$inc`.
//     Fractional orders were weighed: they run out of digits without a word.
