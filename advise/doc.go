// Package advise looks at a live database and says which of the patterns would pay,
// how much, and what to write. [Look] only reads; [Try] writes to a scratch database.
//
//	report, err := advise.Look(ctx, db, nil)
//	for _, f := range report.Findings {
//		fmt.Println(f.Name(), f.Summary) // outlier:orders.items 0.31 % of the documents …
//		fmt.Println(f.Code)              // lists, err := outlier.New[…](…, &outlier.Options{…})
//	}
//	err = report.Text(os.Stdout)
//
// The same works from a shell, without Go code of yours:
//
//	go run github.com/mongopatterns/mongopatterns/cmd/advise@latest -uri mongodb://… -db shop
//
// # When to use it, and when not
//
// Use it to find what would pay on a database that exists, or, with [Shapes], in the tests of a service
// before production. A view, a capped or a time-series collection is not looked at. One of fewer than 100
// documents is only the other side of a reference, or has a counter or long lists, in 20 documents or more. Lists inside lists, and below the third name of a path, are not seen,
// nor are fields that an expression cannot name. Look knows nothing about the meaning of fields, so
// only you know what must be exact, private or in one document.
//
// # What a finding says
//
// A Finding has a summary of what was counted and how sure that is, the saving as an interval and
// what grows, both computed from this collection, the constructor to paste, the call that adopts, a
// query that gives the main figure once more, and what speaks against the pattern. Read that last
// part first. If a saving cannot be computed, the reason is printed instead, because the times in
// docs/benchmarks.md are of other data.
//
// A Report also lists what was looked at and is not advised, with the reason. It lists what could
// not be told, and what would tell it, such as a role, the profiler or more time.
//
// It lists the indexes that the queries it saw lack, indexes that are prefixes of others, and, where the user may
// run $indexStats, indexes that nothing has used for a day. It also lists what the data shows without queries:
// documents of 4 MiB or more, references to documents that do not exist, lists of children and references to their
// parents that disagree, references stored as text to ObjectIDs, copies of a field that differ from it, fields in which
// a few values differ in type from the rest, dates stored as text, collections with several kinds of documents, and
// large collections in which half of the documents are two years old. Each comes with a command that shows it.
//
// # Which patterns
//
// outlier: At most 10 % of the documents hold at least 10 % of the elements of a list, and three times as many as their
// own share. Each of these lists is longer than 100 elements and than five times what three quarters have, and the
// largest takes 32 KiB or more. It is not advised if a quarter of the reads select documents by elements, or if as many
// writes change elements or take them out.
//
// subset: A list takes half of the bytes or more, over 2 KiB on average. Most reads of it take a part, all at one end,
// by $slice, alone or of $sortArray, or by $unwind, $sort and $limit of one document. It is not advised if the list is
// written more often than that, or if elements of two documents have one _id. Reads that name no order need lists that
// are stored in one: that of _id, of $push with $sort, or of a date or number that differs in all elements of a list.
// It is also advised if 50 $lookups or more join the first children of a parent in an order. Then a parent has 15
// children on average, and twice as many as are read. These reads are half of those of the parents, and three times the
// writes to children.
//
// split: In half of the documents or more, fields that projected reads leave out take 70 % of the bytes or more, over 1
// KiB. There are 50 such reads or more, and at most one read in four needs the fields. Some reads by _id may need them.
// A document takes over 1 KiB on average.
//
// paging: 10 finds of one order or more, also in pipelines, skip over 1,000 documents, or over 100 behind a filter for
// which the server examines over 1,000. It is not advised if each takes one document in no order.
//
// tree: 10 $graphLookups or more climb a collection, or as many walks of finds, a level or a node each. They go by a
// field that names another _id in 95 % of the documents that have it. There are three levels or more, more than one
// child for each parent, and not more moves than reads. It is also advised if 10 $graphLookups or walks go down lists
// of children, of which no child is in two, or which make no circle in a collection of 5,000 documents at most.
//
// extref: 50 reads or more follow a reference, by $lookup, by finds one by one, or by finds by $in for what an answer
// before named. The reference may be in the documents of a list. In 95 % of the documents that have it, it names an _id
// or another unique field of a collection of 5 documents or more. All reads want the same one to five fields. For each
// copy that the writes seen would change there are ten reads or more, or 50 documents that they join. It is not advised
// if the reference is set more often than it is followed.
//
// relation: One of five. 50 finds or more ask for children one by one, three or more for each parent. 50 reads or more
// look for one embedded child by its _id, or get it alone by another field that no two share. These are half of the
// reads of the list and not fewer than its writes, and no two children have one _id. A list of references takes half of
// the bytes, over 2 KiB on average, grows by $push, and no child stands in two lists. 50 $lookups or more join the
// children of a parent, at most 100 and 64 KiB. These are half of the reads of the parents, and nine of ten of those of
// the children. 50 reads or more follow references, deletes were seen, and between 5 % and 20 % of the references name
// no document.
//
// attribute: 10 fields or more stand beside each other, or 6 whose names begin alike and which some documents have
// alone. Each is in less than half of the documents, and has an index of its own or reads that filter by it. At most
// one in four of these reads names several of the fields, and there are at most ten writes to a read. Up to 5 % of the
// documents may have values of other types than the usual one. A field is passed over if more than a quarter of its
// values seen have other types.
//
// series: Documents under 300 B have a date and numbers. 10 reads or more, and three of four, take a range of the date,
// or the newest, for one value of one or several other fields. Such a value has 100 documents or more, and 24 or more
// in a day or month. The date may also be milliseconds or seconds since 1970, or ISO text. No update was seen, and no
// delete except of all before a date. No other collection refers to their _id, and 8 bytes for each number and date
// would be fewer. It is also advised for a list that takes half of the bytes, if half of the documents have 100
// elements or more of under 150 B, each with one date. 10 $push to it were seen and no other writes, and 10 reads of a
// range of the date, unless elements are nothing but date and numbers.
//
// bucket: The same as the first of series, but the documents have no numbers or something nested, or single ones are
// updated or deleted, once for two reads at most, or they are upserted by their key and date or by an ID, or a quarter
// of the reads search the range by other fields. A bucket has ten or more on average.
//
// computed: 50 aggregations or more sum up the documents with one value of a field, with several or with any, or join
// them only to sum them up. If they filter by more fields, one of these varies. They add up three times as many
// documents or more as the writes seen would add up again, where each write counts as 20 more. A value has ten
// documents or more on average. The values are _ids of another collection, however small, by ObjectID, UUID or a name
// that is akin to the field's.
//
// approx: An update raises one field of one document by 1, more than 100 times in a second. It finds the document by
// _id or another unique field, and may be a findAndModify whose answer nobody asked to see. Nothing else sets the
// field, asks for its value or reads what an update made of it. It is also advised if 50 $addToSet or more add to a
// list of over 24 KiB on average, of which 10 reads or more want the length, and none wants more.
//
// The other packages have no detector, but docs/choosing.md starts from symptoms. For a collection that
// already has a pattern, the report lists that pattern, and those that it excludes, as not advised. It
// recognizes documents of bucket, series, slots, outlier and computed by their shape, and those of tree
// by ancestors or a path that end with the parent. It recognizes tree's nested sets, attribute, subset
// and extref only by their default names. How often the detectors are right was measured on generated
// databases, and docs/advise.md has the table.
//
// # Where figures come from
//
// The server's $sample is not uniform. It can show twenty times as many large documents as there
// are, or miss them all, so here it only suggests which fields to count. Every figure in a report
// was counted by the server, over all documents, or is of the queries seen, and says so. Only the
// number and size of a collection's documents are those that the server keeps, which may be wrong
// after a crash.
//
// A collection that no scan reads in Options.MaxTime, from about 800,000 documents or 400 MB on, is estimated. Look
// reads about 20 ranges of _id, each of 2,000 documents at most, and counts by the index for how many documents each
// range stands. Lists (outlier, subset), references (extref, computed, and relation but for embedded children) and what
// the data shows without queries have such estimates, with an interval for 95 % of the cases. If the ranges differ too
// much, or follow the order of _id, or _ids are texts or documents, Look only says how long -max-time has to be.
// Everything else that cannot be counted in the time is listed as Unknown.
//
// Real data is dirty. If up to 5 % of the documents have another shape (a string among numbers, a list of
// parents, a reference to nothing or to itself), this does not hide a finding of attribute, tree or extref. That of
// tree says how many these are. Adopt leaves what it cannot take over, and Check names it.
//
// All but outlier and attribute depend on queries and are silent without them. Look takes queries
// from system.profile, if the profiler is on, and from $queryStats, if the server has it and the
// user may read it. Options.Queries adds the slow queries of a server's [Log], and what a service's
// own tests sent, [Commands]:
//
//	cmds := mongotest.Record(t, db, func() { service.ListProducts(ctx) })
//	report, err := advise.Look(ctx, db, &advise.Options{Queries: advise.Commands(cmds)})
//
// The profile is that of the member that answers, a secondary if there is one. Its newest 4,000 entries are read, and the
// report says of how many. A command that a log also has counts once. $queryStats has no values, so it does not say how
// far pages skip, how many elements of a list are wanted, or which finds follow which.
//
// Commands also shows which finds ask, one by one, for the values of an earlier answer. For extref and tree, such finds
// from a field of a document to an _id count as a $lookup does. The profile and the log have no answers. If a client,
// or the connections of one host, sends finds for one value after the other, Look asks the database whether the document or page that was read before
// them has three of four of these values in one of its fields. Only then does it report one find for each value. The
// others may ask for the user who is logged in, and their share is reported. Each loop is judged by itself, up to 200 of
// them. After a $group of all documents Look reports none, unless an answer of Commands shows that half of its values are
// asked for.
//
// A report prints the shape of queries, never their values, except for the query to check a page by hand, which is the
// deepest that was seen, and in the code of computed those that all queries for a total have in common. A query that was
// not seen may need what a finding moves away.
//
// # On a live server
//
// The role read on the database is enough, and for one collection the actions find, collStats and listIndexes on it.
// One command runs at a time, on a secondary if there is one, with Options.MaxTime (2 s) on the server and a comment.
// Options.Budget (1 minute) and MaxCommands bound them all. Sizes and lengths are computed on the server, which sends
// numbers, never documents. At most 5 % of a large collection is sampled, because above that $sample sorts it. The
// profiler is never switched on and nothing is stored. But a scan reads the whole collection through the cache, for
// MaxTime at most, so run it on a secondary or at night. The round trips are
//
//	database         1 for its collections, 2 for queries, 1 more if the profiler has over 4,000
//	                 entries, up to 200 for loops of finds in a profile or log, up to 30 for each shape of finds by $in there, and up to 50 for
//	                 filters without an index
//	collection       1 for its size; 1 for its fields, if queries name it or it has 100 documents;
//	                 of 100 documents or more 1 more if it is large, 1 for its indexes, 1 for their use if there are several, 1 for the kinds of
//	                 its documents and 1 for its texts
//	list             1 scan for each list of 16 elements or more; for one of _ids, by name or ObjectID, 1 for each
//	                 collection that is tried, 1 for what names the parent there, and 2 scans if something does
//	field            1 scan for each of several types, of dates or ObjectIDs as text; for references by name or
//	                 ObjectID 1 for each collection that is tried, 1 scan, 1 more where fields beside them are
//	                 named as copies, and 1 scan for each of up to 50 that mostly agree; 1 or 2 where ten fields
//	                 are of one type
//	reference        1 scan for each that queries follow, and a few for lists of references
//	finding          1 or 2, 1 for each type that its code names, 1 for what grows by tree and
//	                 extref, 1 for each field that was copied by hand, and 2 for each of up to 20
//	                 different joins that were seen
//
// # Before production
//
// [Shapes] looks at queries alone, without a server. It finds pages by skip, finds one by one, joins for
// a few fields, climbs of a tree and $push without a bound, and says how often each was seen and which
// packages avoid it. Three documents in a test are enough. It looks at no data, so a shape may be
// harmless, such as a list with a bound that no query shows. A Report has these Shapes too, and the
// finds whose sort and filter no index begins with. It names a package only where it advises it for what
// the query is about, and otherwise says why not.
//
// # Before you believe it
//
// [Try] copies a part of a finding's collection into a scratch database, on any server, which must be empty and is
// dropped at the end. The role readWrite is enough there, except that tree, extref and attribute also need dbAdmin, which
// may run validate. Try adopts the pattern there and measures what was promised, and what the reads that were seen send
// and examine before and after. It compares their answers value by value. A test checks that none of them loses a value
// and no promise is off by more than a factor of two, for outlier, subset, split, paging, tree, extref, attribute,
// series, bucket, computed and relation of children that are embedded or will be. The others cannot be tried, and Try
// says why.
package advise

