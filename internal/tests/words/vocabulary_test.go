package words_test

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
	"strconv"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// parse parses the package in a folder, without its tests.
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

// types returns the types of a field list as text, each type once for every name that has it.
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

// signatures are the wanted parameters and results by method name; … matches any parameters.
var signatures = map[string]struct{ params, results string }{
	"Indexes":       {"", "map[string][]mongo.IndexModel"},
	"ShardKey":      {"", "map[string]bson.D"},
	"EnsureIndexes": {"context.Context", "error"},
	"Check":         {"context.Context, *mongopatterns.Work", "iter.Seq2[mongopatterns.Problem, error]"},
	"Repair":        {"context.Context, *mongopatterns.Work", "mongopatterns.Result, error"},
	"Adopt":         {"context.Context, …, *mongopatterns.Work", "mongopatterns.Result, error"},
}

// own are the names that only the root package may define, for all packages.
var own = []string{
	"Problem", "ProblemKind", "Work", "Result", "Failure", "Checker",
	"CheckOptions", "RepairOptions", "AdoptOptions", "RepairResult", "AdoptResult", "BatchOptions",
	"ErrInvalid", "ErrNotFound", "ErrConflict", "ErrMalformed", "ErrIndexConflict", "ErrTransactionsUnsupported", "ErrClosed", "ErrSkip",
	"ErrNoParent", "ErrExists", "ErrReferenced", "ErrRunning", "ErrNotAdopted", "ErrNewer",
}

