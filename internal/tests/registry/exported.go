package registry

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// Indexes returns EnsureIndexes of each type in the rows, where no index is there.
func Indexes(t testing.TB) (out []Row) {
	exported := Exported(t)
	for _, r := range slices.Concat(Writes(), Reads()) {
		of := r.Method()
		name := of[:strings.LastIndex(of, ".")] + ".EnsureIndexes"
		if !slices.Contains(exported, name) || slices.ContainsFunc(out, func(r Row) bool { return r.Name == name }) {
			continue
		}
		out = append(out, Row{name, func(s *Scene) Call {
			c := r.Start(s)
			for _, name := range testkit.Value[[]string](s.T)(s.DB.ListCollectionNames(s.Context(), bson.D{})) {
				s.OK(s.Coll(name).Indexes().DropAll(s.Context()))
			}
			return Call{Masks: c.Masks, One: func(ctx context.Context) error {
				for _, h := range c.Helpers() {
					if err := h.EnsureIndexes(ctx); err != nil {
						return err
					}
				}
				return nil
			}}
		}})
	}
	return out
}

// Exported returns the exported functions and methods of the root package and the patterns that take a context. The tests
// run in the root of the module.
func Exported(t testing.TB) []string {
	return Taking(t, func(string) bool { return true })
}

// Taking returns those of Exported that take a parameter after the context with a type that is asked for, as it is written
// in the source. Every call has one of the type "".
func Taking(t testing.TB, asked func(kind string) bool) (out []string) {
	t.Helper()
	docs, err := filepath.Glob("*/doc.go")
	if err != nil || len(docs) < 9 {
		t.Fatal(docs, err)
	}
	for _, doc := range append(docs, "doc.go") {
		for _, file := range testkit.Value[[]string](t)(filepath.Glob(filepath.Join(filepath.Dir(doc), "*.go"))) {
			if !strings.HasSuffix(file, "_test.go") && filepath.Dir(doc) != "mongotest" {
				out = append(out, taking(t, file, asked)...)
			}
		}
	}
	return out
}

func taking(t testing.TB, name string, asked func(kind string) bool) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	testkit.OK(t, err)
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
		kinds := []string{""}
		for _, p := range d.Type.Params.List[1:] {
			kinds = append(kinds, source(p.Type))
		}
		if slices.ContainsFunc(kinds, asked) {
			out = append(out, on+"."+d.Name.Name)
		}
	}
	return out
}

func source(node ast.Node) string {
	var out bytes.Buffer
	_ = printer.Fprint(&out, token.NewFileSet(), node)
	return out.String()
}
