// Package attribute keeps many similar fields as one array of keys and values, so that one index serves
// them all. Examples are release dates by country, specifications that differ by category, and prices
// by channel. An element of the array is called an entry.
//
// # When to use it, and when not
//
// Use it:
//
//   - For many similar fields, if each document has only some of them.
//   - For keys that are data, because they contain dots and dollars, are given by users, or are counted by facets.
//   - For keys that a document has several times.
//
// Do not use it for a few fields that most documents have, for queries that must be fast on several keys
// at once (a compound index of ordinary fields is faster), or for hundreds of entries in a document,
// because each write rewrites the array. Documents grow, because each entry repeats its field names. If
// keys are plain names that are known when the query is written, a wildcard index over an object,
// {"specs.$**": 1}, is simpler, but before MongoDB 7.0 it cannot have a prefix.
//
// # Documents
//
//	{
//	  _id: 1,
//	  title: "Star Wars",
//	  releases: [
//	    {location: "USA",    date: 1977-05-20T00:00:00Z},
//	    {location: "France", date: 1977-10-19T00:00:00Z},
//	    {location: "UK",     date: 1977-12-27T00:00:00Z}
//	  ]
//	}
//
// The index is {"releases.location": 1, "releases.date": 1}. With a qualifier (Options.QualifierField),
// several entries may have the same key. The index is then {"specs.k": 1, "specs.u": 1, "specs.v": 1}:
//
//	specs: [{k: "volume", v: "500", u: "ml"}, {k: "volume", v: "12", u: "ounces"}]
//
// The documents are your own. Insert them with the array from [Attributes.Elements] or without one.
// The package writes only the array, and keeps other fields of an entry.
//
// # The calls
//
//	releases, err := attribute.New[int, time.Time](films, &attribute.Options{
//		ArrayField: "releases", KeyField: "location", ValueField: "date",
//	})
//	err = releases.EnsureIndexes(ctx)
//
//	err = releases.Set(ctx, 1, attribute.Named("UK"), date)
//	uk, err := releases.Get(ctx, 1, attribute.Named("UK"))
//	all, err := releases.GetAll(ctx, 1)
//	err = releases.Remove(ctx, 1, attribute.Named("UK"))
//	cursor, err := films.Find(ctx, releases.Filter(
//		releases.Range(attribute.Named("USA"), may, june),
//		releases.Exists(attribute.Named("Italy")),
//	))
//
// int is the type of the films' _id, and time.Time the type of the values, so date, may and june are
// times. Set adds the entry or changes its value, Add only adds, Replace only changes, and SetAll sets
// several entries in one write. For a missing document they return [mongopatterns.ErrNotFound], and for a
// missing entry [ErrNoAttribute], which matches it. A qualifier is part of the [Key]:
//
//	err = specs.Set(ctx, 1, attribute.Named("volume").Qualified("ml"), "500")
//
// Use V = any for values of several types, and [As] for typed access to the same array. Comparisons stay
// within a BSON type, as everywhere in MongoDB.
//
// # Conditions
//
// Each condition tests one entry, never the key of one and the value of another, as {"releases.location":
// "UK", "releases.date": …} would:
//
//	Equals In HoldsAll        the value, as data: regular expressions and documents too
//	Gt Gte Lt Lte Range       Range holds from and not to
//	Exists HasAll             one key, several keys
//	c.NotOrMissing()          no entry matches c; documents without the key match,
//	                          unless you join it with Exists
//
// [Attributes.Filter] joins conditions, and all of them must hold. It is an ordinary filter, for Find,
// $match, paging or inside your own $or. ValuesPipeline, SortPipeline and FacetsPipeline are pipelines to
// which you can append stages. A filter or pipeline with an invalid key cannot be encoded, so the driver
// returns an ErrInvalid when you run it.
//
// # Indexes
//
//	{"releases.location": 1, "releases.date": 1}              Index{}, the default
//	{"releases.location": 1}                                  Index{KeyOnly: true}
//	{studio: 1, "releases.location": 1, "releases.date": 1}   Index{Prefix: []string{"studio"}}
//	{"releases.location": 1, "releases.date": 1, title: 1}    Index{Suffix: []string{"title"}}
//	{…, title: 1, _id: 1}, for pages by title                 Index{Suffix: []string{"title", "_id"}}
//
// Prefix names other fields that your queries compare for equality, such as the filters of GetBy and Values. Suffix names
// the fields by which pages are sorted, for package paging with "_id" as the last. Without it the server reads and sorts
// all matches for each page. Neither may hold arrays, because MongoDB cannot index two arrays of a document
// ([ErrTwoArrays]). If the collection has no such documents yet, the index is created anyway, because New cannot see your
// fields; then each insert of such a document fails with "cannot index parallel arrays". So the ancestors of package tree
// cannot be a Prefix. Leave them to the index {ancestors: 1}, and the server chooses the better index for each query, or
// take a field with one value, such as the root.
//
// A filter of several conditions uses the index for one of them and tests the others on the documents found. NotOrMissing
// alone uses no index.
//
// # Concurrency
//
// Each write to one document is one operation of the server that finds the entry and changes it. If
// several writers set one key at once, one entry results. If two add it, one of them gets
// [mongopatterns.ErrExists]. Writers of different keys do not undo each other. No call needs a
// transaction, but all calls join the one of their context. After an error from a call that writes, abort
// your transaction.
//
// # Failures
//
// A Set or SetAll can be repeated. A repeated Add may find the entry of the first and return ErrExists,
// and a repeated Remove may find none and return ErrNoAttribute. A call for many documents can be
// stopped and run again.
//
// # Costs
//
// Round trips (RT) when nothing is refused; after a refusal 1 more, to read its reason.
//
//	Set, SetAll, Add, Replace   1 RT  1 document, found by _id
//	Remove                      1 RT  1 document, found by _id
//	Get, GetAll                 1 RT  1 document; only the entries leave the server
//	GetBy, Values               1 RT  (a batch), by your filter and the key
//	Facets                      1 RT  the documents of the filter
//	RenameKey, RemoveKey        2 RT  a batch
//	Adopt, Unadopt              2 RT  a batch
//	Check, Repair               a scan of the collection
//
// # Adoption and maintenance
//
// [Attributes.Adopt] turns fields into entries, and [Attributes.Unadopt] turns them back. Both work in bounded
// batches, during live writes, and change each document in one update:
//
//	result, err := releases.Adopt(ctx, []attribute.Column{
//		{Path: "release_US", Key: "USA"},
//		{Path: "release_UK", Key: "UK"},
//	}, nil)
//
// Call EnsureIndexes first. If the collection already has 64 indexes, the server refuses another, so drop one
// of the fields' indexes that is not used. When no code queries the fields any more, drop the others.
//
// With Options.Copy the fields stay for code that still reads them, and a last run without Copy removes
// them. A null field does not become an entry, and is removed as well.
//
// Old code may continue to write the fields; the next Adopt also turns these into entries. [Collision] says
// what happens if field and entry differ. By default both stay, reads return the entry, and the document is
// counted as Remaining. Choose KeepSource if the fields are newer as long as old code writes, and only for
// columns that new code does not write. Set changes the entry but not a field that Copy has left, so the next
// Adopt with KeepSource would undo it. Once new code writes the entries and old code has stopped, make the
// last run, without Copy, with KeepTarget. If old code derives a value from a field that was removed, as with
// $inc, it starts anew.
//
// [Attributes.Check] finds duplicate entries, which a plain $push may add, malformed entries, and fields
// that are not arrays. [Attributes.Repair] removes the duplicates.
//
// # Sharding
//
// Shard the collection as its documents require; an array cannot be part of a shard key. Calls for one
// document filter on _id, so with another shard key they ask all shards. While the balancer moves
// chunks, MongoDB may skip a document in a call for many documents, so run it again until a run
// changes nothing.
//
// docs/shards.csv lists for each call the shards it asks, and what a transaction refuses.
package attribute

// Notes for those who change this package.
//
//   - Set, Add and Change are one pipeline update and differ in the guard of its filter, so that a key never gets two
//     entries and no transaction is needed. Only a refusal costs a second command, which asks why.
//   - The qualifier is part of the Key: a variadic string was easy to forget in one of two calls. A Key is a struct:
//     as a string it held its qualifiers behind a NUL, and a NUL in a user's input became a qualifier.
//   - Entries are merged, not replaced: fields of the user's inside them stay.
//   - Updates carry the hint of the `_id` index, as their guards name the key and the planner might read every
//     document that has it.
//   - Values are encoded and decoded by the driver everywhere, entries being projected to fixed names, so there is no
//     Registry.
//   - A key that makes no sense, or a zero Condition, puts a value into the filter that cannot be encoded: the query
//     fails. It does not match other documents.
//   - Index fields stand in the order key, qualifier, value: a range of values under one qualifier is one range of
//     keys.
