// Package subset keeps small what is read often: the best N of many items inside
// their parent ([Subset]), or the fields that lists show apart from those that
// only one page needs ([Split]).
//
// # The problem
//
// A product page shows ten reviews of thousands. Kept in the product, the
// thousands are read with every product and push others out of the server's
// cache; kept in their own collection, each page costs a second query. The subset
// pattern does both: all reviews in their own collection, the ten newest in the
// product too. What is kept twice must agree: a review that is deleted must leave
// both, the eleventh must follow, the count and the mean rating must fit, with
// many writers at once.
//
// In the same way a film's plot and ratings make each document of a list ten
// times larger than what the list shows. The vertical split stores them apart,
// under one ID.
//
// # The top N
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
// These names come from this configuration; the values and most names are
// optional:
//
//	type Review struct {
//		ID      int       `bson:"_id"`
//		Product int       `bson:"product_id"`
//		Author  string    `bson:"author"`
//		Text    string    `bson:"text"`
//		Rating  int       `bson:"rating"`
//		Date    time.Time `bson:"date"`
//	}
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
// Five calls are enough for most:
//
//	id, err := reviews.Add(ctx, 1, Review{ID: 786, Author: "Kristina", Rating: 5, Date: now})
//	newest, err := reviews.Top(ctx, 1)
//	for review, err := range reviews.All(ctx, 1) { ... }
//	err = reviews.Update(ctx, 1, 786, bson.D{{Key: "$set", Value: bson.D{{Key: "rating", Value: 4}}}})
//	err = reviews.Delete(ctx, 1, 786)
//
// The parents are documents of your own: insert them, read them whole, and change
// their other fields as you like, by update operators: a replacement takes along
// what is kept, and writes are [ErrNotAdopted] until Repair has brought it back. Items are changed by this
// package only, as else their parent does not follow.
//
// Options.Order may be any, the newest or the highest rated; _id breaks ties, so
// that the best N are exactly one set. Options.Fields narrows what the parent
// keeps of an item. Options.BestLast stores the best last. A log host with its
// newest 1,000 messages, in the order they came:
//
//	subset.New[string, Message](hosts, messages, &subset.Options{
//		ParentField: "host", ArrayField: "logs", N: 1000, BestLast: true, NoCount: true,
//		Order: bson.D{{Key: "time", Value: -1}},
//	})
//
// A [Value] says which number of the items is aggregated. Sum, count and mean
// change in the write that changes the array, and the mean is always that sum
// divided by that count.
//
// # The vertical split
//
//	{_id: 1, title: "The Arrival of a Train", year: 1896, runtime: 1, ...}
//
//	{_id: ..., movie_id: 1, poster: "...", plot: "...", imdb: {rating: 7.3, votes: 5043, id: 12}, ...}
//
//	movies, err := subset.NewSplit[int, Movie, Details](db.Collection("movies"), db.Collection("movie_details"),
//		&subset.SplitOptions{IDField: "movie_id"})
//	err = movies.EnsureIndexes(ctx)
//
//	err = movies.Insert(ctx, 1, movie, details)
//	movie, err = movies.GetHot(ctx, 1)
//	movie, details, err = movies.Get(ctx, 1)
//	err = movies.Update(ctx, 1, nil, bson.D{{Key: "$inc", Value: bson.D{{Key: "imdb.votes", Value: 1}}}})
//	err = movies.Delete(ctx, 1)
//
// A list page is your own Find on the hot collection. Without IDField both
// documents have the same _id. Which fields are cold is told by the struct C, or
// by SplitOptions.ColdFields.
//
// # Indexes
//
//	{product_id: 1, date: -1, _id: -1}    items: All, refills, deletion with the parent
//	{movie_id: 1}                         cold documents, unique; only with IDField
//
// Everything else goes by _id.
//
// # Costs
//
// Round trips (RT), commit included, when nothing goes wrong; each method says
// more.
//
//	Add               3 RT  2 documents written; 5 RT for the first item of a parent
//	AddMany           3 RT  a batch, 1 write for each item and each parent in it; 6 with first items
//	Top               1 RT  1 key, 1 document
//	All               1 RT  a batch of the cursor; 1 key and document for each item
//	Replace           3 RT  2 documents written; 2 if nothing kept changes, up to 5 if it sinks
//	Update            4 RT  as Replace, and 1 to read the item
//	Delete            3 RT  2 documents written; 5 if the next item follows
//	Move              4 RT  3 documents written; 6 if the next item follows, 2 more for a first item
//	DeleteParent      3 RT  1 write for each item
//	Check             scans of both collections
//	Repair, Adopt     a scan, and 5 to 8 RT a batch of parents some of which are wrong
//
//	Split: Insert, Replace, Delete, Update of both    3 RT  2 documents written
//	Split: GetHot, GetCold, Get, Update of hot        1 RT  1 key and document of each collection
//	Split: Update of cold                             2 RT  the first looks for cold fields in the hot one
//	Split: Adopt, Repair, Join                        6 RT  a batch; Join 7
//
// # Guarantees
//
// A write changes both collections or none, in a transaction, whatever number of
// writers there are: it joins that of the context, or starts one and repeats it on
// conflicts. Every write of an item that its parent takes note of is a real write
// to the parent, and that is what two writers of one parent conflict on. Where
// nothing else would change, a temporary field __touch is written and taken off
// again before the commit; a validator of the parents (or of a Split's hot
// documents, in maintenance) that refuses further fields must allow it. A call
// that is refused with an error of this package leaves nothing behind, and a
// transaction of the caller's may go on; AddMany and maintenance leave there what
// was done before. What the server refuses (a duplicate key) ends that transaction.
//
// Writers of one parent wait for each other. Where very many come to one, a log
// say, collect them and call AddMany.
//
// On a standalone server writes return [ErrTransactionsUnsupported]; Update of one
// side of a Split needs no transaction, unless fields must move first.
//
// Sorting in the parent is done with the parents' default collation, in the items
// with theirs: let both be the same.
//
// # Sharding
//
// Shard parents by _id and items by {product_id: 1} ([Subset.ShardKey]): all
// writes of items are targeted. The hot documents of a Split go by _id, the cold
// ones by {movie_id: 1}. Check, Repair and Adopt join the collections by $lookup,
// outside of transactions. Create the collections beforehand: a transaction over
// several shards creates none.
//
// # Maintenance
//
// Adopt, Repair and Join go on behind what they cannot write, count it and name the
// first at the end.
//
// [Subset.Check] finds parents that do not hold what their items say, items
// without a parent, and items that Add would have refused; [Subset.Repair] rebuilds
// such parents, a batch in a transaction, beside live writes. After a change of N,
// Order, Fields, CountField or Values give the new options to all writers and run
// EnsureIndexes and Repair; under a new CountField writes are [ErrNotAdopted] until
// then. A larger N is filled by Repair, or by the first edit or deletion in a parent
// with a count.
// Check, Repair and Adopt read what a parent keeps beside what it should keep: both
// together must fit into the 16 MB of a document.
//
// [Subset.Adopt] is the way in: from a collection of items and parents without
// subset, and from parents that hold all their items in an array. Until it has
// reached such a parent, which has no count, writes refuse it with
// [ErrNotAdopted]: they would count without the items that are there, or cut off
// what is nowhere else. With NoCount nothing tells: adopt before the first write.
//
// [Split.Adopt] moves the cold fields of an existing collection out, beside
// programs that use the Split already (Get reads and Update moves what is not moved
// yet); [Split.Join] puts them back; [Split.Check] and [Split.Repair] look after
// documents without counterpart and fields that old programs write to the wrong
// side.
//
// # Composing
//
// ItemsFilter and Order are what paging takes to page through all items, on the
// index that is there already:
//
//	pager, err := paging.New[Review](db.Collection("reviews"), reviews.Order(), nil)
//	page, err := pager.Page(ctx, reviews.ItemsFilter(1), paging.Request{Size: 20, After: token})
//
// TopPipeline yields the kept ones as documents, for stages of your own to follow.
// A parent of several subsets or patterns is deleted by one of them, and the
// other's documents by their filter, in one transaction. Deleting twice would be
// [ErrNoParent] the second time, and leave items:
//
//	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
//		if _, err := reviews.DeleteParent(ctx, 1); err != nil {
//			return nil, err
//		}
//		return db.Collection("questions").DeleteMany(ctx, questions.ItemsFilter(1))
//	})
//
// JoinPipeline turns hot documents into whole ones, behind your own $match, $sort
// and $limit on the hot collection.
//
// The hot documents of a Split may be the parents of a Subset: then change them by
// [Split.Update], not Replace, and delete the cold document with the parent, by
// ColdFilter.
//
// # When not to use it
//
//   - A parent with at most some dozens of small items, ever: keep all of them in
//     it, by $push.
//   - Items that change place all the time (by votes, say), a parent that is
//     written far more often than read: one indexed query for the top N is cheaper.
//   - All items in the parent up to a limit, and the rest elsewhere, each once:
//     that is the outlier pattern.
//   - A split where most reads need both sides, or where the cold fields are some
//     hundred bytes: a projection does that.
package subset