// Every package has the same words in the same places.
func TestOneVocabulary(t *testing.T) {
	constructor := regexp.MustCompile(`^\*[A-Z]\w*(\[.*\])?, error$`)
	for _, dir := range testkit.Patterns(t) {
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

// Only internal/ formats errors, closes cursors and builds expressions, and patterns never import each
// other. advise is no pattern: it adopts them on a copy.
func TestOnePlaceForEach(t *testing.T) {
	for _, dir := range testkit.Patterns(t) {
		for _, file := range parse(t, dir) {
			for _, imported := range file.Imports {
				path := strings.Trim(imported.Path.Value, `"`)
				local, inside := strings.CutPrefix(path, testkit.Module)
				switch {
				case inside && dir != "advise" && local != "" && local != "/timeseries" && local != "/series/internal/pack" && !strings.HasPrefix(local, "/internal/"):
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

// The comment on a call's commands and the beginning of its errors come from one name.
func TestOneNameForEachCall(t *testing.T) {
	commented := regexp.MustCompile(`comment\.Call\(ctx, "([^"]*)"\)`)
	named := regexp.MustCompile(`fault\.(?:In\(&err, |Seq\()"([^"]*)"`)
	pairs := 0
	for _, dir := range append(testkit.Patterns(t), ".") {
		for _, file := range parse(t, dir) {
			for _, decl := range file.Decls {
				source := text(decl)
				comment := commented.FindStringSubmatch(source)
				for _, found := range named.FindAllStringSubmatch(source, -1) {
					name := found[1]
					if !strings.HasPrefix(name, file.Name.Name+".") {
						t.Errorf("%s: %q is not the name of a call of the package", dir, name)
					}
					if comment == nil {
						continue
					}
					pairs++
					if strings.TrimPrefix(name, "mongopatterns.") != comment[1] {
						t.Errorf("%s: errors name the call %q, and its commands %q", dir, name, comment[1])
					}
				}
			}
		}
	}
	if pairs < 150 {
		t.Errorf("%d pairs", pairs)
	}
}

// No two sentinels of the library match each other, except that a specific one matches its general one.
func TestSentinels(t *testing.T) {
	general := []error{mongopatterns.ErrInvalid, mongopatterns.ErrNotFound, mongopatterns.ErrConflict, mongopatterns.ErrMalformed,
		mongopatterns.ErrIndexConflict, mongopatterns.ErrTransactionsUnsupported, mongopatterns.ErrClosed, mongopatterns.ErrSkip}
	var all []error
	listed := map[string]bool{}
	for _, s := range sentinels {
		listed[s.name] = true
		all = append(all, s.err)
		if !errors.Is(s.err, s.general) {
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
	for _, dir := range testkit.Patterns(t) {
		for _, file := range parse(t, dir) {
			for name, object := range file.Scope.Objects {
				if object.Kind == ast.Var && strings.HasPrefix(name, "Err") && !listed[dir+"."+name] {
					t.Errorf("%s.%s is not in the table of sentinels", dir, name)
				}
			}
		}
	}
}

// usual are the words of a Cost line before the list of what raises it.
func usual(doc string) []string {
	_, cost, _ := strings.Cut(doc, "Cost: ")
	var words []string
	for line := range strings.Lines(cost) {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, " ") {
			break
		}
		words = append(words, strings.Fields(line)...)
	}
	return words
}

// Exported calls with a context say what they cost, the usual case in at most 25 words.
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
				if params := types(d.Type.Params); len(params) == 0 || params[0] != "context.Context" {
					continue
				}
				if n := len(usual(d.Doc.Text())); n == 0 || n > 25 {
					t.Errorf("the Cost line of %s.%s says the usual case in %d words; what raises it is a list below", path, d.Name.Name, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// errorFormats calls yield for each format or text of an error in a file: of fmt.Errorf, errors.New and
// fault.Invalid, and of fmt.Sprintf in a method Error.
func errorFormats(file *ast.File, yield func(format string)) {
	for _, decl := range file.Decls {
		method, _ := decl.(*ast.FuncDecl)
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			switch text(call.Fun) {
			case "fmt.Errorf", "errors.New", "fault.Invalid", "fault.New", "invalid":
			case "fmt.Sprintf":
				if method == nil || method.Name.Name != "Error" {
					return true
				}
			default:
				return true
			}
			if literal, ok := call.Args[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if format, err := strconv.Unquote(literal.Value); err == nil {
					yield(format)
				}
			}
			return true
		})
	}
}

// misplaced reports whether a format names a document anywhere but at its start.
func misplaced(format string) bool { return strings.LastIndex(format, "_id %") > 0 }

// An error about a document begins with its _id, after the names of the calls: a reader of a log finds it at
// the same place in every line.
func TestErrorsBeginWithTheDocument(t *testing.T) {
	formats := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"examples", "cmd", "docs", "testdata"}, name)) {
			return filepath.SkipDir
		}
		for _, file := range parse(t, path) {
			errorFormats(file, func(format string) {
				formats++
				if misplaced(format) {
					t.Errorf("%s: %q names the document late: use fault.Of", path, format)
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if formats < 200 {
		t.Errorf("only %d formats were found", formats)
	}
}

// The test sees a late _id in each kind of call, and accepts an early one.
func TestLateDocumentsAreSeen(t *testing.T) {
	for source, want := range map[string]bool{
		`var err = fmt.Errorf("%w: _id %s", a, b)`:                                               true,
		`func f() error { return fault.Invalid("the item _id %s", a) }`:                          true,
		`func (e *E) Error() string { return fmt.Sprintf("conflict: _id %s: read", e.ID) }`:      true,
		`func f() error { return g(fmt.Errorf("_id %s: in _id %s", a, b)) }`:                     true,
		`func f() error { return fmt.Errorf("_id %s: %w", a, err) }`:                             false,
		`func (e *E) Error() string { return fmt.Sprintf("_id %s: conflict", e.ID) }`:            false,
		`func f() string { return fmt.Sprintf("it lacks %d items, the last with _id %s", n, x)}`: false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen := false
		errorFormats(file, func(format string) { seen = seen || misplaced(format) })
		if seen != want {
			t.Errorf("%s: %v", source, seen)
		}
	}
}

// sentinels are all sentinel errors of the pattern packages, with the general error each one matches.
var sentinels = []struct {
	name    string
	err     error
	general error
}{
	{"mongopatterns.ErrNoParent", mongopatterns.ErrNoParent, mongopatterns.ErrNotFound},
	{"mongopatterns.ErrExists", mongopatterns.ErrExists, mongopatterns.ErrConflict},
	{"mongopatterns.ErrReferenced", mongopatterns.ErrReferenced, mongopatterns.ErrConflict},
	{"mongopatterns.ErrRunning", mongopatterns.ErrRunning, mongopatterns.ErrConflict},
	{"mongopatterns.ErrNotAdopted", mongopatterns.ErrNotAdopted, mongopatterns.ErrMalformed},
	{"mongopatterns.ErrNewer", mongopatterns.ErrNewer, mongopatterns.ErrMalformed},
	{"attribute.ErrNoAttribute", attribute.ErrNoAttribute, mongopatterns.ErrNotFound},
	{"attribute.ErrTwoArrays", attribute.ErrTwoArrays, mongopatterns.ErrMalformed},
	{"paging.ErrInvalidToken", paging.ErrInvalidToken, mongopatterns.ErrInvalid},
	{"paging.ErrOutOfReach", paging.ErrOutOfReach, mongopatterns.ErrInvalid},
	{"paging.ErrUnsortable", paging.ErrUnsortable, mongopatterns.ErrMalformed},
	{"polymorphic.ErrUnknownKind", polymorphic.ErrUnknownKind, mongopatterns.ErrMalformed},
	{"prealloc.ErrTaken", prealloc.ErrTaken, mongopatterns.ErrConflict},
	{"prealloc.ErrNoCell", prealloc.ErrNoCell, mongopatterns.ErrNotFound},
	{"relation.ErrNoChild", relation.ErrNoChild, mongopatterns.ErrNotFound},
	{"relation.ErrOwned", relation.ErrOwned, mongopatterns.ErrConflict},
	{"relation.ErrFull", relation.ErrFull, mongopatterns.ErrConflict},
	{"series.ErrDamaged", series.ErrDamaged, mongopatterns.ErrMalformed},
	{"tree.ErrIsRoot", tree.ErrIsRoot, mongopatterns.ErrNotFound},
	{"tree.ErrCycle", tree.ErrCycle, mongopatterns.ErrConflict},
	{"versioning.ErrPruned", versioning.ErrPruned, mongopatterns.ErrNotFound},
	{"versioning.ErrDeleted", versioning.ErrDeleted, mongopatterns.ErrNotFound},
	{"versioning.ErrInconsistent", versioning.ErrInconsistent, mongopatterns.ErrMalformed},
}
