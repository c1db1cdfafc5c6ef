// Package subset keeps the best N of many items inside their parent, and all of them in a collection of
// their own: the ten newest reviews of a product, the last thousand messages of a host.
//
// # When to use it, and when not
//
// Use it where parents are read far more often than their items are written, and show the best few of
// many. Do not use it:
//
//   - For parents that never have more than a few dozen small items. Keep all of them in the
//     parent.
//   - Where items are written as often as parents are read. An Insert is a transaction of two writes,
//     and InsertMany costs several times as much as the driver's.
//   - For items whose rank changes all the time, for example by votes. An indexed query is cheaper.
//
// To keep all items in the parent up to a limit and the rest elsewhere, see package outlier. To separate
// hot and cold fields, see package split.
//
// # Documents
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
// The array and the count are always kept. The sum and the mean are kept because Options.Values asks for them. A
// parent that never had an item may lack all of these fields, or have a null or empty array. Adopt does not write
// such a parent, so a query for {num_reviews: 0} does not find it. If you need that query, insert parents with []
// and 0.
//
// # The calls
//
//	type Review struct {
//		ID     int       `bson:"_id"`
//		Author string    `bson:"author"`
//		Text   string    `bson:"text"`
//		Rating int       `bson:"rating"`
//		Date   time.Time `bson:"date"`
//	}
//
//	reviews, err := subset.New[int, Review](db.Collection("products"), db.Collection("reviews"), &subset.Options{
//		ParentField: "product_id",
//		ArrayField:  "reviews",
//		N:           10, // the default
//		Sort:        bson.D{{Key: "date", Value: -1}},
//		CountField:  "num_reviews",
//		Values:      []subset.Value{{Field: "rating", Sum: "sum_ratings", Mean: "mean_rating"}},
//	})
//	err = reviews.EnsureIndexes(ctx)
//
//	id, err := reviews.Insert(ctx, 1, Review{ID: 786, Author: "Kristina", Rating: 5, Date: now})
//	newest, err := reviews.Top(ctx, 1)
//	for review, err := range reviews.All(ctx, 1) { ... }
//	err = reviews.Update(ctx, 1, 786, bson.D{{Key: "$set", Value: bson.D{{Key: "rating", Value: 4}}}})
//	err = reviews.Delete(ctx, 1, 786)
//
// int is the type of the products' _id. The parents are your own documents. Insert them, read them whole, and
// change their other fields with update operators. Change items only with this package, and copies in them with
// package extref, to which the array is a second target (docs/together.md). An Insert for a parent that does not
// exist returns [mongopatterns.ErrNoParent].
//
// Insert gives an item an ObjectID only if the item encodes without an _id. To get one, tag the field
// bson:"_id,omitempty", because a zero ID is stored as it is.
//
// Sort may be any order. _id is added as its last field, so that the best N are always the same items. With
// Options.Filter, such as {approved: true}, only some items are kept in the parent and counted. This stores the
// messages of a log host as $push with $slice: -1000 would:
//
//	logs, err := subset.New[string, Message](hosts, messages, &subset.Options{
//		ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true,
//		Sort: bson.D{{Key: "time", Value: -1}},
//	})
//
// To read all items by pages, pass the results of ItemsFilter and Sort to package paging.
//
// To delete a parent with several subsets, call DeleteParent of one, and delete the items of the others by
// their ItemsFilter in the same transaction. If Options.Filter leaves out some items, delete by their
// parent field instead. If the parent has a history, call Delete of versioning in place of DeleteParent. An
// Insert at the same time conflicts with the deletion, is run again, and then finds no parent.
//
// # Concurrency
//
// A write changes both collections or none. It uses the transaction of the context, or its own, which is
// run again on conflicts. Writers of one parent wait for each other, those of one process in the order in which they
// came. If very many write to the same parent, collect the items and call InsertMany. If a write must lock a parent
// without changing it, or an item that it copies into an array, it sets the field __touch and removes it before the
// commit; a validator must allow this field. After an error from a call that writes, abort your transaction.
//
// # Failures
//
// If the answer to a write was lost, the write is done as a whole or not at all. If the first one was done,
// a repeated Delete returns [mongopatterns.ErrNotFound], and a repeated Insert returns
// [mongopatterns.ErrExists] if the item has an _id of yours. Without one it stores a second item. An Update
// can be repeated if its operators can be ($set, not $inc).
//
// Keep items well below 16 MB. A server with a small cache may refuse to Update a larger one, with
// TransactionTooLargeForCache. Nothing is written then.
//
// # Costs
//
// Round trips (RT) include the commit. Items are found by the index {product_id: 1, date: -1, _id: -1},
// everything else by _id.
//
//	Insert         3 RT  2 documents written; the first item of a parent: 4 RT
//	InsertMany     4 RT  a batch of 1000, 1 write for each item and each parent in it; 5 if items are pushed out
//	Top, Get       1 RT  1 key, 1 document
//	All            1 RT  a batch of the cursor; 1 key and document for each item
//	Update         4 RT  2 documents written; 3 RT and 1 if the parent keeps nothing of what changes
//	Delete         3 RT  2 documents written; 6 RT and 5 writes if the next item follows
//	DeleteParent   3 RT  1 write for each item
//	Check          2 RT  a batch of 100 parents, all of whose items are read; and 2 scans of the items
//	Repair, Adopt  as Check, and 5 to 8 RT a batch in which parents are wrong
//
// Each write checks that the items that it pushes out of an array are in the collection. The check costs
// Insert 1 key and 1 document for each of them. It costs 1 RT in InsertMany, and in an Update that brings
// an item into the best N. The first write to a parent that has to be adopted takes 8 to 12 RT more, and 1
// write for each item of its array. If a sum becomes infinite or shrinks to less than a thousandth, the
// write computes it from all items of the parent ([Value]). This costs 2 RT and 1 write more, in Update up
// to 3 RT, in InsertMany 4 RT.
//
// # Adoption and maintenance
//
// [Subset.Adopt] brings existing data into this form. It takes parents without kept items, and parents
// that hold all their items in the array, and also stores these items in the collection. It may run
// while programs use this package, and while old programs push to the array.
//
// Nothing is dropped that is stored nowhere else. An item that an old program has pushed stays in the
// array, but is neither counted nor yielded by All until its parent is adopted again: by Adopt, or by a
// write of this package. A write adopts a parent, in its own transaction, if the parent was never adopted
// or if the write would drop an item that the collection lacks. If that fails, the write returns
// [mongopatterns.ErrNotAdopted].
//
// Old programs must not edit items inside the array, pull them from it, or replace a whole parent by a
// copy that they read before its adoption. If they do:
//
//   - An edited or pulled item stays as they left it until a write replaces it. Adopt leaves the array
//     alone and counts the parent as Remaining, Check reports it as [mongopatterns.Edited] or [Pulled], and Repair
//     undoes the change, because it takes the collection as the truth.
//   - A replaced parent brings items back that were deleted since. This cannot be detected.
//   - Items without an _id, as a program writes them whose struct has none or that read them before Adopt, are stored
//     again by each Adopt. Two equal items may be meant, so Adopt does not compare them.
//
// To find equal items:
//
//	db.reviews.aggregate([
//		{$set: {is: "$_id", _id: "$$REMOVE"}},
//		{$group: {_id: {$unsetField: {field: "is", input: "$$ROOT"}}, items: {$push: "$is"}}},
//		{$match: {"items.1": {$exists: true}}},
//	])
//
// An item that somebody deletes directly from the collection comes back from the array, so $pull it there
// as well. A parent that is deleted and inserted again still has the items of the former one. This cannot
// be detected either, so delete parents with DeleteParent.
//
// [Subset.Check] finds the parents that do not match their items, and [Subset.Repair] rebuilds all of
// them, or those that Work.Filter selects. After changing an option, run EnsureIndexes and Repair. After
// raising N, Repair is not required, because the array of a parent is also filled up when one of its items
// is inserted, deleted or changes its rank.
//
// # Sharding
//
// Shard parents by _id and items by {product_id: 1} or {product_id: 1, _id: 1}, so that all writes are
// targeted. Create the collections beforehand. Inside your own transaction Check needs MongoDB 8.0 on a
// sharded cluster, because it uses $lookup.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package subset

