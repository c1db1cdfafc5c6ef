package mongopatterns_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

const module = "github.com/mongopatterns/mongopatterns"

// patterns are the packages whose exported API speaks the shared words: every
// folder at the top with a doc.go, but for the tools.
func patterns(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, doc := range docs {
		if dir := filepath.Dir(doc); dir != "mongotest" && dir != "timeseries" {
			out = append(out, dir)
		}
	}
	if len(out) < 9 {
		t.Fatalf("only %v", out)
	}
	return out
}

// parse is the package in a folder, without its tests.
func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}

func text(node any) string {
	var out bytes.Buffer
	_ = printer.Fprint(&out, token.NewFileSet(), node)
	return out.String()
}

// types are a field list as text, each type as often as it has names.
func types(list *ast.FieldList) []string {
	var out []string
	if list == nil {
		return out
	}
	for _, f := range list.List {
		for range max(1, len(f.Names)) {
			out = append(out, text(f.Type))
		}
	}
	return out
}

// signatures are the parameters, of which … stands for any, and the results.
var signatures = map[string]struct{ params, results string }{
	"Indexes":       {"", "map[string][]mongo.IndexModel"},
	"ShardKey":      {"", "map[string]bson.D"},
	"EnsureIndexes": {"context.Context", "error"},
	"Check":         {"context.Context, *mongopatterns.Work", "iter.Seq2[mongopatterns.Problem, error]"},
	"Repair":        {"context.Context, *mongopatterns.Work", "mongopatterns.Result, error"},
	"Adopt":         {"context.Context, …, *mongopatterns.Work", "mongopatterns.Result, error"},
}

// own are the names that the root package has for all.
var own = []string{
	"Problem", "ProblemKind", "Work", "Result", "Failure", "Checker",
	"CheckOptions", "RepairOptions", "AdoptOptions", "RepairResult", "AdoptResult", "BatchOptions",
	"ErrInvalid", "ErrNotFound", "ErrConflict", "ErrIndexConflict", "ErrTransactionsUnsupported",
}

// Every package has the same words in the same places.
func TestOneVocabulary(t *testing.T) {
	constructor := regexp.MustCompile(`^\*[A-Z]\w*(\[.*\])?, error$`)
	for _, dir := range patterns(t) {
		for _, file := range parse(t, dir) {
			for _, decl := range file.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if !d.Name.IsExported() {
						continue
					}
					params, results := types(d.Type.Params), strings.Join(types(d.Type.Results), ", ")
					if d.Recv == nil && strings.HasPrefix(d.Name.Name, "New") && !slices.Contains([]string{"NewConnection"}, d.Name.Name) {
						last := params[len(params)-1]
						if !strings.HasPrefix(last, "*") || !strings.HasSuffix(strings.SplitN(last, "[", 2)[0], "Options") || !constructor.MatchString(results) {
							t.Errorf("%s.%s(%s) (%s): want (…, *Options) (*X, error)", dir, d.Name.Name, strings.Join(params, ", "), results)
						}
					}
					if want, ok := signatures[d.Name.Name]; ok && d.Recv != nil && ast.IsExported(receiver(d)) {
						if !matches(params, want.params) || results != want.results {
							t.Errorf("%s: %s(%s) (%s): want (%s) (%s)", dir, d.Name.Name, strings.Join(params, ", "), results, want.params, want.results)
						}
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						var names []*ast.Ident
						switch s := spec.(type) {
						case *ast.TypeSpec:
							names = append(names, s.Name)
						case *ast.ValueSpec:
							names = s.Names
						}
						for _, name := range names {
							if slices.Contains(own, name.Name) {
								t.Errorf("%s.%s: the root package has this name for all", dir, name.Name)
							}
						}
					}
				}
			}
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	name := strings.TrimPrefix(text(d.Recv.List[0].Type), "*")
	return strings.SplitN(name, "[", 2)[0]
}

func matches(params []string, want string) bool {
	before, after, open := strings.Cut(want, "…")
	got := strings.Join(params, ", ")
	if !open {
		return got == want
	}
	before, after = strings.TrimSuffix(before, ", "), strings.TrimPrefix(after, ", ")
	return len(params) >= 2 && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)
}

// The words for errors, cursors and expressions stand in internal/ alone, and
// patterns never import each other.
func TestOnePlaceForEach(t *testing.T) {
	for _, dir := range patterns(t) {
		for _, file := range parse(t, dir) {
			for _, imported := range file.Imports {
				path := strings.Trim(imported.Path.Value, `"`)
				local, inside := strings.CutPrefix(path, module)
				switch {
				case inside && local != "" && local != "/timeseries" && local != "/series/internal/pack" && !strings.HasPrefix(local, "/internal/"):
					t.Errorf("%s imports %s", dir, path)
				case !inside && strings.Contains(path, ".") && !strings.HasPrefix(path, "go.mongodb.org/mongo-driver/v2"):
					t.Errorf("%s imports %s", dir, path)
				}
			}
			source := text(file)
			for what, pattern := range map[string]*regexp.Regexp{
				"formats the prefix of an error by itself: fault.In": regexp.MustCompile(`fmt\.Errorf\("` + dir + `: `),
				"closes a cursor by itself: internal/cursor":         regexp.MustCompile(`\b(cursor|cur|stream)\.Close\(context\.WithoutCancel`),
			} {
				if found := pattern.FindString(source); found != "" {
					t.Errorf("%s: %q %s", dir, found, what)
				}
			}
		}
	}
}

