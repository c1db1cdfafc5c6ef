// Package tree keeps trees in a MongoDB collection in five ways: categories, folders,
// organisation charts.
//
// # Documents
//
// One node in each representation, with the default field names. [Options] has any
// other names; nothing else is stored.
//
//	ParentReferences  {_id: "MongoDB", parent: "Databases"}
//	ChildReferences   {_id: "Databases", children: ["MongoDB", "dbm"]}
//	AncestorArray     {_id: "MongoDB", ancestors: ["Books", "Programming", "Databases"], parent: "Databases"}
//	MaterializedPath  {_id: "MongoDB", path: ",Books,Programming,Databases,"}
//	NestedSets        {_id: "Databases", left: 3, right: 8, parent: "Programming"}
//
// Roots have parent null or missing, or Options.RootParent, ancestors [], path null. A leaf has
// children [].
// A collection may hold any number of roots. Trees of different owners are told
// apart by Options.Scope, fields that are part of every filter and start every
// index; make a Tree for each owner, or each request.
//
// # The main calls
//
//	cats, err := tree.New[string, Category](coll, tree.AncestorArray, nil)
//	err = cats.EnsureIndexes(ctx)
//
//	_, err = cats.Insert(ctx, Category{ID: "Databases"}, cats.Under("Programming"))
//	err = cats.Move(ctx, "Databases", cats.Under("Software")) // with all below it
//	_, err = cats.Delete(ctx, "dbm", tree.Restrict)           // or Cascade, Promote, MakeRoots
//	crumbs, err := cats.Breadcrumb(ctx, "MongoDB")            // root first
//	menu, err := cats.Subtree(ctx, "Books", 0)                // a nested value, to any depth
//
// K is the type of the IDs and T that of a whole document: a struct with the
// fields you need, bson.M or bson.Raw. Insert overwrites the tree fields of the
// document it is given, and no call saves a whole document. Update your own fields
// with the driver:
//
//	coll.UpdateOne(ctx, cats.Filter("Databases"), bson.D{{Key: "$set", Value: changes}})
//
// Each read is also a pipeline ([Tree.DescendantsPipeline], …) or a filter
// ([Tree.DescendantsFilter], …), for your own stages, Find, counting and paging. Each call
// makes a new one, which you may change.
//
// # Costs
//
// Round trips with the commit, for any number of descendants; keys examined are those
// of the result. A read is 1 while its result fits in a reply.
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
// Insert as a root is 1, in NestedSets 5. OrderField and ChildCountField cost 1 or 2 more,
// see the methods. Check, Repair, Adopt and Convert are linear in the nodes.
//
// # Which representation
//
//	                  good at                                bad at                              indexes
//	ParentReferences  few fields, cheap moves                deep trees: level by level          {parent}
//	ChildReferences   order of siblings; graphs              nodes with very many children       {children}
//	AncestorArray     reads up and down, filters             moves write every descendant        {ancestors}, {parent}
//	MaterializedPath  the same, in path order; URLs          the same; the types of IDs          {path}
//	NestedSets        ordered subtrees as one range, counts  every write moves half the tree     {left, right}, {parent, left}
//
// Take AncestorArray if in doubt: it has its descendants as a plain filter without
// reading anything. Take NestedSets only for trees that hardly ever change. Moving a node
// with 10,000 descendants is one update of 10,000 small documents; the server's limits for a
// transaction (60 s) apply. $graphLookup, which ParentReferences and ChildReferences read
// with, holds a subtree in 100 MB at most.
//
// Do not use it for two or three fixed levels: embed the children. A tree that is always
// read and written whole, and stays well under 16 MB, is simpler as one document. Graphs
// with long paths belong into a graph database; ChildReferences with Options.Graph hold
// nodes with several parents ([Tree.Link], [Tree.Parents]), and refuse cycles.
//
// A collection with a default collation is refused by EnsureIndexes, Check, Repair, Adopt and
// Convert; the other calls do not ask. Siblings are in order in ChildReferences and
// NestedSets, in the others with an Options.OrderField.
//
// # Concurrency
//
// Any number of processes may write. A move, delete, load or repair first
// increments a counter in the tree's document in Options.LockCollection, so two of them
// conflict, and the second waits and runs again on what the first left. An insertion does
// not take that lock, except in nested sets and beside ordered roots: it writes to its
// parent, so that it conflicts with whatever moves or deletes it. That write is the child
// counter, the parent's children, or a field (__touch) that the transaction takes
// off again; a validator that refuses unknown fields needs a ChildCountField.
//
// Every call joins the transaction in its context. After an error from a call that
// writes, abort your transaction. Transactions need a replica set; call EnsureIndexes once
// before, as it creates the lock document, too. Reads outside a transaction see each
// document as it is when it is read.
//
// # Adoption
//
// [Tree.Adopt] adds the fields to a collection of plain parent references; [Convert]
// changes the representation in place; [Tree.Dump], [Tree.Forest] and
// [Tree.Load] move trees in and out. [Tree.Check] finds what is wrong, and [Tree.Repair]
// derives it anew from the parent references (of a path from its last ID, of child
// references from the arrays), beside live writes. Where code is live that writes the
// parent only: run Adopt, start the new code, stop the old, and run Adopt once more and
// Repair.
//
// A node that names a parent in Options.ParentField and has no ancestors, path or numbers is
// not adopted, and it is not a root; in ChildReferences that is a node without an array that
// its parent does not list. Adopt finds its place. Until then:
//   - Insert, Load and Move under it, beside it or below it, Move and Delete of it, and Cascade
//     above it are [ErrNotAdopted], and so are Promote and MakeRoots of its parent; Restrict of
//     its parent is [ErrHasChildren]. Nothing is written. Run Adopt, with Work.Filter for one
//     node, and repeat the call. A move of what is above it is right. In NestedSets Load, and
//     Promote and MakeRoots of its parent, are right, too.
//   - Reads of what is above it, and its Subtree, are ErrNotAdopted; NestedSets read the way up
//     in the parent fields.
//   - Roots, Descendants and other sets do not hold it, and its own are empty. But AncestorArray
//     and NestedSets find children, and leaves, by the parent field, and ChildReferences find it in
//     an array that still lists it. Forest and Dump hold it; Dump of ChildReferences is
//     ErrNotAdopted.
//   - FindOrCreate finds it. Check names it. Convert takes it along, but from ChildReferences it
//     is Remaining.
//
// Old code may insert and delete nodes, and move them where the parent field decides: Check
// finds the fields that are stale then, and Repair mends them. A path and an array of children
// decide themselves; what old code moves stays where it is. A document that old code replaces
// loses the derived fields, and Adopt gives it new ones. Not so in ChildReferences: there the
// children of a node that old code replaces are roots until Adopt has run, and those of one that
// it deletes stay roots, so let it use $set, and delete leaves only.
//
// # Sharding
//
// [Tree.ShardKey] is the scope, so that one tree lives on one shard, or the ID without a
// scope; writes to one document name it. With a scope the locks have the same key, and with the
// same zones or chunks each write commits on one shard. Without one the lock lies on one shard
// and the nodes on all: a write that takes it is a two-phase commit of mostly two shards or more.
//
// There MongoDB refuses $graphLookup in transactions, and $lookup before 8.0. Move, Cascade and
// Link in ParentReferences and ChildReferences ask level by level instead, a round trip for each
// level above or below, and 1 more; the first such call of a Tree runs its transaction twice, and
// in a transaction of yours it fails once with the server's error: run that again. Reads that join
// are refused in a transaction there: Ancestors, Breadcrumb, Parent, Siblings and Leaves; Preorder,
// Subtree and Descendants but in AncestorArray; Children in MaterializedPath and ChildReferences,
// and Roots in the latter. DescendantsFilter with a Find of your own is not, in AncestorArray,
// MaterializedPath and NestedSets, nor are Depth, IsDescendant and AncestorsFilter in the first two.
package tree
