// Package split keeps each document in two collections under one ID. One has the hot fields, which lists
// read, and the other the cold fields, which only the page of one document reads.
//
// # When to use it, and when not
//
// Use it where lists read documents most of whose bytes are for another page. A list then reads less, and
// more of it stays in the server's cache. Do not use it where most reads need both documents, because two
// cost about twice as much as one. Nor use it where the cold fields are a few hundred bytes, because a
// projection is enough. To keep the best few of many items in their parent, see package subset.
//
// # Documents
//
// A film's list entry, and what its page adds:
//
//	{_id: 1, title: "The Arrival of a Train", year: 1896, runtime: 1, ...}
//
//	{_id: ..., movie_id: 1, poster: "...", plot: "...", imdb: {rating: 7.3, votes: 5043, id: 12}, ...}
//
// Without Options.IDField, here "movie_id", both documents have the same _id.
//
// # The calls
//
//	type Movie struct {
//		ID    int    `bson:"_id"`
//		Title string `bson:"title"`
//		Year  int    `bson:"year"`
//	}
//	type Details struct {
//		Plot string `bson:"plot"`
//		IMDB struct {
//			Rating float64 `bson:"rating"`
//			Votes  int     `bson:"votes"`
//		} `bson:"imdb"`
//	}
//
//	movies, err := split.New[int, Movie, Details](db.Collection("movies"), db.Collection("movie_details"),
//		&split.Options{IDField: "movie_id"})
//	err = movies.EnsureIndexes(ctx)
//
//	err = movies.Insert(ctx, 1, Movie{Title: "The Arrival of a Train", Year: 1896}, Details{Plot: "..."})
//	movie, err := movies.GetHot(ctx, 1)
//	movie, details, err := movies.Get(ctx, 1)
//	err = movies.Update(ctx, 1, nil, bson.D{{Key: "$inc", Value: bson.D{{Key: "imdb.votes", Value: 1}}}})
//	err = movies.Delete(ctx, 1)
//
// The type parameters are the types of the ID, the hot document and the cold document. The cold fields are
// those of the cold type, if it is a struct, or Options.ColdFields. Update takes an update for each
// document, and nil leaves one as it is. A list page is your own Find on the hot collection. JoinPipeline
// turns hot documents into whole ones, after your own $match, $sort and $limit.
//
// The hot documents may also be the parents of another pattern. Then change them with update operators.
// Where the other pattern deletes a hot document, delete the cold one with ColdFilter in the same
// transaction.
//
// # Concurrency
//
// A write of both documents uses the transaction of the context, or its own, which is run again on
// conflicts. A write must lock a hot document without changing it when it inserts only a cold document,
// and when documents are split. Then it sets a field __touch and removes it in one command; a validator
// must allow this field. After an error from a call that writes, abort your transaction.
//
// # Failures
//
// If the answer to a write was lost, the write is done as a whole or not at all. If it is done, a repeated
// Insert returns [mongopatterns.ErrExists], and a repeated Delete [mongopatterns.ErrNotFound]. An Update can
// be repeated if its operators can be ($set, not $inc).
//
// # Costs
//
// Round trips (RT) include the commit. Hot documents are found by _id, cold ones by the unique index
// {movie_id: 1}, or by _id without IDField.
//
//	Insert, Delete          3 RT  2 documents written
//	GetHot, GetCold         1 RT  1 key and 1 document
//	Get                     1 RT  1 key and 1 document of each collection
//	Update of hot           1 RT  1 document written, no transaction
//	Update of cold          2 RT  1 document written, no transaction; the first looks for cold fields in the hot one
//	Update of both          3 RT  2 documents written
//	Check                   1 RT  a batch of 100 documents, and a scan of the cold ones
//	Adopt, Repair           as Check, and 6 or 7 RT a batch in which documents are to be split
//
// # Adoption and maintenance
//
// [Split.Adopt] splits an existing collection, which becomes the hot one, and moves its cold fields to the
// cold collection. It may run while programs already use this package. Until a document is split, Get and
// JoinPipeline read its cold fields from the hot document, Update moves them first, and GetCold returns
// [mongopatterns.ErrNotFound]. All programs that use this package must have the same cold fields before one of
// them adopts. To make another field cold later, give all programs the new cold fields, and then run Adopt
// again. No call makes a cold field hot.
//
// Run it again while old programs write to the hot collection. A whole document that they write is newer
// than the cold one, and so is a scalar that they set, so Adopt moves them. A number, an array or a
// document may be a fragment, because their $inc, $push and $set of a part start anew in a field that has
// moved away. It counts as a fragment if the cold document has the field as well and the hot one does not
// hold everything again that the cold one holds. Then Check reports the field as [InBoth], nobody changes
// either value, and reads return the cold document's. Compare the two, and adopt with Options.Prefer,
// [Hot] or [Cold], to keep one.
//
// Old programs must not:
//
//   - Change a cold field by its former value ($inc, $push, $pull, $set of a part).
//   - $unset a cold field. This has no effect, because the field returns.
//   - Leave cold fields out of a document that they replace. These fields return.
//   - Delete documents. Check then reports the cold document as [mongopatterns.Orphan]. If the _id is inserted
//     again before that, the new document gets the old cold document.
//
// Removed cold fields cannot be detected, because a hot document without them is equal, byte by byte, to
// one that nobody has touched, or in which only other cold fields were set. On the other hand, a whole
// document can be reported as InBoth by mistake if all cold fields are numbers, or if an array was
// replaced by one without a common element.
//
// [Split.Check] and [Split.Repair] find and repair documents without their counterpart and fields on the wrong
// side.
//
// To go back to one collection, first run Check, because Orphans have no hot document to go back to. Then stop
// the writers, aggregate the hot documents with JoinPipeline and {$merge: {into: "movies", whenMatched:
// "replace", whenNotMatched: "discard"}}, and empty the cold collection.
//
// # Sharding
//
// Shard the hot documents by _id and the cold ones by {movie_id: 1}, so that all writes are targeted.
// Get, JoinPipeline, Check, Repair and Adopt join with $lookup, for which they need MongoDB 8.0 inside
// your own transaction on a sharded cluster. There, GetHot and GetCold replace Get, in 2 RT.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package split

// Notes for those who change this package.
//
//   - A write to the cold side first moves cold fields that the hot document still has, so that Adopt, which comes
//     later, overwrites nothing. Refusing such writes was weighed; moving keeps live programs working.
//   - `$merge` was weighed for moving fields and is refused in transactions.
//   - Where both sides have a cold field, old code has written it, and it may be a fragment: `$inc` and `$push` begin
//     anew where the field has moved away. The hot document wins if all that the cold one holds is back, and with
//     scalars; else both stay, named, until somebody decides. The rule is one function here and one expression for
//     reads; a test compares them. A mark in hot documents would tell replaced ones exactly, and was rejected: they
//     have the user's fields alone.
