// Package subset keeps the best N of many items inside their parent, and all of them
// in their own collection: the ten newest reviews of a product, the last thousand
// messages of a host.
//
// A product and one of its reviews:
//
//	{
//	  _id: 1,
//	  name: "Baseball bat",
//	  reviews: [
//	    {_id: 786, author: "Kristina", text: "...", rating: 5, date: 2019-02-18},
//	    ...                                                    // the 10 newest
//	  ],
//	  num_reviews: 4713,
//	  sum_ratings: 20266,
//	  mean_rating: 4.3
//	}
//
//	{_id: 786, product_id: 1, author: "Kristina", text: "...", rating: 5, date: 2019-02-18}
//
// These names come from this configuration; all but the count are optional:
//
//	reviews, err := subset.New[int, Review](db.Collection("products"), db.Collection("reviews"), &subset.Options{
//		ParentField: "product_id",
//		ArrayField:  "reviews",
//		Order:       bson.D{{Key: "date", Value: -1}},
//		CountField:  "num_reviews",
//		Values:      []subset.Value{{Field: "rating", Sum: "sum_ratings", Mean: "mean_rating"}},
//	})
//	err = reviews.EnsureIndexes(ctx)
//
// The five calls:
//
//	id, err := reviews.Add(ctx, 1, Review{ID: 786, Author: "Kristina", Rating: 5, Date: now})
//	newest, err := reviews.Top(ctx, 1)
//	for review, err := range reviews.All(ctx, 1) { ... }
//	err = reviews.Update(ctx, 1, 786, bson.D{{Key: "$set", Value: bson.D{{Key: "rating", Value: 4}}}})
//	err = reviews.Delete(ctx, 1, 786)
//
// The parents are your own documents: insert them, read them whole, and change their
// other fields by update operators. Change items by this package only. Order may be
// any; _id ends it, so that the best N are exactly one set. A log host, as
// $push with $slice: -1000 stores it:
//
//	logs, err := subset.New[string, Message](hosts, messages, &subset.Options{
//		ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true,
//		Order: bson.D{{Key: "time", Value: -1}},
//	})
//
// With Options.Filter only some items are kept and counted: {approved: true}.
//
// # Costs
//
// Round trips (RT) with the commit. One index: {product_id: 1, date: -1, _id: -1};
// all else goes by _id.
//
//	Add            3 RT  2 documents written; the first item of a parent: 4 RT
//	AddMany        4 RT  a batch of 1000, 1 write for each item and each parent in it; 5 if items are pushed out
//	Top, Get       1 RT  1 key, 1 document
//	All            1 RT  a batch of the cursor; 1 key and document for each item
//	Update         4 RT  2 documents written; 3 RT and 1 if the parent keeps nothing of what changes
//	Delete         3 RT  2 documents written; 5 RT and 3 if the next item follows
//	DeleteParent   3 RT  1 write for each item
//	Check          2 RT  a batch of 100 parents, all of whose items are read; and 2 scans of the items
//	Repair, Adopt  as Check, and 5 to 8 RT a batch in which parents are wrong
//
// Nothing is dropped that is stored nowhere else: each write looks whether what it
// pushes out of an array is in the collection, and adopts the parent if not. To look costs
// 1 key and 1 document in Add for each item pushed out; in AddMany and in an
// Update by which an item enters the best N, 1 RT. A write that meets a parent to adopt
// takes 8 to 12 RT more, once, and 1 write for each item of its array.
//
// # When to use it
//
// Where parents are read far more often than their items are written, and show the
// best few of many. Not for a parent that never has more than some dozens of small
// items: keep all of them in it. Not where items are written as often as parents are
// read: an Add is a transaction of two writes, and AddMany costs several times an
// InsertMany. Not for items that change place all the time (by votes): an indexed query
// is cheaper. For all items in the parent up to a limit, and the rest elsewhere, see
// package outlier; for hot and cold fields, package split.
//
// # Concurrency
//
// A write changes both collections or none, in a transaction: that of the context, or
// its own, which is run again on conflicts. Writers of one parent wait for each
// other; where very many come to one, collect the items and call AddMany. Where
// nothing else would change in a parent that must not change meanwhile, the field
// __touch is set and removed before the commit: a validator must allow it. After an
// error from a call that writes, abort your transaction.
//
// # Adoption
//
// [Subset.Adopt] is the way in, both for parents without kept items and for parents
// that hold all their items in the array: these move to the collection. It runs
// beside the programs that use this package, and beside old ones that push to the array.
// What these push is not dropped, but neither counted nor found by All until Adopt has
// run again, or a write has met it: a write to a parent that was never adopted, or that
// would drop an item that the collection lacks, adopts the parent in its own transaction.
// It is [ErrNotAdopted] only if that cannot be done.
//
// Old programs must not edit items inside the array, nor pull them out, nor replace a whole
// parent by a copy that they read before its adoption. An edited or pulled item stays as
// they have left it until a write puts others into its place: Adopt leaves the array and
// counts the parent as Remaining, Check names it as [Edited] or [Pulled], and Repair takes
// the collection as the truth and undoes it. An item that somebody deletes from the
// collection by hand returns from the array: $pull it there as well. What cannot be told: a
// replaced parent brings back items that were deleted since, and one that is deleted and
// inserted again has the items of the former as well; delete parents by DeleteParent.
//
// [Subset.Check] finds the parents that do not hold what their items say;
// [Subset.Repair] rebuilds them, all or those that Work.Filter selects. After changing an
// option run EnsureIndexes and Repair; a larger N is also filled by the next item that
// comes, leaves or changes its rank.
//
// # Sharding
//
// Shard parents by _id and items by {product_id: 1}, or {product_id: 1, _id: 1}: all
// writes are targeted. Check joins the collections by $lookup outside of
// transactions. Create the collections beforehand.
//
// # Composing
//
// ItemsFilter and Order are what package paging takes. A parent of several subsets is
// deleted by one of them, and the items of the others by their ItemsFilter, or by their
// parent field where Filter leaves out some, in one transaction.
package subset
