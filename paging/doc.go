// Package paging reads long lists page by page. It reads the page after or before a token (keyset
// pagination) at the same cost at any depth, and pages by number, also counted from a page nearby.
//
// # When to use it, and when not
//
// Use it for lists that people or programs read in parts. Read everything at once with a plain
// Find. A few hundred documents need no more than skip and limit. Relevance ($meta) and distance
// ($near) are not fields, so you cannot sort by them. A filter may hold $text or $near, but then
// the server sorts what it matches in memory. To sort by a value in an array, store that value in a
// field.
//
// # Documents
//
// Nothing is stored, and any collection can be paged over. With the articles
//
//	{_id: 1, topic: "sea", published: ISODate("2024-05-01"), title: "Tides"}
//	{_id: 2, topic: "sea", published: ISODate("2024-05-01"), title: "Whales"}
//	{_id: 3, topic: "sea", title: "Draft"}
//
// newest first, then by title, the page after Tides is one find with a limit. Its filter is a
// $or of index ranges, called branches, with your filter in each:
//
//	{$or: [
//	  {$and: [{topic: "sea"}, {published: D, title: "Tides", $expr: {$gte: ["$_id", {$literal: 1}]}}]},
//	  {$and: [{topic: "sea"}, {published: D, $expr: {$gt: ["$title", {$literal: "Tides"}]}}]},
//	  {$and: [{topic: "sea"}, {$expr: {$lt: ["$published", {$literal: D}]}}]},
//	]}
//
// D is the date of Tides. The find begins at Tides itself ($gte), to see that something
// comes before the page. $expr also finds values of other types, such as the missing date of
// the draft.
//
// # The main calls
//
//	pager, err := paging.New[Article](articles,
//		bson.D{{Key: "published", Value: -1}, {Key: "title", Value: 1}},
//		&paging.Options{Equality: []string{"topic"}}) // every filter fixes topic
//	err = pager.EnsureIndexes(ctx) // {topic: 1, published: -1, title: 1, _id: 1}
//
//	filter := bson.D{{Key: "topic", Value: "sea"}}
//	page, err := pager.Page(ctx, filter, paging.Request{Size: 20})
//	page, err = pager.Page(ctx, filter, paging.Request{Size: 20, After: page.Next})
//	page, err = pager.Page(ctx, filter, paging.Request{Size: 20, Before: page.Prev})
//
//	for article, err := range pager.All(ctx, filter, paging.Request{}) {
//		// every article, read in batches
//	}
//
// Article is the type that a document decodes into. It need not have the sort fields. A document that it
// cannot decode is [mongopatterns.ErrMalformed] and ends the page and the loop, so read old data as bson.Raw or
// with a type that takes all values. Make a Pager
// for each order, once, and share it. Without its index the server sorts the whole list for each
// page. For a filter that does not fix a field of Equality, Page returns
// [mongopatterns.ErrInvalid].
//
// A page has Items, HasNext and HasPrev (both exact), Next and Prev. Request.Number asks for a page
// by its number, and Request.From counts from a page nearby. [ParseRequest] and LinkHeader serve
// HTTP; Cursor(i) is the cursor of an edge in GraphQL. Use [Pager.Filter], [Pager.Pipeline],
// [Pager.Sort] and [Pager.Token] in queries of your own.
//
// You page over a filter or over a [mongo.Pipeline]. With a pipeline, the condition, the sort and
// the limit are stages after yours, so give conditions as a filter where you can. No two documents
// that come out of a pipeline may have the same sort fields and the same _id, so after $unwind sort
// by the array index as well.
//
// # A category and all below it
//
// With categories in package tree and a product's category in a field, read the IDs and page
// over them with $in:
//
//	below, err := categories.DescendantsFilter(ctx, "Storage", 0)
//	err = categoryColl.Distinct(ctx, "_id", below).Decode(&ids) // a strict server API refuses it: use Find, with a projection
//	filter := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: append(ids, "Storage")}}}}
//	page, err := pager.Page(ctx, filter, req) // Equality: []string{"category"}
//
// A category that is added below or moved away changes the filter, and so makes older tokens invalid. If
// there are many categories (see the 200 ranges under Costs), let each product hold the IDs of its category
// and of those above it in an array. The filter is then {categories: "Storage"}, with Equality
// "categories". The [example of Page] shows the first way, and the [example of Move] in package tree the
// second.
//
// # Order
//
// Values come as MongoDB sorts them, null and missing as equals. `_id` is added as the last field, in the
// direction of the one before it. If a page meets a document with an array as a sort value, or another value that
// has no place in the order, it returns [ErrUnsortable]. Null comes first in ascending order. To have it last,
// store beside the field a bool that says that it has no value, and sort by the bool first: {unscheduled: 1,
// starts: 1}. With a collation, BSON symbols (obsolete) sort by one rule and compare by another, so a page could
// leave one out. With the index of EnsureIndexes this cannot happen, because the server stores no symbols in it.
//
// Pages are right even where some documents hold null and others lack the field. In two cases the
// library cannot see to that: a query of your own with [Pager.Filter] over such documents, and a
// list whose filter makes the server merge indexes by itself ($or, or $in on a field that stands
// before the sort in an index and that Equality does not name).
//
// # Tokens
//
// A token is URL-safe text with the sort values of a document and their types. It does not expire. It is
// bound to the names of the collection and its database, the sort, the collation, let, and the filter as the
// server compares it. With any other, the call returns [ErrInvalidToken], and the client starts again from
// the first page. So a filter must be the same on every page. Do not use {$lt: time.Now()}, but a moment
// that the first request fixes. The order of the filter's conditions and of the values of $in does not
// count, so they may come from a Go map.
//
// Whoever has a token can read the values in it. With Options.SigningKeys tokens are signed (HMAC-SHA-256).
// Without keys, an altered token can only name another place in the list that your filter allows.
//
// # Concurrency
//
// Reads join the transaction of ctx. A walk from one end to the other by tokens shows each document
// whose sort values do not change exactly once, whatever happens to others. A document that moves
// may be seen in both places or in neither. Page numbers promise nothing like that, and counts are
// reads of their own.
//
// # Costs
//
//	Page, first or FromEnd   1 find, limit Size+1
//	Page, After or Before    1 find, limit Size+2; + 1 find (limit 1) if the document of
//	                         the token is gone or has moved, or the token came from an
//	                         empty page
//	Page by Number           1 find, walks (Number-1)·Size skipped keys; + 1 find (limit 1)
//	                         beyond the end
//	Page by Number, From     1 find, skips at most Group·Size; + 1 find (limit 1) where
//	                         nothing was skipped or nothing found
//	All                      1 find a batch
//	CountExact               + 1 aggregate over all matching keys; without a filter, over
//	                         all documents; none if the page shows the total
//	a positive Count n       + 1 aggregate over at most n+1 of them
//	CountEstimated           + 1 count from metadata, for no filter only; with the orphaned
//	                         documents of a sharded cluster
//	EnsureIndexes            1 listIndexes, + 1 createIndexes if missing, + 1 aggregate if New got
//	                         types of your own and no Registry
//
// On the index of [Pager.Indexes], a page examines as many keys as its limit, and one or two for
// each range. Other conditions of your filter add the keys that they reject. The index also serves
// other queries on its first fields. A page takes more finds in these cases:
//
//   - The sort values of the token hold null: up to one find a branch, with one to three branches a
//     sort field, until the page is full, because the server's merge of ranges treats null and
//     missing as different.
//   - The filter fixes a field of Equality to k values with $in: k+2 finds if a document on
//     the page holds null or lacks a sort field. A page by number then reads what it skips, or
//     takes 1 aggregate more beyond 1,000 documents, which sorts all matching ones (and so
//     refuses $where). If the sort values of such a page are larger than 7 MB, it may be
//     ErrInvalid. Beyond 200 ranges (values times branches) the server sorts what matches in
//     memory.
//   - The sort begins with `_id`: 1 more at the end of the list, for `_id`s of other types. All
//     other pages by `_id` alone use the filter {_id: {$gte: last}}.
//   - Options.Sequential: up to one a branch.
//
// # Sharding
//
// mongos merges the sorted streams of the shards, so pages are right on any shard key, and cost one
// page a shard unless the filter holds the key of [Pager.ShardKey]. `_id` must be unique over the
// whole collection, which a cluster checks only if it is the shard key. DocumentDB does not merge
// the ranges of $or, so set Options.Sequential there.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
//
// [example of Page]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/paging#example-Pager.Page-Category
// [example of Move]: https://pkg.go.dev/github.com/mongopatterns/mongopatterns/tree#example-Tree.Move-Products
package paging

