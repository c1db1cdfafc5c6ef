// Package paging reads long lists page by page: keyset pages that cost the same
// at any depth, numbered pages, and the two combined.
//
// # The problem
//
// skip(2500000).limit(20) makes the server walk 2,500,020 index keys to show 20
// documents, and a document inserted meanwhile shifts every later page by one. A
// keyset page instead remembers the sort values of the last document shown and
// asks for what comes after them. That is one index seek, at any depth.
//
// It is also easy to get wrong: ties, mixed directions, null and missing fields,
// NaN, fields that hold a string here and a number there, collations, the way
// back. A Pager writes the exact condition for all of them: the pages put
// together are the server's own sorted order.
//
// # The main calls
//
//	pager, err := paging.New[Article](articles,
//		bson.D{{Key: "published", Value: -1}, {Key: "title", Value: 1}}, nil)
//	err = pager.EnsureIndexes(ctx) // {published: -1, title: 1, _id: 1}
//
//	filter := bson.D{{Key: "topic", Value: "sea"}}
//	page, err := pager.Page(ctx, filter, paging.Request{Size: 20})
//	// page.Items, page.HasNext, page.HasPrev, page.Next, page.Prev
//
//	page, err = pager.Page(ctx, filter, paging.Request{Size: 20, After: page.Next})
//	page, err = pager.Page(ctx, filter, paging.Request{Size: 20, Before: page.Prev})
//
//	for article, err := range pager.All(ctx, filter, paging.Request{}) {
//		// every article, read in batches
//	}
//
// Those five (New, EnsureIndexes, Page forward, Page back, All) are enough for
// most services. Everything else is for when you need it: [Pager.Numbered] and
// [Pager.Jump] for page numbers, [Pager.Pages] to walk pages, [Pager.Filter],
// [Pager.Sort] and [Pager.Pipeline] to run the query yourself, [ParseRequest] and
// LinkHeader for HTTP, [ConnectionArgs] and [NewConnection] for GraphQL. A
// handler:
//
//	func list(w http.ResponseWriter, r *http.Request) {
//		req, err := paging.ParseRequest(r.URL.Query(), paging.Params{Max: 50})
//		var page *paging.Page[Article]
//		if err == nil {
//			page, err = pager.Page(r.Context(), filter, req)
//		}
//		switch {
//		case errors.Is(err, paging.ErrInvalidRequest): // tokens that are no good, too
//			http.Error(w, err.Error(), http.StatusBadRequest)
//		case err != nil:
//			http.Error(w, "internal error", http.StatusInternalServerError)
//		default:
//			w.Header().Set("Link", page.LinkHeader(r.URL, paging.Params{}))
//			json.NewEncoder(w).Encode(page)
//		}
//	}
//
// # What it pages over
//
// The second argument of every read is a filter (anything the driver takes as
// one; nil is every document) or a [mongo.Pipeline]. Over a pipeline the keyset
// condition, the sort and the limit are stages after yours: the sort may use
// fields your stages computed, but the index of the collection then serves your
// stages and not the paging, unless the server can move the condition to the
// front. A pipeline of $match stages alone is as good as a filter: they become
// one with the condition (except $text, which stays as it is). With the sort
// fields the `_id` of what the pipeline puts out must tell its documents apart;
// after $unwind, sort by the array index as well.
//
// Documents stay as they are: the package stores nothing and needs no field of
// its own. With the articles
//
//	{_id: 1, topic: "sea", published: ISODate("2024-05-01"), title: "Tides"}
//	{_id: 2, topic: "sea", published: ISODate("2024-05-01"), title: "Whales"}
//	{_id: 3, topic: "sea", title: "Draft"}
//
// the page after the first one, in the order above, is a find with a limit whose
// filter is a $or of index ranges, each with your filter inside:
//
//	{$or: [
//	  {$and: [{topic: "sea"}, {published: D, title: "Tides", _id: {$gte: 1}}]},
//	  {$and: [{topic: "sea"}, {published: D, title: {$gt: "Tides"}}]},
//	  {$and: [{topic: "sea"}, {published: {$lt: D}}]},
//	  {$and: [{topic: "sea"}, {published: {$in: [null, [], MinKey]}}]}, // the drafts come last
//	  …                                                                // values of other BSON types
//	]}
//
// # Order
//
// `_id` is added as the last sort field, in the direction of the field before it,
// unless the sort names it. Values compare as MongoDB sorts them: MinKey, null
// and missing (equal), numbers of any width (NaN first), strings, objects,
// binary, ObjectIDs, booleans, dates, timestamps, regular expressions, code,
// MaxKey.
//
// A field that holds one kind of value, or null, or nothing can be named in
// Options.Uniform: the branches for other types are then left out, and the
// condition of a page sorted by `_id` alone is plainly {_id: {$gte: last}}.
//
// A document with an array at or on the way to a sort field has several places
// in an index; it is refused with [ErrUnsortable] when a page meets it, as are
// undefined and regular expression values, which no range can be compared with,
// documents nested more than 100 levels deep, and values too large for a token.
// (In a field named in Uniform such values can be missing without an error.)
//
// `_id`s that are strings can be equal under a collation ("a" and "A"), and then
// have no order. With Options.Find carrying a collation, documents with such ids
// are refused with [ErrCollatedID] unless Options.DistinctIDs vouches for them.
// The collection's own default collation needs none of this: its `_id` index
// already keeps them apart.
//
// # Indexes
//
// [Pager.Indexes] offers one: Options.Equality (the fields your filters fix to
// one value, or to a few with $in), then the sort, with the collation of
// Options.Find. Without it the answers are the same and the server sorts in
// memory. A sort by `_id` alone needs no index of its own. Under a collation of
// Options.Find it sorts in memory, because `_id` has no index with one; only the
// pages after the first are spared that, and only if `_id` is Uniform and holds
// no strings. Where several indexes compete, pass a hint in Options.Find.
//
// An index serves every query that its first fields serve: where another package
// asks for {scope, parent, order}, a pager's {scope, parent, order, _id} does the
// same work and can replace it, unless that one is unique.
//
// An Equality field that a filter fixes to several values, {topic: {$in: ["sea",
// "sky"]}} at its top level, gives each branch of a page after a token one range
// for each value, and the server merges those as well; with $in inside, it would
// sort in memory. More than 100 in all (values times branches) are left as they
// are, as are values that are documents, arrays or patterns. With Sequential all
// are: the ranges of several values are no order.
//
// # Costs
//
//	Page, first or FromEnd      1 find, limit Size+1
//	Page, After or Before       1 find, limit Size+2; + 1 find (limit 1) if the document
//	                            of the token is gone, or the token came from an empty
//	                            page; + 2 finds if its sort values changed, or one whose
//	                            `_id` may be equal (1 and 1.0) took its place
//	All                         1 find a batch
//	Pages                       that of Page, each time
//	Numbered                    1 find with skip (Number-1)·Size: walks all skipped keys
//	Jump                        1 find with skip of at most Group·Size, + 1 find (limit 1)
//	                            where nothing was skipped or nothing found
//	CountExact                  1 aggregate over all matching keys; without a filter, over
//	                            all documents
//	CountCapped(n)              1 aggregate over at most n+1 of them
//	CountEstimated              1 count from metadata, for a nil or empty filter only
//	EnsureIndexes               1 listIndexes, + 1 createIndexes if missing
//
// With [Sequential] each find above is one to as many finds as there are branches
// (two or three a sort field, one or two if it is uniform), each a range by itself.
// A find is 1 round trip unless Options.Find has a smaller BatchSize or what it
// reads exceeds 16 MB. Over a pipeline it is an aggregate, and examines what the
// stages do; a pipeline of $match stages alone costs what a filter does.
//
// The count is left out when the page itself shows the total. A page examines
// its limit and a key or two a branch more, when the index of Indexes (with the
// filter's equality fields in front) serves it; other conditions of your filter
// add the keys they reject. Nothing is ever written.
//
// # Strategy
//
// How the $or is sent decides the speed. [Merged], the default, is one find;
// mongod reads each branch from the index and merges them (SORT_MERGE in
// explain), so a page costs its limit plus one key a branch, in one round trip,
// on a sharded cluster too. An engine that does not merge sorts everything after
// the cursor. For those [Sequential] sends the branches one after the other, in
// the order of the result, until the page is full: 1 find in most cases, at most
// one a branch, each a single range. Milliseconds for one page of 10 in the
// middle, index {s: 1, t: -1, _id: 1}, tens of thousands of ties in s, best of
// four:
//
//	                               SecantusDB Rust  DocumentDB 0.108   mongod
//	                               1M documents     300k documents
//	Merged                         1,650            225                limit + branches keys
//	leading bound and $or          1,700            62                 walks the ties again
//	$unionWith of branches         2,920            1.4                lazy branches
//	Sequential                     72               1.6                more round trips
//	skip                           4,290            1,100              walks everything before
//
// (The mongod column is what its planner does, not a time. The times are of
// sorts by fields of one type.) Use Sequential on DocumentDB, and for filters that
// cannot stand inside $or, like $text (whose index has no order: each branch then
// sorts what it matches in memory), and for projections like "tags.$", which
// find no position inside $or. On DocumentDB name the fields of one type in
// Uniform as well: the branches for other types match by $type, which is a range
// of the index to mongod, but makes other engines walk the rest of the list when
// a page reaches its end. $unionWith is not offered: nothing promises the order of
// its parts on a sharded cluster. Neither are min and max: DocumentDB ignores them
// without a word.
//
// # HasNext and HasPrev
//
// Both are exact. One more document than the page shows what follows. To know
// what lies behind, the page starts at the document the token was made from
// (hence $gte above): if it is still there it answers the question and is left
// out; only if it is gone a second find with limit 1 looks.
//
// # Tokens
//
// A token is URL-safe text that holds the sort values of one document, typed, and
// is bound to the collection, the sort and its directions, the collation, the
// variables of let, and the filter or pipeline. Next works only as After, Prev
// only as Before, the Cursor of an item as both. Anything else is
// [ErrInvalidToken] with the reason.
//
// So the filter has to be the same on every page, and one made anew for each
// request may not be: {published: {$lt: time.Now()}}, or {parent: {$in: ids}} with
// ids read from a tree that changes. Let the first request fix the moment or the
// ids, and the later ones bring them along as a parameter of yours; better, filter
// by something stable (a path, an ancestor). Where neither can be done, answer
// ErrInvalidToken with the first page.
//
// Tokens can be read by whoever has them, so do not sort by secrets. With
// Options.Keys they are signed (HMAC-SHA-256) and cannot be made or altered;
// without, an altered one can only name another place in the list that your
// filter allows. Values from tokens are only ever compared with, so they cannot
// become operators. Tokens of more than 64 KiB are refused, and values that would
// make one are [ErrUnsortable].
//
// # Guarantees
//
// A document whose sort values do not change is shown exactly once by a walk from
// one end to the other, whatever is inserted, deleted or changed meanwhile. One
// that moves may be seen in both places or in neither. Numbered pages promise
// nothing of the kind. Reads join the session of ctx; in a transaction with
// snapshot reads a walk sees one state. Refusals of this package (errors that
// match [ErrInvalidRequest], [ErrUnsortable] or [ErrCollatedID]) leave such a
// transaction as it is; errors of the server end it. A Pager is safe for
// concurrent use.
//
// Counts are separate reads and may differ from the pages by what was written in
// between.
//
// # Sharding
//
// mongos merges the sorted streams of the shards, so pages are right on any shard
// key, and cost one page a shard unless the filter holds the shard key.
// [Pager.ShardKey] recommends one. `_id` must be unique over the whole
// collection, as those made by the driver are: a cluster checks that only if the
// shard key is `_id`.
//
// # When not to use it
//
// Read everything in one go, with nobody waiting between pages: a plain Find with
// the sort is one cursor. A few hundred documents: Numbered, or no paging at all.
// Sorting by relevance ($meta) or distance ($near): these are no fields, and no
// keyset exists. Sort fields that are arrays: store the value you sort by.
package paging
