// Package tree keeps trees in a MongoDB collection: categories, folders,
// organisation charts. One type works on five ways of storing them.
//
// # The problem
//
// A document database has no recursive join, so the shape of a tree is stored in
// the documents, and the fields that make reads fast (ancestors, paths, numbers)
// are copies that every move and delete has to keep right, also when two of them
// happen at once: A moved under B while B moves under A leaves a ring that no
// root leads to. A Tree writes these fields in transactions that exclude that,
// reads them in one round trip, and can check, mend and convert what is there.
// The documents are yours; the driver stays in your hands for everything else.
//
// # The main calls
//
//	cats, err := tree.New[string, Category](coll, tree.AncestorArray, nil)
//	err = cats.EnsureIndexes(ctx)
//
//	_, err = cats.Insert(ctx, Category{ID: "Databases"}, cats.Under("Programming"))
//	err = cats.Move(ctx, "Databases", cats.Under("Software")) // with all below it
//	crumbs, err := cats.Breadcrumb(ctx, "MongoDB")            // root first
//	for c, err := range cats.Descendants(ctx, "Programming", nil) {
//		// …
//	}
//	menu, err := cats.Subtree(ctx, "Books", nil) // a nested value
//
// K is the type of the IDs and T that of a whole document: a struct with the
// fields you need, bson.M or bson.Raw. Insert overwrites the tree fields of the
// document it is given, and no call saves a whole document, so a copy read
// before a move does no harm. Update your own fields with the driver:
//
//	coll.UpdateOne(ctx, cats.Filter("Databases"), bson.D{{Key: "$set", Value: changes}})
//
// Deleting is Delete with a policy: [Restrict], [Cascade], [Promote] or
// [MakeRoots].
//
// # Documents
//
// These are the documents of one node in each representation, with the default
// field names. Any other names can be set in [Options]; nothing else is stored.
//
//	ParentReferences  {_id: "MongoDB", parent: "Databases"}
//	ChildReferences   {_id: "Databases", children: ["MongoDB", "dbm"]}
//	AncestorArray     {_id: "MongoDB", ancestors: ["Books", "Programming", "Databases"], parent: "Databases"}
//	MaterializedPath  {_id: "MongoDB", path: ",Books,Programming,Databases,"}
//	NestedSets        {_id: "Databases", left: 3, right: 8, parent: "Programming"}
//
// Roots have parent null or missing, ancestors [], path null. A leaf has
// children []. A node whose parent is an array is an orphan, which no write takes
// for a child; only Children, Roots and their filters, being plain equalities, match
// the array's elements. One collection may hold any number of roots; trees of
// different owners are told apart by Options.Scope, fields that become part of every
// filter and start every index:
//
//	func categories(tenant string) (*tree.Tree[string, Category], error) {
//		return tree.New[string, Category](coll, tree.AncestorArray, &tree.Options{
//			Scope: bson.D{{Key: "tenant", Value: tenant}}})
//	}
//
// A Tree holds nothing but its options, so make one for each tenant, or for each
// request. The indexes are the same for all: EnsureIndexes of one tenant's Tree,
// once, is enough.
//
// # Which representation
//
//	                  good at                                bad at
//	ParentReferences  few fields, cheap moves                deep trees: reads walk level by level
//	ChildReferences   order of siblings; graphs              nodes with very many children
//	AncestorArray     reads up and down, filters             moves write every descendant
//	MaterializedPath  the same, in path order; URLs          the same; segments are limited
//	NestedSets        ordered subtrees as one range, counts  every write moves half the tree, one at a time
//
// Take AncestorArray if in doubt: it alone has its descendants as a plain filter
// without reading anything first. Take NestedSets only for trees that hardly
// ever change.
//
// # Indexes
//
//	ParentReferences  {parent: 1}
//	ChildReferences   {children: 1}
//	AncestorArray     {ancestors: 1}, {parent: 1}
//	MaterializedPath  {path: 1}; with a SegmentField {path: 1, segment: 1} unique
//	NestedSets        {left: 1, right: 1}, {parent: 1, left: 1}
//
// The fields of the scope come first, OrderField comes after parent or path, and
// an IDField other than _id has a unique index.
//
// # Costs
//
// Every read is one round trip while its result fits in one reply of 16 MB. The
// round trips of writes, the commit included, do not depend on the size of the
// subtree:
//
//	                  Insert  Insert  Move       Delete   Delete   documents written by a move
//	                  root    under   under/root leaf     Promote  (the lock is one more)
//	ParentReferences  1       4       6 / 4      5        7        1
//	ChildReferences   1       4       7 / 5      6        6        2: the old and the new parent
//	AncestorArray     1       4       6 / 5      5        7        the subtree
//	MaterializedPath  1       4       6 / 5      5        7        the subtree
//	NestedSets        5       5       6 / 7      6        6        all between the old and the new place
//
// Insert under a parent has 3 round trips with a ChildCountField. With an
// OrderField a move adds 1, and 1 more under a parent without a ChildCountField;
// a SegmentField adds 1 to Promote and MakeRoots. Moving a node of an ancestor
// array with 10,000 descendants is one update of 10,000 small documents; the
// server's limits for a transaction (60 s) apply. A parent or
// child reference tree is read with $graphLookup, which holds the subtree in at
// most 100 MB of memory.
//
// # Composing
//
// Each read exists as a pipeline without I/O ([Tree.DescendantsPipeline], …) to
// be continued with your stages, and the sets of nodes as a filter
// ([Tree.DescendantsFilter], …) for Find, counting and paging:
//
//	match, err := cats.DescendantsFilter(ctx, "Programming", nil)
//	n, err := coll.CountDocuments(ctx, match)
//
// What another collection holds below a node, products of categories, is found
// by the IDs:
//
//	var below []string
//	err = coll.Distinct(ctx, "_id", match).Decode(&below)
//	in := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: append(below, "Programming")}}}}
//	cursor, err := products.Find(ctx, in)
//
// A filter is made without I/O where the representation allows it, otherwise
// from one read; the methods say which. A paging token is bound to its filter:
// the filters of AncestorArray stay, those of MaterializedPath change when the
// node or one above it moves, and all others hold IDs or numbers and change with
// the tree, as does an $in of IDs. Depth and counts are
// append(pipeline, {$count: "n"}). The whole tree in path order is a Find sorted
// by path. Inside pipelines the fields __depth, __start, __self, __tree and
// __touch are the package's.
//
// # Order of siblings
//
// ChildReferences and NestedSets are ordered. The others are with an
// Options.OrderField: numbers with gaps, so that an insertion between two nodes
// writes one document; when a gap is used up the siblings behind it move by one
// $inc. [Position] has First (of Under and AsRoot), [Tree.Before] and
// [Tree.After]; without them a node comes last.
//
// # Concurrency
//
// Any number of processes may write. A move, delete, rename, load or repair
// first increments a counter in the tree's document in Options.LockCollection
// (one for each scope; scopes that the server holds equal share it, whatever the
// BSON type of their numbers or the order of their fields), so two of them
// conflict and the second runs again on what the first left. The filters of its writes name the state it read.
//
// An insertion does not take that lock, except in nested sets and beside
// ordered roots: it writes to its parent instead, so that it conflicts with
// whatever moves or deletes the parent and its ancestors' arrays or paths. The
// write is the child counter, the parent's children, or else a temporary field
// (__touch) that the same transaction takes off again; a validator that refuses
// unknown fields needs a ChildCountField. With an OrderField a move, Promote and
// Load write to the new parent in the same way, so that no two nodes get one
// position.
//
// Transactions ask for snapshot reads and majority writes, are retried as the
// driver does, and join one that runs in the context already: several calls can
// be one unit with your own writes. They need a replica set or sharded cluster;
// a standalone server gets [ErrTransactionsUnsupported] from what needs them.
// Reads outside a transaction see each document as it is when it is read.
//
// A transaction of yours may go on after a refusal ([ErrCycle],
// [ErrHasChildren], [ErrNotFound], one that names Repair, …): the call leaves
// nothing but a raised counter in the lock document. Two kinds of errors end it:
// those of the server, a duplicate key too, which has aborted it; and that of
// Delete with Cascade in NestedSets which counted other nodes than the numbers
// say, as they are deleted by then. What Load, Adopt, Convert and Repair have
// done in earlier batches is part of it.
//
// Call [Tree.EnsureIndexes] once before the first write: it also creates the
// lock document, and with it the lock collection.
//
// # Maintenance
//
// [Tree.Check] streams what is wrong: orphans, cycles, wrong ancestors, paths,
// numbers, counters and positions. [Tree.Repair] mends it, deriving everything
// from the parent references (of a path from its last segment, of child
// references from the arrays), beside live writes. [Tree.Adopt] adds the fields
// to a collection of plain parent references; [Convert] changes the
// representation in place or by copying; [Tree.Dump], [Tree.Load] and
// [Tree.LoadNodes] move trees in and out. All work in bounded batches, report
// progress, and can be run again after an interruption. They read from the
// primary.
//
// Adopting where code is live that writes the parent only: run Adopt, start the
// new code, stop the old, and run Adopt once more and Repair. Once
// MaterializedPath or ChildReferences have a node, its parent field counts for
// nothing.
//
// # Paths
//
// A path names the ancestors, with the delimiter at both ends; so the
// descendants of A are the range from ",A," to ",A-" ("-" follows ","), an exact
// range of the index which ",AB," is outside of. By default a node's segment is
// its ID: a string without the delimiter, an integer or an ObjectID in hex, all
// of one type in one tree. With Options.SegmentField it is a name of its own,
// unique among siblings, that [Tree.Rename] changes. The collection must not
// have a collation, as ranges of strings would follow it.
//
// # Graphs
//
// With Options.Graph a node of ChildReferences may have several parents; see
// [Tree.Link], [Tree.Unlink] and [Tree.Parents]. Cycles are refused. Ancestors
// then come farthest first, and each node once.
//
// # Sharding
//
// [Tree.ShardKey] is the scope, so that one tree lives on one shard, or the ID
// without a scope; writes to one document name it. A SegmentField without a
// scope has a unique index that a sharded collection refuses.
//
// On a sharded collection MongoDB takes $lookup inside a transaction from 8.0
// on, and refuses $graphLookup there (server error 3904801). So these fail on
// one: moves and Delete with Cascade in ParentReferences and ChildReferences,
// Link, Adopt, and Check, Repair and Convert in place, which MaterializedPath
// alone has from 8.0 on as it needs no more than $lookup.
//
// # When not to use it
//
// For two or three fixed levels embed the children. For general graphs with
// long paths use a graph database. For trees that are always read and written
// whole, and stay well under 16 MB, one document is simpler.
package tree
