// Package advise looks at a live database and says which of the patterns would pay,
// how much, and what to write. It only reads.
//
//	report, err := advise.Look(ctx, db, nil)
//	for _, f := range report.Findings {
//		fmt.Println(f.Name(), f.Summary) // outlier:orders.items 0.31 % of the documents …
//		fmt.Println(f.Code)              // lists, err := outlier.New[…](…, &outlier.Options{…})
//	}
//	err = report.Text(os.Stdout)
//
// The same from a shell, without Go code of yours:
//
//	go run github.com/mongopatterns/mongopatterns/cmd/advise -uri mongodb://… -db shop
//
// # What a finding says
//
// A Finding has a summary of what was counted, how sure that is, the saving as an
// interval, the measurements of docs/benchmarks.md that it rests on and those of what
// the pattern costs, the constructor to paste, a query that gives the main figure once
// more, and what speaks against the pattern. Read that last part first.
//
// A Report also lists what was looked at and is not advised, with the reason, and what
// could not be told, with what would tell it: a role, the profiler, more time.
//
// # Which patterns
//
//	outlier   at most 5 % of the documents hold at least 10 % of the elements of a
//	          list beyond max(100, five times what three quarters have), and the
//	          largest list takes 32 KiB or more; not if a quarter of the reads select
//	          documents by elements
//	subset    a list takes half of the bytes or more, over 2 KiB on average, and most
//	          reads of it take a part: $slice, or $unwind, $sort and $limit
//	split     fields that no projected read needs take 70 % of the bytes or more, over
//	          1 KiB a document; 50 such reads or more, and at most one read in four
//	          needs the fields
//	paging    10 finds of one order or more skip over 1,000 documents
//	tree      10 $graphLookups of a collection in itself or more, by a field that
//	          names an _id in 95 % of the documents that have it, in three levels or
//	          more, with more than one child a parent
//	extref    50 $lookups or more by a reference that names an _id in 95 % of the
//	          documents that have it, all for the same one to five fields, and ten or
//	          more for each copy that the writes seen would change
//
// The other packages have no detector yet; docs/choosing.md starts from symptoms.
// How often the detectors are right was measured on generated databases:
// docs/advise.md has the table.
//
// # Where figures come from
//
// The server's $sample is not uniform: it can show twenty times as many large documents
// as there are, or miss them all. Here it only suggests which fields to count. Every
// figure in a report was counted by the server, over all documents, or is of the
// queries seen, and says so; only the number and size of a collection's documents are
// those that the server keeps, which may be off after a crash. What cannot be counted in the time is listed as
// Unknown; nothing is extrapolated.
//
// All but outlier depend on queries and are silent without them. Look takes those in
// system.profile, if the profiler is on, and $queryStats, if the server has it and the
// user may read it; Options.Queries adds the slow queries of a server's [Log], and what
// a service's own tests sent, [Commands]:
//
//	cmds := mongotest.Record(t, db, func() { service.ListProducts(ctx) })
//	report, err := advise.Look(ctx, db, &advise.Options{Queries: advise.Commands(cmds)})
//
// The profile is that of the member that answers, a secondary if there is one.
// $queryStats has no values, so that it says neither how far pages skip nor how many
// elements of a list are wanted. A query that was not seen may need what a finding moves away.
//
// # On a live server
//
// The role read on the database is enough. One command runs at a time, on a secondary
// if there is one, with Options.MaxTime (2 s) on the server and a comment; Options.Budget
// (1 minute) and MaxCommands bound them all. Sizes and lengths are computed on the
// server, which sends numbers, never documents. At most 5 % of a large collection is
// sampled, as above that $sample sorts it. The profiler is never switched on and
// nothing is stored. A scan does read the whole collection through the cache, for
// MaxTime at most: run it on a secondary, or at night.
//
// # When it does not help
//
// A collection of fewer than 100 documents, a view, a capped or a time-series collection
// is not looked at. Lists inside lists, and below the third name of a path, are not
// seen, nor are fields that an expression cannot name. Look knows nothing of the
// meaning of fields: what must be exact, private or in one document, only you know.
package advise
