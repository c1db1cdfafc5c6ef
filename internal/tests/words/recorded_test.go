package words_test

import (
	"go/ast"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// Each write of the driver is the argument of a function of internal/fault that records what its error
// says, because OutcomeOf concludes from an error of the library without a record that nothing was written.
// internal/scoped passes on what others call, and record.
func TestWritesAreRecorded(t *testing.T) {
	through := map[string][]string{
		"InsertOne": {"One"}, "UpdateOne": {"One"}, "UpdateByID": {"One"}, "ReplaceOne": {"One"}, "DeleteOne": {"One"},
		"InsertMany": {"Many"}, "UpdateMany": {"Many"}, "DeleteMany": {"Many"}, "BulkWrite": {"Many"},
		"FindOneAndUpdate": {"Single"}, "FindOneAndReplace": {"Single"}, "FindOneAndDelete": {"Single"},
		"CreateOne": {"One"}, "CreateMany": {"Many"}, "RunCommand": {"Single"}, "Drop": nil,
	}
	found := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != "." && (strings.HasPrefix(name, ".") ||
			slices.Contains([]string{"advise", "examples", "cmd", "docs", "testdata", "mongotest", "tests", "comment", "scoped"}, name)) {
			return filepath.SkipDir
		}
		for _, file := range parse(t, path) {
			recorded := map[ast.Expr]string{}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				called, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if of, ok := called.X.(*ast.Ident); ok && of.Name == "fault" && len(call.Args) == 1 {
					recorded[call.Args[0]] = called.Sel.Name
				}
				want, write := through[called.Sel.Name]
				if called.Sel.Name == "Aggregate" {
					write = strings.Contains(text(call), "merge") || strings.Contains(text(call), "$out")
					want = []string{"Many"}
				}
				if of, ok := called.X.(*ast.Ident); ok && (of.Name == "options" || of.Name == "mongo") {
					write = false // options.UpdateOne()
				}
				if strings.Contains(text(call), `expr.D("create", `) {
					write = false // an empty collection
				}
				if len(call.Args) > 0 && strings.HasPrefix(text(call.Args[0]), "context.") {
					write = false // the client checks a value; nothing is sent
				}
				if write {
					found++
					if !slices.Contains(want, recorded[call]) {
						t.Errorf("%s: %s is not an argument of fault.%s", path, text(call.Fun), strings.Join(want, " or fault."))
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 80 {
		t.Errorf("only %d writes found", found)
	}
}

// A call for many documents records that some are written.
func TestPartsAreRecorded(t *testing.T) {
	found := 0
	for _, dir := range testkit.Patterns(t) {
		for _, file := range parse(t, dir) {
			for _, decl := range file.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Recv == nil || !d.Name.IsExported() || !ast.IsExported(receiver(d)) ||
					!strings.HasPrefix(strings.Join(types(d.Type.Results), ", "), "mongopatterns.Result, ") {
					continue
				}
				if found++; !strings.Contains(text(d.Body), "defer fault.PartlyDone(&err, &") {
					t.Errorf("%s.%s does not begin with fault.PartlyDone", dir, d.Name.Name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d calls found", found)
	}
}

// The patterns write documents, filters and expressions with internal/expr alone.
func TestOneDialect(t *testing.T) {
	manuals, err := filepath.Glob("*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	expressions := 0
	for _, manual := range manuals {
		dir := filepath.Dir(manual)
		if dir == "advise" || dir == "mongotest" { // programs of their own
			continue
		}
		for _, file := range parse(t, dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && of.Name == "expr" {
						expressions++
					}
				case *ast.KeyValueExpr:
					if name := text(n.Key); name == "Key" && strings.HasPrefix(text(n.Value), `"`) {
						t.Errorf("%s: {Key: %s, …}: use expr.D, expr.Op or expr.Element", dir, text(n.Value))
					}
				case *ast.CompositeLit:
					if n.Type != nil && text(n.Type) == "bson.E" && len(n.Elts) > 0 {
						t.Errorf("%s: %s: use expr.Element", dir, text(n))
					}
				}
				return true
			})
		}
	}
	if expressions < 1000 {
		t.Errorf("only %d expressions found", expressions)
	}
}
