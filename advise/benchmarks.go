package advise

import "fmt"

// Row is a measurement of docs/benchmarks.md: how a pattern compares with plain
// documents.
type Row struct {
	Section string  `json:"section"` // outlier
	Table   string  `json:"table"`   // what was done
	Way     string  `json:"way"`     // the row
	Column  string  `json:"column"`  // what was measured
	Times   float64 `json:"times"`   // of the table's first row; less is better
}

func (r Row) String() string {
	way := ""
	if r.Way != r.Section {
		way = ", " + r.Way
	}
	return fmt.Sprintf("docs/benchmarks.md, %s%s%s: %s × %.2g", r.Section, after(", ", r.Table, ""), way, r.Column, r.Times)
}

// The rows that findings rest on. A test compares them with the page.
var (
	rowOutlierWhole    = Row{"outlier", "a best-seller read whole, without a projection", "outlier", "bytes received", 0.0243}
	rowOutlierPage     = Row{"outlier", "title and 20 newest buyers of a best-seller", "outlier", "time", 0.473}
	rowOutlierAll      = Row{"outlier", "all buyers of a best-seller", "outlier", "round trips", 3}
	rowOutlierAdd      = Row{"outlier", "sale of a typical book", "outlier", "time", 1.28}
	rowOutlierContains = Row{"outlier", "whether a best-seller has a buyer", "outlier", "time", 1.56}

	rowSubsetBytes = Row{"subset", "", "subset", "the products alone, which reads keep in the cache", 0.106}
	rowSubsetList  = Row{"subset", "list of 20 products with their 10 newest reviews", "subset", "time", 0.736}
	rowSubsetAdd   = Row{"subset", "a new review", "subset", "time", 3.27}
	rowSubsetAll   = Row{"subset", "", "subset", "all documents", 1.12}

	rowSplitBytes  = Row{"split", "", "split", "what lists read", 0.0258}
	rowSplitList   = Row{"split", "list of 20 films", "split", "time", 0.977}
	rowSplitPage   = Row{"split", "page of a film", "split", "time", 2.74}
	rowSplitUpdate = Row{"split", "change of a detail", "split", "time", 1.79}
	rowSplitAdd    = Row{"split", "a new film", "split", "time", 2.31}

	rowPagingFirst   = Row{"paging", "by date and title, after 0", "keyset token", "time", 0.969}
	rowPagingShallow = Row{"paging", "by date and title, after 1,000", "keyset token", "time", 0.8}
	rowPagingDeep    = Row{"paging", "by date and title, after 100,000", "keyset token", "time", 0.019}

	rowTreeAncestors       = Row{"tree", "ancestors in a tree of 20,000", "AncestorArray", "time", 0.219}
	rowTreeAncestorsBefore = Row{"tree", "ancestors in a tree of 20,000", "ParentReferences", "time", 0.327}
	rowTreeSubtree         = Row{"tree", "subtree of 10,000 nodes", "AncestorArray", "time", 0.0163}
	rowTreeSubtreeBefore   = Row{"tree", "subtree of 10,000 nodes", "ParentReferences", "time", 0.0448}
	rowTreeInsert          = Row{"tree", "a leaf", "AncestorArray", "time", 2.21}
	rowTreeMove            = Row{"tree", "move of 10,000 nodes", "AncestorArray", "time", 0.042}

	rowExtrefList   = Row{"extref", "list of 20 orders with names", "extref", "time", 0.296}
	rowExtrefFilter = Row{"extref", "the 10 largest orders of customers of a name", "extref", "time", 0.189}
	rowExtrefBytes  = Row{"extref", "", "extref", "documents", 1.38}
	rowExtrefChange = Row{"extref", "change of a name with 10 copies", "extref", "time", 3.65}

	rowRelationEach     = Row{"relation", "page of a student with 20 courses", "one query a course", "round trips", 21}
	rowRelationTrips    = Row{"relation", "page of a student with 20 courses", "relation", "round trips", 2}
	rowRelationEachTime = Row{"relation", "page of a student with 20 courses", "one query a course", "time", 16.1}
	rowRelationTime     = Row{"relation", "page of a student with 20 courses", "relation", "time", 2.39}
	rowRelationInsert   = Row{"relation", "a new message", "insert with the owner", "time", 0.449}
	rowRelationNewest   = Row{"relation", "the newest 20 messages of a host", "relation", "time", 1.05}

	rowAttributeIndexes = Row{"attribute", "", "attribute", "indexes", 1.01}
	rowAttributeBytes   = Row{"attribute", "", "attribute", "documents", 2.16}
	rowAttributeFind    = Row{"attribute", "find 20 by a range of one specification", "attribute", "time", 1.05}
	rowAttributeSet     = Row{"attribute", "set one specification", "attribute", "time", 1.2}
	rowAttributeTwo     = Row{"attribute", "find by two conditions", "attribute", "time", 4.06}

	rowSeriesBytes = Row{"bucket", "", "series, open", "data", 0.0274}
	rowSeriesRead  = Row{"bucket", "read 30 days of a sensor", "series, open", "time", 0.023}
	rowSeriesMeans = Row{"bucket", "hourly means of 30 days", "series, open", "time", 0.0769}
	rowSeriesCPU   = Row{"bucket", "hourly means of 30 days", "series, open", "client CPU", 1.41}

	rowBucketDocuments = Row{"bucket", "", "array, day", "documents", 0.000694}
	rowBucketRead      = Row{"bucket", "read 30 days of a sensor", "array, day", "time", 0.304}
	rowBucketMeans     = Row{"bucket", "hourly means of 30 days", "array, day", "client CPU", 0.672}

	rowComputedOften = Row{"computed", "an operation, 1,000 reads to a write", "computed at the change", "time", 0.365}
	rowComputedRatio = Row{"computed", "an operation, 100 reads to a write", "computed at the change", "time", 0.411}
	rowComputedWrite = Row{"computed", "an operation, a read to a write", "computed at the change", "time", 2.7}

	rowApproxWrites = Row{"approx", "a view", "approx, added up", "round trips", 0.00998}
	rowApproxTime   = Row{"approx", "a view", "approx, added up", "time", 0.00965}
	rowApproxAdd    = Row{"overhead", "", "approx.Add, 100 in memory", "package", 1.3}

	// rowNone is the first row of any table.
	rowNone = Row{Times: 1}
)

