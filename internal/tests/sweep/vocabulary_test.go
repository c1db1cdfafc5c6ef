package sweep

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// everywhere are methods that need no row in any package: reads, indexes, which may be made
// again and hold no data, and loops around a Flush, which has one.
var everywhere = []string{"Check", "EnsureIndexes", "Run", "Shard"}

// readers are calls that write nothing.
var readers = map[string][]string{
	"advise":                   {"Look", "Try"}, // Try writes a database that it makes and drops
	"approx.Counters":          {"Get"},
	"approx.Distinct":          {"Estimate", "Union"},
	"approx.Sampled":           {"Estimate"},
	"attribute.Attributes":     {"Facets", "Get", "GetAll", "GetBy", "Values"},
	"bucket.Buckets":           {"Aggregate", "AggregateWindows", "Compare", "Bucket", "CountBuckets", "Latest", "Range"},
	"slots.Slots":              {"Get", "Latest", "Range"},
	"computed.Computed":        {"Failures"},
	"extref.Copies":            {"Fetch"},
	"extref.Source":            {"Fetch"},
	"mongopatterns":            {"CheckAll"},
	"outlier.Lists":            {"All", "Contains", "Distribution", "Slice", "Total"},
	"paging.Pager":             {"All", "Page"},
	"polymorphic.Kinds":        {"Find"},
	"prealloc.Grids":           {"Cells", "Counts"},
	"relation":                 {"Fetch"},
	"relation.Relation":        {"Children", "ChildrenOf", "First", "Has", "Parents"},
	"schemaversion.Collection": {"Find", "Status"},
	"series.Series":            {"Aggregate", "AggregateBy", "AggregateWindows", "Compare", "Documents", "Latest", "Range"},
	"split.Split":              {"Get", "GetCold", "GetHot"},
	"subset.Subset":            {"All", "Get", "Top"},
	"tree.Tree": {"Ancestors", "AncestorsFilter", "Breadcrumb", "Children", "ChildrenFilter", "CountChildren", "CountDescendants", "Descendants",
		"DescendantsFilter", "Dump", "Forest", "IsDescendant", "Leaves", "Parent", "Parents", "Preorder", "Roots", "RootsFilter", "Siblings", "Subtree"},
	"versioning.History": {"AsOf", "At", "Diff", "Get", "Revisions", "RevisionsFrom", "RevisionsBefore"},
}

// Every exported call with a context is swept, or known to write nothing.
func TestEveryCall(t *testing.T) {
	swept, known := map[string]bool{}, map[string]bool{}
	for _, name := range methods(table()) {
		swept[name] = true
	}
	for on, names := range readers {
		for _, name := range names {
			known[on+"."+name] = true
		}
	}
	exported := calls(t)
	for _, name := range exported {
		switch reads := known[name] || slices.Contains(everywhere, name[strings.LastIndex(name, ".")+1:]); {
		case !swept[name] && !reads:
			t.Errorf("%s has no row: add one, or name it among the readers if it writes nothing", name)
		case swept[name] && reads:
			t.Errorf("%s has a row and is among the readers", name)
		}
	}
	maps.Copy(swept, known)
	for name := range swept {
		if !slices.Contains(exported, name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// methods are the calls of rows.
func methods(rows []row) []string {
	var out []string
	for _, r := range rows {
		name, _, _ := strings.Cut(r.name, "/")
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// calls are the exported functions and methods of the root package and the patterns that take
// a context.
func calls(t *testing.T) (out []string) {
	t.Helper()
	docs, err := filepath.Glob("*/doc.go")
	if err != nil || len(docs) < 9 {
		t.Fatal(docs, err)
	}
	for _, doc := range append(docs, "doc.go") {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(doc), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && filepath.Base(filepath.Dir(doc)) != "mongotest" {
				out = append(out, callsOf(t, file)...)
			}
		}
	}
	return out
}

func callsOf(t *testing.T, name string) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || !d.Name.IsExported() || len(d.Type.Params.List) == 0 || source(d.Type.Params.List[0].Type) != "context.Context" {
			continue
		}
		on := file.Name.Name
		if d.Recv != nil {
			receiver, _, _ := strings.Cut(strings.TrimPrefix(source(d.Recv.List[0].Type), "*"), "[")
			if !ast.IsExported(receiver) {
				continue
			}
			on += "." + receiver
		}
		out = append(out, on+"."+d.Name.Name)
	}
	return out
}

func source(node ast.Node) string {
	var out bytes.Buffer
	_ = printer.Fprint(&out, token.NewFileSet(), node)
	return out.String()
}