// Notes for those who change this package.
//
//   - `$sample` is not uniform: of 0.5 % large documents it showed 10.5 %, of 0.305 % in another collection 1.7 %. So
//     a sample only names the fields that are then counted, by a scan under maxTimeMS, or estimated from ranges of `_id`.
//     Neither `$sampleRate`, which reads everything, nor `$sample` gives a size. The documents of a range are alike, so
//     the interval is that of the ranges, not of their documents. A range is chosen by place, among the values of `_id`,
//     and weighed by the documents of its part: times of day with many inserts count for as many.
//   - The largest documents are looked for beside the sample, by their size: a list that one document has is found.
//   - A finding's main figure is the answer of the query that it prints, run once more.
//   - The deadline of each command's context becomes its maxTimeMS by the driver; naming it in the command as well
//     would send it twice.
//   - What a read needs is judged for it: a stage or operator that is not known needs every field.
//   - The code of findings is compiled by a test through `go build -overlay`, with no file in the repository. Rows of
//     the benchmarks are compared with the page within a factor of 1.5.
//   - The profile and the log have no answers. A run of finds for one value each is said to be one for each value of
//     an earlier answer only if the database, asked once more for the document or page read before, has all of the
//     values in one field. By the order of queries alone, a busy service that shows pages and single documents would
//     look the same.
//   - A trial looks at the copy again, instead of scaling the promise for all of the data: what is compared is of the
//     same documents. Time is not compared: on another server, with a part of the data in its cache, it says nothing.