var rows = []Row{
	rowOutlierWhole, rowOutlierPage, rowOutlierAll, rowOutlierAdd, rowOutlierContains,
	rowSubsetBytes, rowSubsetList, rowSubsetAdd, rowSubsetAll,
	rowSplitBytes, rowSplitList, rowSplitPage, rowSplitUpdate, rowSplitAdd,
	rowPagingFirst, rowPagingShallow, rowPagingDeep,
	rowTreeAncestors, rowTreeAncestorsBefore, rowTreeSubtree, rowTreeSubtreeBefore, rowTreeInsert, rowTreeMove,
	rowExtrefList, rowExtrefFilter, rowExtrefBytes, rowExtrefChange,
	rowRelationEach, rowRelationTrips, rowRelationEachTime, rowRelationTime, rowRelationInsert, rowRelationNewest,
	rowAttributeIndexes, rowAttributeBytes, rowAttributeFind, rowAttributeSet, rowAttributeTwo,
	rowSeriesBytes, rowSeriesRead, rowSeriesMeans, rowSeriesCPU,
	rowBucketDocuments, rowBucketRead, rowBucketMeans,
	rowComputedOften, rowComputedRatio, rowComputedWrite,
	rowApproxWrites, rowApproxTime, rowApproxAdd,
}

// saved is how much less the second row of a table takes than the first, in percent.
func saved(before, after Row) int64 { return int64(100 * (1 - after.Times/before.Times)) }