// No two sentinels of the library match each other, but that a particular one
// matches its general one.
func TestSentinels(t *testing.T) {
	general := []error{mongopatterns.ErrInvalid, mongopatterns.ErrNotFound, mongopatterns.ErrConflict,
		mongopatterns.ErrIndexConflict, mongopatterns.ErrTransactionsUnsupported}
	var all []error
	listed := map[string]bool{}
	for _, s := range sentinels {
		listed[s.name] = true
		all = append(all, s.err)
		if s.general != nil && !errors.Is(s.err, s.general) {
			t.Errorf("%s does not match %v", s.name, s.general)
		}
		for _, g := range general {
			if errors.Is(s.err, g) && g != s.general {
				t.Errorf("%s matches %v", s.name, g)
			}
		}
	}
	for i, a := range append(all, general...) {
		for j, b := range append(all, general...) {
			if i != j && i < len(all) && j < len(all) && errors.Is(a, b) {
				t.Errorf("%s matches %s", sentinels[i].name, sentinels[j].name)
			}
			if i >= len(all) && i != j && errors.Is(a, b) {
				t.Errorf("%v matches %v", a, b)
			}
		}
	}
	for _, dir := range patterns(t) {
		for _, file := range parse(t, dir) {
			for name, object := range file.Scope.Objects {
				if object.Kind == ast.Var && strings.HasPrefix(name, "Err") && !listed[dir+"."+name] {
					t.Errorf("%s.%s is not in the table of sentinels", dir, name)
				}
			}
		}
	}
}

// Exported calls with a context say what they cost.
func TestCostLines(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"internal", "examples", "cmd", "docs", "testdata"}, name)) {
			return filepath.SkipDir
		}
		for _, file := range parse(t, path) {
			for _, decl := range file.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
					continue
				}
				if params := types(d.Type.Params); len(params) > 0 && params[0] == "context.Context" && !strings.Contains(d.Doc.Text(), "Cost:") {
					t.Errorf("%s.%s has no Cost line", path, d.Name.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sentinels are all of the pattern packages, with the general error they match.
var sentinels = []struct {
	name    string
	err     error
	general error
}{
	{"tree.ErrNoParent", tree.ErrNoParent, mongopatterns.ErrNotFound},
	{"tree.ErrIsRoot", tree.ErrIsRoot, mongopatterns.ErrNotFound},
	{"tree.ErrCycle", tree.ErrCycle, nil},
	{"tree.ErrHasChildren", tree.ErrHasChildren, nil},
	{"tree.ErrNotAdopted", tree.ErrNotAdopted, nil},
	{"paging.ErrInvalidToken", paging.ErrInvalidToken, mongopatterns.ErrInvalid},
	{"paging.ErrOutOfReach", paging.ErrOutOfReach, mongopatterns.ErrInvalid},
	{"paging.ErrUnsortable", paging.ErrUnsortable, nil},
	{"bucket.ErrContended", bucket.ErrContended, mongopatterns.ErrConflict},
	{"bucket.ErrSkip", bucket.ErrSkip, nil},
	{"bucket.ErrConcurrentAdopt", bucket.ErrConcurrentAdopt, mongopatterns.ErrConflict},
	{"slots.ErrContended", slots.ErrContended, mongopatterns.ErrConflict},
	{"series.ErrDamaged", series.ErrDamaged, nil},
	{"series.ErrNewer", series.ErrNewer, nil},
	{"series.ErrSkip", series.ErrSkip, nil},
	{"series.ErrConcurrentAdopt", series.ErrConcurrentAdopt, mongopatterns.ErrConflict},
	{"series.ErrClosed", series.ErrClosed, mongopatterns.ErrInvalid},
	{"attribute.ErrNoAttribute", attribute.ErrNoAttribute, mongopatterns.ErrNotFound},
	{"attribute.ErrExists", attribute.ErrExists, nil},
	{"attribute.ErrNotArray", attribute.ErrNotArray, nil},
	{"attribute.ErrTwoArrays", attribute.ErrTwoArrays, nil},
	{"outlier.ErrNotAdopted", outlier.ErrNotAdopted, nil},
	{"subset.ErrNoParent", subset.ErrNoParent, mongopatterns.ErrNotFound},
	{"subset.ErrNotAdopted", subset.ErrNotAdopted, nil},
	{"extref.ErrReferenced", extref.ErrReferenced, mongopatterns.ErrConflict},
	{"versioning.ErrPruned", versioning.ErrPruned, mongopatterns.ErrNotFound},
	{"versioning.ErrDeleted", versioning.ErrDeleted, mongopatterns.ErrNotFound},
	{"versioning.ErrExists", versioning.ErrExists, nil},
	{"versioning.ErrInconsistent", versioning.ErrInconsistent, nil},
	{"relation.ErrNoParent", relation.ErrNoParent, mongopatterns.ErrNotFound},
	{"relation.ErrNoChild", relation.ErrNoChild, mongopatterns.ErrNotFound},
	{"relation.ErrOwned", relation.ErrOwned, mongopatterns.ErrConflict},
	{"relation.ErrFull", relation.ErrFull, mongopatterns.ErrConflict},
	{"relation.ErrReferenced", relation.ErrReferenced, mongopatterns.ErrConflict},
	{"approx.ErrClosed", approx.ErrClosed, nil},
	{"prealloc.ErrTaken", prealloc.ErrTaken, mongopatterns.ErrConflict},
	{"prealloc.ErrNoCell", prealloc.ErrNoCell, mongopatterns.ErrNotFound},
	{"polymorphic.ErrUnknownKind", polymorphic.ErrUnknownKind, nil},
	{"schemaversion.ErrNewer", schemaversion.ErrNewer, nil},
	{"schemaversion.ErrRunning", schemaversion.ErrRunning, mongopatterns.ErrConflict},
}