// Notes for those who change this package.
//
//   - A page after a token is one find with a root `$or` whose branches are equalities and one comparison by `$expr`,
//     mostly one branch a field. mongod reads such a comparison as one exact index range over all BSON types, in the
//     order of sorts: no brackets by type are needed. Where `$expr` would pass over arrays, which are refused as sort
//     values, filter comparisons remain. The user's filter goes into each branch.
//   - mongod merges the branches (SORT_MERGE), so a page costs its limit and a key a branch. But it takes null and
//     missing for different when it merges, and nowhere else: a page whose branches share a null is read branch by
//     branch instead. The call decides; a merged page without null in its sort values is in the right order, whatever
//     was merged. `Options.Sequential` forces the second form, for DocumentDB, which does not merge.
//   - Where the filter has `$in` on a field in front of the index, the branches are multiplied by its values (to a
//     bound): mongod's own explosion of such scans gives up when the keyset adds points after it. A filter that does
//     not fix a field of `Equality` is refused, as its pages would sort in memory.
//   - `_id` alone is a plain range. A branch with a list of types for it made the planner choose the `_id` index for
//     all, and sort.
//   - The page starts at the document of its token: if that is still there it tells that something lies before the
//     page, exactly and in the same round trip.
//   - `$unionWith` was weighed: nothing promises the order of its parts on a sharded cluster. `min` and `max` are
//     ignored by DocumentDB.
