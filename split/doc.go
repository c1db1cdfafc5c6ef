// Package split keeps each document in two collections under one ID: the hot fields
// that lists read, and the cold fields that only the page of one document reads.
//
// A film's list entry, and what its page adds:
//
//	{_id: 1, title: "The Arrival of a Train", year: 1896, runtime: 1, ...}
//
//	{_id: ..., movie_id: 1, poster: "...", plot: "...", imdb: {rating: 7.3, votes: 5043, id: 12}, ...}
//
// They come from this configuration:
//
//	movies, err := split.New[int, Movie, Details](db.Collection("movies"), db.Collection("movie_details"),
//		&split.Options{IDField: "movie_id"})
//	err = movies.EnsureIndexes(ctx)
//
// The five calls:
//
//	err = movies.Add(ctx, 1, movie, details)
//	movie, err = movies.GetHot(ctx, 1)
//	movie, details, err = movies.Get(ctx, 1)
//	err = movies.Update(ctx, 1, nil, bson.D{{Key: "$inc", Value: bson.D{{Key: "imdb.votes", Value: 1}}}})
//	err = movies.Delete(ctx, 1)
//
// A list page is your own Find on the hot collection. Without IDField both documents
// have the same _id. Which fields are cold is told by the struct C, or by
// Options.ColdFields.
//
// # Costs
//
// Round trips (RT) with the commit. Hot documents go by _id, cold ones by the unique
// index {movie_id: 1}, or by _id without IDField.
//
//	Add, Delete             3 RT  2 documents written
//	GetHot, GetCold         1 RT  1 key and 1 document
//	Get                     1 RT  1 key and 1 document of each collection
//	Update of hot           1 RT  1 document written, no transaction
//	Update of cold          2 RT  1 document written, no transaction; the first looks for cold fields in the hot one
//	Update of both          3 RT  2 documents written
//	Check                   1 RT  a batch of 100 documents, and a scan of the cold ones
//	Adopt, Repair           as Check, and 6 or 7 RT a batch in which documents are to be split
//
// # When to use it
//
// Where lists read documents whose bytes are mostly for another page: a list then
// reads less, and more of it stays in the server's cache. Not where most reads need
// both sides, which cost about twice one document, nor where the cold fields are some hundred bytes: a projection does
// that. For the best few of many items in their parent see package subset.
//
// # Concurrency
//
// A write of both sides is a transaction: that of the context, or its own, which is
// run again on conflicts. Where only the cold document is new, and while documents are
// split, the hot document is written for real by a field __touch that is set and
// removed in one command: a validator must allow it. After an error from a call that
// writes, abort your transaction.
//
// # Adoption
//
// [Split.Adopt] moves the cold fields of an existing collection, which becomes the hot
// one, out of it. It runs beside programs that use the Split already: until a
// document is split, Get and JoinPipeline read its cold fields where they are, Update
// moves them first, and GetCold is mongopatterns.ErrNotFound. All new
// programs must know the same cold fields before one of them adopts.
//
// Run it again while old programs write. A whole document that they write counts as the
// newer, and so does a scalar that they set. But a number, an array or a document may be a
// fragment, as their $inc, $push and $set of a part leave it where the field has moved away:
// if the cold document has the field as well, and not all that it holds is back in the hot
// one, Check names the field as [InBoth] and everybody leaves both; reads show the cold
// document's. A Split with Options.Keep, [Hot] or [Cold], adopts these; before you give it,
// compare them.
//
// Old programs must not change a cold field by what it held ($inc, $push, $pull, parts), nor
// $unset one, which does nothing, nor leave some out of a document that they replace, nor delete
// documents: Check names the [Orphan], but where the _id is inserted again in the
// meantime, it gets the cold document that was there. What cannot be told: a cold field
// that old programs took away, or left out, returns. A hot document without it is, to the
// byte, one that nobody has touched, and beside other cold fields it is one in which these were
// set: without a mark in each document, which old programs would take away too, nothing tells
// them apart. What is told too often: where the cold fields are numbers
// alone, or an array that was replaced has no element of the cold one's, a whole document
// can be InBoth.
//
// [Split.Check] and
// [Split.Repair] look after documents without counterpart and fields on the wrong side.
// To go back, stop the writers, aggregate the hot documents with JoinPipeline and
// {$merge: {into: "movies", whenNotMatched: "discard"}}, and empty the cold collection;
// Orphans, which Check names first, have no document to go back to.
//
// # Sharding
//
// Shard the hot documents by _id and the cold ones by {movie_id: 1}: all writes are
// targeted. Get, JoinPipeline, Check, Repair and Adopt join by $lookup; in your transaction
// on a sharded cluster that needs MongoDB 8.0, and GetHot and GetCold do the same in 2 RT.
//
// # Composing
//
// JoinPipeline turns hot documents into whole ones, after your own $match, $sort and
// $limit. The hot documents may be the parents of another pattern: change them by
// operators, and delete the cold document with ColdFilter where the other
// pattern deletes the hot one, in one transaction.
package split
