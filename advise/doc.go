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
//	outlier   at most 10 % of the documents hold at least 10 % of the elements of a
//	          list, and three times their own part, beyond max(100, five times what three
//	          quarters have), and the largest list takes 32 KiB or more; not if a quarter
//	          of the reads select documents by elements, or as many writes change some or
//	          take them out
//	subset    a list takes half of the bytes or more, over 2 KiB on average, and most
//	          reads of it take a part, all at one end: $slice, alone or of $sortArray, or
//	          $unwind, $sort and $limit of one document. Not if it is written more often, nor if the reads
//	          name no order and lists are stored in none: that of _id, of $push with $sort,
//	          or the order of a date or number that differs in all elements of a list; nor
//	          if elements of two documents have one _id. Or 50 $lookups or more join the first
//	          children of a parent in an order, which has 15 on average, and more than twice as many as
//	          are read, three times the writes to children or more, and half of the reads of the parents
//	split     in half of the documents or more, fields that no projected read needs, but for some
//	          by _id, take 70 % of the bytes or more, over 1 KiB; 50 such reads or more, and at most
//	          one read in four needs the fields; documents take over 1 KiB on average
//	paging    10 finds of one order or more skip over 1,000 documents, or over 100 behind
//	          a filter for which the server examines over 1,000; also in pipelines. Not
//	          if each takes one document in no order
//	tree      10 $graphLookups in a collection or more, or walks of finds, a level or a node
//	          each, by a field that names one other _id in 95 % of the documents that have it,
//	          in three levels or more, with more than one child a parent, and not more moves than reads; or 10
//	          $graphLookups or walks down lists of children, if no child is in two lists, or 5,000 documents at most
//	          make no circle
//	extref    50 $lookups, finds one by one, or finds by $in for what an answer before
//	          named, or more by a reference that names an _id, or another unique field, in
//	          95 % of the documents that have it, of a collection of 5 or more, all for the same one to five fields, and
//	          ten reads, or 50 documents that they join, or more for each copy that the
//	          writes seen would change; not if the reference is set more often than it is followed. The reference may
//	          be in the documents of a list
//	relation  50 finds or more ask for children one by one, three or more for each
//	          parent; or as many reads look for one embedded child by its _id, or get it
//	          alone by another field that no two share, half of the reads of the list or more
//	          and not fewer than its writes, and no _id is there twice; or a list of references takes half of the bytes, over 2 KiB on average, grows by $push, and
//	          each child stands in one list alone; or 50 $lookups or more join the
//	          children of a parent, 100 of 64 KiB at most, as half of the reads of the
//	          parents and nine of ten of those of the children do; or 50 reads follow references of which
//	          more than 5 % and up to 20 % name no document, and deletes of these were seen
//	attribute 10 fields or more beside each other, or 6 whose names begin alike and of
//	          which documents have some alone, each in less than half of the documents,
//	          have a plain index each or reads that filter by them; at most one read in
//	          four of those that name one names several, and there are at most ten writes
//	          to a read. Up to 5 % of the documents may have values of other types than the
//	          usual one; a field is passed over if more than a quarter of its values, as
//	          far as seen, have other types
//	series    documents under 300 B with a date and numbers, read 10 times or more by a range of the date for
//	          one value of another field, or of several, and in three of four reads, with those of the newest;
//	          100 or more have such a value, 24 or more in a day or month; no
//	          update or delete was seen but of all before a date, no other collection refers to their _id, and 8 bytes for each
//	          number and date would be fewer. The date may be milliseconds or seconds since 1970, or ISO text.
//	          Or a list takes half of the bytes, half of the documents have 100 elements or more with one
//	          date each, of under 150 B, 10 $push and no other writes of it were seen, and 10 reads of a range of it,
//	          or elements of date and numbers alone
//	bucket    the same, but the documents have no numbers or something nested, or single ones are
//	          updated or deleted by that value and the date, or by _id, once for two reads at
//	          most, or they are upserted by that value and the date or an ID, or a quarter of the reads search
//	          the range by other fields; ten or more are in a bucket, on average
//	computed  50 aggregations or more sum up the documents with one value of a field, with
//	          several or with any, each for itself, or join them only to sum up; a filter by
//	          more fields has one that varies. They add up three times as many documents or more as the
//	          writes seen would add up again, where each write counts as 20 more; ten documents
//	          or more have a value, on average, and the values are _ids of another collection, however small, by
//	          ObjectID, UUID or a name that is akin to the field's
//	approx    an update by _id, or by another unique field, or a findAndModify whose answer nobody asked to see, raises one field of one document
//	          by 1 more than 100 times in a second; nothing else sets the field, asks for its value or reads what an
//	          update made of it. Or 50 $addToSet add to a list of over 24 KiB on average, and 10 reads or more ask
//	          for its length, and none for more
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
// parents, a reference to nothing or to itself), this does not hide a finding of attribute, tree or extref. The
// finding says how many these are and what Adopt does with them.
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
