// Package attribute keeps many similar fields as one array of key and value, so that
// one index serves them all: release dates by country, specifications that differ by
// category, prices by channel.
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
// The index is {"releases.location": 1, "releases.date": 1}. With a qualifier one key
// stands several times; the index is {"specs.k": 1, "specs.u": 1, "specs.v": 1}:
//
//	specs: [{k: "volume", v: "500", u: "ml"}, {k: "volume", v: "12", u: "ounces"}]
//
// The documents are yours: the package writes the array and nothing else of them, and
// whatever else an entry holds stays.
//
// # Five calls
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
// Set adds the entry or changes its value, Add only adds, Change only changes,
// SetMany sets several in one write. A qualifier is part of the [Key]:
//
//	err = specs.Set(ctx, 1, attribute.Named("volume").Qualified("ml"), "500")
//
// Take V = any for values of several types, and [As] for typed access to the same
// array. Comparisons stay within a BSON type, as all of MongoDB's do.
//
// # Conditions
//
// Each condition looks at one entry, never at the key of one and the value of
// another, as {"releases.location": "UK", "releases.date": …} would:
//
//	Equals In HoldsAll        the value, as data: regular expressions and documents too
//	Gt Gte Lt Lte Range       Range holds from and not to
//	Exists HasAll             one key, several keys
//	c.NotOrMissing()          no entry matches c; documents without the key match
//	c.PresentAndNot()         no entry matches c, but there is one of the key
//
// [Attributes.Filter] joins conditions: all must hold. It is a filter like any other,
// for Find, $match, paging or inside your own $or; ValuesPipeline, SortPipeline and
// FacetsPipeline are for your own stages to follow. A filter or pipeline with an
// invalid key cannot be encoded: the driver returns an ErrInvalid when it is run.
//
// # Indexes
//
//	{"releases.location": 1, "releases.date": 1}          by default
//	{scheduleId: 1, movie: 1, "provider.channel": 1}      Index{Prefix, KeyOnly}
//	{"provider.channel": 1}                               Index{KeyOnly}
//	{"attributes.k": 1, "attributes.v": 1, created: 1}    Index{Suffix}
//
// Prefix is what your queries compare for equality besides, as GetBy and Values do
// for tickets; Suffix is what pages are sorted by. Neither may hold arrays: MongoDB
// has no index over two arrays of a document ([ErrTwoArrays]). A filter of several
// conditions uses the index for one of them and tests the rest on what it finds.
// NotOrMissing uses no index by itself.
//
// # Costs
//
// Round trips (RT) when nothing is refused; a refusal is 1 more, to ask for its reason.
//
//	Set, SetMany, Add, Change   1 RT  1 document, found by _id
//	Remove                      1 RT  1 document, found by _id
//	Get, GetAll                 1 RT  1 document; only the entries leave the server
//	GetBy, Values               1 RT  (a batch), by your filter and the key
//	Facets                      1 RT  the documents of the filter
//	RenameKey, RemoveKey        2 RT  a batch
//	Adopt, Unadopt              2 RT  a batch
//	Check, Repair               a scan of the collection
//
// # When to use it
//
// Use it for many similar fields of which each document has some, keys that are data
// (with dots and dollars, given by users, counted by facets), and keys that stand
// several times. Do not use it for few fields that most documents have, for queries
// that must be fast on several keys at once (a compound index of columns is faster), or for
// hundreds of entries in a document. Documents grow: each entry repeats its names.
// A wildcard index over an object, {"specs.$**": 1}, is simpler where keys are plain
// names that are known when the query is written; before MongoDB 7.0 it has no prefix.
//
// # Several writers
//
// Each write to one document is one operation of the server that finds the entry and
// changes it. Any number of writers that set one key at once leave one entry; of two
// that add it, one gets [ErrExists]. Two writers of different keys do not undo each
// other. Nothing needs a transaction; all calls join the one of their context. After
// an error from a call that writes, abort your transaction.
//
// # Adoption
//
// [Attributes.Adopt] turns fields into entries, [Attributes.Unadopt] back, each
// document in one update, in bounded batches, beside live writes:
//
//	result, err := releases.Adopt(ctx, []attribute.Column{
//		{Path: "release_US", Key: "USA"},
//		{Path: "release_UK", Key: "UK"},
//	}, nil)
//
// With Options.Keep the fields stay for code that still reads them; a last run without
// it takes them away. A field that is null has no entry and is taken away too.
//
// Old code may go on to write the fields; the next Adopt turns them too. [Collision] says
// what happens where field and entry differ: by default both stay, reads find the entry,
// and the document is Remaining. KeepSource is for fields that are the newer ones as long as
// old code writes; what it derives from a field that is gone, as by $inc, begins anew.
//
// [Attributes.Check] finds duplicate entries, which a plain $push may add, malformed
// ones, and fields that are no arrays; [Attributes.Repair] removes the duplicates.
//
// # Sharding
//
// Shard as the documents ask for; an array cannot be part of a shard key. Reads and
// writes of one document filter on _id; sharded by something else, they ask all shards.
// While the balancer moves chunks, MongoDB may pass over a document of a call for many:
// run it again until a run changes nothing.
package attribute
