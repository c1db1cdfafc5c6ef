// Package attribute keeps many similar fields as one array of key and value, so
// that one index serves them all.
//
// # The problem
//
// A film has a release date in each country, a product has specifications that
// differ by category, a ticket has a price in each channel. As fields
// (release_US, release_France, …) each needs an index of its own, a collection
// has 64 at most, and a new country means a new index and new code. As entries of
// an array they share one:
//
//	{
//	  _id: 1,
//	  title: "Star Wars",
//	  releases: [
//	    {location: "USA",    date: 1977-05-20T00:00:00Z},
//	    {location: "France", date: 1977-10-19T00:00:00Z},
//	    {location: "Italy",  date: 1977-10-20T00:00:00Z},
//	    {location: "UK",     date: 1977-12-27T00:00:00Z}
//	  ]
//	}
//
// The price is that every query must look for key and value in the same entry
// and every write must find the entry of its key. That is what this package does.
// Documents stay the user's: it writes the array and nothing else of them.
//
// # Attributes
//
// The names come from the configuration, the type of the values from V:
//
//	releases, err := attribute.New[int, time.Time](films, &attribute.Options{
//		ArrayField: "releases",
//		KeyField:   "location",
//		ValueField: "date",
//	})
//	err = releases.EnsureIndexes(ctx)
//
// Five calls are enough for most:
//
//	err = releases.Set(ctx, 1, "UK", date)
//	uk, err := releases.Get(ctx, 1, "UK")
//	all, err := releases.GetAll(ctx, 1)
//	err = releases.Remove(ctx, 1, "UK")
//	cursor, err := films.Find(ctx, releases.Filter(
//		releases.Range("USA", may, june),
//		releases.Exists("Italy"),
//	))
//
// Set adds the entry or changes its value, Add only adds, Change only changes,
// SetMany sets several in one write. Whatever else an entry holds stays as it
// is. The document must exist; insert it with the driver, with a slice of
// structs of your own in it or with what [Attributes.Elements] makes.
//
// Values of several types: take V = any, and [As] for typed access to the same
// array:
//
//	specs, err := attribute.New[int, any](products, nil) // attributes: [{k, v}]
//	weights := attribute.As[float64](specs)
//	weight, err := weights.Get(ctx, 1, "weight")
//	filter := weights.Filter(weights.Gte("weight", 2.5))
//
// Comparisons stay within a BSON type, as all comparisons of MongoDB's filters
// do, so a range of numbers passes over strings.
//
// # Qualifiers
//
// With Options.QualifierField one key may stand several times, told apart by a
// unit, a language, a size:
//
//	specs: [{k: "volume", v: "500", u: "ml"}, {k: "volume", v: "12", u: "ounces"}]
//
//	specs, err := attribute.New[int, string](bottles, &attribute.Options{
//		ArrayField: "specs", QualifierField: "u",
//	})
//	err = specs.Set(ctx, 1, "volume", "500", "ml")
//	filter := specs.Filter(specs.Equals("volume", "500", "ml"))
//
// An entry is identified by key and qualifier. Calls that mean one entry (Set,
// Get, Remove, …) take one qualifier; without, they mean the entry that has
// none, which is an entry of its own. Conditions take any number: the entry has
// one of them, or, without, any or none. Missing, null and "" are the same: no
// qualifier. Keys and qualifiers are equal if the collection's collation says so.
//
// # Conditions
//
// Each condition looks at one entry, never at the key of one and the value of
// another, as {"releases.location": "UK", "releases.date": …} would:
//
//	Equals In All             the value, as data: regular expressions and documents too
//	Gt Gte Lt Lte Range       Range holds from and not to
//	Exists HasAll             one key, several keys
//	c.NotOrMissing()          no entry matches c; documents without the key match
//	c.PresentAndNot()         no entry matches c, but there is one of the key
//
// [Attributes.Filter] joins conditions: all must hold. It is a filter like any
// other, for Find, $match, paging or inside your own $or. Values that are arrays
// match as arrays do in MongoDB: Equals if the array or one of its elements is
// equal, All if all are in it, and each bound of a Range by another element, if
// need be.
//
// A filter or pipeline with an empty key, the zero Condition, or a qualifier but
// no Options.QualifierField to look in, cannot be encoded: the driver returns an
// error that matches [ErrInvalid] when the query, or the write, is run.
//
// # Found by something else than _id: tickets
//
//	{scheduleId: "0001", movie: "你的名字", provider: [
//	  {channel: "gewala", price: 30}, {channel: "maoyan", price: 50}, {channel: "taopiao", price: 20}]}
//
//	channels, err := attribute.New[bson.ObjectID, int](schedules, &attribute.Options{
//		ArrayField: "provider", KeyField: "channel", ValueField: "price",
//		Indexes: []attribute.Index{
//			{Prefix: []string{"scheduleId", "movie"}, KeyOnly: true},
//			{KeyOnly: true},
//		},
//	})
//	price, err := channels.GetBy(ctx, bson.D{{Key: "scheduleId", Value: "0001"}, {Key: "movie", Value: "你的名字"}}, "gewala")
//	for screening, err := range channels.Values(ctx, nil, "gewala") { // all its screenings
//		fmt.Println(screening.ID, screening.Value, err)
//	}
//
// # Indexes
//
//	{"releases.location": 1, "releases.date": 1}                       by default
//	{"specs.k": 1, "specs.u": 1, "specs.v": 1}                         by default, with QualifierField
//	{scheduleId: 1, movie: 1, "provider.channel": 1}                   Index{Prefix, KeyOnly}
//	{"provider.channel": 1}                                            Index{KeyOnly}
//	{"attributes.k": 1, "attributes.v": 1, created: 1}                 Index{Suffix}
//
// The qualifier stands before the value: with one, a range of values is one
// range of keys; without, the server jumps over the few qualifiers a key has.
// Prefix is what your queries compare for equality besides; Suffix is what
// pages are sorted by. Neither may hold arrays: MongoDB has no index over two
// arrays of a document and refuses to make it or to store the document (code
// 171). Paths inside the array itself are refused by New, documents that are
// there already by EnsureIndexes, which names one ([ErrTwoArrays]).
//
// A filter of several conditions uses the index for one of them, the most
// selective by the server's trial; the rest is tested on the documents it
// finds. NotOrMissing uses no index by itself.
//
// # Costs
//
// Round trips (RT) when nothing goes wrong; each method says more.
//
//	Set, SetMany, Add, Change   1 RT  1 document, found by _id
//	Remove, Rename              1 RT  1 document, found by _id
//	Get, GetAll                 1 RT  1 document; only the entries leave the server
//	GetBy, Values               1 RT  (a batch), by your filter and the key
//	Facets                      1 RT  the documents of the filter
//	RenameKey, RemoveKey        2 RT  a batch
//	Adopt, Unadopt              2 RT  a batch
//	Check, Repair               a scan of the collection
//
// # Several writers and guarantees
//
// Each write to one document is one operation of the server that finds the
// entry and changes it. Any number of writers that set one key at once leave
// one entry; of two that add it, one gets [ErrExists]. Two writers of different
// keys do not undo each other. Other code may write the same arrays: an entry
// that a plain $push has added twice is what [Attributes.Check] finds.
//
// Writes are refused by their filter. Only then a second command asks for the
// reason: no such document ([ErrNotFound]) or entry ([ErrNoAttribute]), one too
// many ([ErrExists]), an ArrayField that is no array ([ErrNotArray]). Reads of
// one document say the same.
//
// Nothing needs a transaction; all calls join the one of their context. These
// four and ErrInvalid leave it as it was, with nothing written, so that it can go
// on and commit. After any other error of a write abort it, as the server mostly
// has done.
//
// # Sorting and counting
//
// [Attributes.SortPipeline] sorts documents by the value of one key, those
// without it last or first, equal ones by _id. An index cannot give that order,
// as it holds an entry for each key of a document: the server sorts what the
// filter leaves, so narrow that.
//
// Pages in the order of an attribute come from the paging package over
// [Attributes.ValuesPipeline], sorted by value; the documents of a page are then
// found by their _id. Those without the key are not among them. With
// Options.QualifierField name one qualifier, "" for none, so that a document
// stands once:
//
//	pager, err := paging.New[attribute.Value[int, float64]](products, bson.D{{Key: "value", Value: -1}}, nil)
//	page, err := pager.Page(ctx, weights.ValuesPipeline(filter, "weight"), paging.Request{Size: 20})
//
// [Attributes.Facets] counts the values of each key, for a search page:
//
//	facets, err := specs.Facets(ctx, filter, &attribute.FacetOptions{Keys: []string{"color", "size"}, Top: 10})
//
// # Sharding
//
// Shard as the documents ask for; reads and writes of one document filter on _id
// ([Attributes.ShardKey]). Sharded by something else, they ask all shards. An
// array cannot be part of a shard key. RenameKey, RemoveKey, Adopt, Unadopt and
// Repair write many documents by their _id in one command. While the balancer
// moves chunks, MongoDB may pass over a document of such a command, or do it
// twice, which here is as good as once; run them again until a run changes
// nothing.
//
// # Maintenance and adoption
//
// [Attributes.Adopt] turns fields into entries, [Attributes.Unadopt] back, each
// document in one update, in bounded batches, beside live writes; what is done
// stays done when it is stopped, and a second run continues:
//
//	result, err := releases.Adopt(ctx, []attribute.Column{
//		{Path: "release_US", Key: "USA"},
//		{Path: "release_UK", Key: "UK"},
//	}, nil)
//
// With AdoptOptions.Keep the fields stay for code that still reads them; a last
// run without it takes them away. [Collision] says what happens where both hold
// different values; what is skipped is found by the field it still has.
// [Attributes.RenameKey] and [Attributes.RemoveKey] do the like for a key over
// the collection. [Attributes.Check] reports duplicate entries, malformed ones,
// and fields that are no arrays; [Attributes.Repair] removes the duplicates.
//
// # Composing
//
// Filter is for Find, paging and $match; ValuesPipeline, SortPipeline and
// FacetsPipeline are for your own stages to follow. Adding to what you have:
//
//	filter := append(releases.Filter(releases.Exists("UK")), bson.E{Key: "year", Value: 1977})
//
// # When not to use it
//
//   - Few fields with one meaning each, of which most documents have all:
//     fields are simpler to read, to validate and to index together.
//   - Queries that name several keys at once and must be fast on all of them:
//     one entry of the index is one key, so only one condition is a range of
//     it. Fields can have a compound index.
//   - Hundreds of entries in a document, or large ones: each is an index key,
//     and each write rewrites the document. See the outlier package.
//
// Or a wildcard index over an object, {specs: {volume: 500, color: "red"}} with
// {"specs.$**": 1}. It too serves one key a query. It is the better choice
// where the documents are an object already, keys are known when the query is
// written ({"specs.volume": 500} needs no helper), and each is a plain name.
// The array is better where
//
//   - fields stand in front of the index or behind it (compound wildcard
//     indexes need MongoDB 7.0),
//   - keys are data: with dots and dollars in them, given by users, counted by
//     facets, listed, renamed,
//   - a key stands more than once, told apart by a qualifier, or entries hold
//     more than a value,
//   - the server has no wildcard indexes (some that speak the protocol).
package attribute