// Notes for those who change this package.
//
//   - The parent's write is one pipeline update: the kept items, the count, the sums, then the means. A reader never
//     sees one without the others. One item is put into its place by comparison: `$sortArray` of a thousand takes 9
//     ms.
//   - Nothing is dropped that is stored nowhere else. The parent's write answers what it pushed out of the array, and
//     the insert's own command looks for these in the collection: no round trip in Insert. If one is missing, the parent
//     is adopted in the same transaction, from what the answer held. Refusing such writes was the first rule: beside
//     busy old code it refused all.
//   - A write that meets a parent that was never counted changes nothing, by a guard in its filter, puts its item
//     back, adopts and runs again. So the caller's transaction needs no second run.
//   - Adopt writes the parents first in each transaction, as outlier does: from then on writers wait, where a
//     transaction that writes last conflicts with each of them.
//   - A sum is kept by differences where that loses nothing: one expression, which computed shares, holds for ints,
//     and for doubles and decimals that did not shrink to the rounding of what left them. It is evaluated in the write
//     itself, as a guard or as an answer, so it costs no round trip. The rule sees one write; a bound of the error in
//     the parent would see all of them, and was rejected, because parents have the user's fields alone.
//   - Check adds up ints and decimals as decimals and doubles apart from them, and joins these in the client: the type
//     and the rounding of a sum of several types differ between versions of the server.
//   - An array that differs from the collection by an edit or a pull is not Adopt's to decide: it inserts what is new,
//     corrects the numbers and leaves the array. What is the same is decided by content: all fields that the parent
//     keeps, and none that the item does not have.
//   - The best N are read anew only if the array got short or a re-ranked item came to stand last. The last kept item
//     bounds what a write can know; a refill reads what comes after the kept items, and no more.
//   - A mark and its removal are two updates in one command, where a parent must conflict though nothing of it
//     changes.
//   - The filter of a parent's write refuses other types in the place of array, counts, sums and the documents around
//     them, so that a dotted path overwrites nothing of the user's.
