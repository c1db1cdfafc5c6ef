package advise

import "fmt"

// Row is a measurement of docs/benchmarks.md: how a pattern compares with plain
// documents.
type Row struct {
	Section string  `json:"section"` // outlier
	Table   string  `json:"table"`   // what was done
	Way     string  `json:"way"`     // the row
	Column  string  `json:"column"`  // what was measured
	Times   float64 `json:"times"`   // of plain documents; less is better
}

func (r Row) String() string {
	return fmt.Sprintf("docs/benchmarks.md, %s%s: %s × %.2g", r.Section, after(", ", r.Table, ""), r.Column, r.Times)
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
	rowSplitPage   = Row{"split", "page of a film", "split", "time", 1.7}
	rowSplitUpdate = Row{"split", "change of a detail", "split", "time", 1.79}
	rowSplitAdd    = Row{"split", "a new film", "split", "time", 2.31}
)

var rows = []Row{
	rowOutlierWhole, rowOutlierPage, rowOutlierAll, rowOutlierAdd, rowOutlierContains,
	rowSubsetBytes, rowSubsetList, rowSubsetAdd, rowSubsetAll,
	rowSplitBytes, rowSplitList, rowSplitPage, rowSplitUpdate, rowSplitAdd,
}
